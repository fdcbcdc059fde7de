//! Remarks for a capture on the segments that a host sends: the scheduler's reason, and the bytes of the
//! stream that they carry.

use core::fmt::Write as _;
use std::collections::{BTreeMap, VecDeque};

use anabranch_stack::event::{ConnectionId, SubflowId};
use anabranch_stack::observer::SendKind;
use anabranch_stack::scheduler::{AssignKind, Decision, Rule, Why};
use anabranch_stack::seq::DataRange;

/// A range assigned to a subflow, and the reason.
type Assigned = (DataRange, AssignKind, Why);

/// Turns the observations of one host into a remark on each segment that it sends.
#[derive(Clone, Debug, Default)]
pub struct Remarks {
    /// The ranges assigned to each subflow and not yet sent, in the order of its queue.
    assigned: BTreeMap<(ConnectionId, SubflowId), VecDeque<Assigned>>,
    /// The remark on the last segment sent, and the part of the stream that has not been taken.
    next: String,
    data: DataRange,
}

impl Remarks {
    /// Records a decision of the scheduler of `connection`.
    pub fn on_decision(&mut self, connection: ConnectionId, decision: &Decision) {
        if let Decision::Assign { subflow, range, kind, why } = *decision {
            self.assigned.entry((connection, subflow)).or_default().push_back((range, kind, why));
        }
    }

    /// Records that a segment with this part of the stream is sent.
    pub fn on_sent(&mut self, connection: ConnectionId, subflow: SubflowId, kind: SendKind, data: DataRange) {
        self.next.clear();
        self.data = data;
        if data.is_empty() {
            return;
        }
        // A retransmission was assigned earlier.
        let reason = match kind {
            SendKind::Retransmission => None,
            _ => self.reason((connection, subflow), data),
        };
        let out = &mut self.next;
        match (kind, reason) {
            (SendKind::Retransmission, _) => out.push_str("retransmission"),
            (SendKind::Probe, None) => out.push_str("probe"),
            // With only one subflow the scheduler is not called.
            (_, None) if kind == SendKind::New => out.push_str("new data: the only subflow"),
            (_, None) => out.push_str("reinjected"),
            (_, Some((assigned, why))) => {
                out.push_str(if kind == SendKind::Probe { "probe, " } else { "" });
                describe(assigned, why, out);
            }
        }
    }

    /// Appends to `into` the remark on the next `len` bytes of payload of the last segment sent: all of it,
    /// or one of the segments that it was split into. Appends nothing if everything was taken already or
    /// there is no remark.
    pub fn take(&mut self, len: u64, into: &mut String) {
        into.clear();
        let part = DataRange::new(self.data.start, self.data.end.min(self.data.start + len));
        if part.is_empty() || self.next.is_empty() {
            return;
        }
        self.data.start = part.end;
        into.push_str(&self.next);
        let _ = write!(into, "; stream {}..{}", part.start, part.end);
    }

    /// Discards the remark: the next packet is not the segment that was recorded last.
    pub fn discard(&mut self) {
        self.next.clear();
        self.data = DataRange::default();
    }

    /// Removes all state of a connection that has ended.
    pub fn forget(&mut self, connection: ConnectionId) {
        let of = |subflow| (connection, SubflowId(subflow));
        while let Some((&key, _)) = self.assigned.range(of(u8::MIN)..=of(u8::MAX)).next() {
            self.assigned.remove(&key);
        }
    }

    /// Returns the reason that this data is sent on that subflow.
    fn reason(&mut self, key: (ConnectionId, SubflowId), data: DataRange) -> Option<(AssignKind, Why)> {
        let queue = self.assigned.get_mut(&key)?;
        // A queue is first in, first out; a skipped range was taken back or became redundant.
        let at = queue.iter().position(|(range, ..)| (range.start..range.end).contains(&data.start))?;
        queue.drain(..at);
        let (range, kind, why) = queue.front_mut()?;
        range.start = data.end;
        let found = (*kind, *why);
        if range.is_empty() {
            queue.pop_front();
        }
        Some(found)
    }
}

/// Writes the reason of an assignment in words.
fn describe(kind: AssignKind, why: Why, out: &mut String) {
    out.push_str(match kind {
        AssignKind::New => "new data",
        AssignKind::Copy => "copy",
        AssignKind::Reinject => "reinjected",
    });
    out.push_str(": ");
    let _ = match why.rule {
        Rule::LowestRtt if why.score.is_finite() => write!(out, "lowest RTT, {:.3} ms", why.score * 1e3),
        Rule::LowestRtt => write!(out, "lowest RTT"),
        Rule::Turn => write!(out, "its turn"),
        Rule::EverySubflow => write!(out, "every subflow carries the whole stream"),
        Rule::Reinjection => write!(out, "its subflow has failed"),
        Rule::Opportunistic => write!(out, "blocks the receive window"),
        Rule::Linger => write!(out, "shortest linger time, {:.3} ms", why.score * 1e3),
        Rule::Weight => write!(out, "its share"),
        Rule::HighestRate => write!(out, "highest sending rate, {:.0} bytes/s", why.score),
        Rule::LargestSpace => write!(out, "largest window space, {} segments", why.score),
        Rule::LeastTimePerSpace => write!(out, "lowest RTT over window space, {:.3} ms", why.score * 1e3),
        Rule::EarliestArrival => write!(out, "earliest arrival, in {:.3} ms", why.score * 1e3),
        Rule::Schedule => write!(out, "its turn at {} of {} ms", why.score, why.other),
        Rule::PathProbe => write!(out, "probe of a paused path"),
        Rule::Gap => write!(out, "{} segments ahead, for arrival in order", why.score),
        Rule::Priority => write!(out, "first by priority"),
        Rule::Tail => write!(out, "the end of the flow, {:.3} ms sooner", (why.other - why.score) * 1e3),
        Rule::Custom(number) => write!(out, "rule {number}, score {}", why.score),
        // The other rules explain why nothing is sent.
        rule => write!(out, "{rule:?}"),
    };
    if why.rule == Rule::LowestRtt && why.other.is_finite() {
        let _ = write!(out, " (the next best {:.3} ms)", why.other * 1e3);
    }
}
