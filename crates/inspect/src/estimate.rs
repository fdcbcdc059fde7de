//! The path of a subflow in the direction of its data: rate, least round trip, queue, losses, each with its source.

use anabranch_units::{Duration, Time};
use serde::Serialize;

use crate::outages::{self, Known};
use crate::phases::{Phase, Phases};
use crate::track::{Chunk, Half, Loss, Meter, Subflow};

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

/// A time in which the rate of a bottleneck did not change.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct RatePhase {
    /// Its begin at the bottleneck, in seconds since the client began the connection; 0 for the first phase.
    pub from_s: f64,
    /// The earliest time at which it may have begun.
    pub from_low_s: f64,
    /// The latest time at which it may have begun.
    pub from_high_s: f64,
    /// Its rate, of whole IP packets, in bit/s.
    pub rate_bps: Estimate,
    /// The time in which packets waited at the bottleneck, in seconds.
    pub busy_s: f64,
}

/// A time in which the path delivered nothing, and after which it was back.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Outage {
    /// The time at which the path went down, in seconds since the client began the connection.
    pub down_s: Estimate,
    /// The time at which it came back; null if it did not, before the capture ended.
    pub up_s: Option<Estimate>,
    /// Data packets that were sent in vain; null at the receiver, which does not see them.
    pub packets: Option<u64>,
    /// The first packet after it.
    #[serde(skip)]
    pub(crate) ended: Option<Time>,
}

/// The path in one direction, as far as the packets show it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PathEstimate {
    /// The rate of the bottleneck, of whole IP packets, in bit/s.
    pub rate_bps: Option<Estimate>,
    /// The packets from which the rate was estimated.
    pub rate_source: RateSource,
    /// The phases of the rate, if it changed; empty if there is no evidence for a change.
    pub rate_phases: Vec<RatePhase>,
    /// True if the rate varied all the time: then the phases are its course, and the rate is its mean.
    pub rate_varies: bool,
    /// The times in which the path delivered nothing.
    pub outages: Vec<Outage>,
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
    /// Estimates the path that `subflow` takes, in the direction of its half number `half`, of a connection that began
    /// at `begun`. `is_only` is true if no other subflow carries data in this direction.
    pub(crate) fn new(subflow: &Subflow, half: usize, begun: Time, is_only: bool) -> PathEstimate {
        let (own, other) = (&subflow.halves[half & 1], &subflow.halves[(half & 1) ^ 1]);
        let at_sender = subflow.is_at_sender(half);
        let meter = if at_sender { &own.by_ack } else { &own.by_arrival };
        let (rate, rate_source) = rate(own, meter);
        let phases = Phases::find(&meter.chunks);
        let span = own.first_data.zip(own.last_data).filter(|_| phases.varies);
        let mean = span.and_then(|(first, last)| phases.mean(first, last));
        let rate = rate.map(|rate| Estimate { value: mean.unwrap_or(rate.value), ..rate });
        let packets = own.counts.segments;
        let largest = meter.queues.quantile(0.999).unwrap_or_default();
        let value = rate.map(|rate| rate.value);
        let queue = match phases.list.is_empty() {
            true => Queue::of_delays(meter, largest),
            false => Queue::of_bits(meter, &phases, packets),
        };
        let fastest = phases.list.iter().map(|phase| phase.rate.0).max_by(f64::total_cmp);
        let rtt = rtt(subflow, (own, other), at_sender, half, fastest.or(value));
        // Losses of outages are neither random nor the queue's.
        let steady = |outages: &[outages::Outage]| {
            let is_steady = |loss: &&Loss| {
                outages.iter().all(|outage| loss.at < outage.silent.0 || loss.at >= outage.silent.1)
            };
            let losses: Vec<Loss> = meter.losses.iter().filter(is_steady).copied().collect();
            split_losses(&losses, packets, &queue, value)
        };
        let mut known = Known {
            at_sender,
            is_only,
            rtt: Duration::from_secs_f64(rtt.map_or(0.0, |rtt| rtt.value)),
            packet: Duration::from_secs_f64(
                value.map_or(0.0, |value| f64::from(own.full_wire) * 8.0 / value),
            ),
            packets,
            loss: 0.0,
        };
        let candidates = outages::candidates(subflow, half, &known);
        let mut split = steady(&candidates);
        known.loss = split.random.high;
        // Their ranges depend on the random losses.
        let mut outages = outages::candidates(subflow, half, &known);
        outages.retain(|outage| outages::is_likely(outage, &known));
        if outages.len() < candidates.len() {
            split = steady(&outages);
        }
        let full = split.full.is_some();
        let (queue_s, queue_bytes) = match phases.list.is_empty() {
            true => {
                let delay = split.full.map_or(largest.as_secs_f64(), |full| full / 1e9);
                (delay, rate.map(|rate| (rate.value * delay / 8.0) as u64))
            }
            false => {
                let bits = split.full.unwrap_or(queue.largest);
                (largest.as_secs_f64(), Some((bits / 8.0) as u64))
            }
        };
        let late = rtt.map_or(0.0, |rtt| if at_sender { rtt.value } else { rtt.value / 2.0 });
        PathEstimate {
            rate_bps: rate,
            rate_source,
            rate_phases: phases.list.iter().map(|phase| rate_phase(phase, begun, late)).collect(),
            rate_varies: phases.varies,
            outages: outages.iter().map(|outage| outage_since(outage, begun)).collect(),
            busy_s: meter.busy_time.as_secs_f64(),
            rtt_s: rtt,
            queue_s,
            queue_bytes,
            queue_was_full: full,
            random_loss: split.random,
            queue_losses: split.at_queue,
            random_losses: split.others,
            random_drops: split.drops,
            packets,
        }
    }
}

/// Returns a phase as a result. Packets and acknowledgements were captured `late` seconds after the bottleneck at most.
fn rate_phase(phase: &Phase, begun: Time, late: f64) -> RatePhase {
    let (value, low, high) = phase.rate;
    let since = |time: Time, late: f64| (time.since(begun).as_secs_f64() - late).max(0.0);
    let (from, earliest, latest) = phase.from.unwrap_or((begun, begun, begun));
    RatePhase {
        from_s: since(from, late),
        from_low_s: since(earliest, late),
        from_high_s: since(latest, 0.0),
        rate_bps: Estimate { value, low, high },
        busy_s: phase.busy.as_secs_f64(),
    }
}

/// Returns an outage as a result.
fn outage_since(outage: &outages::Outage, begun: Time) -> Outage {
    let seconds = |(value, low, high): outages::Range| {
        let since = |time: Time| time.since(begun).as_secs_f64();
        Estimate { value: since(value), low: since(low), high: since(high) }
    };
    Outage {
        down_s: seconds(outage.down),
        up_s: outage.up.map(seconds),
        packets: outage.in_vain,
        ended: outage.up.map(|_| outage.silent.1),
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
    // Without pauses, but not for a few packets at once.
    let span = own.first_data.zip(own.last_data).map(|(first, last)| last.since(first).as_secs_f64());
    let span = span.map(|span| own.active.as_secs_f64().max(span / 100.0));
    let value = span.filter(|span| *span > 0.0).map(|span| own.counts.wire_bytes as f64 * 8.0 / span);
    (value.map(|value| Estimate { value, low: value, high: f64::INFINITY }), RateSource::LowerBound)
}

/// Returns the round trip less the transmission of its packets at the rate.
fn rtt(
    subflow: &Subflow,
    (own, other): (&Half, &Half),
    at_sender: bool,
    half: usize,
    rate: Option<f64>,
) -> Option<Estimate> {
    // The rate towards the sender is not known; where it carries acknowledgements only it hardly matters.
    let takes = |bytes: u32| rate.map_or(0.0, |rate| f64::from(bytes) * 8.0 / rate);
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

/// The queue in front of a bottleneck, by one measure: the delay in nanoseconds, or its content in bits.
struct Queue<'a> {
    /// The measure of a packet that waited for so long, and left the queue at that time.
    of: Box<dyn Fn(Duration, Time) -> f64 + 'a>,
    /// The largest queue.
    largest: f64,
    /// The share of packets that met a queue of that size or more.
    share: Box<dyn Fn(f64) -> f64 + 'a>,
    /// True if it is more than a few packets.
    is_seen: bool,
}

impl<'a> Queue<'a> {
    /// Measures delays, for a rate that did not change.
    fn of_delays(meter: &'a Meter, largest: Duration) -> Queue<'a> {
        let samples = meter.queues.count().max(1) as f64;
        Queue {
            of: Box::new(|delay, _| delay.0 as f64),
            largest: largest.0 as f64,
            share: Box::new(move |size| meter.queues.at_least(Duration(size as u64)) as f64 / samples),
            is_seen: largest > Duration::from_micros(500),
        }
    }

    /// Measures bits: a queue of one size has another delay in each phase. The direction has sent this number of packets.
    fn of_bits(meter: &'a Meter, phases: &'a Phases, packets: u64) -> Queue<'a> {
        let of = |delay: Duration, at: Time| phases.bits(Time(at.0.saturating_sub(delay.0)), at);
        let ends = move |chunk: &Chunk| (of(chunk.queue.0, chunk.until), of(chunk.queue.1, chunk.until));
        // At a change the delays of a chunk belong to two rates.
        let within = meter.chunks.iter().filter(|chunk| phases.is_within(chunk));
        let largest = within.map(|chunk| ends(chunk).1).fold(0.0, f64::max);
        let packets = packets.max(1) as f64;
        let share = move |size: f64| {
            // The queues of a chunk are spread evenly between its ends.
            let above = meter.chunks.iter().map(|chunk| {
                let (least, most) = ends(chunk);
                f64::from(chunk.packets) * ((most - size) / (most - least).max(1.0)).clamp(0.0, 1.0)
            });
            (above.sum::<f64>() * f64::from(meter.stride()) / packets).min(1.0)
        };
        Queue { of: Box::new(of), largest, share: Box::new(share), is_seen: largest > 0.0 }
    }
}

/// Losses at a full queue and other ones.
struct Split {
    /// A full queue by the measure of the queue; none if losses do not show one.
    full: Option<f64>,
    at_queue: u64,
    others: u64,
    random: Estimate,
    /// The numbers of the packets of the other losses.
    drops: Vec<u64>,
}

/// The most packets that are listed.
const MAX_DROPS: usize = 1000;

fn split_losses(losses: &[Loss], packets: u64, queue: &Queue<'_>, rate: Option<f64>) -> Split {
    let all: u64 = losses.iter().map(|loss| u64::from(loss.weight)).sum();
    let threshold = queue.largest * FULL;
    let size = |loss: &Loss| (queue.of)(loss.queue, loss.at);
    let at = losses.iter().filter(|loss| size(loss) >= threshold);
    let at_queue: u64 = at.clone().map(|loss| u64::from(loss.weight)).sum();
    let high = (queue.share)(threshold) * packets as f64;
    let low = (packets as f64 - high).max(0.0);
    let others = all - at_queue;
    let drops = |below: f64| {
        let losses = losses.iter().filter(|loss| size(loss) < below);
        let mut numbers: Vec<u64> = losses.map(|loss| loss.number).collect();
        numbers.sort_unstable();
        numbers.dedup();
        numbers.truncate(MAX_DROPS);
        numbers
    };
    // A queue of less than a few packets is noise.
    let packet = rate.map_or(Duration::from_millis(1), |rate| Duration::from_secs_f64(12_000.0 / rate));
    let few = (queue.of)(Duration(3 * packet.0), Time(u64::MAX));
    let has_queue = queue.largest > few && queue.is_seen;
    let often = at_queue as f64 / high.max(1.0);
    let seldom = (others as f64 + 1.0) / low.max(1.0);
    if has_queue && at_queue >= 2 && often > 3.0 * seldom {
        let mut full: Vec<f64> = at.map(size).collect();
        full.sort_by(f64::total_cmp);
        let middle = full.get(full.len() / 2).copied().unwrap_or(queue.largest);
        let random = share(others as f64, low);
        return Split {
            full: Some(middle.max(queue.largest)),
            at_queue,
            others,
            random,
            drops: drops(threshold),
        };
    }
    let random = share(all as f64, packets as f64);
    Split { full: None, at_queue: 0, others: all, random, drops: drops(f64::INFINITY) }
}

#[cfg(test)]
mod tests {
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
            meter.loss(1500 * number, Duration::from_millis(*queue), number, Time::ZERO);
        }
        split_losses(&meter.losses, 1000, &Queue::of_delays(&meter, Duration::from_millis(50)), Some(12e6))
    }

    #[test]
    fn losses_at_the_largest_queue_are_those_of_a_full_one() {
        // From 35 ms on, 70 % of the largest queue.
        let found = split(&[50, 50, 48, 36, 34]);
        assert_eq!((found.at_queue, found.others, &found.drops[..]), (4, 1, &[5][..]));
        assert!(found.full >= Some(50e6), "{:?}", found.full);
        assert!((found.random.value - 1.0 / 900.0).abs() < 1e-4, "{:?}", found.random);
        // One loss shows no full queue, and losses everywhere do not either.
        let one = split(&[50]);
        assert_eq!((one.at_queue, one.others, one.full), (0, 1, None));
        let everywhere = split(&[50, 50, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]);
        assert_eq!((everywhere.at_queue, everywhere.others), (0, 14));
    }
}
