//! User-defined congestion controls.

use core::fmt;
use std::sync::Arc;

use super::{Classic, CustomCongestion, WindowRule};

/// A user-defined congestion control: its name, and a function that builds one for each connection.
///
/// Two are equal if their names are equal.
#[derive(Clone)]
pub struct CustomCongestionKind {
    pub(super) name: Arc<str>,
    pub(super) coupled: bool,
    pub(super) build: Arc<dyn Fn() -> Box<dyn CustomCongestion> + Send + Sync>,
}

impl CustomCongestionKind {
    /// Returns a kind named `name`; `build` makes its congestion controls.
    pub fn new(
        name: &str,
        coupled: bool,
        build: impl Fn() -> Box<dyn CustomCongestion> + Send + Sync + 'static,
    ) -> CustomCongestionKind {
        CustomCongestionKind { name: name.into(), coupled, build: Arc::new(build) }
    }
}

impl fmt::Debug for CustomCongestionKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CustomCongestionKind").field(&self.name).finish()
    }
}

impl PartialEq for CustomCongestionKind {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name && self.coupled == other.coupled
    }
}

/// A rule of one's own in the common frame of window-based controls.
impl<R: WindowRule + Send + 'static> CustomCongestion for Classic<R> {
    fn clone_box(&self) -> Box<dyn CustomCongestion> {
        Box::new(self.clone())
    }
}
