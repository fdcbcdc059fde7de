//! Payload that is here and cannot be delivered yet: its mapping is still to come, or the rest of what its
//! checksum covers (RFC 8684 section 3.3.1).
//!
//! The driver has the bytes; here are their places in the subflow, and their sums. Without checksums the
//! pieces are those that nothing maps. With checksums each mapping is a *claim*, and a run of pieces that
//! begins and ends where claims do is verified as one: a box may have joined segments, whose sum cannot be
//! divided again.

use anabranch_units::Time;

use super::{Connection, Mode};
use crate::checksum::{add, at_offset, is_zero, subtract};
use crate::event::Placement;
use crate::segment::{Flags, ResetReason, Segment};
use crate::seq::DataRange;
use crate::subflow::ResetCause;

/// The least that may be held for a subflow: two mappings of the greatest length.
pub(super) const LEAST_ROOM: u64 = 2 * 65_535;
/// How many mappings may wait for their payload on a subflow.
const MAX_CLAIMS: usize = 1024;
/// How many pieces may be held for a subflow; more of them in less room would be tiny.
pub(super) const MAX_PIECES: usize = 1024;

/// Some payload of a subflow, as it arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    /// Its place in the subflow.
    pub range: DataRange,
    /// Its sum as if it began at an even offset.
    pub sum: u16,
    /// It was verified, and lies behind a hole of the subflow: only its sum is still of use.
    pub done: bool,
    /// It came without any option of MPTCP.
    pub bare: bool,
}

/// A mapping whose checksum is not verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Claim {
    /// What it maps of the subflow.
    pub mapped: DataRange,
    /// Where that belongs in the stream; negative for what is before the stream.
    pub data: i64,
    /// Its pseudo-header and its checksum: zero together with the payload.
    pub sum: u16,
    /// It also maps the DATA_FIN.
    pub data_fin: bool,
}

/// What is held for one subflow; both lists ascend and do not overlap.
#[derive(Clone, Debug, Default)]
pub(crate) struct Held {
    pub pieces: Vec<Piece>,
    pub claims: Vec<Claim>,
}

impl Held {
    /// How many bytes the driver has.
    pub fn bytes(&self) -> u64 {
        self.pieces.iter().filter(|piece| !piece.done).map(|piece| piece.range.len()).sum()
    }

    /// Where on the subflow the first of them stands.
    pub fn start(&self) -> Option<u64> {
        self.pieces.iter().find(|piece| !piece.done).map(|piece| piece.range.start)
    }

    pub fn insert(&mut self, piece: Piece) {
        let at = self.pieces.partition_point(|known| known.range.start < piece.range.start);
        self.pieces.insert(at, piece);
    }

    /// Notes a mapping. False if it contradicts one that is known, or there are too many.
    pub fn claim(&mut self, claim: Claim) -> bool {
        let overlap = |known: &Claim| !known.mapped.intersection(claim.mapped).is_empty();
        if let Some(known) = self.claims.iter_mut().find(|known| overlap(known)) {
            // A retransmission may have been given the DATA_FIN, as Linux does.
            known.data_fin |= claim.data_fin;
            return known.mapped == claim.mapped && known.data == claim.data;
        }
        if self.claims.len() >= MAX_CLAIMS {
            return false;
        }
        let at = self.claims.partition_point(|known| known.mapped.start < claim.mapped.start);
        self.claims.insert(at, claim);
        true
    }

    /// The first byte that the driver has and nothing maps, and the piece that it is of.
    fn first_unmapped(&self) -> Option<(u64, &Piece)> {
        for piece in self.pieces.iter().filter(|piece| !piece.done) {
            let mut cursor = piece.range.start;
            for claim in &self.claims {
                if claim.mapped.start <= cursor {
                    cursor = cursor.max(claim.mapped.end);
                }
            }
            if cursor < piece.range.end {
                return Some((cursor, piece));
            }
        }
        None
    }

    /// A run of claims whose payload is complete: the first, the last, and whether it is right.
    fn complete_run(&self) -> Option<(usize, usize, bool)> {
        for (first, claim) in self.claims.iter().enumerate() {
            let start = claim.mapped.start;
            let at = self.pieces.partition_point(|piece| piece.range.start < start);
            let (mut cursor, mut sum) = (start, claim.sum);
            let (mut last, mut end) = (first, claim.mapped.end);
            for piece in &self.pieces[at..] {
                if piece.range.start != cursor {
                    break;
                }
                sum = add(sum, at_offset(piece.sum, cursor - start));
                cursor = piece.range.end;
                while cursor > end {
                    let Some(next) = self.claims.get(last + 1).filter(|next| next.mapped.start == end) else {
                        break;
                    };
                    sum = add(sum, at_offset(next.sum, end - start));
                    (last, end) = (last + 1, next.mapped.end);
                }
                if cursor == end {
                    return Some((first, last, is_zero(sum)));
                }
            }
        }
        None
    }

    /// The sum of `gap`, the only part of `range` that is not here, where it follows from the sum of
    /// all of it and from the pieces that are here.
    pub fn derive(&self, range: DataRange, gap: DataRange, sum: u16) -> Option<u16> {
        let mut rest = sum;
        for part in [DataRange::new(range.start, gap.start), DataRange::new(gap.end, range.end)] {
            let mut cursor = part.start;
            while cursor < part.end {
                let piece = self.pieces.iter().find(|piece| piece.range.start == cursor)?;
                if piece.range.end > part.end {
                    return None;
                }
                rest = subtract(rest, at_offset(piece.sum, cursor - range.start));
                cursor = piece.range.end;
            }
        }
        Some(at_offset(rest, gap.start - range.start))
    }

    /// Forgets what is of no use any more: everything before `nxt` that was verified.
    fn prune(&mut self, nxt: u64) {
        self.pieces.retain(|piece| !piece.done || piece.range.end > nxt);
        let pieces = &self.pieces;
        self.claims.retain(|claim| {
            claim.mapped.end > nxt
                || pieces
                    .iter()
                    .any(|piece| !piece.done && !piece.range.intersection(claim.mapped).is_empty())
        });
    }
}

impl Connection {
    /// How much may be held for a subflow: a receive window of data (RFC 8684 section 3.3.1).
    pub(super) fn holding_room(&self) -> u64 {
        self.recv.buffer().max(LEAST_ROOM)
    }

    /// Payload of a segment that nothing maps. It is acknowledged on the subflow and kept, in the
    /// expectation of its mapping (section 3.3.1).
    #[cold]
    pub(super) fn hold_unmapped(
        &mut self,
        now: Time,
        at: usize,
        segment: &Segment,
        range: DataRange,
        fin: bool,
        placed: &mut Vec<Placement>,
    ) {
        let in_order = range.start <= self.subflows[at].recv.nxt();
        if in_order && segment.options.are_bare() && self.follow_bare_payload(now, at, placed) {
            self.process_part(now, at, segment, range, fin, placed);
            return;
        }
        let held = self.subflows[at].held.get_or_insert_default();
        if held.bytes() + range.len() > self.recv.buffer().max(LEAST_ROOM) || held.pieces.len() >= MAX_PIECES
        {
            if in_order {
                self.mapping_is_broken(now, at, ResetReason::Middlebox, placed);
            } else {
                self.subflows[at].recv.want_ack();
            }
            placed.push(Placement::Discard {
                connection: self.id,
                payload_offset: segment.payload_len - range.len() as u32,
                len: range.len() as u32,
            });
            return;
        }
        // It reaches to the end of the segment, and so to its FIN.
        self.take_in(now, at, segment, range, 0, placed);
        // Its own mapping may be that of earlier bytes.
        self.release_mapped(now, at, placed);
    }

    /// Payload without any option of MPTCP comes next: the peer has gone back to TCP, or a box has begun to take options
    /// off. While the one subflow is the stream, so do we, as Linux does. Whether we do.
    pub(super) fn follow_bare_payload(&mut self, now: Time, at: usize, placed: &mut Vec<Placement>) -> bool {
        let follows = self.may_fall_back(at);
        if follows {
            let told = self.subflows[at].dss_seen;
            self.fall_back(now, at, told);
            self.release_all(now, at, placed);
        }
        follows
    }

    /// The part of a segment that is not here yet goes to the subflow, and to the driver's care.
    pub(super) fn take_in(
        &mut self,
        now: Time,
        at: usize,
        segment: &Segment,
        range: DataRange,
        sum: u16,
        placed: &mut Vec<Placement>,
    ) {
        let connection = self.id;
        let subflow = &mut self.subflows[at];
        let start = subflow.seq_offset(segment).max(0) as u64;
        let full_sized = subflow.recv.measure(now, segment.payload_len, subflow.mss);
        let fin = segment.flags.has(Flags::FIN);
        let held = subflow.held.get_or_insert_default();
        let id = subflow.id;
        let bare = segment.options.are_bare();
        subflow.recv.arrive(now, range, fin, full_sized, |fresh| {
            held.insert(Piece { range: fresh, sum, done: false, bare });
            placed.push(Placement::Hold {
                connection,
                subflow: id,
                payload_offset: (fresh.start - start) as u32,
                held: fresh,
            });
        });
    }

    /// Without checksums: what is held and mapped by now goes to its place.
    #[cold]
    pub(super) fn release_mapped(&mut self, now: Time, at: usize, placed: &mut Vec<Placement>) {
        let Some(mut held) = self.subflows[at].held.take() else { return };
        let mut left = Vec::with_capacity(held.pieces.len());
        let mut advanced = false;
        for piece in held.pieces {
            let mut cursor = piece.range.start;
            while cursor < piece.range.end {
                let known = &self.subflows[at].mappings;
                if let Some((mapped, data)) = known.at(cursor) {
                    let part = DataRange::new(cursor, mapped.end.min(piece.range.end));
                    advanced |= self.release(at, part, data as i64 + (cursor - mapped.start) as i64, placed);
                    cursor = part.end;
                } else {
                    let end = known.next_start(cursor).min(piece.range.end);
                    left.push(Piece { range: DataRange::new(cursor, end), ..piece });
                    cursor = end;
                }
            }
        }
        held.pieces = left;
        if !held.pieces.is_empty() {
            self.subflows[at].held = Some(held);
        }
        self.after_arrival(now, advanced);
        self.check_unmapped(now, at, placed);
    }

    /// With checksums: every complete run of mappings is verified and goes to its place.
    pub(super) fn settle_claims(&mut self, now: Time, at: usize, placed: &mut Vec<Placement>) {
        let mut advanced = false;
        while self.mode == Mode::Mptcp && self.fallback.failing.is_none() && self.subflows[at].reset.is_none()
        {
            let Some(held) = &mut self.subflows[at].held else { break };
            let Some((first, last, right)) = held.complete_run() else { break };
            if !right {
                let data = held.claims[first].data;
                self.on_damage(now, at, data);
                break;
            }
            let claims: Vec<Claim> = held.claims.drain(first..=last).collect();
            let (start, end) = (claims[0].mapped.start, claims[claims.len() - 1].mapped.end);
            let mut parts = Vec::new();
            for piece in held
                .pieces
                .iter_mut()
                .filter(|piece| piece.range.start >= start && piece.range.end <= end && !piece.done)
            {
                piece.done = true;
                for claim in &claims {
                    let part = piece.range.intersection(claim.mapped);
                    if !part.is_empty() {
                        parts.push((part, claim.data + (part.start - claim.mapped.start) as i64));
                    }
                }
            }
            for (part, data) in parts {
                advanced |= self.release(at, part, data, placed);
            }
            for claim in claims.iter().filter(|claim| claim.data_fin) {
                self.on_data_fin(at, claim.data + claim.mapped.len() as i64);
            }
        }
        let nxt = self.subflows[at].recv.nxt();
        if let Some(held) = &mut self.subflows[at].held {
            held.prune(nxt);
            if held.pieces.is_empty() && held.claims.is_empty() {
                self.subflows[at].held = None;
            }
        }
        self.after_arrival(now, advanced);
        self.check_unmapped(now, at, placed);
    }

    /// After the way back to TCP: everything that is held is the stream's.
    #[cold]
    pub(super) fn release_all(&mut self, now: Time, at: usize, placed: &mut Vec<Placement>) {
        let Some(held) = self.subflows[at].held.take() else { return };
        let mut advanced = false;
        for piece in held.pieces.iter().filter(|piece| !piece.done) {
            let data = piece.range.start as i64 + self.fallback.recv_shift;
            // It was acknowledged, and nobody will send it again.
            self.recv.extend_edge((data + piece.range.len() as i64).max(0) as u64);
            advanced |= self.release(at, piece.range, data, placed);
        }
        self.after_arrival(now, advanced);
    }

    /// Held bytes go to their place in the stream, as far as they are new there. Returns whether the
    /// in-order stream has grown.
    fn release(&mut self, at: usize, part: DataRange, data: i64, placed: &mut Vec<Placement>) -> bool {
        let Connection { recv, subflows, id, .. } = self;
        let subflow = &mut subflows[at];
        let (connection, of) = (*id, subflow.id);
        let mut cursor = part.start;
        let mut delivered = 0;
        let end = data + part.len() as i64;
        let mut advanced = false;
        if end > 0 {
            advanced = recv.arrive(DataRange::new(data.max(0) as u64, end as u64), |new| {
                let start = (part.start as i64 + (new.start as i64 - data)) as u64;
                if start > cursor {
                    let held = DataRange::new(cursor, start);
                    placed.push(Placement::Drop { connection, subflow: of, held });
                }
                let held = DataRange::new(start, start + new.len());
                placed.push(Placement::Release { connection, subflow: of, held, stream: new });
                delivered += new.len();
                cursor = held.end;
            });
        }
        if cursor < part.end {
            let held = DataRange::new(cursor, part.end);
            placed.push(Placement::Drop { connection, subflow: of, held });
        }
        subflow.counters.bytes_delivered += delivered;
        subflow.counters.bytes_duplicate += part.len() - delivered;
        advanced
    }

    /// Section 3.3.1: if no mapping has come within a receive window of data, the subflow is broken.
    fn check_unmapped(&mut self, now: Time, at: usize, placed: &mut Vec<Placement>) {
        if self.mode != Mode::Mptcp || self.fallback.failing.is_some() || self.subflows[at].reset.is_some() {
            return;
        }
        let Some(held) = &self.subflows[at].held else { return };
        let reached = self.subflows[at].recv.nxt();
        let Some((first, piece)) = held.first_unmapped() else { return };
        // What came bare before its turn is now what it would have been then. Were it acknowledged beside data
        // acknowledgements, the peer would send it again, and it would pass for new.
        if piece.bare && first < reached && self.follow_bare_payload(now, at, placed) {
            return;
        }
        if reached > first + self.holding_room() {
            self.mapping_is_broken(now, at, ResetReason::Middlebox, placed);
        }
    }

    /// Mappings are missing or contradict each other: back to TCP where the one subflow is the stream,
    /// else the end of the subflow (sections 3.3.1 and 3.7).
    #[cold]
    pub(super) fn mapping_is_broken(
        &mut self,
        now: Time,
        at: usize,
        reason: ResetReason,
        placed: &mut Vec<Placement>,
    ) {
        if self.may_fall_back(at) {
            self.fall_back(now, at, true);
            self.release_all(now, at, placed);
        } else {
            self.subflows[at].reset = Some(ResetCause::Because(reason));
        }
    }
}

#[cfg(test)]
mod tests;
