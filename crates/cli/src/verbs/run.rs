//! `anabranch run`

use std::collections::BTreeMap;

use anabranch_lab::compare::{Cost, Job, Options, single_runs_recorded};
use anabranch_lab::recording::Recording;
use anabranch_lab::report::beside_name;
use anabranch_lab::run::{Class, FlowResult, LinkReport};
use anabranch_lab::samples;
use anabranch_lab::scenario::{Direction, Scenario};
use serde::Serialize;

use crate::args::{Capture, Changes, Jobs, finish_captures};
use crate::failure::Failure;
use crate::progress::Progress;
use crate::record::{self, Record};
use crate::samples::SamplesFile;
use crate::table::{Align, Table, wrap};
use crate::{interrupt, output, provenance, terminal};

/// The version of the keys of `anabranch run --json`.
const SCHEMA: u32 = 2;

/// Simulates a scenario once, or replays a run of a comparison, and shows the result of each flow
#[derive(clap::Args)]
pub struct Args {
    /// A scenario file, or a name of `anabranch list scenarios`
    scenario: Option<String>,
    #[command(flatten)]
    changes: Changes,
    /// Replay run N (from 0) of the comparison with the same options: the same seed, phases, flows and losses
    #[arg(long, value_name = "N")]
    run: Option<u32>,
    #[command(flatten)]
    jobs: Jobs,
    #[command(flatten)]
    capture: Capture,
    #[command(flatten)]
    samples: SamplesFile,
    #[command(flatten)]
    record: Record,
    /// Show a plain TCP on every single path, beside the best of them
    #[arg(long)]
    every_path: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    pub to: crate::output::Destination,
}

/// The object that `run --json` prints.
#[derive(Serialize)]
struct Output {
    version: &'static str,
    commit: Option<&'static str>,
    schema: u32,
    command: Vec<String>,
    scenario_hash: String,
    seed: u64,
    /// The number of the replayed run; none without phases.
    run: Option<u32>,
    conditions: Vec<Setting>,
    flows: Vec<Flow>,
    /// The links of each run.
    links: Vec<LinkCounters>,
    performance: Cost,
}

/// The counters of a link in a run. Packets and bytes are whole packets with their IP headers.
#[derive(Serialize)]
struct LinkCounters {
    condition: String,
    scheduler: String,
    link: String,
    offered_packets: u64,
    offered_bytes: u64,
    delivered_packets: u64,
    delivered_bytes: u64,
    dropped_queue: u64,
    dropped_random: u64,
    dropped_gilbert_elliott: u64,
    dropped_listed: u64,
    dropped_down: u64,
    dropped_too_large: u64,
    duplicated: u64,
    reordered: u64,
    /// Packets with each effect of the link, such as `marked`.
    #[serde(flatten)]
    effects: BTreeMap<&'static str, u64>,
    max_queue_packets: u64,
    max_queue_bytes: u64,
    busy_s: f64,
}

fn link_counters(condition: &str, scheduler: &str, link: &LinkReport) -> LinkCounters {
    let counters = &link.counters;
    let effects = counters.effects_by_name();
    LinkCounters {
        condition: condition.to_owned(),
        scheduler: scheduler.to_owned(),
        link: link.name.clone(),
        offered_packets: counters.offered.packets,
        offered_bytes: counters.offered.bytes,
        delivered_packets: counters.delivered.packets,
        delivered_bytes: counters.delivered.bytes,
        dropped_queue: counters.dropped_queue.packets,
        dropped_random: counters.dropped_random.packets,
        dropped_gilbert_elliott: counters.dropped_gilbert_elliott.packets,
        dropped_listed: counters.dropped_listed.packets,
        dropped_down: counters.dropped_down.packets,
        dropped_too_large: counters.dropped_too_large.packets,
        duplicated: counters.duplicated.packets,
        reordered: counters.reordered.packets,
        effects: effects.map(|(name, tally)| (name, tally.packets)).collect(),
        max_queue_packets: counters.max_queue.packets,
        max_queue_bytes: counters.max_queue.bytes,
        busy_s: link.busy.as_secs_f64(),
    }
}

/// The setting of a condition.
#[derive(Serialize)]
struct Setting {
    name: String,
    paths: Vec<String>,
    profile: &'static str,
    direction: &'static str,
}

/// The result of a flow.
#[derive(Serialize)]
struct Flow {
    scheduler: String,
    congestion: String,
    condition: String,
    flow: String,
    first_path: String,
    start_s: f64,
    size_bytes: Option<u64>,
    outcome: String,
    fct_s: Option<f64>,
    acked_s: Option<f64>,
    connected_s: Option<f64>,
    delivered_bytes: u64,
    goodput_bps: u64,
    bytes_by_path: Vec<u64>,
    subflows_used: u32,
    data_segments: u64,
    retransmitted_ratio: f64,
    reinjected_ratio: f64,
    duplicate_ratio: f64,
    rto_count: u64,
    lower_bound_s: f64,
    vs_lower_bound: Option<f64>,
}

pub fn run(args: &Args) -> Result<(), Failure> {
    let cancelled = interrupt::watch();
    let scenario = args.changes.scenario(args.scenario.as_deref())?;
    if let Some(run) = args.run.filter(|run| *run >= scenario.runs) {
        return Err(Failure::Usage(format!(
            "there is no run {run}: the comparison has {} runs, from 0 to {}\n  = help: give the `--runs` of the \
             comparison",
            scenario.runs,
            scenario.runs - 1
        )));
    }
    let captures = args.capture.open(&scenario)?.map(|captures| captures.of_run(args.run.unwrap_or(0)));
    let mut samples = args.samples.open(&scenario)?;
    let directory = args.record.open(&scenario, args.run)?;
    let progress = Progress::new();
    let update = |done, total| progress.update(done, total);
    let options = Options {
        jobs: args.jobs.jobs,
        cancelled,
        progress: &update,
        captures: captures.as_ref(),
        every_path: args.every_path,
    };
    let recording = directory.as_ref().map(|directory| directory as &dyn Recording);
    let results = single_runs_recorded(&scenario, &options, args.run, recording);
    progress.finish();
    record::finish(directory.as_ref(), results.as_ref().err())?;
    let (results, mut performance) = results?;
    let (mut flows, mut links) = (Vec::new(), Vec::new());
    for (job, result) in &results {
        let (condition, name) = (&scenario.conditions[job.condition].name, job.name(&scenario));
        links.extend(result.links.iter().map(|link| link_counters(condition, &name, link)));
        samples.write(&scenario, job, result)?;
        flows.extend(result.flows.iter().map(|result| flow(&scenario, *job, result)));
    }
    finish_captures(captures)?;
    samples.commit()?;
    performance.peak_rss_bytes = output::peak_rss_bytes();
    let output = Output {
        version: provenance::VERSION,
        commit: provenance::commit(),
        schema: SCHEMA,
        command: provenance::command(),
        scenario_hash: scenario.hash(),
        seed: scenario.seed,
        run: args.run,
        conditions: settings(&scenario),
        flows,
        links,
        performance,
    };
    if args.json { output::print_json(&output) } else { output::print(&text(&scenario, &output)) }
}

fn settings(scenario: &Scenario) -> Vec<Setting> {
    let setting = |condition: &anabranch_lab::scenario::Condition| Setting {
        name: condition.name.clone(),
        paths: condition.experiment.paths().iter().map(|path| path.name.clone()).collect(),
        profile: condition.experiment.profile.name(),
        direction: match condition.experiment.traffic.direction {
            Direction::Upload => "upload",
            Direction::Download => "download",
        },
    };
    scenario.conditions.iter().map(setting).collect()
}

fn flow(scenario: &Scenario, job: Job, result: &FlowResult) -> Flow {
    let condition = &scenario.conditions[job.condition];
    let contender = job.name(scenario);
    let report = &result.report;
    let ratio = |part: u64, whole: u64| if whole > 0 { part as f64 / whole as f64 } else { 0.0 };
    let seconds = |span: anabranch_units::Duration| span.as_secs_f64();
    let bound = result.lower_bound.as_secs_f64();
    Flow {
        scheduler: match result.class {
            Class::Beside => beside_name(&contender),
            Class::Contender => contender,
        },
        congestion: match result.class {
            Class::Contender => condition.configs[job.contender].congestion.name().to_owned(),
            Class::Beside => condition.beside_config().congestion.name().to_owned(),
        },
        condition: condition.name.clone(),
        flow: report.name.clone(),
        first_path: condition.experiment.paths()[result.path].name.clone(),
        start_s: report.start.as_secs_f64(),
        size_bytes: report.size.map(|size| size.0),
        outcome: samples::outcome(&report.outcome),
        fct_s: report.fct.map(seconds),
        acked_s: report.acked.map(seconds),
        connected_s: report.connected.map(seconds),
        delivered_bytes: report.delivered,
        goodput_bps: result.goodput().0,
        bytes_by_path: report.bytes_by_path.clone(),
        subflows_used: report.subflows_used,
        data_segments: report.data_segments,
        retransmitted_ratio: ratio(report.retransmitted_segments, report.data_segments),
        reinjected_ratio: ratio(result.reinjected_segments, report.data_segments),
        duplicate_ratio: ratio(report.duplicate_bytes, report.duplicate_bytes + report.delivered),
        rto_count: report.rto_count,
        lower_bound_s: bound,
        vs_lower_bound: (bound > 0.0).then(|| result.time.as_secs_f64() / bound),
    }
}

fn text(scenario: &Scenario, output: &Output) -> String {
    let mut text = String::new();
    for condition in &scenario.conditions {
        if scenario.conditions.len() > 1 {
            text.push_str(&format!("{}\n", condition.name));
        }
        let mut table = Table::new()
            .column("scheduler", Align::Left)
            .column("flow", Align::Right)
            .column("size", Align::Right)
            .column("start s", Align::Decimal)
            .column("done ms", Align::Decimal)
            .column("acked ms", Align::Decimal)
            .column("Mbit/s", Align::Decimal)
            .optional("x bound", Align::Decimal, 2)
            .optional("retx %", Align::Decimal, 1)
            .optional("RTOs", Align::Right, 3)
            .optional("KB by path", Align::Right, 4);
        let millis = |time: Option<f64>, flow: &Flow| match time {
            Some(time) => output::digits(time * 1e3),
            None => flow.outcome.clone(),
        };
        for flow in output.flows.iter().filter(|flow| flow.condition == condition.name) {
            let kilobytes = |bytes: &u64| format!("{:.0}", *bytes as f64 / 1e3);
            table.row(vec![
                flow.scheduler.clone(),
                flow.flow.clone(),
                flow.size_bytes.map_or("bulk".to_owned(), output::size),
                format!("{:.3}", flow.start_s),
                millis(flow.fct_s, flow),
                flow.acked_s.map_or("-".to_owned(), |time| output::digits(time * 1e3)),
                output::digits(flow.goodput_bps as f64 / 1e6),
                flow.vs_lower_bound.map_or("-".to_owned(), output::digits),
                output::about(flow.retransmitted_ratio * 100.0),
                flow.rto_count.to_string(),
                flow.bytes_by_path.iter().map(kilobytes).collect::<Vec<_>>().join("/"),
            ]);
        }
        text.push_str(&table.render(terminal::width()));
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
