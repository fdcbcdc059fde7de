//! The SACK blocks of an acknowledgement (RFC 2018, RFC 2883).

use super::Receiver;
use crate::segment::SackBlocks;

impl Receiver {
    /// True if there is anything to report in SACK blocks.
    pub(in crate::subflow) fn has_blocks(&self) -> bool {
        !self.dsack.is_empty() || !self.out_of_order.is_empty()
    }

    /// True if more than one hole is open, and no duplicate shows that an acknowledgement was lost.
    pub(in crate::subflow) fn has_several_holes(&self) -> bool {
        self.dsack.is_empty() && self.out_of_order.as_slice().len() > 1
    }

    /// Returns the SACK blocks of the next acknowledgement, at most `room` of them: a duplicate first (RFC
    /// 2883), then the block of the latest arrival, then the others by age (RFC 2018 section 4).
    pub(in crate::subflow) fn blocks(&mut self, room: u32) -> SackBlocks {
        let mut blocks = SackBlocks::EMPTY;
        let room = room.min(4) as usize;
        if room == 0 {
            return blocks;
        }
        let dup = core::mem::take(&mut self.dsack);
        if !dup.is_empty() {
            blocks.push(self.irs.add(dup.start), self.irs.add(dup.end));
        }
        if self.out_of_order.is_empty() {
            return blocks;
        }
        let mut seen = [u64::MAX; 4];
        let mut count = 0;
        for start in self.recent {
            if blocks.as_slice().len() >= room {
                return blocks;
            }
            let start = self.nxt + u64::from(start.wrapping_sub(self.nxt as u32));
            let Some(range) = self.out_of_order.containing(start) else { continue };
            if seen[..count].contains(&range.start) {
                continue;
            }
            seen[count] = range.start;
            count += 1;
            blocks.push(self.irs.add(range.start), self.irs.add(range.end));
        }
        for range in self.out_of_order.as_slice().iter().rev() {
            if blocks.as_slice().len() >= room {
                break;
            }
            if !seen[..count].contains(&range.start) {
                blocks.push(self.irs.add(range.start), self.irs.add(range.end));
            }
        }
        blocks
    }

    /// Records the start of the latest arrival after a hole.
    pub(super) fn remember(&mut self, start: u64) {
        self.recent.copy_within(0..3, 1);
        self.recent[0] = start as u32;
    }
}
