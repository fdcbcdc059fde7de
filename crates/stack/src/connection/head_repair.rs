//! The repair of the head of the stream, which subflows have delivered and the peer's data level has dropped
//! (RFC 8684 section 3.3.6; Linux drops data while it has no window at the data level).

use anabranch_units::Duration;

use super::send_state::SendState;
use super::subflows::Subflows;
use crate::event::SubflowId;
use crate::seq::DataRange;
use crate::subflow::{FastPaths, Subflow};

/// The maximum number of segments reinjected at once because no subflow carries the head of the stream.
const MOST_REPAIRED: u32 = 1 << 10;

/// The action of the data-level timer for the head of the stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum HeadTimeout {
    /// Nothing: it is in flight, or there is no subflow to send it on.
    None,
    /// It is reinjected, or the peer is probed.
    Repaired,
}

/// The knowledge about the head of the stream, once a subflow has delivered it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Head {
    /// The peer has dropped it, or does not fall back to TCP.
    Repairable,
    /// The peer may have it: only its data acknowledgement is missing.
    MayHaveArrived,
}

/// The state of the repair.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct HeadRepair {
    /// The number of times the data-level timer has reinjected the head, or probed for it, since it moved.
    attempts: u8,
    /// The subflow last found to carry the head of the stream.
    carrier: u8,
    /// The number of segments reinjected next; 0 if nothing is being repaired.
    segments: u32,
    /// The end of the last reinjection.
    end: u64,
}

impl HeadRepair {
    /// Resets the backoff once the peer has begun to acknowledge data: waiting data need not wait longer.
    pub(super) fn forget_attempts(&mut self) {
        self.attempts = 0;
    }

    /// Returns `wait`, doubled by each unsuccessful attempt.
    pub(super) fn back_off(&self, wait: Duration) -> Duration {
        Duration(wait.0 << self.attempts.min(10))
    }

    /// True if only the data-level timer can bring the head of the stream to the peer: every subflow that
    /// carried it has finished with it. This excludes a peer that sends no data acknowledgements.
    pub(super) fn is_dropped(
        &mut self,
        subflows: &mut Subflows,
        send: &SendState,
        fast_paths: FastPaths,
    ) -> bool {
        let una = send.una;
        let waits = send.reinject.as_slice().first().is_some_and(|first| first.range.start <= una);
        send.is_head_given()
            && !waits
            && !self.is_carried(subflows, una, fast_paths)
            && !subflows.iter().any(|subflow| subflow.is_bare())
    }

    /// True if some subflow has the head of the stream in flight or queued, or the rest of its mapping,
    /// without which a peer that verifies checksums does not accept it.
    pub(super) fn is_carried(&mut self, subflows: &mut Subflows, una: u64, fast_paths: FastPaths) -> bool {
        // Usually it begins the data of a subflow, or is on the one found last time: this is called after every
        // acknowledgement.
        if fast_paths == FastPaths::On
            && (subflows.begins_with(una) || subflows.carries_nearby(usize::from(self.carrier), una))
        {
            debug_assert!(subflows.carrier(una).is_some());
            return true;
        }
        let at = subflows.carrier(una);
        self.carrier = at.unwrap_or(0) as u8;
        at.is_some()
    }

    /// Handles an advance of the data acknowledgement. If a reinjection of the head caused it, and no subflow
    /// carries the new head either, more was dropped: twice as much follows at once, as in slow start,
    /// without another wait.
    pub(super) fn on_progress(
        &mut self,
        subflows: &mut Subflows,
        send: &mut SendState,
        mss: u32,
        fast_paths: FastPaths,
        joined: bool,
    ) {
        self.attempts = 0;
        if self.segments == 0 {
            return;
        }
        if self.is_dropped(subflows, send, fast_paths) {
            if head(subflows, joined) == Head::Repairable {
                self.reinject(subflows, send, mss);
            }
        } else if send.una >= self.end {
            self.segments = 0;
        }
    }

    /// Reinjects the head of the stream, which has reached its subflow's peer but not the data level for too
    /// long, or is carried by no subflow (RFC 8684 section 3.3.6).
    #[cold]
    pub(super) fn on_timeout(
        &mut self,
        subflows: &mut Subflows,
        send: &mut SendState,
        mss: u32,
        fast_paths: FastPaths,
        joined: bool,
    ) -> HeadTimeout {
        // Without a subflow it stays pending; the next subflow finds it unassigned.
        if !subflows.iter().any(|subflow| subflow.state().is_usable())
            || !send.is_head_given()
            || self.is_carried(subflows, send.una, fast_paths)
        {
            return HeadTimeout::None;
        }
        self.attempts = self.attempts.saturating_add(1);
        let acknowledges = subflows.iter().any(|subflow| subflow.has_seen_dss());
        if acknowledges && head(subflows, joined) == Head::Repairable {
            self.segments = 1;
            self.reinject(subflows, send, mss);
        } else {
            // The peer has never acknowledged data, and may be falling back to TCP, or it may have this data: it would
            // take reinjected data for new data. An old octet probes it harmlessly, and its answer has a data
            // acknowledgement.
            for subflow in subflows.iter_mut().filter(|subflow| subflow.state().is_usable()) {
                subflow.probe();
            }
        }
        HeadTimeout::Repaired
    }

    /// Requests the reinjection of the current number of segments from the head of the stream on, up to data
    /// that a subflow still carries.
    #[cold]
    fn reinject(&mut self, subflows: &[Subflow], send: &mut SendState, mss: u32) {
        let una = send.una;
        let mut end = una + u64::from(self.segments) * u64::from(mss);
        for subflow in subflows.iter().filter(|subflow| subflow.state().is_synchronised()) {
            end = end.min(subflow.first_carried_after(una).unwrap_or(end));
        }
        self.end = end;
        self.segments = (self.segments * 2).min(MOST_REPAIRED);
        // All subflows have carried it, so none is excluded for that.
        for subflow in 0..subflows.len() {
            send.outstanding.forget(SubflowId(subflow as u8));
        }
        send.request_reinjection(DataRange::new(una, end));
    }
}

/// Returns the knowledge about the head of the stream, which a subflow has delivered; `joined` is true if the peer may have
/// used another subflow.
// A middlebox may begin to remove options at any time. A peer with one subflow then falls back to TCP (RFC 8684 section 3.7)
// and takes the next payload for the next of the stream, so a copy of data that it has would be delivered twice. Linux, which
// falls back in the same way, takes that risk (`__mptcp_retrans`).
pub(super) fn head(subflows: &[Subflow], joined: bool) -> Head {
    let mut usable = subflows.iter().filter(|subflow| subflow.state().is_usable());
    match !joined && usable.any(Subflow::has_missed_data_ack) {
        true => Head::MayHaveArrived,
        false => Head::Repairable,
    }
}
