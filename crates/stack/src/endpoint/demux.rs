//! Demultiplexing: the connection of a segment by its four-tuple, and of a join by its token.

use core::hash::{Hash, Hasher};
use core::net::IpAddr;
use std::collections::VecDeque;

use rustc_hash::FxHashMap;

use crate::event::{ConnectionId, SubflowId};
use crate::segment::Address;
use crate::shard::Shard;

/// The four-tuple of a subflow over IPv4. It is hashed and compared for every packet, and with thousands of
/// subflows the table does not fit into the caches, so it is as compact as possible.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Tuple {
    local: u32,
    remote: u32,
    ports: u32,
}

impl Tuple {
    /// Returns the tuple, or `None` if one of the addresses is not IPv4.
    #[inline]
    fn new(local: Address, remote: Address) -> Option<Tuple> {
        let (IpAddr::V4(local_ip), IpAddr::V4(remote_ip)) = (local.ip, remote.ip) else { return None };
        let ports = u32::from(local.port) << 16 | u32::from(remote.port);
        Some(Tuple { local: local_ip.to_bits(), remote: remote_ip.to_bits(), ports })
    }
}

impl Hash for Tuple {
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(u64::from(self.local) << 32 | u64::from(self.remote));
        state.write_u32(self.ports);
    }
}

/// The tables. They are only used for look-ups and never iterated, so their order cannot affect results.
#[derive(Clone, Debug)]
pub(super) struct Demux {
    /// Recent results by the low bits of their ports: a host with few subflows finds them here.
    recent: [Option<(Tuple, Member)>; Demux::RECENT],
    tuples: FxHashMap<Tuple, Member>,
    /// Subflows that are not over IPv4.
    others: FxHashMap<(Address, Address), Member>,
    tokens: FxHashMap<u32, ConnectionId>,
    shard: Shard,
    /// The changes of subflows here with four-tuples of another endpoint.
    moved: VecDeque<Moved>,
}

/// A subflow that has begun or ended at this endpoint, though its four-tuple belongs to another one with the same
/// addresses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Moved {
    /// The end at this host.
    pub local: Address,
    /// The end at the peer.
    pub remote: Address,
    /// True if the subflow has begun, so that its segments are for this endpoint; false if it has ended.
    pub here: bool,
}

type Member = (ConnectionId, SubflowId);

impl Demux {
    /// The number of recent results; a power of two.
    const RECENT: usize = 8;

    pub(super) fn new(shard: Shard) -> Demux {
        Demux {
            recent: [None; Demux::RECENT],
            tuples: FxHashMap::default(),
            others: FxHashMap::default(),
            tokens: FxHashMap::default(),
            shard,
            moved: VecDeque::new(),
        }
    }

    #[inline]
    fn place(tuple: Tuple) -> usize {
        (tuple.ports ^ tuple.ports >> 16) as usize % Demux::RECENT
    }

    /// Returns the subflow of segments from `remote` to `local`.
    #[inline]
    pub(super) fn find(&mut self, local: Address, remote: Address) -> Option<Member> {
        let Some(tuple) = Tuple::new(local, remote) else { return self.find_other(local, remote) };
        match self.recent[Demux::place(tuple)] {
            Some((found, to)) if found == tuple => Some(to),
            _ => self.look_up(tuple),
        }
    }

    /// Returns the same as [`Demux::find`], and remembers nothing.
    pub(super) fn peek(&self, local: Address, remote: Address) -> Option<Member> {
        let tuple = Tuple::new(local, remote)?;
        match self.recent[Demux::place(tuple)] {
            Some((found, to)) if found == tuple => Some(to),
            _ => self.tuples.get(&tuple).copied(),
        }
    }

    /// True if there is a subflow with these ends.
    pub(super) fn has(&self, local: Address, remote: Address) -> bool {
        match Tuple::new(local, remote) {
            Some(tuple) => self.tuples.contains_key(&tuple),
            None => self.others.contains_key(&(local, remote)),
        }
    }

    #[inline(never)]
    fn look_up(&mut self, tuple: Tuple) -> Option<Member> {
        let to = *self.tuples.get(&tuple)?;
        self.recent[Demux::place(tuple)] = Some((tuple, to));
        Some(to)
    }

    #[inline(never)]
    fn find_other(&self, local: Address, remote: Address) -> Option<Member> {
        self.others.get(&(local, remote)).copied()
    }

    pub(super) fn add(&mut self, local: Address, remote: Address, to: Member) {
        match Tuple::new(local, remote) {
            Some(tuple) => {
                self.recent[Demux::place(tuple)] = None;
                self.tuples.insert(tuple, to)
            }
            None => self.others.insert((local, remote), to),
        };
        self.note_moved(local, remote, true);
    }

    /// Notes that a subflow has begun or ended, if its four-tuple belongs to another endpoint.
    pub(super) fn note_moved(&mut self, local: Address, remote: Address, here: bool) {
        if !self.shard.has_ends(local, remote) {
            self.moved.push_back(Moved { local, remote, here });
        }
    }

    /// Returns the next change of a subflow with a four-tuple of another endpoint.
    pub(super) fn poll_moved(&mut self) -> Option<Moved> {
        self.moved.pop_front()
    }

    pub(super) fn remove(&mut self, local: Address, remote: Address) {
        self.forget(local, remote);
        self.note_moved(local, remote, false);
    }

    /// Removes a subflow; its segments still arrive here.
    pub(super) fn forget(&mut self, local: Address, remote: Address) {
        match Tuple::new(local, remote) {
            Some(tuple) => {
                self.recent[Demux::place(tuple)] = None;
                self.tuples.remove(&tuple)
            }
            None => self.others.remove(&(local, remote)),
        };
    }

    pub(super) fn by_token(&self, token: u32) -> Option<ConnectionId> {
        self.tokens.get(&token).copied()
    }

    /// True unless the token is taken, or belongs to another endpoint; 0 is never free, as some peers treat it as such.
    pub(super) fn is_free(&self, token: u32) -> bool {
        token != 0 && self.shard.has_token(token) && !self.tokens.contains_key(&token)
    }

    /// Claims a token; returns false if it is taken.
    pub(super) fn claim_token(&mut self, token: u32, id: ConnectionId) -> bool {
        if !self.is_free(token) {
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

#[cfg(test)]
mod tests {
    use super::*;

    // RFC 8684 section 3.1: the tokens of a host are unique.
    #[test]
    fn a_token_belongs_to_the_connection_that_claimed_it() {
        let id = |slot: u32| ConnectionId { slot, generation: 0 };
        let mut demux = Demux::new(Shard::WHOLE);
        assert!(!demux.claim_token(0, id(1)), "some peers take it for none");
        assert!(demux.claim_token(5, id(1)));
        assert!(!demux.claim_token(5, id(2)));
        demux.release_token(5, id(2));
        assert_eq!(demux.by_token(5), Some(id(1)));
        demux.release_token(5, id(1));
        assert!(demux.claim_token(5, id(2)));
    }

    #[test]
    fn recent_entries_are_discarded_when_the_subflow_changes() {
        let address = |host: u8, port: u16| Address::new(IpAddr::from([10, 0, 0, host]), port);
        let to = |slot: u32| (ConnectionId { slot, generation: 0 }, SubflowId(0));
        let (local, remote) = (address(1, 80), address(2, 1000));
        let over_ipv6 = |port: u16| Address::new(IpAddr::from([0, 0, 0, 0, 0, 0, 0, 1]), port);
        // Other tuples with the same recent slot, by another port, host, end or protocol.
        let others = [
            (local, address(2, 1008)),
            (local, address(3, 1000)),
            (address(4, 80), remote),
            (over_ipv6(80), over_ipv6(1000)),
            (over_ipv6(80), over_ipv6(1008)),
        ];
        let mut demux = Demux::new(Shard::WHOLE);
        demux.add(local, remote, to(1));
        for (id, (local, remote)) in (2..).zip(others) {
            assert_eq!(demux.find(local, remote), None);
            demux.add(local, remote, to(id));
        }
        for _ in 0..2 {
            assert_eq!(demux.find(local, remote), Some(to(1)));
            assert_eq!(demux.find(remote, local), None);
            for (id, (local, remote)) in (2..).zip(others) {
                assert_eq!(demux.find(local, remote), Some(to(id)));
            }
        }
        assert_eq!(demux.find(local, remote), Some(to(1)));
        demux.add(local, remote, to(9));
        assert_eq!(demux.find(local, remote), Some(to(9)));
        demux.remove(local, remote);
        assert_eq!(demux.find(local, remote), None);
    }
}
