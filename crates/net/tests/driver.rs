//! Wake-ups, drops and aborts of the driver, and segments that span two blocks of a buffer.

mod common;

use std::collections::BTreeSet;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use anabranch_device::{Capabilities, Device, Packet, memory};
use anabranch_link::{LinkConfig, QueueLimit};
use anabranch_middlebox::LinkedDevice;
use anabranch_net::{Host, MptcpStream};
use anabranch_stack::config::{Checksums, ConnectionConfig, ReceiveBuffer};
use anabranch_units::Bytes;
use common::{PORT, Path, client_ip, config, content, hosts, receive_all, server_address, server_ip};
use tokio::io::{AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::{Instant, sleep, timeout};

const ONE: [Path; 1] = [Path::new(100, 10)];

/// Whether a device accepts packets, and how many it has accepted.
#[derive(Default)]
struct Gate {
    shut: AtomicBool,
    /// The number of packets longer than an acknowledgement.
    taken: AtomicUsize,
    waker: Mutex<Option<Waker>>,
}

impl Gate {
    fn open(&self) {
        self.shut.store(false, Ordering::Relaxed);
        if let Some(waker) = self.waker.lock().unwrap().take() {
            waker.wake();
        }
    }
}

/// A device with a gate.
struct Gated<D> {
    inner: D,
    gate: Arc<Gate>,
}

impl<D: Device> Device for Gated<D> {
    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    fn poll_receive(&mut self, cx: &mut Context<'_>, packet: &mut Packet) -> Poll<io::Result<()>> {
        self.inner.poll_receive(cx, packet)
    }

    fn poll_send(&mut self, cx: &mut Context<'_>, packet: &mut Packet) -> Poll<io::Result<()>> {
        if self.gate.shut.load(Ordering::Relaxed) {
            *self.gate.waker.lock().unwrap() = Some(cx.waker().clone());
            return Poll::Pending;
        }
        self.gate.taken.fetch_add(usize::from(packet.len() > 100), Ordering::Relaxed);
        self.inner.poll_send(cx, packet)
    }
}

/// Returns two hosts over `paths` fast paths with long queues; the gate is at the client's last device.
fn gated(paths: usize) -> (Host, Host, Arc<Gate>) {
    let (mut client, mut server) = (Host::builder().seed(1), Host::builder().seed(2));
    let gate = Arc::new(Gate::default());
    for at in 0..paths {
        let (left, right) = memory::pair(Capabilities::plain(1500));
        let link = || LinkConfig { queue: QueueLimit::Packets(5000), ..Path::new(1000, 50).link() };
        // On the server's side, so that its timers wake the other driver.
        let right = LinkedDevice::new(right, &format!("path{at}"), 7, link(), link()).unwrap();
        let gate = if at + 1 == paths { Arc::clone(&gate) } else { Arc::default() };
        client = client.device(Gated { inner: left, gate }, &[common::client_ip(at)]);
        server = server.device(right, &[common::server_ip(at)]);
    }
    (client.start().unwrap(), server.start().unwrap(), gate)
}

/// Returns a connection from `client` to `server` with a large window at its start, all of whose subflows are
/// established.
async fn connected(client: &Host, server: &Host, max_subflows: u8) -> (MptcpStream, MptcpStream) {
    let mut config = ConnectionConfig {
        initial_window: 1000,
        receive_buffer: ReceiveBuffer::Fixed(Bytes::from_kib(8 << 10)),
        max_subflows,
        ..config()
    };
    // The whole buffer is offered at once.
    config.ack.growth = false;
    let mut listener = server.listen(common::PORT, config.clone(), 1).unwrap();
    let mut near = client.connect(server_address(), config).await.unwrap();
    let (mut far, _) = listener.accept().await.unwrap();
    // The window of a SYN is small; that of an acknowledgement is not.
    near.write_all(b"x").await.unwrap();
    far.read_exact(&mut [0]).await.unwrap();
    sleep(Duration::from_secs(1)).await;
    let established = near.subflow_stats().iter().filter(|subflow| subflow.established.is_some()).count();
    assert_eq!(established, usize::from(max_subflows));
    (near, far)
}

// The driver takes no more from the stack than its queues hold. Once the device has accepted all of these,
// only the driver itself knows that the stack has more.
#[tokio::test(start_paused = true)]
async fn what_a_full_device_has_left_with_the_stack_follows_at_once() {
    let (client, server, gate) = gated(1);
    let (mut near, _far) = connected(&client, &server, 1).await;
    gate.shut.store(true, Ordering::Relaxed);
    near.write_all(&content(600_000)).await.unwrap();
    sleep(Duration::from_millis(1)).await;
    gate.taken.store(0, Ordering::Relaxed);
    gate.open();
    // Less than a round trip, so that no acknowledgement has woken the driver.
    sleep(Duration::from_millis(20)).await;
    // An MTU of 1500 less 80 bytes of headers. The queues take 256 packets.
    assert_eq!(gate.taken.load(Ordering::Relaxed), 600_000_usize.div_ceil(1420));
}

// A dropped stream is aborted when its linger time has elapsed, even if the stack has nothing to do until
// then.
#[tokio::test(start_paused = true)]
async fn an_orphan_is_aborted_when_its_time_is_over() {
    let (client, server) = hosts(&ONE);
    let mut listener = server.listen(common::PORT, config(), 1).unwrap();
    let mut near = client.connect(server_address(), config()).await.unwrap();
    near.write_all(b"x").await.unwrap();
    near.shutdown().await.unwrap();
    // The other side has received everything, and does not close.
    let (_far, _) = listener.accept().await.unwrap();
    near.drained().await.unwrap();
    near.set_linger(Some(Duration::from_secs(10)));
    let dropped = Instant::now();
    drop(near);
    timeout(Duration::from_secs(11), client.finished()).await.expect("in time").unwrap();
    assert!(dropped.elapsed() >= Duration::from_secs(10), "{:?}", dropped.elapsed());
}

// RFC 1071 section 2B: the second part of a segment whose first part is odd is summed with its bytes swapped. Segments of
// 1,419 bytes cut the blocks of the send buffer, which are of 16 KiB, at odd places.
#[tokio::test(start_paused = true)]
async fn a_checksum_spans_blocks_that_are_cut_at_odd_places() {
    let (left, right) = memory::pair(Capabilities::plain(1499));
    let client = Host::builder().seed(1).device(left, &[common::client_ip(0)]).start().unwrap();
    let server = Host::builder().seed(2).device(right, &[common::server_ip(0)]).start().unwrap();
    let config = ConnectionConfig { checksums: Checksums::Required, ..config() };
    let mut listener = server.listen(common::PORT, config.clone(), 1).unwrap();
    let mut near = client.connect(server_address(), config).await.unwrap();
    let sent = content(400_000);
    let (mut far, _) = listener.accept().await.unwrap();
    let expected = sent.clone();
    let received = tokio::spawn(async move {
        let mut got = vec![0; expected.len()];
        far.read_exact(&mut got).await.unwrap();
        assert!(got == expected);
        far.stats()
    });
    near.write_all(&sent).await.unwrap();
    let stats = received.await.unwrap();
    assert_eq!(near.subflow_stats()[0].mss, 1419);
    assert_eq!((stats.checksum_failures, stats.fallbacks, stats.mptcp), (0, 0, true));
}

#[tokio::test(start_paused = true)]
async fn the_writing_half_takes_several_buffers_at_once() {
    let (client, server) = hosts(&ONE);
    let received = receive_all(&server);
    let near = client.connect(server_address(), config()).await.unwrap();
    assert!(near.is_write_vectored());
    let (_read, mut write) = near.into_split();
    assert!(write.is_write_vectored());
    let parts = ["one", "", " and ", "another"].map(|part| IoSlice::new(part.as_bytes()));
    assert_eq!(write.write_vectored(&parts).await.unwrap(), 15);
    write.shutdown().await.unwrap();
    assert_eq!(received.await.unwrap(), b"one and another");
}

// While another device accepts packets, those for a full one are dropped, as a network interface would: they
// are not queued without bound.
#[tokio::test(start_paused = true)]
async fn packets_for_a_full_device_are_dropped_while_another_takes_some() {
    let (client, server, gate) = gated(2);
    let (mut near, _far) = connected(&client, &server, 2).await;
    assert_eq!(client.counters().queue_drops, 0);
    gate.shut.store(true, Ordering::Relaxed);
    near.write_all(&content(2_500_000)).await.unwrap();
    sleep(Duration::from_millis(20)).await;
    assert!(client.counters().queue_drops > 0);
}

// RFC 2525 section 2.17: data that arrives after the stream was dropped will not be read, and the peer is
// notified.
#[tokio::test(start_paused = true)]
async fn what_arrives_for_a_dropped_stream_is_answered_by_an_abort() {
    let (client, server) = hosts(&ONE);
    let mut listener = server.listen(common::PORT, config(), 1).unwrap();
    let near = client.connect(server_address(), config()).await.unwrap();
    let (mut far, _) = listener.accept().await.unwrap();
    drop(near);
    sleep(Duration::from_secs(1)).await;
    far.write_all(b"too late").await.unwrap();
    sleep(Duration::from_secs(1)).await;
    assert_eq!(far.write(b"x").await.unwrap_err().kind(), io::ErrorKind::ConnectionReset);
}

/// A path with an unavailable address carries nothing, of open connections and of new ones, until it is available again.
#[tokio::test(start_paused = true)]
async fn an_unavailable_address_is_left_and_new_connections_begin_at_another() {
    let (client, server) = hosts(&[Path::new(10, 10), Path::new(10, 20)]);
    let mut listener = server.listen(PORT, config(), 4).unwrap();
    tokio::spawn(async move {
        let mut streams = Vec::new();
        while let Ok((stream, _)) = listener.accept().await {
            streams.push(stream);
        }
    });
    let config = || anabranch_net::default_config();
    let to = |at| SocketAddr::new(server_ip(at), PORT);
    let locals = |stream: &MptcpStream| {
        let live = stream.subflow_stats().into_iter().filter(|subflow| subflow.ended.is_none());
        live.map(|subflow| subflow.local.ip).collect::<BTreeSet<_>>()
    };
    let second = || sleep(Duration::from_secs(1));
    let (first, other) = (client_ip(0), client_ip(1));
    let mut stream = client.connect_from(first, to(0), config()).await.unwrap();
    // Joins begin once the peer has acknowledged data.
    stream.write_all(b"x").await.unwrap();
    second().await;
    assert_eq!(locals(&stream), [first, other].into());
    assert_eq!(client.peers(), [server_ip(0)]);
    client.set_address_up(first, false);
    assert!(!client.is_address_up(first) && client.is_address_up(other));
    assert_eq!(locals(&stream), [other].into(), "at once");
    let mut new = client.connect(to(1), config()).await.unwrap();
    new.write_all(b"x").await.unwrap();
    second().await;
    assert_eq!(locals(&new), [other].into());
    client.set_address_up(first, true);
    second().await;
    assert_eq!((locals(&stream), locals(&new)), ([first, other].into(), [first, other].into()));
}

#[tokio::test(start_paused = true)]
async fn memory_that_was_not_used_for_a_while_is_freed() {
    let (client, server) = common::hosts(&[Path::new(100, 5)]);
    let mut listener = server.listen(PORT, config(), 1).unwrap();
    let mut stream = client.connect(server_address(), config()).await.unwrap();
    let (mut accepted, _) = listener.accept().await.unwrap();
    let mut got = vec![0; 3_000_000];
    tokio::try_join!(accepted.write_all(&[7; 3_000_000]), stream.read_exact(&mut got)).unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let spare = [&client, &server].map(|host| host.memory_spare());
    assert!(spare.iter().all(|bytes| *bytes > 500_000), "{spare:?}");
    // Little data keeps little of it.
    for _ in 0..50 {
        accepted.write_all(b"little").await.unwrap();
        stream.read_exact(&mut [0; 6]).await.unwrap();
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    let spare = [&client, &server].map(|host| host.memory_spare());
    assert!(spare.iter().all(|bytes| (1..100_000).contains(bytes)), "{spare:?}");
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!([&client, &server].map(|host| host.memory_spare()), [0, 0]);
}
