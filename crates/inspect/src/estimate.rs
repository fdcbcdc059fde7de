//! The path of a subflow in the direction of its data: rate, least round trip, queue, losses, each with its source.

use anabranch_units::{Duration, Time};
use serde::Serialize;

use crate::outages::{self, Known};
use crate::phases::{Phase, Phases};
use crate::queue;
use crate::track::{Chunk, Half, Loss, Meter, Subflow, rate_of};

/// 95 % of the normal distribution.
const Z: f64 = 1.96;
/// The most times in which packets waited that are listed.
const MOST_BUSY: usize = 200;
/// The quantile of the times of pairs of packets at which no packet of others is in between.
const ALONE: f64 = 0.1;

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

/// A time in which packets waited at the bottleneck.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct BusyTime {
    /// Its begin at the bottleneck, in seconds since the client began the connection.
    pub from_s: f64,
    /// Its end.
    pub until_s: f64,
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
    /// True if the rate varied all the time: then the phases are its course, and the rate is its mean while packets waited.
    pub rate_varies: bool,
    /// The times in which the path delivered nothing.
    pub outages: Vec<Outage>,
    /// The time in which packets waited at the bottleneck, in seconds.
    pub busy_s: f64,
    /// The times from which the rate comes, in parts of up to 64 packets; the first 200 parts, without the ones of less than
    /// 12 packets.
    pub busy: Vec<BusyTime>,
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
    // The rounding of a difference of equal numbers is no probability.
    let low = if count > 0.0 { (centre - half).max(0.0) } else { 0.0 };
    Estimate { value: p, low, high: (centre + half).min(1.0) }
}

impl PathEstimate {
    /// Estimates the path that `subflow` takes, in the direction of its half number `half`, of a connection that began
    /// at `begun`. `is_only` is true if no other subflow carries data in this direction.
    pub(crate) fn new(subflow: &Subflow, half: usize, begun: Time, is_only: bool) -> PathEstimate {
        let (own, other) = (&subflow.halves[half & 1], &subflow.halves[(half & 1) ^ 1]);
        let at_sender = subflow.is_at_sender(half);
        let meter = if at_sender { &own.by_ack } else { &own.by_arrival };
        let chunks = meter.left();
        let (rate, rate_source) = rate(own, meter, &chunks);
        let phases = Phases::find(&chunks);
        let rate = rate.map(|rate| {
            match rate_source == RateSource::BusyPeriods && phases.differs((rate.low, rate.high)) {
                true => Estimate { value: mean(&chunks).unwrap_or(rate.value), ..rate },
                false => rate,
            }
        });
        let packets = own.counts.segments;
        let value = rate.map(|rate| rate.value);
        let fastest = phases.list.iter().map(|phase| phase.rate.0).max_by(f64::total_cmp);
        let fastest = meter.pair_rate(ALONE).into_iter().chain(fastest).chain(value).max_by(f64::total_cmp);
        // A rate that varies does not show how long a single packet took: between the times at its mean and at its fastest.
        let slowest =
            rate.filter(|rate| phases.differs((rate.low, rate.high))).map(|rate| rate.value).or(fastest);
        let time = |rate: Option<f64>| rate.map_or(0.0, |rate| 8.0 / rate.max(1.0));
        let rtt = rtt(subflow, (own, other), at_sender, (time(fastest) + time(slowest)) / 2.0);
        let time_of =
            |bytes: u32| Duration::from_secs_f64(value.map_or(0.0, |value| f64::from(bytes) * 8.0 / value));
        let packet = time_of(1500);
        let changes = !phases.list.is_empty();
        // Losses of outages are neither random nor the queue's.
        let steady = |outages: &[outages::Outage]| {
            let is_steady = |loss: &&Loss| {
                outages.iter().all(|outage| loss.at < outage.silent.0 || loss.at >= outage.silent.1)
            };
            let losses: Vec<Loss> = meter.losses.iter().filter(is_steady).copied().collect();
            queue::split(meter, &losses, packets, packet, changes)
        };
        let mut known = Known {
            at_sender,
            is_only,
            rtt: Duration::from_secs_f64(rtt.map_or(0.0, |rtt| rtt.value)),
            packet: time_of(own.full_wire),
            packets,
            loss: 0.0,
        };
        let candidates = outages::candidates(subflow, half, &known);
        let mut split = steady(&candidates);
        known.loss = share(split.others as f64, split.exposed).high;
        // Their ranges depend on the random losses.
        let mut outages = outages::candidates(subflow, half, &known);
        outages.retain(|outage| outages::is_likely(outage, &known));
        if outages.len() < candidates.len() {
            split = steady(&outages);
        }
        let queue_bytes = match split.in_bytes {
            true => Some(split.bytes),
            false => value.map(|value| (value * split.delay.as_secs_f64() / 8.0) as u64),
        };
        let late = rtt.map_or(0.0, |rtt| if at_sender { rtt.value } else { rtt.value / 2.0 });
        PathEstimate {
            rate_bps: rate,
            rate_source,
            rate_phases: phases.list.iter().map(|phase| rate_phase(phase, begun, late)).collect(),
            rate_varies: phases.varies,
            outages: outages.iter().map(|outage| outage_since(outage, begun)).collect(),
            busy_s: meter.busy_time.as_secs_f64(),
            busy: chunks.iter().take(MOST_BUSY).map(|chunk| busy_time(chunk, begun, late)).collect(),
            rtt_s: rtt,
            queue_s: split.delay.as_secs_f64(),
            queue_bytes,
            queue_was_full: split.is_full,
            random_loss: share(split.others as f64, split.exposed),
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

/// Returns the time of a chunk. Its packets or acknowledgements were captured `late` seconds later.
fn busy_time(chunk: &Chunk, begun: Time, late: f64) -> BusyTime {
    let until = chunk.until.since(begun).as_secs_f64() - late;
    BusyTime { from_s: (until - chunk.seconds).max(0.0), until_s: until.max(0.0) }
}

/// Returns the mean rate over the time of chunks.
fn mean(chunks: &[Chunk]) -> Option<f64> {
    let seconds: f64 = chunks.iter().map(|chunk| chunk.seconds).sum();
    let bits: f64 = chunks.iter().map(|chunk| chunk.bps * chunk.seconds).sum();
    (seconds > 0.0).then(|| bits / seconds)
}

fn rate(own: &Half, meter: &Meter, chunks: &[Chunk]) -> (Option<Estimate>, RateSource) {
    let rate = rate_of(chunks);
    if let Some((value, low, high)) = rate
        && chunks.len() >= 2
    {
        return (Some(Estimate { value, low, high }), RateSource::BusyPeriods);
    }
    if let Some(value) = meter.pair_rate(0.5).or(rate.map(|rate| rate.0)) {
        return (Some(Estimate { value, low: value * 0.7, high: value * 1.3 }), RateSource::PacketPairs);
    }
    // Without pauses, but not for a few packets at once.
    let span = own.first_data.zip(own.last_data).map(|(first, last)| last.since(first).as_secs_f64());
    let span = span.map(|span| own.active.as_secs_f64().max(span / 100.0));
    let value = span.filter(|span| *span > 0.0).map(|span| own.counts.wire_bytes as f64 * 8.0 / span);
    (value.map(|value| Estimate { value, low: value, high: f64::INFINITY }), RateSource::LowerBound)
}

/// Returns the round trip less the transmission of its packets: a byte takes `byte_s` seconds.
fn rtt(subflow: &Subflow, (own, other): (&Half, &Half), at_sender: bool, byte_s: f64) -> Option<Estimate> {
    // The rate towards the sender is not known: the same, as in the scenario.
    let takes = |bytes: u32| f64::from(bytes) * byte_s;
    let handshake = subflow.handshake_rtt().map(|rtt| {
        let bytes = subflow.syn_wire[0].saturating_add(subflow.syn_wire[1]);
        (rtt.as_secs_f64() - takes(bytes)).max(0.0)
    });
    let less = |(wire, rtt): (u32, Duration)| (rtt.as_secs_f64() - takes(wire)).max(0.0);
    let data = match at_sender {
        true => own.full_rtt.map(|rtt| less((own.full_wire, rtt))),
        // An echo may come with a short packet.
        false => {
            let any = other.echo_rtt.min().map(|rtt| rtt.as_secs_f64());
            other.echo_full.map(less).into_iter().chain(any).min_by(f64::total_cmp)
        }
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
}
