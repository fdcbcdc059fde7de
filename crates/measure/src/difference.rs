//! A difference of two means, and its direction.

use serde::{Deserialize, Serialize};

use crate::field::described;
use crate::stats::Interval;

/// The most by which unseen events may change a mean, relative to it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Unseen {
    /// The greatest increase, for times.
    pub more: f64,
    /// The greatest decrease, for goodput and bitrates; at most 1.
    pub less: f64,
}

impl Unseen {
    /// Returns the change in percent, whatever its sign.
    pub fn percent(self) -> f64 {
        100.0 * self.more.max(self.less)
    }
}

/// The most by which unseen events may change the ratio of two means.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct OfPair {
    /// Events of the contender in the numerator.
    pub own: Unseen,
    /// Events of the other one.
    pub other: Unseen,
    /// The increase of both by events that they share, relative to the mean of the other one.
    pub shared: f64,
}

described! {
    /// A difference and its interval.
    #[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
    pub struct Difference {
        /// The difference of the two means, in per cent of the reference's; negative is less.
        pub mean: f64,
        /// Its 95 % interval, by paired bootstrap over runs; none for a single run. All intervals of one family hold
        /// simultaneously.
        pub ci95: Option<Interval>,
    }
}

/// The direction of a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sign {
    /// Greater: the interval is above 0.
    Above,
    /// Less: the interval is below 0.
    Below,
    /// Practically equal.
    Equal,
    /// The interval has 0, and is wider than a difference that does not matter.
    Undecided,
}

/// The factor of the number of runs at which the half width equals the difference. With that number the next estimate of the
/// difference lies within the half width in every second comparison. A power of 80 % takes (z(0.975) + z(0.8))^2 / z(0.975)^2
/// times as many: (1.960 + 0.842)^2 / 1.960^2.
const FOR_POWER: f64 = 2.04;

/// True if a difference of this size is more than `least`. Sentences have tenths of a per cent, and "1.0 %" is not more than 1 %.
fn exceeds(percent: f64, least: f64) -> bool {
    percent >= least && (least < 0.1 || (percent * 10.0).round() / 10.0 > least)
}

impl Difference {
    /// Returns the interpretation if up to `least` per cent is irrelevant; none without an interval. A difference has a direction if
    /// its interval is on one side of 0 and the half of it between the mean and the end that is nearer to 0 exceeds `least` on
    /// average: a mean that is just above `least` by chance has none.
    pub fn read(&self, least: f64) -> Option<Sign> {
        let Interval(low, high) = self.ci95?;
        let nearer = if self.mean > 0.0 { low } else { high };
        Some(if self.is_within(least) {
            Sign::Equal
        } else if low <= 0.0 && 0.0 <= high {
            Sign::Undecided
        } else if !exceeds(0.5 * (self.mean.abs() + nearer.abs()), least) {
            Sign::Equal
        } else if self.mean > 0.0 {
            Sign::Above
        } else {
            Sign::Below
        })
    }

    /// True if the whole interval is within plus and minus `least` per cent.
    pub fn is_within(&self, least: f64) -> bool {
        self.ci95.is_some_and(|Interval(low, high)| -least <= low && high <= least)
    }

    /// Returns an estimate of the number of runs with which about four of five comparisons would be decisive, after `runs` that
    /// are not: the interval narrows with the square root of their number, until 0 lies outside or the whole interval is below
    /// `least`.
    pub fn runs_needed(&self, runs: u32, least: f64) -> Option<u64> {
        let Interval(low, high) = self.ci95?;
        let (below, above) = (self.mean - low, high - self.mean);
        // The half towards 0 has to narrow: bounds for unseen events widen only one of them. The lower one may be cut
        // off, and beneath the least effect either may be decisive.
        let half = match self.mean {
            mean if mean <= -least => above,
            mean if mean >= least && low > -100.0 => below,
            _ => below.max(above),
        };
        let mean = self.mean.abs();
        let target = if mean >= least { mean } else { mean.max(least - mean) };
        let runs = f64::from(runs) * (half / target).powi(2) * FOR_POWER;
        // Rounded to two digits.
        let unit = libm::pow(10.0, libm::log10(runs.max(1.0)).floor() - 1.0).max(1.0);
        let runs = (runs / unit).ceil() * unit;
        (runs.is_finite() && runs < 1e15).then_some(runs as u64)
    }

    /// Returns the difference with an interval that also holds if these bounds become true.
    #[must_use]
    pub fn with_unseen(self, bound: OfPair) -> Difference {
        let Some(Interval(low, high)) = self.ci95 else { return self };
        if bound == OfPair::default() {
            return self;
        }
        let OfPair { own, other, shared } = bound;
        let ratio = |percent: f64| 1.0 + percent / 100.0;
        let least =
            |shared: f64| (ratio(low) - ratio(self.mean) * own.less + shared) / (1.0 + other.more + shared);
        let low = least(0.0).min(least(shared));
        // Nothing is left of the other one's goodput.
        let share = (1.0 - other.less).max(1e-9);
        let most = |shared: f64| (ratio(high) + ratio(self.mean) * own.more + shared) / (share + shared);
        let high = most(0.0).max(most(shared));
        let ci95 = Difference::of_ratio(ratio(self.mean), Some(Interval(low, high))).ci95;
        Difference { ci95, ..self }
    }

    /// Returns the difference of two means in percent, from their `ratio` and its `interval`.
    pub fn of_ratio(ratio: f64, interval: Option<Interval>) -> Difference {
        let percent = |ratio: f64| 100.0 * (ratio - 1.0);
        // Nothing is less than nothing by more than 100 %.
        let ci95 = interval.map(|Interval(low, high)| Interval(percent(low), percent(high)).at_least(-100.0));
        Difference { mean: percent(ratio), ci95 }
    }
}
