//! `anabranch list --json`: arrays of named things.

use anabranch_stack::config::{Profile, SimConfig};
use anabranch_stack::congestion::CongestionKind;
use anabranch_stack::parameter::Parameterised;
use anabranch_stack::scheduler::SchedulerKind;
use serde::Serialize;

use crate::ScenarioError;
use crate::scenario::{Document, PUBLISHED, knobs, library, presets};

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
    /// A value of the preset, in the list of presets.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub preset: Option<Figure>,
}

/// A value of the preset that the item names.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figure {
    /// The key of a path.
    pub key: &'static str,
    /// Its value in the preset.
    pub value: &'static str,
    /// The source of the value; null for an assumption.
    pub source: Option<&'static str>,
}

/// A parameter of the scheduler or congestion control that the item names.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Parameter {
    /// The name as in a scenario, with hyphens.
    pub parameter: &'static str,
    /// The value that it has unless it is set.
    pub default: String,
    /// The allowed values.
    pub range: String,
}

/// The values of a knob in the profiles.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Knob {
    /// The value in profile `linux`.
    pub linux: String,
    /// The value in profile `ns3`.
    pub ns3: String,
}

impl Item {
    fn new(name: &str, what: &str) -> Item {
        Item { name: name.to_owned(), what: what.to_owned(), parameter: None, knob: None, preset: None }
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

/// Returns the values of the presets of paths.
pub fn presets() -> Vec<Item> {
    let figures = |preset: &presets::Preset| {
        let item = |figure: &presets::Figure| {
            let presets::Figure { key, value, source } = *figure;
            Item { preset: Some(Figure { key, value, source }), ..Item::new(preset.name, preset.what) }
        };
        preset.figures.iter().map(item).collect::<Vec<_>>()
    };
    presets::ALL.iter().flat_map(figures).collect()
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

/// Returns the distributions of sizes and times.
pub fn distributions() -> Vec<Item> {
    let tables = crate::scenario::distributions();
    let table = |(name, parameters, what): &(&str, &[&str], &str)| {
        Item::new(&format!("{{ distribution = \"{name}\", {} }}", parameters.join(", ")), what)
    };
    let web = Item::new("web", "sizes: web-like, Pareto with shape 1.5 and scale 19 KB, mean 57 KB");
    let published = PUBLISHED.iter().map(|one| Item::new(one.name, &format!("sizes: {}", one.what)));
    core::iter::once(web).chain(published).chain(tables.iter().map(table)).collect()
}
