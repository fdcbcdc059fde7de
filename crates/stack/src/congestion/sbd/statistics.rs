//! The statistics of RFC 8382 section 3 for one subflow: skewness, variability and oscillation of the one-way
//! delay, and loss.

use std::collections::VecDeque;

use super::super::Ack;
use super::SbdOptions;

/// One interval `T`.
#[derive(Clone, Copy, Default, PartialEq, Debug)]
struct Interval {
    samples: u32,
    /// `E_T`: the mean delay; the mean of the interval before if there was no sample.
    mean: f64,
    /// The number of samples below the mean of the last `M` intervals minus the number above it.
    skew: i32,
    /// The sum of distances from the mean of the interval before.
    variation: f64,
    /// The side of a significant crossing of the mean: 1 above, -1 below, 0 none.
    crossed: i8,
    /// True if there was no bottleneck, so that neither crossing nor variability counts.
    noise: bool,
    /// Bytes acknowledged.
    acked: f64,
    lost: f64,
}

/// The measurements of one subflow.
#[derive(Clone, Debug, Default)]
pub(super) struct Statistics {
    /// The last `N` intervals, the newest first.
    past: VecDeque<Interval>,
    now: Interval,
    sum: f64,
    /// The mean of the delays of the last `M` intervals; `None` before the first.
    mean_delay: Option<f64>,
    /// The side of the last significant crossing.
    side: i8,
    /// True if a bottleneck was detected at the end of the last interval.
    bottlenecked: bool,
}

/// The estimates over the last intervals.
#[derive(Clone, Copy, Default, PartialEq, Debug)]
pub struct Summary {
    /// `skew_est`, from -1 to 1: high if the queue is usually short.
    pub skew: f64,
    /// `var_est`, the mean absolute deviation, in microseconds.
    pub variation: f64,
    /// `freq_est`: significant crossings of the mean per interval.
    pub oscillation: f64,
    /// `pkt_loss`: the fraction of data lost.
    pub loss: f64,
    /// True if there were delay samples in the last `M` intervals.
    pub sampled: bool,
}

impl Statistics {
    /// Records the delay and the losses of an acknowledgement.
    pub(super) fn on_ack(&mut self, ack: &Ack) {
        self.now.acked += ack.acked_bytes as f64;
        self.now.lost += ack.lost_bytes as f64;
        let Some(delay) = ack.one_way_delay_us else { return };
        let delay = delay as f64;
        self.now.samples += 1;
        self.sum += delay;
        if let Some(mean) = self.mean_delay {
            self.now.skew += i32::from(delay < mean) - i32::from(delay > mean);
        }
        if let Some(last) = self.past.front() {
            self.now.variation += (delay - last.mean).abs();
        }
    }

    pub(super) fn end_interval(&mut self, options: &SbdOptions) {
        let mut ended = core::mem::take(&mut self.now);
        let sum = core::mem::take(&mut self.sum);
        let before = self.past.front().map(|interval| interval.mean);
        if ended.samples > 0 {
            ended.mean = sum / f64::from(ended.samples);
        } else if let Some(before) = before {
            ended.mean = before;
        } else {
            // Nothing has been measured yet.
            return;
        }
        // Section 3.2.4: further from the mean than p_v of the variability, and on the other side than the
        // last crossing.
        let side = self.mean_delay.map_or(0, |mean| {
            let margin = options.p_v * self.variation(options);
            i8::from(ended.mean > mean + margin) - i8::from(ended.mean < mean - margin)
        });
        self.past.push_front(ended);
        self.past.truncate(options.n as usize);
        self.bottlenecked = self.summary(options).is_bottlenecked(self.bottlenecked, options);
        let noise = options.remove_noise && !self.bottlenecked;
        if let Some(newest) = self.past.front_mut() {
            newest.noise = noise;
            if side != 0 && side != self.side && !noise {
                newest.crossed = side;
                self.side = side;
            }
        }
        // The mean with which the next interval is compared, over the M intervals before it.
        let last = self.past.iter().take(options.m as usize);
        let (sum, n) = last.fold((0.0, 0.0), |(sum, n), interval| (sum + interval.mean, n + 1.0));
        self.mean_delay = Some(sum / n);
    }

    /// True if a bottleneck was detected at the end of the last interval.
    pub(super) fn is_bottlenecked(&self) -> bool {
        self.bottlenecked
    }

    /// Returns the mean over the intervals that are not noise. (The current one was classified by the
    /// previous one.)
    fn variation(&self, options: &SbdOptions) -> f64 {
        let (sum, samples) =
            self.weighted(options, |interval| (!interval.noise).then_some(interval.variation));
        if samples > 0.0 { sum / samples } else { 0.0 }
    }

    /// Returns the weighted sums, over the last `M` intervals for which `value` is `Some`, of that value and
    /// of the samples. The weights are from section 4.1: full for the newest `F`, then decreasing.
    fn weighted(&self, options: &SbdOptions, value: impl Fn(&Interval) -> Option<f64>) -> (f64, f64) {
        let full = options.m - options.f + 1;
        let mut sums = (0.0, 0.0);
        for (age, interval) in self.past.iter().take(options.m as usize).enumerate() {
            let Some(value) = value(interval) else { continue };
            let weight = f64::from(full.min(options.m - age as u32));
            sums.0 += weight * value;
            sums.1 += weight * f64::from(interval.samples);
        }
        sums
    }

    /// Returns the estimates.
    pub(super) fn summary(&self, options: &SbdOptions) -> Summary {
        let (skew, samples) = self.weighted(options, |interval| Some(f64::from(interval.skew)));
        let crossings = self.past.iter().filter(|interval| interval.crossed != 0).count();
        let acked: f64 = self.past.iter().map(|interval| interval.acked).sum();
        let lost: f64 = self.past.iter().map(|interval| interval.lost).sum();
        Summary {
            skew: if samples > 0.0 { skew / samples } else { 0.0 },
            variation: self.variation(options),
            oscillation: crossings as f64 / f64::from(options.n),
            loss: if acked + lost > 0.0 { lost / (acked + lost) } else { 0.0 },
            sampled: samples > 0.0,
        }
    }
}

impl Summary {
    /// True if there is a bottleneck (section 3.3.1); `before`: there was one. Without delay samples there is
    /// none.
    pub(super) fn is_bottlenecked(&self, before: bool, options: &SbdOptions) -> bool {
        let skewed = self.skew < options.c_s || (self.skew < options.c_h && before);
        (self.sampled && skewed) || self.loss > options.p_l
    }
}

#[cfg(test)]
mod tests {
    use anabranch_units::{Duration, Time};

    use super::*;

    const OPTIONS: SbdOptions = SbdOptions::DEFAULT;

    fn ack(delay: i64) -> Ack {
        Ack { one_way_delay_us: Some(delay), ..Ack::of(Time::ZERO, 1000, 1, Duration::from_millis(20)) }
    }

    /// Returns the estimates after `intervals` of 20 samples each; the delay of a sample depends on its
    /// interval and its number.
    fn after(intervals: u32, delay: impl Fn(u32, u32) -> i64) -> Summary {
        let mut statistics = Statistics::default();
        for interval in 0..intervals {
            for n in 0..20 {
                statistics.on_ack(&ack(delay(interval, n)));
            }
            statistics.end_interval(&OPTIONS);
        }
        statistics.summary(&OPTIONS)
    }

    #[test]
    fn a_constant_delay_has_no_skew_no_variation_and_no_oscillation() {
        assert_eq!(after(80, |_, _| 5000), Summary { sampled: true, ..Summary::default() });
    }

    #[test]
    fn a_queue_that_is_mostly_short_has_a_positive_skew_and_one_that_is_mostly_long_a_negative_one() {
        // Three of four samples below the mean, or above it.
        let short = after(80, |_, n| if n % 4 == 0 { 9000 } else { 5000 });
        let long = after(80, |_, n| if n % 4 == 0 { 5000 } else { 9000 });
        assert!((short.skew - 0.5).abs() < 1e-12 && (long.skew + 0.5).abs() < 1e-12);
        // Half of each: no skewness.
        assert_eq!(after(80, |_, n| if n % 2 == 0 { 5000 } else { 9000 }).skew, 0.0);
    }

    #[test]
    fn the_variation_is_the_mean_distance_from_the_mean_before() {
        let summary = after(80, |_, n| if n % 2 == 0 { 5000 } else { 9000 });
        assert!((summary.variation - 2000.0).abs() < 1e-9);
    }

    #[test]
    fn each_significant_change_of_the_side_is_a_crossing() {
        let every_second = after(80, |interval, _| if interval / 2 % 2 == 0 { 5000 } else { 9000 });
        assert!((every_second.oscillation - 0.5).abs() < 1e-12);
        let every_fifth = after(80, |interval, _| if interval / 5 % 2 == 0 { 5000 } else { 9000 });
        assert!((every_fifth.oscillation - 0.2).abs() < 1e-12);
        // If two intervals alternate, the variability is as large as the wave.
        let each = after(80, |interval, _| if interval % 2 == 0 { 5000 } else { 9000 });
        assert_eq!(each.oscillation, 0.0);
        // Waves that are small compared with the variability inside the intervals cross nothing.
        let small = after(80, |interval, n| i64::from(n % 2) * 4000 + i64::from(interval % 2) * 100);
        assert_eq!(small.oscillation, 0.0);
    }

    /// Returns the estimates after 60 intervals without a bottleneck and 20 with one, and the intervals in
    /// which it was detected.
    fn noise_and_then_a_bottleneck(options: &SbdOptions) -> (Summary, Vec<bool>) {
        let mut statistics = Statistics::default();
        let mut found = Vec::new();
        for interval in 0..80 {
            for n in 0..20 {
                statistics.on_ack(&ack(match interval {
                    // Mostly short queues, a skewness of 1/2, and two crossings in 12 intervals.
                    0..60 => {
                        if interval % 12 < 3 {
                            9000
                        } else {
                            1000
                        }
                    }
                    // Mostly full queues, with a constant mean.
                    _ => {
                        if n % 4 == 0 {
                            40_000
                        } else {
                            44_000
                        }
                    }
                }));
            }
            statistics.end_interval(options);
            found.push(statistics.is_bottlenecked());
        }
        (statistics.summary(options), found)
    }

    // RFC 8382 section 4.2.
    #[test]
    fn intervals_without_a_bottleneck_leave_neither_crossings_nor_variability() {
        let (summary, found) = noise_and_then_a_bottleneck(&OPTIONS);
        let first = found.iter().rposition(|is| !is).expect("no bottleneck at first") + 1;
        assert!((64..72).contains(&first), "{found:?}");
        // One crossing, to the persistent queue; the mean distance of a sample from the mean is 1500.
        assert!((summary.oscillation - 1.0 / 50.0).abs() < 1e-12, "{}", summary.oscillation);
        assert!((summary.variation - 1500.0).abs() < 1e-6, "{}", summary.variation);
        let kept = SbdOptions { remove_noise: false, ..OPTIONS };
        let (noisy, _) = noise_and_then_a_bottleneck(&kept);
        assert!(noisy.oscillation > 4.0 / 50.0, "{}", noisy.oscillation);
        assert!(noisy.variation > 1.2 * summary.variation, "{}", noisy.variation);
        assert_eq!(noisy.skew, summary.skew);
    }

    #[test]
    fn the_newest_intervals_count_most() {
        // The last ten intervals have no samples above the mean of the older ones.
        let weights = |age: u32| if age < 20 { 11.0 } else { f64::from(30 - age) };
        let total: f64 = (0..30).map(weights).sum();
        let newest: f64 = (0..10).map(weights).sum();
        let mut statistics = Statistics::default();
        for interval in 0..80 {
            for n in 0..20 {
                // Balanced at first, then all far below.
                let delay = if interval < 70 { 5000 + 4000 * i64::from(n % 2) } else { 0 };
                statistics.on_ack(&ack(delay));
            }
            statistics.end_interval(&OPTIONS);
        }
        assert!((statistics.summary(&OPTIONS).skew - newest / total).abs() < 1e-12);
    }

    #[test]
    fn loss_is_the_part_of_all_that_was_lost() {
        let mut statistics = Statistics::default();
        for interval in 0..60_u64 {
            let lost_bytes = if interval % 2 == 0 { 500 } else { 0 };
            statistics.on_ack(&Ack { lost_bytes, ..ack(5000) });
            statistics.end_interval(&OPTIONS);
        }
        assert!((statistics.summary(&OPTIONS).loss - 500.0 / 2500.0).abs() < 1e-12);
    }

    #[test]
    fn a_bottleneck_that_was_there_is_believed_in_longer() {
        let with = |skew, loss| Summary { skew, loss, sampled: true, ..Summary::default() };
        for (skew, loss, before, is) in [
            (0.05, 0.0, false, true),
            (0.2, 0.0, false, false),
            (0.2, 0.0, true, true),
            (0.31, 0.0, true, false),
            (0.9, 0.11, false, true),
            (0.9, 0.1, false, false),
        ] {
            assert_eq!(with(skew, loss).is_bottlenecked(before, &OPTIONS), is, "{skew} {loss} {before}");
        }
    }

    #[test]
    fn delays_that_were_not_seen_show_no_bottleneck() {
        let mut statistics = Statistics::default();
        statistics.on_ack(&ack(5000));
        let unseen = Ack { one_way_delay_us: None, ..ack(0) };
        for _ in 0..80 {
            statistics.end_interval(&OPTIONS);
            statistics.on_ack(&unseen);
        }
        let summary = statistics.summary(&OPTIONS);
        assert!(summary.skew == 0.0 && !summary.is_bottlenecked(true, &OPTIONS));
        let lossy = Summary { loss: 0.2, ..summary };
        assert!(lossy.is_bottlenecked(false, &OPTIONS));
    }
}
