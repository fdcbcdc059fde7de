//! Payload that is here and cannot be delivered yet: its mapping is still to come, or the rest of what its
//! checksum covers (RFC 8684 section 3.3.1).
//!
//! The driver has the bytes; here are their places in the subflow, and their sums. Without checksums the
//! pieces are those that nothing maps. With checksums each mapping is a *claim*, and a run of pieces that
//! begins and ends where claims do is verified as one: a box may have joined segments, whose sum cannot be
//! divided again.

use anabranch_units::Time;

use super::{Connection, Mode};
use crate::event::Placement;
use crate::segment::{ResetReason, Segment};
use crate::seq::DataRange;
use crate::subflow::ResetCause;
use crate::subflow::held::{Claim, LEAST_ROOM, MAX_PIECES, Piece};

/// What has become of payload that nothing maps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Unmapped {
    /// It is held or discarded.
    Taken,
    /// The connection has fallen back to TCP: the payload is the next of the stream.
    IsStream,
}

impl Connection {
    /// How much may be held for a subflow: a receive window of data (RFC 8684 section 3.3.1).
    pub(super) fn holding_room(&self) -> u64 {
        self.recv.buffer().max(LEAST_ROOM)
    }

    /// Takes payload of a segment that nothing maps. It is acknowledged on the subflow and kept, in the expectation of its
    /// mapping (section 3.3.1), unless it leads back to TCP.
    #[cold]
    pub(super) fn hold_unmapped(
        &mut self,
        now: Time,
        at: usize,
        segment: &Segment,
        range: DataRange,
        placed: &mut Vec<Placement>,
    ) -> Unmapped {
        let in_order = range.start <= self.subflows[at].recv().nxt();
        if in_order && segment.options.are_bare() && self.follow_bare_payload(now, at, placed) {
            return Unmapped::IsStream;
        }
        let held = self.subflows[at].hold();
        if held.bytes() + range.len() > self.recv.buffer().max(LEAST_ROOM) || held.pieces.len() >= MAX_PIECES
        {
            if in_order {
                self.mapping_is_broken(now, at, ResetReason::Middlebox, placed);
            } else {
                self.subflows[at].want_ack();
            }
            placed.push(Placement::Discard {
                connection: self.id,
                payload_offset: segment.payload_len - range.len() as u32,
                len: range.len() as u32,
            });
            return Unmapped::Taken;
        }
        // It reaches to the end of the segment, and so to its FIN.
        self.take_in(now, at, segment, range, 0, placed);
        // Its own mapping may be that of earlier bytes.
        self.release_mapped(now, at, placed);
        Unmapped::Taken
    }

    /// Payload without any option of MPTCP comes next: the peer has gone back to TCP, or a box has begun to take options
    /// off. While the one subflow is the stream, so do we, as Linux does. Whether we do.
    pub(super) fn follow_bare_payload(&mut self, now: Time, at: usize, placed: &mut Vec<Placement>) -> bool {
        let follows = self.may_fall_back(at);
        if follows {
            let told = self.subflows[at].has_seen_dss();
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
        let (id, start) = (subflow.id(), subflow.seq_offset(segment).max(0) as u64);
        subflow.arrive_held(now, segment, range, sum, |held| {
            let payload_offset = (held.start - start) as u32;
            placed.push(Placement::Hold { connection, subflow: id, payload_offset, held });
        });
    }

    /// Without checksums: what is held and mapped by now goes to its place.
    #[cold]
    pub(super) fn release_mapped(&mut self, now: Time, at: usize, placed: &mut Vec<Placement>) {
        let Some(mut held) = self.subflows[at].take_held() else { return };
        let mut left = Vec::with_capacity(held.pieces.len());
        let mut advanced = false;
        for piece in held.pieces {
            let mut cursor = piece.range.start;
            while cursor < piece.range.end {
                let known = self.subflows[at].mappings();
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
            self.subflows[at].put_held(held);
        }
        self.after_arrival(now, advanced);
        self.check_unmapped(now, at, placed);
    }

    /// With checksums: every complete run of mappings is verified and goes to its place.
    pub(super) fn settle_claims(&mut self, now: Time, at: usize, placed: &mut Vec<Placement>) {
        let mut advanced = false;
        while self.mode == Mode::Mptcp && self.fallback.failing.is_none() && !self.subflows[at].is_resetting()
        {
            let Some(held) = self.subflows[at].held_mut() else { break };
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
        self.subflows[at].prune_held();
        self.after_arrival(now, advanced);
        self.check_unmapped(now, at, placed);
    }

    /// After the way back to TCP: everything that is held is the stream's.
    #[cold]
    pub(super) fn release_all(&mut self, now: Time, at: usize, placed: &mut Vec<Placement>) {
        let Some(held) = self.subflows[at].take_held() else { return };
        let mut advanced = false;
        for piece in held.pieces.iter().filter(|piece| !piece.done) {
            let data = piece.range.start as i64 + self.fallback.recv_shift;
            // It was acknowledged, and nobody will send it again.
            self.recv.extend_edge((data + piece.range.len() as i64).max(0) as u64);
            advanced |= self.release(at, piece.range, data, placed);
        }
        self.after_arrival(now, advanced);
    }

    /// Section 3.3.1: if no mapping has come within a receive window of data, the subflow is broken.
    fn check_unmapped(&mut self, now: Time, at: usize, placed: &mut Vec<Placement>) {
        if self.mode != Mode::Mptcp || self.fallback.failing.is_some() || self.subflows[at].is_resetting() {
            return;
        }
        let Some(held) = self.subflows[at].held() else { return };
        let reached = self.subflows[at].recv().nxt();
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
            self.subflows[at].request_reset(ResetCause::Because(reason));
        }
    }
}
