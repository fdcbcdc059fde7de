//! Transfers in real time with anabranch at both ends.
//!
//! Two hosts of `anabranch-net` are connected by an engine, without the kernel's network in between.
//! Addresses are the same as in the kernel's transfer: 10.0.n.1 on path n for the client, and one for the server,
//! or their IPv6 counterparts; the client's address determines the path of a packet in both directions, as in the
//! simulator.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use anabranch_device::{Capabilities, Device, Packet};
use anabranch_emulate::{Engine, EngineOptions, EngineReport, PacketSocket, Tap, Wiring};
use anabranch_lab::run::topology;
use anabranch_net::{Host, HostBuilder, MptcpStream, StreamControl};
use anabranch_stack::config::ConnectionConfig;
use anabranch_stack::stats::{SubflowCounters, SubflowStats};
use anabranch_units::{Bytes, Time};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinSet;

use crate::gap::Gap;
use crate::kernel::{CHUNK, PORT, REQUEST};
use crate::measure::{Measured, Quality, Received};
use crate::points::{FlowPlan, Point};
use crate::results::Trouble;
use crate::simulated;
use crate::socket::LOOK;

/// The length of the headers and options before the payload of a full segment, as computed by a host of
/// `anabranch-net`, over IPv4 and over IPv6.
pub(crate) const HEADERS: [u32; 2] = [80, 100];
/// The longest time to wait for acknowledgements of written data where the other end, which is waited for as well, is of
/// the same program.
const DRAIN: Duration = Duration::from_secs(5);
/// The size with which the send buffer of a background flow begins.
const SEND_BUFFER_START: Bytes = Bytes::from_kib(64);
/// The memory for the buffers of a host, in bytes: far more than its flows need, since a share of it that limits a
/// flow would be measured as a property of the path.
const MEMORY: u64 = 1 << 30;

pub(crate) fn server(point: &Point) -> IpAddr {
    match point.experiment().ipv6 {
        false => IpAddr::V4(Ipv4Addr::new(10, 1, 1, 1)),
        true => IpAddr::V6(Ipv6Addr::new(0xfd86, 0x8684, 1, 1, 0, 0, 0, 1)),
    }
}

/// Returns the address of the client on the path at this position.
pub(crate) fn client(point: &Point, path: usize) -> IpAddr {
    match point.experiment().ipv6 {
        false => IpAddr::V4(Ipv4Addr::new(10, 0, path as u8 + 1, 1)),
        true => IpAddr::V6(Ipv6Addr::new(0xfd86, 0x8684, 0, path as u16 + 1, 0, 0, 0, 1)),
    }
}

/// Returns the path of the client's address in a packet's destination.
pub(crate) fn path_to(packet: &[u8]) -> usize {
    // The third byte of an IPv4 address, and the eighth of an IPv6 address, is the path's number.
    let at = if packet.first().is_some_and(|first| first >> 4 == 6) { 24 + 7 } else { 16 + 2 };
    packet.get(at).map_or(0, |number| usize::from(*number).saturating_sub(1))
}

/// The server's devices. A packet is sent on the device for the client's address.
pub(crate) struct Bundle(pub(crate) Vec<PacketSocket>);

impl Device for Bundle {
    fn capabilities(&self) -> Capabilities {
        Capabilities::plain(self.0.iter().map(|device| device.capabilities().mtu).min().unwrap_or(1500))
    }

    fn poll_receive(&mut self, cx: &mut Context<'_>, packet: &mut Packet) -> Poll<io::Result<()>> {
        for device in &mut self.0 {
            if let Poll::Ready(result) = device.poll_receive(cx, packet) {
                return Poll::Ready(result);
            }
        }
        Poll::Pending
    }

    fn poll_send(&mut self, cx: &mut Context<'_>, packet: &mut Packet) -> Poll<io::Result<()>> {
        match self.0.get_mut(path_to(packet.bytes())) {
            Some(device) => device.poll_send(cx, packet),
            None => Poll::Ready(Ok(())),
        }
    }
}

/// One transfer, and the progress of its two ends.
#[derive(Default)]
pub(crate) struct Flow {
    size: Option<u64>,
    /// The time of its start.
    start: Option<Instant>,
    size_known: bool,
    download: bool,
    /// The time at which the client began to connect.
    pub(crate) begun: Cell<Option<Instant>>,
    sender: OnceCell<StreamControl>,
    receiver: OnceCell<StreamControl>,
    received: Cell<u64>,
    complete: Cell<Option<Instant>>,
    gap: Cell<Gap>,
}

impl Flow {
    /// Returns a transfer of this size, or without an end.
    pub(crate) fn new(point: &Point, size: Option<u64>) -> Flow {
        let (size_known, download) = (point.experiment().traffic.size_known, point.is_download());
        Flow { size, size_known, download, gap: Cell::new(Gap::of_transfer()), ..Flow::default() }
    }
}

/// The flows by the client's address and port, which are known once it has connected.
type Flows = Rc<RefCell<HashMap<SocketAddr, Rc<Flow>>>>;

pub(crate) async fn transfers(
    point: &Point,
    run: u32,
    cancelled: &AtomicBool,
    tap: Option<Tap>,
) -> Result<(Measured, Quality), Trouble> {
    let experiment = point.experiment();
    let seed = point.scenario.run_seed(run);
    let topology = topology(experiment, seed).map_err(Trouble::failed)?;
    let config = point.config().clone();
    let mtu = config.mss + HEADERS[usize::from(experiment.ipv6)];
    let (mut near, mut far) = ((Vec::new(), Vec::new()), (Vec::new(), Vec::new()));
    for _ in experiment.paths() {
        for side in [&mut near, &mut far] {
            let (port, device) = PacketSocket::pair(mtu)?;
            side.0.push(port);
            side.1.push(device);
        }
    }
    let options = EngineOptions { seed, ..EngineOptions::default() };
    let engine = Engine::start_with(Wiring::new(&topology, near.0, far.0), &options, tap)?;
    let client_host = Rc::new(client_host(point, near.1)?);
    let server_host = host_builder().device(Bundle(far.1), &[server(point)]).start()?;
    let plan = point.plan(run).map_err(Trouble::failed)?;
    let mut listener = server_host.listen(PORT, config.clone(), plan.len())?;
    let begun = Instant::now();
    let last = plan.iter().map(|flow| flow.start).max().unwrap_or_default();
    let end = begun + last + Duration::from_nanos(point.duration().as_nanos());
    let flow =
        |flow: FlowPlan| Rc::new(Flow { start: Some(begun + flow.start), ..Flow::new(point, flow.size) });
    let flows: Vec<Rc<Flow>> = plan.into_iter().map(flow).collect();
    // They run until these are dropped.
    let mut background = JoinSet::new();
    serve_background(point, &server_host, &mut background)?;
    ask_background(point, &client_host, server(point), begun, &mut background);
    background.spawn_local(notice(point.clone(), client_host.clone(), begun));
    let connected = Flows::default();
    let mut ends: JoinSet<io::Result<MptcpStream>> = JoinSet::new();
    for flow in &flows {
        let (flow, host, connected) = (flow.clone(), client_host.clone(), connected.clone());
        let (local, there) = (client(point, point.initial()), SocketAddr::new(server(point), PORT));
        ends.spawn_local(ask(flow, host, (local, there), config.clone(), connected, end));
    }
    let all = async {
        // The streams are kept until the counters are read.
        let (mut waiting, mut streams) = (flows.len(), Vec::new());
        while waiting > 0 || !ends.is_empty() {
            tokio::select! {
                accepted = listener.accept(), if waiting > 0 => {
                    let (stream, peer) = accepted?;
                    waiting -= 1;
                    ends.spawn_local(serve(stream, peer, connected.clone(), end));
                }
                Some(ended) = ends.join_next() => streams.push(ended.map_err(io::Error::other)??),
            }
        }
        io::Result::Ok(streams)
    };
    tokio::pin!(all);
    let _streams = tokio::select! {
        streams = &mut all => Some(streams?),
        () = tokio::time::sleep_until(end.into()) => None,
        () = interrupted(cancelled) => return Err(Trouble::Interrupted),
    };
    let measured: Result<Vec<Measured>, Trouble> = flows.iter().map(|flow| measured(point, flow)).collect();
    let measured = Measured::together(measured?);
    [&*client_host, &server_host].into_iter().try_for_each(had_memory)?;
    Ok((measured, quality(&engine.stop()?)))
}

/// Notifies the client's host of the changes of its interfaces, each at its time.
pub(crate) async fn notice(point: Point, host: Rc<Host>, begun: Instant) -> io::Result<()> {
    for (path, signal) in point.experiment().signals() {
        tokio::time::sleep_until((begun + Duration::from_nanos(signal.at.0)).into()).await;
        host.set_address_up(client(&point, path), signal.up);
    }
    Ok(())
}

/// Returns a host without devices.
pub(crate) fn host_builder() -> HostBuilder {
    Host::builder().buffer_memory(MEMORY)
}

/// Checks that no flow of `host` was limited by the memory of the host.
///
/// # Errors
/// If a write had to wait for memory.
pub(crate) fn had_memory(host: &Host) -> Result<(), Trouble> {
    match host.counters().memory_waits {
        0 => Ok(()),
        waits => Err(Trouble::failed(format!("{waits} writes had to wait for the memory of their host"))),
    }
}

/// Returns the configuration of a background flow, which writes indefinitely. Its send buffer follows its windows:
/// buffers of a fixed size would take the memory of the host from the measured flows.
pub(crate) fn background_config(point: &Point) -> ConnectionConfig {
    let mut config = point.background_config();
    config.send_buffer_start.get_or_insert(SEND_BUFFER_START);
    config
}

/// Returns the host of the client, with a device for each path.
///
/// # Errors
/// If the system does not provide what it needs.
pub(crate) fn client_host(point: &Point, devices: Vec<PacketSocket>) -> io::Result<Host> {
    let mut builder = host_builder();
    for (path, device) in devices.into_iter().enumerate() {
        let ip = client(point, path);
        builder = builder.device(device, &[ip]);
        if point.experiment().paths()[path].backup {
            builder = builder.backup(ip);
        }
    }
    builder.start()
}

/// Runs the client's end.
async fn ask(
    flow: Rc<Flow>,
    host: Rc<Host>,
    (local, there): (IpAddr, SocketAddr),
    config: ConnectionConfig,
    connected: Flows,
    end: Instant,
) -> io::Result<MptcpStream> {
    if let Some(start) = flow.start {
        tokio::time::sleep_until(start.into()).await;
    }
    flow.begun.set(Some(Instant::now()));
    let mut stream = host.connect_from(local, there, config).await?;
    connected.borrow_mut().insert(stream.local_address(), flow.clone());
    if flow.download {
        stream.write_all(&[0; REQUEST]).await?;
        receive(&flow, stream, end).await
    } else {
        send(&flow, stream, DRAIN).await
    }
}

/// Runs the server's end.
async fn serve(
    mut stream: MptcpStream,
    peer: SocketAddr,
    connected: Flows,
    end: Instant,
) -> io::Result<MptcpStream> {
    let flow = loop {
        let flow = connected.borrow().get(&peer).cloned();
        match flow {
            Some(flow) => break flow,
            // The client's task has not run since it connected.
            None => tokio::time::sleep(Duration::from_millis(1)).await,
        }
    };
    if flow.download {
        stream.read_exact(&mut [0; REQUEST]).await?;
        send(&flow, stream, DRAIN).await
    } else {
        receive(&flow, stream, end).await
    }
}

/// Starts the server's ends of the background flows, which are not measured.
///
/// # Errors
/// If a port is in use.
pub(crate) fn serve_background(
    point: &Point,
    host: &Host,
    flows: &mut JoinSet<io::Result<()>>,
) -> io::Result<()> {
    let download = point.is_download();
    for (group, own) in point.experiment().traffic.background.iter().enumerate() {
        let mut listener =
            host.listen(PORT + 1 + group as u16, background_config(point), own.flows as usize)?;
        flows.spawn_local(async move {
            let mut servers = JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await?;
                servers.spawn_local(fill(stream, download));
            }
        });
    }
    Ok(())
}

/// Starts the client's ends of the background flows, to a server with this address.
pub(crate) fn ask_background(
    point: &Point,
    host: &Rc<Host>,
    server: IpAddr,
    begun: Instant,
    flows: &mut JoinSet<io::Result<()>>,
) {
    let download = point.is_download();
    for (group, own) in point.experiment().traffic.background.iter().enumerate() {
        for _ in 0..own.flows {
            let start = begun + Duration::from_nanos(own.start.0);
            let (host, config) = (host.clone(), background_config(point));
            let (local, there) = (client(point, own.path), SocketAddr::new(server, PORT + 1 + group as u16));
            flows.spawn_local(async move {
                tokio::time::sleep_until(start.into()).await;
                let mut stream = host.connect_from(local, there, config).await?;
                if download {
                    stream.write_all(&[0; REQUEST]).await?;
                }
                fill(stream, !download).await
            });
        }
    }
}

/// Writes indefinitely, or reads.
async fn fill(mut stream: MptcpStream, writes: bool) -> io::Result<()> {
    let mut chunk = vec![0; CHUNK];
    loop {
        if writes {
            stream.write_all(&chunk).await?;
        } else if stream.read(&mut chunk).await? == 0 {
            return Ok(());
        }
    }
}

pub(crate) async fn interrupted(cancelled: &AtomicBool) {
    while !cancelled.load(Ordering::Relaxed) {
        tokio::time::sleep(LOOK).await;
    }
}

/// Writes all data, and waits until it is acknowledged, but not longer than `drain` after the last write.
pub(crate) async fn send(flow: &Flow, mut stream: MptcpStream, drain: Duration) -> io::Result<MptcpStream> {
    let _ = flow.sender.set(stream.control());
    if flow.size_known {
        stream.set_flow_size(flow.size);
    }
    let chunk = vec![0; CHUNK];
    let mut left = flow.size.unwrap_or(u64::MAX);
    while left > 0 {
        let n = left.min(CHUNK as u64);
        stream.write_all(&chunk[..n as usize]).await?;
        left -= n;
    }
    stream.shutdown().await?;
    // Losses at the very end concern the sender, not the receiver.
    let _ = tokio::time::timeout(drain, stream.drained()).await;
    Ok(stream)
}

/// Reads to the end; data received after `end` does not count.
pub(crate) async fn receive(flow: &Flow, mut stream: MptcpStream, end: Instant) -> io::Result<MptcpStream> {
    let _ = flow.receiver.set(stream.control());
    let mut chunk = vec![0; CHUNK];
    loop {
        let n = stream.read(&mut chunk).await?;
        let now = Instant::now();
        if n == 0 {
            return Ok(stream);
        }
        if now <= end {
            flow.received.set(flow.received.get() + n as u64);
            if let Some(begun) = flow.begun.get() {
                let mut gap = flow.gap.get();
                gap.delivered(Time(now.duration_since(begun).as_nanos() as u64), flow.received.get());
                flow.gap.set(gap);
            }
            if flow.size == Some(flow.received.get()) {
                flow.complete.set(Some(now));
            }
        }
    }
}

fn measured(point: &Point, flow: &Flow) -> Result<Measured, Trouble> {
    Ok(received(point, flow)?.with(sent(point, flow)?))
}

/// Returns the measurements at the sender of a flow.
///
/// # Errors
/// If it has not connected.
pub(crate) fn sent(point: &Point, flow: &Flow) -> Result<Measured, Trouble> {
    let sender = flow.sender.get().ok_or_else(not_connected)?;
    let subflows = sender.subflow_stats();
    let sum =
        |count: fn(&SubflowCounters) -> u64| subflows.iter().map(|subflow| count(&subflow.counters)).sum();
    let mut measured = Measured {
        segments: sum(|counters| counters.data_segments_sent),
        retransmitted: sum(|counters| counters.segments_retransmitted),
        timeouts: sum(|counters| counters.timeouts),
        ..Measured::default()
    };
    note_subflows(&mut measured, point, &subflows, flow.download);
    Ok(measured)
}

/// Records the RTTs and segment sizes of the sender of a download or an upload.
pub(crate) fn note_subflows(
    measured: &mut Measured,
    point: &Point,
    subflows: &[SubflowStats],
    is_download: bool,
) {
    let paths = point.experiment().paths().len();
    simulated::note_subflows(measured, point, subflows, &|own| {
        let ip = if is_download { own.remote.ip } else { own.local.ip };
        (0..paths).find(|path| client(point, *path) == ip)
    });
}

/// Returns the bytes received over each path.
pub(crate) fn bytes_by_path(point: &Point, subflows: &[SubflowStats], is_download: bool) -> Vec<u64> {
    let mut bytes_by_path = vec![0; point.experiment().paths().len()];
    for subflow in subflows {
        let ip = if is_download { subflow.local.ip } else { subflow.remote.ip };
        let path = (0..bytes_by_path.len()).find(|path| client(point, *path) == ip);
        if let Some(bytes) = path.map(|path| &mut bytes_by_path[path]) {
            *bytes += subflow.counters.bytes_delivered;
        }
    }
    bytes_by_path
}

/// Returns the measurements at the receiver of a flow.
///
/// # Errors
/// If it has not connected.
pub(crate) fn received(point: &Point, flow: &Flow) -> Result<Received, Trouble> {
    let (receiver, begun) = flow.receiver.get().zip(flow.begun.get()).ok_or_else(not_connected)?;
    let bytes_by_path = bytes_by_path(point, &receiver.subflow_stats(), flow.download);
    let time = match flow.size {
        Some(_) => flow.complete.get().map(|at| at.duration_since(begun)),
        None => Some(Duration::from_nanos(point.duration().as_nanos())),
    };
    let time_s = time.map(|time| time.as_secs_f64());
    let longest_gap_s = flow.gap.get().seconds();
    Ok(Received { time_s, delivered: flow.received.get(), bytes_by_path, longest_gap_s })
}

fn not_connected() -> Trouble {
    Trouble::failed("anabranch did not connect")
}

pub(crate) fn quality(report: &EngineReport) -> Quality {
    let micros = |q: f64| {
        let of = |lane: &anabranch_emulate::LaneTotals| lane.lateness.quantile(q).as_nanos() as f64 / 1e3;
        report.lanes.iter().map(of).fold(0.0, f64::max)
    };
    Quality {
        p50_us: micros(0.5),
        p99_us: micros(0.99),
        p999_us: micros(0.999),
        lost: report.lanes.iter().map(|lane| lane.refused).sum(),
    }
}
