//! Streams between two hosts over links in memory, on tokio's paused clock: no test waits in real time.

mod common;

use std::future::Future;
use std::io;
use std::task::{Context, Poll};
use std::time::Duration;

use anabranch_device::{Capabilities, Device, Packet, memory};
use anabranch_net::{Host, default_config};
use anabranch_stack::config::{ConnectionConfig, PathMtuDiscovery};
use anabranch_stack::event::CloseReason;
use common::{Path, config, content, hosts, receive_all, server_address};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt};
use tokio::time::{Instant, timeout};

const ONE: [Path; 1] = [Path::new(100, 10)];

#[tokio::test(start_paused = true)]
async fn what_is_written_comes_back_from_an_echo() {
    let (client, server) = hosts(&ONE);
    let mut listener = server.listen(common::PORT, config(), 4).unwrap();
    let echo = tokio::spawn(async move {
        let (stream, from) = listener.accept().await.unwrap();
        assert_eq!(from.ip(), common::client_ip(0));
        let (mut read, mut write) = stream.into_split();
        tokio::io::copy(&mut read, &mut write).await.unwrap()
    });
    let begun = Instant::now();
    let mut stream = client.connect(server_address(), config()).await.unwrap();
    // One round trip, and the rounding of the clock.
    assert!(begun.elapsed() < Duration::from_millis(25), "{:?}", begun.elapsed());
    assert_eq!(stream.remote_address(), server_address());
    for text in ["hello", "and again"] {
        stream.write_all(text.as_bytes()).await.unwrap();
        let mut back = vec![0; text.len()];
        stream.read_exact(&mut back).await.unwrap();
        assert_eq!(back, text.as_bytes());
    }
    stream.shutdown().await.unwrap();
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).await.unwrap();
    assert!(rest.is_empty());
    assert_eq!(echo.await.unwrap(), 14);
}

async fn bulk(paths: &[Path], len: usize, limit: Duration) -> (Duration, Vec<u64>) {
    bulk_with(config(), paths, len, limit).await
}

async fn bulk_with(
    config: ConnectionConfig,
    paths: &[Path],
    len: usize,
    limit: Duration,
) -> (Duration, Vec<u64>) {
    let (client, server) = hosts(paths);
    let mut listener = server.listen(common::PORT, config.clone(), 4).unwrap();
    let sent = content(len);
    let expected = sent.clone();
    let receive = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut got = Vec::new();
        stream.read_to_end(&mut got).await.unwrap();
        let carried = stream.subflow_stats().iter().map(|s| s.counters.bytes_delivered).collect();
        (got, carried)
    });
    let begun = Instant::now();
    let mut stream = client.connect(server_address(), config).await.unwrap();
    stream.write_all(&sent).await.unwrap();
    stream.shutdown().await.unwrap();
    timeout(limit, stream.drained()).await.expect("in time").unwrap();
    let took = begun.elapsed();
    let (got, carried): (Vec<u8>, Vec<u64>) = timeout(limit, receive).await.expect("in time").unwrap();
    assert!(got == expected, "{} of {} bytes, or others", got.len(), expected.len());
    (took, carried)
}

#[tokio::test(start_paused = true)]
async fn two_paths_carry_more_than_one() {
    let len = 60 << 20;
    let limit = Duration::from_secs(60);
    let (one, _) = bulk(&[Path::new(50, 10)], len, limit).await;
    let (two, carried) = bulk(&[Path::new(50, 10), Path::new(50, 30)], len, limit).await;
    assert!(two < one.mul_f64(0.7), "{two:?} and {one:?}");
    assert_eq!(carried.iter().sum::<u64>(), len as u64);
    assert!(carried.iter().filter(|bytes| **bytes > len as u64 / 4).count() == 2, "{carried:?}");
}

#[tokio::test(start_paused = true)]
async fn a_stream_over_lossy_paths_of_unequal_delay_is_whole() {
    let paths = [Path::new(50, 5).loss(0.02), Path::new(20, 60).loss(0.03)];
    let (_, carried) = bulk(&paths, 4 << 20, Duration::from_secs(600)).await;
    assert_eq!(carried.iter().sum::<u64>(), 4 << 20);
    assert!(carried.iter().all(|bytes| *bytes > 0), "{carried:?}");
}

#[tokio::test(start_paused = true)]
async fn a_side_that_has_closed_can_still_read() {
    let (client, server) = hosts(&ONE);
    let mut listener = server.listen(common::PORT, config(), 4).unwrap();
    let serve = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut request = Vec::new();
        stream.read_to_end(&mut request).await.unwrap();
        tokio::time::sleep(Duration::from_secs(300)).await;
        stream.write_all(&content(100_000)).await.unwrap();
        request
    });
    let mut stream = client.connect(server_address(), config()).await.unwrap();
    stream.write_all(b"please").await.unwrap();
    stream.shutdown().await.unwrap();
    assert_eq!(stream.write(b"more").await.unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    assert_eq!(answer, content(100_000));
    assert_eq!(serve.await.unwrap(), b"please");
    drop(stream);
    timeout(Duration::from_secs(5), client.finished()).await.expect("in time").unwrap();
    timeout(Duration::from_secs(5), server.finished()).await.expect("in time").unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_abort_is_heard_at_both_ends() {
    let (client, server) = hosts(&ONE);
    let mut listener = server.listen(common::PORT, config(), 4).unwrap();
    let mut near = client.connect(server_address(), config()).await.unwrap();
    near.write_all(b"x").await.unwrap();
    let (mut far, _) = listener.accept().await.unwrap();
    let mut byte = [0];
    far.read_exact(&mut byte).await.unwrap();
    near.abort();
    let error = near.read(&mut byte).await.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::ConnectionAborted);
    let error = far.read(&mut byte).await.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
    let error = far.write(b"y").await.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
}

#[tokio::test(start_paused = true)]
async fn a_stream_dropped_with_bytes_unread_is_reset() {
    let (client, server) = hosts(&ONE);
    let mut listener = server.listen(common::PORT, config(), 4).unwrap();
    let mut near = client.connect(server_address(), config()).await.unwrap();
    near.write_all(&content(10_000)).await.unwrap();
    let (far, _) = listener.accept().await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    drop(far);
    let error = near.read(&mut [0]).await.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
}

#[tokio::test(start_paused = true)]
async fn what_has_arrived_is_lent_in_order_and_read_beside_that() {
    let (client, server) = hosts(&[Path::new(50, 5).loss(0.02), Path::new(20, 30).loss(0.02)]);
    let mut listener = server.listen(common::PORT, config(), 4).unwrap();
    let mut near = client.connect(server_address(), config()).await.unwrap();
    let receive = tokio::spawn(async move {
        let (mut far, _) = listener.accept().await.unwrap();
        let (mut got, mut step, mut piece) = (Vec::new(), 0, [0; 700]);
        loop {
            let lent = far.fill_buf().await.unwrap();
            if lent.is_empty() {
                break;
            }
            // All of it, or a part; once nothing.
            let n = lent.len().min(step * 977 % 20_000);
            got.extend_from_slice(&lent[..n]);
            far.consume(n);
            if step % 3 == 0 {
                let n = far.read(&mut piece).await.unwrap();
                got.extend_from_slice(&piece[..n]);
            }
            step += 1;
        }
        (got, far.read(&mut piece).await.unwrap())
    });
    let sent = content(3_000_000);
    near.write_all(&sent).await.unwrap();
    near.shutdown().await.unwrap();
    let (got, more) = receive.await.unwrap();
    assert!(got == sent, "{} bytes, or others", got.len());
    assert_eq!(more, 0);
}

/// True if the peer is reset by a drop after `read` of the lent bytes were read.
async fn dropped_after(read: usize) -> bool {
    let (client, server) = hosts(&ONE);
    let mut listener = server.listen(common::PORT, config(), 4).unwrap();
    let mut near = client.connect(server_address(), config()).await.unwrap();
    near.write_all(&content(10_000)).await.unwrap();
    let (far, _) = listener.accept().await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let (mut reader, writer) = far.into_split();
    assert_eq!(reader.fill_buf().await.unwrap(), content(10_000));
    reader.consume(read);
    drop(reader);
    drop(writer);
    match near.read(&mut [0]).await {
        Ok(n) => {
            assert_eq!(n, 0);
            false
        }
        Err(error) => error.kind() == io::ErrorKind::ConnectionReset,
    }
}

#[tokio::test(start_paused = true)]
async fn a_control_has_the_last_counters_when_the_stream_is_gone_whoever_closes_first() {
    for client_first in [true, false] {
        let (client, server) = hosts(&ONE);
        let mut listener = server.listen(common::PORT, config(), 4).unwrap();
        let mut near = client.connect(server_address(), config()).await.unwrap();
        near.write_all(&content(10_000)).await.unwrap();
        let (mut far, _) = listener.accept().await.unwrap();
        far.read_exact(&mut vec![0; 10_000]).await.unwrap();
        let controls = [near.control(), far.control()];
        let (mut first, mut second) = if client_first { (near, far) } else { (far, near) };
        first.shutdown().await.unwrap();
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(second.read(&mut [0]).await.unwrap(), 0);
        second.shutdown().await.unwrap();
        drop((first, second));
        for seconds in [1, 1000] {
            tokio::time::sleep(Duration::from_secs(seconds)).await;
            let [sent, got] = controls.each_ref().map(|control| (control.stats(), control.subflow_stats()));
            assert!(sent.0.mptcp && got.0.mptcp, "{client_first}, {seconds} s");
            assert_eq!((sent.0.data_acked, sent.1.len(), got.1.len()), (10_000, 1, 1));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_lent_and_not_read_is_unread() {
    assert!(dropped_after(9_999).await);
    assert!(!dropped_after(10_000).await);
}

#[tokio::test(start_paused = true)]
async fn little_is_taken_that_cannot_leave_yet() {
    let (client, server) = hosts(&ONE);
    let received = receive_all(&server);
    let start = Some(anabranch_units::Bytes::from_kib(2 << 10));
    let follows = ConnectionConfig { send_buffer_start: start, ..config() };
    let mut near = client.connect(server_address(), follows).await.unwrap();
    let all = content(4 << 20);
    let written = near.write(&all).await.unwrap();
    assert_eq!(written, 384 << 10);
    // A buffer of fixed size accepts as much as it has space for, even if the peer does not read.
    let mut other = client.connect(server_address(), config()).await.unwrap();
    assert_eq!(other.write(&all).await.unwrap(), all.len());
    near.write_all(&all[written..]).await.unwrap();
    near.shutdown().await.unwrap();
    assert!(received.await.unwrap() == all);
}

#[tokio::test(start_paused = true)]
async fn what_was_written_before_a_drop_still_arrives() {
    let (client, server) = hosts(&[Path::new(10, 50)]);
    let mut listener = server.listen(common::PORT, config(), 4).unwrap();
    let mut near = client.connect(server_address(), config()).await.unwrap();
    near.write_all(&content(2_000_000)).await.unwrap();
    drop(near);
    let (mut far, _) = listener.accept().await.unwrap();
    let mut got = Vec::new();
    far.read_to_end(&mut got).await.unwrap();
    assert!(got == content(2_000_000));
    drop(far);
    timeout(Duration::from_secs(5), client.finished()).await.expect("in time").unwrap();
}

#[tokio::test(start_paused = true)]
async fn linger_of_zero_aborts() {
    let (client, server) = hosts(&ONE);
    let mut listener = server.listen(common::PORT, config(), 4).unwrap();
    let mut near = client.connect(server_address(), config()).await.unwrap();
    near.write_all(b"x").await.unwrap();
    near.set_linger(Some(Duration::ZERO));
    let (mut far, _) = listener.accept().await.unwrap();
    far.read_exact(&mut [0]).await.unwrap();
    drop(near);
    assert_eq!(far.read(&mut [0]).await.unwrap_err().kind(), io::ErrorKind::ConnectionReset);
}

#[tokio::test(start_paused = true)]
async fn a_slow_reader_holds_the_writer_back() {
    let (client, server) = hosts(&ONE);
    let mut config = config();
    config.send_buffer = anabranch_units::Bytes::from_kib(64);
    config.receive_buffer =
        anabranch_stack::config::ReceiveBuffer::Fixed(anabranch_units::Bytes::from_kib(64));
    let mut listener = server.listen(common::PORT, config.clone(), 4).unwrap();
    let mut near = client.connect(server_address(), config).await.unwrap();
    let sent = content(1 << 20);
    let write = tokio::spawn(async move {
        near.write_all(&content(1 << 20)).await.unwrap();
        near.shutdown().await.unwrap();
        near.drained().await.unwrap();
        near.written()
    });
    let (mut far, _) = listener.accept().await.unwrap();
    tokio::time::sleep(Duration::from_secs(100)).await;
    // Both buffers are full, and nothing more was accepted.
    assert!(far.stats().received <= 64 << 10, "{:?}", far.stats());
    assert!(!write.is_finished());
    let mut got = Vec::new();
    while got.len() < sent.len() {
        let mut piece = [0; 10_000];
        let n = far.read(&mut piece).await.unwrap();
        assert!(n > 0);
        got.extend_from_slice(&piece[..n]);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(got == sent);
    assert_eq!(far.read(&mut [0]).await.unwrap(), 0);
    assert_eq!(write.await.unwrap(), 1 << 20);
}

#[tokio::test(start_paused = true)]
async fn many_connections_at_once_keep_apart() {
    let (client, server) = hosts(&[Path::new(200, 5), Path::new(100, 20)]);
    let mut listener = server.listen(common::PORT, config(), 1000).unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let (mut read, mut write) = stream.into_split();
                tokio::io::copy(&mut read, &mut write).await.unwrap();
            });
        }
    });
    let mut tasks = tokio::task::JoinSet::new();
    for at in 0..300_usize {
        let client = client.clone();
        tasks.spawn(async move {
            let stream = client.connect(server_address(), config()).await.unwrap();
            let (mut read, mut write) = stream.into_split();
            let sent = content(20_000 + at)[at..].to_vec();
            let expected = sent.clone();
            tokio::spawn(async move {
                write.write_all(&sent).await.unwrap();
                write.shutdown().await.unwrap();
            });
            let mut got = Vec::new();
            read.read_to_end(&mut got).await.unwrap();
            assert!(got == expected, "connection {at}");
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
    timeout(Duration::from_secs(60), client.finished()).await.expect("in time").unwrap();
    assert_eq!(client.counters().unwritable + server.counters().unwritable, 0);
}

#[tokio::test(start_paused = true)]
async fn a_closed_port_refuses() {
    let (client, _server) = hosts(&ONE);
    let error = client.connect(server_address(), config()).await.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
}

#[tokio::test(start_paused = true)]
async fn when_the_device_is_gone_every_operation_says_so() {
    let (left, right) = memory::pair(Capabilities::plain(1500));
    let client = Host::builder().seed(1).device(left, &[common::client_ip(0)]).start().unwrap();
    let server = Host::builder().seed(2).device(right, &[common::server_ip(0)]).start().unwrap();
    let mut listener = server.listen(common::PORT, config(), 4).unwrap();
    let mut near = client.connect(server_address(), config()).await.unwrap();
    let (far, _) = listener.accept().await.unwrap();
    let waiting = tokio::spawn(async move {
        let kind = near.read(&mut [0]).await.unwrap_err().kind();
        (near.write(b"x").await.unwrap_err().kind(), kind)
    });
    far.set_linger(Some(Duration::ZERO));
    far.abort();
    drop((far, listener, server));
    // The server's driver ends with its last connection, together with its device.
    let (write, _) = timeout(Duration::from_secs(100), waiting).await.expect("in time").unwrap();
    assert!(matches!(write, io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe), "{write:?}");
    tokio::time::sleep(Duration::from_secs(1)).await;
    let error = client.connect(server_address(), config()).await.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
    assert!(client.listen(1, config(), 1).is_err());
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_connection_is_reported_with_its_subflows() {
    let (client, server) = common::builders(&[Path::new(50, 10), Path::new(50, 20)]);
    let (notices, mut heard) = tokio::sync::mpsc::unbounded_channel();
    let (client, server) = (client.notices(notices).start().unwrap(), server.start().unwrap());
    let mut listener = server.listen(common::PORT, config(), 4).unwrap();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        tokio::io::copy(&mut stream, &mut tokio::io::sink()).await.unwrap();
    });
    let mut stream = client.connect(server_address(), config()).await.unwrap();
    stream.write_all(&content(3 << 20)).await.unwrap();
    drop(stream);
    let (mut up, mut report) = (0, None);
    while report.is_none() {
        match heard.recv().await.unwrap() {
            anabranch_net::Notice::SubflowUp { .. } => up += 1,
            anabranch_net::Notice::Closed(closed) => report = Some(closed),
            _ => {}
        }
    }
    let report = report.unwrap();
    assert_eq!(report.reason, CloseReason::Finished);
    assert_eq!(up, report.subflows.len());
    assert!(up >= 2);
    assert_eq!(report.stats.written, 3 << 20);
    let sent: u64 = report.subflows.iter().map(|subflow| subflow.counters.bytes_sent).sum();
    assert!(sent >= 3 << 20);
}

// RFC 1191: a router's ICMP error makes segments smaller.
#[tokio::test(start_paused = true)]
async fn a_narrow_path_whose_router_tells_costs_little() {
    let len = 4 << 20;
    let (wide, _) = bulk(&ONE, len, Duration::from_secs(60)).await;
    let (narrow, _) = bulk(&[ONE[0].mtu(1300, true)], len, Duration::from_secs(60)).await;
    assert!(narrow < wide.mul_f64(1.3), "{narrow:?} and {wide:?}");
}

// RFC 4821: without ICMP, two timeouts suffice, unless the search is disabled.
#[tokio::test(start_paused = true)]
async fn a_black_hole_is_crossed() {
    let hole = [ONE[0].mtu(1300, false)];
    let len = 4 << 20;
    let (took, _) = bulk_with(default_config(), &hole, len, Duration::from_secs(60)).await;
    let (clean, _) = bulk_with(default_config(), &ONE, len, Duration::from_secs(60)).await;
    // Two timeouts, the second twice as long as the first, and segments a seventh shorter.
    assert!(took < clean.mul_f64(1.3) + Duration::from_secs(2), "{took:?} and {clean:?}");
    let (client, server) = hosts(&hole);
    let config = ConnectionConfig { path_mtu: PathMtuDiscovery::Icmp, ..default_config() };
    let mut listener = server.listen(common::PORT, config.clone(), 1).unwrap();
    let mut stream = client.connect(server_address(), config).await.unwrap();
    stream.write_all(&content(10_000)).await.unwrap();
    let (mut other, _) = listener.accept().await.unwrap();
    let read = timeout(Duration::from_secs(10), other.read_u8()).await;
    assert!(read.is_err(), "nothing passes where segments stay as long as they are");
}

/// A device that accepts a few packets in each millisecond.
struct Stutter<D> {
    inner: D,
    taken: u32,
    pause: std::pin::Pin<Box<tokio::time::Sleep>>,
}

impl<D: Device> Device for Stutter<D> {
    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    fn poll_receive(&mut self, cx: &mut Context<'_>, packet: &mut Packet) -> Poll<io::Result<()>> {
        self.inner.poll_receive(cx, packet)
    }

    fn poll_send(&mut self, cx: &mut Context<'_>, packet: &mut Packet) -> Poll<io::Result<()>> {
        if self.taken == 4 {
            std::task::ready!(self.pause.as_mut().poll(cx));
            self.taken = 0;
        }
        std::task::ready!(self.inner.poll_send(cx, packet))?;
        self.taken += 1;
        if self.taken == 4 {
            self.pause.as_mut().reset(Instant::now() + Duration::from_millis(1));
        }
        Poll::Ready(Ok(()))
    }
}

#[tokio::test(start_paused = true)]
async fn a_device_that_is_full_is_waited_for_and_loses_nothing() {
    let (left, right) = memory::pair(Capabilities::plain(1500));
    let pause = Box::pin(tokio::time::sleep(Duration::ZERO));
    let left = Stutter { inner: left, taken: 0, pause };
    let client = Host::builder().seed(1).device(left, &[common::client_ip(0)]).start().unwrap();
    let server = Host::builder().seed(2).device(right, &[common::server_ip(0)]).start().unwrap();
    let receive = receive_all(&server);
    let begun = Instant::now();
    let mut stream = client.connect(server_address(), config()).await.unwrap();
    stream.write_all(&content(4 << 20)).await.unwrap();
    stream.shutdown().await.unwrap();
    assert!(receive.await.unwrap() == content(4 << 20));
    // 3,000 packets at 4 in a millisecond.
    assert!(begun.elapsed() < Duration::from_millis(900), "{:?}", begun.elapsed());
    assert_eq!(stream.subflow_stats()[0].counters.segments_retransmitted, 0);
    assert_eq!(client.counters().queue_drops, 0);
}

/// Returns an ICMP echo request with a sequence number.
fn ping(from: std::net::IpAddr, to: std::net::IpAddr, seq: u16) -> Packet {
    use anabranch_wire::checksum;
    let (std::net::IpAddr::V4(from), std::net::IpAddr::V4(to)) = (from, to) else { unreachable!() };
    let mut bytes = vec![0x45, 0, 0, 28, 0, 0, 0x40, 0, 64, 1, 0, 0];
    bytes.extend(from.octets());
    bytes.extend(to.octets());
    bytes.extend([8, 0, 0, 0, 0, 7]);
    bytes.extend(seq.to_be_bytes());
    for (at, part) in [(10, 0..20), (22, 20..28)] {
        let sum = !checksum::sum(&bytes[part]);
        bytes[at..at + 2].copy_from_slice(&sum.to_be_bytes());
    }
    Packet::from_bytes(&bytes)
}

// By the device of the address, and at most a thousand per second.
#[tokio::test(start_paused = true)]
async fn pings_of_its_addresses_are_answered_within_bounds() {
    use std::future::poll_fn;
    let (mut wires, mut builder) = (Vec::new(), Host::builder().seed(1));
    for at in 0..2 {
        let (near, far) = memory::pair(Capabilities::plain(1500));
        builder = builder.device(near, &[common::server_ip(at)]);
        wires.push(far);
    }
    let host = builder.start().unwrap();
    let (from, to) = (common::client_ip(1), common::server_ip(1));
    let mut send = async |packet: Packet| {
        let mut packet = packet;
        poll_fn(|cx| wires[0].poll_send(cx, &mut packet)).await.unwrap();
    };
    for seq in 0..60 {
        send(ping(from, to, seq)).await;
    }
    // Pings of other addresses are not answered.
    send(ping(from, common::server_ip(2), 0)).await;
    tokio::time::sleep(Duration::from_millis(10)).await;
    let counters = host.counters();
    assert_eq!((counters.echo_requests, counters.echo_replies, counters.not_tcp), (60, 50, 1));
    send(ping(from, to, 60)).await;
    let mut reply = Packet::default();
    for seq in (0..50).chain([60]) {
        poll_fn(|cx| wires[1].poll_receive(cx, &mut reply)).await.unwrap();
        let mut expected = ping(from, to, seq);
        assert!(anabranch_wire::echo_reply(expected.bytes_mut()));
        assert_eq!(reply.bytes(), expected.bytes());
    }
    let more = poll_fn(|cx| Poll::Ready(wires[0].poll_receive(cx, &mut reply).is_ready())).await;
    assert!(!more, "it went by the wrong device");
}
