//! Measurements of one subflow for the delay-based rules: the minimum RTT, and the RTTs of a round trip.

use anabranch_units::Duration;

use super::Ack;
use super::rule::Change;

/// The minimum number of RTT samples with which a round trip is evaluated: with fewer, all may be samples of
/// delayed acknowledgements.
const ENOUGH: u32 = 3;

/// The measurements of one subflow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Delays {
    /// The minimum RTT since the start, or since a restart after an idle time.
    base: Duration,
    round: Round,
    /// True if the current round trip had begun before the measurement did.
    partial: bool,
}

/// The RTT samples of a round trip.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Round {
    samples: u32,
    least: Duration,
    sum: u64,
    /// Bytes acknowledged in the round trip.
    pub(super) acked: u64,
}

/// Delays in seconds.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Measured {
    pub(super) rtt: f64,
    pub(super) base: f64,
}

impl Measured {
    /// Returns the segments of a window of `segments` that are in queues.
    pub(super) fn queued(self, segments: f64) -> f64 {
        segments * (self.rtt - self.base) / self.rtt
    }
}

impl Round {
    const EMPTY: Round = Round { samples: 0, least: Duration::MAX, sum: 0, acked: 0 };
}

impl Delays {
    pub(super) const NEW: Delays = Delays { base: Duration::MAX, round: Round::EMPTY, partial: false };

    /// Records the sample of `ack`.
    pub(super) fn observe(&mut self, ack: &Ack) {
        // The acknowledgement that ends a round trip is part of it; `end_round` closes it afterwards.
        self.round.acked = self.round.acked.saturating_add(ack.acked_bytes);
        if let Some(rtt) = ack.rtt {
            let rtt = rtt.max(Duration::from_nanos(1));
            self.base = self.base.min(rtt);
            self.round.samples = self.round.samples.saturating_add(1);
            self.round.least = self.round.least.min(rtt);
            self.round.sum = self.round.sum.saturating_add(rtt.0);
        }
    }

    /// Ends a round trip and returns its measurements, unless it was not measured from its beginning.
    pub(super) fn end_round(&mut self) -> Option<Round> {
        let round = core::mem::replace(&mut self.round, Round::EMPTY);
        (!core::mem::take(&mut self.partial)).then_some(round)
    }

    /// Returns the minimum RTT of a round trip with the overall minimum; `None` if there are too few samples.
    pub(super) fn least(&self, round: &Round) -> Option<Measured> {
        self.enough(round).then(|| self.measured(round.least.as_secs_f64()))
    }

    /// Returns the mean RTT of a round trip with the overall minimum; `None` if there are too few samples.
    pub(super) fn mean(&self, round: &Round) -> Option<Measured> {
        self.enough(round).then(|| self.measured(round.sum as f64 / f64::from(round.samples) / 1e9))
    }

    fn enough(&self, round: &Round) -> bool {
        round.samples >= ENOUGH
    }

    fn measured(&self, rtt: f64) -> Measured {
        Measured { rtt, base: self.base.as_secs_f64() }
    }

    /// Restarts the measurement when past samples no longer apply: after a repair, a timeout, or an idle time
    /// (after which the route may have changed).
    pub(super) fn on_change(&mut self, change: Change) {
        match change {
            Change::Up | Change::Down => *self = Delays::NEW,
            Change::Restarted => *self = Delays { partial: true, ..Delays::NEW },
            Change::Reduced | Change::Recovered | Change::Timeout | Change::Undone | Change::Penalised => {
                self.round = Round::EMPTY;
                self.partial = true;
            }
            _ => {}
        }
    }
}

/// Returns the entry of a subflow, creating missing entries.
pub(super) fn entry<T: Clone>(all: &mut Vec<T>, index: usize, new: T) -> &mut T {
    if all.len() <= index {
        all.resize(index + 1, new);
    }
    &mut all[index]
}
