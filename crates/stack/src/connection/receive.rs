//! Processing of received segments: validity, acknowledgements, options, payload, FIN.

use anabranch_units::Time;

use super::ack::Progress;
use super::fallback::Notice;
use super::fast::FastPath;
use super::payload::Incoming;
use super::rejoin::LostBy;
use super::step::{NEXT, STOP, Step};
use super::{Connection, Mode};
use crate::event::{CloseReason, Placement, SubflowId};
use crate::observer::{Observer, StackEvent, StackEvents, report};
use crate::path_manager::PathManagerKind;
use crate::segment::{DataAck, Dss, Flags, MappedDsn, MptcpOption, ResetReason, Segment};
use crate::seq::Seq;
use crate::subflow::receive::Acceptance;
use crate::subflow::{Ending, ResetCause, TcpState};

/// The segment by which the peer has aborted the connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum AbortedBy {
    /// A segment with MP_FASTCLOSE and without RST: this side resets the subflow.
    Option,
    /// A reset with MP_FASTCLOSE.
    Reset,
}

impl Connection {
    /// Handles a segment received for the subflow `id`.
    #[inline(never)]
    pub(crate) fn handle_segment<O: Observer>(
        &mut self,
        now: Time,
        id: SubflowId,
        segment: &Segment,
        placed: &mut Vec<Placement>,
        observer: &mut O,
    ) {
        report(observer, now, self.id, &StackEvent::Received { subflow: id, segment });
        let before = (self.send.una, self.send.window_end);
        let _ = self.process_segment(now, id.index(), segment, placed, observer);
        let (una, window_edge) = (self.send.una, self.send.window_end);
        if O::EVENTS.has(StackEvents::DATA_ACKED) && before != (una, window_edge) {
            observer.on_event(now, self.id, &StackEvent::DataAcked { subflow: id, una, window_edge });
        }
    }

    /// Runs the steps of RFC 9293 section 3.10.7, with the steps of RFC 8684 between the acknowledgement and
    /// the payload.
    #[inline(always)]
    fn process_segment<O: Observer>(
        &mut self,
        now: Time,
        at: usize,
        segment: &Segment,
        placed: &mut Vec<Placement>,
        observer: &mut O,
    ) -> Step {
        self.process_by_state(now, at, segment)?;
        self.check_acceptable(now, at, segment, placed)?;
        let progress = self.process_ack(now, at, segment, observer)?;
        if self.subflows[at].state().tcp() == TcpState::PreEstablished {
            self.on_fourth_ack(now, at, segment);
        }
        match self.mode {
            Mode::Mptcp => self.process_mptcp(now, at, segment, progress, placed)?,
            Mode::Plain => self.process_plain_ack(now, at, segment),
        }
        if segment.payload_len > 0 {
            self.sample_arrival(now, at, segment);
        }
        if (segment.payload_len > 0 || segment.flags.has(Flags::FIN))
            && self.fast_process_payload(now, at, segment, placed) == FastPath::NotTaken
        {
            self.process_payload(now, at, segment, placed);
            self.withhold_ack(at, segment);
        }
        // The FIN may have arrived before the data preceding it.
        if self.subflows[at].has_ended_in_order() {
            self.on_end_of_subflow(now, at, segment, placed);
        }
        self.check_closing(now, at);
        NEXT
    }

    /// Processes a segment in the states that have their own rules.
    #[inline(always)]
    fn process_by_state(&mut self, now: Time, at: usize, segment: &Segment) -> Step {
        match self.subflows[at].state().tcp() {
            TcpState::Closed => STOP,
            TcpState::SynSent => {
                self.on_segment_in_syn_sent(now, at, segment);
                STOP
            }
            TcpState::SynReceived => self.on_segment_in_syn_received(now, at, segment),
            TcpState::TimeWait => {
                let time_wait = self.config.time_wait;
                if self.subflows[at].on_segment_in_time_wait(now, time_wait, segment) == Ending::Done {
                    self.close_subflow(now, at);
                }
                STOP
            }
            _ => NEXT,
        }
    }

    /// Checks the sequence number, RST, SYN, timestamp and ACK of a segment.
    #[inline(always)]
    fn check_acceptable(
        &mut self,
        now: Time,
        at: usize,
        segment: &Segment,
        placed: &mut Vec<Placement>,
    ) -> Step {
        match self.subflows[at].accept(now, self.tick, segment) {
            Acceptance::Accepted => NEXT,
            refused => {
                self.on_unacceptable(now, at, segment, refused, placed);
                STOP
            }
        }
    }

    /// Cancels the acknowledgement of a segment with data beyond a hole of the stream, if the simulator asks
    /// for that. A departure from RFC 8684 section 3.3.2.
    #[inline]
    fn withhold_ack(&mut self, at: usize, segment: &Segment) {
        if !self.config.only.withhold_acks || segment.payload_len == 0 {
            return;
        }
        let mapping = segment.options.dss.as_ref().and_then(|dss| dss.mapping.as_ref());
        if mapping.is_some_and(|mapping| self.mapped_offset(mapping) >= self.recv.nxt() as i64) {
            self.subflows[at].recv_mut().cancel_ack();
        }
    }

    /// Processes the MPTCP options of a segment. Its acknowledgement is processed already, and has made this
    /// `progress` on the subflow.
    #[inline(always)]
    fn process_mptcp(
        &mut self,
        now: Time,
        at: usize,
        segment: &Segment,
        progress: Progress,
        placed: &mut Vec<Placement>,
    ) -> Step {
        let data_una = self.send.una;
        self.process_mptcp_options(now, at, segment)?;
        if self.mode == Mode::Plain {
            self.release_held(now, at, placed);
        } else if data_una == self.send.una && progress == Progress::Some {
            // Without a data acknowledgement, the peer may have fallen back to TCP, and would take
            // retransmitted data for new data.
            if segment.options.dss.is_some_and(|dss| dss.data_ack.is_some()) {
                self.on_progress_below(now);
            } else {
                self.subflows[at].note_missed_data_ack();
            }
        }
        NEXT
    }

    /// Answers a segment that is not acceptable.
    #[cold]
    fn on_unacceptable(
        &mut self,
        now: Time,
        at: usize,
        segment: &Segment,
        refused: Acceptance,
        placed: &mut Vec<Placement>,
    ) {
        match refused {
            Acceptance::Old(len) => {
                if len > 0 {
                    placed.push(Placement::Discard { connection: self.id, payload_offset: 0, len });
                }
                self.withhold_ack(at, segment);
            }
            Acceptance::Reset => self.on_reset(now, at, segment),
            Acceptance::Challenged => {
                self.challenge(now, at);
            }
            Acceptance::Syn => {
                if self.challenge(now, at) && self.keys_pending(at) {
                    self.wanted.request_third_ack();
                }
            }
            Acceptance::Accepted | Acceptance::Dropped => {}
        }
    }

    /// Handles a router's report that it has dropped the segment of subflow `at` that began at `seq`, because
    /// packets of more than `mtu` bytes do not pass.
    #[cold]
    pub(crate) fn on_too_big<O: Observer>(
        &mut self,
        now: Time,
        at: usize,
        seq: Seq,
        mtu: u32,
        observer: &mut O,
    ) {
        let (connection, id) = (self.id, self.subflows[at].id());
        let lost = |range, reason| {
            report(observer, now, connection, &StackEvent::Lost { subflow: id, range, reason });
        };
        if self.subflows[at].on_too_big(now, seq, mtu, lost) {
            self.wanted.schedule();
        }
    }

    #[inline(never)]
    fn process_mptcp_options(&mut self, now: Time, at: usize, segment: &Segment) -> Step {
        if let Some(dss) = &segment.options.dss {
            self.process_dss(now, at, dss, segment)?;
        } else if segment.options.mptcp[0].is_none() {
            return self.on_bare_segment(now, at, segment);
        }
        if segment.options.mptcp[0].is_none() {
            return NEXT;
        }
        for option in segment.options.mptcp.iter().flatten() {
            match option {
                MptcpOption::AddAddress(add) => self.on_add_address(now, at, add),
                MptcpOption::RemoveAddress(ids) => self.on_remove_address(now, ids),
                MptcpOption::Priority { backup } => {
                    self.subflows[at].route_mut().on_backup_asked(*backup);
                    self.wanted.schedule();
                }
                MptcpOption::FastClose(key) => {
                    if *key == self.keys.local() {
                        self.on_fast_close(now, at, AbortedBy::Option);
                        return STOP;
                    }
                }
                MptcpOption::Capable(capable) => {
                    // The first data of the initiator: the peer's keys are already known.
                    if !self.initiator && capable.data_len.is_some() && !self.confirmed {
                        self.peer_wide = true;
                        self.confirm(now);
                    }
                }
                MptcpOption::Join(_) => {
                    // A repeated third ACK of a join: the fourth was lost (RFC 8684 section 3.2).
                    self.subflows[at].recv_mut().want_ack();
                }
                MptcpOption::Fail(_) => {
                    // After fallback, options are ignored (RFC 8684 section 3.7).
                    return self.on_fail(now, at);
                }
                // Without RST it is ignored (section 3.6).
                MptcpOption::Reset { .. } => {}
            }
        }
        NEXT
    }

    /// Records that the peer has the local key: joins may begin.
    fn confirm(&mut self, now: Time) {
        if !self.confirmed {
            self.confirmed = true;
            self.start_path_manager();
            // As Linux does, before it acknowledges data: its client takes up announced addresses first.
            if matches!(self.config.path_manager, PathManagerKind::Endpoints(_)) {
                self.send_announcements(now);
            }
        }
    }

    /// Processes the DSS; stops if the segment is not processed further.
    fn process_dss(&mut self, now: Time, at: usize, dss: &Dss, segment: &Segment) -> Step {
        self.confirm(now);
        if let Some(data_ack) = dss.data_ack {
            if self.subflows[at].note_data_ack(segment) {
                // Data that waited for this signal need not wait longer (`Connection::reinject_head`).
                self.head_repair.forget_attempts();
                self.on_progress_below(now);
            }
            let expected = self.local_dsn.add(self.send.una);
            let dsn = match data_ack {
                DataAck::Wide(dsn) => dsn,
                DataAck::Narrow(low) => expected.expand(low),
            };
            let offset = dsn.distance_from(self.local_dsn);
            let window = self.subflows[at].scaled_window(segment);
            self.on_data_ack(now, offset, window);
        }
        if let Some(mapping) = &dss.mapping {
            if matches!(mapping.dsn, MappedDsn::Wide(_)) {
                self.peer_wide = true;
            }
            if mapping.checksum.is_some() != self.checksummed {
                // RFC 8684 section 3.3: a checksum without negotiation, or a missing one, ends the subflow.
                self.subflows[at].state_mut().request_reset(ResetCause::Because(ResetReason::MptcpError));
                return STOP;
            }
            if mapping.len == 0 && segment.payload_len > 0 {
                let near = self.subflows[at].seq_offset(segment).max(0) as u64;
                return self.on_infinite_mapping(now, at, mapping, near);
            }
            // With a checksum, a DATA_FIN mapped together with data is verified together with it.
            let alone = mapping.len == 1;
            if dss.data_fin && mapping.len > 0 && (alone || !self.checksummed) {
                if alone {
                    self.verify_alone(now, at, mapping)?;
                }
                let end = self.mapped_offset(mapping) + i64::from(mapping.len) - 1;
                self.on_data_fin(at, end);
            }
        }
        NEXT
    }

    /// Handles a reset with a valid sequence number.
    #[cold]
    fn on_reset(&mut self, now: Time, at: usize, segment: &Segment) {
        if self.mode == Mode::Mptcp {
            let fast_close = segment
                .options
                .mptcp
                .iter()
                .flatten()
                .any(|option| matches!(option, MptcpOption::FastClose(key) if *key == self.keys.local()));
            if fast_close {
                self.on_fast_close(now, at, AbortedBy::Reset);
                return;
            }
            self.note_reset(at, segment);
        }
        if self.mode == Mode::Plain {
            let finished = self.send.fin_acked && self.recv.finished();
            self.end(if finished { CloseReason::Finished } else { CloseReason::Reset });
        }
        self.rejoin_later(now, at, LostBy::Reset);
        self.close_subflow(now, at);
        self.check_ended(now);
    }

    /// Handles an abort of the connection by the peer (RFC 8684 section 3.5).
    #[cold]
    fn on_fast_close(&mut self, now: Time, at: usize, by: AbortedBy) {
        for other in 0..self.subflows.len() {
            if by == AbortedBy::Reset && other == at {
                self.close_subflow(now, other);
            } else if !self.subflows[other].state().is_closed() {
                self.subflows[other].state_mut().request_reset(ResetCause::Gone);
            }
        }
        self.end(CloseReason::Reset);
    }

    /// Handles the peer's FIN reached in order. Without an option in the segment, while the local stream
    /// continues, it is the end of a TCP stream (RFC 8684 section 3.7).
    #[cold]
    fn on_end_of_subflow(&mut self, now: Time, at: usize, segment: &Segment, placed: &mut Vec<Placement>) {
        if segment.options.have_no_mptcp()
            && self.mode == Mode::Mptcp
            && !self.send.fin_acked
            && self.may_fall_back(at)
        {
            self.fall_back(now, at, Notice::None);
            self.release_held(now, at, placed);
        }
        self.on_fin(now, at);
    }

    /// Handles the peer's FIN reached in order.
    #[cold]
    fn on_fin(&mut self, now: Time, at: usize) {
        if self.subflows[at].on_fin(now + self.config.time_wait) == Ending::TimeWait {
            self.on_time_wait(now, at);
        }
        if self.mode == Mode::Plain {
            let end = self.fallback.in_received_stream(self.subflows[at].recv().nxt() as i64 - 1);
            self.recv.set_fin(end.max(0) as u64);
            self.after_remote_fin();
        } else {
            self.answer_fins();
            self.expect_subflow(now);
        }
    }

    pub(super) fn process_payload(
        &mut self,
        now: Time,
        at: usize,
        segment: &Segment,
        placed: &mut Vec<Placement>,
    ) {
        let Some(range) = self.subflows[at].begin_payload(segment) else { return };
        let mut incoming = Incoming { now, at, segment, placed };
        if self.checksummed {
            self.receive_checked(&mut incoming, range);
        } else {
            self.process_part(&mut incoming, range);
        }
    }
}
