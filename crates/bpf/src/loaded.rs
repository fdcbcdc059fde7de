//! Loading with libbpf.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use libbpf_rs::query::MapInfoIter;
use libbpf_rs::{
    ErrorKind, Link, MapCore, MapFlags, MapHandle, MapType, Object, ObjectBuilder, OpenObject, PrintLevel,
    set_print,
};

use crate::kernel::{check, has_links};
use crate::{Counters, Error, Law, Options, PINS, is_available};

/// The longest time that the kernel takes to remove a congestion control after its link.
const REMOVAL: Duration = Duration::from_secs(2);

/// A law that the kernel has until this is dropped.
#[derive(Debug)]
pub struct Loaded {
    law: Law,
    link: Link,
    object: Object,
}

/// Returns the object of a law: `programs/build` makes them.
pub(crate) const fn object(law: Law) -> &'static [u8] {
    match law {
        Law::Lia => include_bytes!("../programs/lia.o"),
        Law::Olia => include_bytes!("../programs/olia.o"),
        Law::Balia => include_bytes!("../programs/balia.o"),
        Law::Wvegas => include_bytes!("../programs/wvegas.o"),
    }
}

/// The messages of libbpf since the last call.
static SAID: Mutex<String> = Mutex::new(String::new());

fn said(_: PrintLevel, text: String) {
    SAID.lock().unwrap_or_else(PoisonError::into_inner).push_str(&text);
}

/// Returns the last thing that libbpf has printed which is not part of the verifier's log.
fn reason(error: &libbpf_rs::Error) -> String {
    let text = std::mem::take(&mut *SAID.lock().unwrap_or_else(PoisonError::into_inner));
    let last = text.lines().filter_map(|line| line.strip_prefix("libbpf: ")).next();
    match last {
        Some(line) => format!("{line} ({error})"),
        None => error.to_string(),
    }
}

fn failure(law: Law, error: &libbpf_rs::Error) -> Error {
    match error.kind() {
        ErrorKind::PermissionDenied => Error::NotPermitted,
        ErrorKind::AlreadyExists => Error::Taken(law),
        _ => Error::Refused(law, reason(error)),
    }
}

/// Gives a law to the kernel.
///
/// # Errors
/// [`Error`]. Nothing has changed then.
pub fn load(law: Law, options: &Options) -> Result<Loaded, Error> {
    check()?;
    if is_available(law) {
        return Err(Error::Taken(law));
    }
    let before = set_print(Some((PrintLevel::Warn, said)));
    let loaded = load_quietly(law, options);
    set_print(before);
    loaded
}

fn load_quietly(law: Law, options: &Options) -> Result<Loaded, Error> {
    let failed = |error: libbpf_rs::Error| failure(law, &error);
    let mut open = ObjectBuilder::default().open_memory(object(law)).map_err(failed)?;
    configure(&mut open, law, options).map_err(failed)?;
    let mut object = open.load().map_err(failed)?;
    let mut link = None;
    for mut map in object.maps_mut() {
        if map.map_type() == MapType::StructOps {
            link = Some(map.attach_struct_ops().map_err(failed)?);
        }
    }
    match link {
        Some(link) => Ok(Loaded { law, link, object }),
        None => Err(Error::Refused(law, "the object has no congestion control".to_owned())),
    }
}

fn configure(open: &mut OpenObject, law: Law, options: &Options) -> Result<(), libbpf_rs::Error> {
    for mut map in open.maps_mut() {
        if map.name() == LISA {
            map.set_initial_value(&u32::from(options.lisa).to_ne_bytes())?;
        } else if map.map_type() == MapType::StructOps {
            if !has_links() {
                map.set_map_flags(0)?;
            }
        } else if map.name().to_string_lossy() == name(law, CONNECTIONS) {
            map.set_max_entries(options.connections.max(1))?;
        }
    }
    Ok(())
}

/// The section of the variable `lisa`.
const LISA: &str = ".rodata.lisa";
/// The maps of a law, as they are called in `programs/shared.h`.
const CONNECTIONS: &str = "conns";
const COUNTERS: &str = "count";

fn name(law: Law, map: &str) -> String {
    format!("{}_{map}", law.kernel_name())
}

fn read(law: Law, map: &impl MapCore) -> Result<Counters, Error> {
    let value = map.lookup(&0_u32.to_ne_bytes(), MapFlags::ANY).map_err(|error| failure(law, &error))?;
    let counters = value.as_deref().and_then(Counters::parse);
    counters.ok_or_else(|| Error::Refused(law, "its counters are of another version of anabranch".to_owned()))
}

/// Returns the directory of the pins of a law.
fn pins(law: Law) -> PathBuf {
    Path::new(PINS).join(law.kernel_name())
}

impl Loaded {
    /// Returns the counters.
    ///
    /// # Errors
    /// If the kernel does not give them.
    pub fn counters(&self) -> Result<Counters, Error> {
        let name = name(self.law, COUNTERS);
        match self.object.maps().find(|map| map.name().to_string_lossy() == name) {
            Some(map) => read(self.law, &map),
            None => Err(Error::NotLoaded(self.law)),
        }
    }

    /// Keeps the law loaded after the end of this process, until [`unload`].
    ///
    /// # Errors
    /// If there is no file system for it. The law is unloaded then.
    pub fn pin(mut self) -> Result<(), Error> {
        let wrong = |error: &dyn core::fmt::Display| Error::NoPins(error.to_string());
        mount()?;
        let directory = pins(self.law);
        // A pin that is left here is of a law that the kernel does not have.
        remove(&directory);
        std::fs::create_dir_all(&directory).map_err(|error| wrong(&error))?;
        if let Err(error) = self.link.pin(directory.join("link")) {
            remove(&directory);
            return Err(wrong(&error));
        }
        // Without links the kernel keeps it until it is taken away.
        self.link.disconnect();
        Ok(())
    }
}

/// Mounts the file system of BPF in its usual place, as bpftool and systemd do, if nothing has.
fn mount() -> Result<(), Error> {
    const PLACE: &str = "/sys/fs/bpf";
    const BPF_FS_MAGIC: u64 = 0xcafe_4a11;
    let wrong = |error: rustix::io::Errno| Error::NoPins(format!("cannot mount {PLACE}: {error}"));
    let found = rustix::fs::statfs(PLACE).map_err(wrong)?;
    if found.f_type as u64 == BPF_FS_MAGIC {
        return Ok(());
    }
    rustix::mount::mount("bpf", PLACE, "bpf", rustix::mount::MountFlags::empty(), None).map_err(wrong)
}

fn remove(directory: &Path) {
    let _ = std::fs::remove_file(directory.join("link"));
    let _ = std::fs::remove_dir(directory);
    // Only if it is empty.
    let _ = std::fs::remove_dir(PINS);
}

/// True if the law stays loaded without a command.
pub fn is_pinned(law: Law) -> bool {
    pins(law).exists()
}

/// Takes a pinned law from the kernel. Connections that use it keep it.
///
/// # Errors
/// If it is not pinned, or the kernel refuses.
pub fn unload(law: Law) -> Result<(), Error> {
    let directory = pins(law);
    if !directory.exists() {
        return Err(if is_available(law) { Error::NotPinned(law) } else { Error::NotLoaded(law) });
    }
    if has_links() {
        remove(&directory);
    } else {
        let map =
            MapHandle::from_pinned_path(directory.join("link")).map_err(|error| failure(law, &error))?;
        map.delete(&0_u32.to_ne_bytes()).map_err(|error| failure(law, &error))?;
        remove(&directory);
    }
    // The kernel removes it when it has time.
    let end = Instant::now() + REMOVAL;
    while is_available(law) {
        if Instant::now() > end {
            return Err(Error::Refused(law, "it is still there after its link was removed".to_owned()));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

/// Returns the counters of a law that any command has loaded.
///
/// # Errors
/// If it is not loaded, or its counters cannot be read.
pub fn counters(law: Law) -> Result<Counters, Error> {
    if !is_available(law) {
        return Err(Error::NotLoaded(law));
    }
    let name = name(law, COUNTERS);
    // A law that was unloaded keeps its maps while connections use it; the newest is the one that new connections use.
    let newest = MapInfoIter::default().filter(|info| info.name == *name).map(|info| info.id).max();
    match newest {
        Some(id) => read(law, &MapHandle::from_map_id(id).map_err(|error| failure(law, &error))?),
        None => Err(Error::NotPermitted),
    }
}
