//! The round trip of a path without a queue of its own, which may grow while a connection lasts.
//!
//! A path can become longer: a handover, another route, other traffic in its queue. The least round trip of the connection does not
//! show that, and the smoothed round trip does not tell it from a queue that the connection itself fills. While a segment was under
//! way, the bottleneck has sent what was acknowledged in that round trip. The rest of the round trip is not the connection's own queue.

use anabranch_units::{Duration, Time};

use super::seconds;
use crate::scheduler::{RecoveryState, SubflowView};

/// The samples of a half of the window over which the least one counts.
const SAMPLES: u32 = 4;
/// The seconds for which a receiver may delay the acknowledgement of a single segment.
const DELAYED: f64 = 0.04;
/// Growth by less than this factor may be a bandwidth-delay product of other flows in the queue, which comes and goes.
const GROWTH: f64 = 2.0;
/// The least time after the last sample from which on a path that got worse is tried again.
pub(super) const FORGET: Duration = Duration::from_secs(1);

/// The measurement of one subflow.
#[derive(Clone, Copy, Default, PartialEq, Debug)]
pub(super) struct Floor {
    /// The least sample of the half of the window that is complete, and of the current one, in seconds.
    halves: (f64, f64),
    /// The samples of the current half.
    samples: u32,
    /// The time of the last sample, and that of the first one of those that all exceed the least round trip.
    at: Time,
    grown: Time,
}

impl Floor {
    /// Continues with an acknowledgement on a path of `rate` bytes per second, if that is known.
    pub(super) fn observe(&mut self, subflow: &SubflowView, rate: Option<f64>) {
        if subflow.recovery != RecoveryState::Open {
            // It may be the length of an outage.
            return;
        }
        let now = subflow.last_received;
        let least = seconds(subflow.min_rtt);
        let last = seconds(subflow.last_rtt);
        let mss = subflow.mss.max(1) as f64;
        let arrived = subflow.delivery_rate.0 as f64 / 8.0 * last;
        let own = match rate {
            _ if arrived <= 0.0 => f64::INFINITY,
            _ if arrived <= mss => DELAYED,
            Some(rate) => (arrived - mss) / rate,
            None => f64::INFINITY,
        };
        let sample = (last - own).max(least);
        if now >= self.forgotten() {
            // A single sample may be the length of an outage, unless it confirms what was known.
            let known = self.halves.0.min(self.halves.1);
            if sample - least < (known - least) / 2.0 {
                self.grown = now;
            }
            self.halves = (known.max(least), sample);
            self.samples = 0;
        }
        self.halves.1 = if self.samples == 0 { sample } else { self.halves.1.min(sample) };
        self.samples += 1;
        self.at = now;
        if self.halves.1 <= least {
            self.grown = now;
        }
        if self.samples == SAMPLES {
            self.halves.0 = self.halves.1;
            self.samples = 0;
        }
    }

    /// Returns the time at which the growth is forgotten without a further sample: then the path is tried again. That takes as long
    /// as it has lasted.
    fn forgotten(&self) -> Time {
        self.at + self.at.since(self.grown.min(self.at)).max(FORGET)
    }

    /// Returns the round trip in seconds; at least `least`, the least one of the connection.
    pub(super) fn at(&self, now: Time, least: f64) -> f64 {
        let floor = self.halves.0.min(self.halves.1);
        if now >= self.forgotten() || floor < GROWTH * least { least } else { floor }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::SubflowId;
    use anabranch_units::Rate;

    /// Returns the round trip after samples (the time of the acknowledgement and the round trip in ms, and the segments of 1000 bytes that arrived in it) on a
    /// path of 10 to `ms`, at a later time.
    fn after(samples: impl IntoIterator<Item = (u64, u64, u64)>, rate: Option<f64>, ms: u64) -> f64 {
        let mut floor = Floor::default();
        for (at, rtt, segments) in samples {
            let path = SubflowView::idle(SubflowId(0), Duration::from_millis(10), 10, 1000);
            let view = SubflowView {
                last_rtt: Duration::from_millis(rtt),
                delivery_rate: Rate(segments * 8_000_000 / rtt),
                last_received: Time::from_millis(at),
                ..path
            };
            floor.observe(&view, rate);
        }
        (floor.at(Time::from_millis(ms), 0.01) * 1e6).round() / 1e3
    }

    #[test]
    fn a_path_that_becomes_longer_is_believed_once_no_sample_is_as_short_as_before() {
        let steps = |far: u64| (0..4 + far).map(|n| (100 * n, if n < 4 { 10 } else { 82 }, 3));
        assert_eq!(after(steps(3), Some(1e6), 700), 10.0);
        assert_eq!(after(steps(4), Some(1e6), 800), 80.0, "without two of three segments, 1 ms each");
        assert_eq!(after(steps(4).chain([(800, 12, 3)]), Some(1e6), 800), 10.0, "it is short again");
        let a_little = (0..8).map(|n| (100 * n, 21, 3));
        assert_eq!(after(a_little, Some(1e6), 800), 10.0, "a queue of others");
    }

    #[test]
    fn a_queue_of_its_own_is_no_growth() {
        // 40 segments arrive in 50 ms at one in a millisecond: 39 of them were in the queue before the last one.
        let bulk = |segments| (0..8).map(move |n| (100 * n, 50, segments));
        assert_eq!(after(bulk(41), Some(1e6), 800), 10.0);
        assert_eq!(after(bulk(21), Some(1e6), 800), 30.0, "half of it is another one's");
        assert_eq!(after(bulk(2), None, 800), 10.0, "a path of unknown rate");
    }

    #[test]
    fn a_sample_without_a_rate_of_delivery_or_while_a_loss_is_repaired_is_none() {
        let path = SubflowView::idle(SubflowId(0), Duration::from_millis(10), 10, 1000);
        for (segments, recovery, base) in
            [(2, RecoveryState::Open, 80.0), (0, RecoveryState::Open, 10.0), (2, RecoveryState::Loss, 10.0)]
        {
            let mut floor = Floor::default();
            for sample in 0..8 {
                let last_received = Time::from_millis(100 * sample);
                let (last_rtt, delivery_rate) = (Duration::from_millis(81), Rate(segments * 8_000_000 / 81));
                floor.observe(
                    &SubflowView { last_rtt, delivery_rate, recovery, last_received, ..path },
                    Some(1e6),
                );
            }
            assert_eq!(
                (floor.at(Time::from_millis(800), 0.01) * 1e3).round(),
                base,
                "{segments} {recovery:?}"
            );
        }
    }

    /// A path that is as long as before, or nearly, when it is tried again is tried sooner the next time.
    #[test]
    fn what_a_try_confirms_lasts_longer() {
        let long = || (0..31).map(|n| (100 * n, 81, 2));
        // It has lasted for three seconds, is forgotten after three more, and the try is at 6.5 s.
        for (sample, until) in [(81, 13_000), (45, 7500), (30, 7500)] {
            let tried = || long().chain([(6500, sample, 2)]);
            assert!(after(tried(), Some(1e6), until - 1) > 20.0, "{sample}");
            assert_eq!(after(tried(), Some(1e6), until), 10.0, "{sample}");
        }
        // Growth begins anew after a sample without it.
        let again = || long().chain([(3100, 10, 2)]).chain((0..8).map(|n| (3200 + 100 * n, 81, 2)));
        assert_eq!(after(again(), Some(1e6), 4899), 80.0);
        assert_eq!(after(again(), Some(1e6), 4900), 10.0);
    }

    #[test]
    fn a_delayed_acknowledgement_is_no_growth() {
        let single = |rtt| (0..8).map(move |n| (100 * n, rtt, 1));
        assert_eq!(after(single(50), None, 800), 10.0);
        assert_eq!(after(single(120), None, 800), 80.0);
    }

    #[test]
    fn growth_is_forgotten_without_a_sample_after_as_long_as_it_has_lasted() {
        let long = |n: u64| (0..n).map(|n| (100 * n, 81, 2));
        for (samples, kept) in [(4, 1000), (31, 3000)] {
            let last = 100 * (samples - 1);
            assert_eq!(after(long(samples), Some(1e6), last + kept - 1), 80.0);
            assert_eq!(after(long(samples), Some(1e6), last + kept), 10.0);
        }
        assert_eq!(after(long(4).chain([(2000, 91, 2)]), Some(1e6), 2000), 80.0, "confirmed by one sample");
        assert_eq!(after(long(4).chain([(2000, 41, 2)]), Some(1e6), 2000), 40.0);
        assert_eq!(
            after([(0, 10, 2), (2000, 91, 2)], Some(1e6), 2000),
            10.0,
            "it may be the length of an outage"
        );
    }
}
