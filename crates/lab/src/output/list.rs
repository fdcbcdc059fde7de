//! `anabranch list --json`: arrays of named things.

use anabranch_stack::config::{Profile, SimConfig};
use anabranch_stack::congestion::CongestionKind;
use anabranch_stack::parameter::Parameterised;
use anabranch_stack::scheduler::SchedulerKind;
use serde::Serialize;

use crate::ScenarioError;
use crate::scenario::{Document, knobs, library};

/// A row of a list.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Item {
    /// The name in scenarios and on the command line.
    pub name: String,
    /// A short description.
    pub what: String,
    /// The parameter, in the list of parameters.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub parameter: Option<Parameter>,
    /// The values of the profiles, in the list of knobs.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub knob: Option<Knob>,
}

/// A parameter of the scheduler or congestion control that the item names.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Parameter {
    /// Its name.
    pub parameter: &'static str,
    /// Its default.
    pub default: String,
    /// The allowed values.
    pub range: String,
}

/// The values of a knob in the profiles.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Knob {
    /// In profile `linux`.
    pub linux: String,
    /// In profile `ns3`.
    pub ns3: String,
}

impl Item {
    fn new(name: &str, what: &str) -> Item {
        Item { name: name.to_owned(), what: what.to_owned(), parameter: None, knob: None }
    }
}

/// Returns the packet schedulers, and plain TCP.
pub fn schedulers() -> Vec<Item> {
    let tcp = [
        Item::new("tcp", "a plain TCP on the best single path by measurement"),
        Item::new("tcp@N", "a plain TCP on path N, by number from 1 or by name"),
    ];
    tcp.into_iter()
        .chain(SchedulerKind::ALL.iter().map(|kind| Item::new(kind.name(), kind.description())))
        .collect()
}

/// Returns the congestion controls.
pub fn congestion() -> Vec<Item> {
    CongestionKind::ALL.iter().map(|kind| Item::new(kind.name(), kind.description())).collect()
}

/// Returns the parameters of schedulers and congestion controls.
pub fn parameters() -> Vec<Item> {
    let schedulers = SchedulerKind::ALL.iter().map(|kind| (kind.name(), kind.parameters()));
    let controls = CongestionKind::ALL;
    let controls = controls.iter().map(|kind| (kind.name(), kind.parameters()));
    let mut items = Vec::new();
    for (name, all) in schedulers.chain(controls) {
        items.extend(all.iter().map(|(spec, value)| Item {
            parameter: Some(Parameter {
                parameter: spec.name,
                default: spec.domain.show(value),
                range: spec.domain.to_string().replace('`', ""),
            }),
            ..Item::new(name, spec.what)
        }));
    }
    items
}

/// Returns the modelled senders and receivers.
pub fn profiles() -> Vec<Item> {
    let item = |profile: &Profile| {
        let what = match profile {
            Profile::Linux => {
                "current Linux, as `anabranch validate` validates it: window 10, delayed ACKs, SACK, \
                 RACK-TLP, PRR, undo, cubic_linux, full packets"
            }
            Profile::Ns3 => {
                "the DMPTCP paper's simulations: window 1, an ACK for each segment, NewReno without SACK, fixed RTO, LIA"
            }
        };
        Item::new(profile.name(), what)
    };
    Profile::ALL.iter().map(item).collect()
}

/// Returns the built-in scenarios.
///
/// # Errors
/// If one is not valid.
pub fn scenarios() -> Result<Vec<Item>, ScenarioError> {
    let item = |embedded: &library::Embedded| {
        let scenario = Document::open(embedded.name)?.scenario()?;
        Ok(Item::new(embedded.name, scenario.description.trim()))
    };
    library::ALL.iter().map(item).collect()
}

/// Returns the settings of a connection.
pub fn knobs() -> Vec<Item> {
    let configs = Profile::ALL.map(SimConfig::new);
    let item = |knob: &knobs::Knob| {
        let [linux, ns3] = configs.each_ref().map(|config| knob.value(config));
        Item { knob: Some(Knob { linux, ns3 }), ..Item::new(knob.name, knob.what) }
    };
    knobs::ALL.iter().map(item).collect()
}
