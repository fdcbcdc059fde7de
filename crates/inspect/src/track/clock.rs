//! The clock of a host's timestamps (RFC 7323), and the delay of packets by it.

use anabranch_units::{Duration, Time};

/// The ticks that hosts have: Linux 1 ms (and before 4.13 its jiffy), anabranch and new kernels 1 us.
const TICKS: [u64; 5] = [1_000, 1_000_000, 4_000_000, 10_000_000, 100_000_000];
/// The time after which the tick is known.
const LEAST: Duration = Duration::from_millis(40);

/// The clock of one host.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Clock {
    first: Option<(Time, u32)>,
    tick: u64,
    /// The least difference of capture time and timestamp, relative to the first packet.
    least: Option<i64>,
}

impl Clock {
    /// Takes a timestamp of any packet.
    pub(crate) fn on_value(&mut self, now: Time, value: u32) {
        let Some((begun, first)) = self.first else {
            self.first = Some((now, value));
            self.least = Some(0);
            return;
        };
        let (elapsed, ticks) = (now.since(begun), value.wrapping_sub(first));
        if self.tick == 0 && elapsed >= LEAST && (8..u32::MAX / 2).contains(&ticks) {
            let one = elapsed.0 as f64 / f64::from(ticks);
            let near = TICKS.into_iter().find(|tick| (one / *tick as f64 - 1.0).abs() < 0.2);
            self.tick = near.unwrap_or(0);
        }
        if let Some(late) = self.late(now, value) {
            self.least = Some(self.least.map_or(late, |least| least.min(late)));
        }
    }

    fn late(&self, now: Time, value: u32) -> Option<i64> {
        let (begun, first) = self.first.filter(|_| self.tick > 0)?;
        let ticks = i64::from(value.wrapping_sub(first) as i32);
        let elapsed = (now.0 as i64).saturating_sub(begun.0 as i64);
        Some(elapsed.saturating_sub(ticks.saturating_mul(self.tick as i64)))
    }

    /// Returns the delay of a packet above the least one, and the noise of the clock's tick.
    pub(crate) fn queue(&self, now: Time, value: Option<u32>) -> Option<(Duration, Duration)> {
        let late = self.late(now, value?)?.saturating_sub(self.least?);
        // A timestamp is up to a tick old when it is sent; the meter ignores less than a twelfth of the base.
        Some((Duration(late.max(0) as u64), Duration(self.tick.saturating_mul(18).max(10_000_000))))
    }
}
