//! Transfers in real time with the kernel at both ends.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender as Tell, channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use anabranch_emulate::{EmulateError, Emulation, Options, Report, Role, Tap};
use anabranch_units::Time;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use socket2::Socket;

use crate::background::Background;
use crate::gap::Gap;
use crate::laws;
use crate::measure::{Measured, Part, Quality, Received};
use crate::points::{FlowPlan, Point};
use crate::results::Trouble;
use crate::socket::{LOOK, counters, infos, listener, socket};

/// The port on which the server listens.
pub(crate) const PORT: u16 = 8684;
/// Below the engine's priority, above other programs' priority.
pub(crate) const PRIORITY: i32 = 10;
/// The number of bytes written and read at a time.
pub(crate) const CHUNK: usize = 1 << 18;
/// The interval at which the end of a run is checked.
const STEP: Duration = Duration::from_millis(10);
/// The longest time to wait for the last acknowledgements.
const DRAIN: Duration = Duration::from_secs(5);
/// The same where a path fails.
const DRAIN_AFTER_FAILURE: Duration = Duration::from_millis(300);
/// The longest duration of the handshake.
pub(crate) const CONNECT: Duration = Duration::from_secs(20);
/// The longest time between the acceptance of a connection and the report of its client's port.
const PATIENCE: Duration = Duration::from_secs(1);

/// The defaults of an unpatched kernel, so that they are the same on every machine.
const SETTINGS: &[(&str, &str)] = &[
    ("net/ipv4/tcp_rmem", "4096 131072 33554432"),
    ("net/ipv4/tcp_wmem", "4096 16384 4194304"),
    ("net/ipv4/tcp_no_metrics_save", "1"),
];

/// The length of a download's request, as in the simulator.
pub(crate) const REQUEST: usize = 100;

/// The state shared by both ends of all transfers of a run.
pub(crate) struct Shared<'a> {
    pub point: &'a Point,
    /// The start of the links.
    pub begun: Instant,
    /// The end of infinite flows, and of the time for finite ones.
    pub deadline: Instant,
    /// The start of the last flow.
    last: Instant,
    /// The number of ends of flows that are not done.
    left: AtomicUsize,
    /// Set when an end has failed.
    failed: AtomicBool,
    cancelled: &'a AtomicBool,
    /// Handles of the sending sockets, so that they can be shut down while they wait for space.
    senders: Mutex<Vec<Socket>>,
}

impl<'a> Shared<'a> {
    /// Returns the state of a run with this number of ends; its links have just started.
    pub(crate) fn new(
        point: &'a Point,
        flows: &[Arc<Flow>],
        ends: usize,
        cancelled: &'a AtomicBool,
    ) -> Shared<'a> {
        let begun = Instant::now();
        let last = begun + flows.iter().map(|flow| flow.start).max().unwrap_or_default();
        Shared {
            point,
            begun,
            deadline: last + Duration::from_nanos(point.duration().as_nanos()),
            last,
            left: AtomicUsize::new(ends),
            failed: AtomicBool::new(false),
            cancelled,
            senders: Mutex::default(),
        }
    }

    fn is_over(&self) -> bool {
        self.failed.load(Ordering::Relaxed)
            || self.cancelled.load(Ordering::Relaxed)
            || Instant::now() > self.deadline
    }

    /// True if nothing is left to be measured.
    pub(crate) fn is_done(&self) -> bool {
        self.left.load(Ordering::Relaxed) == 0
            || self.failed.load(Ordering::Relaxed)
            || self.cancelled.load(Ordering::Relaxed)
    }

    /// True if an end has failed, or the run is cancelled.
    pub(crate) fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Relaxed) || self.cancelled.load(Ordering::Relaxed)
    }

    /// True if only one end is not done.
    pub(crate) fn is_last(&self) -> bool {
        self.left.load(Ordering::Relaxed) <= 1
    }

    /// Registers `socket` to be shut down by [`Shared::watch`]. A sending program waits for space without a
    /// time limit: with `SO_SNDTIMEO` it would call again and again, and each call fills the last segment
    /// even if there is no space. (With BBR, a limit of 100 ms let 126 KB into a buffer that accepted 100 KB
    /// without.)
    pub(crate) fn note_sender(&self, socket: &Socket) -> io::Result<()> {
        socket.set_write_timeout(None)?;
        self.senders.lock().unwrap_or_else(PoisonError::into_inner).push(socket.try_clone()?);
        Ok(())
    }

    /// Waits until nothing is left to be measured, and then shuts down the sending sockets.
    fn watch(&self) {
        while !self.is_done() {
            std::thread::sleep(STEP);
        }
        for socket in self.senders.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            let _ = socket.shutdown(Shutdown::Both);
        }
    }

    /// Waits until `until`; false if the run ends before.
    pub(crate) fn wait(&self, until: Instant) -> bool {
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() || self.is_done() {
                return left.is_zero();
            }
            std::thread::sleep(left.min(LOOK));
        }
    }
}

/// One transfer.
pub(crate) struct Flow {
    pub(crate) size: Option<u64>,
    /// Its start relative to the links'.
    pub(crate) start: Duration,
    /// The port of the client's socket.
    pub(crate) port: OnceLock<u16>,
    /// The time at which the client began to connect.
    pub(crate) begun: OnceLock<Instant>,
    /// Set when the sender has read its counters, so that the receiver may end.
    pub(crate) counted: AtomicBool,
}

impl Flow {
    /// Returns the flows of a plan.
    pub(crate) fn of(plan: &[FlowPlan]) -> Vec<Arc<Flow>> {
        let flow = |plan: &FlowPlan| Flow {
            size: plan.size,
            start: plan.start,
            port: OnceLock::new(),
            begun: OnceLock::new(),
            counted: AtomicBool::new(false),
        };
        plan.iter().map(|plan| Arc::new(flow(plan))).collect()
    }
}

/// The role of an end of a transfer. The receiver notifies the sender when it has received everything.
pub(crate) enum Duty {
    Send(Receiver<()>),
    Receive(Tell<()>),
}

/// One end of a transfer.
struct End<'a> {
    shared: &'a Shared<'a>,
    flow: &'a Flow,
    is_client: bool,
}

impl End<'_> {
    fn is_over(&self) -> bool {
        self.flow.counted.load(Ordering::Relaxed) || self.shared.is_over()
    }
}

/// The two hosts of a run.
pub(crate) enum Hosts<'a> {
    /// The kernel at both ends: the sockets of its clients, and its listening socket.
    Kernel { clients: Vec<Socket>, listener: &'a Socket },
    /// The kernel as the client, and another stack as the server.
    KernelClient { clients: Vec<Socket>, server: Box<Stack<'a>> },
    /// The kernel as the server, and another stack as the client.
    KernelServer { listener: &'a Socket, client: Box<Stack<'a>> },
}

/// Another stack: it does its duties, one for each flow, and returns a part for each.
pub(crate) type Stack<'a> = dyn FnOnce(Vec<Duty>) -> Result<Vec<Part>, Trouble> + Send + 'a;

/// Makes the hosts of a run of `point`.
///
/// # Errors
/// Any [`Trouble`]. Without the hosts no run is possible.
pub(crate) fn emulation(point: &Point, run: u32) -> Result<Emulation, Trouble> {
    laws::provide(point.congestion)?;
    let mut settings: Vec<(String, String)> =
        SETTINGS.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    settings.extend_from_slice(&point.kernel.sysctls);
    let options = Options {
        condition: point.condition,
        run,
        settings,
        route: point.kernel.route.clone(),
        mtu: point.kernel.mtu,
        subflows: point.kernel.subflows,
        ..Options::default()
    };
    Emulation::build(&point.scenario, &options).map_err(|error| match error {
        EmulateError::Failed(text) => Trouble::Broken(text),
        other => Trouble::from(other),
    })
}

/// Returns the address of the server at which connections of `point` begin.
pub(crate) fn server(point: &Point, emulation: &Emulation) -> SocketAddr {
    SocketAddr::new(emulation.addresses().of(Role::Server, point.initial()), PORT)
}

/// Returns the kernel's sockets of the clients of `flows`, and notes their ports.
///
/// # Errors
/// If the system does not provide them.
pub(crate) fn clients(
    point: &Point,
    emulation: &Emulation,
    flows: &[Arc<Flow>],
) -> Result<Vec<Socket>, Trouble> {
    let here = SocketAddr::new(emulation.addresses().of(Role::Client, point.initial()), 0);
    let mut clients = Vec::with_capacity(flows.len());
    for flow in flows {
        let client = emulation.namespace(Role::Client).run(|| socket(point, here))??;
        let port = client.local_addr()?.as_socket().map_or(0, |address| address.port());
        let _ = flow.port.set(port);
        clients.push(client);
    }
    Ok(clients)
}

/// Returns the kernel's listening socket.
///
/// # Errors
/// If the system does not provide it.
pub(crate) fn listening(point: &Point, emulation: &Emulation, flows: usize) -> Result<Socket, Trouble> {
    let there = server(point, emulation);
    Ok(emulation.namespace(Role::Server).run(|| listener(point, there, flows))??)
}

/// Runs number `run` of `point`, captured by `tap`. Returns the measurements and the punctuality.
///
/// # Errors
/// Any [`Trouble`].
pub(crate) fn run(
    point: &Point,
    run: u32,
    cancelled: &AtomicBool,
    tap: Option<Tap>,
) -> Result<(Measured, Quality), Trouble> {
    let plan = point.plan(run).map_err(Trouble::failed)?;
    let emulation = emulation(point, run)?;
    let flows = Flow::of(&plan);
    let listener = listening(point, &emulation, flows.len())?;
    let hosts = Hosts::Kernel { clients: clients(point, &emulation, &flows)?, listener: &listener };
    let background = Background::open(point, &emulation, &[Role::Client, Role::Server])?;
    let live = emulation.go_with(tap)?;
    let shared = Shared::new(point, &flows, 2 * flows.len(), cancelled);
    let parts = carry(&shared, &flows, hosts, server(point, &emulation), background);
    let report = live.finish()?;
    if cancelled.load(Ordering::Relaxed) {
        return Err(Trouble::Interrupted);
    }
    Ok((Measured::together(parts?), quality(&report)))
}

/// Runs the transfers; returns the measurements of each.
pub(crate) fn carry(
    shared: &Shared<'_>,
    flows: &[Arc<Flow>],
    hosts: Hosts<'_>,
    there: SocketAddr,
    background: Background,
) -> Result<Vec<Measured>, Trouble> {
    let parts: Mutex<Vec<(usize, Result<Part, Trouble>)>> = Mutex::new(Vec::new());
    let (mut near, mut far) = (Vec::new(), Vec::new());
    for _ in flows {
        let (tell, hear) = channel();
        let (send, receive) = (Duty::Send(hear), Duty::Receive(tell));
        let (client, server) = if shared.point.is_download() { (receive, send) } else { (send, receive) };
        near.push(client);
        far.push(server);
    }
    let note = |number: usize, part: Result<Part, Trouble>| {
        if part.is_err() {
            shared.failed.store(true, Ordering::Relaxed);
        }
        parts.lock().unwrap_or_else(PoisonError::into_inner).push((number, part));
        shared.left.fetch_sub(1, Ordering::Relaxed);
    };
    // The duties of the other stack are one end: its parts come together.
    let note_all = |all: Result<Vec<Part>, Trouble>| {
        let list = match all {
            Ok(list) => list.into_iter().map(Ok).enumerate().collect(),
            Err(error) => {
                shared.failed.store(true, Ordering::Relaxed);
                vec![(0, Err(error))]
            }
        };
        parts.lock().unwrap_or_else(PoisonError::into_inner).extend(list);
        shared.left.fetch_sub(1, Ordering::Relaxed);
    };
    let (note, note_all) = (&note, &note_all);
    std::thread::scope(|scope| {
        let ask_all = |clients: Vec<Socket>, duties: Vec<Duty>| {
            for (number, (socket, duty)) in clients.into_iter().zip(duties).enumerate() {
                scope.spawn(move || {
                    let _ = anabranch_emulate::set_realtime(PRIORITY);
                    let end = End { shared, flow: &flows[number], is_client: true };
                    note(number, ask(&end, &socket, there, duty));
                });
            }
        };
        let serve_all = |listener, duties: Vec<Duty>| {
            let mut duties: Vec<Option<Duty>> = duties.into_iter().map(Some).collect();
            scope.spawn(move || {
                let _ = anabranch_emulate::set_realtime(PRIORITY);
                for _ in flows {
                    let (number, socket) = match accept(shared, flows, listener) {
                        Ok(accepted) => accepted,
                        Err(error) => return note(0, Err(error)),
                    };
                    let Some(duty) = duties[number].take() else { continue };
                    scope.spawn(move || {
                        let _ = anabranch_emulate::set_realtime(PRIORITY);
                        let end = End { shared, flow: &flows[number], is_client: false };
                        note(number, serve(&end, &socket, duty));
                    });
                }
            });
        };
        background.start(scope, shared);
        scope.spawn(|| shared.watch());
        match hosts {
            Hosts::Kernel { clients, listener } => {
                serve_all(listener, far);
                ask_all(clients, near);
            }
            Hosts::KernelClient { clients, server } => {
                scope.spawn(move || note_all(server(far)));
                ask_all(clients, near);
            }
            Hosts::KernelServer { listener, client } => {
                serve_all(listener, far);
                scope.spawn(move || note_all(client(near)));
            }
        }
    });
    let mut measured: Vec<(Option<Measured>, Option<Received>)> = vec![(None, None); flows.len()];
    for (number, part) in parts.into_inner().unwrap_or_else(PoisonError::into_inner) {
        match part? {
            Part::Sent(sent) => measured[number].0 = Some(*sent),
            Part::Received(received) => measured[number].1 = Some(received),
        }
    }
    let both =
        |(sent, received): (Option<Measured>, Option<Received>)| received.zip(sent).map(|(r, s)| r.with(s));
    let all: Option<Vec<Measured>> = measured.into_iter().map(both).collect();
    all.ok_or_else(|| Trouble::failed("an end of a transfer is missing"))
}

/// Accepts the next connection at the server; returns it with the number of its flow.
fn accept(shared: &Shared<'_>, flows: &[Arc<Flow>], listener: &Socket) -> Result<(usize, Socket), Trouble> {
    // The timeouts of a Multipath TCP socket do not apply to `accept`.
    let look = Timespec { tv_sec: 0, tv_nsec: LOOK.as_nanos() as _ };
    while poll(&mut [PollFd::new(listener, PollFlags::IN)], Some(&look)) != Ok(1) {
        if shared.is_over() || Instant::now() > shared.last + CONNECT {
            return Err(Trouble::failed("the kernel's server has accepted no connection"));
        }
    }
    let (socket, peer) = listener.accept()?;
    socket.set_read_timeout(Some(LOOK))?;
    socket.set_write_timeout(Some(LOOK))?;
    let port = peer.as_socket().map(|address| address.port());
    let accepted = Instant::now();
    loop {
        // Another stack's client notes its port when it has connected.
        if let Some(number) = flows.iter().position(|flow| flow.port.get().copied() == port) {
            return Ok((number, socket));
        }
        if shared.is_over() || accepted.elapsed() > PATIENCE {
            return Err(Trouble::failed("an unexpected client has connected"));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Runs the client's end.
fn ask(end: &End<'_>, socket: &Socket, there: SocketAddr, duty: Duty) -> Result<Part, Trouble> {
    end.shared.wait(end.shared.begun + end.flow.start);
    let _ = end.flow.begun.set(Instant::now());
    let failed = |error| Trouble::failed(format!("the kernel's connect: {error}"));
    socket.connect_timeout(&there.into(), CONNECT).map_err(failed)?;
    if end.shared.point.is_download() {
        write(end, socket, REQUEST as u64)?;
    }
    do_duty(end, socket, duty)
}

/// Runs the server's end.
fn serve(end: &End<'_>, mut socket: &Socket, duty: Duty) -> Result<Part, Trouble> {
    if end.shared.point.is_download() {
        let (mut request, mut read) = ([0; REQUEST], 0);
        while read < REQUEST && !end.is_over() {
            match socket.read(&mut request[read..]) {
                Ok(0) => return Err(Trouble::failed("the kernel's client has sent no request")),
                Ok(n) => read += n,
                Err(error) if is_timeout(&error) => {}
                Err(error) => return Err(Trouble::failed(format!("the kernel's server: {error}"))),
            }
        }
    }
    do_duty(end, socket, duty)
}

fn do_duty(end: &End<'_>, socket: &Socket, duty: Duty) -> Result<Part, Trouble> {
    match duty {
        Duty::Send(hear) => {
            let sent = send(end, socket, &hear);
            end.flow.counted.store(true, Ordering::Relaxed);
            // The receiver's end stays open until this one has read its counters.
            drop(hear);
            sent.map(|sent| Part::Sent(Box::new(sent)))
        }
        Duty::Receive(tell) => receive(end, socket, tell).map(Part::Received),
    }
}

/// True if a call only exceeded its time limit.
pub(crate) fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

fn receive(end: &End<'_>, mut socket: &Socket, tell: Tell<()>) -> Result<Received, Trouble> {
    let (point, flow, deadline) = (end.shared.point, end.flow, end.shared.deadline);
    let mut chunk = vec![0; CHUNK];
    let (mut total, mut complete, mut gap) = (0, None, Gap::of_transfer());
    loop {
        match socket.read(&mut chunk) {
            Ok(0) => break,
            Ok(n) => {
                let now = Instant::now();
                if now > deadline {
                    break;
                }
                total += n as u64;
                let since = now.saturating_duration_since(end.shared.begun);
                gap.delivered(Time(since.as_nanos() as u64), total);
                if flow.size == Some(total) {
                    complete = Some(now);
                }
            }
            Err(error) if is_timeout(&error) => {
                if end.is_over() {
                    break;
                }
            }
            Err(error) => return Err(Trouble::failed(format!("the kernel's receiver: {error}"))),
        }
    }
    let begun = flow.begun.get().copied();
    let time = match flow.size {
        Some(_) => complete.zip(begun).map(|(at, begun)| at.duration_since(begun)),
        None => Some(Duration::from_nanos(point.duration().as_nanos())),
    };
    let mut bytes_by_path = vec![0; point.experiment().paths().len()];
    for (path, info) in infos(point, point.sender, socket, end.is_client)?.subflows {
        bytes_by_path[path] += info.bytes_received;
    }
    // The sender reads its counters while this end still exists.
    let _ = tell.send(());
    drop(tell);
    let gone = || flow.counted.load(Ordering::Relaxed) || end.shared.failed.load(Ordering::Relaxed);
    while !gone() && !end.shared.cancelled.load(Ordering::Relaxed) {
        std::thread::sleep(Duration::from_millis(1));
    }
    let _ = socket.set_linger(Some(Duration::ZERO));
    let longest_gap_s = gap.seconds();
    Ok(Received {
        time_s: time.map(|time| time.as_secs_f64()),
        delivered: total,
        bytes_by_path,
        longest_gap_s,
    })
}

/// Writes `left` bytes, or fewer if the run ends before.
fn write(end: &End<'_>, mut socket: &Socket, mut left: u64) -> Result<(), Trouble> {
    let chunk = vec![0; CHUNK.min(left as usize)];
    end.shared.note_sender(socket)?;
    while left > 0 && !end.is_over() {
        // The counters of an infinite transfer are those at its end.
        let remaining = end.shared.deadline.saturating_duration_since(Instant::now());
        socket.set_write_timeout(Some(remaining.max(Duration::from_millis(1))))?;
        match socket.write(&chunk[..left.min(CHUNK as u64) as usize]) {
            Ok(n) => left -= n as u64,
            Err(error) if is_timeout(&error) || end.shared.is_done() => {}
            Err(error) => return Err(Trouble::failed(format!("the kernel's sender: {error}"))),
        }
    }
    Ok(())
}

fn send(end: &End<'_>, socket: &Socket, hear: &Receiver<()>) -> Result<Measured, Trouble> {
    let point = end.shared.point;
    write(end, socket, end.flow.size.unwrap_or(u64::MAX))?;
    if end.flow.size.is_some() {
        let failed = |error| Trouble::failed(format!("the kernel's shutdown: {error}"));
        socket.shutdown(Shutdown::Write).map_err(failed)?;
        loop {
            match hear.recv_timeout(LOOK) {
                Ok(()) | Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) if end.is_over() => break,
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
        drain(end, socket)?;
    }
    let measured = counters(point, point.sender, socket, end.is_client)?;
    let _ = socket.set_linger(Some(Duration::ZERO));
    Ok(measured)
}

/// Returns the longest time to wait for the last acknowledgements: none arrive from a path that has failed.
pub(crate) fn drain_limit(point: &Point) -> Duration {
    let fails = point.experiment().graph.links.iter().any(anabranch_lab::scenario::Link::goes_down);
    if fails { DRAIN_AFTER_FAILURE } else { DRAIN }
}

/// Waits until everything is acknowledged.
fn drain(end: &End<'_>, socket: &Socket) -> Result<(), Trouble> {
    let (begun, limit) = (Instant::now(), drain_limit(end.shared.point));
    while begun.elapsed() < limit && !end.shared.cancelled.load(Ordering::Relaxed) {
        let all = infos(end.shared.point, end.shared.point.sender, socket, end.is_client)?.subflows;
        if all.iter().all(|(_, info)| info.unacked == 0 && info.notsent_bytes == 0) {
            break;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

/// Returns the punctuality of a run.
pub(crate) fn quality(report: &Report) -> Quality {
    let directions = || report.paths.iter().flat_map(|path| [&path.up, &path.down]);
    let worst = |of: fn(&anabranch_emulate::LatenessReport) -> f64| {
        directions().map(|direction| of(&direction.lateness)).fold(0.0, f64::max)
    };
    Quality {
        p50_us: worst(|lateness| lateness.p50_us),
        p99_us: worst(|lateness| lateness.p99_us),
        p999_us: worst(|lateness| lateness.p999_us),
        lost: directions().map(|direction| direction.lost_in_device + direction.refused).sum(),
    }
}
