//! Middleboxes: what stands between two hosts and does more, or less, than to pass packets on.
//!
//! Each is an [`Element`](crate::device::filtered::Element) to put before a device with
//! [`FilteredDevice`](crate::device::filtered::FilteredDevice), or a chain of several
//! ([`Chain`]). RFC 8684 section 6 lists what such boxes do to Multipath TCP; the tests of this crate and
//! the interoperation matrix run through them.

mod alter;
mod chain;
mod coalesce;
mod reset;
mod sequence;
mod split;
mod strip;
mod switch;
mod tcp;

pub use alter::AlterPayload;
pub use chain::Chain;
pub use coalesce::Coalesce;
pub use reset::Reset;
pub use sequence::RewriteSequence;
pub use split::Split;
pub use strip::{StripFrom, StripMptcp};
pub use switch::Switch;
