//! The programs over two hosts of `anabranch-net`, a task for each end, connected by an engine.

use std::future::poll_fn;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use anabranch_device::{Capabilities, Device, Packet};
use anabranch_emulate::{Engine, EngineOptions, PacketSocket, Port, Tap, Wiring, socket_pair};
use anabranch_lab::run::topology;
use anabranch_net::{Host, MptcpListener, MptcpStream};
use anabranch_sim::End;
use anabranch_stack::config::ConnectionConfig;
use anabranch_stack::stats::SubflowCounters;
use anabranch_units::Time;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::task::JoinSet;

use super::{COUNT, Clock, Todo, Transport, Work, all_done};
use crate::anabranch::{
    self, Bundle, HEADERS, bytes_by_path, client, had_memory, note_subflows, path_to, server,
};
use crate::kernel::{CHUNK, drain_limit};
use crate::measure::{Measured, Quality};
use crate::points::Point;
use crate::results::Trouble;
use crate::socket::LOOK;
use crate::sys;

/// A program at one end of a flow.
type Program<'a> = Pin<Box<dyn Future<Output = io::Result<()>> + 'a>>;

/// The interval at which a task looks for the end of the other.
const STEP: Duration = Duration::from_millis(1);
/// The protocol number of UDP.
const UDP: u8 = 17;

/// Runs number `run` of `point`, captured by `tap`. Returns the measurements and the punctuality.
///
/// # Errors
/// Any [`Trouble`].
pub(crate) async fn programs(
    point: &Point,
    run: u32,
    cancelled: &AtomicBool,
    tap: Option<Tap>,
) -> Result<(Measured, Quality), Trouble> {
    let works = Work::of(point, run)?;
    let experiment = point.experiment();
    let seed = point.scenario.run_seed(run);
    let topology = topology(experiment, seed).map_err(Trouble::failed)?;
    let mtu = point.config().mss + HEADERS[usize::from(experiment.ipv6)];
    let arrivals = Arc::new(Arrivals { works: works.clone(), begun: std::sync::OnceLock::new() });
    let (mut near, mut far) = (Side::default(), Side::default());
    for _ in experiment.paths() {
        near.add(mtu)?;
        far.add(mtu)?;
    }
    let options = EngineOptions { seed, ..EngineOptions::default() };
    let engine = Engine::start_with(Wiring::new(&topology, near.ports, far.ports), &options, tap)?;
    let started = Instant::now();
    let _ = arrivals.begun.set(started);
    let clock = Rc::new(Clock { begun: started, cancelled });
    let mut builder = anabranch::host_builder();
    for (path, device) in near.devices.into_iter().enumerate() {
        let ip = client(point, path);
        builder = builder.device(Sorting { device, arrivals: arrivals.clone() }, &[ip]);
        if experiment.paths()[path].backup {
            builder = builder.backup(ip);
        }
    }
    let client_host = Rc::new(builder.start()?);
    let bundle = Sorting { device: Bundle(far.devices), arrivals: arrivals.clone() };
    let server_host = anabranch::host_builder().device(bundle, &[server(point)]).start()?;
    let mut notices = JoinSet::new();
    notices.spawn_local(anabranch::notice(point.clone(), client_host.clone(), started));
    let ends = {
        let mut ends: Vec<Program<'_>> = Vec::new();
        for work in &works {
            if work.transport == Transport::Datagrams {
                let side = if work.is_download() { &far.sockets } else { &near.sockets };
                let socket = side.get(work.path).map(|fd| fd.try_clone()).transpose()?;
                ends.push(Box::pin(send_datagrams(point, &clock, &works, work, socket)));
                continue;
            }
            let config = config(point, work)?;
            let listener = server_host.listen(work.port, config.clone(), 1)?;
            ends.push(Box::pin(serve(point, &clock, &works, work, listener)));
            ends.push(Box::pin(ask(point, &clock, &works, work, &client_host, config)));
        }
        ends
    };
    // All ends make progress in one task, as the programs of one process.
    let mut ends: Vec<Option<Program<'_>>> = ends.into_iter().map(Some).collect();
    poll_fn(|cx| {
        for slot in &mut ends {
            if let Some(end) = slot
                && end.as_mut().poll(cx).is_ready()
            {
                *slot = None;
            }
        }
        if ends.iter().all(Option::is_none) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    drop(ends);
    if clock.is_cancelled() {
        return Err(Trouble::Interrupted);
    }
    let now = clock.now();
    let measured: Vec<Measured> = works.iter().filter_map(|work| work.measured(now)).collect();
    [&*client_host, &server_host].into_iter().try_for_each(had_memory)?;
    let measured = Measured::by_class(measured, point.main_class());
    Ok((measured, anabranch::quality(&engine.stop()?)))
}

/// Returns the configuration of the connection of a flow.
fn config(point: &Point, work: &Work) -> io::Result<ConnectionConfig> {
    let failed = |setting| io::Error::other(format!("`{setting}` exists only in the simulator"));
    let mut config = work.spec.client_config.for_real_hosts().map_err(failed)?.clone();
    if work.is_endless() && work.accompanies() {
        config.send_buffer_start =
            config.send_buffer_start.or(anabranch::background_config(point).send_buffer_start);
    }
    Ok(config)
}

/// The ports and devices of one host.
#[derive(Default)]
struct Side {
    ports: Vec<Port>,
    devices: Vec<PacketSocket>,
    /// The sockets of the devices again, for datagrams.
    sockets: Vec<OwnedFd>,
}

impl Side {
    fn add(&mut self, mtu: u32) -> io::Result<()> {
        let (port, socket) = socket_pair()?;
        self.ports.push(port);
        self.sockets.push(socket.try_clone()?);
        self.devices.push(PacketSocket::new(socket, mtu)?);
        Ok(())
    }
}

/// The flows to which datagrams arrive.
struct Arrivals {
    works: Vec<Arc<Work>>,
    begun: std::sync::OnceLock<Instant>,
}

impl Arrivals {
    /// Takes an IP packet if it is a datagram.
    fn take(&self, packet: &[u8]) -> bool {
        let is_six = packet.first().is_some_and(|first| first >> 4 == 6);
        let (protocol, header) = if is_six { (packet.get(6), 40) } else { (packet.get(9), 20) };
        if protocol != Some(&UDP) {
            return false;
        }
        let Some(begun) = self.begun.get() else { return true };
        let now = Time(begun.elapsed().as_nanos() as u64);
        let port = packet.get(header + 2..header + 4).map(|two| u16::from_be_bytes([two[0], two[1]]));
        let number = packet.get(header + 8..header + 12);
        if let (Some(port), Some(n)) = (port, number)
            && let Some(work) = self.works.iter().find(|work| work.port == port)
        {
            work.datagram_received(now, u64::from(u32::from_be_bytes([n[0], n[1], n[2], n[3]])));
        }
        true
    }
}

/// A device that keeps datagrams from the stack.
struct Sorting<D> {
    device: D,
    arrivals: Arc<Arrivals>,
}

impl<D: Device> Device for Sorting<D> {
    fn capabilities(&self) -> Capabilities {
        self.device.capabilities()
    }

    fn poll_receive(&mut self, cx: &mut Context<'_>, packet: &mut Packet) -> Poll<io::Result<()>> {
        loop {
            match self.device.poll_receive(cx, packet) {
                Poll::Ready(Ok(())) if self.arrivals.take(packet.bytes()) => {}
                other => return other,
            }
        }
    }

    fn poll_send(&mut self, cx: &mut Context<'_>, packet: &mut Packet) -> Poll<io::Result<()>> {
        self.device.poll_send(cx, packet)
    }
}

/// Returns the packet of a datagram, without a checksum: the links do not read it, and no host does.
fn datagram(source: IpAddr, destination: IpAddr, port: u16, number: u32, payload: u32) -> Vec<u8> {
    let length = 8 + payload as u16;
    let mut packet = Vec::with_capacity(48 + payload as usize);
    match (source, destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            packet.extend_from_slice(&[0x45, 0]);
            packet.extend_from_slice(&(20 + length).to_be_bytes());
            packet.extend_from_slice(&[0, 0, 0x40, 0, 64, UDP, 0, 0]);
            packet.extend_from_slice(&source.octets());
            packet.extend_from_slice(&destination.octets());
            let words = packet.chunks(2).map(|two| u32::from(u16::from_be_bytes([two[0], two[1]])));
            let mut sum: u32 = words.sum();
            sum = (sum & 0xffff) + (sum >> 16);
            let checksum = !(((sum & 0xffff) + (sum >> 16)) as u16);
            packet[10..12].copy_from_slice(&checksum.to_be_bytes());
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            packet.extend_from_slice(&[0x60, 0, 0, 0]);
            packet.extend_from_slice(&length.to_be_bytes());
            packet.extend_from_slice(&[UDP, 64]);
            packet.extend_from_slice(&source.octets());
            packet.extend_from_slice(&destination.octets());
        }
        _ => {}
    }
    for word in [port, port, length, 0] {
        packet.extend_from_slice(&word.to_be_bytes());
    }
    packet.extend_from_slice(&number.to_be_bytes());
    packet.resize(packet.len() + (payload as usize).saturating_sub(4), 0);
    packet
}

/// A timer more precise than tokio's, which has a resolution of a millisecond.
struct Timer {
    fd: AsyncFd<OwnedFd>,
    set: Option<Time>,
}

impl Timer {
    fn new() -> io::Result<Timer> {
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        let fd = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        Ok(Timer { fd: sys::watched(fd)?, set: None })
    }

    /// Wakes the task at `at`; ready if that has passed.
    fn poll_at(&mut self, cx: &mut Context<'_>, clock: &Clock<'_>, at: Time) -> Poll<()> {
        loop {
            let left = clock.left(at);
            if left.is_zero() {
                return Poll::Ready(());
            }
            if self.set != Some(at) {
                let value =
                    Timespec { tv_sec: left.as_secs() as _, tv_nsec: i64::from(left.subsec_nanos()) as _ };
                let none = Timespec { tv_sec: 0, tv_nsec: 0 };
                let spec = Itimerspec { it_interval: none, it_value: value };
                if timerfd_settime(self.fd.get_ref().as_fd(), TimerfdTimerFlags::empty(), &spec).is_err() {
                    return Poll::Ready(());
                }
                self.set = Some(at);
            }
            match self.fd.poll_read_ready(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(mut guard)) => {
                    let mut count = [0; 8];
                    let _ = rustix::io::read(self.fd.get_ref(), &mut count);
                    guard.clear_ready();
                    self.set = None;
                }
                Poll::Ready(Err(_)) => return Poll::Ready(()),
            }
        }
    }
}

/// Waits until `at`; false if the run ends before.
async fn wait(timer: &mut Timer, clock: &Clock<'_>, works: &[Arc<Work>], at: Time) -> bool {
    loop {
        if clock.left(at).is_zero() {
            return true;
        }
        if clock.is_cancelled() || all_done(works, clock.now()) {
            return false;
        }
        let next = at.min(clock.now() + anabranch_units::Duration(LOOK.as_nanos() as u64));
        poll_fn(|cx| timer.poll_at(cx, clock, next)).await;
    }
}

/// Runs the client's end.
async fn ask(
    point: &Point,
    clock: &Clock<'_>,
    works: &[Arc<Work>],
    work: &Work,
    host: &Host,
    config: ConnectionConfig,
) -> io::Result<()> {
    let mut timer = Timer::new()?;
    if !wait(&mut timer, clock, works, work.spec.start).await {
        return Ok(());
    }
    let mut todo = Todo::default();
    todo.add(work.begin(clock.now()));
    let (local, there) = (client(point, work.path), SocketAddr::new(server(point), work.port));
    let connecting = host.connect_from(local, there, config);
    match tokio::time::timeout(clock.left(work.until), connecting).await {
        Ok(Ok(stream)) => drive(point, clock, works, work, (stream, End::Client), todo, timer).await,
        _ => work.fail(),
    }
    Ok(())
}

/// Runs the server's end.
async fn serve(
    point: &Point,
    clock: &Clock<'_>,
    works: &[Arc<Work>],
    work: &Work,
    mut listener: MptcpListener,
) -> io::Result<()> {
    let timer = Timer::new()?;
    let stream = loop {
        match tokio::time::timeout(LOOK, listener.accept()).await {
            Ok(accepted) => break accepted?.0,
            Err(_) if clock.is_cancelled() || work.is_done(clock.now()) || all_done(works, clock.now()) => {
                return Ok(());
            }
            Err(_) => {}
        }
    };
    drive(point, clock, works, work, (stream, End::Server), Todo::default(), timer).await;
    Ok(())
}

/// Runs the program at one end of a connection, and reads its counters.
async fn drive(
    point: &Point,
    clock: &Clock<'_>,
    works: &[Arc<Work>],
    work: &Work,
    (mut stream, end): (MptcpStream, End),
    mut todo: Todo,
    mut timer: Timer,
) {
    if work.sends(end) && work.spec.hint {
        stream.set_flow_size(work.spec.size.map(|size| size.0));
    }
    let chunk = vec![0; CHUNK];
    let mut input = vec![0; CHUNK];
    let mut is_open = true;
    let over = poll_fn(|cx| {
        loop {
            let now = clock.now();
            if work.is_done(now) || clock.is_cancelled() || (work.accompanies() && all_done(works, now)) {
                return Poll::Ready(Ok(()));
            }
            todo.continue_at(work, end, now);
            let mut moved = false;
            if todo.write > 0 {
                let part = &chunk[..todo.write.min(CHUNK as u64) as usize];
                if let Poll::Ready(n) = Pin::new(&mut stream).poll_write(cx, part) {
                    todo.write -= n? as u64;
                    moved = true;
                }
            }
            if todo.closes_now()
                && let Poll::Ready(Err(error)) = Pin::new(&mut stream).poll_shutdown(cx)
            {
                return Poll::Ready(Err(error));
            }
            if is_open {
                let mut buffer = ReadBuf::new(&mut input);
                if let Poll::Ready(read) = Pin::new(&mut stream).poll_read(cx, &mut buffer) {
                    read?;
                    let n = buffer.filled().len();
                    (moved, is_open) = (true, n > 0);
                    todo.take(work, end, clock.now(), n as u64);
                }
            }
            if moved {
                continue;
            }
            let look = now + anabranch_units::Duration(LOOK.as_nanos() as u64 / 10);
            let next = todo.next.map_or(look, |next| next.min(look)).min(work.until);
            if timer.poll_at(cx, clock, next).is_pending() {
                return Poll::<io::Result<()>>::Pending;
            }
        }
    });
    if over.await.is_err() {
        work.fail();
    }
    if work.sends(end) {
        if !work.is_endless() {
            // Losses at the very end concern the sender, not the receiver.
            let _ = tokio::time::timeout(drain_limit(point), stream.drained()).await;
        }
        let subflows = stream.subflow_stats();
        let sum = |count: fn(&SubflowCounters) -> u64| {
            subflows.iter().map(|subflow| count(&subflow.counters)).sum()
        };
        let mut measured = Measured {
            segments: sum(|counters| counters.data_segments_sent),
            retransmitted: sum(|counters| counters.segments_retransmitted),
            timeouts: sum(|counters| counters.timeouts),
            ..Measured::default()
        };
        note_subflows(&mut measured, point, &subflows, work.is_download());
        work.count_sender(measured);
    } else {
        work.count_receiver(bytes_by_path(point, &stream.subflow_stats(), work.is_download()));
    }
    let begun = Instant::now();
    while !work.is_counted() && begun.elapsed() < COUNT + drain_limit(point) && !clock.is_cancelled() {
        tokio::time::sleep(STEP).await;
    }
    stream.abort();
}

async fn send_datagrams(
    point: &Point,
    clock: &Clock<'_>,
    works: &[Arc<Work>],
    work: &Work,
    socket: Option<OwnedFd>,
) -> io::Result<()> {
    let (near, far) = (client(point, work.path), server(point));
    let (source, destination) = if work.is_download() { (far, near) } else { (near, far) };
    debug_assert!(!work.is_download() || path_to(&datagram(source, destination, 0, 0, 4)) == work.path);
    let mut timer = Timer::new()?;
    let mut next = Some(work.spec.start);
    work.begin_datagrams(work.spec.start);
    while let Some(at) = next {
        if !wait(&mut timer, clock, works, at).await {
            break;
        }
        let (number, then) = work.datagram(at, clock.now());
        next = then;
        match number.zip(socket.as_ref()) {
            Some((number, socket)) => {
                let packet = datagram(source, destination, work.port, number as u32, work.payload());
                // A full queue of the device drops it.
                let _ = rustix::io::write(socket, &packet);
            }
            None => work.fail(),
        }
        if work.is_done(clock.now()) {
            break;
        }
    }
    let mut bytes = vec![0; point.experiment().paths().len()];
    bytes[work.path] = work.state().received;
    work.count_sender(Measured::default());
    work.count_receiver(bytes);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_datagram_has_the_length_of_the_simulators_and_a_valid_header() {
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        let packet = datagram(ip("10.0.2.1"), ip("10.1.1.1"), 8685, 7, 1200);
        assert_eq!((packet.len(), packet[9]), (1228, UDP));
        let words = packet[..20].chunks(2).map(|two| u32::from(u16::from_be_bytes([two[0], two[1]])));
        let sum: u32 = words.sum();
        assert_eq!((sum & 0xffff) + (sum >> 16), 0xffff);
        assert_eq!(&packet[28..32], &[0, 0, 0, 7]);
        let six = datagram(ip("fd86:8684:1:1::1"), ip("fd86:8684:0:3::1"), 8685, 7, 100);
        assert_eq!((six.len(), path_to(&six)), (148, 2));
    }
}
