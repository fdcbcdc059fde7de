//! Sets up a TUN device with an address for each path, and the routes, the filter and the address translation
//! that send each path's packets through its own real interface. Every change is recorded, and undone
//! exactly.
//!
//! [`Options`] and a [`Host`] give a [`Layout`] (the interface of each address), and a layout gives a
//! [`Plan`] (steps in order), both without side effects; [`setup`] executes the steps, [`follow`] adapts the
//! routes to changed interfaces, and [`teardown`] undoes all. `docs/decisions/ip-and-nft.md` explains why it runs `ip` and `nft`.
//!
//! ```
//! use anabranch_setup::{Layout, Options, PathSpec, Plan};
//!
//! let paths = ["wlan0", "wwan0"].map(|name| PathSpec { interface: name.to_owned(), via: Vec::new() });
//! // In a namespace without connectivity; with it, [`plan`] reads the host's interfaces and routes.
//! let plan = Plan::isolated(Layout::isolated(&Options::new(paths.to_vec()))?);
//! assert_eq!(plan.layout.paths.len(), 2);
//! assert!(!plan.steps.is_empty());
//! # Ok::<(), anabranch_setup::SetupError>(())
//! ```

#![warn(unreachable_pub)]
#![cfg(target_os = "linux")]

mod congestion;
pub mod doctor;
mod error;
mod execute;
mod follow;
mod host;
mod layout;
pub mod namespace;
mod options;
mod plan;
mod privileges;
pub mod route;
mod show;
mod state;
mod step;
mod system;

#[cfg(test)]
mod plan_tests;

use serde::{Deserialize, Serialize};

pub use congestion::{choose, undo_choice};
pub use error::SetupError;
pub use execute::{plan, setup, teardown};
pub use follow::{Followed, follow};
pub use host::{Address, Host, Link, MAIN_TABLE, NftChain, NftTable, Route, Rule};
pub use layout::{Layout, Leg};
pub use options::{
    DEFAULT_DEVICE, DEFAULT_PREFIX, DEFAULT_PREFIX6, Families, Options, PathSpec, group_id, user_id,
};
pub use plan::{Plan, RULE_PRIORITY, table_name};
pub use privileges::Capabilities;
pub use show::{Part, Shown, layout, show};
pub use state::{DEFAULT_DIRECTORY, Phase, Record, State, Store};
pub use step::Step;
pub(crate) use system::install;
pub use system::{Action, RealSystem, System, quote};

/// A path: a real interface, and the addresses that anabranch uses on it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathLayout {
    /// The real interface.
    pub interface: String,
    /// Its index, which changes when it is removed and comes back.
    pub ifindex: u32,
    /// Its MTU in bytes.
    pub mtu: u32,
    /// The legs for IPv4, IPv6 or both.
    pub legs: Vec<Leg>,
}

/// The result of a setup.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The names, addresses and numbers of the setup.
    pub layout: Layout,
    /// The steps made by this call; empty if everything existed.
    pub made: Vec<Step>,
    /// True if an earlier call had made the rest.
    pub repaired: bool,
}

/// The result of a teardown.
#[derive(Clone, Debug, Default)]
pub struct Teardown {
    /// The undone steps, in this order.
    pub undone: Vec<Step>,
    /// The parts that were not touched, with the reason.
    pub left: Vec<String>,
    /// The parts that could not be undone, with the reason.
    pub failed: Vec<String>,
    /// True if a reboot had already removed everything.
    pub rebooted: bool,
}
