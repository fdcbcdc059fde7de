//! HyStart++: leaves slow start when the round-trip time grows, before the queue overflows.
//!
//! **Decides** how fast the first slow start of a subflow grows and when it ends, by comparing the minimum
//! RTT of each round with the minimum RTT of the round before.
//!
//! **Source**: RFC 9406 section 4.2, 4.3.
//!
//! **Constants**: a round needs 8 RTT samples; the significant increase is 1/8 of the last round's minimum
//! RTT, between 4 ms and 16 ms; conservative slow start (CSS) grows by 1/4 and lasts 5 rounds; at most 8
//! segments count per acknowledgement (`L`), any number with pacing.
//!
//! **Departures from the source**: the RTT of an acknowledgement is evaluated before the window grows by it,
//! not after, so CSS begins one acknowledgement sooner.

use anabranch_units::Duration;

use super::Phase;
use crate::congestion::Ack;

const MIN_RTT_THRESH: Duration = Duration::from_millis(4);
const MAX_RTT_THRESH: Duration = Duration::from_millis(16);
const MIN_RTT_DIVISOR: u64 = 8;
const N_RTT_SAMPLE: u32 = 8;
pub(super) const CSS_GROWTH: f64 = 0.25;
const CSS_ROUNDS: u32 = 5;
/// `L` without pacing, in segments.
const UNPACED_LIMIT: f64 = 8.0;

/// The state of one subflow's first slow start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in super::super) struct HystartPlusPlus {
    /// True if segments are sent at a pacing rate.
    paced: bool,
    last_round_min: Duration,
    round_min: Duration,
    samples: u32,
    /// In CSS: the minimum RTT of the round before it, and the rounds in CSS so far.
    conservative: Option<(Duration, u32)>,
}

impl HystartPlusPlus {
    pub(super) const fn new(paced: bool) -> HystartPlusPlus {
        HystartPlusPlus {
            paced,
            last_round_min: Duration::MAX,
            round_min: Duration::MAX,
            samples: 0,
            conservative: None,
        }
    }

    /// Returns `L`, the maximum number of acknowledged segments that count per acknowledgement.
    pub(super) fn limit(&self) -> f64 {
        if self.paced { f64::INFINITY } else { UNPACED_LIMIT }
    }

    /// Returns the phase after `ack`.
    pub(super) fn on_ack(&mut self, ack: &Ack) -> Phase {
        if ack.round_start {
            self.last_round_min = self.round_min;
            self.round_min = Duration::MAX;
            self.samples = 0;
            if let Some((_, rounds)) = &mut self.conservative {
                *rounds += 1;
                if *rounds >= CSS_ROUNDS {
                    return Phase::Done;
                }
            }
        }
        if let Some(rtt) = ack.rtt {
            self.round_min = self.round_min.min(rtt);
            self.samples += 1;
        }
        let enough = self.samples >= N_RTT_SAMPLE && self.round_min != Duration::MAX;
        match self.conservative {
            None if enough && self.last_round_min != Duration::MAX => {
                let thresh = (self.last_round_min / MIN_RTT_DIVISOR).clamp(MIN_RTT_THRESH, MAX_RTT_THRESH);
                if self.round_min >= self.last_round_min + thresh {
                    self.conservative = Some((self.round_min, 0));
                }
            }
            // The RTT has decreased again, so the increase was not a queue.
            Some((baseline, _)) if enough && self.round_min < baseline => self.conservative = None,
            _ => {}
        }
        if self.conservative.is_some() { Phase::Conservative } else { Phase::SlowStart }
    }
}
