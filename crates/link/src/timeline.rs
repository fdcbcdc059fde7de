//! How a link changes as time passes.

use std::sync::Arc;

use anabranch_units::{Duration, Rate, Time};

use crate::error::{self, LinkConfigError};
use crate::{Capacity, Loss, Trace};

/// One change of a link.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// From now on this rate.
    Rate(Rate),
    /// From now on the opportunities of this trace, whose position `start` is now. Opportunities at this
    /// very instant are gone.
    Trace {
        /// The recording.
        trace: Arc<Trace>,
        /// Where in the recording this instant lies.
        start: Duration,
    },
    /// From now on this propagation delay, for packets that depart after this instant.
    Delay(Duration),
    /// From now on this loss, for packets that are offered at or after this instant.
    Loss(Loss),
    /// The link goes down. What is offered is dropped; `when_down` decides about what waits; what is in
    /// propagation still arrives. Nothing happens if it is down already.
    Down,
    /// The link comes up again. Nothing happens if it is up already.
    Up,
}

impl Change {
    /// Whether the change makes sense by itself.
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
    /// When the change happens. Packets whose last bit departs at this very instant have departed before
    /// it; packets offered at this very instant are offered after it.
    pub at: Time,
    /// What changes.
    pub change: Change,
}

/// Checks that the steps are in order of time (equal times happen in the order of the list) and each is
/// right in itself.
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

/// The steps to come, shared by the clones of a link.
#[derive(Clone, Debug)]
pub(crate) struct Timeline {
    steps: Arc<[Step]>,
    next: usize,
}

impl Timeline {
    /// The timeline of these steps, which [`check`] has found right.
    pub(crate) fn new(steps: Vec<Step>) -> Timeline {
        Timeline { steps: steps.into(), next: 0 }
    }

    /// When the next step happens; never, if there is none.
    pub(crate) fn next_at(&self) -> Time {
        self.steps.get(self.next).map_or(Time::NEVER, |step| step.at)
    }

    /// The next step, if its instant is not after `now`.
    pub(crate) fn pop(&mut self, now: Time) -> Option<Step> {
        let step = self.steps.get(self.next).filter(|step| step.at <= now)?.clone();
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
            Timeline::new(vec![step(5, Change::Down), step(5, Change::Up), step(9, Change::Down)]);
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
