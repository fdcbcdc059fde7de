//! The way from a frame to its IP packet: Ethernet with tags and labels, Linux cooked captures, PPP, loopback, raw.

use crate::capture::Heading;

/// The place of an IP packet in a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Inner {
    /// The offset of the IP header.
    pub at: usize,
    /// The direction, if the link layer states it.
    pub heading: Option<Heading>,
}

/// The reason that a frame has no IP packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NoIp {
    /// It carries another protocol, or is too short.
    Other,
    /// The link type is not known.
    LinkType,
}

const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
const MPLS: u16 = 0x8847;
const MPLS_UPSTREAM: u16 = 0x8848;
const PPPOE_SESSION: u16 = 0x8864;
/// The most tags and labels of a frame.
const MAX_TAGS: usize = 16;

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

/// Finds the IP packet of a frame.
pub(crate) fn find(link_type: u32, bytes: &[u8]) -> Result<Inner, NoIp> {
    let plain = |at: Option<usize>| at.map(|at| Inner { at, heading: None }).ok_or(NoIp::Other);
    match link_type {
        // EN10MB.
        1 => plain(u16_at(bytes, 12).and_then(|kind| by_type(bytes, kind, 14))),
        // NULL in the byte order of the capturing host, and LOOP: the family, which the IP version repeats.
        0 | 108 => plain(by_version(bytes, 4)),
        // RAW and its old numbers, IPV4, IPV6.
        12 | 14 | 101 | 228 | 229 => plain(by_version(bytes, 0)),
        // PPP, PPP in HDLC framing, and with a direction before it.
        9 | 50 => plain(ppp(bytes, 0)),
        204 => {
            let heading = match bytes.first() {
                Some(0) => Some(Heading::In),
                Some(_) => Some(Heading::Out),
                None => None,
            };
            let at = ppp(bytes, 1).ok_or(NoIp::Other)?;
            Ok(Inner { at, heading })
        }
        // PPPoE.
        51 => plain(ppp(bytes, 6)),
        // Cisco HDLC.
        104 => plain(u16_at(bytes, 2).and_then(|kind| by_type(bytes, kind, 4))),
        // LINUX_SLL and LINUX_SLL2.
        113 => cooked(bytes, u16_at(bytes, 0), u16_at(bytes, 14), 16),
        276 => cooked(bytes, bytes.get(10).map(|kind| u16::from(*kind)), u16_at(bytes, 0), 20),
        _ => Err(NoIp::LinkType),
    }
}

fn cooked(bytes: &[u8], packet_type: Option<u16>, protocol: Option<u16>, at: usize) -> Result<Inner, NoIp> {
    let heading = match packet_type {
        Some(0) => Some(Heading::In),
        Some(4) => Some(Heading::Out),
        _ => None,
    };
    let at = protocol.and_then(|kind| by_type(bytes, kind, at)).ok_or(NoIp::Other)?;
    Ok(Inner { at, heading })
}

/// Returns `at` if an IP packet begins there.
fn by_version(bytes: &[u8], at: usize) -> Option<usize> {
    matches!(bytes.get(at)? >> 4, 4 | 6).then_some(at)
}

/// Follows the tags and labels from the type `kind`, with its content at `at`.
fn by_type(bytes: &[u8], mut kind: u16, mut at: usize) -> Option<usize> {
    for _ in 0..MAX_TAGS {
        match kind {
            IPV4 | IPV6 => return by_version(bytes, at),
            // 802.1Q, 802.1ad, and the tags before it.
            0x8100 | 0x88a8 | 0x9100 | 0x9200 => {
                kind = u16_at(bytes, at + 2)?;
                at += 4;
            }
            MPLS | MPLS_UPSTREAM => {
                let last = bytes.get(at + 2)? & 1 == 1;
                at += 4;
                if last {
                    // The label does not name the content: IP, or Ethernet after a control word (RFC 4385, RFC 4448).
                    return by_version(bytes, at).or_else(|| {
                        let at = if bytes.get(at)? >> 4 == 0 { at + 4 } else { at };
                        by_type(bytes, u16_at(bytes, at + 12)?, at + 14)
                    });
                }
            }
            PPPOE_SESSION => return ppp(bytes, at + 6),
            _ => return None,
        }
    }
    None
}

/// Finds IP in PPP: an optional address and control field, and a protocol of one or two bytes.
fn ppp(bytes: &[u8], mut at: usize) -> Option<usize> {
    if bytes.get(at..at + 2) == Some(&[0xff, 0x03]) {
        at += 2;
    }
    match (bytes.get(at)?, bytes.get(at + 1)) {
        (0x00, Some(0x21 | 0x57)) => by_version(bytes, at + 2),
        (0x21 | 0x57, _) => by_version(bytes, at + 1),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{NoIp, find};

    #[test]
    fn every_link_layer_leads_to_the_ip_header() {
        let mut tagged = vec![0; 12];
        tagged.extend([0x88, 0xa8, 0, 5, 0x81, 0, 0, 6, 0x88, 0x47, 0, 0, 0, 64, 0, 0, 1, 64, 0x45]);
        let mut cooked2 = vec![0; 20];
        (cooked2[0], cooked2[1], cooked2[10]) = (0x86, 0xdd, 4);
        cooked2.push(0x60);
        let mut pppoe = vec![0; 12];
        pppoe.extend([0x88, 0x64, 0x11, 0, 0, 1, 0, 9, 0, 0x57, 0x60]);
        let cases: [(u32, &[u8]); 7] = [
            (1, &tagged),
            (276, &cooked2),
            (1, &pppoe),
            (9, &[0xff, 3, 0, 0x21, 0x45]),
            (9, &[0x21, 0x45]),
            (0, &[2, 0, 0, 0, 0x45]),
            (101, &[0x60]),
        ];
        for (link_type, bytes) in cases {
            assert_eq!(find(link_type, bytes).map(|inner| inner.at), Ok(bytes.len() - 1), "{link_type}");
            for end in 0..bytes.len() {
                assert!(find(link_type, &bytes[..end]).is_err());
            }
        }
        assert_eq!(find(127, &[0; 60]), Err(NoIp::LinkType));
    }
}
