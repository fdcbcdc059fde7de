//! `anabranch list`

use anabranch_lab::output::{self as list, Item};

use crate::args::Show;
use crate::failure::Failure;
use crate::table::{Align, Table};
use crate::{output, terminal};

/// Lists the available algorithms, scenarios and settings
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The list to show
    what: What,
    #[command(flatten)]
    pub show: Show,
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
    /// Presets of paths, with the source of each value
    Presets,
    /// Settings of a connection, for --set or under `[connection]`
    Knobs,
    /// Distributions of sizes and times
    Distributions,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let items = match args.what {
        What::Schedulers => list::schedulers(),
        What::Congestion => list::congestion(),
        What::Parameters => list::parameters(),
        What::Profiles => list::profiles(),
        What::Scenarios => list::scenarios()?,
        What::Presets => list::presets(),
        What::Knobs => list::knobs(),
        What::Distributions => list::distributions(),
    };
    if args.show.json { output::print_json(&items) } else { output::print(&text(&items)) }
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
    let has_figures = first.is_some_and(|item| item.preset.is_some());
    if has_figures {
        table = table.column("key", Align::Left).column("value", Align::Left);
    }
    table = table.wrapped(if has_figures { "source" } else { "what it is" });
    for item in items {
        let mut row = vec![item.name.clone()];
        if let Some(own) = &item.parameter {
            row.extend([own.parameter.to_owned(), own.default.clone(), own.range.clone()]);
        }
        if let Some(own) = &item.knob {
            row.extend([own.linux.clone(), own.ns3.clone()]);
        }
        match &item.preset {
            Some(own) => {
                let source = own.source.unwrap_or("assumption");
                row.extend([own.key.to_owned(), own.value.replace('"', ""), source.to_owned()]);
            }
            None => row.push(item.what.clone()),
        }
        table.row(row);
    }
    // Programs read values, one per line.
    let wide = has_figures || first.is_some_and(|item| item.parameter.is_some() || item.knob.is_some());
    table.render(if wide && !terminal::is_there() { usize::MAX } else { terminal::width() })
}
