//! The measures of results. Each is declared once, as a row of [`measures`]: its name, unit, meaning, how it is
//! computed from a flow and gathered over flows, and its columns.
//!
//! From the rows follow the fields of a [`Record`], which is the result of a contender, and of a
//! [`FlowRecord`], which is the result of one flow: `compare`, `sweep` and `run` write them as JSON. The
//! columns of samples, of sweeps and of the printed tables follow, too, and the table of measures of
//! `docs/results.md`, and the types of the report's page and of Python.

#![warn(unreachable_pub)]

pub mod column;
mod declare;
mod difference;
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
