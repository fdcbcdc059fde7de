//! Converts segments to and from bytes.
//!
//! The stack works on numbers. This crate writes them as IPv4 or IPv6 packets with TCP and its options,
//! including Multipath TCP ([`emit`]), reads such packets back ([`parse`]), reads ICMP errors about them
//! ([`parse_icmp`]), and answers pings ([`echo_reply`]).
//!
//! Parsing is total: any bytes give a [`Parsed`] or a [`ParseError`], never a panic. Nothing is allocated,
//! and payload is neither copied nor kept: [`Parsed::payload`] is its range.
//!
//! ```
//! use anabranch_stack::segment::{Address, Flags, Segment};
//! use anabranch_stack::seq::Seq;
//! use anabranch_wire::{Checksum, Checksums, IpFields, emit, parse};
//!
//! let from = Address::new([192, 0, 2, 1].into(), 4000);
//! let to = Address::new([192, 0, 2, 2].into(), 80);
//! let mut segment = Segment::new(from, to, Seq(1), Flags::ACK);
//! segment.payload_len = 5;
//! let mut packet = [0; 1500];
//! let len = emit(&segment, &IpFields::default(), Checksum::Full, &mut packet, |payload| {
//!     payload.copy_from_slice(b"hello");
//! })?;
//! let parsed = parse(&packet[..len], Checksums::Trust)?;
//! assert_eq!(parsed.segment, segment);
//! assert_eq!(&packet[parsed.payload], b"hello");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![warn(unreachable_pub)]

pub mod checksum;
mod echo;
mod effects;
mod emit;
mod ends;
mod error;
mod fields;
mod icmp;
mod ip;
mod middlebox;
mod options;
mod parse;
pub mod pcapng;
pub mod remarks;
mod too_big;
mod view;

pub use echo::{echo_reply, echo_request};
pub use effects::apply;
pub use emit::{Checksum, Header, IpFields, complete_checksum, emit, emit_header};
pub use ends::ends;
pub use error::{EmitError, ParseError};
pub use icmp::{IcmpError, IcmpKind, parse_icmp};
pub use ip::{carries_data, label, mark_congestion};
pub use middlebox::{Crossed, cross};
pub use parse::{Checksums, Parsed, parse};
pub use too_big::too_big;
pub use view::{View, each_mptcp_option, view};
