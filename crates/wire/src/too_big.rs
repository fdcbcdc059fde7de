//! ICMP errors for packets that exceed the MTU of the next link.

use std::net::IpAddr;

use crate::checksum;
use crate::ip;

/// The most bytes of the dropped packet that an error quotes: all of its headers, in an error that is short
/// enough for any path (RFC 1812 section 4.3.2.3, RFC 4443 section 2.4 (c)).
const QUOTE: usize = 512;

/// Returns the ICMPv4 "fragmentation needed" (RFC 1191 section 4) or ICMPv6 "packet too big" (RFC 4443
/// section 3.2) error for `dropped`, which reports an MTU of `mtu` bytes. It is addressed to the source of
/// `dropped`, with the destination of `dropped` as its own source. None if `dropped` is no IP packet.
pub fn too_big(dropped: &[u8], mtu: u32) -> Option<Vec<u8>> {
    let inner = ip::parse(dropped, false).ok()?;
    let quote = &dropped[..dropped.len().min(QUOTE)];
    let mut message = vec![0; 8];
    message[4..8].copy_from_slice(&mtu.to_be_bytes());
    message.extend_from_slice(quote);
    let mut packet;
    match (inner.destination, inner.source) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            message[..2].copy_from_slice(&[3, 4]);
            // The MTU field has 16 bits here; the two bytes before it are unused.
            message[4..8].copy_from_slice(&mtu.min(0xffff).to_be_bytes());
            set_checksum(&mut message, 0);
            packet = vec![0; 20];
            packet[0] = 0x45;
            packet[2..4].copy_from_slice(&(20 + message.len() as u16).to_be_bytes());
            packet[8] = 64;
            packet[9] = ip::ICMP;
            packet[12..16].copy_from_slice(&from.octets());
            packet[16..20].copy_from_slice(&to.octets());
            let sum = !checksum::sum(&packet);
            packet[10..12].copy_from_slice(&sum.to_be_bytes());
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            message[0] = 2;
            let covered = ip::covered_by_icmp_v6(from.into(), to.into(), message.len());
            set_checksum(&mut message, covered);
            packet = vec![0; 40];
            packet[0] = 0x60;
            packet[4..6].copy_from_slice(&(message.len() as u16).to_be_bytes());
            packet[6] = ip::ICMP_V6;
            packet[7] = 64;
            packet[8..24].copy_from_slice(&from.octets());
            packet[24..40].copy_from_slice(&to.octets());
        }
        _ => return None,
    }
    packet.extend_from_slice(&message);
    Some(packet)
}

fn set_checksum(message: &mut [u8], covered: u16) {
    let sum = !checksum::combine(covered, checksum::sum(message));
    message[2..4].copy_from_slice(&sum.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use anabranch_stack::segment::{Address, Flags, Segment};
    use anabranch_stack::seq::Seq;

    use super::*;
    use crate::{Checksum, IcmpKind, IpFields, emit_header, parse_icmp};

    #[test]
    fn what_is_written_is_read_again() {
        let ends: [(IpAddr, IpAddr); 2] = [
            (Ipv4Addr::new(10, 0, 0, 1).into(), Ipv4Addr::new(192, 0, 2, 9).into()),
            (Ipv6Addr::LOCALHOST.into(), "2001:db8::9".parse::<Ipv6Addr>().expect("an address").into()),
        ];
        for (from, to) in ends {
            let (from, to) = (Address::new(from, 5001), Address::new(to, 80));
            let mut segment = Segment::new(from, to, Seq(0xfedc_ba98), Flags::ACK);
            segment.payload_len = 1400;
            let mut packet = vec![0; 2000];
            let header = emit_header(&segment, &IpFields::default(), &mut packet).expect("space");
            packet.truncate(header.len() + 1400);
            header.finish_with_sum(&mut packet, Checksum::Full, 0);
            let answer = too_big(&packet, 1300).expect("an IP packet");
            let error = parse_icmp(&answer).expect("an ICMP error");
            assert_eq!((error.source, error.destination, error.seq), (from, to, segment.seq));
            assert_eq!(error.kind, IcmpKind::TooBig { mtu: Some(1300) });
            assert_eq!(error.packet_len, packet.len());
            let mut broken = answer.clone();
            *broken.last_mut().expect("not empty") ^= 1;
            assert_eq!(parse_icmp(&broken), None);
        }
        assert_eq!(too_big(&[], 1300), None);
        assert_eq!(too_big(&[0x45; 30], 1300), None);
    }
}
