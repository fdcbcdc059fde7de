//! Probes of a closed window (RFC 9293 section 3.8.6.1), and the limit of the wait for progress.

use anabranch_units::{Duration, Time};

use super::Connection;
use super::timer_table::Timer;
use crate::observer::Limit;
use crate::subflow::Subflow;

/// The probes of a closed window.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Persist {
    /// The number of times the interval between two probes has doubled.
    backoff: u32,
    /// The time of the last probe.
    probed_at: Time,
}

impl Connection {
    /// Arms the timer if data is queued and nothing is in flight that would bring a new window. A scheduler
    /// may wait for a subflow whose own window is closed, so not only the connection's window counts.
    pub(super) fn arm_persist(&mut self, now: Time) {
        let shut = match self.scheduling.limit() {
            Limit::ReceiveWindow => true,
            Limit::Application | Limit::SendBuffer | Limit::NoSubflow => false,
            Limit::CongestionWindow | Limit::Scheduler => !self.timers.is_armed(Timer::Schedule),
        };
        let idle = |subflow: &Subflow| subflow.board().is_empty() && subflow.queue().is_empty();
        let blocked =
            shut && self.subflows.iter().all(|subflow| idle(subflow) || subflow.state().is_closed());
        if !blocked {
            if self.timers.is_armed(Timer::Persist) {
                self.progress_at = now;
            }
            self.stop_persist();
        } else if !self.timers.is_armed(Timer::Persist) {
            let due = now + self.max_rto();
            self.timers.arm(Timer::Persist, due);
        }
    }

    /// Resets the backoff for the next closed window.
    pub(super) fn stop_persist(&mut self) {
        self.timers.disarm(Timer::Persist);
        self.persist.backoff = 0;
    }

    /// Probes the window on every subflow that may be the one waited for.
    #[cold]
    pub(super) fn on_persist_timer(&mut self, now: Time) {
        self.persist.backoff = (self.persist.backoff + 1).min(10);
        let wait = Duration(self.max_rto().0 << self.persist.backoff).min(self.config.rto.max);
        self.timers.arm(Timer::Persist, now + wait);
        for subflow in self.subflows.iter_mut().filter(|subflow| subflow.state().is_usable()) {
            subflow.probe_if_shut();
        }
        if let Some(best) = self.best_subflow() {
            self.subflows[best].probe();
        }
        if self.heard_at() >= self.persist.probed_at {
            self.progress_at = now;
        }
        self.persist.probed_at = now;
    }

    /// Returns the time at which the user timeout expires without progress. A peer that answers the probes of
    /// its closed window keeps the connection alive for any time (RFC 9293 section 3.8.6.1).
    pub(super) fn patience_ends(&self) -> Time {
        if self.timers.is_armed(Timer::Persist) && self.heard_at() >= self.persist.probed_at {
            return Time::NEVER;
        }
        self.progress_at + self.config.user_timeout
    }
}
