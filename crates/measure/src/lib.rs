//! The measures of results. Each is declared once, as a row of [`measures`]: its name, unit, meaning, how it is
//! computed from a flow and gathered over flows, and its columns.
//!
//! From the rows follow the fields of a [`Record`], which is the result of a contender, and of a
//! [`FlowRecord`], which is the result of one flow: `compare`, `sweep` and `run` write them as JSON. The
//! columns of samples, of sweeps and of the printed tables follow, too, and the table of measures of
//! `docs/results.md`, and the types of the report's page and of Python.
//!
//! ```
//! use anabranch_measure::stats::{Part, bootstrap, mean, percentile};
//!
//! let times = [0.25, 0.5, 0.75, 1.0];
//! assert_eq!(mean(&times), Some(0.625));
//! assert_eq!(percentile(&times, 50.0), Some(0.625));
//! assert_eq!(percentile(&times, 95.0), None, "it needs 20 values");
//! // The 95 % interval of the mean over runs; the same seed gives the same interval.
//! let runs = times.map(Part::one);
//! assert!(bootstrap(&runs, 1).is_some_and(|interval| interval.contains(0.625)));
//! ```

#![warn(unreachable_pub)]

pub mod column;
mod declare;
mod difference;
mod field;
pub mod flow;
pub mod gather;
pub mod measures;
pub mod page;
mod record;
pub mod stats;
mod summary;
pub mod types;

pub use column::{
    Better, Format, Heading, Measure, SampleColumn, Shown, SweepColumn, TableKind, Traffic, Unit,
};
pub use difference::{Difference, OfPair, Sign, Unseen};
pub use flow::{Class, FlowResult};
pub use measures::{
    Datagrams, FlowDatagrams, FlowRecord, FlowVideo, Part, Record, Video, all, sample_columns, sweep_columns,
    table_columns,
};
pub use record::{ByRun, Reading};
pub use summary::Summary;
