//! The transferred bytes, which both implementations generate identically, and their digest.

use sha2::{Digest, Sha256};

/// A stream of bytes that depend on their offset.
#[derive(Clone, Debug)]
pub struct Content {
    state: u64,
    left: u64,
}

impl Content {
    /// Returns a stream of `len` bytes, different for each `seed`.
    pub fn new(seed: u64, len: u64) -> Content {
        Content { state: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1, left: len }
    }

    /// Returns the number of bytes left.
    pub fn left(&self) -> u64 {
        self.left
    }

    /// Fills the front of `buffer` with the next bytes, and returns their number. All pieces but the last
    /// must be multiples of 8 bytes long, or 1.
    pub fn next(&mut self, buffer: &mut [u8]) -> usize {
        let n = (buffer.len() as u64).min(self.left) as usize;
        for chunk in buffer[..n].chunks_mut(8) {
            self.state ^= self.state << 13;
            self.state ^= self.state >> 7;
            self.state ^= self.state << 17;
            chunk.copy_from_slice(&self.state.to_le_bytes()[..chunk.len()]);
        }
        self.left -= n as u64;
        n
    }
}

/// The digest of received bytes.
#[derive(Clone, Debug, Default)]
pub struct Sum {
    sha: Sha256,
    len: u64,
}

impl Sum {
    /// Adds received bytes.
    pub fn add(&mut self, bytes: &[u8]) {
        self.sha.update(bytes);
        self.len += bytes.len() as u64;
    }

    /// Returns the number of bytes.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Returns the SHA-256 of all bytes, in hexadecimal.
    pub fn digest(self) -> String {
        self.sha.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// Returns the digest of the stream of a sender with `seed`: one byte, and the rest.
pub fn digest(seed: u64, len: u64) -> String {
    let (mut content, mut sum) = (Content::new(seed, len), Sum::default());
    let mut buffer = vec![0; 1 << 16];
    let mut first = true;
    while content.left() > 0 {
        let room = if core::mem::take(&mut first) { 1 } else { buffer.len() };
        let n = content.next(&mut buffer[..room]);
        sum.add(&buffer[..n]);
    }
    sum.digest()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_does_not_depend_on_the_pieces() {
        let mut sum = Sum::default();
        let mut content = Content::new(7, 100_001);
        let mut buffer = [0; 800];
        let mut room = 1;
        while content.left() > 0 {
            let n = content.next(&mut buffer[..room]);
            sum.add(&buffer[..n]);
            room = 800;
        }
        assert_eq!(sum.len(), 100_001);
        assert_eq!(sum.digest(), digest(7, 100_001));
        assert_ne!(digest(7, 1000), digest(8, 1000));
    }
}
