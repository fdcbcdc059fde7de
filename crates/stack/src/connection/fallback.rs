//! Fallback to TCP, and the signals of a damaged path (RFC 8684 section 3.7).
//!
//! A connection that has used only one subflow, and has sent and received nothing out of order there, *is* a
//! TCP connection: offset 1 of the subflow is offset 0 of the stream. It falls back to TCP if options are
//! missing or payload was changed. Any other connection gives up the subflow concerned, with a reset that
//! contains the reason, and reinjects the data on others. Linux applies the same criterion.
//!
//! A side that falls back after data has been transferred signals it with the next new data by a mapping of
//! length 0, the infinite mapping, and sends no MPTCP option after that.

use anabranch_units::{Duration, Time};

use super::fallback_state::FailTimeout;
use super::step::{NEXT, STOP, Step};
use super::timer_table::Timer;
use super::{Connection, Mode, Phase};
use crate::event::CloseReason;
use crate::segment::{Dss, MappedDsn, Mapping, MptcpOption, ResetReason, Segment};
use crate::seq::Dsn;
use crate::subflow::mappings::mapped_start;
use crate::subflow::receive::{PeerSigns, Position};
use crate::subflow::{Reset, ResetCause, Subflow};

/// The signal of a fallback to the peer, besides the infinite mapping.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Notice {
    /// None: the peer has fallen back, or sees the cause.
    None,
    /// An MP_FAIL: the peer may not see the cause.
    MpFail,
}

/// Whether this side has fallen back with its peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Followed {
    FellBack,
    No,
}

impl Connection {
    /// True if the subflow at `at` is the only one there has been, and the stream is in order on it in both
    /// directions: then it can continue as TCP.
    pub(super) fn may_fall_back(&self, at: usize) -> bool {
        !self.fallback.was_answered() && self.may_follow(at)
    }

    /// True if the same holds given that the peer falls back, and so has used no other subflow either.
    fn may_follow(&self, at: usize) -> bool {
        self.mode == Mode::Mptcp
            && self.phase == Phase::Open
            && !self.config.only.simultaneous
            && self.is_alone(at)
            && self.subflows[at].receives_in_order(self.recv.nxt(), self.recv.out_of_order())
    }

    /// True if no other subflow can carry data, and everything sent on this one was sent once and in the order of the
    /// stream.
    fn is_alone(&self, at: usize) -> bool {
        let unassigned = self.send.unassigned.first().map_or(self.send.written, |range| range.start);
        let subflow = &self.subflows[at];
        !self.fallback.was_joined()
            && self.send.reinject.is_empty()
            && subflow.sends_in_order(unassigned)
            && self.live_subflows().all(|other| other.id() == subflow.id() || other.state().is_opening())
    }

    /// Falls back to TCP on the only subflow, if [`Connection::may_fall_back`] allows it.
    #[cold]
    pub(super) fn fall_back(&mut self, now: Time, at: usize, notice: Notice) {
        let ssn = self.fallback.in_sent_subflow(self.send.una as i64) as u32;
        let mapping = Mapping {
            dsn: MappedDsn::Wide(self.local_dsn.add(self.send.una)),
            ssn,
            len: 0,
            checksum: self.checksummed.then_some(0),
        };
        self.fallback.begin_infinite(mapping);
        self.become_plain(now, at);
        if notice == Notice::MpFail {
            let dsn = Dsn(self.remote_dsn.0.wrapping_add(self.recv.nxt()));
            self.subflows[at].signals_mut().push(MptcpOption::Fail(dsn));
        }
    }

    fn become_plain(&mut self, now: Time, at: usize) {
        self.mode = Mode::Plain;
        self.stats.fallbacks += 1;
        self.fallback.end_failing();
        self.checksummed = false;
        self.wanted.cancel_third_ack();
        // Joins in progress are abandoned (section 3.7: only one subflow may remain).
        self.paths.forget();
        for other in (0..self.subflows.len()).filter(|&other| other != at) {
            let cause = ResetCause::Because(ResetReason::Unspecified);
            if self.subflows[other].state_mut().reset(cause) == Reset::Silent {
                self.fail_handshake(now, other, CloseReason::Refused);
            }
        }
        let Connection { subflows, send, config, .. } = self;
        let Position { acked, window, received, finished } =
            subflows[at].leave_mptcp(|queued| send.take_back(queued.range));
        // The segment with the infinite mapping has the length of one with a mapping.
        if !self.fallback.is_infinite() {
            subflows[at].drop_mptcp_options(config);
        }
        self.timers.disarm(Timer::Data);
        self.timers.disarm(Timer::Fin);
        self.closing.withdraw_fins();
        // The FIN now signals the end of the stream, even if a DATA_FIN has done so.
        self.send.fin_sent = false;
        self.send.fin_acked = false;
        // Section 3.7: the subflow's acknowledgements are the stream's acknowledgements.
        let acked = self.fallback.in_sent_stream(acked as i64);
        let end = self.fallback.in_received_stream(received as i64 - 1);
        self.on_data_ack(now, acked, window);
        if finished {
            self.recv.set_fin(end.max(0) as u64);
            self.subflows[at].state_mut().withdraw_fin();
            self.after_remote_fin();
        }
        self.wanted.schedule();
    }

    /// Handles an infinite mapping (section 3.7): the peer has fallen back to TCP, and this side follows; if
    /// it cannot, the subflow ends.
    #[cold]
    pub(super) fn on_infinite_mapping(&mut self, now: Time, at: usize, mapping: &Mapping, near: u64) -> Step {
        let ssn = mapped_start(mapping, near);
        let data = self.mapped_offset(mapping);
        let alone = self.phase == Phase::Open && self.is_alone(at);
        if !alone || ssn < 1 || data < 0 {
            self.subflows[at].state_mut().request_reset(ResetCause::Because(ResetReason::Middlebox));
            return STOP;
        }
        self.fallback.set_received(ssn, data);
        self.become_plain(now, at);
        NEXT
    }

    /// True if a segment on a connection that has fallen back to TCP is mapped before its position in the
    /// stream: the peer has not fallen back, and retransmits data that may already have been received. (Data
    /// mapped after its position is taken as stream data, like everything else.)
    pub(super) fn is_mapped_before(&self, at: usize, segment: &Segment) -> bool {
        let Some(Dss { mapping: Some(mapping), .. }) = segment.options.dss else { return false };
        if self.stats.fallbacks == 0 || mapping.len == 0 || mapping.ssn == 0 || segment.payload_len == 0 {
            return false;
        }
        let ssn = mapped_start(&mapping, self.subflows[at].recv().nxt());
        self.mapped_offset(&mapping) < self.fallback.in_received_stream(ssn)
    }

    /// Handles a segment without any MPTCP option on a subflow of an MPTCP connection.
    #[cold]
    pub(super) fn on_bare_segment(&mut self, now: Time, at: usize, segment: &Segment) -> Step {
        // Several blocks may have left no space for a data acknowledgement without news. If the subflow has
        // delivered the head of the stream, there would be news.
        let crowded = segment.options.sack.as_slice().len() > 1;
        let silent = !crowded || (self.send.is_head_given() && !self.is_head_carried());
        match self.subflows[at].on_bare(silent) {
            _ if crowded => return NEXT,
            PeerSigns::OfMptcp => return NEXT,
            PeerSigns::Nothing if !(self.keys_pending(at) && self.may_fall_back(at)) => return NEXT,
            PeerSigns::Nothing | PeerSigns::OfTcp => {}
        }
        // Section 3.7: data is acknowledged although no data acknowledgement was ever received. Section 3.1:
        // nor has any DSS shown that the listener has the keys, and it answers without options.
        if self.may_fall_back(at) {
            self.fall_back(now, at, Notice::None);
            return NEXT;
        }
        self.subflows[at].state_mut().request_reset(ResetCause::Because(ResetReason::Middlebox));
        STOP
    }

    /// Falls back with a peer that no longer sends data acknowledgements although the data level has waited
    /// too long: its signals of fallback were lost. Linux falls back like this during a connection.
    #[cold]
    pub(super) fn follow_silent_peer(&mut self, now: Time) -> Followed {
        let only = self.subflows.iter().position(|subflow| subflow.is_bare() && subflow.state().is_usable());
        let Some(at) = only else { return Followed::No };
        if self.may_fall_back(at) {
            self.fall_back(now, at, Notice::MpFail);
            return Followed::FellBack;
        }
        let head = self.send.outstanding.as_slice().first();
        if head.is_some_and(|head| head.tried.has(self.subflows[at].id())) {
            // A peer that has fallen back would take retransmitted data for new data.
            self.subflows[at].state_mut().request_reset(ResetCause::Because(ResetReason::Middlebox));
        }
        Followed::No
    }

    /// Handles damage in the payload mapped from `data` on (section 3.7).
    #[cold]
    pub(super) fn on_damage(&mut self, now: Time, at: usize, data: i64) {
        self.stats.checksum_failures += 1;
        if self.may_fall_back(at) {
            let resend_at = now + self.max_rto();
            let deadline = now + self.config.rto.max.max(Duration::from_secs(1));
            self.fallback.begin_failing(data, resend_at, deadline);
            self.subflows[at].recv_mut().want_ack();
        } else {
            self.subflows[at].state_mut().request_reset(ResetCause::Damage(data));
        }
    }

    /// Handles an MP_FAIL: the peer has detected damage in local data, or answers a local MP_FAIL.
    #[cold]
    pub(super) fn on_fail(&mut self, now: Time, at: usize) -> Step {
        self.stats.fails_received += 1;
        let answered = self.fallback.is_failing();
        if self.may_follow(at) {
            self.fall_back(now, at, if answered { Notice::None } else { Notice::MpFail });
            return NEXT;
        }
        // Section 3.7: data in flight is not contiguous, so the subflow is closed.
        self.subflows[at].state_mut().request_reset(ResetCause::Damage(self.recv.nxt() as i64));
        STOP
    }

    /// Handles the timer of an MP_FAIL.
    #[cold]
    pub(super) fn on_fail_timer(&mut self, now: Time) {
        let Some(at) = self.subflows.iter().position(Subflow::holds_payload) else {
            self.fallback.end_failing();
            return;
        };
        let resend_at = now + self.max_rto();
        match self.fallback.on_fail_timer(now, resend_at) {
            Some(FailTimeout::Resend) => self.subflows[at].recv_mut().want_ack(),
            Some(FailTimeout::GiveUp(data)) => {
                self.subflows[at].state_mut().request_reset(ResetCause::Damage(data))
            }
            None => {}
        }
    }

    /// Lets segments fill the MTU from the first transmission of the infinite mapping on, if there is one: later
    /// segments have no option of MPTCP.
    #[inline]
    pub(super) fn fill_segments(&mut self, at: usize) {
        if self.fallback.is_infinite() && self.fallback.note_last_option() {
            self.subflows[at].drop_mptcp_options(&self.config);
        }
    }
}
