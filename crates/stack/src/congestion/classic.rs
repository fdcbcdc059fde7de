//! The common part of the window-based congestion controls: slow start, the conditions for growth, one
//! reduction per event, proportional rate reduction, timeouts, undo, idle restart.
//!
//! **Decides** the congestion window and the threshold of every subflow, from acknowledgements, losses and
//! timeouts. The growth in congestion avoidance and the target of a reduction come from a [`WindowRule`],
//! which sees the windows of all subflows.
//!
//! **Source**: RFC 5681 (slow start, reduction, idle restart), RFC 9937 (proportional rate reduction), RFC
//! 6298 (timeout), RFC 4015 (undo), RFC 9406 (HyStart++, optional).
//!
//! **Constants**: minimum threshold 2 segments; minimum window 1 segment.
//!
//! **Departures from the source**
//! * Windows are `f64` in segments and grow by fractions, while RFC 5681 counts bytes and Linux counts
//!   acknowledgements; only whole segments are sent.
//! * FlightSize at a loss or a timeout is capped at the window. This excludes limited transmit (RFC 5681
//!   section 3.2), data sent before the window was penalised, and data that NewReno has sent during a long
//!   recovery.
//! * Proportional reduction sends whole segments, rounded up, like Linux; the RFC rounds up to bytes.
//! * In slow start an acknowledgement adds the segments it acknowledges, as in Linux. RFC 5681 adds at most
//!   one segment and RFC 3465 at most two; [`SubflowStart::byte_counting_limit`] sets the limit. If it is
//!   set, the limit is a single segment in the slow start after a timeout (RFC 3465 section 2.3).
//! * During recovery the rules see the target window (the new threshold), as required by RFC 6356 section 3,
//!   and not the window currently allowed by proportional rate reduction.

use anabranch_units::{Duration, Time};

use super::hystart::{Hystart, HystartKind, Phase};
use super::lisa;
use super::prr::Reducing;
pub use super::rule::{Change, Reduction, Step, Window, WindowRule, Windows};
use super::rule::{MIN_SSTHRESH, MIN_WINDOW};
use super::{Ack, CongestionControl, CongestionEvent, Growth, SubflowStart};
use crate::event::SubflowId;

/// The maximum window, in segments; it only keeps the arithmetic finite.
const MAX_WINDOW: f64 = (1_u64 << 32) as f64;
/// Slow start counts all acknowledged segments. No acknowledgement covers this many.
const NO_LIMIT: u32 = u32::MAX;

/// Window and threshold before the last reduction, in segments.
#[derive(Clone, Copy, Debug)]
struct Before {
    segments: f64,
    ssthresh: f64,
    /// True in the first slow start.
    starting: bool,
}

/// The state of one subflow in addition to its [`Window`].
// The field order keeps the fields used for each segment together: the tag of `reducing` is at its end.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
struct Subflow {
    reducing: Option<Reducing>,
    /// Bytes in flight.
    inflight: u64,
    /// The time since which nothing has been in flight.
    idle_since: Option<Time>,
    /// True if segments are sent at a pacing rate.
    paced: bool,
    /// True during the first slow start.
    starting: bool,
    prr: bool,
    /// The maximum number of segments that an acknowledgement adds in slow start (RFC 3465), or [`NO_LIMIT`].
    limit: u32,
    /// The same limit for the current slow start.
    limit_now: u32,
    /// The number of acknowledged segments that do not increase the window (LISA).
    ignored: f64,
    initial_window: f64,
    hystart: Option<Hystart>,
    before: Option<Before>,
}

impl Subflow {
    const DOWN: Subflow = Subflow {
        initial_window: MIN_WINDOW,
        prr: false,
        reducing: None,
        before: None,
        idle_since: None,
        hystart: None,
        paced: false,
        inflight: 0,
        starting: false,
        ignored: 0.0,
        limit: NO_LIMIT,
        limit_now: NO_LIMIT,
    };
}

impl Subflow {
    /// Ends the first slow start, to which an undo may return.
    fn leave_start(&mut self) {
        self.starting = false;
        self.ignored = 0.0;
    }

    /// Records the state before a reduction.
    fn note_before(&mut self, window: &Window) {
        let Window { segments, ssthresh, .. } = *window;
        self.before = Some(Before { segments, ssthresh, starting: self.starting });
    }

    /// Returns HyStart in a slow start in which it works.
    #[inline]
    fn hystart(&mut self) -> Option<&mut Hystart> {
        let starting = self.starting;
        self.hystart.as_mut().filter(|hystart| starting || !hystart.is_only_for_start())
    }
}

/// A window-based congestion control. A rule decides growth and reduction.
#[derive(Clone, Debug)]
pub struct Classic<R> {
    rule: R,
    windows: Windows,
    subflows: Vec<Subflow>,
    hystart: Option<HystartKind>,
    lisa: bool,
}

impl Window {
    /// Sets the window; ignores NaN.
    fn set(&mut self, segments: f64) {
        if !segments.is_nan() {
            self.segments = segments.clamp(MIN_WINDOW, MAX_WINDOW);
        }
    }

    /// Raises the threshold to three quarters of a window that is lowered because it was not used (RFC 2861 section 3.1).
    fn remember_unused(&mut self) {
        self.ssthresh = self.ssthresh.max(libm::floor(self.segments * 0.75));
    }
}

impl<R: WindowRule> Classic<R> {
    /// Returns a congestion control without subflows; windows will follow `rule`.
    pub fn new(rule: R) -> Classic<R> {
        Classic { rule, windows: Windows::default(), subflows: Vec::new(), hystart: None, lisa: false }
    }

    /// Enables HyStart++ (RFC 9406) in the first slow start of every subflow.
    pub fn with_hystart(mut self) -> Classic<R> {
        self.hystart = Some(HystartKind::PlusPlus);
        self
    }

    /// Enables Linux's HyStart in the slow starts of every subflow, until it has ended one; again after a timeout.
    pub fn with_hystart_of_linux(mut self) -> Classic<R> {
        self.hystart = Some(HystartKind::Linux);
        self
    }

    /// Links the slow starts of the subflows (LISA) or leaves them independent, which is the default.
    pub fn link_slow_starts(&mut self, on: bool) {
        self.lisa = on;
    }

    /// Returns the windows of all subflows.
    pub fn windows(&self) -> &Windows {
        &self.windows
    }

    /// Returns the growth and reduction rule, with its own state.
    pub fn rule(&self) -> &R {
        &self.rule
    }

    fn parts(&mut self, id: SubflowId) -> Option<(&mut Window, &mut Subflow)> {
        match (self.windows.0.get_mut(id.index()), self.subflows.get_mut(id.index())) {
            (Some(window), Some(subflow)) if window.up => Some((window, subflow)),
            _ => None,
        }
    }

    /// Computes the initial window of a new subflow, and takes the shared part from the window of the donor.
    fn share_slow_start(&mut self, new: SubflowId) {
        let starting = |id: SubflowId| self.subflows.get(id.index()).is_some_and(|subflow| subflow.starting);
        let Some(donor) = lisa::fastest(&self.windows, |id| id != new && starting(id)) else { return };
        let initial = self.windows.at(new).segments;
        let share = lisa::share(self.windows.at(donor).segments, initial);
        self.windows.0[new.index()].segments = share.window;
        if let Some((window, subflow)) = self.parts(donor) {
            window.segments -= share.taken;
            let in_flight = subflow.inflight as f64 / window.mss as f64;
            if share.taken > 0.0 {
                subflow.ignored = (in_flight - window.segments).max(0.0);
            }
        }
    }

    /// Returns the window set by the rule, at least one segment.
    fn reduced(&mut self, id: SubflowId, flight: f64, reduction: Reduction) -> f64 {
        let window = self.rule.decrease(&self.windows, id, flight, reduction);
        // A NaN from the rule also gives the minimum.
        if window > MIN_WINDOW { window.min(MAX_WINDOW) } else { MIN_WINDOW }
    }

    /// Handles the first transmission after an idle time.
    #[cold]
    fn resume(&mut self, id: SubflowId, now: Time, since: Time) {
        self.rule.on_change(&self.windows, id, now, Change::Resumed(now - since));
    }

    /// Counts bytes sent during a proportional rate reduction.
    #[cold]
    fn reduce_by(&mut self, id: SubflowId, bytes: u64) {
        let Some((window, subflow)) = self.parts(id) else { return };
        if let Some(reducing) = &mut subflow.reducing {
            reducing.on_sent(bytes, window.bytes(window.segments));
        }
    }
}

impl<R: WindowRule + core::fmt::Debug> super::BuiltIn for Classic<R> {
    fn set_lisa(&mut self, on: bool) {
        self.link_slow_starts(on);
    }

    fn segment_windows(&self) -> Option<&Windows> {
        Some(self.windows())
    }
}

impl<R: WindowRule> CongestionControl for Classic<R> {
    fn on_subflow_up(&mut self, id: SubflowId, start: &SubflowStart) {
        let slots = self.subflows.len().max(id.index() + 1);
        // Most connections have only one subflow throughout.
        self.windows.0.reserve_exact(slots - self.windows.0.len());
        self.subflows.reserve_exact(slots - self.subflows.len());
        self.windows.0.resize(slots, Window::DOWN);
        self.subflows.resize(slots, Subflow::DOWN);
        let initial_window = f64::from(start.initial_window.max(1));
        let limit = start.byte_counting_limit.map_or(NO_LIMIT, |segments| segments.max(1));
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
            hystart: self.hystart.map(|kind| Hystart::new(kind, start)),
            paced: start.paced,
            starting: true,
            limit,
            limit_now: limit,
            ..Subflow::DOWN
        };
        if self.lisa {
            self.share_slow_start(id);
        }
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
        let Some((_, subflow)) = self.parts(id) else { return };
        subflow.inflight = subflow.inflight.saturating_add(bytes);
        let (reducing, idle_since) = (subflow.reducing.is_some(), subflow.idle_since.take());
        if reducing {
            self.reduce_by(id, bytes);
        }
        if let Some(since) = idle_since.filter(|&since| now > since) {
            self.resume(id, now, since);
        }
    }

    // Not inlined: there are ten instances, and inlining puts all of them in the way of every caller.
    #[inline(never)]
    fn on_ack(&mut self, id: SubflowId, ack: &Ack) {
        let Some((window, subflow)) = self.parts(id) else { return };
        if !ack.srtt.is_zero() {
            window.srtt = ack.srtt;
        }
        subflow.inflight = ack.inflight_bytes;
        if ack.inflight_bytes == 0 {
            subflow.idle_since = Some(ack.now);
        }
        self.rule.observe(&self.windows, id, ack);
        let Some((window, subflow)) = self.parts(id) else { return };
        if window.recovering || ack.in_recovery {
            // The acknowledgement that ends recovery makes no further step (RFC 9937 section 6.2).
            if let (Some(reducing), true) = (&mut subflow.reducing, ack.in_recovery) {
                reducing.on_ack(ack, window.bytes(window.segments), window.mss);
            }
            return;
        }
        let in_slow_start = window.in_slow_start();
        let phase = match subflow.hystart() {
            Some(hystart) if in_slow_start => hystart.on_ack(ack, window),
            _ => Phase::SlowStart,
        };
        if ack.round_start
            && let Some(step) = self.rule.on_round(&self.windows, id, ack)
        {
            if let Some((window, subflow)) = self.parts(id) {
                window.set(step.segments);
                window.ssthresh = step.ssthresh;
                subflow.starting &= window.in_slow_start();
            }
            return;
        }
        let Some((window, subflow)) = self.parts(id) else { return };
        // RFC 5681 section 3.1: only acknowledgements of new data increase the window,
        let advances = ack.una_advanced || (R::BY_SACK && ack.expects_reordering);
        if !advances || ack.acked_bytes == 0 {
            return;
        }
        // and only while it is used (RFC 9438 section 5.8, RFC 7661).
        if !ack.cwnd_limited {
            self.rule.on_change(&self.windows, id, ack.now, Change::NotLimited);
            return;
        }
        let mut acked = ack.acked_bytes as f64 / window.mss as f64;
        if in_slow_start {
            let ignored = acked.min(subflow.ignored);
            subflow.ignored -= ignored;
            acked -= ignored;
            if phase == Phase::Done {
                window.ssthresh = window.segments;
                subflow.hystart = None;
            } else {
                acked = acked.min(f64::from(subflow.limit_now));
                acked = subflow.hystart().map_or(acked, |hystart| acked.min(hystart.limit()));
                let factor = Hystart::growth(phase);
                let grow = (acked * factor).min(window.ssthresh - window.segments);
                window.segments += grow;
                acked -= grow / factor;
            }
            if !window.in_slow_start() {
                subflow.starting = false;
                subflow.limit_now = subflow.limit;
            }
            self.rule.on_change(&self.windows, id, ack.now, Change::SlowStart);
            if acked <= 0.0 {
                return;
            }
        }
        let grow = self.rule.increase(&self.windows, id, acked, ack);
        if let Some(window) = self.windows.0.get_mut(id.index()) {
            window.set(window.segments + grow);
        }
    }

    fn on_congestion(&mut self, id: SubflowId, event: &CongestionEvent) {
        let Some((window, subflow)) = self.parts(id) else { return };
        if !window.recovering {
            subflow.note_before(window);
        }
        subflow.leave_start();
        subflow.limit_now = subflow.limit;
        let mss = window.mss;
        let flight = (event.flight_bytes as f64 / mss as f64).min(window.segments);
        let reduction = if event.ecn { Reduction::Mark } else { Reduction::Loss };
        let reduced =
            if event.reduced { self.windows.at(id).segments } else { self.reduced(id, flight, reduction) };
        let least = self.rule.least_threshold(&self.windows);
        let Some((window, subflow)) = self.parts(id) else { return };
        window.ssthresh = reduced.max(least);
        // RFC 9438 section 4.6, RFC 3168 section 6.1.2: marks can reduce the window to one segment.
        window.segments = if event.ecn { reduced } else { window.ssthresh };
        window.recovering = !event.ecn;
        subflow.reducing = (subflow.prr && !event.ecn).then_some(Reducing {
            recover: event.recover_bytes.max(1),
            delivered: 0,
            out: 0,
            // A loss found by a timer comes without an acknowledgement that could make the first step. The
            // flight before the loss admits one retransmission, and then the threshold applies.
            cwnd: event.recover_bytes.max(mss),
            entering: true,
        });
        self.rule.on_change(&self.windows, id, event.now, Change::Reduced);
    }

    fn on_recovered(&mut self, id: SubflowId, now: Time) {
        let Some((window, subflow)) = self.parts(id) else { return };
        // RFC 9937 section 6.4: cwnd = ssthresh; `segments` already equals it.
        if core::mem::take(&mut window.recovering) {
            subflow.reducing = None;
            self.rule.on_change(&self.windows, id, now, Change::Recovered);
        }
    }

    fn on_rto(&mut self, id: SubflowId, now: Time, flight_bytes: u64, again: bool) {
        let hystart = self.hystart;
        let Some((window, subflow)) = self.parts(id) else { return };
        subflow.reducing = None;
        if !again {
            subflow.note_before(window);
        }
        subflow.leave_start();
        if let Some(fresh) = hystart.and_then(|kind| Hystart::after_timeout(kind, subflow.paced)) {
            subflow.hystart = Some(fresh);
        }
        // RFC 3465 section 2.3: data acknowledged now may have arrived long before.
        if subflow.limit != NO_LIMIT {
            subflow.limit_now = 1;
        }
        window.recovering = false;
        if !again {
            let flight = (flight_bytes as f64 / window.mss as f64).min(window.segments);
            let reduced = self.reduced(id, flight, Reduction::Timeout);
            let least = self.rule.least_threshold(&self.windows);
            if let Some((window, _)) = self.parts(id) {
                window.ssthresh = reduced.max(least);
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
        subflow.limit_now = subflow.limit;
        window.recovering = false;
        let change = if window.segments < before.segments { Change::Undone } else { Change::UndoneLate };
        window.segments = window.segments.max(before.segments);
        window.ssthresh = window.ssthresh.max(before.ssthresh);
        // The slow start goes on, and with it the search for its end. Linux forgets that only with a timeout
        // (`bictcp_state` in net/ipv4/tcp_cubic.c).
        subflow.starting = before.starting && window.in_slow_start();
        self.rule.on_change(&self.windows, id, now, change);
    }

    fn on_idle(&mut self, id: SubflowId, now: Time, timeouts: u32) {
        let Some((window, subflow)) = self.parts(id) else { return };
        // RFC 5681 section 4.1: the restart window is min(IW, cwnd).
        if window.recovering || window.segments <= subflow.initial_window {
            return;
        }
        if R::DECAYS {
            // `tcp_cwnd_restart` in net/ipv4/tcp_output.c of Linux 6.18, which follows RFC 2861 section 3.1.
            window.remember_unused();
            let halved = libm::floor(libm::ldexp(window.segments, -(timeouts.min(64) as i32)));
            window.segments = halved.max(subflow.initial_window);
        } else {
            window.segments = subflow.initial_window;
        }
        self.rule.on_change(&self.windows, id, now, Change::Restarted);
    }

    fn on_underused(&mut self, id: SubflowId, _now: Time, used: u64) {
        let Some((window, subflow)) = self.parts(id) else { return };
        // `tcp_cwnd_application_limited` in net/ipv4/tcp_output.c of Linux 6.18; RFC 2861 section 3.1.
        let used = (used as f64 / window.mss as f64).max(subflow.initial_window);
        if R::DECAYS && !window.recovering && used < window.segments {
            window.remember_unused();
            window.segments = libm::floor((window.segments + used) / 2.0);
        }
    }

    fn penalise(&mut self, id: SubflowId, now: Time) {
        let Some((window, _)) = self.parts(id) else { return };
        // As in the out-of-tree kernel, a subflow in recovery is not penalised.
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

    fn growth(&self, id: SubflowId) -> Growth {
        if self.windows.at(id).in_slow_start() {
            return Growth::SlowStart;
        }
        if R::BY_TIME { Growth::Time } else { Growth::Acks }
    }

    fn window_at(&self, id: SubflowId, now: Time, ahead: Duration) -> u64 {
        let window = self.windows.at(id);
        let later = if ahead.is_zero() { None } else { self.rule.window_at(&self.windows, id, now, ahead) };
        window.bytes(later.unwrap_or(window.segments).min(MAX_WINDOW))
    }
}
