//! Tokio's clock, as the stack counts time.

use anabranch_units::Time;
use tokio::time::Instant;

/// Counts from the moment it was made; follows tokio's clock, also where that is paused.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    origin: Instant,
}

impl Clock {
    /// A clock that stands at zero now.
    pub fn start() -> Clock {
        Clock { origin: Instant::now() }
    }

    /// The time that it is.
    pub fn now(self) -> Time {
        Time(Instant::now().saturating_duration_since(self.origin).as_nanos() as u64)
    }

    /// When it will be `time`; an instant far away if that is never.
    pub fn instant(self, time: Time) -> Instant {
        // Tokio takes no deadline beyond some centuries.
        let nanos = time.as_nanos().min(365 * 86_400 * 1_000_000_000);
        self.origin + core::time::Duration::from_nanos(nanos)
    }
}
