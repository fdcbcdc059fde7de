//! DSS checksums of one connection (RFC 8684 section 3.3.1): their presence and verification.

use anabranch_units::Time;

use super::Connection;
use super::deliver::Delivery;
use super::fallback::Followed;
use super::payload::Incoming;
use super::step::{NEXT, STOP, Step};
use crate::checksum::{self, add, is_zero};
use crate::segment::{Dss, MappedDsn, Mapping, ResetReason, Segment};
use crate::seq::{DataRange, Dsn};
use crate::subflow::Subflow;
use crate::subflow::held::Claim;
use crate::subflow::payload::{Checked, Holding};

impl Connection {
    /// Returns the sum of a mapping's pseudo-header and checksum: with the payload it is zero.
    fn unpaid(&self, mapping: &Mapping) -> u16 {
        // The full number, regardless of its width in the option (section 3.3.1).
        let dsn = Dsn(self.remote_dsn.0.wrapping_add(self.mapped_offset(mapping) as u64));
        debug_assert!(!matches!(mapping.dsn, MappedDsn::Wide(said) if said != dsn));
        add(checksum::pseudo_header(dsn, mapping.ssn, mapping.len), mapping.checksum.unwrap_or(0))
    }

    /// Verifies the DATA_FIN of a mapping without payload: the checksum covers only the pseudo-header
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
        let Incoming { now, at, segment, .. } = *incoming;
        let whole_payload = u64::from(segment.payload_len);
        let claim = self.claim_of(&self.subflows[at], segment);
        let holding = Holding { room: self.holding_room(), failing: self.fallback.is_failing() };
        let Connection { recv, subflows, id, .. } = self;
        let mut delivery = Delivery::new(recv, incoming.placed, *id, &subflows[at]);
        let checked = subflows[at]
            .check(now, segment, range, claim, holding, |part, data| delivery.deliver(data, part.len(), 0));
        let advanced = delivery.advanced;
        match checked {
            Checked::Old if range.is_empty() => {}
            Checked::Old | Checked::Refused => incoming.discard(self.id, whole_payload),
            Checked::Contradiction => {
                incoming.discard(self.id, whole_payload);
                self.mapping_is_broken(now, at, ResetReason::MptcpError, incoming.placed);
            }
            Checked::Delivered(delivered) => {
                if delivered == 0 {
                    incoming.discard(self.id, whole_payload);
                }
                if let Some(claim) = claim.filter(|claim| claim.data_fin) {
                    self.on_data_fin(at, claim.data + range.len() as i64);
                }
                if advanced {
                    self.after_arrival(now);
                }
                self.settle_claims(now, at, incoming.placed);
            }
            Checked::Waits { sum, next } => {
                if claim.is_none()
                    && next
                    && segment.options.have_no_mptcp()
                    && self.follow_bare_payload(now, at, incoming.placed) == Followed::FellBack
                {
                    self.process_part(incoming, range);
                    return;
                }
                self.take_in(incoming, range, sum, None);
                self.settle_claims(now, at, incoming.placed);
            }
        }
    }
}
