//! Middleboxes between two hosts: they drop, change, split and join packets.
//!
//! A [`FilteredDevice`] puts an [`Element`], or a [`Chain`] of several, on the path of a device; most types
//! here are elements. A [`LinkedDevice`] puts links of `anabranch-link` there. RFC 8684 section 6 lists the
//! changes that middleboxes make to Multipath TCP; the tests of `anabranch-net` and the interoperation matrix
//! use them.

#![warn(unreachable_pub)]

mod alter;
mod chain;
mod coalesce;
mod filtered;
mod linked;
mod reset;
mod sequence;
mod split;
mod strip;
mod switch;
mod tcp;

pub use alter::AlterPayload;
pub use chain::Chain;
pub use coalesce::Coalesce;
pub use filtered::{Direction, Element, FilteredDevice};
pub use linked::LinkedDevice;
pub use reset::Reset;
pub use sequence::RewriteSequence;
pub use split::Split;
pub use strip::{StripFrom, StripMptcp};
pub use switch::Switch;
