//! HyStart as implemented in Linux: leaves slow start when the acknowledgements of one round trip continue
//! for half of its duration, or when the round-trip time grows.
//!
//! **Decides** when a slow start ends, from the arrival times of acknowledgements (a *train* of them without
//! a gap lasts as long as the path's bottleneck takes for a window) and by comparing the minimum RTT of the
//! last 8 or more samples with the overall minimum.
//!
//! **Source**: Ha and Rhee, *Taming the elephants* (2011), as in `net/ipv4/tcp_cubic.c` of Linux 6.18;
//! kernels from 5.16 to the fix of January 2025 do not begin a round below the minimum window.
//!
//! **Constants**: windows of 16 segments and more are evaluated; a train has gaps of at most 2 ms and ends
//! slow start when it is longer than half of (minimum RTT + cushion), or the whole of it if segments are
//! paced; the cushion is the time of four of the largest packets of a segmenting sender (64 KiB) at the
//! pacing rate, at most 1 ms, where the pacing rate is twice the window per smoothed RTT; the delay threshold
//! is an increase by 1/8 of the minimum RTT, at least 4 ms and at most 16 ms.
//!
//! **Departures from the source**: a round ends with the first acknowledgement of a segment sent after it
//! began; Linux compares sequence numbers.

use anabranch_units::{Duration, Time};

use crate::congestion::Ack;
use crate::congestion::rule::Window;

const LOW_WINDOW: f64 = 16.0;
const TRAIN_GAP: Duration = Duration::from_millis(2);
const MOST_CUSHION: Duration = Duration::from_millis(1);
/// Four of the largest packets that a segmenting sender hands to a device, in bytes.
const LARGEST_BURST: f64 = 4.0 * 65536.0;
/// The pacing rate in slow start, in windows per smoothed RTT.
const PACING_GAIN: f64 = 2.0;
const ENOUGH: u32 = 8;
const LEAST_INCREASE: Duration = Duration::from_millis(4);
const MOST_INCREASE: Duration = Duration::from_millis(16);
const INCREASE_DIVISOR: u64 = 8;

/// The state of one slow start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in super::super) struct LinuxHystart {
    paced: bool,
    least: Duration,
    round: Option<Round>,
}

/// The acknowledgements of one round trip.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Round {
    start: Time,
    /// The number of bytes delivered when the round began.
    delivered: u64,
    /// The end of the train so far.
    train: Time,
    least: Duration,
    samples: u32,
}

impl LinuxHystart {
    pub(super) const fn new(paced: bool) -> LinuxHystart {
        LinuxHystart { paced, least: Duration::MAX, round: None }
    }

    /// Returns true if `ack` ends slow start; it has not changed `window` yet.
    pub(super) fn ends(&mut self, ack: &Ack, window: &Window) -> bool {
        let Some(rtt) = ack.rtt else { return false };
        self.least = self.least.min(rtt);
        let mut round = match self.round {
            Some(round) if ack.delivery.is_none_or(|delivery| delivery.prior_delivered < round.delivered) => {
                round
            }
            _ => Round {
                start: ack.now,
                delivered: ack.delivery.map_or(0, |delivery| delivery.total),
                train: ack.now,
                least: Duration::MAX,
                samples: 0,
            },
        };
        if window.segments < LOW_WINDOW {
            self.round = Some(round);
            return false;
        }
        let mut over = false;
        if ack.now.since(round.train) <= TRAIN_GAP {
            round.train = ack.now;
            let threshold = self.least + cushion(window);
            let threshold = if self.paced { threshold } else { threshold / 2 };
            over = ack.now.since(round.start) > threshold;
        }
        round.least = round.least.min(rtt);
        if round.samples < ENOUGH {
            round.samples += 1;
        } else {
            let increase = (self.least / INCREASE_DIVISOR).clamp(LEAST_INCREASE, MOST_INCREASE);
            over |= round.least > self.least + increase;
        }
        self.round = Some(round);
        over
    }
}

/// Returns the allowance of a train for the bursts of a sender that offloads segmentation to its device.
fn cushion(window: &Window) -> Duration {
    let paced = PACING_GAIN * window.segments * window.mss as f64;
    let seconds = LARGEST_BURST * window.srtt.as_secs_f64() / paced;
    MOST_CUSHION.min(Duration::from_secs_f64(seconds))
}
