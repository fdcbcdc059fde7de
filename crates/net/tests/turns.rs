//! Scheduling of tasks while packets keep arriving.

mod common;

use anabranch_device::{Capabilities, memory};
use anabranch_link::{LinkConfig, QueueLimit};
use anabranch_middlebox::LinkedDevice;
use anabranch_net::Host;
use common::{Path, client_ip, config, content, server_address, server_ip};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// The bytes that a driver reads in one round.
const BATCH: usize = 64 * 1500;

/// A waiting reader gets its data before more packets are processed.
#[tokio::test]
async fn what_has_come_is_read_before_the_next_round() {
    let (left, right) = memory::pair(Capabilities::plain(1500));
    let client = Host::builder().seed(1).device(left, &[client_ip(0)]).start().unwrap();
    let server = Host::builder().seed(2).device(right, &[server_ip(0)]).start().unwrap();
    let mut listener = server.listen(common::PORT, config(), 1).unwrap();
    let all = content(8 << 20);
    let sent = all.clone();
    let sender = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        // The other side has to read first.
        stream.read_exact(&mut [0]).await.unwrap();
        stream.write_all(&sent).await.unwrap();
        stream.shutdown().await.unwrap();
        stream.drained().await.unwrap();
    });
    let mut stream = client.connect(server_address(), config()).await.unwrap();
    let receiver = tokio::spawn(async move {
        stream.write_all(&[0]).await.unwrap();
        let (mut got, mut chunk, mut most) = (Vec::new(), vec![0; 8 << 20], 0);
        loop {
            let n = stream.read(&mut chunk).await.unwrap();
            if n == 0 {
                break;
            }
            got.extend_from_slice(&chunk[..n]);
            most = most.max(n);
        }
        stream.shutdown().await.unwrap();
        (got, most)
    });
    let (got, most) = receiver.await.unwrap();
    assert!(got == all);
    assert!(most <= BATCH, "{most} bytes at once");
    sender.await.unwrap();
}

/// If packets are available already, one acknowledgement covers hundreds of them, and one is sent before a
/// pause.
#[tokio::test(start_paused = true)]
async fn one_acknowledgement_is_for_all_that_has_come() {
    // The clock ticks once in a millisecond, in which some 800 packets pass.
    let link = LinkConfig { queue: QueueLimit::Packets(10_000), ..Path::new(10_000, 5).link() };
    let (left, right) = memory::pair(Capabilities::plain(1500));
    let linked = LinkedDevice::new(left, "path", 7, link.clone(), link).unwrap();
    let client = Host::builder().seed(1).device(linked, &[client_ip(0)]).start().unwrap();
    let server = Host::builder().seed(2).device(right, &[server_ip(0)]).start().unwrap();
    let mut listener = server.listen(common::PORT, config(), 1).unwrap();
    let all = content(60 << 20);
    let sent = all.clone();
    let sender = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.write_all(&sent).await.unwrap();
        stream.shutdown().await.unwrap();
        stream.drained().await.unwrap();
        stream.subflow_stats()[0].counters
    });
    let mut stream = client.connect(server_address(), config()).await.unwrap();
    let mut got = Vec::new();
    stream.read_to_end(&mut got).await.unwrap();
    assert!(got == all);
    stream.shutdown().await.unwrap();
    let counters = client.counters();
    println!("{counters:?} {:?}", sender.await.unwrap());
    assert!(counters.sent * 200 < counters.received, "{counters:?}");
}
