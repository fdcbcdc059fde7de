//! The exceptions of `anabranch.exceptions`.

use anabranch_inspect::CaptureFault;
use anabranch_lab::ScenarioError;
use anabranch_lab::run::RunError;
use anabranch_lab::sweep::{JournalError, SweepError};
use pyo3::call::PyCallArgs;
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;

/// Returns the exception `class` of `anabranch.exceptions`.
fn raised<'py>(py: Python<'py>, class: &str, arguments: impl PyCallArgs<'py>) -> PyErr {
    let made = py
        .import("anabranch.exceptions")
        .and_then(|module| module.getattr(class))
        .and_then(|class| class.call1(arguments));
    made.map_or_else(|error| error, PyErr::from_value)
}

/// The error of a scenario or a plan, with its place.
pub(crate) fn scenario(py: Python<'_>, error: &ScenarioError) -> PyErr {
    let place = error.place.as_ref();
    let arguments = (
        error.to_string(),
        error.message.clone(),
        place.map(|place| place.source.clone()),
        place.map(|place| place.line),
        place.map(|place| place.column),
        error.help.clone(),
    );
    raised(py, "ScenarioError", arguments)
}

/// A capture that cannot be read, or has too little.
pub(crate) fn capture(py: Python<'_>, text: &str, file: Option<&str>, help: Option<&str>) -> PyErr {
    raised(py, "CaptureError", (text, file, help))
}

/// A fault of a capture.
pub(crate) fn fault(py: Python<'_>, fault: &CaptureFault) -> PyErr {
    let help = Some(fault.help.as_str()).filter(|help| !help.is_empty());
    capture(py, &fault.to_string(), Some(&fault.file), help)
}

/// An argument that is not valid.
pub(crate) fn argument(message: impl Into<String>) -> PyErr {
    Python::attach(|py| raised(py, "ArgumentError", (message.into(),)))
}

/// A name or a number of something that there is not.
pub(crate) fn missing(message: impl Into<String>) -> PyErr {
    Python::attach(|py| raised(py, "NotFoundError", (message.into(),)))
}

/// The error of a simulation.
pub(crate) fn run(py: Python<'_>, error: &RunError) -> PyErr {
    match error {
        RunError::Cancelled => PyKeyboardInterrupt::new_err(()),
        RunError::Scenario(error) => scenario(py, error),
        RunError::Capture(message) | RunError::Samples(message) | RunError::Recording(message) => {
            raised(py, "RunError", (message,))
        }
    }
}

/// Options that contradict each other or name nothing that there is.
pub(crate) fn usage(py: Python<'_>, message: &str) -> PyErr {
    raised(py, "ScenarioError", (message,))
}

/// Work that failed for another reason, such as a file that cannot be written.
pub(crate) fn failed(py: Python<'_>, message: &str) -> PyErr {
    raised(py, "RunError", (message,))
}

/// A scheduler in Python that answers no decision.
pub(crate) fn scheduler(py: Python<'_>, message: &str) -> PyErr {
    raised(py, "SchedulerError", (message,))
}

/// The error of a sweep.
pub(crate) fn sweep(py: Python<'_>, error: &SweepError) -> PyErr {
    match error {
        SweepError::Cancelled => PyKeyboardInterrupt::new_err(()),
        SweepError::Scenario(error) => scenario(py, error),
        SweepError::Run(point, error) => match **error {
            RunError::Cancelled => PyKeyboardInterrupt::new_err(()),
            _ => raised(py, "RunError", (format!("point {point}: {error}"),)),
        },
        SweepError::Journal(error) => journal(py, error),
    }
}

/// The error of a sweep's directory.
pub(crate) fn journal(py: Python<'_>, error: &JournalError) -> PyErr {
    directory(py, &error.to_string())
}

/// The error of a sweep's directory.
pub(crate) fn directory(py: Python<'_>, message: &str) -> PyErr {
    raised(py, "SweepError", (message,))
}
