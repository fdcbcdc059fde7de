//! Payload held until its mapping, or the rest of its checksummed range, arrives.

use std::collections::BTreeMap;

use anabranch_stack::event::SubflowId;
use anabranch_stack::seq::DataRange;

/// Bytes by their position in a subflow. The stack limits their number.
#[derive(Debug, Default)]
pub(crate) struct Held {
    /// By subflow and start; pieces do not overlap.
    pieces: BTreeMap<(u8, u64), Vec<u8>>,
}

impl Held {
    /// Stores `bytes`, which begin at `start`.
    pub(crate) fn hold(&mut self, subflow: SubflowId, start: u64, bytes: &[u8]) {
        self.pieces.insert((subflow.0, start), bytes.to_vec());
    }

    /// Removes the bytes of `range`, and passes each piece with its start to `each`.
    pub(crate) fn take(&mut self, subflow: SubflowId, range: DataRange, mut each: impl FnMut(u64, &[u8])) {
        let id = subflow.0;
        // The preceding piece may reach into the range.
        let before = self.pieces.range((id, 0)..(id, range.start)).next_back().map(|(key, _)| *key);
        let first = before.unwrap_or((id, range.start));
        let keys: Vec<_> =
            self.pieces.range(first..(id, range.end.max(first.1))).map(|(key, _)| *key).collect();
        for key in keys {
            let Some(bytes) = self.pieces.remove(&key) else { continue };
            let piece = DataRange::new(key.1, key.1 + bytes.len() as u64);
            let wanted = piece.intersection(range);
            let at = |offset: u64| (offset - piece.start) as usize;
            if wanted.is_empty() {
                self.pieces.insert(key, bytes);
                continue;
            }
            each(wanted.start, &bytes[at(wanted.start)..at(wanted.end)]);
            if piece.start < wanted.start {
                self.pieces.insert(key, bytes[..at(wanted.start)].to_vec());
            }
            if wanted.end < piece.end {
                self.pieces.insert((id, wanted.end), bytes[at(wanted.end)..].to_vec());
            }
        }
    }

    /// Discards the bytes of `subflow`.
    pub(crate) fn forget(&mut self, subflow: SubflowId) {
        self.pieces.retain(|(id, _), _| *id != subflow.0);
    }

    /// True if nothing is held.
    pub(crate) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: SubflowId = SubflowId(0);
    const B: SubflowId = SubflowId(1);

    fn take(held: &mut Held, subflow: SubflowId, start: u64, end: u64) -> Vec<(u64, Vec<u8>)> {
        let mut taken = Vec::new();
        held.take(subflow, DataRange::new(start, end), |at, bytes| taken.push((at, bytes.to_vec())));
        taken
    }

    #[test]
    fn what_is_taken_may_be_a_part_of_a_piece_or_several_together() {
        let mut held = Held::default();
        held.hold(A, 11, b"klmno");
        held.hold(A, 1, b"abcdefghij");
        held.hold(B, 1, b"other");
        assert_eq!(take(&mut held, A, 3, 5), [(3, b"cd".to_vec())]);
        assert_eq!(take(&mut held, A, 1, 3), [(1, b"ab".to_vec())]);
        assert_eq!(take(&mut held, A, 7, 13), [(7, b"ghij".to_vec()), (11, b"kl".to_vec())]);
        assert_eq!(take(&mut held, A, 1, 100), [(5, b"ef".to_vec()), (13, b"mno".to_vec())]);
        assert!(take(&mut held, A, 1, 100).is_empty());
        held.forget(B);
        assert!(held.is_empty());
    }
}
