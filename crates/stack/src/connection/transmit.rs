//! What leaves next, on which subflow.

use anabranch_units::{Duration, Rate, Time};

use super::make::DataLevel;
use super::{Connection, Mode};
use crate::checksum::PayloadSums;
use crate::congestion::CongestionControl;
use crate::event::Departure;
use crate::observer::{Observer, SendKind};
use crate::scheduler::{AssignKind, SchedulerEvent};
use crate::segment::{Flags, OPTION_SPACE, Segment};
use crate::seq::DataRange;
use crate::subflow::recv::AckDue;
use crate::subflow::scoreboard::{Fate, Sent, SentMapping};
use crate::subflow::{Queued, Subflow, TcpState};

/// How much may leave at once where segments are paced: what the rate allows in this time, as in Linux.
const PACED_BURST: Duration = Duration::from_millis(1);

/// How much at most Linux hands to segmentation offload at once: what the pacing rate sends in this time.
const TRAIN: Duration = Duration::from_nanos(976_563);

/// The most payload that leaves at once: with the headers less than an IP packet may have.
const MAX_BURST: u32 = 65_000;

/// How many segments one subflow sends in a row before the others are asked, and one connection before the others.
/// A driver that is slower than the peer's acknowledgements would else never come to them, and not acknowledge what
/// they receive.
pub(crate) const TURN: u32 = 64;

impl Connection {
    /// Whether a poll may find something to send. False for a receiver whose acknowledgement may
    /// wait, which is every second segment.
    pub(crate) fn wants_to_send(&self) -> bool {
        self.schedule_wanted
            || self.third_ack_wanted
            || !self.fin_wanted_on.is_empty()
            || (self.send.closed && !self.send.fin_sent)
            || self.subflows.iter().any(Subflow::wants_to_send)
    }

    /// The next segment to send.
    pub(crate) fn poll_transmit<S: PayloadSums, O: Observer>(
        &mut self,
        now: Time,
        out: &mut Segment,
        sums: &S,
        burst: u32,
        observer: &mut O,
    ) -> Option<Departure> {
        if self.schedule_wanted {
            self.schedule(now, observer);
        }
        let ending = self.send.closed && !self.send.fin_sent;
        if ending {
            self.progress_close(now);
        }
        if let Some(departure) = self.poll_expected(now, out, burst, observer) {
            return Some(departure);
        }
        self.timers_moved = true;
        let mut next = self.poll_subflows(now, out, sums, burst, observer);
        if next.is_none() && self.schedule_wanted {
            self.schedule(now, observer);
            next = self.poll_subflows(now, out, sums, burst, observer);
        }
        if next.is_none() && ending {
            // What waited may have become superfluous, and then nothing carries the DATA_FIN along.
            self.progress_close(now);
            return self.poll_subflows(now, out, sums, burst, observer);
        }
        next
    }

    /// What [`Connection::poll_subflows`] would find, where that is what nearly always leaves. None if it is anything
    /// else; nothing has changed then.
    #[inline]
    fn poll_expected<O: Observer>(
        &mut self,
        now: Time,
        out: &mut Segment,
        burst: u32,
        observer: &mut O,
    ) -> Option<Departure> {
        if self.third_ack_wanted || self.send.closed || !self.fin_wanted_on.is_empty() {
            return None;
        }
        let before = (self.cursor, self.turn);
        for _ in 0..self.subflows.len() {
            let at = if self.cursor < self.subflows.len() { self.cursor } else { 0 };
            self.cursor = at;
            if self.subflows[at].wants_to_send() {
                let departure = if self.subflows[at].has_data_to_send() {
                    self.send_expected(now, at, out, burst, observer)
                } else {
                    self.acknowledge_expected(now, at, out, observer)
                };
                if departure.is_none() {
                    break;
                }
                self.turn += self.turns_of(out);
                if self.turn >= TURN {
                    self.turn = 0;
                    self.cursor += 1;
                }
                return departure;
            }
            self.turn = 0;
            self.cursor += 1;
        }
        (self.cursor, self.turn) = before;
        None
    }

    /// An acknowledgement that is due on a subflow that has no data to send, and nothing else to say.
    #[inline]
    fn acknowledge_expected<O: Observer>(
        &mut self,
        now: Time,
        at: usize,
        out: &mut Segment,
        observer: &mut O,
    ) -> Option<Departure> {
        let subflow = self.subflows.get(at)?;
        let usual = subflow.state == TcpState::Established
            && subflow.reset.is_none()
            && !subflow.handshake.send
            && !subflow.probe_wanted
            && !subflow.signals.may_leave();
        if !usual || subflow.recv.due() != AckDue::Now {
            return None;
        }
        self.make_ack(now, at, out);
        self.leave(now, at, out, SendKind::Control, observer)
    }

    /// The way of nearly all data: a whole segment that was never sent, on the subflow whose turn it is, which has
    /// something under way, nothing to repair or to say, and room in its windows.
    #[inline]
    fn send_expected<O: Observer>(
        &mut self,
        now: Time,
        at: usize,
        out: &mut Segment,
        burst: u32,
        observer: &mut O,
    ) -> Option<Departure> {
        if self.paces() || self.checksummed || self.keys_pending(at) {
            return None;
        }
        let subflow = self.subflows.get_mut(at)?;
        let Queued { range, kind } = *subflow.queue.front()?;
        let (seq, in_flight) = (subflow.board.nxt(), subflow.in_flight());
        let len = u64::from(subflow.mss);
        let usual = subflow.state == TcpState::Established
            && subflow.reset.is_none()
            && !subflow.handshake.send
            && !subflow.tail_probe_wanted
            && subflow.board.lost_segments() == 0
            && !subflow.path_mtu.is_searching(now)
            && burst <= subflow.mss;
        let whole = kind == AssignKind::New && range.start >= self.send.una && range.len() >= len;
        let room = in_flight > 0
            && in_flight + len <= subflow.cwnd
            && subflow.window_edge.saturating_sub(seq) >= len;
        if !usual || !whole || !room {
            return None;
        }
        subflow.dequeue(len);
        subflow.round_sent += 1;
        subflow.last_new = now;
        subflow.counters.data_segments_sent += 1;
        subflow.counters.bytes_sent += len;
        let mapping = SentMapping { back: 0, len: len as u16, data_fin: false, checksum: 0 };
        let record = Sent { len: len as u32, data: range.start, mapping, ..new_record(seq, now) };
        let id = subflow.id;
        self.record_sent(now, at, record);
        let ends = self.ends_train(now, at, len);
        self.after_data(now, at, len);
        self.make_data(now, at, &record, out);
        if ends {
            out.flags = out.flags.with(Flags::PSH);
        }
        self.subflows[at].ecn.on_new_data(out);
        if self.mode == Mode::Mptcp && !self.data_timer.is_armed() {
            self.arm_data_timer(now);
        }
        let sent = DataRange::new(range.start, range.start + len);
        self.tell_scheduler(now, &SchedulerEvent::Sent { subflow: id, range: sent });
        self.timers_moved = true;
        self.leave_data(now, at, out, SendKind::New, range.start, observer)
    }

    #[inline(never)]
    fn poll_subflows<S: PayloadSums, O: Observer>(
        &mut self,
        now: Time,
        out: &mut Segment,
        sums: &S,
        burst: u32,
        observer: &mut O,
    ) -> Option<Departure> {
        let count = self.subflows.len();
        for _ in 0..count {
            if self.cursor >= count {
                self.cursor = 0;
            }
            if let Some(transmit) = self.poll_subflow(now, self.cursor, out, sums, burst, observer) {
                self.turn += self.turns_of(out);
                if self.turn >= TURN {
                    self.turn = 0;
                    self.cursor += 1;
                }
                return Some(transmit);
            }
            self.turn = 0;
            self.cursor += 1;
        }
        None
    }

    /// What counts as so many segments of a turn: several may leave at once.
    pub(crate) fn turns_of(&self, sent: &Segment) -> u32 {
        if sent.payload_len <= self.config.mss { 1 } else { sent.payload_len / self.config.mss.max(1) }
    }

    fn poll_subflow<S: PayloadSums, O: Observer>(
        &mut self,
        now: Time,
        at: usize,
        out: &mut Segment,
        sums: &S,
        burst: u32,
        observer: &mut O,
    ) -> Option<Departure> {
        let subflow = &mut self.subflows[at];
        if subflow.state == TcpState::Closed {
            return None;
        }
        if let Some(cause) = subflow.reset {
            self.make_reset(now, at, cause, out);
            self.set_closed(at);
            self.subflow_ended(now, at);
            self.check_ended(now);
            return self.leave(now, at, out, SendKind::Control, observer);
        }
        if subflow.handshake.send {
            *out = self.make_handshake(now, at);
            return self.leave(now, at, out, SendKind::Control, observer);
        }
        if self.third_ack_wanted && !subflow.handshake.join {
            self.third_ack_wanted = false;
            self.make_ack(now, at, out);
            return self.leave(now, at, out, SendKind::Control, observer);
        }
        let carries_data = !matches!(
            subflow.state,
            TcpState::SynSent | TcpState::SynReceived | TcpState::PreEstablished | TcpState::TimeWait
        );
        if subflow.has_data_to_send()
            && carries_data
            && let Some(transmit) = self.poll_data(now, at, out, sums, burst, observer)
        {
            return Some(transmit);
        }
        let subflow = &mut self.subflows[at];
        let timeout = subflow.rtt.rto(0);
        if let Some(signal) = subflow.signals.pop(now, subflow.recv.ack(), timeout) {
            // A signal that belongs to no segment goes on an acknowledgement of its own, so that it
            // never crowds out the data level (RFC 8684 section 3).
            let seq = subflow.board.nxt();
            self.make(now, at, Flags::ACK, seq, DataLevel::Signal, out);
            out.options.push(signal);
            if out.options.wire_len() > OPTION_SPACE {
                out.options.timestamps = None;
            }
            // It does not say what an acknowledgement has to say, so one that is due still is.
            self.subflows[at].counters.control_segments_sent += 1;
            return self.depart(now, at, out, SendKind::Control, 0, observer);
        }
        if self.keys_before_fin && self.fin_wanted_on.has(subflow.id) {
            self.keys_before_fin = false;
            if self.keys_pending(at) {
                self.make_ack(now, at, out);
                return self.leave(now, at, out, SendKind::Control, observer);
            }
        }
        let subflow = &mut self.subflows[at];
        if core::mem::take(&mut subflow.probe_wanted) && subflow.is_synchronised() {
            // One octet that the peer has had makes it answer with its window. RFC 9293 section
            // 3.8.6.1 speaks of an octet of new data; Linux probes like this, and it holds at both
            // levels because the answer carries the data acknowledgement too.
            subflow.counters.window_probes += 1;
            let before = subflow.board.una().saturating_sub(1);
            self.make(now, at, Flags::ACK, before, DataLevel::Ack, out);
            return self.leave(now, at, out, SendKind::Probe, observer);
        }
        if self.fin_wanted_on.has(subflow.id) {
            self.fin_wanted_on = self.fin_wanted_on.without(subflow.id);
            if subflow.is_usable() && !self.send.fin_acked {
                self.make_data_fin(now, at, out);
                return self.leave(now, at, out, SendKind::Control, observer);
            }
        }
        if subflow.recv.due() == AckDue::Now && subflow.state == TcpState::PreEstablished {
            // Without its code, an acknowledgement would be no third one (RFC 8684 section 3.2).
            *out = self.make_handshake(now, at);
            return self.leave(now, at, out, SendKind::Control, observer);
        }
        if subflow.recv.due() == AckDue::Now && subflow.state != TcpState::SynSent {
            self.make_ack(now, at, out);
            return self.leave(now, at, out, SendKind::Control, observer);
        }
        None
    }

    /// Retransmissions, then new data, then the FIN.
    fn poll_data<S: PayloadSums, O: Observer>(
        &mut self,
        now: Time,
        at: usize,
        out: &mut Segment,
        sums: &S,
        burst: u32,
        observer: &mut O,
    ) -> Option<Departure> {
        let subflow = &mut self.subflows[at];
        let cwnd = subflow.cwnd;
        let forced = subflow.recovery.force;
        let probing = subflow.tail_probe_wanted;
        if (self.config.pacing || self.congestion.paces()) && subflow.pace_at > now && !forced && !probing {
            return None;
        }
        if probing && subflow.queue.is_empty() {
            self.feed_probe(now, at);
        }
        let subflow = &mut self.subflows[at];
        if let Some(lost) = subflow.board.next_lost() {
            subflow.board.split(lost, subflow.mss);
            let record = subflow.board.records()[lost];
            if forced || subflow.in_flight() + record.space() <= cwnd {
                subflow.recovery.force = false;
                return self.retransmit(now, at, lost, SendKind::Retransmission, out, observer);
            }
            return None;
        }
        if let Some(transmit) = self.send_new(now, at, probing, out, sums, burst, observer) {
            return Some(transmit);
        }
        let subflow = &mut self.subflows[at];
        if core::mem::take(&mut subflow.tail_probe_wanted) && !subflow.board.is_empty() {
            // RFC 8985 section 7.3: without new data, the last segment again.
            let last = subflow.board.records().len() - 1;
            if !subflow.board.records()[last].is_sacked() {
                subflow.counters.tail_probes += 1;
                let end = subflow.board.nxt();
                subflow.recovery.on_probe(end, true);
                subflow.board.split(last, subflow.mss);
                return self.retransmit(now, at, last, SendKind::Probe, out, observer);
            }
        }
        let subflow = &mut self.subflows[at];
        if subflow.fin_wanted && !subflow.fin_sent && subflow.queue.is_empty() {
            subflow.fin_sent = true;
            subflow.state = match subflow.state {
                TcpState::CloseWait => TcpState::LastAck,
                _ => TcpState::FinWait1,
            };
            let seq = subflow.board.nxt();
            self.record_sent(now, at, Sent { fin: true, ..new_record(seq, now) });
            self.make(now, at, Flags::FIN.with(Flags::ACK), seq, DataLevel::Ack, out);
            return self.leave(now, at, out, SendKind::Control, observer);
        }
        None
    }

    #[allow(clippy::too_many_arguments)]
    fn send_new<S: PayloadSums, O: Observer>(
        &mut self,
        now: Time,
        at: usize,
        probing: bool,
        out: &mut Segment,
        sums: &S,
        burst: u32,
        observer: &mut O,
    ) -> Option<Departure> {
        let subflow = &mut self.subflows[at];
        let cwnd = subflow.cwnd;
        let queued = loop {
            let front = subflow.queue.front_mut()?;
            // What was acknowledged meanwhile by way of another subflow need not go.
            if front.range.start < self.send.una {
                let skip = self.send.una.min(front.range.end) - front.range.start;
                front.range.start += skip;
                subflow.queued -= skip;
                // Which makes room for other data.
                self.schedule_wanted = true;
            }
            if front.range.is_empty() {
                subflow.queue.pop_front();
                continue;
            }
            break *front;
        };
        let in_flight = subflow.in_flight();
        if in_flight == 0 && now.since(subflow.last_sent) > subflow.rtt.rto(0) && self.config.idle_restart {
            // RFC 5681 section 4.1.
            if subflow.counters.data_segments_sent > 0 && subflow.board.is_empty() {
                self.congestion.on_idle(subflow.id, now);
                self.refresh_window(at);
            }
        }
        let subflow = &self.subflows[at];
        let cwnd = cwnd.min(subflow.cwnd);
        let seq = subflow.board.nxt();
        let window = subflow.window_edge.saturating_sub(seq);
        let mss = subflow.mss;
        let mtu_probe = self.mtu_probe(now, at, queued.range.len().min(window));
        let subflow = &mut self.subflows[at];
        let mut len = queued.range.len().min(u64::from(mtu_probe.unwrap_or(mss)));
        if len > window {
            // Silly windows are not filled (RFC 9293 section 3.8.6.2.1) unless nothing else moves.
            if window == 0 || !subflow.board.is_empty() {
                return None;
            }
            len = window;
        }
        if in_flight + len > cwnd && !probing {
            return None;
        }
        let whole = u64::from(mss);
        if len == whole && burst > mss && mtu_probe.is_none() && !probing {
            let room = (cwnd - in_flight).min(window).min(u64::from(burst.min(MAX_BURST)));
            len = self.burst_len(at, queued.range.len(), room);
        }
        let segments = if len > whole && mtu_probe.is_none() { len.div_ceil(whole) } else { 1 };
        let subflow = &mut self.subflows[at];
        subflow.tail_probe_wanted = false;
        if let Some(size) = mtu_probe {
            subflow.path_mtu.on_probe_sent(seq, size);
        }
        if probing {
            subflow.counters.tail_probes += 1;
            subflow.recovery.on_probe(seq + len, false);
        }
        let range = DataRange::new(queued.range.start, queued.range.start + len);
        subflow.dequeue(len);
        let again = queued.kind != AssignKind::New;
        if again {
            subflow.counters.bytes_reinjected += len;
            subflow.counters.segments_reinjected += segments;
        }
        subflow.round_sent += segments;
        subflow.last_new = now;
        subflow.counters.data_segments_sent += segments;
        subflow.counters.bytes_sent += len;
        let id = subflow.id;
        let first = self.first_mapping(at, seq, range);
        // The last bytes take the DATA_FIN along (RFC 8684 section 3.3.3), except with an MP_CAPABLE, which has no flag
        // for it.
        let data_fin =
            self.mode == Mode::Mptcp && self.send.closed && range.end == self.send.written && first.is_none();
        if data_fin {
            self.note_fin_sent(now);
        }
        let mut mapping = first.unwrap_or(SentMapping { back: 0, len: len as u16, data_fin, checksum: 0 });
        if self.checksummed {
            mapping.checksum = self.checksum_of(range, seq, data_fin, sums);
        }
        let record = Sent { len: len as u32, data: range.start, mapping, ..new_record(seq, now) };
        let ends = if segments == 1 {
            self.record_sent(now, at, record);
            let ends = self.ends_train(now, at, len);
            self.after_data(now, at, len);
            ends
        } else {
            self.record_burst(now, at, &record);
            self.config.ack.push
        };
        self.make_data(now, at, &record, out);
        if ends {
            out.flags = out.flags.with(Flags::PSH);
        }
        self.subflows[at].ecn.on_new_data(out);
        if !self.data_timer.is_armed() {
            self.arm_data_timer(now);
        }
        self.tell_scheduler(now, &SchedulerEvent::Sent { subflow: id, range });
        let kind = match (probing, again) {
            (true, _) => SendKind::Probe,
            (false, true) => SendKind::Reinjection,
            (false, false) => SendKind::New,
        };
        let mut departure = self.leave_data(now, at, out, kind, range.start, observer)?;
        departure.segment_size = if segments > 1 { mss } else { 0 };
        Some(departure)
    }

    /// How much leaves at once, where `room` bytes may and a full segment does anyway, of a range of
    /// `available` bytes: whole segments, behind which the end of the range may be a shorter one.
    fn burst_len(&self, at: usize, available: u64, room: u64) -> u64 {
        let whole = u64::from(self.subflows[at].mss);
        // A DSS checksum over a mapping of several segments makes the receiver hold back all of them until
        // the last is there (RFC 8684 section 3.3.1). An infinite mapping goes on one segment, and so does what is said
        // of a reduction (RFC 3168 section 6.1.2).
        if self.checksummed || self.says_infinite() || self.subflows[at].ecn.has_to_say() {
            return whole;
        }
        let mut room = room;
        if self.paces() {
            room = room.min(self.pacing_rate(at).bytes_in(PACED_BURST));
        }
        if available <= room { available } else { (room - room % whole).max(whole) }
    }

    /// Notes the segments that leave as `whole`, each by itself: it is single segments that get lost and are
    /// acknowledged. They share one mapping.
    #[cold]
    fn record_burst(&mut self, now: Time, at: usize, whole: &Sent) {
        let mut back = 0;
        while back < whole.len {
            let len = self.subflows[at].mss.min(whole.len - back);
            let record = Sent {
                seq: whole.seq + u64::from(back),
                len,
                data: whole.data + u64::from(back),
                mapping: SentMapping { back: whole.mapping.back + back as u16, ..whole.mapping },
                ..*whole
            };
            self.record_sent(now, at, record);
            self.after_data(now, at, u64::from(len));
            back += len;
        }
    }

    #[inline(always)]
    fn record_sent(&mut self, now: Time, at: usize, mut record: Sent) {
        let subflow = &mut self.subflows[at];
        if subflow.board.is_empty() {
            subflow.timer_base = now;
        }
        record.stamp = subflow.rate.on_sent(now, subflow.board.in_flight());
        subflow.board.push(record);
    }

    fn retransmit<O: Observer>(
        &mut self,
        now: Time,
        at: usize,
        index: usize,
        kind: SendKind,
        out: &mut Segment,
        observer: &mut O,
    ) -> Option<Departure> {
        let subflow = &mut self.subflows[at];
        let stamp = subflow.rate.on_sent(now, subflow.board.in_flight());
        subflow.board.retransmit(index, now, stamp);
        let record = subflow.board.records()[index];
        subflow.recovery.on_retransmit(now, &subflow.board, record.seq);
        if subflow.recovery.restarts_timer() {
            subflow.timer_base = now;
        }
        if record.len > 0 {
            subflow.round_sent += 1;
            subflow.counters.data_segments_sent += 1;
            subflow.counters.segments_retransmitted += 1;
            subflow.counters.bytes_sent += u64::from(record.len);
        }
        if record.len > 0 {
            self.make_data(now, at, &record, out);
            if record.fin {
                out.flags = out.flags.with(Flags::FIN);
            }
        } else {
            self.make(now, at, Flags::FIN.with(Flags::ACK), record.seq, DataLevel::Ack, out);
        }
        self.after_data(now, at, u64::from(record.len));
        self.leave_data(now, at, out, kind, record.data, observer)
    }

    /// Bookkeeping after any data segment: congestion control, validation, pacing.
    #[inline]
    fn after_data(&mut self, now: Time, at: usize, len: u64) {
        let subflow = &mut self.subflows[at];
        self.congestion.on_sent(subflow.id, now, len);
        let in_flight = subflow.in_flight();
        let limited = in_flight + u64::from(subflow.mss) > subflow.cwnd;
        // Congestion-window validation as Linux does it: limited once in a round trip is limited.
        if subflow.board.una() >= subflow.usage_seq
            || limited
            || (!subflow.cwnd_limited && in_flight > subflow.max_in_flight)
        {
            subflow.cwnd_limited = limited;
            subflow.max_in_flight = in_flight;
            subflow.usage_seq = subflow.board.nxt();
        }
        subflow.last_sent = now;
        if self.paces() {
            let rate = self.pacing_rate(at);
            let gap = if rate.0 == 0 { Duration::ZERO } else { rate.transmission_time(len) };
            let subflow = &mut self.subflows[at];
            subflow.pace_at = subflow.pace_at.max(now) + gap;
        }
    }

    /// Whether a new segment of `len` bytes, which is recorded already, ends a train of at least two that leave
    /// together, as one packet of Linux's segmentation offload would: as many as the pacing rate sends in a
    /// millisecond, at least two (`tcp_tso_autosize`). The last one has PSH, so that the receiver answers it.
    #[inline]
    fn ends_train(&mut self, now: Time, at: usize, len: u64) -> bool {
        if !self.config.ack.push {
            return false;
        }
        let subflow = &mut self.subflows[at];
        let goes_on = subflow.last_sent == now;
        subflow.train = if goes_on { subflow.train.saturating_add(1) } else { 1 };
        if subflow.train < 2 {
            return false;
        }
        let mss = u64::from(subflow.mss);
        let more = subflow.queued > 0 && len == mss && subflow.in_flight() + mss <= subflow.cwnd;
        let sent = (u64::from(subflow.train) + 1) * mss;
        if more && sent <= self.pacing_rate(at).bytes_in(TRAIN) {
            return false;
        }
        self.subflows[at].train = 0;
        true
    }

    /// Whether segments leave at a pacing rate.
    #[inline]
    pub(super) fn paces(&self) -> bool {
        self.config.pacing || self.congestion.paces()
    }

    fn pacing_rate(&self, at: usize) -> Rate {
        let subflow = &self.subflows[at];
        if let Some(rate) = self.congestion.pacing_rate(subflow.id) {
            return rate;
        }
        let Some(srtt) = subflow.rtt.srtt() else { return Rate(0) };
        let cwnd = subflow.cwnd;
        // Linux: twice the window per round trip while below half the threshold, else 1.2 times.
        let fast = subflow.ssthresh.is_none_or(|ssthresh| cwnd < ssthresh / 2);
        let rate = Rate::from_bytes_over(cwnd.max(subflow.in_flight()), srtt);
        Rate((rate.as_bps_f64() * if fast { 2.0 } else { 1.2 }) as u64)
    }

    fn leave<O: Observer>(
        &mut self,
        now: Time,
        at: usize,
        out: &Segment,
        kind: SendKind,
        observer: &mut O,
    ) -> Option<Departure> {
        self.subflows[at].counters.control_segments_sent += 1;
        self.leave_data(now, at, out, kind, 0, observer)
    }

    #[inline]
    fn leave_data<O: Observer>(
        &mut self,
        now: Time,
        at: usize,
        out: &Segment,
        kind: SendKind,
        stream_offset: u64,
        observer: &mut O,
    ) -> Option<Departure> {
        let subflow = &mut self.subflows[at];
        subflow.recv.on_ack_sent();
        subflow.signals.on_other(out.payload_len, out.ack);
        self.depart(now, at, out, kind, stream_offset, observer)
    }

    #[inline]
    fn depart<O: Observer>(
        &self,
        now: Time,
        at: usize,
        out: &Segment,
        kind: SendKind,
        stream_offset: u64,
        observer: &mut O,
    ) -> Option<Departure> {
        let subflow = &self.subflows[at];
        let data = DataRange::new(stream_offset, stream_offset + u64::from(out.payload_len));
        observer.on_sent(now, self.id, subflow.id, out, kind, data);
        Some(Departure { connection: Some(self.id), path: subflow.path, stream_offset, segment_size: 0 })
    }
}

#[inline]
fn new_record(seq: u64, now: Time) -> Sent {
    Sent {
        seq,
        len: 0,
        transmissions: 1,
        fin: false,
        fate: Fate::InFlight,
        data: 0,
        mapping: SentMapping::default(),
        sent: now,
        stamp: crate::subflow::rate::SendStamp::default(),
    }
}
