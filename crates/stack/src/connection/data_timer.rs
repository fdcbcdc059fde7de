//! The retransmission timer of the data level (RFC 8684 section 3.3.6): it waits for the data acknowledgement
//! of the head of the stream.

use anabranch_units::{Duration, Time};

use super::timer_table::Timer;
use super::{Connection, Mode};
use crate::subflow::timer_table::TimerContext;

/// The minimum wait for progress at the data level: Linux's value (RFC 8684 specifies none).
pub(super) const DATA_TIMER_FLOOR: Duration = Duration::from_millis(200);

impl Connection {
    pub(super) fn arm_data_timer(&mut self, now: Time) {
        let due = if self.mode != Mode::Mptcp || self.send.outstanding.is_empty() {
            Time::NEVER
        } else if self.models_buffers() {
            now + self.linux_data_wait(now)
        } else {
            let wait = self.max_rto().max(DATA_TIMER_FLOOR) * 2;
            now + if self.is_head_dropped() { wait.min(self.head_wait()) } else { wait }
        };
        self.timers.arm(Timer::Data, due);
    }

    /// Advances the timer after an acknowledgement of a subflow without one of data: the head of the stream
    /// may have arrived and been dropped (as Linux does while it has no window at the data level).
    pub(super) fn on_progress_below(&mut self, now: Time) {
        if self.is_head_dropped() {
            let due = now + self.head_wait();
            self.timers.advance(Timer::Data, due);
        }
    }

    /// Returns how long the data acknowledgement may follow that of the subflow: a round trip and the delay
    /// of an acknowledgement, doubled by each unsuccessful reinjection.
    pub(super) fn head_wait(&self) -> Duration {
        let views = self.subflows.iter().map(|subflow| subflow.view(None));
        let rtt = views.filter(|view| view.usable).filter_map(|view| view.srtt).max();
        let wait = rtt.unwrap_or(Duration::ZERO) + self.config.ack.delay;
        self.head_repair.back_off(wait)
    }

    /// Returns Linux's wait for progress at the data level: until the last of its subflows' timers, including
    /// probes, would expire (`mptcp_set_timeout`).
    pub(super) fn linux_data_wait(&self, now: Time) -> Duration {
        let context = self.timer_context(now, ());
        let subflows = self.subflows.iter().filter(|subflow| subflow.state().is_usable());
        let timers = subflows.map(|subflow| subflow.retransmission_due(&context));
        let last = timers.filter(|timer| timer.is_armed()).max();
        let wait = last.map_or(Duration::ZERO, |last| last.since(now));
        if wait.is_zero() { DATA_TIMER_FLOOR } else { wait }
    }

    #[inline]
    pub(super) fn timer_context<F>(&self, now: Time, fin_wait: F) -> TimerContext<F> {
        // The peer's delay of acknowledgements is not known; Linux assumes its own.
        let ack_delay = DATA_TIMER_FLOOR.min(self.config.ack.delay * 2);
        TimerContext { now, backoff: self.config.rto.backoff, ack_delay, paces: self.paces(), fin_wait }
    }
}
