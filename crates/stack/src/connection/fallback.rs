//! The way back to TCP, and what a damaged path says (RFC 8684 section 3.7).
//!
//! A connection that has had one subflow only, and has sent and received nothing out of its order there,
//! *is* a TCP connection: offset 1 of the subflow is offset 0 of the stream. It goes back to TCP where
//! options are missing or payload was changed. Any other connection gives up the subflow concerned,
//! with a reset that says why, and sends the data elsewhere. Linux draws the line at the same place.
//!
//! Whoever goes back once data has flowed says so with the next new data by a mapping of length 0, the
//! infinite mapping, and no MPTCP option leaves after that.

use anabranch_units::{Duration, Time};

use super::step::{NEXT, STOP, Step};
use super::timer_table::Timer;
use super::{Connection, Mode, Phase};
use crate::event::CloseReason;
use crate::segment::{Dss, MappedDsn, Mapping, MptcpOption, OPTION_SPACE, ResetReason, SackBlocks, Segment};
use crate::seq::Dsn;
use crate::subflow::mappings::mapped_start;
use crate::subflow::{ResetCause, TcpState};

/// The way back to TCP.
#[derive(Clone, Debug)]
pub(crate) struct Fallback {
    /// In a plain TCP: where the stream that we send stands, less where its subflow stands.
    pub send_shift: i64,
    /// The same for what we receive.
    pub recv_shift: i64,
    /// Another subflow was opened as far as its peer may have used it: the third ACK has left or come.
    pub joined: bool,
    /// A join was answered: its peer may have gone so far, and only its word says that it has not.
    pub answered: bool,
    /// Payload was changed: the peer is told, and its answer awaited.
    pub failing: Option<Failing>,
    /// The infinite mapping shall leave, or has left.
    infinite: Option<Infinite>,
}

/// An MP_FAIL that is not answered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Failing {
    /// Where the damage begins in the stream.
    data: i64,
    /// When it is said again.
    resend_at: Time,
    /// When the subflow is given up.
    deadline: Time,
}

#[derive(Clone, Copy, Debug)]
struct Infinite {
    /// The mapping: it acts backwards, from what the peer is known to have.
    mapping: Mapping,
    /// The subflow offset of the segment that carries it, each time it is sent.
    seq: Option<u64>,
}

impl Default for Fallback {
    fn default() -> Fallback {
        Fallback {
            send_shift: -1,
            recv_shift: -1,
            joined: false,
            answered: false,
            failing: None,
            infinite: None,
        }
    }
}

impl Connection {
    /// Whether the subflow at `at` is the only one that there ever was, and the stream stands in it in its
    /// order, both ways: then it can go on as a TCP.
    pub(super) fn may_fall_back(&self, at: usize) -> bool {
        !self.fallback.answered && self.may_follow(at)
    }

    /// The same where the peer says that it goes back, and so has used no other subflow either.
    fn may_follow(&self, at: usize) -> bool {
        self.mode == Mode::Mptcp
            && self.phase == Phase::Open
            && !self.config.simultaneous
            && self.is_alone(at)
            && self.receives_in_order(at)
            && self.sends_in_order(at)
    }

    /// No other subflow can carry data.
    fn is_alone(&self, at: usize) -> bool {
        !self.subflows[at].is_join()
            && !self.subflows[at].is_resetting()
            && !self.subflows[at].fin_sent()
            && self.live_subflows().all(|other| {
                let opening = matches!(other.state(), TcpState::SynSent | TcpState::SynReceived);
                other.id().index() == at || opening
            })
    }

    /// Every byte that has arrived on the subflow is here once, held or in the stream, and none that is held lies where
    /// the stream has gone on by another mapping.
    fn receives_in_order(&self, at: usize) -> bool {
        let subflow = &self.subflows[at];
        let first_held = subflow.held().and_then(|held| held.start());
        if first_held.is_some_and(|start| start <= self.recv.nxt()) {
            return false;
        }
        let held = subflow.held().map_or(0, |held| held.bytes());
        let taken = subflow.recv().total() - u64::from(subflow.recv().finished());
        self.recv.nxt() + self.recv.out_of_order() + held + 1 == taken
    }

    /// Everything that was sent on the subflow was sent once and in the order of the stream.
    fn sends_in_order(&self, at: usize) -> bool {
        if self.fallback.joined
            || self.subflows[at].counters().bytes_reinjected > 0
            || !self.send.reinject.is_empty()
        {
            return false;
        }
        // What waits in the subflow's queue can wait elsewhere.
        let mut waiting = self.send.unassigned.first().map_or(self.send.written, |range| range.start);
        if let Some(first) = self.subflows[at].queue().map(|queued| queued.range.start).min() {
            waiting = waiting.min(first);
        }
        waiting + 1 == self.subflows[at].board().nxt()
    }

    /// Goes back to TCP on the only subflow, where [`Connection::may_fall_back`] allows it. With `tell` the
    /// peer hears MP_FAIL, too: it may not see what we see.
    #[cold]
    pub(super) fn fall_back(&mut self, now: Time, at: usize, tell: bool) {
        let ssn = (self.send.una as i64 - self.fallback.send_shift) as u32;
        let mapping = Mapping {
            dsn: MappedDsn::Wide(self.local_dsn.add(self.send.una)),
            ssn,
            len: 0,
            checksum: self.checksummed.then_some(0),
        };
        self.fallback.infinite = Some(Infinite { mapping, seq: None });
        self.become_plain(now, at);
        if tell {
            let dsn = Dsn(self.remote_dsn.0.wrapping_add(self.recv.nxt()));
            self.subflows[at].signal(MptcpOption::Fail(dsn));
        }
    }

    fn become_plain(&mut self, now: Time, at: usize) {
        self.mode = Mode::Plain;
        self.stats.fallbacks += 1;
        self.fallback.failing = None;
        self.checksummed = false;
        self.wanted.cancel_third_ack();
        // Joins that are under way come to nothing (section 3.7: one subflow only may stay).
        self.paths.forget();
        for other in (0..self.subflows.len()).filter(|&other| other != at) {
            match self.subflows[other].state() {
                TcpState::Closed => {}
                TcpState::SynSent => self.fail_handshake(now, other, CloseReason::Refused),
                _ => self.subflows[other].request_reset(ResetCause::Because(ResetReason::Unspecified)),
            }
        }
        // What waits in the queue is given to the subflow again, in its order.
        let Connection { subflows, send, .. } = self;
        subflows[at].empty_queue(|_| true, |queued| send.take_back(queued.range));
        self.subflows[at].clear_signals();
        self.subflows[at].clear_mappings();
        self.subflows[at].cancel_withdrawal();
        self.timers.disarm(Timer::Data);
        self.timers.disarm(Timer::Fin);
        self.closing.withdraw_fins();
        // The end of the stream is the FIN's to say now, also where a DATA_FIN has said it.
        self.send.fin_sent = false;
        self.send.fin_acked = false;
        // Section 3.7: the acknowledgements of the subflow are those of the stream.
        let subflow = &self.subflows[at];
        let acked = subflow.board().una() as i64 + self.fallback.send_shift;
        let window = subflow.whole_window();
        let fin =
            subflow.recv().finished().then(|| subflow.recv().nxt() as i64 - 1 + self.fallback.recv_shift);
        self.on_data_ack(now, acked, window);
        if let Some(end) = fin {
            self.recv.set_fin(end.max(0) as u64);
            self.subflows[at].withdraw_fin();
            self.after_remote_fin();
        }
        self.wanted.schedule();
    }

    /// The infinite mapping leaves with the first data after the way back, each time that is sent (sections
    /// 3.3.1 and 3.7).
    #[cold]
    pub(super) fn say_infinite(&mut self, seq: u64, out: &mut Segment) {
        let Some(infinite) = &mut self.fallback.infinite else { return };
        if *infinite.seq.get_or_insert(seq) == seq {
            out.options.dss = Some(Dss { data_ack: None, mapping: Some(infinite.mapping), data_fin: false });
            if out.options.wire_len() > OPTION_SPACE {
                out.options.sack = SackBlocks::EMPTY;
            }
        }
    }

    /// Whether an infinite mapping may be due.
    pub(super) fn says_infinite(&self) -> bool {
        self.fallback.infinite.is_some()
    }

    /// The peer says that the stream stands in the subflow from here on (section 3.7). It has gone back to
    /// TCP, and we follow; or, where that cannot be, the subflow ends.
    #[cold]
    pub(super) fn on_infinite_mapping(&mut self, now: Time, at: usize, mapping: &Mapping, near: u64) -> Step {
        let ssn = mapped_start(mapping, near);
        let data = self.mapped_offset(mapping);
        let alone = self.phase == Phase::Open && self.is_alone(at) && self.sends_in_order(at);
        if !alone || ssn < 1 || data < 0 {
            self.subflows[at].request_reset(ResetCause::Because(ResetReason::Middlebox));
            return STOP;
        }
        self.fallback.recv_shift = data - ssn;
        self.become_plain(now, at);
        NEXT
    }

    /// Whether a segment on a connection that has gone back to TCP says that its payload belongs before where it stands:
    /// the peer has not gone back, and sends again what may be here already. (What is said to belong behind is the
    /// stream's, as whatever comes.)
    pub(super) fn is_mapped_before(&self, at: usize, segment: &Segment) -> bool {
        let Some(Dss { mapping: Some(mapping), .. }) = segment.options.dss else { return false };
        if self.stats.fallbacks == 0 || mapping.len == 0 || mapping.ssn == 0 || segment.payload_len == 0 {
            return false;
        }
        let ssn = mapped_start(&mapping, self.subflows[at].recv().nxt());
        self.mapped_offset(&mapping) < ssn + self.fallback.recv_shift
    }

    /// A segment without any MPTCP option has arrived on a subflow of an MPTCP connection.
    #[cold]
    pub(super) fn on_bare_segment(&mut self, now: Time, at: usize, segment: &Segment) -> Step {
        // Several blocks may have left no room for a data acknowledgement that says nothing new. Where the subflow has
        // brought the head of the stream there would be news.
        let crowded = segment.options.sack.as_slice().len() > 1;
        let silent = !crowded || (self.is_head_given() && !self.is_head_carried());
        let subflow = &mut self.subflows[at];
        if silent {
            subflow.note_bare();
        }
        if crowded || subflow.has_seen_dss() {
            return NEXT;
        }
        if subflow.board().una() <= 1 && !(self.keys_pending(at) && self.may_fall_back(at)) {
            return NEXT;
        }
        // Section 3.7: data is acknowledged and no data acknowledgement has ever come. Section 3.1: nor has any DSS
        // shown that the listener has the keys, and it answers without options.
        if self.may_fall_back(at) {
            self.fall_back(now, at, false);
            return NEXT;
        }
        self.subflows[at].request_reset(ResetCause::Because(ResetReason::Middlebox));
        STOP
    }

    /// The data level has waited for too long, and the peer does not speak of it any more: it has gone back
    /// to TCP without a word that has come through, and we follow. Linux does so in mid-connection.
    #[cold]
    pub(super) fn follow_silent_peer(&mut self, now: Time) -> bool {
        let only = self.subflows.iter().position(|subflow| subflow.is_bare() && subflow.is_usable());
        let Some(at) = only else { return false };
        if self.may_fall_back(at) {
            self.fall_back(now, at, true);
            return true;
        }
        let head = self.send.outstanding.as_slice().first();
        if head.is_some_and(|head| head.tried.has(self.subflows[at].id())) {
            // A peer that has become a TCP would take what is sent again for new.
            self.subflows[at].request_reset(ResetCause::Because(ResetReason::Middlebox));
        }
        false
    }

    /// The payload mapped from `data` on is not what was sent (section 3.7).
    #[cold]
    pub(super) fn on_damage(&mut self, now: Time, at: usize, data: i64) {
        self.stats.checksum_failures += 1;
        if self.may_fall_back(at) {
            let resend_at = now + self.max_rto();
            let deadline = now + self.config.rto.max.max(Duration::from_secs(1));
            self.fallback.failing = Some(Failing { data, resend_at, deadline });
            self.subflows[at].want_ack();
        } else {
            self.subflows[at].request_reset(ResetCause::Damage(data));
        }
    }

    /// MP_FAIL on an acknowledgement of the subflow, as long as it is not answered.
    #[cold]
    pub(super) fn say_failing(&self, out: &mut Segment) {
        let Some(failing) = self.fallback.failing else { return };
        out.options.push(MptcpOption::Fail(self.failed_dsn(failing.data)));
        if out.options.wire_len() > OPTION_SPACE {
            out.options.sack = SackBlocks::EMPTY;
        }
    }

    /// The number that an MP_FAIL names.
    pub(super) fn failed_dsn(&self, data: i64) -> Dsn {
        Dsn(self.remote_dsn.0.wrapping_add(data as u64))
    }

    /// The peer has found our data changed, or answers that it has heard of ours.
    #[cold]
    pub(super) fn on_fail(&mut self, now: Time, at: usize) -> Step {
        self.stats.fails_received += 1;
        let answered = self.fallback.failing.is_some();
        if self.may_follow(at) {
            self.fall_back(now, at, !answered);
            return NEXT;
        }
        // Section 3.7: what is under way is not contiguous, so that the subflow has to go.
        self.subflows[at].request_reset(ResetCause::Damage(self.recv.nxt() as i64));
        STOP
    }

    /// When the MP_FAIL is due again.
    pub(super) fn fail_timer(&self) -> Time {
        self.fallback.failing.map_or(Time::NEVER, |failing| failing.resend_at.min(failing.deadline))
    }

    #[cold]
    pub(super) fn on_fail_timer(&mut self, now: Time) {
        let Some(mut failing) = self.fallback.failing else { return };
        let Some(at) = self.subflows.iter().position(|subflow| subflow.held().is_some()) else {
            self.fallback.failing = None;
            return;
        };
        if failing.deadline <= now {
            self.fallback.failing = None;
            self.subflows[at].request_reset(ResetCause::Damage(failing.data));
            return;
        }
        failing.resend_at = now + self.max_rto();
        self.fallback.failing = Some(failing);
        self.subflows[at].want_ack();
    }
}
