//! Transfers in real time with the kernel at one end and anabranch at the other.
//!
//! The kernel has the namespace of its host; the other host is one of `anabranch-net` in this process, at the
//! same links and with the addresses that the kernel would have there.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender as Tell;
use std::time::{Duration, Instant};
use std::{future, io};

use anabranch_emulate::{PacketSocket, Port, Role, socket_pair};
use anabranch_net::{Host, MptcpListener, MptcpStream};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::{JoinSet, LocalSet};

use crate::anabranch::{self, Bundle, HEADERS};
use crate::background::Background;
use crate::kernel::{self, Duty, Flow, Hosts, PORT, REQUEST, Shared};
use crate::knobs::full_segment;
use crate::measure::{Measured, Part, Quality};
use crate::points::{KernelEnd, Point};
use crate::results::Trouble;

/// The interval at which this end looks for the end of the other.
const STEP: Duration = Duration::from_millis(1);

/// Runs number `run` of `point` with the kernel at the end `end`. Returns the measurements and the punctuality.
///
/// # Errors
/// Any [`Trouble`].
pub(crate) fn run(
    point: &Point,
    end: KernelEnd,
    run: u32,
    cancelled: &AtomicBool,
) -> Result<(Measured, Quality), Trouble> {
    let plan = point.plan(run).map_err(Trouble::failed)?;
    let emulation = kernel::emulation(point, run)?;
    let is_client = point.is_download() == (end == KernelEnd::Receiver);
    let there = kernel::server(point, &emulation);
    let flows = Flow::of(&plan);
    let (role, other) = if is_client { (Role::Client, Role::Server) } else { (Role::Server, Role::Client) };
    let background = Background::open(point, &emulation, &[role])?;
    let (mut ports, mut devices): (Vec<Port>, Vec<OwnedFd>) = (Vec::new(), Vec::new());
    // Until the links have stopped: a packet to a closed socket would count as lost.
    let mut kept = Vec::new();
    for _ in point.experiment().paths() {
        let (port, device) = socket_pair()?;
        ports.push(port);
        kept.push(device.try_clone()?);
        devices.push(device);
    }
    let (clients, listener) = match role {
        Role::Client => (kernel::clients(point, &emulation, &flows)?, None),
        Role::Server => (Vec::new(), Some(kernel::listening(point, &emulation, flows.len())?)),
    };
    let live = emulation.go_without(other, ports)?;
    // The other stack is one more.
    let shared = Shared::new(point, &flows, flows.len() + 1, cancelled);
    let stack = |duties: Vec<Duty>| {
        // Fails without privileges; the reported lateness shows the effect.
        let _ = anabranch_emulate::set_realtime(kernel::PRIORITY);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let work = transfers(&shared, &flows, devices, other, there, duties);
        runtime.block_on(LocalSet::new().run_until(work))
    };
    let hosts = match &listener {
        None => Hosts::KernelClient { clients, server: Box::new(stack) },
        Some(listener) => Hosts::KernelServer { listener, client: Box::new(stack) },
    };
    let parts = kernel::carry(&shared, &flows, hosts, there, background);
    let report = live.finish()?;
    drop(kept);
    if cancelled.load(Ordering::Relaxed) {
        return Err(Trouble::Interrupted);
    }
    let mut measured = Measured::together(parts?);
    if end == KernelEnd::Sender {
        // The kernel's value includes the options of Multipath TCP.
        let most = full_segment(point.config(), point.experiment().ipv6);
        measured.mss.iter_mut().for_each(|mss| *mss = most.min(*mss));
    }
    Ok((measured, kernel::quality(&report)))
}

/// One end of a transfer: the state that both stacks share, and the state of this stack.
struct End {
    flow: Arc<Flow>,
    own: anabranch::Flow,
    /// To notify the kernel's sender, if this is the receiver.
    tell: Option<Tell<()>>,
    is_download: bool,
    deadline: Instant,
}

impl End {
    /// Sends or receives the data.
    async fn work(&self, stream: MptcpStream) -> io::Result<MptcpStream> {
        match &self.tell {
            None => {
                // The counters of this end are read when it is done: that must not be before the last byte has arrived.
                let left = self.deadline.saturating_duration_since(Instant::now());
                let stream = anabranch::send(&self.own, stream, left).await?;
                self.flow.counted.store(true, Ordering::Relaxed);
                Ok(stream)
            }
            Some(tell) => {
                let stream = anabranch::receive(&self.own, stream, self.deadline).await?;
                let _ = tell.send(());
                Ok(stream)
            }
        }
    }
}

/// Does the duties of one host; returns a part for each.
async fn transfers(
    shared: &Shared<'_>,
    flows: &[Arc<Flow>],
    devices: Vec<OwnedFd>,
    role: Role,
    there: SocketAddr,
    duties: Vec<Duty>,
) -> Result<Vec<Part>, Trouble> {
    let point = shared.point;
    let mtu = point.config().mss + HEADERS[usize::from(point.experiment().ipv6)];
    let devices = devices.into_iter().map(|device| PacketSocket::new(device, mtu));
    let devices: Vec<PacketSocket> = devices.collect::<io::Result<_>>()?;
    let end = |(flow, duty): (&Arc<Flow>, Duty)| {
        let own = anabranch::Flow::new(point, flow.size);
        let tell = match duty {
            Duty::Send(_) => None,
            Duty::Receive(tell) => Some(tell),
        };
        let is_download = point.is_download();
        Rc::new(End { flow: flow.clone(), own, tell, is_download, deadline: shared.deadline })
    };
    let ends: Vec<Rc<End>> = flows.iter().zip(duties).map(end).collect();
    let mut tasks: JoinSet<io::Result<MptcpStream>> = JoinSet::new();
    let mut background = JoinSet::new();
    let (host, mut listener) = match role {
        Role::Client => (Rc::new(anabranch::client_host(point, devices)?), None),
        Role::Server => {
            let host = anabranch::host_builder().device(Bundle(devices), &[there.ip()]).start()?;
            let listener = host.listen(PORT, point.config().clone(), ends.len())?;
            anabranch::serve_background(point, &host, &mut background)?;
            (Rc::new(host), Some(listener))
        }
    };
    if role == Role::Client {
        anabranch::ask_background(point, &host, there.ip(), shared.begun, &mut background);
        for end in &ends {
            tasks.spawn_local(ask(shared.begun, end.clone(), point.clone(), host.clone(), there));
        }
    }
    let all = async {
        let mut waiting = if listener.is_some() { ends.len() } else { 0 };
        let mut streams = Vec::new();
        while waiting > 0 || !tasks.is_empty() {
            tokio::select! {
                accepted = accept(&mut listener), if waiting > 0 => {
                    let (stream, peer) = accepted?;
                    waiting -= 1;
                    let port = |end: &&Rc<End>| end.flow.port.get() == Some(&peer.port());
                    let end = ends.iter().find(port).cloned();
                    tasks.spawn_local(serve(end, stream));
                }
                Some(ended) = tasks.join_next() => streams.push(ended.map_err(io::Error::other)??),
            }
        }
        io::Result::Ok(streams)
    };
    tokio::pin!(all);
    // The streams are kept until the counters are read.
    let _streams = tokio::select! {
        streams = &mut all => Some(streams?),
        () = tokio::time::sleep_until(shared.deadline.into()) => None,
        () = ended(shared, true) => return Err(Trouble::failed("the other end has failed")),
    };
    let part = |end: &Rc<End>| {
        end.own.begun.set(end.flow.begun.get().copied());
        match end.tell {
            None => anabranch::sent(point, &end.own).map(|sent| Part::Sent(Box::new(sent))),
            Some(_) => anabranch::received(point, &end.own).map(Part::Received),
        }
    };
    let parts: Result<Vec<Part>, Trouble> = ends.iter().map(part).collect();
    let parts = parts.and_then(|parts| anabranch::had_memory(&host).map(|()| parts));
    ends.iter().for_each(|end| end.flow.counted.store(true, Ordering::Relaxed));
    // The host resets its connections when it is dropped, so it is kept until the kernel has its counters.
    if parts.is_ok() {
        ended(shared, false).await;
    }
    parts
}

/// Waits until the run has failed or is cancelled; unless `failed_only`, also until the other end is done.
async fn ended(shared: &Shared<'_>, failed_only: bool) {
    while !shared.has_failed() && (failed_only || !shared.is_last()) {
        tokio::time::sleep(STEP).await;
    }
}

/// Accepts a connection, if this is the server.
async fn accept(listener: &mut Option<MptcpListener>) -> io::Result<(MptcpStream, SocketAddr)> {
    match listener {
        Some(listener) => listener.accept().await,
        None => future::pending().await,
    }
}

/// Runs the client's end.
async fn ask(
    begun: Instant,
    end: Rc<End>,
    point: Point,
    host: Rc<Host>,
    there: SocketAddr,
) -> io::Result<MptcpStream> {
    tokio::time::sleep_until((begun + end.flow.start).into()).await;
    let _ = end.flow.begun.set(Instant::now());
    let local = anabranch::client(&point, point.initial());
    let mut stream = host.connect_from(local, there, point.config().clone()).await?;
    let _ = end.flow.port.set(stream.local_address().port());
    if point.is_download() {
        stream.write_all(&[0; REQUEST]).await?;
    }
    end.work(stream).await
}

/// Runs the server's end.
async fn serve(end: Option<Rc<End>>, mut stream: MptcpStream) -> io::Result<MptcpStream> {
    let end = end.ok_or_else(|| io::Error::other("an unexpected client has connected"))?;
    if end.is_download {
        stream.read_exact(&mut [0; REQUEST]).await?;
    }
    end.work(stream).await
}
