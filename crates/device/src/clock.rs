//! Tokio's clock as a [`Time`](anabranch_units::Time) of the stack.

use anabranch_units::Time;
use tokio::time::Instant;

/// Counts from the moment it was made; follows tokio's clock, including a paused one.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    origin: Instant,
}

impl Clock {
    /// Returns a clock that reads zero now.
    pub fn start() -> Clock {
        Clock { origin: Instant::now() }
    }

    /// Returns the current time.
    pub fn now(self) -> Time {
        Time(Instant::now().saturating_duration_since(self.origin).as_nanos() as u64)
    }

    /// Returns tokio's instant of `time`; one in the far future for [`Time::NEVER`].
    pub fn instant(self, time: Time) -> Instant {
        // Tokio accepts no deadline beyond some centuries.
        let nanos = time.as_nanos().min(365 * 86_400 * 1_000_000_000);
        self.origin + core::time::Duration::from_nanos(nanos)
    }
}
