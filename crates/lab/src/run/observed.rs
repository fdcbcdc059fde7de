//! The recorders of runs, as the simulator has them.
//!
//! The simulator is compiled once for each type of recorder, and the whole stack with it: that is most of the time that this crate
//! takes. So there are three types: none, [`Recorded`] and [`Watched`]. What they pass their events to is known when the program runs.

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

/// A recorder and the events that it gets.
pub(super) struct Chosen<'a> {
    pub wants: Wants,
    pub recorder: Box<dyn RunRecorder + 'a>,
}

/// Gets the events of recordings.
pub(super) struct Recorded<'a>(pub Chosen<'a>);

/// Gets all events, packets too.
pub(super) struct Watched<'a>(pub Chosen<'a>);

impl Chosen<'_> {
    fn pass(&mut self, trace: &Trace<'_>) {
        if self.wants.has(&trace.what) {
            self.recorder.on_trace(trace);
        }
    }
}

impl Recorder for Recorded<'_> {
    const WANTS: Wants = recording::WANTS;

    fn on_trace(&mut self, trace: &Trace<'_>) {
        self.0.pass(trace);
    }
}

impl Recorder for Watched<'_> {
    const WANTS: Wants = Wants { queues: true, ..Wants::ALL };

    fn on_trace(&mut self, trace: &Trace<'_>) {
        self.0.pass(trace);
    }
}

impl Observed for Recorded<'_> {
    fn is_broken(&self) -> bool {
        self.0.recorder.is_broken()
    }

    fn end(self, report: &RunReport, whole: bool) -> Result<(), RunError> {
        self.0.recorder.end(report, whole)
    }
}

impl Observed for Watched<'_> {
    fn is_broken(&self) -> bool {
        self.0.recorder.is_broken()
    }

    fn end(self, report: &RunReport, whole: bool) -> Result<(), RunError> {
        self.0.recorder.end(report, whole)
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

/// A capture, and what makes its errors those of the run. If it has failed, the run is stopped.
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
