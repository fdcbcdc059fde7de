//! Files that are complete or absent.
//!
//! A killed process leaves its temporary file. Each is locked while its process lives, so that the next
//! process that writes to the same directory can detect stale ones and remove them.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

/// The prefix and the suffix of temporary files.
const PREFIX: &str = ".anabranch-";
const SUFFIX: &str = ".partial";

/// A file that is renamed only when it is complete: until then it has a temporary name in the same directory,
/// and it is removed if it is never renamed. A device or a pipe is written directly, and never replaced.
#[derive(Debug)]
pub struct WholeFile {
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    /// A temporary file, and its final name.
    Temporary(tempfile::NamedTempFile, PathBuf),
    /// A device or a pipe.
    Special(File),
}

impl WholeFile {
    /// Creates the file that will become `path`.
    ///
    /// # Errors
    /// If it cannot be created: `path` is a directory, it or its directory is not writable, or it is an input of the
    /// command.
    pub fn create(path: &Path) -> io::Result<WholeFile> {
        crate::guard::refuse(path)?;
        let mut target = path.to_owned();
        match std::fs::metadata(path) {
            Ok(metadata) if metadata.is_dir() => {
                return Err(io::Error::new(
                    io::ErrorKind::IsADirectory,
                    "it is a directory; give the name of a file in it",
                ));
            }
            Ok(metadata) if !metadata.is_file() => {
                let kind = Kind::Special(OpenOptions::new().write(true).open(path)?);
                return Ok(WholeFile { kind });
            }
            // A file that is not writable is not replaced either.
            Ok(_) => {
                drop(OpenOptions::new().write(true).open(path)?);
                // The target of a link is replaced, not the link.
                target = std::fs::canonicalize(path)?;
            }
            Err(_) => {}
        }
        let directory = target.parent().filter(|parent| !parent.as_os_str().is_empty());
        let directory = directory.unwrap_or(Path::new("."));
        #[cfg(unix)]
        leftovers::remove(directory);
        let mut builder = tempfile::Builder::new();
        builder.prefix(PREFIX).suffix(SUFFIX);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            // As for any new file; the process's umask is applied.
            builder.permissions(std::fs::Permissions::from_mode(0o666));
        }
        let make =
            || builder.tempfile_in(directory).map_err(|error| without_temporary_name(&error, directory));
        let file = make()?;
        // Between creation and locking another process may have removed it.
        #[cfg(unix)]
        let file = {
            let mut file = file;
            while !leftovers::lock(file.as_file()) {
                file = make()?;
            }
            file
        };
        Ok(WholeFile { kind: Kind::Temporary(file, target) })
    }

    /// Returns the file for writing.
    pub fn file(&self) -> &File {
        match &self.kind {
            Kind::Temporary(file, _) => file.as_file(),
            Kind::Special(file) => file,
        }
    }

    /// Renames the file.
    ///
    /// # Errors
    /// If it cannot be renamed; it is removed then.
    pub fn commit(self) -> io::Result<()> {
        match self.kind {
            Kind::Temporary(file, target) => file.persist(target).map(drop).map_err(|error| error.error),
            Kind::Special(_) => Ok(()),
        }
    }
}

/// Returns the error of a file that could not be created in `directory`, without the temporary name, which
/// would not help a user.
fn without_temporary_name(error: &io::Error, directory: &Path) -> io::Error {
    let kind = error.kind();
    if kind == io::ErrorKind::NotFound || kind == io::ErrorKind::NotADirectory {
        return io::Error::new(kind, format!("there is no directory {}", directory.display()));
    }
    let inner =
        error.get_ref().and_then(|error| error.source()).and_then(|error| error.downcast_ref::<io::Error>());
    match inner.or(Some(error)).and_then(io::Error::raw_os_error) {
        Some(code) => io::Error::from_raw_os_error(code),
        None => kind.into(),
    }
}

#[cfg(unix)]
mod leftovers {
    use std::fs::File;
    use std::os::unix::fs::MetadataExt as _;
    use std::path::Path;

    use rustix::fs::{CWD, FlockOperation, Mode, OFlags, flock};

    use super::{PREFIX, SUFFIX};

    /// Locks a temporary file. False if it was removed. On a file system without locks temporary files are
    /// kept.
    pub(super) fn lock(file: &File) -> bool {
        // Another process holds the lock only while it removes the file.
        let _ = flock(file, FlockOperation::LockExclusive);
        file.metadata().is_ok_and(|metadata| metadata.nlink() > 0)
    }

    /// Removes the temporary files in `directory` that no process has locked.
    pub(super) fn remove(directory: &Path) {
        for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let ours = |name: &str| name.starts_with(PREFIX) && name.ends_with(SUFFIX);
            if !name.to_str().is_some_and(ours) || !entry.file_type().is_ok_and(|kind| kind.is_file()) {
                continue;
            }
            let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let Ok(file) = rustix::fs::openat(CWD, entry.path(), flags, Mode::empty()) else { continue };
            if flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok() {
                let _ = std::fs::remove_file(entry.path());
            }
        }
    }
}

/// The number of bytes of a name that is a part of the name of a file: file systems take 255 for the whole.
const MOST_BYTES: usize = 80;

/// Returns `name`, of a contender or a condition, as a part of the name of a file: other characters than letters, digits and
/// some signs become `_`, and a long name is cut and gets a digest, so that two long names stay different.
pub fn part_of_name(name: &str) -> String {
    let plain = |c: char| if c.is_alphanumeric() || "=%.@+-_".contains(c) { c } else { '_' };
    let mut text: String = name.chars().map(plain).collect();
    if text.len() > MOST_BYTES {
        let digest = crate::scenario::sha256(name.as_bytes());
        let mut end = MOST_BYTES - 9;
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text.truncate(end);
        text.push('-');
        text.push_str(&digest[..8]);
    }
    text
}

/// Writes `bytes` to `path` completely, or leaves the file as it was.
///
/// # Errors
/// If writing fails.
pub fn write(path: &Path, bytes: impl AsRef<[u8]>) -> io::Result<()> {
    let whole = WholeFile::create(path)?;
    whole.file().write_all(bytes.as_ref())?;
    whole.commit()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_its_name_when_it_is_whole() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("name");
        let begun = WholeFile::create(&path).unwrap();
        begun.file().write_all(b"half").unwrap();
        assert!(!path.exists());
        drop(begun);
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);

        write(&path, "first").unwrap();
        let link = directory.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        write(&link, "second").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "second");
        assert!(link.is_symlink());
        assert_eq!(write(directory.path(), "").unwrap_err().kind(), io::ErrorKind::IsADirectory);
        let missing = directory.path().join("missing");
        let error = write(&missing.join("name"), "").unwrap_err();
        assert_eq!(error.to_string(), format!("there is no directory {}", missing.display()));
        // No user may create files there, including root.
        let error = write(Path::new("/proc/name"), "").unwrap_err().to_string();
        assert!(!error.contains(PREFIX), "{error}");
    }

    #[test]
    fn long_names_are_cut_and_stay_different() {
        assert_eq!(part_of_name("loss=1% a/b"), "loss=1%_a_b");
        let long = |end: &str| part_of_name(&format!("{}{end}", "µ".repeat(300)));
        assert!(long("a").len() <= MOST_BYTES);
        assert_ne!(long("a"), long("b"));
    }

    #[cfg(unix)]
    #[test]
    fn what_a_killed_process_has_left_is_removed_and_what_a_live_one_has_stays() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        std::fs::write(path(".anabranch-stale1.partial"), "half").unwrap();
        std::fs::write(path(".anabranch-other"), "mine").unwrap();
        std::fs::write(path("other.partial"), "mine").unwrap();
        std::os::unix::fs::symlink("other.partial", path(".anabranch-link.partial")).unwrap();
        let names = || {
            let mut names: Vec<_> = std::fs::read_dir(directory.path())
                .unwrap()
                .map(|entry| entry.unwrap().file_name().into_string().unwrap())
                .collect();
            names.sort();
            names
        };
        let first = WholeFile::create(&path("first")).unwrap();
        let second = WholeFile::create(&path("second")).unwrap();
        first.file().write_all(b"1").unwrap();
        assert!(!names().contains(&".anabranch-stale1.partial".to_owned()));
        // The partial files of `first` and `second`, and three files that are no leftovers.
        assert_eq!(names().len(), 5, "{:?}", names());
        first.commit().unwrap();
        second.commit().unwrap();
        assert_eq!(
            names(),
            [".anabranch-link.partial", ".anabranch-other", "first", "other.partial", "second"]
        );
    }

    #[test]
    fn devices_and_pipes_are_written_to_and_stay_what_they_are() {
        use std::os::unix::fs::FileTypeExt as _;
        // Through a link, so that a mistake replaces the link and not the machine's device.
        let directory = tempfile::tempdir().unwrap();
        let null = directory.path().join("null");
        std::os::unix::fs::symlink("/dev/null", &null).unwrap();
        write(&null, "gone").unwrap();
        assert!(std::fs::metadata(&null).unwrap().file_type().is_char_device());
        assert!(null.is_symlink());
        let full = directory.path().join("full");
        std::os::unix::fs::symlink("/dev/full", &full).unwrap();
        assert_eq!(write(&full, "no room").unwrap_err().kind(), io::ErrorKind::StorageFull);
    }
}
