//! Sweeps: one comparison at each point of a space of conditions.
//!
//! A [`Plan`] names a scenario and the values of some of its keys. Its points are all combinations of the
//! values, or points drawn from their ranges. Each point is a separate comparison ([`crate::compare`]),
//! simulated on one thread; several points run at once. Results are written to a [`Journal`], a line for each
//! point, so that a sweep can be interrupted at any time and continued. The results of a point depend only on
//! the plan and on the program, not on the number of threads, interruptions or shards.

mod columns;
mod directory;
mod journal;
mod point;
mod summary;
mod work;

pub use crate::scenario::plan::{Design, Dimension, Plan, Point, Space, Stop, Values};
pub use anabranch_measure::Reading;
pub use columns::{Columns, result_cells, result_columns};
pub use directory::{Directory, DirectoryError};
pub use journal::{Header, Journal, JournalError};
pub use point::PointResult;
pub use summary::{Standing, Summary};
pub use work::{Options, Shard, SweepError, simulate_point, sweep};
