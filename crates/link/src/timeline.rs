//! Changes of a link over time.

use std::sync::Arc;

use anabranch_units::{Duration, Rate, Time};

use crate::error::{self, LinkConfigError};
use crate::redraw::RedrawProcess;
use crate::{Capacity, Loss, Redraw, Trace};

/// One change of a link.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// This rate from now on.
    Rate(Rate),
    /// The opportunities of this trace from now on, beginning at its position `start`. Opportunities at this
    /// very instant are not usable.
    Trace {
        /// The recording.
        trace: Arc<Trace>,
        /// The position in the recording at this instant.
        start: Duration,
    },
    /// This propagation delay from now on, for packets that depart after this instant.
    Delay(Duration),
    /// This loss from now on, for packets offered at or after this instant.
    Loss(Loss),
    /// The link goes down. Offered packets are dropped; `when_down` applies to queued packets; packets in
    /// propagation still arrive. No effect if it is down already.
    Down,
    /// The link comes up again. No effect if it is up already.
    Up,
}

impl Change {
    /// Checks the change by itself.
    pub(crate) fn check(&self) -> Result<(), LinkConfigError> {
        match self {
            Change::Rate(rate) => Capacity::Rate(*rate).check(),
            Change::Delay(delay) => error::check_span("delay", *delay),
            Change::Loss(loss) => loss.check(),
            Change::Trace { start, .. } => error::check_span("start of the trace", *start),
            Change::Down | Change::Up => Ok(()),
        }
    }
}

/// A [`Change`] and its instant.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// The time of the change. A packet has departed before it even if its last bit departs at this very
    /// instant; packets offered at this very instant are offered after it.
    pub at: Time,
    /// The keys that change then.
    pub change: Change,
}

/// Checks that the steps are in order of time (equal times are applied in the order of the list) and that
/// each is valid.
pub(crate) fn check(steps: &[Step]) -> Result<(), LinkConfigError> {
    let mut previous = Time::ZERO;
    for (index, step) in steps.iter().enumerate() {
        if step.at < previous {
            return Err(LinkConfigError::TimelineOrder { step: index + 1, at: step.at, previous });
        }
        step.change
            .check()
            .map_err(|error| LinkConfigError::InStep { step: index + 1, error: Box::new(error) })?;
        previous = step.at;
    }
    Ok(())
}

/// The remaining steps, shared by the clones of a link.
#[derive(Clone, Debug)]
pub(crate) struct Timeline {
    steps: Arc<[Step]>,
    next: usize,
    redraws: Vec<RedrawProcess>,
}

impl Timeline {
    /// Returns the timeline of these steps, which have passed [`check`], and of redraws in a run with `seed`.
    pub(crate) fn new(steps: Vec<Step>, redraws: &[Redraw], seed: u64) -> Timeline {
        let redraws = redraws.iter().map(|redraw| RedrawProcess::new(redraw, seed)).collect();
        Timeline { steps: steps.into(), next: 0, redraws }
    }

    /// Returns the time of the next step; never if there is none.
    pub(crate) fn next_at(&self) -> Time {
        self.redraws.iter().map(|redraw| redraw.next).fold(self.next_step(), Time::min)
    }

    fn next_step(&self) -> Time {
        self.steps.get(self.next).map_or(Time::NEVER, |step| step.at)
    }

    /// Returns the next step, if its time is not after `now`.
    pub(crate) fn pop(&mut self, now: Time) -> Option<Step> {
        let at = self.next_at();
        if at > now {
            return None;
        }
        if self.next_step() > at {
            // The first of several at the same time.
            return self.redraws.iter_mut().find(|redraw| redraw.next == at).map(RedrawProcess::pop);
        }
        let step = self.steps.get(self.next)?.clone();
        self.next += 1;
        Some(step)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_come_out_at_their_instants_and_in_order() {
        let step = |at, change| Step { at: Time(at), change };
        let mut timeline =
            Timeline::new(vec![step(5, Change::Down), step(5, Change::Up), step(9, Change::Down)], &[], 1);
        assert_eq!(timeline.pop(Time(4)), None);
        assert_eq!(timeline.pop(Time(7)).unwrap().change, Change::Down);
        assert_eq!(timeline.pop(Time(7)).unwrap().change, Change::Up);
        assert_eq!(timeline.pop(Time(7)), None);
        assert_eq!(timeline.next_at(), Time(9));
        assert!(timeline.pop(Time(9)).is_some());
        assert_eq!(timeline.next_at(), Time::NEVER);
    }

    #[test]
    fn a_step_before_its_predecessor_is_refused_by_its_number() {
        let step = |at| Step { at: Time(at), change: Change::Up };
        let error = check(&[step(1), step(3), step(2)]).unwrap_err();
        assert!(matches!(error, LinkConfigError::TimelineOrder { step: 3, .. }), "{error}");
        let zero = Step { at: Time(1), change: Change::Rate(Rate(0)) };
        let error = check(&[zero]).unwrap_err();
        assert!(error.to_string().contains("step 1"), "{error}");
    }
}
