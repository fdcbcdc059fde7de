//! Records each change before it is made, so that it can be undone exactly in any event.
//!
//! Each device has a file under `/run/anabranch/NETNS/`, where NETNS is the inode number of the network
//! namespace, because all namespaces share `/run`.

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::plan::Plan;
use super::step::Step;
use super::{Layout, SetupError};

/// The default directory of the files.
pub const DEFAULT_DIRECTORY: &str = "/run/anabranch";
/// The format version.
const FORMAT: u32 = 1;

/// The progress of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Not begun.
    Planned,
    /// Perhaps made: the process ended before recording it.
    Begun,
    /// Made and recorded; a removal undoes it.
    Made,
}

/// A step and its progress.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// The change to the host.
    pub step: Step,
    /// Its progress.
    pub phase: Phase,
    /// The previous value of a sysctl.
    pub before: Option<String>,
    /// The kernel's identifier of the new object, see [`Step::identity`].
    pub identity: Option<u64>,
}

/// The state of one device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    /// The format version of the file.
    pub format: u32,
    /// Identifies the current boot of the machine.
    pub boot_id: String,
    /// The intended layout.
    pub layout: Layout,
    /// The steps and their progress.
    pub records: Vec<Record>,
}

impl State {
    /// Returns the state of a plan before anything is made.
    pub fn new(plan: &Plan, boot_id: String) -> State {
        let record =
            |step: &Step| Record { step: step.clone(), phase: Phase::Planned, before: None, identity: None };
        State {
            format: FORMAT,
            boot_id,
            layout: plan.layout.clone(),
            records: plan.steps.iter().map(record).collect(),
        }
    }
}

/// The files of one network namespace, locked against changes by other processes.
#[derive(Debug)]
pub struct Store {
    directory: PathBuf,
    /// The lock, released when the file is closed.
    lock: Option<File>,
}

/// The name of the lock file.
const LOCK: &str = "lock";

/// Locks `directory`, which is created if necessary.
fn lock(directory: &Path) -> std::io::Result<File> {
    loop {
        fs::create_dir_all(directory)?;
        let path = directory.join(LOCK);
        let lock = match File::create(&path) {
            // Another process has just removed the directory.
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            lock => lock?,
        };
        rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive)?;
        // The previous holder may have removed the file, and others may hold another one by now.
        let same = |there: fs::Metadata| Ok::<_, std::io::Error>(there.ino() == lock.metadata()?.ino());
        if fs::metadata(&path).ok().map(same).transpose()? == Some(true) {
            return Ok(lock);
        }
    }
}

/// Removes `directory` if it contains only a lock file that the caller holds.
fn remove_if_empty(directory: &Path) {
    let mut names = fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.file_name());
    if names.all(|name| name == LOCK) {
        let _ = fs::remove_file(directory.join(LOCK));
        // Fails if another process has created a file meanwhile.
        let _ = fs::remove_dir(directory);
    }
}

/// Removes the remains of killed processes under `root`: directories of other network namespaces that contain
/// only a lock file that no process holds. Recorded devices are kept, since a namespace may exist without a
/// process.
fn remove_leftovers(root: &Path) {
    for entry in fs::read_dir(root).into_iter().flatten().flatten() {
        let directory = entry.path();
        // Each directory is named after a namespace.
        if entry.file_name().to_str().is_none_or(|name| name.parse::<u64>().is_err()) {
            continue;
        }
        if let Ok(lock) = File::open(directory.join(LOCK))
            && rustix::fs::flock(&lock, rustix::fs::FlockOperation::NonBlockingLockExclusive).is_ok()
        {
            remove_if_empty(&directory);
        }
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        if self.lock.is_some() {
            remove_if_empty(&self.directory);
        }
    }
}

impl Store {
    /// Opens the files under `root` for changes; waits until no other process holds the lock.
    ///
    /// # Errors
    ///
    /// The directory cannot be created or locked.
    pub fn open(root: &Path) -> Result<Store, SetupError> {
        let directory = directory(root)?;
        let failed = |error: std::io::Error| {
            SetupError::Failed(format!(
                "cannot write {}: {error}; give another directory with --state-dir",
                root.display()
            ))
        };
        remove_leftovers(root);
        let lock = lock(&directory).map_err(failed)?;
        Ok(Store { directory, lock: Some(lock) })
    }

    /// Opens the files to read them.
    ///
    /// # Errors
    ///
    /// This process's network namespace is unknown.
    pub fn read_only(root: &Path) -> Result<Store, SetupError> {
        Ok(Store { directory: directory(root)?, lock: None })
    }

    /// Returns the file of a device.
    pub fn path(&self, device: &str) -> PathBuf {
        self.directory.join(format!("{device}.json"))
    }

    /// Returns a file that is not a device's.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// Returns the recorded state of a device; none if there is none.
    ///
    /// # Errors
    ///
    /// The file cannot be read or parsed.
    pub fn load(&self, device: &str) -> Result<Option<State>, SetupError> {
        let path = self.path(device);
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(SetupError::Failed(format!("cannot read {}: {error}", path.display()))),
        };
        let state: State = serde_json::from_str(&text).map_err(|error| {
            SetupError::Failed(format!(
                "{} cannot be parsed ({error}): another version of anabranch wrote it, or it was changed; to \
                 undo the setup by hand, see docs/setup.md",
                path.display()
            ))
        })?;
        if state.format != FORMAT {
            return Err(SetupError::Failed(format!(
                "{} has format {}, and this is anabranch {} with format {FORMAT}; undo it with the version that made it",
                path.display(),
                state.format,
                env!("CARGO_PKG_VERSION")
            )));
        }
        Ok(Some(state))
    }

    /// Returns the names of all recorded devices.
    pub fn devices(&self) -> Vec<String> {
        let Ok(entries) = fs::read_dir(&self.directory) else { return Vec::new() };
        let name = |entry: std::io::Result<fs::DirEntry>| {
            entry.ok()?.file_name().to_str()?.strip_suffix(".json").map(str::to_owned)
        };
        let mut names: Vec<String> = entries.filter_map(name).collect();
        names.sort();
        names
    }

    /// Writes the state atomically.
    ///
    /// # Errors
    ///
    /// The file cannot be written.
    pub fn save(&self, state: &State) -> Result<(), SetupError> {
        let path = self.path(&state.layout.device);
        let new = path.with_extension("new");
        let write = || -> std::io::Result<()> {
            let text = serde_json::to_string_pretty(state).map_err(std::io::Error::other)?;
            let mut file = File::create(&new)?;
            file.write_all(text.as_bytes())?;
            fs::rename(&new, &path)
        };
        write().map_err(|error| SetupError::Failed(format!("cannot write {}: {error}", path.display())))
    }

    /// Removes the state of the device.
    ///
    /// # Errors
    ///
    /// The file cannot be removed.
    pub fn forget(&self, device: &str) -> Result<(), SetupError> {
        let path = self.path(device);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(SetupError::Failed(format!("cannot remove {}: {error}", path.display())))
            }
            _ => Ok(()),
        }
    }
}

fn directory(root: &Path) -> Result<PathBuf, SetupError> {
    let namespace = fs::metadata("/proc/thread-self/ns/net").map_err(|error| {
        SetupError::Failed(format!(
            "cannot identify this network namespace (/proc/thread-self/ns/net): {error}"
        ))
    })?;
    Ok(root.join(namespace.ino().to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(directory: &Path) -> Vec<String> {
        let entries = fs::read_dir(directory).into_iter().flatten().flatten();
        let mut names: Vec<String> =
            entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort();
        names
    }

    #[test]
    fn locks_that_nobody_holds_are_removed_and_others_stay() {
        let root = std::env::temp_dir().join(format!("anabranch-state-{}", std::process::id()));
        let of = |name: &str| root.join(name);
        for name in ["1", "2", "3"] {
            fs::create_dir_all(of(name)).unwrap();
            fs::write(of(name).join(LOCK), "").unwrap();
        }
        fs::create_dir_all(of("other")).unwrap();
        fs::write(of("2/tun0.json"), "{}").unwrap();
        let held = lock(&of("3")).unwrap();
        let store = Store::open(&root).unwrap();
        let own = store.directory.file_name().unwrap().to_str().unwrap().to_owned();
        let mut expected = vec!["2".to_owned(), "3".to_owned(), own, "other".to_owned()];
        expected.sort();
        assert_eq!(names(&root), expected);
        assert_eq!(
            (names(&of("2")), names(&store.directory)),
            (vec!["lock".into(), "tun0.json".into()], vec!["lock".into()])
        );
        let directory = store.directory.clone();
        drop((store, held));
        assert!(!directory.exists());
        // A process that waited for a removed lock takes another.
        assert!(lock(&directory).is_ok());
        fs::remove_dir_all(&root).unwrap();
    }
}
