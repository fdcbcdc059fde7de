//! User-defined path managers.

use core::fmt;
use std::sync::Arc;

use super::{CustomPathManager, HostAddress};

/// Makes the path manager of a connection from the addresses of the host.
type Build = dyn Fn(&[HostAddress]) -> Box<dyn CustomPathManager> + Send + Sync;

/// A user-defined path manager: its name, and a function that builds one for each connection from the
/// addresses of the host.
///
/// Two are equal if their names are equal.
#[derive(Clone)]
pub struct CustomPathManagerKind {
    pub(super) name: Arc<str>,
    pub(super) build: Arc<Build>,
}

impl CustomPathManagerKind {
    /// Returns a kind named `name`; `build` makes its path managers.
    pub fn new(
        name: &str,
        build: impl Fn(&[HostAddress]) -> Box<dyn CustomPathManager> + Send + Sync + 'static,
    ) -> CustomPathManagerKind {
        CustomPathManagerKind { name: name.into(), build: Arc::new(build) }
    }
}

impl fmt::Debug for CustomPathManagerKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CustomPathManagerKind").field(&self.name).finish()
    }
}

impl PartialEq for CustomPathManagerKind {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}
