//! DSS checksums of one connection (RFC 8684 section 3.3.1): which are said, and whether they are right.

use anabranch_units::Time;

use super::Connection;
use super::step::{NEXT, STOP, Step};
use crate::checksum::{self, add, is_zero};
use crate::event::Placement;
use crate::segment::{Dss, MappedDsn, Mapping, ResetReason, Segment};
use crate::seq::{DataRange, Dsn};
use crate::subflow::held::{Claim, LEAST_ROOM, MAX_PIECES, Piece};

impl Connection {
    /// A mapping's pseudo-header and checksum: zero together with the payload.
    fn unpaid(&self, mapping: &Mapping) -> u16 {
        // The full number, whatever the option says of it (section 3.3.1).
        let dsn = Dsn(self.remote_dsn.0.wrapping_add(self.mapped_offset(mapping) as u64));
        debug_assert!(!matches!(mapping.dsn, MappedDsn::Wide(said) if said != dsn));
        add(checksum::pseudo_header(dsn, mapping.ssn, mapping.len), mapping.checksum.unwrap_or(0))
    }

    /// The DATA_FIN of a mapping without payload: its checksum covers the pseudo-header alone (section
    /// 3.3.3). Stops if it is wrong.
    pub(super) fn verify_alone(&mut self, now: Time, at: usize, mapping: &Mapping) -> Step {
        if !self.checksummed || is_zero(self.unpaid(mapping)) {
            return NEXT;
        }
        let data = self.mapped_offset(mapping);
        self.on_damage(now, at, data);
        STOP
    }

    /// What a segment says of its mapping.
    fn claim_of(&self, at: usize, segment: &Segment) -> Option<Claim> {
        let (mapped, data) = self.mapping_of(at, segment)?;
        if let Some(Dss { mapping: Some(mapping), data_fin, .. }) = &segment.options.dss {
            return Some(Claim { mapped, data, sum: self.unpaid(mapping), data_fin: *data_fin });
        }
        let capable = super::find_capable(&segment.options)?;
        let len = capable.data_len?;
        let mapping =
            Mapping { dsn: MappedDsn::Wide(self.remote_dsn), ssn: 1, len, checksum: Some(capable.checksum?) };
        Some(Claim { mapped, data, sum: self.unpaid(&mapping), data_fin: false })
    }

    /// Payload where checksums are agreed on. What is not verified is held, and no part of it is readable.
    #[cold]
    pub(super) fn receive_checked(
        &mut self,
        now: Time,
        at: usize,
        segment: &Segment,
        range: DataRange,
        fin: bool,
        placed: &mut Vec<Placement>,
    ) {
        let discard = Placement::Discard { connection: self.id, payload_offset: 0, len: segment.payload_len };
        let nxt = self.subflows[at].recv().nxt();
        let (gaps, gap) = self.subflows[at].recv().gaps(range);
        if gaps == 0 {
            // A FIN alone, or what was here before.
            self.subflows[at].arrive_again(now, range, fin);
            if !range.is_empty() {
                placed.push(discard);
            }
            return;
        }
        let claim = self.claim_of(at, segment);
        let held = self.subflows[at].hold();
        let sum = if gap == range {
            Some(segment.payload_sum)
        } else {
            held.derive(range, gap, segment.payload_sum)
        };
        let room = self.recv.buffer().max(LEAST_ROOM);
        // What comes next in order is what makes room: it is taken however much waits behind it.
        let waits = gap.start > nxt || self.fallback.failing.is_some();
        let full = waits && (held.bytes() + gap.len() > room || held.pieces.len() >= MAX_PIECES);
        let Some(sum) = sum.filter(|_| gaps == 1 && !full) else {
            // Of no use like this: it comes again from where the acknowledgement stands.
            self.subflows[at].want_ack();
            placed.push(discard);
            return;
        };
        if let Some(claim) = claim {
            let whole = claim.mapped == range && gap == range && self.fallback.failing.is_none();
            if whole && is_zero(add(claim.sum, sum)) {
                self.deliver_verified(now, at, segment, &claim, fin, placed);
                return;
            }
            if !held.claim(claim) {
                placed.push(discard);
                self.mapping_is_broken(now, at, ResetReason::MptcpError, placed);
                return;
            }
        } else if segment.options.are_bare()
            && self.subflows[at].seq_offset(segment) <= self.subflows[at].recv().nxt() as i64
            && self.follow_bare_payload(now, at, placed)
        {
            self.process_part(now, at, segment, range, fin, placed);
            return;
        }
        self.take_in(now, at, segment, range, sum, placed);
        self.settle_claims(now, at, placed);
    }

    /// A segment that is a whole mapping with the right checksum.
    fn deliver_verified(
        &mut self,
        now: Time,
        at: usize,
        segment: &Segment,
        claim: &Claim,
        fin: bool,
        placed: &mut Vec<Placement>,
    ) {
        let (connection, range, mut delivered) = (self.id, claim.mapped, 0);
        let subflow = &mut self.subflows[at];
        let of = subflow.id();
        subflow.arrive(now, segment, range, fin, |_| ());
        if range.end > subflow.recv().nxt() {
            // Behind a hole: its sum may be wanted when the hole is filled by more than it needs.
            let piece = Piece { range, sum: segment.payload_sum, done: true, bare: false };
            subflow.hold().insert(piece);
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
        self.after_arrival(now, advanced);
        self.settle_claims(now, at, placed);
    }
}
