//! Which connection a segment belongs to: by its four-tuple, and a join by its token.

use core::hash::{Hash, Hasher};
use core::net::IpAddr;

use rustc_hash::FxHashMap;

use crate::event::{ConnectionId, SubflowId};
use crate::segment::Address;

/// The four-tuple of a subflow. It is hashed in whole words: this happens for every packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Tuple {
    local: Address,
    remote: Address,
}

impl Hash for Tuple {
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        match (self.local.ip, self.remote.ip) {
            (IpAddr::V4(local), IpAddr::V4(remote)) => {
                state.write_u64(u64::from(local.to_bits()) << 32 | u64::from(remote.to_bits()));
            }
            (local, remote) => {
                local.hash(state);
                remote.hash(state);
            }
        }
        state.write_u32(u32::from(self.local.port) << 16 | u32::from(self.remote.port));
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
        self.tuples.get(&Tuple { local, remote }).copied()
    }

    pub(super) fn add(&mut self, local: Address, remote: Address, to: (ConnectionId, SubflowId)) {
        self.tuples.insert(Tuple { local, remote }, to);
    }

    pub(super) fn remove(&mut self, local: Address, remote: Address) {
        self.tuples.remove(&Tuple { local, remote });
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
