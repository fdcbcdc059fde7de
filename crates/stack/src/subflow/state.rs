//! The state of a subflow: the TCP states, the handshake, FINs and resets. Only the functions of this file
//! change it.

use anabranch_units::{Duration, Time};

use super::Subflow;
use crate::segment::ResetReason;

/// The states of RFC 9293 section 3.3.2, and the one that RFC 8684 adds for joins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum TcpState {
    SynSent,
    /// A SYN was received and answered.
    SynReceived,
    /// The third ACK of a join was sent, and not yet answered.
    PreEstablished,
    /// Data may flow in both directions.
    Established,
    /// This side has sent its FIN.
    FinWait1,
    /// The local FIN is acknowledged.
    FinWait2,
    /// The peer has sent its FIN.
    CloseWait,
    /// Both sides have sent a FIN, and the local one is not acknowledged.
    Closing,
    /// The peer's FIN was first, and the local one is not acknowledged.
    LastAck,
    /// Both FINs are acknowledged; late segments are still answered.
    TimeWait,
    /// The subflow has ended.
    Closed,
}

/// The reason for a local reset of a subflow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ResetCause {
    /// The connection is aborted: sends MP_FASTCLOSE.
    Abort,
    /// Only the subflow ends: sends MP_TCPRST (RFC 8684 section 3.6).
    Because(ResetReason),
    /// The whole connection has ended, and no new subflow can succeed: MP_TCPRST is not transient.
    Gone,
    /// The payload mapped from this offset of the stream was changed in transit: sends MP_FAIL too (section
    /// 3.7).
    Damage(i64),
}

/// The progress of the three-way or four-way handshake.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Handshake {
    /// True for a join, false for the first subflow.
    pub join: bool,
    pub local_nonce: u32,
    /// The peer's nonce.
    pub remote_nonce: u32,
    /// The number of transmissions of the SYN, the SYN/ACK or a join's third ACK.
    pub attempts: u32,
    /// True if it is to be sent (again) now.
    pub send: bool,
    /// The time of its retransmission.
    pub retry_at: Option<Time>,
    /// The time of its first transmission, for an RTT sample if it was sent once.
    pub sent_at: Time,
}

/// The consequence of an acknowledged FIN, or of the peer's FIN, for the connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ending {
    /// The subflow continues in another state.
    Continues,
    /// Both FINs are acknowledged, and this side has to wait: [`Subflow::enter_time_wait`] is next.
    TimeWait,
    /// Both FINs are acknowledged, and the subflow is complete.
    Done,
}

impl Subflow {
    #[inline]
    pub(crate) fn state(&self) -> TcpState {
        self.state
    }

    /// True if it has ended.
    pub(crate) fn is_closed(&self) -> bool {
        self.state == TcpState::Closed
    }

    /// True if it has neither ended nor is about to be reset.
    #[inline]
    pub(crate) fn is_open(&self) -> bool {
        !matches!(self.state, TcpState::Closed | TcpState::TimeWait) && self.reset.is_none()
    }

    /// True if data may be assigned to it.
    pub(crate) fn is_usable(&self) -> bool {
        matches!(self.state, TcpState::Established | TcpState::CloseWait)
            && !self.fin_wanted
            && self.reset.is_none()
    }

    /// True if it can still exchange segments of the connection.
    pub(crate) fn is_synchronised(&self) -> bool {
        !matches!(
            self.state,
            TcpState::SynSent | TcpState::SynReceived | TcpState::TimeWait | TcpState::Closed
        )
    }

    /// True if the local FIN was sent and acknowledged.
    pub(crate) fn fin_acked(&self) -> bool {
        self.fin_sent && self.board.is_empty()
    }

    /// True if it is about to be reset by this side.
    #[inline]
    pub(crate) fn is_resetting(&self) -> bool {
        self.reset.is_some()
    }

    #[inline]
    pub(crate) fn reset_due(&self) -> Option<ResetCause> {
        self.reset
    }

    /// Requests a reset, which is the next segment sent.
    pub(crate) fn request_reset(&mut self, cause: ResetCause) {
        self.reset = Some(cause);
    }

    /// Requests the FIN, which is sent when the queue is empty.
    pub(crate) fn request_fin(&mut self) {
        self.fin_wanted = true;
    }

    /// Withdraws the request for a FIN that was not sent.
    pub(crate) fn withdraw_fin(&mut self) {
        self.fin_wanted = false;
    }

    /// True if its FIN was requested, or sent.
    pub(crate) fn fin_requested(&self) -> bool {
        self.fin_wanted
    }

    pub(crate) fn fin_sent(&self) -> bool {
        self.fin_sent
    }

    /// True if the FIN is the next thing to send.
    pub(crate) fn fin_due(&self) -> bool {
        self.fin_wanted && !self.fin_sent && self.queue.is_empty()
    }

    /// Updates the state when the FIN is sent.
    pub(crate) fn on_fin_sent(&mut self) {
        self.fin_sent = true;
        self.state = match self.state {
            TcpState::CloseWait => TcpState::LastAck,
            _ => TcpState::FinWait1,
        };
    }

    /// Updates the state when its FIN is acknowledged.
    pub(crate) fn on_fin_acked(&mut self) -> Ending {
        match self.state {
            TcpState::FinWait1 => {
                self.state = TcpState::FinWait2;
                Ending::Continues
            }
            TcpState::Closing => Ending::TimeWait,
            TcpState::LastAck => Ending::Done,
            _ => Ending::Continues,
        }
    }

    /// Updates the state when the peer's FIN was reached in order.
    pub(crate) fn on_fin(&mut self) -> Ending {
        self.state = match self.state {
            TcpState::Established | TcpState::PreEstablished => TcpState::CloseWait,
            // If the same segment had acknowledged the local FIN, the state would already be FIN-WAIT-2.
            TcpState::FinWait1 => TcpState::Closing,
            TcpState::FinWait2 => TcpState::TimeWait,
            other => other,
        };
        if self.state == TcpState::TimeWait { Ending::TimeWait } else { Ending::Continues }
    }

    /// True if the local side is complete and it waits for the peer's FIN.
    #[inline]
    pub(crate) fn awaits_fin(&self) -> bool {
        matches!(self.state, TcpState::Established | TcpState::FinWait1 | TcpState::FinWait2)
    }

    /// Waits in TIME-WAIT until `until`.
    pub(crate) fn enter_time_wait(&mut self, until: Time) {
        self.state = TcpState::TimeWait;
        self.time_wait_until = until;
    }

    /// Ends it.
    pub(crate) fn set_closed(&mut self) {
        self.state = TcpState::Closed;
    }

    /// Records the time of its end. Returns false if that is already known.
    pub(crate) fn note_end(&mut self, now: Time) -> bool {
        let first = self.ended.is_none();
        self.ended.get_or_insert(now);
        first
    }

    /// True if everything is complete and its statistics are final.
    pub(crate) fn has_ended(&self) -> bool {
        self.ended.is_some()
    }

    /// True if its handshake was ever completed.
    pub(crate) fn was_established(&self) -> bool {
        self.established.is_some()
    }

    /// Completes the handshake: data may flow.
    pub(crate) fn establish(&mut self, now: Time) {
        self.state = TcpState::Established;
        self.established = Some(now);
        self.handshake.send = false;
        self.handshake.retry_at = None;
        self.last_sent = now;
    }

    /// Accepts the SYN/ACK of a join: its third ACK is due.
    pub(crate) fn await_fourth_ack(&mut self) {
        self.state = TcpState::PreEstablished;
        self.handshake.attempts = 0;
        self.handshake.send = true;
    }

    /// Rejects the SYN/ACK of a join. It has still synchronised the subflow, so the reset acknowledges it.
    pub(crate) fn reject_syn_ack(&mut self) {
        self.state = TcpState::PreEstablished;
        self.request_reset(ResetCause::Because(ResetReason::MptcpError));
    }

    /// Handles a SYN of the peer that has crossed with the local one: the SYN/ACK is due.
    pub(crate) fn cross_syn(&mut self, now: Time) {
        self.state = TcpState::SynReceived;
        self.last_received = now;
        // The SYN/ACK is timed and retransmitted separately.
        self.handshake.attempts = 0;
        self.handshake.send = true;
    }

    /// True for a join, false for the first subflow.
    #[inline]
    pub(crate) fn is_join(&self) -> bool {
        self.handshake.join
    }

    /// Returns the state of the handshake.
    pub(crate) fn handshake(&self) -> &Handshake {
        &self.handshake
    }

    /// True if a segment of the handshake is to be sent now.
    #[inline]
    pub(crate) fn handshake_due(&self) -> bool {
        self.handshake.send
    }

    /// Repeats the segment of the handshake at the peer's request.
    pub(crate) fn repeat_handshake(&mut self) {
        self.handshake.send = true;
    }

    /// Skips the segment of the handshake, which was sent elsewhere.
    pub(crate) fn skip_handshake_segment(&mut self) {
        self.handshake.send = false;
    }

    /// Records the transmission of a segment of the handshake, which is repeated after `wait`.
    pub(crate) fn on_handshake_sent(&mut self, now: Time, wait: Duration) {
        self.handshake.send = false;
        self.handshake.attempts += 1;
        if self.handshake.attempts == 1 {
            self.handshake.sent_at = now;
        }
        self.handshake.retry_at = Some(now + wait);
    }

    /// Handles the expiration of the wait for an answer in the handshake: repeats it, unless more than
    /// `retries` repetitions have been made. Returns false in that case.
    pub(crate) fn retry_handshake(&mut self, retries: u32) -> bool {
        if self.handshake.attempts > retries {
            return false;
        }
        self.handshake.send = true;
        self.handshake.retry_at = None;
        true
    }

    /// Sets the nonce of the peer's side of a join.
    pub(crate) fn set_remote_nonce(&mut self, nonce: u32) {
        self.handshake.remote_nonce = nonce;
    }
}
