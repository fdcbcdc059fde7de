//! The verbs, one file each.

pub mod bench;
pub mod check;
pub mod compare;
#[cfg(target_os = "linux")]
mod confirm;
#[cfg(target_os = "linux")]
pub mod doctor;
#[cfg(target_os = "linux")]
pub mod emulate;
pub mod get;
pub mod list;
pub mod model;
pub mod run;
pub mod select;
pub mod serve;
#[cfg(target_os = "linux")]
pub mod tun;
#[cfg(target_os = "linux")]
pub mod validate;
