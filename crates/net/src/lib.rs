//! Multipath TCP in user space: the stack of `anabranch-stack` with bytes and a real clock around it.
//!
//! A [`Host`] has devices, on which IP packets come and go, and addresses of its own, each a path. It
//! opens and accepts connections, which are streams of bytes as tokio knows them.

#![warn(unreachable_pub)]

mod buffer;
mod capture;
mod driver;
mod echo;
mod flow;
mod heap;
mod held;
mod host;
mod lent;
mod listener;
mod notice;
mod shared;
mod stream;

pub use anabranch_device as device;
pub use capture::{Capture, CaptureReport};
pub use heap::return_freed_memory;
pub use host::{Host, HostBuilder, HostCounters, default_config};
pub use listener::MptcpListener;
pub use notice::{ConnectionReport, Notice};
pub use stream::{Charge, MptcpStream, OwnedReadHalf, OwnedWriteHalf, StreamControl};

/// The examples of the guide compile and run.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/runtime.md")]
struct Guide;
