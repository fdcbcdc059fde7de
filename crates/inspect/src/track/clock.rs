//! The clock of a host's timestamps (RFC 7323), and the delay of packets by it.

use anabranch_units::{Duration, Time};

/// The ticks that hosts have: Linux 1 ms (and before 4.13 its jiffy), anabranch and new kernels 1 us.
const TICKS: [u64; 5] = [1_000, 1_000_000, 4_000_000, 10_000_000, 100_000_000];
/// The time after which a tick of a millisecond or less is known, and a longer one.
const LEAST: Duration = Duration::from_millis(40);
const SURE: Duration = Duration::from_millis(1000);
/// The most by which packets are later than the first one, beyond a fifth of the time.
const LATE: Duration = Duration::from_millis(300);

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
        if elapsed >= LEAST && (8..u32::MAX / 2).contains(&ticks) {
            // A queue delays later packets, so a tick is not longer than this, but for the delay of the first one.
            let one = elapsed.0 / u64::from(ticks);
            let tick = TICKS.into_iter().rev().find(|tick| *tick <= one + one / 4).unwrap_or(0);
            let late = elapsed.0.saturating_sub(u64::from(ticks).saturating_mul(tick));
            let is_near = one < 5 * tick && late < LATE.0 + elapsed.0 / 5;
            let is_known = is_near && (tick <= TICKS[1] || elapsed >= SURE);
            if is_known && (self.tick == 0 || tick < self.tick) {
                (self.tick, self.least) = (tick, Some(0));
            } else if !is_near {
                self.tick = 0;
            }
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the delay by a clock with ticks of `tick`, after packets each 3 ms that meet a queue which grows by `growth` of the
    /// time until it holds 50 ms.
    fn delay(tick: u64, growth: f64, packets: u64) -> Option<u64> {
        let mut clock = Clock::default();
        let mut last = None;
        for number in 0..packets {
            let sent = 3_000_000 * number;
            let queue = (sent as f64 * growth / (1.0 - growth)).min(50e6) as u64;
            let (now, value) = (Time(1_000_000_000 + sent + queue), (7 + sent / tick) as u32);
            clock.on_value(now, value);
            last = clock.queue(now, Some(value)).map(|(delay, _)| delay.0 / 1_000_000);
        }
        last
    }

    #[test]
    fn a_queue_that_fills_at_once_does_not_hide_the_tick() {
        // Most of the time of the first packets is the growing queue.
        for growth in [0.0, 0.3, 0.6, 0.75] {
            for tick in [1_000, 1_000_000, 4_000_000] {
                let delay = delay(tick, growth, 1000).unwrap_or(999);
                let full = if growth > 0.0 { 50 } else { 0 };
                assert!((full..=full + 4).contains(&delay), "{growth} {tick}: {delay}");
            }
        }
        // A clock with another tick is not known.
        assert_eq!(delay(2_000_000, 0.0, 1000), None);
        assert_eq!(delay(50_000, 0.0, 1000), None);
    }
}
