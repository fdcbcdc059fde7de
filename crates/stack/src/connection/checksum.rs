//! DSS checksums of one connection (RFC 8684 section 3.3.1): their presence and verification.

use anabranch_units::Time;

use super::Connection;
use super::fallback::Followed;
use super::payload::Incoming;
use super::step::{NEXT, STOP, Step};
use crate::checksum::{self, add, is_zero};
use crate::event::Placement;
use crate::segment::{Dss, MappedDsn, Mapping, ResetReason, Segment};
use crate::seq::{DataRange, Dsn};
use crate::subflow::Subflow;
use crate::subflow::held::Claim;

impl Connection {
    /// Returns the sum of a mapping's pseudo-header and checksum: with the payload it is zero.
    fn unpaid(&self, mapping: &Mapping) -> u16 {
        // The full number, regardless of its width in the option (section 3.3.1).
        let dsn = Dsn(self.remote_dsn.0.wrapping_add(self.mapped_offset(mapping) as u64));
        debug_assert!(!matches!(mapping.dsn, MappedDsn::Wide(said) if said != dsn));
        add(checksum::pseudo_header(dsn, mapping.ssn, mapping.len), mapping.checksum.unwrap_or(0))
    }

    /// Verifies the DATA_FIN of a mapping without payload, whose checksum covers only the pseudo-header
    /// (section 3.3.3). Stops if it is wrong.
    pub(super) fn verify_alone(&mut self, now: Time, at: usize, mapping: &Mapping) -> Step {
        if !self.checksummed || is_zero(self.unpaid(mapping)) {
            return NEXT;
        }
        let data = self.mapped_offset(mapping);
        self.on_damage(now, at, data);
        STOP
    }

    /// Returns the claim of a segment about its mapping.
    fn claim_of(&self, subflow: &Subflow, segment: &Segment) -> Option<Claim> {
        let (mapped, data) = self.mapping_of(subflow, segment)?;
        if let Some(Dss { mapping: Some(mapping), data_fin, .. }) = &segment.options.dss {
            return Some(Claim { mapped, data, sum: self.unpaid(mapping), data_fin: *data_fin });
        }
        let capable = super::find_capable(&segment.options)?;
        let len = capable.data_len?;
        let mapping =
            Mapping { dsn: MappedDsn::Wide(self.remote_dsn), ssn: 1, len, checksum: Some(capable.checksum?) };
        Some(Claim { mapped, data, sum: self.unpaid(&mapping), data_fin: false })
    }

    /// Processes payload with negotiated checksums. Unverified payload is held, and no part of it is
    /// readable.
    #[cold]
    pub(super) fn receive_checked(&mut self, incoming: &mut Incoming<'_>, range: DataRange) {
        let Incoming { now, at, segment, fin, .. } = *incoming;
        let whole_payload = u64::from(segment.payload_len);
        let subflow = &mut self.subflows[at];
        let nxt = subflow.recv().nxt();
        let (gaps, gap) = subflow.recv().gaps(range);
        if gaps == 0 {
            // A FIN alone, or data received before.
            subflow.arrive_again(now, range, fin);
            if !range.is_empty() {
                incoming.discard(self.id, whole_payload);
            }
            return;
        }
        let claim = self.claim_of(&self.subflows[at], segment);
        let room = self.holding_room();
        let held = self.subflows[at].held_mut();
        let sum = if gap == range {
            Some(segment.payload_sum)
        } else {
            held.derive(range, gap, segment.payload_sum)
        };
        // The next data in order frees space: it is accepted regardless of the amount held after it.
        let waits = gap.start > nxt || self.fallback.is_failing();
        let full = waits && held.is_full(gap.len(), room);
        let Some(sum) = sum.filter(|_| gaps == 1 && !full) else {
            // It cannot be used in this form: it will be retransmitted from the acknowledgement on.
            self.subflows[at].recv_mut().want_ack();
            incoming.discard(self.id, whole_payload);
            return;
        };
        if let Some(claim) = claim {
            let whole = claim.mapped == range && gap == range && !self.fallback.is_failing();
            if whole && is_zero(add(claim.sum, sum)) {
                self.deliver_verified(incoming, &claim);
                return;
            }
            if !held.claim(claim) {
                incoming.discard(self.id, whole_payload);
                self.mapping_is_broken(now, at, ResetReason::MptcpError, incoming.placed);
                return;
            }
        } else if segment.options.are_bare()
            && self.subflows[at].seq_offset(segment) <= self.subflows[at].recv().nxt() as i64
            && self.follow_bare_payload(now, at, incoming.placed) == Followed::FellBack
        {
            self.process_part(incoming, range);
            return;
        }
        self.take_in(incoming, range, sum);
        self.settle_claims(now, at, incoming.placed);
    }

    /// Delivers a segment that is a whole mapping with the correct checksum.
    fn deliver_verified(&mut self, incoming: &mut Incoming<'_>, claim: &Claim) {
        let Incoming { now, at, segment, fin, .. } = *incoming;
        let placed = &mut *incoming.placed;
        let (connection, range, mut delivered) = (self.id, claim.mapped, 0);
        let subflow = &mut self.subflows[at];
        let of = subflow.id();
        subflow.arrive(now, segment, range, fin, |_| ());
        if range.end > subflow.recv().nxt() {
            subflow.held_mut().insert_verified(range, segment.payload_sum);
        }
        let end = claim.data + range.len() as i64;
        let stream = DataRange::new(claim.data.max(0) as u64, end.max(0) as u64);
        let advanced = self.recv.arrive(stream, |new| {
            delivered += new.len();
            placed.push(Placement::Deliver {
                connection,
                subflow: of,
                payload_offset: (new.start as i64 - claim.data) as u32,
                stream: new,
            });
        });
        self.subflows[at].count_delivered(delivered, range.len() - delivered);
        if delivered == 0 {
            placed.push(Placement::Discard { connection, payload_offset: 0, len: segment.payload_len });
        }
        if claim.data_fin {
            self.on_data_fin(at, end);
        }
        if advanced {
            self.after_arrival(now);
        }
        self.settle_claims(now, at, placed);
    }
}
