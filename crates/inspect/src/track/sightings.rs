//! Packets that two captures have, from which the offset between their clocks follows.
//!
//! A packet is recognised by its sequence numbers, its timestamp and its SYN and FIN, which survive a NAT and
//! segmentation offload. Of copies each capture counts the first one, so a loss between the two places makes a
//! difference larger, never smaller than the delay.

use std::collections::BTreeMap;

use anabranch_stack::segment::{Flags, Segment};
use anabranch_units::Time;
use rustc_hash::FxHashMap;

/// The packets of each direction of a subflow that are remembered, from its first one: a clock drifts later.
const FIRST: u64 = 256;
/// The most packets that wait for their second sighting.
const MOST: usize = 1 << 18;

/// A packet as every capture of it shows it.
type Key = (u32, u32, u32, u8);

/// The differences of the times of packets in one direction: their count, the least and the greatest, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Differences {
    pub packets: u64,
    pub least: i64,
    pub greatest: i64,
}

/// Packets with their times in two captures.
#[derive(Debug, Default)]
pub(crate) struct Sightings {
    /// True if there is more than one capture.
    pub is_needed: bool,
    once: FxHashMap<Key, (usize, usize, Time)>,
    /// By two subflows of different files and a half of the former: the times in the second file less the ones in the first.
    pub pairs: BTreeMap<(usize, usize, usize), Differences>,
}

impl Sightings {
    /// Takes packet number `count` of half `half` of the subflow `at` in `file`.
    pub(crate) fn see(
        &mut self,
        now: Time,
        (at, file): (usize, usize),
        half: usize,
        count: u64,
        segment: &Segment,
    ) {
        if !self.is_needed || count >= FIRST {
            return;
        }
        let stamp = segment.options.timestamps.map_or(0, |timestamps| timestamps.value);
        let flags = u8::from(segment.flags.has(Flags::SYN)) | u8::from(segment.flags.has(Flags::FIN)) << 1;
        let key = (segment.seq.0, segment.ack.0, stamp, flags);
        match self.once.get(&key).copied() {
            None if self.once.len() < MOST => drop(self.once.insert(key, (at, file, now))),
            Some((other, of, time)) if of != file => {
                self.once.remove(&key);
                let (ends, difference) = match of < file {
                    true => ((other, at), now.0 as i64 - time.0 as i64),
                    false => ((at, other), time.0 as i64 - now.0 as i64),
                };
                let new = Differences { packets: 0, least: i64::MAX, greatest: i64::MIN };
                let sum = self.pairs.entry((ends.0, ends.1, half)).or_insert(new);
                sum.packets += 1;
                (sum.least, sum.greatest) = (sum.least.min(difference), sum.greatest.max(difference));
            }
            _ => {}
        }
    }
}
