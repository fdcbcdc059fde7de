//! A transfer in real time with the kernel at both ends.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender as Tell, channel};
use std::time::{Duration, Instant};

use anabranch_emulate::{Emulation, Options, Report, Role};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use socket2::{Domain, Protocol, Socket, Type};

use crate::anabranch::PRIORITY;
use crate::measure::{Measured, Quality};
use crate::points::{Point, Sender};
use crate::results::Trouble;
use crate::tcp_info::{self, TcpInfo};

/// Where the server listens.
pub const PORT: u16 = 7000;
/// How much is written and read at a time, in bytes.
pub const CHUNK: usize = 1 << 18;
/// How often somebody who waits looks whether to stop.
pub const LOOK: Duration = Duration::from_millis(100);
/// How long the last acknowledgements may take.
const DRAIN: Duration = Duration::from_secs(5);
/// How long the handshake may take.
const CONNECT: Duration = Duration::from_secs(20);

/// What a kernel of kernel.org has, so that it is the same on every machine.
const SETTINGS: &[(&str, &str)] = &[
    ("net/ipv4/tcp_rmem", "4096 131072 33554432"),
    ("net/ipv4/tcp_wmem", "4096 16384 4194304"),
    ("net/ipv4/tcp_no_metrics_save", "1"),
];

/// One end's part of a transfer.
struct End<'a> {
    point: &'a Point,
    begun: Instant,
    deadline: Instant,
    received: &'a AtomicU64,
    /// Set when the other end, or the user, has the transfer stop.
    stop: &'a AtomicBool,
    cancelled: &'a AtomicBool,
}

impl End<'_> {
    fn is_over(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
            || self.cancelled.load(Ordering::Relaxed)
            || Instant::now() > self.deadline
    }
}

/// Carries out run number `run` of `point`. What was measured, and how punctual it was.
///
/// # Errors
/// What has gone wrong.
pub fn run(point: &Point, run: u32, cancelled: &AtomicBool) -> Result<(Measured, Quality), Trouble> {
    let settings = SETTINGS.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    let options = Options { condition: point.condition, run, settings, ..Options::default() };
    let emulation = Emulation::build(&point.scenario, &options)?;
    let addresses = emulation.addresses();
    let at = |role| SocketAddr::new(IpAddr::V4(addresses.kernel(role, point.initial())), 0);
    let (here, mut there) = (at(Role::Client), at(Role::Server));
    there.set_port(PORT);
    let listener = emulation.namespace(Role::Server).run(|| listener(point, there))??;
    let client = emulation.namespace(Role::Client).run(|| socket(point, here))??;
    let live = emulation.go()?;
    let (received, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    let begun = Instant::now();
    let end = End {
        point,
        begun,
        deadline: begun + Duration::from_nanos(point.duration().as_nanos()),
        received: &received,
        stop: &stop,
        cancelled,
    };
    let (tell, hear) = channel();
    let (sent, received) = std::thread::scope(|scope| {
        let send = scope.spawn(|| {
            let _ = anabranch_emulate::set_realtime(PRIORITY);
            let sent = send(&end, &client, there, &hear);
            stop.store(true, Ordering::Relaxed);
            // The receiver's end stays open for as long as this one counts.
            drop(hear);
            sent
        });
        let receive = scope.spawn(|| {
            let _ = anabranch_emulate::set_realtime(PRIORITY);
            receive(&end, &listener, tell)
        });
        (send.join(), receive.join())
    });
    let panicked = || Trouble::failed("a thread has panicked");
    let (sent, received) = (sent.map_err(|_| panicked()), received.map_err(|_| panicked()));
    let report = live.finish()?;
    if cancelled.load(Ordering::Relaxed) {
        return Err(Trouble::Interrupted);
    }
    let (mut measured, received) = (sent??, received??);
    measured.bytes_by_path = received.bytes_by_path;
    measured.delivered = received.delivered;
    measured.time_s = received.time_s;
    Ok((measured, quality(&report)))
}

fn socket(point: &Point, here: SocketAddr) -> io::Result<Socket> {
    let protocol = match point.sender {
        Sender::Tcp { .. } => Protocol::TCP,
        Sender::Multipath => Protocol::MPTCP,
    };
    let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(protocol))?;
    // As root any that there is may be chosen; all subflows have it.
    socket.set_tcp_congestion(point.congestion.as_bytes())?;
    socket.set_reuse_address(true)?;
    socket.bind(&here.into())?;
    socket.set_read_timeout(Some(LOOK))?;
    socket.set_write_timeout(Some(LOOK))?;
    Ok(socket)
}

fn listener(point: &Point, there: SocketAddr) -> io::Result<Socket> {
    let socket = socket(point, there)?;
    socket.listen(1)?;
    Ok(socket)
}

/// Whether a call has only not been done in the time it had.
fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

/// What the receiver has come to.
#[derive(Default)]
struct Received {
    time_s: Option<f64>,
    delivered: u64,
    bytes_by_path: Vec<u64>,
}

fn receive(end: &End<'_>, listener: &Socket, tell: Tell<()>) -> Result<Received, Trouble> {
    // The time limits of a socket of Multipath TCP do not hold for `accept`.
    let look = Timespec { tv_sec: 0, tv_nsec: LOOK.as_nanos() as _ };
    while poll(&mut [PollFd::new(listener, PollFlags::IN)], Some(&look)) != Ok(1) {
        if end.is_over() || end.begun.elapsed() > CONNECT {
            return Err(Trouble::failed("the kernel's server has accepted nobody"));
        }
    }
    let (socket, _) = listener.accept()?;
    socket.set_read_timeout(Some(LOOK))?;
    let mut chunk = vec![0; CHUNK];
    let (mut total, mut complete) = (0, None);
    loop {
        match (&socket).read(&mut chunk) {
            Ok(0) => break,
            Ok(n) => {
                let now = Instant::now();
                if now > end.deadline {
                    break;
                }
                total += n as u64;
                end.received.store(total, Ordering::Relaxed);
                if end.point.size() == Some(total) {
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
    let time = match end.point.size() {
        Some(_) => complete.map(|at| at.duration_since(end.begun)),
        None => Some(end.deadline.duration_since(end.begun)),
    };
    let mut bytes_by_path = vec![0; end.point.experiment().paths.len()];
    // Subflows are told apart by the client's address, which is the other end here.
    for (path, info) in infos(end.point, &socket, false)? {
        bytes_by_path[path] += info.bytes_received;
    }
    // The sender reads its counters while this end is still there.
    let _ = tell.send(());
    drop(tell);
    while !end.stop.load(Ordering::Relaxed) && !end.cancelled.load(Ordering::Relaxed) {
        std::thread::sleep(Duration::from_millis(1));
    }
    let _ = socket.set_linger(Some(Duration::ZERO));
    Ok(Received { time_s: time.map(|time| time.as_secs_f64()), delivered: total, bytes_by_path })
}

/// What the kernel says of each subflow, with the position of its path.
fn infos(point: &Point, socket: &Socket, own: bool) -> Result<Vec<(usize, TcpInfo)>, Trouble> {
    let failed = |error: io::Error| Trouble::failed(format!("the kernel's counters: {error}"));
    match point.sender {
        Sender::Tcp { path } => Ok(vec![(path, tcp_info::of_tcp(socket).map_err(failed)?)]),
        Sender::Multipath => {
            let all = tcp_info::of_mptcp(socket).map_err(failed)?;
            let path = |here: std::net::Ipv4Addr, there: std::net::Ipv4Addr| {
                usize::from(if own { here } else { there }.octets()[2]).saturating_sub(1)
            };
            let all = all.into_iter().map(|(here, there, info)| (path(here, there), info));
            Ok(all.filter(|(path, _)| *path < point.experiment().paths.len()).collect())
        }
    }
}

fn send(
    end: &End<'_>,
    mut socket: &Socket,
    there: SocketAddr,
    hear: &Receiver<()>,
) -> Result<Measured, Trouble> {
    let failed = |what: &str, error: io::Error| Trouble::failed(format!("the kernel's {what}: {error}"));
    socket.connect_timeout(&there.into(), CONNECT).map_err(|error| failed("connect", error))?;
    let chunk = vec![0; CHUNK];
    let mut left = end.point.size().unwrap_or(u64::MAX);
    while left > 0 && !end.is_over() {
        // The counters of a transfer without a size are those at its end.
        let remaining = end.deadline.saturating_duration_since(Instant::now());
        socket.set_write_timeout(Some(remaining.clamp(Duration::from_millis(1), LOOK)))?;
        match socket.write(&chunk[..left.min(CHUNK as u64) as usize]) {
            Ok(n) => left -= n as u64,
            Err(error) if is_timeout(&error) => {}
            Err(error) => return Err(failed("sender", error)),
        }
    }
    if end.point.size().is_some() {
        socket.shutdown(Shutdown::Write).map_err(|error| failed("shutdown", error))?;
        loop {
            match hear.recv_timeout(LOOK) {
                Ok(()) | Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) if end.is_over() => break,
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
        drain(end, socket)?;
    }
    let all = infos(end.point, socket, true)?;
    let _ = socket.set_linger(Some(Duration::ZERO));
    let paths = end.point.experiment().paths.len();
    let sum = |count: fn(&TcpInfo) -> u64| all.iter().map(|(_, info)| count(info)).sum();
    let mut measured = Measured {
        segments: sum(|info| u64::from(info.data_segs_out)),
        retransmitted: sum(|info| u64::from(info.total_retrans)),
        timeouts: sum(|info| u64::from(info.total_rto)),
        srtt_s: vec![None; paths],
        mss: vec![0; paths],
        ..Measured::default()
    };
    for (path, info) in &all {
        measured.srtt_s[*path] = (info.rtt_us > 0).then(|| f64::from(info.rtt_us) / 1e6);
        measured.mss[*path] = info.snd_mss;
    }
    Ok(measured)
}

/// Waits until everything is acknowledged.
fn drain(end: &End<'_>, socket: &Socket) -> Result<(), Trouble> {
    let begun = Instant::now();
    while begun.elapsed() < DRAIN && !end.cancelled.load(Ordering::Relaxed) {
        let all = infos(end.point, socket, true)?;
        if all.iter().all(|(_, info)| info.unacked == 0 && info.notsent_bytes == 0) {
            break;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

fn quality(report: &Report) -> Quality {
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
