//! Keys, tokens and HMACs (RFC 8684 sections 3.1, 3.2 and 3.4.1).

use core::net::IpAddr;

use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};

use crate::segment::{Address, Key};
use crate::seq::{Dsn, Seq};

/// Returns the token of a key: the leftmost 32 bits of its SHA-256.
pub fn token(key: Key) -> u32 {
    let digest = Sha256::digest(key.0.to_be_bytes());
    u32::from_be_bytes([digest[0], digest[1], digest[2], digest[3]])
}

/// Returns the initial data sequence number of a key: the rightmost 64 bits of its SHA-256.
pub fn initial_dsn(key: Key) -> Dsn {
    let digest = Sha256::digest(key.0.to_be_bytes());
    let mut last = [0; 8];
    last.copy_from_slice(&digest[24..32]);
    Dsn(u64::from_be_bytes(last))
}

fn hmac(own: Key, other: Key, message: &[&[u8]]) -> [u8; 32] {
    let mut secret = [0; 16];
    secret[..8].copy_from_slice(&own.0.to_be_bytes());
    secret[8..].copy_from_slice(&other.0.to_be_bytes());
    // HMAC takes keys of any length, so this arm is never taken; an all-zero code fails every check.
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(&secret) else { return [0; 32] };
    for part in message {
        mac.update(part);
    }
    mac.finalize().into_bytes().into()
}

/// Returns the HMAC that a host sends in a join, with its own key and its own nonce first.
pub fn join_hmac(own_key: Key, peer_key: Key, own_nonce: u32, peer_nonce: u32) -> [u8; 32] {
    hmac(own_key, peer_key, &[&own_nonce.to_be_bytes(), &peer_nonce.to_be_bytes()])
}

/// Returns the leftmost 64 bits, as carried by the SYN/ACK of a join.
pub fn leftmost_64(code: &[u8; 32]) -> u64 {
    let mut first = [0; 8];
    first.copy_from_slice(&code[..8]);
    u64::from_be_bytes(first)
}

/// Returns the leftmost 160 bits, as carried by the third ACK of a join.
pub fn leftmost_160(code: &[u8; 32]) -> [u8; 20] {
    let mut first = [0; 20];
    first.copy_from_slice(&code[..20]);
    first
}

/// Returns the code of an address announcement: the rightmost 64 bits of the HMAC over ID, address and port.
pub fn add_address_hmac(sender_key: Key, receiver_key: Key, id: u8, ip: IpAddr, port: Option<u16>) -> u64 {
    let port = port.unwrap_or(0).to_be_bytes();
    let code = match ip {
        IpAddr::V4(v4) => hmac(sender_key, receiver_key, &[&[id], &v4.octets(), &port]),
        IpAddr::V6(v6) => hmac(sender_key, receiver_key, &[&[id], &v6.octets(), &port]),
    };
    let mut last = [0; 8];
    last.copy_from_slice(&code[24..]);
    u64::from_be_bytes(last)
}

/// Returns the hash of both ends of a subflow under a secret, for its initial sequence number (RFC 6528
/// section 3).
pub fn isn_hash(secret: [Key; 2], local: Address, remote: Address) -> u32 {
    let mut digest = Sha256::new();
    for key in secret {
        digest.update(key.0.to_be_bytes());
    }
    for end in [local, remote] {
        match end.ip {
            IpAddr::V4(v4) => digest.update(v4.octets()),
            IpAddr::V6(v6) => digest.update(v6.octets()),
        }
        digest.update(end.port.to_be_bytes());
    }
    let digest = digest.finalize();
    u32::from_be_bytes([digest[0], digest[1], digest[2], digest[3]])
}

/// The secret of SYN cookies, with its HMAC-SHA256 state computed once.
#[derive(Clone)]
pub struct CookieSecret(Hmac<Sha256>);

impl CookieSecret {
    /// Returns a secret of 256 bits.
    pub fn new(bits: [u64; 4]) -> CookieSecret {
        // HMAC pads a shorter secret with zeros to a block.
        let mut secret = [0; 64];
        for (bytes, word) in secret.chunks_exact_mut(8).zip(bits) {
            bytes.copy_from_slice(&word.to_be_bytes());
        }
        CookieSecret(Hmac::<Sha256>::new(&secret.into()))
    }

    /// Returns the code over both ends and the initial sequence number of the remote one.
    pub fn code(&self, local: Address, remote: Address, remote_isn: Seq) -> [u8; 32] {
        let mut mac = self.0.clone();
        for end in [local, remote] {
            match end.ip {
                IpAddr::V4(v4) => mac.update(&v4.octets()),
                IpAddr::V6(v6) => mac.update(&v6.octets()),
            }
            mac.update(&end.port.to_be_bytes());
        }
        mac.update(&remote_isn.0.to_be_bytes());
        mac.finalize().into_bytes().into()
    }
}

impl core::fmt::Debug for CookieSecret {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        // A reader of the secret could forge handshakes, so it is kept out of logs.
        f.write_str("CookieSecret(..)")
    }
}

/// True if two codes are equal; takes a time independent of the position of a difference.
pub fn equal(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |difference, (x, y)| difference | (x ^ y)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Key = Key(0x0001_0203_0405_0607);
    const B: Key = Key(0x0809_0a0b_0c0d_0e0f);

    // The expected values were computed with Python's hashlib and hmac from the rules of RFC 8684.

    #[test]
    fn tokens_and_initial_dsns() {
        assert_eq!(token(A), 0x8a85_1ff8);
        assert_eq!(token(B), 0x3417_9de5);
        assert_eq!(initial_dsn(A), Dsn(0xe3db_22c6_785a_0d45));
        assert_eq!(initial_dsn(B), Dsn(0x9ac0_c6c2_9ef6_1a05));
    }

    #[test]
    fn join_codes_put_the_own_key_and_nonce_first() {
        let (nonce_a, nonce_b) = (0x1122_3344, 0xaabb_ccdd);
        assert_eq!(leftmost_64(&join_hmac(B, A, nonce_b, nonce_a)), 0x34e0_ca3a_6df1_7d20);
        let ack = leftmost_160(&join_hmac(A, B, nonce_a, nonce_b));
        assert_eq!(ack[..8], 0x8205_37c6_d144_47d1_u64.to_be_bytes());
        assert_eq!(ack[8..16], 0x7344_e628_d2e4_af41_u64.to_be_bytes());
        assert_eq!(ack[16..], 0xcbb8_0463_u32.to_be_bytes());
    }

    #[test]
    fn initial_numbers_are_hashed_from_both_ends_under_a_secret() {
        let end = |ip: &str, port| Address::new(ip.parse().unwrap(), port);
        let (local, remote) = (end("192.0.2.1", 49_152), end("198.51.100.2", 80));
        assert_eq!(isn_hash([A, B], local, remote), 0x609a_5c13);
        assert_eq!(isn_hash([A, B], end("2001:db8::1", 49_152), end("2001:db8::2", 80)), 0x260b_c901);
        let others =
            [([B, A], local, remote), ([A, B], remote, local), ([A, B], local, end("198.51.100.2", 81))];
        for (secret, local, remote) in others {
            assert_ne!(isn_hash(secret, local, remote), 0x609a_5c13);
        }
    }

    #[test]
    fn cookie_codes_cover_both_ends_and_the_peers_number() {
        let end = |ip: &str, port| Address::new(ip.parse().unwrap(), port);
        let secret = CookieSecret::new([1, 2, 3, 4]);
        let (local, remote) = (end("192.0.2.1", 80), end("198.51.100.2", 49_152));
        let code = |local, remote, isn| leftmost_64(&secret.code(local, remote, Seq(isn)));
        assert_eq!(code(local, remote, 0x1122_3344), 0x5843_3abb_37c6_57fb);
        let six = (end("2001:db8::1", 80), end("2001:db8::2", 49_152));
        assert_eq!(code(six.0, six.1, 0x1122_3344), 0xedc1_2ecb_ba1e_cefc);
        assert_ne!(code(local, remote, 0x1122_3345), 0x5843_3abb_37c6_57fb);
        assert_eq!(format!("{secret:?}"), "CookieSecret(..)");
    }

    #[test]
    fn announcements_take_the_rightmost_bits_and_a_zero_port() {
        let ip = "192.0.2.1".parse().unwrap();
        assert_eq!(add_address_hmac(B, A, 1, ip, None), 0x409d_8bf2_1f5d_4bc3);
        assert_eq!(add_address_hmac(B, A, 1, ip, Some(8080)), 0x3805_326f_0088_25cc);
        let v6 = "2001:db8::1".parse().unwrap();
        assert_eq!(add_address_hmac(A, B, 2, v6, None), 0xb31f_d832_466a_8135);
    }
}
