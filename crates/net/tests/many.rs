//! A thousand connections at once, on tokio's paused clock.

mod common;

use std::time::Duration;

use anabranch_device::{Capabilities, memory};
use anabranch_link::QueueLimit;
use anabranch_middlebox::LinkedDevice;
use anabranch_net::Host;
use common::{Path, client_ip, config, content, server_address, server_ip};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

const CONNECTIONS: usize = 1000;
const EACH: usize = 50_000;
/// The length of the link's queue in packets: half the number of simultaneous SYNs.
const QUEUE: u32 = 500;

/// Returns both hosts with one path of 1 ms, whose queue has the default length of a TUN device.
fn hosts(mbps: u64) -> (Host, Host) {
    let (left, right) = memory::pair(Capabilities::plain(1500));
    let mut link = Path::new(mbps, 1).link();
    link.queue = QueueLimit::Packets(QUEUE);
    let linked = LinkedDevice::new(left, "path", 7, link.clone(), link).unwrap();
    let client = Host::builder().seed(1).device(linked, &[client_ip(0)]).start().unwrap();
    let server = Host::builder().seed(2).device(right, &[server_ip(0)]).start().unwrap();
    (client, server)
}

/// Returns the time until every connection has transferred its bytes, to the server if `up`.
async fn all_complete(up: bool) -> Duration {
    let (client, server) = hosts(1000);
    let mut listener = server.listen(common::PORT, config(), CONNECTIONS).unwrap();
    let sent = content(EACH);
    let mut tasks = JoinSet::new();
    let begun = Instant::now();
    let expected = sent.clone();
    let accepting = tokio::spawn(async move {
        let mut accepted = JoinSet::new();
        for _ in 0..CONNECTIONS {
            let (mut stream, _) = listener.accept().await.unwrap();
            let expected = expected.clone();
            accepted.spawn(async move {
                if !up {
                    stream.write_all(&expected).await.unwrap();
                }
                stream.shutdown().await.unwrap();
                let mut got = Vec::new();
                stream.read_to_end(&mut got).await.unwrap();
                assert!(got == if up { &expected[..] } else { &[] });
            });
        }
        while let Some(done) = accepted.join_next().await {
            done.unwrap();
        }
    });
    for _ in 0..CONNECTIONS {
        let (client, sent) = (client.clone(), sent.clone());
        tasks.spawn(async move {
            let mut stream = client.connect(server_address(), config()).await.unwrap();
            if up {
                stream.write_all(&sent).await.unwrap();
            }
            stream.shutdown().await.unwrap();
            let mut got = Vec::new();
            stream.read_to_end(&mut got).await.unwrap();
            assert!(got == if up { &[] } else { &sent[..] });
        });
    }
    let all = async {
        while let Some(done) = tasks.join_next().await {
            done.unwrap();
        }
        accepting.await.unwrap();
    };
    timeout(Duration::from_secs(600), all).await.expect("in time");
    begun.elapsed()
}

#[tokio::test(start_paused = true)]
async fn a_thousand_uploads_complete_over_a_queue_of_500_packets() {
    let took = all_complete(true).await;
    // 2.75 s when this was written; the link needs 0.43 s for the bytes, and a lost SYN is repeated after a
    // second.
    assert!(took < Duration::from_secs(5), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_thousand_downloads_complete_over_a_queue_of_500_packets() {
    let took = all_complete(false).await;
    // 2.01 s when this was written.
    assert!(took < Duration::from_secs(5), "{took:?}");
}
