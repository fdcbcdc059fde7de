//! The interoperation matrix: the Multipath TCP of the Linux kernel against anabranch's, cell by cell, each in
//! a network namespace of its own.

mod cell;
mod content;
mod counters;
mod cover;
mod inner;
mod outer;
mod shape;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;

/// Runs Linux's Multipath TCP against anabranch's. Needs root.
#[derive(Parser, Debug)]
#[command(name = "anabranch-interop", version)]
pub struct Options {
    /// Run the full product in place of the covering set.
    #[arg(long)]
    full: bool,
    /// List the cells in place of running them.
    #[arg(long)]
    list: bool,
    /// Run only cells whose name contains TEXT; several are alternatives. Looks among the full product.
    #[arg(long = "cell", value_name = "TEXT")]
    cells: Vec<String>,
    /// How many cells run at once.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=64))]
    jobs: u8,
    /// Run each cell that fails up to N times more, alone; one that then passes is told as unsteady.
    #[arg(long, value_name = "N", default_value_t = 0)]
    again: u8,
    /// Write a capture of each cell to DIR (needs tcpdump).
    #[arg(long, value_name = "DIR")]
    pcap: Option<PathBuf>,
    /// Print counters and subflows of each cell that fails.
    #[arg(long, short)]
    verbose: bool,
    /// Write the table to FILE as Markdown too.
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
    /// Run one cell in this namespace, and write what came of it to standard output. For internal use.
    #[arg(long, value_name = "NAME", hide = true)]
    run_cell: Option<String>,
}

impl Options {
    fn selection(&self) -> Vec<cell::Cell> {
        if self.cells.is_empty() {
            return if self.full { cover::full() } else { cover::covering() };
        }
        let is_wanted = |cell: &cell::Cell| {
            let name = cell.to_string();
            self.cells.iter().any(|text| name.contains(text.as_str()))
        };
        cover::full().into_iter().filter(is_wanted).collect()
    }
}

fn main() -> ExitCode {
    let options = Options::parse();
    if let Some(name) = &options.run_cell {
        return inner_main(name);
    }
    let cells = options.selection();
    if options.list {
        cells.iter().for_each(|cell| println!("{cell}"));
        return ExitCode::SUCCESS;
    }
    if cells.is_empty() {
        eprintln!("anabranch-interop: no cell has such a name; see --list --full");
        return ExitCode::from(2);
    }
    outer::run(&options, &cells)
}

fn inner_main(name: &str) -> ExitCode {
    let Some(cell) = cover::full().into_iter().find(|cell| cell.to_string() == name) else {
        eprintln!("anabranch-interop: there is no cell `{name}`");
        return ExitCode::from(2);
    };
    let outcome = inner::run(&cell);
    match serde_json::to_string(&outcome) {
        Ok(text) => println!("{text}"),
        Err(error) => eprintln!("anabranch-interop: {error}"),
    }
    if outcome.failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
