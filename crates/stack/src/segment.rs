//! A TCP segment as numbers: header fields, options, and the *length* of the payload.

use core::net::IpAddr;

use crate::seq::{Dsn, Seq};

/// An endpoint of a subflow.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Address {
    /// The IP address.
    pub ip: IpAddr,
    /// The TCP port.
    pub port: u16,
}

impl Address {
    /// Returns the address with `ip` and `port`.
    pub const fn new(ip: IpAddr, port: u16) -> Address {
        Address { ip, port }
    }
}

impl core::fmt::Display for Address {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        core::net::SocketAddr::new(self.ip, self.port).fmt(f)
    }
}

/// The interface of a host through which a segment is sent or received.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct PathId(pub u16);

/// The control bits of the TCP header.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Flags(pub u8);

impl Flags {
    /// No more data from the sender.
    pub const FIN: Flags = Flags(0x01);
    /// Synchronise sequence numbers.
    pub const SYN: Flags = Flags(0x02);
    /// Reset.
    pub const RST: Flags = Flags(0x04);
    /// Push.
    pub const PSH: Flags = Flags(0x08);
    /// The acknowledgement number is valid.
    pub const ACK: Flags = Flags(0x10);
    /// ECN echo (RFC 3168).
    pub const ECE: Flags = Flags(0x40);
    /// Congestion window reduced (RFC 3168).
    pub const CWR: Flags = Flags(0x80);

    /// True if all bits of `other` are set.
    pub const fn has(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }

    /// Returns the union of both sets of bits.
    pub const fn with(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }
}

impl core::fmt::Debug for Flags {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let names = [
            (Flags::SYN, 'S'),
            (Flags::FIN, 'F'),
            (Flags::RST, 'R'),
            (Flags::PSH, 'P'),
            (Flags::ACK, '.'),
            (Flags::ECE, 'E'),
            (Flags::CWR, 'W'),
        ];
        for (flag, name) in names {
            if self.has(flag) {
                write!(f, "{name}")?;
            }
        }
        Ok(())
    }
}

/// The ECN field of the IP header (RFC 3168).
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, Debug)]
pub enum Ecn {
    /// Not ECN-capable.
    #[default]
    NotEct,
    /// ECN-capable transport.
    Ect0,
    /// Congestion experienced.
    Ce,
}

/// One TCP segment.
// The field order keeps the fields of every segment together, followed by the rest.
#[derive(Clone, Copy, PartialEq, Debug)]
#[repr(C)]
pub struct Segment {
    /// The sender.
    pub source: Address,
    /// The receiver.
    pub destination: Address,
    /// The sequence number of its first octet.
    pub seq: Seq,
    /// The next sequence number expected from the other side; valid if [`Flags::ACK`] is set.
    pub ack: Seq,
    /// The length of the payload, in bytes.
    pub payload_len: u32,
    /// The window field, not yet scaled.
    pub window: u16,
    /// Control bits.
    pub flags: Flags,
    /// The ECN field of the IP header.
    pub ecn: Ecn,
    /// The ones'-complement sum of the payload as big-endian 16-bit words, folded to 16 bits and not inverted
    /// (RFC 1071), as if the payload began at an even offset; an odd last byte is the high half of a word. A
    /// driver that has the bytes sets it for received segments; it is used if DSS checksums were negotiated
    /// (RFC 8684 section 3.3.1). The simulator's payload is all zeros and its sum 0, so any other sum is
    /// damage. The stack sends 0.
    pub payload_sum: u16,
    /// TCP options.
    pub options: Options,
}

impl Segment {
    /// Returns a segment without payload and options.
    pub const fn new(source: Address, destination: Address, seq: Seq, flags: Flags) -> Segment {
        Segment {
            source,
            destination,
            seq,
            ack: Seq(0),
            flags,
            window: 0,
            payload_len: 0,
            payload_sum: 0,
            ecn: Ecn::NotEct,
            options: Options::NONE,
        }
    }

    /// Splits a burst into the segments it represents, each with up to `size` bytes of the payload, with
    /// their offsets in the payload. All repeat its options, as RFC 8684 section 3.3.1 expects of
    /// segmentation offload; PSH and FIN are set only in the last. With `size` 0 it is a single segment.
    ///
    /// ```
    /// # use anabranch_stack::segment::{Address, Flags, Segment};
    /// # use anabranch_stack::seq::Seq;
    /// # let nobody = Address::new(std::net::Ipv4Addr::UNSPECIFIED.into(), 0);
    /// let mut whole = Segment::new(nobody, nobody, Seq(7), Flags::ACK.with(Flags::PSH));
    /// whole.payload_len = 2500;
    /// let pieces: Vec<_> = whole.pieces(1000).map(|(at, piece)| (at, piece.seq, piece.payload_len)).collect();
    /// assert_eq!(pieces, [(0, Seq(7), 1000), (1000, Seq(1007), 1000), (2000, Seq(2007), 500)]);
    /// ```
    pub fn pieces(&self, size: u32) -> impl Iterator<Item = (u32, Segment)> {
        let size = if size == 0 { self.payload_len.max(1) } else { size };
        let whole = *self;
        (0..self.payload_len.div_ceil(size).max(1)).map(move |index| {
            let (at, mut piece) = (index * size, whole);
            piece.seq = whole.seq.add(u64::from(at));
            piece.payload_len = size.min(whole.payload_len - at);
            if at + piece.payload_len < whole.payload_len {
                piece.flags.0 &= !(Flags::PSH.0 | Flags::FIN.0);
            }
            (at, piece)
        })
    }

    /// The length of the IPv4 and TCP headers without options, in bytes.
    pub const IPV4_LEN: u32 = 40;

    /// Returns the sequence space occupied by payload, SYN and FIN.
    pub const fn seq_len(&self) -> u64 {
        self.payload_len as u64 + self.flags.has(Flags::SYN) as u64 + self.flags.has(Flags::FIN) as u64
    }

    /// Returns the length on the wire: IP header, TCP header, padded options, payload.
    pub fn wire_len(&self) -> u32 {
        let ip = if self.source.ip.is_ipv4() { 20 } else { 40 };
        ip + 20 + self.options.wire_len() + self.payload_len
    }
}

/// The option space of a TCP header, in bytes.
pub const OPTION_SPACE: u32 = 40;

/// The options of a segment.
// As in `Segment`, the common ones first.
#[derive(Clone, Copy, PartialEq, Debug)]
#[repr(C)]
pub struct Options {
    /// The data sequence signal (RFC 8684 section 3.3).
    pub dss: Option<Dss>,
    /// RFC 7323 timestamps, in microseconds.
    pub timestamps: Option<Timestamps>,
    /// Options that only a SYN carries.
    pub syn: Option<SynOptions>,
    /// RFC 2018 selective acknowledgements.
    pub sack: SackBlocks,
    /// Up to two further MPTCP options, in order.
    pub mptcp: [Option<MptcpOption>; 2],
}

impl Options {
    /// No options.
    pub const NONE: Options =
        Options { syn: None, timestamps: None, sack: SackBlocks::EMPTY, dss: None, mptcp: [None, None] };

    /// Removes all options. Cheaper than storing [`Options::NONE`]: only the tags are written.
    #[inline]
    pub fn clear(&mut self) {
        self.syn = None;
        self.timestamps = None;
        self.sack.len = 0;
        self.dss = None;
        self.mptcp[0] = None;
        self.mptcp[1] = None;
    }

    /// Returns the length on the wire, padded to a multiple of four.
    #[inline]
    pub fn wire_len(&self) -> u32 {
        if self.are_usual() { self.usual_wire_len() } else { self.wire_len_of_all() }
    }

    /// Returns the length of timestamps and data sequence signal, padded to a multiple of four.
    #[inline]
    pub fn usual_wire_len(&self) -> u32 {
        let timestamps = if self.timestamps.is_some() { 12 } else { 0 };
        timestamps + self.dss.map_or(0, |dss| dss.wire_len().div_ceil(4) * 4)
    }

    /// True if there are no options except the options of nearly every segment: timestamps and the data
    /// sequence signal.
    #[inline]
    pub fn are_usual(&self) -> bool {
        self.syn.is_none() && self.sack.is_empty() && self.mptcp[0].is_none() && self.mptcp[1].is_none()
    }

    /// True if there is no option of kind 30.
    pub fn have_no_mptcp(&self) -> bool {
        self.dss.is_none() && self.mptcp[0].is_none()
    }

    fn wire_len_of_all(&self) -> u32 {
        let mut len = 0;
        if let Some(syn) = &self.syn {
            len += 4;
            // SACK-permitted shares its padding with the timestamps if both are present.
            len += if syn.sack_permitted && self.timestamps.is_none() { 4 } else { 0 };
            len += if syn.window_scale.is_some() { 4 } else { 0 };
        }
        if self.timestamps.is_some() {
            len += 12;
        }
        if self.sack.len > 0 {
            len += 4 + 8 * u32::from(self.sack.len);
        }
        let mut mptcp = self.dss.map_or(0, |dss| dss.wire_len());
        for option in self.mptcp.iter().flatten() {
            mptcp += option.wire_len();
        }
        len + mptcp.div_ceil(4) * 4
    }

    /// Adds an MPTCP option; returns false if both places are occupied.
    pub fn push(&mut self, option: MptcpOption) -> bool {
        for place in &mut self.mptcp {
            if place.is_none() {
                *place = Some(option);
                return true;
            }
        }
        false
    }
}

/// Options that only a SYN carries.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct SynOptions {
    /// Maximum segment size: the MTU without IP and TCP headers.
    pub mss: u16,
    /// The shift of the window field.
    pub window_scale: Option<u8>,
    /// True if selective acknowledgements may be sent.
    pub sack_permitted: bool,
}

/// RFC 7323 timestamps in microseconds of the sender's clock.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Timestamps {
    /// The sender's clock.
    pub value: u32,
    /// The latest value received from the other side.
    pub echo: u32,
}

/// Up to four SACK blocks, the most recent first.
#[derive(Clone, Copy, Default)]
pub struct SackBlocks {
    blocks: [(Seq, Seq); 4],
    len: u8,
}

impl SackBlocks {
    /// No blocks.
    pub const EMPTY: SackBlocks = SackBlocks { blocks: [(Seq(0), Seq(0)); 4], len: 0 };

    /// Returns the blocks as pairs of left and right edge.
    pub fn as_slice(&self) -> &[(Seq, Seq)] {
        &self.blocks[..usize::from(self.len.min(4))]
    }

    /// Adds a block; returns false if there are already four.
    pub fn push(&mut self, left: Seq, right: Seq) -> bool {
        if self.len >= 4 {
            return false;
        }
        self.blocks[usize::from(self.len)] = (left, right);
        self.len += 1;
        true
    }

    /// True if there are no blocks.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl PartialEq for SackBlocks {
    fn eq(&self, other: &SackBlocks) -> bool {
        self.as_slice() == other.as_slice()
    }
}

impl Eq for SackBlocks {}

impl core::fmt::Debug for SackBlocks {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        self.as_slice().fmt(f)
    }
}

/// A data acknowledgement and its width on the wire.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DataAck {
    /// The low 32 bits.
    Narrow(u32),
    /// All 64 bits.
    Wide(Dsn),
}

/// The data sequence number of a mapping and its width on the wire.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MappedDsn {
    /// The low 32 bits.
    Narrow(u32),
    /// All 64 bits.
    Wide(Dsn),
}

/// A data sequence mapping (RFC 8684 section 3.3.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mapping {
    /// The start in the data sequence space.
    pub dsn: MappedDsn,
    /// The start in the subflow, relative to the SYN (the first byte is 1); 0 for a DATA_FIN without data.
    pub ssn: u32,
    /// The number of octets mapped, including the DATA_FIN; 0 is the infinite mapping.
    pub len: u16,
    /// The checksum, if negotiated.
    pub checksum: Option<u16>,
}

/// The data sequence signal (RFC 8684 section 3.3).
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Dss {
    /// The data acknowledgement.
    pub data_ack: Option<DataAck>,
    /// The place of the payload in the stream; none if an earlier segment had it, or without payload.
    pub mapping: Option<Mapping>,
    /// True if the mapping covers the end of the stream.
    pub data_fin: bool,
}

impl Dss {
    /// Returns the length on the wire, without padding.
    pub const fn wire_len(&self) -> u32 {
        let ack = match self.data_ack {
            Some(DataAck::Narrow(_)) => 4,
            Some(DataAck::Wide(_)) => 8,
            None => 0,
        };
        let map = match self.mapping {
            Some(map) => {
                let dsn = match map.dsn {
                    MappedDsn::Narrow(_) => 4,
                    MappedDsn::Wide(_) => 8,
                };
                dsn + 6 + if map.checksum.is_some() { 2 } else { 0 }
            }
            None => 0,
        };
        4 + ack + map
    }
}

/// A key of a connection: 64 secret bits.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Key(pub u64);

impl core::fmt::Debug for Key {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        // A key gives access to the connection: it is kept out of logs.
        f.write_str("Key(..)")
    }
}

/// An MPTCP option (kind 30) other than the data sequence signal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MptcpOption {
    /// MP_CAPABLE (section 3.1).
    Capable(Capable),
    /// MP_JOIN (section 3.2).
    Join(Join),
    /// ADD_ADDR (section 3.4.1).
    AddAddress(AddAddress),
    /// REMOVE_ADDR (section 3.4.2): the address IDs.
    RemoveAddress(AddressIds),
    /// MP_PRIO (section 3.3.8): the backup flag of the subflow.
    Priority {
        /// True if the peer should use this subflow only when no other works.
        backup: bool,
    },
    /// MP_FASTCLOSE (section 3.5): the key of the receiver.
    FastClose(Key),
    /// MP_FAIL (section 3.7): the DSN of the start of the failed mapping.
    Fail(Dsn),
    /// MP_TCPRST (section 3.6).
    Reset {
        /// True if the condition may pass, so that a later attempt is allowed.
        transient: bool,
        /// The reason, from the registry of section 3.6.
        reason: ResetReason,
    },
}

impl MptcpOption {
    /// Returns the length on the wire, without padding.
    pub const fn wire_len(&self) -> u32 {
        match self {
            MptcpOption::Capable(capable) => match (capable.sender_key, capable.receiver_key) {
                (None, _) => 4,
                (Some(_), None) => 12,
                (Some(_), Some(_)) => match (capable.data_len, capable.checksum) {
                    (None, _) => 20,
                    (Some(_), None) => 22,
                    (Some(_), Some(_)) => 24,
                },
            },
            MptcpOption::Join(join) => match join {
                Join::Syn { .. } => 12,
                Join::SynAck { .. } => 16,
                Join::Ack { .. } => 24,
            },
            MptcpOption::AddAddress(add) => {
                let ip = if add.ip.is_ipv4() { 4 } else { 16 };
                let port = if add.port.is_some() { 2 } else { 0 };
                let hmac = if add.hmac.is_some() { 8 } else { 0 };
                4 + ip + port + hmac
            }
            MptcpOption::RemoveAddress(ids) => 3 + ids.len as u32,
            MptcpOption::Priority { .. } => 3,
            MptcpOption::FastClose(_) | MptcpOption::Fail(_) => 12,
            MptcpOption::Reset { .. } => 4,
        }
    }
}

/// MP_CAPABLE (RFC 8684 section 3.1). The fields present determine its form.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Capable {
    /// The protocol version; 1 is RFC 8684.
    pub version: u8,
    /// The flags A to H, A being 0x80.
    pub flags: u8,
    /// The key of the sender (SYN/ACK and third ACK).
    pub sender_key: Option<Key>,
    /// The key of the receiver (third ACK).
    pub receiver_key: Option<Key>,
    /// The length of the data that this segment maps (first data).
    pub data_len: Option<u16>,
    /// The checksum of the data.
    pub checksum: Option<u16>,
}

impl Capable {
    /// Flag A: DSS checksums are required.
    pub const CHECKSUM: u8 = 0x80;
    /// Flag B: extensibility; an MP_CAPABLE that has it is ignored.
    pub const EXTENSION: u8 = 0x40;
    /// Flag C: no further subflows to this address and port.
    pub const NO_JOINS_HERE: u8 = 0x20;
    /// Flag H: HMAC-SHA256.
    pub const HMAC_SHA256: u8 = 0x01;
}

/// MP_JOIN (RFC 8684 section 3.2) in its three forms.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Join {
    /// The option of the SYN.
    Syn {
        /// True to request use as a backup.
        backup: bool,
        /// The ID of the source address.
        address_id: u8,
        /// The token of the receiver.
        token: u32,
        /// The sender's nonce.
        nonce: u32,
    },
    /// The option of the SYN/ACK.
    SynAck {
        /// True to request use as a backup.
        backup: bool,
        /// The ID of the source address.
        address_id: u8,
        /// The leftmost 64 bits of the HMAC.
        hmac: u64,
        /// The sender's nonce.
        nonce: u32,
    },
    /// On the third ACK.
    Ack {
        /// The leftmost 160 bits of the HMAC.
        hmac: [u8; 20],
    },
}

/// ADD_ADDR (RFC 8684 section 3.4.1); an echo if `hmac` is missing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AddAddress {
    /// The ID of the address.
    pub id: u8,
    /// The address.
    pub ip: IpAddr,
    /// The port, if it differs from the connection's port.
    pub port: Option<u16>,
    /// The rightmost 64 bits of the HMAC; `None` in an echo.
    pub hmac: Option<u64>,
}

/// A short list of address IDs.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct AddressIds {
    ids: [u8; 8],
    len: u8,
}

impl AddressIds {
    /// Returns a list of one ID.
    pub const fn one(id: u8) -> AddressIds {
        AddressIds { ids: [id, 0, 0, 0, 0, 0, 0, 0], len: 1 }
    }

    /// Adds an ID; returns false if there are already eight.
    pub fn push(&mut self, id: u8) -> bool {
        if self.len >= 8 {
            return false;
        }
        self.ids[usize::from(self.len)] = id;
        self.len += 1;
        true
    }

    /// Returns the IDs.
    pub fn as_slice(&self) -> &[u8] {
        &self.ids[..usize::from(self.len.min(8))]
    }
}

/// The reason of a subflow reset (RFC 8684 section 3.6).
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub enum ResetReason {
    /// 0x00, and every unassigned value.
    #[default]
    Unspecified,
    /// 0x01: a bad option, HMAC or checksum presence.
    MptcpError,
    /// 0x02.
    LackOfResources,
    /// 0x03.
    Prohibited,
    /// 0x04: the subflow carries too much data that was already delivered on another.
    TooMuchOutstanding,
    /// 0x05.
    BadPerformance,
    /// 0x06.
    Middlebox,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn option_lengths_are_those_of_rfc_8684() {
        let key = Key(1);
        let mut capable = Capable {
            version: 1,
            flags: 1,
            sender_key: None,
            receiver_key: None,
            data_len: None,
            checksum: None,
        };
        let len = |c: Capable| MptcpOption::Capable(c).wire_len();
        assert_eq!(len(capable), 4);
        capable.sender_key = Some(key);
        assert_eq!(len(capable), 12);
        capable.receiver_key = Some(key);
        assert_eq!(len(capable), 20);
        capable.data_len = Some(5);
        assert_eq!(len(capable), 22);
        capable.checksum = Some(5);
        assert_eq!(len(capable), 24);
        let mut dss = Dss { data_ack: Some(DataAck::Narrow(1)), ..Dss::default() };
        assert_eq!(dss.wire_len(), 8);
        dss.mapping = Some(Mapping { dsn: MappedDsn::Narrow(1), ssn: 1, len: 1, checksum: None });
        assert_eq!(dss.wire_len(), 18);
        dss.data_ack = Some(DataAck::Wide(Dsn(1)));
        dss.mapping = Some(Mapping { dsn: MappedDsn::Wide(Dsn(1)), ssn: 1, len: 1, checksum: Some(1) });
        assert_eq!(dss.wire_len(), 28);
    }

    #[test]
    fn the_syn_with_everything_takes_24_bytes_as_linux_sends_it() {
        let mut options = Options::NONE;
        options.syn = Some(SynOptions { mss: 1460, window_scale: Some(7), sack_permitted: true });
        options.timestamps = Some(Timestamps::default());
        options.push(MptcpOption::Capable(Capable {
            version: 1,
            flags: 1,
            sender_key: None,
            receiver_key: None,
            data_len: None,
            checksum: None,
        }));
        assert_eq!(options.wire_len(), 24);
    }
}
