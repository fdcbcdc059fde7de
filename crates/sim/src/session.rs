//! The state of the applications that exchange several messages over one connection.

use anabranch_units::{Duration, RandomStream, Time};

use crate::application::{
    AppReport, Application, Burst, Exchange, OnOff, Pace, Requests, Video, VideoReport,
};
use crate::datagrams::DatagramState;
use crate::flow::FlowSpec;

/// The application of a flow, other than a transfer.
#[derive(Clone, Debug)]
pub(crate) enum AppState {
    Exchanges(Exchanges),
    OnOff(OnOffState),
    Datagrams(DatagramState),
}

impl AppState {
    /// Returns the state of a flow's application; none for a transfer. Its random streams are named after the flow.
    pub(crate) fn new(spec: &FlowSpec, seed: u64) -> Option<Box<AppState>> {
        let stream = |of: &str| RandomStream::new(seed, &format!("traffic.{}.{of}", spec.name));
        let client = match &spec.application {
            Application::Transfer => return None,
            Application::Datagrams(plan) => {
                let state = DatagramState::new(plan.clone(), spec, stream("gaps"));
                return Some(Box::new(AppState::Datagrams(state)));
            }
            Application::OnOff(plan) => {
                let state = OnOffState {
                    periods: stream("periods"),
                    plan: plan.clone(),
                    begun: Time::NEVER,
                    period_end: Time::ZERO,
                    is_on: false,
                    written: 0,
                    bursts: Vec::new(),
                    last_write: Vec::new(),
                    ends: Vec::new(),
                    delivered: 0,
                    finished: false,
                };
                return Some(Box::new(AppState::OnOff(state)));
            }
            Application::Requests(plan) => Client::Requests {
                requests: stream("requests"),
                responses: stream("responses"),
                times: stream("times"),
                plan: plan.clone(),
            },
            Application::Video(plan) => Client::Video {
                playback: Playback::new(plan),
                rates: Vec::with_capacity(plan.segments as usize),
                plan: plan.clone(),
            },
        };
        Some(Box::new(AppState::Exchanges(Exchanges {
            client,
            start: spec.start,
            log: Vec::new(),
            answered: (0, 0),
            completed: (0, 0),
            finished: false,
        })))
    }

    /// Returns the results so far.
    pub(crate) fn report(&self, now: Time) -> AppReport {
        match self {
            AppState::Exchanges(exchanges) => exchanges.report(now),
            AppState::OnOff(state) => AppReport::OnOff(state.bursts.clone()),
            AppState::Datagrams(state) => AppReport::Datagrams(state.report()),
        }
    }
}

/// A client that makes requests.
#[derive(Clone, Debug)]
enum Client {
    Requests { plan: Requests, requests: RandomStream, responses: RandomStream, times: RandomStream },
    Video { plan: Video, playback: Playback, rates: Vec<u8> },
}

/// Requests and responses on one connection.
#[derive(Clone, Debug)]
pub(crate) struct Exchanges {
    client: Client,
    start: Time,
    log: Vec<Exchange>,
    /// The number of requests that the server has received, and their bytes.
    answered: (usize, u64),
    /// The number of responses that the client has received, and their bytes.
    completed: (usize, u64),
    /// True if no further request will be made.
    finished: bool,
}

impl Exchanges {
    /// Makes a request. Returns its size, and for an open loop the time of the next one.
    pub(crate) fn request(&mut self, now: Time) -> (u64, Option<Time>) {
        let made = self.log.len() as u64 + 1;
        let (request, response, next) = match &mut self.client {
            Client::Requests { plan, requests, responses, times } => {
                let (request, response) = (
                    plan.request.draw_size(made - 1, requests),
                    plan.response.draw_size(made - 1, responses),
                );
                let next = match &plan.pace {
                    Pace::Open(gap) => Some(now + gap.draw_time(made - 1, times).max(Duration(1))),
                    Pace::Closed(_) => None,
                };
                self.finished = plan.count.is_some_and(|count| made >= count)
                    || next.is_some_and(|next| next.since(self.start) >= plan.span);
                (request.0, response.0, next)
            }
            Client::Video { plan, playback, rates } => {
                playback.advance(now);
                let previous = rates.last().copied().map_or(0, usize::from);
                let rate = plan.next_rate(previous, playback.level);
                rates.push(rate as u8);
                self.finished = made >= u64::from(plan.segments);
                (Video::REQUEST, plan.segment_bytes(plan.ladder[rate]), None)
            }
        };
        self.log.push(Exchange { at: now, request, response, time: None });
        (request, next.filter(|_| !self.finished))
    }

    /// Returns the bytes of the responses to requests that are complete once the server has received `received` bytes.
    pub(crate) fn answer(&mut self, received: u64) -> u64 {
        let mut bytes = 0;
        while let Some(next) = self.log.get(self.answered.0)
            && self.answered.1 + next.request <= received
        {
            self.answered = (self.answered.0 + 1, self.answered.1 + next.request);
            bytes += next.response;
        }
        bytes
    }

    /// Completes the responses that the client has received once it has `received` bytes. Returns the time of the next
    /// request, unless it is determined already.
    pub(crate) fn complete(&mut self, now: Time, received: u64) -> Option<Time> {
        let mut next = None;
        while let Some(exchange) = self.log.get_mut(self.completed.0)
            && self.completed.1 + exchange.response <= received
        {
            exchange.time = Some(now.since(exchange.at));
            self.completed = (self.completed.0 + 1, self.completed.1 + exchange.response);
            match &mut self.client {
                Client::Requests { plan, times, .. } => {
                    if let Pace::Closed(think) = &plan.pace
                        && !self.finished
                    {
                        let at = now + think.draw_time(self.completed.0 as u64 - 1, times);
                        self.finished = at.since(self.start) >= plan.span;
                        next = Some(at).filter(|_| !self.finished);
                    }
                }
                Client::Video { plan, playback, .. } => {
                    let last = self.completed.0 as u64 >= u64::from(plan.segments);
                    playback.add(now, self.start, plan, last);
                    next = (!self.finished).then(|| now + playback.wait(plan));
                }
            }
        }
        next
    }

    /// True if the client waits for a response.
    pub(crate) fn is_waiting(&self) -> bool {
        self.completed.0 < self.log.len()
    }

    /// True if all responses have arrived and no further request will be made.
    pub(crate) fn is_over(&self) -> bool {
        self.finished && self.completed.0 == self.log.len()
    }

    fn report(&self, now: Time) -> AppReport {
        let Client::Video { plan, playback, rates } = &self.client else {
            return AppReport::Requests(self.log.clone());
        };
        let (delivered, count) = (&rates[..self.completed.0], self.completed.0 as f64);
        let sum: f64 = delivered.iter().map(|rate| plan.ladder[usize::from(*rate)].as_bps_f64()).sum();
        let mut playback = playback.clone();
        if !self.is_over() {
            playback.advance(now);
        }
        AppReport::Video(VideoReport {
            segments: self.completed.0 as u32,
            startup: playback.startup,
            stalls: playback.stalls,
            stalled: playback.stalled + playback.stall.map_or(Duration::ZERO, |since| now.since(since)),
            bitrate_bps: (count > 0.0).then(|| sum / count),
            switches: delivered.windows(2).filter(|two| two[0] != two[1]).count() as u32,
        })
    }
}

/// A playback buffer.
#[derive(Clone, Debug)]
struct Playback {
    /// The time of video in the buffer, at `updated`.
    level: Duration,
    updated: Time,
    playing: bool,
    startup: Option<Duration>,
    stalls: u32,
    /// The length of the stalls that are over.
    stalled: Duration,
    /// The beginning of the present stall.
    stall: Option<Time>,
    segment: Duration,
}

impl Playback {
    fn new(plan: &Video) -> Playback {
        Playback {
            level: Duration::ZERO,
            updated: Time::ZERO,
            playing: false,
            startup: None,
            stalls: 0,
            stalled: Duration::ZERO,
            stall: None,
            segment: plan.segment,
        }
    }

    /// Plays until `now`. Playback stalls when the buffer has been empty for any time.
    fn advance(&mut self, now: Time) {
        let elapsed = now.since(self.updated);
        if self.playing && elapsed > self.level {
            self.playing = false;
            self.stalls += 1;
            self.stall = Some(self.updated + self.level);
            self.level = Duration::ZERO;
        } else if self.playing {
            self.level = self.level.saturating_sub(elapsed);
        }
        self.updated = now;
    }

    /// Adds a segment, and starts playback if there is enough of it, or if it was the last one.
    fn add(&mut self, now: Time, start: Time, plan: &Video, last: bool) {
        self.advance(now);
        self.level += self.segment;
        let enough = if self.startup.is_none() { plan.startup } else { plan.resume };
        if !self.playing && (self.level >= enough || last) {
            self.playing = true;
            if self.startup.is_none() {
                self.startup = Some(now.since(start));
            }
            if let Some(since) = self.stall.take() {
                self.stalled += now.since(since);
            }
        }
    }

    /// Returns the time after which the next segment fits in the buffer.
    fn wait(&self, plan: &Video) -> Duration {
        match self.playing {
            true => (self.level + self.segment).saturating_sub(plan.buffer),
            false => Duration::ZERO,
        }
    }
}

/// A sender that alternates between sending and silence.
#[derive(Clone, Debug)]
pub(crate) struct OnOffState {
    plan: OnOff,
    periods: RandomStream,
    /// The start of the first period; never before it.
    begun: Time,
    /// The end of the present period of sending, or the start of the next.
    period_end: Time,
    is_on: bool,
    written: u64,
    bursts: Vec<Burst>,
    /// By burst: the time at which its last block was written, and the bytes written by then.
    last_write: Vec<Time>,
    ends: Vec<u64>,
    /// Bursts that are delivered.
    delivered: usize,
    finished: bool,
}

impl OnOffState {
    /// Continues at `now`. Returns the bytes to write, and the time at which to continue; none at the end.
    pub(crate) fn tick(&mut self, now: Time) -> (u64, Option<Time>) {
        if !self.begun.is_armed() {
            (self.begun, self.period_end) = (now, now);
        }
        let gap = self.plan.rate.transmission_time(OnOff::BLOCK).max(Duration(1));
        if !self.is_on && now >= self.period_end {
            self.is_on = true;
            self.period_end =
                now + self.plan.on.draw_time(self.bursts.len() as u64, &mut self.periods).max(gap);
            self.bursts.push(Burst { at: now, bytes: 0, delay: None });
            self.last_write.push(now);
            self.ends.push(self.written);
        }
        let mut bytes = 0;
        if let (true, Some(burst), Some(end), Some(last)) =
            (self.is_on, self.bursts.last_mut(), self.ends.last_mut(), self.last_write.last_mut())
        {
            bytes = OnOff::BLOCK;
            burst.bytes += bytes;
            self.written += bytes;
            (*end, *last) = (self.written, now);
        }
        let mut next = now + gap;
        if next >= self.period_end {
            self.is_on = false;
            next = self.period_end + self.plan.off.draw_time(self.bursts.len() as u64 - 1, &mut self.periods);
            self.period_end = next;
        }
        self.finished = next.since(self.begun) >= self.plan.span;
        (bytes, (!self.finished).then_some(next))
    }

    /// Marks the bursts that are delivered once `received` bytes are. The last one may still grow.
    pub(crate) fn deliver(&mut self, now: Time, received: u64) {
        while let Some(&end) = self.ends.get(self.delivered)
            && end <= received
            && (self.delivered + 1 < self.bursts.len() || !self.is_on || self.finished)
        {
            self.bursts[self.delivered].delay = Some(now.since(self.last_write[self.delivered]));
            self.delivered += 1;
        }
    }

    /// Returns the bytes written so far.
    pub(crate) fn written(&self) -> u64 {
        self.written
    }

    /// True if everything is written and delivered.
    pub(crate) fn is_over(&self) -> bool {
        self.finished && self.delivered == self.bursts.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::distribution::Distribution;
    use anabranch_units::Rate;

    #[test]
    fn playback_starts_stalls_and_resumes_as_by_hand() {
        let s = Duration::from_secs;
        let plan = Video {
            segment: s(4),
            segments: 6,
            ladder: vec![Rate::from_mbps(1)],
            startup: s(8),
            resume: s(4),
            buffer: s(12),
        };
        let mut playback = Playback::new(&plan);
        let mut add = |at: u64, last| {
            playback.add(Time::from_secs(at), Time::from_secs(1), &plan, last);
            (playback.level, playback.playing, playback.stalls, playback.wait(&plan))
        };
        assert_eq!(add(3, false), (s(4), false, 0, s(0)));
        // Eight seconds are enough: startup at 5, which is 4 s after the start.
        assert_eq!(add(5, false), (s(8), true, 0, s(0)));
        // 8 - 1 + 4 = 11; the next fits once 3 more are played.
        assert_eq!(add(6, false), (s(11), true, 0, s(3)));
        // Played out exactly at 17: no stall. At 20 it has stalled for 3 s.
        assert_eq!(add(20, false), (s(4), true, 1, s(0)));
        assert_eq!(add(24, false), (s(4), true, 1, s(0)));
        assert_eq!(add(30, true), (s(4), true, 2, s(0)));
        assert_eq!((playback.startup, playback.stalled, playback.stall), (Some(s(4)), s(5), None));
    }

    #[test]
    fn an_on_off_sender_keeps_its_duty_cycle() {
        let second = |n: f64| Distribution::Constant(n * 1e9);
        // 1.12 Mbit/s is a block each 10 ms: 20 in 0.2 s of each second.
        let plan =
            OnOff { on: second(0.2), off: second(0.8), rate: Rate(1_120_000), span: Duration::from_secs(10) };
        let mut state = OnOffState {
            periods: RandomStream::new(1, "x"),
            plan,
            begun: Time::NEVER,
            period_end: Time::ZERO,
            is_on: false,
            written: 0,
            bursts: Vec::new(),
            last_write: Vec::new(),
            ends: Vec::new(),
            delivered: 0,
            finished: false,
        };
        let (mut now, mut blocks) = (Time::from_secs(3), 0);
        while let (bytes, Some(next)) = state.tick(now) {
            blocks += bytes / OnOff::BLOCK;
            // It writes in the first fifth of each second only.
            assert!(now.since(Time::from_secs(3)).0 % 1_000_000_000 < 200_000_000);
            now = next;
        }
        assert_eq!((blocks + 1, state.bursts.len()), (200, 10));
        assert!(state.bursts.iter().all(|burst| burst.bytes == 20 * OnOff::BLOCK));
        assert!(!state.is_over());
        state.deliver(now, state.written);
        assert!(state.is_over());
    }
}
