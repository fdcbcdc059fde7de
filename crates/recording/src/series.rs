//! Series that are thinned out: at most one row in each interval.

use anabranch_units::{Duration, Time};

/// A series of values. A value is written if the interval since the last written one is over; otherwise it is
/// kept, and written once it has stayed for an interval.
#[derive(Clone, Debug)]
pub(crate) struct Series<V> {
    interval: Duration,
    /// The time from which the next value is written.
    next: Time,
    kept: Option<(Time, V)>,
}

impl<V: Copy> Series<V> {
    pub(crate) fn new(interval: Duration) -> Series<V> {
        Series { interval, next: Time::ZERO, kept: None }
    }

    /// Adds a value; calls `write` with those to be written. An `important` value is always written.
    pub(crate) fn add(&mut self, now: Time, value: V, important: bool, mut write: impl FnMut(Time, V)) {
        if now < self.next && !important {
            self.kept = Some((now, value));
            return;
        }
        if let Some((at, kept)) = self.kept.take()
            && now.since(at) >= self.interval
        {
            write(at, kept);
        }
        write(now, value);
        self.next = now + self.interval;
    }

    /// Writes the value that is kept.
    pub(crate) fn finish(&mut self, mut write: impl FnMut(Time, V)) {
        if let Some((at, kept)) = self.kept.take() {
            write(at, kept);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn thinned(interval: Duration, values: &[(u64, char)]) -> Vec<(u64, char)> {
        let mut series = Series::new(interval);
        let mut written = Vec::new();
        for &(ms, value) in values {
            let important = value.is_uppercase();
            series.add(Time::from_millis(ms), value, important, |at, v| written.push((at.0 / 1_000_000, v)));
        }
        series.finish(|at, v| written.push((at.0 / 1_000_000, v)));
        written
    }

    #[test]
    fn a_row_in_each_interval_the_last_before_a_pause_and_the_last_of_all() {
        let values = [(0, 'a'), (2, 'b'), (4, 'c'), (10, 'd'), (12, 'e'), (13, 'f'), (50, 'g'), (51, 'h')];
        let wanted = [(0, 'a'), (10, 'd'), (13, 'f'), (50, 'g'), (51, 'h')];
        assert_eq!(thinned(Duration::from_millis(10), &values), wanted);
        assert_eq!(thinned(Duration::ZERO, &values), values);
    }

    #[test]
    fn an_important_value_is_always_written() {
        let values = [(0, 'a'), (2, 'b'), (3, 'C'), (4, 'd'), (14, 'e')];
        assert_eq!(thinned(Duration::from_millis(10), &values), [(0, 'a'), (3, 'C'), (4, 'd'), (14, 'e')]);
    }
}
