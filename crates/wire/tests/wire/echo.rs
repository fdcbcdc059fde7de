//! Pings and their answers.

use anabranch_wire::{checksum, echo_reply, echo_request};

use crate::kit::{ACK, packet_of, segment};

/// Returns a `ping` from 192.0.2.1 to 198.51.100.2, with a differentiated services code point and 9 bytes of
/// data.
fn v4() -> Vec<u8> {
    let mut packet = vec![0x45, 0xb8, 0, 37, 0xab, 0xcd, 0x40, 0, 61, 1, 0, 0];
    packet.extend([192, 0, 2, 1, 198, 51, 100, 2]);
    let sum = !checksum::sum(&packet);
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    packet.extend([8, 0, 0, 0, 0x12, 0x34, 0, 1]);
    packet.extend(b"some data");
    seal(&mut packet, 20, 0);
    packet
}

fn v6() -> Vec<u8> {
    let mut packet = vec![0x6b, 0x80, 0, 5, 0, 17, 58, 61];
    packet.extend([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
    packet.extend([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2]);
    packet.extend([128, 0, 0, 0, 0x12, 0x34, 0, 1]);
    packet.extend(b"some data");
    let pseudo = checksum::combine(checksum::sum(&packet[8..40]), 17 + 58);
    seal(&mut packet, 40, pseudo);
    packet
}

fn seal(packet: &mut [u8], at: usize, covered: u16) {
    packet[at + 2..at + 4].fill(0);
    let sum = !checksum::combine(covered, checksum::sum(&packet[at..]));
    packet[at + 2..at + 4].copy_from_slice(&sum.to_be_bytes());
}

fn word(packet: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([packet[at], packet[at + 1]])
}

#[test]
fn a_ping_over_ipv4_is_answered() {
    let request = v4();
    assert_eq!(echo_request(&request), Some([198, 51, 100, 2].into()));
    let mut reply = request.clone();
    assert!(echo_reply(&mut reply));
    assert_eq!(reply[..10], [0x45, 0, 0, 37, 0, 0, 0x40, 0, 64, 1]);
    assert_eq!(checksum::sum(&reply[..20]), 0xffff);
    assert_eq!(reply[12..20], [198, 51, 100, 2, 192, 0, 2, 1]);
    assert_eq!(reply[20..22], [0, 0]);
    // The type has changed from 8 to 0, and the sum rises by as much.
    assert_eq!(word(&reply, 22), checksum::combine(word(&request, 22), 0x0800));
    assert_eq!(reply[24..], request[24..]);
    assert!(!echo_reply(&mut reply), "a reply has none");
}

#[test]
fn a_ping_over_ipv6_is_answered() {
    let request = v6();
    let mut reply = request.clone();
    assert!(echo_reply(&mut reply));
    assert_eq!(reply[..8], [0x60, 0, 0, 0, 0, 17, 58, 64]);
    assert_eq!((&reply[8..24], &reply[24..40]), (&request[24..40], &request[8..24]));
    assert_eq!(reply[40..42], [129, 0]);
    // From 0x8000 to 0x8100.
    assert_eq!(checksum::combine(word(&reply, 42), 0x0100), word(&request, 42));
    assert_eq!(reply[44..], request[44..]);
    assert!(!echo_reply(&mut reply), "a reply has none");
}

#[test]
fn nothing_else_is_answered() {
    let stays = |packet: Vec<u8>| {
        let mut answered = packet.clone();
        assert!(!echo_reply(&mut answered) && answered == packet, "{packet:?}");
    };
    for whole in [v4(), v6()] {
        for cut in 0..whole.len() {
            stays(whole[..cut].to_vec());
        }
        let mut wrong = whole.clone();
        *wrong.last_mut().unwrap() ^= 1;
        stays(wrong);
    }
    let header = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut packet = v4();
        change(&mut packet);
        packet[10..12].fill(0);
        let sum = !checksum::sum(&packet[..20]);
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
        packet
    };
    let mut same = header(&|_| {});
    assert!(echo_reply(&mut same));
    // Multicast and broadcast addresses, the unspecified address, a fragment, another protocol.
    stays(header(&|packet| packet[16] = 224));
    stays(header(&|packet| packet[16..20].fill(255)));
    stays(header(&|packet| packet[12] = 224));
    stays(header(&|packet| packet[12..16].fill(0)));
    stays(header(&|packet| packet[6] = 0x20));
    stays(header(&|packet| packet[9] = 17));
    // A timestamp request, and another code.
    for (at, byte) in [(20, 13), (21, 1)] {
        let mut packet = v4();
        packet[at] = byte;
        seal(&mut packet, 20, 0);
        stays(packet);
    }
    stays(packet_of(&segment(ACK)));
}
