//! Which connection a segment belongs to: by its four-tuple, and a join by its token.

use core::hash::{Hash, Hasher};
use core::net::IpAddr;

use rustc_hash::FxHashMap;

use crate::event::{ConnectionId, SubflowId};
use crate::segment::Address;

/// The four-tuple of a subflow in whole words: it is hashed and compared for every packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Tuple {
    local: u128,
    remote: u128,
    ports: u32,
}

impl Tuple {
    #[inline]
    fn new(local: Address, remote: Address) -> Tuple {
        Tuple {
            local: word(local.ip),
            remote: word(remote.ip),
            ports: u32::from(local.port) << 16 | u32::from(remote.port),
        }
    }
}

/// An address as a number; an IPv4 address as the IPv6 address that it is mapped to.
#[inline]
fn word(ip: IpAddr) -> u128 {
    match ip {
        IpAddr::V4(v4) => 0xffff << 32 | u128::from(v4.to_bits()),
        IpAddr::V6(v6) => v6.to_bits(),
    }
}

impl Hash for Tuple {
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.local as u64 ^ (self.local >> 64) as u64);
        state.write_u64(self.remote as u64 ^ (self.remote >> 64) as u64);
        state.write_u32(self.ports);
    }
}

/// The tables. They are only ever looked up, never walked, so that their order cannot matter.
#[derive(Clone, Debug, Default)]
pub(super) struct Demux {
    tuples: FxHashMap<Tuple, (ConnectionId, SubflowId)>,
    tokens: FxHashMap<u32, ConnectionId>,
}

impl Demux {
    pub(super) fn find(&self, local: Address, remote: Address) -> Option<(ConnectionId, SubflowId)> {
        self.tuples.get(&Tuple::new(local, remote)).copied()
    }

    pub(super) fn add(&mut self, local: Address, remote: Address, to: (ConnectionId, SubflowId)) {
        self.tuples.insert(Tuple::new(local, remote), to);
    }

    pub(super) fn remove(&mut self, local: Address, remote: Address) {
        self.tuples.remove(&Tuple::new(local, remote));
    }

    pub(super) fn by_token(&self, token: u32) -> Option<ConnectionId> {
        self.tokens.get(&token).copied()
    }

    /// False if the token is taken; 0 always is, as some peers treat it so.
    pub(super) fn claim_token(&mut self, token: u32, id: ConnectionId) -> bool {
        if token == 0 || self.tokens.contains_key(&token) {
            return false;
        }
        self.tokens.insert(token, id);
        true
    }

    pub(super) fn release_token(&mut self, token: u32, id: ConnectionId) {
        if self.tokens.get(&token) == Some(&id) {
            self.tokens.remove(&token);
        }
    }
}
