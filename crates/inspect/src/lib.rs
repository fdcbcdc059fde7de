//! Reads captures of real connections, and says what happened in them.
//!
//! [`Inspector`] reads capture files packet by packet ([`capture`]), splits them by connection, and follows each one in
//! constant memory: its subflows, its data level, the bottleneck of each path. [`Inspection`] is the result.
//!
//! The crate reads bytes and nothing else: the caller opens the files.
//!
//! ```no_run
//! use anabranch_inspect::Inspector;
//! use anabranch_inspect::capture::{Merged, Reader};
//!
//! let file = std::fs::File::open("capture.pcap")?;
//! let mut captures = Merged::new(vec![Reader::new("capture.pcap", Box::new(file))?]);
//! for connection in Inspector::inspect(&mut captures, |_packets| true)?.connections {
//!     println!("{} subflows", connection.subflows.len());
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]
#![warn(unreachable_pub)]

mod anonymise;
mod application;
pub mod capture;
mod cause;
mod clocks;
mod error;
mod estimate;
mod follow;
mod histogram;
mod inspector;
mod kernel;
mod link_layer;
mod outages;
mod phases;
mod queue;
mod result;
pub mod scenario;
mod sentence;
mod track;

pub use anonymise::Anonymiser;
pub use application::{Application, Pattern, Turn};
pub use cause::Cause;
pub use clocks::ClockReport;
pub use error::CaptureFault;
pub use estimate::{BusyTime, Estimate, Outage, PathEstimate, RatePhase, RateSource};
pub use follow::{Event, Seen, follow};
pub use inspector::Inspector;
pub use kernel::KernelReport;
pub use result::*;
pub use track::Vantage;
