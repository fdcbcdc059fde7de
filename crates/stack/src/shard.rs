//! Several endpoints with the addresses of one host.
//!
//! Each endpoint has its own connections, and may be driven by another core. Two rules determine the endpoint of a segment
//! without a look at their tables:
//!
//! * A four-tuple belongs to one of them by its hash. So does a connection that a peer opens; for one that the host opens, and for
//!   its joins, the endpoint takes a local port with which the four-tuple is its own.
//! * A token belongs to one of them by its remainder: an endpoint draws keys until the token is its own. So the endpoint of
//!   a peer's join is known, though its four-tuple may belong to another one; only such subflows have to be
//!   remembered ([`Endpoint::poll_moved`](crate::endpoint::Endpoint::poll_moved)).

use core::net::IpAddr;

use crate::segment::Address;

/// The place of an endpoint among those with the same addresses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shard {
    /// Its number, from 0.
    index: u16,
    /// The number of endpoints.
    count: u16,
    /// The seed of the hash, the same in each of them.
    seed: u64,
}

impl Shard {
    /// The only endpoint of a host.
    pub const WHOLE: Shard = Shard { index: 0, count: 1, seed: 0 };

    /// Returns the endpoint `index` of `count`, from 0. All of them have the same `seed`; peers should not know it, so that they cannot
    /// choose four-tuples of one endpoint.
    pub const fn new(index: u16, count: u16, seed: u64) -> Shard {
        Shard { index, count: if count > index { count } else { index.saturating_add(1) }, seed }
    }

    /// Returns its number, from 0.
    pub const fn index(self) -> u16 {
        self.index
    }

    /// Returns the number of endpoints.
    pub const fn count(self) -> u16 {
        self.count
    }

    /// True if the host has no other endpoint.
    pub const fn is_whole(self) -> bool {
        self.count == 1
    }

    /// Returns the endpoint to which the four-tuple of `local`, an end of this host, and `remote` belongs.
    pub fn of_ends(self, local: Address, remote: Address) -> u16 {
        if self.is_whole() {
            return 0;
        }
        let mut hash = self.seed;
        for end in [local, remote] {
            let ip = match end.ip {
                IpAddr::V4(ip) => u128::from(ip.to_bits()),
                IpAddr::V6(ip) => ip.to_bits(),
            };
            for word in [ip as u64, (ip >> 64) as u64 ^ u64::from(end.port) << 40] {
                // The multiplier of splitmix64: odd, with its bits well mixed.
                hash = (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                hash ^= hash >> 32;
            }
        }
        // The high bits depend on all others.
        let high = hash.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        ((high * u64::from(self.count)) >> 32) as u16
    }

    /// Returns the endpoint to which a token belongs.
    pub const fn of_token(self, token: u32) -> u16 {
        (token % self.count as u32) as u16
    }

    pub(crate) fn has_ends(self, local: Address, remote: Address) -> bool {
        self.is_whole() || self.of_ends(local, remote) == self.index
    }

    pub(crate) const fn has_token(self, token: u32) -> bool {
        self.is_whole() || self.of_token(token) == self.index
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_tuples_and_tokens_are_spread_evenly() {
        let shard = Shard::new(1, 4, 7);
        let mut ends = [0; 4];
        for port in 0..4000 {
            // Consecutive ports of one peer, as they are; and the addresses of a network.
            let end = |last: u16, port| Address::new(IpAddr::from([10, 0, 0, last as u8]), port);
            ends[usize::from(shard.of_ends(end(1, 80), end(2, port)))] += 1;
            ends[usize::from(shard.of_ends(end(1, 80), end(port % 250, 1000 + port / 250)))] += 1;
        }
        assert!(ends.iter().all(|count| (1800..2200).contains(count)), "{ends:?}");
        let six = |last: u16, port| Address::new(IpAddr::from([0xfd86, 0, 0, 0, 0, 0, 0, last]), port);
        let mut ends = [0; 4];
        for port in 0..4000 {
            ends[usize::from(shard.of_ends(six(1, 80), six(port / 16, 1000 + port % 16)))] += 1;
        }
        assert!(ends.iter().all(|count| (850..1150).contains(count)), "{ends:?}");
        assert_eq!([4, 5, 6, 7].map(|token| shard.of_token(token)), [0, 1, 2, 3]);
    }

    #[test]
    fn another_seed_is_another_spread() {
        let end = |host, port| Address::new(IpAddr::from([10, 0, 0, host]), port);
        let of = |seed| -> Vec<u16> {
            (0..64).map(|port| Shard::new(0, 2, seed).of_ends(end(1, 80), end(2, port))).collect()
        };
        assert_ne!(of(1), of(2));
        assert_eq!(of(1), of(1));
    }

    #[test]
    fn the_only_endpoint_has_everything() {
        let end = |port| Address::new(IpAddr::from([10, 0, 0, 1]), port);
        assert!(
            (0..99).all(|at| Shard::WHOLE.has_ends(end(80), end(at)) && Shard::WHOLE.has_token(at.into()))
        );
    }
}
