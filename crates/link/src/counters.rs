//! The counters of a link.

use crate::{Effect, Effects};

/// A number of packets and their bytes on the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Packets, each counted once at any length.
    pub packets: u64,
    /// Their total length in bytes on the wire.
    pub bytes: u64,
}

impl Tally {
    /// Counts one more packet.
    #[inline]
    pub fn add(&mut self, wire_bytes: u32) {
        self.packets += 1;
        self.bytes += u64::from(wire_bytes);
    }
}

impl core::ops::Add for Tally {
    type Output = Tally;
    fn add(self, other: Tally) -> Tally {
        Tally { packets: self.packets + other.packets, bytes: self.bytes + other.bytes }
    }
}

/// The counters of a link since it was made.
///
/// Always `offered + duplicated = delivered + dropped() + inside`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Counters {
    // First the counters that every packet changes.
    /// Packets offered to the link by `push`.
    pub offered: Tally,
    /// The longest queue, the packet in service included: the most packets and, separately, the most bytes.
    pub max_queue: Tally,
    /// Packets delivered at the far end by `poll`.
    pub delivered: Tally,
    /// Copies made by the link and admitted to its queue.
    pub duplicated: Tally,
    /// Dropped because the queue was full.
    pub dropped_queue: Tally,
    /// Dropped by the Bernoulli draw.
    pub dropped_random: Tally,
    /// Dropped by the Gilbert-Elliott channel.
    pub dropped_gilbert_elliott: Tally,
    /// Dropped because they are in the drop list.
    pub dropped_listed: Tally,
    /// Dropped because they were offered while the link was down, or queued when it went down.
    pub dropped_down: Tally,
    /// Dropped because they exceed the MTU.
    pub dropped_too_large: Tally,
    /// Dropped by the queue management: RED, CoDel or FQ-CoDel.
    pub dropped_aqm: Tally,
    /// Dropped because they exceed the policer.
    pub dropped_policer: Tally,
    /// Packets of the link's own cross traffic that have departed; not among those offered and delivered.
    pub cross: Tally,
    /// Packets of the cross traffic that were dropped.
    pub cross_dropped: Tally,
    /// Packets delayed so that others overtake them.
    pub reordered: Tally,
    /// The packets with each [`Effect`], in the order of [`Effect::ALL`].
    pub effects: [Tally; Effect::ALL.len()],
}

impl Counters {
    /// Returns the packets that had this effect.
    pub fn effect(&self, effect: Effect) -> Tally {
        self.effects[effect as usize]
    }

    /// Returns the numbers of packets, and of bytes where they matter, with the names that results have for them.
    pub fn by_name(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        let first = [
            ("offered_packets", self.offered.packets),
            ("offered_bytes", self.offered.bytes),
            ("delivered_packets", self.delivered.packets),
            ("delivered_bytes", self.delivered.bytes),
            ("dropped_queue", self.dropped_queue.packets),
            ("dropped_random", self.dropped_random.packets),
            ("dropped_gilbert_elliott", self.dropped_gilbert_elliott.packets),
            ("dropped_listed", self.dropped_listed.packets),
            ("dropped_down", self.dropped_down.packets),
            ("dropped_too_large", self.dropped_too_large.packets),
            ("dropped_aqm", self.dropped_aqm.packets),
            ("dropped_policer", self.dropped_policer.packets),
            ("duplicated", self.duplicated.packets),
            ("reordered", self.reordered.packets),
            ("cross_packets", self.cross.packets),
            ("cross_dropped", self.cross_dropped.packets),
        ];
        let mut effects = Effect::ALL.map(|effect| (effect.name(), self.effect(effect).packets));
        effects.sort_unstable();
        let queue =
            [("max_queue_packets", self.max_queue.packets), ("max_queue_bytes", self.max_queue.bytes)];
        first.into_iter().chain(effects).chain(queue)
    }

    /// Counts the effects on one more packet.
    #[cold]
    pub(crate) fn add_effects(&mut self, effects: Effects, wire_bytes: u32) {
        for (effect, tally) in Effect::ALL.into_iter().zip(&mut self.effects) {
            if effects.has(effect) {
                tally.add(wire_bytes);
            }
        }
    }

    /// Returns all dropped packets, whatever the reason.
    pub fn dropped(&self) -> Tally {
        self.dropped_queue
            + self.dropped_random
            + self.dropped_gilbert_elliott
            + self.dropped_listed
            + self.dropped_down
            + self.dropped_too_large
            + self.dropped_aqm
            + self.dropped_policer
    }
}
