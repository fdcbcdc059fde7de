//! The keys and tokens of both ends (RFC 8684 section 3.1), and the HMACs made with them.

use crate::crypto;
use crate::segment::{AddAddress, Key};

/// The keys and tokens of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Keys {
    /// The peer's key, once it is known.
    remote: Option<Key>,
    local: Key,
    local_token: u32,
    remote_token: u32,
}

impl Keys {
    /// Returns the keys of a connection before the peer's key is known.
    pub(super) fn new(local: Key, local_token: u32) -> Keys {
        Keys { remote: None, local, local_token, remote_token: 0 }
    }

    #[inline]
    pub(super) fn local(&self) -> Key {
        self.local
    }

    #[inline]
    pub(super) fn remote(&self) -> Option<Key> {
        self.remote
    }

    pub(crate) fn local_token(&self) -> u32 {
        self.local_token
    }

    /// Returns the token of the peer; 0 if its key is not known.
    pub(super) fn remote_token(&self) -> u32 {
        self.remote_token
    }

    /// Records the key of the peer, and derives its token.
    pub(super) fn learn(&mut self, key: Key) {
        self.remote = Some(key);
        self.remote_token = crypto::token(key);
    }

    /// Records the token of the peer, agreed in advance.
    pub(super) fn agree_on_token(&mut self, token: u32) {
        self.remote_token = token;
    }

    /// Returns the HMAC with which this end proves in a join that it has both keys (section 3.2).
    pub(super) fn join_code(&self, nonce: u32, peer_nonce: u32) -> [u8; 32] {
        crypto::join_hmac(self.local, self.remote.unwrap_or(self.local), nonce, peer_nonce)
    }

    /// Returns the HMAC that the peer has to send in a join.
    pub(super) fn peer_join_code(&self, nonce: u32, peer_nonce: u32) -> [u8; 32] {
        crypto::join_hmac(self.remote.unwrap_or(self.local), self.local, peer_nonce, nonce)
    }

    /// Returns the HMAC of an address announced by this end (section 3.4.1); `None` if the peer's key is not
    /// known.
    pub(super) fn address_code(&self, address: &AddAddress) -> Option<u64> {
        let AddAddress { id, ip, port, .. } = *address;
        Some(crypto::add_address_hmac(self.local, self.remote?, id, ip, port))
    }

    /// Returns the HMAC that the peer has to send with an announced address; `None` if its key is not known.
    pub(super) fn peer_address_code(&self, address: &AddAddress) -> Option<u64> {
        let AddAddress { id, ip, port, .. } = *address;
        Some(crypto::add_address_hmac(self.remote?, self.local, id, ip, port))
    }
}
