//! The differences between the classic congestion controls: the growth of a window, and the target of a
//! reduction.

use anabranch_units::{Duration, Time};

use super::Ack;
use crate::event::SubflowId;

/// The minimum threshold, in segments (RFC 5681 equation 4).
pub(super) const MIN_SSTHRESH: f64 = 2.0;
/// The minimum window, in segments.
pub(super) const MIN_WINDOW: f64 = 1.0;

/// The maximum floating-point error by which a window may be too small, in segments.
const ROUNDING: f64 = 1e-6;

/// A rule's view of one subflow.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    /// True if the subflow is established. The other fields are meaningless otherwise.
    pub up: bool,
    /// The window in segments; in recovery, the window at its end.
    pub segments: f64,
    /// The threshold in segments; infinite until the first loss.
    pub ssthresh: f64,
    /// The smoothed RTT; zero before the first sample.
    pub srtt: Duration,
    /// The maximum payload of a segment, in bytes; at least 1.
    pub mss: u64,
    /// True if fast recovery is repairing a loss.
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

    /// True if the window doubles each round trip.
    pub fn in_slow_start(&self) -> bool {
        self.segments < self.ssthresh
    }

    /// Returns the bytes of the whole segments in `segments`.
    pub(super) fn bytes(&self, segments: f64) -> u64 {
        // A float-to-integer cast rounds down and saturates. 330 * 0.7 is 231 segments, not 230.
        ((segments + ROUNDING) as u64).max(1).saturating_mul(self.mss)
    }
}

/// The windows of all subflows of a connection.
#[derive(Clone, Debug, Default)]
pub struct Windows(pub(super) Vec<Window>);

impl Windows {
    /// Returns the windows of subflows with the IDs 0, 1, ..., for tests of a rule.
    pub fn new(windows: Vec<Window>) -> Windows {
        Windows(windows)
    }

    /// Returns the window of `id`, or one that is not up if there is no such subflow.
    #[inline]
    pub fn get(&self, id: SubflowId) -> Window {
        *self.at(id)
    }

    #[inline]
    pub(super) fn at(&self, id: SubflowId) -> &Window {
        self.0.get(id.index()).unwrap_or(&Window::DOWN)
    }

    /// Returns the windows of the established subflows, in the order of their IDs.
    pub fn iter(&self) -> impl Iterator<Item = (SubflowId, &Window)> {
        self.0
            .iter()
            .enumerate()
            .filter(|(_, window)| window.up)
            .map(|(index, window)| (SubflowId(index as u8), window))
    }

    /// Returns the established subflows that have an RTT sample, over which coupled rules sum: ID, window in
    /// segments, smoothed RTT in seconds. If none has a sample, returns all of them with equal RTTs.
    pub fn measured(&self) -> impl Iterator<Item = (SubflowId, f64, f64)> {
        let known = self.iter().any(|(_, window)| !window.srtt.is_zero());
        self.iter().filter(move |(_, window)| !known || !window.srtt.is_zero()).map(move |(id, window)| {
            (id, window.segments, if known { window.srtt.as_secs_f64() } else { 1.0 })
        })
    }
}

/// The reason for a reduction of the window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reduction {
    /// A loss that fast recovery repairs.
    Loss,
    /// A congestion mark.
    Mark,
    /// The first expiration of the retransmission timer for some data.
    Timeout,
}

/// A change of a window other than by growth in congestion avoidance.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Change {
    /// The subflow is new; its ID may have been used by an ended one.
    Up,
    /// The subflow has ended.
    Down,
    /// The window has grown in slow start.
    SlowStart,
    /// An acknowledgement did not increase the window, because the application does not fill it.
    NotLimited,
    /// The window has been reduced after a loss or a mark.
    Reduced,
    /// Fast recovery has ended.
    Recovered,
    /// The retransmission timer has expired: the window is one segment.
    Timeout,
    /// The last reduction was undone, and the window restored to its previous size.
    Undone,
    /// The last reduction was undone, but the window had already outgrown its previous size.
    UndoneLate,
    /// Data is sent after an idle time of this length with nothing in flight.
    Resumed(Duration),
    /// The window was reset to its initial value after an idle time.
    Restarted,
    /// A scheduling policy has halved the window.
    Penalised,
}

/// The result of a rule that works by round trips.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Step {
    /// The window in segments; values below 1 count as 1.
    pub segments: f64,
    /// The threshold in segments.
    pub ssthresh: f64,
}

/// The part in which classic congestion controls differ.
pub trait WindowRule: Clone {
    /// True if the window is a function of time in congestion avoidance, given by [`WindowRule::window_at`].
    const BY_TIME: bool = false;

    /// True if data acknowledged selectively increases the window once reordering is expected, as for every window of
    /// Linux (`tcp_may_raise_cwnd`); by RFC 5681 only the acknowledgement of the data before it does.
    const BY_SACK: bool = false;

    /// True if a window that is not used is halved for each retransmission timeout without a transmission, and lowered
    /// towards its use during others, as in Linux (RFC 2861, which is experimental); by RFC 5681 an idle time restores the
    /// initial window, and RFC 7661 lowers nothing until a loss.
    const DECAYS: bool = false;

    /// Observes an acknowledgement, in recovery or not, before it changes the window.
    #[inline]
    fn observe(&mut self, _windows: &Windows, _id: SubflowId, _ack: &Ack) {}

    /// Handles the end of a round trip outside of recovery, by `ack`. If a step is returned, the
    /// acknowledgement changes nothing else; otherwise the window grows as usual.
    #[inline]
    fn on_round(&mut self, _windows: &Windows, _id: SubflowId, _ack: &Ack) -> Option<Step> {
        None
    }

    /// Returns the growth in segments of the window of `id` in congestion avoidance after `acked` segments
    /// were acknowledged. It may be negative. The default of zero is for rules that work only by round trips.
    /// The window never falls below 1.
    #[inline]
    fn increase(&mut self, _windows: &Windows, _id: SubflowId, _acked: f64, _ack: &Ack) -> f64 {
        0.0
    }

    /// Returns the window in segments to which `id` is reduced, and which becomes its threshold. `windows`
    /// has the window before the reduction, and `flight` segments were in flight. The threshold is never
    /// below [`WindowRule::least_threshold`]; the window may be below it only after marks. Defaults to half
    /// of the flight in whole segments (RFC 5681 equation 4).
    fn decrease(&mut self, _windows: &Windows, _id: SubflowId, flight: f64, _reduction: Reduction) -> f64 {
        half(flight)
    }

    /// Returns the minimum threshold after a reduction, in segments, at least 1. Defaults to 2 (RFC 5681).
    fn least_threshold(&self, _windows: &Windows) -> f64 {
        MIN_SSTHRESH
    }

    /// Returns the window in segments `ahead` of `now`, provided that nothing is lost until then, if the
    /// window is a function of time in congestion avoidance. `None`: it stays as it is.
    fn window_at(&self, _windows: &Windows, _id: SubflowId, _now: Time, _ahead: Duration) -> Option<f64> {
        None
    }

    /// Handles a change of a window by something else; `windows` has the new state.
    #[inline]
    fn on_change(&mut self, _windows: &Windows, _id: SubflowId, _now: Time, _change: Change) {}
}

/// Returns half of the flight in whole segments (RFC 5681 equation 4).
pub(super) fn half(flight: f64) -> f64 {
    libm::floor(flight / 2.0)
}
