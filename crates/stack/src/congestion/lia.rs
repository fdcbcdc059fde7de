//! LIA, the linked increases algorithm: the subflows of a connection together take as much as one TCP on the
//! best of their paths.
//!
//! **Decides** how fast each window grows, from the windows and smoothed RTTs of all subflows; the rest is
//! NewReno.
//!
//! **Source**: RFC 6356 section 3. Per acknowledged segment the window `w_i` grows by `min(alpha / w_total, 1
//! / w_i)`, where `alpha = w_total * max(w_k / R_k^2) / (sum w_k / R_k)^2`. So `alpha / w_total`, the
//! *aggressiveness* below, needs no total.
//!
//! **Constants**: none; decrease to 1/2.
//!
//! **Departures from the source**
//! * `f64` is used, so an increase is never rounded to nothing or to too much (the kernel's fixed point is
//!   too aggressive from 2000 segments on).
//! * The aggressiveness is recomputed when a window has changed other than by this rule (RFC 6356 section
//!   4.1: per loss, per slow-start acknowledgement), and otherwise after as many acknowledged segments as the
//!   acknowledged subflow's window holds: about once per round trip.
//! * A subflow without an RTT sample is excluded from the sums; if none has one, equal RTTs are assumed.

use anabranch_units::Time;

use super::Ack;
use super::classic::{Change, WindowRule, Windows};
use crate::event::SubflowId;

/// The rule of LIA.
#[derive(Clone, Copy, Default, PartialEq, Debug)]
pub struct Lia {
    /// `alpha / w_total`, in segments per acknowledged segment.
    aggressiveness: f64,
    /// The number of segments to be acknowledged until it is recomputed.
    valid_for: f64,
}

impl WindowRule for Lia {
    #[inline]
    fn increase(&mut self, windows: &Windows, id: SubflowId, acked: f64, _ack: &Ack) -> f64 {
        let window = windows.get(id).segments;
        if self.valid_for <= 0.0 {
            self.aggressiveness = aggressiveness(windows);
            self.valid_for = window;
        }
        self.valid_for -= acked;
        acked * self.aggressiveness.min(1.0 / window)
    }

    #[inline]
    fn on_change(&mut self, _windows: &Windows, _id: SubflowId, _now: Time, change: Change) {
        if change != Change::NotLimited {
            self.valid_for = 0.0;
        }
    }
}

/// Returns `alpha / w_total` of RFC 6356: the growth in segments, per acknowledged segment, of a window not
/// capped at NewReno's growth. Infinite without subflows, so that the cap decides.
pub fn aggressiveness(windows: &Windows) -> f64 {
    aggressiveness_among(windows, |_| true)
}

/// Returns the same among the subflows selected by `counts`.
pub(super) fn aggressiveness_among(windows: &Windows, counts: impl Fn(SubflowId) -> bool) -> f64 {
    let mut best = 0.0_f64;
    let mut sum = 0.0;
    for (_, segments, rtt) in windows.measured().filter(|(id, ..)| counts(*id)) {
        let rate = segments / rtt;
        best = best.max(rate / rtt);
        sum += rate;
    }
    if sum > 0.0 { best / (sum * sum) } else { f64::INFINITY }
}
