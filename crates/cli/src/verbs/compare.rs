//! `anabranch compare`

pub(crate) use anabranch_lab::compare::{Comparison, compare_each};
pub(crate) use anabranch_lab::options::Options;
use anabranch_lab::scenario::Scenario;

use crate::args::{Capture, Experiment, Show, finish_captures};
use crate::failure::Failure;
use crate::progress::Progress;
use crate::samples::SamplesFile;
use crate::{interrupt, output, provenance, terminal};

/// The parts of a comparison to show.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum View {
    /// The answer, and fairness with competing TCPs or several bulk flows
    Auto,
    /// Only the answer
    Answer,
    /// Only fairness
    Fairness,
}

/// Compares schedulers on a scenario, with common random numbers
///
/// Without a scenario: the downloads of a phone with Wi-Fi and LTE, near the access point and at the
/// edge of its reach.
#[derive(clap::Args)]
#[command(long_about = LONG)]
pub(crate) struct Args {
    #[command(flatten)]
    experiment: Experiment,
    #[command(flatten)]
    capture: Capture,
    #[command(flatten)]
    samples: SamplesFile,
    /// The width of intervals, to either side, at which no more runs are added; the default is 1%
    #[arg(long, value_name = "PERCENT", conflicts_with = "runs")]
    precision: Option<String>,
    /// Show a plain TCP on every single path, and not only on the best one
    #[arg(long)]
    every_path: bool,
    /// Do not measure the effect of starting on other paths, which takes about half of the time
    #[arg(long)]
    no_other_starts: bool,
    /// Show the longest gap in the delivery of flows, which scenarios with changes of paths always show
    #[arg(long)]
    gaps: bool,
    /// The parts to show
    #[arg(long, value_name = "VIEW", default_value = "auto")]
    view: View,
    #[cfg(all(target_os = "linux", feature = "network"))]
    #[command(flatten)]
    confirm: super::confirm::Confirm,
    #[command(flatten)]
    pub show: Show,
}

const LONG: &str = "\
Compares schedulers on a scenario, with common random numbers: all of them have the same losses.

Without a scenario it simulates `phone`: downloads of 1 MB over Wi-Fi and LTE, near the access point
and at the edge of its reach. With --path and no scenario it simulates your paths with profile
linux, and the download of one web-like flow in each run.

Without --runs it makes 30 runs of each contender, and then more until the differences are known to
within --precision or a fifth of themselves, at most 3000 and some seconds of work. The number is
the same on every machine.

`tcp` is a plain TCP on the best single path, as measured in separate selection runs.
Times are in milliseconds. `95 % interval` is the interval of the mean by bootstrap over runs; `vs X`
is the difference between the two means, in per cent of X's, with its interval by a paired bootstrap
over runs, corrected for the number of contenders: negative is faster. (For bulk it is the goodput:
positive is more.) `x bound` is the mean time over the mean of a lower bound for any schedule. Each
run draws small phases, unless `--set phases=false`. Multipath contenders are also run with each
other path first, to measure the effect of starting there, unless --no-other-starts is given.

The exit code is 1 if some flows failed or did not end before the deadline, so that there is no winner.";

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let cancelled = interrupt::watch();
    let mut scenario = args.experiment.scenario_with("--precision", "precision", args.precision.as_ref())?;
    scenario.other_starts &= !args.no_other_starts;
    #[cfg(all(target_os = "linux", feature = "network"))]
    args.confirm.ready(&scenario)?;
    let captures = args.capture.open(&scenario)?;
    let mut samples = args.samples.open(&scenario)?;
    let progress = Progress::new();
    let update = |done, total| progress.update(done, total);
    let options = Options {
        captures: captures.as_ref(),
        every_path: args.every_path,
        in_rounds: true,
        ..Options::new(args.experiment.jobs.jobs, cancelled, &update)
    };
    let result = compare_each(&scenario, &options, &mut |job, result| samples.write(&scenario, job, result));
    let wall = progress.finish();
    let mut comparison = result?;
    finish_captures(captures)?;
    samples.commit()?;
    comparison.performance.wall_s = wall.as_secs_f64();
    comparison.performance.peak_rss_bytes = output::peak_rss_bytes();
    comparison.head.set_origin(provenance::origin());
    if args.view != View::Fairness {
        comparison.keep_fairness_that_applies();
    }
    let text = if args.show.json { String::new() } else { people(&scenario, &comparison, args) };
    #[cfg(all(target_os = "linux", feature = "network"))]
    if args.confirm.check {
        return args.confirm.run(&scenario, comparison, text, args.show.json, cancelled);
    }
    if args.show.json { output::print_json(&comparison) } else { output::print(&text) }?;
    match comparison.is_complete() {
        true => Ok(()),
        false => Err(Failure::Failed("flows did not finish, so there is no winner".to_owned())),
    }
}

/// Returns the answer and the view on fairness.
fn people(scenario: &Scenario, comparison: &Comparison, args: &Args) -> String {
    let view = args.view;
    let answer = match view {
        View::Fairness => String::new(),
        _ => anabranch_show::compare::text(scenario, comparison, args.gaps),
    };
    let shares = match view {
        View::Answer => String::new(),
        _ => anabranch_show::fairness::text(comparison, terminal::width()),
    };
    if shares.is_empty() && view == View::Fairness {
        return "each run has a single flow, which shares with no other\n".to_owned();
    }
    let gap = if answer.is_empty() || shares.is_empty() { "" } else { "\n" };
    format!("{answer}{gap}{shares}")
}
