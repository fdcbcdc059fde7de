//! `anabranch run`

use anabranch_lab::compare::{Cost, Job, Options, first_runs};
use anabranch_lab::report::reinjected_segments;
use anabranch_lab::run::{Class, FlowResult};
use anabranch_lab::scenario::{Document, Scenario};
use serde::Serialize;

use crate::args::{Capture, Common, Jobs, finish_captures, read};
use crate::failure::Failure;
use crate::progress::Progress;
use crate::table::{Align, Table, wrap};
use crate::{interrupt, output, terminal};

/// Simulates a scenario once and shows what became of each flow
#[derive(clap::Args)]
pub struct Args {
    /// A scenario file, or a name of `anabranch list scenarios`
    scenario: String,
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    jobs: Jobs,
    #[command(flatten)]
    capture: Capture,
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
    scenario_hash: String,
    seed: u64,
    flows: Vec<Flow>,
    performance: Cost,
}

/// What became of a flow.
#[derive(Serialize)]
struct Flow {
    scheduler: String,
    congestion: String,
    condition: String,
    flow: String,
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
    let mut document = Document::open(&args.scenario)?;
    args.common.apply(&mut document)?;
    let scenario = read(&document)?;
    let captures = args.capture.open(&scenario)?;
    let progress = Progress::new();
    let update = |done, total| progress.update(done, total);
    let options = Options {
        jobs: args.jobs.jobs,
        cancelled,
        progress: &update,
        captures: captures.as_ref(),
        every_path: false,
    };
    let results = first_runs(&scenario, &options);
    progress.finish();
    let (results, mut performance) = results?;
    finish_captures(captures)?;
    let mut flows = Vec::new();
    for (job, result) in &results {
        flows.extend(result.flows.iter().map(|result| flow(&scenario, *job, result)));
    }
    performance.peak_rss_bytes = output::peak_rss_bytes();
    let output = Output {
        version: env!("CARGO_PKG_VERSION"),
        scenario_hash: scenario.hash(),
        seed: scenario.seed,
        flows,
        performance,
    };
    if args.json { output::print_json(&output) } else { output::print(&text(&scenario, &output)) }
}

fn flow(scenario: &Scenario, job: Job, result: &FlowResult) -> Flow {
    let condition = &scenario.conditions[job.condition];
    let contender = &scenario.contenders[job.contender];
    let report = &result.report;
    let ratio = |part: u64, whole: u64| if whole > 0 { part as f64 / whole as f64 } else { 0.0 };
    let seconds = |span: anabranch_units::Duration| span.as_secs_f64();
    let bound = result.lower_bound.as_secs_f64();
    Flow {
        scheduler: match result.class {
            Class::Contender => contender.name.clone(),
            Class::Beside => format!("tcp beside {}", contender.name),
        },
        congestion: match result.class {
            Class::Contender => condition.configs[job.contender].congestion.name().to_owned(),
            Class::Beside => condition.beside_config().congestion.name().to_owned(),
        },
        condition: condition.name.clone(),
        flow: report.name.clone(),
        start_s: report.start.as_secs_f64(),
        size_bytes: report.size.map(|size| size.0),
        outcome: format!("{:?}", report.outcome).to_lowercase(),
        fct_s: report.fct.map(seconds),
        acked_s: report.acked.map(seconds),
        connected_s: report.connected.map(seconds),
        delivered_bytes: report.delivered,
        goodput_bps: result.goodput().0,
        bytes_by_path: report.bytes_by_path.clone(),
        subflows_used: report.subflows_used,
        data_segments: report.data_segments,
        retransmitted_ratio: ratio(report.retransmitted_segments, report.data_segments),
        reinjected_ratio: ratio(reinjected_segments(result), report.data_segments),
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
        "seed {}; {} s of network time in {} s: {} packet-hops ({} million a second), {} data packets, {} events",
        output.seed,
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
