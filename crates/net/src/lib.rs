//! Multipath TCP in user space: the stack of `anabranch-stack` with buffers and a real clock.
//!
//! A [`Host`] has devices, which send and receive IP packets, and its own addresses; each address is a
//! path. It opens and accepts connections, which are byte streams with the traits of tokio.

#![warn(unreachable_pub)]

mod buffer;
mod capture;
mod counters;
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
mod spares;
mod spread;
mod stream;

pub use anabranch_device as device;
pub use capture::{Capture, CaptureReport};
pub use counters::HostCounters;
pub use heap::return_freed_memory;
pub use host::{Host, HostBuilder, default_config};
pub use listener::MptcpListener;
pub use notice::{ConnectionReport, Notice};
pub use stream::{Charge, MptcpStream, OwnedReadHalf, OwnedWriteHalf, StreamControl};

/// Compiles and runs the examples of the guide.
#[cfg(doctest)]
#[doc = include_str!("../GUIDE.md")]
struct Guide;
