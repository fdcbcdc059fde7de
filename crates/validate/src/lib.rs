//! How true the simulator is.
//!
//! A [`Point`] is one transfer over the paths of a scenario. It is carried out three ways: simulated, emulated in real
//! time with anabranch at both ends, and emulated with the Linux kernel at both ends, over the same links with the same
//! luck. [`campaign`] makes the runs and keeps what they measured in a file, [`compare`] says by how much the three
//! differ and how sure that is, and [`record`] holds what was found against what is found now.
#![cfg(target_os = "linux")]

mod anabranch;
mod background;
pub mod campaign;
pub mod compare;
pub mod grid;
mod kernel;
mod knobs;
pub mod machine;
pub mod measure;
pub mod pcap;
pub mod points;
pub mod prediction;
pub mod record;
pub mod results;
mod simulated;
pub mod summary;
mod sys;
mod tcp_info;

pub use campaign::{Campaign, Plan};
pub use measure::{Kind, Measured, Metric};
pub use points::{Point, PointError, Set};
