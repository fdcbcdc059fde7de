//! DSS checksums of one connection (RFC 8684 section 3.3.1): which are said, and whether they are right.

use super::Connection;
use crate::checksum::{self, PayloadSums};
use crate::segment::Capable;
use crate::seq::DataRange;

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
}
