//! Places the payload of segments in the stream.

use anabranch_units::{Duration, Time};

use super::{Connection, Mode};
use crate::event::{Event, Placement};
use crate::segment::{Flags, ResetReason, Segment};
use crate::seq::DataRange;
use crate::subflow::ResetCause;
use crate::subflow::mappings::Parts;

impl Connection {
    pub(super) fn process_payload(
        &mut self,
        now: Time,
        at: usize,
        segment: &Segment,
        fin: bool,
        placed: &mut Vec<Placement>,
    ) {
        let offset = self.subflows[at].seq_offset(segment);
        if offset < 1 {
            // Not behind the SYN.
            self.subflows[at].want_ack();
            return;
        }
        let start = offset as u64;
        let range = DataRange::new(start, start + u64::from(segment.payload_len));
        if segment.payload_len > 0 {
            self.subflows[at].count_data_segment();
        }
        if self.checksummed {
            self.receive_checked(now, at, segment, range, fin, placed);
        } else {
            self.process_part(now, at, segment, range, fin, placed);
        }
    }

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
                    self.hold_unmapped(now, at, segment, unmapped, fin, placed);
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
            self.hold_unmapped(now, at, segment, unmapped, fin_behind, placed);
        }
        self.subflows[at].forget_used_mappings();
    }

    /// The payload of one segment belongs at `stream`, which others may be before or behind.
    #[inline(never)]
    pub(super) fn place(&mut self, now: Time, at: usize, stream: DataRange, placed: &mut Vec<Placement>) {
        let Connection { recv, subflows, id: connection, .. } = self;
        let subflow = &mut subflows[at];
        let of = subflow.id();
        let mut delivered = 0;
        let advanced = recv.arrive(stream, |part| {
            delivered += part.len();
            placed.push(Placement::Deliver {
                connection: *connection,
                subflow: of,
                payload_offset: (part.start - stream.start) as u32,
                stream: part,
            });
        });
        subflow.count_delivered(delivered, stream.len() - delivered);
        if delivered == 0 {
            let len = stream.len() as u32;
            placed.push(Placement::Discard { connection: *connection, payload_offset: 0, len });
        }
        self.after_arrival(now, advanced);
    }

    /// Something has arrived in the stream; `advanced` if it has grown in order.
    #[inline]
    pub(super) fn after_arrival(&mut self, now: Time, advanced: bool) {
        if advanced {
            self.stats.last_in_order = now;
            self.stats.received = self.recv.nxt();
            if self.config.consume_at_once {
                self.recv.consume(u64::MAX);
            }
            if self.recv.autotuned_up_to().is_some() {
                self.autotune(now);
            }
            if self.recv.nxt() >= self.config.readable_from.get() {
                self.push_event(Event::Readable);
            }
            self.after_remote_fin();
        }
    }

    fn autotune(&mut self, now: Time) {
        if self.config.ack.growth {
            self.right_size(now);
            return;
        }
        let mut rtt = Duration::ZERO;
        for subflow in &self.subflows {
            if subflow.is_synchronised() {
                rtt = rtt.max(subflow.rtt().srtt_or_zero());
            }
        }
        self.recv.autotune(now, rtt, u64::from(self.config.mss));
    }

    /// Dynamic right-sizing of the connection's buffer, and of the windows that its subflows offer.
    #[inline]
    fn right_size(&mut self, now: Time) {
        let mut rtt = Duration::ZERO;
        for subflow in &self.subflows {
            rtt = rtt.max(subflow.recv().growth.rtt());
        }
        if let Some(read) = self.recv.right_size(now, rtt) {
            let most = self.config.receive_buffer.max().get();
            for subflow in &mut self.subflows {
                subflow.widen_window(read, most);
            }
        }
    }

    /// A full segment that ends a burst has brought what comes next in the stream.
    pub(super) fn on_pushed(&mut self, at: usize) {
        if self.recv.readable() == 0 || !self.config.consume_at_once {
            self.subflows[at].on_pushed();
        }
    }

    /// Takes a sample of the round trip from a segment with data, as a receiver can: the time since the
    /// acknowledgement that it echoes was sent.
    #[inline]
    pub(super) fn sample_arrival(&mut self, now: Time, at: usize, segment: &Segment) {
        if let Some(timestamps) = segment.options.timestamps
            && self.config.ack.growth
        {
            let elapsed = self.tick.span(self.tick.value(now).wrapping_sub(timestamps.echo));
            self.subflows[at].sample_arrival(timestamps.echo, elapsed);
        }
    }

    /// If the peer's stream has ended and all of it is here, the application hears it.
    pub(crate) fn after_remote_fin(&mut self) {
        if self.recv.finished() && !self.remote_fin_told {
            self.remote_fin_told = true;
            self.push_event(Event::PeerClosed);
            // One acknowledgement is enough, but the subflow that ends the stream may not be the one
            // that carried the DATA_FIN.
            if let Some(best) = (0..self.subflows.len()).find(|&at| self.subflows[at].is_synchronised()) {
                self.subflows[best].want_ack();
            }
        }
    }
}
