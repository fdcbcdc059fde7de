//! STTF, shortest transmission time first: queues each segment on the subflow that is predicted to deliver it
//! first, with the expected growth of the window.
//!
//! **Decides** on which subflow each segment is queued, by the time in which it and all data queued there
//! before it would be delivered: rounds of a growing window, and half a round trip. Segments are queued
//! beyond the congestion window, and redistributed when the queues have become uneven.
//!
//! **Source**: Hurtig and others (2019), as in two forks of the MPTCP kernel (Karlstad and Simula, and a
//! later one). These use closed forms with approximations near the slow-start threshold; here the rounds are
//! counted.
//!
//! **Constants**: `alpha` 10 %: if the RTTs differ by less, or by at most a tick of 4 ms, the rule is minRTT.
//! `max-rounds` 0: no limit on the rounds of the prediction.
//!
//! **Departures from the source**
//! * The smoothed RTT replaces the last sample; the option `rtt` selects the last sample.
//! * `alpha` compares the minimum RTT samples; the forks compare the first ones.
//! * The queue of a subflow is redistributed if two segments of it would arrive sooner elsewhere, which is
//!   when a new greedy allocation would differ by more than one: the forks compute that allocation.
//! * A subflow without an RTT is the slowest; in the forks it is the fastest. Backups are used only when no
//!   active subflow works.

use anabranch_units::{Duration, Time};

use super::pick;
use super::{Decision, MinRtt, Rule, Scheduler, SubflowView, View, Why};
use crate::parameter;
use crate::parameter::{Options, Parameter};
use crate::seq::DataRange;

/// A tick of the kernel's clock, the unit in which the forks compare RTTs.
const TICK: Duration = Duration::from_millis(4);

/// The RTT used for predictions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SttfRtt {
    /// The smoothed RTT.
    Smoothed,
    /// The last sample.
    Last,
}

/// The prediction of STTF: its RTT, its length, and the difference that counts.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct SttfOptions {
    /// The relative difference below which RTTs count as equal.
    pub alpha: f64,
    /// The maximum number of rounds in the prediction; 0: unlimited.
    pub max_rounds: u16,
    /// The RTT used for predictions.
    pub rtt: SttfRtt,
    /// True if slow start ends at the threshold.
    pub clip_at_ssthresh: bool,
}

impl SttfOptions {
    /// The forks' values, with the smoothed RTT.
    pub const DEFAULT: SttfOptions =
        SttfOptions { alpha: 0.1, max_rounds: 0, rtt: SttfRtt::Smoothed, clip_at_ssthresh: false };
}

impl Options for SttfOptions {
    const PARAMETERS: &'static [Parameter<SttfOptions>] = &[
        parameter!(SttfOptions, "alpha", "relative difference below which RTTs count as equal", number 0.0, 100.0, alpha),
        parameter!(SttfOptions, "max-rounds", "maximum rounds in the prediction; 0: unlimited", integer 0, 65535, max_rounds),
        parameter!(
            SttfOptions,
            "rtt",
            "RTT used for predictions",
            choice ["smoothed" => SttfRtt::Smoothed, "last" => SttfRtt::Last],
            rtt
        ),
        parameter!(
            SttfOptions,
            "clip-at-ssthresh",
            "slow start ends at the threshold",
            bool,
            clip_at_ssthresh
        ),
    ];
}

/// The scheduler.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Sttf {
    options: SttfOptions,
    /// The time of the last redistribution: at most one at any time, so that the loop terminates.
    shared: Option<Time>,
}

impl Sttf {
    /// Returns a scheduler with the given options.
    pub fn new(options: SttfOptions) -> Sttf {
        Sttf { options, shared: None }
    }

    /// Returns the predicted seconds until `count` unsent segments are delivered; `count` is at least 1.
    fn transfer_time(&self, subflow: &SubflowView, count: u64) -> f64 {
        let rtt = match self.options.rtt {
            _ if subflow.srtt.is_none() => return f64::INFINITY,
            SttfRtt::Smoothed => pick::rtt_or_infinite(subflow),
            SttfRtt::Last => subflow.last_rtt,
        };
        let rounds = self.rounds(subflow, count);
        let rounds =
            if self.options.max_rounds > 0 { rounds.min(u64::from(self.options.max_rounds)) } else { rounds };
        rtt.as_secs_f64() * (rounds as f64 + 0.5)
    }

    /// Returns the number of round trips before the last of `count` segments is sent.
    fn rounds(&self, subflow: &SubflowView, count: u64) -> u64 {
        let mss = subflow.mss.max(1);
        let cwnd = (subflow.cwnd / mss).max(1);
        let room = subflow.cwnd.saturating_sub(subflow.inflight) / mss;
        let threshold = subflow.ssthresh.map_or(u64::MAX, |bytes| bytes / mss);
        let Some(mut left) = count.checked_sub(room).filter(|left| *left > 0) else { return 0 };
        let grow = |window: u64| match window <= threshold {
            true if self.options.clip_at_ssthresh && window < threshold => (2 * window).min(threshold),
            true if !self.options.clip_at_ssthresh => 2 * window,
            _ => window + 1,
        };
        let mut window = grow(cwnd);
        let mut rounds = 1;
        while window <= threshold {
            if left <= window {
                return rounds;
            }
            left -= window;
            rounds += 1;
            window = grow(window);
        }
        rounds + linear_rounds(window, left) - 1
    }

    /// Recalls the latest queue if two of its segments would arrive sooner on another subflow.
    fn uneven(&self, view: &View<'_>) -> Option<Decision> {
        let queued = |subflow: &SubflowView| pick::segments(subflow, subflow.queued);
        let waiting = pick::candidates(view).filter(|subflow| queued(subflow) >= 2);
        let latest = waiting.map(|s| (s, self.transfer_time(s, queued(s) - 1)));
        let (latest, late) = latest.max_by(|a, b| a.1.total_cmp(&b.1))?;
        let others = pick::candidates(view).filter(|s| s.id != latest.id && s.window_room >= 2 * s.mss);
        let soonest = others.map(|s| self.transfer_time(s, queued(s) + 2)).min_by(f64::total_cmp)?;
        (late > soonest).then(|| Decision::Recall {
            subflow: latest.id,
            range: DataRange::new(0, u64::MAX),
            why: Why::scored(Rule::Rebalance, late, soonest),
        })
    }

    /// True if the RTTs are practically equal.
    fn no_difference(&self, view: &View<'_>) -> bool {
        let rtts = || pick::candidates(view).map(|subflow| subflow.min_rtt);
        let (Some(least), Some(most)) = (rtts().min(), rtts().max()) else { return true };
        let gap = most - least;
        gap <= TICK || gap.as_secs_f64() < self.options.alpha * least.as_secs_f64()
    }
}

/// Returns the number of rounds in which windows `first`, `first + 1` and so on send `count` segments; both
/// are at least 1.
fn linear_rounds(first: u64, count: u64) -> u64 {
    // m first + m (m - 1) / 2 >= count.
    let b = (2 * first - 1) as f64;
    let root = libm::sqrt(b * b + 8.0 * count as f64);
    let mut rounds = (((root - b) / 2.0) as u64).max(1);
    let sent = |rounds: u64| rounds * first + rounds * (rounds - 1) / 2;
    while sent(rounds) < count {
        rounds += 1;
    }
    while rounds > 1 && sent(rounds - 1) >= count {
        rounds -= 1;
    }
    rounds
}

impl Scheduler for Sttf {
    fn decide(&mut self, view: &View<'_>) -> Decision {
        if let Some(decision) = pick::stranded(view) {
            return decision;
        }
        let no_difference = self.no_difference(view);
        if !no_difference
            && self.shared != Some(view.now)
            && let Some(decision) = self.uneven(view)
        {
            self.shared = Some(view.now);
            return decision;
        }
        if no_difference {
            return MinRtt.decide(view);
        }
        let chunk = match pick::next_new(view) {
            Ok(chunk) => chunk,
            Err(decision) => return decision,
        };
        pick::queue_on_soonest(view, chunk, |subflow| {
            self.transfer_time(subflow, 1 + pick::segments(subflow, subflow.queued))
        })
    }

    fn revises_queues(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growing_windows_are_summed_up() {
        for first in 1..12 {
            let (mut sent, mut rounds) = (0, 0);
            for count in 1..400 {
                while sent < count {
                    sent += first + rounds;
                    rounds += 1;
                }
                assert_eq!(linear_rounds(first, count), rounds, "{first} {count}");
            }
        }
    }
}
