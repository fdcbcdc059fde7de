//! The bookkeeping of a segment that is sent: counters, congestion control, pacing, the observer.

use anabranch_units::Time;

use super::Connection;
use super::transmit::Poll;
use crate::congestion::CongestionControl;
use crate::event::Departure;
use crate::observer::{Observer, SendKind, StackEvent, report};
use crate::segment::Segment;
use crate::seq::DataRange;
use crate::subflow::send::Train;

impl Connection {
    /// Returns the number of segments that a departure counts in a turn.
    pub(crate) fn turns_of(&self, sent: &Segment) -> u32 {
        if sent.payload_len <= self.config.mss { 1 } else { sent.payload_len / self.config.mss.max(1) }
    }

    /// Updates congestion control, validation and pacing after any data segment.
    #[inline]
    pub(super) fn after_data(&mut self, now: Time, at: usize, len: u64) {
        let subflow = &mut self.subflows[at];
        self.congestion.on_sent(subflow.id(), now, len);
        subflow.after_data(now);
        if self.paces() {
            let rate = self.pacing_rate(at);
            self.subflows[at].pace(now, len, rate);
        }
    }

    /// Returns whether a new segment of `len` bytes, which is recorded already, ends a train
    /// ([`Subflow::train_after`](crate::subflow::Subflow::train_after)).
    #[inline(always)]
    pub(super) fn train_after(&mut self, now: Time, at: usize, len: u64) -> Train {
        if !self.config.ack.push {
            return Train::GoesOn;
        }
        let Connection { subflows, congestion, .. } = self;
        let id = subflows[at].id();
        subflows[at].train_after(now, len, || congestion.pacing_rate(id))
    }

    /// Updates the state after a segment without data.
    pub(super) fn leave<S, O: Observer>(
        &mut self,
        at: usize,
        kind: SendKind,
        poll: &mut Poll<'_, S, O>,
    ) -> Option<Departure> {
        self.subflows[at].count_control();
        self.leave_data(at, kind, 0, poll)
    }

    /// Updates the state after a segment whose payload begins at `stream_offset`.
    #[inline]
    pub(super) fn leave_data<S, O: Observer>(
        &mut self,
        at: usize,
        kind: SendKind,
        stream_offset: u64,
        poll: &mut Poll<'_, S, O>,
    ) -> Option<Departure> {
        self.subflows[at].on_segment_sent(poll.out);
        self.depart(at, kind, stream_offset, poll)
    }

    #[inline]
    pub(super) fn depart<S, O: Observer>(
        &self,
        at: usize,
        kind: SendKind,
        stream_offset: u64,
        poll: &mut Poll<'_, S, O>,
    ) -> Option<Departure> {
        let subflow = &self.subflows[at];
        let data = DataRange::new(stream_offset, stream_offset + u64::from(poll.out.payload_len));
        let event = StackEvent::Sent { subflow: subflow.id(), segment: poll.out, kind, data };
        report(poll.observer, poll.now, self.id, &event);
        Some(Departure {
            connection: Some(self.id),
            path: subflow.route().path(),
            stream_offset,
            segment_size: 0,
            scattered: at == 0 && self.scatter.is_on() && poll.out.payload_len > 0,
        })
    }
}
