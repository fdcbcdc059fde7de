//! Takes segments in: validity, acknowledgements, options, payload, FIN.

use anabranch_units::{Duration, Time};

use super::mapping::{Parts, mapped_offset};
use super::{Connection, Mode};
use crate::event::{CloseReason, Event, Placement, SubflowId};
use crate::observer::Observer;
use crate::segment::{DataAck, Dss, Flags, MappedDsn, MptcpOption, ResetReason, Segment};
use crate::seq::DataRange;
use crate::subflow::{ResetCause, Subflow, TcpState};

/// A subflow accepts payload this far ahead of what it has: RFC 7323's largest window. What is too
/// far ahead at the data level is refused there (RFC 8684 section 3.3.5; Linux sends beyond a
/// subflow's own window, so this is no place to be strict).
const SUBFLOW_WINDOW: u64 = 65_535 << 14;

/// How long a peer's timestamp tells old from new. Nobody says how often its clock ticks: this is half the time
/// in which one in microseconds wraps, and a little less. No segment lives as long, so that the 24 days of RFC
/// 7323 section 5.5, for clocks that tick less often, would protect from nothing more.
const TIMESTAMP_MEMORY: Duration = Duration::from_secs(2000);

/// What decides whether a segment is one that everybody expects: of these bits ACK alone.
const DECISIVE: Flags = Flags::FIN.with(Flags::SYN).with(Flags::RST).with(Flags::ACK);

impl Connection {
    /// Header prediction: takes a segment that brings the next data of an established subflow to a side that has
    /// nothing under way there, and no news. Returns whether it was one; if not, nothing has changed. What it does is
    /// what [`Connection::handle_segment`] would do, and afterwards nothing is due earlier than before but the
    /// subflow's acknowledgement.
    #[inline]
    pub(crate) fn take_predicted<O: Observer>(
        &mut self,
        now: Time,
        id: SubflowId,
        segment: &Segment,
        placed: &mut Vec<Placement>,
        observer: &mut O,
    ) -> bool {
        if segment.payload_len == 0
            || segment.flags.0 & DECISIVE.0 != Flags::ACK.0
            || !segment.options.are_usual()
        {
            return false;
        }
        let at = id.index();
        let Connection { subflows, recv, send, .. } = self;
        let Some(subflow) = subflows.get_mut(at) else { return false };
        let una = subflow.board.una();
        let start = subflow.recv.nxt();
        // Nothing is under way, and all of it was acknowledged before.
        let settled = subflow.board.is_empty() && segment.ack == subflow.iss.add(una);
        let expected = segment.seq == subflow.recv.ack() && subflow.recv.is_complete();
        let usual = subflow.state == TcpState::Established
            && subflow.reset.is_none()
            && subflow.held.is_none()
            && !subflow.ecn.is_agreed()
            && !self.checksummed;
        if !settled || !expected || !usual {
            return false;
        }
        let newer = segment.options.timestamps;
        if newer.is_some_and(|newer| (newer.value.wrapping_sub(subflow.ts_recent) as i32) < 0) {
            return false;
        }
        let window = subflow.scaled_window(segment);
        let all_told =
            send.una < send.written || self.all_acked_told == send.written + u64::from(send.closed);
        if una + window > subflow.window_edge || send.una + window > send.window_end || !all_told {
            return false;
        }
        let len = u64::from(segment.payload_len);
        let in_stream = if self.mode == Mode::Plain {
            let moved = una as i64 + self.fallback.send_shift != send.una as i64;
            if moved || segment.options.dss.is_some() {
                return false;
            }
            start as i64 + self.fallback.recv_shift
        } else {
            // A mapping of exactly this segment (RFC 8684 section 3.3.1), and none known before.
            let Some(Dss { data_ack: Some(data_ack), mapping: Some(mapping), data_fin: false }) =
                &segment.options.dss
            else {
                return false;
            };
            let acked = self.local_dsn.add(send.una);
            let nothing_acked = match *data_ack {
                DataAck::Wide(dsn) => dsn == acked,
                DataAck::Narrow(low) => low == acked.0 as u32,
            };
            if !nothing_acked
                || !self.confirmed
                || mapping.checksum.is_some()
                || u32::from(mapping.len) != segment.payload_len
                || mapping.ssn != start as u32
                || !subflow.mappings.is_empty()
            {
                return false;
            }
            mapped_offset(mapping, self.remote_dsn, recv.nxt())
        };
        if in_stream < 0 {
            return false;
        }
        let stream = DataRange::new(in_stream as u64, in_stream as u64 + len);
        let in_order = recv.expects(stream);
        if !in_order && self.mode == Mode::Plain {
            return false;
        }
        observer.on_received(now, self.id, id, segment);
        if let Some(newer) = newer
            && start <= subflow.recv.last_ack_sent()
        {
            subflow.ts_recent = newer.value;
            subflow.ts_recent_at = now;
        }
        subflow.last_received = now;
        subflow.removal_deadline = Time::NEVER;
        subflow.max_window = subflow.max_window.max(window);
        send.peer_window = window;
        if let Some(Dss { mapping: Some(mapping), .. }) = &segment.options.dss
            && self.mode == Mode::Mptcp
        {
            subflow.dss_seen = true;
            subflow.bare = false;
            self.peer_wide |= matches!(mapping.dsn, MappedDsn::Wide(_));
        }
        self.sample_arrival(now, at, segment);
        self.take_next(now, at, stream, in_order, placed);
        if segment.flags.has(Flags::PSH) && in_order {
            self.on_pushed(at);
        }
        if !in_order {
            self.check_closing(now, at);
        }
        self.timers_moved |= self.subflows[at].recv.ack_at() < self.queued_at;
        true
    }

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
        let state = self.subflows[at].state;
        match state {
            TcpState::Closed => return,
            TcpState::SynSent => {
                self.on_segment_in_syn_sent(now, at, segment);
                return;
            }
            TcpState::SynReceived if !self.on_segment_in_syn_received(now, at, segment) => return,
            TcpState::TimeWait => {
                self.on_segment_in_time_wait(now, at, segment);
                return;
            }
            _ => {}
        }
        let offset = self.subflows[at].seq_offset(segment);
        if !self.is_acceptable(now, at, segment, offset) {
            return;
        }
        let subflow = &mut self.subflows[at];
        if subflow.is_old(segment, offset) {
            self.discard_old(now, at, segment, placed);
            return;
        }
        subflow.last_received = now;
        subflow.removal_deadline = Time::NEVER;
        if !segment.flags.has(Flags::ACK) {
            return;
        }
        self.subflows[at].ecn.on_received(segment);
        let before = (self.subflows[at].board.una(), self.send.una);
        if !self.process_ack(now, at, segment, observer) {
            return;
        }
        if self.subflows[at].state == TcpState::PreEstablished {
            self.on_fourth_ack(now, at);
        }
        if self.mode == Mode::Mptcp {
            if !self.process_mptcp_options(now, at, segment) {
                return;
            }
            if self.mode == Mode::Plain {
                self.release_all(now, at, placed);
            } else if before.1 == self.send.una && before.0 < self.subflows[at].board.una() {
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
        if segment.payload_len > 0 {
            self.sample_arrival(now, at, segment);
        }
        if (segment.payload_len > 0 || fin) && !self.take_expected(now, at, segment, placed) {
            self.process_payload(now, at, segment, fin, placed);
        }
        // The FIN may have come before the data in front of it.
        let subflow = &self.subflows[at];
        let awaited =
            matches!(subflow.state, TcpState::Established | TcpState::FinWait1 | TcpState::FinWait2);
        if subflow.recv.finished() && awaited {
            self.on_end_of_subflow(now, at, segment, placed);
        }
        self.check_closing(now, at);
    }

    /// RFC 9293 section 3.10.7.4, first to fourth: sequence number, RST, SYN; with the challenge ACKs of RFC 5961.
    /// `offset` is where the segment starts.
    #[inline]
    fn is_acceptable(&mut self, now: Time, at: usize, segment: &Segment, offset: i64) -> bool {
        let subflow = &mut self.subflows[at];
        let next = subflow.recv.nxt() as i64;
        let beyond = offset > next + SUBFLOW_WINDOW as i64;
        if beyond && !segment.flags.has(Flags::RST) {
            self.challenge(now, at);
            return false;
        }
        if segment.flags.has(Flags::RST) {
            if offset > next {
                if !beyond {
                    self.challenge(now, at);
                }
            } else if offset == next {
                self.on_reset(now, at, segment);
            }
            return false;
        }
        if segment.flags.has(Flags::SYN) {
            // Most likely a SYN/ACK whose acknowledgement was lost.
            if self.challenge(now, at) && self.keys_pending(at) {
                self.third_ack_wanted = true;
            }
            return false;
        }
        if segment.seq_len() == 0 && offset == next - 1 {
            // A keepalive or window probe: it wants an answer.
            subflow.recv.want_ack();
        }
        if let Some(timestamps) = segment.options.timestamps {
            // RFC 7323 section 4.3: the timestamp to echo is that of the segment that the last
            // acknowledgement waits for, so that a delayed acknowledgement measures the delay too.
            let newer_by = timestamps.value.wrapping_sub(subflow.ts_recent) as i32;
            // RFC 7323 section 5.5: after so long a silence any timestamp is a new one.
            let forgotten = now.since(subflow.ts_recent_at) >= TIMESTAMP_MEMORY;
            let last_ack = subflow.recv.last_ack_sent() as i64;
            if (newer_by >= 0 || forgotten) && offset <= last_ack {
                subflow.ts_recent = timestamps.value;
                subflow.ts_recent_at = now;
            }
            // RFC 7323 section 5: an older timestamp is an old duplicate whose number has wrapped, unless
            // it is the clock that has. As Linux, a pure acknowledgement may have been overtaken.
            if newer_by < 0 && !forgotten && subflow.timestamps {
                // As if the peer's clock ticked like ours, as Linux takes it.
                let late = self.tick.span(newer_by.unsigned_abs());
                let overtaken = segment.seq_len() == 0 && offset == next && late <= subflow.rtt.rto(0);
                let old = offset + (segment.seq_len() as i64) < last_ack;
                if !overtaken && !old {
                    subflow.recv.want_ack();
                    return false;
                }
            }
        }
        true
    }

    /// It is acknowledged, and its payload reported as a duplicate.
    #[cold]
    fn discard_old(&mut self, now: Time, at: usize, segment: &Segment, placed: &mut Vec<Placement>) {
        let subflow = &mut self.subflows[at];
        subflow.recv.want_ack();
        let start = subflow.seq_offset(segment);
        if segment.payload_len > 0 && start >= 0 {
            let range = DataRange::new(start as u64, start as u64 + u64::from(segment.payload_len));
            subflow.recv.arrive(now, range, false, false, |_| ());
            subflow.counters.data_segments_received += 1;
            subflow.counters.bytes_duplicate += range.len();
            placed.push(Placement::Discard {
                connection: self.id,
                payload_offset: 0,
                len: segment.payload_len,
            });
        }
    }

    /// RFC 9293 section 3.10.7.4 for TIME-WAIT: the peer's FIN again shows that our acknowledgement was
    /// lost, and starts the wait anew. So does a DATA_FIN (RFC 8684 section 3.3.3).
    #[cold]
    fn on_segment_in_time_wait(&mut self, now: Time, at: usize, segment: &Segment) {
        let subflow = &mut self.subflows[at];
        if segment.flags.has(Flags::RST) {
            // RFC 5961 section 3.2.
            if subflow.seq_offset(segment) == subflow.recv.nxt() as i64 {
                self.close_subflow(now, at);
            }
            return;
        }
        let data_fin = segment.options.dss.is_some_and(|dss| dss.data_fin);
        if segment.seq_len() > 0 || data_fin {
            subflow.recv.want_ack();
        }
        if segment.flags.has(Flags::FIN) {
            subflow.time_wait_until = now + self.config.time_wait;
        }
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
                    self.subflows[at].backup_wanted = *backup;
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
                    self.subflows[at].recv.want_ack();
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
            if !core::mem::replace(&mut self.subflows[at].dss_seen, true) {
                // What waited for this word need not wait longer (`Connection::reinject_head`).
                self.head_repair.attempts = 0;
                self.on_progress_below(now);
            }
            let subflow = &mut self.subflows[at];
            // One that was overtaken says nothing of what the peer speaks now.
            subflow.bare &= segment.ack != subflow.iss.add(subflow.board.una());
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
                self.subflows[at].reset = Some(ResetCause::Because(ResetReason::MptcpError));
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
        self.subflows[at].recv.want_ack();
    }

    /// Header prediction: takes the payload of a segment that is the next one on its subflow, and in a plain TCP in
    /// the stream, with nothing missing before it or held behind it on the subflow, and no end in sight. Returns
    /// whether it was one; most are.
    #[inline(never)]
    fn take_expected(
        &mut self,
        now: Time,
        at: usize,
        segment: &Segment,
        placed: &mut Vec<Placement>,
    ) -> bool {
        let Connection { recv, subflows, .. } = self;
        let subflow = &mut subflows[at];
        let len = u64::from(segment.payload_len);
        let start = subflow.recv.nxt();
        let in_stream = if self.mode == Mode::Plain {
            if segment.options.dss.is_some() {
                return false;
            }
            start as i64 + self.fallback.recv_shift
        } else {
            match segment.options.dss {
                // A mapping of exactly this segment (RFC 8684 section 3.3.1), and none known before.
                Some(Dss { mapping: Some(mapping), data_fin: false, .. })
                    if u32::from(mapping.len) == segment.payload_len
                        && mapping.ssn == start as u32
                        && subflow.mappings.is_empty() =>
                {
                    mapped_offset(&mapping, self.remote_dsn, recv.nxt())
                }
                _ => return false,
            }
        };
        if self.checksummed || subflow.held.is_some() || in_stream < 0 {
            return false;
        }
        let stream = DataRange::new(in_stream as u64, in_stream as u64 + len);
        let in_order = recv.expects(stream);
        // Other subflows may be ahead or behind in the stream, but in a plain TCP there are none.
        let placeable = in_order || self.mode == Mode::Mptcp;
        let expected = segment.seq == subflow.recv.ack() && !segment.flags.has(Flags::FIN) && len > 0;
        if !expected || !placeable || !subflow.recv.is_complete() {
            return false;
        }
        self.take_next(now, at, stream, in_order, placed);
        if segment.flags.has(Flags::PSH) && in_order {
            self.on_pushed(at);
        }
        true
    }

    /// A segment that ends a burst has brought what the stream went on with.
    fn on_pushed(&mut self, at: usize) {
        if self.recv.readable() == 0 || !self.config.consume_at_once {
            self.subflows[at].recv.on_pushed();
        }
    }

    /// Takes the payload of a segment that is the next one on its subflow and belongs at `stream`, which is the next of
    /// the stream too if it is `in_order`.
    #[inline]
    fn take_next(
        &mut self,
        now: Time,
        at: usize,
        stream: DataRange,
        in_order: bool,
        placed: &mut Vec<Placement>,
    ) {
        let subflow = &mut self.subflows[at];
        let full_sized = subflow.recv.measure(now, stream.len() as u32, subflow.mss);
        subflow.recv.take_expected(now, stream.len(), full_sized);
        subflow.counters.data_segments_received += 1;
        if in_order {
            self.recv.take_expected(stream);
            subflow.counters.bytes_delivered += stream.len();
            let (connection, subflow) = (self.id, subflow.id);
            placed.push(Placement::Deliver { connection, subflow, payload_offset: 0, stream });
            self.after_arrival(now, true);
        } else {
            self.place(now, at, stream, placed);
        }
    }

    /// The payload of one segment belongs at `stream`, which others may be before or behind.
    #[inline(never)]
    fn place(&mut self, now: Time, at: usize, stream: DataRange, placed: &mut Vec<Placement>) {
        let Connection { recv, subflows, id: connection, .. } = self;
        let Subflow { counters, id: subflow, .. } = &mut subflows[at];
        let mut delivered = 0;
        let advanced = recv.arrive(stream, |part| {
            delivered += part.len();
            placed.push(Placement::Deliver {
                connection: *connection,
                subflow: *subflow,
                payload_offset: (part.start - stream.start) as u32,
                stream: part,
            });
        });
        counters.bytes_delivered += delivered;
        counters.bytes_duplicate += stream.len() - delivered;
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
            self.subflows[at].recv.want_ack();
            return;
        }
        let start = offset as u64;
        let range = DataRange::new(start, start + u64::from(segment.payload_len));
        if segment.payload_len > 0 {
            self.subflows[at].counters.data_segments_received += 1;
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
            self.subflows[at].reset = Some(ResetCause::Because(ResetReason::Middlebox));
            let (payload_offset, len) = (segment.payload_len - range.len() as u32, range.len() as u32);
            placed.push(Placement::Discard { connection: self.id, payload_offset, len });
            return;
        }
        let end = range.end;
        let parts = if segment.payload_len > 0 { self.parts_of(at, segment, range) } else { Parts::NONE };
        let mut mapped_to = parts.end.max(range.start);
        if core::mem::take(&mut self.subflows[at].contradicted) {
            self.mapping_is_broken(now, at, ResetReason::MptcpError, placed);
            if self.mode == Mode::Mptcp {
                return;
            }
            self.process_part(now, at, segment, range, fin, placed);
            return;
        }
        let limit = (self.recv.edge() as i64 - self.fallback.recv_shift).max(0) as u64;
        if self.mode == Mode::Plain && range.end > limit {
            // Here the subflow's window is the stream's: what lies beyond is not acknowledged (RFC 9293
            // section 3.10.7.4, first), as nobody would send it again.
            mapped_to = mapped_to.min(limit);
            self.subflows[at].recv.want_ack();
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
        let Subflow { recv: subflow_recv, counters, id: subflow_id, mss, .. } = &mut subflows[at];
        let full_sized = subflow_recv.measure(now, segment.payload_len, *mss);
        let (mut delivered, mut advanced) = (0, false);
        subflow_recv.arrive(now, range, fin, full_sized, |fresh| {
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
                        subflow: *subflow_id,
                        payload_offset: (before + from_part) as u32,
                        stream: new,
                    });
                });
            }
        });
        counters.bytes_delivered += delivered;
        let duplicate = range.len() - delivered.min(range.len());
        counters.bytes_duplicate += duplicate;
        if delivered == 0 && segment.payload_len > 0 {
            let (payload_offset, len) = (before as u32, range.len() as u32);
            placed.push(Placement::Discard { connection: *id, payload_offset, len });
        }
        self.after_arrival(now, advanced);
        if advanced && full_sized && segment.flags.has(Flags::PSH) {
            self.on_pushed(at);
        }
        if self.subflows[at].held.is_some() && self.mode == Mode::Mptcp {
            self.release_mapped(now, at, placed);
        }
        if !unmapped.is_empty() && self.mode == Mode::Plain {
            // What was held has led back to TCP.
            self.process_part(now, at, segment, unmapped, fin_behind, placed);
        } else if !unmapped.is_empty() {
            self.hold_unmapped(now, at, segment, unmapped, fin_behind, placed);
        }
        let Subflow { recv, mappings, .. } = &mut self.subflows[at];
        if !mappings.is_empty() {
            mappings.forget_before(recv.nxt());
        }
    }

    /// Something has arrived in the stream; `advanced` if it has grown in order.
    #[inline]
    pub(super) fn after_arrival(&mut self, now: Time, advanced: bool) {
        if advanced {
            self.stats.last_in_order = now;
            self.stats.received = self.recv.nxt();
            if self.config.consume_at_once {
                self.recv.consume(u64::MAX);
            }
            if self.recv.autotuned_up_to().is_some() {
                self.autotune(now);
            }
            if self.recv.nxt() >= self.config.readable_from.get() {
                self.push_event(Event::Readable);
            }
            self.after_remote_fin();
        }
    }

    fn autotune(&mut self, now: Time) {
        if self.config.ack.growth {
            self.right_size(now);
            return;
        }
        let mut rtt = Duration::ZERO;
        for subflow in &self.subflows {
            if subflow.is_synchronised() {
                rtt = rtt.max(subflow.rtt.srtt_or_zero());
            }
        }
        self.recv.autotune(now, rtt, u64::from(self.config.mss));
    }

    /// Dynamic right-sizing of the connection's buffer, and of the windows that its subflows offer.
    #[inline]
    fn right_size(&mut self, now: Time) {
        let mut rtt = Duration::ZERO;
        for subflow in &self.subflows {
            rtt = rtt.max(subflow.recv.growth.rtt());
        }
        if let Some(read) = self.recv.right_size(now, rtt) {
            let most = self.config.receive_buffer.max().get();
            for subflow in &mut self.subflows {
                subflow.recv.growth.widen(read, most);
            }
        }
    }

    /// Takes a sample of the round trip from a segment with data, as a receiver can: the time since the
    /// acknowledgement that it echoes was sent.
    #[inline]
    fn sample_arrival(&mut self, now: Time, at: usize, segment: &Segment) {
        if let Some(timestamps) = segment.options.timestamps
            && self.config.ack.growth
        {
            let elapsed = self.tick.span(self.tick.value(now).wrapping_sub(timestamps.echo));
            self.subflows[at].recv.growth.sample(timestamps.echo, elapsed);
        }
    }

    /// If the peer's stream has ended and all of it is here, the application hears it.
    pub(crate) fn after_remote_fin(&mut self) {
        if self.recv.finished() && !self.remote_fin_told {
            self.remote_fin_told = true;
            self.push_event(Event::PeerClosed);
            // One acknowledgement is enough, but the subflow that ends the stream may not be the one
            // that carried the DATA_FIN.
            if let Some(best) = (0..self.subflows.len()).find(|&at| self.subflows[at].is_synchronised()) {
                self.subflows[best].recv.want_ack();
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
                    self.subflows[at].peer_reset = Some((transient, reason));
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
                self.subflows[other].reset = Some(ResetCause::Gone);
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
        let subflow = &mut self.subflows[at];
        subflow.state = match subflow.state {
            TcpState::Established | TcpState::PreEstablished => TcpState::CloseWait,
            // Had the same segment acknowledged our FIN, the state were FIN-WAIT-2 by now.
            TcpState::FinWait1 => TcpState::Closing,
            TcpState::FinWait2 => TcpState::TimeWait,
            other => other,
        };
        if subflow.state == TcpState::TimeWait {
            self.enter_time_wait(now, at);
        }
        if self.mode == Mode::Plain {
            let end = self.subflows[at].recv.nxt() as i64 - 1 + self.fallback.recv_shift;
            self.recv.set_fin(end.max(0) as u64);
            self.after_remote_fin();
        } else {
            self.answer_fins();
            self.expect_subflow(now);
        }
    }
}
