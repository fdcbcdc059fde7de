//! One line on standard error for each thing that happens to a connection.

use std::io::Write;

use anabranch_net::{ConnectionReport, Notice};
use anabranch_stack::event::CloseReason;
use anabranch_stack::stats::SubflowStats;
use anabranch_units::Bytes;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::Instant;

/// Writes the log.
#[derive(Clone, Copy)]
pub struct Log {
    begun: Instant,
    quiet: bool,
}

impl Log {
    /// Times count from now.
    pub fn new(quiet: bool) -> Log {
        Log { begun: Instant::now(), quiet }
    }

    /// A line about a connection.
    pub fn line(&self, number: u64, text: &str) {
        if !self.quiet {
            let seconds = self.begun.elapsed().as_secs_f64();
            // Nobody may be reading it, which is no reason to end.
            let _ = writeln!(std::io::stderr().lock(), "{seconds:9.3}  #{number:<4}  {text}");
        }
    }

    /// A line about all connections.
    pub fn general(&self, text: &str) {
        if !self.quiet {
            let seconds = self.begun.elapsed().as_secs_f64();
            let _ = writeln!(std::io::stderr().lock(), "{seconds:9.3}  {text}");
        }
    }

    /// Writes what `notices` say until there are no more.
    pub async fn follow(self, mut notices: UnboundedReceiver<Notice>) {
        while let Some(notice) = notices.recv().await {
            match notice {
                Notice::Opened { number, local, remote, accepted } => {
                    let verb = if accepted { "from" } else { "to" };
                    self.line(number, &format!("open {verb} {remote} at {local}"));
                }
                Notice::SubflowUp { number, stats } => {
                    self.line(
                        number,
                        &format!("subflow {} up: {} - {}", stats.id.0, stats.local, stats.remote),
                    );
                }
                Notice::SubflowDown { number, stats } => {
                    self.line(
                        number,
                        &format!("subflow {} down: {} - {}", stats.id.0, stats.local, stats.remote),
                    );
                }
                Notice::Closed(report) => self.closed(&report),
            }
        }
    }

    fn closed(&self, report: &ConnectionReport) {
        let seconds = report.closed.since(report.opened).as_secs_f64();
        let sent = report.stats.data_acked;
        let received = report.stats.received;
        let reason = reason(report.reason);
        let text =
            format!("{reason} after {seconds:.3} s: sent {}, received {}", Bytes(sent), Bytes(received));
        self.line(report.number, &text);
        for subflow in &report.subflows {
            self.line(report.number, &format!("  {}", carried(subflow)));
        }
    }
}

fn carried(subflow: &SubflowStats) -> String {
    let counters = &subflow.counters;
    let rtt = subflow.srtt.map_or("no RTT sample".to_owned(), |srtt| format!("RTT {srtt}"));
    let mut text = format!(
        "subflow {}: {} - {}: sent {}, received {}, {rtt}",
        subflow.id.0,
        subflow.local,
        subflow.remote,
        Bytes(counters.bytes_sent),
        Bytes(counters.bytes_delivered)
    );
    if counters.segments_retransmitted > 0 {
        text.push_str(&format!(", {} segments again", counters.segments_retransmitted));
    }
    text
}

/// How a connection has ended, in a word.
pub fn reason(reason: CloseReason) -> &'static str {
    match reason {
        CloseReason::Finished => "done",
        CloseReason::Aborted => "aborted here",
        CloseReason::Reset => "reset by the peer",
        CloseReason::Refused => "refused",
        CloseReason::TimedOut => "timed out",
        CloseReason::NoSubflow => "lost every subflow",
    }
}
