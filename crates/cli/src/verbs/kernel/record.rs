//! `anabranch kernel record`

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use anabranch_kernel::record::record;
use anabranch_lab::spoken;
use anabranch_recording::Settings;
use anabranch_table::Format;
use anabranch_units::Duration;

use crate::args::parse_span;
use crate::failure::Failure;
use crate::output;
use crate::record::{Record, format};

/// Runs a program, and records the kernel's connections meanwhile in the format of `run --record`
#[derive(clap::Args)]
#[command(
    long_about = LONG,
    after_help = "Example:\n    \
    sudo anabranch kernel record download -- anabranch kernel run -- curl -O https://example.org/file\n    \
    anabranch report download -o download.html"
)]
pub(crate) struct Args {
    /// The new directory of the recording
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// The time between two samples
    #[arg(long, value_name = "TIME", default_value = "10ms", value_parser = parse_span)]
    every: std::time::Duration,
    /// The format of the tables: parquet, csv or ndjson
    #[arg(long, value_name = "FORMAT", default_value = "parquet", value_parser = format)]
    record_format: Format,
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

const LONG: &str = "\
Runs a program, and records the kernel's connections meanwhile in the format of `run --record`.

All connections of Multipath TCP in this network namespace that begin while the program runs are
recorded, also the connections of other programs. `anabranch report` and `anabranch plot` draw the directory.
The exit code is the program's.";

pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let [program, arguments @ ..] = args.command.as_slice() else {
        return Err(Failure::Usage("there is no command".to_owned()));
    };
    let mut command = Command::new(program);
    command.args(arguments);
    let interval = Duration(u64::try_from(args.every.as_nanos()).unwrap_or(u64::MAX));
    let settings = Settings { format: args.record_format, interval, xpl: false };
    let recorded = record(command, &args.directory, Record::origin(None), settings);
    let (status, count) = recorded.map_err(|error| Failure::Failed(error.to_string()))?;
    let connections = spoken::counted(count as u64, "connection");
    output::remark(format_args!("recorded {connections} in {}", args.directory.display()));
    Ok(super::exit_code(status.code(), status.signal()))
}
