//! The verbs, one file each.

pub mod advise;
pub mod bench;
pub mod check;
pub mod compare;
#[cfg(all(target_os = "linux", feature = "network"))]
mod confirm;
#[cfg(all(target_os = "linux", feature = "network"))]
pub mod doctor;
#[cfg(all(target_os = "linux", feature = "network"))]
pub mod emulate;
pub mod explain;
pub mod generate;
pub mod get;
pub mod list;
pub mod model;
pub mod report;
pub mod reproduce;
pub mod run;
pub mod schema;
pub mod select;
pub mod serve;
pub mod sweep;
#[cfg(all(target_os = "linux", feature = "network"))]
pub mod tun;
#[cfg(all(target_os = "linux", feature = "network"))]
pub mod validate;
