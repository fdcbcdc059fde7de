//! The deterministic discrete-event simulator around the stack.
//!
//! A [`Network`] of hosts, links and routes, a list of [`FlowSpec`]s and a seed make a [`Sim`]; it
//! runs the same stack that runs on real networks, in virtual time, and tells a [`Recorder`] what
//! happens and the caller, in a [`RunReport`], what it came to. The same seed gives the same report
//! to the last bit. A run can be cloned half way: both copies continue alike.

mod app;
mod error;
mod fabric;
mod flow;
mod heap;
mod network;
mod pool;
mod recorder;
mod report;
mod sim;
pub mod topology;
pub mod traffic;

pub use error::{FlowError, SimError};
pub use flow::{Direction, End, FlowId, FlowSpec, Reading};
pub use network::{
    AddressChange, HostId, HostSpec, Interface, LinkId, LinkSpec, Network, NetworkError, Route,
};
pub use recorder::{HostObserver, Recorder, Scope};
pub use report::{EndReport, Failure, FlowReport, LinkReport, Outcome, Performance, RunReport};
pub use sim::{HostStack, Sim};
