//! How runs are carried out.

use core::sync::atomic::AtomicBool;

use crate::capture::Captures;

/// The options of a comparison.
pub struct Options<'a> {
    /// The number of threads; 0 is one for each core. The result does not depend on it.
    pub jobs: usize,
    /// Set to stop the comparison.
    pub cancelled: &'a AtomicBool,
    /// Called after each run with the number of completed runs and the total.
    pub progress: &'a (dyn Fn(usize, usize) + Sync),
    /// The files for the packets of the runs number 0, if requested.
    pub captures: Option<&'a Captures>,
    /// True if a plain TCP on every single path has its own row.
    pub every_path: bool,
    /// True if a comparison without a number of runs adds runs until its intervals are narrow; false if it has the
    /// default number.
    pub in_rounds: bool,
}

impl<'a> Options<'a> {
    /// Returns the options of runs without captures, in which plain TCP has one row, and the number of runs is fixed.
    pub fn new(
        jobs: usize,
        cancelled: &'a AtomicBool,
        progress: &'a (dyn Fn(usize, usize) + Sync),
    ) -> Options<'a> {
        Options { jobs, cancelled, progress, captures: None, every_path: false, in_rounds: false }
    }
}
