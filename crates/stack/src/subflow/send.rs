//! The sending half of a subflow: the choice of its next segment, the records of what is sent, and pacing.
//!
//! A transmission is three calls. [`Subflow::next`] chooses the next segment; [`Subflow::send_new`] sends new
//! data, once the connection has mapped it; and [`Subflow::on_sent`] is called after the segment was made.

use anabranch_units::{Duration, Rate, Time};

use super::queue::{Dropped, Front, Queued};
use super::scoreboard::{Fate, Sent, SentMapping};
use super::{ResetCause, Subflow, TcpState};
use crate::congestion::CongestionControl;
use crate::observer::{Hold, SendKind};
use crate::scheduler::AssignKind;
use crate::segment::{MptcpOption, PathId, Segment};
use crate::seq::DataRange;

/// The time at the pacing rate of the maximum that Linux hands to segmentation offload at once.
const TRAIN: Duration = Duration::from_nanos(976_563);

/// The maximum duration of data sent at once, at the pacing rate, as in Linux.
const PACED_BURST: Duration = Duration::from_millis(1);

/// The maximum payload sent at once: less than the maximum IP packet, including the headers.
const MAX_BURST: u32 = 65_000;

/// The state of the connection that a transmission depends on.
#[derive(Clone, Copy)]
pub(crate) struct SendContext {
    pub now: Time,
    /// True if segments are paced.
    pub paces: bool,
    /// True if a short segment waits while another one is unacknowledged.
    pub nagle: bool,
    /// True if the last segment of a train has PSH.
    pub push: bool,
    /// True if the congestion window is reset after an idle time.
    pub idle_restart: bool,
    /// The maximum payload of a departure of several segments, in bytes.
    pub burst: u32,
    /// The offset up to which the stream is acknowledged: the data before it need not be sent.
    pub una: u64,
    /// The written bytes that are assigned to no subflow.
    pub unassigned: u64,
    /// The end of the stream, if the FIN of the subflow follows its last byte.
    pub end: Option<u64>,
}

/// A control segment of the data level.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Control {
    /// The third ACK of the first handshake.
    ThirdAck,
    /// An acknowledgement with both keys before the DATA_FIN.
    Keys,
    /// A DATA_FIN without data.
    DataFin,
}

/// The next segment of a subflow.
pub(crate) enum Next {
    /// There is none at this time.
    Nothing,
    Reset(ResetCause),
    /// The SYN, the SYN/ACK, or the third ACK of a join.
    Handshake,
    Control(Control),
    /// A retransmission of data, of the FIN, or of both.
    Again {
        record: Sent,
        kind: SendKind,
    },
    /// New data, which [`Subflow::send_new`] sends.
    New(NewData),
    /// The FIN, at this offset.
    Fin(u64),
    /// An option on a separate acknowledgement.
    Signal(MptcpOption),
    /// An acknowledgement with this offset, which the peer has already received: it answers with its window.
    WindowProbe(u64),
    Ack,
}

/// The answer to [`Subflow::next`].
pub(crate) struct Turn {
    pub next: Next,
    /// Whether the queue has become shorter.
    pub dropped: Dropped,
}

/// New data from the front of the queue, which the windows admit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct NewData {
    /// The part of the stream.
    pub range: DataRange,
    /// The offset of its start in the subflow.
    pub seq: u64,
    /// The payload of each of its segments but the last; 0 if it is one segment.
    pub segment_size: u32,
    /// The size of the probe of the path's MTU, if it is one.
    mtu_probe: Option<u32>,
    /// True if another subflow has carried it.
    again: bool,
    /// True if it is a tail loss probe.
    probing: bool,
}

impl NewData {
    /// Returns the kind of its segments.
    pub(crate) fn kind(&self) -> SendKind {
        match (self.probing, self.again) {
            (true, _) => SendKind::Probe,
            (false, true) => SendKind::Reinjection,
            (false, false) => SendKind::New,
        }
    }
}

/// The content of a segment sent, for its subflow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Content {
    /// Data that this subflow sends for the first time.
    NewData,
    /// A retransmission.
    Again,
    /// Neither: an acknowledgement, or a segment of a handshake or of an end.
    Control,
    /// An option. The segment has no ordinary acknowledgement, so one that is due remains due.
    Signal,
}

/// The next retransmission of a subflow.
enum Repair {
    /// Nothing is lost.
    Nothing,
    /// The congestion window does not admit it yet.
    Blocked,
    /// This segment, which counts as sent.
    Send(Sent),
}

/// Whether segments sent together continue after one of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Train {
    GoesOn,
    /// The segment is the last one, which has PSH.
    Ends,
}

/// Returns the record of a segment that begins at `seq` and is sent now for the first time.
#[inline]
pub(super) fn new_record(seq: u64, now: Time) -> Sent {
    Sent {
        seq,
        len: 0,
        transmissions: 1,
        fin: false,
        fate: Fate::InFlight,
        data: 0,
        mapping: SentMapping::default(),
        sent: now,
        stamp: super::rate::SendStamp::default(),
    }
}

impl Subflow {
    /// Returns the next segment to send, which counts as sent unless it is new data. `wants` asks the
    /// connection for its own control segment of a kind, when that has its turn; it counts as sent if so.
    pub(crate) fn next<C: CongestionControl>(
        &mut self,
        context: &SendContext,
        congestion: &mut C,
        wants: impl FnMut(Control) -> bool,
    ) -> Turn {
        let mut dropped = Dropped::Nothing;
        let next = self.choose(context, congestion, wants, &mut dropped);
        Turn { next, dropped }
    }

    fn choose<C: CongestionControl>(
        &mut self,
        context: &SendContext,
        congestion: &mut C,
        mut wants: impl FnMut(Control) -> bool,
        dropped: &mut Dropped,
    ) -> Next {
        let tcp = self.state.tcp();
        if tcp == TcpState::Closed {
            return Next::Nothing;
        }
        if let Some(cause) = self.state.reset_due() {
            return Next::Reset(cause);
        }
        if self.handshake.is_due() {
            return Next::Handshake;
        }
        if !self.handshake.is_join() && wants(Control::ThirdAck) {
            return Next::Control(Control::ThirdAck);
        }
        if self.has_data_to_send()
            && self.state.carries_data()
            && let Some(next) = self.next_data(context, congestion, dropped)
        {
            return next;
        }
        let timeout = self.rtt.rto(0);
        if let Some(signal) = self.signals.pop(context.now, self.recv.ack(), timeout) {
            return Next::Signal(signal);
        }
        if wants(Control::Keys) {
            return Next::Control(Control::Keys);
        }
        if let Some(before) = self.take_window_probe() {
            return Next::WindowProbe(before);
        }
        if wants(Control::DataFin) && self.state.is_usable() {
            return Next::Control(Control::DataFin);
        }
        match tcp {
            _ if !self.recv.is_ack_due() => Next::Nothing,
            TcpState::SynSent => Next::Nothing,
            // Without its HMAC, an acknowledgement would not be a third one (RFC 8684 section 3.2).
            TcpState::PreEstablished => Next::Handshake,
            _ => Next::Ack,
        }
    }

    /// Returns retransmissions, then new data, then the FIN.
    fn next_data<C: CongestionControl>(
        &mut self,
        context: &SendContext,
        congestion: &mut C,
        dropped: &mut Dropped,
    ) -> Option<Next> {
        if context.paces && self.is_paced_out(context.now) {
            return None;
        }
        match self.next_retransmission(context.now) {
            Repair::Send(record) => {
                return Some(self.again(record, SendKind::Retransmission, context, congestion));
            }
            Repair::Blocked => return None,
            Repair::Nothing => {}
        }
        if let Some(new) = self.next_new(context, congestion, dropped) {
            return Some(Next::New(new));
        }
        if let Some(record) = self.take_tail_probe(context.now) {
            return Some(self.again(record, SendKind::Probe, context, congestion));
        }
        self.take_fin(context.now).map(Next::Fin)
    }

    fn again<C: CongestionControl>(
        &mut self,
        record: Sent,
        kind: SendKind,
        context: &SendContext,
        congestion: &mut C,
    ) -> Next {
        self.after_data(context.now, u64::from(record.len), context.paces, congestion);
        Next::Again { record, kind }
    }

    /// Returns the new data that may be sent now.
    fn next_new<C: CongestionControl>(
        &mut self,
        context: &SendContext,
        congestion: &mut C,
        dropped: &mut Dropped,
    ) -> Option<NewData> {
        let SendContext { now, burst, .. } = *context;
        let front: Front = self.queue.next(context.una);
        *dropped = front.dropped;
        let Queued { range, kind } = front.part?;
        let mut cwnd = self.cwnd;
        if context.idle_restart && self.was_idle(now) {
            // RFC 5681 section 4.1.
            congestion.on_idle(self.id, now);
            self.refresh_window(congestion);
            cwnd = cwnd.min(self.cwnd);
        }
        let (seq, mss) = (self.board.nxt(), u64::from(self.mss));
        let (in_flight, window, probing) = (self.in_flight(), self.window(), self.tail_probe_wanted);
        let mtu_probe = self.mtu_probe(now, range.len().min(window), context.unassigned);
        let mut len = range.len().min(mtu_probe.map_or(mss, u64::from));
        if len > window {
            // Small windows are not filled (RFC 9293 section 3.8.6.2.1) unless nothing else is in flight.
            if window == 0 || !self.board.is_empty() {
                return None;
            }
            len = window;
        }
        if in_flight + len > cwnd && !probing {
            return None;
        }
        if len == mss && burst > self.mss && mtu_probe.is_none() && !probing {
            let room = (cwnd - in_flight).min(window).min(u64::from(burst.min(MAX_BURST)));
            len = self.burst_len(range.len(), room, context.paces, congestion);
        }
        if context.nagle && !len.is_multiple_of(mss) && mtu_probe.is_none() {
            if context.end != Some(range.end) && !probing {
                len = self.without_short_end(len);
            }
            if len == 0 {
                return None;
            }
            if !len.is_multiple_of(mss) {
                self.short_end = seq + len;
            }
        }
        let several = len > mss && mtu_probe.is_none();
        Some(NewData {
            range: DataRange::new(range.start, range.start + len),
            seq,
            segment_size: if several { self.mss } else { 0 },
            mtu_probe,
            again: kind != AssignKind::New,
            probing,
        })
    }

    /// Returns the length of a burst from a range of `available` bytes, within `room` bytes, which is at
    /// least a full segment: whole segments, and possibly the shorter end of the range.
    fn burst_len<C: CongestionControl>(&self, available: u64, room: u64, paces: bool, congestion: &C) -> u64 {
        let whole = u64::from(self.mss);
        // The signal of a reduction is sent on one segment (RFC 3168 section 6.1.2).
        if self.ecn.has_to_say() {
            return whole;
        }
        let mut room = room;
        if paces {
            room = room.min(self.pacing_rate(congestion).bytes_in(PACED_BURST));
        }
        if available <= room { available } else { (room - room % whole).max(whole) }
    }

    /// Sends new data with this `mapping`. Returns its record (one of all its segments together), and whether
    /// it ends a train.
    pub(crate) fn send_new<C: CongestionControl>(
        &mut self,
        context: &SendContext,
        new: &NewData,
        mapping: SentMapping,
        congestion: &mut C,
    ) -> (Sent, Train) {
        let &SendContext { now, paces, push, .. } = context;
        let len = new.range.len();
        self.on_new_data(now, new);
        let record = Sent { len: len as u32, data: new.range.start, mapping, ..new_record(new.seq, now) };
        if new.segment_size > 0 {
            self.record_burst(&record, context, congestion);
            return (record, if push { Train::Ends } else { Train::GoesOn });
        }
        self.record_sent(now, record);
        let train = if push { self.train_after(now, len, congestion) } else { Train::GoesOn };
        self.after_data(now, len, paces, congestion);
        (record, train)
    }

    /// Records each of the segments sent as `whole`, because single segments are lost and acknowledged. They
    /// share one mapping.
    #[cold]
    fn record_burst<C: CongestionControl>(
        &mut self,
        whole: &Sent,
        context: &SendContext,
        congestion: &mut C,
    ) {
        let mut back = 0;
        while back < whole.len {
            let len = self.mss.min(whole.len - back);
            let record = Sent {
                seq: whole.seq + u64::from(back),
                len,
                data: whole.data + u64::from(back),
                mapping: SentMapping { back: whole.mapping.back + back as u16, ..whole.mapping },
                ..*whole
            };
            self.record_sent(context.now, record);
            self.after_data(context.now, u64::from(len), context.paces, congestion);
            back += len;
        }
    }

    /// Updates the state after a segment was made. Returns the interface on which it is sent.
    #[inline]
    pub(crate) fn on_sent(&mut self, content: Content, out: &mut Segment) -> PathId {
        match content {
            Content::NewData => self.ecn.on_new_data(out),
            Content::Again => {}
            Content::Control | Content::Signal => self.counters.control_segments_sent += 1,
        }
        if content != Content::Signal {
            self.recv.on_ack_sent();
            self.signals.on_other(out.payload_len, out.ack);
        }
        self.route.path()
    }

    /// Returns why the queue is not sent, if it is not empty.
    pub(crate) fn hold(&self, now: Time, paces: bool) -> Option<Hold> {
        if self.queue.bytes() == 0 {
            return None;
        }
        let next = self.queue.bytes().min(u64::from(self.mss));
        Some(if paces && self.is_paced_out(now) {
            Hold::Pacing
        } else if self.window() < next {
            Hold::ReceiveWindow
        } else {
            Hold::CongestionWindow
        })
    }

    /// True if nothing was sent for a retransmission timeout, so that the congestion window is out of date
    /// (RFC 5681 section 4.1).
    fn was_idle(&self, now: Time) -> bool {
        self.in_flight() == 0
            && now.since(self.last_sent) > self.rtt.rto(0)
            && self.counters.data_segments_sent > 0
            && self.board.is_empty()
    }

    /// Returns the bytes that the peer's window for this subflow admits.
    #[inline]
    pub(super) fn window(&self) -> u64 {
        self.window_edge.saturating_sub(self.board.nxt())
    }

    /// True if pacing, regardless of the windows, delays the next transmission.
    fn is_paced_out(&self, now: Time) -> bool {
        self.pace_at > now && !self.recovery.force && !self.tail_probe_wanted
    }

    /// True if a tail loss probe is due, and the queue has no data for it.
    #[inline]
    pub(crate) fn lacks_probe_data(&self) -> bool {
        self.tail_probe_wanted && self.queue.is_empty()
    }

    /// Returns the next segment to retransmit.
    fn next_retransmission(&mut self, now: Time) -> Repair {
        let Some(lost) = self.board.next_lost() else { return Repair::Nothing };
        self.board.split(lost, self.mss);
        let record = self.board.records()[lost];
        if !self.recovery.force && self.in_flight() + record.space() > self.cwnd {
            return Repair::Blocked;
        }
        self.recovery.force = false;
        Repair::Send(self.retransmit(now, lost))
    }

    /// Returns the last segment, to be retransmitted as a tail loss probe if one is due and there is no new
    /// data (RFC 8985 section 7.3).
    fn take_tail_probe(&mut self, now: Time) -> Option<Sent> {
        if !core::mem::take(&mut self.tail_probe_wanted) || self.board.is_empty() {
            return None;
        }
        let last = self.board.records().len() - 1;
        if self.board.records()[last].is_sacked() {
            return None;
        }
        self.counters.tail_probes += 1;
        let end = self.board.nxt();
        self.recovery.on_probe(end, true);
        self.board.split(last, self.mss);
        Some(self.retransmit(now, last))
    }

    /// Sends the FIN, if it is due. Returns its offset.
    fn take_fin(&mut self, now: Time) -> Option<u64> {
        if !self.state.fin_pending() || !self.queue.is_empty() {
            return None;
        }
        self.state.on_fin_sent();
        let seq = self.board.nxt();
        self.record_sent(now, Sent { fin: true, ..new_record(seq, now) });
        Some(seq)
    }

    /// Counts new data that is about to be sent from the front of the queue, including a tail loss probe or a
    /// probe of the path's MTU.
    fn on_new_data(&mut self, now: Time, new: &NewData) {
        let len = new.range.len();
        let segments = if new.segment_size > 0 { len.div_ceil(u64::from(new.segment_size)) } else { 1 };
        let probing = core::mem::take(&mut self.tail_probe_wanted);
        if let Some(size) = new.mtu_probe {
            self.path_mtu.on_probe_sent(new.seq, size);
        }
        if probing {
            self.counters.tail_probes += 1;
            self.recovery.on_probe(new.seq + len, false);
        }
        if new.again {
            self.counters.bytes_reinjected += len;
            self.counters.segments_reinjected += segments;
        }
        self.count_new_data(now, len, segments);
    }

    #[inline]
    pub(super) fn count_new_data(&mut self, now: Time, len: u64, segments: u64) {
        self.queue.take(len);
        self.round_sent += segments;
        self.last_new = now;
        self.counters.data_segments_sent += segments;
        self.counters.bytes_sent += len;
    }

    /// Returns the number of the `len` bytes at the front of the queue that may be sent now: a short segment at
    /// the end of the queue waits while another one is unacknowledged (`tcp_nagle_check` and
    /// `tcp_minshall_check` in net/ipv4/tcp_output.c of Linux).
    #[inline]
    fn without_short_end(&self, len: u64) -> u64 {
        let waits = len == self.queue.bytes() && self.short_end > self.board.una();
        if waits { len - len % u64::from(self.mss) } else { len }
    }

    /// Records a segment that is sent for the first time.
    #[inline(always)]
    pub(super) fn record_sent(&mut self, now: Time, mut record: Sent) {
        if self.board.is_empty() {
            self.timer_base = now;
        }
        record.stamp = self.rate.on_sent(now, self.board.in_flight());
        self.board.push(record);
    }

    /// Returns whether a new segment of `len` bytes, which is already recorded, ends a train of at least two
    /// sent together, like one packet of Linux's segmentation offload: the number that the pacing rate sends in a
    /// millisecond, at least two (`tcp_tso_autosize`). The last one has PSH, so that the receiver answers it.
    #[inline(always)]
    pub(super) fn train_after<C: CongestionControl>(&mut self, now: Time, len: u64, congestion: &C) -> Train {
        let goes_on = self.last_sent == now;
        self.train = if goes_on { self.train.saturating_add(1) } else { 1 };
        if self.train < 2 {
            return Train::GoesOn;
        }
        let mss = u64::from(self.mss);
        let more = self.queue.bytes() > 0 && len == mss && self.in_flight() + mss <= self.cwnd;
        let sent = (u64::from(self.train) + 1) * mss;
        if more && sent <= self.pacing_rate(congestion).bytes_in(TRAIN) {
            return Train::GoesOn;
        }
        self.train = 0;
        Train::Ends
    }

    fn retransmit(&mut self, now: Time, index: usize) -> Sent {
        let stamp = self.rate.on_sent(now, self.board.in_flight());
        self.board.retransmit(index, now, stamp);
        let record = self.board.records()[index];
        self.recovery.on_retransmit(now, &self.board, record.seq);
        if self.recovery.restarts_timer() {
            self.timer_base = now;
        }
        if record.len > 0 {
            self.round_sent += 1;
            self.counters.data_segments_sent += 1;
            self.counters.segments_retransmitted += 1;
            self.counters.bytes_sent += u64::from(record.len);
        }
        record
    }

    /// Updates congestion control, validation and pacing after any segment with data was sent: congestion-window
    /// validation as in Linux, where a window limited once in a round trip is limited.
    #[inline]
    pub(super) fn after_data<C: CongestionControl>(
        &mut self,
        now: Time,
        len: u64,
        paces: bool,
        congestion: &mut C,
    ) {
        congestion.on_sent(self.id, now, len);
        let in_flight = self.in_flight();
        let limited = in_flight + u64::from(self.mss) > self.cwnd;
        if self.board.una() >= self.usage_seq
            || limited
            || (!self.cwnd_limited && in_flight > self.max_in_flight)
        {
            self.cwnd_limited = limited;
            self.max_in_flight = in_flight;
            self.usage_seq = self.board.nxt();
        }
        self.last_sent = now;
        if paces {
            let rate = self.pacing_rate(congestion);
            let gap = if rate.0 == 0 { Duration::ZERO } else { rate.transmission_time(len) };
            self.pace_at = self.pace_at.max(now) + gap;
        }
    }

    /// Returns the pacing rate: that of the congestion control, if it has one.
    pub(super) fn pacing_rate<C: CongestionControl>(&self, congestion: &C) -> Rate {
        congestion.pacing_rate(self.id).unwrap_or_else(|| self.default_pacing_rate())
    }

    /// Returns the pacing rate if the congestion control has none: as in Linux, twice the window per round
    /// trip while it is below half of the threshold, and 1.2 times otherwise.
    fn default_pacing_rate(&self) -> Rate {
        let Some(srtt) = self.rtt.srtt() else { return Rate(0) };
        let fast = self.ssthresh.is_none_or(|ssthresh| self.cwnd < ssthresh / 2);
        let rate = Rate::from_bytes_over(self.cwnd.max(self.in_flight()), srtt);
        Rate((rate.as_bps_f64() * if fast { 2.0 } else { 1.2 }) as u64)
    }

    /// Returns the size of the MTU probe sent in place of a segment; the first range of its queue has `front`
    /// bytes, and `unassigned` more are written.
    #[inline]
    fn mtu_probe(&mut self, now: Time, front: u64, unassigned: u64) -> Option<u32> {
        if !self.path_mtu.is_searching(now) {
            return None;
        }
        let calm = self.board.lost_segments() == 0 && self.board.sacked_segments() == 0;
        let size = self.path_mtu.probe_size(now, self.mss, self.cwnd, self.queue.bytes() + unassigned)?;
        (calm && front >= u64::from(size)).then_some(size)
    }

    /// Marks samples as app-limited: a sender that does not fill its window for lack of data measures itself,
    /// not the path.
    pub(crate) fn on_app_limited(&mut self) {
        if self.state.is_usable() && self.queue.is_empty() {
            let flight = self.in_flight();
            self.rate.on_app_limited(flight);
        }
    }

    /// Returns the offset of a byte that the peer has already received, which makes it answer with its window
    /// and its acknowledgement.
    fn take_window_probe(&mut self) -> Option<u64> {
        if !core::mem::take(&mut self.probe_wanted) || !self.state.is_synchronised() {
            return None;
        }
        self.counters.window_probes += 1;
        Some(self.board.una().saturating_sub(1))
    }
}
