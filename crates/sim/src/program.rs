//! The programs at both ends of a flow, without input and output: for the same flow in a network other than the
//! simulated one. They make the same requests, write the same blocks and choose the same segments as in the simulator,
//! from the same random streams, and their report is the same.

use anabranch_units::Time;

use crate::application::{AppReport, Application};
use crate::flow::{Direction, End, FlowSpec};
use crate::session::AppState;

/// More bytes than an endless transfer ever writes.
const ENDLESS: u64 = 1 << 60;

/// The next action of the program at one end.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Step {
    /// The bytes that it writes now.
    pub write: u64,
    /// The time at which [`Program::due`] continues it.
    pub next: Option<Time>,
    /// True if it closes after all bytes that it has to write.
    pub closes: bool,
}

/// The programs at both ends of a flow. Times count from the start of the run.
#[derive(Clone, Debug)]
pub struct Program {
    app: Option<Box<AppState>>,
    direction: Direction,
    size: Option<u64>,
    request: u64,
    /// True once the server has the request of a download.
    is_asked: bool,
    complete: Option<Time>,
}

impl Program {
    /// Returns the programs of a flow in a run with this seed.
    pub fn new(spec: &FlowSpec, seed: u64) -> Program {
        Program {
            app: AppState::new(spec, seed),
            direction: spec.direction,
            size: spec.size.map(|size| size.0),
            request: spec.request.0,
            is_asked: false,
            complete: None,
        }
    }

    /// Returns the end at which [`Program::due`] continues.
    pub fn timed(spec: &FlowSpec) -> End {
        match spec.application {
            Application::Requests(_) | Application::Video(_) => End::Client,
            Application::Transfer | Application::OnOff(_) | Application::Datagrams(_) => spec.sender(),
        }
    }

    /// Starts the client's program at the start of the flow, `now`.
    pub fn begin(&mut self, now: Time) -> Step {
        let upload = self.direction == Direction::Upload;
        match self.app.as_deref_mut() {
            None if upload => Step { write: self.size.unwrap_or(ENDLESS), next: None, closes: true },
            Some(AppState::OnOff(_)) if upload => self.due(now),
            None | Some(AppState::OnOff(_)) => Step { write: self.request, ..Step::default() },
            Some(AppState::Exchanges(_) | AppState::Datagrams(_)) => self.due(now),
        }
    }

    /// Continues at `at`, the time of [`Step::next`].
    pub fn due(&mut self, at: Time) -> Step {
        match self.app.as_deref_mut() {
            None => Step::default(),
            Some(AppState::Exchanges(exchanges)) => {
                let (write, next) = exchanges.request(at);
                Step { write, next, closes: false }
            }
            Some(AppState::OnOff(state)) => {
                let (write, next) = state.tick(at);
                Step { write, next, closes: next.is_none() }
            }
            Some(AppState::Datagrams(state)) if state.is_finished() => {
                Step { closes: true, ..Step::default() }
            }
            Some(AppState::Datagrams(state)) => {
                let (_, next) = state.send(at);
                Step { write: state.payload(), next: Some(next), closes: false }
            }
        }
    }

    /// Takes the bytes that have arrived in order at an end, `received` in total.
    pub fn received(&mut self, end: End, now: Time, received: u64) -> Step {
        let is_receiver = end == End::Server && self.direction == Direction::Upload
            || end == End::Client && self.direction == Direction::Download;
        match self.app.as_deref_mut() {
            None if is_receiver => {
                if self.size.is_some_and(|size| received >= size) {
                    self.complete.get_or_insert(now);
                }
                Step::default()
            }
            None if received >= self.request && !self.is_asked => {
                self.is_asked = true;
                Step { write: self.size.unwrap_or(ENDLESS), next: None, closes: true }
            }
            Some(AppState::Exchanges(exchanges)) if end == End::Server => {
                Step { write: exchanges.answer(received), ..Step::default() }
            }
            Some(AppState::Exchanges(exchanges)) => {
                let next = exchanges.complete(now, received);
                if exchanges.is_over() {
                    self.complete.get_or_insert(now);
                }
                Step { write: 0, next, closes: exchanges.is_over() }
            }
            Some(AppState::OnOff(state)) if is_receiver => {
                state.deliver(now, received);
                if state.is_over() {
                    self.complete.get_or_insert(now);
                }
                Step::default()
            }
            Some(AppState::OnOff(_)) if received >= self.request && !self.is_asked => {
                self.is_asked = true;
                self.due(now)
            }
            _ => Step::default(),
        }
    }

    /// True if it sends datagrams and has not sent the last one.
    pub fn sends_datagrams(&self) -> bool {
        matches!(self.app.as_deref(), Some(AppState::Datagrams(state)) if !state.is_finished())
    }

    /// Returns the number of datagrams sent so far.
    pub fn datagrams_sent(&self) -> u64 {
        match self.app.as_deref() {
            Some(AppState::Datagrams(state)) => state.sent(),
            _ => 0,
        }
    }

    /// Takes datagram number `number`, sent at `sent`.
    pub fn datagram_received(&mut self, now: Time, number: u64, sent: Time) {
        if let Some(AppState::Datagrams(state)) = self.app.as_deref_mut() {
            state.receive(now, number, sent);
            if state.is_finished() && state.received() == state.sent() {
                self.complete.get_or_insert(now);
            }
        }
    }

    /// Returns the time at which everything was delivered.
    pub fn complete(&self) -> Option<Time> {
        self.complete
    }

    /// Returns the results of the application so far.
    pub fn report(&self, now: Time) -> AppReport {
        self.app.as_deref().map(|app| app.report(now)).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use core::net::{IpAddr, Ipv4Addr};

    use anabranch_stack::config::{Profile, SimConfig};
    use anabranch_units::{Bytes, Duration};

    use super::*;
    use crate::application::{Pace, Requests};
    use crate::distribution::Distribution;
    use crate::network::HostId;

    fn spec(size: Option<Bytes>) -> FlowSpec {
        let ip = |last| IpAddr::V4(Ipv4Addr::new(10, 0, 0, last));
        FlowSpec::new("x 1", (HostId(0), ip(1)), (HostId(1), ip(2)), size, SimConfig::new(Profile::Linux))
    }

    #[test]
    fn a_download_is_asked_for_and_answered_once() {
        let spec = spec(Some(Bytes(1000))).download();
        let mut program = Program::new(&spec, 1);
        assert_eq!(program.begin(Time::ZERO), Step { write: 100, ..Step::default() });
        assert_eq!(program.received(End::Server, Time::from_secs(1), 60), Step::default());
        let answer = Step { write: 1000, next: None, closes: true };
        assert_eq!(program.received(End::Server, Time::from_secs(2), 100), answer);
        assert_eq!(program.received(End::Server, Time::from_secs(2), 100), Step::default());
        program.received(End::Client, Time::from_secs(3), 999);
        assert_eq!(program.complete(), None);
        program.received(End::Client, Time::from_secs(4), 1000);
        assert_eq!(program.complete(), Some(Time::from_secs(4)));
    }

    #[test]
    fn requests_follow_their_responses() {
        let plan = Requests {
            request: Distribution::Constant(50.0),
            response: Distribution::Constant(400.0),
            pace: Pace::Closed(Distribution::Constant(1e9)),
            count: Some(2),
            span: Duration::from_secs(100),
        };
        let spec = FlowSpec { application: Application::Requests(plan), ..spec(None).download() };
        let mut program = Program::new(&spec, 1);
        let s = Time::from_secs;
        assert_eq!(program.begin(s(0)).write, 50);
        assert_eq!(program.received(End::Server, s(1), 50).write, 400);
        assert_eq!(program.received(End::Client, s(2), 400).next, Some(s(3)));
        assert_eq!(program.due(s(3)).write, 50);
        assert_eq!(program.received(End::Server, s(4), 100).write, 400);
        assert!(program.received(End::Client, s(6), 800).closes);
        assert_eq!(program.complete(), Some(s(6)));
        let AppReport::Requests(log) = program.report(s(6)) else { panic!("no requests") };
        let times: Vec<_> = log.iter().map(|own| own.time.map(|time| time.as_secs_f64())).collect();
        assert_eq!(times, [Some(2.0), Some(3.0)]);
    }
}
