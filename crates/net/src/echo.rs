//! The rate limit of replies to pings.

use anabranch_units::Time;

/// Replies per second, the limit of Linux for its ICMP messages (`net.ipv4.icmp_msgs_per_sec`,
/// `icmp_msgs_burst`).
const PER_SECOND: u64 = 1000;
const BURST: u64 = 50;
/// The cost of one reply, in nanoseconds.
const COST: u64 = 1_000_000_000 / PER_SECOND;

/// A token bucket (RFC 4443 section 2.4 (f)).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct EchoLimit {
    /// The time when the bucket will be full again.
    full_at: Time,
}

impl EchoLimit {
    /// True if another reply is permitted at `now`, which is then counted.
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
        // Five pings each millisecond: of 5000 in a second, a thousand are answered, plus the burst.
        let ticks = (10_000..11_000).map(Time::from_millis);
        let count: usize = ticks.map(|at| (0..5).filter(|_| limit.admits(at)).count()).sum();
        assert_eq!(count, 1000 + 49);
    }
}
