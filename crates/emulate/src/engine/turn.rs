//! The loop of the engine's thread: forwards packets that are due, reads received ones, and sleeps until the
//! next is due.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering;

use anabranch_link::{DropReason, Label, Link, Middlebox, Polled, Pushed, Tally};
use anabranch_units::{Duration, Time};
use anabranch_wire::{Crossed, apply, cross, label, too_big};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime,
};

use super::pool::Pool;
use super::{Clock, EngineOptions, EngineReport, LaneTotals, LinkTotals, MiddleboxTotals, Stop};
use crate::tap::Tap;
use crate::wiring::{Lane, Placed, Port, Wiring, WiringError};

/// The number of packets read from one port before the next one's turn.
const BATCH: usize = 32;
/// The number of buffers allocated at the start.
const READY: usize = 1024;
/// The largest number of router answers in flight; more are discarded.
const MOST_ANSWERS: usize = 256;
/// A shorter sleep is not worth its system calls.
const SHORTEST_SLEEP: Duration = Duration::from_micros(3);

/// A packet in flight: its buffer, its lane, and the number of links it has crossed.
#[derive(Clone, Copy, Debug)]
struct Ticket {
    packet: u32,
    lane: u16,
    hop: u16,
}

/// The state of the thread, without the ports.
#[derive(Debug)]
pub(super) struct State {
    clock: Clock,
    spin: Duration,
    links: Vec<Link<Ticket>>,
    names: Vec<String>,
    found: Vec<Tally>,
    lanes: Vec<Lane>,
    totals: Vec<LaneTotals>,
    /// The lane that begins at each port.
    begins: Vec<Option<u16>>,
    pool: Pool,
    middleboxes: Vec<(Placed, Middlebox)>,
    /// The links' time, which never runs backwards.
    now: Time,
    /// Answers of routers to senders: the time, a sequence number, the port, and the packet.
    answers: BTreeMap<(Time, u64), (usize, Vec<u8>)>,
    answered: u64,
    tap: Option<Tap>,
}

/// An end of a link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum End {
    Entrance,
    Exit,
}

/// The result of reading a port.
enum Read {
    Some,
    Empty,
    Closed,
}

impl State {
    pub(super) fn new(
        wiring: &Wiring,
        options: &EngineOptions,
        tap: Option<Tap>,
    ) -> Result<State, WiringError> {
        wiring.check()?;
        let mut links = Vec::with_capacity(wiring.links.len());
        for (name, config) in &wiring.links {
            let link = Link::new(name, options.seed, config.clone());
            links.push(link.map_err(|error| WiringError::Link(name.clone(), error))?);
        }
        let mut begins = vec![None; wiring.ports.len()];
        for (number, lane) in wiring.lanes.iter().enumerate() {
            begins[lane.from] = Some(number as u16);
        }
        Ok(State {
            clock: Clock::start(),
            spin: options.spin,
            found: vec![Tally::default(); links.len()],
            links,
            names: wiring.links.iter().map(|(name, _)| name.clone()).collect(),
            lanes: wiring.lanes.clone(),
            totals: wiring.lanes.iter().map(|_| LaneTotals::default()).collect(),
            begins,
            pool: Pool::new(options.max_packet, READY),
            middleboxes: wiring
                .middleboxes
                .iter()
                .map(|placed| (placed.clone(), Middlebox::new(placed.config)))
                .collect(),
            now: Time::ZERO,
            answers: BTreeMap::new(),
            answered: 0,
            tap,
        })
    }

    /// Moves packets until `stop` is signalled; returns the time it ran.
    pub(super) fn run(&mut self, ports: &[Port], stop: &Stop) -> io::Result<Duration> {
        let timer =
            timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK)?;
        let mut wait = vec![PollFd::new(&timer, PollFlags::IN), PollFd::new(&stop.event, PollFlags::IN)];
        wait.extend(ports.iter().map(|port| PollFd::new(&port.0, PollFlags::IN)));
        // All ports are read first.
        let mut ready = vec![true; ports.len()];
        let mut closed = vec![false; ports.len()];
        self.clock = Clock::start();
        while !stop.flag.load(Ordering::Acquire) {
            let mut more = false;
            for port in 0..ports.len() {
                if !ready[port] || closed[port] {
                    continue;
                }
                for _ in 0..BATCH {
                    match self.read(ports, port)? {
                        Read::Some => {}
                        Read::Empty => ready[port] = false,
                        Read::Closed => closed[port] = true,
                    }
                    if !ready[port] || closed[port] {
                        break;
                    }
                }
                more |= ready[port] && !closed[port];
            }
            self.hand_on(ports)?;
            let due = self.next_due();
            let left = due.since(self.clock.now());
            let sleeps = !more && left > SHORTEST_SLEEP.max(self.spin);
            if sleeps {
                self.arm(&timer, due)?;
            }
            // Without a sleep the call only polls for ready ports.
            let timeout = Timespec { tv_sec: 0, tv_nsec: 0 };
            match poll(&mut wait, if sleeps { None } else { Some(&timeout) }) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
            for (ready, wait) in ready.iter_mut().zip(&wait[2..]) {
                *ready |= !wait.revents().is_empty();
            }
            for (wait, closed) in wait[2..].iter_mut().zip(&closed) {
                // A port would always be ready once its other side has closed.
                if *closed {
                    *wait = PollFd::new(&stop.event, PollFlags::IN);
                }
            }
        }
        Ok(self.clock.now().since(Time::ZERO))
    }

    /// Sets `timer` to expire slightly before `due`.
    fn arm(&self, timer: &OwnedFd, due: Time) -> io::Result<()> {
        let mut spec = Itimerspec {
            it_interval: Timespec { tv_sec: 0, tv_nsec: 0 },
            it_value: Timespec { tv_sec: 0, tv_nsec: 0 },
        };
        if due.is_armed() {
            let at = self.clock.absolute(due).saturating_sub(self.spin.as_nanos());
            spec.it_value =
                Timespec { tv_sec: (at / 1_000_000_000) as i64, tv_nsec: (at % 1_000_000_000) as _ };
        }
        // Setting it clears its readiness, so that it need not be read.
        timerfd_settime(timer.as_fd(), TimerfdTimerFlags::ABSTIME, &spec)?;
        Ok(())
    }

    fn next_due(&self) -> Time {
        let links = self.links.iter().map(Link::next_event).min().unwrap_or(Time::NEVER);
        self.answers.keys().next().map_or(links, |&(at, _)| links.min(at))
    }

    /// Reads a packet from a port.
    fn read(&mut self, ports: &[Port], port: usize) -> io::Result<Read> {
        let packet = self.pool.take();
        let read = rustix::io::read(&ports[port].0, self.pool.buffer(packet));
        let len = match read {
            Ok(len) if len > 0 => len,
            read => {
                self.pool.release(packet);
                return match read {
                    Err(Errno::AGAIN) => Ok(Read::Empty),
                    Err(Errno::INTR) => Ok(Read::Some),
                    Ok(_) | Err(Errno::CONNRESET) => Ok(Read::Closed),
                    Err(errno) => Err(errno.into()),
                };
            }
        };
        self.pool.set_len(packet, len);
        // Packets that were due before its arrival are forwarded first.
        let now = self.hand_on(ports)?;
        if let Some(tap) = &mut self.tap {
            tap.sent(now, port, self.pool.packet(packet));
        }
        match self.begins[port] {
            Some(lane) => {
                self.totals[usize::from(lane)].taken.add(len as u32);
                self.enter(now, Ticket { packet, lane, hop: 0 }, len as u32);
            }
            None => self.pool.release(packet),
        }
        Ok(Read::Some)
    }

    /// Forwards all packets that are due, in order of time. Returns the current time.
    fn hand_on(&mut self, ports: &[Port]) -> io::Result<Time> {
        loop {
            let due = self.next_due();
            let now = self.clock.now();
            if due > now {
                self.now = self.now.max(now);
                return Ok(self.now);
            }
            self.now = self.now.max(due);
            if let Some(answer) = self.answers.first_entry().filter(|entry| entry.key().0 <= due) {
                let (port, bytes) = answer.remove();
                if let Some(tap) = &mut self.tap {
                    tap.received(self.now, port, &bytes);
                }
                write(&ports[port].0, &bytes)?;
                continue;
            }
            let Some(link) = self.links.iter().position(|link| link.next_event() <= due) else { continue };
            self.poll_link(link, ports)?;
        }
    }

    /// Processes the next arrival or drop of a link up to the links' time.
    fn poll_link(&mut self, index: usize, ports: &[Port]) -> io::Result<()> {
        match self.links[index].poll(self.now) {
            None => {}
            Some(Polled::Dropped(dropped)) => self.pool.release(dropped.packet.packet),
            Some(Polled::Arrived(arrival)) => {
                let Ticket { mut packet, lane, hop } = arrival.packet;
                if !arrival.effects.is_none() {
                    packet = self.pool.own(packet);
                    let len = self.pool.packet(packet).len();
                    apply(arrival.effects, &mut self.pool.buffer(packet)[..len]);
                }
                let mut wire_bytes = arrival.wire_bytes;
                if !self.middleboxes.is_empty() {
                    packet = self.pool.own(packet);
                    match self.pass(self.now, index, End::Exit, Ticket { packet, lane, hop }, wire_bytes) {
                        Some(len) => wire_bytes = len,
                        None => return Ok(()),
                    }
                }
                let hop = hop + 1;
                if usize::from(hop) < self.lanes[usize::from(lane)].links.len() {
                    self.enter(self.now, Ticket { packet, lane, hop }, wire_bytes);
                    return Ok(());
                }
                let totals = &mut self.totals[usize::from(lane)];
                totals.lateness.add(self.clock.now().since(arrival.at));
                let to = self.lanes[usize::from(lane)].to;
                let taken = write(&ports[to].0, self.pool.packet(packet));
                if let Some(tap) = &mut self.tap {
                    tap.received(self.now, to, self.pool.packet(packet));
                }
                self.pool.release(packet);
                if taken? {
                    totals.delivered.add(wire_bytes);
                } else {
                    totals.refused += 1;
                }
            }
        }
        Ok(())
    }

    /// Offers a packet to its next link.
    fn enter(&mut self, now: Time, ticket: Ticket, mut wire_bytes: u32) {
        let index = self.lanes[usize::from(ticket.lane)].links[usize::from(ticket.hop)];
        if !self.middleboxes.is_empty() {
            match self.pass(now, index, End::Entrance, ticket, wire_bytes) {
                Some(len) => wire_bytes = len,
                None => return,
            }
        }
        let link = &mut self.links[index];
        self.found[index].packets += link.queue_packets(now) as u64;
        self.found[index].bytes += link.queue_bytes(now);
        let copies = link.counters().duplicated.packets;
        let read = link.reads_labels();
        let label = if read { label(self.pool.packet(ticket.packet)) } else { Label::default() };
        match link.push_as(now, ticket, wire_bytes, label) {
            Pushed::Queued => {
                if link.counters().duplicated.packets > copies {
                    self.pool.share(ticket.packet);
                }
            }
            Pushed::Dropped(ticket, reason) => {
                if reason == DropReason::TooLarge {
                    self.answer(now, index, ticket);
                }
                self.pool.release(ticket.packet);
            }
        }
    }

    /// Schedules the answer of the router at link `index`, which has dropped a packet that exceeds the MTU.
    /// The answer takes the propagation delays from there back to the sender, counted both ways.
    #[cold]
    fn answer(&mut self, now: Time, index: usize, ticket: Ticket) {
        let Some(mtu) = self.links[index].reported_mtu() else { return };
        let mtu = mtu.saturating_sub(self.overhead(index));
        let Some(answer) = too_big(self.pool.packet(ticket.packet), mtu) else { return };
        if self.answers.len() >= MOST_ANSWERS {
            return;
        }
        let lane = &self.lanes[usize::from(ticket.lane)];
        let way = &lane.links[..=usize::from(ticket.hop)];
        let delay = way.iter().fold(Duration::ZERO, |sum, &link| sum + self.links[link].delay() * 2);
        self.answered += 1;
        self.answers.insert((now + delay, self.answered), (lane.from, answer));
    }

    /// Returns the bytes that a tunnel adds to each packet on the link `index`.
    fn overhead(&self, index: usize) -> u32 {
        let of = |(placed, _): &&(Placed, Middlebox)| placed.up == index || placed.down == index;
        self.middleboxes.iter().find(of).map_or(0, |(placed, _)| placed.config.overhead)
    }

    /// Lets a packet, the only holder of its buffer, pass the middlebox at an end of the link `index`, if there is one.
    /// Returns its length on the link, or beyond it; none if the middlebox has dropped it.
    fn pass(&mut self, now: Time, index: usize, end: End, ticket: Ticket, wire_bytes: u32) -> Option<u32> {
        let overhead = self.overhead(index);
        let of = |(placed, _): &&mut (Placed, Middlebox)| placed.up == index || placed.down == index;
        if let Some((placed, middlebox)) = self.middleboxes.iter_mut().find(of)
            // It is at the client's end.
            && (placed.up == index) == (end == End::Entrance)
        {
            let outgoing = placed.up == index;
            let len = self.pool.packet(ticket.packet).len();
            let bytes = &mut self.pool.buffer(ticket.packet)[..len];
            if let Crossed::Dropped(answer) = cross(middlebox, now, outgoing, bytes) {
                let lane = &self.lanes[usize::from(ticket.lane)];
                if let Some(answer) = answer.filter(|_| self.answers.len() < MOST_ANSWERS) {
                    // It comes from the other end, or seems to: the way there and back, without queues.
                    let way = &lane.links[usize::from(ticket.hop)..];
                    let delay =
                        way.iter().fold(Duration::ZERO, |sum, &link| sum + self.links[link].delay() * 2);
                    self.answered += 1;
                    self.answers.insert((now + delay, self.answered), (lane.from, answer));
                }
                self.pool.release(ticket.packet);
                return None;
            }
        }
        Some(match end {
            End::Entrance => wire_bytes + overhead,
            End::Exit => wire_bytes.saturating_sub(overhead),
        })
    }

    /// Returns the capture, if there is one, and stops capturing.
    pub(super) fn take_tap(&mut self) -> Option<Tap> {
        self.tap.take()
    }

    pub(super) fn report(mut self, elapsed: Duration, realtime: bool, awake: bool) -> EngineReport {
        let now = self.now;
        let links = self.links.iter_mut().zip(self.names).zip(self.found).map(|((link, name), found)| {
            link.advance(now);
            LinkTotals { name, counters: link.counters(), found }
        });
        let middleboxes = self
            .middleboxes
            .into_iter()
            .map(|(placed, middlebox)| MiddleboxTotals { path: placed.name, counters: middlebox.counters() });
        EngineReport {
            elapsed,
            realtime,
            awake,
            links: links.collect(),
            lanes: self.totals,
            middleboxes: middleboxes.collect(),
        }
    }
}

/// Writes a packet to a port; false if the port did not accept it, which counts as a loss.
fn write(port: &OwnedFd, packet: &[u8]) -> io::Result<bool> {
    loop {
        match rustix::io::write(port, packet) {
            Ok(_) => return Ok(true),
            Err(Errno::INTR) => {}
            // The interface is down or full, has no memory, or rejects the packet; or the other side has
            // closed.
            Err(
                Errno::AGAIN
                | Errno::IO
                | Errno::NOBUFS
                | Errno::NOMEM
                | Errno::INVAL
                | Errno::PIPE
                | Errno::CONNRESET
                | Errno::CONNREFUSED,
            ) => return Ok(false),
            Err(errno) => return Err(errno.into()),
        }
    }
}
