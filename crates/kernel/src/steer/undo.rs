//! The host's own path manager: what was changed, and undoing it, after a kill too.

use std::fs::File;
use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use crate::error::KernelError;

/// The settings that choose the path manager of new connections: the key, the value of the user-space one, and the
/// first kernel with it.
const SETTINGS: [(&str, &str); 2] = [("net/mptcp/path_manager", "userspace"), ("net/mptcp/pm_type", "1")];
const ENABLED: &str = "net/mptcp/enabled";

/// A setting that was changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Changed {
    key: String,
    before: String,
}

/// The path manager of new connections in this network namespace, which is the user-space one until this is dropped.
pub(super) struct Taken {
    changed: Option<Changed>,
    file: PathBuf,
    _lock: OwnedFd,
}

fn system(path: &Path, error: std::io::Error) -> KernelError {
    KernelError::system(path.display().to_string(), error)
}

fn setting(key: &str) -> PathBuf {
    Path::new("/proc/sys").join(key)
}

/// Returns the value of a setting; none if this kernel does not have it.
fn read(key: &str) -> Result<Option<String>, KernelError> {
    let path = setting(key);
    match std::fs::read_to_string(&path) {
        Ok(text) => Ok(Some(text.trim().to_owned())),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(system(&path, error)),
    }
}

/// Returns the setting of the path manager, its value for the user-space one, and its value now.
fn manager() -> Result<(&'static str, &'static str, String), KernelError> {
    for (key, ours) in SETTINGS {
        if let Some(now) = read(key)? {
            return Ok((key, ours, now));
        }
    }
    Err(KernelError::NoMptcp(
        "this kernel has no path manager in user space (net.mptcp.pm_type); Linux 5.19 and later have"
            .to_owned(),
    ))
}

/// Checks that Multipath TCP is there and on.
///
/// # Errors
/// [`KernelError::NoMptcp`] with the remedy.
pub fn check() -> Result<(), KernelError> {
    match read(ENABLED)?.as_deref() {
        None => Err(KernelError::NoMptcp(
            "this kernel has no Multipath TCP (CONFIG_MPTCP); the kernels of Debian 11, Ubuntu 22.04, Fedora 33 and \
             later have"
                .to_owned(),
        )),
        Some("0") => Err(KernelError::NoMptcp(
            "Multipath TCP is off in this network namespace: sysctl -w net.mptcp.enabled=1".to_owned(),
        )),
        Some(_) => manager().map(drop),
    }
}

/// Returns the number of this thread's network namespace, which is part of the names of files.
///
/// # Errors
/// If /proc cannot be read.
pub fn namespace() -> Result<u64, KernelError> {
    let path = Path::new("/proc/thread-self/ns/net");
    let stat = rustix::fs::stat(path).map_err(|error| system(path, error.into()))?;
    Ok(stat.st_ino)
}

impl Taken {
    /// Makes the user-space path manager the one of new connections. A value that a killed process has left in
    /// `directory` is the one to which the setting returns.
    ///
    /// # Errors
    /// If another process has done so, the kernel has no such setting, or the process may not change it.
    pub(super) fn take(directory: &Path) -> Result<Taken, KernelError> {
        std::fs::create_dir_all(directory).map_err(|error| system(directory, error))?;
        let name = format!("steer-{}", namespace()?);
        let lock = directory.join(format!("{name}.lock"));
        let opened = File::options().create(true).truncate(false).write(true).open(&lock);
        let opened = OwnedFd::from(opened.map_err(|error| system(&lock, error))?);
        flock(&opened, FlockOperation::NonBlockingLockExclusive).map_err(|_| {
            KernelError::NotPermitted(
                "another `anabranch kernel steer` runs in this network namespace; end it first".to_owned(),
            )
        })?;
        let file = directory.join(format!("{name}.json"));
        let left = std::fs::read_to_string(&file).ok().and_then(|text| serde_json::from_str(&text).ok());
        let (key, ours, now) = manager()?;
        let before = match left {
            Some(Changed { key: old, before }) if old == key => before,
            _ => now.clone(),
        };
        let changed = Changed { key: key.to_owned(), before };
        let text = serde_json::to_string(&changed).unwrap_or_default();
        std::fs::write(&file, text).map_err(|error| system(&file, error))?;
        let taken = Taken { changed: Some(changed), file, _lock: opened };
        if now != ours {
            let path = setting(key);
            std::fs::write(&path, ours).map_err(|error| system(&path, error))?;
        }
        Ok(taken)
    }

    /// Returns the setting and the value to which it returns.
    pub(super) fn before(&self) -> Option<(String, &str)> {
        self.changed.as_ref().map(|changed| (changed.key.replace('/', "."), changed.before.as_str()))
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        let Some(changed) = self.changed.take() else { return };
        // A change by another program since then stays.
        let is_ours = manager().is_ok_and(|(key, ours, now)| key == changed.key && now == ours);
        if is_ours && std::fs::write(setting(&changed.key), &changed.before).is_err() {
            // The file stays, for the next start.
            return;
        }
        let _ = std::fs::remove_file(&self.file);
    }
}
