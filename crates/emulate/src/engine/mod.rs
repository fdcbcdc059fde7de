//! Moves packets between ports through links, in real time, on a thread of its own.

mod awake;
mod pool;
mod turn;

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use anabranch_link::{Counters, Tally};
use anabranch_units::{Duration, Time};
use rustix::event::{EventfdFlags, eventfd};
use rustix::time::{ClockId, clock_gettime};

use crate::lateness::Lateness;
use crate::sys;
use crate::tap::Tap;
use crate::wiring::Wiring;
use awake::Awake;
use turn::State;

/// How an engine works.
#[derive(Clone, Debug)]
pub struct EngineOptions {
    /// The seed of the links' random streams.
    pub seed: u64,
    /// The real-time priority to ask for (SCHED_FIFO, 1 to 99); none for an ordinary thread.
    pub priority: Option<i32>,
    /// Whether to keep the processors from sleeping, as root may: a sleeping one is late for its packets.
    pub keep_awake: bool,
    /// The longest packet, in bytes.
    pub max_packet: usize,
    /// For how long before a packet is due the thread looks at the clock in place of sleeping. It makes packets a
    /// little more punctual and takes the processor's time.
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

/// The clock of an engine: nanoseconds of CLOCK_MONOTONIC since it was started.
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

    /// The same instant on CLOCK_MONOTONIC.
    fn absolute(self, time: Time) -> u64 {
        self.origin.saturating_add(time.as_nanos())
    }
}

fn monotonic() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// What one link has done.
#[derive(Clone, Debug)]
pub struct LinkTotals {
    /// Its name.
    pub name: String,
    /// Its counters.
    pub counters: Counters,
    /// Sums over all packets offered of what each has found waiting: packets, and bytes.
    pub found: Tally,
}

impl LinkTotals {
    /// Packets and bytes that an arriving packet has found waiting, on average; the one in service included.
    pub fn mean_queue(&self) -> (f64, f64) {
        let offered = self.counters.offered.packets.max(1) as f64;
        (self.found.packets as f64 / offered, self.found.bytes as f64 / offered)
    }
}

/// What one lane has done.
#[derive(Clone, Debug, Default)]
pub struct LaneTotals {
    /// Packets that came in.
    pub taken: Tally,
    /// Packets handed to the port at its end.
    pub delivered: Tally,
    /// Packets that this port did not take.
    pub refused: u64,
    /// How much later than their time packets were handed on.
    pub lateness: Lateness,
}

/// What an engine has done.
#[derive(Clone, Debug)]
pub struct EngineReport {
    /// For how long it ran.
    pub elapsed: Duration,
    /// Whether its thread had real-time priority.
    pub realtime: bool,
    /// Whether the processors were kept from sleeping.
    pub awake: bool,
    /// The links.
    pub links: Vec<LinkTotals>,
    /// The lanes.
    pub lanes: Vec<LaneTotals>,
}

/// A thread that moves packets.
#[derive(Debug)]
pub struct Engine {
    thread: Option<JoinHandle<io::Result<Ended>>>,
    stop: Arc<Stop>,
}

/// What a thread leaves: its report, and the capture that is to be finished.
type Ended = (EngineReport, Option<Tap>);

/// How the thread hears that it shall stop.
#[derive(Debug)]
struct Stop {
    flag: AtomicBool,
    event: OwnedFd,
}

impl Engine {
    /// Starts to move packets. The links' time zero, from which their timelines count, is now.
    ///
    /// # Errors
    /// If the wiring or one of its links cannot be as described, or the system has no thread or timer.
    pub fn start(wiring: Wiring, options: &EngineOptions) -> io::Result<Engine> {
        Engine::start_with(wiring, options, None)
    }

    /// Starts to move packets, and takes down those that `tap` is for. [`Engine::stop`] finishes the capture.
    ///
    /// # Errors
    /// Those of [`Engine::start`].
    pub fn start_with(wiring: Wiring, options: &EngineOptions, tap: Option<Tap>) -> io::Result<Engine> {
        let mut state = State::new(&wiring, options, tap)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let stop = Arc::new(Stop { flag: AtomicBool::new(false), event });
        let heard = Arc::clone(&stop);
        let (priority, keep_awake) = (options.priority, options.keep_awake);
        let thread = std::thread::Builder::new().name("links".to_owned()).spawn(move || {
            // Refused without privileges; the lateness that is reported tells what it costs.
            let realtime = priority.is_some_and(|priority| sys::set_realtime(priority).is_ok());
            let _ = rustix::thread::set_current_timer_slack(core::num::NonZeroU64::new(1));
            let awake = keep_awake.then(Awake::request).and_then(Result::ok);
            let elapsed = state.run(&wiring.ports, &heard)?;
            let tap = state.take_tap();
            Ok((state.report(elapsed, realtime, awake.is_some()), tap))
        })?;
        Ok(Engine { thread: Some(thread), stop })
    }

    /// Stops, and says what was done. Packets that are under way are lost.
    ///
    /// # Errors
    /// If a port has failed in the meantime, or a capture could not be written.
    pub fn stop(mut self) -> io::Result<EngineReport> {
        let halted = self.halt().unwrap_or_else(|| Err(io::Error::other("the engine had stopped")));
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
