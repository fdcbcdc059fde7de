//! `anabranch kernel cc`

use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anabranch_bpf::{Counters, Error, Law, Loaded, Options};
use anabranch_setup::{DEFAULT_DIRECTORY, RealSystem, choose, undo_choice};
use serde::Serialize;

use crate::args::{Show, whole};
use crate::failure::Failure;
use crate::table::{Align, Table};
use crate::{interrupt, output, terminal};

/// How often a waiting command looks for Ctrl-C.
const LOOK: Duration = Duration::from_millis(50);

/// Coupled congestion control in the kernel, as BPF programs
#[derive(clap::Args)]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub(super) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(clap::Subcommand)]
enum Verb {
    Load(LoadArgs),
    Unload(UnloadArgs),
    List(ListArgs),
    Stats(StatsArgs),
}

/// Loads congestion controls, until Ctrl-C or, with --pin, until they are unloaded
#[derive(clap::Args)]
#[command(after_help = "Examples:\n    \
    sudo anabranch kernel cc load lia\n    \
    sudo anabranch kernel cc load olia --pin --default\n    \
    sudo anabranch kernel cc load lia balia --pin --lisa")]
struct LoadArgs {
    /// The congestion controls: lia, olia, balia, wvegas; the kernel's names have `mp_` before
    #[arg(value_name = "LAW", required = true, value_parser = law)]
    laws: Vec<Law>,
    /// Keep them loaded after the end of this command, by pins in /sys/fs/bpf/anabranch
    #[arg(long)]
    pin: bool,
    /// Make the first of them the default of this network namespace
    #[arg(long)]
    default: bool,
    /// Make the first of them the congestion control of new connections to this address or prefix; may be repeated
    #[arg(long = "route", value_name = "DEST")]
    routes: Vec<String>,
    /// Link the slow starts of the subflows (LISA)
    #[arg(long)]
    lisa: bool,
    /// The most connections of each that are coupled at once
    #[arg(long, value_name = "N", default_value_t = Options::DEFAULT.connections, value_parser = whole::<u32>(1..=10_000_000))]
    connections: u32,
    /// The directory of the recorded changes
    #[arg(long, value_name = "DIR", default_value = DEFAULT_DIRECTORY)]
    state_dir: PathBuf,
}

/// Unloads pinned congestion controls, and undoes --default and --route; connections that use them keep them
#[derive(clap::Args)]
struct UnloadArgs {
    /// The congestion controls; all that are pinned if none is given
    #[arg(value_name = "LAW", value_parser = law)]
    laws: Vec<Law>,
    /// The directory of the recorded changes
    #[arg(long, value_name = "DIR", default_value = DEFAULT_DIRECTORY)]
    state_dir: PathBuf,
}

/// Lists the congestion controls, and which are loaded
#[derive(clap::Args)]
struct ListArgs {
    #[command(flatten)]
    show: Show,
}

/// Shows the numbers of connections and subflows of the loaded congestion controls
#[derive(clap::Args)]
struct StatsArgs {
    #[command(flatten)]
    show: Show,
}

fn law(name: &str) -> Result<Law, String> {
    Law::from_name(name).ok_or_else(|| {
        format!("there is none of this name; there are {}", Law::ALL.map(Law::name).join(", "))
    })
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::Failed(error.to_string())
    }
}

impl Args {
    pub(super) fn destination(&self) -> Option<&output::Destination> {
        match &self.verb {
            Verb::List(args) => Some(&args.show.to),
            Verb::Stats(args) => Some(&args.show.to),
            Verb::Load(_) | Verb::Unload(_) => None,
        }
    }
}

pub(super) fn run(args: &Args) -> Result<(), Failure> {
    match &args.verb {
        Verb::Load(args) => load(args),
        Verb::Unload(args) => unload(args),
        Verb::List(args) => list(args),
        Verb::Stats(args) => stats(args),
    }
}

fn load(args: &LoadArgs) -> Result<(), Failure> {
    let options = Options { lisa: args.lisa, connections: args.connections };
    let interrupted = interrupt::watch();
    // A failure unloads those before it.
    let mut loaded: Vec<(Law, Loaded)> = Vec::new();
    for &law in &args.laws {
        if loaded.iter().all(|(other, _)| *other != law) {
            loaded.push((law, anabranch_bpf::load(law, &options)?));
        }
    }
    let Some(first) = args.laws.first().copied() else { return Ok(()) };
    choose(first.kernel_name(), args.default, &args.routes, &mut RealSystem, &args.state_dir)?;
    let names: Vec<&str> = loaded.iter().map(|(law, _)| law.kernel_name()).collect();
    let mut text = format!("loaded: {}\n", names.join(", "));
    if args.pin {
        for (law, one) in loaded {
            if let Err(error) = one.pin() {
                // The default must not be one that is about to go.
                undo_choice(first.kernel_name(), &mut RealSystem, &args.state_dir)?;
                for other in args.laws.iter().take_while(|other| **other != law) {
                    anabranch_bpf::unload(*other)?;
                }
                return Err(error.into());
            }
        }
        text.push_str("undo it: anabranch kernel cc unload\n");
        return output::print(&text);
    }
    text.push_str("until Ctrl-C; --pin keeps them\n");
    output::print(&text)?;
    while !interrupted.load(Ordering::Relaxed) {
        std::thread::sleep(LOOK);
    }
    for text in undo_choice(first.kernel_name(), &mut RealSystem, &args.state_dir)? {
        output::remark(format_args!("{text}"));
    }
    let mut rows = Vec::new();
    for (law, one) in &loaded {
        rows.push((*law, one.counters()?));
    }
    output::print(&table(&rows))
}

fn unload(args: &UnloadArgs) -> Result<(), Failure> {
    let pinned = || Law::ALL.into_iter().filter(|law| anabranch_bpf::is_pinned(*law)).collect();
    let laws: Vec<Law> = if args.laws.is_empty() { pinned() } else { args.laws.clone() };
    if laws.is_empty() {
        return output::print("nothing is pinned.\n");
    }
    let mut text = String::new();
    for law in laws {
        for undone in undo_choice(law.kernel_name(), &mut RealSystem, &args.state_dir)? {
            text.push_str(&format!("{undone}\n"));
        }
        anabranch_bpf::unload(law)?;
        text.push_str(&format!("unloaded: {}\n", law.kernel_name()));
    }
    output::print(&text)
}

/// One row of `kernel cc list`.
#[derive(Serialize)]
struct Row {
    law: &'static str,
    kernel_name: &'static str,
    loaded: bool,
    pinned: bool,
    default: bool,
}

fn list(args: &ListArgs) -> Result<(), Failure> {
    let available = anabranch_bpf::available();
    let default = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_congestion_control").unwrap_or_default();
    let rows = Law::ALL.map(|law| Row {
        law: law.name(),
        kernel_name: law.kernel_name(),
        loaded: available.iter().any(|name| name == law.kernel_name()),
        pinned: anabranch_bpf::is_pinned(law),
        default: default.trim() == law.kernel_name(),
    });
    if args.show.json {
        return output::print_json(&rows);
    }
    let mut table = Table::new();
    for name in ["law", "name in the kernel", "loaded", "pinned", "default here"] {
        table = table.column(name, Align::Left);
    }
    let word = |yes: bool| if yes { "yes" } else { "no" }.to_owned();
    for row in &rows {
        let cells = [row.loaded, row.pinned, row.default].map(word);
        table.row([row.law.to_owned(), row.kernel_name.to_owned()].into_iter().chain(cells).collect());
    }
    output::print(&table.render(terminal::width()))
}

/// One row of `kernel cc stats`.
#[derive(Serialize)]
struct Stats {
    law: &'static str,
    #[serde(flatten)]
    counters: Counters,
}

fn stats(args: &StatsArgs) -> Result<(), Failure> {
    let mut rows = Vec::new();
    for law in Law::ALL.into_iter().filter(|law| anabranch_bpf::is_available(*law)) {
        rows.push((law, anabranch_bpf::counters(law)?));
    }
    if args.show.json {
        let rows: Vec<Stats> =
            rows.iter().map(|(law, counters)| Stats { law: law.name(), counters: *counters }).collect();
        return output::print_json(&rows);
    }
    if rows.is_empty() {
        return output::print("none is loaded.\n");
    }
    output::print(&table(&rows))
}

/// Returns the counters as a table.
fn table(rows: &[(Law, Counters)]) -> String {
    let mut table = Table::new().column("law", Align::Left);
    for name in ["connections", "open", "subflows", "joined", "plain TCP", "fallback", "map full", "other"] {
        table = table.column(name, Align::Right);
    }
    for (law, c) in rows {
        let numbers = [
            c.connections,
            c.connections.saturating_sub(c.removed),
            c.subflows,
            c.joined,
            c.plain,
            c.fallback,
            c.full,
            c.crowded + c.raced,
        ];
        let numbers = numbers.map(|number| number.to_string());
        table.row([law.name().to_owned()].into_iter().chain(numbers).collect());
    }
    table.render(terminal::width())
}
