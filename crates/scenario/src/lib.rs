//! Scenario files: experiments as data, read and checked.
//!
//! A [`Document`] is a scenario file with the overrides of the command line; [`Document::scenario`] converts
//! it to a [`Scenario`], which is complete and valid. A [`plan::Plan`] gives some of its keys several values. The rows of
//! keys from which both are read also make the JSON [`schema`]. An experiment is enough to determine a [`lower_bound`] on
//! completion times, and an [`estimate`] of the best path to start on.
//!
//! ```
//! use anabranch_scenario::Document;
//!
//! let text = "
//!     path = [{ rate = '100 Mbit/s', rtt = '20 ms' }, { rate = '100 Mbit/s', rtt = '80 ms' }]
//!     traffic = { size = '50 KB' }
//!     schedulers = ['tcp']
//! ";
//! let scenario = Document::parse("example.toml", text, ".")?.scenario()?;
//! assert_eq!(scenario.conditions[0].experiment.paths().len(), 2);
//! # Ok::<(), anabranch_scenario::ScenarioError>(())
//! ```

#![warn(unreachable_pub)]

mod bounds;
mod identity;
pub mod library;
mod model;
pub mod plan;
pub mod policy;
mod read;
pub mod schema;
mod text;

pub use anabranch_sim::distribution::{Distribution, PUBLISHED};
pub use anabranch_stack::path_manager::EndpointRole;

pub use bounds::{estimate, lower_bound};
pub use model::{
    Background, Beside, Condition, Contender, Direction, Endpoints, Experiment, FlowSize, Form, Graph,
    GraphNode, InitialChoice, Kind, Link, Outage, Pair, Path, PhaseChoice, Phases, Scenario, ServerAddress,
    Signal, Start, SubflowLimits, Tariff, TraceStart, Traffic, TrafficClass, Transport, Via, main_class,
};
pub use read::distribution::distributions;
pub use read::files::sha256;
pub use read::{Document, knobs, parameters, presets};
pub use text::reader::list;
pub use text::source::{Place, ScenarioError, did_you_mean};
pub use text::units;
pub use text::write::quoted;
