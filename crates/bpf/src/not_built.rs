//! Loading in a build that cannot load.

use core::convert::Infallible;

use crate::{Counters, Error, Law, Options};

/// A law that the kernel has; there is none in this build.
#[derive(Debug)]
pub struct Loaded(Infallible);

impl Loaded {
    /// Returns the counters.
    ///
    /// # Errors
    /// None in this build.
    pub fn counters(&self) -> Result<Counters, Error> {
        match self.0 {}
    }

    /// Keeps the law loaded.
    ///
    /// # Errors
    /// None in this build.
    pub fn pin(self) -> Result<(), Error> {
        match self.0 {}
    }
}

/// Loads nothing.
///
/// # Errors
/// [`Error::NotBuilt`], always.
pub fn load(_: Law, _: &Options) -> Result<Loaded, Error> {
    Err(Error::NotBuilt)
}

/// Unloads nothing.
///
/// # Errors
/// [`Error::NotBuilt`], always.
pub fn unload(_: Law) -> Result<(), Error> {
    Err(Error::NotBuilt)
}

/// Returns the counters of a law that any command has loaded.
///
/// # Errors
/// [`Error::NotBuilt`], always.
pub fn counters(_: Law) -> Result<Counters, Error> {
    Err(Error::NotBuilt)
}

/// True if the law stays loaded without a command.
pub fn is_pinned(law: Law) -> bool {
    std::path::Path::new(crate::PINS).join(law.kernel_name()).exists()
}
