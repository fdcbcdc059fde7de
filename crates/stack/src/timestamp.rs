//! The clock of TCP timestamps (RFC 7323 section 4.1).

use anabranch_units::{Duration, Time};

/// The tick of an endpoint's timestamps.
///
/// A peer distinguishes old timestamps from new ones by half of their 32 bits, and forgets the last one it
/// has seen only after 24 days (RFC 7323 section 5.5): a clock that ticks more often than once in a
/// millisecond looks old to it after a silence of half its wrap time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum TimestampTick {
    /// One microsecond: any two transmissions can be distinguished. Wraps after 71 minutes, which no
    /// simulated peer minds.
    #[default]
    Microsecond,
    /// One millisecond, as in Linux, of a clock that is ahead by `phase` microseconds. Wraps after 49 days.
    Millisecond {
        /// The time from the last tick to the start of the local clock, in microseconds.
        phase: u16,
    },
}

impl TimestampTick {
    /// Milliseconds, with a tick when the local clock starts.
    pub const MILLISECOND: TimestampTick = TimestampTick::Millisecond { phase: 0 };

    /// Returns the time between two ticks.
    pub const fn period(self) -> Duration {
        match self {
            TimestampTick::Microsecond => Duration::from_micros(1),
            TimestampTick::Millisecond { .. } => Duration::from_millis(1),
        }
    }

    /// Returns the timestamp of a segment sent at `at`.
    #[inline]
    pub const fn value(self, at: Time) -> u32 {
        match self {
            TimestampTick::Microsecond => at.as_micros() as u32,
            TimestampTick::Millisecond { phase } => ((at.as_micros() + phase as u64) / 1000) as u32,
        }
    }

    /// Returns the duration of a number of ticks.
    #[inline]
    pub const fn span(self, ticks: u32) -> Duration {
        match self {
            TimestampTick::Microsecond => Duration::from_micros(ticks as u64),
            TimestampTick::Millisecond { .. } => Duration::from_millis(ticks as u64),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_tick_counts_its_own_periods() {
        for tick in [TimestampTick::Microsecond, TimestampTick::MILLISECOND] {
            let period = tick.period();
            assert_eq!(tick.value(Time::ZERO + period * 7), 7);
            assert_eq!(tick.value(Time::ZERO + period * 8 - Duration(1)), 7);
            assert_eq!(tick.span(9), period * 9);
            // It wraps, as the field does.
            assert_eq!(tick.value(Time::ZERO + period * (1 << 32) + period * 5), 5);
        }
    }
}
