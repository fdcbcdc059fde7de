//! `anabranch list`

use anabranch_lab::scenario::{Document, knobs, library};
use anabranch_stack::config::{ConnectionConfig, Profile};
use anabranch_stack::congestion::CongestionKind;
use anabranch_stack::parameter::Parameterised;
use anabranch_stack::scheduler::SchedulerKind;

use crate::failure::Failure;
use crate::output;
use crate::table::{Align, Table, wrap_behind};

/// The width for which lists are made.
const WIDTH: usize = 100;

/// Lists what there is to choose from
#[derive(clap::Args)]
pub struct Args {
    /// What to list
    what: What,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum What {
    /// Packet schedulers, and plain TCP
    Schedulers,
    /// Congestion controls
    Congestion,
    /// What schedulers and congestion controls can be told
    Parameters,
    /// Senders and receivers
    Profiles,
    /// Scenarios that are built in
    Scenarios,
    /// What a connection can be told, with --set or under `[connection]`
    Knobs,
}

pub fn run(args: &Args) -> Result<(), Failure> {
    output::print(&match args.what {
        What::Schedulers => schedulers(),
        What::Congestion => congestion(),
        What::Parameters => parameters(),
        What::Profiles => profiles(),
        What::Scenarios => scenarios()?,
        What::Knobs => knobs(),
    })
}

fn pairs(rows: impl IntoIterator<Item = (String, String)>) -> String {
    let title = ("name".to_owned(), "what it is".to_owned());
    let rows: Vec<(String, String)> = core::iter::once(title).chain(rows).collect();
    let widest = rows.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    rows.iter().map(|(name, what)| wrap_behind(&format!("{name:widest$}  "), what, WIDTH)).collect()
}

fn schedulers() -> String {
    let tcp = [
        ("tcp", "a plain TCP on the single path that is best as measured"),
        ("tcp@N", "a plain TCP on path N, by number from 1 or by name"),
    ];
    let tcp = tcp.map(|(name, what)| (name.to_owned(), what.to_owned()));
    let kinds = SchedulerKind::ALL;
    pairs(
        tcp.into_iter()
            .chain(kinds.iter().map(|kind| (kind.name().to_owned(), kind.description().to_owned()))),
    )
}

fn congestion() -> String {
    let kinds = CongestionKind::ALL;
    pairs(kinds.iter().map(|kind| (kind.name().to_owned(), kind.description().to_owned())))
}

fn parameters() -> String {
    let mut table = Table::new()
        .column("name", Align::Left)
        .column("parameter", Align::Left)
        .column("default", Align::Left)
        .column("may be", Align::Left)
        .column("what it is", Align::Left);
    let schedulers = SchedulerKind::ALL.iter().map(|kind| (kind.name(), kind.parameters()));
    let controls = CongestionKind::ALL;
    let controls = controls.iter().map(|kind| (kind.name(), kind.parameters()));
    for (name, all) in schedulers.chain(controls) {
        for (spec, value) in all {
            table.row(vec![
                name.to_owned(),
                spec.name.to_owned(),
                spec.domain.show(&value),
                spec.domain.to_string().replace('`', ""),
                spec.what.to_owned(),
            ]);
        }
    }
    table.render(usize::MAX)
}

fn profiles() -> String {
    pairs(Profile::ALL.map(|profile| {
        let what = match profile {
            Profile::Linux => {
                "today's Linux, as `anabranch validate` validates it: window 10, delayed ACKs, SACK, RACK-TLP, PRR, undo, cubic_linux, full packets"
            }
            Profile::Ns3 => {
                "the DMPTCP paper's simulations: window 1, an ACK for each segment, NewReno without SACK, fixed RTO, LIA"
            }
        };
        (profile.name().to_owned(), what.to_owned())
    }))
}

fn scenarios() -> Result<String, Failure> {
    let mut rows = Vec::new();
    for embedded in library::ALL {
        let scenario = Document::open(embedded.name)?.scenario()?;
        rows.push((embedded.name.to_owned(), scenario.description.trim().to_owned()));
    }
    Ok(pairs(rows))
}

fn knobs() -> String {
    let mut table = Table::new()
        .column("name", Align::Left)
        .column("linux", Align::Left)
        .column("ns3", Align::Left)
        .column("what it is", Align::Left);
    let configs = Profile::ALL.map(ConnectionConfig::new);
    for knob in knobs::ALL {
        let [linux, ns3] = configs.each_ref().map(|config| knob.value(config));
        table.row(vec![knob.name.to_owned(), linux, ns3, knob.what.to_owned()]);
    }
    table.render(usize::MAX)
}
