//! Peers that acknowledge next to nothing, and streams that are dropped after their connection has ended.

mod common;

use std::time::Duration;

use anabranch_net::MptcpStream;
use anabranch_stack::config::{ConnectionConfig, ReceiveBuffer};
use anabranch_units::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use common::{Path, builders, client_ip, config, content, server_address};

/// Fewer than 4 KiB within a send timeout are no progress: a peer that reads a byte now and then would otherwise hold its
/// buffers for as long as it likes.
#[tokio::test(start_paused = true)]
async fn a_byte_now_and_then_is_no_progress_and_4_kib_are() {
    // Pieces that are read every five seconds, within a timeout of 60 s: 12 in each.
    for (piece, stalled) in [(1, 1), (300, 1), (400, 0)] {
        let (client, server) = builders(&[Path::new(1000, 5)]);
        let server = server.send_timeout(Some(Duration::from_secs(60))).start().unwrap();
        let client = client.start().unwrap();
        let mut listener = server.listen(common::PORT, config(), 4).unwrap();
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await?;
            stream.write_all(&content(200_000)).await
        });
        // A buffer of which small parts are advertised again.
        let narrow =
            ConnectionConfig { receive_buffer: ReceiveBuffer::Fixed(Bytes(3000)), mss: 100, ..config() };
        let mut stream = client.connect_from(client_ip(0), server_address(), narrow).await.unwrap();
        let mut bytes = vec![0; piece];
        for _ in 0..40 {
            if stream.read_exact(&mut bytes).await.is_err() {
                break;
            }
            tokio::time::sleep(Duration::from_secs(5)).await;
        }
        assert_eq!(server.counters().stalled, stalled, "{piece} bytes at a time");
    }
}

/// Returns both ends of a connection that the client has aborted, so that it has ended at the server.
async fn ended() -> (anabranch_net::Host, MptcpStream) {
    let (client, server) = builders(&[Path::new(100, 5)]);
    let (client, server) = (client.start().unwrap(), server.start().unwrap());
    let mut listener = server.listen(common::PORT, config(), 4).unwrap();
    let mut stream = client.connect(server_address(), config()).await.unwrap();
    let (mut accepted, _) = listener.accept().await.unwrap();
    accepted.write_all(&content(50_000)).await.unwrap();
    stream.write_all(&content(50_000)).await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    stream.abort();
    tokio::time::sleep(Duration::from_secs(1)).await;
    (server, accepted)
}

/// A connection that has ended is kept for what its stream may still read, and for no longer than the stream.
#[tokio::test(start_paused = true)]
async fn a_stream_that_is_dropped_after_its_end_leaves_nothing() {
    let (server, stream) = ended().await;
    assert!(server.memory_used() > 0, "what has arrived can still be read");
    let begun = tokio::time::Instant::now();
    drop(stream);
    assert_eq!(server.memory_used(), 0);
    // Nor does the host wait for it.
    let finished = tokio::time::timeout(Duration::from_secs(1), server.finished()).await;
    assert!(finished.is_ok(), "the host waits for it");
    assert!(begun.elapsed() < Duration::from_millis(10), "{:?}", begun.elapsed());
}
