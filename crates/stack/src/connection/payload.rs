//! Places the payload of segments in the stream.

use anabranch_units::Time;

use super::hold::Unmapped;
use super::{Connection, Mode};
use crate::event::Placement;
use crate::segment::{Flags, ResetReason, Segment};
use crate::seq::DataRange;
use crate::subflow::ResetCause;
use crate::subflow::mappings::Parts;

impl Connection {
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
            self.subflows[at].request_reset(ResetCause::Because(ResetReason::Middlebox));
            let (payload_offset, len) = (segment.payload_len - range.len() as u32, range.len() as u32);
            placed.push(Placement::Discard { connection: self.id, payload_offset, len });
            return;
        }
        let end = range.end;
        let parts = if segment.payload_len > 0 { self.parts_of(at, segment, range) } else { Ok(Parts::NONE) };
        let Ok(parts) = parts else {
            self.mapping_is_broken(now, at, ResetReason::MptcpError, placed);
            if self.mode == Mode::Plain {
                self.process_part(now, at, segment, range, fin, placed);
            }
            return;
        };
        let mut mapped_to = parts.end.max(range.start);
        let limit = (self.recv.edge() as i64 - self.fallback.recv_shift).max(0) as u64;
        if self.mode == Mode::Plain && range.end > limit {
            // Here the subflow's window is the stream's: what lies beyond is not acknowledged (RFC 9293
            // section 3.10.7.4, first), as nobody would send it again.
            mapped_to = mapped_to.min(limit);
            self.subflows[at].want_ack();
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
                    self.process_unmapped(now, at, segment, unmapped, fin, placed);
                }
                return;
            }
        }
        let fin_behind = fin;
        let fin = fin && mapped_to >= end;
        // What comes before it was gone through before.
        let before = (u64::from(segment.payload_len) + range.start - end) as i64;
        let Connection { recv, subflows, id, .. } = self;
        let subflow = &mut subflows[at];
        let of = subflow.id();
        // All of it is the next of the stream, and nothing is held there behind a hole.
        let next = matches!(parts.as_slice(), &[(mapped, data)] if {
            let start = data + range.start as i64 - mapped.start as i64;
            start >= 0 && recv.expects(DataRange::new(start as u64, start as u64 + range.len()))
        });
        let (mut delivered, mut advanced) = (0, false);
        subflow.arrive(now, segment, range, fin, |fresh| {
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
        self.after_arrival(now, advanced);
        if next && segment.flags.has(Flags::PSH) {
            self.on_pushed(at);
        }
        if self.subflows[at].held().is_some() && self.mode == Mode::Mptcp {
            self.release_mapped(now, at, placed);
        }
        if !unmapped.is_empty() && self.mode == Mode::Plain {
            // What was held has led back to TCP.
            self.process_part(now, at, segment, unmapped, fin_behind, placed);
        } else if !unmapped.is_empty() {
            self.process_unmapped(now, at, segment, unmapped, fin_behind, placed);
        }
        self.subflows[at].forget_used_mappings();
    }

    /// Processes `range` of the subflow, the end of a segment or all of it, that nothing maps.
    #[cold]
    fn process_unmapped(
        &mut self,
        now: Time,
        at: usize,
        segment: &Segment,
        range: DataRange,
        fin: bool,
        placed: &mut Vec<Placement>,
    ) {
        if self.hold_unmapped(now, at, segment, range, placed) == Unmapped::IsStream {
            self.process_part(now, at, segment, range, fin, placed);
        }
    }
}
