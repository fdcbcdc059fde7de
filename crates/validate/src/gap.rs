//! The longest gap in delivery: the longest time without any byte delivered in order, from the first byte to the
//! completion, while data is outstanding. Operators call it the failover time.

use anabranch_sim::{FlowEvent, Recorder, Trace, Wants, What};
use anabranch_units::{Duration, Time};

/// The progress of a flow at its receiver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Gap {
    /// The bytes that the sender's program has written, or will have written by itself.
    written: u64,
    delivered: u64,
    /// The last time at which there was progress, or nothing outstanding.
    since: Option<Time>,
    longest: Duration,
}

impl Gap {
    /// Returns the progress of a transfer: its data is outstanding from its start.
    pub(crate) const fn of_transfer() -> Gap {
        Gap { written: u64::MAX, delivered: 0, since: None, longest: Duration::ZERO }
    }

    /// Takes `bytes` that the sender's program has written.
    pub(crate) fn written(&mut self, now: Time, bytes: u64) {
        self.written_up_to(now, self.written.saturating_add(bytes));
    }

    /// Takes all bytes that the sender's program has written.
    fn written_up_to(&mut self, now: Time, total: u64) {
        if self.written == self.delivered && total > self.written && self.since.is_some() {
            self.since = Some(now);
        }
        self.written = self.written.max(total);
    }

    /// Takes the bytes delivered in order so far.
    pub(crate) fn delivered(&mut self, now: Time, total: u64) {
        if total <= self.delivered {
            return;
        }
        if let Some(since) = self.since {
            self.longest = self.longest.max(now.since(since));
        }
        self.since = Some(now);
        self.delivered = total;
        self.written = self.written.max(total);
    }

    /// Returns the longest gap in seconds; none before the second delivery.
    pub(crate) fn seconds(&self) -> Option<f64> {
        (!self.longest.is_zero()).then(|| self.longest.as_secs_f64())
    }
}

/// The progress of the flows of a simulated run, by flow.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gaps(pub(crate) Vec<Gap>);

impl Recorder for Gaps {
    const WANTS: Wants = Wants::FLOWS;

    fn on_trace(&mut self, trace: &Trace<'_>) {
        let What::Flow { flow, event } = trace.what else { return };
        let Some(gap) = self.0.get_mut(flow.index()) else { return };
        match event {
            FlowEvent::Progress { delivered } => gap.delivered(trace.time, delivered),
            // Requests are not outstanding data, and are few.
            FlowEvent::Write { offered, .. } => gap.written_up_to(trace.time, offered),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(at: u64) -> Time {
        Time(at * 1_000_000)
    }

    #[test]
    fn a_gap_is_between_two_deliveries_and_not_before_the_first() {
        let mut gap = Gap::of_transfer();
        gap.delivered(ms(500), 1000);
        assert_eq!(gap.seconds(), None);
        gap.delivered(ms(510), 2000);
        // Nothing new.
        gap.delivered(ms(700), 2000);
        gap.delivered(ms(900), 3000);
        gap.delivered(ms(950), 4000);
        assert_eq!(gap.seconds(), Some(0.39));
    }

    #[test]
    fn silence_of_the_program_is_no_gap() {
        let mut gap = Gap::default();
        gap.written(ms(0), 1000);
        gap.delivered(ms(20), 600);
        gap.delivered(ms(25), 1000);
        // Nothing is outstanding for a second.
        gap.written(ms(1025), 1000);
        gap.delivered(ms(1045), 2000);
        assert_eq!(gap.seconds(), Some(0.02));
        gap.written(ms(1050), 1000);
        gap.written(ms(1060), 1000);
        gap.delivered(ms(1100), 3000);
        gap.delivered(ms(1180), 4000);
        assert_eq!(gap.seconds(), Some(0.08));
        // A write while data is outstanding does not begin the gap again.
        gap.written(ms(1200), 1000);
        gap.written(ms(1290), 1000);
        gap.delivered(ms(1300), 5000);
        assert_eq!(gap.seconds(), Some(0.1));
    }

    #[test]
    fn all_data_of_a_transfer_is_outstanding_from_its_start() {
        let mut gap = Gap::of_transfer();
        gap.delivered(ms(100), 500);
        gap.written_up_to(ms(200), 1000);
        gap.delivered(ms(300), 1000);
        // The program writes the rest late; the transfer has waited for it all the time.
        gap.written_up_to(ms(1300), 2000);
        gap.delivered(ms(1400), 2000);
        assert_eq!(gap.seconds(), Some(1.1));
    }
}
