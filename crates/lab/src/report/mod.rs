//! Results as rows: one for each condition and contender.

mod classes;
pub(crate) mod difference;
mod entrant;
mod fair_share;
pub mod fairness;
pub(crate) mod measured;
mod rows;
pub(crate) mod sentences;
mod setting;
pub(crate) mod unseen;
pub mod verdict;

pub use anabranch_measure::{ByRun, Datagrams, Difference, Record, Summary, Video};
pub use entrant::beside_name;
pub(crate) use entrant::{Entrant, is_bulk};
pub(crate) use rows::{of, rows};
pub use sentences::later_deadline;
pub use setting::{ClassPath, PhaseLimits, Setting, UnseenEvents};

#[cfg(test)]
mod class_tests;
#[cfg(test)]
mod number_tests;
#[cfg(test)]
mod tests;
