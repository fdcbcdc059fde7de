//! Placement of the payload of segments in the stream.

use anabranch_units::Time;

use super::deliver::Delivery;
use super::hold::Unmapped;
use super::{Connection, Mode};
use crate::event::{ConnectionId, Placement};
use crate::segment::{Flags, ResetReason, Segment};
use crate::seq::DataRange;
use crate::subflow::ResetCause;

/// A received segment while its payload is being placed in the stream.
pub(super) struct Incoming<'a> {
    pub now: Time,
    /// The subflow.
    pub at: usize,
    pub segment: &'a Segment,
    /// The placements for the driver.
    pub placed: &'a mut Vec<Placement>,
}

impl Incoming<'_> {
    /// Discards the last `len` bytes of the payload.
    pub(super) fn discard(&mut self, connection: ConnectionId, len: u64) {
        let (len, whole) = (len as u32, self.segment.payload_len);
        self.placed.push(Placement::Discard { connection, payload_offset: whole - len, len });
    }
}

impl Connection {
    /// Processes `range` of the subflow, the end of a segment or all of it.
    pub(super) fn process_part(&mut self, incoming: &mut Incoming<'_>, range: DataRange) {
        let Incoming { now, at, segment, .. } = *incoming;
        if self.mode == Mode::Plain && self.is_mapped_before(at, segment) {
            self.subflows[at].state_mut().request_reset(ResetCause::Because(ResetReason::Middlebox));
            incoming.discard(self.id, range.len());
            return;
        }
        let own = self.place_of(at, segment);
        // The next byte of the stream, if nothing is held there after a hole.
        let next = self.recv.sole_next();
        let first = range.end - u64::from(segment.payload_len);
        let Connection { recv, subflows, id, .. } = self;
        let mut delivery = Delivery::new(recv, incoming.placed, *id, &subflows[at]);
        let answer = subflows[at].place(now, segment, range, own, |part, data| {
            delivery.deliver(data, part.len(), part.start - first)
        });
        let advanced = delivery.advanced;
        let Ok(placed) = answer else {
            self.mapping_is_broken(now, at, ResetReason::MptcpError, incoming.placed);
            if self.mode == Mode::Plain {
                self.process_part(incoming, range);
            }
            return;
        };
        let part = placed.range;
        let mut rest = DataRange::default();
        if self.mode == Mode::Mptcp {
            // The rest is unmapped.
            rest = DataRange::new(part.end, range.end);
        }
        if part.is_empty() && !range.is_empty() {
            if !rest.is_empty() {
                self.process_unmapped(incoming, rest, placed.rest_is_next);
            }
            return;
        }
        if placed.delivered == 0 && segment.payload_len > 0 {
            let (payload_offset, len) = ((part.start - first) as u32, part.len() as u32);
            incoming.placed.push(Placement::Discard { connection: self.id, payload_offset, len });
        }
        if advanced {
            self.after_arrival(now);
        }
        if segment.flags.has(Flags::PSH) {
            let is_next = |start| Some(start) == next.map(|next| next as i64);
            let inside = |start: i64| start + part.len() as i64 <= self.recv.edge() as i64;
            let next = placed.start.is_some_and(|start| is_next(start) && inside(start));
            self.on_pushed(at, next);
        }
        if placed.holds && self.mode == Mode::Mptcp {
            self.release_held(now, at, incoming.placed);
        }
        if !rest.is_empty() && self.mode == Mode::Plain {
            // Held payload has caused fallback to TCP.
            self.process_part(incoming, rest);
        } else if !rest.is_empty() {
            self.process_unmapped(incoming, rest, placed.rest_is_next);
        }
        self.subflows[at].forget_used_mappings();
    }

    /// Processes unmapped `range` of the subflow, the end of a segment or all of it; `is_next` if it begins with the
    /// next byte of the subflow, or before it.
    #[cold]
    fn process_unmapped(&mut self, incoming: &mut Incoming<'_>, range: DataRange, is_next: bool) {
        if self.hold_unmapped(incoming, range, is_next) == Unmapped::IsStream {
            self.process_part(incoming, range);
        }
    }
}
