//! `anabranch kernel run`

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::ExitCode;

use anabranch_kernel::memory::Memory;
use anabranch_kernel::run::{FirstPath, run as run_command};
use anabranch_lab::scenario::units;
use anabranch_units::Bytes;

use super::failed;
use super::steer::{MEMORY, STATE_DIRECTORY};
use crate::failure::Failure;

/// Runs a program with Multipath TCP; its connections begin on the best path
#[derive(clap::Args)]
#[command(
    long_about = LONG,
    after_help = "Examples:\n    \
    anabranch kernel run -- curl -O https://example.org/file\n    \
    anabranch kernel run --first wwan0 -- ssh host"
)]
pub(crate) struct Args {
    /// The interface on which connections begin; by default the best by the memory of paths
    #[arg(long, value_name = "IFACE")]
    first: Option<String>,
    /// The expected size of a transfer, for the choice
    #[arg(long, value_name = "SIZE", default_value = "100KB", value_parser = size)]
    size: Bytes,
    /// The directory of the memory of paths, which `anabranch kernel steer` writes
    #[arg(long, value_name = "DIR", default_value = STATE_DIRECTORY)]
    state_directory: PathBuf,
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

const LONG: &str = "\
Runs a program with Multipath TCP; its connections begin on the best path.

Each TCP socket of the program becomes one of Multipath TCP, which falls back to TCP with a peer
without it. A connection is bound to the interface with the shortest expected time to its
destination, by the memory of `anabranch kernel steer`; without a memory the system chooses. No
privileges are needed. The program cannot gain any: sudo in it fails. The exit code is the program's.";

fn size(text: &str) -> Result<Bytes, String> {
    units::parse_size(text).map_err(|error| error.to_string())
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let memory = std::fs::read_to_string(args.state_directory.join(MEMORY))
        .map(|text| Memory::parse(&text))
        .unwrap_or_default();
    let first = FirstPath { memory, size: args.size, interface: args.first.clone() };
    let status = run_command(&args.command, &first).map_err(failed)?;
    Ok(super::exit_code(status.code(), status.signal()))
}
