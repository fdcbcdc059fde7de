//! The data carried by each subflow, as a table and as JSON.

use anabranch_stack::stats::SubflowStats;
use serde::Serialize;

use crate::output;
use crate::table::{Align, Table};

/// A subflow in JSON.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Subflow {
    subflow: u8,
    local: String,
    remote: String,
    sent_bytes: u64,
    received_bytes: u64,
    retransmitted_segments: u64,
    lost_segments: u64,
    srtt_s: Option<f64>,
    min_rtt_s: Option<f64>,
    cwnd_bytes: u64,
    alive: bool,
}

impl From<&SubflowStats> for Subflow {
    fn from(stats: &SubflowStats) -> Subflow {
        let counters = &stats.counters;
        Subflow {
            subflow: stats.id.0,
            local: stats.local.to_string(),
            remote: stats.remote.to_string(),
            sent_bytes: counters.bytes_sent,
            received_bytes: counters.bytes_delivered,
            retransmitted_segments: counters.segments_retransmitted,
            lost_segments: counters.segments_lost,
            srtt_s: stats.srtt.map(|srtt| srtt.as_secs_f64()),
            min_rtt_s: stats.min_rtt.map(|rtt| rtt.as_secs_f64()),
            cwnd_bytes: stats.cwnd_bytes,
            alive: stats.ended.is_none(),
        }
    }
}

impl Subflow {
    /// Returns its counters since `before`, with the present RTT and window.
    pub(crate) fn since(now: &SubflowStats, before: Option<&SubflowStats>) -> Subflow {
        let mut part = Subflow::from(now);
        if let Some(before) = before {
            let before = Subflow::from(before);
            part.sent_bytes -= before.sent_bytes;
            part.received_bytes -= before.received_bytes;
            part.retransmitted_segments -= before.retransmitted_segments;
            part.lost_segments -= before.lost_segments;
        }
        part
    }

    /// Returns one line on its data in `seconds`.
    pub(crate) fn line(&self, connection: usize, seconds: f64) -> String {
        let rate = (self.sent_bytes + self.received_bytes) as f64 * 8.0 / seconds.max(1e-9);
        let mut line = format!(
            "{connection}.{}  {} - {}  sent {}, received {}, {}",
            self.subflow,
            self.local,
            self.remote,
            output::size(self.sent_bytes),
            output::size(self.received_bytes),
            output::rate(rate),
        );
        if let Some(srtt) = self.srtt_s {
            line.push_str(&format!(", RTT {}", output::span(srtt)));
        }
        if self.sent_bytes > 0 {
            line.push_str(&format!(", window {}", output::size(self.cwnd_bytes)));
        }
        if self.retransmitted_segments > 0 {
            line.push_str(&format!(", {} again", self.retransmitted_segments));
        }
        line
    }
}

/// Returns a table of subflows, at most `width` wide.
pub(crate) fn subflows(all: &[SubflowStats], width: usize) -> String {
    let mut table = Table::new()
        .column("subflow", Align::Right)
        .column("local", Align::Left)
        .column("remote", Align::Left)
        .column("sent", Align::Right)
        .column("received", Align::Right)
        .optional("share", Align::Right, 3)
        .optional("again", Align::Right, 1)
        .optional("RTT", Align::Right, 2);
    let carried = |s: &SubflowStats| s.counters.bytes_sent + s.counters.bytes_delivered;
    let total: u64 = all.iter().map(carried).sum();
    for stats in all {
        let share = if total > 0 { 100.0 * carried(stats) as f64 / total as f64 } else { 0.0 };
        table.row(vec![
            stats.id.0.to_string(),
            stats.local.to_string(),
            stats.remote.to_string(),
            output::size(stats.counters.bytes_sent),
            output::size(stats.counters.bytes_delivered),
            format!("{} %", output::percent(share)),
            stats.counters.segments_retransmitted.to_string(),
            stats.srtt.map_or("-".to_owned(), |srtt| output::span(srtt.as_secs_f64())),
        ]);
    }
    table.render(width)
}
