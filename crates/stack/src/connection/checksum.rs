//! DSS checksums of one connection (RFC 8684 section 3.3.1): which are said, and whether they are right.

use anabranch_units::Time;

use super::Connection;
use super::hold::{Claim, LEAST_ROOM, MAX_PIECES, Piece};
use crate::checksum::{self, PayloadSums, add, is_zero};
use crate::event::Placement;
use crate::segment::{Capable, Dss, MappedDsn, Mapping, ResetReason, Segment};
use crate::seq::{DataRange, Dsn};

impl Connection {
    /// The flags of our MP_CAPABLE: SHA-256, and A where checksums are asked for by either side.
    pub(super) fn capable_flags(&self) -> u8 {
        Capable::HMAC_SHA256 | if self.checksummed { Capable::CHECKSUM } else { 0 }
    }

    /// The checksum of a new mapping of `range` of our stream to the subflow's offset `ssn`.
    #[cold]
    pub(super) fn checksum_of<S: PayloadSums>(
        &self,
        range: DataRange,
        ssn: u64,
        data_fin: bool,
        sums: &S,
    ) -> u16 {
        let payload = if range.is_empty() { 0 } else { sums.sum(self.id, range) };
        let len = range.len() + u64::from(data_fin);
        checksum::of_mapping(self.local_dsn.add(range.start), ssn as u32, len as u16, payload)
    }

    /// A mapping's pseudo-header and checksum: zero together with the payload.
    fn unpaid(&self, mapping: &Mapping) -> u16 {
        // The full number, whatever the option says of it (section 3.3.1).
        let dsn = Dsn(self.remote_dsn.0.wrapping_add(self.mapped_offset(mapping) as u64));
        debug_assert!(!matches!(mapping.dsn, MappedDsn::Wide(said) if said != dsn));
        add(checksum::pseudo_header(dsn, mapping.ssn, mapping.len), mapping.checksum.unwrap_or(0))
    }

    /// The DATA_FIN of a mapping without payload: its checksum covers the pseudo-header alone (section
    /// 3.3.3). True if it is right, or there is none.
    pub(super) fn is_verified_alone(&mut self, now: Time, at: usize, mapping: &Mapping) -> bool {
        if !self.checksummed || is_zero(self.unpaid(mapping)) {
            return true;
        }
        let data = self.mapped_offset(mapping);
        self.on_damage(now, at, data);
        false
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
        let nxt = self.subflows[at].recv.nxt();
        let (gaps, gap) = self.subflows[at].recv.gaps(range);
        if gaps == 0 {
            // A FIN alone, or what was here before.
            self.subflows[at].recv.arrive(now, range, fin, false, |_| ());
            if !range.is_empty() {
                self.subflows[at].counters.bytes_duplicate += range.len();
                placed.push(discard);
            }
            return;
        }
        let claim = self.claim_of(at, segment);
        let held = self.subflows[at].held.get_or_insert_default();
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
            self.subflows[at].recv.want_ack();
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
            && self.subflows[at].seq_offset(segment) <= self.subflows[at].recv.nxt() as i64
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
        let of = subflow.id;
        let full_sized = subflow.recv.measure(now, segment.payload_len, subflow.mss);
        subflow.recv.arrive(now, range, fin, full_sized, |_| ());
        if range.end > subflow.recv.nxt() {
            // Behind a hole: its sum may be wanted when the hole is filled by more than it needs.
            let piece = Piece { range, sum: segment.payload_sum, done: true, bare: false };
            subflow.held.get_or_insert_default().insert(piece);
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
        let counters = &mut self.subflows[at].counters;
        counters.bytes_delivered += delivered;
        counters.bytes_duplicate += range.len() - delivered;
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
