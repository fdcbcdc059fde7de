//! The bookkeeping of a segment that is sent: counters, congestion control, pacing, the observer.

use anabranch_units::{Rate, Time};

use super::Connection;
use crate::congestion::CongestionControl;
use crate::event::Departure;
use crate::observer::{Observer, SendKind};
use crate::segment::Segment;
use crate::seq::DataRange;

impl Connection {
    /// What counts as so many segments of a turn: several may leave at once.
    pub(crate) fn turns_of(&self, sent: &Segment) -> u32 {
        if sent.payload_len <= self.config.mss { 1 } else { sent.payload_len / self.config.mss.max(1) }
    }

    /// Bookkeeping after any data segment: congestion control, validation, pacing.
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

    /// True if a new segment of `len` bytes, which is recorded already, ends a train ([`Subflow::ends_train`]).
    #[inline]
    pub(super) fn ends_train(&mut self, now: Time, at: usize, len: u64) -> bool {
        if !self.config.ack.push {
            return false;
        }
        let Connection { subflows, congestion, .. } = self;
        let id = subflows[at].id();
        subflows[at].ends_train(now, len, || congestion.pacing_rate(id))
    }

    pub(super) fn pacing_rate(&self, at: usize) -> Rate {
        let subflow = &self.subflows[at];
        self.congestion.pacing_rate(subflow.id()).unwrap_or_else(|| subflow.default_pacing_rate())
    }

    pub(super) fn leave<O: Observer>(
        &mut self,
        now: Time,
        at: usize,
        out: &Segment,
        kind: SendKind,
        observer: &mut O,
    ) -> Option<Departure> {
        self.subflows[at].count_control();
        self.leave_data(now, at, out, kind, 0, observer)
    }

    #[inline]
    pub(super) fn leave_data<O: Observer>(
        &mut self,
        now: Time,
        at: usize,
        out: &Segment,
        kind: SendKind,
        stream_offset: u64,
        observer: &mut O,
    ) -> Option<Departure> {
        let subflow = &mut self.subflows[at];
        subflow.on_segment_sent(out);
        self.depart(now, at, out, kind, stream_offset, observer)
    }

    #[inline]
    pub(super) fn depart<O: Observer>(
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
        observer.on_sent(now, self.id, subflow.id(), out, kind, data);
        Some(Departure { connection: Some(self.id), path: subflow.path(), stream_offset, segment_size: 0 })
    }
}
