//! Data that moves between subflows: reinjection, and opportunistic retransmission with
//! penalisation.

use anabranch_units::Time;

use super::{Connection, Mode};
use crate::config::{OpportunisticRetransmission, Reinjection};
use crate::congestion::CongestionControl;
use crate::event::{SubflowId, SubflowSet};
use crate::scheduler::{AssignKind, RecoveryState};
use crate::segment::ResetReason;
use crate::seq::DataRange;
use crate::subflow::Subflow;

impl Connection {
    /// A subflow's retransmission timer has run out: its data may go on another as well.
    pub(crate) fn reinject_after_timeout(&mut self, at: usize) {
        if self.mode != Mode::Mptcp || self.config.reinjection != Reinjection::OnTimeout {
            return;
        }
        let others = self.subflows.iter().any(|other| other.id.index() != at && other.is_usable());
        if others {
            self.reinject_all_of(at);
        }
    }

    /// A path that swallows everything must not hold the connection: what it carried has long arrived by
    /// others, and still takes the room of what could be sent now. When half of a full send buffer is such,
    /// and the subflow has not got through twice, it is reset, for too much outstanding data (RFC 8684
    /// section 3.6, reason 0x04).
    pub(crate) fn give_up_laggard(&mut self, now: Time) {
        if !self.send.blocked || self.mode != Mode::Mptcp {
            return;
        }
        let freed = self.freed();
        if (self.send.una - freed) < self.config.send_buffer.get() / 2 {
            return;
        }
        let laggard = self.subflows.iter().position(|subflow| {
            subflow.recovery.timeouts() >= 2 && subflow.board.lowest_data().is_some_and(|low| low <= freed)
        });
        let works = |subflow: &Subflow| subflow.is_usable() && !subflow.potentially_failed();
        if let Some(at) = laggard
            && self.subflows.iter().any(works)
        {
            self.kill_subflow(now, at, ResetReason::TooMuchOutstanding);
            self.tell_writable();
        }
    }

    fn reinject_all_of(&mut self, at: usize) {
        let mut run = DataRange::default();
        for index in 0..self.subflows[at].board.records().len() {
            let record = &self.subflows[at].board.records()[index];
            if record.sacked || record.len == 0 || record.range().end <= self.send.una {
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
        self.schedule_wanted = true;
    }

    /// A dead subflow's data: what it never sent is as if never assigned, the rest is reinjected.
    pub(crate) fn recover_from_dead(&mut self, at: usize) {
        while let Some(queued) = self.subflows[at].queue.pop_front() {
            match queued.kind {
                AssignKind::New => self.send.take_back(queued.range),
                AssignKind::Copy => {}
                AssignKind::Reinject => self.send.request_reinjection(queued.range),
            }
        }
        self.subflows[at].queued = 0;
        if self.mode == Mode::Mptcp {
            self.reinject_all_of(at);
            // What it has delivered and nobody has DATA_ACKed may have been thrown away there, with the
            // mapping that was damaged or broken (RFC 8684 section 3.7).
            let only = SubflowSet::one(self.subflows[at].id);
            let carried = self.send.outstanding.as_slice().iter().filter(|pending| pending.tried == only);
            let ranges: Vec<DataRange> = carried.map(|pending| pending.range).collect();
            for range in ranges {
                self.send.request_reinjection(range);
            }
        }
    }

    /// The head of the stream has reached its subflow's peer but not the data level for too long,
    /// or nobody carries it: it is sent again (RFC 8684 section 3.3.6).
    pub(crate) fn reinject_head(&mut self) {
        let Some(head) = self.send.outstanding.as_slice().first().copied() else { return };
        // Without a subflow there is nothing to send it on; the one that comes finds it waiting.
        if !self.subflows.iter().any(|subflow| subflow.is_usable()) {
            return;
        }
        let carried = self.subflows.iter().any(|subflow| {
            subflow.is_synchronised()
                && (subflow.board.records().iter().any(|record| {
                    record.range().start <= head.range.start && record.range().end > head.range.start
                }) || subflow.queue.iter().any(|queued| {
                    queued.range.start <= head.range.start && queued.range.end > head.range.start
                }))
        });
        if carried {
            return;
        }
        self.stats.data_timeouts += 1;
        let first = DataRange::new(
            head.range.start,
            head.range.end.min(head.range.start + u64::from(self.config.mss)),
        );
        // Everyone has tried it, so that nobody is excluded for it.
        for subflow in 0..self.subflows.len() {
            self.send.outstanding.forget(SubflowId(subflow as u8));
        }
        self.send.request_reinjection(first);
        self.schedule_wanted = true;
    }

    /// Opportunistic retransmission and penalisation (NSDI 2012; the out-of-tree kernel's rules):
    /// called when subflow `fast` has room, but the receive window is full (`mandatory`) or the send
    /// buffer is. Returns what to send again on it.
    pub(crate) fn opportunistic(&mut self, now: Time, fast: usize, mandatory: bool) -> Option<DataRange> {
        let policy = self.config.opportunistic;
        if policy == OpportunisticRetransmission::Off || self.live_subflows().count() < 2 {
            return None;
        }
        let head = self.send.outstanding.as_slice().first().copied()?;
        let fast_id = self.subflows[fast].id;
        let fast_rtt = self.subflows[fast].rtt.srtt()?;
        let penalise = policy == OpportunisticRetransmission::RetransmitAndPenalise;
        if penalise && mandatory && now.since(self.last_penalty(fast_id)) >= fast_rtt {
            let slow = (0..self.subflows.len()).find(|&at| {
                let subflow = &self.subflows[at];
                at != fast
                    && head.tried.has(subflow.id)
                    && subflow.rtt.srtt().is_some_and(|rtt| fast_rtt < rtt)
                    && subflow.recovery.state() == RecoveryState::Open
            });
            if let Some(slow) = slow {
                self.congestion.penalise(self.subflows[slow].id, now);
                self.refresh_window(slow);
                self.note_penalty(fast_id, now);
                self.stats.penalisations += 1;
            }
        }
        if head.tried.has(fast_id) {
            return None;
        }
        let mss = u64::from(self.subflows[fast].mss);
        let mut retransmit = false;
        for subflow in self.subflows.iter().filter(|other| other.id != fast_id && head.tried.has(other.id)) {
            if subflow.cwnd <= 4 * mss {
                retransmit = true;
                break;
            }
            if subflow.rtt.srtt().is_some_and(|rtt| fast_rtt * 4 >= rtt) {
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
