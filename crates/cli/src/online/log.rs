//! Logs the events of connections on standard error, one line each.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::time::Duration;

use anabranch_net::{ConnectionReport, Notice};
use anabranch_stack::event::CloseReason;
use anabranch_stack::stats::{ConnectionStats, SubflowStats};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::Instant;

use super::fallback::Fallback;
use crate::output::{size, span};
use crate::visible;

/// The time limit for writing the last lines at the end.
const PATIENCE: Duration = Duration::from_millis(250);
/// The number of lines that may wait for a slow reader.
const QUEUE: usize = 4096;

/// Writes the log. A separate thread does it, so that a slow reader delays nothing: lines that find the queue
/// full are dropped and counted.
#[derive(Clone)]
pub(crate) struct Log {
    begun: Instant,
    quiet: bool,
    lines: SyncSender<Entry>,
    dropped: Arc<AtomicU64>,
}

enum Entry {
    Line(String),
    /// Signals that all lines before this have been written.
    End(SyncSender<()>),
}

impl Log {
    /// Returns a log on standard error. Times count from now.
    pub(crate) fn new(quiet: bool) -> Log {
        Log::to(quiet, std::io::stderr(), lost_text)
    }

    /// Returns a log on standard error of objects of JSON.
    pub(crate) fn of_json() -> Log {
        Log::to(false, std::io::stderr(), lost_json)
    }

    /// `lost_line` makes the line about a number of lost lines.
    fn to(quiet: bool, mut out: impl Write + Send + 'static, lost_line: fn(u64) -> String) -> Log {
        let (lines, entries) = sync_channel(QUEUE);
        let dropped: Arc<AtomicU64> = Arc::default();
        let lost = Arc::clone(&dropped);
        let write = move || {
            while let Ok(entry) = entries.recv() {
                let lost = lost.swap(0, Ordering::Relaxed);
                // A missing reader is not a reason to end.
                if lost > 0 {
                    let _ = out.write_all(lost_line(lost).as_bytes());
                }
                match entry {
                    Entry::Line(line) => drop(out.write_all(line.as_bytes())),
                    Entry::End(done) => drop(done.send(())),
                }
            }
        };
        // Without a thread there is no log.
        let _ = std::thread::Builder::new().name("log".to_owned()).spawn(write);
        Log { begun: Instant::now(), quiet, lines, dropped }
    }

    /// Writes a line even if events of connections are not logged.
    pub(crate) fn say(&self, text: &str) {
        // A peer may choose a part of it, such as the name of a file.
        self.put(format!("{}\n", visible::line(text)));
    }

    /// Writes an object of JSON, on one line.
    pub(crate) fn json(&self, text: &str) {
        self.put(format!("{}\n", visible::json(text)));
    }

    fn put(&self, line: String) {
        if let Err(TrySendError::Full(_)) = self.lines.try_send(Entry::Line(line)) {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Writes a line about a connection.
    pub(crate) fn line(&self, number: u64, text: &str) {
        if !self.quiet {
            let seconds = self.begun.elapsed().as_secs_f64();
            self.say(&format!("{seconds:9.3}  #{number:<4}  {text}"));
        }
    }

    /// Writes a line about all connections.
    pub(crate) fn general(&self, text: &str) {
        if !self.quiet {
            let seconds = self.begun.elapsed().as_secs_f64();
            self.say(&format!("{seconds:9.3}  {text}"));
        }
    }

    /// Waits briefly until all lines are written.
    pub(crate) fn end(&self) {
        let (done, written) = sync_channel(1);
        let deadline = std::time::Instant::now() + PATIENCE;
        let mut entry = Entry::End(done);
        while let Err(TrySendError::Full(back)) = self.lines.try_send(entry) {
            if std::time::Instant::now() >= deadline {
                return;
            }
            entry = back;
            std::thread::sleep(PATIENCE / 50);
        }
        let _ = written.recv_timeout(PATIENCE);
    }

    /// Logs `notices` until their end.
    pub(crate) async fn follow(self, mut notices: UnboundedReceiver<Notice>) {
        while let Some(notice) = notices.recv().await {
            match notice {
                Notice::Opened { number, local, remote, accepted, mptcp } => {
                    let verb = if accepted { "from" } else { "to" };
                    let plain = match mptcp {
                        true => String::new(),
                        false => format!(", {}", plain(accepted).sentence()),
                    };
                    self.line(number, &format!("open {verb} {remote} at {local}{plain}"));
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
            format!("{reason} after {}: sent {}, received {}", span(seconds), size(sent), size(received));
        self.line(report.number, &text);
        if report.stats.fallbacks > 0
            && let Some(fallback) = Fallback::of(0, &report.stats, true)
        {
            self.line(report.number, &fallback.sentence());
        }
        for subflow in &report.subflows {
            self.line(report.number, &format!("  {}", carried(subflow)));
        }
    }
}

fn lost_text(lost: u64) -> String {
    format!("({lost} lines were lost, because the reader was too slow)\n")
}

fn lost_json(lost: u64) -> String {
    format!(
        "{{\"level\":\"WARN\",\"message\":\"{lost} lines were lost, because the reader was too slow\"}}\n"
    )
}

/// Returns the fallback of a connection that was plain TCP from the handshake on.
fn plain(accepted: bool) -> Fallback {
    let stats = ConnectionStats::default();
    Fallback::of(0, &stats, accepted).unwrap_or_else(|| Fallback::of_kernel(0))
}

fn carried(subflow: &SubflowStats) -> String {
    let counters = &subflow.counters;
    let rtt = subflow.srtt.map(|srtt| format!("RTT {}", span(srtt.as_secs_f64())));
    let rtt = rtt.unwrap_or_else(|| "no RTT sample".to_owned());
    let mut text = format!(
        "subflow {}: {} - {}: sent {}, received {}, {rtt}",
        subflow.id.0,
        subflow.local,
        subflow.remote,
        size(counters.bytes_sent),
        size(counters.bytes_delivered)
    );
    if counters.segments_retransmitted > 0 {
        text.push_str(&format!(", {} segments again", counters.segments_retransmitted));
    }
    text
}

/// Returns the end of a connection in a word.
pub(crate) fn reason(reason: CloseReason) -> &'static str {
    match reason {
        CloseReason::Finished => "done",
        CloseReason::Aborted => "aborted here",
        CloseReason::Reset => "reset by the peer",
        CloseReason::Refused => "refused",
        CloseReason::TimedOut => "timed out",
        CloseReason::NoSubflow => "lost every subflow",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn a_log_that_nobody_reads_holds_nobody_up_and_says_what_was_lost() {
        let (mut reader, writer) = std::io::pipe().unwrap();
        let log = Log::to(false, writer, lost_text);
        let text = "x".repeat(200);
        // Far more than the pipe and the queue hold.
        for number in 0..20_000 {
            log.line(number, &text);
        }
        log.end();
        let reading = std::thread::spawn(move || {
            let mut all = String::new();
            reader.read_to_string(&mut all).unwrap();
            all
        });
        log.end();
        log.say("the last");
        log.end();
        drop(log);
        let all = reading.join().unwrap();
        // One notice if the writing thread was fast; another before it if it was late.
        let lost = all.lines().filter_map(|line| {
            let rest = line.strip_suffix(" lines were lost, because the reader was too slow)")?;
            rest.strip_prefix('(')?.parse::<u64>().ok()
        });
        let lines = all.lines().filter(|line| line.contains('#')).count() as u64;
        let lost = lost.sum::<u64>();
        assert!(lost > 10_000, "{lost}");
        assert_eq!(lost, 20_000 - lines);
        assert!(all.ends_with("the last\n"));
    }
}
