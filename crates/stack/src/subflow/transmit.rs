//! The transmission of a subflow's segments, in three calls: [`Subflow::next`] chooses the next segment,
//! [`Subflow::send_new`] sends new data once the connection has mapped it, and [`Subflow::on_sent`] is called
//! after the segment was made.

use anabranch_units::{Duration, Time};

use super::defer::Deferral;
use super::queue::{Dropped, Front, Queued};
use super::scoreboard::{Sent, SentMapping};
use super::send::{Repair, Train, new_record};
use super::{ResetCause, Subflow, TcpState};
use crate::congestion::CongestionControl;
use crate::observer::{Hold, SendKind};
use crate::scheduler::AssignKind;
use crate::segment::{MptcpOption, PathId, Segment};
use crate::seq::DataRange;

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
    /// The data that waits for acknowledgements that let a packet grow.
    pub deferral: Deferral,
    /// True if the last segment of a train has PSH.
    pub push: bool,
    /// True if the FIN is sent with the last data.
    pub fin_with_data: bool,
    /// True if the congestion window is reset after an idle time.
    pub idle_restart: bool,
    /// True if the application waits for space in the send buffer.
    pub blocked: bool,
    /// The maximum payload of a departure of several segments, in bytes.
    pub burst: u32,
    /// The offset before which data in the queue is not sent, as another subflow has delivered it.
    pub unneeded: u64,
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
    pub(super) mtu_probe: Option<u32>,
    /// True if another subflow has carried it.
    pub(super) again: bool,
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

impl Subflow {
    /// True if a tail loss probe is due, and the queue has no data for it.
    #[inline]
    pub(crate) fn lacks_probe_data(&self) -> bool {
        self.tail_probe_wanted && self.queue.is_empty()
    }

    /// Returns the next segment to send, which counts as sent unless it is new data. `wants` asks the
    /// connection for its own control segment of a kind, when that has its turn; it counts as sent if so.
    // This and the functions that it calls have one caller, and most calls find nothing: inlined, the context is
    // never written.
    #[inline(always)]
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

    #[inline(always)]
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
        if self.signals.may_leave()
            && let Some(signal) = self.signals.pop(context.now, self.recv.ack(), self.rtt.rto(0))
        {
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
    #[inline(always)]
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
    #[inline(always)]
    fn next_new<C: CongestionControl>(
        &mut self,
        context: &SendContext,
        congestion: &mut C,
        dropped: &mut Dropped,
    ) -> Option<NewData> {
        let SendContext { now, burst, .. } = *context;
        let front: Front = self.queue.next(context.unneeded);
        *dropped = front.dropped;
        let Queued { range, kind } = front.part?;
        let mut cwnd = self.cwnd;
        if self.underused && self.last_sent < now {
            self.lower_unused(now, context.blocked || !context.idle_restart, congestion);
            cwnd = cwnd.min(self.cwnd);
        }
        if context.idle_restart && self.was_idle(now) {
            // RFC 5681 section 4.1.
            congestion.on_idle(self.id, now, self.idle_timeouts(now));
            self.refresh_window(congestion);
            cwnd = cwnd.min(self.cwnd);
            self.window_filled = now;
            self.window_used = 0;
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
        if !probing && self.should_defer(now, context.deferral, congestion) {
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
    #[inline(always)]
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
        let fin = context.fin_with_data && self.state.fin_pending() && self.queue.is_empty();
        if fin {
            self.state.on_fin_sent();
        }
        let record =
            Sent { len: len as u32, data: new.range.start, mapping, fin, ..new_record(new.seq, now) };
        if new.segment_size > 0 {
            self.record_burst(&record, context, congestion);
            return (record, if push { Train::Ends } else { Train::GoesOn });
        }
        self.record_sent(now, record);
        let train = if push { self.train_after(now, len, congestion) } else { Train::GoesOn };
        self.after_data(now, len, paces, congestion);
        (record, train)
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
    pub(crate) fn hold(&self, context: &SendContext) -> Option<Hold> {
        if self.queue.bytes() == 0 {
            return None;
        }
        let next = self.queue.bytes().min(u64::from(self.mss));
        Some(if context.paces && self.is_paced_out(context.now) {
            Hold::Pacing
        } else if self.window() < next {
            Hold::ReceiveWindow
        } else if self.short_end_waits(context) && self.in_flight() + next <= self.cwnd {
            Hold::ShortSegment
        } else {
            Hold::CongestionWindow
        })
    }

    /// True if the whole queue is a short segment that waits for an acknowledgement (Nagle's algorithm).
    fn short_end_waits(&self, context: &SendContext) -> bool {
        let len = self.queue.bytes();
        // A FIN is sent with the last data of a plain TCP.
        let ends = context.end.is_some() && context.unassigned == 0;
        context.nagle && !ends && len < u64::from(self.mss) && self.without_short_end(len) == 0
    }
}
