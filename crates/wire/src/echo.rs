//! ICMP echo: replies to pings.

use std::net::IpAddr;

use crate::checksum;
use crate::ip::{self, V4_LEN, V6_LEN};

/// The type and code of an echo request and of its reply, ICMP (RFC 792) and ICMPv6 (RFC 4443 section 4).
const REQUEST: [u8; 2] = [8, 0];
const REPLY: [u8; 2] = [0, 0];
const REQUEST_V6: [u8; 2] = [128, 0];
const REPLY_V6: [u8; 2] = [129, 0];
/// The length of an echo message without data.
const ECHO_LEN: usize = 8;
const HOP_LIMIT: u8 = 64;

/// Returns the destination of a ping; none if `packet` is anything but an ICMP or ICMPv6 echo request with a
/// correct checksum from one host to another. A request with IP options or extension headers is not
/// recognised.
pub fn echo_request(packet: &[u8]) -> Option<IpAddr> {
    let header = ip::parse(packet, true).ok()?;
    let message = packet.get(header.payload.clone())?;
    let (plain, covered) = match (header.source, header.destination) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            let one = !from.is_unspecified() && !from.is_multicast() && !from.is_broadcast();
            let one = one && !to.is_multicast() && !to.is_broadcast();
            (one && header.protocol == ip::ICMP && header.payload.start == V4_LEN, 0)
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            let one = !from.is_unspecified() && !from.is_multicast() && !to.is_multicast();
            let covered = ip::covered_by_icmp_v6(from.into(), to.into(), message.len());
            (one && header.protocol == ip::ICMP_V6 && header.payload.start == V6_LEN, covered)
        }
        _ => return None,
    };
    let request = if header.destination.is_ipv4() { REQUEST } else { REQUEST_V6 };
    let right = checksum::combine(covered, checksum::sum(message)) == 0xffff;
    (plain && right && message.len() >= ECHO_LEN && message.starts_with(&request))
        .then_some(header.destination)
}

/// Turns the echo request `packet` into its reply; returns false, and leaves the packet as it is, for
/// anything else.
pub fn echo_reply(packet: &mut [u8]) -> bool {
    let Some(own) = echo_request(packet) else { return false };
    let Ok(header) = ip::parse(packet, false) else { return false };
    let end = header.payload.end;
    let (message_at, covered) = match own {
        IpAddr::V4(_) => {
            // Like every packet of this crate: not ECN-marked, not to be fragmented, without an
            // identification.
            packet[1] = 0;
            packet[4..8].copy_from_slice(&[0, 0, 0x40, 0]);
            packet[8] = HOP_LIMIT;
            swap(packet, 12, 4);
            packet[10..12].fill(0);
            let check = !checksum::sum(&packet[..V4_LEN]);
            packet[10..12].copy_from_slice(&check.to_be_bytes());
            packet[V4_LEN..V4_LEN + 2].copy_from_slice(&REPLY);
            (V4_LEN, 0)
        }
        IpAddr::V6(_) => {
            packet[..4].copy_from_slice(&[0x60, 0, 0, 0]);
            packet[7] = HOP_LIMIT;
            swap(packet, 8, 16);
            packet[V6_LEN..V6_LEN + 2].copy_from_slice(&REPLY_V6);
            (V6_LEN, ip::covered_by_icmp_v6(own, header.source, end - V6_LEN))
        }
    };
    packet[message_at + 2..message_at + 4].fill(0);
    let check = !checksum::combine(covered, checksum::sum(&packet[message_at..end]));
    packet[message_at + 2..message_at + 4].copy_from_slice(&check.to_be_bytes());
    true
}

/// Swaps the two addresses of `len` bytes that begin at `at`.
fn swap(packet: &mut [u8], at: usize, len: usize) {
    let (first, second) = packet[at..at + 2 * len].split_at_mut(len);
    first.swap_with_slice(second);
}
