//! Handling of Ctrl-C.

use std::sync::atomic::{AtomicBool, Ordering};

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Installs the handler. The first Ctrl-C (or SIGTERM) sets the returned flag, so that the work stops
/// cleanly; a second one ends the process immediately.
pub(crate) fn watch() -> &'static AtomicBool {
    // Without a handler, the system's default ends the process.
    let _ = ctrlc::set_handler(|| {
        if INTERRUPTED.swap(true, Ordering::Relaxed) {
            std::process::exit(130);
        }
    });
    &INTERRUPTED
}
