//! Changes of the rate of a bottleneck over time.
//!
//! The rates of the chunks of busy periods are a series in time. Each part of the series is compared with its rest by their
//! ranks (Mann and Whitney 1947), so that single outliers and the distribution of the noise do not matter. The parts are beginnings
//! of the series, and periods within it. The most significant one is split off, if its probability by chance is below 1 % after
//! Bonferroni's correction for all parts that were compared, and both sides are searched again. Changes remain only if
//! the medians before and after differ by 15 %, and the middle 60 % of both do not overlap.
//!
//! Constants: at least 4 chunks (of 64 packets) in a phase, at most 8 changes; rates that differ by less than 2 % have equal ranks.
//!
//! A rate that varies all the time, as in a cellular network, has no phases: the chunks differ from the medians of their phases by more than a
//! quarter (the middle 80 %), or of fewer than 12 chunks by a half, and neighbours differ alike (a correlation of their ranks of 0.3 or more,
//! which noise does not have). Then each chunk is a phase, or, of more than 200, each of 200 groups.

use anabranch_units::{Duration, Time};

use crate::track::{Chunk, rate_of};

/// The least chunks of a phase.
const LEAST: usize = 4;
/// The steps to which the logarithms of rates are rounded: ranks count each difference, also one of rounding.
const STEP: f64 = 0.02;
/// The most changes.
const MOST: usize = 8;
/// The least ratio of the medians of neighbouring phases.
const RATIO: f64 = 1.15;
/// The most steps of a rate that varies, and the least chunks that show one.
const MOST_STEPS: usize = 200;
const LEAST_STEPS: usize = 8;
/// The least ratio of the ends of the middle 80 % of the chunks of a rate that varies, by the medians of their phases; and the same for few
/// chunks, of which noise often has an order.
const SPREAD: f64 = 1.25;
const SPREAD_OF_FEW: f64 = 1.5;
const FEW: usize = 12;
/// The least correlation of the ranks of neighbouring chunks.
const CORRELATION: f64 = 0.3;

/// A time in which the rate of a bottleneck did not change.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Phase {
    /// Its begin, and the range of it; the first phase has no begin.
    pub from: Option<(Time, Time, Time)>,
    /// Its rate: the median over time, and the range that has 80 % of the time.
    pub rate: (f64, f64, f64),
    /// The time in which packets waited.
    pub busy: Duration,
}

/// The phases of a bottleneck.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Phases {
    pub list: Vec<Phase>,
    /// True if the rate varies all the time: each phase is a chunk, or some.
    pub varies: bool,
}

impl Phases {
    /// Finds the phases of `chunks`, which are in order of time; none if the rate did not change.
    pub(crate) fn find(chunks: &[Chunk]) -> Phases {
        let steps_of = |chunk: &Chunk| (chunk.bps.max(1.0).ln() / STEP).round();
        let bps: Vec<f64> = chunks.iter().map(steps_of).collect();
        let mut cuts = vec![0, chunks.len()];
        while cuts.len() < MOST + 2 {
            let found = cuts.windows(2).filter_map(|ends| match ends {
                [a, b] => split(bps.get(*a..*b)?).map(|(score, from, to)| (score, [a + from, a + to])),
                _ => None,
            });
            let Some((_, ends)) = found.max_by(|a, b| a.0.total_cmp(&b.0)) else { break };
            cuts.extend(ends);
            cuts.sort_unstable();
            cuts.dedup();
        }
        merge(chunks, &mut cuts);
        if varies(chunks, &cuts) {
            return Phases { list: steps(chunks), varies: true };
        }
        if cuts.len() < 3 {
            return Phases::default();
        }
        let parts: Vec<&[Chunk]> = cuts.windows(2).filter_map(|ends| chunks.get(ends[0]..ends[1])).collect();
        let rates: Vec<(f64, f64, f64)> = parts.iter().filter_map(|part| rate_of(part)).collect();
        let phase = |(at, part): (usize, &&[Chunk])| Phase {
            from: at.checked_sub(1).map(|before| begin(chunks, cuts[at], [rates[before], rates[at]])),
            rate: rates[at],
            busy: Duration::from_secs_f64(part.iter().map(|chunk| chunk.seconds).sum()),
        };
        Phases { list: parts.iter().enumerate().map(phase).collect(), varies: false }
    }

    /// True if the rate of busy periods, with this range, has no single value.
    pub(crate) fn differs(&self, (low, high): (f64, f64)) -> bool {
        self.varies || self.list.is_empty() && high > SPREAD * low
    }
}

/// True if the rate varies within the phases that begin at `cuts`.
fn varies(chunks: &[Chunk], cuts: &[usize]) -> bool {
    if chunks.len() < LEAST_STEPS {
        return false;
    }
    let parts = cuts.windows(2).filter_map(|ends| chunks.get(ends[0]..ends[1]));
    let relative = |part: &[Chunk]| -> Vec<f64> {
        let median = rate_of(part).map_or(1.0, |rate| rate.0.max(1.0));
        part.iter().map(|chunk| chunk.bps / median).collect()
    };
    let relative: Vec<f64> = parts.flat_map(relative).collect();
    let mut sorted = relative.clone();
    sorted.sort_by(f64::total_cmp);
    let at = |share: f64| sorted[(share * (sorted.len() - 1) as f64).round() as usize];
    let least = if relative.len() < FEW { SPREAD_OF_FEW } else { SPREAD };
    at(0.9) > least * at(0.1) && correlation(&relative) >= CORRELATION
}

/// Returns the correlation of the ranks of neighbouring values.
fn correlation(values: &[f64]) -> f64 {
    let (sums, _) = rank_sums(values);
    let middle = (values.len() as f64 + 1.0) / 2.0;
    let ranks: Vec<f64> = sums.windows(2).map(|two| two[1] - two[0] - middle).collect();
    let products: f64 = ranks.windows(2).map(|two| two[0] * two[1]).sum();
    let squares: f64 = ranks.iter().map(|rank| rank * rank).sum();
    products / squares.max(1e-9)
}

/// Returns a phase for each chunk, or for each of [`MOST_STEPS`] groups of them.
fn steps(chunks: &[Chunk]) -> Vec<Phase> {
    let mut before: Option<Time> = None;
    let step = |group: &[Chunk]| {
        let (first, last) = (group.first()?, group.last()?);
        let seconds: f64 = group.iter().map(|chunk| chunk.seconds).sum();
        let bits: f64 = group.iter().map(|chunk| chunk.bps * chunk.seconds).sum();
        let (_, low, high) = rate_of(group)?;
        let start = start(first);
        let from = before.map(|before| (start.max(before), before, start.max(before)));
        before = Some(last.until);
        Some(Phase { from, rate: (bits / seconds, low, high), busy: Duration::from_secs_f64(seconds) })
    };
    chunks.chunks(chunks.len().div_ceil(MOST_STEPS)).filter_map(step).collect()
}

/// Returns the begin of a chunk.
fn start(chunk: &Chunk) -> Time {
    Time(chunk.until.0.saturating_sub(Duration::from_secs_f64(chunk.seconds).0))
}

/// Removes the cuts at which the rate did not change enough, the smallest change first.
fn merge(chunks: &[Chunk], cuts: &mut Vec<usize>) {
    loop {
        let differences = cuts.windows(3).enumerate().filter_map(|(at, ends)| {
            let (before, after) = (chunks.get(ends[0]..ends[1])?, chunks.get(ends[1]..ends[2])?);
            Some((at + 1, difference(before, after)))
        });
        let least = differences.min_by(|a, b| a.1.total_cmp(&b.1));
        match least {
            Some((at, difference)) if difference < RATIO => drop(cuts.remove(at)),
            _ => return,
        }
    }
}

/// Returns the ratio of the medians of two parts, 1 if their middle 60 % overlap.
fn difference(before: &[Chunk], after: &[Chunk]) -> f64 {
    let sorted = |part: &[Chunk]| {
        let mut bps: Vec<f64> = part.iter().map(|chunk| chunk.bps).collect();
        bps.sort_by(f64::total_cmp);
        bps
    };
    let (a, b) = (sorted(before), sorted(after));
    let at = |sorted: &[f64], share: f64| {
        sorted.get((share * (sorted.len() - 1) as f64).round() as usize).copied().unwrap_or(0.0)
    };
    let ((a, low_a, high_a), (b, low_b, high_b)) = match (a.is_empty(), b.is_empty()) {
        (false, false) => ((at(&a, 0.5), at(&a, 0.2), at(&a, 0.8)), (at(&b, 0.5), at(&b, 0.2), at(&b, 0.8))),
        _ => return 1.0,
    };
    if low_a <= high_b && low_b <= high_a { 1.0 } else { (a / b).max(b / a) }
}

/// Returns the score of the most significant part of a series, and its ends; none if there is no significant one.
fn split(bps: &[f64]) -> Option<(f64, usize, usize)> {
    let n = bps.len();
    if n < 2 * LEAST {
        return None;
    }
    let (sums, ties) = rank_sums(bps);
    let size = n as f64;
    let scale = (size + 1.0) / 12.0 * ties;
    if scale <= 0.0 {
        return None;
    }
    let z = |from: usize, to: usize| {
        let m = (to - from) as f64;
        let sum = sums[to] - sums[from];
        (sum - m * (size + 1.0) / 2.0).abs() / (m * (size - m) * scale).sqrt()
    };
    let beginnings = (LEAST..=n - LEAST).map(|to| (z(0, to) / critical(n), 0, to));
    let within = (LEAST..n - LEAST).flat_map(|from| {
        // Both sides are a phase.
        (from + LEAST..=n - LEAST).map(move |to| (from, to))
    });
    let within = within.map(|(from, to)| (z(from, to) / critical(n * n / 2), from, to));
    let best = beginnings.chain(within).max_by(|a, b| a.0.total_cmp(&b.0))?;
    (best.0 > 1.0).then_some(best)
}

/// Returns the sums of the ranks of the values before each place, and the factor of the variance because of equal values.
fn rank_sums(values: &[f64]) -> (Vec<f64>, f64) {
    let n = values.len();
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by(|a, b| values[*a].total_cmp(&values[*b]));
    let mut ranks = vec![0.0; n];
    let (mut at, mut tied) = (0, 0.0);
    while at < n {
        let equal = order[at..].iter().take_while(|one| values[**one] == values[order[at]]).count();
        for one in &order[at..at + equal] {
            ranks[*one] = at as f64 + (equal as f64 + 1.0) / 2.0;
        }
        let t = equal as f64;
        tied += t * t * t - t;
        at += equal;
    }
    let mut sum = 0.0;
    let sums = core::iter::once(0.0).chain(ranks.into_iter().map(|rank| {
        sum += rank;
        sum
    }));
    let cube = (n * n * n - n).max(1) as f64;
    (sums.collect(), 1.0 - tied / cube)
}

/// Returns the value of the normal distribution beyond which, on both sides, is 1 % over `comparisons`.
fn critical(comparisons: usize) -> f64 {
    // By powers of four, upwards.
    const VALUES: [f64; 12] = [2.58, 3.03, 3.42, 3.77, 4.11, 4.42, 4.71, 4.99, 5.25, 5.50, 5.74, 5.97];
    let power = (0..VALUES.len()).find(|power| comparisons <= 1 << (2 * power));
    VALUES[power.unwrap_or(VALUES.len() - 1)]
}

/// Returns the time of a change from the rate `rates.0` to `rates.1`, at which the chunk `cut` is the first one of the second
/// phase, and its range.
fn begin(chunks: &[Chunk], cut: usize, rates: [(f64, f64, f64); 2]) -> (Time, Time, Time) {
    let near = |chunk: &Chunk, rate: (f64, f64, f64)| (rate.1 * 0.97..=rate.2 * 1.03).contains(&chunk.bps);
    let [old, new] = rates;
    // Chunks of another rate than both may have a part of each.
    let last =
        (cut.saturating_sub(4)..cut).rev().find(|at| chunks.get(*at).is_some_and(|one| near(one, old)));
    let first = (cut..cut + 4).find(|at| chunks.get(*at).is_some_and(|one| near(one, new)));
    let (last, first) = (last.unwrap_or(cut.saturating_sub(4)), first.unwrap_or(cut + 3));
    let (Some(before), Some(after)) = (chunks.get(last), chunks.get(first)) else {
        return Default::default();
    };
    let (earliest, latest) = (before.until, start(after).max(before.until));
    let between = chunks.get(last + 1..first).unwrap_or_default();
    let end = between.last().map_or(latest, |chunk| chunk.until);
    let span = end.since(earliest).as_secs_f64();
    let known: f64 = between.iter().map(|chunk| chunk.seconds).sum();
    let value = if known > 0.9 * span && span > 0.0 {
        let bits: f64 = between.iter().map(|chunk| chunk.bps * chunk.seconds).sum();
        let part = ((bits - new.0 * known) / (old.0 - new.0)).clamp(0.0, span);
        earliest + Duration::from_secs_f64(part)
    } else {
        // Nothing waited at the bottleneck meanwhile.
        earliest + Duration::from_secs_f64(latest.since(earliest).as_secs_f64() / 2.0)
    };
    // The rates of whole chunks hide a quarter of one.
    let quarter = |chunk: &Chunk| Duration::from_secs_f64(chunk.seconds / 4.0).0;
    (value, Time(earliest.0.saturating_sub(quarter(before))), Time(latest.0.saturating_add(quarter(after))))
}

#[cfg(test)]
#[path = "phases_tests.rs"]
mod tests;
