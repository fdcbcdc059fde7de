//! OLIA, the opportunistic linked increases algorithm: the subflows of a connection together take no more
//! than one TCP on the best of their paths, and traffic moves to the paths that lose least.
//!
//! **Decides** how fast each window grows or shrinks in congestion avoidance, from the windows and smoothed
//! RTTs of all subflows and from the data that each has delivered between losses.
//!
//! **Source**: Khalili et al., "MPTCP is not Pareto-optimal", CoNEXT 2012, and
//! draft-khalili-mptcp-congestion-control-05. Per acknowledged segment `w_r` grows by `(w_r / R_r^2) / (sum
//! w_p / R_p)^2 + alpha_r / w_r`. Of the `n` subflows the set `M` has the largest window, and the set `B` the
//! largest `l / R^2`: `alpha` is `1 / (n |B \ M|)` in `B \ M`, and `-1 / (n |M|)` in `M` unless `B \ M` is
//! empty; else 0. `l` is the greater of the bytes delivered since the last loss and between the last two.
//!
//! **Constants**: none; decrease to 1/2; the minimum threshold is 1 segment while there are several subflows.
//!
//! **Departures from the source**
//! * `B` is chosen by `l / R^2`. The draft prints `l^2 / R`, but derives the rate `sqrt(2 l) / R`; the square
//!   of this rate is `l / R^2` up to a constant.
//! * `f64` is used. The kernel counts in 1/1024 segment and drops the remainder with each whole segment.
//! * Two windows are equal if they hold the same number of whole segments, as fractions hardly ever agree;
//!   two paths are equally good to within 1e-9.
//! * A subflow without an RTT sample is excluded from the sums and from `n`.

use anabranch_units::Time;

use super::Ack;
use super::rule::{Change, MIN_SSTHRESH, MIN_WINDOW, WindowRule, Windows};
use crate::event::SubflowId;

/// The relative tolerance within which paths are equally good.
const TOLERANCE: f64 = 1e-9;

/// The rule of OLIA.
#[derive(Clone, Default, Debug)]
pub struct Olia {
    delivered: Vec<Delivered>,
}

/// Bytes delivered by one subflow.
#[derive(Clone, Copy, Default, PartialEq, Debug)]
struct Delivered {
    /// Between the last two losses: `l_1`.
    before: f64,
    /// Since the last one: `l_2`.
    since: f64,
}

impl Olia {
    /// Returns `l` of a subflow, in bytes.
    fn between_losses(&self, id: SubflowId) -> f64 {
        self.delivered.get(id.index()).map_or(0.0, |delivered| delivered.before.max(delivered.since))
    }

    /// Returns `alpha` of `id` among the subflows for which `counts`.
    fn alpha(&self, windows: &Windows, id: SubflowId, counts: impl Fn(SubflowId) -> bool) -> f64 {
        let (mut n, mut largest, mut best) = (0.0_f64, 0.0_f64, 0.0_f64);
        let quality = |id, rtt: f64| self.between_losses(id) / (rtt * rtt);
        for (other, segments, rtt) in windows.measured().filter(|(other, ..)| counts(*other)) {
            n += 1.0;
            largest = largest.max(libm::floor(segments));
            best = best.max(quality(other, rtt));
        }
        // The sizes of M and of B \ M, and the set that contains the subflow.
        let (mut in_m, mut in_b_only, mut mine) = (0.0, 0.0, 0.0);
        for (other, segments, rtt) in windows.measured().filter(|(other, ..)| counts(*other)) {
            if libm::floor(segments) >= largest {
                in_m += 1.0;
                mine = if other == id { -1.0 } else { mine };
            } else if quality(other, rtt) >= best * (1.0 - TOLERANCE) {
                in_b_only += 1.0;
                mine = if other == id { 1.0 } else { mine };
            }
        }
        if in_b_only == 0.0 {
            0.0
        } else if mine > 0.0 {
            1.0 / (n * in_b_only)
        } else if mine < 0.0 {
            -1.0 / (n * in_m)
        } else {
            0.0
        }
    }

    /// Returns the growth of `id` per acknowledged segment among the subflows for which `counts`.
    pub(super) fn increase_among(
        &self,
        windows: &Windows,
        id: SubflowId,
        counts: impl Fn(SubflowId) -> bool + Copy,
    ) -> f64 {
        let window = windows.get(id).segments;
        let (mut sum, mut own) = (0.0, None);
        for (other, segments, rtt) in windows.measured().filter(|(other, ..)| counts(*other)) {
            sum += segments / rtt;
            if other == id {
                own = Some(segments / (rtt * rtt));
            }
        }
        match own {
            Some(own) => own / (sum * sum) + self.alpha(windows, id, counts) / window,
            None => 1.0 / window,
        }
    }

    /// Records the data delivered by `ack`.
    pub(super) fn deliver(&mut self, id: SubflowId, ack: &Ack) {
        if let Some(delivered) = self.delivered.get_mut(id.index()) {
            delivered.since += ack.acked_bytes as f64;
        }
    }

    /// Records a loss, or the start or end of a subflow.
    pub(super) fn note(&mut self, id: SubflowId, change: Change) {
        if self.delivered.len() <= id.index() {
            self.delivered.resize(id.index() + 1, Delivered::default());
        }
        let delivered = &mut self.delivered[id.index()];
        match change {
            Change::Up | Change::Down => *delivered = Delivered::default(),
            // A second loss before anything else was delivered is the same loss.
            Change::Reduced | Change::Timeout if delivered.since > 0.0 => {
                *delivered = Delivered { before: delivered.since, since: 0.0 };
            }
            _ => {}
        }
    }
}

impl WindowRule for Olia {
    #[inline]
    fn observe(&mut self, _windows: &Windows, id: SubflowId, ack: &Ack) {
        self.deliver(id, ack);
    }

    #[inline]
    fn increase(&mut self, windows: &Windows, id: SubflowId, acked: f64, _ack: &Ack) -> f64 {
        acked * self.increase_among(windows, id, |_| true)
    }

    fn least_threshold(&self, windows: &Windows) -> f64 {
        least_threshold(windows)
    }

    #[inline]
    fn on_change(&mut self, _windows: &Windows, id: SubflowId, _now: Time, change: Change) {
        self.note(id, change);
    }
}

/// Returns the minimum threshold of the drafts of OLIA and BALIA: 1 segment while there are several subflows,
/// otherwise the default.
pub(super) fn least_threshold(windows: &Windows) -> f64 {
    if windows.iter().count() > 1 { MIN_WINDOW } else { MIN_SSTHRESH }
}
