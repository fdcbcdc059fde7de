//! `anabranch kernel cc`

use anabranch_bpf::Law;

use crate::failure::Failure;
use crate::output;
use crate::table::{Align, Table};
use crate::{args::Show, terminal};

/// Coupled congestion control in the kernel, as BPF programs
#[derive(clap::Args)]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub(super) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(clap::Subcommand)]
enum Verb {
    List(ListArgs),
}

/// Lists the congestion controls
#[derive(clap::Args)]
struct ListArgs {
    #[command(flatten)]
    show: Show,
}

impl Args {
    pub(super) fn destination(&self) -> Option<&output::Destination> {
        match &self.verb {
            Verb::List(args) => Some(&args.show.to),
        }
    }
}

pub(super) fn run(args: &Args) -> Result<(), Failure> {
    match &args.verb {
        Verb::List(args) => list(args),
    }
}

/// One row of `kernel cc list`.
#[derive(serde::Serialize)]
struct Row {
    law: &'static str,
    kernel_name: &'static str,
    loaded: bool,
}

fn list(args: &ListArgs) -> Result<(), Failure> {
    let available = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control");
    let available = available.unwrap_or_default();
    let row = |law: Law| Row {
        law: law.name(),
        kernel_name: law.kernel_name(),
        loaded: available.split_whitespace().any(|name| name == law.kernel_name()),
    };
    let rows = Law::ALL.map(row);
    if args.show.json {
        return output::print_json(&rows);
    }
    let mut table = Table::new()
        .column("law", Align::Left)
        .column("name in the kernel", Align::Left)
        .column("loaded", Align::Left);
    for row in &rows {
        let loaded = if row.loaded { "yes" } else { "no" };
        table.row(vec![row.law.to_owned(), row.kernel_name.to_owned(), loaded.to_owned()]);
    }
    output::print(&table.render(terminal::width()))
}
