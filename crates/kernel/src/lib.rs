//! The stock Linux kernel's Multipath TCP, seen and steered from user space.
//!
//! [`pm`] is the netlink family of the kernel's path manager, [`diag`] reads connections and subflows from socket
//! diagnostics.
//!
//! ```no_run
//! use anabranch_kernel::pm::PathManager;
//!
//! for endpoint in PathManager::open()?.endpoints()? {
//!     println!("{} on interface {}", endpoint.address, endpoint.interface);
//! }
//! # Ok::<(), anabranch_kernel::KernelError>(())
//! ```
#![cfg(target_os = "linux")]
#![warn(unreachable_pub)]

pub mod diag;
mod error;
mod files;
pub mod interfaces;
pub mod memory;
mod netlink;
pub mod pm;
pub mod record;
pub mod run;
pub mod samples;
pub mod socket;
pub mod steer;
pub mod top;
pub mod uplinks;

pub use error::KernelError;
