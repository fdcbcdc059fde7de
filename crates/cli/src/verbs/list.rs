//! `anabranch list`

use anabranch_lab::scenario::{Document, knobs, library};
use anabranch_stack::config::{Profile, SimConfig};
use anabranch_stack::congestion::CongestionKind;
use anabranch_stack::parameter::Parameterised;
use anabranch_stack::scheduler::SchedulerKind;
use serde::Serialize;

use crate::failure::Failure;
use crate::table::{Align, Table};
use crate::{output, terminal};

/// Lists the available algorithms, scenarios and settings
#[derive(clap::Args)]
pub struct Args {
    /// The list to show
    what: What,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    pub to: crate::output::Destination,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum What {
    /// Packet schedulers, and plain TCP
    Schedulers,
    /// Congestion controls
    Congestion,
    /// Parameters of schedulers and congestion controls
    Parameters,
    /// Senders and receivers
    Profiles,
    /// Built-in scenarios
    Scenarios,
    /// Settings of a connection, for --set or under `[connection]`
    Knobs,
}

/// A row of a list.
#[derive(Serialize)]
struct Item {
    name: String,
    what: String,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    parameter: Option<Parameter>,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    knob: Option<Knob>,
}

/// A parameter of the scheduler or congestion control that the item names.
#[derive(Serialize)]
struct Parameter {
    parameter: &'static str,
    default: String,
    range: String,
}

/// The values of a knob in the profiles.
#[derive(Serialize)]
struct Knob {
    linux: String,
    ns3: String,
}

impl Item {
    fn new(name: &str, what: &str) -> Item {
        Item { name: name.to_owned(), what: what.to_owned(), parameter: None, knob: None }
    }
}

pub fn run(args: &Args) -> Result<(), Failure> {
    let items = match args.what {
        What::Schedulers => schedulers(),
        What::Congestion => congestion(),
        What::Parameters => parameters(),
        What::Profiles => profiles(),
        What::Scenarios => scenarios()?,
        What::Knobs => knobs(),
    };
    if args.json { output::print_json(&items) } else { output::print(&text(&items)) }
}

fn text(items: &[Item]) -> String {
    let mut table = Table::new().column("name", Align::Left);
    let first = items.first();
    if first.is_some_and(|item| item.parameter.is_some()) {
        table = table.column("parameter", Align::Left).wrapped("default").wrapped("may be");
    }
    if first.is_some_and(|item| item.knob.is_some()) {
        table = table.wrapped("linux").wrapped("ns3");
    }
    table = table.wrapped("what it is");
    for item in items {
        let mut row = vec![item.name.clone()];
        if let Some(own) = &item.parameter {
            row.extend([own.parameter.to_owned(), own.default.clone(), own.range.clone()]);
        }
        if let Some(own) = &item.knob {
            row.extend([own.linux.clone(), own.ns3.clone()]);
        }
        row.push(item.what.clone());
        table.row(row);
    }
    // Programs read values, one per line.
    let wide = first.is_some_and(|item| item.parameter.is_some() || item.knob.is_some());
    table.render(if wide && !terminal::is_there() { usize::MAX } else { terminal::width() })
}

fn schedulers() -> Vec<Item> {
    let tcp = [
        Item::new("tcp", "a plain TCP on the best single path by measurement"),
        Item::new("tcp@N", "a plain TCP on path N, by number from 1 or by name"),
    ];
    tcp.into_iter()
        .chain(SchedulerKind::ALL.iter().map(|kind| Item::new(kind.name(), kind.description())))
        .collect()
}

fn congestion() -> Vec<Item> {
    CongestionKind::ALL.iter().map(|kind| Item::new(kind.name(), kind.description())).collect()
}

fn parameters() -> Vec<Item> {
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

fn profiles() -> Vec<Item> {
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

fn scenarios() -> Result<Vec<Item>, Failure> {
    let mut items = Vec::new();
    for embedded in library::ALL {
        let scenario = Document::open(embedded.name)?.scenario()?;
        items.push(Item::new(embedded.name, scenario.description.trim()));
    }
    Ok(items)
}

fn knobs() -> Vec<Item> {
    let configs = Profile::ALL.map(SimConfig::new);
    let item = |knob: &knobs::Knob| {
        let [linux, ns3] = configs.each_ref().map(|config| knob.value(config));
        Item { knob: Some(Knob { linux, ns3 }), ..Item::new(knob.name, knob.what) }
    };
    knobs::ALL.iter().map(item).collect()
}
