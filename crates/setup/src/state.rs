//! What was made, written down before it is made, so that whatever happens it can be undone exactly.
//!
//! A file for each device under `/run/anabranch/NETNS/`, where NETNS is the inode number of the network
//! namespace, as `/run` is shared by all of them.

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::plan::Plan;
use super::step::Step;
use super::{Layout, SetupError};

/// Where the files are unless another place is given.
pub const DEFAULT_DIRECTORY: &str = "/run/anabranch";
/// Changes when an older anabranch could not read the file any more.
const FORMAT: u32 = 1;

/// How far a step has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Not begun.
    Planned,
    /// Perhaps made: whoever made it did not live to say so.
    Begun,
    /// Made.
    Made,
}

/// A step and what became of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// What it is.
    pub step: Step,
    /// How far it is.
    pub phase: Phase,
    /// The value that a switch had before.
    pub before: Option<String>,
    /// What the kernel calls what was made, see [`Step::identity`].
    pub identity: Option<u64>,
}

/// The state of one device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    /// Of the file.
    pub format: u32,
    /// Names the time since the machine was started.
    pub boot_id: String,
    /// What was to be made.
    pub layout: Layout,
    /// And what was made of it.
    pub records: Vec<Record>,
}

impl State {
    /// Nothing of `plan` is made yet.
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

/// The files of one network namespace, which nobody else changes meanwhile.
#[derive(Debug)]
pub struct Store {
    directory: PathBuf,
    /// Held, not read: closing it opens the lock.
    lock: Option<File>,
}

/// The name of the file that is locked.
const LOCK: &str = "lock";

/// Locks the files in `directory`, which is made unless it is there.
fn lock(directory: &Path) -> std::io::Result<File> {
    loop {
        fs::create_dir_all(directory)?;
        let path = directory.join(LOCK);
        let lock = match File::create(&path) {
            // Somebody has just removed the directory.
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            lock => lock?,
        };
        rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive)?;
        // Who held it before may have removed it, and others may lock another one by now.
        let same = |there: fs::Metadata| Ok::<_, std::io::Error>(there.ino() == lock.metadata()?.ino());
        if fs::metadata(&path).ok().map(same).transpose()? == Some(true) {
            return Ok(lock);
        }
    }
}

/// Removes `directory` if it has nothing but a lock, which the caller has locked.
fn remove_if_empty(directory: &Path) {
    let mut names = fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.file_name());
    if names.all(|name| name == LOCK) {
        let _ = fs::remove_file(directory.join(LOCK));
        // Fails if somebody has made another file meanwhile.
        let _ = fs::remove_dir(directory);
    }
}

/// Removes what processes that were killed have left under `root`: directories of other network namespaces that have
/// nothing but a lock, which nobody holds. What is written down of a device stays, since a namespace may be alive without
/// a process.
fn remove_leftovers(root: &Path) {
    for entry in fs::read_dir(root).into_iter().flatten().flatten() {
        let directory = entry.path();
        // Each is named after a namespace.
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
    /// Opens the files under `root` to change them; waits until nobody else does.
    ///
    /// # Errors
    ///
    /// The directory cannot be made or locked.
    pub fn open(root: &Path) -> Result<Store, SetupError> {
        let directory = directory(root)?;
        let failed = |error: std::io::Error| {
            SetupError::Failed(format!(
                "cannot write {}: {error}; give another place with --state-dir",
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

    /// The file of a device.
    pub fn path(&self, device: &str) -> PathBuf {
        self.directory.join(format!("{device}.json"))
    }

    /// What is known of a device; none if nothing is.
    ///
    /// # Errors
    ///
    /// The file cannot be read or understood.
    pub fn load(&self, device: &str) -> Result<Option<State>, SetupError> {
        let path = self.path(device);
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(SetupError::Failed(format!("cannot read {}: {error}", path.display()))),
        };
        let state: State = serde_json::from_str(&text).map_err(|error| {
            SetupError::Failed(format!(
                "{} is not understood ({error}): another version of anabranch wrote it, or somebody changed it; \
                 what it was about can be undone by hand, see docs/setup.md",
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

    /// The names of all devices of which something is known.
    pub fn devices(&self) -> Vec<String> {
        let Ok(entries) = fs::read_dir(&self.directory) else { return Vec::new() };
        let name = |entry: std::io::Result<fs::DirEntry>| {
            entry.ok()?.file_name().to_str()?.strip_suffix(".json").map(str::to_owned)
        };
        let mut names: Vec<String> = entries.filter_map(name).collect();
        names.sort();
        names
    }

    /// Writes what is known, as a whole or not at all.
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

    /// Nothing is known of the device any more.
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
        SetupError::Failed(format!("cannot tell this network namespace (/proc/thread-self/ns/net): {error}"))
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
        // Whoever has waited for a lock that is gone takes another.
        assert!(lock(&directory).is_ok());
        fs::remove_dir_all(&root).unwrap();
    }
}
