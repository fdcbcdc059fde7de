//! DMPTCP's path management for the kernel's connections.
//!
//! It decides from the state that socket diagnostics show, about once a round trip, which subflows of a connection are
//! used and which are backups, and opens and closes subflows as interfaces come and go. [`Steering`] is pure: it takes
//! events, interfaces, observations and results with their times, and returns commands with their reasons. [`daemon`]
//! connects it with the kernel.
//!
//! Source: DMPTCP section 4.2, by `anabranch_stack::selection`. Differences to the stack's scheduler, because the
//! kernel's own scheduler sends:
//!
//! * A subflow is used or a backup for all data; there is no choice for each segment.
//! * The remaining data is the data that no subflow has sent: the connection's unsent data and the queues of its subflows,
//!   which cannot be taken back. Data that the application has not written yet is invisible, as is the data that a
//!   peer is going to send: see `choose::remaining`.
//! * A used subflow becomes a backup only if it stays unneeded with a quarter more data in two observations.

pub mod advice;
mod choose;
pub mod daemon;
mod decision;
mod opening;
mod state;
mod steering;
mod undo;

pub use decision::{Decision, Why};
pub use steering::Steering;

/// The factor on the remaining data with which a used subflow must still be unneeded before it becomes a backup.
const MARGIN: f64 = 1.25;
/// The number of observations in a row in which it must be so.
const LOOKS: u32 = 2;

#[cfg(test)]
mod rule_tests;
#[cfg(test)]
mod tests;
