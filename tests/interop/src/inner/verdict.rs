//! The checks of a cell.

use std::fmt::Write as _;
use std::io::ErrorKind;

use anabranch_stack::event::CloseReason;

use super::{Ended, Evidence, Outcome, Report};
use crate::cell::{Cell, Joins, Load, Side, Situation};
use crate::content;
use crate::counters::Counters;

/// Counters that are 0 unless something has gone wrong, or was intended. A name that ends in `*` matches
/// every name with that prefix.
///
/// `MPRstTx` is not among them: a retransmission that arrives after both streams are complete, on a subflow
/// that the kernel has closed by then, is answered by a reset, as in every TCP. A subflow that ends too early
/// is checked separately. Nor is `SubflowStale`, which a slow machine can cause; nor `NoDSSInWindow` and
/// `AddAddrDrop`, which have their own rules.
const QUIET: &[&str] = &[
    "MPCapableFallback*",
    "MPCapableSYNTXDrop",
    "MPCapableSYNTXDisabled",
    "MPCapableDataFallback",
    "MPFallbackTokenInit",
    "MD5SigFallback",
    "SimultConnectFallback",
    "DssFallback",
    "FallbackFailed",
    "Blackhole",
    "DSSNotMatching",
    "DSSNoMatchTCP",
    "DSSCorruption*",
    "InfiniteMap*",
    "DataCsumErr",
    "MPFail*",
    "MPJoinNoTokenFound",
    "MPJoinSynAckHMacFailure",
    "MPJoinAckHMacFailure",
    "MPJoinRejected",
    "MPJoinSynTxCreatSkErr",
    "MPJoinSynTxBindErr",
    "MPJoinSynTxConnectErr",
    "Mismatch*",
    "AddAddrTxDrop",
    "EchoAddTxDrop",
    "RmAddr*",
    "RmSubflow",
    "MPPrio*",
    "MPFastclose*",
    "RcvPruned",
];

/// The number of times that a data level may have waited if the kernel has dropped something: once for that,
/// and on a slow machine once for a data acknowledgement that was about to arrive.
const WAITS: u64 = 2;

/// Returns the counters of [`QUIET`] that `situation` is expected to increase.
fn loud(cell: &Cell) -> &'static [&'static str] {
    use Situation as S;
    match cell.situation {
        S::AnabranchRemoves | S::KernelRemoves => &["RmAddr*", "RmSubflow"],
        S::AnabranchPrio | S::KernelPrio => &["MPPrio*"],
        S::SubflowReset => &["RmSubflow"],
        S::AnabranchFastClose | S::KernelFastClose => &["MPFastclose*"],
        S::StripSyn | S::StripSynAck => &["MPCapableFallback*"],
        S::StripAfterSyns => &["MPCapableFallback*", "MPCapableDataFallback"],
        S::StripData => {
            &["MPCapableFallback*", "MPCapableDataFallback", "DssFallback", "DSSCorruptionFallback"]
        }
        S::AlterPayload => &["DataCsumErr", "MPFail*", "RmSubflow", "DSSCorruptionReset"],
        // At its end iperf3 discards unread data.
        S::Iperf3 => &["MPFastclose*"],
        _ => &[],
    }
}

fn matches(pattern: &str, name: &str) -> bool {
    pattern.strip_suffix('*').map_or(pattern == name, |start| name.starts_with(start))
}

/// Returns the counters that should be 0 and are not.
pub fn noises(cell: &Cell, counters: &Counters) -> Vec<String> {
    let is_in = |patterns: &[&str], name: &str| patterns.iter().any(|pattern| matches(pattern, name));
    let loud = loud(cell);
    let wrong = counters.mptcp_nonzero().filter(|(name, _)| is_in(QUIET, name) && !is_in(loud, name));
    let mut noises: Vec<_> = wrong.map(|(name, value)| format!("{name} is {value}, meant 0")).collect();
    // An announcement that a slow kernel has not echoed within a second is repeated, and dropped if the first
    // is still being processed. But each has been accepted once.
    let (came, dropped) = (counters.mptcp("AddAddr"), counters.mptcp("AddAddrDrop"));
    let meant = if cell.joins == Joins::KernelAnnounced { cell.paths.count() as u64 - 1 } else { 0 };
    if dropped > 0 && came < meant + dropped {
        noises.push(format!("AddAddrDrop is {dropped}, of {came} announcements, {meant} meant"));
    }
    noises
}

/// Judges a transfer, including the failures noted during it.
pub fn judge(cell: &Cell, evidence: &Evidence, noted: Vec<String>) -> Outcome {
    let mut judge = Judge { cell, evidence, failures: noted };
    judge.streams();
    judge.ends();
    judge.quiet();
    judge.joins();
    judge.paths();
    judge.situation();
    let failures = judge.failures;
    Outcome { failures, seen: seen(cell, evidence), details: details(evidence) }
}

struct Judge<'a> {
    cell: &'a Cell,
    evidence: &'a Evidence,
    failures: Vec<String>,
}

impl Judge<'_> {
    fn require(&mut self, right: bool, failure: impl FnOnce() -> String) {
        if !right {
            self.failures.push(failure());
        }
    }

    /// Checks that the counter `name` is in `range`.
    fn counter(&mut self, name: &str, range: impl std::ops::RangeBounds<u64> + std::fmt::Debug) {
        let value = self.evidence.counters.mptcp(name);
        self.require(range.contains(&value), || format!("{name} is {value}, meant {range:?}"));
    }

    const fn aborted(&self) -> bool {
        matches!(self.cell.situation, Situation::AnabranchFastClose | Situation::KernelFastClose)
    }

    const fn is_plain_tcp(&self) -> bool {
        use Situation as S;
        matches!(self.cell.situation, S::StripSyn | S::StripSynAck | S::StripAfterSyns | S::StripData)
    }

    fn report(&self, side: Side) -> &Report {
        match side {
            Side::Kernel => &self.evidence.kernel,
            Side::Anabranch => &self.evidence.anabranch,
        }
    }

    /// Checks that each side has received exactly the bytes that the other has sent.
    fn streams(&mut self) {
        if self.aborted() {
            return;
        }
        for &side in Side::ALL {
            let sender = side.other();
            let meant = if self.cell.sends(sender) { self.cell.load.bytes() } else { 0 };
            let report = self.report(side).clone();
            self.require(report.received == meant, || {
                format!("{side} has received {} bytes of {meant}", report.received)
            });
            let digest = content::digest(super::anabranch::seed(sender), meant);
            self.require(report.received != meant || report.digest == digest, || {
                format!("{side} has received {meant} bytes with another SHA-256")
            });
        }
    }

    /// Checks that both sides have seen the end of the stream, or both the abort.
    fn ends(&mut self) {
        for &side in Side::ALL {
            let report = self.report(side).clone();
            if !self.aborted() {
                self.require(report.read == Ended::Eof, || format!("{side} read: {:?}", report.read));
                self.require(report.written == Ended::Eof, || format!("{side} wrote: {:?}", report.written));
            }
        }
        let reason = self.evidence.reason;
        if self.cell.situation == Situation::Blackhole && reason.is_none() {
            return;
        }
        let meant = match self.cell.situation {
            Situation::AnabranchFastClose => CloseReason::Aborted,
            Situation::KernelFastClose => CloseReason::Reset,
            _ => CloseReason::Finished,
        };
        self.require(reason == Some(meant), || {
            format!("anabranch's connection has ended with {reason:?}, meant {meant:?}")
        });
        let csum = self.evidence.counters.get("TcpInCsumErrors");
        self.require(csum == 0, || format!("TcpInCsumErrors is {csum}"));
        if self.cell.situation != Situation::Blackhole {
            self.counter("MPCurrEstab", 0..=0);
        }
    }

    fn quiet(&mut self) {
        self.failures.extend(noises(self.cell, &self.evidence.counters));
        let refused = self.evidence.refused;
        self.require(refused == 0, || {
            format!("the kernel has sent {refused} bytes behind anabranch's window")
        });
        // Until the kernel has sent its first DSS it has no window at the data level, and drops out-of-order
        // data, although the window that it has advertised would admit it (seen in a capture). However much
        // that is, anabranch waits for it once: the rest follows without a timer. Nothing else is dropped.
        let dropped = self.evidence.counters.mptcp("NoDSSInWindow");
        let waits = self.evidence.head_timeouts;
        self.require(dropped == 0 || waits <= WAITS, || {
            format!("NoDSSInWindow is {dropped}, and the data level has waited {waits} times for it")
        });
    }

    /// Checks the number of subflows, and the opener of each.
    fn joins(&mut self) {
        if self.is_plain_tcp() {
            return;
        }
        // If a SYN or its answer was lost, the SYN is repeated.
        let received = |n: u64| if self.cell.load == Load::Lossy { n..=n + 20 } else { n..=n };
        let one = received(1);
        match self.cell.client {
            Side::Kernel => {
                self.counter("MPCapableSYNTX", 1..=1);
                self.counter("MPCapableSYNACKRX", 1..=1);
            }
            Side::Anabranch => {
                self.counter("MPCapableSYNRX", one);
                self.counter("MPCapableACKRX", 1..=1);
            }
        }
        let joins = self.cell.subflows() as u64 - 1;
        let (by_kernel, by_anabranch) = match self.cell.joiner() {
            None => (0, 0),
            Some(Side::Kernel) => (joins, 0),
            Some(Side::Anabranch) => (0, joins),
        };
        // A client of this stack joins again a second after its subflow was reset.
        let again = u64::from(by_anabranch > 0 && self.cell.situation == Situation::SubflowReset);
        let meant = if self.cell.load == Load::Lossy {
            by_anabranch..=by_anabranch + 20
        } else {
            by_anabranch..=by_anabranch + again
        };
        self.counter("MPJoinSynTx", by_kernel..=by_kernel);
        self.counter("MPJoinSynAckRx", by_kernel..=by_kernel);
        self.counter("MPJoinSynRx", meant);
        self.counter("MPJoinAckRx", by_anabranch..=by_anabranch + again);
        let announced = self.cell.paths.count() as u64 - 1;
        match self.cell.joins {
            Joins::KernelAnnounced => {
                self.counter("AddAddr", announced..);
                self.counter("EchoAddTx", announced..);
            }
            Joins::AnabranchAnnounced => {
                self.counter("AddAddrTx", announced..);
                self.counter("EchoAdd", announced..);
            }
            _ => {}
        }
    }

    /// Checks that every path has carried its share.
    fn paths(&mut self) {
        let carried = self.evidence.carried(self.cell);
        let (sent, delivered) = carried.values().fold((0, 0), |sum, (sent, got)| (sum.0 + sent, sum.1 + got));
        if self.aborted() {
            return;
        }
        let bytes = self.cell.load.bytes();
        self.require(!self.cell.sends(Side::Anabranch) || sent >= bytes, || {
            format!("the subflows have sent {sent} bytes of {bytes}")
        });
        self.require(!self.cell.sends(Side::Kernel) || delivered >= bytes, || {
            format!("the subflows have delivered {delivered} bytes of {bytes}")
        });
        let paths = self.cell.paths.count();
        self.require(carried.len() == paths, || format!("{} paths were used of {paths}", carried.len()));
        let backup = matches!(self.cell.situation, Situation::AnabranchBackup | Situation::KernelBackup);
        for (at, (ip, (sent, got))) in carried.into_iter().enumerate() {
            if backup {
                // Linux uses the backup if it considers the other path stale: if its own timers have expired
                // there, as on a slow machine.
                let stale = self.evidence.counters.mptcp("SubflowStale") > 0;
                self.require(at == 0 || sent == 0 && (got == 0 || stale), || {
                    format!("the backup {ip} has carried {sent} bytes and {got} back")
                });
            } else if self.cell.load != Load::Byte {
                self.require(!self.cell.sends(Side::Anabranch) || sent > 0, || {
                    format!("anabranch has sent nothing by {ip}")
                });
                self.require(!self.cell.sends(Side::Kernel) || got > 0, || {
                    format!("the kernel has sent nothing by {ip}")
                });
            }
        }
    }

    /// Checks the situation's own conditions.
    fn situation(&mut self) {
        use Situation as S;
        let kernel_is_client = self.cell.client == Side::Kernel;
        match self.cell.situation {
            S::AnabranchRemoves => {
                self.counter("RmAddr", 1..);
                self.ended_early(1);
            }
            S::KernelRemoves => {
                self.counter("RmAddrTx", 1..);
                // Every subflow at that address.
                self.ended_early(if self.cell.joins == Joins::AnabranchAnnounced { 2 } else { 1 });
            }
            S::AnabranchBackup | S::KernelBackup => {
                let name = match (self.cell.situation, self.cell.joiner()) {
                    (S::AnabranchBackup, Some(Side::Anabranch)) => "MPJoinSynBackupRx",
                    (S::AnabranchBackup, _) => "MPJoinSynAckBackupRx",
                    _ => return,
                };
                self.counter(name, 1..=1);
            }
            S::Blackhole => {
                let [_, (sent, got)] = self.evidence.carried(self.cell).into_values().collect::<Vec<_>>()[..]
                else {
                    return;
                };
                let bytes = self.cell.load.bytes();
                self.require(sent + got < bytes / 3, || format!("the hole was given {} bytes", sent + got));
            }
            // Received by the listener of the kernel's path manager.
            S::ServerJoins => self.counter("MPJoinPortSynRx", 1..=1),
            S::AnabranchPrio => self.counter("MPPrioRx", 1..),
            S::KernelPrio => self.counter("MPPrioTx", 1..),
            S::SubflowReset => self.ended_early(1),
            S::AnabranchFastClose => {
                self.counter("MPFastcloseRx", 1..);
                let kernel = self.evidence.kernel.clone();
                self.require(is_reset(&kernel), || format!("the kernel's program saw {kernel:?}, no reset"));
            }
            S::KernelFastClose => {
                self.counter("MPFastcloseTx", 1..);
                let ours = self.evidence.anabranch.clone();
                self.require(is_reset(&ours), || format!("anabranch's program saw {ours:?}, no reset"));
            }
            S::StripSyn | S::StripSynAck if kernel_is_client => {
                self.counter("MPCapableFallbackSYNACK", 1..=1)
            }
            S::StripSyn => {
                self.counter("MPCapableSYNRX", 0..=0);
                self.counter("MPCapableFallbackACK", 0..=0);
            }
            S::StripAfterSyns if kernel_is_client => self.counter("MPCapableDataFallback", 1..=1),
            S::StripSynAck | S::StripAfterSyns => self.counter("MPCapableFallbackACK", 1..=1),
            S::StripData => {
                let names =
                    ["MPCapableDataFallback", "DssFallback", "MPCapableFallbackACK", "DSSCorruptionFallback"];
                let sum: u64 = names.iter().map(|name| self.evidence.counters.mptcp(name)).sum();
                self.require(sum == 1, || format!("the kernel counts {sum} fallbacks, meant 1"));
            }
            S::AlterPayload => {
                let changed = self.evidence.changed;
                self.require(changed > 0, || "no segment was altered".to_owned());
                if self.cell.sends(Side::Anabranch) {
                    self.counter("DataCsumErr", 1..);
                    self.counter("MPFailTx", 1..);
                } else {
                    self.counter("DataCsumErr", 0..=0);
                    self.counter("MPFailRx", 1..);
                }
                self.ended_early(1);
            }
            _ => {}
        }
        let ends_early = matches!(
            self.cell.situation,
            S::AnabranchRemoves
                | S::KernelRemoves
                | S::SubflowReset
                | S::AlterPayload
                | S::Blackhole
                | S::AnabranchFastClose
                | S::KernelFastClose
        );
        if !ends_early {
            self.ended_early(0);
        }
    }

    /// Checks that `count` subflows have ended before the streams were complete.
    fn ended_early(&mut self, count: usize) {
        let margin = anabranch_units::Duration::from_millis(50);
        let complete = self.evidence.complete;
        let ends = self.evidence.subflows.iter().filter_map(|subflow| subflow.ended);
        let early = ends.filter(|end| *end + margin < complete).count();
        self.require(early == count, || format!("{early} subflows have ended early, meant {count}"));
    }
}

/// True if the program's connection was reset.
fn is_reset(report: &Report) -> bool {
    let reset =
        |ended: &Ended| matches!(ended, Ended::Error(ErrorKind::ConnectionReset | ErrorKind::BrokenPipe, _));
    reset(&report.read) || reset(&report.written)
}

fn megabytes(bytes: u64) -> String {
    if bytes < 10_000 { format!("{bytes} B") } else { format!("{:.1} MB", bytes as f64 / 1e6) }
}

fn seen(cell: &Cell, evidence: &Evidence) -> String {
    let mut text = format!("{} subflows", evidence.subflows.len());
    let counters = &evidence.counters;
    let joins = counters.mptcp("MPJoinSynAckRx") + counters.mptcp("MPJoinAckRx");
    let _ = write!(text, ", {joins} joins;");
    for (sent, got) in evidence.carried(cell).into_values() {
        let sum = sent + got;
        let _ = write!(text, " {}", megabytes(sum));
    }
    let reason =
        evidence.reason.map_or("not ended".to_owned(), |reason| format!("{reason:?}").to_lowercase());
    let _ = write!(text, "; {reason}; {:.1} s", evidence.elapsed.as_secs_f64());
    text
}

fn details(evidence: &Evidence) -> std::collections::BTreeMap<String, String> {
    let mut details = std::collections::BTreeMap::new();
    let counters: Vec<String> =
        evidence.counters.mptcp_nonzero().map(|(name, value)| format!("{name} {value}")).collect();
    details.insert("counters".to_owned(), counters.join(", "));
    details.insert("kernel".to_owned(), format!("{:?}", evidence.kernel));
    details.insert("anabranch".to_owned(), format!("{:?}", evidence.anabranch));
    for (at, subflow) in evidence.subflows.iter().enumerate() {
        details.insert(format!("subflow {at}"), format!("{subflow:?}"));
    }
    details
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_all_that_start_so() {
        assert!(matches("MPFail*", "MPFailRx") && matches("Blackhole", "Blackhole"));
        assert!(!matches("MPFail*", "MPRstRx") && !matches("RcvPruned", "RcvPrunedX"));
    }
}
