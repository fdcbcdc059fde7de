//! A middlebox applied to the bytes of packets.

use std::net::IpAddr;

use anabranch_link::{Connection, Middlebox, Passed, Passing};
use anabranch_stack::segment::{Address, Flags, Segment};
use anabranch_stack::seq::Seq;
use anabranch_units::Time;

use crate::ip::{self, Ip};
use crate::options::{MPTCP, MSS, NOP};
use crate::{Checksum, IpFields, checksum, emit};

/// The length of the TCP header without options.
const TCP_LEN: usize = 20;

/// The subtypes of MP_CAPABLE and MP_JOIN (RFC 8684 section 8.2).
const OPENING: [u8; 2] = [0, 1];

/// The fate of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Crossed {
    /// It goes on, possibly changed.
    On,
    /// It vanishes; with the packet that its sender receives as an answer.
    Dropped(Option<Vec<u8>>),
}

/// Lets an IP packet pass `middlebox` at `now`; `outgoing` if it leaves the client. Removed options are overwritten by
/// no-operations, and checksums are corrected. Packets other than whole TCP segments go on as they are.
pub fn cross(middlebox: &mut Middlebox, now: Time, outgoing: bool, packet: &mut [u8]) -> Crossed {
    let Some(layout) = Layout::of(packet) else { return Crossed::On };
    match middlebox.pass(now, &layout.passing(packet, outgoing)) {
        Passed::UNCHANGED => Crossed::On,
        Passed::On { strip, mss } => {
            let segment = &mut packet[layout.ip.payload.clone()];
            let mut at = TCP_LEN;
            while let Some(option) = next_option(segment, at, layout.header) {
                match (option.kind, mss) {
                    (MPTCP, _) if strip => segment[option.at..option.end].fill(NOP),
                    (MSS, Some(mss)) if option.end == option.at + 4 => {
                        segment[option.at + 2..option.end].copy_from_slice(&mss.to_be_bytes());
                    }
                    _ => {}
                }
                at = option.end;
            }
            segment[16..18].fill(0);
            let pseudo = checksum::pseudo_header(layout.ip.source, layout.ip.destination, segment.len());
            let sum = !checksum::combine(pseudo, checksum::sum(segment));
            segment[16..18].copy_from_slice(&sum.to_be_bytes());
            Crossed::On
        }
        Passed::Dropped { reset } => Crossed::Dropped(reset.then(|| layout.reset(packet)).flatten()),
    }
}

/// A TCP segment in an IP packet.
#[derive(Clone, Debug)]
struct Layout {
    ip: Ip,
    /// The length of the TCP header.
    header: usize,
}

/// An option of a segment, and its range.
#[derive(Clone, Copy, Debug)]
struct Place {
    kind: u8,
    at: usize,
    end: usize,
}

/// Returns the option at `at` or after it, of a segment with a header of this length.
fn next_option(segment: &[u8], mut at: usize, header: usize) -> Option<Place> {
    while at < header {
        match segment[at] {
            0 => return None,
            NOP => at += 1,
            kind => {
                let len = segment.get(at + 1).map_or(0, |len| usize::from(*len));
                let end = at + len;
                return (len >= 2 && end <= header).then_some(Place { kind, at, end });
            }
        }
    }
    None
}

impl Layout {
    /// Returns the layout of `packet`; none if it is no whole TCP segment.
    fn of(packet: &[u8]) -> Option<Layout> {
        let ip = ip::parse(packet, false).ok()?;
        let segment = packet.get(ip.payload.clone()).filter(|_| ip.protocol == ip::TCP)?;
        let header = usize::from(*segment.get(12)? >> 4) * 4;
        (header >= TCP_LEN && header <= segment.len()).then_some(Layout { ip, header })
    }

    fn flags(&self, packet: &[u8]) -> Flags {
        Flags(packet[self.ip.payload.start + 13])
    }

    fn ports(&self, packet: &[u8]) -> [u16; 2] {
        let at = self.ip.payload.start;
        [0, 2].map(|offset| u16::from_be_bytes([packet[at + offset], packet[at + offset + 1]]))
    }

    fn number(&self, packet: &[u8], offset: usize) -> u32 {
        let at = self.ip.payload.start + offset;
        u32::from_be_bytes([packet[at], packet[at + 1], packet[at + 2], packet[at + 3]])
    }

    fn passing(&self, packet: &[u8], outgoing: bool) -> Passing {
        let segment = &packet[self.ip.payload.clone()];
        let [source, destination] = self.ports(packet);
        let (from, to): ((IpAddr, u16), (IpAddr, u16)) =
            ((self.ip.source, source), (self.ip.destination, destination));
        let (near, far) = if outgoing { (from, to) } else { (to, from) };
        let (mut mptcp, mut opens, mut mss) = (false, false, None);
        let mut at = TCP_LEN;
        while let Some(option) = next_option(segment, at, self.header) {
            match option.kind {
                MPTCP => {
                    mptcp = true;
                    opens |= segment[..option.end]
                        .get(option.at + 2)
                        .is_some_and(|subtype| OPENING.contains(&(subtype >> 4)));
                }
                MSS if option.end == option.at + 4 => {
                    mss = Some(u16::from_be_bytes([segment[option.at + 2], segment[option.at + 3]]));
                }
                _ => {}
            }
            at = option.end;
        }
        let flags = self.flags(packet);
        Passing {
            outgoing,
            connection: Connection { near, far },
            syn: flags.has(Flags::SYN),
            ack: flags.has(Flags::ACK),
            rst: flags.has(Flags::RST),
            opening: opens && segment.len() == self.header,
            mptcp,
            mss,
        }
    }

    /// Returns the reset that answers the segment, as from a host without the connection (RFC 9293 section 3.10.7.1).
    fn reset(&self, packet: &[u8]) -> Option<Vec<u8>> {
        let [source, destination] = self.ports(packet);
        let (from, to) =
            (Address::new(self.ip.destination, destination), Address::new(self.ip.source, source));
        let flags = self.flags(packet);
        let segment = if flags.has(Flags::ACK) {
            Segment::new(from, to, Seq(self.number(packet, 8)), Flags::RST)
        } else {
            let len = (self.ip.payload.len() - self.header) as u64;
            let taken = len + u64::from(flags.has(Flags::SYN)) + u64::from(flags.has(Flags::FIN));
            let mut reset = Segment::new(from, to, Seq(0), Flags::RST.with(Flags::ACK));
            reset.ack = Seq(self.number(packet, 4)).add(taken);
            reset
        };
        let mut bytes = vec![0; 64];
        let len = emit(&segment, &IpFields::default(), Checksum::Full, &mut bytes, |_| {}).ok()?;
        bytes.truncate(len);
        Some(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Checksums, parse};
    use anabranch_link::{MiddleboxConfig, Nat, Strip};
    use anabranch_stack::segment::{DataAck, Dss, SynOptions, Timestamps};
    use anabranch_stack::seq::Dsn;
    use anabranch_units::{Duration, RandomStream};

    const ADDRESSES: [[&str; 2]; 2] = [["10.0.0.1", "10.0.0.2"], ["fd00::1", "fd00::2"]];

    fn segment(ips: [&str; 2], flags: Flags) -> Segment {
        let [from, to] = ips.map(|ip| Address::new(ip.parse().unwrap(), 2000));
        let mut segment = Segment::new(from, to, Seq(9), flags);
        segment.ack = Seq(77);
        segment.options.timestamps = Some(Timestamps { value: 1, echo: 2 });
        segment
    }

    fn bytes(segment: &Segment) -> Vec<u8> {
        let mut bytes = vec![0; 2000];
        let filled = |space: &mut [u8]| space.fill(7);
        let len = emit(segment, &IpFields::default(), Checksum::Full, &mut bytes, filled).unwrap();
        bytes.truncate(len);
        bytes
    }

    #[test]
    fn data_loses_its_signal_and_keeps_its_length_and_a_right_checksum() {
        for ips in ADDRESSES {
            let mut segment = segment(ips, Flags::ACK);
            segment.payload_len = 101;
            segment.options.dss =
                Some(Dss { data_ack: Some(DataAck::Wide(Dsn(5))), mapping: None, data_fin: false });
            let config = MiddleboxConfig { strip: Strip::Data, ..MiddleboxConfig::default() };
            let mut middlebox = Middlebox::new(config);
            let mut packet = bytes(&segment);
            let len = packet.len();
            assert_eq!(cross(&mut middlebox, Time::ZERO, true, &mut packet), Crossed::On);
            assert_eq!(packet.len(), len);
            let after = parse(&packet, Checksums::Verify).unwrap().segment;
            let mut expected = segment;
            expected.options.dss = None;
            expected.payload_sum = after.payload_sum;
            assert_eq!(after, expected);
            assert_eq!(middlebox.counters().stripped, 1);
        }
    }

    #[test]
    fn the_mss_of_a_syn_is_lowered_and_nothing_else() {
        for ips in ADDRESSES {
            let mut segment = segment(ips, Flags::SYN);
            segment.ack = Seq(0);
            segment.options.syn = Some(SynOptions { mss: 1460, window_scale: Some(7), sack_permitted: true });
            let config = MiddleboxConfig { mss_clamp: Some(1360), ..MiddleboxConfig::default() };
            let mut middlebox = Middlebox::new(config);
            let mut packet = bytes(&segment);
            assert_eq!(cross(&mut middlebox, Time::ZERO, true, &mut packet), Crossed::On);
            let after = parse(&packet, Checksums::Verify).unwrap().segment;
            segment.options.syn = Some(SynOptions { mss: 1360, window_scale: Some(7), sack_permitted: true });
            assert_eq!(after, segment);
        }
    }

    #[test]
    fn a_forgotten_connection_is_reset_as_by_the_other_end() {
        for ips in ADDRESSES {
            let nat = Some(Nat { timeout: Duration::from_secs(1), resets: true });
            let mut middlebox = Middlebox::new(MiddleboxConfig { nat, ..MiddleboxConfig::default() });
            let Crossed::Dropped(Some(answer)) =
                cross(&mut middlebox, Time::ZERO, true, &mut bytes(&segment(ips, Flags::ACK)))
            else {
                panic!("no answer")
            };
            let reset = parse(&answer, Checksums::Verify).unwrap().segment;
            assert_eq!(reset.source.ip, ips[1].parse::<IpAddr>().unwrap());
            assert_eq!((reset.seq, reset.flags), (Seq(77), Flags::RST));
            // The server gets none.
            let back = segment([ips[1], ips[0]], Flags::ACK);
            assert_eq!(cross(&mut middlebox, Time::ZERO, false, &mut bytes(&back)), Crossed::Dropped(None));
        }
    }

    #[test]
    fn no_bytes_cause_a_panic() {
        let mut random = RandomStream::new(1, "middlebox");
        let nat = Some(Nat { timeout: Duration::from_secs(1), resets: true });
        let config =
            MiddleboxConfig { strip: Strip::All, mss_clamp: Some(100), nat, ..MiddleboxConfig::default() };
        for _ in 0..20_000 {
            let mut packet = bytes(&segment(ADDRESSES[random.below(2) as usize], Flags::SYN));
            for _ in 0..random.below(6) {
                let at = random.below(packet.len() as u64) as usize;
                packet[at] = random.below(256) as u8;
            }
            packet.truncate(random.below(packet.len() as u64 + 1) as usize);
            let mut middlebox = Middlebox::new(config);
            let _ = cross(&mut middlebox, Time::ZERO, random.chance(0.5), &mut packet);
        }
    }
}
