//! The timing of acknowledgements (RFC 5681 section 4.2, RFC 9293 section 3.8.6.3), and Linux's rules for it.

use anabranch_units::{Duration, Time};

use super::Receiver;
use crate::config::AckConfig;
use crate::seq::DataRange;

/// The minimum silence, added to the round trip, after which the sender is assumed to start anew: the minimum
/// timeout.
const SILENCE: Duration = Duration::from_millis(200);

/// RFC 9293 section 3.7.1: the default MSS of an unknown path.
pub(super) const DEFAULT_MSS: u32 = 536;

/// The acknowledgement that is due.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(super) enum AckDue {
    /// None.
    #[default]
    Nothing,
    /// When the timer expires, or with the next data.
    Later,
    /// At once.
    Now,
}

/// [`AckConfig`] in less memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    pub(super) delay: Duration,
    pub(super) every: u16,
    pub(super) quick: u16,
    pub(super) growth: bool,
    pub(super) push: bool,
    pub(super) drain: bool,
}

impl Rules {
    pub(super) fn of(config: AckConfig) -> Rules {
        let AckConfig { every, delay, quick, growth, push, drain } = config;
        let short = |n: u32| n.min(u32::from(u16::MAX)) as u16;
        Rules { delay, every: short(every), quick: short(quick), growth, push, drain }
    }
}

impl Receiver {
    /// True if a segment with this payload is a full one for its sender. The full length is not signalled, as
    /// the path may admit less than the MSS: it is the longest seen, or, if it has become less, the length of
    /// two consecutive segments (as Linux estimates its `rcv_mss`). Two of `mss` or more are several segments
    /// joined by offload, and each one counts (RFC 9293 section 3.8.6.3): they are acknowledged at once.
    #[inline]
    pub(in crate::subflow) fn measure(&mut self, now: Time, payload_len: u32, mss: u32) -> bool {
        if self.config.growth {
            self.grow(now, payload_len);
        }
        if payload_len >= 2 * mss {
            self.want_ack();
            return true;
        }
        let len = payload_len.min(u32::from(u16::MAX)) as u16;
        if len > self.full_len || (len == self.last_len && payload_len >= DEFAULT_MSS) {
            self.full_len = len;
        }
        self.last_len = len;
        let full_sized = len >= self.full_len;
        self.pushed |= !full_sized;
        full_sized
    }

    /// Implements Linux's quick acknowledgements: of a segment that increases the advertised window, and of
    /// the first ones after a silence of more than a timeout, as at the beginning (`tcp_event_data_recv`).
    #[inline]
    fn grow(&mut self, now: Time, payload_len: u32) {
        let now_ms = (now.as_micros() / 1000) as u32;
        let silence = Duration::from_millis(u64::from(now_ms.saturating_sub(self.data_at)));
        if silence > SILENCE + self.growth.rtt() {
            self.quick = self.quick.max(self.config.quick);
        }
        self.data_at = now_ms;
        if self.growth.on_data(payload_len, u32::from(self.advertised_mss)) {
            self.quick |= 1;
        }
    }

    /// Handles a full segment that ended a burst of its sender, after the application has read everything:
    /// with [`AckConfig::push`] it is acknowledged at once, as the sender may wait for that
    /// (`tcp_cleanup_rbuf`).
    #[inline]
    pub(crate) fn on_pushed(&mut self) {
        if self.config.push && self.due == AckDue::Later {
            self.due = AckDue::Now;
        }
    }

    /// Records that the last segment ended a burst of its sender.
    #[inline]
    pub(crate) fn note_push(&mut self) {
        self.pushed = true;
    }

    /// Handles that the application has read everything: with [`AckConfig::drain`] the end of a burst is
    /// acknowledged at once (`mptcp_cleanup_rbuf`).
    #[inline]
    pub(crate) fn on_drained(&mut self) {
        if self.may_drain() {
            self.due = AckDue::Now;
        }
    }

    /// True if [`Receiver::on_drained`] has an effect.
    #[inline]
    pub(crate) fn may_drain(&self) -> bool {
        self.config.drain && self.pushed && self.due == AckDue::Later && self.out_of_order.is_empty()
    }

    /// RFC 5681 section 4.2: an acknowledgement for every second full segment, and no later than the delay.
    #[inline]
    pub(super) fn count(&mut self, now: Time, full_sized: bool) {
        self.unacked += 1;
        let every = self.config.every;
        if self.quick > 0 || (self.unacked >= u32::from(every) && (full_sized || every <= 1)) {
            self.due = AckDue::Now;
            self.at_once = true;
        } else if self.due == AckDue::Nothing {
            self.due = AckDue::Later;
            self.ack_at = now + self.config.delay;
        }
    }

    /// True if the acknowledgement that is due is sent before an application on another processor can have read the last
    /// segment: its window counts that (`__tcp_select_window`, called in the interrupt).
    #[inline]
    pub(in crate::subflow) fn counts_last(&self) -> bool {
        self.at_once && self.due == AckDue::Now
    }

    /// Requests an acknowledgement of the data that the application has read, at once.
    pub(crate) fn want_update(&mut self) {
        self.due = AckDue::Now;
        self.at_once = false;
    }

    /// Requests an acknowledgement at once.
    pub(crate) fn want_ack(&mut self) {
        self.due = AckDue::Now;
    }

    /// Cancels an acknowledgement that is due; the next one covers its segments.
    pub(crate) fn cancel_ack(&mut self) {
        self.due = AckDue::Nothing;
        self.ack_at = Time::NEVER;
    }

    /// True if an acknowledgement is due at once.
    #[inline]
    pub(crate) fn is_ack_due(&self) -> bool {
        self.due == AckDue::Now
    }

    /// Returns the time of a delayed acknowledgement.
    pub(crate) fn ack_at(&self) -> Time {
        if self.due == AckDue::Later { self.ack_at } else { Time::NEVER }
    }

    /// Handles the time of a delayed acknowledgement.
    pub(in crate::subflow) fn on_timer(&mut self, now: Time) {
        if self.due == AckDue::Later && self.ack_at <= now {
            self.due = AckDue::Now;
        }
    }

    /// Records that an acknowledgement was sent, with or without data.
    pub(crate) fn on_ack_sent(&mut self) {
        self.last_ack_sent = self.nxt;
        // A duplicate is reported by the next acknowledgement or not at all (RFC 2883 section 4).
        self.dsack = DataRange::default();
        if self.unacked > 0 {
            self.quick = self.quick.saturating_sub(1);
        }
        self.due = AckDue::Nothing;
        self.unacked = 0;
        self.at_once = false;
        self.pushed = false;
        self.ack_at = Time::NEVER;
    }
}
