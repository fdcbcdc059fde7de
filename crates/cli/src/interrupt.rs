//! Ctrl-C.

use std::sync::atomic::{AtomicBool, Ordering};

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// The first Ctrl-C (or SIGTERM) sets the flag that is returned, so that the work stops and leaves
/// nothing half done; a second one ends the process at once.
pub fn watch() -> &'static AtomicBool {
    // If there is no handler the system's own ends the process, which is as well.
    let _ = ctrlc::set_handler(|| {
        if INTERRUPTED.swap(true, Ordering::Relaxed) {
            std::process::exit(130);
        }
    });
    &INTERRUPTED
}
