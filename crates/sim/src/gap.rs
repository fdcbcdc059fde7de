//! The gaps in the delivery of a flow, if its application decides when there is data.
//!
//! The receiving stack measures the gaps of a transfer, which has data to send until it is complete
//! ([`ConnectionStats::longest_gap`](anabranch_stack::stats::ConnectionStats::longest_gap)). Here the time between two
//! deliveries counts only while data is outstanding.

use anabranch_units::{Duration, Time};

/// The longest gap so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Gap {
    /// The last delivery, or the time since which data is outstanding if that is later; none if there is no such data.
    since: Option<Time>,
    /// The longest gap between two deliveries; none before the first.
    longest: Option<Duration>,
}

impl Gap {
    /// Data is outstanding from now on, if it was not before.
    pub(crate) fn begin(&mut self, now: Time) {
        self.since.get_or_insert(now);
    }

    /// Data was delivered in order. `more` is true if other data is outstanding.
    pub(crate) fn deliver(&mut self, now: Time, more: bool) {
        let gap = self.since.map_or(Duration::ZERO, |since| now.since(since));
        // The time before the first delivery is no gap.
        self.longest = Some(self.longest.map_or(Duration::ZERO, |longest| longest.max(gap)));
        self.since = more.then_some(now);
    }

    /// Returns the longest gap if nothing is delivered until `end`; none if nothing was delivered before it.
    pub(crate) fn until(&self, end: Time) -> Option<Duration> {
        let last = self.since.map_or(Duration::ZERO, |since| end.since(since));
        self.longest.map(|longest| longest.max(last))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_counts_only_while_data_is_outstanding() {
        let at = Time::from_millis;
        let ms = |count| Some(Duration::from_millis(count));
        let mut gap = Gap::default();
        gap.begin(at(0));
        assert_eq!(gap.until(at(500)), None);
        gap.deliver(at(500), true);
        gap.begin(at(510));
        gap.deliver(at(530), false);
        // Silence of the application.
        assert_eq!(gap.until(at(9000)), ms(30));
        gap.begin(at(1000));
        gap.deliver(at(1070), false);
        gap.begin(at(2000));
        assert_eq!((gap.until(at(2010)), gap.until(at(2400))), (ms(70), ms(400)));
    }
}
