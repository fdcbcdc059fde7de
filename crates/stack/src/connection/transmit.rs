//! What leaves next, on which subflow.

use anabranch_units::{Duration, Time};

use super::make::DataLevel;
use super::timer_table::Timer;
use super::{Connection, Mode};
use crate::checksum::PayloadSums;
use crate::congestion::CongestionControl;
use crate::event::Departure;
use crate::observer::{Observer, SendKind};
use crate::scheduler::{AssignKind, SchedulerEvent};
use crate::segment::{Flags, OPTION_SPACE, Segment};
use crate::seq::DataRange;
use crate::subflow::scoreboard::{Sent, SentMapping};
use crate::subflow::send::{Repair, new_record};
use crate::subflow::{Subflow, TcpState};

/// How much may leave at once where segments are paced: what the rate allows in this time, as in Linux.
const PACED_BURST: Duration = Duration::from_millis(1);

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
        self.wants_schedule()
            || self.wanted.wants_third_ack()
            || self.closing.wants_fin()
            || (self.send.closed && !self.send.fin_sent)
            || self.subflows.iter().any(Subflow::wants_to_send)
    }

    /// True if the scheduler is to be asked before the next segment is chosen.
    #[inline]
    fn wants_schedule(&self) -> bool {
        self.wanted.wants_schedule() || self.send.has_news()
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
        if self.wants_schedule() {
            self.schedule(now, observer);
        }
        let ending = self.send.closed && !self.send.fin_sent;
        if ending {
            self.progress_close(now);
        }
        if let Some(departure) = self.fast_poll_subflows(now, out, burst, observer) {
            return Some(departure);
        }
        self.wanted.timers();
        let mut next = self.poll_subflows(now, out, sums, burst, observer);
        if next.is_none() && self.wants_schedule() {
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

    #[inline(never)]
    pub(super) fn poll_subflows<S: PayloadSums, O: Observer>(
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
        if subflow.state() == TcpState::Closed {
            return None;
        }
        if let Some(cause) = subflow.reset_due() {
            self.make_reset(now, at, cause, out);
            self.set_closed(at);
            self.subflow_ended(now, at);
            self.check_ended(now);
            return self.leave(now, at, out, SendKind::Control, observer);
        }
        if subflow.handshake_due() {
            *out = self.make_handshake(now, at);
            return self.leave(now, at, out, SendKind::Control, observer);
        }
        if self.wanted.wants_third_ack() && !subflow.is_join() {
            self.wanted.cancel_third_ack();
            self.make_ack(now, at, out);
            return self.leave(now, at, out, SendKind::Control, observer);
        }
        let carries_data = !matches!(
            subflow.state(),
            TcpState::SynSent | TcpState::SynReceived | TcpState::PreEstablished | TcpState::TimeWait
        );
        if subflow.has_data_to_send()
            && carries_data
            && let Some(transmit) = self.poll_data(now, at, out, sums, burst, observer)
        {
            return Some(transmit);
        }
        let subflow = &mut self.subflows[at];
        if let Some(signal) = subflow.next_signal(now) {
            // A signal that belongs to no segment goes on an acknowledgement of its own, so that it
            // never crowds out the data level (RFC 8684 section 3).
            let seq = subflow.board().nxt();
            self.make(now, at, Flags::ACK, seq, DataLevel::Signal, out);
            out.options.push(signal);
            if out.options.wire_len() > OPTION_SPACE {
                out.options.timestamps = None;
            }
            // It does not say what an acknowledgement has to say, so one that is due still is.
            self.subflows[at].count_control();
            return self.depart(now, at, out, SendKind::Control, 0, observer);
        }
        let id = subflow.id();
        if self.closing.take_keys(id) && self.keys_pending(at) {
            self.make_ack(now, at, out);
            return self.leave(now, at, out, SendKind::Control, observer);
        }
        let subflow = &mut self.subflows[at];
        if let Some(before) = subflow.take_window_probe() {
            // One octet that the peer has had makes it answer with its window. RFC 9293 section
            // 3.8.6.1 speaks of an octet of new data; Linux probes like this, and it holds at both
            // levels because the answer carries the data acknowledgement too.
            self.make(now, at, Flags::ACK, before, DataLevel::Ack, out);
            return self.leave(now, at, out, SendKind::Probe, observer);
        }
        if self.closing.take_fin(id) && subflow.is_usable() && !self.send.fin_acked {
            self.make_data_fin(now, at, out);
            return self.leave(now, at, out, SendKind::Control, observer);
        }
        if subflow.is_ack_due() && subflow.state() == TcpState::PreEstablished {
            // Without its code, an acknowledgement would be no third one (RFC 8684 section 3.2).
            *out = self.make_handshake(now, at);
            return self.leave(now, at, out, SendKind::Control, observer);
        }
        if subflow.is_ack_due() && subflow.state() != TcpState::SynSent {
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
        let subflow = &self.subflows[at];
        if self.paces() && subflow.is_paced_out(now) {
            return None;
        }
        if subflow.is_probing() && subflow.is_queue_empty() {
            self.feed_probe(now, at);
        }
        match self.subflows[at].next_retransmission(now) {
            Repair::Send(record) => {
                return self.send_again(now, at, &record, SendKind::Retransmission, out, observer);
            }
            Repair::Blocked => return None,
            Repair::Nothing => {}
        }
        if let Some(transmit) = self.send_new(now, at, out, sums, burst, observer) {
            return Some(transmit);
        }
        if let Some(record) = self.subflows[at].take_tail_probe(now) {
            return self.send_again(now, at, &record, SendKind::Probe, out, observer);
        }
        if let Some(seq) = self.subflows[at].take_fin(now) {
            self.make(now, at, Flags::FIN.with(Flags::ACK), seq, DataLevel::Ack, out);
            return self.leave(now, at, out, SendKind::Control, observer);
        }
        None
    }

    fn send_new<S: PayloadSums, O: Observer>(
        &mut self,
        now: Time,
        at: usize,
        out: &mut Segment,
        sums: &S,
        burst: u32,
        observer: &mut O,
    ) -> Option<Departure> {
        let (queued, dropped) = self.subflows[at].next_queued(self.send.una);
        // Dropped data makes space for other data.
        if dropped {
            self.wanted.schedule();
        }
        let queued = queued?;
        let cwnd = self.subflows[at].cwnd();
        if self.config.idle_restart && self.subflows[at].was_idle(now) {
            // RFC 5681 section 4.1.
            self.congestion.on_idle(self.subflows[at].id(), now);
            self.refresh_window(at);
        }
        let unassigned = self.send.written - self.send.nxt;
        let subflow = &mut self.subflows[at];
        let cwnd = cwnd.min(subflow.cwnd());
        let (id, mss, in_flight) = (subflow.id(), subflow.mss(), subflow.in_flight());
        let (seq, window, probing) = (subflow.board().nxt(), subflow.window(), subflow.is_probing());
        let mtu_probe = subflow.mtu_probe(now, queued.range.len().min(window), unassigned);
        let mut len = queued.range.len().min(u64::from(mtu_probe.unwrap_or(mss)));
        if len > window {
            // Silly windows are not filled (RFC 9293 section 3.8.6.2.1) unless nothing else moves.
            if window == 0 || !subflow.board().is_empty() {
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
        let range = DataRange::new(queued.range.start, queued.range.start + len);
        let again = queued.kind != AssignKind::New;
        self.subflows[at].on_new_data(now, len, segments, mtu_probe, again);
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
            self.subflows[at].record_sent(now, record);
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
        self.subflows[at].mark_new_data(out);
        if !self.timers.is_armed(Timer::Data) {
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
        let whole = u64::from(self.subflows[at].mss());
        // A DSS checksum over a mapping of several segments makes the receiver hold back all of them until
        // the last is there (RFC 8684 section 3.3.1). An infinite mapping goes on one segment, and so does what is said
        // of a reduction (RFC 3168 section 6.1.2).
        if self.checksummed || self.says_infinite() || self.subflows[at].announces_reduction() {
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
            let len = self.subflows[at].mss().min(whole.len - back);
            let record = Sent {
                seq: whole.seq + u64::from(back),
                len,
                data: whole.data + u64::from(back),
                mapping: SentMapping { back: whole.mapping.back + back as u16, ..whole.mapping },
                ..*whole
            };
            self.subflows[at].record_sent(now, record);
            self.after_data(now, at, u64::from(len));
            back += len;
        }
    }

    /// Makes the segment of a record that is sent again.
    fn send_again<O: Observer>(
        &mut self,
        now: Time,
        at: usize,
        record: &Sent,
        kind: SendKind,
        out: &mut Segment,
        observer: &mut O,
    ) -> Option<Departure> {
        if record.len > 0 {
            self.make_data(now, at, record, out);
            if record.fin {
                out.flags = out.flags.with(Flags::FIN);
            }
        } else {
            self.make(now, at, Flags::FIN.with(Flags::ACK), record.seq, DataLevel::Ack, out);
        }
        self.after_data(now, at, u64::from(record.len));
        self.leave_data(now, at, out, kind, record.data, observer)
    }
}
