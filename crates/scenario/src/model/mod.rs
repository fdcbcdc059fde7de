//! The parts of a scenario, complete and valid: the types from which experiments run.

mod class;
mod contender;
mod endpoints;
mod experiment;
mod graph;
mod phases;
mod remarks;
mod scenario;
mod tariff;
mod traffic;
mod warnings;

pub(crate) use class::UNLIMITED;
pub use class::{Kind, TrafficClass, Via, main_class};
pub use contender::{Contender, Transport};
pub use endpoints::{Endpoints, ServerAddress, SubflowLimits};
pub use experiment::{Experiment, InitialChoice, Outage};
pub use graph::{Form, Graph, GraphNode, Link, Pair, Path, Signal, TraceStart};
pub use phases::{PhaseChoice, Phases};
pub use scenario::{Condition, Scenario};
pub use tariff::Tariff;
pub use traffic::{Background, Beside, Direction, FlowSize, Start, Traffic};
