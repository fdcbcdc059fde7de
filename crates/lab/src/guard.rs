//! No output of a command is one of its inputs.
//!
//! A command declares its inputs as it learns of them, with [`protect`], and the files that its options name as outputs
//! when it begins. Every file that is written is a [`WholeFile`](crate::whole_file::WholeFile), which [`refuse`]s an
//! input. Files are compared by identity and not by name: a link, a hard link or another spelling is the same file.
//!
//! Only the command has a guard. A program that uses this crate may read a file first and replace it later.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// The guard of the command that runs; none outside of one.
static GUARD: Mutex<Option<Guard>> = Mutex::new(None);

#[derive(Debug, Default)]
struct Guard {
    inputs: Vec<Identity>,
    outputs: Vec<(Identity, PathBuf)>,
}

/// The identity of a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Identity {
    /// The device and the number of an existing file.
    #[cfg(unix)]
    File(u64, u64),
    /// The directory and the name: of a file that does not exist yet, or on a system without such numbers.
    Place(PathBuf, OsString),
}

impl Identity {
    /// Returns the identity of a regular file, or of one that does not exist; none of devices, pipes and directories.
    pub fn of(path: &Path) -> Option<Identity> {
        match std::fs::metadata(path) {
            Ok(metadata) if !metadata.is_file() => return None,
            #[cfg(unix)]
            Ok(metadata) => {
                use std::os::unix::fs::MetadataExt as _;
                return Some(Identity::File(metadata.dev(), metadata.ino()));
            }
            _ => {}
        }
        let path = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let directory = std::fs::canonicalize(directory.unwrap_or(Path::new("."))).ok()?;
        Some(Identity::Place(directory, path.file_name()?.to_owned()))
    }
}

fn is_input(error: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, error)
}

/// Begins a command that will write `outputs`, and has no inputs yet.
pub fn begin(outputs: &[&Path]) {
    let outputs = outputs.iter().filter_map(|path| Some((Identity::of(path)?, (*path).to_owned()))).collect();
    *GUARD.lock().unwrap_or_else(PoisonError::into_inner) = Some(Guard { inputs: Vec::new(), outputs });
}

/// Declares `path` as an input of the command: an existing file, or a directory with all its files.
///
/// # Errors
/// If an output of the command is this file.
pub fn protect(path: &Path) -> io::Result<()> {
    let mut guard = GUARD.lock().unwrap_or_else(PoisonError::into_inner);
    match &mut *guard {
        Some(guard) => guard.protect(path, 0),
        None => Ok(()),
    }
}

/// The number of levels of directories with input files: a recording has one directory for each run.
const DEEPEST: usize = 2;

impl Guard {
    fn protect(&mut self, path: &Path, depth: usize) -> io::Result<()> {
        if path.is_dir() {
            if depth > DEEPEST || self.outputs.is_empty() {
                return Ok(());
            }
            for entry in std::fs::read_dir(path).into_iter().flatten().flatten() {
                // A link may lead to a directory around this one.
                if depth == 0 || !entry.file_type().is_ok_and(|kind| kind.is_symlink()) {
                    self.protect(&entry.path(), depth + 1)?;
                }
            }
            return Ok(());
        }
        let Some(identity) = Identity::of(path).filter(|_| path.exists()) else { return Ok(()) };
        if let Some((_, output)) = self.outputs.iter().find(|output| output.0 == identity) {
            let name = match output == path {
                true => output.display().to_string(),
                false => format!("{} is {}, which", output.display(), path.display()),
            };
            return Err(is_input(&format!(
                "{name} is an input of this command; choose another file for the result"
            )));
        }
        if !self.inputs.contains(&identity) {
            self.inputs.push(identity);
        }
        Ok(())
    }
}

/// Refuses to write `path` if it is an input of the command.
///
/// # Errors
/// If it is one.
pub fn refuse(path: &Path) -> io::Result<()> {
    let guard = GUARD.lock().unwrap_or_else(PoisonError::into_inner);
    let inputs = guard.as_ref().map_or(&[][..], |guard| &guard.inputs);
    match !inputs.is_empty() && Identity::of(path).is_some_and(|identity| inputs.contains(&identity)) {
        true => Err(is_input("it is an input of this command; choose another file for the result")),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(unix)]
    fn a_file_is_the_same_by_every_name() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        std::fs::create_dir(path("d")).unwrap();
        assert_eq!(Identity::of(&path("new")), Identity::of(&path("d/../new")));
        assert_ne!(Identity::of(&path("new")), Identity::of(&path("other")));
        std::fs::write(path("file"), "").unwrap();
        std::fs::hard_link(path("file"), path("hard")).unwrap();
        std::os::unix::fs::symlink("file", path("link")).unwrap();
        for name in ["hard", "link", "d/../file"] {
            assert_eq!(Identity::of(&path("file")), Identity::of(&path(name)), "{name}");
        }
        assert_eq!(Identity::of(Path::new("/dev/null")), None);
    }

    #[test]
    fn an_input_is_refused_as_an_output_in_either_order() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        for name in ["a", "b"] {
            std::fs::write(path(name), name).unwrap();
        }
        let mut guard =
            Guard { inputs: Vec::new(), outputs: vec![(Identity::of(&path("a")).unwrap(), path("a"))] };
        guard.protect(&path("b"), 0).unwrap();
        let error = guard.protect(&path("a"), 0).unwrap_err().to_string();
        assert!(error.contains("an input of this command"), "{error}");
        // All files of a directory are inputs.
        assert!(guard.protect(directory.path(), 0).is_err());
        assert_eq!(guard.inputs, [Identity::of(&path("b")).unwrap()]);
    }
}
