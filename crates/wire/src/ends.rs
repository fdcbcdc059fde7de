//! The ends of the TCP connection that a received packet concerns.

use anabranch_stack::segment::Address;

use crate::fields::Reader;
use crate::{ip, parse_icmp};

/// Returns the ends of the TCP connection that a received packet concerns, this host's first: those of a TCP segment, or of
/// the segment that an ICMP error quotes. Checksums of segments are not verified. None for other packets, and for fragments.
///
/// ```
/// use anabranch_stack::segment::{Address, Flags, Segment};
/// use anabranch_stack::seq::Seq;
/// use anabranch_wire::{Checksum, IpFields, emit, ends};
///
/// let [here, there] = [([10, 0, 0, 1], 80), ([10, 0, 0, 2], 5000)].map(|(ip, port)| Address::new(ip.into(), port));
/// let segment = Segment::new(there, here, Seq(1), Flags::SYN);
/// let mut packet = [0; 100];
/// let len = emit(&segment, &IpFields::default(), Checksum::Full, &mut packet, |_| {})?;
/// assert_eq!(ends(&packet[..len]), Some((here, there)));
/// # Ok::<(), anabranch_wire::EmitError>(())
/// ```
pub fn ends(packet: &[u8]) -> Option<(Address, Address)> {
    let header = ip::parse(packet, false).ok()?;
    match header.protocol {
        ip::TCP => {
            let mut tcp = Reader(packet.get(header.payload.start..)?);
            let (source, destination) = (tcp.u16()?, tcp.u16()?);
            Some((Address::new(header.destination, destination), Address::new(header.source, source)))
        }
        ip::ICMP | ip::ICMP_V6 => parse_icmp(packet).map(|error| (error.source, error.destination)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use anabranch_stack::segment::{Flags, Segment};
    use anabranch_stack::seq::Seq;

    use super::*;
    use crate::{Checksum, IpFields, emit, too_big};

    #[test]
    fn an_error_concerns_the_segment_that_it_quotes() {
        for (here, there) in [("10.0.0.1", "10.0.0.2"), ("fd86::1", "fd86::2")] {
            let (here, there) =
                (Address::new(here.parse().unwrap(), 80), Address::new(there.parse().unwrap(), 5000));
            let mut packet = [0; 1500];
            let sent = Segment::new(here, there, Seq(1), Flags::ACK);
            let len = emit(&sent, &IpFields::default(), Checksum::Full, &mut packet, |_| {}).unwrap();
            assert_eq!(ends(&packet[..len]), Some((there, here)), "as its receiver");
            let error = too_big(&packet[..len], 1300).unwrap();
            assert_eq!(ends(&error), Some((here, there)));
            assert_eq!(ends(&packet[..22]), None);
        }
        assert_eq!(ends(&[]), None);
    }
}
