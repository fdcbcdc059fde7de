//! What the classic congestion controls differ in: how a window grows, and where a reduction ends.

use anabranch_units::{Duration, Time};

use super::Ack;
use crate::event::SubflowId;

/// The least threshold, in segments (RFC 5681 equation 4).
pub(super) const MIN_SSTHRESH: f64 = 2.0;
/// The least window, in segments.
pub(super) const MIN_WINDOW: f64 = 1.0;

/// By how much a window may have come out too small in floating point, in segments.
const ROUNDING: f64 = 1e-6;

/// What a rule sees of one subflow.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    /// The subflow is established. All else is meaningless where it is not.
    pub up: bool,
    /// The window in segments; in recovery the window at which recovery will end.
    pub segments: f64,
    /// The threshold in segments; infinite until the first loss.
    pub ssthresh: f64,
    /// The smoothed RTT; zero before a sample.
    pub srtt: Duration,
    /// The most payload in one segment, in bytes; at least 1.
    pub mss: u64,
    /// A loss is being repaired by fast recovery.
    pub recovering: bool,
}

impl Window {
    pub(super) const DOWN: Window = Window {
        up: false,
        segments: MIN_WINDOW,
        ssthresh: f64::INFINITY,
        srtt: Duration::ZERO,
        mss: 1,
        recovering: false,
    };

    /// Whether the window doubles each round trip.
    pub fn in_slow_start(&self) -> bool {
        self.segments < self.ssthresh
    }

    /// Bytes in the whole segments of `segments`.
    pub(super) fn bytes(&self, segments: f64) -> u64 {
        // A float to integer cast rounds down and saturates. 330 * 0.7 are 231 segments, not 230.
        ((segments + ROUNDING) as u64).max(1).saturating_mul(self.mss)
    }
}

/// The windows of all subflows of a connection.
#[derive(Clone, Debug, Default)]
pub struct Windows(pub(super) Vec<Window>);

impl Windows {
    /// The window of `id`; one that is not up if there is no such subflow.
    #[inline]
    pub fn get(&self, id: SubflowId) -> Window {
        *self.at(id)
    }

    #[inline]
    pub(super) fn at(&self, id: SubflowId) -> &Window {
        self.0.get(id.index()).unwrap_or(&Window::DOWN)
    }

    /// The windows of the established subflows, in the order of their IDs.
    pub fn iter(&self) -> impl Iterator<Item = (SubflowId, &Window)> {
        self.0
            .iter()
            .enumerate()
            .filter(|(_, window)| window.up)
            .map(|(index, window)| (SubflowId(index as u8), window))
    }

    /// The established subflows that have an RTT sample, as coupled rules sum over them: ID, window in
    /// segments, smoothed RTT in seconds. Where none has a sample, all of them, with equal RTTs.
    pub fn measured(&self) -> impl Iterator<Item = (SubflowId, f64, f64)> {
        let known = self.iter().any(|(_, window)| !window.srtt.is_zero());
        self.iter().filter(move |(_, window)| !known || !window.srtt.is_zero()).map(move |(id, window)| {
            (id, window.segments, if known { window.srtt.as_secs_f64() } else { 1.0 })
        })
    }
}

/// Why a window is reduced.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reduction {
    /// A loss that fast recovery repairs.
    Loss,
    /// A congestion mark.
    Mark,
    /// The retransmission timer has run out for data for the first time.
    Timeout,
}

/// What has changed a window other than growth in congestion avoidance.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Change {
    /// The subflow is new; its place may have been used by a dead one.
    Up,
    /// The subflow has ended.
    Down,
    /// The window has grown in slow start.
    SlowStart,
    /// An acknowledgement came and the window did not grow, as the application does not fill it.
    NotLimited,
    /// The window has been reduced after a loss or a mark.
    Reduced,
    /// Fast recovery is over.
    Recovered,
    /// The retransmission timer has run out: the window is one segment.
    Timeout,
    /// The last reduction was taken back, and the window raised to what it had been.
    Undone,
    /// The last reduction was taken back, but the window had already outgrown it.
    UndoneLate,
    /// Data is sent after nothing had been in flight for so long.
    Resumed(Duration),
    /// The window has fallen back to its initial value after an idle time.
    Restarted,
    /// A scheduling policy has halved the window.
    Penalised,
}

/// Where a rule that works by round trips puts a window.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Step {
    /// The window in segments; at least 1 is taken.
    pub segments: f64,
    /// The threshold in segments.
    pub ssthresh: f64,
}

/// The part in which classic congestion controls differ.
pub trait WindowRule: Clone {
    /// True if the window is a function of time in congestion avoidance, as [`WindowRule::window_at`] says.
    const BY_TIME: bool = false;

    /// An acknowledgement has come, in recovery or not, before the window changes by it.
    #[inline]
    fn observe(&mut self, _windows: &Windows, _id: SubflowId, _ack: &Ack) {}

    /// A round trip has ended outside of recovery, with `ack`. Where the rule names a step, the
    /// acknowledgement changes nothing else; without one the window grows as ever.
    #[inline]
    fn on_round(&mut self, _windows: &Windows, _id: SubflowId, _ack: &Ack) -> Option<Step> {
        None
    }

    /// By how many segments the window of `id` grows in congestion avoidance when `acked` segments
    /// were acknowledged. It may be negative or nothing, as it is for a rule that works by round trips alone and
    /// says nothing here; the window never falls below 1.
    #[inline]
    fn increase(&mut self, _windows: &Windows, _id: SubflowId, _acked: f64, _ack: &Ack) -> f64 {
        0.0
    }

    /// The window in segments to which `id` is reduced, and its new threshold: it still has its window of
    /// before, and `flight` segments were in flight. The threshold is never below
    /// [`WindowRule::least_threshold`], and the window is only after marks. Half of the flight in whole segments
    /// (RFC 5681 equation 4) if the rule says nothing else.
    fn decrease(&mut self, _windows: &Windows, _id: SubflowId, flight: f64, _reduction: Reduction) -> f64 {
        half(flight)
    }

    /// The least threshold after a reduction, in segments, at least 1: 2 as in RFC 5681 if the rule
    /// says nothing else.
    fn least_threshold(&self, _windows: &Windows) -> f64 {
        MIN_SSTHRESH
    }

    /// Where the window is a function of time in congestion avoidance: the window in segments `ahead` of `now`,
    /// if nothing is lost until then. None: it stays as it is.
    fn window_at(&self, _windows: &Windows, _id: SubflowId, _now: Time, _ahead: Duration) -> Option<f64> {
        None
    }

    /// A window has changed by something else; `windows` has the new state.
    #[inline]
    fn on_change(&mut self, _windows: &Windows, _id: SubflowId, _now: Time, _change: Change) {}
}

/// Half the flight in whole segments (RFC 5681 equation 4).
pub(super) fn half(flight: f64) -> f64 {
    libm::floor(flight / 2.0)
}
