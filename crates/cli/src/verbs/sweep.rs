//! `anabranch sweep`

pub(crate) mod inline;

use std::path::{Path, PathBuf};

use anabranch_lab::output::Sweep;
use anabranch_lab::scenario::Document;
use anabranch_lab::sweep::{Directory, Journal, Options, Plan, Shard, SweepError, sweep};
use anabranch_show::sweep as text;
use anabranch_table::Format;

use crate::args::{Jobs, contradiction, whole};
use crate::failure::Failure;
use crate::progress::Progress;
use crate::{interrupt, output, provenance};

/// Compares schedulers at every point of a space of conditions
#[derive(clap::Args)]
#[command(long_about = LONG)]
pub(crate) struct Args {
    /// A plan; with --vary a scenario file, or a name of `anabranch list scenarios`
    plan: String,
    /// Varies a key of the scenario: KEY=A,B,C or KEY=FROM..TO UNIT:STEPS, with :log at the end for equal factors
    #[arg(long, value_name = "KEY=VALUES")]
    vary: Vec<String>,
    /// Sets a value of the scenario at every point
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// The number of runs at each point, or to begin with
    #[arg(long, value_name = "N", value_parser = whole::<u32>(1..=u32::MAX.into()))]
    runs: Option<u32>,
    /// The seed of the runs at every point: the same seed gives the same result. The `seed` of a plan draws its points
    #[arg(long, value_name = "N")]
    seed: Option<String>,
    /// The directory of the results; an interrupted sweep continues there
    #[arg(long, short = 'o', value_name = "DIR")]
    output: Option<PathBuf>,
    /// The format of the table of results: parquet, csv or ndjson
    #[arg(long, value_name = "FORMAT", default_value = "parquet", value_parser = format)]
    format: Format,
    /// Work on part I of N of the points
    #[arg(long, value_name = "I/N", value_parser = shard, conflicts_with = "merge")]
    shard: Option<Shard>,
    /// Add the results of these directories, made with the same plan and --shard
    #[arg(long, value_name = "DIR", num_args = 1..)]
    merge: Vec<PathBuf>,
    /// List the points without simulating
    #[arg(long, conflicts_with = "merge")]
    points: bool,
    #[command(flatten)]
    jobs: Jobs,
    /// Print the summary as JSON
    #[arg(long)]
    json: bool,
}

const LONG: &str = "\
Compares schedulers at every point of a space of conditions.

A plan is a TOML file that names a scenario and the values of some of its keys:

    scenario = \"two-paths\"
    design = \"sobol\"          # or grid (the default), random, latin-hypercube
    points = 200
    runs = 10
    [vary]
    \"path.1.rate\" = { from = \"1 Mbit/s\", to = \"100 Mbit/s\", scale = \"log\" }
    \"path.2.rtt\" = [\"10 ms\", \"40 ms\"]

Each point is a comparison as `anabranch compare` makes it. The directory of the results has
journal.ndjson, a line for each point that is done, run.json, and at the end the table
results.parquet, a row for each point, condition and contender. After Ctrl-C or a kill the same
command goes on where it was. The table has the same bytes for any number of threads,
interruptions and shards.

The exit code is 1 if the sweep did not end.";

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let plan = plan(args)?;
    if args.points {
        return output::print(&text::points(&plan));
    }
    let cancelled = interrupt::watch();
    let path = args.output.clone().unwrap_or_else(|| default_directory(&args.plan));
    let directory = Directory::open(&path, &plan, args.format, provenance::origin())?;
    let mut journal = directory.journal(&plan, &settings(args), args.runs)?;
    if let Some(damage) = journal.damage() {
        output::warn(format_args!("{damage}; the points of damaged lines are simulated again"));
    }
    for part in &args.merge {
        if let Some(warning) = directory.merge(part, &mut journal)? {
            output::warn(warning);
        }
    }
    if journal.done() < plan.points() {
        directory.begin(&plan, &journal)?;
    }
    let wall = if args.merge.is_empty() {
        let progress = Progress::of("points");
        let options = Options {
            jobs: args.jobs.jobs,
            cancelled,
            progress: &|done, total| progress.update(done, total),
            shard: args.shard.unwrap_or_default(),
        };
        let before = journal.done();
        let result = sweep(&plan, &mut journal, &options);
        let wall = progress.finish();
        if let Err(error) = result {
            directory.end(&plan, &journal, false)?;
            return Err(failure(error, &path, &journal));
        }
        Some((journal.done() - before, wall))
    } else {
        None
    };
    let complete = journal.done() == plan.points();
    let summary = directory.finish(&plan, &journal)?;
    if args.json {
        let mut object = Sweep::new(&path, &plan, summary);
        (object.commit, object.command) = (provenance::commit(), provenance::command());
        output::print_json(&object)?;
    } else {
        output::print(&text::text(&plan, &journal, &summary, wall)?)?;
    }
    if let Some(table) = directory.table(complete) {
        output::remark(format_args!("results in {}", table.display()));
    }
    match (complete, args.shard) {
        (true, _) | (false, Some(_)) => Ok(()),
        (false, None) => Err(Failure::Failed(format!(
            "{} of {} points are missing; the same command without --merge simulates them",
            plan.points() - journal.done(),
            plan.points()
        ))),
    }
}

/// Returns the changes of the scenario of every point: a journal belongs to one seed, as the hash of a scenario does not
/// include it.
fn settings(args: &Args) -> Vec<String> {
    args.set.iter().cloned().chain(args.seed.iter().map(|seed| format!("seed={seed}"))).collect()
}

/// True if `name` is a scenario, built-in or a file.
fn is_scenario(name: &str) -> bool {
    Document::open(name).is_ok_and(|document| document.scenario().is_ok())
}

/// Returns the plan of the file, or of `--vary`.
fn plan(args: &Args) -> Result<Plan, Failure> {
    let mut plan = match args.vary.as_slice() {
        [] => Plan::open(Path::new(&args.plan)).map_err(|error| match is_scenario(&args.plan) {
            true => Failure::Usage(format!(
                "`{}` is a scenario, and not a plan\n   = help: add `--vary KEY=VALUES`, or give a plan",
                args.plan
            )),
            false => error.into(),
        })?,
        vary => {
            let text = inline::plan(&args.plan, vary).map_err(Failure::Usage)?;
            Plan::parse("--vary", text, "")?
        }
    };
    contradiction(&args.set, [("--seed", "seed", args.seed.is_some())].into_iter())?;
    for assignment in &args.set {
        plan.set(assignment)?;
    }
    if let Some(seed) = &args.seed {
        plan.set_option("--seed", "seed", seed);
    }
    if let Some(runs) = args.runs {
        plan.set_runs(runs);
    }
    plan.check()?;
    crate::files::protect_scenario(&plan.scenario(&plan.point(0))?)?;
    Ok(plan)
}

/// Returns `two-paths.sweep` for `plans/two-paths.toml`.
fn default_directory(plan: &str) -> PathBuf {
    let stem = Path::new(plan).file_stem().map(|stem| stem.to_string_lossy().into_owned());
    PathBuf::from(format!("{}.sweep", stem.unwrap_or_default()))
}

fn failure(error: SweepError, path: &Path, journal: &Journal) -> Failure {
    match error {
        SweepError::Cancelled => {
            output::remark(format_args!(
                "points that are done: {}, in {}; the same command goes on from there",
                journal.done(),
                path.display()
            ));
            Failure::Interrupted
        }
        SweepError::Scenario(error) => Failure::Usage(error.to_string()),
        error => Failure::Failed(error.to_string()),
    }
}

fn format(text: &str) -> Result<Format, String> {
    let names = Format::ALL.map(Format::name);
    let found = Format::ALL.into_iter().find(|format| format.name() == text);
    found.ok_or_else(|| format!("`{text}` is not a format; there are {}", names.join(", ")))
}

fn shard(text: &str) -> Result<Shard, String> {
    let parsed = text.split_once('/').and_then(|(number, of)| Some((number.parse().ok()?, of.parse().ok()?)));
    match parsed {
        Some((number, of)) if (1..=of).contains(&number) => Ok(Shard { number, of }),
        _ => Err(format!("`{text}` is no part; write for example 3/100, the third of a hundred parts")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_numbered_from_one() {
        assert_eq!(shard("3/100"), Ok(Shard { number: 3, of: 100 }));
        for wrong in ["0/3", "4/3", "3", "a/b", "1/0", "-1/3"] {
            assert!(shard(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_help_names_every_design() {
        for design in anabranch_lab::sweep::Design::ALL {
            assert!(LONG.contains(design.name()), "{design:?}");
        }
    }
}
