//! Subflows that return: the side that has opened the connection joins again after the end of a subflow that nobody
//! has closed, and a subflow that is silent while others are not is probed.
//!
//! A side that gives up a subflow sends its reset on a path that is probably dead. The other side may have nothing in
//! flight on it, and would keep its half for the rest of the connection. The probe of a living peer is acknowledged; any
//! other answers with a reset once the path is back, and the client joins again. A new subflow between the same addresses is
//! a reason to probe the old one at once, and to end it if nothing answers.
//!
//! **Source**: RFC 8684 section 3.6 (a reset with flag T may be followed by another attempt); section 3.4.1 (a failed
//! attempt to join an announced address is not repeated). The RFC leaves the times to implementations. Linux's path
//! manager in the kernel does neither.
//!
//! **Constants**: the first attempt after 1 s; the wait doubles up to 120 s, until a subflow has lived longer than it. A
//! silent subflow is probed after 120 s, the longest retransmission timeout, and then every 30 s.

use core::net::IpAddr;

use anabranch_units::{Duration, Time};

use super::context::heard_at;
use super::timer_table::Timer;
use super::{Connection, Mode, Phase};
use crate::path_manager::PathEvent;
use crate::segment::{Address, ResetReason};
use crate::subflow::Subflow;

const FIRST_WAIT: Duration = Duration::from_secs(1);
const LONGEST_WAIT: Duration = Duration::from_secs(120);
/// The silence of one subflow of an active connection after which it is probed.
const SILENCE: Duration = Duration::from_secs(120);
/// The time between its probes.
const PROBE_INTERVAL: Duration = Duration::from_secs(30);

/// The cause of the end of a subflow that nobody has closed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum LostBy {
    /// The peer has reset it, or refused it.
    Reset,
    /// The peer has not answered.
    Silence,
}

/// A pair of addresses that had a subflow, or should have one.
#[derive(Clone, Copy, Debug)]
struct Rejoin {
    local: IpAddr,
    remote: Address,
    /// The wait before the last attempt.
    wait: Duration,
    /// The time of the next attempt, until it is made.
    due: Time,
}

/// The attempts to replace subflows that have ended.
#[derive(Clone, Debug, Default)]
pub(super) struct Rejoins {
    list: Vec<Rejoin>,
    /// The remote address of the first subflow, which was not announced.
    first: Option<Address>,
}

impl Rejoins {
    /// Sets the remote address of the first subflow.
    pub(super) fn set_first(&mut self, remote: Address) {
        self.first = Some(remote);
    }

    /// Cancels all attempts.
    pub(super) fn clear(&mut self) {
        self.list.clear();
    }

    /// Returns the time of the next attempt.
    pub(super) fn next(&self) -> Time {
        self.list.iter().map(|rejoin| rejoin.due).min().unwrap_or(Time::NEVER)
    }

    /// Handles the end of a subflow that was established for the time `lived`, or the failure of an attempt.
    fn on_lost(&mut self, now: Time, ends: (IpAddr, Address), lived: Option<Duration>, by: LostBy) {
        let (local, remote) = ends;
        if let Some(known) = self.list.iter_mut().find(|known| (known.local, known.remote) == ends) {
            let lasted = lived.is_some_and(|lived| lived > known.wait);
            known.wait = if lasted { FIRST_WAIT } else { (known.wait * 2).min(LONGEST_WAIT) };
            known.due = now + known.wait;
        } else if lived.is_some() || (by == LostBy::Silence && self.first == Some(remote)) {
            self.list.push(Rejoin { local, remote, wait: FIRST_WAIT, due: now + FIRST_WAIT });
        }
    }

    /// Returns the ends of an attempt that is due, once.
    fn take_due(&mut self, now: Time) -> Option<(IpAddr, Address)> {
        let rejoin = self.list.iter_mut().find(|rejoin| rejoin.due <= now)?;
        rejoin.due = Time::NEVER;
        Some((rejoin.local, rejoin.remote))
    }
}

impl Connection {
    /// Schedules another attempt for the ends of the subflow at `at`, which is about to be closed, if it is for this
    /// side to make.
    #[cold]
    pub(super) fn rejoin_later(&mut self, now: Time, at: usize, by: LostBy) {
        let subflow = &self.subflows[at];
        let closing = subflow.state().fin_requested() || subflow.recv().finished();
        // RFC 8684 section 3.6: without flag T the same ends are not tried again. A reset without a reason
        // comes from a host or a middlebox that knows nothing of the subflow.
        let refused =
            subflow.peer_reset().is_some_and(|(again, why)| !again && why != ResetReason::Unspecified);
        if !self.initiator || self.mode != Mode::Mptcp || self.phase != Phase::Open || closing || refused {
            return;
        }
        let ends = (subflow.route().local().ip, subflow.route().remote());
        let lived = subflow.stats().established.map(|since| now.since(since));
        self.paths.rejoins_mut().on_lost(now, ends, lived, by);
    }

    /// Notifies the path manager of the ends that may be tried again now.
    #[cold]
    pub(super) fn retry_ends(&mut self, now: Time) {
        let mut any = false;
        while let Some((local, remote)) = self.paths.rejoins_mut().take_due(now) {
            self.paths.notify(&PathEvent::RetryDue { local, remote });
            any = true;
        }
        if any {
            self.run_path_manager();
        }
    }

    /// Starts the watch over silent subflows when there are several.
    pub(super) fn watch_silence(&mut self, now: Time) {
        if self.mode == Mode::Mptcp
            && !self.timers.is_armed(Timer::Silence)
            && self.live_subflows().nth(1).is_some()
        {
            self.timers.arm(Timer::Silence, now + SILENCE);
        }
    }

    /// Probes the silent subflows between the addresses of a new one that the peer has opened: it may have
    /// replaced them. A subflow that does not answer is reset. The signal that an address is withdrawn, or
    /// the reset, may have been lost.
    #[cold]
    pub(super) fn probe_replaced(&mut self, now: Time, new: usize) {
        if self.initiator {
            return;
        }
        let ends = |subflow: &Subflow| (subflow.route().local().ip, subflow.route().remote().ip);
        let replaced = ends(&self.subflows[new]);
        for at in 0..self.subflows.len() {
            let other = &self.subflows[at];
            let silence = self.config.rto.initial.max(other.rto(false));
            if at != new
                && ends(other) == replaced
                && other.state().is_synchronised()
                && now.since(other.last_received()) >= silence
            {
                self.subflows[at].withdraw(now);
            }
        }
    }

    /// Probes the subflows that have been silent for long, and have nothing in flight that would be retransmitted, while
    /// others were not silent.
    #[cold]
    pub(super) fn on_silence_timer(&mut self, now: Time) {
        self.timers.disarm(Timer::Silence);
        if self.phase != Phase::Open {
            return;
        }
        let active = now.since(heard_at(&self.subflows)) < SILENCE;
        let mut next = now + SILENCE;
        for subflow in &mut self.subflows {
            if active && subflow.state().is_usable() && subflow.is_idle() {
                let due = subflow.last_received() + SILENCE;
                if due <= now {
                    subflow.probe();
                }
                next = next.min(due.max(now + PROBE_INTERVAL));
            }
        }
        if self.live_subflows().nth(1).is_some() {
            self.timers.arm(Timer::Silence, next);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Time {
        Time::from_secs(seconds)
    }

    #[test]
    fn the_wait_doubles_until_a_subflow_has_lasted() {
        let ends = (IpAddr::from([10, 0, 0, 1]), Address::new(IpAddr::from([10, 0, 0, 9]), 80));
        let mut rejoins = Rejoins::default();
        rejoins.on_lost(at(0), ends, None, LostBy::Reset);
        assert_eq!(rejoins.next(), Time::NEVER, "a join that never succeeded is not repeated");
        rejoins.on_lost(at(10), ends, Some(Duration::from_secs(3)), LostBy::Reset);
        assert_eq!((rejoins.next(), rejoins.take_due(at(10))), (at(11), None));
        assert_eq!(rejoins.take_due(at(11)), Some(ends));
        assert_eq!((rejoins.next(), rejoins.take_due(at(11))), (Time::NEVER, None));
        for wait in [2, 4, 8, 16, 32, 64, 120, 120] {
            rejoins.on_lost(at(100), ends, None, LostBy::Silence);
            assert_eq!(rejoins.next(), at(100 + wait));
        }
        rejoins.on_lost(at(900), ends, Some(Duration::from_secs(121)), LostBy::Silence);
        assert_eq!(rejoins.next(), at(901));
        rejoins.clear();
        assert_eq!(rejoins.next(), Time::NEVER);
    }

    #[test]
    fn a_silent_path_to_the_first_address_is_tried_again_and_to_an_announced_one_not() {
        let (local, first) = (IpAddr::from([10, 0, 0, 1]), Address::new(IpAddr::from([10, 0, 0, 9]), 80));
        let announced = Address::new(IpAddr::from([10, 0, 0, 8]), 80);
        let mut rejoins = Rejoins::default();
        rejoins.set_first(first);
        rejoins.on_lost(at(0), (local, announced), None, LostBy::Silence);
        assert_eq!(rejoins.next(), Time::NEVER);
        rejoins.on_lost(at(0), (local, first), None, LostBy::Silence);
        assert_eq!(rejoins.next(), at(1));
    }
}
