//! `anabranch compare`

use anabranch_lab::compare::{Comparison, Options, compare};
use anabranch_lab::report::{Row, Setting};
use anabranch_lab::scenario::{Scenario, Transport};
use anabranch_lab::stats::Interval;

use crate::args::{Capture, Changes, Jobs, finish_captures};
use crate::failure::Failure;
use crate::progress::Progress;
use crate::table::{Align, Table, wrap, wrap_behind};
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
    #[cfg(target_os = "linux")]
    #[command(flatten)]
    confirm: super::confirm::Confirm,
    /// Print JSON
    #[arg(long)]
    json: bool,
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
    #[cfg(target_os = "linux")]
    args.confirm.ready(&scenario)?;
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
    #[cfg(target_os = "linux")]
    if args.confirm.check {
        let text = text(&scenario, &comparison);
        return args.confirm.run(&scenario, comparison, text, args.json, cancelled);
    }
    if args.json { output::print_json(&comparison) } else { output::print(&text(&scenario, &comparison)) }?;
    match comparison.is_complete() {
        true => Ok(()),
        false => Err(Failure::Failed("flows did not finish, so there is no winner".to_owned())),
    }
}

/// The width for which tables are made.
const WIDTH: usize = 100;

fn text(scenario: &Scenario, comparison: &Comparison) -> String {
    let mut text = String::new();
    for condition in &scenario.conditions {
        let traffic = &condition.experiment.traffic;
        if scenario.conditions.len() > 1 {
            text.push_str(&format!("{}\n", condition.name));
        }
        let rows = comparison.rows.iter().filter(|row| row.condition == condition.name);
        let bulk = traffic.size.mean().is_none();
        let reference = comparison.reference.as_deref();
        text.push_str(&if bulk { bulk_table(rows, reference) } else { table(rows, reference) });
        if let anabranch_lab::scenario::FlowSize::Web { max: Some(max) } = traffic.size {
            let mean = traffic.size.mean().unwrap_or_default();
            text.push_str(&format!("web-like sizes up to {max} have a mean of {:.1} KB\n", mean / 1e3));
        }
        let setting = comparison.conditions.iter().find(|setting| setting.name == condition.name);
        for note in setting.map(|setting| notes(scenario, setting, bulk)).unwrap_or_default() {
            text.push_str(&wrap_behind("  ", &note, WIDTH));
        }
        text.push('\n');
    }
    let cost = &comparison.performance;
    let runs = comparison.runs;
    text.push_str(&format!(
        "{runs} run{} each, seed {}; {:.1} s of network time in {:.1} s, {:.1} million packet-hops a second\n",
        if runs == 1 { "" } else { "s" },
        comparison.seed,
        cost.simulated_s,
        cost.wall_s,
        cost.packet_hops as f64 / cost.wall_s.max(1e-9) / 1e6,
    ));
    text.push('\n');
    text.push_str(&wrap(&comparison.verdict, WIDTH));
    text
}

/// The simulated setting, for the lines under a table.
fn notes(scenario: &Scenario, setting: &Setting, bulk: bool) -> Vec<String> {
    let mut notes = Vec::new();
    let paths = &setting.single_paths;
    if let Some(best) = paths.iter().find(|path| path.chosen) {
        let value = |path: &anabranch_lab::baseline::SinglePath| match (bulk, path.mean_s) {
            (false, Some(mean)) => format!("{} ms", output::digits(mean * 1e3)),
            _ => format!("{} Mbit/s", output::digits(path.goodput_bps.unwrap_or(0.0) / 1e6)),
        };
        let others = paths.iter().filter(|path| !path.chosen).take(MOST_PATHS);
        let others: Vec<String> =
            others.map(|path| format!("{} {}", path_name(&path.path), value(path))).collect();
        let more = match paths.len() - 1 - others.len() {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        notes.push(format!(
            "tcp: {} is the best of {} single paths, with {} in selection runs; {}{more}",
            path_name(&best.path),
            paths.len(),
            value(best),
            others.join(", "),
        ));
    }
    if bulk {
        let sum: f64 = paths.iter().filter_map(|path| path.goodput_bps).sum();
        let measured = match paths.is_empty() {
            true => String::new(),
            false => format!("; single paths alone add up to {}", output::digits(sum / 1e6)),
        };
        let ideal = output::digits(setting.ideal_sum_bps / 1e6);
        notes.push(format!("ideal sum of the paths: {ideal} Mbit/s of payload{measured}"));
    }
    let mut parts = vec![format!("profile {}", setting.profile), congestion(scenario, setting)];
    parts.push(setting.direction.to_owned());
    let same = setting.queues.iter().all(|queue| *queue == setting.queues[0]);
    let queues = if same { setting.queues[0].clone() } else { setting.queues.join(", ") };
    parts.push(format!("queue {queues}"));
    if setting.queues.len() > 1 {
        parts.push(format!("first subflow on {}", path_name(&setting.initial)));
    }
    notes.push(parts.join("; "));
    notes.push(match &setting.phases {
        None => "phases: off".to_owned(),
        Some(limits) => format!(
            "phases: starts up to {} ms later, delays +-{} ms, host jitter up to {} us{}",
            plain(limits.start_s * 1e3),
            plain(limits.delay_s * 1e3),
            plain(limits.jitter_s * 1e6),
            if limits.traces { ", traces from random points" } else { "" },
        ),
    });
    notes
}

/// At most so many other single paths are listed under a table.
const MOST_PATHS: usize = 3;

/// A number of at most three decimals.
fn plain(value: f64) -> String {
    format!("{}", (value * 1e3).round() / 1e3)
}

/// A path that has only a number is called so.
fn path_name(name: &str) -> String {
    if name.chars().all(|c| c.is_ascii_digit()) { format!("path {name}") } else { name.to_owned() }
}

/// The congestion control, and that of plain TCPs where it differs.
fn congestion(scenario: &Scenario, setting: &Setting) -> String {
    let of = |multipath: bool| {
        let mut names: Vec<&str> = Vec::new();
        for (contender, name) in scenario.contenders.iter().zip(&setting.congestion) {
            if matches!(contender.transport, Transport::Multipath(_)) == multipath
                && !names.contains(&name.as_str())
            {
                names.push(name);
            }
        }
        names.join("/")
    };
    match (of(true), of(false)) {
        (multipath, tcp) if tcp.is_empty() || tcp == multipath => multipath,
        (multipath, tcp) if multipath.is_empty() => tcp,
        (multipath, tcp) => format!("{multipath} (tcp: {tcp})"),
    }
}

/// The name of a row; a plain TCP that is free to choose has its path behind it.
fn row_name(row: &Row) -> String {
    match &row.path {
        Some(path) if !row.scheduler.contains('@') => format!("{} on {}", row.scheduler, path_name(path)),
        _ => row.scheduler.clone(),
    }
}

fn millis(seconds: Option<f64>) -> String {
    seconds.map_or("-".to_owned(), |seconds| output::digits(seconds * 1e3))
}

fn percent(ratio: f64) -> String {
    format!("{:.2}", ratio * 100.0)
}

fn difference(row: &Row, reference: Option<&str>) -> String {
    match &row.vs_reference_pct {
        Some(_) if Some(row.scheduler.as_str()) == reference => "0".to_owned(),
        Some(difference) => match difference.ci95 {
            Some(Interval(low, high)) => format!("{:+.1} [{low:+.1}, {high:+.1}]", difference.mean),
            None => format!("{:+.1}", difference.mean),
        },
        None => "-".to_owned(),
    }
}

fn shares(row: &Row) -> String {
    let all: u64 = row.bytes_by_path.iter().sum();
    let share = |bytes: &u64| format!("{:.0}", 100.0 * *bytes as f64 / all.max(1) as f64);
    row.bytes_by_path.iter().map(share).collect::<Vec<_>>().join("/")
}

fn headers(reference: Option<&str>) -> String {
    reference.map_or("vs reference".to_owned(), |name| format!("vs {name}, %"))
}

fn table<'a>(rows: impl Iterator<Item = &'a Row>, reference: Option<&str>) -> String {
    let mut table = Table::new()
        .column("scheduler", Align::Left)
        .optional("cc", Align::Left, 5)
        .column("done", Align::Right)
        .column("mean ms", Align::Right)
        .optional("95 % of mean", Align::Right, 2)
        .column("median", Align::Right)
        .column("p95", Align::Right)
        .optional("p99", Align::Right, 1)
        .column(&headers(reference), Align::Right)
        .column("x bound", Align::Right)
        .optional("retx %", Align::Right, 3)
        .optional("reinj %", Align::Right, 8)
        .optional("RTOs", Align::Right, 4)
        .optional("subflows", Align::Right, 6)
        .optional("acked ms", Align::Right, 7)
        .optional("share by path, %", Align::Right, 9);
    for row in rows {
        let fct = &row.fct_s;
        let interval = fct.ci95.map_or("-".to_owned(), |Interval(low, high)| {
            format!("{}..{}", millis(Some(low)), millis(Some(high)))
        });
        table.row(vec![
            row_name(row),
            row.congestion.clone(),
            format!("{}/{}", row.completed, row.n),
            millis(fct.mean),
            interval,
            millis(fct.p50),
            millis(fct.p95),
            millis(fct.p99),
            difference(row, reference),
            row.vs_lower_bound.map_or("-".to_owned(), |times| format!("{times:.2}")),
            percent(row.retransmitted_ratio),
            percent(row.reinjected_ratio),
            format!("{:.2}", row.rto_count),
            format!("{:.1}", row.subflows_used),
            millis(row.acked_s.mean),
            shares(row),
        ]);
    }
    table.render(WIDTH)
}

fn bulk_table<'a>(rows: impl Iterator<Item = &'a Row>, reference: Option<&str>) -> String {
    let mut table = Table::new()
        .column("scheduler", Align::Left)
        .optional("cc", Align::Left, 2)
        .column("flows", Align::Right)
        .column("goodput Mbit/s", Align::Right)
        .column(&headers(reference), Align::Right)
        .column("x bound", Align::Right)
        .optional("retx %", Align::Right, 1)
        .optional("reinj %", Align::Right, 5)
        .optional("RTOs", Align::Right, 3)
        .optional("share by path, %", Align::Right, 4);
    for row in rows {
        table.row(vec![
            row_name(row),
            row.congestion.clone(),
            format!("{}/{}", row.completed, row.n),
            row.goodput_bps.map_or("-".to_owned(), |rate| output::digits(rate / 1e6)),
            difference(row, reference),
            row.vs_lower_bound.map_or("-".to_owned(), |times| format!("{times:.2}")),
            percent(row.retransmitted_ratio),
            percent(row.reinjected_ratio),
            format!("{:.2}", row.rto_count),
            shares(row),
        ]);
    }
    table.render(WIDTH)
}
