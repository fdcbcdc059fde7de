//! A transfer in real time with anabranch at both ends.
//!
//! Two hosts of `anabranch-net` stand at the two sides of an engine, without the kernel's network in between. Addresses
//! are those of the kernel's transfer: 10.0.n.1 on path n for the client, and one for the server; the client's address
//! decides which path a packet takes, both ways, as in the simulator.

use std::cell::{Cell, OnceCell};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use anabranch_emulate::{Engine, EngineOptions, EngineReport, PacketSocket, Wiring};
use anabranch_lab::run::topology;
use anabranch_net::device::{Capabilities, Device, Packet};
use anabranch_net::{Host, MptcpStream, StreamControl};
use anabranch_stack::stats::SubflowCounters;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::kernel::{CHUNK, LOOK, PORT};
use crate::measure::{Measured, Quality};
use crate::points::Point;
use crate::results::Trouble;
use crate::simulated;

/// Headers and options before the payload of a full segment, as a host of `anabranch-net` reckons.
const HEADERS: u32 = 80;
/// Below the engine's, above other programs'.
pub const PRIORITY: i32 = 10;
/// How long the last acknowledgements may take.
const DRAIN: Duration = Duration::from_secs(5);

const SERVER: Ipv4Addr = Ipv4Addr::new(10, 1, 1, 1);

fn client(path: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, path as u8 + 1, 1)
}

/// The server's devices, of which it takes the one that leads to the client's address.
struct Bundle(Vec<PacketSocket>);

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
        // The third byte of the destination is the path's number.
        let path = packet.bytes().get(18).map_or(0, |number| usize::from(*number).saturating_sub(1));
        match self.0.get_mut(path) {
            Some(device) => device.poll_send(cx, packet),
            None => Poll::Ready(Ok(())),
        }
    }
}

/// Carries out run number `run` of `point`. What was measured, and how punctual it was.
///
/// # Errors
/// What has gone wrong.
pub fn run(point: &Point, run: u32, cancelled: &AtomicBool) -> Result<(Measured, Quality), Trouble> {
    std::thread::scope(|scope| {
        let work = || {
            // Refused without privileges, and then the lateness tells.
            let _ = anabranch_emulate::set_realtime(PRIORITY);
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(transfer(point, run, cancelled))
        };
        scope.spawn(work).join().unwrap_or_else(|_| Err(Trouble::failed("a thread has panicked")))
    })
}

/// What the two ends have come to so far.
#[derive(Default)]
struct Progress {
    sender: OnceCell<StreamControl>,
    receiver: OnceCell<StreamControl>,
    received: Cell<u64>,
    complete: Cell<Option<Instant>>,
}

async fn transfer(point: &Point, run: u32, cancelled: &AtomicBool) -> Result<(Measured, Quality), Trouble> {
    let experiment = point.experiment();
    let seed = point.scenario.run_seed(run);
    let topology = topology(experiment, seed).map_err(Trouble::failed)?;
    let config = point.config().clone();
    let mtu = config.mss + HEADERS;
    let (mut near, mut far) = ((Vec::new(), Vec::new()), (Vec::new(), Vec::new()));
    for _ in &experiment.paths {
        for side in [&mut near, &mut far] {
            let (port, device) = PacketSocket::pair(mtu)?;
            side.0.push(port);
            side.1.push(device);
        }
    }
    let options = EngineOptions { seed, ..EngineOptions::default() };
    let engine = Engine::start(Wiring::new(&topology, near.0, far.0), &options)?;
    let mut builder = Host::builder();
    for (path, device) in near.1.into_iter().enumerate() {
        let ip = IpAddr::V4(client(path));
        builder = builder.device(device, &[ip]);
        if experiment.paths[path].backup {
            builder = builder.backup(ip);
        }
    }
    let client_host = builder.start()?;
    let server_host = Host::builder().device(Bundle(far.1), &[IpAddr::V4(SERVER)]).start()?;
    let mut listener = server_host.listen(PORT, config.clone(), 1)?;
    let begun = Instant::now();
    let end = begun + Duration::from_nanos(point.duration().as_nanos());
    let progress = Progress::default();
    let both = async {
        let send = async {
            let there = SocketAddr::new(IpAddr::V4(SERVER), PORT);
            let local = IpAddr::V4(client(point.initial()));
            let stream = client_host.connect_from(local, there, config).await?;
            let _ = progress.sender.set(stream.control());
            send(point, stream).await
        };
        let receive = async {
            let (stream, _) = listener.accept().await?;
            let _ = progress.receiver.set(stream.control());
            receive(point, stream, end, &progress).await
        };
        tokio::try_join!(send, receive)
    };
    tokio::pin!(both);
    // The streams live until the counters were read.
    let _streams = tokio::select! {
        streams = &mut both => Some(streams?),
        () = tokio::time::sleep_until(end.into()) => None,
        () = interrupted(cancelled) => return Err(Trouble::Interrupted),
    };
    let measured = measured(point, begun, &progress)?;
    Ok((measured, quality(&engine.stop()?)))
}

async fn interrupted(cancelled: &AtomicBool) {
    while !cancelled.load(Ordering::Relaxed) {
        tokio::time::sleep(LOOK).await;
    }
}

/// Writes what there is to send, and waits until it is acknowledged.
async fn send(point: &Point, mut stream: MptcpStream) -> io::Result<MptcpStream> {
    if point.experiment().traffic.size_known {
        stream.set_flow_size(point.size());
    }
    let chunk = vec![0; CHUNK];
    let mut left = point.size().unwrap_or(u64::MAX);
    while left > 0 {
        let n = left.min(CHUNK as u64);
        stream.write_all(&chunk[..n as usize]).await?;
        left -= n;
    }
    stream.shutdown().await?;
    // What is lost at the very end is the sender's affair, and not the receiver's.
    let _ = tokio::time::timeout(DRAIN, stream.drained()).await;
    Ok(stream)
}

/// Reads to the end; what comes after `end` does not count.
async fn receive(
    point: &Point,
    mut stream: MptcpStream,
    end: Instant,
    progress: &Progress,
) -> io::Result<MptcpStream> {
    let mut chunk = vec![0; CHUNK];
    loop {
        let n = stream.read(&mut chunk).await?;
        let now = Instant::now();
        if n == 0 {
            return Ok(stream);
        }
        if now <= end {
            progress.received.set(progress.received.get() + n as u64);
            if point.size() == Some(progress.received.get()) {
                progress.complete.set(Some(now));
            }
        }
    }
}

fn measured(point: &Point, begun: Instant, progress: &Progress) -> Result<Measured, Trouble> {
    let (Some(sender), Some(receiver)) = (progress.sender.get(), progress.receiver.get()) else {
        return Err(Trouble::failed("anabranch has not connected"));
    };
    let subflows = sender.subflow_stats();
    let sum =
        |count: fn(&SubflowCounters) -> u64| subflows.iter().map(|subflow| count(&subflow.counters)).sum();
    let mut bytes_by_path = vec![0; point.experiment().paths.len()];
    for subflow in receiver.subflow_stats() {
        let path = (0..bytes_by_path.len()).find(|path| IpAddr::V4(client(*path)) == subflow.remote.ip);
        if let Some(bytes) = path.map(|path| &mut bytes_by_path[path]) {
            *bytes += subflow.counters.bytes_delivered;
        }
    }
    let time = match point.size() {
        Some(_) => progress.complete.get().map(|at| at.duration_since(begun)),
        None => Some(Duration::from_nanos(point.duration().as_nanos())),
    };
    let mut measured = Measured {
        time_s: time.map(|time| time.as_secs_f64()),
        delivered: progress.received.get(),
        segments: sum(|counters| counters.data_segments_sent),
        retransmitted: sum(|counters| counters.segments_retransmitted),
        timeouts: sum(|counters| counters.timeouts),
        bytes_by_path,
        ..Measured::default()
    };
    simulated::note_subflows(&mut measured, point, &subflows);
    Ok(measured)
}

fn quality(report: &EngineReport) -> Quality {
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
