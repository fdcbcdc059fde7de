//! The memory of a growing receive buffer, and the part of it that is payload.
//!
//! Linux limits memory, and advertises the payload that fits into it. A segment also takes the space of its
//! headers and of its descriptor, so a host assumes at first that half of its memory is payload, and measures
//! the part of each subflow with its first large segment (`tcp_measure_rcv_mss` sets `scaling_ratio`).
//!
//! **Source**: net/ipv4/tcp_input.c and include/net/tcp.h of Linux 6.18.
//!
//! **Constants**: one half before the measurement, 39/64 after it: 1420 bytes in 2304 bytes of memory.
//!
//! **Departures from the source**: every measurement has the same result.

use core::num::NonZeroU64;

/// The measured part: `MEASURED.0` bytes of payload in `MEASURED.1` bytes of memory.
const MEASURED: (u64, u64) = (39, 64);

/// The minimum length of a segment that is a measurement: the MSS of an unknown path.
pub(crate) const LEAST_MEASURE: u32 = 536;

/// An amount of memory, in bytes; a part of it is payload. It takes the space of one number, also as an
/// `Option`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Memory(NonZeroU64);

/// Always set.
const PRESENT: u64 = 1;
/// Set once the part of payload was measured.
const MEASURED_BIT: u64 = 2;
/// The bits of a [`Memory`] below the number of bytes, and the maximum number.
const SHIFT: u32 = 2;
const MOST: u64 = u64::MAX >> SHIFT;

impl core::fmt::Debug for Memory {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Memory").field("bytes", &self.bytes()).field("measured", &self.is_measured()).finish()
    }
}

impl Memory {
    /// Returns this amount of memory before any measurement.
    pub(crate) const fn new(bytes: u64) -> Memory {
        Memory::with(bytes, 0)
    }

    /// Returns this amount of memory, with the bit `measured` or 0.
    const fn with(bytes: u64, measured: u64) -> Memory {
        let bytes = if bytes < MOST { bytes } else { MOST };
        match NonZeroU64::new(bytes << SHIFT | measured | PRESENT) {
            Some(packed) => Memory(packed),
            None => unreachable!(),
        }
    }

    const fn bytes(self) -> u64 {
        self.0.get() >> SHIFT
    }

    /// True if the part of payload was measured.
    pub(crate) const fn is_measured(self) -> bool {
        self.0.get() & MEASURED_BIT != 0
    }

    /// Applies the result of a measurement, or of its absence.
    pub(crate) fn set_measured(&mut self, measured: bool) {
        *self = Memory::with(self.bytes(), if measured { MEASURED_BIT } else { 0 });
    }

    /// Returns the payload that fits into all of it.
    pub(crate) const fn payload(self) -> u64 {
        self.payload_in(self.bytes())
    }

    /// Returns the payload that still fits while it holds `held` bytes of payload.
    pub(crate) const fn free(self, held: u64) -> u64 {
        self.payload_in(self.bytes().saturating_sub(held * MEASURED.1 / MEASURED.0))
    }

    /// Grows until `window` bytes of payload fit. Returns false if they fit already.
    pub(crate) fn grow(&mut self, window: u64) -> bool {
        let needed = if self.is_measured() {
            window.saturating_mul(MEASURED.1) / MEASURED.0
        } else {
            window.saturating_mul(2)
        };
        let grows = needed > self.bytes();
        if grows {
            *self = Memory::with(needed, self.0.get() & MEASURED_BIT);
        }
        grows
    }

    const fn payload_in(self, bytes: u64) -> u64 {
        if self.is_measured() { bytes / MEASURED.1 * MEASURED.0 } else { bytes / 2 }
    }
}

/// The size of a receive buffer in bytes of payload, which follows its memory if that limits it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Buffer {
    size: u64,
    memory: Option<Memory>,
}

impl Buffer {
    /// Returns a buffer of `size` bytes of payload.
    pub(crate) const fn new(size: u64) -> Buffer {
        Buffer { size, memory: None }
    }

    /// Limits it by memory.
    pub(crate) fn limit_by(&mut self, memory: Option<Memory>) {
        self.memory = memory;
        self.follow_memory();
    }

    #[inline]
    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// Returns its memory, if that limits it.
    #[inline]
    pub(crate) fn memory(&self) -> Option<Memory> {
        self.memory
    }

    /// Applies the result of a measurement of its memory, or of its absence.
    pub(crate) fn set_measured(&mut self, measured: bool) {
        if let Some(memory) = &mut self.memory {
            memory.set_measured(measured);
            self.follow_memory();
        }
    }

    /// Grows until `window` bytes of payload fit. Returns false if they fit already.
    pub(crate) fn grow(&mut self, window: u64) -> bool {
        let before = self.size;
        match &mut self.memory {
            None => self.size = before.max(window),
            Some(memory) => {
                let grown = memory.grow(window);
                self.follow_memory();
                return grown;
            }
        }
        self.size > before
    }

    fn follow_memory(&mut self) {
        if let Some(memory) = self.memory {
            self.size = memory.payload();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_takes_one_number() {
        assert_eq!(size_of::<Option<Memory>>(), 8);
        let mut largest = Memory::new(u64::MAX);
        largest.set_measured(true);
        assert!(largest.is_measured() && !largest.grow(u64::MAX));
        assert_eq!(largest.bytes(), u64::MAX >> 2);
    }

    #[test]
    fn a_buffer_follows_its_memory_and_grows_without_one() {
        let mut buffer = Buffer::new(1000);
        assert!(buffer.grow(1500) && !buffer.grow(1500));
        buffer.set_measured(true);
        assert_eq!((buffer.size(), buffer.memory()), (1500, None));
        buffer.limit_by(Some(Memory::new(131_072)));
        assert_eq!(buffer.size(), 65_536);
        buffer.set_measured(true);
        assert_eq!(buffer.size(), 79_872);
        assert!(!buffer.grow(79_000) && buffer.grow(100_000));
        assert!(buffer.size() <= 100_000 && buffer.size() > 99_000);
    }

    #[test]
    fn half_of_the_memory_is_payload_until_it_is_measured() {
        let mut memory = Memory::new(131_072);
        assert_eq!((memory.payload(), memory.is_measured()), (65_536, false));
        memory.set_measured(true);
        assert_eq!((memory.payload(), memory.is_measured()), (79_872, true));
    }

    #[test]
    fn held_payload_takes_the_memory_of_its_segments() {
        let mut memory = Memory::new(131_072);
        assert_eq!(memory.free(39_000), (131_072 - 64_000) / 2);
        memory.set_measured(true);
        assert_eq!(memory.free(39_000), 79_872 - 39_000);
        assert_eq!(memory.free(1 << 20), 0);
    }

    #[test]
    fn memory_that_grew_before_a_measurement_holds_more_after_it() {
        let mut memory = Memory::new(131_072);
        assert!(!memory.grow(65_536) && memory.grow(78_000));
        assert_eq!(memory.payload(), 78_000);
        memory.set_measured(true);
        assert_eq!(memory.payload(), 156_000 / 64 * 39);
        assert!(!memory.grow(90_000));
    }
}
