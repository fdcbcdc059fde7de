//! Received payload that cannot be delivered yet: its mapping is missing, or the rest of the data covered by
//! its checksum (RFC 8684 section 3.3.1).
//!
//! The driver stores the bytes; the stack stores their places in the subflow, and their sums. Without
//! checksums the pieces are unmapped payload. With checksums each mapping is a *claim*, and a run of pieces
//! that begins and ends at the edges of claims is verified as one: a middlebox may have joined segments,
//! whose sum cannot be divided again.

use anabranch_units::Time;

use super::fallback::{Followed, Notice};
use super::payload::Incoming;
use super::{Connection, Mode};
use crate::event::Placement;
use crate::segment::ResetReason;
use crate::seq::DataRange;
use crate::subflow::ResetCause;
use crate::subflow::held::{LEAST_ROOM, Verified};

/// The outcome for unmapped payload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Unmapped {
    /// The payload is held or discarded.
    Taken,
    /// The connection has fallen back to TCP: the payload is the next of the stream.
    IsStream,
}

impl Connection {
    /// Returns the maximum number of bytes held for a subflow: a receive window of data (RFC 8684 section
    /// 3.3.1).
    pub(super) fn holding_room(&self) -> u64 {
        self.recv.buffer().max(LEAST_ROOM)
    }

    /// Processes unmapped payload of a segment. It is acknowledged on the subflow and held until its mapping
    /// arrives (section 3.3.1), unless it causes fallback to TCP.
    #[cold]
    pub(super) fn hold_unmapped(&mut self, incoming: &mut Incoming<'_>, range: DataRange) -> Unmapped {
        let Incoming { now, at, segment, .. } = *incoming;
        let in_order = range.start <= self.subflows[at].recv().nxt();
        if in_order
            && segment.options.are_bare()
            && self.follow_bare_payload(now, at, incoming.placed) == Followed::FellBack
        {
            return Unmapped::IsStream;
        }
        let room = self.holding_room();
        if self.subflows[at].held().is_some_and(|held| held.is_full(range.len(), room)) {
            if in_order {
                self.mapping_is_broken(now, at, ResetReason::Middlebox, incoming.placed);
            } else {
                self.subflows[at].recv_mut().want_ack();
            }
            incoming.discard(self.id, range.len());
            return Unmapped::Taken;
        }
        // It extends to the end of the segment, and so to its FIN.
        self.take_in(incoming, range, 0);
        // The segment's own mapping may be that of earlier bytes.
        self.release_mapped(now, at, incoming.placed);
        Unmapped::Taken
    }

    /// Falls back with a peer whose next payload has no MPTCP option: it has fallen back to TCP, or a
    /// middlebox has begun to remove options. This side falls back too, as Linux, while the only subflow is
    /// the stream.
    pub(super) fn follow_bare_payload(
        &mut self,
        now: Time,
        at: usize,
        placed: &mut Vec<Placement>,
    ) -> Followed {
        if !self.may_fall_back(at) {
            return Followed::No;
        }
        let notice = if self.subflows[at].has_seen_dss() { Notice::MpFail } else { Notice::None };
        self.fall_back(now, at, notice);
        self.release_all(now, at, placed);
        Followed::FellBack
    }

    /// Passes the new part of a segment to the subflow, and to the driver, which stores its bytes.
    pub(super) fn take_in(&mut self, incoming: &mut Incoming<'_>, range: DataRange, sum: u16) {
        let Incoming { now, at, segment, .. } = *incoming;
        let placed = &mut *incoming.placed;
        let connection = self.id;
        let subflow = &mut self.subflows[at];
        let (id, start) = (subflow.id(), subflow.seq_offset(segment).max(0) as u64);
        subflow.arrive_held(now, segment, range, sum, |held| {
            let payload_offset = (held.start - start) as u32;
            placed.push(Placement::Hold { connection, subflow: id, payload_offset, held });
        });
    }

    /// Delivers held bytes that are now mapped, without checksums.
    #[cold]
    pub(super) fn release_mapped(&mut self, now: Time, at: usize, placed: &mut Vec<Placement>) {
        let mut advanced = false;
        for (part, data) in self.subflows[at].take_mapped() {
            advanced |= self.release(at, part, data, placed);
        }
        if advanced {
            self.after_arrival(now);
        }
        self.check_unmapped(now, at, placed);
    }

    /// Verifies every complete run of mappings, with checksums, and delivers it.
    pub(super) fn settle_claims(&mut self, now: Time, at: usize, placed: &mut Vec<Placement>) {
        let mut advanced = false;
        while self.mode == Mode::Mptcp
            && !self.fallback.is_failing()
            && !self.subflows[at].state().is_resetting()
        {
            match self.subflows[at].take_verified() {
                None => break,
                Some(Verified::Damaged(data)) => {
                    self.on_damage(now, at, data);
                    break;
                }
                Some(Verified::Run { parts, ends }) => {
                    for (part, data) in parts {
                        advanced |= self.release(at, part, data, placed);
                    }
                    for end in ends {
                        self.on_data_fin(at, end);
                    }
                }
            }
        }
        self.subflows[at].prune_held();
        if advanced {
            self.after_arrival(now);
        }
        self.check_unmapped(now, at, placed);
    }

    /// Delivers all held bytes after fallback to TCP.
    #[cold]
    pub(super) fn release_all(&mut self, now: Time, at: usize, placed: &mut Vec<Placement>) {
        let mut advanced = false;
        for range in self.subflows[at].take_held() {
            let data = self.fallback.in_received_stream(range.start as i64);
            // It was acknowledged, so it will not be retransmitted.
            self.recv.extend_edge((data + range.len() as i64).max(0) as u64);
            advanced |= self.release(at, range, data, placed);
        }
        if advanced {
            self.after_arrival(now);
        }
    }

    /// Gives up a subflow on which no mapping has arrived within a receive window of data (section 3.3.1).
    fn check_unmapped(&mut self, now: Time, at: usize, placed: &mut Vec<Placement>) {
        if self.mode != Mode::Mptcp || self.fallback.is_failing() || self.subflows[at].state().is_resetting()
        {
            return;
        }
        let Some(held) = self.subflows[at].held() else { return };
        let reached = self.subflows[at].recv().nxt();
        let Some((first, piece)) = held.first_unmapped() else { return };
        // Payload without options that arrived early is now processed as it would have been in order. If it
        // were acknowledged in addition to data acknowledgements, the peer would retransmit it, and it would
        // be taken for new data.
        if piece.bare && first < reached && self.follow_bare_payload(now, at, placed) == Followed::FellBack {
            return;
        }
        if reached > first + self.holding_room() {
            self.mapping_is_broken(now, at, ResetReason::Middlebox, placed);
        }
    }

    /// Falls back to TCP if the only subflow is the stream, and otherwise resets the subflow: mappings are
    /// missing or contradict each other (sections 3.3.1 and 3.7).
    #[cold]
    pub(super) fn mapping_is_broken(
        &mut self,
        now: Time,
        at: usize,
        reason: ResetReason,
        placed: &mut Vec<Placement>,
    ) {
        if self.may_fall_back(at) {
            self.fall_back(now, at, Notice::MpFail);
            self.release_all(now, at, placed);
        } else {
            self.subflows[at].state_mut().request_reset(ResetCause::Because(reason));
        }
    }
}
