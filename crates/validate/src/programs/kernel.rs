//! The programs with the kernel's sockets at both ends, a thread for each end.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use anabranch_emulate::{Emulation, Role, Tap};
use anabranch_sim::{End, Program};
use anabranch_units::Time;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use socket2::{Domain, Protocol, Socket, Type};

use super::{COUNT, Clock, Todo, Transport, Work, all_done};
use crate::kernel::{CHUNK, CONNECT, PRIORITY, drain_limit, emulation, is_timeout, quality};
use crate::measure::{Measured, Quality};
use crate::points::{Point, Sender, congestion};
use crate::results::Trouble;
use crate::socket::{LOOK, counters, infos, socket_of};

/// The interval at which a thread looks for the end of a run.
const STEP: Duration = Duration::from_millis(1);

/// Both ends of a flow before the run.
enum Ends {
    Stream { client: Socket, listener: Socket, there: SocketAddr },
    Datagrams { client: Socket, server: Socket },
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
    let works = Work::of(point, run)?;
    let emulation = emulation(point, run)?;
    let ends: Vec<Ends> = works.iter().map(|work| open(point, &emulation, work)).collect::<Result<_, _>>()?;
    let live = emulation.go_with(tap)?;
    let clock = Clock { begun: Instant::now(), cancelled };
    std::thread::scope(|scope| {
        for (work, ends) in works.iter().zip(ends) {
            let (works, clock) = (&works, &clock);
            match ends {
                Ends::Stream { client, listener, there } => {
                    let server = move || serve(point, clock, works, work, &listener);
                    let client = move || ask(point, clock, works, work, &client, there);
                    scope.spawn(|| in_time(server));
                    scope.spawn(|| in_time(client));
                }
                Ends::Datagrams { client, server } => {
                    let (from, to) = if work.is_download() { (server, client) } else { (client, server) };
                    scope.spawn(move || in_time(|| send_datagrams(clock, works, work, &from)));
                    scope.spawn(move || in_time(|| receive_datagrams(point, clock, works, work, &to)));
                }
            }
        }
    });
    let report = live.finish()?;
    if clock.is_cancelled() {
        return Err(Trouble::Interrupted);
    }
    let now = clock.now();
    let measured = works.iter().filter_map(|work| work.measured(now)).collect();
    Ok((Measured::by_class(measured, point.main_class()), quality(&report)))
}

fn in_time(work: impl FnOnce()) {
    // Fails without privileges; the reported lateness shows the effect.
    let _ = anabranch_emulate::set_realtime(PRIORITY);
    work();
}

/// Makes the sockets of a flow.
fn open(point: &Point, emulation: &Emulation, work: &Work) -> Result<Ends, Trouble> {
    let addresses = emulation.addresses();
    let at = |role, port| SocketAddr::new(addresses.of(role, work.path), port);
    let (client, server) = (emulation.namespace(Role::Client), emulation.namespace(Role::Server));
    let Transport::Stream(sender) = work.transport else {
        let bind = |here: SocketAddr, there: SocketAddr| {
            let socket = Socket::new(Domain::for_address(here), Type::DGRAM, Some(Protocol::UDP))?;
            socket.bind(&here.into())?;
            socket.connect(&there.into())?;
            socket.set_read_timeout(Some(LOOK / 10))?;
            std::io::Result::Ok(socket)
        };
        let (near, far) = (at(Role::Client, work.port), at(Role::Server, work.port));
        return Ok(Ends::Datagrams {
            client: client.run(|| bind(near, far))??,
            server: server.run(|| bind(far, near))??,
        });
    };
    let config = &work.spec.client_config;
    let own = match config.congestion.is_coupled() {
        true => "reno",
        false => congestion(config.congestion.name()).map_err(Trouble::Usage)?,
    };
    let there = at(Role::Server, work.port);
    let listener = server.run(|| {
        let socket = socket_of(point, sender, own, there)?;
        socket.listen(1)?;
        std::io::Result::Ok(socket)
    })??;
    let client = client.run(|| socket_of(point, sender, own, at(Role::Client, 0)))??;
    Ok(Ends::Stream { client, listener, there })
}

/// Waits until `at`; false if the run ends before.
fn wait(clock: &Clock<'_>, works: &[Arc<Work>], at: Time) -> bool {
    loop {
        let left = clock.left(at);
        if left.is_zero() {
            return true;
        }
        if clock.is_cancelled() || all_done(works, clock.now()) {
            return false;
        }
        std::thread::sleep(left.min(LOOK));
    }
}

/// Runs the client's end.
fn ask(
    point: &Point,
    clock: &Clock<'_>,
    works: &[Arc<Work>],
    work: &Work,
    socket: &Socket,
    there: SocketAddr,
) {
    if !wait(clock, works, work.spec.start) {
        return;
    }
    let mut todo = Todo::default();
    todo.add(work.begin(clock.now()));
    // Times of the program that pass meanwhile are made up for.
    let limit = CONNECT.min(clock.left(work.until)).max(STEP);
    match socket.connect_timeout(&there.into(), limit) {
        Ok(()) => drive(point, clock, works, work, socket, End::Client, todo),
        Err(_) => work.fail(),
    }
}

/// Runs the server's end.
fn serve(point: &Point, clock: &Clock<'_>, works: &[Arc<Work>], work: &Work, listener: &Socket) {
    // The timeouts of a Multipath TCP socket do not apply to `accept`.
    let look = Timespec { tv_sec: 0, tv_nsec: LOOK.as_nanos() as _ };
    while poll(&mut [PollFd::new(listener, PollFlags::IN)], Some(&look)) != Ok(1) {
        if clock.is_cancelled() || work.is_done(clock.now()) || all_done(works, clock.now()) {
            return;
        }
    }
    match listener.accept() {
        Ok((socket, _)) => drive(point, clock, works, work, &socket, End::Server, Todo::default()),
        Err(_) => work.fail(),
    }
}

/// Runs the program at one end of a connection, and reads its counters.
fn drive(
    point: &Point,
    clock: &Clock<'_>,
    works: &[Arc<Work>],
    work: &Work,
    socket: &Socket,
    end: End,
    todo: Todo,
) {
    let Transport::Stream(sender) = work.transport else { return };
    if work_on(clock, works, work, socket, end, todo).is_err() {
        work.fail();
    }
    let is_client = end == End::Client;
    if work.sends(end) {
        if !work.is_endless() {
            drain(point, sender, socket, is_client);
        }
        // A subflow that begins or ends meanwhile makes the list inconsistent.
        let counters = (0..5).find_map(|_| counters(point, sender, socket, is_client).ok());
        work.count_sender(counters.unwrap_or_default());
    } else {
        let mut bytes = vec![0; point.experiment().paths().len()];
        let infos = (0..5).find_map(|_| infos(point, sender, socket, is_client).ok());
        for (path, info) in infos.into_iter().flat_map(|infos| infos.subflows) {
            bytes[path] += info.bytes_received;
        }
        work.count_receiver(bytes);
    }
    let begun = Instant::now();
    while !work.is_counted() && begun.elapsed() < COUNT + drain_limit(point) && !clock.is_cancelled() {
        std::thread::sleep(STEP);
    }
    let _ = socket.set_linger(Some(Duration::ZERO));
}

/// Runs the program at one end until the flow is done.
fn work_on(
    clock: &Clock<'_>,
    works: &[Arc<Work>],
    work: &Work,
    mut socket: &Socket,
    end: End,
    mut todo: Todo,
) -> std::io::Result<()> {
    debug_assert!(todo.next.is_none() || Program::timed(&work.spec) == end);
    socket.set_nonblocking(true)?;
    let mut chunk = vec![0; CHUNK];
    let mut is_open = true;
    loop {
        let now = clock.now();
        if work.is_done(now) || clock.is_cancelled() || (work.accompanies() && all_done(works, now)) {
            return Ok(());
        }
        todo.continue_at(work, end, now);
        if todo.write > 0 {
            match socket.write(&chunk[..todo.write.min(CHUNK as u64) as usize]) {
                Ok(n) => todo.write -= n as u64,
                Err(error) if is_timeout(&error) => {}
                Err(error) => return Err(error),
            }
        }
        if todo.closes_now() {
            socket.shutdown(Shutdown::Write)?;
        }
        while is_open {
            match socket.read(&mut chunk) {
                Ok(0) => is_open = false,
                Ok(n) => todo.take(work, end, clock.now(), n as u64),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        let mut events = if is_open { PollFlags::IN } else { PollFlags::empty() };
        if todo.write > 0 {
            events |= PollFlags::OUT;
        }
        let until = todo.next.map_or(work.until, |next| next.min(work.until));
        let left = if todo.closes && todo.write == 0 && !todo.has_closed {
            Duration::ZERO
        } else {
            clock.left(until)
        };
        let left = left.min(if is_open { LOOK / 10 } else { STEP });
        let left = Timespec { tv_sec: left.as_secs() as _, tv_nsec: i64::from(left.subsec_nanos()) as _ };
        if events.is_empty() {
            std::thread::sleep(STEP);
        } else if let Err(error) = poll(&mut [PollFd::new(socket, events)], Some(&left))
            && error != rustix::io::Errno::INTR
        {
            return Err(error.into());
        }
    }
}

/// Waits until everything is acknowledged.
fn drain(point: &Point, sender: Sender, socket: &Socket, is_client: bool) {
    let (begun, limit) = (Instant::now(), drain_limit(point));
    while begun.elapsed() < limit {
        let all = infos(point, sender, socket, is_client).map(|infos| infos.subflows).unwrap_or_default();
        if all.iter().all(|(_, info)| info.unacked == 0 && info.notsent_bytes == 0) {
            break;
        }
        std::thread::sleep(STEP);
    }
}

fn send_datagrams(clock: &Clock<'_>, works: &[Arc<Work>], work: &Work, mut socket: &Socket) {
    let mut next = Some(work.spec.start);
    let mut payload = vec![0; work.payload() as usize];
    work.begin_datagrams(work.spec.start);
    while let Some(at) = next {
        if !wait(clock, works, at) {
            break;
        }
        let (number, then) = work.datagram(at, clock.now());
        next = then;
        if let Some(number) = number {
            payload[..4].copy_from_slice(&(number as u32).to_be_bytes());
            // A full queue of the device drops it.
            let _ = socket.write(&payload);
        } else {
            work.fail();
        }
        if work.is_done(clock.now()) {
            break;
        }
    }
    work.count_sender(Measured::default());
}

fn receive_datagrams(
    point: &Point,
    clock: &Clock<'_>,
    works: &[Arc<Work>],
    work: &Work,
    mut socket: &Socket,
) {
    let mut payload = vec![0; work.payload() as usize + 1];
    while !work.is_done(clock.now()) && !clock.is_cancelled() && !all_done(works, clock.now()) {
        match socket.read(&mut payload) {
            Ok(n) if n >= 4 => {
                let number = u32::from_be_bytes([payload[0], payload[1], payload[2], payload[3]]);
                work.datagram_received(clock.now(), u64::from(number));
            }
            Err(error) if !is_timeout(&error) => break,
            _ => {}
        }
    }
    let mut bytes = vec![0; point.experiment().paths().len()];
    bytes[work.path] = work.state().received;
    work.count_receiver(bytes);
}
