//! Received data lent to a stream, in the blocks in which it arrived.

use std::collections::VecDeque;
use std::ops::Range;

use crate::buffer::{Block, Buffer, Pool};

/// The number of blocks that a stream takes at a time: enough that the data of one round of the driver is
/// read under few locks. The peer may send as much again immediately, as if it had been read.
const BLOCKS: usize = 4;

/// Bytes lent to the reader of a stream.
#[derive(Debug, Default)]
pub(crate) struct Lent {
    /// Blocks with their unread ranges, which are never empty.
    pieces: VecDeque<(Block, Range<usize>)>,
    /// Blocks that were read completely.
    done: Vec<Block>,
}

impl Lent {
    /// Returns the next bytes, as far as they lie in one block; empty if nothing is lent.
    pub(crate) fn bytes(&self) -> &[u8] {
        self.pieces.front().map_or(&[], |(block, range)| &block[range.clone()])
    }

    /// Returns all lent bytes in order, a piece for each block.
    pub(crate) fn all(&self) -> impl Iterator<Item = &[u8]> {
        self.pieces.iter().map(|(block, range)| &block[range.clone()])
    }

    /// Marks the next `n` bytes as read.
    pub(crate) fn consume(&mut self, mut n: usize) {
        while let Some((_, range)) = self.pieces.front_mut() {
            let read = n.min(range.len());
            range.start += read;
            n -= read;
            if range.start < range.end {
                return;
            }
            self.done.extend(self.pieces.pop_front().map(|(block, _)| block));
        }
    }

    /// Takes some of the next `len` bytes of `buffer`, which are all stored; returns their number.
    pub(crate) fn take_from(&mut self, buffer: &mut Buffer, pool: &mut Pool, len: u64) -> u64 {
        let mut taken = 0;
        while self.pieces.len() < BLOCKS
            && let Some(piece) = buffer.take(pool, len - taken)
        {
            taken += piece.1.len() as u64;
            self.pieces.push_back(piece);
        }
        taken
    }

    /// True if it has a block.
    pub(crate) fn holds_any(&self) -> bool {
        !(self.pieces.is_empty() && self.done.is_empty())
    }

    /// Releases the blocks that were read completely.
    pub(crate) fn give_back(&mut self, pool: &mut Pool) {
        self.done.drain(..).for_each(|block| pool.give(block));
    }

    /// Releases all blocks; returns the number of unread bytes.
    pub(crate) fn end(&mut self, pool: &mut Pool) -> u64 {
        self.give_back(pool);
        let unread = |(block, range): (Block, Range<usize>)| {
            pool.give(block);
            range.len() as u64
        };
        self.pieces.drain(..).map(unread).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffer::BLOCK;

    #[test]
    fn blocks_go_back_when_they_were_read_or_at_the_end() {
        let (mut pool, mut buffer, mut lent) = (Pool::default(), Buffer::default(), Lent::default());
        let all: Vec<u8> = (0..6 * BLOCK).map(|at| (at % 251) as u8).collect();
        buffer.store(&mut pool, 0, &all);
        assert_eq!(lent.take_from(&mut buffer, &mut pool, all.len() as u64), (BLOCKS * BLOCK) as u64);
        let mut read = Vec::new();
        for n in [1, BLOCK - 2, BLOCK + 1, 5] {
            read.extend_from_slice(&lent.all().collect::<Vec<_>>().concat()[..n]);
            lent.consume(n);
        }
        assert_eq!(lent.bytes(), &all[2 * BLOCK + 5..3 * BLOCK]);
        assert!(read == all[..2 * BLOCK + 5]);
        lent.give_back(&mut pool);
        assert_eq!(pool.used(), 4 * BLOCK as u64);
        assert!(lent.holds_any());
        assert_eq!(lent.end(&mut pool), 2 * BLOCK as u64 - 5);
        assert_eq!(pool.used(), 2 * BLOCK as u64);
        assert!(!lent.holds_any() && lent.bytes().is_empty());
    }
}
