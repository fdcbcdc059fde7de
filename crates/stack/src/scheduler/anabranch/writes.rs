//! When a program writes: a short end of the data waits for the write that completes it.

use anabranch_units::{Duration, Time};

use super::super::View;

/// The part of the time between the last two writes after which the next one is expected no more.
const PATIENCE: f64 = 1.5;

/// The writes of a program, as its decisions see them.
#[derive(Clone, Copy, Default, PartialEq, Debug)]
pub(super) struct Writes {
    /// The bytes written, and the time of the last write.
    written: u64,
    at: Time,
    /// The time between the last two.
    interval: Duration,
}

impl Writes {
    /// Notes the data written so far.
    pub(super) fn observe(&mut self, view: &View<'_>) {
        if view.written == self.written {
            return;
        }
        let since = view.now.since(self.at.min(view.now));
        let is_first = self.written == 0;
        let interval = if is_first { Duration::ZERO } else { since };
        *self = Writes { written: view.written, at: view.now, interval };
    }

    /// Returns the time at which the next write is expected; `None` if it has not come.
    pub(super) fn expected(&self, now: Time) -> Option<Time> {
        self.expected_until(now).map(|_| self.at + self.interval)
    }

    /// Returns the time until which a further write is expected, if one is.
    pub(super) fn expected_until(&self, now: Time) -> Option<Time> {
        let until = self.at + self.interval.mul_f64(PATIENCE);
        (now < until).then_some(until)
    }
}
