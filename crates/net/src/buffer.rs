//! Buffers for the bytes of a stream, addressed by their offset in it. All connections of a host share a pool
//! of blocks of one size.

use std::collections::VecDeque;
use std::ops::Range;

use anabranch_stack::seq::DataRange;

use crate::spares::Spares;

/// The size of a block in bytes, a power of two. Large enough that a segment seldom spans two, small enough
/// that a thousand connections with little data take little memory.
pub(crate) const BLOCK: usize = 16 << 10;

/// The number of unused blocks that are kept: 8 MiB.
const SPARE: usize = 512;

pub(crate) type Block = Box<[u8]>;

/// The blocks of a host.
#[derive(Debug)]
pub(crate) struct Pool {
    spare: Spares<Block>,
    used: usize,
    /// The bytes kept apart by buffers.
    kept: u64,
}

impl Default for Pool {
    fn default() -> Pool {
        Pool { spare: Spares::new(SPARE), used: 0, kept: 0 }
    }
}

impl Pool {
    fn take(&mut self) -> Block {
        self.used += 1;
        self.spare.take().unwrap_or_else(|| vec![0; BLOCK].into_boxed_slice())
    }

    pub(crate) fn give(&mut self, block: Block) {
        self.used -= 1;
        self.spare.give(block);
    }

    /// Frees the blocks that were not used since the last call.
    pub(crate) fn trim(&mut self) {
        self.spare.trim();
    }

    /// Returns the bytes of the blocks that are kept for reuse.
    pub(crate) fn spare(&self) -> u64 {
        (self.spare.len() * BLOCK) as u64
    }

    /// Returns the bytes of the blocks that are in use, and the bytes kept apart.
    pub(crate) fn used(&self) -> u64 {
        self.used as u64 * BLOCK as u64 + self.kept
    }
}

/// The stored bytes of a stream from offset `base` on.
///
/// Bytes may be stored in any order; the reader knows from the stack which of them are present. A block is
/// allocated when a byte is stored in it, and released once the base has passed it.
#[derive(Debug, Default)]
pub(crate) struct Buffer {
    /// The first block contains the base.
    blocks: VecDeque<Option<Block>>,
    base: u64,
    /// The end of the last stored byte.
    end: u64,
    /// The number of blocks allocated.
    held: u32,
    /// Bytes before the base that are still needed.
    #[expect(clippy::box_collection, reason = "nearly always empty: 8 bytes of an idle connection, not 24")]
    kept: Option<Box<Vec<Kept>>>,
}

/// A run of bytes before the base of a buffer.
#[derive(Debug)]
struct Kept {
    start: u64,
    bytes: Vec<u8>,
}

impl Kept {
    fn end(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }
}

/// Returns the number of the block that contains the byte at `offset`, and its position there.
const fn place(offset: u64) -> (u64, usize) {
    (offset / BLOCK as u64, (offset % BLOCK as u64) as usize)
}

impl Buffer {
    /// Returns the end of the last stored byte.
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    /// Returns the number of blocks allocated.
    pub(crate) fn held(&self) -> u32 {
        self.held
    }

    /// True if it has no block.
    pub(crate) fn is_empty(&self) -> bool {
        self.held == 0
    }

    /// Returns the number of bytes that can be appended in the last block.
    pub(crate) fn slack(&self) -> u64 {
        match place(self.end).1 {
            at if at > 0 && self.blocks.back().is_some_and(Option::is_some) => (BLOCK - at) as u64,
            _ => 0,
        }
    }

    /// Returns the number of bytes until the end of the first block; none if there is no block.
    pub(crate) fn until_block_is_free(&self) -> Option<u64> {
        let next = (place(self.base).0 + 1) * BLOCK as u64;
        (self.held > 0).then(|| self.end.saturating_sub(next))
    }

    /// Stores `from` at `offset` of the stream, less than 2^40 after the base. Bytes before the base are
    /// skipped.
    pub(crate) fn store(&mut self, pool: &mut Pool, offset: u64, from: &[u8]) {
        let skip = self.base.saturating_sub(offset).min(from.len() as u64);
        let (mut offset, mut from) = (offset + skip, &from[skip as usize..]);
        if from.is_empty() {
            return;
        }
        self.end = self.end.max(offset + from.len() as u64);
        while !from.is_empty() {
            let (number, at) = place(offset);
            let index = (number - place(self.base).0) as usize;
            while self.blocks.len() <= index {
                self.blocks.push_back(None);
            }
            let held = &mut self.held;
            let block = self.blocks[index].get_or_insert_with(|| {
                *held += 1;
                pool.take()
            });
            let n = from.len().min(BLOCK - at);
            block[at..at + n].copy_from_slice(&from[..n]);
            (offset, from) = (offset + n as u64, &from[n..]);
        }
    }

    /// Returns the number of bytes kept before the base.
    pub(crate) fn kept(&self) -> u64 {
        self.kept.iter().flat_map(|kept| kept.iter()).map(|run| run.bytes.len() as u64).sum()
    }

    /// Returns the `len` bytes at `offset`, one part for each block; none if some are not stored here.
    pub(crate) fn parts(&self, offset: u64, len: usize) -> Option<Parts<'_>> {
        let end = offset.checked_add(len as u64)?;
        let mut parts = Parts { buffer: self, offset, left: len, first: &[] };
        if len == 0 {
            return Some(parts);
        }
        if end > self.end {
            return None;
        }
        let mut offset = offset;
        if offset < self.base {
            let run = self.kept.iter().flat_map(|kept| kept.iter()).find(|run| offset < run.end())?;
            let before = (end.min(self.base) - offset) as usize;
            let at = offset.checked_sub(run.start)? as usize;
            parts.first = run.bytes.get(at..at + before)?;
            offset += before as u64;
            (parts.offset, parts.left) = (offset, len - before);
            if parts.left == 0 {
                return Some(parts);
            }
        }
        let first = place(self.base).0;
        let range = (place(offset).0 - first) as usize..=(place(end - 1).0 - first) as usize;
        let here = |index: usize| self.blocks.get(index).is_some_and(Option::is_some);
        range.into_iter().all(here).then_some(parts)
    }

    /// Discards the bytes before `base` that are not in `needed`. Its ranges may overlap.
    pub(crate) fn advance_to(&mut self, pool: &mut Pool, base: u64, mut needed: Vec<DataRange>) {
        if self.kept.is_some() || !needed.is_empty() {
            needed.sort_by_key(|range| range.start);
            self.keep(pool, base, &needed);
        }
        self.advance(pool, base);
    }

    /// Copies the bytes before `base` that are `needed`, and discards the copies that are no longer. They are few: data
    /// that was in flight on a path when it failed.
    #[cold]
    fn keep(&mut self, pool: &mut Pool, base: u64, needed: &[DataRange]) {
        let mut kept = self.kept.take().map_or(Vec::new(), |kept| *kept);
        pool.kept -= kept.iter().map(|run| run.bytes.len() as u64).sum::<u64>();
        kept.retain(|run| needed.iter().any(|range| range.start < run.end() && run.start < range.end));
        let mut from = self.base;
        for range in needed {
            from = from.max(range.start);
            let end = range.end.min(base);
            let parts = end.checked_sub(from).filter(|&len| len > 0);
            let Some(parts) = parts.and_then(|len| self.parts(from, len as usize)) else { continue };
            match kept.last_mut() {
                Some(last) if last.end() == from => parts.for_each(|part| last.bytes.extend_from_slice(part)),
                _ => kept.push(Kept { start: from, bytes: parts.collect::<Vec<_>>().concat() }),
            }
            from = end;
        }
        pool.kept += kept.iter().map(|run| run.bytes.len() as u64).sum::<u64>();
        self.kept = (!kept.is_empty()).then(|| Box::new(kept));
    }

    /// Discards the bytes before `base`.
    pub(crate) fn advance(&mut self, pool: &mut Pool, base: u64) {
        if base <= self.base {
            return;
        }
        if base >= self.end {
            self.release_blocks(pool);
        } else {
            for _ in place(self.base).0..place(base).0 {
                if let Some(block) = self.blocks.pop_front().flatten() {
                    self.held -= 1;
                    pool.give(block);
                }
            }
        }
        self.base = base;
    }

    /// Removes bytes from the base on, with their block and their range in it: up to `len` bytes, all of
    /// which are stored, as far as one block reaches. None if there is no block.
    pub(crate) fn take(&mut self, pool: &mut Pool, len: u64) -> Option<(Block, Range<usize>)> {
        let at = place(self.base).1;
        let range = at..at + len.min((BLOCK - at) as u64) as usize;
        let base = self.base + range.len() as u64;
        if range.is_empty() || base > self.end {
            return None;
        }
        let place = self.blocks.front_mut()?;
        let block = if range.end < BLOCK && base < self.end {
            // The rest of the block stays here.
            let here = place.as_ref()?;
            let mut block = pool.take();
            block[range.clone()].copy_from_slice(&here[range.clone()]);
            block
        } else {
            let block = place.take()?;
            self.held -= 1;
            block
        };
        self.advance(pool, base);
        Some((block, range))
    }

    /// Releases all blocks; to be called when their content is no longer needed.
    pub(crate) fn release(&mut self, pool: &mut Pool) {
        pool.kept -= self.kept();
        self.kept = None;
        self.release_blocks(pool);
    }

    fn release_blocks(&mut self, pool: &mut Pool) {
        self.blocks.drain(..).flatten().for_each(|block| pool.give(block));
        self.held = 0;
        if self.blocks.capacity() > MOST_PLACES {
            self.blocks = VecDeque::new();
        }
    }
}

/// The capacity of the block list that an empty buffer keeps.
const MOST_PLACES: usize = 8;

/// The parts of a range of a stream.
#[derive(Clone, Debug)]
pub(crate) struct Parts<'a> {
    buffer: &'a Buffer,
    offset: u64,
    left: usize,
    /// The part before the base of the buffer.
    first: &'a [u8],
}

impl<'a> Iterator for Parts<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        if !self.first.is_empty() {
            return Some(core::mem::take(&mut self.first));
        }
        if self.left == 0 {
            return None;
        }
        let (number, at) = place(self.offset);
        let index = (number - place(self.buffer.base).0) as usize;
        let block = self.buffer.blocks.get(index)?.as_ref()?;
        let n = self.left.min(BLOCK - at);
        self.offset += n as u64;
        self.left -= n;
        Some(&block[at..at + n])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(range: core::ops::Range<u64>) -> Vec<u8> {
        range.map(|offset| (offset * 31 % 251) as u8).collect()
    }

    fn read(buffer: &Buffer, offset: u64, len: usize) -> Option<Vec<u8>> {
        buffer.parts(offset, len).map(|parts| parts.collect::<Vec<_>>().concat())
    }

    #[test]
    fn bytes_are_found_again_at_their_offset_and_memory_follows_what_is_held() {
        let (mut pool, mut buffer) = (Pool::default(), Buffer::default());
        let (mut written, mut kept) = (0, 0);
        for step in 1..400_u64 {
            let n = step * 970 % 30_000;
            buffer.store(&mut pool, written, &bytes(written..written + n));
            written += n;
            kept += (step * 890 % 29_000).min(written - kept);
            buffer.advance(&mut pool, kept);
            let held = written - kept;
            assert_eq!(read(&buffer, kept, held as usize), Some(bytes(kept..written)), "step {step}");
            assert!(pool.used() <= held + 2 * BLOCK as u64, "step {step}");
        }
        buffer.advance(&mut pool, written);
        assert_eq!(pool.used(), 0);
    }

    #[test]
    fn bytes_that_come_before_others_fill_the_hole() {
        let (mut pool, mut buffer) = (Pool::default(), Buffer::default());
        buffer.store(&mut pool, 90_000, &bytes(90_000..100_000));
        // A gap costs nothing until it is filled.
        assert_eq!(pool.used(), 2 * BLOCK as u64);
        assert_eq!(
            (read(&buffer, 90_000, 10_000), read(&buffer, 80_000, 20_000)),
            (Some(bytes(90_000..100_000)), None)
        );
        buffer.store(&mut pool, 0, &bytes(0..90_000));
        buffer.store(&mut pool, 100_000, &bytes(100_000..300_000));
        assert_eq!(read(&buffer, 0, 300_000), Some(bytes(0..300_000)));
    }

    #[test]
    fn what_is_forgotten_or_was_never_there_is_not_handed_out() {
        let (mut pool, mut buffer) = (Pool::default(), Buffer::default());
        assert_eq!(read(&buffer, 0, 1), None);
        assert_eq!(read(&buffer, 7, 0), Some(Vec::new()));
        buffer.store(&mut pool, 0, &bytes(0..100));
        buffer.advance(&mut pool, 50);
        assert_eq!((read(&buffer, 49, 1), read(&buffer, 60, 41)), (None, None));
        buffer.store(&mut pool, 40, &bytes(40..60));
        assert_eq!(read(&buffer, 50, 50), Some(bytes(50..100)));
        assert_eq!(read(&buffer, u64::MAX, 2), None);
        buffer.release(&mut pool);
        assert_eq!((pool.used(), read(&buffer, 50, 1)), (0, None));
        buffer.store(&mut pool, 100, &bytes(100..101));
        assert_eq!(read(&buffer, 100, 1), Some(bytes(100..101)));
    }

    #[test]
    fn bytes_that_a_failed_path_carries_stay_until_they_are_no_longer_needed() {
        let (mut pool, mut buffer) = (Pool::default(), Buffer::default());
        let mut written = 0;
        let needed = [(40_000, 52_000), (10_000, 45_000), (70_000, 70_500)];
        let needed: Vec<_> = needed.iter().map(|&(start, end)| DataRange::new(start, end)).collect();
        for base in [5_000_u64, 20_000, 30_001, 51_000, 51_001, 52_000, 70_200, 900_000] {
            let to = base.max(69_000) + 3_000;
            buffer.store(&mut pool, written, &bytes(written..written.max(to)));
            written = written.max(to);
            buffer.advance_to(&mut pool, base, needed.clone());
            for range in &needed {
                let len = range.len() as usize;
                let there = (range.end <= written).then(|| bytes(range.start..range.end));
                assert_eq!(read(&buffer, range.start, len), there, "{range:?} before {base}");
            }
        }
        assert_eq!((read(&buffer, 9_999, 2), read(&buffer, 51_999, 2)), (None, None));
        assert_eq!(buffer.kept(), 42_500);
        assert!(pool.used() <= 42_500 + 2 * BLOCK as u64, "{}", pool.used());
        // The path is back, and delivers the first part.
        buffer.advance_to(&mut pool, 900_001, vec![DataRange::new(70_000, 70_500)]);
        assert_eq!((buffer.kept(), read(&buffer, 70_100, 400)), (500, Some(bytes(70_100..70_500))));
        buffer.advance_to(&mut pool, written, Vec::new());
        assert_eq!((pool.used(), read(&buffer, 70_100, 400)), (0, None));
        buffer.store(&mut pool, written, &bytes(0..10));
        buffer.advance_to(&mut pool, written + 5, vec![DataRange::new(written, written + 9)]);
        buffer.release(&mut pool);
        assert_eq!(pool.used(), 0);
    }

    /// Returns all of the next `len` bytes that can be taken, and releases the blocks.
    fn take(pool: &mut Pool, buffer: &mut Buffer, mut len: u64) -> Vec<u8> {
        let mut taken = Vec::new();
        while let Some((block, range)) = buffer.take(pool, len) {
            taken.extend_from_slice(&block[range.clone()]);
            len -= range.len() as u64;
            pool.give(block);
        }
        taken
    }

    #[test]
    fn bytes_are_taken_out_with_their_blocks() {
        let (mut pool, mut buffer) = (Pool::default(), Buffer::default());
        assert!(take(&mut pool, &mut buffer, 0).is_empty());
        buffer.store(&mut pool, 0, &bytes(0..40_000));
        let (block, range) = buffer.take(&mut pool, 100).unwrap();
        assert_eq!((&block[range], read(&buffer, 0, 1)), (&bytes(0..100)[..], None));
        // The bytes that followed them stayed in place.
        assert_eq!(pool.used(), 4 * BLOCK as u64);
        pool.give(block);
        assert_eq!(take(&mut pool, &mut buffer, 39_900), bytes(100..40_000));
        assert_eq!(pool.used(), 0);
        // The rest of a block after its first part has been taken.
        buffer.store(&mut pool, 40_000, &bytes(40_000..40_500));
        let (block, range) = buffer.take(&mut pool, 500).unwrap();
        buffer.store(&mut pool, 40_500, &bytes(40_500..70_000));
        assert_eq!(&block[range], bytes(40_000..40_500));
        pool.give(block);
        assert_eq!(take(&mut pool, &mut buffer, 29_500), bytes(40_500..70_000));
        // A gap before it, and one after it.
        buffer.store(&mut pool, 71_000, &bytes(71_000..72_000));
        buffer.store(&mut pool, 70_000, &bytes(70_000..70_900));
        assert_eq!(take(&mut pool, &mut buffer, 900), bytes(70_000..70_900));
        buffer.store(&mut pool, 70_900, &bytes(70_900..71_000));
        assert_eq!(take(&mut pool, &mut buffer, 1100), bytes(70_900..72_000));
        assert_eq!(pool.used(), 0);
    }

    #[test]
    fn a_pool_keeps_some_blocks_and_no_more() {
        let (mut pool, mut buffer) = (Pool::default(), Buffer::default());
        let len = (SPARE + 10) * BLOCK;
        buffer.store(&mut pool, 0, &vec![1; len]);
        assert_eq!(pool.used(), len as u64);
        buffer.advance(&mut pool, len as u64);
        assert_eq!((pool.used(), pool.spare.len()), (0, SPARE));
    }
}
