//! Hand-made packets.

use anabranch_stack::segment::{Address, Flags, Options, Segment};
use anabranch_stack::seq::Seq;
use anabranch_wire::{Checksum, Checksums, IpFields, checksum, emit, parse};

pub const SYN: Flags = Flags::SYN;
pub const ACK: Flags = Flags::ACK;
pub const SYN_ACK: Flags = Flags::SYN.with(Flags::ACK);
pub const RST: Flags = Flags::RST;

pub fn v4() -> (Address, Address) {
    (Address::new([192, 0, 2, 1].into(), 4001), Address::new([198, 51, 100, 7].into(), 80))
}

pub fn v6() -> (Address, Address) {
    let ip = |last| core::net::Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, last).into();
    (Address::new(ip(1), 4001), Address::new(ip(2), 80))
}

pub fn segment(flags: Flags) -> Segment {
    let mut segment = Segment::new(v4().0, v4().1, Seq(0xffff_fff0), flags);
    if flags.has(Flags::ACK) {
        segment.ack = Seq(77);
    }
    segment.window = 512;
    segment
}

/// Returns the bytes of hexadecimal digits; blanks are skipped.
pub fn hex(digits: &str) -> Vec<u8> {
    let digits: Vec<u32> = digits.chars().filter_map(|digit| digit.to_digit(16)).collect();
    digits.chunks(2).map(|pair| (pair[0] << 4 | pair[1]) as u8).collect()
}

/// Returns the packet of `segment` with the payload `fill(0), fill(1), ...`.
pub fn packet_of(segment: &Segment) -> Vec<u8> {
    let mut out = vec![0; 70_000];
    let len = emit(segment, &IpFields::default(), Checksum::Full, &mut out, |payload| {
        for (at, byte) in payload.iter_mut().enumerate() {
            *byte = (at * 7 + 3) as u8;
        }
    })
    .expect("a segment that fits");
    out.truncate(len);
    out
}

/// Returns an IPv4 packet with these option bytes, padded with NOPs, and this much payload.
pub fn packet_with(flags: Flags, options: &[u8], payload: usize) -> Vec<u8> {
    let mut padded = options.to_vec();
    padded.resize(options.len().div_ceil(4) * 4, 1);
    let mut packet = packet_of(&segment(flags));
    packet[32] = ((20 + padded.len()) as u8 / 4) << 4;
    packet.extend(&padded);
    packet.extend(vec![0x55; payload]);
    let total = packet.len() as u16;
    packet[2..4].copy_from_slice(&total.to_be_bytes());
    reseal(&mut packet);
    packet
}

/// Corrects the checksums of an IPv4 packet with TCP.
pub fn reseal(packet: &mut [u8]) {
    let ip_len = usize::from(packet[0] & 15) * 4;
    packet[10..12].fill(0);
    let ip = !checksum::sum(&packet[..ip_len]);
    packet[10..12].copy_from_slice(&ip.to_be_bytes());
    packet[ip_len + 16..ip_len + 18].fill(0);
    let tcp_len = packet.len() - ip_len;
    let pseudo = checksum::combine(checksum::sum(&packet[12..20]), 6 + tcp_len as u16);
    let tcp = !checksum::combine(pseudo, checksum::sum(&packet[ip_len..]));
    packet[ip_len + 16..ip_len + 18].copy_from_slice(&tcp.to_be_bytes());
}

/// Returns the options that are parsed from these option bytes on a segment with these flags.
pub fn read(flags: Flags, options: &[u8], payload: usize) -> Options {
    let packet = packet_with(flags, options, payload);
    parse(&packet, Checksums::Verify).expect("a whole packet").segment.options
}

/// Returns the bytes of the options as they are written, padding included.
pub fn written(flags: Flags, options: Options) -> Vec<u8> {
    let packet = packet_of(&Segment { options, ..segment(flags) });
    packet[40..].to_vec()
}
