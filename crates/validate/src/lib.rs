//! Validates the simulator against real time and the Linux kernel.
//!
//! A [`Point`] is one transfer over the paths of a scenario. It is run in three ways: simulated, emulated in
//! real time with anabranch at both ends, and emulated with the Linux kernel at both ends, over the same
//! links with the same random draws. [`campaign`] makes the runs and stores their measurements in a file,
//! [`compare`] computes the differences and their uncertainty, and [`record`] compares them with the recorded
//! ones.
#![cfg(target_os = "linux")]
#![warn(unreachable_pub)]

mod anabranch;
mod background;
pub mod campaign;
pub mod compare;
mod gap;
pub mod grid;
mod kernel;
mod knobs;
mod laws;
pub mod machine;
pub mod measure;
mod mixed;
mod one_run;
pub mod pcap;
pub mod points;
pub mod prediction;
mod programs;
pub mod real;
pub mod record;
pub mod results;
mod simulated;
pub mod summary;
mod sys;
mod tcp_info;

pub use campaign::{Campaign, Plan};
pub use measure::{Kind, Measured, Metric};
pub use points::{Point, PointError, Set};
