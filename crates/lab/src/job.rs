//! The single runs of comparisons, explanations and recordings.

/// The purpose of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Purpose {
    /// A run of a contender.
    #[default]
    Compare,
    /// A run for the choice of the path of `tcp`, with a seed that no compared run has.
    Select,
    /// A run for the choice of the path of the TCPs that compete with the contender's flows.
    SelectBeside,
    /// A run of a plain TCP on a path that `tcp` does not use.
    Alone,
    /// A run with the initial subflow on another path.
    OtherStart,
}

/// One run of a comparison.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Job {
    /// The position of the condition.
    pub condition: usize,
    /// The position of the contender.
    pub contender: usize,
    /// The number of the run, from 0.
    pub run: u32,
    /// The path of a plain TCP without a configured path, or of an initial subflow on another path.
    pub path: Option<usize>,
    /// The purpose of the run.
    pub purpose: Purpose,
}
