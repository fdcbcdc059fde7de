//! Reports: a line for each interval, and the result as text or JSON.

use anabranch_stack::stats::SubflowStats;
use serde::Serialize;

use super::Args;
use super::watch::{Interval, SubflowPart, Watch};
use crate::online::bench::Done;
use crate::online::fallback::Fallback;
use crate::online::table;
use crate::table::{Align, Table};
use crate::{output, terminal};

/// The result, in JSON.
#[derive(Serialize)]
pub(super) struct Output {
    connections: u32,
    duration_s: f64,
    /// The data received by the server, by its own account, and its goodput.
    uploaded_bytes: u64,
    upload_bps: f64,
    downloaded_bytes: u64,
    download_bps: f64,
    /// CPU time of this process, and per gigabyte (10^9 bytes) moved.
    cpu_s: f64,
    cpu_s_per_gb: Option<f64>,
    /// Round-trip times of one byte, in seconds.
    ping_p50_s: Option<f64>,
    ping_p99_s: Option<f64>,
    ping_max_s: Option<f64>,
    /// Connections that use plain TCP, and the causes.
    fallbacks: Vec<Fallback>,
    subflows: Vec<SubflowPart>,
    intervals: Vec<Interval>,
}

fn rate(bytes: u64, seconds: f64) -> f64 {
    bytes as f64 * 8.0 / seconds.max(1e-9)
}

pub(super) fn show(interval: &Interval) -> String {
    let seconds = interval.end_s - interval.start_s;
    let mut text = format!(
        "{:6.1}-{:<6.1} s  sent {:>8} {:>11}  received {:>8} {:>11}\n",
        interval.start_s,
        interval.end_s,
        output::size(interval.sent_bytes),
        output::rate(rate(interval.sent_bytes, seconds)),
        output::size(interval.received_bytes),
        output::rate(rate(interval.received_bytes, seconds)),
    );
    // For many connections only the sum is shown.
    if interval.subflows.len() <= 16 {
        for part in &interval.subflows {
            text.push_str(&format!("    {}\n", part.subflow.line(part.connection, seconds)));
        }
    }
    text
}

pub(super) fn summary(
    args: &Args,
    seconds: f64,
    all: &[Done],
    stats: &Watch,
    intervals: Vec<Interval>,
) -> Output {
    let uploaded: u64 = all.iter().map(|done| done.uploaded.bytes).sum();
    let downloaded: u64 = all.iter().map(|done| done.downloaded.bytes).sum();
    let mut pings: Vec<u64> = all.iter().flat_map(|done| done.pings.iter().copied()).collect();
    pings.sort_unstable();
    let quantile = |q: f64| {
        let at = ((pings.len() as f64 * q).ceil() as usize).clamp(1, pings.len().max(1)) - 1;
        pings.get(at).map(|nanos| *nanos as f64 / 1e9)
    };
    let cpu = cpu_seconds();
    let moved = (uploaded + downloaded) as f64 / 1e9;
    let subflows = stats.seen.iter().enumerate().flat_map(|(connection, seen)| {
        seen.iter().map(move |stats| SubflowPart { connection, subflow: table::Subflow::from(stats) })
    });
    Output {
        connections: args.parallel,
        duration_s: seconds,
        uploaded_bytes: uploaded,
        upload_bps: uploaded as f64 * 8.0 / seconds,
        downloaded_bytes: downloaded,
        download_bps: downloaded as f64 * 8.0 / seconds,
        cpu_s: cpu,
        cpu_s_per_gb: (moved > 0.0).then(|| cpu / moved),
        ping_p50_s: quantile(0.5),
        ping_p99_s: quantile(0.99),
        ping_max_s: quantile(1.0),
        fallbacks: stats.fallbacks.clone(),
        subflows: subflows.collect(),
        intervals,
    }
}

pub(super) fn text(output: &Output, stats: &Watch) -> String {
    let mut table = Table::new().column("", Align::Left).column("", Align::Right).column("", Align::Right);
    let mut text = String::new();
    for (what, bytes) in [("uploaded", output.uploaded_bytes), ("downloaded", output.downloaded_bytes)] {
        if bytes > 0 {
            let rate = output::rate(rate(bytes, output.duration_s));
            table.row(vec![what.to_owned(), output::size(bytes), rate]);
        }
    }
    if output.uploaded_bytes + output.downloaded_bytes > 0 {
        text.push_str(table.render(terminal::width()).trim_start_matches('\n'));
    }
    if let (Some(p50), Some(p99), Some(max)) = (output.ping_p50_s, output.ping_p99_s, output.ping_max_s) {
        let [p50, p99, max] = [p50, p99, max].map(output::span);
        text.push_str(&format!("round trip of one byte: median {p50}, 99 % within {p99}, at most {max}\n"));
    }
    text.push_str(&format!(
        "{}, CPU time {} s",
        output::span(output.duration_s),
        output::digits(output.cpu_s)
    ));
    if let Some(per) = output.cpu_s_per_gb {
        text.push_str(&format!(", {} s per GB", output::digits(per)));
    }
    text.push('\n');
    let all: Vec<SubflowStats> = stats.seen.iter().flatten().copied().collect();
    if (1..=16).contains(&all.len()) {
        text.push_str(&table::subflows(&all, terminal::width()));
    }
    text
}

/// Returns the CPU time of this process, user and system.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // Fields 14 and 15, counted after the name in brackets, in ticks of 10 ms.
    let fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace();
    let ticks: u64 = fields.skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
    ticks as f64 / rustix::param::clock_ticks_per_second() as f64
}
