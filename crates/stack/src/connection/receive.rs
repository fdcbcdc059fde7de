//! Takes segments in: validity, acknowledgements, options, payload, FIN.

use anabranch_units::{Duration, Time};

use super::{Connection, Mode};
use crate::event::{CloseReason, Event, Placement, SubflowId};
use crate::observer::Observer;
use crate::segment::{DataAck, Dss, Flags, MappedDsn, MptcpOption, ResetReason, Segment};
use crate::seq::{DataRange, Seq};
use crate::subflow::mappings::Parts;
use crate::subflow::receive::Acceptance;
use crate::subflow::{Ending, ResetCause, TcpState};

impl Connection {
    /// A segment has arrived for the subflow `id`.
    #[inline(never)]
    pub(crate) fn handle_segment<O: Observer>(
        &mut self,
        now: Time,
        id: SubflowId,
        segment: &Segment,
        placed: &mut Vec<Placement>,
        observer: &mut O,
    ) {
        let at = id.index();
        self.timers_moved = true;
        observer.on_received(now, self.id, id, segment);
        let state = self.subflows[at].state();
        match state {
            TcpState::Closed => return,
            TcpState::SynSent => {
                self.on_segment_in_syn_sent(now, at, segment);
                return;
            }
            TcpState::SynReceived if !self.on_segment_in_syn_received(now, at, segment) => return,
            TcpState::TimeWait => {
                if self.subflows[at].on_segment_in_time_wait(now, self.config.time_wait, segment) {
                    self.close_subflow(now, at);
                }
                return;
            }
            _ => {}
        }
        let offset = self.subflows[at].seq_offset(segment);
        let subflow = &mut self.subflows[at];
        match subflow.judge_segment(now, self.tick, segment, offset) {
            Acceptance::Accepted => {}
            refused => {
                self.on_unacceptable(now, at, segment, refused);
                return;
            }
        }
        if subflow.is_old(segment, offset) {
            if subflow.discard_old(now, segment) {
                placed.push(Placement::Discard {
                    connection: self.id,
                    payload_offset: 0,
                    len: segment.payload_len,
                });
            }
            return;
        }
        subflow.on_received(now);
        if !segment.flags.has(Flags::ACK) {
            return;
        }
        self.subflows[at].on_marks(segment);
        let before = (self.subflows[at].board().una(), self.send.una);
        if !self.process_ack(now, at, segment, observer) {
            return;
        }
        if self.subflows[at].state() == TcpState::PreEstablished {
            self.on_fourth_ack(now, at);
        }
        if self.mode == Mode::Mptcp {
            if !self.process_mptcp_options(now, at, segment) {
                return;
            }
            if self.mode == Mode::Plain {
                self.release_all(now, at, placed);
            } else if before.1 == self.send.una && before.0 < self.subflows[at].board().una() {
                // Where no data acknowledgement comes with it, the peer may have gone back to TCP, and would take
                // for new what is sent again.
                if segment.options.dss.is_some_and(|dss| dss.data_ack.is_some()) {
                    self.on_progress_below(now);
                }
            }
        } else {
            self.process_plain_ack(now, at, segment);
        }
        let fin = segment.flags.has(Flags::FIN);
        if (segment.payload_len > 0 || fin) && !self.fast_process_payload(now, at, segment, placed) {
            self.process_payload(now, at, segment, fin, placed);
        }
        // The FIN may have come before the data in front of it.
        let subflow = &self.subflows[at];
        if subflow.has_ended_in_order() {
            self.on_end_of_subflow(now, at, segment, placed);
        }
        self.check_closing(now, at);
    }

    /// Answers a segment that is not acceptable.
    #[cold]
    fn on_unacceptable(&mut self, now: Time, at: usize, segment: &Segment, refused: Acceptance) {
        match refused {
            Acceptance::Reset => self.on_reset(now, at, segment),
            Acceptance::Challenged => {
                self.challenge(now, at);
            }
            Acceptance::Syn => {
                if self.challenge(now, at) && self.keys_pending(at) {
                    self.third_ack_wanted = true;
                }
            }
            Acceptance::Accepted | Acceptance::Dropped => {}
        }
    }

    /// A router has dropped the segment of subflow `at` that began at `seq`, because packets of more than `mtu` bytes do
    /// not pass.
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
        let lost = |range, reason| observer.on_lost(now, connection, id, range, reason);
        self.schedule_wanted |= self.subflows[at].on_too_big(now, seq, mtu, lost);
    }

    #[inline(never)]
    fn process_mptcp_options(&mut self, now: Time, at: usize, segment: &Segment) -> bool {
        if let Some(dss) = &segment.options.dss {
            if !self.process_dss(now, at, dss, segment) {
                return false;
            }
        } else if segment.options.mptcp[0].is_none() {
            return self.on_bare_segment(now, at, segment);
        }
        if segment.options.mptcp[0].is_none() {
            return true;
        }
        for option in segment.options.mptcp.iter().flatten() {
            match option {
                MptcpOption::AddAddress(add) => self.on_add_address(now, at, add),
                MptcpOption::RemoveAddress(ids) => self.on_remove_address(now, ids),
                MptcpOption::Priority { backup } => {
                    self.subflows[at].on_backup_asked(*backup);
                    self.schedule_wanted = true;
                }
                MptcpOption::FastClose(key) => {
                    if *key == self.local_key {
                        self.on_fast_close(now, at, false);
                        return false;
                    }
                }
                MptcpOption::Capable(capable) => {
                    // The first data of the initiator: the peer's keys are known already.
                    if !self.initiator && capable.data_len.is_some() && !self.confirmed {
                        self.peer_wide = true;
                        self.confirm();
                    }
                }
                MptcpOption::Join(_) => {
                    // The third ACK of a join again: the fourth was lost (RFC 8684 section 3.2).
                    self.subflows[at].want_ack();
                }
                MptcpOption::Fail(_) => {
                    // Once gone back, no option counts (RFC 8684 section 3.7).
                    return self.on_fail(now, at);
                }
                // Without RST it has no meaning (section 3.6).
                MptcpOption::Reset { .. } => {}
            }
        }
        true
    }

    /// The peer has shown that it has our key: from now on joins may begin.
    fn confirm(&mut self) {
        if !self.confirmed {
            self.confirmed = true;
            self.start_path_manager();
        }
    }

    /// False if the segment does not count further.
    fn process_dss(&mut self, now: Time, at: usize, dss: &Dss, segment: &Segment) -> bool {
        self.confirm();
        if let Some(data_ack) = dss.data_ack {
            if self.subflows[at].note_data_ack(segment) {
                // What waited for this word need not wait longer (`Connection::reinject_head`).
                self.head_repair.attempts = 0;
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
                // RFC 8684 section 3.3: a checksum that was not agreed on, or none where one was, ends
                // the subflow.
                self.subflows[at].request_reset(ResetCause::Because(ResetReason::MptcpError));
                return false;
            }
            if mapping.len == 0 && segment.payload_len > 0 {
                let near = self.subflows[at].seq_offset(segment).max(0) as u64;
                return self.on_infinite_mapping(now, at, mapping, near);
            }
            // With a checksum, what is mapped together with data is verified together with it.
            let alone = mapping.len == 1;
            if dss.data_fin && mapping.len > 0 && (alone || !self.checksummed) {
                if alone && !self.is_verified_alone(now, at, mapping) {
                    return false;
                }
                let end = self.mapped_offset(mapping) + i64::from(mapping.len) - 1;
                self.on_data_fin(at, end);
            }
        }
        true
    }

    /// The peer's stream ends at `end`.
    #[cold]
    pub(super) fn on_data_fin(&mut self, at: usize, end: i64) {
        // What lies outside the window does not count (RFC 8684 section 3.8).
        if end >= 0 && end as u64 <= self.recv.edge() && self.recv.set_fin(end as u64) {
            self.after_remote_fin();
        }
        // Said again, it is acknowledged again (RFC 8684 section 3.3.3).
        self.subflows[at].want_ack();
    }

    /// The payload of one segment belongs at `stream`, which others may be before or behind.
    #[inline(never)]
    pub(super) fn place(&mut self, now: Time, at: usize, stream: DataRange, placed: &mut Vec<Placement>) {
        let Connection { recv, subflows, id: connection, .. } = self;
        let subflow = &mut subflows[at];
        let of = subflow.id();
        let mut delivered = 0;
        let advanced = recv.arrive(stream, |part| {
            delivered += part.len();
            placed.push(Placement::Deliver {
                connection: *connection,
                subflow: of,
                payload_offset: (part.start - stream.start) as u32,
                stream: part,
            });
        });
        subflow.count_delivered(delivered, stream.len() - delivered);
        if delivered == 0 {
            let len = stream.len() as u32;
            placed.push(Placement::Discard { connection: *connection, payload_offset: 0, len });
        }
        self.after_arrival(now, advanced);
    }

    pub(super) fn process_payload(
        &mut self,
        now: Time,
        at: usize,
        segment: &Segment,
        fin: bool,
        placed: &mut Vec<Placement>,
    ) {
        let offset = self.subflows[at].seq_offset(segment);
        if offset < 1 {
            // Not behind the SYN.
            self.subflows[at].want_ack();
            return;
        }
        let start = offset as u64;
        let range = DataRange::new(start, start + u64::from(segment.payload_len));
        if segment.payload_len > 0 {
            self.subflows[at].count_data_segment();
        }
        if self.checksummed {
            self.receive_checked(now, at, segment, range, fin, placed);
        } else {
            self.process_part(now, at, segment, range, fin, placed);
        }
    }

    /// What `range` of the subflow, the end of a segment or all of it, is for the stream.
    pub(super) fn process_part(
        &mut self,
        now: Time,
        at: usize,
        segment: &Segment,
        mut range: DataRange,
        fin: bool,
        placed: &mut Vec<Placement>,
    ) {
        if self.mode == Mode::Plain && self.is_mapped_before(at, segment) {
            self.subflows[at].request_reset(ResetCause::Because(ResetReason::Middlebox));
            let (payload_offset, len) = (segment.payload_len - range.len() as u32, range.len() as u32);
            placed.push(Placement::Discard { connection: self.id, payload_offset, len });
            return;
        }
        let end = range.end;
        let parts = if segment.payload_len > 0 { self.parts_of(at, segment, range) } else { Ok(Parts::NONE) };
        let Ok(parts) = parts else {
            self.mapping_is_broken(now, at, ResetReason::MptcpError, placed);
            if self.mode == Mode::Plain {
                self.process_part(now, at, segment, range, fin, placed);
            }
            return;
        };
        let mut mapped_to = parts.end.max(range.start);
        let limit = (self.recv.edge() as i64 - self.fallback.recv_shift).max(0) as u64;
        if self.mode == Mode::Plain && range.end > limit {
            // Here the subflow's window is the stream's: what lies beyond is not acknowledged (RFC 9293
            // section 3.10.7.4, first), as nobody would send it again.
            mapped_to = mapped_to.min(limit);
            self.subflows[at].want_ack();
        }
        let mut unmapped = DataRange::default();
        if mapped_to < range.end {
            if self.mode == Mode::Mptcp {
                // Nothing says where the rest belongs.
                unmapped = DataRange::new(mapped_to.max(range.start), range.end);
            }
            range.end = mapped_to.max(range.start);
            if range.is_empty() {
                if !unmapped.is_empty() {
                    self.hold_unmapped(now, at, segment, unmapped, fin, placed);
                }
                return;
            }
        }
        let fin_behind = fin;
        let fin = fin && mapped_to >= end;
        // What comes before it was gone through before.
        let before = (u64::from(segment.payload_len) + range.start - end) as i64;
        let Connection { recv, subflows, id, .. } = self;
        let subflow = &mut subflows[at];
        let of = subflow.id();
        let (mut delivered, mut advanced) = (0, false);
        subflow.arrive(now, segment, range, fin, |fresh| {
            for &(mapped, data) in parts.as_slice() {
                let part = fresh.intersection(mapped);
                // Where this part lies in the stream; what lies before the stream is old.
                let stream_start = data + part.start.saturating_sub(mapped.start) as i64;
                let stream_end = stream_start + part.len() as i64;
                if part.is_empty() || stream_end <= 0 {
                    continue;
                }
                let stream = DataRange::new(stream_start.max(0) as u64, stream_end as u64);
                advanced |= recv.arrive(stream, |new| {
                    delivered += new.len();
                    let from_part = new.start as i64 - stream_start + (part.start - range.start) as i64;
                    placed.push(Placement::Deliver {
                        connection: *id,
                        subflow: of,
                        payload_offset: (before + from_part) as u32,
                        stream: new,
                    });
                });
            }
        });
        subflow.count_delivered(delivered, range.len() - delivered.min(range.len()));
        if delivered == 0 && segment.payload_len > 0 {
            let (payload_offset, len) = (before as u32, range.len() as u32);
            placed.push(Placement::Discard { connection: *id, payload_offset, len });
        }
        self.after_arrival(now, advanced);
        if self.subflows[at].held().is_some() && self.mode == Mode::Mptcp {
            self.release_mapped(now, at, placed);
        }
        if !unmapped.is_empty() && self.mode == Mode::Plain {
            // What was held has led back to TCP.
            self.process_part(now, at, segment, unmapped, fin_behind, placed);
        } else if !unmapped.is_empty() {
            self.hold_unmapped(now, at, segment, unmapped, fin_behind, placed);
        }
        self.subflows[at].forget_used_mappings();
    }

    /// Something has arrived in the stream; `advanced` if it has grown in order.
    #[inline]
    pub(super) fn after_arrival(&mut self, now: Time, advanced: bool) {
        if advanced {
            self.stats.last_in_order = now;
            self.stats.received = self.recv.nxt();
            if self.recv.autotuned_up_to().is_some() {
                self.autotune(now);
            }
            if self.config.consume_at_once {
                self.recv.consume(u64::MAX);
            }
            if self.recv.nxt() >= self.config.readable_from.get() {
                self.push_event(Event::Readable);
            }
            self.after_remote_fin();
        }
    }

    fn autotune(&mut self, now: Time) {
        let mut rtt = Duration::ZERO;
        for subflow in &self.subflows {
            if subflow.is_synchronised() {
                rtt = rtt.max(subflow.rtt().srtt_or_zero());
            }
        }
        self.recv.autotune(now, rtt, u64::from(self.config.mss));
    }

    /// If the peer's stream has ended and all of it is here, the application hears it.
    pub(crate) fn after_remote_fin(&mut self) {
        if self.recv.finished() && !self.remote_fin_told {
            self.remote_fin_told = true;
            self.push_event(Event::PeerClosed);
            // One acknowledgement is enough, but the subflow that ends the stream may not be the one
            // that carried the DATA_FIN.
            if let Some(best) = (0..self.subflows.len()).find(|&at| self.subflows[at].is_synchronised()) {
                self.subflows[best].want_ack();
            }
        }
    }

    /// A reset that is valid by its sequence number.
    #[cold]
    fn on_reset(&mut self, now: Time, at: usize, segment: &Segment) {
        if self.mode == Mode::Mptcp {
            let fast_close = segment
                .options
                .mptcp
                .iter()
                .flatten()
                .any(|option| matches!(option, MptcpOption::FastClose(key) if *key == self.local_key));
            if fast_close {
                self.on_fast_close(now, at, true);
                return;
            }
            self.hear_reset(at, segment);
        }
        if self.mode == Mode::Plain {
            let finished = self.send.fin_acked && self.recv.finished();
            self.end(if finished { CloseReason::Finished } else { CloseReason::Reset });
        }
        self.close_subflow(now, at);
        self.check_ended(now);
    }

    /// What the peer says with a reset of a subflow (RFC 8684 sections 3.6 and 3.7).
    pub(super) fn hear_reset(&mut self, at: usize, segment: &Segment) {
        for option in segment.options.mptcp.iter().flatten() {
            match *option {
                MptcpOption::Reset { transient, reason } => {
                    self.subflows[at].on_peer_reset(transient, reason);
                }
                MptcpOption::Fail(_) => self.stats.fails_received += 1,
                _ => {}
            }
        }
    }

    /// The connection was aborted by the peer (RFC 8684 section 3.5).
    #[cold]
    fn on_fast_close(&mut self, now: Time, at: usize, by_reset: bool) {
        for other in 0..self.subflows.len() {
            if by_reset && other == at {
                self.close_subflow(now, other);
            } else if !self.subflows[other].is_closed() {
                self.subflows[other].request_reset(ResetCause::Gone);
            }
        }
        self.end(CloseReason::Reset);
    }

    /// The peer's FIN was reached in order. Without an option beside it, while our stream goes on, it is
    /// the end of a TCP stream (RFC 8684 section 3.7).
    #[cold]
    fn on_end_of_subflow(&mut self, now: Time, at: usize, segment: &Segment, placed: &mut Vec<Placement>) {
        if segment.options.are_bare()
            && self.mode == Mode::Mptcp
            && !self.send.fin_acked
            && self.may_fall_back(at)
        {
            self.fall_back(now, at, false);
            self.release_all(now, at, placed);
        }
        self.on_fin(now, at);
    }

    /// The peer's FIN was reached in order.
    #[cold]
    fn on_fin(&mut self, now: Time, at: usize) {
        if self.subflows[at].on_fin() == Ending::TimeWait {
            self.enter_time_wait(now, at);
        }
        if self.mode == Mode::Plain {
            let end = self.subflows[at].recv().nxt() as i64 - 1 + self.fallback.recv_shift;
            self.recv.set_fin(end.max(0) as u64);
            self.after_remote_fin();
        } else {
            self.answer_fins();
            self.expect_subflow(now);
        }
    }
}
