//! Westwood+: Reno that sets the window after a loss by the rate that the path has delivered. Subflows are independent.
//!
//! **Decides** the reduction of a window: the estimated bandwidth times the minimum RTT, which empties the
//! queue and keeps the path full. Growth is Reno's.
//!
//! **Source**: Grieco and Mascolo, "Performance evaluation and comparison of Westwood+, New Reno, and Vegas TCP
//! congestion control", ACM CCR 34(2), 2004. One sample of the bandwidth is the acknowledged data of a round
//! trip. A filter smooths the samples. A loss sets window and threshold to the product, at least 2 segments; a
//! timeout sets the threshold so, and the window to 1.
//!
//! **Constants**: from `net/ipv4/tcp_westwood.c` of Linux. A sample takes a smoothed RTT, at least 50 ms; two
//! filters in a row keep seven eighths; the first sample sets both.
//!
//! **Departures from the sources**
//! * Data that was acknowledged selectively counts when it is acknowledged. The sources estimate it from
//!   duplicate acknowledgements.
//! * The minimum is over samples of the RTT, as in the paper; Linux takes the minimum of the smoothed RTT.
//! * A product above the window does not raise the window, as in the paper; Linux raises it.
//! * Before the first sample of the bandwidth a loss halves.

use anabranch_units::{Duration, Time};

use super::Ack;
use super::delay::entry;
use super::rule::{Change, Reduction, WindowRule, Windows, half};
use crate::event::SubflowId;

/// The minimum time of a sample.
const LEAST_INTERVAL: Duration = Duration::from_millis(50);
/// The weight of the past in each of the two filters.
const KEPT: f64 = 7.0 / 8.0;

/// The rule of Westwood+.
#[derive(Clone, Debug, Default)]
pub struct Westwood {
    subflows: Vec<Estimate>,
}

/// The bandwidth of one subflow.
#[derive(Clone, Copy, Debug)]
struct Estimate {
    /// The minimum RTT.
    base: Duration,
    /// The beginning of the sample; `None` before the first acknowledgement.
    since: Option<Time>,
    /// The bytes acknowledged in the sample.
    acked: u64,
    /// The output of the first filter and of the second, in bytes per second; zero before the first sample.
    once: f64,
    twice: f64,
}

impl Estimate {
    const NEW: Estimate = Estimate { base: Duration::MAX, since: None, acked: 0, once: 0.0, twice: 0.0 };

    fn observe(&mut self, ack: &Ack) {
        if let Some(rtt) = ack.rtt {
            self.base = self.base.min(rtt.max(Duration::from_nanos(1)));
        }
        let Some(since) = self.since else {
            // The data of this acknowledgement was delivered before the sample.
            self.since = Some(ack.now);
            return;
        };
        let elapsed = ack.now - since;
        if elapsed > ack.srtt.max(LEAST_INTERVAL) {
            self.take(self.acked as f64 / elapsed.as_secs_f64());
            self.since = Some(ack.now);
            self.acked = 0;
        }
        self.acked = self.acked.saturating_add(ack.acked_bytes);
    }

    fn take(&mut self, sample: f64) {
        if self.twice > 0.0 {
            self.once = KEPT * self.once + (1.0 - KEPT) * sample;
            self.twice = KEPT * self.twice + (1.0 - KEPT) * self.once;
        } else {
            (self.once, self.twice) = (sample, sample);
        }
    }

    /// Returns the estimated bandwidth times the minimum RTT in bytes; `None` before the first sample.
    fn product(&self) -> Option<f64> {
        (self.twice > 0.0 && self.base < Duration::MAX).then(|| self.twice * self.base.as_secs_f64())
    }
}

impl WindowRule for Westwood {
    #[inline]
    fn observe(&mut self, _windows: &Windows, id: SubflowId, ack: &Ack) {
        entry(&mut self.subflows, id.index(), Estimate::NEW).observe(ack);
    }

    #[inline]
    fn increase(&mut self, windows: &Windows, id: SubflowId, acked: f64, _ack: &Ack) -> f64 {
        acked / windows.get(id).segments
    }

    fn decrease(&mut self, windows: &Windows, id: SubflowId, flight: f64, reduction: Reduction) -> f64 {
        let window = windows.get(id);
        let Some(product) = self.subflows.get(id.index()).and_then(Estimate::product) else {
            return half(flight);
        };
        let segments = libm::floor(product / window.mss as f64);
        if reduction == Reduction::Timeout { segments } else { segments.min(window.segments) }
    }

    fn on_change(&mut self, _windows: &Windows, id: SubflowId, _now: Time, change: Change) {
        if matches!(change, Change::Up | Change::Down) {
            *entry(&mut self.subflows, id.index(), Estimate::NEW) = Estimate::NEW;
        }
    }
}
