//! The state of a subflow: the TCP states, the handshake, FINs and resets. It changes by the functions of this file
//! alone.

use anabranch_units::{Duration, Time};

use super::Subflow;
use crate::segment::ResetReason;

/// The states of RFC 9293 section 3.3.2, with the one that RFC 8684 adds for joins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TcpState {
    /// A SYN was sent.
    SynSent,
    /// A SYN was received and answered.
    SynReceived,
    /// The third ACK of a join was sent, and not yet answered.
    PreEstablished,
    /// Data may go both ways.
    Established,
    /// This side has sent its FIN.
    FinWait1,
    /// And it was acknowledged.
    FinWait2,
    /// The peer has sent its FIN.
    CloseWait,
    /// Both have sent a FIN, ours is not acknowledged.
    Closing,
    /// The peer's FIN came first, ours is not acknowledged.
    LastAck,
    /// Both FINs are acknowledged; late segments are still answered.
    TimeWait,
    /// Gone.
    Closed,
}

/// Why a subflow was reset by us.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ResetCause {
    /// The connection is aborted: carry MP_FASTCLOSE.
    Abort,
    /// The subflow alone ends: carry MP_TCPRST (RFC 8684 section 3.6).
    Because(ResetReason),
    /// The whole connection is gone, and no new subflow can succeed: MP_TCPRST is not transient.
    Gone,
    /// The payload mapped from this offset of the stream on was changed on its way: carry MP_FAIL too
    /// (section 3.7).
    Damage(i64),
}

/// What the three-way or four-way handshake still needs.
#[derive(Clone, Copy, Debug, Default)]
pub struct Handshake {
    /// This is a join and not the first subflow.
    pub join: bool,
    /// Our nonce.
    pub local_nonce: u32,
    /// The peer's nonce.
    pub remote_nonce: u32,
    /// How often the SYN, the SYN/ACK or a join's third ACK was sent.
    pub attempts: u32,
    /// It shall be sent (again) now.
    pub send: bool,
    /// When it is sent again.
    pub retry_at: Option<Time>,
    /// When it was first sent, for an RTT sample if it was sent once.
    pub sent_at: Time,
}

/// The consequence of an acknowledged FIN, or of the peer's FIN, for the connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ending {
    /// The subflow goes on in another state.
    Continues,
    /// Both FINs are acknowledged, and this side has to wait: [`Subflow::enter_time_wait`] is next.
    TimeWait,
    /// Both FINs are acknowledged, and the subflow is done.
    Done,
}

impl Subflow {
    /// Its state.
    #[inline]
    pub fn state(&self) -> TcpState {
        self.state
    }

    /// Whether it is gone.
    pub fn is_closed(&self) -> bool {
        self.state == TcpState::Closed
    }

    /// Whether it has not come to its end, nor is about to be reset.
    #[inline]
    pub fn is_open(&self) -> bool {
        !matches!(self.state, TcpState::Closed | TcpState::TimeWait) && self.reset.is_none()
    }

    /// Whether data may be put on it.
    pub fn is_usable(&self) -> bool {
        matches!(self.state, TcpState::Established | TcpState::CloseWait)
            && !self.fin_wanted
            && self.reset.is_none()
    }

    /// Whether it can still exchange segments about the connection.
    pub fn is_synchronised(&self) -> bool {
        !matches!(
            self.state,
            TcpState::SynSent | TcpState::SynReceived | TcpState::TimeWait | TcpState::Closed
        )
    }

    /// Whether our FIN was sent and acknowledged.
    pub fn fin_acked(&self) -> bool {
        self.fin_sent && self.board.is_empty()
    }

    /// True if it is about to be reset by this side.
    #[inline]
    pub(crate) fn is_resetting(&self) -> bool {
        self.reset.is_some()
    }

    /// The cause of the reset that is due.
    #[inline]
    pub(crate) fn reset_due(&self) -> Option<ResetCause> {
        self.reset
    }

    /// Requests a reset: it is the next segment that is sent.
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

    /// True if its FIN was sent.
    pub(crate) fn fin_sent(&self) -> bool {
        self.fin_sent
    }

    /// True if the FIN is the next thing to send.
    pub(crate) fn fin_due(&self) -> bool {
        self.fin_wanted && !self.fin_sent && self.queue.is_empty()
    }

    /// The FIN is sent.
    pub(crate) fn on_fin_sent(&mut self) {
        self.fin_sent = true;
        self.state = match self.state {
            TcpState::CloseWait => TcpState::LastAck,
            _ => TcpState::FinWait1,
        };
    }

    /// Its FIN is acknowledged.
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

    /// The peer's FIN has been reached in order.
    pub(crate) fn on_fin(&mut self) -> Ending {
        self.state = match self.state {
            TcpState::Established | TcpState::PreEstablished => TcpState::CloseWait,
            // Had the same segment acknowledged our FIN, the state were FIN-WAIT-2 by now.
            TcpState::FinWait1 => TcpState::Closing,
            TcpState::FinWait2 => TcpState::TimeWait,
            other => other,
        };
        if self.state == TcpState::TimeWait { Ending::TimeWait } else { Ending::Continues }
    }

    /// True if it waits for the peer's FIN, as far as its own side is concerned.
    #[inline]
    pub(crate) fn awaits_fin(&self) -> bool {
        matches!(self.state, TcpState::Established | TcpState::FinWait1 | TcpState::FinWait2)
    }

    /// Waits in TIME-WAIT until `until`.
    pub(crate) fn enter_time_wait(&mut self, until: Time) {
        self.state = TcpState::TimeWait;
        self.time_wait_until = until;
    }

    /// It is gone.
    pub(crate) fn set_closed(&mut self) {
        self.state = TcpState::Closed;
    }

    /// Notes when it has ended. False if that is known.
    pub(crate) fn note_end(&mut self, now: Time) -> bool {
        let first = self.ended.is_none();
        self.ended.get_or_insert(now);
        first
    }

    /// Everything is over: its statistics are final.
    pub(crate) fn has_ended(&self) -> bool {
        self.ended.is_some()
    }

    /// True if its handshake was ever completed.
    pub(crate) fn was_established(&self) -> bool {
        self.established.is_some()
    }

    /// The handshake is complete: data may flow.
    pub(crate) fn establish(&mut self, now: Time) {
        self.state = TcpState::Established;
        self.established = Some(now);
        self.handshake.send = false;
        self.handshake.retry_at = None;
        self.last_sent = now;
    }

    /// The SYN/ACK of a join is right: its third ACK is due.
    pub(crate) fn await_fourth_ack(&mut self) {
        self.state = TcpState::PreEstablished;
        self.handshake.attempts = 0;
        self.handshake.send = true;
    }

    /// The SYN/ACK of a join is wrong. It has synchronised the subflow all the same, so that the reset acknowledges it.
    pub(crate) fn reject_syn_ack(&mut self) {
        self.state = TcpState::PreEstablished;
        self.request_reset(ResetCause::Because(ResetReason::MptcpError));
    }

    /// The peer's SYN has crossed with ours: the SYN/ACK is due.
    pub(crate) fn cross_syn(&mut self, now: Time) {
        self.state = TcpState::SynReceived;
        self.last_received = now;
        // The SYN/ACK is timed and repeated by itself.
        self.handshake.attempts = 0;
        self.handshake.send = true;
    }

    /// True if it is a join and not the first subflow.
    #[inline]
    pub(crate) fn is_join(&self) -> bool {
        self.handshake.join
    }

    /// The handshake as it stands.
    pub(crate) fn handshake(&self) -> &Handshake {
        &self.handshake
    }

    /// True if a segment of the handshake is to be sent now.
    #[inline]
    pub(crate) fn handshake_due(&self) -> bool {
        self.handshake.send
    }

    /// The peer asks for the segment of the handshake once more.
    pub(crate) fn repeat_handshake(&mut self) {
        self.handshake.send = true;
    }

    /// The segment of the handshake was sent by somebody else.
    pub(crate) fn skip_handshake_segment(&mut self) {
        self.handshake.send = false;
    }

    /// A segment of the handshake is sent, for the last time before it is repeated after `wait`.
    pub(crate) fn on_handshake_sent(&mut self, now: Time, wait: Duration) {
        self.handshake.send = false;
        self.handshake.attempts += 1;
        if self.handshake.attempts == 1 {
            self.handshake.sent_at = now;
        }
        self.handshake.retry_at = Some(now + wait);
    }

    /// The wait for an answer in the handshake is over: it is sent again, unless that was tried more than `retries`
    /// times already. False if it was.
    pub(crate) fn retry_handshake(&mut self, retries: u32) -> bool {
        if self.handshake.attempts > retries {
            return false;
        }
        self.handshake.send = true;
        self.handshake.retry_at = None;
        true
    }

    /// The nonce of the peer's side of a join.
    pub(crate) fn set_remote_nonce(&mut self, nonce: u32) {
        self.handshake.remote_nonce = nonce;
    }
}
