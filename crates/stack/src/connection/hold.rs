//! Received payload that cannot be delivered yet: its mapping is missing, or the rest of the data covered by
//! its checksum (RFC 8684 section 3.3.1).
//!
//! The driver stores the bytes; the stack stores their places in the subflow, and their sums. Without
//! checksums the pieces are unmapped payload. With checksums each mapping is a *claim*, and a run of pieces
//! that begins and ends at the edges of claims is verified as one: a middlebox may have joined segments, and
//! the sum of joined segments cannot be divided again.

use anabranch_units::Time;

use super::deliver::Delivery;
use super::fallback::{Followed, Notice};
use super::payload::Incoming;
use super::{Connection, Mode};
use crate::event::Placement;
use crate::segment::ResetReason;
use crate::seq::DataRange;
use crate::subflow::ResetCause;
use crate::subflow::held::LEAST_ROOM;
use crate::subflow::payload::{Kept, Place, Settled};

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

    /// Processes unmapped payload of a segment, which begins with the next byte of its subflow, or before it, if
    /// `is_next`. It is acknowledged on the subflow and held until its mapping arrives (section 3.3.1), unless it
    /// causes fallback to TCP.
    #[cold]
    pub(super) fn hold_unmapped(
        &mut self,
        incoming: &mut Incoming<'_>,
        range: DataRange,
        is_next: bool,
    ) -> Unmapped {
        let Incoming { now, at, segment, .. } = *incoming;
        if is_next
            && segment.options.have_no_mptcp()
            && self.follow_bare_payload(now, at, incoming.placed) == Followed::FellBack
        {
            return Unmapped::IsStream;
        }
        let room = self.holding_room();
        if self.take_in(incoming, range, 0, Some(room)) == Kept::Full {
            if is_next {
                self.mapping_is_broken(now, at, ResetReason::Middlebox, incoming.placed);
            }
            incoming.discard(self.id, range.len());
            return Unmapped::Taken;
        }
        // The segment's own mapping may map earlier bytes.
        self.release_held(now, at, incoming.placed);
        Unmapped::Taken
    }

    /// Falls back when the next payload comes without an MPTCP option: the peer has fallen back to TCP, or a
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
        self.release_held(now, at, placed);
        Followed::FellBack
    }

    /// Holds the new part of a segment, if there is space, and passes it to the driver, which stores its bytes. `room`
    /// is the maximum number of bytes held, if that is not checked yet.
    pub(super) fn take_in(
        &mut self,
        incoming: &mut Incoming<'_>,
        range: DataRange,
        sum: u16,
        room: Option<u64>,
    ) -> Kept {
        let Incoming { now, at, segment, .. } = *incoming;
        let placed = &mut *incoming.placed;
        let connection = self.id;
        let subflow = &mut self.subflows[at];
        let id = subflow.id();
        subflow.hold_payload(now, segment, range, sum, room, |held, payload_offset| {
            placed.push(Placement::Hold { connection, subflow: id, payload_offset, held });
        })
    }

    /// Delivers the held bytes with a known place, without checksums: the bytes that are mapped by now, or
    /// all after fallback to TCP.
    #[cold]
    pub(super) fn release_held(&mut self, now: Time, at: usize, placed: &mut Vec<Placement>) {
        let plain = self.mode == Mode::Plain;
        let own = if plain { self.place_in_plain() } else { Place::Unknown };
        let Connection { recv, subflows, id, .. } = self;
        let mut delivery = Delivery::new(recv, placed, *id, &subflows[at]);
        subflows[at].release(own, |part, data| {
            if plain {
                // It was acknowledged, so it will not be retransmitted.
                delivery.admit(data + part.len() as i64);
            }
            delivery.release(part, data)
        });
        if delivery.advanced {
            self.after_arrival(now);
        }
        self.check_unmapped(now, at, placed);
    }

    /// Verifies every complete run of mappings, with checksums, and delivers it.
    pub(super) fn settle_claims(&mut self, now: Time, at: usize, placed: &mut Vec<Placement>) {
        let failing = self.fallback.is_failing();
        let mut advanced = false;
        loop {
            let Connection { recv, subflows, id, .. } = self;
            let mut delivery = Delivery::new(recv, placed, *id, &subflows[at]);
            let settled = subflows[at].release_verified(failing, |part, data| delivery.release(part, data));
            advanced |= delivery.advanced;
            match settled {
                Settled::Nothing => break,
                Settled::Damaged(data) => {
                    self.on_damage(now, at, data);
                    break;
                }
                Settled::Run(ends) => ends.into_iter().for_each(|end| self.on_data_fin(at, end)),
            }
        }
        if advanced {
            self.after_arrival(now);
        }
        self.check_unmapped(now, at, placed);
    }

    /// Gives up a subflow on which no mapping has arrived within a receive window of data (section 3.3.1).
    fn check_unmapped(&mut self, now: Time, at: usize, placed: &mut Vec<Placement>) {
        if self.mode != Mode::Mptcp || self.fallback.is_failing() {
            return;
        }
        let Some(unmapped) = self.subflows[at].first_unmapped() else { return };
        // Payload without options that arrived early is now processed as it would have been in order. If it
        // were acknowledged in addition to data acknowledgements, the peer would retransmit it, and it would
        // be taken for new data.
        if unmapped.bare
            && unmapped.waits > 0
            && self.follow_bare_payload(now, at, placed) == Followed::FellBack
        {
            return;
        }
        if unmapped.waits > self.holding_room() {
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
            self.release_held(now, at, placed);
        } else {
            self.subflows[at].state_mut().request_reset(ResetCause::Because(reason));
        }
    }
}
