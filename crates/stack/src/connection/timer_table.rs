//! The timers of the data level, each armed or not.

use anabranch_units::Time;

/// A timer of the data level.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Timer {
    /// Asks the scheduler again.
    Schedule,
    /// Reinjects the head of the stream (RFC 8684 section 3.3.6).
    Data,
    /// Probes the peer's closed window.
    Persist,
    /// Retransmits the DATA_FIN.
    Fin,
    /// Ends the wait for a further subflow.
    Orphan,
}

const COUNT: usize = Timer::Orphan as usize + 1;

/// The expiration times of the timers.
#[derive(Clone, Copy, Debug)]
pub(super) struct TimerTable([Time; COUNT]);

impl TimerTable {
    /// No timer armed.
    pub(super) const IDLE: TimerTable = TimerTable([Time::NEVER; COUNT]);

    /// Returns the first expiration.
    #[inline]
    pub(super) fn next(&self) -> Time {
        let mut next = Time::NEVER;
        for &due in &self.0 {
            next = next.min(due);
        }
        next
    }

    /// Arms `timer` for `due`, replacing an earlier time; `Time::NEVER` disarms it.
    #[inline]
    pub(super) fn arm(&mut self, timer: Timer, due: Time) {
        self.0[timer as usize] = due;
    }

    /// Arms `timer` for `due`, unless it expires before that.
    #[inline]
    pub(super) fn advance(&mut self, timer: Timer, due: Time) {
        let known = &mut self.0[timer as usize];
        *known = due.min(*known);
    }

    #[inline]
    pub(super) fn disarm(&mut self, timer: Timer) {
        self.0[timer as usize] = Time::NEVER;
    }

    #[inline]
    pub(super) fn is_armed(&self, timer: Timer) -> bool {
        self.0[timer as usize].is_armed()
    }

    /// True if `timer` has expired. It stays armed.
    #[inline]
    pub(super) fn has_expired(&self, timer: Timer, now: Time) -> bool {
        self.0[timer as usize] <= now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_timer_counts_and_each_is_armed_by_itself() {
        let at = Time::from_millis;
        let mut timers = TimerTable::IDLE;
        assert_eq!(timers.next(), Time::NEVER);
        timers.arm(Timer::Orphan, at(30));
        timers.arm(Timer::Data, at(20));
        assert_eq!(timers.next(), at(20));
        timers.advance(Timer::Data, at(25));
        assert!(timers.has_expired(Timer::Data, at(20)) && !timers.has_expired(Timer::Orphan, at(29)));
        timers.advance(Timer::Fin, at(10));
        assert_eq!(timers.next(), at(10));
        timers.disarm(Timer::Fin);
        timers.disarm(Timer::Data);
        assert!(!timers.is_armed(Timer::Data) && timers.is_armed(Timer::Orphan));
        assert_eq!(timers.next(), at(30));
    }
}
