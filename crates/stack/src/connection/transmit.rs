//! Chooses the next segment to send, and its subflow.

use anabranch_units::{Duration, Time};

use super::context::Context;
use super::fast::FastPoll;
use super::timer_table::Timer;
use super::{Connection, Mode};
use crate::checksum::PayloadSums;
use crate::congestion::CongestionControl;
use crate::event::Departure;
use crate::observer::{Hold, Observer, SendKind, StackEvent, StackEvents, report};
use crate::scheduler::{AssignKind, SchedulerEvent};
use crate::segment::Segment;
use crate::seq::DataRange;
use crate::subflow::queue::{Dropped, Front};
use crate::subflow::scoreboard::{Sent, SentMapping};
use crate::subflow::send::{Repair, Train, new_record};
use crate::subflow::{Subflow, TcpState};

/// The maximum duration of data sent at once, at the pacing rate, as in Linux.
const PACED_BURST: Duration = Duration::from_millis(1);

/// The maximum payload sent at once: less than the maximum IP packet, including the headers.
const MAX_BURST: u32 = 65_000;

/// A call for the next segment.
pub(super) struct Poll<'a, S, O> {
    pub now: Time,
    /// The segment to write.
    pub out: &'a mut Segment,
    /// The sums of payload, for DSS checksums.
    pub sums: &'a S,
    /// The maximum payload of a departure of several segments, in bytes.
    pub burst: u32,
    pub observer: &'a mut O,
}

/// Whether a timer may be due earlier than before a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Timers {
    Unmoved,
    Moved,
}

/// The answer to a poll.
pub(crate) struct Polled {
    pub departure: Option<Departure>,
    pub timers: Timers,
}

impl Connection {
    /// True if a poll may find something to send. False for a receiver whose acknowledgement is delayed,
    /// which is every second segment.
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

    /// Returns the next segment to send.
    pub(crate) fn poll_transmit<S: PayloadSums, O: Observer>(
        &mut self,
        now: Time,
        out: &mut Segment,
        sums: &S,
        burst: u32,
        observer: &mut O,
    ) -> Polled {
        if self.scatter.is_undecided() {
            self.decide_switch();
        }
        let mut poll = Poll { now, out, sums, burst, observer };
        let mut timers = Timers::Unmoved;
        if self.wants_schedule() {
            self.schedule(now, poll.observer);
            timers = Timers::Moved;
        }
        let ending = self.send.closed && !self.send.fin_sent;
        if ending {
            self.progress_close(now);
        }
        match self.fast_poll_subflows(&mut poll) {
            FastPoll::Ack(departure) => return Polled { departure: Some(departure), timers },
            FastPoll::Data(departure) => {
                return Polled { departure: Some(departure), timers: Timers::Moved };
            }
            FastPoll::Other => {}
        }
        let mut next = self.poll_subflows(&mut poll);
        if next.is_none() && self.wants_schedule() {
            self.schedule(now, poll.observer);
            next = self.poll_subflows(&mut poll);
        }
        if next.is_none() && ending {
            // Queued data may have become superfluous, and then nothing carries the DATA_FIN along.
            self.progress_close(now);
            next = self.poll_subflows(&mut poll);
        }
        if next.is_none() && O::EVENTS.has(StackEvents::HELD) {
            self.report_holds(now, poll.observer);
        }
        Polled { departure: next, timers: Timers::Moved }
    }

    /// Reports why subflows do not send the data assigned to them.
    #[inline(never)]
    fn report_holds<O: Observer>(&self, now: Time, observer: &mut O) {
        for subflow in self.subflows.iter().filter(|subflow| subflow.queue().bytes() > 0) {
            let next = subflow.queue().bytes().min(u64::from(subflow.mss()));
            let hold = if self.paces() && subflow.is_paced_out(now) {
                Hold::Pacing
            } else if subflow.window() < next {
                Hold::ReceiveWindow
            } else if self.short_end_waits(subflow) && subflow.in_flight() + next <= subflow.cwnd() {
                Hold::ShortSegment
            } else {
                Hold::CongestionWindow
            };
            report(observer, now, self.id, &StackEvent::Held { subflow: subflow.id(), hold });
        }
    }

    /// True if Nagle's algorithm withholds all of the data queued on a subflow.
    fn short_end_waits(&self, subflow: &Subflow) -> bool {
        let len = subflow.queue().bytes();
        // A FIN is sent with the last data of a plain TCP.
        let ends = self.mode == Mode::Plain && self.send.closed && self.send.nxt == self.send.written;
        self.config.nagle && !ends && len < u64::from(subflow.mss()) && subflow.without_short_end(len) == 0
    }

    #[inline(never)]
    pub(super) fn poll_subflows<S: PayloadSums, O: Observer>(
        &mut self,
        poll: &mut Poll<'_, S, O>,
    ) -> Option<Departure> {
        let count = self.subflows.len();
        for _ in 0..count {
            let at = self.rotation.current(count);
            if let Some(transmit) = self.poll_subflow(at, poll) {
                self.rotation.on_sent(self.turns_of(poll.out));
                return Some(transmit);
            }
            self.rotation.skip();
        }
        None
    }

    fn poll_subflow<S: PayloadSums, O: Observer>(
        &mut self,
        at: usize,
        poll: &mut Poll<'_, S, O>,
    ) -> Option<Departure> {
        let now = poll.now;
        let subflow = &mut self.subflows[at];
        if subflow.state().tcp() == TcpState::Closed {
            return None;
        }
        if let Some(cause) = subflow.state().reset_due() {
            self.make_reset(now, at, cause, poll.out);
            self.set_closed(at);
            self.subflow_ended(now, at);
            self.check_ended(now);
            return self.leave(at, SendKind::Control, poll);
        }
        if subflow.handshake().is_due() {
            *poll.out = self.make_handshake(now, at);
            return self.leave(at, SendKind::Control, poll);
        }
        if self.wanted.wants_third_ack() && !subflow.handshake().is_join() {
            self.wanted.cancel_third_ack();
            self.make_ack(now, at, poll.out);
            return self.leave(at, SendKind::Control, poll);
        }
        let carries_data = !matches!(
            subflow.state().tcp(),
            TcpState::SynSent | TcpState::SynReceived | TcpState::PreEstablished | TcpState::TimeWait
        );
        if subflow.has_data_to_send()
            && carries_data
            && let Some(transmit) = self.poll_data(at, poll)
        {
            return Some(transmit);
        }
        let subflow = &mut self.subflows[at];
        if let Some(signal) = subflow.next_signal(now) {
            self.make_signal(now, at, signal, poll.out);
            // It contains no ordinary acknowledgement, so one that is due remains due.
            self.subflows[at].count_control();
            return self.depart(at, SendKind::Control, 0, poll);
        }
        let id = subflow.id();
        if self.closing.take_keys(id) && self.keys_pending(at) {
            self.make_ack(now, at, poll.out);
            return self.leave(at, SendKind::Control, poll);
        }
        let subflow = &mut self.subflows[at];
        if let Some(before) = subflow.take_window_probe() {
            self.make_window_probe(now, at, before, poll.out);
            return self.leave(at, SendKind::Probe, poll);
        }
        if self.closing.take_fin(id) && subflow.state().is_usable() && !self.send.fin_acked {
            self.make_data_fin(now, at, poll.out);
            return self.leave(at, SendKind::Control, poll);
        }
        if subflow.recv().is_ack_due() && subflow.state().tcp() == TcpState::PreEstablished {
            // Without its HMAC, an acknowledgement would not be a third one (RFC 8684 section 3.2).
            *poll.out = self.make_handshake(now, at);
            return self.leave(at, SendKind::Control, poll);
        }
        if subflow.recv().is_ack_due() && subflow.state().tcp() != TcpState::SynSent {
            self.make_ack(now, at, poll.out);
            return self.leave(at, SendKind::Control, poll);
        }
        None
    }

    /// Sends retransmissions, then new data, then the FIN.
    fn poll_data<S: PayloadSums, O: Observer>(
        &mut self,
        at: usize,
        poll: &mut Poll<'_, S, O>,
    ) -> Option<Departure> {
        let now = poll.now;
        let subflow = &self.subflows[at];
        if self.paces() && subflow.is_paced_out(now) {
            return None;
        }
        if subflow.is_probing() && subflow.queue().is_empty() {
            self.feed_probe(now, at, poll.observer);
        }
        match self.subflows[at].next_retransmission(now) {
            Repair::Send(record) => {
                return self.send_again(at, &record, SendKind::Retransmission, poll);
            }
            Repair::Blocked => return None,
            Repair::Nothing => {}
        }
        if let Some(transmit) = self.send_new(at, poll) {
            return Some(transmit);
        }
        if let Some(record) = self.subflows[at].take_tail_probe(now) {
            return self.send_again(at, &record, SendKind::Probe, poll);
        }
        if let Some(seq) = self.subflows[at].take_fin(now) {
            self.make_fin(now, at, seq, poll.out);
            return self.leave(at, SendKind::Control, poll);
        }
        None
    }

    fn send_new<S: PayloadSums, O: Observer>(
        &mut self,
        at: usize,
        poll: &mut Poll<'_, S, O>,
    ) -> Option<Departure> {
        let now = poll.now;
        let Front { part, dropped } = self.subflows[at].queue_mut().next(self.send.una);
        if dropped == Dropped::Some {
            self.wanted.schedule();
        }
        let queued = part?;
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
            // Small windows are not filled (RFC 9293 section 3.8.6.2.1) unless nothing else is in flight.
            if window == 0 || !subflow.board().is_empty() {
                return None;
            }
            len = window;
        }
        if in_flight + len > cwnd && !probing {
            return None;
        }
        let whole = u64::from(mss);
        if len == whole && poll.burst > mss && mtu_probe.is_none() && !probing {
            let room = (cwnd - in_flight).min(window).min(u64::from(poll.burst.min(MAX_BURST)));
            len = self.burst_len(at, queued.range.len(), room);
        }
        if self.config.nagle && !len.is_multiple_of(whole) && mtu_probe.is_none() {
            // A FIN is sent with the last data of a plain TCP.
            let ends = self.mode == Mode::Plain && self.send.closed && queued.range.end == self.send.written;
            if !ends && !probing {
                len = self.subflows[at].without_short_end(len);
            }
            if len == 0 {
                return None;
            }
            if !len.is_multiple_of(whole) {
                self.subflows[at].note_short_end(seq + len);
            }
        }
        let segments = if len > whole && mtu_probe.is_none() { len.div_ceil(whole) } else { 1 };
        let range = DataRange::new(queued.range.start, queued.range.start + len);
        let again = queued.kind != AssignKind::New;
        self.subflows[at].on_new_data(now, len, segments, mtu_probe, again);
        let first = self.first_mapping(at, seq, range);
        // The last bytes carry the DATA_FIN (RFC 8684 section 3.3.3), except with an MP_CAPABLE, which has no
        // flag for it.
        let data_fin =
            self.mode == Mode::Mptcp && self.send.closed && range.end == self.send.written && first.is_none();
        if data_fin {
            let Connection { closing, send, subflows, timers, config, .. } = self;
            closing.note_fin_sent(send, &mut Context { now, config, subflows, timers });
        }
        let mut mapping = first.unwrap_or(SentMapping { back: 0, len: len as u16, data_fin, checksum: 0 });
        if self.checksummed {
            mapping.checksum = self.checksum_of(range, seq, &mapping, poll.sums);
        }
        let record = Sent { len: len as u32, data: range.start, mapping, ..new_record(seq, now) };
        let train = if segments == 1 {
            self.subflows[at].record_sent(now, record);
            let train = self.train_after(now, at, len);
            self.after_data(now, at, len);
            train
        } else {
            self.record_burst(now, at, &record);
            if self.config.ack.push { Train::Ends } else { Train::GoesOn }
        };
        self.make_new_data(now, at, &record, train, poll.out);
        if !self.timers.is_armed(Timer::Data) {
            self.arm_data_timer(now);
        }
        self.tell_scheduler(now, &SchedulerEvent::Sent { subflow: id, range });
        let kind = match (probing, again) {
            (true, _) => SendKind::Probe,
            (false, true) => SendKind::Reinjection,
            (false, false) => SendKind::New,
        };
        let mut departure = self.leave_data(at, kind, range.start, poll)?;
        departure.segment_size = if segments > 1 { mss } else { 0 };
        Some(departure)
    }

    /// Returns the length of a burst from a range of `available` bytes, within `room` bytes, which is at
    /// least a full segment: whole segments, and possibly the shorter end of the range.
    fn burst_len(&self, at: usize, available: u64, room: u64) -> u64 {
        let whole = u64::from(self.subflows[at].mss());
        // A DSS checksum over a mapping of several segments makes the receiver hold all of them until the
        // last has arrived (RFC 8684 section 3.3.1). An infinite mapping is sent on one segment, and so is
        // the signal of a reduction (RFC 3168 section 6.1.2).
        if self.checksummed || self.fallback.is_infinite() || self.subflows[at].announces_reduction() {
            return whole;
        }
        let mut room = room;
        if self.paces() {
            room = room.min(self.pacing_rate(at).bytes_in(PACED_BURST));
        }
        if available <= room { available } else { (room - room % whole).max(whole) }
    }

    /// Records each of the segments sent as `whole`, because single segments are lost and acknowledged. They
    /// share one mapping.
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

    /// Makes the segment of a record that is retransmitted.
    fn send_again<S: PayloadSums, O: Observer>(
        &mut self,
        at: usize,
        record: &Sent,
        kind: SendKind,
        poll: &mut Poll<'_, S, O>,
    ) -> Option<Departure> {
        let now = poll.now;
        self.make_again(now, at, record, poll.out);
        self.after_data(now, at, u64::from(record.len));
        self.leave_data(at, kind, record.data, poll)
    }
}
