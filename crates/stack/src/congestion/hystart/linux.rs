//! HyStart as Linux has it: leaves slow start when the acknowledgements of one round trip go on for half of one, or
//! when the round-trip time grows.
//!
//! **Decides** when a slow start ends, from the times of acknowledgements (a *train* of them without a gap is as long
//! as the path's bottleneck takes for a window) and from the least RTT of the last 8 or more samples against the least
//! of all.
//!
//! **Source**: Ha and Rhee, *Taming the elephants* (2011), as in `net/ipv4/tcp_cubic.c` of Linux 6.18; kernels from
//! 5.16 to the mend of January 2025 begin no round below the least window.
//!
//! **Constants**: it judges windows of 16 segments and more; a train has gaps of at most 2 ms and counts when it is
//! longer than half of (least RTT + cushion), without the half where segments are paced; the cushion is the time of
//! four of the largest packets of a segmenting sender (64 KiB) at the pacing rate, at most 1 ms, and the pacing rate
//! twice the window per smoothed RTT; an increase by 1/8 of the least RTT counts, at least 4 ms and at most 16 ms.
//!
//! **Read differently**: a round ends with the first acknowledgement of a segment sent after it began, where Linux
//! looks at sequence numbers.

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

/// What it remembers of one slow start.
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
    /// Bytes delivered when it began.
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

    /// Whether slow start is over with `ack`, which has not moved `window` yet.
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

/// What a train may be longer for the bursts of a sender that leaves segmentation to its device.
fn cushion(window: &Window) -> Duration {
    let paced = PACING_GAIN * window.segments * window.mss as f64;
    let seconds = LARGEST_BURST * window.srtt.as_secs_f64() / paced;
    MOST_CUSHION.min(Duration::from_secs_f64(seconds))
}
