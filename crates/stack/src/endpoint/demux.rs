//! Which connection a segment belongs to: by its four-tuple, and a join by its token.

use rustc_hash::FxHashMap;

use crate::event::{ConnectionId, SubflowId};
use crate::segment::Address;

/// The tables. They are only ever looked up, never walked, so that their order cannot matter.
#[derive(Clone, Debug, Default)]
pub(super) struct Demux {
    tuples: FxHashMap<(Address, Address), (ConnectionId, SubflowId)>,
    tokens: FxHashMap<u32, ConnectionId>,
}

impl Demux {
    pub(super) fn find(&self, local: Address, remote: Address) -> Option<(ConnectionId, SubflowId)> {
        self.tuples.get(&(local, remote)).copied()
    }

    pub(super) fn add(&mut self, local: Address, remote: Address, to: (ConnectionId, SubflowId)) {
        self.tuples.insert((local, remote), to);
    }

    pub(super) fn remove(&mut self, local: Address, remote: Address) {
        self.tuples.remove(&(local, remote));
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
