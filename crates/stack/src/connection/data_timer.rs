//! The retransmission timer of the data level (RFC 8684 section 3.3.6): it waits for the data acknowledgement
//! of the head of the stream.

use anabranch_units::{Duration, Time};

use super::timer_table::Timer;
use super::{Connection, Mode};
use crate::subflow::timer_table::TimerContext;
use crate::subflow::{Subflow, TimerSlack};

/// The minimum wait for progress at the data level: Linux's value (RFC 8684 specifies none).
pub(super) const DATA_TIMER_FLOOR: Duration = Duration::from_millis(200);

/// Linux's minimum of short timers (`TCP_TIMEOUT_MIN_US`).
const LEAST_TIMEOUT: Duration = Duration::from_millis(2);

impl Connection {
    pub(super) fn arm_data_timer(&mut self, now: Time) {
        let models_buffers = self.models_buffers();
        // Linux lets it run until everything written is acknowledged (`__mptcp_clean_una`), so that a path that has failed
        // becomes stale, and a backup carries new data, also if everything sent has arrived on other paths.
        let written = models_buffers && self.send.una < self.send.written;
        let due = if self.mode != Mode::Mptcp || (self.send.outstanding.is_empty() && !written) {
            Time::NEVER
        } else if models_buffers {
            now + self.scheduling.data_wait()
        } else {
            let rto = self.subflows.max_timeout(&self.config.rto);
            let wait = rto.max(DATA_TIMER_FLOOR) * 2;
            now + if self.is_head_dropped() { wait.min(self.head_wait()) } else { wait }
        };
        self.timers.arm(Timer::Data, due);
    }

    /// Arms the timer after progress at the data level. If there is data to assign, Linux asks its scheduler before, so that
    /// the wait is given by the subflows' timers after this acknowledgement (`ack_update_msk` in net/mptcp/options.c of Linux
    /// 6.18).
    pub(super) fn rearm_data_timer(&mut self, now: Time) {
        if self.models_buffers() && self.send.may_push() {
            self.update_data_wait(now);
        }
        self.arm_data_timer(now);
    }

    /// Advances the timer after an acknowledgement of a subflow without one of data: the head of the stream
    /// may have arrived and been dropped (as Linux does while it has no window at the data level).
    pub(super) fn on_progress_below(&mut self, now: Time) {
        if self.is_head_dropped() {
            let due = now + self.head_wait();
            self.timers.advance(Timer::Data, due);
        }
    }

    /// True if only the data-level timer can bring the head of the stream to the peer.
    pub(super) fn is_head_dropped(&mut self) -> bool {
        let Connection { head_repair, subflows, send, fast_paths, .. } = self;
        head_repair.is_dropped(subflows, send, *fast_paths)
    }

    /// Returns the maximum time from the subflow's acknowledgement to the data acknowledgement: a round trip
    /// and the delay of an acknowledgement, doubled by each unsuccessful reinjection.
    pub(super) fn head_wait(&self) -> Duration {
        let views = self.subflows.iter().map(|subflow| subflow.view(None));
        let rtt = views.filter(|view| view.usable).filter_map(|view| view.srtt).max();
        let wait = rtt.unwrap_or(Duration::ZERO) + self.config.ack.delay;
        self.head_repair.back_off(wait)
    }

    /// Updates Linux's wait for progress at the data level, when its scheduler is asked for new data: until the
    /// last of the subflows' timers, including probes, expires (`mptcp_set_timeout`). A subflow without progress
    /// at the last check does not count.
    pub(super) fn update_data_wait(&mut self, now: Time) {
        let context = self.timer_context(now, ());
        let counts = |subflow: &&Subflow| {
            let view = || subflow.view(None);
            subflow.state().is_usable() && !self.scheduling.has_stalled(&view())
        };
        let timers = self.subflows.iter().filter(counts).map(|subflow| subflow.retransmission_due(&context));
        let last = timers.filter(|timer| timer.is_armed()).max();
        let wait = last.map_or(Duration::ZERO, |last| last.since(now));
        self.scheduling.set_data_wait(if wait.is_zero() { DATA_TIMER_FLOOR } else { wait });
    }

    #[inline]
    pub(super) fn timer_context<F>(&self, now: Time, fin_wait: F) -> TimerContext<F> {
        let other = if self.rules.late_probes { LEAST_TIMEOUT } else { Duration::ZERO };
        let slack = TimerSlack { single: self.rules.probe_slack, other };
        TimerContext { now, backoff: self.rules.rto_backoff, slack, paces: self.paces(), fin_wait }
    }
}
