//! Veno: Reno that distinguishes random losses from congestion by the length of the queue. Subflows are
//! independent.
//!
//! **Decides** growth and reduction of a window in congestion avoidance, by comparing the last RTT with the
//! overall minimum.
//!
//! **Source**: Fu and Liew, "TCP Veno: TCP enhancement for transmission over wireless access networks", IEEE
//! JSAC 21(2), 2003. `N = w (rtt - base) / rtt` segments are in queues. Below `beta` the window grows like
//! Reno's and a loss reduces it to four fifths; from `beta` on it grows half as fast and a loss reduces it to
//! one half.
//!
//! **Constants**: `beta` 3 segments.
//!
//! **Departures from the source**
//! * The window grows half as fast with each acknowledgement, instead of once in two of them.
//! * `N` is computed from the last RTT sample, as in Linux.
//! * With fewer than three samples since the start of the subflow, or since an idle restart, it is Reno.
//! * A timeout halves, as in the paper; Linux applies the rule for losses.

use anabranch_units::{Duration, Time};

use super::Ack;
use super::delay::entry;
use super::rule::{Change, Reduction, WindowRule, Windows, half};
use crate::event::SubflowId;
use crate::parameter;
use crate::parameter::{Options, Parameter};

/// The fraction of the window that remains after a loss with a short queue.
const RANDOM_LOSS_LEAVES: f64 = 0.8;
/// The minimum number of samples.
const ENOUGH: u32 = 3;

/// The limit between losses by congestion and random losses.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct VenoOptions {
    /// The queue length in segments from which a path is congested.
    pub beta: f64,
}

impl VenoOptions {
    /// A path is congested from a queue of 3 segments on.
    pub const DEFAULT: VenoOptions = VenoOptions { beta: 3.0 };
}

impl Options for VenoOptions {
    const PARAMETERS: &'static [Parameter<VenoOptions>] = &[
        parameter!(VenoOptions, "beta", "segments in the queue of a congested path", number 0.0, 1e6, beta),
    ];
}

impl Default for VenoOptions {
    fn default() -> VenoOptions {
        VenoOptions::DEFAULT
    }
}

/// The rule of Veno.
#[derive(Clone, Debug)]
pub struct Veno {
    options: VenoOptions,
    subflows: Vec<Sampled>,
}

#[derive(Clone, Copy, Debug)]
struct Sampled {
    base: Duration,
    last: Duration,
    samples: u32,
}

impl Sampled {
    const NEW: Sampled = Sampled { base: Duration::MAX, last: Duration::MAX, samples: 0 };
}

impl Veno {
    /// Returns a rule with the given options.
    pub fn new(options: VenoOptions) -> Veno {
        Veno { options, subflows: Vec::new() }
    }

    /// Returns whether the queue is long; `None` if there are too few samples.
    fn congested(&self, id: SubflowId, window: f64) -> Option<bool> {
        let sampled = self.subflows.get(id.index()).filter(|sampled| sampled.samples >= ENOUGH)?;
        let (rtt, base) = (sampled.last.as_secs_f64(), sampled.base.as_secs_f64());
        Some(window * (rtt - base) / rtt >= self.options.beta)
    }
}

impl WindowRule for Veno {
    #[inline]
    fn observe(&mut self, _windows: &Windows, id: SubflowId, ack: &Ack) {
        let sampled = entry(&mut self.subflows, id.index(), Sampled::NEW);
        if let (Some(rtt), false) = (ack.rtt, ack.in_recovery) {
            sampled.last = rtt.max(Duration::from_nanos(1));
            sampled.base = sampled.base.min(sampled.last);
            sampled.samples = sampled.samples.saturating_add(1);
        }
    }

    #[inline]
    fn increase(&mut self, windows: &Windows, id: SubflowId, acked: f64, _ack: &Ack) -> f64 {
        let window = windows.get(id).segments;
        let reno = acked / window;
        if self.congested(id, window) == Some(true) { reno / 2.0 } else { reno }
    }

    fn decrease(&mut self, windows: &Windows, id: SubflowId, flight: f64, reduction: Reduction) -> f64 {
        let random = self.congested(id, windows.get(id).segments) == Some(false);
        if random && reduction == Reduction::Loss {
            libm::floor(flight * RANDOM_LOSS_LEAVES)
        } else {
            half(flight)
        }
    }

    fn on_change(&mut self, _windows: &Windows, id: SubflowId, _now: Time, change: Change) {
        let sampled = entry(&mut self.subflows, id.index(), Sampled::NEW);
        if matches!(change, Change::Up | Change::Down | Change::Restarted) {
            *sampled = Sampled::NEW;
        }
    }
}
