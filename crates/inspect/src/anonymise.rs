//! Captures without payload and with other addresses, which can be shown to others.
//!
//! Addresses are renumbered by a key so that two of them share a prefix exactly as long as before (Xu, Fan, Ammar and
//! Moon, "Prefix-preserving IP address anonymization", ICNP 2002; here the function of a prefix is SHA-256). Frames begin
//! with the IP header, so no hardware address is left. Packets without TCP, and those with extension headers of IPv6, are
//! left out. Options of IPv4 and unknown options of TCP are emptied.
//!
//! Ports, sequence numbers, timestamps of TCP, and keys and tokens of Multipath TCP stay: without them a capture of
//! Multipath TCP says nothing. The code of ADD_ADDR is zero, since it covers an address that is gone.

use std::io::{self, Write};
use std::net::IpAddr;

use anabranch_wire::pcapng::{Direction, InterfaceId, Packet, Writer};
use anabranch_wire::{checksum, view};
use rustc_hash::FxHashMap;
use sha2::{Digest as _, Sha256};

use crate::capture::{Frame, Heading};
use crate::link_layer;

/// The most addresses that are remembered; the others are computed for each packet.
const MAX_ADDRESSES: usize = 1 << 16;
/// The most interfaces of the result; packets of further ones are on the last.
const MAX_INTERFACES: u32 = 1 << 16;
const V4_LEN: usize = 20;
const V6_LEN: usize = 40;
const TCP_LEN: usize = 20;

/// Writes packets without payload and with other addresses.
pub struct Anonymiser<W> {
    writer: Writer<W>,
    key: [u8; 32],
    interfaces: FxHashMap<(usize, u32), InterfaceId>,
    addresses: FxHashMap<IpAddr, IpAddr>,
    buffer: Vec<u8>,
    written: u64,
    left_out: u64,
}

impl<W: Write> Anonymiser<W> {
    /// Begins a capture, in the format pcapng. Who knows `key` can compute the addresses back.
    ///
    /// # Errors
    /// If writing fails.
    pub fn new(out: W, key: [u8; 32]) -> io::Result<Anonymiser<W>> {
        Ok(Anonymiser {
            writer: Writer::new(out, "anabranch inspect --anonymise")?,
            key,
            interfaces: FxHashMap::default(),
            addresses: FxHashMap::default(),
            buffer: Vec::new(),
            written: 0,
            left_out: 0,
        })
    }

    /// Takes a packet of the file number `file`.
    ///
    /// # Errors
    /// If writing fails.
    pub fn on_frame(&mut self, file: usize, frame: &Frame<'_>) -> io::Result<()> {
        let Some((at, heading)) = self.rewrite(frame) else {
            self.left_out += 1;
            return Ok(());
        };
        let interface = self.interface(file, frame.interface)?;
        let before = u32::try_from(at).unwrap_or(0);
        self.writer.packet(&Packet {
            interface,
            time: frame.time,
            direction: heading.map(|heading| match heading {
                Heading::In => Direction::Inbound,
                Heading::Out => Direction::Outbound,
            }),
            bytes: &self.buffer,
            original_len: frame.original_len.saturating_sub(before),
            comment: "",
        })?;
        self.written += 1;
        Ok(())
    }

    /// Ends the capture. Returns what it was written to, the packets in it, and the packets that were left out.
    ///
    /// # Errors
    /// If writing fails.
    pub fn finish(self) -> io::Result<(W, u64, u64)> {
        Ok((self.writer.finish()?, self.written, self.left_out))
    }

    fn interface(&mut self, file: usize, number: u32) -> io::Result<InterfaceId> {
        if let Some(known) = self.interfaces.get(&(file, number)) {
            return Ok(*known);
        }
        let next = u32::try_from(self.interfaces.len()).unwrap_or(u32::MAX);
        if next >= MAX_INTERFACES {
            return Ok(InterfaceId(MAX_INTERFACES - 1));
        }
        // A name may say who the host is.
        let made = self.writer.interface(&format!("interface{next}"), "", 0)?;
        self.interfaces.insert((file, number), made);
        Ok(made)
    }

    /// Puts the packet of a frame into the buffer. Returns the place of its IP header in the frame, and its direction; none
    /// if it is left out.
    fn rewrite(&mut self, frame: &Frame<'_>) -> Option<(usize, Option<Heading>)> {
        let inner = link_layer::find(frame.link_type, frame.bytes).ok()?;
        let bytes = frame.bytes.get(inner.at..)?;
        let before = u32::try_from(inner.at).unwrap_or(0);
        let read = view(bytes, frame.original_len.saturating_sub(before)).ok()?;
        let tcp = read.options.start.checked_sub(TCP_LEN)?;
        self.buffer.clear();
        self.buffer.extend_from_slice(bytes.get(..read.options.end)?);
        let (source, destination) =
            (self.renumber(read.segment.source.ip), self.renumber(read.segment.destination.ip));
        match (source, destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                let header = self.buffer.get_mut(..tcp)?;
                header.get_mut(10..12)?.fill(0);
                header.get_mut(12..16)?.copy_from_slice(&source.octets());
                header.get_mut(16..V4_LEN)?.copy_from_slice(&destination.octets());
                // Options, such as a recorded route: each byte is "no operation".
                header.get_mut(V4_LEN..)?.fill(1);
                let sum = !checksum::sum(header);
                header.get_mut(10..12)?.copy_from_slice(&sum.to_be_bytes());
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                if tcp != V6_LEN {
                    return None;
                }
                self.buffer.get_mut(8..24)?.copy_from_slice(&source.octets());
                self.buffer.get_mut(24..V6_LEN)?.copy_from_slice(&destination.octets());
            }
            _ => return None,
        }
        // The checksum of TCP covers payload that is gone.
        self.buffer.get_mut(tcp + 16..tcp + 18)?.fill(0);
        self.empty_options(read.options.start);
        Some((inner.at, frame.heading.or(inner.heading)))
    }

    /// Empties the unknown options of TCP in the buffer from `at` on, and renumbers announced addresses.
    fn empty_options(&mut self, mut at: usize) {
        while let Some(&kind) = self.buffer.get(at) {
            if kind == 0 {
                // Bytes after the end of the list have no meaning.
                self.buffer[at..].fill(0);
                return;
            }
            if kind == 1 {
                at += 1;
                continue;
            }
            let len = self.buffer.get(at + 1).map_or(0, |len| usize::from(*len));
            let end = (at + len.max(2)).min(self.buffer.len());
            let whole = len >= 2 && at + len <= self.buffer.len();
            match kind {
                30 if whole => self.renumber_announced(at, end),
                // MSS, window scale, SACK, timestamps, user timeout.
                2..=5 | 8 | 28 if whole => {}
                _ => self.buffer[(at + 2).min(end)..end].fill(0),
            }
            if !whole {
                let rest = (at + 2).min(self.buffer.len());
                self.buffer[rest..].fill(0);
                return;
            }
            at = end;
        }
    }

    /// Renumbers the address of an ADD_ADDR in the buffer (RFC 8684 section 3.4.1, RFC 6824 section 3.4.1).
    fn renumber_announced(&mut self, at: usize, end: usize) {
        if self.buffer.get(at + 2).is_none_or(|byte| byte >> 4 != 3) {
            return;
        }
        let address = at + 4;
        let (address_len, coded) = match end - at {
            8 | 10 => (4, false),
            16 | 18 => (4, true),
            20 | 22 => (16, false),
            28 | 30 => (16, true),
            _ => {
                self.buffer[address.min(end)..end].fill(0);
                return;
            }
        };
        let bytes = &self.buffer[address..address + address_len];
        let known = match <[u8; 4]>::try_from(bytes) {
            Ok(four) => IpAddr::from(four),
            Err(_) => IpAddr::from(<[u8; 16]>::try_from(bytes).unwrap_or_default()),
        };
        match self.renumber(known) {
            IpAddr::V4(other) => self.buffer[address..address + 4].copy_from_slice(&other.octets()),
            IpAddr::V6(other) => self.buffer[address..address + 16].copy_from_slice(&other.octets()),
        }
        if coded {
            self.buffer[end - 8..end].fill(0);
        }
    }

    fn renumber(&mut self, address: IpAddr) -> IpAddr {
        if let Some(known) = self.addresses.get(&address) {
            return *known;
        }
        let other = match address {
            IpAddr::V4(address) => IpAddr::from(permuted(&self.key, 4, address.octets())),
            IpAddr::V6(address) => IpAddr::from(permuted(&self.key, 6, address.octets())),
        };
        if self.addresses.len() < MAX_ADDRESSES {
            self.addresses.insert(address, other);
        }
        other
    }
}

/// Inverts each bit of an address, or not, by a function of the key and of the bits before it.
fn permuted<const N: usize>(key: &[u8; 32], version: u8, address: [u8; N]) -> [u8; N] {
    let mut other = address;
    let mut prefix = [0; N];
    for bit in 0..8 * N {
        let (byte, mask) = (bit / 8, 0x80 >> (bit % 8));
        let mut hash = Sha256::new();
        hash.update(key);
        hash.update([version, u8::try_from(bit).unwrap_or(u8::MAX)]);
        hash.update(prefix);
        if hash.finalize()[0] & 1 == 1 {
            other[byte] ^= mask;
        }
        prefix[byte] |= address[byte] & mask;
    }
    other
}
