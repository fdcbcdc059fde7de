//! The data that a path may carry.

use anabranch_units::Bytes;

/// The data that a path may carry; none for any. No link acts on it: it is for those who count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quotas {
    /// The data that both directions may carry together.
    pub total: Option<Bytes>,
    /// The data that the client may send.
    pub up: Option<Bytes>,
    /// The data that the client may receive.
    pub down: Option<Bytes>,
}

impl Quotas {
    /// True if any data may be carried.
    pub fn is_none(&self) -> bool {
        *self == Quotas::default()
    }

    /// True if these bytes exceed a quota.
    pub fn is_exceeded(&self, up: u64, down: u64) -> bool {
        let exceeded = |quota: Option<Bytes>, bytes: u64| quota.is_some_and(|quota| bytes > quota.0);
        exceeded(self.total, up.saturating_add(down)) || exceeded(self.up, up) || exceeded(self.down, down)
    }
}
