//! Round-trip times and the retransmission timeout (RFC 6298).

use anabranch_units::Duration;

use crate::config::RtoConfig;

/// The estimator of one subflow.
#[derive(Clone, Debug)]
pub(crate) struct RttEstimator {
    srtt: Duration,
    rttvar: Duration,
    min: Duration,
    srtt_min: Duration,
    srtt_max: Duration,
    last: Duration,
    rto: Duration,
    sampled: bool,
    initial: Duration,
    floor: Duration,
    floor_on_variation: bool,
    ceiling: Duration,
}

impl RttEstimator {
    /// Returns an estimator without a sample.
    pub(super) fn new(config: &RtoConfig) -> RttEstimator {
        RttEstimator {
            srtt: Duration::ZERO,
            rttvar: Duration::ZERO,
            min: Duration::MAX,
            srtt_min: Duration::MAX,
            srtt_max: Duration::ZERO,
            last: Duration::ZERO,
            rto: config.initial,
            sampled: false,
            initial: config.initial,
            floor: config.min,
            floor_on_variation: config.min_bounds_variation,
            ceiling: config.max,
        }
    }

    /// True if selective acknowledgements of segments that were sent once are samples, and restart the retransmission
    /// timer if those were sent before the last transmission of the first segment in flight: the timer of Linux
    /// (`tcp_ack_update_rtt` and `tcp_clean_rtx_queue` in net/ipv4/tcp_input.c). RFC 6298 leaves both open.
    pub(super) fn counts_sacked(&self) -> bool {
        self.floor_on_variation
    }

    pub(super) fn sample(&mut self, rtt: Duration) {
        let rtt = rtt.max(Duration::from_nanos(1));
        self.last = rtt;
        self.min = self.min.min(rtt);
        if self.sampled {
            // RFC 6298 section 2.3: alpha = 1/8, beta = 1/4, the variation first.
            let deviation = self.srtt.0.abs_diff(rtt.0);
            self.rttvar = Duration((3 * self.rttvar.0 + deviation) / 4);
            self.srtt = Duration((7 * self.srtt.0 + rtt.0) / 8);
        } else {
            self.sampled = true;
            self.srtt = rtt;
            self.rttvar = rtt / 2;
        }
        self.srtt_min = self.srtt_min.min(self.srtt);
        self.srtt_max = self.srtt_max.max(self.srtt);
        // RFC 6298 section 2.4 bounds the sum from below. Linux bounds the variation term, so that a steady
        // path has RTT + 200 ms.
        let floor = if self.floor_on_variation { self.srtt + self.floor } else { self.floor };
        self.rto = (self.srtt + self.rttvar * 4).max(floor).min(self.ceiling);
    }

    /// Returns the smoothed RTT; `None` before the first sample.
    pub(super) fn srtt(&self) -> Option<Duration> {
        self.sampled.then_some(self.srtt)
    }

    /// Returns the smoothed RTT; zero before the first sample.
    pub(super) fn srtt_or_zero(&self) -> Duration {
        self.srtt
    }

    /// Returns the variation.
    pub(super) fn rttvar(&self) -> Duration {
        self.rttvar
    }

    /// Returns the minimum sample; `None` before the first.
    pub(super) fn min(&self) -> Option<Duration> {
        self.sampled.then_some(self.min)
    }

    /// Returns the minimum of the smoothed RTT; `None` before the first sample.
    pub(super) fn srtt_min(&self) -> Option<Duration> {
        self.sampled.then_some(self.srtt_min)
    }

    /// Returns the maximum of the smoothed RTT; `None` before the first sample.
    pub(super) fn srtt_max(&self) -> Option<Duration> {
        self.sampled.then_some(self.srtt_max)
    }

    /// Returns the last sample.
    pub(super) fn last(&self) -> Duration {
        self.last
    }

    /// Returns the retransmission timeout after `backoff` doublings.
    pub(super) fn rto(&self, backoff: u32) -> Duration {
        let base = if self.sampled { self.rto } else { self.initial };
        Duration(base.0.saturating_mul(1 << backoff.min(16))).min(self.ceiling)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::ConnectionConfig;

    #[test]
    fn the_first_sample_sets_and_the_next_smooths() {
        let mut rtt = RttEstimator::new(&ConnectionConfig::linux().rto);
        assert_eq!(rtt.rto(0), Duration::from_secs(1));
        rtt.sample(Duration::from_millis(800));
        assert_eq!(rtt.srtt(), Some(Duration::from_millis(800)));
        assert_eq!(rtt.rttvar(), Duration::from_millis(400));
        assert_eq!(rtt.rto(0), Duration::from_millis(2400));
        rtt.sample(Duration::from_millis(1600));
        assert_eq!(rtt.srtt(), Some(Duration::from_millis(900)));
        assert_eq!(rtt.rttvar(), Duration::from_millis(500));
        assert_eq!(rtt.rto(1), Duration::from_millis(5800));
        assert_eq!(rtt.min(), Some(Duration::from_millis(800)));
        assert_eq!(rtt.last(), Duration::from_millis(1600));
        assert_eq!(rtt.srtt_min(), Some(Duration::from_millis(800)));
        assert_eq!(rtt.srtt_max(), Some(Duration::from_millis(900)));
        rtt.sample(Duration::from_millis(1));
        assert_eq!(rtt.srtt_min(), rtt.srtt());
        assert_eq!(rtt.srtt_max(), Some(Duration::from_millis(900)));
    }

    #[test]
    fn the_timeout_has_a_floor_and_a_ceiling() {
        let mut rtt = RttEstimator::new(&ConnectionConfig::linux().rto);
        for _ in 0..50 {
            rtt.sample(Duration::from_millis(10));
        }
        assert_eq!(rtt.rto(0), Duration::from_millis(210));
        assert_eq!(rtt.rto(40), Duration::from_secs(120));
    }
}
