//! Probes of a closed window (RFC 9293 section 3.8.6.1), and the limit of the wait for progress.

use anabranch_units::{Duration, Time};

use super::context::{Context, heard_at};
use super::timer_table::{Timer, TimerTable};
use crate::observer::Limit;
use crate::subflow::Subflow;

/// The wait for progress, and the probes of a closed window.
#[derive(Clone, Copy, Debug)]
pub(super) struct Persist {
    /// The time since which the peer owes progress.
    progress_at: Time,
    /// The number of times the interval between two probes has doubled.
    backoff: u32,
    /// The time of the last probe.
    probed_at: Time,
}

impl Persist {
    pub(super) fn new(now: Time) -> Persist {
        Persist { progress_at: now, backoff: 0, probed_at: Time::ZERO }
    }

    /// Records progress of the data level, or its begin: the user timeout counts from now.
    #[inline]
    pub(super) fn on_progress(&mut self, now: Time) {
        self.progress_at = now;
    }

    /// Returns the time of the last progress.
    pub(super) fn progress_at(&self) -> Time {
        self.progress_at
    }

    /// Arms the timer if data is queued and nothing is in flight that would bring a new window; `limit`
    /// stopped the last scheduling. A scheduler may wait for a subflow with a closed window, so not only the
    /// connection's window counts.
    pub(super) fn arm(&mut self, limit: Limit, context: &mut Context<'_>) {
        let shut = match limit {
            Limit::ReceiveWindow => true,
            Limit::Application | Limit::SendBuffer | Limit::NoSubflow => false,
            Limit::CongestionWindow | Limit::Scheduler => !context.timers.is_armed(Timer::Schedule),
        };
        // The data of a failed subflow is retransmitted on a dead path, where it probes no window.
        let failed = |subflow: &Subflow| subflow.has_potentially_failed();
        let works = context.subflows.iter().any(|subflow| subflow.state().is_usable() && !failed(subflow));
        let idle = |subflow: &Subflow| {
            subflow.is_idle() || subflow.state().is_closed() || (works && failed(subflow))
        };
        let blocked = shut && context.subflows.iter().all(idle);
        if !blocked {
            if context.timers.is_armed(Timer::Persist) {
                self.progress_at = context.now;
            }
            self.stop(context.timers);
        } else if !context.timers.is_armed(Timer::Persist) {
            let due = context.now + context.max_rto();
            context.timers.arm(Timer::Persist, due);
        }
    }

    /// Stops probing, and resets the backoff for the next closed window.
    #[inline]
    pub(super) fn stop(&mut self, timers: &mut TimerTable) {
        timers.disarm(Timer::Persist);
        self.backoff = 0;
    }

    /// Probes the window on every subflow that may be the one waited for.
    #[cold]
    pub(super) fn on_timer(&mut self, context: &mut Context<'_>) {
        self.backoff = (self.backoff + 1).min(10);
        let wait = Duration(context.max_rto().0 << self.backoff).min(context.config.rto.max);
        context.timers.arm(Timer::Persist, context.now + wait);
        for subflow in context.subflows.iter_mut().filter(|subflow| subflow.state().is_usable()) {
            subflow.probe_if_shut();
        }
        if let Some(best) = context.best_subflow() {
            best.probe();
        }
        if heard_at(context.subflows) >= self.probed_at {
            self.progress_at = context.now;
        }
        self.probed_at = context.now;
    }

    /// Returns the time at which the user timeout expires without progress; `heard_at` returns the time at which
    /// the peer was last received. A peer that answers the probes of its closed window keeps the connection alive for any time
    /// (RFC 9293 section 3.8.6.1).
    pub(super) fn patience_ends(
        &self,
        heard_at: impl FnOnce() -> Time,
        user_timeout: Duration,
        timers: &TimerTable,
    ) -> Time {
        if timers.is_armed(Timer::Persist) && heard_at() >= self.probed_at {
            return Time::NEVER;
        }
        self.progress_at + user_timeout
    }
}
