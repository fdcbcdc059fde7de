//! A device that several processes share: one process owns it, and gives each of the others addresses of its own over a socket of UNIX.
//!
//! The socket has whole messages (`SOCK_SEQPACKET`). The first one of the owner is the [`Greeting`], or a text that refuses the process. Then
//! each message is an IP packet after four bytes: flags, a zero, and the payload of each segment as a big-endian number.

mod owner;
#[cfg(test)]
mod tests;
mod user;

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::{Capabilities, Offload, Packet};

pub use owner::{Event, Share, ShareCounters};
pub use user::SharedDevice;

/// The bytes before each packet.
const HEADER: usize = 4;
/// Set in the flags of a packet with a partial checksum.
const PARTIAL: u8 = 1;
/// The beginning of the first message, with the version of the protocol.
const MAGIC: [u8; 5] = *b"ANBR\x01";
/// The kinds of a first message.
const WELCOME: u8 = 0;
const REFUSAL: u8 = 1;
/// The flags of a device's offload.
const CHECKSUMS: u8 = 1;
const SEGMENTATION: u8 = 2;
/// The MTUs that a device can have.
const MTUS: std::ops::RangeInclusive<u32> = 68..=65_535;
/// The longest first message.
const LONGEST_GREETING: usize = 8192;

/// The device and the addresses that a process gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Greeting {
    /// The name of the device.
    pub device: String,
    /// Its capabilities.
    pub capabilities: Capabilities,
    /// The addresses of this process, in order of preference.
    pub addresses: Vec<IpAddr>,
}

impl Greeting {
    /// Returns its message.
    fn message(&self) -> Vec<u8> {
        let Capabilities { mtu, checksum_offload, segmentation_offload } = self.capabilities;
        let mut flags = 0;
        for (flag, is_set) in [(CHECKSUMS, checksum_offload), (SEGMENTATION, segmentation_offload)] {
            flags |= if is_set { flag } else { 0 };
        }
        let mut message = MAGIC.to_vec();
        message.extend([WELCOME, flags, self.device.len() as u8]);
        message.extend(mtu.to_be_bytes());
        message.extend(self.device.as_bytes());
        for address in &self.addresses {
            match address {
                IpAddr::V4(ip) => {
                    message.push(4);
                    message.extend(ip.octets());
                }
                IpAddr::V6(ip) => {
                    message.push(6);
                    message.extend(ip.octets());
                }
            }
        }
        message
    }

    /// Reads the first message of an owner.
    ///
    /// # Errors
    /// The words of a refusal, or that it is no such message.
    fn parse(message: &[u8]) -> io::Result<Greeting> {
        let foreign = || {
            io::Error::new(
                io::ErrorKind::InvalidData,
                "the socket is not one of this version of `anabranch tun share`",
            )
        };
        let rest = message.strip_prefix(&MAGIC).ok_or_else(foreign)?;
        if let Some(words) = rest.strip_prefix(&[REFUSAL]) {
            return Err(io::Error::new(
                io::ErrorKind::ResourceBusy,
                String::from_utf8_lossy(words).into_owned(),
            ));
        }
        let parsed = || {
            let (&[kind, flags, name], rest) = rest.split_first_chunk::<3>()?;
            let (mtu, rest) = rest.split_first_chunk::<4>()?;
            let (name, mut rest) = rest.split_at_checked(name.into())?;
            let mut addresses = Vec::new();
            while let Some((family, tail)) = rest.split_first() {
                rest = match family {
                    4 => {
                        let (octets, tail) = tail.split_first_chunk::<4>()?;
                        addresses.push(Ipv4Addr::from(*octets).into());
                        tail
                    }
                    6 => {
                        let (octets, tail) = tail.split_first_chunk::<16>()?;
                        addresses.push(Ipv6Addr::from(*octets).into());
                        tail
                    }
                    _ => return None,
                };
            }
            let capabilities = Capabilities {
                mtu: u32::from_be_bytes(*mtu),
                checksum_offload: flags & CHECKSUMS != 0,
                segmentation_offload: flags & SEGMENTATION != 0,
            };
            let device = std::str::from_utf8(name).ok()?.to_owned();
            let is_whole = kind == WELCOME && !addresses.is_empty() && MTUS.contains(&capabilities.mtu);
            is_whole.then_some(Greeting { device, capabilities, addresses })
        };
        parsed().ok_or_else(foreign)
    }
}

/// Returns the message that refuses a process.
fn refusal(words: &str) -> Vec<u8> {
    let mut message = MAGIC.to_vec();
    message.push(REFUSAL);
    message.extend(words.as_bytes());
    message
}

/// Writes the header of a packet before it, and returns both.
fn to_message(packet: &mut Packet) -> &[u8] {
    let Offload { partial_checksum, segment_size } = packet.offload;
    let flags = if partial_checksum { PARTIAL } else { 0 };
    let [high, low] = segment_size.to_be_bytes();
    let message = packet.with_headroom(HEADER);
    message[..HEADER].copy_from_slice(&[flags, 0, high, low]);
    message
}

/// Makes the packet of a message of this length that was read into its space. None if it is too short.
fn of_message(packet: &mut Packet, length: usize) -> Option<()> {
    let header = *packet.whole(HEADER).first_chunk::<HEADER>()?;
    packet.set_len(length.checked_sub(HEADER).filter(|len| *len > 0)?);
    let [flags, _, high, low] = header;
    packet.offload =
        Offload { partial_checksum: flags & PARTIAL != 0, segment_size: u16::from_be_bytes([high, low]) };
    Some(())
}
