//! A TUN device with an address for each path, and the routes, the filter and the translation of addresses
//! that take each path's packets out by its own real interface. And back: everything that was made is written
//! down, and undone exactly.
//!
//! [`Options`] and a [`Host`] give a [`Layout`] (which address goes which way), a layout gives a [`Plan`]
//! (steps in order), both without touching anything; [`setup`] makes the steps, [`teardown`] undoes them.
//! Why it runs `ip` and `nft`: `docs/decisions/ip-and-nft.md`.

#![warn(unreachable_pub)]
#![cfg(target_os = "linux")]

pub mod doctor;
mod error;
mod execute;
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

pub use error::SetupError;
pub use execute::{plan, setup, teardown};
pub use host::{Address, Host, Link, MAIN_TABLE, NftChain, NftTable, Route, Rule};
pub use layout::{Layout, Leg};
pub use options::{DEFAULT_DEVICE, DEFAULT_PREFIX, DEFAULT_PREFIX6, Families, Options, PathSpec, user_id};
pub use plan::{Plan, RULE_PRIORITY, table_name};
pub use privileges::Capabilities;
pub use show::{Part, Shown, show};
pub use state::{DEFAULT_DIRECTORY, Phase, Record, State, Store};
pub use step::Step;
pub(crate) use system::install;
pub use system::{Action, RealSystem, System};

/// A path: a real interface, and what anabranch uses to go through it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathLayout {
    /// The real interface.
    pub interface: String,
    /// Its number, which changes when it is unplugged and comes back.
    pub ifindex: u32,
    /// Its MTU in bytes.
    pub mtu: u32,
    /// IPv4, IPv6 or both.
    pub legs: Vec<Leg>,
}

/// What a setup has come to.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Which address goes which way.
    pub layout: Layout,
    /// What this call has made; nothing if all was there.
    pub made: Vec<Step>,
    /// An earlier call had made the rest.
    pub repaired: bool,
}

/// What a teardown has done.
#[derive(Clone, Debug, Default)]
pub struct Teardown {
    /// What was undone, in this order.
    pub undone: Vec<Step>,
    /// What was left alone, and why.
    pub left: Vec<String>,
    /// What could not be undone, and why.
    pub failed: Vec<String>,
    /// The machine was started anew since, and everything went with that.
    pub rebooted: bool,
}
