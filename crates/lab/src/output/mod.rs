//! The objects that the verbs of the command print as JSON, for every front end.
//!
//! Each is made here from results, and its fields are the documented keys in their order. The objects of some
//! verbs are results themselves: [`Comparison`](crate::compare::Comparison),
//! [`Advice`](crate::advise::Advice). `commit` and `command` are the caller's: none and empty until it fills
//! them in.

mod check;
mod class;
mod list;
mod model;
pub mod report;
mod run;
mod select;
mod sweep;

pub use crate::head::{Head, Origin};
pub use check::{Check, CheckClass};
pub use list::{
    Item, Knob, Parameter, congestion, distributions, knobs, parameters, presets, profiles, scenarios,
    schedulers,
};
pub use model::{Model, Round, State, TooManyStates};
pub use run::{Fallback, LinkCounters, MiddleboxCounts, RUN_SCHEMA, Runs, Setting, counters};
pub use select::{Candidate, SelectedPath, Selection, TooManyPaths};
pub use sweep::{Sweep, SweepState};

/// The version of this program.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
