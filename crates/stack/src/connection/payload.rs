//! Placement of the payload of segments in the stream.

use anabranch_units::Time;

use super::hold::Unmapped;
use super::{Connection, Mode};
use crate::event::{ConnectionId, Placement};
use crate::segment::{Flags, ResetReason, Segment};
use crate::seq::DataRange;
use crate::subflow::ResetCause;
use crate::subflow::mappings::Parts;

/// A segment whose payload is being placed.
pub(super) struct Incoming<'a> {
    pub now: Time,
    /// The subflow.
    pub at: usize,
    pub segment: &'a Segment,
    /// True if it ends with a FIN.
    pub fin: bool,
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
    pub(super) fn process_part(&mut self, incoming: &mut Incoming<'_>, mut range: DataRange) {
        let Incoming { now, at, segment, fin, .. } = *incoming;
        if self.mode == Mode::Plain && self.is_mapped_before(at, segment) {
            self.subflows[at].state_mut().request_reset(ResetCause::Because(ResetReason::Middlebox));
            incoming.discard(self.id, range.len());
            return;
        }
        let end = range.end;
        let parts = if segment.payload_len > 0 { self.parts_of(at, segment, range) } else { Ok(Parts::NONE) };
        let Ok(parts) = parts else {
            self.mapping_is_broken(now, at, ResetReason::MptcpError, incoming.placed);
            if self.mode == Mode::Plain {
                self.process_part(incoming, range);
            }
            return;
        };
        let mut mapped_to = parts.end.max(range.start);
        let limit = self.fallback.in_received_subflow(self.recv.edge() as i64).max(0) as u64;
        if self.mode == Mode::Plain && range.end > limit {
            // Here the subflow's window is that of the stream: data beyond it is not acknowledged (RFC 9293
            // section 3.10.7.4, first), as it would not be retransmitted.
            mapped_to = mapped_to.min(limit);
            self.subflows[at].recv_mut().want_ack();
        }
        let mut unmapped = DataRange::default();
        if mapped_to < range.end {
            if self.mode == Mode::Mptcp {
                // The rest is unmapped.
                unmapped = DataRange::new(mapped_to.max(range.start), range.end);
            }
            range.end = mapped_to.max(range.start);
            if range.is_empty() {
                if !unmapped.is_empty() {
                    self.process_unmapped(incoming, unmapped);
                }
                return;
            }
        }
        let fin = fin && mapped_to >= end;
        // The part before it has been processed.
        let before = (u64::from(segment.payload_len) + range.start - end) as i64;
        let placed = &mut *incoming.placed;
        let Connection { recv, subflows, id, .. } = self;
        let subflow = &mut subflows[at];
        let of = subflow.id();
        // All of it is the next of the stream, and nothing is held there after a hole.
        let next = matches!(parts.as_slice(), &[(mapped, data)] if {
            let start = data + range.start as i64 - mapped.start as i64;
            start >= 0 && recv.expects(DataRange::new(start as u64, start as u64 + range.len()))
        });
        let (mut delivered, mut advanced) = (0, false);
        subflow.arrive(now, segment, range, fin, |fresh| {
            for &(mapped, data) in parts.as_slice() {
                let part = fresh.intersection(mapped);
                // The place of this part in the stream; a part before the stream is old.
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
        if advanced {
            self.after_arrival(now);
        }
        if segment.flags.has(Flags::PSH) {
            self.on_pushed(at, next);
        }
        if self.subflows[at].held().is_some() && self.mode == Mode::Mptcp {
            self.release_mapped(now, at, incoming.placed);
        }
        if !unmapped.is_empty() && self.mode == Mode::Plain {
            // Held payload has caused fallback to TCP.
            self.process_part(incoming, unmapped);
        } else if !unmapped.is_empty() {
            self.process_unmapped(incoming, unmapped);
        }
        self.subflows[at].forget_used_mappings();
    }

    /// Processes unmapped `range` of the subflow, the end of a segment or all of it.
    #[cold]
    fn process_unmapped(&mut self, incoming: &mut Incoming<'_>, range: DataRange) {
        if self.hold_unmapped(incoming, range) == Unmapped::IsStream {
            self.process_part(incoming, range);
        }
    }
}
