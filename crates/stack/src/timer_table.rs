//! Timers of one level, the connection's or a subflow's: each armed with its deadline, or not.

use core::marker::PhantomData;

use anabranch_units::Time;

/// The timers of a level: an enum without fields.
pub(crate) trait TimerKind: Copy {
    /// Returns the place of its deadline in the table.
    fn index(self) -> usize;
}

/// The deadlines of `N` timers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TimerTable<T, const N: usize> {
    due: [Time; N],
    kind: PhantomData<T>,
}

impl<T: TimerKind, const N: usize> TimerTable<T, N> {
    /// No timer armed.
    pub(crate) const IDLE: Self = TimerTable { due: [Time::NEVER; N], kind: PhantomData };

    /// Returns the first deadline.
    #[inline]
    pub(crate) fn next(&self) -> Time {
        let mut next = Time::NEVER;
        for &due in &self.due {
            next = next.min(due);
        }
        next
    }

    /// Returns the deadline of `timer`; `Time::NEVER` unless it is armed.
    #[inline]
    pub(crate) fn due(&self, timer: T) -> Time {
        self.due[timer.index()]
    }

    /// Arms `timer` for `due`, replacing an earlier time; `Time::NEVER` disarms it.
    #[inline]
    pub(crate) fn arm(&mut self, timer: T, due: Time) {
        self.due[timer.index()] = due;
    }

    /// Arms `timer` for `due`, unless it expires before that.
    #[inline]
    pub(crate) fn advance(&mut self, timer: T, due: Time) {
        let known = &mut self.due[timer.index()];
        *known = due.min(*known);
    }

    #[inline]
    pub(crate) fn disarm(&mut self, timer: T) {
        self.due[timer.index()] = Time::NEVER;
    }

    #[inline]
    pub(crate) fn is_armed(&self, timer: T) -> bool {
        self.due[timer.index()].is_armed()
    }

    /// True if `timer` has expired. It stays armed.
    #[inline]
    pub(crate) fn has_expired(&self, timer: T, now: Time) -> bool {
        self.due[timer.index()] <= now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Copy)]
    enum Timer {
        Data,
        Fin,
        Orphan,
    }

    impl TimerKind for Timer {
        fn index(self) -> usize {
            self as usize
        }
    }

    #[test]
    fn the_first_timer_counts_and_each_is_armed_by_itself() {
        let at = Time::from_millis;
        let mut timers = TimerTable::<Timer, 3>::IDLE;
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
