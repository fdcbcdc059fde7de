//! The recorders of runs, as the simulator has them.
//!
//! The simulator is compiled once for each type of recorder, and the whole stack with it: that is most of the time that this crate
//! takes. So there are three types: none, and the two of [`Passing`], which have their recorder when the program runs.

use std::io::{self, Write};

use anabranch_sim::{Recorder, RunReport, Trace, Wants};

use super::RunError;
use crate::capture::{self, Capture};
use crate::recording::{self, RunRecorder};

/// A recorder that a run ends with.
pub(super) trait Observed: Recorder {
    /// True if the run is to be stopped.
    fn is_broken(&self) -> bool;

    /// Ends it, as [`RunRecorder::end`] does.
    fn end(self, report: &RunReport, whole: bool) -> Result<(), RunError>;
}

impl Observed for () {
    fn is_broken(&self) -> bool {
        false
    }

    fn end(self, _: &RunReport, _: bool) -> Result<(), RunError> {
        Ok(())
    }
}

/// Passes events to a recorder that has named the ones it `wants`: of `ALL`, packets too, or of the events of recordings.
pub(super) struct Passing<'a, const ALL: bool> {
    pub wants: Wants,
    pub recorder: Box<dyn RunRecorder + 'a>,
}

impl<const ALL: bool> Recorder for Passing<'_, ALL> {
    const WANTS: Wants = if ALL { Wants { queues: true, ..Wants::ALL } } else { recording::WANTS };

    fn on_trace(&mut self, trace: &Trace<'_>) {
        if self.wants.has(&trace.what) {
            self.recorder.on_trace(trace);
        }
    }
}

impl<const ALL: bool> Observed for Passing<'_, ALL> {
    fn is_broken(&self) -> bool {
        self.recorder.is_broken()
    }

    fn end(self, report: &RunReport, whole: bool) -> Result<(), RunError> {
        self.recorder.end(report, whole)
    }
}

/// A recorder of the caller's, who takes it back.
pub(super) struct Lent<'a, R>(pub &'a mut R);

impl<R: Recorder> RunRecorder for Lent<'_, R> {
    fn on_trace(&mut self, trace: &Trace<'_>) {
        self.0.on_trace(trace);
    }

    fn is_broken(&self) -> bool {
        false
    }

    fn end(self: Box<Self>, _: &RunReport, _: bool) -> Result<(), RunError> {
        Ok(())
    }
}

/// A capture, with the function that converts its errors. If the capture has failed, the run is stopped.
pub(super) struct Captured<'a, W: Write> {
    pub capture: Capture<W>,
    pub fail: &'a dyn Fn(io::Error) -> RunError,
}

impl<W: Write> RunRecorder for Captured<'_, W> {
    fn on_trace(&mut self, trace: &Trace<'_>) {
        self.capture.on_trace(trace);
    }

    fn is_broken(&self) -> bool {
        self.capture.error().is_some()
    }

    fn end(self: Box<Self>, _: &RunReport, whole: bool) -> Result<(), RunError> {
        match whole {
            true => self.capture.finish().map(drop).map_err(self.fail),
            false => Ok(()),
        }
    }
}

/// The events of a recording and a capture.
pub(super) const BOTH: Wants = recording::WANTS.and(capture::WANTS);

/// A recording and a capture.
pub(super) struct Both<'a, W: Write> {
    pub recorder: Box<dyn RunRecorder + 'a>,
    pub capture: Captured<'a, W>,
}

impl<W: Write> RunRecorder for Both<'_, W> {
    fn on_trace(&mut self, trace: &Trace<'_>) {
        if recording::WANTS.has(&trace.what) {
            self.recorder.on_trace(trace);
        }
        if capture::WANTS.has(&trace.what) {
            self.capture.on_trace(trace);
        }
    }

    fn is_broken(&self) -> bool {
        self.recorder.is_broken() || self.capture.is_broken()
    }

    fn end(self: Box<Self>, report: &RunReport, whole: bool) -> Result<(), RunError> {
        let captured = Box::new(self.capture).end(report, whole);
        self.recorder.end(report, whole && captured.is_ok())?;
        captured
    }
}
