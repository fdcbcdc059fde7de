//! Mean, percentiles and interval of a time.

use serde::{Deserialize, Serialize};

use crate::difference::Unseen;
use crate::field::described;
use crate::stats::{self, Interval, Part};

described! {
    /// Mean, percentiles and interval of a time.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
    pub struct Summary {
        /// The mean over all flows of all runs that have a value.
        pub mean: Option<f64>,
        /// The median.
        pub p50: Option<f64>,
        /// The 95th percentile; none for fewer than 20 flows.
        pub p95: Option<f64>,
        /// The 99th percentile; none for fewer than 100 flows.
        pub p99: Option<f64>,
        /// The greatest value.
        pub max: Option<f64>,
        /// The 95 % interval of the mean, by bootstrap over runs and with the bound for events that no run has shown; none
        /// for a single run.
        pub ci95: Option<Interval>,
    }
}

impl Summary {
    /// Returns the summary of values by run.
    pub fn new(runs: &[Vec<f64>], seed: u64) -> Summary {
        let mut all = Vec::new();
        let mut parts = Vec::with_capacity(runs.len());
        for values in runs {
            parts.push(Part { sum: values.iter().sum(), count: values.len() as f64 });
            all.extend_from_slice(values);
        }
        let mean = stats::mean(&all);
        all.sort_unstable_by(f64::total_cmp);
        Summary {
            mean,
            p50: stats::percentile(&all, 50.0),
            p95: stats::percentile(&all, 95.0),
            p99: stats::percentile(&all, 99.0),
            max: all.last().copied(),
            // No time is negative.
            ci95: stats::bootstrap(&parts, seed).map(|interval| interval.at_least(0.0)),
        }
    }

    /// Adds the bound for unseen events to the interval.
    pub fn add_unseen(&mut self, unseen: Unseen) {
        if let (Some(mean), Some(interval)) = (self.mean, &mut self.ci95) {
            interval.0 = (interval.0 - mean * unseen.less).max(0.0);
            interval.1 += mean * unseen.more;
        }
    }
}
