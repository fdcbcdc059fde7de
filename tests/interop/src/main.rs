//! The interoperation matrix: Linux's Multipath TCP against anabranch's, cell by cell, each in its own
//! network namespace.

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
    /// Run the full product instead of the covering set.
    #[arg(long)]
    full: bool,
    /// List the cells instead of running them.
    #[arg(long)]
    list: bool,
    /// Run only cells of the full product whose name contains TEXT; several are alternatives.
    #[arg(long = "cell", value_name = "TEXT")]
    cells: Vec<String>,
    /// The number of cells to run at once.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=64))]
    jobs: u8,
    /// Repeat each cell that fails up to N times, alone; one that then passes is reported as unsteady.
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
    /// Run one cell in this namespace, and write the outcome to standard output. For internal use.
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
