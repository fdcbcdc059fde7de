//! Errors of parsing and writing packets.

use core::fmt;

/// The reason that bytes are not a TCP segment.
///
/// Options are never a reason: malformed and unknown ones are skipped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ParseError {
    /// The packet ends before its headers, or before the length they state.
    Truncated,
    /// The first octet names neither IPv4 nor IPv6.
    IpVersion(u8),
    /// The IP header contradicts itself.
    IpHeader,
    /// The IPv4 header checksum is wrong.
    IpChecksum,
    /// The packet is a fragment; this crate does not reassemble.
    Fragment,
    /// The payload is of another protocol, given by its number in the IANA registry.
    Protocol(u8),
    /// The TCP data offset is smaller than a header or beyond the packet.
    TcpHeader,
    /// The TCP checksum is wrong.
    TcpChecksum,
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ParseError::Truncated => f.write_str("the packet is shorter than its headers say"),
            ParseError::IpVersion(version) => write!(f, "IP version {version} is neither 4 nor 6"),
            ParseError::IpHeader => f.write_str("the IP header is inconsistent"),
            ParseError::IpChecksum => f.write_str("the IPv4 header checksum is wrong"),
            ParseError::Fragment => f.write_str("an IP fragment"),
            ParseError::Protocol(number) => write!(f, "protocol {number} is not TCP"),
            ParseError::TcpHeader => f.write_str("the TCP data offset does not fit the packet"),
            ParseError::TcpChecksum => f.write_str("the TCP checksum is wrong"),
        }
    }
}

impl core::error::Error for ParseError {}

/// The reason that a segment could not be written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum EmitError {
    /// The buffer is too small.
    NoSpace {
        /// The number of bytes that the packet takes.
        needed: usize,
    },
    /// Source and destination belong to different address families.
    MixedFamilies,
    /// The options take more than the 40 bytes of a TCP header.
    Options,
    /// The packet would exceed the length field of the IP header.
    TooLong,
}

impl fmt::Display for EmitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EmitError::NoSpace { needed } => write!(f, "the buffer is too small: {needed} bytes are needed"),
            EmitError::MixedFamilies => {
                f.write_str("source and destination are of different address families")
            }
            EmitError::Options => f.write_str("the options do not fit the 40 bytes of a TCP header"),
            EmitError::TooLong => f.write_str("the packet is too long for its IP header"),
        }
    }
}

impl core::error::Error for EmitError {}
