//! The progress of a subflow's handshake.

use anabranch_units::{Duration, Time};

use super::SubflowSetup;

/// The progress of the three-way or four-way handshake.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Handshake {
    join: bool,
    local_nonce: u32,
    remote_nonce: u32,
    /// The number of transmissions of the SYN, the SYN/ACK or a join's third ACK.
    attempts: u32,
    /// True if it is to be sent (again) now.
    due: bool,
    /// The time of its first transmission, for an RTT sample.
    sent_at: Time,
}

impl Handshake {
    /// Returns the handshake of a subflow. Its first segment is due at once.
    pub(super) fn new(now: Time, setup: &SubflowSetup) -> Handshake {
        Handshake {
            join: setup.join.is_some(),
            local_nonce: setup.nonce,
            remote_nonce: setup.join.map_or(0, |join| join.remote_nonce),
            attempts: 0,
            due: true,
            sent_at: now,
        }
    }

    /// True for a join, false for the first subflow.
    #[inline]
    pub(crate) fn is_join(&self) -> bool {
        self.join
    }

    /// Returns the nonces of a join: the local nonce, and the peer's.
    pub(crate) fn nonces(&self) -> (u32, u32) {
        (self.local_nonce, self.remote_nonce)
    }

    /// Sets the nonce of the peer's side of a join.
    pub(super) fn set_remote_nonce(&mut self, nonce: u32) {
        self.remote_nonce = nonce;
    }

    /// Returns the number of times that its last segment was sent.
    pub(crate) fn attempts(&self) -> u32 {
        self.attempts
    }

    /// Returns the transmission time of its segment, if that was sent once.
    pub(super) fn sent_once(&self) -> Option<Time> {
        (self.attempts == 1).then_some(self.sent_at)
    }

    /// Returns the time since the first transmission of its segment.
    pub(super) fn age(&self, now: Time) -> Duration {
        now.since(self.sent_at)
    }

    /// True if a segment of the handshake is to be sent now.
    #[inline]
    pub(super) fn is_due(&self) -> bool {
        self.due
    }

    /// Repeats the segment.
    pub(crate) fn repeat(&mut self) {
        self.due = true;
    }

    /// Skips the segment, which was sent elsewhere or is no longer needed.
    pub(crate) fn skip(&mut self) {
        self.due = false;
    }

    /// Begins the next segment of the handshake, which is counted and timed separately.
    pub(super) fn restart(&mut self) {
        self.attempts = 0;
        self.due = true;
    }

    /// Records a transmission.
    pub(super) fn on_sent(&mut self, now: Time) {
        self.due = false;
        self.attempts += 1;
        if self.attempts == 1 {
            self.sent_at = now;
        }
    }
}
