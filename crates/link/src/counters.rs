//! What a link has done so far.

/// A number of packets and their bytes on the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Packets.
    pub packets: u64,
    /// Bytes on the wire.
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

/// What happened on a link since it was made.
///
/// `offered + duplicated = delivered + dropped() + what is inside`, always.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Counters {
    // First what every packet changes.
    /// Packets offered to the link by `push`.
    pub offered: Tally,
    /// Packets handed out at the far end by `poll`.
    pub delivered: Tally,
    /// The longest queue met, the packet in service included: most packets and, apart, most bytes.
    pub max_queue: Tally,
    /// Copies that the link made and let into its queue.
    pub duplicated: Tally,
    /// Dropped because the queue was full.
    pub dropped_queue: Tally,
    /// Lost by the Bernoulli draw.
    pub dropped_random: Tally,
    /// Lost by the Gilbert-Elliott channel.
    pub dropped_gilbert_elliott: Tally,
    /// Dropped because the drop list names them.
    pub dropped_listed: Tally,
    /// Offered while the link was down, or waiting when it went down.
    pub dropped_down: Tally,
    /// Longer than the MTU.
    pub dropped_too_large: Tally,
    /// Packets sent on to be overtaken.
    pub reordered: Tally,
    /// Packets that found a queue beyond the marking threshold.
    pub marked: Tally,
}

impl Counters {
    /// All packets lost, for whatever reason.
    pub fn dropped(&self) -> Tally {
        self.dropped_queue
            + self.dropped_random
            + self.dropped_gilbert_elliott
            + self.dropped_listed
            + self.dropped_down
            + self.dropped_too_large
    }
}
