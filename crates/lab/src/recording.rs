//! Recordings of the events of simulated runs; the recorder is the caller's.

use anabranch_sim::{FlowSpec, Network, RunReport, Trace, Wants};
use anabranch_stack::observer::StackEvents;

use crate::job::Job;
use crate::run::RunError;

/// A run about to begin.
#[derive(Clone, Copy, Debug)]
pub struct Beginning<'a> {
    /// The run.
    pub job: &'a Job,
    /// The seed from which its random streams are derived.
    pub seed: u64,
    /// The hosts and links that the events name.
    pub network: &'a Network,
    /// Its flows, by [`FlowId`](anabranch_sim::FlowId).
    pub flows: &'a [FlowSpec],
}

/// Makes the recorders of runs, which may be simulated on several threads.
pub trait Recording: Sync {
    /// Returns the recorder of a run.
    ///
    /// # Errors
    /// If there can be none.
    fn begin(&self, run: &Beginning<'_>) -> Result<Box<dyn RunRecorder + '_>, RunError>;
}

/// The events that recorders receive: no packets, and of the stack's events not the most frequent ones that no table has.
pub const WANTS: Wants = Wants {
    queues: true,
    ..Wants::stack(
        StackEvents::SENT
            .and(StackEvents::ARRIVED)
            .and(StackEvents::LOST)
            .and(StackEvents::UNDONE)
            .and(StackEvents::DATA_ACKED)
            .and(StackEvents::DECISION)
            .and(StackEvents::WINDOWS),
    )
};

/// Records one run.
pub trait RunRecorder {
    /// Records an event, one of [`WANTS`].
    fn on_trace(&mut self, trace: &Trace<'_>);

    /// True if recording has failed, so that the run is stopped and [`RunRecorder::end`] returns the error.
    fn is_broken(&self) -> bool;

    /// Ends the recording. `whole` is false if the run was cancelled before its end.
    ///
    /// # Errors
    /// If not everything is recorded.
    fn end(self: Box<Self>, report: &RunReport, whole: bool) -> Result<(), RunError>;
}
