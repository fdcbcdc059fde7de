//! The handles of streams, listeners and hosts: while there is one, the driver runs.

use std::sync::Arc;

use super::Shared;

/// Keeps the driver alive.
#[derive(Debug)]
pub(crate) struct Handle(Arc<Shared>);

impl Handle {
    pub(crate) fn new(shared: Arc<Shared>) -> Handle {
        shared.lock().handles += 1;
        Handle(shared)
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.0
    }
}

impl Clone for Handle {
    fn clone(&self) -> Handle {
        Handle::new(Arc::clone(&self.0))
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.0.act(|core, _| {
            core.handles -= 1;
            core.stirred |= core.handles == 0;
        });
    }
}
