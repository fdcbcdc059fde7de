//! What the delay-based rules measure of one subflow: the least RTT there ever was, and the RTTs of a
//! round trip.

use anabranch_units::Duration;

use super::Ack;
use super::rule::Change;

/// So many RTT samples make a round trip that can be judged: with fewer each may be that of a delayed
/// acknowledgement.
const ENOUGH: u32 = 3;

/// The measurements of one subflow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Delays {
    /// The least RTT since the start, or since a restart after an idle time.
    base: Duration,
    round: Round,
    /// The present round trip had begun before the measuring did.
    partial: bool,
}

/// The RTT samples of a round trip.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Round {
    samples: u32,
    least: Duration,
    sum: u64,
    /// Bytes acknowledged in it.
    pub(super) acked: u64,
}

/// Delays in seconds.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Measured {
    pub(super) rtt: f64,
    pub(super) base: f64,
}

impl Measured {
    /// The segments of a window of `segments` that wait in queues.
    pub(super) fn queued(self, segments: f64) -> f64 {
        segments * (self.rtt - self.base) / self.rtt
    }
}

impl Round {
    const EMPTY: Round = Round { samples: 0, least: Duration::MAX, sum: 0, acked: 0 };
}

impl Delays {
    pub(super) const NEW: Delays = Delays { base: Duration::MAX, round: Round::EMPTY, partial: false };

    /// Takes the sample of `ack`.
    pub(super) fn observe(&mut self, ack: &Ack) {
        // The end of a round trip belongs to it, and is closed by `end_round`.
        self.round.acked = self.round.acked.saturating_add(ack.acked_bytes);
        if let Some(rtt) = ack.rtt {
            let rtt = rtt.max(Duration::from_nanos(1));
            self.base = self.base.min(rtt);
            self.round.samples = self.round.samples.saturating_add(1);
            self.round.least = self.round.least.min(rtt);
            self.round.sum = self.round.sum.saturating_add(rtt.0);
        }
    }

    /// Ends a round trip: what it was, unless it was not measured from its beginning on.
    pub(super) fn end_round(&mut self) -> Option<Round> {
        let round = core::mem::replace(&mut self.round, Round::EMPTY);
        (!core::mem::take(&mut self.partial)).then_some(round)
    }

    /// The least RTT of a round trip against the least of all; none of too few samples.
    pub(super) fn least(&self, round: &Round) -> Option<Measured> {
        self.enough(round).then(|| self.measured(round.least.as_secs_f64()))
    }

    /// The mean RTT of a round trip against the least of all; none of too few samples.
    pub(super) fn mean(&self, round: &Round) -> Option<Measured> {
        self.enough(round).then(|| self.measured(round.sum as f64 / f64::from(round.samples) / 1e9))
    }

    fn enough(&self, round: &Round) -> bool {
        round.samples >= ENOUGH
    }

    fn measured(&self, rtt: f64) -> Measured {
        Measured { rtt, base: self.base.as_secs_f64() }
    }

    /// Begins anew where what was measured is no longer of the present: after a repair, a timeout, an
    /// idle time (after which the path may be another one).
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

/// One entry for each subflow, made where it is missing.
pub(super) fn entry<T: Clone>(all: &mut Vec<T>, index: usize, new: T) -> &mut T {
    if all.len() <= index {
        all.resize(index + 1, new);
    }
    &mut all[index]
}
