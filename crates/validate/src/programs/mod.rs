//! The programs of flows that are not plain transfers, or of several classes at once, in real time. They are the
//! simulator's ([`Program`]), at the same times and with the same draws, with a connection or datagrams each.

pub(crate) mod emulated;
pub(crate) mod kernel;

use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anabranch_lab::run::{Class, Planned};
use anabranch_sim::{AppReport, Application, Direction, End, FlowSpec, Program, Step};
use anabranch_units::Time;

use crate::gap::Gap;
use crate::kernel::PORT;
use crate::measure::Measured;
use crate::points::{Point, Sender};
use crate::results::Trouble;

/// The longest time that one end waits for the other to read its counters.
const COUNT: Duration = Duration::from_secs(2);

/// A datagram that has not arrived by this time after the last one was sent counts as lost.
const LINGER: anabranch_units::Duration = anabranch_units::Duration::from_millis(700);

/// The transport of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transport {
    Stream(Sender),
    Datagrams,
}

/// One flow of a run, and the state of its programs.
#[derive(Debug)]
pub(crate) struct Work {
    pub(crate) spec: FlowSpec,
    pub(crate) transport: Transport,
    /// The position of the path of its initial subflow.
    pub(crate) path: usize,
    /// The port of its server.
    pub(crate) port: u16,
    /// The position of its class; none if it is not measured.
    class: Option<usize>,
    /// The time at which it is broken off, and everything else too.
    until: Time,
    state: Mutex<State>,
    /// The number of its ends that have read their counters.
    counted: AtomicU8,
    failed: AtomicBool,
}

#[derive(Debug)]
struct State {
    program: Program,
    gap: Gap,
    begun: Time,
    received: u64,
    /// By datagram: the time at which it was sent.
    sent: Vec<Time>,
    sender: Measured,
    bytes_by_path: Vec<u64>,
}

impl Work {
    /// Returns the flows of run number `run` of `point`.
    ///
    /// # Errors
    /// If none can be drawn.
    pub(crate) fn of(point: &Point, run: u32) -> Result<Vec<Arc<Work>>, Trouble> {
        let (planned, end) = point.planned(run).map_err(Trouble::failed)?;
        let seed = point.scenario.run_seed(run);
        let background = point.experiment().traffic.background.iter();
        let mut background = background.flat_map(|own| std::iter::repeat_n(own.path, own.flows as usize));
        let work = |(number, planned): (usize, Planned)| {
            let Planned { spec, owner, path } = planned;
            let path = path.or_else(|| background.next()).unwrap_or(0);
            let transport = match (&spec.application, owner) {
                (Application::Datagrams(_), _) => Transport::Datagrams,
                (_, Some((Class::Contender, _))) => Transport::Stream(match point.sender {
                    Sender::Tcp { .. } => Sender::Tcp { path },
                    Sender::Multipath => Sender::Multipath,
                }),
                _ => Transport::Stream(Sender::Tcp { path }),
            };
            let class = owner.filter(|(class, _)| *class != Class::Beside).map(|(_, class)| class);
            let until = spec.stop.map_or(end, |stop| end.min(spec.start + stop));
            Arc::new(Work {
                transport,
                path,
                port: PORT + number as u16,
                class,
                until,
                state: Mutex::new(State::new(&spec, seed)),
                counted: AtomicU8::new(0),
                failed: AtomicBool::new(false),
                spec,
            })
        };
        Ok(planned.into_iter().enumerate().map(work).collect())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// True if it ends by itself, so that the run waits for it.
    fn is_finite(&self) -> bool {
        let is_transfer = matches!(self.spec.application, Application::Transfer);
        self.spec.size.is_some() || self.spec.stop.is_some() || !is_transfer
    }

    /// True if it is an endless transfer.
    fn is_endless(&self) -> bool {
        self.spec.size.is_none() && matches!(self.spec.application, Application::Transfer)
    }

    /// True if its data is sent by the server.
    pub(crate) fn is_download(&self) -> bool {
        self.spec.direction == Direction::Download
    }

    /// True if this end sends the data.
    fn sends(&self, end: End) -> bool {
        self.spec.sender() == end
    }

    /// True if it ends with the flows that are measured.
    fn accompanies(&self) -> bool {
        self.class.is_none() || !self.is_finite()
    }

    /// True if nothing is left to be done, at `now`.
    fn is_done(&self, now: Time) -> bool {
        now >= self.until || self.failed.load(Ordering::Relaxed) || self.state().program.complete().is_some()
    }

    fn fail(&self) {
        self.failed.store(true, Ordering::Relaxed);
    }

    /// Starts the client's program.
    fn begin(&self, now: Time) -> Step {
        let mut state = self.state();
        state.begun = now;
        let step = state.program.begin(now);
        self.note(&mut state, End::Client, now, step)
    }

    /// Continues the program at an end at `at`.
    fn due(&self, end: End, at: Time) -> Step {
        let mut state = self.state();
        let step = state.program.due(at);
        self.note(&mut state, end, at, step)
    }

    /// Takes data in order: `total` bytes so far.
    fn received(&self, end: End, now: Time, total: u64) -> Step {
        let mut state = self.state();
        if !self.sends(end) {
            state.gap.delivered(now, total);
            state.received = total;
        }
        let step = state.program.received(end, now, total);
        self.note(&mut state, end, now, step)
    }

    fn note(&self, state: &mut State, end: End, now: Time, step: Step) -> Step {
        if self.sends(end) && step.write > 0 {
            state.gap.written(now, step.write);
        }
        step
    }

    /// Starts sending datagrams at the sender, which needs no connection.
    fn begin_datagrams(&self, now: Time) {
        self.state().begun = now;
    }

    /// Sends the datagram that is due at `at`: returns its number, none after the last one, and the next time.
    fn datagram(&self, at: Time, now: Time) -> (Option<u64>, Option<Time>) {
        let mut state = self.state();
        let number = state.program.datagrams_sent();
        if number > 0 && !state.program.sends_datagrams() {
            return (None, None);
        }
        let step = state.program.due(at);
        state.sent.push(now);
        // The simulator waits longer for the last one, at no cost.
        let next = if state.program.sends_datagrams() { step.next } else { Some(now + LINGER) };
        (Some(number), next)
    }

    /// Takes the datagram of that number.
    fn datagram_received(&self, now: Time, number: u64) {
        let mut state = self.state();
        if let Some(sent) = state.sent.get(number as usize).copied() {
            state.program.datagram_received(now, number, sent);
            state.received += u64::from(self.payload());
        }
    }

    /// Returns the payload of its datagrams.
    fn payload(&self) -> u32 {
        match &self.spec.application {
            Application::Datagrams(plan) => plan.payload,
            _ => 0,
        }
    }

    /// Keeps the counters of the sender.
    fn count_sender(&self, measured: Measured) {
        self.state().sender = measured;
        self.counted.fetch_add(1, Ordering::Relaxed);
    }

    /// Keeps the counters of the receiver.
    fn count_receiver(&self, bytes_by_path: Vec<u64>) {
        self.state().bytes_by_path = bytes_by_path;
        self.counted.fetch_add(1, Ordering::Relaxed);
    }

    /// True if both ends have read their counters.
    fn is_counted(&self) -> bool {
        self.counted.load(Ordering::Relaxed) >= 2
    }

    /// Returns its measurements; none if it is not measured.
    fn measured(&self, now: Time) -> Option<Measured> {
        let class = self.class?;
        let state = self.state();
        let span = |at: Time| at.since(state.begun).as_secs_f64();
        let report = state.program.report(now);
        let complete = state.program.complete();
        let time_s = match (&report, self.is_endless()) {
            (_, true) => Some(self.until.since(self.spec.start).as_secs_f64()),
            // Lost datagrams do not arrive.
            (AppReport::Datagrams(own), _) => (own.received > 0).then(|| span(complete.unwrap_or(now))),
            _ => complete.map(span),
        };
        let mut measured = Measured {
            time_s,
            delivered: state.received,
            bytes_by_path: state.bytes_by_path.clone(),
            longest_gap_s: state.gap.seconds(),
            class,
            ..state.sender.clone()
        };
        measured.note_app(&report);
        Some(measured)
    }
}

impl State {
    fn new(spec: &FlowSpec, seed: u64) -> State {
        let is_transfer = matches!(spec.application, Application::Transfer);
        State {
            program: Program::new(spec, seed),
            gap: if is_transfer { Gap::of_transfer() } else { Gap::default() },
            begun: spec.start,
            received: 0,
            sent: Vec::new(),
            sender: Measured::default(),
            bytes_by_path: Vec::new(),
        }
    }
}

/// The clock of a run, and its end.
pub(crate) struct Clock<'a> {
    begun: Instant,
    cancelled: &'a AtomicBool,
}

impl Clock<'_> {
    /// Returns the time since the start of the links.
    fn now(&self) -> Time {
        Time(self.begun.elapsed().as_nanos() as u64)
    }

    /// Returns the time left until `at`.
    fn left(&self, at: Time) -> Duration {
        Duration::from_nanos(at.0).saturating_sub(self.begun.elapsed())
    }

    fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }
}

/// True if every flow that ends by itself is done, or if nothing ends by itself before the end.
fn all_done(works: &[Arc<Work>], now: Time) -> bool {
    let waits = |work: &&Arc<Work>| work.class.is_some() && work.is_finite();
    match works.iter().any(|work| waits(&work)) {
        true => works.iter().filter(waits).all(|work| work.is_done(now)),
        false => works.iter().all(|work| now >= work.until),
    }
}

/// The remaining work of one end of a stream.
#[derive(Debug, Default)]
struct Todo {
    write: u64,
    next: Option<Time>,
    closes: bool,
    has_closed: bool,
    received: u64,
}

impl Todo {
    fn add(&mut self, step: Step) {
        self.write = self.write.saturating_add(step.write);
        self.next = step.next.or(self.next);
        self.closes |= step.closes;
    }

    /// Continues the program at an end if it is due; its times come from the plan, so that delays do not add up.
    fn continue_at(&mut self, work: &Work, end: End, now: Time) {
        while let Some(at) = self.next.filter(|at| *at <= now) {
            self.next = None;
            self.add(work.due(end, at));
        }
    }

    fn take(&mut self, work: &Work, end: End, now: Time, bytes: u64) {
        self.received += bytes;
        self.add(work.received(end, now, self.received));
    }

    /// True if it has to close now; it is then marked closed.
    fn closes_now(&mut self) -> bool {
        let now = self.closes && self.write == 0 && !self.has_closed;
        self.has_closed |= now;
        now
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anabranch_lab::scenario::Document;

    fn works(sets: &[&str]) -> Vec<Arc<Work>> {
        let mut document = Document::bare();
        document.set_paths(&["8Mbit/s,10ms".to_owned(), "4Mbit/s,10ms".to_owned()]).unwrap();
        for set in sets.iter().chain(&["schedulers=[\"linux\"]"]) {
            document.set(set).unwrap();
        }
        let point = Point::of(document.scenario().unwrap()).unwrap().remove(0);
        Work::of(&point, 0).unwrap()
    }

    #[test]
    fn flows_have_their_transports_paths_and_ends() {
        let traffic = "traffic=[{name='a',size=bulk,duration='2 s',start='1 s'},{name='b',size='1 KB',via='tcp',path='2'},\
                       {name='c',kind='udp',rate='1 Mbit/s',path='2',direction='upload'}]"
            .replace("size=bulk", "size='bulk'");
        let works = works(&[&traffic]);
        let seen: Vec<_> = works.iter().map(|own| (own.transport, own.path, own.is_download())).collect();
        assert_eq!(
            seen,
            [
                (Transport::Stream(Sender::Multipath), 0, true),
                (Transport::Stream(Sender::Tcp { path: 1 }), 1, true),
                (Transport::Datagrams, 1, false),
            ]
        );
        assert_eq!(works[0].until, Time::from_secs(3));
        assert!(works[0].is_endless() && works[0].is_finite() && !works[1].is_endless());
        let beside = self::works(&[
            "traffic.size='1 MB'",
            "traffic.beside={flows=2,path='2'}",
            "traffic.background=[{path=2}]",
        ]);
        let seen: Vec<_> = beside.iter().map(|own| (own.path, own.class, own.is_finite())).collect();
        assert_eq!(seen, [(0, Some(0), true), (1, None, true), (1, None, true), (1, None, false)]);
    }

    #[test]
    fn a_flow_is_measured_from_its_beginning_to_its_last_byte() {
        let works = works(&["traffic={kind='requests',size='20 KB',think='1 s',requests=1}"]);
        let work = &works[0];
        let ms = |at: u64| Time(at * 1_000_000);
        assert_eq!(work.begin(ms(1)).write, 100);
        assert_eq!(work.received(End::Server, ms(10), 100).write, 20_000);
        work.received(End::Client, ms(20), 5000);
        assert!(!work.is_done(ms(20)) && !all_done(&works, ms(20)));
        work.received(End::Client, ms(41), 20_000);
        assert!(work.is_done(ms(41)) && all_done(&works, ms(41)));
        work.count_receiver(vec![15_000, 5000]);
        work.count_sender(Measured { segments: 15, ..Measured::default() });
        let measured = work.measured(ms(50)).unwrap();
        let seen = (measured.time_s, measured.response_s, measured.longest_gap_s, measured.delivered);
        assert_eq!(seen, (Some(0.04), Some(0.04), Some(0.021), 20_000));
        assert!(work.is_counted() && measured.segments == 15 && measured.bytes_by_path == [15_000, 5000]);
    }
}
