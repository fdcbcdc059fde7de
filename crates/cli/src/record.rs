//! `--record`

use std::path::{Path, PathBuf};

use anabranch_lab::run::RunError;
use anabranch_lab::scenario::Scenario;
use anabranch_recording::{Origin, RunDirectory, Settings, make_empty};
use anabranch_table::Format;
use anabranch_units::Duration;

use crate::args::parse_span;
use crate::failure::Failure;
use crate::{output, provenance};

/// The recording of the events of runs.
#[derive(clap::Args)]
pub(crate) struct Record {
    /// Records in the new directory DIR: flows, subflows, windows and events of the data as tables, and run.json; of
    /// simulated runs also queues and decisions of the scheduler (docs/recording.md)
    #[arg(long, value_name = "DIR")]
    record: Option<PathBuf>,
    /// The format of the tables: parquet, csv or ndjson
    #[arg(long, value_name = "FORMAT", default_value = "parquet", value_parser = format, requires = "record")]
    record_format: Format,
    /// The least time between two rows of the windows of a subflow, or of a queue; 0 records every change
    #[arg(long, value_name = "TIME", default_value = "1ms", value_parser = parse_span, requires = "record")]
    record_every: std::time::Duration,
    /// Also writes a time-sequence graph for xplot of each direction of each connection to DIR
    #[arg(long, requires = "record")]
    xpl: bool,
}

pub(crate) fn format(text: &str) -> Result<Format, String> {
    Format::ALL
        .into_iter()
        .find(|format| format.name() == text)
        .ok_or_else(|| "it must be parquet, csv or ndjson".to_owned())
}

impl Record {
    /// Creates the directory, if requested.
    pub(crate) fn open(
        &self,
        scenario: &Scenario,
        run: Option<u32>,
    ) -> Result<Option<RunDirectory>, Failure> {
        let Some(path) = &self.record else { return Ok(None) };
        RunDirectory::create(path, scenario, Record::origin(run), self.settings())
            .map(Some)
            .map_err(|error| Failure::Failed(error.to_string()))
    }

    /// Creates the directory, if requested, and refuses one with files before anything has run.
    pub(crate) fn prepare(&self) -> Result<(), Failure> {
        let made = self.record.as_deref().map(make_empty).transpose();
        made.map(|_| ()).map_err(|error| Failure::Failed(error.to_string()))
    }

    /// Returns the directory, if there is to be one.
    pub(crate) fn directory(&self) -> Option<&Path> {
        self.record.as_deref()
    }

    pub(crate) fn settings(&self) -> Settings {
        let interval = Duration(u64::try_from(self.record_every.as_nanos()).unwrap_or(u64::MAX));
        Settings { format: self.record_format, interval, xpl: self.xpl }
    }

    /// Returns the origin of a recording, which replays `run` of a comparison.
    pub(crate) fn origin(run: Option<u32>) -> Origin {
        Origin {
            version: provenance::VERSION,
            commit: provenance::commit(),
            command: provenance::command(),
            run,
        }
    }
}

/// Marks the directory as complete, or as partial after `failure`, and prints its name.
pub(crate) fn finish(directory: Option<&RunDirectory>, failure: Option<&RunError>) -> Result<(), Failure> {
    let Some(directory) = directory else { return Ok(()) };
    match failure {
        None => {
            directory.finish().map_err(|error| Failure::Failed(error.to_string()))?;
            output::remark(format_args!("recorded in {}", directory.path().display()));
        }
        Some(failure) => {
            directory.give_up(&failure.to_string());
            output::remark(format_args!("the recording in {} is partial", directory.path().display()));
        }
    }
    Ok(())
}
