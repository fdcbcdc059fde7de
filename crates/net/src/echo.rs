//! How many pings a host answers.

use anabranch_units::Time;

/// So many a second, as Linux bounds its ICMP messages (`net.ipv4.icmp_msgs_per_sec`, `icmp_msgs_burst`).
const PER_SECOND: u64 = 1000;
const BURST: u64 = 50;
/// One answer, in nanoseconds of waiting.
const COST: u64 = 1_000_000_000 / PER_SECOND;

/// A token bucket (RFC 4443 section 2.4 (f)).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct EchoLimit {
    /// When the bucket will be full again.
    full_at: Time,
}

impl EchoLimit {
    /// Whether one more may be answered at `now`; then it counts.
    pub(crate) fn admits(&mut self, now: Time) -> bool {
        let from = self.full_at.max(now);
        if from.as_nanos() - now.as_nanos() > (BURST - 1) * COST {
            return false;
        }
        self.full_at = Time(from.as_nanos().saturating_add(COST));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_and_then_so_many_a_second() {
        let mut limit = EchoLimit::default();
        let admitted = |limit: &mut EchoLimit, at: Time| (0..200).filter(|_| limit.admits(at)).count();
        let start = Time::from_secs(5);
        assert_eq!(admitted(&mut limit, start), 50);
        assert_eq!(admitted(&mut limit, Time(start.0 + 10_000_000)), 10);
        assert_eq!(admitted(&mut limit, Time::from_secs(9)), 50);
        // Every millisecond 5: of a second's 5000 a thousand, and the burst.
        let ticks = (10_000..11_000).map(Time::from_millis);
        let count: usize = ticks.map(|at| (0..5).filter(|_| limit.admits(at)).count()).sum();
        assert_eq!(count, 1000 + 49);
    }
}
