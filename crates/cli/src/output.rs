//! Writes results completely or not at all, reports failures of writing, and prints remarks.

use std::fmt::Display;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use anabranch_lab::whole_file::WholeFile;
use serde::Serialize;

use crate::failure::Failure;
use crate::terminal::{BAD, WARNING, paint};

/// The options of every verb.
#[derive(clap::Args, Clone, Copy, Debug)]
pub struct Common {
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
    pub color: crate::terminal::Color,
    /// Print only errors and warnings on standard error: no progress and no remarks
    #[arg(long, short, global = true, help_heading = "Everywhere")]
    pub quiet: bool,
}

/// The destination of the result.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct Destination {
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

impl Target {
    fn failure(path: &Path, error: &std::io::Error) -> Failure {
        Failure::Failed(format!("cannot write {}: {error}", path.display()))
    }
}

/// Creates the file of `destination` before any work is done. `-` is standard output.
pub fn open(destination: &Destination) -> Result<(), Failure> {
    let Some(path) = destination.output.as_deref().filter(|path| *path != Path::new("-")) else {
        return Ok(());
    };
    let whole = WholeFile::create(path).map_err(|error| Target::failure(path, &error))?;
    if let Ok(mut file) = FILE.lock() {
        *file = Some(Target { path: path.to_owned(), whole });
    }
    Ok(())
}

/// Removes the temporary file, as there is no result.
pub fn abandon() {
    if let Ok(mut file) = FILE.lock() {
        drop(file.take());
    }
}

/// True if results go to a file.
pub fn is_to_file() -> bool {
    FILE.lock().is_ok_and(|file| file.is_some())
}

/// Suppresses remarks and progress from now on.
pub fn be_quiet() {
    QUIET.store(true, Ordering::Relaxed);
}

/// True if there are no remarks and no progress.
pub fn is_quiet() -> bool {
    QUIET.load(Ordering::Relaxed)
}

/// Writes the whole result to standard output, or to the file of `--output`, which is then renamed.
pub fn print(text: &str) -> Result<(), Failure> {
    print_part(text)?;
    let Some(Target { path, whole }) = FILE.lock().ok().and_then(|mut file| file.take()) else {
        return Ok(());
    };
    whole.commit().map_err(|error| Target::failure(&path, &error))
}

/// Writes a part of the result. The last part is written by [`print()`].
pub fn print_part(text: &str) -> Result<(), Failure> {
    if let Ok(Some(target)) = FILE.lock().as_deref() {
        let plain = anstream::adapter::strip_str(text).to_string();
        let written = target.whole.file().write_all(plain.as_bytes());
        return written.map_err(|error| Target::failure(&target.path, &error));
    }
    let mut out = anstream::AutoStream::auto(std::io::stdout().lock());
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    written.map_err(|error| match error.kind() {
        ErrorKind::BrokenPipe => Failure::BrokenPipe,
        _ => Failure::Failed(format!("cannot write the output: {error}")),
    })
}

/// Writes `value` as JSON with a line break at its end.
pub fn print_json(value: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(value)
        .map_err(|error| Failure::Failed(format!("cannot write JSON: {error}")))?;
    print(&format!("{text}\n"))
}

/// From now on, discards messages to standard error that are not read in time. A server must be able to end
/// although its log is a full pipe.
#[cfg(all(target_os = "linux", feature = "network"))]
pub fn give_up_unread() {
    GIVE_UP.store(true, Ordering::Relaxed);
}

/// Writes `text` to standard error as it is. A missing reader is not a failure.
pub fn print_error(text: &str) {
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
    let mut out = anstream::AutoStream::auto(std::io::stderr().lock());
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// Writes a remark to standard error, unless `--quiet` is given.
pub fn remark(text: impl Display) {
    if !is_quiet() {
        print_error(&format!("{text}\n"));
    }
}

/// Writes a warning to standard error.
pub fn warn(text: impl Display) {
    print_error(&format!("{} {text}\n", paint(WARNING, "warning:")));
}

/// Writes an error to standard error.
pub fn error(text: impl Display) {
    print_error(&format!("{} {text}\n", paint(BAD, "error:")));
}

/// Returns the peak memory of this process, in bytes; none if the system does not report it.
pub fn peak_rss_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    let kib: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kib * 1024)
}

/// Formats a number with three significant digits, or with all digits before the point.
pub fn digits(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return format!("{value:.0}");
    }
    // The exponent of the rounded number: 9.996 is 10.0.
    let rounded = format!("{value:.2e}");
    let exponent: i32 = rounded.rsplit('e').next().and_then(|text| text.parse().ok()).unwrap_or(0);
    match exponent {
        -3.. => format!("{value:.decimals$}", decimals = (2 - exponent).max(0) as usize),
        _ => rounded,
    }
}

/// Formats a number with three significant digits, and at most three after its point.
pub fn about(value: f64) -> String {
    match value {
        v if v == 0.0 || v.abs() >= 0.9995 => digits(v),
        v => format!("{v:.3}"),
    }
}

/// Formats a number with three significant digits and one of `units`, each a thousand times the one before.
fn scaled(value: f64, units: &[&str]) -> String {
    let (mut value, mut at) = (value, 0);
    while value.abs() >= 999.5 && at + 1 < units.len() {
        value /= 1000.0;
        at += 1;
    }
    let mut number = digits(value);
    // `50 KB` is an exact value; `50.0 KB` is a measured one.
    if number.contains('.') && (number.parse() == Ok(value)) {
        number = number.trim_end_matches('0').trim_end_matches('.').to_owned();
    }
    format!("{number} {}", units[at])
}

/// Formats a size: `1.23 MB`.
pub fn size(bytes: u64) -> String {
    scaled(bytes as f64, &["B", "KB", "MB", "GB", "TB"])
}

/// Formats a rate: `12.3 Mbit/s`.
#[cfg(any(test, all(target_os = "linux", feature = "network")))]
pub fn rate(bits_per_second: f64) -> String {
    scaled(bits_per_second, &["bit/s", "kbit/s", "Mbit/s", "Gbit/s", "Tbit/s"])
}

/// Formats a duration: `12.3 ms`.
#[cfg(any(test, all(target_os = "linux", feature = "network")))]
pub fn span(seconds: f64) -> String {
    match seconds {
        s if s >= 0.9995 => format!("{} s", digits(s)),
        s if s >= 0.999_5e-3 => format!("{} ms", digits(s * 1e3)),
        s => format!("{} us", digits(s * 1e6)),
    }
}

/// Formats a percentage: in tenths, and from 100 on whole.
#[cfg(any(test, all(target_os = "linux", feature = "network")))]
pub fn percent(value: f64) -> String {
    if value.abs() >= 99.95 { format!("{value:.0}") } else { format!("{value:.1}") }
}

/// Formats a percentage with its sign.
pub fn signed_percent(value: f64) -> String {
    if value.abs() >= 99.95 { format!("{value:+.0}") } else { format!("{value:+.1}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits_count() {
        let cases = [
            (12345.6, "12346"),
            (123.46, "123"),
            (99.96, "100"),
            (12.345, "12.3"),
            (9.996, "10.0"),
            (-4.0, "-4.00"),
            (0.1234, "0.123"),
            (0.001_234, "0.00123"),
            (0.000_123_4, "1.23e-4"),
            (0.0, "0"),
        ];
        for (value, text) in cases {
            assert_eq!(digits(value), text);
        }
    }

    #[test]
    fn quantities_have_the_unit_that_leaves_three_digits() {
        assert_eq!([size(0), size(999), size(1000), size(999_600)], ["0 B", "999 B", "1 KB", "1.00 MB"]);
        assert_eq!([rate(23_456_789.0), rate(999.6)], ["23.5 Mbit/s", "1.00 kbit/s"]);
        assert_eq!(
            [span(1.0), span(0.012_34), span(0.9996), span(15e-6)],
            ["1.00 s", "12.3 ms", "1.00 s", "15.0 us"]
        );
        assert_eq!([signed_percent(-4.24), signed_percent(230.4), percent(99.96)], ["-4.2", "+230", "100"]);
    }
}
