//! The extension module `anabranch._anabranch`.
//!
//! It converts arguments and results, and nothing else: scenarios and errors come from `anabranch-lab`, and
//! texts from `anabranch-show`. The package in `python/anabranch` gives it types, names and plots.

#![warn(unreachable_pub)]

mod advise;
mod compare;
mod congestion;
mod dmptcp;
mod errors;
mod explain;
mod inspect;
mod recording;
mod reproduce;
mod run;
mod scenario;
mod scheduler;
mod sweep;
mod table;
mod view;
mod work;

use pyo3::prelude::*;

/// Runs the command line `words`, and returns its exit code.
#[cfg(feature = "command")]
#[pyfunction]
fn command(py: Python<'_>, words: Vec<std::ffi::OsString>) -> u8 {
    let code = py.detach(|| anabranch_cli::main(words));
    // An exit code can be compared but not read.
    (0..=u8::MAX).find(|number| std::process::ExitCode::from(*number) == code).unwrap_or(1)
}

/// Reports that this build has no command.
#[cfg(not(feature = "command"))]
#[pyfunction]
fn command(words: Vec<std::ffi::OsString>) -> PyResult<u8> {
    let _ = words;
    Err(pyo3::exceptions::PyRuntimeError::new_err("this build lacks the feature `command`"))
}

/// The version of this package.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Returns the commit from which this module was built; none if it is unknown.
fn commit() -> Option<&'static str> {
    Some(env!("ANABRANCH_BUILT_FROM")).filter(|commit| !commit.is_empty())
}

/// Returns the version and the commit from which this module was built: equal builds have equal results.
#[pyfunction]
fn build() -> String {
    match commit() {
        Some(commit) => format!("{VERSION} ({commit})"),
        None => VERSION.to_owned(),
    }
}

#[pymodule]
mod _anabranch {
    #[pymodule_export]
    use super::advise::{Advice, advise};
    #[pymodule_export]
    use super::build;
    #[pymodule_export]
    use super::command;
    #[pymodule_export]
    use super::compare::{Comparison, compare};
    #[pymodule_export]
    use super::congestion::{AllWindows, Congestion, OneAck, OneWindow};
    #[pymodule_export]
    use super::dmptcp::{model, select};
    #[pymodule_export]
    use super::explain::{Explanation, explain};
    #[pymodule_export]
    use super::inspect::{Inspection, Simulation, inspect, simulate};
    #[pymodule_export]
    use super::recording::read_table;
    #[pymodule_export]
    use super::reproduce::{Reproducing, Reproduction, simulate_part};
    #[pymodule_export]
    use super::run::{Run, run};
    #[pymodule_export]
    use super::scenario::{Document, Summary, builtin_scenarios};
    #[pymodule_export]
    use super::scheduler::{Assign, Contender, Custom, Recall, Wait};
    #[pymodule_export]
    use super::sweep::{Plan, Sweep};
    #[pymodule_export]
    use super::table::Table;
    #[pymodule_export]
    use super::view::{Event, Pending, Subflow, View};
    #[pymodule_export]
    const VERSION: &str = env!("CARGO_PKG_VERSION");
}
