//! Options sent on separate acknowledgements, and the number of these in a row.
//!
//! Such an acknowledgement contains nothing new for TCP, and three of them look like a loss (RFC 5681 section
//! 2). After two the next waits for local data, for another acknowledgement number, or for a retransmission
//! timeout, after which it no longer counts as one of the same row (RFC 8684 section 3). MP_FAIL does not
//! wait: the path is already in doubt.

use std::collections::VecDeque;

use anabranch_units::{Duration, Time};

use crate::segment::MptcpOption;
use crate::seq::Seq;

const IN_A_ROW: u8 = 2;
/// The maximum number pending. Further ones are repeated if they need an answer.
const MOST: usize = 32;

/// The pending signals of one subflow.
#[derive(Clone, Debug)]
pub(crate) struct Signals {
    waiting: VecDeque<MptcpOption>,
    /// The number sent with the acknowledgement number `ack`, with nothing else in between.
    in_row: u8,
    ack: Seq,
    /// The time at which the row ends; never unless it is full.
    resume_at: Time,
}

impl Default for Signals {
    fn default() -> Signals {
        Signals { waiting: VecDeque::new(), in_row: 0, ack: Seq(0), resume_at: Time::NEVER }
    }
}

impl Signals {
    /// Adds an option. A pending one is not repeated, and the last priority replaces earlier ones.
    pub(crate) fn push(&mut self, option: MptcpOption) {
        if matches!(option, MptcpOption::Priority { .. }) {
            self.waiting.retain(|waiting| !matches!(waiting, MptcpOption::Priority { .. }));
        }
        if self.waiting.len() < MOST && !self.waiting.contains(&option) {
            self.waiting.push_back(option);
        }
    }

    pub(super) fn clear(&mut self) {
        self.waiting.clear();
    }

    /// True if one may be sent.
    #[inline]
    pub(super) fn may_leave(&self) -> bool {
        match self.waiting.front() {
            None => false,
            Some(MptcpOption::Fail(_)) => true,
            Some(_) => !self.resume_at.is_armed(),
        }
    }

    /// True if an option added now would be deferred.
    pub(crate) fn is_held_up(&self) -> bool {
        self.resume_at.is_armed()
    }

    /// Moves the options that wait for the end of the row and may also be sent on another subflow: all about
    /// addresses.
    pub(crate) fn take_movable(&mut self, to: &mut Signals) {
        if !self.is_held_up() {
            return;
        }
        self.waiting.retain(|&waiting| {
            let movable = matches!(waiting, MptcpOption::AddAddress(_));
            if movable {
                to.push(waiting);
            }
            !movable
        });
    }

    /// Returns the next option, to be sent with the acknowledgement number `ack`; `timeout` is the
    /// retransmission timeout.
    pub(super) fn pop(&mut self, now: Time, ack: Seq, timeout: Duration) -> Option<MptcpOption> {
        if !self.may_leave() {
            return None;
        }
        self.on_other(0, ack);
        self.ack = ack;
        self.in_row = self.in_row.saturating_add(1);
        if self.in_row >= IN_A_ROW {
            self.resume_at = now + timeout;
        }
        self.waiting.pop_front()
    }

    /// Records another segment sent, with this payload and acknowledgement number.
    #[inline]
    pub(super) fn on_other(&mut self, payload_len: u32, ack: Seq) {
        if self.in_row > 0 && (payload_len > 0 || ack != self.ack) {
            self.in_row = 0;
            self.resume_at = Time::NEVER;
        }
    }

    /// Returns the time at which [`Signals::on_timer`] is due.
    #[inline]
    pub(super) fn due(&self) -> Time {
        if self.waiting.is_empty() { Time::NEVER } else { self.resume_at }
    }

    pub(crate) fn on_timer(&mut self, now: Time) {
        if self.resume_at <= now {
            self.in_row = 0;
            self.resume_at = Time::NEVER;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::segment::AddAddress;

    const RTO: Duration = Duration::from_millis(200);

    fn echo(id: u8) -> MptcpOption {
        MptcpOption::AddAddress(AddAddress { id, ip: [192, 0, 2, id].into(), port: None, hmac: None })
    }

    // RFC 8684 section 3.3.8: MP_PRIO concerns the subflow on which it is sent.
    #[test]
    fn only_options_about_addresses_move_to_another_subflow() {
        let (mut one, mut other) = (Signals::default(), Signals::default());
        for id in 1..=3 {
            one.push(echo(id));
        }
        one.push(MptcpOption::Priority { backup: true });
        assert!(one.pop(Time::ZERO, Seq(1), RTO).is_some() && one.pop(Time::ZERO, Seq(1), RTO).is_some());
        assert!(one.is_held_up());
        one.take_movable(&mut other);
        assert_eq!(other.pop(Time::ZERO, Seq(1), RTO), Some(echo(3)));
        assert_eq!(other.pop(Time::ZERO, Seq(1), RTO), None);
        one.on_timer(Time::ZERO + RTO);
        assert_eq!(one.pop(Time::ZERO + RTO, Seq(1), RTO), Some(MptcpOption::Priority { backup: true }));
    }
}
