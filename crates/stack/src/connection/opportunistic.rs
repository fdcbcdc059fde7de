//! Opportunistic retransmission and penalisation (NSDI 2012; the rules of the out-of-tree kernel): a fast
//! subflow helps while a slow one blocks the windows.

use anabranch_units::Time;

use super::Connection;
use crate::config::OpportunisticRetransmission;
use crate::congestion::CongestionControl;
use crate::event::SubflowId;
use crate::scheduler::{RecoveryState, SubflowView};
use crate::seq::DataRange;

/// The cause for which a fast subflow helps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Full {
    ReceiveWindow,
    SendBuffer,
}

/// The policy, and the time of each fast subflow's last penalty on another.
#[derive(Clone, Debug)]
pub(super) struct Opportunistic {
    policy: OpportunisticRetransmission,
    /// The times by fast subflow; empty before the first penalty.
    penalised: Vec<Time>,
    /// The time of the connection's creation: no penalty is due within a round trip of it.
    born: Time,
}

impl Opportunistic {
    pub(super) fn new(now: Time, policy: OpportunisticRetransmission) -> Opportunistic {
        Opportunistic { policy, penalised: Vec::new(), born: now }
    }

    /// True if the policy is enabled.
    #[inline]
    pub(super) fn is_on(&self) -> bool {
        self.policy != OpportunisticRetransmission::Off
    }

    /// Returns the time at which `fast` last had another subflow penalised.
    fn last_penalty(&self, fast: SubflowId) -> Time {
        self.penalised.get(fast.index()).copied().unwrap_or(self.born)
    }

    fn note_penalty(&mut self, fast: SubflowId, now: Time) {
        if self.penalised.len() <= fast.index() {
            self.penalised.resize(fast.index() + 1, self.born);
        }
        self.penalised[fast.index()] = now;
    }
}

impl Connection {
    /// Returns the range to reinject on subflow `fast`, which has free window, while something is `full`.
    pub(super) fn help_out(&mut self, now: Time, fast: usize, full: Full) -> Option<DataRange> {
        let policy = self.opportunistic.policy;
        if !self.opportunistic.is_on() || self.live_subflows().count() < 2 {
            return None;
        }
        let head = self.send.outstanding.as_slice().first().copied()?;
        let SubflowView { id: fast_id, srtt, mss, .. } = self.subflows[fast].view(None);
        let fast_rtt = srtt?;
        let penalise = policy == OpportunisticRetransmission::RetransmitAndPenalise;
        if penalise
            && full == Full::ReceiveWindow
            && now.since(self.opportunistic.last_penalty(fast_id)) >= fast_rtt
        {
            let slow = (0..self.subflows.len()).find(|&at| {
                let other = self.subflows[at].view(None);
                at != fast
                    && head.tried.has(other.id)
                    && other.srtt.is_some_and(|rtt| fast_rtt < rtt)
                    && other.recovery == RecoveryState::Open
            });
            if let Some(slow) = slow {
                self.congestion.penalise(self.subflows[slow].id(), now);
                self.refresh_window(slow);
                self.opportunistic.note_penalty(fast_id, now);
                self.stats.penalisations += 1;
            }
        }
        if head.tried.has(fast_id) {
            return None;
        }
        let mut retransmit = false;
        let others = self.subflows.iter().map(|subflow| subflow.view(None));
        for other in others.filter(|other| other.id != fast_id && head.tried.has(other.id)) {
            if other.cwnd <= 4 * mss {
                retransmit = true;
                break;
            }
            if other.srtt.is_some_and(|rtt| fast_rtt * 4 >= rtt) {
                return None;
            }
            retransmit = true;
        }
        retransmit.then(|| {
            self.stats.opportunistic_retransmissions += 1;
            DataRange::new(head.range.start, head.range.end.min(head.range.start + mss))
        })
    }
}
