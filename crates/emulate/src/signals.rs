//! Changes of the client's interfaces that its host notices, at their times.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::error::EmulateError;
use crate::namespace::Namespace;

/// A change: its time after the start of the links, and the batches of `ip` that bring it about.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    pub at: Duration,
    pub commands: Vec<String>,
}

/// Makes the changes until it is stopped or dropped.
#[derive(Debug)]
pub(crate) struct Signals {
    stopped: Arc<(Mutex<bool>, Condvar)>,
    thread: Option<JoinHandle<()>>,
}

impl Signals {
    /// Makes `changes`, in the order of their times, in `namespace`. Their times begin now.
    ///
    /// # Errors
    /// If no descriptor or thread is left.
    pub(crate) fn start(namespace: &Namespace, changes: Vec<Change>) -> Result<Signals, EmulateError> {
        let stopped = Arc::new((Mutex::new(false), Condvar::new()));
        if changes.is_empty() {
            return Ok(Signals { stopped, thread: None });
        }
        let (begun, namespace, own) = (Instant::now(), namespace.try_clone()?, Arc::clone(&stopped));
        let work = move || {
            for change in changes {
                if !wait(&own, begun + change.at) {
                    return;
                }
                for commands in &change.commands {
                    // A kernel without Multipath TCP has no endpoints, and an endpoint may be gone already.
                    let _ = namespace.ip(commands);
                }
            }
        };
        let thread = std::thread::Builder::new().name("signals".to_owned()).spawn(work);
        let thread = thread.map_err(|error| EmulateError::system("a thread", error))?;
        Ok(Signals { stopped, thread: Some(thread) })
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        let (stopped, condition) = &*self.stopped;
        *stopped.lock().unwrap_or_else(PoisonError::into_inner) = true;
        condition.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Waits until `until`; false if it is stopped before.
fn wait((stopped, condition): &(Mutex<bool>, Condvar), until: Instant) -> bool {
    let mut guard = stopped.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if *guard || left.is_zero() {
            return !*guard;
        }
        guard = condition.wait_timeout(guard, left).unwrap_or_else(PoisonError::into_inner).0;
    }
}
