//! Reinjection: data of a subflow that has timed out or ended, and the head of the stream.

use super::head_repair::HeadTimeout;
use super::{Connection, Mode};
use crate::config::Reinjection;
use crate::event::SubflowSet;
use crate::scheduler::AssignKind;
use crate::seq::DataRange;
use crate::subflow::Subflow;
use crate::subflow::send_buffer::end_of_piece;

impl Connection {
    /// Reinjects the data of a subflow whose retransmission timer has expired, if configured, and if another
    /// subflow works.
    #[cold]
    pub(super) fn reinject_after_timeout(&mut self, at: usize) {
        let others = self.subflows.iter().any(|other| other.id().index() != at && other.state().is_usable());
        if self.mode != Mode::Mptcp || !others || self.models_buffers() {
            return;
        }
        self.empty_queue(at);
        if self.config.reinjection == Reinjection::OnTimeout {
            self.reinject_all_of(at);
        }
    }

    /// Recalls the queue of a subflow that has timed out: it was never sent there, and would wait until the
    /// subflow works again. Copies stay, as other subflows carry them too.
    fn empty_queue(&mut self, at: usize) {
        let Connection { subflows, send, .. } = self;
        subflows[at].queue_mut().empty(
            |kind| kind != AssignKind::Copy,
            |queued| match queued.kind {
                AssignKind::Reinject => send.request_reinjection(queued.range),
                _ => send.take_back(queued.range),
            },
        );
    }

    fn reinject_all_of(&mut self, at: usize) {
        let mut run = DataRange::default();
        for index in 0..self.subflows[at].board().records().len() {
            let record = &self.subflows[at].board().records()[index];
            if record.is_sacked() || record.len == 0 || record.range().end <= self.send.una {
                continue;
            }
            let range = record.range();
            if range.start == run.end && !run.is_empty() {
                run.end = range.end;
            } else {
                self.send.request_reinjection(run);
                run = range;
            }
        }
        self.send.request_reinjection(run);
    }

    /// Recalls the queue of an ended subflow, and reinjects the rest of its data.
    #[cold]
    pub(super) fn recover_from_dead(&mut self, at: usize) {
        self.empty_queue(at);
        // The copies are no longer sent.
        self.subflows[at].queue_mut().empty(|_| true, |_| ());
        if self.mode == Mode::Mptcp {
            self.reinject_all_of(at);
            // Data it has delivered that is not DATA_ACKed may have been discarded there, with the mapping
            // that was damaged or broken (RFC 8684 section 3.7).
            let only = SubflowSet::one(self.subflows[at].id());
            let carried = self.send.outstanding.as_slice().iter().filter(|pending| pending.tried == only);
            let ranges: Vec<DataRange> = carried.map(|pending| pending.range).collect();
            for range in ranges {
                self.send.request_reinjection(range);
            }
        }
    }

    /// Reinjects the head of the data level, which has made no progress for some time, if no subflow carries
    /// it.
    #[cold]
    pub(super) fn reinject_head(&mut self) {
        let Connection { head_repair, subflows, send, config, fast_paths, stats, .. } = self;
        if head_repair.on_timeout(subflows, send, config.mss, *fast_paths) == HeadTimeout::Repaired {
            stats.head_timeouts += 1;
        }
    }

    /// Sends the first piece on an idle subflow after the data level has made no progress for some time,
    /// regardless of the subflows that carry it (`__mptcp_retrans`). If none is idle, nothing happens until
    /// the timer expires again.
    pub(super) fn reinject_piece(&mut self) {
        let idle = |subflow: &Subflow| {
            subflow.state().is_usable()
                && subflow.board().is_empty()
                && subflow.queue().is_empty()
                && subflow.has_seen_dss()
        };
        if !self.subflows.iter().any(idle) {
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
        let Connection { head_repair, subflows, send, config, fast_paths, .. } = self;
        head_repair.on_progress(subflows, send, config.mss, *fast_paths);
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
