//! The deterministic discrete-event simulator of the stack.
//!
//! A [`Network`] of hosts, links and routes, a list of [`FlowSpec`]s and a seed make a [`Sim`]. It runs the
//! same stack that runs on real networks, in virtual time, reports events to a [`Recorder`], and returns the
//! results in a [`RunReport`]. The same seed gives the same report to the last bit. A run can be cloned half
//! way: both copies continue identically.
//!
//! ```
//! use anabranch_sim::topology::{self, Duplex, PathSpec, ServerAddresses};
//! use anabranch_sim::Sim;
//! use anabranch_stack::config::ConnectionConfig;
//! use anabranch_units::{Bytes, Duration, Rate, Time};
//!
//! let wifi = Duplex::symmetric(Rate::from_mbps(20), Duration::from_millis(20));
//! let lte = Duplex::symmetric(Rate::from_mbps(10), Duration::from_millis(60));
//! let paths = [PathSpec::new("wifi", wifi), PathSpec::new("lte", lte)];
//! let topology = topology::disjoint(&paths, ServerAddresses::One)?;
//! let flow = topology.pairs[0].flow("photo", Some(Bytes::from_kb(2000)), ConnectionConfig::linux());
//!
//! let mut sim = Sim::new(topology.network, vec![flow], 1, ())?;
//! let report = sim.run(Time::from_secs(60));
//! let photo = &report.flows[0];
//! println!("{:?} s, by path {:?}", photo.fct, photo.bytes_by_path);
//! # assert!(photo.fct.is_some_and(|fct| fct < Duration::from_secs(1)));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # The order of events
//!
//! Time does not advance while an event is processed. Events at the same time are processed in the order in
//! which they were scheduled. When a segment arrives at a host or its timer expires, the stack first reports
//! events to its applications, which read and write immediately, and then the host sends all segments that
//! its stack has ready.

#![warn(unreachable_pub)]

mod app;
pub mod application;
mod calendar;
mod datagrams;
pub mod distribution;
mod error;
mod fabric;
mod flow;
mod gap;
mod hash;
mod middleboxes;
mod network;
mod pool;
mod program;
mod proxy;
mod quotas;
mod recorder;
mod relays;
mod report;
pub mod routing;
mod session;
mod sim;
pub mod topology;
pub mod traffic;
mod watched;

pub use application::{AppReport, Application};
pub use error::{FlowError, SimError};
pub use flow::{Direction, End, FlowId, FlowSpec, Reading};
pub use network::{
    AddressChange, HostId, HostSpec, Interface, LinkId, LinkSpec, MiddleboxSpec, Network, NetworkError,
    Quota, Route,
};
pub use program::{Program, Step};
pub use recorder::{
    FlowEvent, HostEvent, HostObserver, LinkEvent, Queue, Recorder, Scope, Trace, Wants, What,
};
pub use report::{
    EndReport, Failure, FlowReport, LinkReport, MiddleboxReport, Outcome, Performance, RunReport,
};
pub use sim::{HostStack, Sim};

/// Compiles and runs the examples of the guide.
#[cfg(doctest)]
#[doc = include_str!("../GUIDE.md")]
struct Guide;
