//! Files that are replaced in one step.

use std::io;
use std::path::Path;

/// Replaces a file in one step, and makes its directory.
pub(crate) fn replace(path: &Path, text: &str) -> io::Result<()> {
    if let Some(directory) = path.parent() {
        std::fs::create_dir_all(directory)?;
    }
    let partial = path.with_extension("partial");
    std::fs::write(&partial, text)?;
    std::fs::rename(&partial, path)
}
