//! The hash that chooses among routes of equal cost.

use core::net::IpAddr;

use anabranch_stack::segment::Segment;

/// Returns a hash of a segment's addresses and ports.
pub(crate) fn flow_hash(key: u64, segment: &Segment) -> u64 {
    let bits = |ip: IpAddr| match ip {
        IpAddr::V4(v4) => u128::from(v4.to_bits()),
        IpAddr::V6(v6) => v6.to_bits(),
    };
    let (source, destination) = (bits(segment.source.ip), bits(segment.destination.ip));
    let ports = u64::from(segment.source.port) << 16 | u64::from(segment.destination.port);
    let words = [source as u64, (source >> 64) as u64, destination as u64, (destination >> 64) as u64, ports];
    let mut hash = key;
    for word in words {
        hash = mix(hash ^ word);
    }
    hash
}

/// Returns the finaliser of SplitMix64; 0 for 0.
pub(crate) fn mix(word: u64) -> u64 {
    let mut hash = word;
    hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ (hash >> 31)
}
