//! Random early detection.
//!
//! Decides on each packet offered, from an exponentially weighted average of the queue that it finds. Between the
//! thresholds, packets are dropped (or marked) with a probability that grows with the average and, so that drops are
//! evenly spaced, with the number of packets since the last one.
//!
//! Source: S. Floyd and V. Jacobson, "Random Early Detection Gateways for Congestion Avoidance", IEEE/ACM Transactions
//! on Networking 1(4), 1993, Figure 2 and sections 4, 7 and 8; the gentle variant: S. Floyd, "Recommendation on using
//! the gentle variant of RED", 2000.
//!
//! Reading: the queue of a packet is the one that it finds, itself not included. While the queue is empty, the average
//! decays as if packets of 1500 bytes had found it empty (the paper: "a typical transmission time for a small
//! packet"). With thresholds in bytes the probability of a packet is proportional to its length (section 4), a packet
//! of 1500 bytes having the full one. Every packet offered takes one draw, whatever the average is.

use anabranch_units::{Duration, RandomStream, Rate, Time};

use crate::{Red, ResolvedLimit};

/// The length of a full packet in bytes.
const FULL_PACKET: f64 = 1500.0;

/// The decision on a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It is queued.
    Pass,
    /// It is queued and ECN-marked.
    Mark,
    /// It is dropped.
    Drop,
}

/// The queue that a packet finds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    pub(crate) packets: usize,
    pub(crate) bytes: u64,
    /// The end of the last busy period, if there is no packet.
    pub(crate) idle_since: Time,
}

#[derive(Clone, Debug)]
pub(crate) struct RedState {
    settings: Red,
    in_bytes: bool,
    min: f64,
    max: f64,
    /// The time of a full packet at the first rate of the link.
    slot: Duration,
    average: f64,
    /// The packets since the last drop or mark, while the average is between the thresholds; -1 elsewhere.
    count: i64,
    /// A draw for each packet offered, and for each packet of cross traffic.
    streams: [RandomStream; 2],
}

impl RedState {
    pub(crate) fn new(settings: Red, rate: Rate, rtt: Duration, seed: u64, link: &str) -> RedState {
        let [min, max] = [settings.min, settings.max].map(|limit| limit.resolve(rate, rtt));
        let in_bytes = min.bytes < u64::MAX;
        let threshold =
            |limit: ResolvedLimit| if in_bytes { limit.bytes as f64 } else { limit.packets as f64 };
        let stream = |part: &str| RandomStream::new(seed, &format!("link.{link}.red{part}"));
        RedState {
            settings,
            in_bytes,
            min: threshold(min),
            max: threshold(max).max(threshold(min)),
            slot: rate.transmission_time(FULL_PACKET as u64),
            average: 0.0,
            count: -1,
            streams: [stream(""), stream(".cross")],
        }
    }

    /// Returns the draw of the next packet; `is_cross` says that it belongs to the cross traffic.
    pub(crate) fn draw(&mut self, is_cross: bool) -> f64 {
        self.streams[usize::from(is_cross)].next_f64()
    }

    /// Decides on a packet that reaches the queue at `now`, with its draw.
    pub(crate) fn decide(
        &mut self,
        now: Time,
        found: Found,
        wire_bytes: u32,
        ect: bool,
        draw: f64,
    ) -> Verdict {
        self.update(now, found);
        let probability = self.probability();
        if probability <= 0.0 {
            self.count = -1;
            return Verdict::Pass;
        }
        if probability >= 1.0 {
            self.count = 0;
            return Verdict::Drop;
        }
        self.count += 1;
        let share = if self.in_bytes { f64::from(wire_bytes) / FULL_PACKET } else { 1.0 };
        let base = probability * share;
        let left = 1.0 - self.count as f64 * base;
        let spaced = if left <= base { 1.0 } else { base / left };
        if draw >= spaced {
            return Verdict::Pass;
        }
        self.count = 0;
        if ect && self.settings.ecn { Verdict::Mark } else { Verdict::Drop }
    }

    /// Averages the queue that a packet finds.
    fn update(&mut self, now: Time, found: Found) {
        let weight = self.settings.weight;
        if found.packets > 0 {
            let queue = if self.in_bytes { found.bytes as f64 } else { found.packets as f64 };
            self.average += weight * (queue - self.average);
        } else {
            let slots = now.since(found.idle_since).0 as f64 / self.slot.0.max(1) as f64;
            self.average *= libm::pow(1.0 - weight, slots);
        }
    }

    /// Returns the probability of the average, without the spacing.
    fn probability(&self) -> f64 {
        let Red { max_probability, gentle, .. } = self.settings;
        if self.average < self.min {
            0.0
        } else if self.average < self.max {
            max_probability * (self.average - self.min) / (self.max - self.min)
        } else if gentle && self.average < 2.0 * self.max {
            max_probability + (1.0 - max_probability) * (self.average - self.max) / self.max
        } else {
            1.0
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::QueueLimit;

    fn red(settings: Red) -> RedState {
        RedState::new(settings, Rate::from_mbps(12), Duration::from_millis(10), 1, "a")
    }

    fn offer(state: &mut RedState, now: Time, found: Found, bytes: u32, ect: bool) -> Verdict {
        let draw = state.draw(false);
        state.decide(now, found, bytes, ect, draw)
    }

    fn queue(packets: usize) -> Found {
        Found { packets, bytes: packets as u64 * 1500, idle_since: Time::ZERO }
    }

    /// n packets that find a constant queue q: average q (1 - (1 - w)^n), equation 1 of the paper.
    #[test]
    fn the_average_follows_its_closed_form() {
        let mut state = red(Red::default());
        for _ in 0..500 {
            offer(&mut state, Time::ZERO, queue(10), 1500, false);
        }
        let exact = 10.0 * (1.0 - (1.0 - 0.002_f64).powi(500));
        assert!((state.average - exact).abs() < 1e-9, "{} {exact}", state.average);
        // 300 packets of 1 ms during which there is none.
        let empty = Found { packets: 0, bytes: 0, idle_since: Time::from_millis(200) };
        offer(&mut state, Time::from_millis(500), empty, 1, false);
        assert!((state.average - exact * 0.998_f64.powi(300)).abs() < 1e-9, "{}", state.average);
    }

    #[test]
    fn the_probability_rises_from_min_to_max_and_gently_to_twice_max() {
        let at = |average, gentle| {
            let mut state = red(Red { gentle, max_probability: 0.1, ..Red::default() });
            state.average = average;
            state.probability()
        };
        for gentle in [false, true] {
            assert_eq!(at(4.99, gentle), 0.0);
            assert_eq!(at(5.0, gentle), 0.0);
            assert!((at(10.0, gentle) - 0.05).abs() < 1e-12);
        }
        assert_eq!(at(15.0, false), 1.0);
        assert!((at(15.0, true) - 0.1).abs() < 1e-12);
        assert!((at(22.5, true) - 0.55).abs() < 1e-12);
        assert_eq!(at(30.0, true), 1.0);
    }

    /// With a constant probability p the gaps between drops are uniform on 1 to 1/p (section 7 of the paper).
    #[test]
    fn drops_are_spaced_evenly() {
        let mut state = red(Red { max_probability: 0.1, weight: 1.0, ..Red::default() });
        let mut gaps = vec![0_u32; 22];
        let (mut last, mut drops) = (0, 0);
        for n in 1..200_000 {
            // An average of 10: p = 0.05.
            if offer(&mut state, Time::ZERO, queue(10), 1500, false) == Verdict::Drop {
                if drops > 0 {
                    gaps[n - last] += 1;
                }
                (last, drops) = (n, drops + 1);
            }
        }
        // The count of the first packet after a drop is 1, so that gaps are 1 to 19: p / (1 - 19 p) = 1.
        let (all, expected) = (gaps.iter().sum::<u32>(), f64::from(gaps.iter().sum::<u32>()) / 19.0);
        assert!(gaps[20..].iter().all(|n| *n == 0) && gaps[0] == 0, "{gaps:?}");
        assert!(all > 15_000);
        for gap in &gaps[2..19] {
            assert!((f64::from(*gap) / expected - 1.0).abs() < 0.15, "{gaps:?}");
        }
    }

    #[test]
    fn senders_with_ecn_are_marked_up_to_the_point_where_everything_is_dropped() {
        let verdicts = |ect: bool, settings: Red, packets| {
            let mut state = red(Red { weight: 1.0, ..settings });
            (0..1000).map(|_| offer(&mut state, Time::ZERO, queue(packets), 1500, ect)).collect::<Vec<_>>()
        };
        let settings = Red { max_probability: 0.2, ..Red::default() };
        let (with, without) = (verdicts(true, settings, 14), verdicts(false, settings, 14));
        assert!(with.contains(&Verdict::Mark) && !with.contains(&Verdict::Drop));
        assert!(without.contains(&Verdict::Drop) && !without.contains(&Verdict::Mark));
        let same = |(a, b): (&Verdict, &Verdict)| (*a == Verdict::Pass) == (*b == Verdict::Pass);
        assert!(with.iter().zip(&without).all(same), "the same packets");
        assert!(verdicts(true, settings, 30).iter().all(|v| *v == Verdict::Drop));
        assert!(verdicts(true, Red { ecn: false, ..settings }, 14).contains(&Verdict::Drop));
        assert!(verdicts(false, settings, 4).iter().all(|v| *v == Verdict::Pass));
    }

    #[test]
    fn in_bytes_short_packets_are_dropped_less_often() {
        let settings = Red {
            min: QueueLimit::Bytes(7_500),
            max: QueueLimit::Bytes(22_500),
            max_probability: 0.1,
            weight: 1.0,
            ..Red::default()
        };
        let drops = |bytes| {
            let mut state = red(settings);
            (0..50_000)
                .filter(|_| offer(&mut state, Time::ZERO, queue(10), bytes, false) == Verdict::Drop)
                .count() as f64
        };
        let (long, short) = (drops(1500), drops(150));
        assert!((long / short - 10.0).abs() < 1.0, "{long} {short}");
    }
}
