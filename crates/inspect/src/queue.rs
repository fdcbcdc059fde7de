//! The queue of a bottleneck, and the losses that it made.
//!
//! Drops of a full queue hit packets that met a large queue, random losses hit all alike. A queue is measured twice: by the
//! delay of its packets, to which the packets of others contribute, and by the own bytes that came out while a packet waited, which
//! hold at a rate that changes. For each measure and several thresholds the losses are divided into the ones at larger and at smaller queues,
//! and the likelihood of two probabilities of a loss is compared with the likelihood of one. The most likely division is taken, if it is
//! significant and losses are three times as frequent at the larger queues.
//!
//! Constants: thresholds of 50 to 90 % of the largest queue (the quantile 0.999); a ratio of the likelihoods of 150, which chance exceeds
//! once in 600 times (the quantile 0.9984 of chi-squared with one degree of freedom, 10); bytes are taken instead of delays if they are 7 times as likely.

use anabranch_units::Duration;

use crate::histogram::Histogram;
use crate::track::{Loss, Meter, of_bytes};

/// The shares of the largest queue that are tried as thresholds.
const THRESHOLDS: [f64; 5] = [0.5, 0.6, 0.7, 0.8, 0.9];
/// The least logarithm of the ratio of the likelihoods.
const LEAST: f64 = 5.0;
/// The same for a division by bytes above the division by delays.
const BETTER: f64 = 2.0;
/// The least ratio of the probabilities of a loss.
const RATIO: f64 = 3.0;
/// The most packets that are listed.
const MAX_DROPS: usize = 1000;

/// Losses at a full queue and other ones.
pub(crate) struct Split {
    /// The delay and the own bytes of the full queue, or of the largest one that was seen.
    pub delay: Duration,
    pub bytes: u64,
    /// True if losses show that the queue was full.
    pub is_full: bool,
    /// True if the queue is measured in own bytes.
    pub in_bytes: bool,
    pub at_queue: u64,
    pub others: u64,
    /// The packets that met a shorter queue: the other losses are a part of them.
    pub exposed: f64,
    /// The numbers of the packets of the other losses.
    pub drops: Vec<u64>,
}

/// A division of the losses at a threshold.
struct Division {
    likelihood: f64,
    threshold: f64,
    /// Losses at larger and at smaller queues.
    losses: [u64; 2],
    /// Packets that met smaller queues.
    low: f64,
}

/// Divides `losses` of `packets`. A packet takes the time `packet` at the bottleneck; `varies` is true if the rate was not constant.
pub(crate) fn split(meter: &Meter, losses: &[Loss], packets: u64, packet: Duration, varies: bool) -> Split {
    let of_delay = |loss: &Loss| loss.queue.delay.0 as f64;
    let of_content = |loss: &Loss| of_bytes(loss.queue.bytes).0 as f64;
    // A queue of less than a few packets is noise.
    let few = Duration((3 * packet.0).max(500_000));
    let delay = divide(&meter.queues, losses, packets, few, of_delay);
    let content = divide(&meter.contents, losses, packets, of_bytes(4500), of_content);
    let likelihood = |one: &Option<Division>| one.as_ref().map_or(0.0, |one| one.likelihood);
    let in_bytes = match (&delay, &content) {
        (None, None) => varies,
        _ => likelihood(&content) > likelihood(&delay) + BETTER,
    };
    let largest = |queues: &Histogram| queues.quantile(0.999).unwrap_or_default();
    let all: u64 = losses.iter().map(|loss| u64::from(loss.weight)).sum();
    let drops = |is_other: &dyn Fn(&Loss) -> bool| {
        let mut numbers: Vec<u64> =
            losses.iter().filter(|loss| is_other(loss)).map(|loss| loss.number).collect();
        numbers.sort_unstable();
        numbers.dedup();
        numbers.truncate(MAX_DROPS);
        numbers
    };
    let (delays, contents) = (largest(&meter.queues), largest(&meter.contents).0 / of_bytes(1).0);
    let none = Split {
        delay: delays,
        bytes: contents,
        is_full: false,
        in_bytes,
        at_queue: 0,
        others: all,
        exposed: packets as f64,
        drops: Vec::new(),
    };
    let Some(division) = (if in_bytes { content } else { delay }) else {
        return Split { drops: drops(&|_| true), ..none };
    };
    let of = |loss: &Loss| if in_bytes { of_content(loss) } else { of_delay(loss) };
    let is_other = |loss: &Loss| of(loss) < division.threshold;
    let mut full: Vec<&Loss> = losses.iter().filter(|loss| !is_other(loss)).collect();
    full.sort_by(|a, b| of(a).total_cmp(&of(b)));
    let middle = full.get(full.len() / 2).map(|loss| loss.queue).unwrap_or_default();
    Split {
        delay: if in_bytes { delays } else { delays.max(middle.delay) },
        bytes: contents.max(middle.bytes),
        is_full: true,
        at_queue: division.losses[0],
        others: division.losses[1],
        exposed: division.low,
        drops: drops(&is_other),
        ..none
    }
}

/// Returns the most likely division; none if it is not significant, or the largest queue is shorter than `few`.
fn divide(
    queues: &Histogram,
    losses: &[Loss],
    packets: u64,
    few: Duration,
    of: impl Fn(&Loss) -> f64,
) -> Option<Division> {
    let largest = queues.quantile(0.999).filter(|largest| *largest > few)?.0 as f64;
    let all: u64 = losses.iter().map(|loss| u64::from(loss.weight)).sum();
    let log = |count: f64, of: f64| if count > 0.0 { count * (count / of.max(count)).ln() } else { 0.0 };
    let division = |part: f64| {
        let threshold = largest * part;
        let at = losses.iter().filter(|loss| of(loss) >= threshold);
        let at: u64 = at.map(|loss| u64::from(loss.weight)).sum();
        let others = all - at;
        let share = queues.at_least(Duration(threshold as u64)) as f64 / queues.count().max(1) as f64;
        let high = (share * packets as f64).max(1.0);
        let low = (packets as f64 - high).max(1.0);
        let (a, b) = (at as f64, others as f64);
        let likelihood = log(a, high) + log(b, low) - log(a + b, high + low);
        let is_full = at >= 2 && likelihood > LEAST && a * low > RATIO * b * high;
        is_full.then_some(Division { likelihood, threshold, losses: [at, others], low })
    };
    let best =
        THRESHOLDS.into_iter().filter_map(division).max_by(|a, b| a.likelihood.total_cmp(&b.likelihood))?;
    // A queue that others fill too is full at several sizes.
    let lower = THRESHOLDS.into_iter().filter(|part| part * largest < best.threshold).filter_map(division);
    let is_part = |one: &Division| {
        let (losses, packets) = ((best.losses[1] - one.losses[1]) as f64, (best.low - one.low).max(1.0));
        let (others, low) = (one.losses[1] as f64, one.low);
        let likelihood = log(losses, packets) + log(others, low) - log(losses + others, packets + low);
        likelihood > BETTER && losses * low > RATIO * others * packets
    };
    Some(lower.filter(is_part).min_by(|a, b| a.threshold.total_cmp(&b.threshold)).unwrap_or(best))
}

#[cfg(test)]
mod tests {
    use anabranch_units::Time;

    use super::*;
    use crate::track::Met;

    /// Returns the losses of 1000 packets. A hundred packets met a queue of 50 ms, the others a queue of 1 ms; `at` are the
    /// queues of the lost packets in milliseconds.
    fn losses_at(at: &[u64]) -> Split {
        let mut meter = Meter::default();
        for number in 0..1000 {
            let queue = Duration::from_millis(if number < 100 { 50 } else { 1 });
            meter.sample(Time::from_millis(number), queue, Duration::from_millis(20), 1500, 1);
        }
        for (number, queue) in (1..).zip(at) {
            let queue = Met { delay: Duration::from_millis(*queue), bytes: 1500 * *queue };
            meter.loss(1500 * number, queue, number, Time::ZERO);
        }
        split(&meter, &meter.losses, 1000, Duration::from_millis(1), false)
    }

    #[test]
    fn losses_at_the_largest_queue_are_those_of_a_full_one() {
        // From 35 ms on, 70 % of the largest queue.
        let found = losses_at(&[50, 50, 48, 36, 24]);
        assert_eq!((found.at_queue, found.others, &found.drops[..]), (4, 1, &[5][..]));
        assert!(found.is_full && found.delay >= Duration::from_millis(50), "{:?}", found.delay);
        assert!((found.exposed - 900.0).abs() < 1e-6, "{}", found.exposed);
        // One loss shows no full queue, and losses everywhere do not either.
        let one = losses_at(&[50]);
        assert_eq!((one.at_queue, one.others, one.is_full), (0, 1, false));
        let everywhere = losses_at(&[50, 50, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]);
        assert_eq!((everywhere.at_queue, everywhere.others), (0, 14));
    }

    #[test]
    fn a_full_queue_shows_although_most_packets_met_a_large_one() {
        // Queues of 0 to 20 packets, mostly 14 to 20; drops only at 20.
        let mut meter = Meter::default();
        for number in 0..900_u64 {
            let queue =
                Duration::from_millis(if number % 10 == 0 { number / 10 % 14 } else { 14 + number % 7 });
            meter.sample(Time::from_millis(4 * number), queue, Duration::from_millis(20), 1500, 1);
        }
        for number in 0..20 {
            let queue = Met { delay: Duration::from_millis(20), bytes: 30_000 };
            meter.loss(1500 * number, queue, number, Time::ZERO);
        }
        let found = split(&meter, &meter.losses, 920, Duration::from_millis(1), false);
        assert_eq!((found.is_full, found.at_queue, found.others), (true, 20, 0));
    }
}
