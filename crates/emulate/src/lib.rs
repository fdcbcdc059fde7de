//! Runs scenarios in real time: two network namespaces connected by the links of the simulator.
//!
//! [`Emulation::build`] makes the namespaces of client and server, with a TUN device, addresses, routes and
//! an endpoint of the kernel's Multipath TCP for each path; [`Emulation::run`] runs commands in them and
//! reports the packets carried and dropped on each path, and their lateness. Dropping the [`Emulation`]
//! removes everything that was made.
//!
//! Below that, an [`Engine`] moves packets between descriptors through links of `anabranch-link`, in real
//! time. A descriptor is a TUN device or one end of a [`PacketSocket`]; the other end can be a
//! device of a host of `anabranch-net`.
//!
//! ```no_run
//! use std::process::Command;
//! use std::sync::atomic::AtomicBool;
//!
//! use anabranch_emulate::{Emulation, Options};
//! use anabranch_lab::scenario::Document;
//!
//! let text = "path = [{ rate = '25 Mbit/s', rtt = '20 ms' }, { rate = '100 Mbit/s', rtt = '40 ms' }]";
//! let scenario = Document::parse("two.toml", text, ".")?.scenario()?;
//! let emulation = Emulation::build(&scenario, &Options::default())?;
//! let mut client = Command::new("ping");
//! client.args(["-c", "3", "10.1.1.1"]);
//! let outcome = emulation.run(None, client, &AtomicBool::new(false))?;
//! println!("{:?}", outcome.report);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![cfg(target_os = "linux")]
#![warn(unreachable_pub)]

mod command;
mod congestion;
mod emulation;
mod engine;
mod error;
mod lateness;
mod leftovers;
mod namespace;
mod network;
mod obstacle;
mod plan;
mod report;
mod signals;
mod socket;
mod sys;
mod tap;
mod wiring;

pub use anabranch_link::{Counters, Effect, Tally};
pub use command::Process;
pub use emulation::{Emulation, Options, Outcome};
pub use engine::{Engine, EngineOptions, EngineReport, LaneTotals, LinkTotals, MiddleboxTotals};
pub use error::EmulateError;
pub use lateness::Lateness;
pub use leftovers::clear as clear_leftovers;
pub use namespace::Namespace;
pub use network::{Addresses, Role};
pub use obstacle::obstacle;
pub use report::{Bounds, DirectionReport, LatenessReport, LinkReport, MiddleboxReport, PathReport, Report};
pub use socket::{PacketSocket, socket_pair};
pub use sys::set_realtime;
pub use tap::Tap;
pub use wiring::{Lane, Placed, Port, Wiring};
