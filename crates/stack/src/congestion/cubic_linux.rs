//! CUBIC as the Linux kernel computes it, to predict Linux senders.
//!
//! **Decides** growth and reduction of a window like [`Cubic`](super::Cubic), but in whole segments: by a
//! count of acknowledged segments per segment of growth, which is updated at most every 28 ms while the
//! window does not change. If round trips are shorter and windows small, it grows more slowly than RFC 9438:
//! at 10 ms and 2 % of loss a transfer of 1 MB takes about a tenth longer.
//!
//! **Source**: `bictcp_update` and `tcp_cong_avoid_ai` of Linux 5.18 to 6.18 (net/ipv4/tcp_cubic.c,
//! tcp_cong.c).
//!
//! **Constants**: `C` = 41/1024 of 10 segments/s^3, `beta` = 717/1024, one segment of growth in the
//! Reno-friendly region for 15/8 acknowledged windows; a jiffy of 4 ms (CONFIG_HZ=250, the value of most
//! distributions), an update after more than 7 of them; growth of at most half a segment per acknowledged
//! segment, and of at least one for 20 before the first loss (and after a timeout until the next).
//!
//! **Departures from the source**: the cube and its root are real-valued; the kernel uses tables and shifts.

use anabranch_units::{Duration, Time};

use super::Ack;
use super::classic::{Change, Reduction, WindowRule, Windows};
use crate::event::SubflowId;

/// `C`, in segments per second cubed.
const C: f64 = 41.0 * 10.0 / 1024.0;
/// The fraction of the window that remains after a reduction.
const BETA: f64 = 717.0 / 1024.0;
/// Acknowledged windows per segment of growth in the Reno-friendly region.
const RENO_WINDOWS: f64 = 15.0 / 8.0;
const JIFFY: Duration = Duration::from_millis(4);
/// The minimum interval between updates of the count while the window does not change.
const RENEWAL: Duration = Duration::from_millis(28);
/// The minimum count.
const LEAST_COUNT: f64 = 2.0;
/// The maximum count before the first loss.
const LOSSLESS_COUNT: f64 = 20.0;

/// The rule of Linux's CUBIC.
#[derive(Clone, Debug, Default)]
pub struct CubicLinux {
    subflows: Vec<State>,
}

/// The state of one subflow. Windows are whole segments.
#[derive(Clone, Copy, PartialEq, Debug)]
struct State {
    /// The number of acknowledged segments that increase the window by one.
    count: f64,
    /// The number acknowledged since the last increase.
    towards: f64,
    /// The window before the last reduction (less with fast convergence); 0 before the first loss.
    last_max: f64,
    /// The window and the jiffy of the last update.
    renewed: (f64, u64),
    epoch: Option<Epoch>,
}

/// One stage of congestion avoidance.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Epoch {
    start: Time,
    /// `K`, in seconds, and the window at that time.
    k: f64,
    origin: f64,
    /// Acknowledged segments not yet counted in the growth of a Reno sender's window.
    acked: f64,
    /// The window of a Reno sender.
    reno: f64,
}

impl State {
    const NEW: State = State { count: 0.0, towards: 0.0, last_max: 0.0, renewed: (0.0, 0), epoch: None };

    fn begin(&self, window: f64, acked: f64, now: Time) -> Epoch {
        let below = self.last_max > window;
        Epoch {
            start: now,
            k: if below { libm::cbrt((self.last_max - window) / C) } else { 0.0 },
            origin: if below { self.last_max } else { window },
            acked,
            reno: window,
        }
    }

    /// Updates the count (`bictcp_update`).
    fn renew(&mut self, window: f64, acked: f64, ack: &Ack) {
        let jiffy = ack.now.as_nanos() / JIFFY.as_nanos();
        let (of, at) = self.renewed;
        if let Some(epoch) = &mut self.epoch {
            epoch.acked += acked;
            if of == window && jiffy - at <= RENEWAL.as_nanos() / JIFFY.as_nanos() {
                return;
            }
        }
        // The cubic part is computed once per jiffy.
        let again = self.epoch.is_some() && jiffy == at;
        let mut epoch = self.epoch.unwrap_or_else(|| self.begin(window, acked, ack.now));
        if !again {
            self.renewed = (window, jiffy);
            let t = (ack.now.since(epoch.start) + ack.min_rtt).as_secs_f64() - epoch.k;
            let target = libm::floor(epoch.origin + C * t * t * t);
            self.count =
                if target > window { libm::floor(window / (target - window)) } else { 100.0 * window };
            if self.last_max == 0.0 {
                self.count = self.count.min(LOSSLESS_COUNT);
            }
        }
        let each = libm::floor(window * RENO_WINDOWS);
        // The kernel increases the window for each time that more than this number is left.
        let grown = (libm::ceil(epoch.acked / each) - 1.0).max(0.0);
        epoch.acked -= grown * each;
        epoch.reno += grown;
        if epoch.reno > window {
            self.count = self.count.min(libm::floor(window / (epoch.reno - window)));
        }
        self.count = self.count.max(LEAST_COUNT);
        self.epoch = Some(epoch);
    }

    /// Returns the growth of the window in segments (`tcp_cong_avoid_ai`).
    fn grow(&mut self, acked: f64) -> f64 {
        let mut grown = 0.0;
        if self.towards >= self.count {
            self.towards = 0.0;
            grown = 1.0;
        }
        self.towards += acked;
        let more = libm::floor(self.towards / self.count);
        self.towards -= more * self.count;
        grown + more
    }
}

impl WindowRule for CubicLinux {
    const BY_TIME: bool = true;
    const BY_SACK: bool = true;
    const DECAYS: bool = true;

    fn increase(&mut self, windows: &Windows, id: SubflowId, acked: f64, ack: &Ack) -> f64 {
        let Some(state) = self.subflows.get_mut(id.index()) else { return 0.0 };
        state.renew(libm::floor(windows.get(id).segments), acked, ack);
        state.grow(acked)
    }

    fn decrease(&mut self, windows: &Windows, id: SubflowId, flight: f64, _reduction: Reduction) -> f64 {
        let Some(state) = self.subflows.get_mut(id.index()) else { return flight * BETA };
        let window = libm::floor(windows.get(id).segments);
        let yielded = libm::floor(window * (1.0 + BETA) / 2.0);
        state.last_max = if window < state.last_max { yielded } else { window };
        state.epoch = None;
        state.towards = 0.0;
        libm::floor(window * BETA)
    }

    /// Predicts like [`Cubic`](super::Cubic), with the kernel's constants.
    fn window_at(&self, windows: &Windows, id: SubflowId, now: Time, ahead: Duration) -> Option<f64> {
        let window = windows.get(id);
        let state = self.subflows.get(id.index())?;
        let segments = window.segments;
        let epoch = state.epoch.unwrap_or_else(|| state.begin(libm::floor(segments), 0.0, now));
        let t = (now.since(epoch.start) + ahead).as_secs_f64() - epoch.k;
        let rounds = ahead.as_secs_f64() / window.srtt.as_secs_f64().max(1e-9);
        let cubic = epoch.origin + C * t * t * t;
        let reno = epoch.reno + rounds / RENO_WINDOWS;
        let lossless = if state.last_max == 0.0 { segments * (1.0 + rounds / LOSSLESS_COUNT) } else { 0.0 };
        Some(cubic.max(reno).max(lossless).max(segments))
    }

    fn on_change(&mut self, _windows: &Windows, id: SubflowId, _now: Time, change: Change) {
        if change == Change::Up && self.subflows.len() <= id.index() {
            self.subflows.reserve_exact(id.index() + 1 - self.subflows.len());
            self.subflows.resize(id.index() + 1, State::NEW);
        }
        let Some(state) = self.subflows.get_mut(id.index()) else { return };
        match change {
            Change::Up | Change::Down | Change::Timeout => *state = State::NEW,
            Change::Resumed(idle) => {
                if let Some(epoch) = &mut state.epoch {
                    epoch.start += idle;
                }
            }
            Change::Penalised => state.epoch = None,
            // `cubictcp_cwnd_event` only shifts the start of the curve.
            Change::Restarted
            | Change::SlowStart
            | Change::NotLimited
            | Change::Reduced
            | Change::Recovered
            | Change::Undone
            | Change::UndoneLate => {}
        }
    }
}
