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

/// The measured part: `MEASURED.0` bytes of payload in `MEASURED.1` bytes of memory.
const MEASURED: (u64, u64) = (39, 64);

/// The minimum length of a segment that is a measurement: the MSS of an unknown path.
pub(super) const LEAST_MEASURE: u32 = 536;

/// An amount of memory, of which a part is payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Memory {
    bytes: u64,
    measured: bool,
}

impl Memory {
    /// Returns this amount of memory before any measurement.
    pub(crate) const fn new(bytes: u64) -> Memory {
        Memory { bytes, measured: false }
    }

    /// True if the part of payload was measured.
    pub(crate) const fn is_measured(self) -> bool {
        self.measured
    }

    /// Applies the result of a measurement, or of its absence.
    pub(crate) fn set_measured(&mut self, measured: bool) {
        self.measured = measured;
    }

    /// Returns the payload that fits into all of it.
    pub(crate) const fn payload(self) -> u64 {
        self.payload_in(self.bytes)
    }

    /// Returns the payload that still fits while it holds `held` bytes of payload.
    pub(crate) const fn free(self, held: u64) -> u64 {
        self.payload_in(self.bytes.saturating_sub(held * MEASURED.1 / MEASURED.0))
    }

    /// Grows until `window` bytes of payload fit. Returns false if they fit already.
    pub(crate) fn grow(&mut self, window: u64) -> bool {
        let needed = if self.measured {
            window.saturating_mul(MEASURED.1) / MEASURED.0
        } else {
            window.saturating_mul(2)
        };
        let grows = needed > self.bytes;
        self.bytes = self.bytes.max(needed);
        grows
    }

    const fn payload_in(self, bytes: u64) -> u64 {
        if self.measured { bytes / MEASURED.1 * MEASURED.0 } else { bytes / 2 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
