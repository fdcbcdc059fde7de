//! BALIA, the balanced linked adaptation: coupled growth and reduction, between LIA's friendliness and OLIA's
//! responsiveness.
//!
//! **Decides** growth and reduction of each window in congestion avoidance, from the windows and smoothed
//! RTTs of all subflows.
//!
//! **Source**: draft-walid-mptcp-congestion-control-04. With `x = w / R` and `alpha_r = max x / x_r`, `w_r`
//! grows per acknowledged segment by `x_r / (R_r (sum x)^2) (1 + alpha_r)/2 (4 + alpha_r)/5`, and a loss
//! reduces it by `w_r / 2 min(alpha_r, 1.5)`.
//!
//! **Constants**: a loss reduces by between 1/2 and 3/4; the minimum threshold is 1 segment while there are
//! several subflows.
//!
//! **Departures from the source**
//! * `alpha` is a real number. The kernel divides integers, so it reduces by one half for an `alpha` below 2
//!   and by three quarters from there on.
//! * The reduction is computed from the flight size, as in RFC 5681, and rounded down to whole segments.
//! * A subflow without an RTT sample is excluded from the sums.

use super::Ack;
use super::olia::least_threshold;
use super::rule::{Reduction, WindowRule, Windows};
use crate::event::SubflowId;

/// The maximum `alpha` in a reduction.
const MOST_REDUCED: f64 = 1.5;

/// The rule of BALIA.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Balia;

/// The terms of the formulas.
struct Rates {
    /// The sum of the rates, in segments per second.
    sum: f64,
    /// The subflow's rate divided by its RTT; `None` without an RTT sample.
    own: Option<f64>,
    /// `alpha`; 1 without an RTT sample.
    alpha: f64,
}

fn rates(windows: &Windows, id: SubflowId) -> Rates {
    let (mut sum, mut largest, mut own) = (0.0, 0.0_f64, None);
    for (other, segments, rtt) in windows.measured() {
        let rate = segments / rtt;
        sum += rate;
        largest = largest.max(rate);
        if other == id {
            own = Some((rate, rtt));
        }
    }
    Rates { sum, own: own.map(|(rate, rtt)| rate / rtt), alpha: own.map_or(1.0, |(rate, _)| largest / rate) }
}

impl WindowRule for Balia {
    #[inline]
    fn increase(&mut self, windows: &Windows, id: SubflowId, acked: f64, _ack: &Ack) -> f64 {
        let Rates { sum, own, alpha } = rates(windows, id);
        match own {
            Some(own) => acked * own / (sum * sum) * (1.0 + alpha) / 2.0 * (4.0 + alpha) / 5.0,
            None => acked / windows.get(id).segments,
        }
    }

    fn decrease(&mut self, windows: &Windows, id: SubflowId, flight: f64, _reduction: Reduction) -> f64 {
        let alpha = rates(windows, id).alpha;
        libm::floor(flight * (1.0 - alpha.min(MOST_REDUCED) / 2.0))
    }

    fn least_threshold(&self, windows: &Windows) -> f64 {
        least_threshold(windows)
    }
}
