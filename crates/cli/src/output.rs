//! Writes results completely or not at all, reports failures of writing, and prints remarks.

use std::fmt::Display;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::sync_channel;
use std::sync::{Mutex, OnceLock};
use std::time::Duration;

#[cfg(all(target_os = "linux", feature = "network"))]
pub(crate) use anabranch_lab::figures::{about, percent, rate, span};
pub(crate) use anabranch_lab::figures::{digits, size};
use anabranch_lab::whole_file::WholeFile;
use serde::Serialize;

use crate::failure::Failure;
use crate::terminal::{self, BAD, WARNING, paint};
use crate::visible;

/// The options of every verb.
#[derive(clap::Args, Clone, Copy, Debug)]
pub(crate) struct Common {
    /// Colour: auto (on a terminal, unless NO_COLOR is set or TERM is dumb), always or never
    #[arg(
        long,
        value_name = "WHEN",
        default_value = "auto",
        global = true,
        help_heading = "Everywhere",
        hide_possible_values = true,
        hide_default_value = true
    )]
    pub color: Color,
    /// Print only errors and warnings on standard error: no progress and no remarks
    #[arg(long, short, global = true, help_heading = "Everywhere")]
    pub quiet: bool,
}

/// The use of colour.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, clap::ValueEnum)]
pub(crate) enum Color {
    // Doc comments here would double the length of every verb's help.
    #[default]
    Auto,
    Always,
    Never,
}

impl Color {
    /// Applies this choice to all further output.
    pub(crate) fn choose(self) {
        let choice = match self {
            Color::Auto => anstream::ColorChoice::Auto,
            Color::Always => anstream::ColorChoice::Always,
            Color::Never => anstream::ColorChoice::Never,
        };
        choice.write_global();
    }

    /// Returns the same choice for the help and the errors of clap.
    pub(crate) const fn for_clap(self) -> clap::ColorChoice {
        match self {
            Color::Auto => clap::ColorChoice::Auto,
            Color::Always => clap::ColorChoice::Always,
            Color::Never => clap::ColorChoice::Never,
        }
    }
}

/// The destination of the result.
#[derive(clap::Args, Clone, Debug, Default)]
pub(crate) struct Destination {
    /// Write the result to FILE instead of standard output
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// The time limit for writing a message that may be discarded.
const PATIENCE: Duration = Duration::from_millis(250);

static QUIET: AtomicBool = AtomicBool::new(false);
static GIVE_UP: AtomicBool = AtomicBool::new(false);
static FILE: Mutex<Option<Target>> = Mutex::new(None);

/// The file of `--output`.
struct Target {
    path: PathBuf,
    whole: WholeFile,
}

/// Creates the file of `destination` before any work is done. `-` is standard output.
pub(crate) fn open(destination: &Destination) -> Result<(), Failure> {
    let Some(path) = destination.output.as_deref().filter(|path| *path != Path::new("-")) else {
        return Ok(());
    };
    let whole = WholeFile::create(path).map_err(|error| Failure::unwritable(path, &error))?;
    if let Ok(mut file) = FILE.lock() {
        *file = Some(Target { path: path.to_owned(), whole });
        terminal::set_to_file(true);
    }
    Ok(())
}

/// Removes the temporary file, as there is no result.
pub(crate) fn abandon() {
    if let Ok(mut file) = FILE.lock() {
        drop(file.take());
        terminal::set_to_file(false);
    }
}

/// True if results go to a file.
#[cfg(all(target_os = "linux", feature = "network"))]
pub(crate) fn is_to_file() -> bool {
    FILE.lock().is_ok_and(|file| file.is_some())
}

/// Suppresses remarks and progress from now on.
pub(crate) fn be_quiet() {
    QUIET.store(true, Ordering::Relaxed);
}

/// True if there are no remarks and no progress.
pub(crate) fn is_quiet() -> bool {
    QUIET.load(Ordering::Relaxed)
}

/// Writes the whole result to standard output, or to the file of `--output`, which is then renamed.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    print_part(text)?;
    let Some(Target { path, whole }) = FILE.lock().ok().and_then(|mut file| file.take()) else {
        return Ok(());
    };
    terminal::set_to_file(false);
    whole.commit().map_err(|error| Failure::unwritable(&path, &error))
}

/// Writes a part of the result. The last part is written by [`print()`].
pub(crate) fn print_part(text: &str) -> Result<(), Failure> {
    let text = &*visible::lines(text);
    if let Ok(Some(target)) = FILE.lock().as_deref() {
        let plain = anstream::adapter::strip_str(text).to_string();
        let written = target.whole.file().write_all(plain.as_bytes());
        return written.map_err(|error| Failure::unwritable(&target.path, &error));
    }
    let mut out = anstream::AutoStream::auto(std::io::stdout().lock());
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    written.map_err(|error| match error.kind() {
        ErrorKind::BrokenPipe => Failure::BrokenPipe,
        _ => Failure::Failed(format!("cannot write the output: {error}")),
    })
}

/// Writes `value` as JSON with a line break at its end.
pub(crate) fn print_json(value: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(value)
        .map_err(|error| Failure::Failed(format!("cannot write JSON: {error}")))?;
    print(&format!("{}\n", visible::json(&text)))
}

/// From now on, discards messages to standard error that are not read in time. A server must be able to end
/// although its log is a full pipe.
#[cfg(all(target_os = "linux", feature = "network"))]
pub(crate) fn give_up_unread() {
    GIVE_UP.store(true, Ordering::Relaxed);
}

/// Writes `text` to standard error. A missing reader is not a failure.
pub(crate) fn print_error(text: &str) {
    if !GIVE_UP.load(Ordering::Relaxed) {
        return write_error(text);
    }
    let (done, written) = sync_channel(1);
    let text = text.to_owned();
    let write = move || {
        write_error(&text);
        let _ = done.send(());
    };
    // A blocked thread ends with the process.
    if std::thread::Builder::new().spawn(write).is_ok() {
        let _ = written.recv_timeout(PATIENCE);
    }
}

fn write_error(text: &str) {
    let text = &*visible::lines(text);
    let mut out = anstream::AutoStream::auto(std::io::stderr().lock());
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// The weight of a message to the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Weight {
    Remark,
    Warning,
    Error,
}

/// Writes messages in place of standard error.
type Sink = fn(Weight, &str);

static SINK: OnceLock<Sink> = OnceLock::new();

/// Gives all further messages to `sink`, which writes them in the format of a log.
#[cfg(all(target_os = "linux", feature = "network"))]
pub(crate) fn set_sink(sink: Sink) {
    let _ = SINK.set(sink);
}

fn message(weight: Weight, text: &dyn Display) {
    if let Some(sink) = SINK.get() {
        return sink(weight, &text.to_string());
    }
    match weight {
        Weight::Remark => print_error(&format!("{text}\n")),
        Weight::Warning => print_error(&format!("{} {text}\n", paint(WARNING, "warning:"))),
        Weight::Error => print_error(&format!("{} {text}\n", paint(BAD, "error:"))),
    }
}

/// Writes a remark to standard error, unless `--quiet` is given.
pub(crate) fn remark(text: impl Display) {
    if !is_quiet() {
        message(Weight::Remark, &text);
    }
}

/// Writes a warning to standard error.
pub(crate) fn warn(text: impl Display) {
    message(Weight::Warning, &text);
}

/// Writes an error to standard error.
pub(crate) fn error(text: impl Display) {
    message(Weight::Error, &text);
}

/// Returns the peak memory of this process, in bytes; none if the system does not report it.
pub(crate) fn peak_rss_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    let kib: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kib * 1024)
}
