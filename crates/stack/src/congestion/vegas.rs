//! Vegas: keeps a few segments in the queue of the path, and so avoids losses. Subflows are independent.
//!
//! **Decides** the window once per round trip, by comparing the minimum RTT of that round trip with the
//! overall minimum.
//!
//! **Source**: Brakmo and Peterson, "TCP Vegas", IEEE JSAC 13(8), 1995, with the changes of Linux: slow start
//! doubles in every round trip, and ends at the window that the rate needs. `diff = w (rtt - base) / rtt` is
//! the number of segments in queues. Below `alpha` the window grows by a segment, above `beta` it shrinks by
//! one; slow start ends above `gamma`, with `w base / rtt + 1`.
//!
//! **Constants**: `alpha` 2, `beta` 4, `gamma` 1 segment; minimum window 2; decrease to 1/2 at a loss.
//!
//! **Departures from the source**
//! * Current Linux divides by `base` instead of `rtt`, which counts more segments the longer the queue is;
//!   this is an option. It also rounds `diff` down, and so leaves slow start at 2 instead of above 1.
//! * With fewer than three RTT samples in a round trip the window grows like Reno's.
//! * The window grows only while it is used.

use anabranch_units::Time;

use super::Ack;
use super::delay::{Delays, Measured, entry};
use super::rule::{Change, Step, Window, WindowRule, Windows};
use crate::event::SubflowId;
use crate::parameter;
use crate::parameter::{Options, Parameter};

/// The minimum window, in segments.
pub(super) const LEAST: f64 = 2.0;

/// The targets of Vegas, in segments.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct VegasOptions {
    /// The queue length below which the window grows.
    pub alpha: f64,
    /// The queue length above which the window shrinks.
    pub beta: f64,
    /// The queue length above which slow start ends.
    pub gamma: f64,
    /// True to compute the queue length as current Linux does: `w (rtt - base) / base`.
    pub over_base: bool,
}

impl VegasOptions {
    /// The paper's values 2, 4 and 1, and its queue length.
    pub const DEFAULT: VegasOptions = VegasOptions { alpha: 2.0, beta: 4.0, gamma: 1.0, over_base: false };
}

impl Options for VegasOptions {
    const PARAMETERS: &'static [Parameter<VegasOptions>] = &[
        parameter!(VegasOptions, "alpha", "segments in the queue below which the window grows", number 0.0, 1e6, alpha),
        parameter!(VegasOptions, "beta", "segments in the queue above which the window shrinks", number 0.0, 1e6, beta),
        parameter!(VegasOptions, "gamma", "segments in the queue above which slow start ends", number 0.0, 1e6, gamma),
        parameter!(
            VegasOptions,
            "over-base",
            "compute the queue relative to the base RTT, as Linux does",
            bool,
            over_base
        ),
    ];
    const ORDERED: &'static [[&'static str; 2]] = &[["alpha", "beta"]];
}

impl Default for VegasOptions {
    fn default() -> VegasOptions {
        VegasOptions::DEFAULT
    }
}

/// The rule of Vegas.
#[derive(Clone, Debug)]
pub struct Vegas {
    options: VegasOptions,
    subflows: Vec<Delays>,
}

impl Vegas {
    /// Returns a rule with the given options.
    pub fn new(options: VegasOptions) -> Vegas {
        Vegas { options, subflows: Vec::new() }
    }
}

impl WindowRule for Vegas {
    #[inline]
    fn observe(&mut self, _windows: &Windows, id: SubflowId, ack: &Ack) {
        entry(&mut self.subflows, id.index(), Delays::NEW).observe(ack);
    }

    fn on_round(&mut self, windows: &Windows, id: SubflowId, ack: &Ack) -> Option<Step> {
        let delays = entry(&mut self.subflows, id.index(), Delays::NEW);
        let round = delays.end_round()?;
        let window = windows.get(id);
        let VegasOptions { alpha, beta, gamma, over_base } = self.options;
        let Some(measured) = delays.least(&round) else {
            return reno_round(windows, id, round.acked, ack);
        };
        let mut queued = measured.queued(window.segments);
        if over_base {
            queued *= measured.rtt / measured.base;
        }
        if window.in_slow_start() {
            return (queued > gamma).then(|| after_slow_start(&window, measured));
        }
        let (segments, ssthresh) = if queued > beta {
            (window.segments - 1.0, window.ssthresh.min(window.segments - 1.0))
        } else if queued < alpha && ack.cwnd_limited {
            (window.segments + 1.0, window.ssthresh)
        } else {
            (window.segments, window.ssthresh)
        };
        Some(settled(segments, ssthresh))
    }

    fn on_change(&mut self, _windows: &Windows, id: SubflowId, _now: Time, change: Change) {
        entry(&mut self.subflows, id.index(), Delays::NEW).on_change(change);
    }
}

/// Returns the step that ends slow start: to the window that the rate needs, plus one segment.
pub(super) fn after_slow_start(window: &Window, measured: Measured) -> Step {
    let target = window.segments * measured.base / measured.rtt;
    let segments = window.segments.min(target + 1.0);
    settled(segments, window.ssthresh.min(segments))
}

/// Returns a step to at least 2 segments, with a threshold of at least three quarters of them, as in Linux.
pub(super) fn settled(segments: f64, ssthresh: f64) -> Step {
    let segments = segments.max(LEAST);
    Step { segments, ssthresh: ssthresh.max(0.75 * segments).max(LEAST) }
}

/// Returns the step of a round trip in which Reno's rule is used: `acked` bytes were acknowledged in it.
pub(super) fn reno_round(windows: &Windows, id: SubflowId, acked: u64, ack: &Ack) -> Option<Step> {
    let window = windows.get(id);
    if window.in_slow_start() || !ack.cwnd_limited {
        return None;
    }
    let grow = (acked as f64 / window.mss as f64 / window.segments).min(1.0);
    Some(Step { segments: window.segments + grow, ssthresh: window.ssthresh })
}
