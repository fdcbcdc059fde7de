//! `anabranch compare`

mod text;

use anabranch_lab::compare::{Options, compare};

use crate::args::{Capture, Changes, Jobs, finish_captures};
use crate::failure::Failure;
use crate::progress::Progress;
use crate::{interrupt, output};

/// Compares schedulers on a scenario, with the same luck for all of them
///
/// Without a scenario: the DMPTCP paper's eight disjoint paths, 30 web-like flows together, once
/// without loss and once with 0.05 %.
#[derive(clap::Args)]
#[command(long_about = LONG)]
pub struct Args {
    /// A scenario file, or a name of `anabranch list scenarios`
    scenario: Option<String>,
    #[command(flatten)]
    changes: Changes,
    #[command(flatten)]
    jobs: Jobs,
    #[command(flatten)]
    capture: Capture,
    /// Shows a plain TCP on every single path, beside the best of them
    #[arg(long)]
    every_path: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    pub to: crate::output::Destination,
}

const LONG: &str = "\
Compares schedulers on a scenario, with the same luck for all of them.

Without a scenario it is the DMPTCP paper's eight disjoint paths, with 30 web-like flows that start
together, once without loss and once with 0.05 %. With --path and without a scenario it is your
paths, profile linux, and one web-like flow in each of 30 runs.

`tcp` is a plain TCP on the single path that is best as measured, in selection runs of their own.
Times are in milliseconds. `95 % of mean` is the interval of the mean by bootstrap over runs; `vs X`
is the difference between the two means, in per cent of X's, with its interval by a paired bootstrap
over runs, corrected for the number of contenders: negative is faster. (For bulk it is the goodput:
positive is more.) `x bound` is the mean time over the mean of a lower bound that no schedule could
have beaten. Each run draws small phases, unless `--set phases=false`.

The exit code is 1 if flows did not end before the deadline, so that there is no winner.";

pub fn run(args: &Args) -> Result<(), Failure> {
    let cancelled = interrupt::watch();
    let scenario = args.changes.scenario(args.scenario.as_deref())?;
    let captures = args.capture.open(&scenario)?;
    let progress = Progress::new();
    let update = |done, total| progress.update(done, total);
    let options = Options {
        jobs: args.jobs.jobs,
        cancelled,
        progress: &update,
        captures: captures.as_ref(),
        every_path: args.every_path,
    };
    let result = compare(&scenario, &options);
    let wall = progress.finish();
    let mut comparison = result?;
    finish_captures(captures)?;
    comparison.performance.wall_s = wall.as_secs_f64();
    comparison.performance.peak_rss_bytes = output::peak_rss_bytes();
    if args.json {
        output::print_json(&comparison)
    } else {
        output::print(&text::text(&scenario, &comparison))
    }?;
    match comparison.is_complete() {
        true => Ok(()),
        false => Err(Failure::Failed("flows did not finish, so there is no winner".to_owned())),
    }
}
