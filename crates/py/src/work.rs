//! Work without the interpreter's lock: it can be interrupted, and reports its progress.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use pyo3::prelude::*;

/// The time between two looks at signals and progress.
const TICK: Duration = Duration::from_millis(50);

/// Stops work, with the exception that is the reason.
#[derive(Default)]
pub(crate) struct Control {
    /// Set to stop the work.
    pub cancelled: AtomicBool,
    error: Mutex<Option<PyErr>>,
    /// True if decisions that were refused are no warning here.
    silent: bool,
    /// By scheduler: the number of decisions that the stack refused, and why the first one.
    refused: Mutex<BTreeMap<String, (u64, String)>>,
}

impl Control {
    /// Returns a control that, if `silent`, does not warn of decisions that were refused.
    pub(crate) fn new(silent: bool) -> Control {
        Control { silent, ..Control::default() }
    }

    /// Stops the work. The first exception counts.
    pub(crate) fn stop(&self, error: PyErr) {
        self.error.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        self.cancelled.store(true, Ordering::Relaxed);
    }

    /// True if the work is being stopped.
    pub(crate) fn is_stopped(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }

    /// Counts a decision that the stack refuses.
    pub(crate) fn refuse(&self, scheduler: &str, why: String) {
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        match refused.get_mut(scheduler) {
            Some((count, _)) => *count += 1,
            None => drop(refused.insert(scheduler.to_owned(), (1, why))),
        }
    }

    /// Warns of decisions that were refused: the flows of such a scheduler wait, and may never end.
    fn warn(&self, py: Python<'_>) -> PyResult<()> {
        if self.silent {
            return Ok(());
        }
        for (name, (count, why)) in self.refused() {
            let class = py.import("anabranch.exceptions")?.getattr("SchedulerWarning")?;
            let warning = class.call1((name, count, why))?;
            // The place is the call of this package's function.
            py.import("warnings")?.call_method1("warn", (warning, py.None(), 2))?;
        }
        Ok(())
    }

    /// Returns, by scheduler, the number of decisions that the stack refused, and why the first one.
    pub(crate) fn refused(&self) -> BTreeMap<String, (u64, String)> {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn error(&self) -> Option<PyErr> {
        self.error.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Calls `job` on another thread, without the lock of the interpreter, until it returns. Meanwhile this thread
/// handles signals and calls `progress(done, total)`; an exception of either stops the job, and is returned.
pub(crate) fn work<T: Send>(
    py: Python<'_>,
    control: &Arc<Control>,
    progress: Option<&Bound<'_, PyAny>>,
    job: impl FnOnce(&AtomicBool, &(dyn Fn(usize, usize) + Sync)) -> T + Send,
) -> PyResult<T> {
    let progress = progress.map(|progress| progress.clone().unbind());
    let (done, total) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let report = |now: usize, of: usize| {
        done.fetch_max(now, Ordering::Relaxed);
        total.store(of, Ordering::Relaxed);
    };
    let tick = |py: Python<'_>| -> PyResult<()> {
        py.check_signals()?;
        let total = total.load(Ordering::Relaxed);
        match &progress {
            Some(progress) if total > 0 => {
                progress.call1(py, (done.load(Ordering::Relaxed), total)).map(drop)
            }
            _ => Ok(()),
        }
    };
    let result = py.detach(|| {
        std::thread::scope(|scope| {
            let (ended, wait) = sync_channel::<()>(1);
            let worker = scope.spawn(|| {
                // Dropped at the end, also by a panic.
                let _ended = ended;
                // A scheduler in Python attaches at each decision, which is cheap on a thread that has been attached.
                Python::attach(|py| py.detach(|| job(&control.cancelled, &report)))
            });
            while wait.recv_timeout(TICK) == Err(RecvTimeoutError::Timeout) {
                if !control.is_stopped()
                    && let Err(error) = Python::attach(tick)
                {
                    control.stop(error);
                }
            }
            worker.join()
        })
    });
    if let Some(error) = control.error() {
        return Err(error);
    }
    match result {
        Ok(result) => {
            tick(py)?;
            control.warn(py)?;
            Ok(result)
        }
        Err(panic) => std::panic::resume_unwind(panic),
    }
}
