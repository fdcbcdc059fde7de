//! What every window-based congestion control shares: slow start, when a window may grow, the
//! reduction once per event, proportional rate reduction, timeouts, undo, idle restart.
//!
//! **Decides** the congestion window and the threshold of every subflow, from acknowledgements,
//! losses and timeouts. How much a window grows in congestion avoidance and where a reduction
//! ends is said by a [`WindowRule`], which sees the windows of all subflows.
//!
//! **Source**: RFC 5681 (slow start, reduction, idle restart), RFC 9937 (proportional rate
//! reduction), RFC 6298 (timeout), RFC 4015 (undo), RFC 9406 (HyStart++, optional).
//!
//! **Constants**: the least threshold 2 segments; the least window 1 segment.
//!
//! **Read differently**
//! * Windows are `f64` in segments and grow by fractions where RFC 5681 counts bytes and Linux
//!   counts acknowledgements; what is sent is the whole segments in them.
//! * FlightSize at a loss or a timeout is capped at the window: so limited transmit does not count
//!   (RFC 5681 section 3.2), nor what was sent before the window was penalised, nor what NewReno has
//!   sent during a long recovery.
//! * Proportional reduction lets whole segments go, rounded up, like Linux, where the RFC rounds up to bytes.
//! * During recovery the rules see the window as its target (the new threshold), as RFC 6356 section 3
//!   wants, and not as the one that proportional rate reduction lets through at the moment.

use anabranch_units::{Duration, Time};

use super::hystart::{HyStart, Phase};
use super::{Ack, CongestionControl, CongestionEvent, SubflowStart};
use crate::event::SubflowId;

/// The least threshold, in segments (RFC 5681 equation 4).
const MIN_SSTHRESH: f64 = 2.0;
/// The least window, in segments.
const MIN_WINDOW: f64 = 1.0;
/// The largest window, in segments; only keeps the arithmetic finite.
const MAX_WINDOW: f64 = (1_u64 << 32) as f64;

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
    const DOWN: Window = Window {
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
    fn bytes(&self, segments: f64) -> u64 {
        // A float to integer cast rounds down and saturates. 330 * 0.7 are 231 segments, not 230.
        ((segments + ROUNDING) as u64).max(1).saturating_mul(self.mss)
    }
}

/// The windows of all subflows of a connection.
#[derive(Clone, Debug, Default)]
pub struct Windows(Vec<Window>);

impl Windows {
    /// The window of `id`; one that is not up if there is no such subflow.
    #[inline]
    pub fn get(&self, id: SubflowId) -> Window {
        *self.at(id)
    }

    #[inline]
    fn at(&self, id: SubflowId) -> &Window {
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

/// The part in which classic congestion controls differ.
pub trait WindowRule: Clone {
    /// By how many segments the window of `id` grows in congestion avoidance when `acked` segments
    /// were acknowledged. It may be negative or nothing; the window never falls below 1.
    fn increase(&mut self, windows: &Windows, id: SubflowId, acked: f64, ack: &Ack) -> f64;

    /// The window in segments to which `id` is reduced, and its new threshold: it still has its window of
    /// before, and `flight` segments were in flight. The threshold is never below 2, and the window is
    /// only after marks.
    fn decrease(&mut self, windows: &Windows, id: SubflowId, flight: f64, reduction: Reduction) -> f64;

    /// A window has changed by something else; `windows` has the new state.
    #[inline]
    fn on_change(&mut self, _windows: &Windows, _id: SubflowId, _now: Time, _change: Change) {}
}

/// Proportional rate reduction (RFC 9937), in bytes.
#[derive(Clone, Copy, Debug)]
struct Reducing {
    /// RecoverFS; at least 1.
    recover: u64,
    /// `prr_delivered`.
    delivered: u64,
    /// `prr_out`.
    out: u64,
    /// The window that it allows at the moment.
    cwnd: u64,
    /// No acknowledgement was seen and nothing was sent: a timer has found the loss.
    entering: bool,
}

impl Reducing {
    /// RFC 9937 section 6.2.
    fn on_ack(&mut self, ack: &Ack, ssthresh: u64, mss: u64) {
        if ack.acked_bytes == 0 {
            return;
        }
        self.delivered = self.delivered.saturating_add(ack.acked_bytes);
        let inflight = ack.inflight_bytes;
        let mut send = if inflight > ssthresh {
            let allowed = u128::from(self.delivered) * u128::from(ssthresh);
            let allowed = allowed.div_ceil(u128::from(self.recover)).min(u128::from(u64::MAX / 2)) as u64;
            allowed.next_multiple_of(mss).saturating_sub(self.out)
        } else {
            let conservative = self.delivered.saturating_sub(self.out).max(ack.acked_bytes);
            // SafeACK: the repair goes well, so slow start towards the threshold is allowed.
            let safe = ack.una_advanced && ack.lost_bytes == 0;
            conservative.saturating_add(if safe { mss } else { 0 }).min(ssthresh - inflight)
        };
        if self.out == 0 && send < mss {
            // The fast retransmit goes out at once. RFC 9937 asks for it where SndCnt is 0; here a
            // segment leaves whole, so what is less than one would hold it back as well.
            send = mss;
        }
        self.cwnd = inflight.saturating_add(send);
        self.entering = false;
    }

    /// RFC 9937 section 6.3.
    fn on_sent(&mut self, bytes: u64, ssthresh: u64) {
        self.out = self.out.saturating_add(bytes);
        if core::mem::take(&mut self.entering) {
            self.cwnd = ssthresh;
        }
    }
}

/// Window and threshold before the last reduction, in segments.
#[derive(Clone, Copy, Debug)]
struct Before {
    segments: f64,
    ssthresh: f64,
}

/// What one subflow has besides its [`Window`].
#[derive(Clone, Copy, Debug)]
struct Subflow {
    initial_window: f64,
    prr: bool,
    reducing: Option<Reducing>,
    before: Option<Before>,
    /// Since when nothing is in flight.
    idle_since: Option<Time>,
    hystart: Option<HyStart>,
}

impl Subflow {
    const DOWN: Subflow = Subflow {
        initial_window: MIN_WINDOW,
        prr: false,
        reducing: None,
        before: None,
        idle_since: None,
        hystart: None,
    };
}

/// A congestion control of the classic kind, with a rule of its own for growth and reduction.
#[derive(Clone, Debug)]
pub struct Classic<R> {
    rule: R,
    windows: Windows,
    subflows: Vec<Subflow>,
    hystart: bool,
}

impl<R: WindowRule> Classic<R> {
    /// A connection without subflows, whose windows follow `rule`.
    pub fn new(rule: R) -> Classic<R> {
        Classic { rule, windows: Windows::default(), subflows: Vec::new(), hystart: false }
    }

    /// The same with HyStart++ (RFC 9406) in the first slow start of every subflow.
    pub fn with_hystart(mut self) -> Classic<R> {
        self.hystart = true;
        self
    }

    /// The windows of all subflows.
    pub fn windows(&self) -> &Windows {
        &self.windows
    }

    /// The rule.
    pub fn rule(&self) -> &R {
        &self.rule
    }

    fn parts(&mut self, id: SubflowId) -> Option<(&mut Window, &mut Subflow)> {
        match (self.windows.0.get_mut(id.index()), self.subflows.get_mut(id.index())) {
            (Some(window), Some(subflow)) if window.up => Some((window, subflow)),
            _ => None,
        }
    }

    /// The window that the rule names, at least one segment.
    fn reduced(&mut self, id: SubflowId, flight: f64, reduction: Reduction) -> f64 {
        let window = self.rule.decrease(&self.windows, id, flight, reduction);
        // Also where the rule's is not a number.
        if window > MIN_WINDOW { window.min(MAX_WINDOW) } else { MIN_WINDOW }
    }
}

impl<R: WindowRule> CongestionControl for Classic<R> {
    fn on_subflow_up(&mut self, id: SubflowId, start: &SubflowStart) {
        let slots = self.subflows.len().max(id.index() + 1);
        // Most connections have one subflow for ever.
        self.windows.0.reserve_exact(slots - self.windows.0.len());
        self.subflows.reserve_exact(slots - self.subflows.len());
        self.windows.0.resize(slots, Window::DOWN);
        self.subflows.resize(slots, Subflow::DOWN);
        let initial_window = f64::from(start.initial_window.max(1));
        self.windows.0[id.index()] = Window {
            up: true,
            segments: initial_window,
            ssthresh: start.initial_ssthresh.map_or(f64::INFINITY, |n| f64::from(n).max(MIN_SSTHRESH)),
            srtt: start.rtt.unwrap_or(Duration::ZERO),
            mss: start.mss.max(1),
            recovering: false,
        };
        self.subflows[id.index()] = Subflow {
            initial_window,
            prr: start.prr,
            hystart: self.hystart.then(HyStart::new),
            ..Subflow::DOWN
        };
        self.rule.on_change(&self.windows, id, start.now, Change::Up);
    }

    fn on_subflow_down(&mut self, id: SubflowId) {
        let Some((window, subflow)) = self.parts(id) else { return };
        *window = Window::DOWN;
        *subflow = Subflow::DOWN;
        self.rule.on_change(&self.windows, id, Time::ZERO, Change::Down);
    }

    #[inline]
    fn on_sent(&mut self, id: SubflowId, now: Time, bytes: u64) {
        let Some((window, subflow)) = self.parts(id) else { return };
        if let Some(reducing) = &mut subflow.reducing {
            reducing.on_sent(bytes, window.bytes(window.segments));
        }
        if let Some(since) = subflow.idle_since.take()
            && now > since
        {
            self.rule.on_change(&self.windows, id, now, Change::Resumed(now - since));
        }
    }

    #[inline]
    fn on_ack(&mut self, id: SubflowId, ack: &Ack) {
        let Some((window, subflow)) = self.parts(id) else { return };
        if !ack.srtt.is_zero() {
            window.srtt = ack.srtt;
        }
        if ack.inflight_bytes == 0 {
            subflow.idle_since = Some(ack.now);
        }
        if window.recovering || ack.in_recovery {
            // The acknowledgement that ends recovery takes no further step (RFC 9937 section 6.2).
            if let (Some(reducing), true) = (&mut subflow.reducing, ack.in_recovery) {
                reducing.on_ack(ack, window.bytes(window.segments), window.mss);
            }
            return;
        }
        let in_slow_start = window.in_slow_start();
        let phase = match &mut subflow.hystart {
            Some(hystart) if in_slow_start => hystart.on_ack(ack),
            _ => Phase::SlowStart,
        };
        // RFC 5681 section 3.1: a window grows by acknowledgements of new data alone ...
        if !ack.una_advanced || ack.acked_bytes == 0 {
            return;
        }
        // ... and (RFC 9438 section 5.8, RFC 7661) only while it is used.
        if !ack.cwnd_limited {
            self.rule.on_change(&self.windows, id, ack.now, Change::NotLimited);
            return;
        }
        let mut acked = ack.acked_bytes as f64 / window.mss as f64;
        if in_slow_start {
            if phase == Phase::Done {
                window.ssthresh = window.segments;
                subflow.hystart = None;
            } else {
                let factor = phase.growth();
                let grow = (acked * factor).min(window.ssthresh - window.segments);
                window.segments += grow;
                acked -= grow / factor;
            }
            self.rule.on_change(&self.windows, id, ack.now, Change::SlowStart);
            if acked <= 0.0 {
                return;
            }
        }
        let grow = self.rule.increase(&self.windows, id, acked, ack);
        if let Some(window) = self.windows.0.get_mut(id.index()) {
            let grown = window.segments + grow;
            // Not a number changes nothing.
            if grown >= MIN_WINDOW {
                window.segments = grown.min(MAX_WINDOW);
            } else if grown < MIN_WINDOW {
                window.segments = MIN_WINDOW;
            }
        }
    }

    fn on_congestion(&mut self, id: SubflowId, event: &CongestionEvent) {
        let Some((window, subflow)) = self.parts(id) else { return };
        if !window.recovering {
            subflow.before = Some(Before { segments: window.segments, ssthresh: window.ssthresh });
        }
        subflow.hystart = None;
        let mss = window.mss;
        let flight = (event.flight_bytes as f64 / mss as f64).min(window.segments);
        let reduction = if event.ecn { Reduction::Mark } else { Reduction::Loss };
        let reduced = self.reduced(id, flight, reduction);
        let Some((window, subflow)) = self.parts(id) else { return };
        window.ssthresh = reduced.max(MIN_SSTHRESH);
        // RFC 9438 section 4.6, RFC 3168 section 6.1.2: marks reduce the window down to one segment.
        window.segments = if event.ecn { reduced } else { window.ssthresh };
        window.recovering = !event.ecn;
        subflow.reducing = (subflow.prr && !event.ecn).then_some(Reducing {
            recover: event.recover_bytes.max(1),
            delivered: 0,
            out: 0,
            // Where a timer has found the loss there is no acknowledgement to take the first step by. What
            // was in flight before the loss lets one retransmission go, and then the threshold rules.
            cwnd: event.recover_bytes.max(mss),
            entering: true,
        });
        self.rule.on_change(&self.windows, id, event.now, Change::Reduced);
    }

    fn on_recovered(&mut self, id: SubflowId, now: Time) {
        let Some((window, subflow)) = self.parts(id) else { return };
        // RFC 9937 section 6.4: cwnd = ssthresh, which `segments` is already.
        if core::mem::take(&mut window.recovering) {
            subflow.reducing = None;
            self.rule.on_change(&self.windows, id, now, Change::Recovered);
        }
    }

    fn on_rto(&mut self, id: SubflowId, now: Time, flight_bytes: u64, again: bool) {
        let Some((window, subflow)) = self.parts(id) else { return };
        subflow.reducing = None;
        subflow.hystart = None;
        window.recovering = false;
        if !again {
            subflow.before = Some(Before { segments: window.segments, ssthresh: window.ssthresh });
            let flight = (flight_bytes as f64 / window.mss as f64).min(window.segments);
            let reduced = self.reduced(id, flight, Reduction::Timeout);
            if let Some((window, _)) = self.parts(id) {
                window.ssthresh = reduced.max(MIN_SSTHRESH);
            }
        }
        if let Some((window, _)) = self.parts(id) {
            window.segments = MIN_WINDOW; // RFC 5681 section 3.1: the loss window
        }
        self.rule.on_change(&self.windows, id, now, Change::Timeout);
    }

    fn on_undo(&mut self, id: SubflowId, now: Time) {
        let Some((window, subflow)) = self.parts(id) else { return };
        let Some(before) = subflow.before.take() else { return };
        subflow.reducing = None;
        window.recovering = false;
        let change = if window.segments < before.segments { Change::Undone } else { Change::UndoneLate };
        window.segments = window.segments.max(before.segments);
        window.ssthresh = window.ssthresh.max(before.ssthresh);
        self.rule.on_change(&self.windows, id, now, change);
    }

    fn on_idle(&mut self, id: SubflowId, now: Time) {
        let Some((window, subflow)) = self.parts(id) else { return };
        // RFC 5681 section 4.1: the restart window is min(IW, cwnd).
        if !window.recovering && window.segments > subflow.initial_window {
            window.segments = subflow.initial_window;
            self.rule.on_change(&self.windows, id, now, Change::Restarted);
        }
    }

    fn penalise(&mut self, id: SubflowId, now: Time) {
        let Some((window, _)) = self.parts(id) else { return };
        // As in the out-of-tree kernel, only a subflow that repairs nothing is penalised.
        if window.recovering {
            return;
        }
        let in_slow_start = window.in_slow_start();
        window.segments = (window.segments / 2.0).max(MIN_WINDOW);
        if !in_slow_start {
            window.ssthresh = (window.ssthresh / 2.0).max(MIN_SSTHRESH);
        }
        self.rule.on_change(&self.windows, id, now, Change::Penalised);
    }

    #[inline]
    fn cwnd(&self, id: SubflowId) -> u64 {
        let window = self.windows.at(id);
        match self.subflows.get(id.index()).and_then(|subflow| subflow.reducing.as_ref()) {
            Some(reducing) => reducing.cwnd.max(window.mss),
            None => window.bytes(window.segments),
        }
    }

    #[inline]
    fn ssthresh(&self, id: SubflowId) -> Option<u64> {
        let window = self.windows.at(id);
        window.ssthresh.is_finite().then(|| window.bytes(window.ssthresh))
    }
}
