//! How the values of flows become one value of a contender.

use std::marker::PhantomData;

use crate::difference::Difference;
use crate::stats::{self, Interval, Part};
use crate::summary::Summary;

/// The flows that are gathered.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Of {
    /// True for bulk flows, which have no completion times.
    pub bulk: bool,
    /// The number of paths of the condition: the length of values by path.
    pub paths: usize,
    /// The seed of the bootstrap.
    pub seed: u64,
}

/// A way to gather values.
pub trait Gather {
    /// The value or values that a flow contributes.
    type Taken;
    /// The value of one flow.
    type One;
    /// The value of all flows.
    type All;

    /// Returns the value of one flow.
    fn one(taken: Self::Taken) -> Self::One;

    /// Returns the value of all flows, by run.
    fn all(runs: Vec<Vec<Self::Taken>>, of: Of) -> Self::All;
}

/// Mean, percentiles and interval over the flows that have a value.
#[derive(Debug)]
pub struct Spread;

impl Gather for Spread {
    type Taken = Option<f64>;
    type One = Option<f64>;
    type All = Summary;

    fn one(taken: Option<f64>) -> Option<f64> {
        taken
    }

    fn all(runs: Vec<Vec<Option<f64>>>, of: Of) -> Summary {
        let known: Vec<Vec<f64>> = runs.into_iter().map(|run| run.into_iter().flatten().collect()).collect();
        Summary::new(&known, of.seed)
    }
}

/// A number that can be averaged.
pub trait Number: Copy {
    /// Returns it as a float.
    fn as_f64(self) -> f64;
}

impl Number for f64 {
    fn as_f64(self) -> f64 {
        self
    }
}

impl Number for u64 {
    fn as_f64(self) -> f64 {
        self as f64
    }
}

impl Number for u32 {
    fn as_f64(self) -> f64 {
        self.into()
    }
}

fn mean<T: Number>(values: impl IntoIterator<Item = T>) -> Option<f64> {
    stats::mean(&values.into_iter().map(T::as_f64).collect::<Vec<_>>())
}

/// The mean over all flows; 0 without flows.
#[derive(Debug)]
pub struct Mean<T>(PhantomData<T>);

impl<T: Number> Gather for Mean<T> {
    type Taken = T;
    type One = T;
    type All = f64;

    fn one(taken: T) -> T {
        taken
    }

    fn all(runs: Vec<Vec<T>>, of: Of) -> f64 {
        MeanOfAny::<T>::all(runs, of).unwrap_or(0.0)
    }
}

/// The mean over all flows; none without flows.
#[derive(Debug)]
pub struct MeanOfAny<T>(PhantomData<T>);

impl<T: Number> Gather for MeanOfAny<T> {
    type Taken = T;
    type One = T;
    type All = Option<f64>;

    fn one(taken: T) -> T {
        taken
    }

    fn all(runs: Vec<Vec<T>>, _: Of) -> Option<f64> {
        mean(runs.into_iter().flatten())
    }
}

/// The mean over the flows that have a value.
#[derive(Debug)]
pub struct MeanOfKnown;

impl Gather for MeanOfKnown {
    type Taken = Option<f64>;
    type One = Option<f64>;
    type All = Option<f64>;

    fn one(taken: Option<f64>) -> Option<f64> {
        taken
    }

    fn all(runs: Vec<Vec<Option<f64>>>, _: Of) -> Option<f64> {
        mean(runs.into_iter().flatten().flatten())
    }
}

/// The 95 % interval of the mean over all flows, by bootstrap over runs.
#[derive(Debug)]
pub struct IntervalOfMean;

impl Gather for IntervalOfMean {
    type Taken = f64;
    type One = ();
    type All = Option<Interval>;

    fn one(_: f64) {}

    fn all(runs: Vec<Vec<f64>>, of: Of) -> Option<Interval> {
        let part = |run: &Vec<f64>| Part { sum: run.iter().sum(), count: run.len() as f64 };
        let interval = stats::bootstrap(&runs.iter().map(part).collect::<Vec<_>>(), of.seed);
        interval.map(|interval| interval.at_least(0.0))
    }
}

/// A difference from the reference, which only the comparison of several contenders knows.
#[derive(Debug)]
pub struct FromReference;

impl Gather for FromReference {
    type Taken = ();
    type One = ();
    type All = Option<Difference>;

    fn one((): ()) {}

    fn all(_: Vec<Vec<()>>, _: Of) -> Option<Difference> {
        None
    }
}

/// A part of a whole; over flows the sums of both. 0 where the whole is 0.
#[derive(Debug)]
pub struct Ratio;

fn ratio(part: u64, whole: u64) -> f64 {
    if whole > 0 { part as f64 / whole as f64 } else { 0.0 }
}

impl Gather for Ratio {
    type Taken = (u64, u64);
    type One = f64;
    type All = f64;

    fn one((part, whole): (u64, u64)) -> f64 {
        ratio(part, whole)
    }

    fn all(runs: Vec<Vec<(u64, u64)>>, _: Of) -> f64 {
        let all = runs.iter().flatten();
        let (part, whole) = all.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        ratio(part, whole)
    }
}

/// The sum over flows.
#[derive(Debug)]
pub struct Sum;

impl Gather for Sum {
    type Taken = u64;
    type One = u64;
    type All = u64;

    fn one(taken: u64) -> u64 {
        taken
    }

    fn all(runs: Vec<Vec<u64>>, _: Of) -> u64 {
        runs.iter().flatten().sum()
    }
}

/// The greatest value over flows; none without a value.
#[derive(Debug)]
pub struct Greatest;

impl Gather for Greatest {
    type Taken = Option<f64>;
    type One = Option<f64>;
    type All = Option<f64>;

    fn one(taken: Option<f64>) -> Option<f64> {
        taken
    }

    fn all(runs: Vec<Vec<Option<f64>>>, _: Of) -> Option<f64> {
        runs.into_iter().flatten().flatten().reduce(f64::max)
    }
}

/// The sums over flows, one for each path of the condition.
#[derive(Debug)]
pub struct SumByPath;

impl Gather for SumByPath {
    type Taken = Vec<u64>;
    type One = Vec<u64>;
    type All = Vec<u64>;

    fn one(taken: Vec<u64>) -> Vec<u64> {
        taken
    }

    fn all(runs: Vec<Vec<Vec<u64>>>, of: Of) -> Vec<u64> {
        let mut sums = vec![0; of.paths];
        for flow in runs.iter().flatten() {
            sums.iter_mut().zip(flow).for_each(|(sum, one)| *sum += one);
        }
        sums
    }
}

/// A time of a flow: whether its flow counts, and the time.
pub type Counted = (bool, Option<f64>);

/// The mean over the flows that count and have a value.
#[derive(Debug)]
pub struct MeanOfCounted;

impl Gather for MeanOfCounted {
    type Taken = Counted;
    type One = Option<f64>;
    type All = Option<f64>;

    fn one((_, time): Counted) -> Option<f64> {
        time
    }

    fn all(runs: Vec<Vec<Counted>>, _: Of) -> Option<f64> {
        mean(runs.into_iter().flatten().filter(|(counts, _)| *counts).filter_map(|(_, time)| time))
    }
}

/// The mean time over the mean of a bound, both over the flows that count.
#[derive(Debug)]
pub struct OverBound;

impl Gather for OverBound {
    /// The time, and the bound.
    type Taken = (f64, Counted);
    type One = Option<f64>;
    type All = Option<f64>;

    fn one((time, (_, bound)): (f64, Counted)) -> Option<f64> {
        bound.filter(|bound| *bound > 0.0).map(|bound| time / bound)
    }

    fn all(runs: Vec<Vec<(f64, Counted)>>, _: Of) -> Option<f64> {
        let counted: Vec<_> = runs.into_iter().flatten().filter(|(_, (counts, _))| *counts).collect();
        let bound = mean(counted.iter().filter_map(|(_, (_, bound))| *bound));
        let time = mean(counted.iter().map(|(time, _)| *time));
        time.zip(bound).filter(|(_, bound)| *bound > 0.0).map(|(time, bound)| time / bound)
    }
}
