//! Data that moves between subflows: reinjection, and opportunistic retransmission with
//! penalisation.

use anabranch_units::Time;

use super::{Connection, Mode};
use crate::config::{OpportunisticRetransmission, Reinjection};
use crate::congestion::CongestionControl;
use crate::event::{SubflowId, SubflowSet};
use crate::scheduler::{AssignKind, RecoveryState};
use crate::seq::DataRange;
use crate::subflow::Subflow;
use crate::subflow::scoreboard::Sent;
use crate::subflow::send_buffer::end_of_piece;

/// The most segments that are sent again at once because nobody carries the head of the stream.
const MOST_REPAIRED: u32 = 1 << 10;

/// The repair of what subflows have delivered, and the peer's data level has dropped.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct HeadRepair {
    /// How often the data-level timer has sent the head again, or asked for it, since it moved.
    pub(super) attempts: u8,
    /// The subflow that was last found to carry the head of the stream.
    carrier: u8,
    /// How many segments go next; 0 if nothing is under repair.
    segments: u32,
    /// Behind what was sent again last.
    end: u64,
}

impl Connection {
    /// A subflow's retransmission timer has run out: its data may go on another as well.
    #[cold]
    pub(crate) fn reinject_after_timeout(&mut self, at: usize) {
        let others = self.subflows.iter().any(|other| other.id().index() != at && other.is_usable());
        if self.mode != Mode::Mptcp || !others || self.models_buffers() {
            return;
        }
        self.empty_queue(at);
        if self.config.reinjection == Reinjection::OnTimeout {
            self.reinject_all_of(at);
        }
    }

    /// What waits on a subflow that has timed out was never sent there, and would wait until it works again, which
    /// may be never: it goes elsewhere. Copies stay, as those have other subflows anyway.
    fn empty_queue(&mut self, at: usize) {
        let Connection { subflows, send, .. } = self;
        subflows[at].empty_queue(
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

    /// A dead subflow's data: what it never sent is as if never assigned, the rest is reinjected.
    #[cold]
    pub(crate) fn recover_from_dead(&mut self, at: usize) {
        self.empty_queue(at);
        // Nobody sends the copies any more.
        self.subflows[at].empty_queue(|_| true, |_| ());
        if self.mode == Mode::Mptcp {
            self.reinject_all_of(at);
            // What it has delivered and nobody has DATA_ACKed may have been thrown away there, with the
            // mapping that was damaged or broken (RFC 8684 section 3.7).
            let only = SubflowSet::one(self.subflows[at].id());
            let carried = self.send.outstanding.as_slice().iter().filter(|pending| pending.tried == only);
            let ranges: Vec<DataRange> = carried.map(|pending| pending.range).collect();
            for range in ranges {
                self.send.request_reinjection(range);
            }
        }
    }

    /// The head of the stream has reached its subflow's peer but not the data level for too long,
    /// or nobody carries it: it is sent again (RFC 8684 section 3.3.6).
    #[cold]
    pub(crate) fn reinject_head(&mut self) {
        // Without a subflow there is nothing to send it on; the one that comes finds it waiting.
        if !self.subflows.iter().any(|subflow| subflow.is_usable()) {
            return;
        }
        if !self.is_head_given() || self.is_head_carried() {
            return;
        }
        self.stats.head_timeouts += 1;
        self.head_repair.attempts = self.head_repair.attempts.saturating_add(1);
        if !self.subflows.iter().any(|subflow| subflow.has_seen_dss()) {
            // The peer has never spoken of the data level, and may be on the way back to TCP: it would take for new
            // what is sent again. An old octet asks it, and does no harm.
            for subflow in self.subflows.iter_mut().filter(|subflow| subflow.is_usable()) {
                subflow.probe();
            }
            return;
        }
        self.head_repair.segments = 1;
        self.reinject_dropped();
    }

    /// The data level has made no progress for some time: a subflow that has nothing to do sends the first piece
    /// again, whoever carries it (`__mptcp_retrans`). If none is idle, nothing happens until the timer runs out again.
    pub(super) fn reinject_piece(&mut self) {
        let idle = |subflow: &Subflow| {
            subflow.is_usable()
                && subflow.board().is_empty()
                && subflow.is_queue_empty()
                && subflow.has_seen_dss()
        };
        if !self.subflows.iter().any(idle) {
            // Without an idle subflow only what nobody carries is sent again.
            self.reinject_head();
            return;
        }
        let una = self.send.una;
        let end = end_of_piece(una).min(self.send.nxt);
        self.send.request_reinjection(DataRange::new(una, end));
    }

    /// The data level has been acknowledged further. If that is so because its head was sent again, and the new
    /// one is carried by nobody either, then more was dropped than that: twice as much follows at once, as in slow
    /// start, and not after another wait.
    pub(super) fn repair_further(&mut self) {
        self.head_repair.attempts = 0;
        if self.head_repair.segments == 0 {
            return;
        }
        if self.is_head_dropped() {
            self.reinject_dropped();
        } else if self.send.una >= self.head_repair.end {
            self.head_repair.segments = 0;
        }
    }

    /// Sends the head of the stream again, so many segments of it as it is the turn for, and nothing that a
    /// subflow still carries.
    #[cold]
    fn reinject_dropped(&mut self) {
        let una = self.send.una;
        let mut end = una + u64::from(self.head_repair.segments) * u64::from(self.config.mss);
        for subflow in self.subflows.iter().filter(|subflow| subflow.is_synchronised()) {
            let sent = subflow.board().records().iter().map(Sent::range);
            let waiting = subflow.queue().map(|queued| queued.range);
            for start in sent.chain(waiting).map(|range| range.start).filter(|&start| start > una) {
                end = end.min(start);
            }
        }
        self.head_repair.end = end;
        self.head_repair.segments = (self.head_repair.segments * 2).min(MOST_REPAIRED);
        // Everyone has tried it, so that nobody is excluded for it.
        for subflow in 0..self.subflows.len() {
            self.send.outstanding.forget(SubflowId(subflow as u8));
        }
        self.send.request_reinjection(DataRange::new(una, end));
    }

    /// Whether the head of the stream was given to a subflow, and is not acknowledged.
    pub(super) fn is_head_given(&self) -> bool {
        self.send.outstanding.as_slice().first().is_some_and(|first| first.range.start <= self.send.una)
    }

    /// Whether nothing but the data-level timer brings the head of the stream to the peer: every subflow that
    /// carried it is done with it. A peer that has gone silent at the data level is another matter.
    pub(super) fn is_head_dropped(&mut self) -> bool {
        let una = self.send.una;
        let waits = self.send.reinject.as_slice().first().is_some_and(|first| first.range.start <= una);
        self.is_head_given()
            && !waits
            && !self.is_head_carried()
            && !self.subflows.iter().any(|subflow| subflow.is_bare())
    }

    /// Whether some subflow has the head of the stream under way or waiting, or the rest of its mapping, without
    /// which a peer that verifies checksums does not take it.
    pub(super) fn is_head_carried(&mut self) -> bool {
        let una = self.send.una;
        // Mostly the same one as the last time has it: this is asked after every acknowledgement.
        let alive = |subflow: &Subflow| subflow.is_synchronised();
        let last = usize::from(self.head_repair.carrier);
        if self.fast_paths
            && let Some(subflow) = self.subflows.get_mut(last).filter(|subflow| alive(subflow))
            && subflow.carries_nearby(una)
        {
            return true;
        }
        let first = |subflow: &Subflow| alive(subflow) && subflow.board().begins_with(una);
        let at =
            self.subflows.iter().position(first).or_else(|| {
                self.subflows.iter_mut().position(|subflow| alive(subflow) && subflow.carries(una))
            });
        self.head_repair.carrier = at.unwrap_or(0) as u8;
        at.is_some()
    }

    /// Opportunistic retransmission and penalisation (NSDI 2012; the out-of-tree kernel's rules):
    /// called when subflow `fast` has room, but the receive window is full (`mandatory`) or the send
    /// buffer is. Returns what to send again on it.
    pub(crate) fn opportunistic(&mut self, now: Time, fast: usize, mandatory: bool) -> Option<DataRange> {
        let policy = self.opportunistic;
        if policy == OpportunisticRetransmission::Off || self.live_subflows().count() < 2 {
            return None;
        }
        let head = self.send.outstanding.as_slice().first().copied()?;
        let fast_id = self.subflows[fast].id();
        let fast_rtt = self.subflows[fast].rtt().srtt()?;
        let penalise = policy == OpportunisticRetransmission::RetransmitAndPenalise;
        if penalise && mandatory && now.since(self.last_penalty(fast_id)) >= fast_rtt {
            let slow = (0..self.subflows.len()).find(|&at| {
                let subflow = &self.subflows[at];
                at != fast
                    && head.tried.has(subflow.id())
                    && subflow.rtt().srtt().is_some_and(|rtt| fast_rtt < rtt)
                    && subflow.recovery().state() == RecoveryState::Open
            });
            if let Some(slow) = slow {
                self.congestion.penalise(self.subflows[slow].id(), now);
                self.refresh_window(slow);
                self.note_penalty(fast_id, now);
                self.stats.penalisations += 1;
            }
        }
        if head.tried.has(fast_id) {
            return None;
        }
        let mss = u64::from(self.subflows[fast].mss());
        let mut retransmit = false;
        for subflow in
            self.subflows.iter().filter(|other| other.id() != fast_id && head.tried.has(other.id()))
        {
            if subflow.cwnd() <= 4 * mss {
                retransmit = true;
                break;
            }
            if subflow.rtt().srtt().is_some_and(|rtt| fast_rtt * 4 >= rtt) {
                return None;
            }
            retransmit = true;
        }
        retransmit.then(|| {
            self.stats.opportunistic_retransmissions += 1;
            DataRange::new(head.range.start, head.range.end.min(head.range.start + mss))
        })
    }

    /// When `fast` last had another subflow penalised; from the start no penalty is due within one
    /// round trip.
    fn last_penalty(&self, fast: SubflowId) -> Time {
        self.last_opportunistic.get(fast.index()).copied().unwrap_or(self.born)
    }

    fn note_penalty(&mut self, fast: SubflowId, now: Time) {
        if self.last_opportunistic.len() <= fast.index() {
            self.last_opportunistic.resize(fast.index() + 1, self.born);
        }
        self.last_opportunistic[fast.index()] = now;
    }
}
