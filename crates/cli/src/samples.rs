//! `--samples`

use std::path::PathBuf;

use anabranch_lab::job::Job;
use anabranch_lab::run::{RunError, RunResult};
use anabranch_lab::samples::Samples;
use anabranch_lab::scenario::Scenario;

use crate::failure::Failure;
use crate::output;

/// The destination of samples.
#[derive(clap::Args)]
pub(crate) struct SamplesFile {
    /// Write a row for each flow and run to FILE: CSV, JSON lines with the extension .ndjson or .jsonl, or
    /// .parquet
    #[arg(long, value_name = "FILE")]
    samples: Option<PathBuf>,
}

impl SamplesFile {
    /// Creates the file, if requested.
    pub(crate) fn open(&self, scenario: &Scenario) -> Result<Wanted, Failure> {
        Ok(Wanted(self.samples.as_ref().map(|path| Samples::create(path, scenario)).transpose()?))
    }
}

/// Samples, if requested.
pub(crate) struct Wanted(Option<Samples>);

impl Wanted {
    /// Writes the rows of a run.
    pub(crate) fn write(
        &mut self,
        scenario: &Scenario,
        job: &Job,
        result: &RunResult,
    ) -> Result<(), RunError> {
        let Some(samples) = &mut self.0 else { return Ok(()) };
        samples.write(scenario, job, result).map_err(|error| RunError::Samples(error.to_string()))
    }

    /// Renames the file, and reports it on standard error.
    pub(crate) fn commit(self) -> Result<(), Failure> {
        if let Some(samples) = self.0 {
            output::remark(format_args!("samples in {}", samples.commit()?.display()));
        }
        Ok(())
    }
}
