//! Round-trip times and the retransmission timeout (RFC 6298).

use anabranch_units::{Duration, Time};

use crate::config::RtoConfig;

/// The estimator of one subflow.
#[derive(Clone, Debug)]
pub(crate) struct RttEstimator {
    srtt: Duration,
    rttvar: Duration,
    variation: Variation,
    min: Duration,
    srtt_min: Duration,
    srtt_max: Duration,
    last: Duration,
    rto: Duration,
    sampled: bool,
    /// True if the smoothed RTT includes a sample of a segment that was sent before a timeout.
    spans_outage: bool,
    /// The time of the last timeout, in milliseconds.
    timeout_at: u32,
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
            variation: Variation::NEW,
            min: Duration::MAX,
            srtt_min: Duration::MAX,
            srtt_max: Duration::ZERO,
            last: Duration::ZERO,
            rto: config.initial,
            sampled: false,
            spans_outage: false,
            timeout_at: 0,
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

    /// Records a round trip that was measured when everything before offset `una` was acknowledged, and everything before
    /// `nxt` was sent.
    pub(super) fn sample(&mut self, rtt: Duration, una: u64, nxt: u64) {
        let rtt = rtt.max(Duration::from_nanos(1));
        if self.floor_on_variation {
            let before = self.sampled.then_some(self.srtt);
            self.variation.sample(rtt, before, self.floor, una, nxt);
        }
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
        if self.spans_outage {
            self.spans_outage = self.srtt > self.min * 2;
        }
        self.srtt_min = self.srtt_min.min(self.srtt);
        self.srtt_max = self.srtt_max.max(self.srtt);
        // RFC 6298 section 2.4 bounds the sum from below. Linux bounds the variation term, so that a steady
        // path has RTT + 200 ms.
        let timeout = if self.floor_on_variation {
            self.srtt + self.variation.used
        } else {
            (self.srtt + self.rttvar * 4).max(self.floor)
        };
        self.rto = timeout.min(self.ceiling);
    }

    /// Records a retransmission timeout.
    pub(super) fn on_timeout(&mut self, now: Time) {
        self.timeout_at = millis(now);
    }

    /// Records that the last sample, of a segment sent at `sent`, may be the length of an outage rather than a round trip.
    pub(super) fn note_transmission(&mut self, sent: Time) {
        self.spans_outage |= millis(sent) < self.timeout_at && self.srtt > self.min * 2;
    }

    /// Returns the smoothed RTT and its variation for the scheduler while nothing is in flight. After a sample that spans an
    /// outage (of a selectively acknowledged segment, as in Linux) a scheduler that predicts would send nothing, and so
    /// no sample would correct them: the path is tried as one without a queue.
    pub(super) fn while_idle(&self) -> (Option<Duration>, Duration) {
        if self.spans_outage { (Some(self.min), self.min / 2) } else { (self.srtt(), self.rttvar) }
    }

    /// Returns the smoothed RTT; `None` before the first sample.
    pub(super) fn srtt(&self) -> Option<Duration> {
        self.sampled.then_some(self.srtt)
    }

    /// Returns the smoothed RTT; zero before the first sample.
    pub(super) fn srtt_or_zero(&self) -> Duration {
        self.srtt
    }

    /// Returns the RTT variation of RFC 6298.
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

/// Returns a time in milliseconds, at most 49 days.
fn millis(time: Time) -> u32 {
    u32::try_from(time.as_micros() / 1000).unwrap_or(u32::MAX)
}

/// Four times the variation of round trips in Linux's timeout: the greatest of a round trip, from which it falls slowly, so
/// that the many samples of one window do not hide its variation.
///
/// `tcp_rtt_estimator` in net/ipv4/tcp_input.c of Linux 6.18. RFC 6298 appendix A recommends no more than one sample per
/// round trip, or other gains.
#[derive(Clone, Debug)]
struct Variation {
    /// Four times the current variation.
    now: Duration,
    /// The greatest of this round trip, at least the minimum of the timeout.
    greatest: Duration,
    /// The one in the timeout.
    used: Duration,
    /// The end of this round trip: the offset after the last byte sent when it began.
    round_end: u64,
}

impl Variation {
    const NEW: Variation =
        Variation { now: Duration::ZERO, greatest: Duration::ZERO, used: Duration::ZERO, round_end: 0 };

    #[inline]
    fn sample(&mut self, rtt: Duration, srtt: Option<Duration>, floor: Duration, una: u64, nxt: u64) {
        let Some(srtt) = srtt else {
            // Thrice the first round trip is the first timeout.
            self.now = rtt * 2;
            self.used = self.now.max(floor);
            self.greatest = self.used;
            self.round_end = nxt;
            return;
        };
        let deviation = srtt.0.abs_diff(rtt.0);
        let quarter = self.now.0 / 4;
        if deviation < quarter {
            self.now.0 -= quarter - deviation;
        } else {
            // A round trip that becomes shorter raises the variation an eighth as fast.
            let step = deviation - quarter;
            self.now.0 += if rtt < srtt { step / 8 } else { step };
        }
        if self.now > self.greatest {
            self.greatest = self.now;
            self.used = self.used.max(self.greatest);
        }
        if una > self.round_end {
            if self.greatest < self.used {
                self.used.0 -= (self.used.0 - self.greatest.0) / 4;
            }
            self.round_end = nxt;
            self.greatest = floor;
        }
    }
}

#[cfg(test)]
mod tests {
    /// Two seconds of outage, then round trips of 20 ms.
    #[test]
    fn an_idle_path_is_not_judged_by_a_sample_that_spans_an_outage() {
        let ms = Duration::from_millis;
        let mut rtt = RttEstimator::new(&crate::config::ConnectionConfig::linux().rto);
        rtt.sample(ms(20), 0, 1000);
        rtt.note_transmission(Time::from_millis(500));
        assert_eq!(rtt.while_idle(), (rtt.srtt(), rtt.rttvar()));
        rtt.on_timeout(Time::from_millis(1200));
        rtt.sample(ms(2000), 1000, 2000);
        rtt.note_transmission(Time::from_millis(1300));
        assert_eq!(rtt.while_idle(), (rtt.srtt(), rtt.rttvar()), "sent after the timeout: the path is slow");
        rtt.note_transmission(Time::from_millis(1000));
        assert_eq!((rtt.srtt(), rtt.while_idle()), (Some(Duration(267_500_000)), (Some(ms(20)), ms(10))));
        let samples = (0..100).take_while(|_| {
            rtt.sample(ms(20), 2000, 3000);
            rtt.while_idle() != (rtt.srtt(), rtt.rttvar())
        });
        assert_eq!(samples.count(), 18, "until the smoothed value is twice the minimum");
    }

    use super::*;
    use crate::config::ConnectionConfig;

    #[test]
    fn the_first_sample_sets_and_the_next_smooths() {
        let mut rtt = RttEstimator::new(&ConnectionConfig::linux().rto);
        assert_eq!(rtt.rto(0), Duration::from_secs(1));
        rtt.sample(Duration::from_millis(800), 0, 1000);
        assert_eq!(rtt.srtt(), Some(Duration::from_millis(800)));
        assert_eq!(rtt.rttvar(), Duration::from_millis(400));
        assert_eq!(rtt.rto(0), Duration::from_millis(2400));
        rtt.sample(Duration::from_millis(1600), 1000, 1000);
        assert_eq!(rtt.srtt(), Some(Duration::from_millis(900)));
        assert_eq!(rtt.rttvar(), Duration::from_millis(500));
        assert_eq!(rtt.rto(1), Duration::from_millis(5800));
        assert_eq!(rtt.min(), Some(Duration::from_millis(800)));
        assert_eq!(rtt.last(), Duration::from_millis(1600));
        assert_eq!(rtt.srtt_min(), Some(Duration::from_millis(800)));
        assert_eq!(rtt.srtt_max(), Some(Duration::from_millis(900)));
        rtt.sample(Duration::from_millis(1), 1000, 1000);
        assert_eq!(rtt.srtt_min(), rtt.srtt());
        assert_eq!(rtt.srtt_max(), Some(Duration::from_millis(900)));
    }

    // As captured at `tcp 2.1M/117ms/0.5/down=0.7s-1.12s 237KB down`: the kernel's timer expires 385 ms after the last
    // acknowledgement, where the queue has added 30 ms to a round trip of 117 ms within a window.
    #[test]
    fn the_variation_in_linux_falls_by_a_quarter_of_its_excess_per_round_trip() {
        let ms = Duration::from_millis;
        let mut rtt = RttEstimator::new(&ConnectionConfig::linux().rto);
        rtt.sample(ms(160), 0, 1000);
        assert_eq!(rtt.rto(0), ms(480));
        // Many samples of one round trip do not lower it.
        for una in 1..=20 {
            rtt.sample(ms(160), una * 50, 1000);
        }
        assert_eq!(rtt.rto(0), ms(480));
        // At the end of a round trip without variation, the greatest was the first one.
        rtt.sample(ms(160), 1001, 3000);
        assert_eq!(rtt.rto(0), ms(480));
        rtt.sample(ms(160), 3001, 5000);
        assert_eq!(rtt.rto(0), ms(450));
        rtt.sample(ms(160), 5001, 7000);
        assert_eq!(rtt.rto(0), Duration::from_micros(427_500));
    }

    #[test]
    fn a_shorter_round_trip_raises_the_variation_in_linux_an_eighth_as_fast() {
        let ms = Duration::from_millis;
        let variation = |last| {
            let mut variation = Variation::NEW;
            variation.sample(ms(400), None, ms(200), 0, 1000);
            for una in 1..=40 {
                variation.sample(ms(400), Some(ms(400)), ms(200), una, 1000);
            }
            assert!(variation.now < ms(1));
            variation.sample(ms(last), Some(ms(400)), ms(200), 50, 1000);
            variation.now
        };
        assert!((ms(240)..ms(241)).contains(&variation(640)));
        assert!((ms(30)..ms(31)).contains(&variation(160)));
    }

    #[test]
    fn the_timeout_has_a_floor_and_a_ceiling() {
        let mut rtt = RttEstimator::new(&ConnectionConfig::linux().rto);
        for round in 0..50 {
            rtt.sample(Duration::from_millis(10), round * 1000 + 1, (round + 1) * 1000);
        }
        assert_eq!(rtt.rto(0), Duration::from_millis(210));
        assert_eq!(rtt.rto(40), Duration::from_secs(120));
    }
}
