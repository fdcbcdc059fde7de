//! Moves packets between ports through links, in real time, on its own thread.

mod awake;
mod pool;
mod turn;

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use anabranch_link::{Counters, MiddleboxCounters, Tally};
use anabranch_units::{Duration, Time};
use rustix::event::{EventfdFlags, eventfd};
use rustix::time::{ClockId, clock_gettime};

use crate::lateness::Lateness;
use crate::sys;
use crate::tap::Tap;
use crate::wiring::Wiring;
use awake::Awake;
use turn::State;

/// How an engine runs: its random streams, its priority, sleeping processors and the longest packet.
#[derive(Clone, Debug)]
pub struct EngineOptions {
    /// The seed of the links' random streams.
    pub seed: u64,
    /// The real-time priority to request (SCHED_FIFO, 1 to 99); none for an ordinary thread.
    pub priority: Option<i32>,
    /// True to keep the processors from sleeping, which needs root: a sleeping processor delays packets.
    pub keep_awake: bool,
    /// The length of the longest packet, in bytes.
    pub max_packet: usize,
    /// The time before a packet is due during which the thread polls the clock instead of sleeping. It makes
    /// packets slightly more punctual and uses processor time.
    pub spin: Duration,
}

impl Default for EngineOptions {
    fn default() -> EngineOptions {
        EngineOptions {
            seed: 1,
            priority: Some(PRIORITY),
            keep_awake: true,
            max_packet: 2048,
            spin: Duration::ZERO,
        }
    }
}

/// Above other programs, below the kernel's own threads.
const PRIORITY: i32 = 20;

/// The clock of an engine: nanoseconds of CLOCK_MONOTONIC since its start.
#[derive(Clone, Copy, Debug)]
struct Clock {
    origin: u64,
}

impl Clock {
    fn start() -> Clock {
        Clock { origin: monotonic() }
    }

    fn now(self) -> Time {
        Time(monotonic() - self.origin)
    }

    /// Returns `time` on CLOCK_MONOTONIC.
    fn absolute(self, time: Time) -> u64 {
        self.origin.saturating_add(time.as_nanos())
    }
}

fn monotonic() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// The counters of a link and its queue on arrivals, of a whole run.
#[derive(Clone, Debug)]
pub struct LinkTotals {
    /// The name of the link, as in the simulator.
    pub name: String,
    /// Packets and bytes by fate, from the start of the engine to its end.
    pub counters: Counters,
    /// The sums over all offered packets of the queue that each found: packets, and bytes.
    pub found: Tally,
}

impl LinkTotals {
    /// Returns the mean queue on arrival in packets and bytes, the packet in service included.
    pub fn mean_queue(&self) -> (f64, f64) {
        let offered = self.counters.offered.packets.max(1) as f64;
        (self.found.packets as f64 / offered, self.found.bytes as f64 / offered)
    }
}

/// The packets that a middlebox has changed or dropped in a whole run.
#[derive(Clone, Debug)]
pub struct MiddleboxTotals {
    /// The path that the middlebox is on.
    pub path: String,
    /// Its counts.
    pub counters: MiddleboxCounters,
}

/// The packets of one path in one direction, in a whole run.
#[derive(Clone, Debug, Default)]
pub struct LaneTotals {
    /// Packets received.
    pub taken: Tally,
    /// Packets written to the port at its end.
    pub delivered: Tally,
    /// Packets that this port did not accept.
    pub refused: u64,
    /// The lateness of forwarded packets.
    pub lateness: Lateness,
}

/// Everything that an engine has counted and measured until it was stopped.
#[derive(Clone, Debug)]
pub struct EngineReport {
    /// The time that it ran.
    pub elapsed: Duration,
    /// True if its thread had real-time priority.
    pub realtime: bool,
    /// True if the processors were kept from sleeping.
    pub awake: bool,
    /// The links, in the order of the wiring.
    pub links: Vec<LinkTotals>,
    /// The lanes, in the order of the wiring.
    pub lanes: Vec<LaneTotals>,
    /// The middleboxes, one for each path that has one.
    pub middleboxes: Vec<MiddleboxTotals>,
}

/// An engine: a thread that moves packets.
#[derive(Debug)]
pub struct Engine {
    thread: Option<JoinHandle<io::Result<Ended>>>,
    stop: Arc<Stop>,
}

/// The results of a thread: its report, and the capture to be finished.
type Ended = (EngineReport, Option<Tap>);

/// The signal that stops the thread.
#[derive(Debug)]
struct Stop {
    flag: AtomicBool,
    event: OwnedFd,
}

impl Engine {
    /// Starts to move packets. The links' time zero, from which their timelines count, is now.
    ///
    /// # Errors
    /// If the wiring or one of its links is invalid, or the system provides no thread or timer.
    pub fn start(wiring: Wiring, options: &EngineOptions) -> io::Result<Engine> {
        Engine::start_with(wiring, options, None)
    }

    /// Starts to move packets, and captures the packets of the ports of `tap`. [`Engine::stop`] finishes the
    /// capture.
    ///
    /// # Errors
    /// As for [`Engine::start`].
    pub fn start_with(wiring: Wiring, options: &EngineOptions, tap: Option<Tap>) -> io::Result<Engine> {
        let mut state = State::new(&wiring, options, tap)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let stop = Arc::new(Stop { flag: AtomicBool::new(false), event });
        let heard = Arc::clone(&stop);
        let (priority, keep_awake) = (options.priority, options.keep_awake);
        let thread = std::thread::Builder::new().name("links".to_owned()).spawn(move || {
            // Fails without privileges; the reported lateness shows the effect.
            let realtime = priority.is_some_and(|priority| sys::set_realtime(priority).is_ok());
            let _ = rustix::thread::set_current_timer_slack(core::num::NonZeroU64::new(1));
            let awake = keep_awake.then(Awake::request).and_then(Result::ok);
            let elapsed = state.run(&wiring.ports, &heard)?;
            let tap = state.take_tap();
            Ok((state.report(elapsed, realtime, awake.is_some()), tap))
        })?;
        Ok(Engine { thread: Some(thread), stop })
    }

    /// Stops, and returns the report. Packets in flight are lost.
    ///
    /// # Errors
    /// If a port has failed, or a capture could not be written.
    pub fn stop(mut self) -> io::Result<EngineReport> {
        let halted = self.halt().unwrap_or_else(|| Err(io::Error::other("the engine is stopped")));
        let (report, tap) = halted?;
        tap.map_or(Ok(()), Tap::finish)?;
        Ok(report)
    }

    fn halt(&mut self) -> Option<io::Result<Ended>> {
        self.stop.flag.store(true, Ordering::Release);
        let _ = rustix::io::write(&self.stop.event, &1_u64.to_ne_bytes());
        let thread = self.thread.take()?;
        Some(thread.join().unwrap_or_else(|_| Err(io::Error::other("the engine's thread has panicked"))))
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        let _ = self.halt();
    }
}
