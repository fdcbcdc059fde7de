//! Validates the simulator against real time and the Linux kernel.
//!
//! A [`Point`] is one transfer over the paths of a scenario. It is run in three ways: simulated, emulated in
//! real time with anabranch at both ends, and emulated with the Linux kernel at both ends, over the same
//! links with the same random draws. [`campaign`] makes the runs and stores their measurements in a file,
//! [`compare`] computes the differences and their uncertainty, and [`record`] compares them with the recorded
//! ones.
//!
//! ```
//! use anabranch_lab::scenario::Document;
//! use anabranch_validate::Point;
//!
//! let text = "
//!     path = [{ rate = '10 Mbit/s', rtt = '20 ms' }, { rate = '20 Mbit/s', rtt = '60 ms' }]
//!     traffic = { size = '1 MB' }
//!     schedulers = ['tcp', 'linux']
//! ";
//! let points = Point::of(Document::parse("two.toml", text, ".")?.scenario()?)?;
//! assert_eq!(points.len(), 2, "one for each contender that the kernel has too");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![cfg(target_os = "linux")]
#![warn(unreachable_pub)]

mod anabranch;
mod background;
pub mod campaign;
pub mod compare;
mod gap;
pub mod grid;
mod kernel;
#[cfg(test)]
mod kinds_tests;
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
mod socket;
pub mod summary;
mod sys;
mod tcp_info;

pub use campaign::{Campaign, Plan};
pub use measure::{Kind, Measured, Metric};
pub use points::{Point, PointError, Set};
