//! Properties that hold for any bytes; shared with the fuzz target.

use anabranch_wire::{
    Checksum, Checksums, IpFields, complete_checksum, echo_reply, echo_request, emit, parse, parse_icmp,
};

/// Parses `packet`; if that succeeds, writes the segment and parses it again.
pub fn chew(packet: &[u8]) {
    let _ = parse(packet, Checksums::Verify);
    let _ = parse_icmp(packet);
    let mut changed = packet.to_vec();
    if echo_reply(&mut changed) {
        assert_eq!((changed.len(), echo_request(&changed)), (packet.len(), None));
    }
    complete_checksum(&mut changed);
    let Ok(parsed) = parse(packet, Checksums::TrustAndSum) else { return };
    assert!(parsed.payload.end <= packet.len());
    assert_eq!(parsed.payload.len(), parsed.segment.payload_len as usize);
    let mut out = vec![0; 66_000];
    let len = emit(&parsed.segment, &IpFields::default(), Checksum::Full, &mut out, |payload| {
        payload.copy_from_slice(&packet[parsed.payload.clone()]);
    })
    .expect("what was read can be written");
    let again = parse(&out[..len], Checksums::Verify).expect("what was written is whole");
    assert_eq!(again.segment, parsed.segment);
}
