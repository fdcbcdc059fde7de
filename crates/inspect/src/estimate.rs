//! The path of a subflow in the direction of its data: rate, least round trip, queue, losses, each with its source.

use anabranch_units::Duration;
use serde::Serialize;

use crate::track::{Half, Meter, Subflow};

/// The share of the largest queue from which on a queue counts as full.
const FULL: f64 = 0.7;
/// 95 % of the normal distribution.
const Z: f64 = 1.96;

/// A value with the range in which it probably is.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Estimate {
    /// The most probable value, in the unit of the field that has the estimate.
    pub value: f64,
    /// The lower end of the range.
    pub low: f64,
    /// The upper end of the range.
    pub high: f64,
}

/// The figure from which a rate came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RateSource {
    /// Periods in which packets waited at the bottleneck.
    BusyPeriods,
    /// Packets that arrived one after the other; there were too few busy periods.
    PacketPairs,
    /// The fastest transfer: the path was never seen to be full.
    LowerBound,
}

impl RateSource {
    /// Returns it in words.
    pub const fn name(self) -> &'static str {
        match self {
            RateSource::BusyPeriods => "periods in which packets waited",
            RateSource::PacketPairs => "pairs of packets",
            RateSource::LowerBound => "a lower bound: the path was never full",
        }
    }
}

/// The path in one direction, as far as the packets show it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PathEstimate {
    /// The rate of the bottleneck, of whole IP packets, in bit/s.
    pub rate_bps: Option<Estimate>,
    /// The packets from which the rate was estimated.
    pub rate_source: RateSource,
    /// The time in which packets waited at the bottleneck, in seconds.
    pub busy_s: f64,
    /// The round trip without queues and without the time that packets take to be transmitted.
    pub rtt_s: Option<Estimate>,
    /// The largest delay above the least one, in seconds.
    pub queue_s: f64,
    /// The queue that this is at the rate, in bytes.
    pub queue_bytes: Option<u64>,
    /// True if packets were lost when the queue was at its largest: it was full. Otherwise it is at least that large.
    pub queue_was_full: bool,
    /// The probability of a loss while the queue was not full.
    pub random_loss: Estimate,
    /// Losses at a full queue.
    pub queue_losses: u64,
    /// Other losses.
    pub random_losses: u64,
    /// The numbers of the packets of those losses among the data packets, from 1; the first thousand.
    pub random_drops: Vec<u64>,
    /// Data packets that were sent, or arrived.
    pub packets: u64,
}

/// Returns the Wilson interval of `count` of `all`.
fn share(count: f64, all: f64) -> Estimate {
    if all < 1.0 {
        return Estimate { value: 0.0, low: 0.0, high: 1.0 };
    }
    let p = (count / all).min(1.0);
    let (z2, n) = (Z * Z, all);
    let centre = (p + z2 / (2.0 * n)) / (1.0 + z2 / n);
    let half = Z * (p * (1.0 - p) / n + z2 / (4.0 * n * n)).sqrt() / (1.0 + z2 / n);
    Estimate { value: p, low: (centre - half).max(0.0), high: (centre + half).min(1.0) }
}

impl PathEstimate {
    /// Estimates the path that `subflow` takes, in the direction of its half number `half`.
    pub(crate) fn new(subflow: &Subflow, half: usize) -> PathEstimate {
        let (own, other) = (&subflow.halves[half & 1], &subflow.halves[(half & 1) ^ 1]);
        let at_sender = subflow.is_at_sender(half);
        let meter = if at_sender { &own.by_ack } else { &own.by_arrival };
        let (rate, rate_source) = rate(own, meter);
        let packets = own.counts.segments;
        let largest = meter.queues.quantile(0.999).unwrap_or_default();
        let split = split_losses(meter, packets, largest, rate.map(|rate| rate.value));
        let queue = if split.full > Duration::ZERO { split.full } else { largest };
        let queue_bytes = rate.map(|rate| (rate.value * queue.as_secs_f64() / 8.0) as u64);
        PathEstimate {
            rate_bps: rate,
            rate_source,
            busy_s: meter.busy_time.as_secs_f64(),
            rtt_s: rtt(subflow, (own, other), at_sender, half, rate),
            queue_s: queue.as_secs_f64(),
            queue_bytes,
            queue_was_full: split.full > Duration::ZERO,
            random_loss: split.random,
            queue_losses: split.at_queue,
            random_losses: split.others,
            random_drops: split.drops,
            packets,
        }
    }
}

fn rate(own: &Half, meter: &Meter) -> (Option<Estimate>, RateSource) {
    if let Some((value, low, high)) = meter.rate()
        && meter.chunks.len() >= 2
    {
        return (Some(Estimate { value, low, high }), RateSource::BusyPeriods);
    }
    if let Some(value) = meter.pair_rate().or(meter.rate().map(|rate| rate.0)) {
        return (Some(Estimate { value, low: value * 0.7, high: value * 1.3 }), RateSource::PacketPairs);
    }
    let span = own.first_data.zip(own.last_data).map(|(first, last)| last.since(first).as_secs_f64());
    let value = span.filter(|span| *span > 0.0).map(|span| own.counts.wire_bytes as f64 * 8.0 / span);
    (value.map(|value| Estimate { value, low: value, high: f64::INFINITY }), RateSource::LowerBound)
}

/// Returns the round trip less the transmission of its packets at the rate.
fn rtt(
    subflow: &Subflow,
    (own, other): (&Half, &Half),
    at_sender: bool,
    half: usize,
    rate: Option<Estimate>,
) -> Option<Estimate> {
    // The rate towards the sender is not known; where it carries acknowledgements only it hardly matters.
    let takes = |bytes: u32| rate.map_or(0.0, |rate| f64::from(bytes) * 8.0 / rate.value);
    let handshake = subflow.handshake_rtt().map(|rtt| {
        let bytes = subflow.syn_wire[half & 1];
        (rtt.as_secs_f64() - takes(bytes)).max(0.0)
    });
    // An echo may come with a short packet, so nothing is subtracted.
    let data = match at_sender {
        true => own.full_rtt.map(|rtt| (rtt.as_secs_f64() - takes(own.full_wire)).max(0.0)),
        false => other.echo_rtt.min().map(|rtt| rtt.as_secs_f64()),
    };
    let value = match (handshake, data) {
        (Some(a), Some(b)) => a.min(b),
        (a, b) => a.or(b)?,
    };
    let spread = match (handshake, data) {
        (Some(a), Some(b)) => (a - b).abs(),
        _ => value * 0.1,
    };
    Some(Estimate { value, low: (value - spread.min(value * 0.1)).max(0.0), high: value + spread })
}

/// Losses at a full queue and other ones.
struct Split {
    /// The delay of a full queue; zero if losses do not show one.
    full: Duration,
    at_queue: u64,
    others: u64,
    random: Estimate,
    /// The numbers of the packets of the other losses.
    drops: Vec<u64>,
}

/// The most packets that are listed.
const MAX_DROPS: usize = 1000;

fn split_losses(meter: &Meter, packets: u64, largest: Duration, rate: Option<f64>) -> Split {
    let all: u64 = meter.losses.iter().map(|loss| u64::from(loss.weight)).sum();
    let threshold = Duration((largest.0 as f64 * FULL) as u64);
    let at_queue: u64 =
        meter.losses.iter().filter(|loss| loss.queue >= threshold).map(|loss| u64::from(loss.weight)).sum();
    let samples = meter.queues.count().max(1) as f64;
    let high = meter.queues.at_least(threshold) as f64 / samples * packets as f64;
    let low = (packets as f64 - high).max(0.0);
    let others = all - at_queue;
    let drops = |below: Duration| {
        let losses = meter.losses.iter().filter(|loss| loss.queue < below);
        let mut numbers: Vec<u64> = losses.map(|loss| loss.number).collect();
        numbers.sort_unstable();
        numbers.dedup();
        numbers.truncate(MAX_DROPS);
        numbers
    };
    // A queue of less than a few packets is noise.
    let packet = rate.map_or(0.001, |rate| 12_000.0 / rate);
    let has_queue = largest.as_secs_f64() > 3.0 * packet && largest > Duration::from_micros(500);
    let often = at_queue as f64 / high.max(1.0);
    let seldom = (others as f64 + 1.0) / low.max(1.0);
    if has_queue && at_queue >= 2 && often > 3.0 * seldom {
        let mut full: Vec<Duration> =
            meter.losses.iter().map(|loss| loss.queue).filter(|queue| *queue >= threshold).collect();
        full.sort();
        let middle = full.get(full.len() / 2).copied().unwrap_or(largest);
        let random = share(others as f64, low);
        return Split { full: middle.max(largest), at_queue, others, random, drops: drops(threshold) };
    }
    let random = share(all as f64, packets as f64);
    Split { full: Duration::ZERO, at_queue: 0, others: all, random, drops: drops(Duration::MAX) }
}

#[cfg(test)]
mod tests {
    use anabranch_units::Time;

    use super::*;

    #[test]
    fn the_share_of_nothing_is_unknown_and_none_of_many_is_bounded() {
        let of = |count, all| share(count, all);
        assert_eq!(of(0.0, 0.0), Estimate { value: 0.0, low: 0.0, high: 1.0 });
        // Wilson: 1.96^2 / (100 + 1.96^2).
        let none = of(0.0, 100.0);
        assert!(
            none.value == 0.0 && none.low.abs() < 1e-12 && (none.high - 0.036_995).abs() < 1e-6,
            "{none:?}"
        );
        let half = of(50.0, 100.0);
        assert!((half.low - 0.403_83).abs() < 1e-5 && (half.high - 0.596_17).abs() < 1e-5, "{half:?}");
    }

    /// Returns the losses of 1000 packets. A hundred packets met a queue of 50 ms, the others a queue of 1 ms; `at` are the
    /// queues of the lost packets in milliseconds.
    fn split(at: &[u64]) -> Split {
        let mut meter = Meter::default();
        for number in 0..1000 {
            let queue = Duration::from_millis(if number < 100 { 50 } else { 1 });
            meter.sample(Time::from_millis(number), queue, Duration::from_millis(20), 1500, 1);
        }
        for (number, queue) in (1..).zip(at) {
            meter.loss(1500 * number, Duration::from_millis(*queue), number);
        }
        split_losses(&meter, 1000, Duration::from_millis(50), Some(12e6))
    }

    #[test]
    fn losses_at_the_largest_queue_are_those_of_a_full_one() {
        // From 35 ms on, 70 % of the largest queue.
        let found = split(&[50, 50, 48, 36, 34]);
        assert_eq!((found.at_queue, found.others, &found.drops[..]), (4, 1, &[5][..]));
        assert!(found.full >= Duration::from_millis(50), "{:?}", found.full);
        assert!((found.random.value - 1.0 / 900.0).abs() < 1e-4, "{:?}", found.random);
        // One loss shows no full queue, and losses everywhere do not either.
        let one = split(&[50]);
        assert_eq!((one.at_queue, one.others, one.full), (0, 1, Duration::ZERO));
        let everywhere = split(&[50, 50, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]);
        assert_eq!((everywhere.at_queue, everywhere.others), (0, 14));
    }
}
