//! A scheduler of a user's own.

use core::fmt;
use std::sync::Arc;

use super::CustomScheduler;

/// A scheduler of a user's own: its name, and how one is made for each connection.
///
/// Two are equal if their names are.
#[derive(Clone)]
pub struct CustomSchedulerKind {
    pub(super) name: Arc<str>,
    pub(super) build: Arc<dyn Fn() -> Box<dyn CustomScheduler> + Send + Sync>,
}

impl CustomSchedulerKind {
    /// The scheduler that `build` makes, known as `name`.
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
