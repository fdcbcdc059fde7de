//! The daemon: the kernel's events and sockets in, its commands out.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use anabranch_scenario::policy::Policy;
use anabranch_units::{Duration, Time};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::time::{ClockId, clock_gettime};

use super::decision::Decision;
use super::steering::Steering;
use super::undo::Taken;
pub use super::undo::{check, namespace};
use crate::diag::Diagnostics;
use crate::error::KernelError;
use crate::files::replace;
use crate::interfaces::{LinkEvents, Links};
use crate::memory::Memory;
use crate::pm::{Command, Events, PathManager};

/// The part of a processor that the daemon may spend on reading sockets is one over this.
const SHARE: u64 = 20;
/// The time between two writes of the memory and of the decisions.
const WRITE_EVERY: Duration = Duration::from_secs(30);
const STATUS_EVERY: Duration = Duration::from_millis(500);

/// The options of the daemon.
#[derive(Clone, Debug)]
pub struct Options {
    /// The file of the policy; none for the default policy.
    pub policy: Option<PathBuf>,
    /// The directory of the state that survives a kill.
    pub run_directory: PathBuf,
    /// The file of the memory of paths.
    pub memory: PathBuf,
    /// True if nothing is changed.
    pub dry_run: bool,
}

/// Something that the daemon has done, for its log.
#[derive(Debug)]
pub enum Report<'a> {
    /// It is ready. Without changes there is no setting.
    Ready {
        /// The setting that was changed, and its value before.
        setting: Option<(String, &'a str)>,
        /// The number of connections that were found.
        connections: usize,
    },
    /// A decision was carried out, or would be.
    Decided(&'a Decision),
    /// The kernel has refused a command.
    Refused(&'a Decision, &'a KernelError),
    /// The policy was read again, or could not be: then the old one holds.
    Reloaded(Result<(), String>),
    /// Events were lost, and all connections were read again.
    Resynchronised,
}

/// The last decision for each subflow, by connection and subflow.
pub type Status = BTreeMap<String, BTreeMap<String, String>>;

/// Returns the file with the last decisions in this network namespace.
///
/// # Errors
/// If /proc cannot be read.
pub fn status_file(run_directory: &Path) -> Result<PathBuf, KernelError> {
    Ok(run_directory.join(format!("steer-{}.decisions.json", namespace()?)))
}

/// Reads the last decisions; none if no daemon runs.
pub fn status(run_directory: &Path) -> Status {
    let text = status_file(run_directory).ok().and_then(|file| std::fs::read_to_string(file).ok());
    text.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default()
}

/// Reads a policy.
///
/// # Errors
/// The text of the error, with its place.
pub fn policy(file: Option<&Path>) -> Result<Policy, String> {
    file.map_or_else(|| Ok(Policy::default()), |file| Policy::open(file).map_err(|error| error.to_string()))
}

/// An order to the daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// To read the policy again.
    Reload,
    /// To undo its changes and end.
    End,
}

/// The source of the daemon's orders.
pub trait Control {
    /// Returns the descriptor that is readable when there is an order.
    fn fd(&self) -> BorrowedFd<'_>;

    /// Returns the next order, without waiting.
    fn next(&mut self) -> Option<Order>;
}

/// The signals as orders: SIGHUP to read the policy again, SIGINT and SIGTERM to end.
pub struct Signals(SignalFd);

impl Signals {
    /// Blocks the signals in this thread, so that it can read them. To be called before there are other threads.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn block() -> Result<Signals, KernelError> {
        let set: SigSet = [Signal::SIGHUP, Signal::SIGINT, Signal::SIGTERM].into_iter().collect();
        let failed = |error: nix::Error| KernelError::system("signals", error.into());
        set.thread_block().map_err(failed)?;
        let fd = SignalFd::with_flags(&set, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC);
        fd.map(Signals).map_err(failed)
    }
}

impl Control for Signals {
    fn fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    fn next(&mut self) -> Option<Order> {
        let signal = self.0.read_signal().ok().flatten()?;
        Some(if signal.ssi_signo == Signal::SIGHUP as u32 { Order::Reload } else { Order::End })
    }
}

/// The time since 1970, which grows steadily from the start.
struct Clock {
    begun: Instant,
    at: Duration,
}

impl Clock {
    fn new() -> Clock {
        let at = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Clock { begun: Instant::now(), at: Duration(at.as_nanos() as u64) }
    }

    fn now(&self) -> Time {
        Time(self.at.0 + self.begun.elapsed().as_nanos() as u64)
    }
}

/// Returns the processor time of this thread. The time that it waits for a processor is no cost, and must not make
/// observations rarer on a busy host.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

struct Daemon<'a> {
    options: &'a Options,
    steering: Steering,
    manager: PathManager,
    events: Events,
    diagnostics: Diagnostics,
    links: Links,
    link_events: LinkEvents,
    clock: Clock,
    /// No observation before.
    earliest: Time,
    /// The last decisions, and whether they are newer than their file.
    status: Status,
    is_status_new: bool,
    status_written: Time,
    memory_written: Time,
    report: &'a mut dyn FnMut(Report<'_>),
}

/// Steers until an order ends it.
///
/// # Errors
/// If the kernel lacks something, or refuses it. The host is as it was then.
pub fn run(
    options: &Options,
    policy: Policy,
    control: &mut dyn Control,
    report: &mut dyn FnMut(Report<'_>),
) -> Result<(), KernelError> {
    check()?;
    // The events first: a connection that begins now is not missed.
    let manager = PathManager::open()?;
    let (events, link_events) = (manager.events()?, LinkEvents::open()?);
    let (diagnostics, mut links) = (Diagnostics::open()?, Links::open()?);
    let taken = if options.dry_run { None } else { Some(Taken::take(&options.run_directory)?) };
    let clock = Clock::new();
    let mut memory =
        std::fs::read_to_string(&options.memory).map(|text| Memory::parse(&text)).unwrap_or_default();
    memory.forget(clock.now());
    let steering = Steering::new(policy, links.read()?, memory);
    let now = clock.now();
    let mut daemon = Daemon {
        options,
        steering,
        manager,
        events,
        diagnostics,
        links,
        link_events,
        earliest: now,
        status: Status::new(),
        is_status_new: true,
        status_written: now,
        memory_written: now,
        clock,
        report,
    };
    daemon.look()?;
    let connections = daemon.steering.len();
    (daemon.report)(Report::Ready { setting: taken.as_ref().and_then(Taken::before), connections });
    let ended = daemon.work(control);
    daemon.write_memory();
    // Without a lock the file may be one of a daemon that goes on.
    if let (Some(_), Ok(file)) = (&taken, status_file(&options.run_directory)) {
        let _ = std::fs::remove_file(file);
    }
    drop(taken);
    ended
}

impl Daemon<'_> {
    fn work(&mut self, control: &mut dyn Control) -> Result<(), KernelError> {
        loop {
            let now = self.clock.now();
            let look = self.steering.next_look().map(|at| at.max(self.earliest));
            if look.is_some_and(|at| at <= now) {
                self.look()?;
                continue;
            }
            self.write_status(now);
            let write = self.is_status_new.then(|| self.status_written + STATUS_EVERY);
            let until = [look, write].into_iter().flatten().min();
            self.wait(control.fd(), until.map(|until| until.since(now)))?;
            while let Some(order) = control.next() {
                match order {
                    Order::Reload => self.reload(),
                    Order::End => return Ok(()),
                }
            }
            self.read_events()?;
            if self.link_events.has_changed()? {
                let interfaces = self.links.read()?;
                self.steering.set_interfaces(self.clock.now(), interfaces);
            }
            self.carry_out();
        }
    }

    /// Waits for an event, at most for `patience`.
    fn wait(&self, control: BorrowedFd<'_>, patience: Option<Duration>) -> Result<(), KernelError> {
        let mut fds = [control, self.events.as_fd(), self.link_events.as_fd()]
            .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
        let patience = patience.map(|left| Timespec {
            tv_sec: (left.0 / 1_000_000_000) as i64,
            tv_nsec: (left.0 % 1_000_000_000) as _,
        });
        match poll(&mut fds, patience.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(KernelError::system("waiting for events", error.into())),
        }
    }

    fn read_events(&mut self) -> Result<(), KernelError> {
        let (now, steering) = (self.clock.now(), &mut self.steering);
        match self.events.read(|event| steering.on_event(now, &event)) {
            Err(KernelError::Overrun) => {
                // The rest of the events first, so that none is older than the observation.
                let steering = &mut self.steering;
                while let Err(KernelError::Overrun) = self.events.read(|event| steering.on_event(now, &event))
                {
                }
                (self.report)(Report::Resynchronised);
                self.look()
            }
            other => other,
        }
    }

    /// Observes all connections.
    fn look(&mut self) -> Result<(), KernelError> {
        let begun = processor_time();
        let seen = self.diagnostics.connections()?;
        let spent = processor_time().saturating_sub(begun);
        let now = self.clock.now();
        self.earliest = now + Duration(spent.0 * SHARE);
        self.steering.observe(now, seen);
        self.carry_out();
        if now.since(self.memory_written) > WRITE_EVERY {
            self.write_memory();
            self.memory_written = now;
        }
        Ok(())
    }

    fn carry_out(&mut self) {
        for decision in self.steering.take_decisions() {
            if self.options.dry_run {
                if self.note(&decision) {
                    (self.report)(Report::Decided(&decision));
                }
                continue;
            }
            match self.manager.command(&decision.command) {
                Ok(()) => {
                    self.steering.on_accepted(&decision.command);
                    self.note(&decision);
                    (self.report)(Report::Decided(&decision));
                }
                Err(error) if error.is_of_another_manager() => {
                    decision.token().into_iter().for_each(|token| self.steering.on_foreign(token));
                }
                Err(error) => {
                    let errno = error.errno().unwrap_or(0);
                    self.steering.on_refused(self.clock.now(), &decision.command, errno);
                    (self.report)(Report::Refused(&decision, &error));
                }
            }
        }
    }

    /// Notes the last decision for a subflow; false if it is the same as before.
    fn note(&mut self, decision: &Decision) -> bool {
        let Some(token) = decision.token() else { return true };
        let subflow = match &decision.command {
            Command::Destroy { subflow, .. } | Command::SetBackup { subflow, .. } => {
                subflow.local.to_string()
            }
            Command::Create { local, .. } => local.to_string(),
            _ => return true,
        };
        let verb = match &decision.command {
            Command::Destroy { .. } => "closed",
            Command::SetBackup { backup, .. } | Command::Create { backup, .. } if *backup => "backup",
            _ => "used",
        };
        if self.status.len() > 2 * self.steering.len() + 16 {
            // Of connections that have ended.
            self.status.clear();
        }
        let of = self.status.entry(token.to_string()).or_default();
        let text = format!("{verb}: {}", decision.why);
        let is_new = of.get(&subflow).is_none_or(|old| !old.starts_with(verb));
        if of.get(&subflow) != Some(&text) {
            of.insert(subflow, text);
            self.is_status_new = true;
        }
        is_new
    }

    fn reload(&mut self) {
        let read = policy(self.options.policy.as_deref());
        let read = read.map(|policy| self.steering.set_policy(self.clock.now(), policy));
        (self.report)(Report::Reloaded(read));
    }

    /// Writes the memory of paths. A full disk is no reason to end.
    fn write_memory(&self) {
        if !self.options.dry_run && !self.steering.memory().is_empty() {
            let _ = self.steering.memory().write(&self.options.memory);
        }
    }

    fn write_status(&mut self, now: Time) {
        if self.is_status_new && !self.options.dry_run && now >= self.status_written + STATUS_EVERY {
            self.is_status_new = false;
            self.status_written = now;
            if let (Ok(file), Ok(text)) =
                (status_file(&self.options.run_directory), serde_json::to_string(&self.status))
            {
                let _ = replace(&file, &text);
            }
        }
    }
}
