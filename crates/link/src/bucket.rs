//! Token buckets: the policer and the shaper of a link.
//!
//! A bucket holds at most `burst` bytes of tokens, is full at first, and is filled at `rate`. Tokens are counted in
//! billionths of a bit, so that a rate in bit/s adds `rate` of them in a nanosecond and nothing is rounded.

use anabranch_units::{Duration, Rate, Time};

use crate::error::LinkConfigError;
use crate::server::work;

/// A long-term rate, and the bytes that may exceed it.
///
/// As a **policer** ([`LinkConfig::policer`](crate::LinkConfig)) it stands before the queue and drops each packet
/// that finds too few tokens. As a **shaper** ([`LinkConfig::shaper`](crate::LinkConfig)) it holds packets in the
/// queue until there are enough; the capacity of the link is then the rate within a burst. A packet longer than the
/// burst never passes a policer; it passes a shaper when the bucket is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenBucket {
    /// The rate at which tokens are added.
    pub rate: Rate,
    /// The size of the bucket in bytes.
    pub burst: u64,
}

impl TokenBucket {
    /// The largest burst: 1 GB.
    pub const MAX_BURST: u64 = LinkConfigError::MAX_BURST;

    pub(crate) fn check(&self, of: &'static str) -> Result<(), LinkConfigError> {
        if self.rate.as_bps() == 0 || self.rate > LinkConfigError::MAX_RATE {
            return Err(LinkConfigError::Rate(self.rate));
        }
        if self.burst == 0 || self.burst > TokenBucket::MAX_BURST {
            return Err(LinkConfigError::Burst { of, value: self.burst });
        }
        Ok(())
    }

    /// Returns the most bytes that pass in any span of this length, unless a single packet is longer than the burst.
    pub fn most_in(&self, span: Duration) -> u64 {
        self.rate.bytes_in(span).saturating_add(1).saturating_add(self.burst)
    }
}

/// A token bucket and its tokens.
#[derive(Clone, Debug)]
pub(crate) struct Bucket {
    rate: i128,
    full: i128,
    /// The tokens at the time `at`; negative after a packet longer than the bucket.
    tokens: i128,
    at: Time,
}

impl Bucket {
    /// Returns a full bucket.
    pub(crate) fn new(settings: &TokenBucket) -> Bucket {
        let full = i128::from(settings.burst) * i128::from(work(1));
        Bucket { rate: i128::from(settings.rate.as_bps()), full, tokens: full, at: Time::ZERO }
    }

    fn fill(&mut self, now: Time) {
        let added = self.rate * i128::from(now.since(self.at).0);
        self.tokens = self.full.min(self.tokens + added);
        self.at = self.at.max(now);
    }

    /// Takes the tokens of a packet if there are enough.
    pub(crate) fn take(&mut self, now: Time, wire_bytes: u32) -> bool {
        self.fill(now);
        let needed = i128::from(work(wire_bytes));
        let enough = self.tokens >= needed;
        if enough {
            self.tokens -= needed;
        }
        enough
    }

    /// Takes the tokens of a packet, and returns the time when there are enough: `now` or later. Calls must have the
    /// times that earlier calls returned, or later ones.
    pub(crate) fn wait(&mut self, now: Time, wire_bytes: u32) -> Time {
        self.fill(now);
        let needed = i128::from(work(wire_bytes));
        let missing = needed.min(self.full) - self.tokens;
        let start = match missing {
            ..=0 => now,
            _ => {
                let wait = u64::try_from((missing + self.rate - 1) / self.rate).unwrap_or(u64::MAX);
                Time(now.0.saturating_add(wait))
            }
        };
        self.fill(start);
        self.tokens -= needed;
        start
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 1 byte a microsecond, and 3000 bytes at once.
    fn bucket() -> Bucket {
        Bucket::new(&TokenBucket { rate: Rate::from_mbps(8), burst: 3000 })
    }

    fn us(n: u64) -> Time {
        Time(n * 1000)
    }

    #[test]
    fn a_policer_passes_the_burst_and_then_the_rate() {
        let mut bucket = bucket();
        assert!(bucket.take(us(0), 1500) && bucket.take(us(0), 1500) && !bucket.take(us(0), 1));
        assert!(!bucket.take(Time(1_499_999), 1500));
        assert!(bucket.take(us(1500), 1500));
        // It never holds more than the burst.
        assert!(bucket.take(us(1_000_000), 3000) && !bucket.take(us(1_000_000), 1));
    }

    #[test]
    fn a_refused_packet_costs_no_tokens() {
        let mut bucket = bucket();
        assert!(bucket.take(us(0), 3000));
        for n in 0..100 {
            assert!(!bucket.take(us(n), 1000));
        }
        assert!(bucket.take(us(1000), 1000));
    }

    #[test]
    fn a_shaper_waits_for_exactly_the_missing_tokens() {
        let mut bucket = bucket();
        assert_eq!(bucket.wait(us(0), 2000), us(0));
        assert_eq!(bucket.wait(us(0), 1500), us(500));
        assert_eq!(bucket.wait(us(500), 1500), us(2000));
        assert_eq!(bucket.wait(us(10_000), 3000), us(10_000));
    }

    #[test]
    fn a_packet_longer_than_the_bucket_waits_for_a_full_one_and_leaves_a_debt() {
        let mut bucket = bucket();
        assert_eq!(bucket.wait(us(0), 1000), us(0));
        assert_eq!(bucket.wait(us(0), 4000), us(1000));
        assert_eq!(bucket.wait(us(1000), 500), us(2500));
    }

    #[test]
    fn rates_that_divide_nothing_lose_nothing() {
        let mut bucket = Bucket::new(&TokenBucket { rate: Rate(3_333_333), burst: 3000 });
        let mut now = Time::ZERO;
        for _ in 0..10_000 {
            now = bucket.wait(now, 1500);
        }
        // 9998 packets after the burst, each at the rate: only the last time is rounded.
        let exact = (9998_u128 * 12_000 * 1_000_000_000).div_ceil(3_333_333);
        assert_eq!(u128::from(now.0), exact);
    }
}
