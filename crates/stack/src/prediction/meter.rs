//! The rate of a path, from the spacing of acknowledgements.
//!
//! Data that is sent together arrives at the rate of the bottleneck, and so do its acknowledgements. A *train* is a run of
//! acknowledgements without a long gap. The delivery rate of a round trip ([`SubflowView::delivery_rate`]) is the window over the round trip
//! as long as windows are small, and shows the bottleneck only when it is full; a train shows it in the first round trip.

use anabranch_units::Time;

use super::floor::{FORGET, Floor};
use super::seconds;
use crate::scheduler::{RecoveryState, SubflowView};

/// The segments of the shortest train that counts, and those after which a long one counts.
const SHORTEST: f64 = 3.0;
const LONGEST: f64 = 16.0;
/// The weight of what was known before a further train.
const MEMORY: f64 = 0.75;
/// A gap of this number of mean spacings ends a train.
const GAP: f64 = 4.0;
/// A segment that waited for less than this part of the spacing met no queue.
const QUEUED: f64 = 0.5;
/// A train whose rate is lower than the known one by more than this factor shows that the path got worse.
const FALL: f64 = 2.0;

/// The measurement of one subflow. It is shown the subflow's view after each acknowledgement, or less often.
#[derive(Clone, Copy, Default, PartialEq, Debug)]
pub struct Meter {
    /// The time at which the subflow was established, which distinguishes it from a later one with its ID.
    since: Option<Time>,
    /// Bytes acknowledged, and the time of the last acknowledgement.
    acked: u64,
    at: Time,
    /// Bytes and seconds of the current train.
    train: (f64, f64),
    /// Bytes and seconds of earlier trains, the last one with the greatest weight.
    known: (f64, f64),
    /// Bytes and seconds of trains that are too short to count by themselves.
    short: (f64, f64),
    /// The time of the last train that counts.
    measured: Time,
    /// The rate before the last train that had a much lower one, and the time of that train.
    fell: (f64, Time),
    /// Bytes that the bottleneck had not sent at a time, as far as the sender knows.
    queue: (f64, Time),
    /// True if the last train met no queue, so that its rate is a lower bound.
    unqueued: bool,
    floor: Floor,
}

impl Meter {
    /// Continues the measurement with the acknowledgements since the last call.
    pub fn observe(&mut self, subflow: &SubflowView) {
        let acked = subflow.bytes_sent.saturating_sub(subflow.unacked);
        if self.since != Some(subflow.established) {
            *self = Meter {
                since: Some(subflow.established),
                acked,
                at: subflow.last_received,
                measured: subflow.last_received,
                fell: (0.0, subflow.last_received),
                ..Meter::default()
            };
        }
        if acked <= self.acked || subflow.last_received <= self.at {
            return;
        }
        let step = (acked - self.acked) as f64;
        let time = seconds(subflow.last_received.since(self.at));
        let before = core::mem::replace(&mut self.at, subflow.last_received);
        self.acked = acked;
        let rate = self.rate(subflow.mss).map(|rate| rate.max(subflow.delivery_rate.0 as f64 / 8.0));
        self.floor.observe(subflow, rate);
        let mss = subflow.mss.max(1) as f64;
        let (earlier, span) = if self.train.0 > 0.0 { self.train } else { self.known };
        // A segment that waited for longer than its distance from the one before left the bottleneck right behind it. Where jitter bunches
        // acknowledgements, they wait too.
        let base = seconds(subflow.min_rtt);
        // What is acknowledged was sent no later than what is not.
        let age = match subflow.sent {
            Some((first, _)) if subflow.recovery == RecoveryState::Open => {
                seconds(subflow.last_received.since(first.min(subflow.last_received)))
            }
            _ => 0.0,
        };
        let waits = subflow.srtt.map_or(0.0, seconds).max(age) - base;
        let longest =
            if earlier > 0.0 { waits.max(GAP * span / earlier * step) } else { base.max(waits) / 2.0 };
        // What was sent after the acknowledgement before has the spacing of the sender.
        let continues = time <= longest.max(0.0005) && time < seconds(subflow.last_rtt);
        if continues {
            self.train = (self.train.0 + step, self.train.1 + time);
            if self.train.0 < LONGEST * mss {
                return;
            }
        }
        let (mut bytes, mut span) = core::mem::take(&mut self.train);
        let ended = if continues { self.at } else { before };
        if bytes < SHORTEST * mss {
            (bytes, span) = (bytes + self.short.0, span + self.short.1);
            self.short = (bytes, span);
        }
        if bytes >= SHORTEST * mss {
            self.short = (0.0, 0.0);
            let waited = seconds(subflow.last_rtt) - base;
            // A delayed acknowledgement waits for the further segments that it acknowledges.
            let unqueued = waited < (QUEUED + (step / mss - 1.0).max(0.0)) * span / bytes * mss;
            let faster = |by: f64| self.known.0 * span > bytes * self.known.1 * by;
            if unqueued && faster(1.0) {
                // The sender was slower than the path.
                return;
            }
            if faster(FALL) {
                self.fell = (self.known.0 / self.known.1, ended);
            }
            let memory = if ended < self.old_at() { MEMORY } else { 0.0 };
            self.known = (self.known.0 * memory + bytes, self.known.1 * memory + span);
            (self.measured, self.unqueued) = (ended, unqueued);
        }
    }

    /// Returns the time at which the rate is old: no train has been measured for as long as it has been what it is.
    fn old_at(&self) -> Time {
        self.measured + self.measured.since(self.fell.1).max(FORGET)
    }

    /// Returns the rate that the path may have again, if the measured `rate` is old: the one before it fell, or a `remembered` one.
    pub fn may_have_again(&self, now: Time, rate: f64, remembered: f64) -> Option<f64> {
        Some(self.fell.0.max(remembered)).filter(|before| now >= self.old_at() && rate * FALL < *before)
    }

    /// Notes that `bytes` are sent.
    pub fn send(&mut self, bytes: u64) {
        self.queue.0 += bytes as f64;
    }

    /// Returns the bytes that a bottleneck of `rate` bytes per second has not sent; at most the `flight`.
    pub fn backlog(&mut self, now: Time, rate: f64, flight: f64) -> f64 {
        let (bytes, at) = self.queue;
        let left = if rate.is_finite() { bytes - rate * seconds(now.since(at)) } else { 0.0 };
        self.queue = (left.clamp(0.0, flight.max(0.0)), now);
        self.queue.0
    }

    /// Returns the round trip without a queue of its own, in seconds.
    pub fn base_rtt(&self, subflow: &SubflowView, now: Time) -> f64 {
        self.floor.at(now, seconds(subflow.min_rtt))
    }

    /// True if the last train met no queue: it shows the rate of the sender, and the path may have a higher one.
    pub fn is_unqueued(&self) -> bool {
        self.unqueued
    }

    /// Returns the rate in bytes per second; `None` if too little was acknowledged.
    pub fn rate(&self, mss: u64) -> Option<f64> {
        let (bytes, span) = (self.known.0 + self.train.0, self.known.1 + self.train.1);
        (bytes >= SHORTEST * mss as f64 && span > 0.0).then(|| bytes / span)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::SubflowId;
    use anabranch_units::Duration;

    /// Returns a subflow after `acked` of 40 segments are acknowledged, the last one at this time.
    fn view(acked: u64, micros: u64) -> SubflowView {
        SubflowView {
            bytes_sent: 40 * 1000,
            unacked: (40 - acked) * 1000,
            last_received: Time(micros * 1000),
            ..SubflowView::idle(SubflowId(0), Duration::from_millis(50), 10, 1000)
        }
    }

    #[test]
    fn the_first_window_shows_the_rate_of_the_bottleneck() {
        // 1000 bytes in 2 ms; the delivery rate would be 10 segments in 50 ms.
        let mut meter = Meter::default();
        for segment in 0..=10 {
            meter.observe(&view(segment, 50_000 + 2000 * segment));
        }
        assert!((meter.rate(1000).unwrap() - 500_000.0).abs() < 1.0, "{meter:?}");
    }

    /// Segments that a sender spaces by 2 ms wait for nothing, and those that a link spaces wait for the one before.
    #[test]
    fn a_train_that_waits_for_no_queue_shows_the_rate_of_the_sender() {
        for (waits, unqueued) in [(900, true), (1100, false)] {
            let mut meter = Meter::default();
            assert!(!meter.is_unqueued());
            for segment in 0..=17 {
                let last_rtt = Duration::from_micros(50_000 + waits);
                meter.observe(&SubflowView { last_rtt, ..view(segment, 50_000 + 2000 * segment) });
            }
            assert_eq!(meter.is_unqueued(), unqueued, "{meter:?}");
            assert!((meter.rate(1000).unwrap() - 500_000.0).abs() < 1.0, "{meter:?}");
        }
    }

    /// As above, with acknowledgements of two segments: the first of them waits for the second one, without a queue.
    #[test]
    fn delayed_acknowledgements_are_no_queue() {
        for (waits, unqueued) in [(2100, true), (4000, false)] {
            let mut meter = Meter::default();
            for segment in (0..=18).step_by(2) {
                let last_rtt = Duration::from_micros(50_000 + waits);
                meter.observe(&SubflowView { last_rtt, ..view(segment, 50_000 + 2000 * segment) });
            }
            assert_eq!(meter.is_unqueued(), unqueued, "{meter:?}");
        }
    }

    #[test]
    fn a_pause_between_two_windows_counts_nowhere() {
        let mut meter = Meter::default();
        for (segment, micros) in (0..=30).map(|n| (n, 50_000 + 2000 * n + if n > 10 { 30_000 } else { 0 })) {
            meter.observe(&view(segment, micros));
        }
        assert!((meter.rate(1000).unwrap() - 500_000.0).abs() < 1.0, "{meter:?}");
    }

    /// At 2 Mbit/s a segment takes 6 ms, longer than half of a round trip of 5 ms: its place in the queue shows that there was no pause.
    #[test]
    fn a_path_that_holds_less_than_a_segment_is_measured_once_segments_wait() {
        for (rtt, known) in [(20, true), (8, false)] {
            let mut meter = Meter::default();
            for segment in 0..=10 {
                let min_rtt = Duration::from_millis(5);
                let subflow = view(segment, 50_000 + 6000 * segment);
                meter.observe(&SubflowView { min_rtt, srtt: Some(Duration::from_millis(rtt)), ..subflow });
            }
            assert_eq!(
                meter.rate(1000).is_some_and(|rate| (rate - 166_667.0).abs() < 1.0),
                known,
                "{meter:?}"
            );
        }
    }

    /// As above, before the smoothed round trip shows it: ten segments were sent at once, and the next one still waits.
    #[test]
    fn a_segment_that_waits_shows_that_there_was_no_pause() {
        for (recovery, known) in [(RecoveryState::Open, true), (RecoveryState::Recovery, false)] {
            let mut meter = Meter::default();
            for segment in 0..=4 {
                let min_rtt = Duration::from_millis(5);
                let sent = Some((Time::from_millis(40), Time::from_millis(40)));
                let subflow = view(segment, 50_000 + 6000 * segment);
                meter.observe(&SubflowView { min_rtt, srtt: Some(min_rtt), sent, recovery, ..subflow });
            }
            assert_eq!(
                meter.rate(1000).is_some_and(|rate| (rate - 166_667.0).abs() < 1.0),
                known,
                "{meter:?}"
            );
        }
    }

    /// 4 Mbit/s, and jitter that bunches ten acknowledgements: as segments wait for 20 ms, the bottleneck was busy between two bunches.
    #[test]
    fn bunches_of_acknowledgements_are_no_faster_than_the_bottleneck() {
        for (srtt, right) in [(70, true), (50, false)] {
            let mut meter = Meter::default();
            for segment in 0..=40 {
                let at = 50_000 + 20_000 * (segment / 10) + 10 * (segment % 10);
                let last_rtt = Duration::from_millis(srtt);
                meter.observe(&SubflowView { srtt: Some(last_rtt), last_rtt, ..view(segment, at) });
            }
            let rate = meter.rate(1000).unwrap();
            assert_eq!((rate / 500_000.0 - 1.0).abs() < 0.1, right, "{rate} {meter:?}");
        }
    }

    /// Responses of three segments: the first acknowledgement ends a pause, and three segments are needed.
    #[test]
    fn short_trains_count_together() {
        let mut meter = Meter::default();
        let mut acked = 0;
        for (response, known) in [(0, false), (1, false), (2, true)] {
            for segment in 0..3 {
                meter.observe(&view(acked, 50_000 + 500_000 * response + 2000 * segment));
                acked += 1;
            }
            assert_eq!(
                meter.rate(1000).is_some_and(|rate| (rate - 500_000.0).abs() < 1.0),
                known,
                "{meter:?}"
            );
        }
    }

    /// 4 Mbit/s, and 0.4 from 1 s to 3 s. Two seconds later the path may have recovered, and then only what is measured now counts.
    #[test]
    fn a_rate_that_fell_is_old_after_as_long_as_it_lasted() {
        let mut meter = Meter::default();
        let mut sent = 0;
        let mut train = |meter: &mut Meter, ms: u64, spacing_us: u64| {
            for segment in 0..=16 {
                let subflow = view(0, 1000 * ms + spacing_us * segment);
                // Sixteen segments at once wait for each other.
                let last_rtt = Duration::from_micros(50_000 + 8 * spacing_us);
                sent += 1000;
                let view = SubflowView { bytes_sent: sent, unacked: 0, srtt: Some(last_rtt), ..subflow };
                meter.observe(&SubflowView { last_rtt, ..view });
            }
        };
        let recovered = |meter: &Meter, ms: u64, remembered: f64| {
            meter.may_have_again(Time::from_millis(ms), meter.rate(1000).unwrap(), remembered).is_some()
        };
        train(&mut meter, 500, 2000);
        assert!(!recovered(&meter, 9000, 0.0), "it never was another one");
        assert!(recovered(&meter, 9000, 1e7), "but earlier");
        for at in 0..6 {
            train(&mut meter, 1000 + 400 * at, 20_000);
        }
        let rate = meter.rate(1000).unwrap();
        assert!((rate / 50_000.0 - 1.0).abs() < 0.3, "{rate}");
        assert!(!recovered(&meter, 4800, 0.0));
        assert!(recovered(&meter, 5600, 0.0));
        train(&mut meter, 5600, 2000);
        let rate = meter.rate(1000).unwrap();
        assert!((rate / 500_000.0 - 1.0).abs() < 0.01, "{rate}");
    }

    #[test]
    fn what_is_sent_waits_until_the_bottleneck_has_sent_it() {
        let mut meter = Meter::default();
        let mut backlog = |ms, rate, flight, sent| {
            let waits = meter.backlog(Time::from_millis(ms), rate, flight);
            meter.send(sent);
            waits.round()
        };
        assert_eq!(backlog(0, 1e6, 0.0, 10_000), 0.0);
        assert_eq!(backlog(0, 1e6, 1e5, 10_000), 10_000.0, "at once");
        assert_eq!(backlog(4, 1e6, 1e5, 0), 16_000.0);
        assert_eq!(backlog(5, 2e6, 1e5, 0), 14_000.0, "at a higher rate");
        assert_eq!(backlog(5, 2e6, 8e3, 0), 8000.0, "the rest is acknowledged");
        assert_eq!(backlog(100, 1e6, 1e5, 5000), 0.0);
        assert_eq!(backlog(101, f64::INFINITY, 1e5, 0), 0.0, "no rate, no queue");
    }

    #[test]
    fn two_segments_measure_nothing_and_another_subflow_begins_anew() {
        let mut meter = Meter::default();
        for segment in 0..=2 {
            meter.observe(&view(segment, 50_000 + 2000 * segment));
        }
        assert_eq!(meter.rate(1000), None);
        for segment in 3..=9 {
            meter.observe(&view(segment, 50_000 + 2000 * segment));
        }
        assert!(meter.rate(1000).is_some());
        meter.observe(&SubflowView { established: Time::from_millis(80), ..view(12, 90_000) });
        assert_eq!(meter.rate(1000), None);
    }
}
