//! The end of a wait for a peer that may be gone.
//!
//! A side with data or an end of stream in flight detects a dead peer by the user timeout. A side that only
//! waits for the peer does not: a half-closed connection (FIN-WAIT-2, or its DATA_FIN acknowledged), or an
//! idle one. A half-closed connection that has received nothing for the user timeout probes the peer, and
//! ends if nothing is received for another user timeout; a peer that answers may keep its half open for any
//! time. An idle connection does the same if `keepalive` is set, after that time (RFC 9293 section 3.8.4: off
//! by default).

use anabranch_units::{Duration, Time};

use super::context::{Context, heard_at};
use crate::config::ConnectionConfig;

/// The probes of a silent peer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Keepalive {
    /// The time of the last probe.
    sent: Time,
}

/// The progress that this side waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Waits {
    /// Progress of the local data, or nothing: the silence of the peer is not judged.
    ForOther,
    /// The rest of the peer's stream: the local one has ended.
    ForRest,
    /// Whatever the peer sends, on an idle connection.
    Idle,
}

/// The action when the timer expires.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum SilenceTimeout {
    /// The peer is probed.
    Probed,
    /// The peer is gone.
    GiveUp,
}

impl Keepalive {
    pub(super) const NEW: Keepalive = Keepalive { sent: Time::ZERO };

    /// Returns the time at which the silent peer is probed or given up, when it was last received at
    /// `heard_at` and the maximum retransmission timeout is `max_rto`.
    pub(super) fn due(
        &self,
        waits: Waits,
        heard_at: Time,
        config: &ConnectionConfig,
        max_rto: Duration,
    ) -> Time {
        let Some(silence) = silence_admitted(waits, config) else { return Time::NEVER };
        // Eight probes or more before the peer is given up.
        let interval = Duration(config.user_timeout.0 / 8).max(max_rto);
        let probe = (heard_at + silence).max(self.sent + interval);
        probe.min(heard_at + silence + config.user_timeout)
    }

    /// Probes the peer, unless it is to be given up.
    #[cold]
    pub(super) fn on_timer(&mut self, waits: Waits, context: &mut Context<'_>) -> SilenceTimeout {
        let Some(silence) = silence_admitted(waits, context.config) else { return SilenceTimeout::Probed };
        if context.now.since(heard_at(context.subflows)) >= silence + context.config.user_timeout {
            return SilenceTimeout::GiveUp;
        }
        self.sent = context.now;
        for subflow in context.subflows.iter_mut().filter(|subflow| subflow.state().is_synchronised()) {
            subflow.probe();
        }
        SilenceTimeout::Probed
    }
}

/// Returns the silence after which the peer is probed; `None` if its silence is acceptable.
fn silence_admitted(waits: Waits, config: &ConnectionConfig) -> Option<Duration> {
    match (waits, config.keepalive) {
        (Waits::ForOther, _) => None,
        (Waits::ForRest, Some(keepalive)) => Some(keepalive.min(config.user_timeout)),
        (Waits::ForRest, None) => Some(config.user_timeout),
        (Waits::Idle, keepalive) => keepalive,
    }
}
