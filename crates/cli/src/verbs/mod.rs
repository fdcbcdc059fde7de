//! The verbs, one file each.

pub(crate) mod advise;
pub(crate) mod bench;
pub(crate) mod check;
pub(crate) mod compare;
#[cfg(all(target_os = "linux", feature = "network"))]
mod confirm;
#[cfg(all(target_os = "linux", feature = "network"))]
pub(crate) mod doctor;
#[cfg(all(target_os = "linux", feature = "network"))]
pub(crate) mod emulate;
pub(crate) mod explain;
pub(crate) mod explore;
pub(crate) mod generate;
pub(crate) mod get;
pub(crate) mod inspect;
#[cfg(all(target_os = "linux", feature = "network"))]
pub(crate) mod kernel;
pub(crate) mod list;
pub(crate) mod model;
pub(crate) mod plot;
#[cfg(all(target_os = "linux", feature = "network"))]
pub(crate) mod proxy;
#[cfg(all(target_os = "linux", feature = "network"))]
pub(crate) mod record;
pub(crate) mod report;
pub(crate) mod reproduce;
pub(crate) mod run;
pub(crate) mod schema;
pub(crate) mod select;
pub(crate) mod serve;
pub(crate) mod sweep;
#[cfg(all(target_os = "linux", feature = "network"))]
pub(crate) mod tun;
#[cfg(all(target_os = "linux", feature = "network"))]
pub(crate) mod validate;
