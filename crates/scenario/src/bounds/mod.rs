//! Values that an experiment determines without a run.

pub mod estimate;
pub mod lower_bound;
