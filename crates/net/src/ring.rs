//! A ring buffer whose bytes are named by their offset in a stream.

/// Bytes `base..` of a stream, as far as they were stored. It grows with use, to a power of two.
///
/// Bytes may be stored in any order; whoever reads knows from the stack which of them are there.
#[derive(Debug, Default)]
pub(crate) struct Ring {
    bytes: Vec<u8>,
    base: u64,
}

/// The least capacity that is allocated, in bytes.
const MIN_CAPACITY: usize = 4 << 10;

impl Ring {
    /// Makes room for the bytes up to offset `end`, which lies less than 2^40 behind the base.
    fn reserve(&mut self, end: u64) {
        let needed = end.saturating_sub(self.base) as usize;
        if needed <= self.bytes.len() {
            return;
        }
        let old = core::mem::take(&mut self.bytes);
        let capacity = needed.next_power_of_two().max(MIN_CAPACITY);
        self.bytes = vec![0; capacity];
        // What the old one held is the window of its length from `base`.
        let mask = old.len().wrapping_sub(1);
        let mut offset = self.base;
        let last = self.base + old.len() as u64;
        while offset < last {
            let at = offset as usize & mask;
            let n = (old.len() - at).min((last - offset) as usize);
            self.put(offset, &old[at..at + n]);
            offset += n as u64;
        }
    }

    /// Copies within the capacity.
    fn put(&mut self, offset: u64, from: &[u8]) {
        let at = offset as usize & (self.bytes.len() - 1);
        let first = from.len().min(self.bytes.len() - at);
        self.bytes[at..at + first].copy_from_slice(&from[..first]);
        self.bytes[..from.len() - first].copy_from_slice(&from[first..]);
    }

    /// Stores `from` at `offset` of the stream. What lies before the base is left out.
    pub fn store(&mut self, offset: u64, from: &[u8]) {
        let skip = self.base.saturating_sub(offset).min(from.len() as u64);
        let (offset, from) = (offset + skip, &from[skip as usize..]);
        if from.is_empty() {
            return;
        }
        self.reserve(offset + from.len() as u64);
        self.put(offset, from);
    }

    /// The `len` bytes at `offset`, in one or two parts; none if they are not all held here.
    pub fn parts(&self, offset: u64, len: usize) -> Option<(&[u8], &[u8])> {
        let end = offset.checked_add(len as u64)?;
        if len == 0 {
            return Some((&[], &[]));
        }
        if offset < self.base || end - self.base > self.bytes.len() as u64 {
            return None;
        }
        let at = offset as usize & (self.bytes.len() - 1);
        let first = len.min(self.bytes.len() - at);
        Some((&self.bytes[at..at + first], &self.bytes[..len - first]))
    }

    /// Forgets what lies before `base`.
    pub fn advance(&mut self, base: u64) {
        self.base = self.base.max(base);
    }

    /// Gives the memory back; to be called when nothing in it is needed any more.
    pub fn release(&mut self) {
        self.bytes = Vec::new();
    }

    /// The bytes of memory it takes.
    #[cfg(test)]
    pub fn capacity(&self) -> usize {
        self.bytes.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(range: core::ops::Range<u64>) -> Vec<u8> {
        range.map(|offset| (offset * 31 % 251) as u8).collect()
    }

    fn read(ring: &Ring, offset: u64, len: usize) -> Option<Vec<u8>> {
        ring.parts(offset, len).map(|(a, b)| [a, b].concat())
    }

    #[test]
    fn bytes_are_found_again_at_their_offset_while_it_wraps_and_grows() {
        let mut ring = Ring::default();
        let (mut written, mut kept) = (0, 0);
        for step in 1..400_u64 {
            let n = step * 97 % 3_000;
            ring.store(written, &bytes(written..written + n));
            written += n;
            kept += (step * 89 % 2_900).min(written - kept);
            ring.advance(kept);
            assert_eq!(
                read(&ring, kept, (written - kept) as usize),
                Some(bytes(kept..written)),
                "step {step}"
            );
        }
        assert!(ring.capacity() < 128 << 10);
    }

    #[test]
    fn bytes_that_come_before_others_fill_the_hole() {
        let mut ring = Ring::default();
        ring.store(9_000, &bytes(9_000..10_000));
        ring.store(0, &bytes(0..9_000));
        ring.store(10_000, &bytes(10_000..30_000));
        assert_eq!(read(&ring, 0, 30_000), Some(bytes(0..30_000)));
    }

    #[test]
    fn what_is_forgotten_or_was_never_there_is_not_handed_out() {
        let mut ring = Ring::default();
        assert_eq!(ring.parts(0, 1), None);
        assert_eq!(ring.parts(7, 0), Some((&[][..], &[][..])));
        ring.store(0, &bytes(0..100));
        ring.advance(50);
        assert_eq!(ring.parts(49, 1), None);
        ring.store(40, &bytes(40..60));
        assert_eq!(read(&ring, 50, 50), Some(bytes(50..100)));
        assert_eq!(ring.parts(u64::MAX, 2), None);
        ring.release();
        assert_eq!(ring.capacity(), 0);
        ring.store(100, &bytes(100..101));
        assert_eq!(read(&ring, 100, 1), Some(bytes(100..101)));
    }
}
