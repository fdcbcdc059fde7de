//! Reinjection: data of a subflow that has timed out or ended, and the head of the stream.

use anabranch_units::Time;

use super::head_repair::{Head, HeadTimeout, head};
use super::send_state::SendState;
use super::{Connection, Mode};
use crate::config::Reinjection;
use crate::event::SubflowSet;
use crate::scheduler::AssignKind;
use crate::seq::DataRange;
use crate::subflow::queue::Queued;
use crate::subflow::send_buffer::end_of_piece;
use crate::subflow::{Ended, Remains, Subflow};

/// Takes back a part of a queue.
fn recall(send: &mut SendState, queued: Queued) {
    match queued.kind {
        AssignKind::Reinject => send.request_reinjection(queued.range),
        _ => send.take_back(queued.range),
    }
}

impl Connection {
    /// Reinjects the data of a subflow whose retransmission timer has expired, if configured, and if another
    /// subflow works.
    #[cold]
    pub(super) fn reinject_after_timeout(&mut self, at: usize) {
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
            Remains::Queued(queued) => recall(send, queued),
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
            Remains::Queued(queued) => recall(send, queued),
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

    /// Sends the first piece on an idle subflow after the data level has made no progress for some time,
    /// regardless of the subflows that carry it (`__mptcp_retrans`). If none is idle, nothing happens until
    /// the timer expires again.
    pub(super) fn reinject_piece(&mut self) {
        let idle =
            |subflow: &Subflow| subflow.state().is_usable() && subflow.is_idle() && subflow.has_seen_dss();
        let arrived = head(&self.subflows, self.fallback.was_joined()) == Head::MayHaveArrived;
        if arrived || !self.subflows.iter().any(idle) {
            // Without an idle subflow, only data that no subflow carries is reinjected.
            self.reinject_head();
            return;
        }
        let una = self.send.una;
        let end = end_of_piece(una).min(self.send.nxt);
        self.send.request_reinjection(DataRange::new(una, end));
    }

    /// Handles an advance of the data acknowledgement.
    #[inline]
    pub(super) fn repair_further(&mut self) {
        let Connection { head_repair, subflows, send, config, fast_paths, fallback, .. } = self;
        head_repair.on_progress(subflows, send, config.mss, *fast_paths, fallback.was_joined());
    }

    /// True if only the data-level timer can bring the head of the stream to the peer.
    pub(super) fn is_head_dropped(&mut self) -> bool {
        let Connection { head_repair, subflows, send, fast_paths, .. } = self;
        head_repair.is_dropped(subflows, send, *fast_paths)
    }

    /// True if some subflow has the head of the stream in flight or queued, or the rest of its mapping.
    pub(super) fn is_head_carried(&mut self) -> bool {
        let Connection { head_repair, subflows, send, fast_paths, .. } = self;
        head_repair.is_carried(subflows, send.una, *fast_paths)
    }
}
