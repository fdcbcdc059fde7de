//! Reinjection: data of a subflow that has potentially failed or ended, and the head of the stream.

use anabranch_units::Time;

use super::head_repair::{Head, HeadTimeout, head};
use super::send_state::SendState;
use super::{Connection, Mode};
use crate::config::Reinjection;
use crate::event::SubflowSet;
use crate::observer::{Observer, StackEvent, report};
use crate::scheduler::{AfterTimeout, AssignKind, Decision, Rule, Why};
use crate::seq::DataRange;
use crate::subflow::queue::Queued;
use crate::subflow::{Ended, Remains};

/// Takes back a part of a queue.
fn give_back(send: &mut SendState, queued: Queued) {
    match queued.kind {
        AssignKind::Reinject => send.request_reinjection(queued.range),
        _ => send.take_back(queued.range),
    }
}

impl Connection {
    /// Reinjects the data of a subflow that has potentially failed, if configured, and if another subflow works.
    #[cold]
    pub(super) fn reinject_from_failed(&mut self, at: usize) {
        let others = self.subflows.iter().any(|other| other.id().index() != at && other.state().is_usable());
        if self.mode != Mode::Mptcp || !others {
            return;
        }
        // The path may be dead for any time: the connection must not wait for it. Its subflow continues with its next
        // acknowledgement.
        self.subflows[at].spare_in_flight();
        self.tell_writable();
        if self.models_buffers() {
            return;
        }
        let Connection { subflows, send, config, .. } = self;
        let (una, copies) = (send.una, config.reinjection == Reinjection::OnTimeout);
        subflows[at].recall_all(una, |remains| match remains {
            // It was never sent there, and would wait until the subflow works again.
            Remains::Queued(queued) => give_back(send, queued),
            Remains::Unacked(range) if copies => send.request_reinjection(range),
            Remains::Unacked(_) => {}
        });
    }

    /// Ends a subflow, once: its queue is recalled, and the rest of its data is reinjected.
    #[cold]
    pub(super) fn take_from_ended(&mut self, now: Time, at: usize) -> Option<Ended> {
        let Connection { subflows, send, mode, .. } = self;
        let una = send.una;
        let ended = subflows[at].end(now, una, |remains| match remains {
            Remains::Queued(queued) => give_back(send, queued),
            Remains::Unacked(range) if *mode == Mode::Mptcp => send.request_reinjection(range),
            Remains::Unacked(_) => {}
        })?;
        if *mode == Mode::Mptcp {
            // Data it has delivered that is not DATA_ACKed may have been discarded there, with the mapping
            // that was damaged or broken (RFC 8684 section 3.7).
            let only = SubflowSet::one(ended.stats.id);
            let carried = send.outstanding.as_slice().iter().filter(|pending| pending.tried == only);
            let ranges: Vec<DataRange> = carried.map(|pending| pending.range).collect();
            for range in ranges {
                send.request_reinjection(range);
            }
            if self.models_buffers() {
                // `mptcp_close_ssk` does not know which data the subflow had.
                self.recover();
            }
        }
        Some(ended)
    }

    /// Reinjects the head of the data level, which has made no progress for some time, if no subflow carries
    /// it.
    #[cold]
    pub(super) fn reinject_head(&mut self) {
        let Connection { head_repair, subflows, send, config, fast_paths, fallback, stats, .. } = self;
        let joined = fallback.was_joined();
        if head_repair.on_timeout(subflows, send, config.mss, *fast_paths, joined) == HeadTimeout::Repaired {
            stats.head_timeouts += 1;
        }
    }

    /// Handles an expiration of the data-level timer as Linux does (`__mptcp_retrans`): sends the first piece on an idle
    /// subflow, regardless of the subflows that carry it, or requests all unacknowledged data again if a subflow has
    /// become stale. If no subflow is idle, nothing happens until the timer expires again.
    #[cold]
    pub(super) fn retransmit<O: Observer>(&mut self, now: Time, observer: &mut O) {
        let Connection { scheduling, subflows, send, config, congestion, .. } = self;
        let action = scheduling.after_data_timeout(now, subflows, send, config, congestion);
        if action == AfterTimeout::Recover {
            self.recover();
            // A backup may be used for new data now, also if nothing is to be reinjected.
            self.wanted.schedule();
            return;
        }
        let arrived = head(&self.subflows, self.fallback.was_joined()) == Head::MayHaveArrived;
        if let AfterTimeout::Retransmit(id) = action
            && !arrived
            && let Some(at) = self.subflow_index(id).filter(|&at| self.passes_options(at))
        {
            self.retransmit_piece(now, at, observer);
        } else {
            // Without an idle subflow, only data that no subflow carries is reinjected.
            self.reinject_head();
        }
    }

    /// True if the options of MPTCP are known to pass on the path of a subflow: the handshake of a join shows it, also of one
    /// to a backup on which the peer has sent nothing yet.
    fn passes_options(&self, at: usize) -> bool {
        let subflow = &self.subflows[at];
        subflow.has_seen_dss() || subflow.handshake().is_join()
    }

    /// Sends the first piece of the stream on a subflow, as far as it was sent before.
    fn retransmit_piece<O: Observer>(&mut self, now: Time, at: usize, observer: &mut O) {
        let una = self.send.una;
        let mut end = una;
        let piece = DataRange::new(una, self.scheduling.end_of_piece(una).min(self.send.nxt));
        self.send.outstanding.overlap(piece, |part, _| {
            if part.start == end {
                end = part.end;
            }
        });
        let range = DataRange::new(una, end);
        if !range.is_empty() {
            let subflow = self.subflows[at].id();
            let why = Why::rule(Rule::Reinjection);
            let decision = Decision::Assign { subflow, range, kind: AssignKind::Reinject, why };
            report(observer, now, self.id, &StackEvent::Decision(&decision));
            self.assign(now, at, range, AssignKind::Reinject, observer);
        }
    }

    /// Requests that all data without a data acknowledgement is assigned again (`__mptcp_retransmit_pending_data`).
    #[cold]
    fn recover(&mut self) {
        let all = DataRange::new(self.send.una, self.send.nxt);
        self.send.request_reinjection(all);
    }

    /// Handles an advance of the data acknowledgement.
    #[inline]
    pub(super) fn repair_further(&mut self) {
        let Connection { head_repair, subflows, send, config, fast_paths, fallback, .. } = self;
        head_repair.on_progress(subflows, send, config.mss, *fast_paths, fallback.was_joined());
    }

    /// True if some subflow has the head of the stream in flight or queued, or the rest of its mapping.
    pub(super) fn is_head_carried(&mut self) -> bool {
        let Connection { head_repair, subflows, send, fast_paths, .. } = self;
        head_repair.is_carried(subflows, send.una, *fast_paths)
    }
}
