//! The state of a subflow: the TCP states, FINs and resets. Only the functions of this file change it.

use anabranch_units::{Duration, Time};

use super::Subflow;
use super::handshake::Handshake;
use super::queue::Queued;
use super::timer_table::Timer;
use crate::config::ConnectionConfig;
use crate::congestion::{CongestionControl, SubflowStart};
use crate::segment::ResetReason;
use crate::seq::DataRange;
use crate::stats::SubflowStats;

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

/// The consequence of an acknowledged FIN, or of the peer's FIN, for the connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ending {
    /// The subflow continues in another state.
    Continues,
    /// Both FINs are acknowledged, and this side waits in TIME-WAIT.
    TimeWait,
    /// Both FINs are acknowledged, and the subflow is complete.
    Done,
}

/// The outcome of [`Lifecycle::reset`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reset {
    /// The reset is the next segment sent.
    Due,
    /// Nothing was received from the peer, so no reset is sent: the connection ends the subflow.
    Silent,
    /// It had ended.
    Closed,
}

/// Data of a subflow that has failed or ended.
pub(crate) enum Remains {
    /// A part of the queue, which was not sent.
    Queued(Queued),
    /// Data that was sent, and is not acknowledged.
    Unacked(DataRange),
}

/// An ended subflow.
pub(crate) struct Ended {
    pub stats: SubflowStats,
    /// The content of the peer's reset, if there was one: whether the cause is transient, and the cause.
    pub reset: Option<(bool, ResetReason)>,
}

/// The state of a subflow, with the FIN and the reset that it has to send. Its transitions are the functions of this file.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Lifecycle {
    tcp: TcpState,
    /// True if the FIN is to be sent when the queue is empty.
    fin_wanted: bool,
    fin_sent: bool,
    reset: Option<ResetCause>,
}

impl Lifecycle {
    /// Returns the state of a new subflow.
    pub(super) fn new(tcp: TcpState) -> Lifecycle {
        Lifecycle { tcp, fin_wanted: false, fin_sent: false, reset: None }
    }

    /// Returns the state of TCP.
    #[inline]
    pub(crate) fn tcp(&self) -> TcpState {
        self.tcp
    }

    /// True if the first segment of the handshake is not acknowledged.
    #[inline]
    pub(crate) fn is_opening(&self) -> bool {
        matches!(self.tcp, TcpState::SynSent | TcpState::SynReceived)
    }

    /// True if it has ended.
    pub(crate) fn is_closed(&self) -> bool {
        self.tcp == TcpState::Closed
    }

    /// True if data flows in both directions, and no reset is due.
    #[inline]
    pub(super) fn is_flowing(&self) -> bool {
        self.tcp == TcpState::Established && self.reset.is_none()
    }

    /// True if segments with data, or a FIN, may be sent.
    #[inline]
    pub(super) fn carries_data(&self) -> bool {
        !matches!(
            self.tcp,
            TcpState::SynSent
                | TcpState::SynReceived
                | TcpState::PreEstablished
                | TcpState::TimeWait
                | TcpState::Closed
        )
    }

    /// True if it has neither ended nor is about to be reset.
    #[inline]
    pub(crate) fn is_open(&self) -> bool {
        !matches!(self.tcp, TcpState::Closed | TcpState::TimeWait) && self.reset.is_none()
    }

    /// True if data may be assigned to it.
    pub(crate) fn is_usable(&self) -> bool {
        matches!(self.tcp, TcpState::Established | TcpState::CloseWait)
            && !self.fin_wanted
            && self.reset.is_none()
    }

    /// True if it can still exchange segments of the connection.
    pub(crate) fn is_synchronised(&self) -> bool {
        !matches!(self.tcp, TcpState::SynSent | TcpState::SynReceived | TcpState::TimeWait | TcpState::Closed)
    }

    /// True if it is about to be reset by this side.
    #[inline]
    pub(crate) fn is_resetting(&self) -> bool {
        self.reset.is_some()
    }

    #[inline]
    pub(super) fn reset_due(&self) -> Option<ResetCause> {
        self.reset
    }

    /// Requests a reset, which is the next segment sent.
    pub(crate) fn request_reset(&mut self, cause: ResetCause) {
        self.reset = Some(cause);
    }

    /// Resets a subflow from which segments were received; any other ends without a segment.
    pub(crate) fn reset(&mut self, cause: ResetCause) -> Reset {
        match self.tcp {
            TcpState::Closed => Reset::Closed,
            TcpState::SynSent => Reset::Silent,
            _ => {
                self.reset = Some(cause);
                Reset::Due
            }
        }
    }

    /// Closes a subflow that is no longer needed: by the FIN, or by a reset in the handshake.
    pub(crate) fn close(&mut self) {
        match self.tcp {
            TcpState::Closed => {}
            _ if self.fin_wanted => {}
            TcpState::SynSent | TcpState::SynReceived | TcpState::PreEstablished => {
                self.reset = Some(ResetCause::Gone);
            }
            _ => self.fin_wanted = true,
        }
    }

    /// True if the peer has sent its FIN, and the local one could be requested.
    pub(crate) fn may_answer_fin(&self) -> bool {
        self.tcp == TcpState::CloseWait && self.is_usable()
    }

    /// Withdraws the request for a FIN that was not sent, if the peer has sent its own.
    pub(crate) fn reopen(&mut self) {
        if self.tcp == TcpState::CloseWait && !self.fin_sent {
            self.fin_wanted = false;
        }
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

    pub(super) fn fin_sent(&self) -> bool {
        self.fin_sent
    }

    /// True if the FIN was requested, and not sent.
    #[inline]
    pub(super) fn fin_pending(&self) -> bool {
        self.fin_wanted && !self.fin_sent
    }

    /// Updates the state when the FIN is sent.
    pub(super) fn on_fin_sent(&mut self) {
        self.fin_sent = true;
        self.tcp = match self.tcp {
            TcpState::CloseWait => TcpState::LastAck,
            _ => TcpState::FinWait1,
        };
    }

    /// Updates the state when its FIN is acknowledged.
    fn on_fin_acked(&mut self) -> Ending {
        match self.tcp {
            TcpState::FinWait1 => {
                self.tcp = TcpState::FinWait2;
                Ending::Continues
            }
            TcpState::Closing => Ending::TimeWait,
            TcpState::LastAck => Ending::Done,
            _ => Ending::Continues,
        }
    }

    /// Updates the state when the peer's FIN was reached in order.
    fn on_fin(&mut self) -> Ending {
        self.tcp = match self.tcp {
            TcpState::Established | TcpState::PreEstablished => TcpState::CloseWait,
            // If the same segment had acknowledged the local FIN, the state would already be FIN-WAIT-2.
            TcpState::FinWait1 => TcpState::Closing,
            TcpState::FinWait2 => TcpState::TimeWait,
            other => other,
        };
        if self.tcp == TcpState::TimeWait { Ending::TimeWait } else { Ending::Continues }
    }

    /// True if the local side is complete and it waits for the peer's FIN.
    #[inline]
    pub(super) fn awaits_fin(&self) -> bool {
        matches!(self.tcp, TcpState::Established | TcpState::FinWait1 | TcpState::FinWait2)
    }

    /// Rejects the SYN/ACK of a join. It has still synchronised the subflow, so the reset acknowledges it.
    pub(crate) fn reject_syn_ack(&mut self) {
        self.tcp = TcpState::PreEstablished;
        self.request_reset(ResetCause::Because(ResetReason::MptcpError));
    }

    /// Ends it.
    pub(crate) fn set_closed(&mut self) {
        self.tcp = TcpState::Closed;
    }
}

impl Subflow {
    #[inline]
    pub(crate) fn state(&self) -> &Lifecycle {
        &self.state
    }

    #[inline]
    pub(crate) fn state_mut(&mut self) -> &mut Lifecycle {
        &mut self.state
    }

    /// True if the local FIN was sent and acknowledged.
    pub(super) fn fin_acked(&self) -> bool {
        self.state.fin_sent && self.board.is_empty()
    }

    /// Handles the acknowledgement of the local FIN. TIME-WAIT ends at `until`, if this begins it.
    pub(crate) fn on_fin_acked(&mut self, until: Time) -> Ending {
        let ending = self.state.on_fin_acked();
        if ending == Ending::TimeWait {
            self.enter_time_wait(until);
        }
        ending
    }

    /// Handles the peer's FIN reached in order. TIME-WAIT ends at `until`, if this begins it.
    pub(crate) fn on_fin(&mut self, until: Time) -> Ending {
        let ending = self.state.on_fin();
        if ending == Ending::TimeWait {
            self.enter_time_wait(until);
        }
        ending
    }

    /// Waits in TIME-WAIT until `until`.
    pub(super) fn enter_time_wait(&mut self, until: Time) {
        self.state.tcp = TcpState::TimeWait;
        self.timers.arm(Timer::TimeWait, until);
    }

    /// Returns the end of TIME-WAIT, if it waits there.
    pub(crate) fn time_wait_until(&self) -> Option<Time> {
        (self.state.tcp == TcpState::TimeWait).then(|| self.timers.due(Timer::TimeWait))
    }

    /// Ends it, once: returns its final statistics. `remains` receives its data that the peer may not have; the
    /// stream is acknowledged up to `una`.
    pub(crate) fn end(&mut self, now: Time, una: u64, remains: impl FnMut(Remains)) -> Option<Ended> {
        if self.ended.is_armed() {
            return None;
        }
        self.ended = now;
        self.recall_all(una, remains);
        // The copies are no longer sent.
        self.queue.empty(|_| true, |_| ());
        self.board.abandon();
        self.held = None;
        Some(Ended { stats: self.stats(), reset: self.peer_reset })
    }

    /// Completes the handshake, for a join by the fourth ACK: data may flow.
    pub(crate) fn establish<C: CongestionControl>(
        &mut self,
        now: Time,
        config: &ConnectionConfig,
        congestion: &mut C,
    ) {
        self.state.tcp = TcpState::Established;
        self.established = now;
        self.handshake.skip();
        self.timers.disarm(Timer::Handshake);
        self.last_sent = now;
        let start = SubflowStart {
            now,
            mss: u64::from(self.mss),
            // RFC 5681 section 3.1: one segment if the SYN or its answer was lost; Linux does so after two
            // losses. RFC 6298 section 5.7 likewise.
            initial_window: if self.handshake.attempts() > 1 && !self.handshake.is_join() {
                1
            } else {
                config.initial_window
            },
            initial_ssthresh: config.initial_ssthresh,
            rtt: self.rtt.srtt(),
            prr: config.prr && self.sack,
            paced: config.pacing,
            sack: self.sack,
            byte_counting_limit: config.byte_counting_limit,
        };
        congestion.on_subflow_up(self.id, &start);
    }

    /// Accepts the peer's SYN/ACK to a join. Its third ACK is due, and awaits the fourth; if the keys were `agreed` in
    /// advance, data or an acknowledgement is the third segment, and there is no fourth.
    pub(crate) fn on_join_answered(&mut self, address_id: u8, backup: bool, nonce: u32, agreed: bool) {
        self.route.set_remote_id(address_id);
        self.route.on_backup_asked(backup);
        self.handshake.set_remote_nonce(nonce);
        if agreed {
            self.recv.want_ack();
        } else {
            self.state.tcp = TcpState::PreEstablished;
            self.handshake.restart();
        }
    }

    /// Handles a SYN of the peer that has crossed with the local one: the SYN/ACK is due.
    pub(super) fn cross_syn(&mut self) {
        self.state.tcp = TcpState::SynReceived;
        // The SYN/ACK is timed and retransmitted separately.
        self.handshake.restart();
    }

    /// Returns the state of the handshake.
    #[inline]
    pub(crate) fn handshake(&self) -> &Handshake {
        &self.handshake
    }

    #[inline]
    pub(crate) fn handshake_mut(&mut self) -> &mut Handshake {
        &mut self.handshake
    }

    /// Records the transmission of a segment of the handshake, which is repeated after `wait`.
    pub(super) fn on_handshake_sent(&mut self, now: Time, wait: Duration) {
        self.handshake.on_sent(now);
        self.timers.arm(Timer::Handshake, now + wait);
    }
}
