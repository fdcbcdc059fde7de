//! User-defined schedulers.

use core::fmt;
use std::sync::Arc;

use super::CustomScheduler;

/// A user-defined scheduler: its name, and a function that builds one for each connection.
///
/// Two are equal if their names are equal.
#[derive(Clone)]
pub struct CustomSchedulerKind {
    pub(super) name: Arc<str>,
    pub(super) build: Arc<dyn Fn() -> Box<dyn CustomScheduler> + Send + Sync>,
}

impl CustomSchedulerKind {
    /// Returns a kind named `name`; `build` makes its schedulers.
    pub fn new(
        name: &str,
        build: impl Fn() -> Box<dyn CustomScheduler> + Send + Sync + 'static,
    ) -> CustomSchedulerKind {
        CustomSchedulerKind { name: name.into(), build: Arc::new(build) }
    }
}

impl fmt::Debug for CustomSchedulerKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CustomSchedulerKind").field(&self.name).finish()
    }
}

impl PartialEq for CustomSchedulerKind {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}
