//! Finds and removes the remains of killed runs.
//!
//! Namespaces have no names and devices belong to descriptors, so they disappear with their last process;
//! commands are killed with the process that started them (`PR_SET_PDEATHSIG`). A process started by a
//! command may remain. Each run therefore records its namespaces in a file that it keeps locked, and
//! identifies itself in the environment of its commands. The next run reads the files that are not locked,
//! and kills the processes that are in these namespaces *and* have that environment; no others.

use std::fs::{File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};

use crate::error::EmulateError;

/// The environment variable that identifies the run of a command.
pub(crate) const VARIABLE: &str = "ANABRANCH_EMULATION";

/// The file name extension of a record.
const EXTENSION: &str = "run";

/// The record of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Written {
    token: String,
    boot_id: String,
    namespaces: Vec<u64>,
}

/// The record of this run, locked while this lives, and then removed.
#[derive(Debug)]
pub(crate) struct Record {
    path: PathBuf,
    token: String,
    // Holds the lock.
    _file: File,
}

impl Record {
    /// Records that this process has these namespaces.
    pub(crate) fn new(namespaces: &[u64]) -> Result<Record, EmulateError> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let directory = directory()?;
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let token = format!("{}-{}-{number}", std::process::id(), start_time());
        let written = Written { token: token.clone(), boot_id: boot_id(), namespaces: namespaces.to_vec() };
        let (new, path) =
            (directory.join(format!("{token}.new")), directory.join(format!("{token}.{EXTENSION}")));
        let failed = |error: std::io::Error| EmulateError::system(path.display(), error);
        let mut file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&new)
            .map_err(failed)?;
        // Renamed only once it is locked, or another run might regard it as stale.
        flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(|errno| failed(errno.into()))?;
        let text = serde_json::to_vec(&written).map_err(|error| failed(error.into()))?;
        file.write_all(&text).and_then(|()| std::fs::rename(&new, &path)).map_err(failed)?;
        Ok(Record { path, token, _file: file })
    }

    /// Returns the value of [`VARIABLE`] for its commands.
    pub(crate) fn token(&self) -> &str {
        &self.token
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Returns the directory of the records: under `/run` for root, otherwise in the directory of temporary
/// files.
fn directory() -> Result<PathBuf, EmulateError> {
    let uid = rustix::process::geteuid().as_raw();
    let own = PathBuf::from("/run/anabranch-emulate");
    // Root of a user namespace may not write there.
    let candidates = [own, std::env::temp_dir().join(format!("anabranch-emulate-{}", outer(uid)))];
    let mut problem = String::new();
    for path in candidates {
        let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&path);
        let usable = made.map_err(|error| error.to_string()).and_then(|()| usable(&path, uid));
        match usable {
            Ok(()) => return Ok(path),
            Err(error) => problem = format!("{}: {error}", path.display()),
        }
    }
    Err(EmulateError::Failed(format!("no directory for the records of runs: {problem}")))
}

/// Returns the user id outside of this user namespace that corresponds to `uid`.
fn outer(uid: u32) -> u32 {
    let map = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    let numbers = |line: &str| {
        let mut words = line.split_whitespace().map(|word| word.parse::<u32>().ok());
        Some((words.next()??, words.next()??, words.next()??))
    };
    let mut ranges = map.lines().filter_map(numbers);
    let range = ranges.find(|(inside, _, count)| uid >= *inside && uid - inside < *count);
    range.map_or(uid, |(inside, outside, _)| uid - inside + outside)
}

/// Checks that `path` is a directory of this user: one that another user has made is not trusted.
fn usable(path: &Path, uid: u32) -> Result<(), String> {
    let metadata = std::fs::symlink_metadata(path).map_err(|error| error.to_string())?;
    if !metadata.is_dir() || metadata.uid() != uid || metadata.mode() & 0o022 != 0 {
        return Err("it belongs to another user, or others may write there".to_owned());
    }
    rustix::fs::access(path, rustix::fs::Access::WRITE_OK).map_err(|error| error.to_string())
}

/// Removes the remains of runs after their process has ended. Returns the actions, one line each.
///
/// # Errors
/// If the records cannot be read.
pub fn clear() -> Result<Vec<String>, EmulateError> {
    clear_in(&directory()?)
}

fn clear_in(directory: &Path) -> Result<Vec<String>, EmulateError> {
    let mut done = Vec::new();
    let failed = |error: std::io::Error| EmulateError::system(directory.display(), error);
    for entry in std::fs::read_dir(directory).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.extension().is_none_or(|extension| extension != EXTENSION) {
            continue;
        }
        let Ok(mut file) = File::open(&path) else { continue };
        if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
            // Its run is active.
            continue;
        }
        let mut text = String::new();
        let written: Option<Written> =
            file.read_to_string(&mut text).ok().and_then(|_| serde_json::from_str(&text).ok());
        let Some(written) = written else {
            done.push(format!("{} is not a record of a run; left alone", path.display()));
            continue;
        };
        if written.boot_id == boot_id() {
            let killed = kill_members(&written.namespaces, Some(&written.token));
            for process in killed {
                done.push(format!("killed {process}, left over from a run that has ended"));
            }
        }
        let _ = std::fs::remove_file(&path);
    }
    Ok(done)
}

/// Kills the processes in these namespaces, all of them or only the processes of the run `token`, until none is
/// left, and returns their names. Without a token the namespaces must exist, as their numbers are reused.
pub(crate) fn kill_members(namespaces: &[u64], token: Option<&str>) -> Vec<String> {
    let deadline = Instant::now() + PATIENCE;
    let mut killed: Vec<String> = Vec::new();
    loop {
        let mut found = false;
        for pid in processes() {
            let Some(handle) = Pid::from_raw(pid).filter(|_| pid as u32 != std::process::id()) else {
                continue;
            };
            // The information read below is of the process of the descriptor, or of none.
            let Ok(pidfd) = pidfd_open(handle, PidfdFlags::empty()) else { continue };
            match membership(pid, namespaces, token) {
                Membership::Member => {}
                Membership::Foreign => continue,
                Membership::Unknown => {
                    found = true;
                    continue;
                }
            }
            let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
            let name = format!("{} ({pid})", name.trim());
            if pidfd_send_signal(&pidfd, Signal::KILL).is_ok() {
                found = true;
                if !killed.contains(&name) {
                    killed.push(name);
                }
            }
        }
        if !found || Instant::now() > deadline {
            return killed;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// The longest time that killed processes may take to end.
const PATIENCE: Duration = Duration::from_secs(2);

fn processes() -> Vec<i32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// Whether a process belongs to a run.
enum Membership {
    Member,
    Foreign,
    /// It is in the run's namespaces and has no environment, for example during exec. (The kernel's own
    /// threads have neither an environment nor a program.)
    Unknown,
}

fn membership(pid: i32, namespaces: &[u64], token: Option<&str>) -> Membership {
    // Zombies have none.
    let Ok(link) = std::fs::read_link(format!("/proc/{pid}/ns/net")) else { return Membership::Foreign };
    let number = link.to_str().and_then(|text| text.strip_prefix("net:[")?.strip_suffix(']')?.parse().ok());
    if !number.is_some_and(|number: u64| namespaces.contains(&number)) {
        return Membership::Foreign;
    }
    let Some(token) = token else { return Membership::Member };
    let wanted = format!("{VARIABLE}={token}");
    let Ok(environment) = std::fs::read(format!("/proc/{pid}/environ")) else { return Membership::Foreign };
    if environment.split(|byte| *byte == 0).any(|entry| entry == wanted.as_bytes()) {
        Membership::Member
    } else if environment.is_empty() && std::fs::read_link(format!("/proc/{pid}/exe")).is_ok() {
        Membership::Unknown
    } else {
        Membership::Foreign
    }
}

fn boot_id() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
}

/// Returns the start time of this process, in clock ticks since boot; together with its process id it
/// identifies the process uniquely.
fn start_time() -> u64 {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The name, in brackets, may contain blanks.
    let rest = text.rsplit_once(')').map_or("", |(_, rest)| rest);
    rest.split_whitespace().nth(19).and_then(|ticks| ticks.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_live_record_and_foreign_files_are_left_alone_and_a_dead_one_is_removed() {
        let record = Record::new(&[1]).unwrap();
        let directory = record.path.parent().unwrap().to_owned();
        let foreign = directory.join(format!("{}-foreign.{EXTENSION}", record.token()));
        std::fs::write(&foreign, "mine").unwrap();
        let dead = directory.join(format!("{}-dead.{EXTENSION}", record.token()));
        let written = Written { token: "1-1-1".into(), boot_id: boot_id(), namespaces: vec![1] };
        std::fs::write(&dead, serde_json::to_string(&written).unwrap()).unwrap();
        let done = clear_in(&directory).unwrap();
        let there = (record.path.exists(), foreign.exists(), dead.exists());
        std::fs::remove_file(&foreign).unwrap();
        assert_eq!(there, (true, true, false), "{done:?}");
        assert!(done.iter().any(|line| line.contains("left alone")), "{done:?}");
        let path = record.path.clone();
        drop(record);
        assert!(!path.exists());
    }

    #[test]
    fn only_processes_with_the_token_in_a_namespace_of_the_run_are_killed() {
        let sleep = |token: &str| {
            let mut command = std::process::Command::new("sleep");
            command.arg("1000").env(VARIABLE, token).spawn().unwrap()
        };
        let token = format!("{}-leftovers-test", std::process::id());
        let own = std::fs::metadata("/proc/self/ns/net").unwrap().ino();
        let (mut other, mut meant) = (sleep("another"), sleep(&token));
        // Until the child has its own environment.
        while !matches!(membership(meant.id() as i32, &[own], Some(&token)), Membership::Member) {
            std::thread::yield_now();
        }
        assert!(kill_members(&[own + 1], Some(&token)).is_empty());
        let killed = kill_members(&[own], Some(&token));
        assert_eq!(killed, [format!("sleep ({})", meant.id())]);
        assert!(!meant.wait().unwrap().success());
        assert!(other.try_wait().unwrap().is_none());
        other.kill().unwrap();
        other.wait().unwrap();
    }

    #[test]
    fn this_process_knows_when_it_began() {
        assert!(start_time() > 0);
    }
}
