//! `anabranch run`

use anabranch_lab::compare::single_runs_recorded;
use anabranch_lab::options::Options;
use anabranch_lab::output::Runs;
use anabranch_lab::recording::Recording;
use anabranch_lab::rounds::most_runs;

use crate::args::{Capture, Experiment, Show, finish_captures};
use crate::failure::Failure;
use crate::progress::Progress;
use crate::record::{self, Record};
use crate::samples::SamplesFile;
use crate::{interrupt, output, provenance};

/// Simulates a scenario once, or replays a run of a comparison, and shows the result of each flow
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    experiment: Experiment,
    /// Replay run N (from 0) of the comparison with the same options: the same seed, phases, flows and losses
    #[arg(long, value_name = "N")]
    run: Option<u32>,
    #[command(flatten)]
    capture: Capture,
    #[command(flatten)]
    samples: SamplesFile,
    #[command(flatten)]
    record: Record,
    /// Show a plain TCP on every single path, and not only on the best one
    #[arg(long)]
    every_path: bool,
    /// Show the longest gap in the delivery of flows, which scenarios with changes of paths always show
    #[arg(long)]
    gaps: bool,
    #[command(flatten)]
    pub show: Show,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let cancelled = interrupt::watch();
    let scenario = args.experiment.scenario()?;
    if let Some(run) = args.run.filter(|run| *run >= most_runs(&scenario)) {
        return Err(Failure::Usage(format!(
            "there is no run {run}: the comparison has {} runs, from 0 to {}\n  = help: give the `--runs` of the \
             comparison",
            most_runs(&scenario),
            most_runs(&scenario) - 1
        )));
    }
    let captures = args.capture.open(&scenario)?.map(|captures| captures.of_run(args.run.unwrap_or(0)));
    let mut samples = args.samples.open(&scenario)?;
    let directory = args.record.open(&scenario, args.run)?;
    let progress = Progress::new();
    let update = |done, total| progress.update(done, total);
    let options = Options {
        captures: captures.as_ref(),
        every_path: args.every_path,
        ..Options::new(args.experiment.jobs.jobs, cancelled, &update)
    };
    let recording = directory.as_ref().map(|directory| directory as &dyn Recording);
    let results = single_runs_recorded(&scenario, &options, args.run, recording);
    progress.finish();
    record::finish(directory.as_ref(), results.as_ref().err())?;
    let (results, mut performance) = results?;
    for (job, result) in &results {
        samples.write(&scenario, job, result)?;
    }
    finish_captures(captures)?;
    samples.commit()?;
    performance.peak_rss_bytes = output::peak_rss_bytes();
    let mut output = Runs::new(&scenario, &results, args.run, performance);
    output.head.set_origin(provenance::origin());
    if args.show.json {
        output::print_json(&output)
    } else {
        output::print(&anabranch_show::run::text(&scenario, &output, args.gaps))
    }
}
