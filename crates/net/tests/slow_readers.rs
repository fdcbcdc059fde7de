//! Peers that read nothing: the memory they get, for how long, and the memory left for others.

mod common;

use std::time::Duration;

use anabranch_net::{Host, MptcpStream};
use anabranch_stack::config::{ConnectionConfig, ReceiveBuffer};
use anabranch_units::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use common::{Path, builders, client_ip, config, content, server_address, server_ip};

const MEMORY: u64 = 16 << 20;
const SLOW: usize = 200;

/// Returns a server of two addresses that writes `len` bytes to each connection, in parts that it charges to
/// the connection as the command's server does, and its client.
fn start_charging(timeout: Duration, len: usize) -> (Host, Host) {
    let (client, server) = builders(&[Path::new(1000, 5), Path::new(1000, 5)]);
    let server = server.buffer_memory(MEMORY).send_timeout(Some(timeout)).start().unwrap();
    let mut listener = server.listen(common::PORT, anabranch_net::default_config(), 2 * SLOW).unwrap();
    tokio::spawn(async move {
        let bytes = content(len);
        while let Ok((mut stream, _)) = listener.accept().await {
            let bytes = bytes.clone();
            tokio::spawn(async move {
                let (control, mut at, mut most) = (stream.control(), 0, 16 << 10);
                while at < len {
                    let charge = std::future::poll_fn(|cx| control.poll_charge(cx, most)).await?;
                    let end = len.min(at + charge.bytes() as usize);
                    stream.write_all(&bytes[at..end]).await?;
                    (at, most) = (end, (most * 2).min(256 << 10));
                }
                std::io::Result::Ok(())
            });
        }
    });
    (client.start().unwrap(), server)
}

/// Returns a server of two addresses that writes `len` bytes to each connection, and its client.
fn start(timeout: Option<Duration>, len: usize) -> (Host, Host) {
    let (client, server) = builders(&[Path::new(1000, 5), Path::new(1000, 5)]);
    let server = server.buffer_memory(MEMORY).send_timeout(timeout).start().unwrap();
    let serving = anabranch_net::default_config();
    let mut listener = server.listen(common::PORT, serving, 2 * SLOW).unwrap();
    tokio::spawn(async move {
        let bytes = content(len);
        while let Ok((mut stream, _)) = listener.accept().await {
            let bytes = bytes.clone();
            tokio::spawn(async move {
                // The rest is sent after the stream was dropped.
                stream.write_all(&bytes).await
            });
        }
    });
    (client.start().unwrap(), server)
}

/// Returns the configuration of a client with a small receive buffer.
fn narrow() -> ConnectionConfig {
    ConnectionConfig { receive_buffer: ReceiveBuffer::Fixed(Bytes(20_000)), ..config() }
}

/// Opens connections of one address that are never read.
async fn open_slow(client: &Host, count: usize) -> Vec<MptcpStream> {
    let mut slow = Vec::new();
    for _ in 0..count {
        slow.push(client.connect_from(client_ip(0), server_address(), narrow()).await.unwrap());
    }
    tokio::time::sleep(Duration::from_secs(2)).await;
    slow
}

/// Returns the time that another address takes to fetch what the server writes.
async fn fetch(client: &Host, len: usize) -> Duration {
    fetch_from(client, 1, len).await
}

/// Returns the time that the address of `path` takes to fetch what the server writes.
async fn fetch_from(client: &Host, path: usize, len: usize) -> Duration {
    let begun = tokio::time::Instant::now();
    let there = (server_ip(path), common::PORT).into();
    let mut stream = client.connect_from(client_ip(path), there, config()).await.unwrap();
    let mut got = Vec::new();
    stream.read_to_end(&mut got).await.unwrap();
    assert!(got == content(len));
    begun.elapsed()
}

#[tokio::test(start_paused = true)]
async fn two_hundred_of_one_address_leave_memory_for_another() {
    let (client, server) = start(Some(Duration::from_secs(60)), 1_000_000);
    let slow = open_slow(&client, SLOW).await;
    let used = server.memory_used();
    // Half of it for the greedy client, and at least a block for each of its connections.
    assert!(used > SLOW as u64 * (16 << 10) && used <= MEMORY / 4 * 3, "{used} bytes");
    assert!(server.counters().memory_waits >= SLOW as u64);
    let took = fetch(&client, 1_000_000).await;
    assert!(took < Duration::from_secs(1), "{took:?}");
    assert_eq!(server.counters().stalled, 0);
    // A twelfth of the timeout after it, they are gone, and their memory is released.
    tokio::time::sleep(Duration::from_secs(68)).await;
    assert_eq!((server.counters().stalled, server.memory_used()), (SLOW as u64, 0));
    fetch(&client, 1_000_000).await;
    assert_eq!(server.counters().stalled, SLOW as u64);
    drop(slow);
}

#[tokio::test(start_paused = true)]
async fn another_connection_of_the_same_address_is_served_at_once() {
    let (client, server) = start_charging(Duration::from_secs(60), 1_000_000);
    let slow = open_slow(&client, 250).await;
    let used = server.memory_used();
    // More than half: the thresholds grant their address nothing, and new connections have only the reserve.
    assert!((MEMORY / 8 * 5..MEMORY / 4 * 3).contains(&used), "{used} bytes");
    let took = fetch_from(&client, 0, 1_000_000).await;
    // A block in each round trip.
    assert!(took < Duration::from_secs(2), "{took:?}");
    assert_eq!(server.counters().stalled, 0);
    drop(slow);
}

#[tokio::test(start_paused = true)]
async fn memory_of_reset_connections_goes_to_those_that_have_none() {
    let (client, server) = start_charging(Duration::from_secs(60), 1_000_000);
    let slow = open_slow(&client, 2 * SLOW).await;
    let used = server.memory_used();
    assert!(used + (16 << 10) > MEMORY / 4 * 3, "{used} bytes");
    // Connections without progress are reset within 10 s, a twelfth of the timeout after their last progress.
    let took = fetch_from(&client, 0, 1_000_000).await;
    assert!(took < Duration::from_secs(12), "{took:?}");
    assert!(server.counters().stalled > 0);
    drop(slow);
}

#[tokio::test(start_paused = true)]
async fn who_takes_a_little_at_a_time_is_not_aborted() {
    let (client, server) = start(Some(Duration::from_secs(60)), 1_000_000);
    let mut stream = client.connect_from(client_ip(0), server_address(), config()).await.unwrap();
    let mut got = 0;
    let mut piece = [0; 20_000];
    while got < 1_000_000 {
        stream.read_exact(&mut piece).await.unwrap();
        got += piece.len();
        tokio::time::sleep(Duration::from_secs(20)).await;
    }
    assert_eq!(server.counters().stalled, 0);
}

#[tokio::test(start_paused = true)]
async fn what_a_dropped_stream_has_left_is_given_up_as_well() {
    // Little enough that all of it is written and the stream dropped, more than the peer's window.
    for (timeout, stalled) in [(Some(Duration::from_secs(12)), 1), (None, 0)] {
        let (client, server) = start(timeout, 100_000);
        let stream = client.connect_from(client_ip(0), server_address(), narrow()).await.unwrap();
        tokio::time::sleep(Duration::from_secs(20)).await;
        assert_eq!(server.counters().stalled, stalled);
        assert_eq!(server.memory_used() > 0, stalled == 0);
        drop(stream);
    }
}

#[tokio::test(start_paused = true)]
async fn a_charge_counts_until_it_is_dropped() {
    let (client, server) = builders(&[Path::new(1000, 5)]);
    let (client, server) = (client.start().unwrap(), server.buffer_memory(MEMORY).start().unwrap());
    let mut listener = server.listen(common::PORT, config(), 4).unwrap();
    let _client = client.connect(server_address(), config()).await.unwrap();
    let (stream, _) = listener.accept().await.unwrap();
    let control = stream.control();
    let charge = async |most| std::future::poll_fn(|cx| control.poll_charge(cx, most)).await;
    let small = charge(5_000).await.unwrap();
    assert_eq!((small.bytes(), server.memory_used()), (5_000, 5_000));
    // As much as the client, which is this connection, leaves free beside what it holds.
    let large = charge(u64::MAX).await.unwrap();
    assert!((MEMORY / 4..=MEMORY / 3).contains(&large.bytes()), "{}", large.bytes());
    // The peer has acknowledged nothing, so no more is granted.
    let refused = tokio::time::timeout(Duration::from_secs(1), charge(u64::MAX)).await;
    assert!(refused.is_err());
    drop((small, large));
    assert_eq!(server.memory_used(), 0);
    stream.abort();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(charge(1).await.is_err());
}
