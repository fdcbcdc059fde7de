//! The end of a wait for a peer that may be gone.
//!
//! A side with data or an end of stream in flight detects a dead peer by the user timeout. A side that only
//! waits for the peer does not: a half-closed connection (FIN-WAIT-2, or its DATA_FIN acknowledged), or an
//! idle one. A half-closed connection that has received nothing for the user timeout probes the peer, and
//! ends if nothing is received for another user timeout; a peer that answers may keep its half open for any
//! time. An idle connection does the same if `keepalive` is set, after that time (RFC 9293 section 3.8.4: off
//! by default).

use anabranch_units::{Duration, Time};

use super::{Connection, Phase};
use crate::event::CloseReason;

impl Connection {
    /// Returns the silence after which the peer is probed; `None` if its silence is acceptable.
    fn silence_admitted(&self) -> Option<Duration> {
        let half_closed = self.send.fin_acked && !self.recv.finished();
        match (half_closed, self.config.keepalive) {
            (true, Some(keepalive)) => Some(keepalive.min(self.config.user_timeout)),
            (true, None) => Some(self.config.user_timeout),
            (false, keepalive) => keepalive,
        }
    }

    /// Returns the time at which the silent peer is probed or given up.
    pub(super) fn keepalive_due(&self) -> Time {
        if self.phase != Phase::Open || self.waiting_for_progress() {
            return Time::NEVER;
        }
        let Some(silence) = self.silence_admitted() else { return Time::NEVER };
        let probe = (self.heard_at() + silence).max(self.keepalive_sent + self.keepalive_interval());
        probe.min(self.heard_at() + silence + self.config.user_timeout)
    }

    /// Returns the interval of probes: eight or more before the peer is given up.
    fn keepalive_interval(&self) -> Duration {
        Duration(self.config.user_timeout.0 / 8).max(self.max_rto())
    }

    #[cold]
    pub(super) fn on_keepalive(&mut self, now: Time) {
        let Some(silence) = self.silence_admitted() else { return };
        if now.since(self.heard_at()) >= silence + self.config.user_timeout {
            self.abort(now, CloseReason::TimedOut);
            return;
        }
        self.keepalive_sent = now;
        for subflow in self.subflows.iter_mut().filter(|subflow| subflow.state().is_synchronised()) {
            subflow.probe();
        }
    }
}
