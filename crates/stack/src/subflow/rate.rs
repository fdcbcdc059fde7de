//! Delivery-rate samples (draft-cheng-iccrg-delivery-rate-estimation), with app-limited marks.

use std::collections::VecDeque;

use anabranch_units::{Duration, Rate, Time};

use crate::congestion::{Delivery, Loss};

/// The state stored with each segment when it is sent.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SendStamp {
    /// Bytes delivered on the subflow at its transmission; the highest bit is the app-limited mark.
    delivered: u64,
    /// The time of that delivery.
    pub delivered_at: Time,
    /// The transmission time of the first segment of the flight acknowledged by that delivery.
    pub first_sent: Time,
}

impl SendStamp {
    const APP_LIMITED: u64 = 1 << 63;

    /// Returns the bytes delivered on the subflow at its transmission.
    pub(super) fn delivered(&self) -> u64 {
        self.delivered & !Self::APP_LIMITED
    }

    /// True if the sender had nothing more to send.
    pub(super) fn app_limited(&self) -> bool {
        self.delivered & Self::APP_LIMITED != 0
    }
}

/// The estimator of one subflow.
#[derive(Clone, Debug, Default)]
pub(crate) struct RateEstimator {
    delivered: u64,
    delivered_at: Time,
    first_sent: Time,
    /// The number of delivered bytes that must be exceeded before samples are no longer app-limited; 0 at the start.
    app_limited_until: u64,
    sample: Option<Pending>,
    last: Option<RateSample>,
    /// The losses so far, by the bytes delivered at the transmission of the lost segments; those older than
    /// anything in flight are in the first entry.
    losses: VecDeque<(u64, u64)>,
    /// Bytes marked lost.
    lost: u64,
    loss: Option<Loss>,
    /// The end of the last segment marked lost.
    lost_end: u64,
}

#[derive(Clone, Copy, Debug)]
struct Pending {
    stamp: SendStamp,
    sent: Time,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct RateSample {
    pub rate: Rate,
    /// True if the sender had nothing more to send during the sample.
    pub app_limited: bool,
    /// The duration of the sample.
    pub interval: Duration,
}

impl RateEstimator {
    /// Records the transmission of a segment; `flight` bytes were in flight before.
    pub(super) fn on_sent(&mut self, now: Time, flight: u64) -> SendStamp {
        if flight == 0 {
            self.first_sent = now;
            self.delivered_at = now;
        }
        let limited = self.app_limited_until > 0 && self.delivered <= self.app_limited_until;
        let mark = if limited { SendStamp::APP_LIMITED } else { 0 };
        SendStamp {
            delivered: self.delivered | mark,
            delivered_at: self.delivered_at,
            first_sent: self.first_sent,
        }
    }

    /// Records the acknowledgement of a segment that was sent at `sent` with `stamp`.
    #[inline]
    pub(super) fn on_delivered(&mut self, now: Time, bytes: u64, sent: Time, stamp: &SendStamp) {
        self.delivered += bytes;
        self.delivered_at = now;
        // The most recently sent segment is the most informative.
        if self.sample.is_none_or(|known| stamp.delivered() >= known.stamp.delivered()) {
            self.sample = Some(Pending { stamp: *stamp, sent });
            self.first_sent = sent;
        }
    }

    /// Records that a segment sent with `stamp`, of `bytes` bytes from `seq` on, is marked lost.
    pub(super) fn on_lost(&mut self, seq: u64, bytes: u64, stamp: &SendStamp) {
        self.lost += bytes;
        match self.losses.back_mut() {
            Some((delivered, lost)) if *delivered == self.delivered => *lost = self.lost,
            _ => self.losses.push_back((self.delivered, self.lost)),
        }
        let lost = self.lost_since(stamp).max(bytes);
        let ranges = self.loss.map_or(0, |loss| loss.ranges) + u32::from(seq != self.lost_end);
        self.lost_end = seq + bytes;
        self.loss = Some(Loss {
            bytes,
            prior_delivered: stamp.delivered(),
            tx_in_flight: self.delivered - stamp.delivered() + lost,
            lost,
            app_limited: stamp.app_limited(),
            ranges,
        });
    }

    /// Returns the losses since the last call.
    #[inline]
    pub(super) fn take_loss(&mut self) -> Option<Loss> {
        self.loss.take()
    }

    /// Returns the delivery by the acknowledgement, before [`RateEstimator::finish`].
    #[inline]
    pub(super) fn delivery(&mut self) -> Option<Delivery> {
        let stamp = self.sample.as_ref()?.stamp;
        while self.losses.get(1).is_some_and(|(delivered, _)| *delivered <= stamp.delivered()) {
            self.losses.pop_front();
        }
        let (delivered, lost) = (self.delivered - stamp.delivered(), self.lost_since(&stamp));
        Some(Delivery {
            total: self.delivered,
            prior_delivered: stamp.delivered(),
            delivered,
            // Everything in flight then was delivered or lost.
            tx_in_flight: delivered + lost,
            lost,
            app_limited: stamp.app_limited(),
        })
    }

    /// Returns the bytes lost since a segment was sent with `stamp`.
    #[inline]
    fn lost_since(&self, stamp: &SendStamp) -> u64 {
        match self.losses.back() {
            None => self.lost,
            Some(&(delivered, lost)) if delivered <= stamp.delivered() => self.lost - lost,
            Some(_) => self.lost_since_before(stamp),
        }
    }

    #[inline(never)]
    fn lost_since_before(&self, stamp: &SendStamp) -> u64 {
        let later = self.losses.partition_point(|(delivered, _)| *delivered <= stamp.delivered());
        self.lost - later.checked_sub(1).map_or(0, |last| self.losses[last].1)
    }

    /// Closes the sample of one acknowledgement.
    ///
    /// A sample over less than `min_rtt` does not measure the path and is dropped.
    pub(super) fn finish(&mut self, min_rtt: Duration) -> Option<RateSample> {
        let known = self.sample.take()?;
        let send_time = known.sent.since(known.stamp.first_sent);
        let ack_time = self.delivered_at.since(known.stamp.delivered_at);
        let interval = send_time.max(ack_time);
        if interval.is_zero() || interval < min_rtt {
            return None;
        }
        let rate = Rate::from_bytes_over(self.delivered - known.stamp.delivered(), interval);
        let sample = RateSample { rate, app_limited: known.stamp.app_limited(), interval };
        self.last = Some(sample);
        Some(sample)
    }

    /// Handles that the sender has nothing more to send while `flight` bytes are in flight: samples are app-limited until
    /// more than that is delivered, so also the sample of the data that ends an idle time.
    #[inline]
    pub(super) fn on_app_limited(&mut self, flight: u64) {
        self.app_limited_until = (self.delivered + flight).max(1);
    }

    /// Returns the rate of the last sample; zero before the first.
    pub(super) fn last_rate(&self) -> Rate {
        self.last.map_or(Rate(0), |sample| sample.rate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_steady_flow_is_measured_at_its_rate() {
        // 1000 bytes are sent every millisecond and acknowledged 20 ms later: 8 Mbit/s.
        let mut rate = RateEstimator::default();
        let mut flight = std::collections::VecDeque::new();
        let mut last = None;
        for step in 0..200_u64 {
            let now = Time::from_millis(step);
            if step >= 20 {
                let (sent, stamp) = flight.pop_front().unwrap();
                rate.on_delivered(now, 1000, sent, &stamp);
                last = rate.finish(Duration::from_millis(20)).or(last);
            }
            let stamp = rate.on_sent(now, flight.len() as u64 * 1000);
            flight.push_back((now, stamp));
        }
        let sample = last.unwrap();
        assert_eq!(sample.rate, Rate::from_mbps(8));
        assert!(!sample.app_limited);
    }

    #[test]
    fn samples_are_marked_until_the_data_in_flight_is_delivered() {
        let mut rate = RateEstimator::default();
        let first = rate.on_sent(Time::from_millis(0), 0);
        rate.on_app_limited(1000);
        let second = rate.on_sent(Time::from_millis(1), 1000);
        assert!(!first.app_limited() && second.app_limited());
        rate.on_delivered(Time::from_millis(20), 1001, Time::from_millis(0), &first);
        assert!(!rate.on_sent(Time::from_millis(21), 1000).app_limited());
    }

    // draft-cheng-iccrg-delivery-rate-estimation section 3.4, and `tcp_rate_gen`: the mark ends when more is delivered.
    #[test]
    fn the_first_data_after_an_idle_time_is_marked() {
        let mut rate = RateEstimator::default();
        let first = rate.on_sent(Time::from_millis(0), 0);
        rate.on_app_limited(1000);
        rate.on_delivered(Time::from_millis(20), 1000, Time::from_millis(0), &first);
        let (sent, back) = (Time::from_millis(500), Time::from_millis(520));
        let second = rate.on_sent(sent, 0);
        assert!(second.app_limited());
        rate.on_delivered(back, 1000, sent, &second);
        assert!(!rate.on_sent(back, 0).app_limited(), "there was data to send all the time");
    }

    fn bytes_over(bytes: u64, ms: u64) -> Rate {
        Rate::from_bytes_over(bytes, Duration::from_millis(ms))
    }

    #[test]
    fn an_idle_time_counts_nowhere() {
        let mut rate = RateEstimator::default();
        for start in [0, 5000] {
            let (sent, back) = (Time::from_millis(start), Time::from_millis(start + 20));
            let first = rate.on_sent(sent, 0);
            let second = rate.on_sent(sent, 1000);
            rate.on_delivered(back, 1000, sent, &first);
            rate.on_delivered(back, 1000, sent, &second);
            let sample = rate.finish(Duration::from_millis(20)).unwrap();
            assert_eq!((sample.rate, sample.interval), (bytes_over(2000, 20), Duration::from_millis(20)));
            assert_eq!(rate.last_rate(), sample.rate);
        }
    }

    #[test]
    fn the_segment_sent_last_decides() {
        for swapped in [false, true] {
            let mut rate = RateEstimator::default();
            let first = rate.on_sent(Time::from_millis(0), 0);
            rate.on_delivered(Time::from_millis(20), 1000, Time::from_millis(0), &first);
            rate.finish(Duration::ZERO);
            // Two more are acknowledged together; one of them was sent before the first had arrived.
            let early = SendStamp { delivered: 0, ..first };
            let late = rate.on_sent(Time::from_millis(21), 1000);
            let mut both = [(Time::from_millis(1), early), (Time::from_millis(21), late)];
            if swapped {
                both.reverse();
            }
            for (sent, stamp) in both {
                rate.on_delivered(Time::from_millis(40), 1000, sent, &stamp);
            }
            // Two have arrived since the first, in 20 ms, but their transmission took 21 ms.
            let sample = rate.finish(Duration::ZERO).unwrap();
            assert_eq!((sample.rate, sample.interval), (bytes_over(2000, 21), Duration::from_millis(21)));
        }
    }

    #[test]
    fn less_than_a_round_trip_measures_nothing() {
        let sample = |ms, min_rtt_ms| {
            let mut rate = RateEstimator::default();
            let stamp = rate.on_sent(Time::from_millis(0), 0);
            rate.on_delivered(Time::from_millis(ms), 1000, Time::from_millis(0), &stamp);
            rate.finish(Duration::from_millis(min_rtt_ms)).map(|sample| sample.rate)
        };
        assert_eq!(sample(19, 20), None);
        assert_eq!(sample(20, 20), Some(bytes_over(1000, 20)));
        assert_eq!(sample(21, 20), Some(bytes_over(1000, 21)));
        assert_eq!(sample(0, 0), None);
        assert_eq!(RateEstimator::default().last_rate(), Rate(0));
    }

    #[test]
    fn the_mark_ends_with_the_data_in_flight() {
        let mut rate = RateEstimator::default();
        let first = rate.on_sent(Time::from_millis(0), 0);
        rate.on_delivered(Time::from_millis(20), 3000, Time::from_millis(0), &first);
        rate.on_app_limited(2000);
        let second = rate.on_sent(Time::from_millis(21), 2000);
        assert!(second.app_limited());
        rate.on_delivered(Time::from_millis(40), 1999, Time::from_millis(21), &second);
        assert!(rate.on_sent(Time::from_millis(41), 1).app_limited());
        rate.on_delivered(Time::from_millis(42), 2, Time::from_millis(21), &second);
        assert!(!rate.on_sent(Time::from_millis(43), 0).app_limited());
    }

    #[test]
    fn the_flight_of_a_segment_is_the_data_delivered_and_lost_since() {
        let mut rate = RateEstimator::default();
        // Ten are sent; the second and third are lost, as the acknowledgement of the fifth shows.
        let stamps: Vec<_> = (0..10).map(|n| rate.on_sent(Time::from_millis(0), n * 1000)).collect();
        for n in [0, 3, 4] {
            rate.on_delivered(Time::from_millis(20), 1000, Time::from_millis(0), &stamps[n]);
        }
        for n in [1, 2] {
            rate.on_lost(n as u64 * 1000, 1000, &stamps[n]);
        }
        let loss = rate.take_loss().unwrap();
        assert_eq!((loss.lost, loss.tx_in_flight, loss.ranges, loss.bytes), (2000, 5000, 1, 1000));
        assert_eq!(rate.take_loss(), None);
        let delivery = rate.delivery().unwrap();
        assert_eq!((delivery.total, delivery.prior_delivered, delivery.lost), (3000, 0, 2000));
        rate.finish(Duration::ZERO);
        // Segments sent now are sent after those losses.
        let late = rate.on_sent(Time::from_millis(21), 5000);
        for stamp in &stamps[5..] {
            rate.on_delivered(Time::from_millis(40), 1000, Time::from_millis(0), stamp);
        }
        rate.on_delivered(Time::from_millis(41), 1000, Time::from_millis(21), &late);
        let delivery = rate.delivery().unwrap();
        assert_eq!((delivery.delivered, delivery.lost, delivery.tx_in_flight), (6000, 0, 6000));
        // Two separate pieces.
        rate.on_lost(50_000, 1000, &late);
        rate.on_lost(70_000, 1000, &late);
        assert_eq!(rate.take_loss().map(|loss| loss.ranges), Some(2));
    }
}
