//! `anabranch run`

mod classes;

use anabranch_lab::compare::{Options, single_runs_recorded};
use anabranch_lab::measure::FlowRecord;
use anabranch_lab::output::Runs;
use anabranch_lab::recording::Recording;
use anabranch_lab::rounds::most_runs;
use anabranch_lab::scenario::Scenario;

use crate::args::{Capture, Experiment, Show, finish_captures};
use crate::failure::Failure;
use crate::progress::Progress;
use crate::record::{self, Record};
use crate::samples::SamplesFile;
use crate::table::{Align, Table, wrap, wrap_behind};
use crate::{interrupt, output, provenance, terminal};

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
    /// Show a plain TCP on every single path, beside the best of them
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
        jobs: args.experiment.jobs.jobs,
        cancelled,
        progress: &update,
        captures: captures.as_ref(),
        every_path: args.every_path,
        in_rounds: false,
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
    (output.commit, output.command) = (provenance::commit(), provenance::command());
    if args.show.json {
        output::print_json(&output)
    } else {
        output::print(&text(&scenario, &output, args.gaps))
    }
}

/// Returns the runs as text. `gaps` asks for the column of the longest gap, which scenarios with changes of links have anyway.
pub(crate) fn text(scenario: &Scenario, output: &Runs, gaps: bool) -> String {
    let mut text = String::new();
    for condition in &scenario.conditions {
        if scenario.conditions.len() > 1 {
            text.push_str(&format!("{}\n", crate::visible::line(&condition.name)));
        }
        let gaps = gaps || condition.experiment.changes();
        let flows = || output.flows.iter().filter(|flow| flow.condition == condition.name);
        if !condition.experiment.classes.is_empty() {
            text.push_str(&classes::table(condition, flows(), gaps));
            text.push_str(&failures(flows()));
            text.push('\n');
            continue;
        }
        let mut table = Table::new()
            .column("scheduler", Align::Left)
            .column("flow", Align::Right)
            .column("size", Align::Right)
            .column("start s", Align::Decimal)
            .column("done ms", Align::Decimal)
            .column("acked ms", Align::Decimal)
            .column("Mbit/s", Align::Decimal)
            .shown_if(gaps, "gap ms", Align::Decimal, 1)
            .optional("x bound", Align::Decimal, 2)
            .optional("retx %", Align::Decimal, 1)
            .optional("RTOs", Align::Right, 3)
            .optional("KB by path", Align::Right, 4);
        let millis = |time: Option<f64>, flow: &FlowRecord| match time {
            Some(time) => output::digits(time * 1e3),
            None => state(flow).to_owned(),
        };
        for flow in flows() {
            let kilobytes = |bytes: &u64| format!("{:.0}", *bytes as f64 / 1e3);
            table.row(vec![
                flow.scheduler.clone(),
                flow.flow.clone(),
                flow.size_bytes.map_or("bulk".to_owned(), output::size),
                format!("{:.3}", flow.start_s),
                millis(flow.fct_s, flow),
                flow.acked_s.map_or("-".to_owned(), |time| output::digits(time * 1e3)),
                output::digits(flow.goodput_bps as f64 / 1e6),
                gap(flow),
                flow.vs_lower_bound.map_or("-".to_owned(), output::digits),
                output::about(flow.retransmitted_ratio * 100.0),
                flow.rto_count.to_string(),
                flow.bytes_by_path.iter().map(kilobytes).collect::<Vec<_>>().join("/"),
            ]);
        }
        text.push_str(&table.render(terminal::width()));
        text.push_str(&failures(flows()));
        text.push('\n');
    }
    let cost = &output.performance;
    let sentence = format!(
        "seed {}; {}{} s of network time in {} s: {} packet-hops ({} million a second), {} data packets, {} events",
        output.seed,
        output.run.map_or(String::new(), |run| format!("run {run} of the comparison, with its phases; ")),
        output::about(cost.simulated_s),
        output::about(cost.wall_s),
        cost.packet_hops,
        output::about(cost.packet_hops as f64 / cost.wall_s.max(1e-9) / 1e6),
        cost.data_packets,
        cost.events,
    );
    text.push_str(&wrap(&sentence, terminal::text_width()));
    text
}

/// Returns the state of a flow in a word: a failure without its reason.
fn state(flow: &FlowRecord) -> &str {
    flow.outcome.split(':').next().unwrap_or_default()
}

fn gap(flow: &FlowRecord) -> String {
    flow.longest_gap_s.map_or("-".to_owned(), |seconds| output::digits(seconds * 1e3))
}

/// Returns the reasons of failed flows, as notes below a table.
fn failures<'a>(flows: impl Iterator<Item = &'a FlowRecord>) -> String {
    let mut text = String::new();
    for flow in flows {
        if let Some((_, reason)) = flow.outcome.split_once(": ") {
            let note = format!("{}, flow {}, failed: {reason}", flow.scheduler, flow.flow);
            text.push_str(&wrap_behind("  ", &note, terminal::text_width()));
        }
    }
    text
}
