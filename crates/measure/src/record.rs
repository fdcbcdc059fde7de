//! The parts of a record that are no measures.

use serde::{Deserialize, Serialize};

use crate::field::described;
use crate::flow::FlowResult;
use crate::stats;

/// The interpretation of a difference from the reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reading {
    /// Better than the reference.
    Better,
    /// Practically equal to the reference.
    Equal,
    /// Worse than the reference.
    Worse,
    /// It cannot be told apart from the reference with this number of runs.
    Undecided,
    /// Flows of one of them did not finish.
    Incomplete,
}

impl Reading {
    /// All readings.
    pub const ALL: [Reading; 5] =
        [Reading::Better, Reading::Equal, Reading::Worse, Reading::Undecided, Reading::Incomplete];

    /// Returns the name that JSON and tables have for it.
    pub const fn name(self) -> &'static str {
        match self {
            Reading::Better => "better",
            Reading::Equal => "equal",
            Reading::Worse => "worse",
            Reading::Undecided => "undecided",
            Reading::Incomplete => "incomplete",
        }
    }
}

described! {
    /// The values of each run, in order from run 0.
    #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
    pub struct ByRun {
        /// The flows that were delivered; of bulk, the flows that were not aborted.
        pub completed: Vec<usize>,
        /// The mean completion time of the delivered flows; none without any, and for bulk.
        pub fct_s: Vec<Option<f64>>,
        /// The mean goodput of a flow, in bit/s.
        pub goodput_bps: Vec<Option<f64>>,
    }
}

impl ByRun {
    /// Returns the values of flows, by run.
    pub fn new(runs: &[Vec<&FlowResult>], bulk: bool) -> ByRun {
        let mean = |values: &mut dyn Iterator<Item = f64>| stats::mean(&values.collect::<Vec<_>>());
        let completed = |run: &Vec<&FlowResult>| run.iter().filter(|flow| flow.is_complete(bulk)).count();
        let fct = |run: &Vec<&FlowResult>| {
            mean(&mut run.iter().filter_map(|flow| flow.report.fct).map(|fct| fct.as_secs_f64()))
        };
        let goodput = |run: &Vec<&FlowResult>| mean(&mut run.iter().map(|flow| flow.goodput().as_bps_f64()));
        ByRun {
            completed: runs.iter().map(completed).collect(),
            fct_s: runs.iter().map(fct).collect(),
            goodput_bps: runs.iter().map(goodput).collect(),
        }
    }

    /// True without runs, as in the record of a point of a sweep.
    pub(crate) fn is_empty(&self) -> bool {
        self.completed.is_empty()
    }
}
