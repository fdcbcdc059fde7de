//! The table of the flows of a run with classes of traffic.

use anabranch_lab::figures;
use anabranch_lab::measure::FlowRecord;
use anabranch_lab::scenario::Condition;

use super::{gap, state};
use crate::table::{Align, Table, wrap};
use crate::terminal;

/// Returns the result in a few words; none for a transfer.
fn words(of: &FlowRecord) -> Option<String> {
    let millis = |seconds: Option<f64>| seconds.map_or("-".to_owned(), |value| figures::digits(value * 1e3));
    if let Some(video) = &of.video {
        return Some(format!(
            "{} segments, startup {} s, {} stalls of {} s, {} Mbit/s",
            video.segments,
            video.startup_s.map_or("-".to_owned(), figures::digits),
            video.stalls,
            figures::about(video.stalled_s),
            video.bitrate_bps.map_or("-".to_owned(), |rate| figures::digits(rate / 1e6)),
        ));
    }
    if let Some(own) = &of.datagrams {
        let lost = own.sent - own.received;
        return Some(format!(
            "{lost} of {} lost, delay {} ms, p95 {} ms, jitter {} ms",
            own.sent,
            millis(own.delay_mean_s),
            millis(own.delay_p95_s),
            millis(own.jitter_s),
        ));
    }
    let parts = of.parts.as_ref()?;
    let mut times: Vec<f64> = parts.iter().filter_map(|part| part.time_s).collect();
    times.sort_by(f64::total_cmp);
    let what = if of.kind.as_deref() == Some("requests") { "responses" } else { "bursts" };
    // Few requests have no 95th percentile.
    let p95 = anabranch_lab::stats::percentile(&times, 95.0)
        .map_or(String::new(), |p95| format!(", p95 {} ms", millis(Some(p95))));
    let mean = millis(anabranch_lab::stats::mean(&times));
    Some(format!("{}/{} {what}, mean {mean} ms{p95}", times.len(), parts.len()))
}

/// Returns the table of a condition's flows, after a line for each class of traffic.
pub(super) fn table<'a>(
    condition: &Condition,
    flows: impl Iterator<Item = &'a FlowRecord>,
    gaps: bool,
) -> String {
    let mut text = String::new();
    for class in &condition.experiment.classes {
        text.push_str(&wrap(&format!("{}: {}", class.name, class.describe()), terminal::text_width()));
    }
    text.push('\n');
    let mut table = Table::new()
        .column("scheduler", Align::Left)
        .column("flow", Align::Left)
        .column("start s", Align::Decimal)
        .wrapped("result")
        .optional("Mbit/s", Align::Decimal, 1)
        .shown_if(gaps, "gap ms", Align::Decimal, 1)
        .optional("retx %", Align::Decimal, 2)
        .optional("RTOs", Align::Right, 3)
        .optional("KB by path", Align::Right, 4);
    for flow in flows {
        let kilobytes = |bytes: &u64| format!("{:.0}", *bytes as f64 / 1e3);
        let transfer = || match (flow.fct_s, flow.size_bytes) {
            (Some(time), Some(size)) => {
                format!("{} in {} ms", figures::size(size), figures::digits(time * 1e3))
            }
            (None, Some(size)) => format!("{}: {}", figures::size(size), state(flow)),
            (_, None) => format!("bulk: {}", state(flow)),
        };
        table.row(vec![
            flow.scheduler.clone(),
            flow.flow.clone(),
            format!("{:.3}", flow.start_s),
            words(flow).unwrap_or_else(transfer),
            figures::digits(flow.goodput_bps as f64 / 1e6),
            gap(flow),
            figures::about(flow.retransmitted_ratio * 100.0),
            flow.rto_count.to_string(),
            flow.bytes_by_path.iter().map(kilobytes).collect::<Vec<_>>().join("/"),
        ]);
    }
    text.push_str(&table.render(terminal::width()));
    text
}
