//! `anabranch record`

mod samples;

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read, Seek as _, Write as _};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::PathBuf;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anabranch_inspect::capture::{Merged, Reader};
use anabranch_inspect::{ConnectionReport, Inspection, Inspector};
use anabranch_kernel::samples::Sampler;
use anabranch_lab::whole_file::WholeFile;
use rustix::fs::{Mode, OFlags};
use rustix::process::{Pid, Signal, kill_process};

use super::inspect::{Reading, damaged, show};
use crate::args::parse_span;
use crate::failure::Failure;
use crate::{interrupt, output, provenance};

/// Runs a program, captures its connections, and says what happened in them
#[derive(clap::Args)]
#[command(
    long_about = LONG,
    after_help = "Example:\n    \
    sudo anabranch record --simulate -- mptcpize run curl -o file https://example.org/file"
)]
pub(crate) struct Args {
    /// Keeps the capture in FILE, as pcap
    #[arg(long, value_name = "FILE")]
    keep: Option<PathBuf>,
    /// The time between two samples of the kernel's windows and round trips
    #[arg(long, value_name = "TIME", default_value = "10ms", value_parser = parse_span)]
    every: Duration,
    #[command(flatten)]
    pub reading: Reading,
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

const LONG: &str = "\
Runs a program, captures its connections, and says what happened in them, as `anabranch inspect` does.

All TCP connections of this host (or network namespace) that begin while the program runs are shown,
also the connections of other programs. The kernel's congestion windows, round trips and limits are sampled
meanwhile (tcp_info), and are on the pages and in the recording. It needs root and tcpdump. The exit code is
the program's.";

/// The bytes of each packet that are captured: no payload is needed.
const SNAP: &str = "160";
/// The time after the program's end in which its last packets arrive.
const LAST_PACKETS: Duration = Duration::from_millis(500);

pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let [program, arguments @ ..] = args.command.as_slice() else {
        return Err(Failure::Usage("there is no command".to_owned()));
    };
    args.reading.prepare()?;
    // Ctrl-C ends the program, which is in the same process group; then its connections are shown.
    interrupt::watch();
    let kept = args.keep.as_ref().map(|path| {
        let unwritable = |error: io::Error| Failure::unwritable(path, &error);
        let file = WholeFile::create(path).map_err(unwritable)?;
        let writer = file.file().try_clone().map_err(unwritable)?;
        Ok::<_, Failure>((path, file, writer))
    });
    let (kept, copy) = match kept.transpose()? {
        Some((path, file, writer)) => (Some((path, file)), Some(writer)),
        None => (None, args.reading.records().then(unnamed).transpose()?),
    };
    let again = copy.as_ref().map(File::try_clone);
    let mut capture = Capture::start(copy)?;
    let sampler = Sampler::start(args.every);
    let status = Command::new(program).args(arguments).status();
    if status.is_ok() {
        std::thread::sleep(LAST_PACKETS);
    }
    let sockets = sampler.and_then(Sampler::end).unwrap_or_else(|error| {
        output::warn(format_args!("the values of the kernel are missing: {error}"));
        Vec::new()
    });
    let inspection = capture.end();
    let status = status
        .map_err(|error| Failure::Usage(format!("cannot run {}: {error}", program.to_string_lossy())))?;
    let copied = capture.copied();
    if let Some((path, file)) = kept {
        let written = copied.and_then(|()| file.commit());
        written.map_err(|error| Failure::unwritable(path, &error))?;
        output::remark(format_args!("the capture is in {}", path.display()));
    } else {
        copied.map_err(|error| Failure::unwritable(&std::env::temp_dir(), &error))?;
    }
    // Others were open before.
    let begun =
        |connection: &ConnectionReport| connection.subflows.first().is_some_and(|first| first.syn_count > 0);
    match inspection? {
        Some(mut inspection) if inspection.connections.iter().any(begun) => {
            inspection.connections.retain(begun);
            inspection.commit = provenance::commit();
            inspection.command = provenance::command();
            let sampled = samples::attach(&mut inspection, sockets);
            show(&args.reading, inspection, &sampled, || reread(again))?;
        }
        _ => output::warn("no TCP connection began while the program ran"),
    }
    Ok(super::kernel::exit_code(status.code(), status.signal()))
}

/// Returns a file without a name, for a capture that is read twice and not kept.
fn unnamed() -> Result<File, Failure> {
    let place = std::env::temp_dir();
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    let file = rustix::fs::open(&place, flags, Mode::RUSR | Mode::WUSR);
    let file = file.map_err(|error| Failure::unwritable(&place, &error.into()))?;
    Ok(File::from(file))
}

/// Opens the copy of the capture.
fn reread(copy: Option<io::Result<File>>) -> Result<Merged, Failure> {
    let unreadable = |error: io::Error| Failure::Failed(format!("cannot read the capture again: {error}"));
    let missing = || Err(io::ErrorKind::NotFound.into());
    let mut file = copy.unwrap_or_else(missing).map_err(unreadable)?;
    file.rewind().map_err(unreadable)?;
    Ok(Merged::new(vec![Reader::new("the capture", Box::new(file)).map_err(damaged)?]))
}

/// A running tcpdump, and the thread that reads its packets.
struct Capture {
    tcpdump: Child,
    reading: Option<std::thread::JoinHandle<Result<Inspection, Failure>>>,
    /// The rest of the messages of tcpdump.
    messages: Option<std::thread::JoinHandle<String>>,
    shared: Arc<Shared>,
}

/// Shared with the thread that reads.
#[derive(Default)]
struct Shared {
    /// The error of the copy.
    fault: Mutex<Option<io::Error>>,
    bytes: AtomicU64,
}

/// The size of a capture without a packet: the header of a pcap file.
const EMPTY: u64 = 24;

impl Capture {
    /// Returns when packets are captured.
    fn start(copy: Option<File>) -> Result<Capture, Failure> {
        let mut tcpdump = Command::new("tcpdump")
            .args(["-i", "any", "-n", "-U", "--immediate-mode", "-s", SNAP, "-w", "-", "tcp"])
            // Ctrl-C is for the program.
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| match error.kind() {
                io::ErrorKind::NotFound => {
                    Failure::Usage("there is no tcpdump: `apt install tcpdump`".to_owned())
                }
                _ => Failure::Failed(format!("cannot run tcpdump: {error}")),
            })?;
        let (Some(packets), Some(messages)) = (tcpdump.stdout.take(), tcpdump.stderr.take()) else {
            return Err(Failure::Failed("tcpdump has no output".to_owned()));
        };
        let mut messages = BufReader::new(messages);
        let mut said = String::new();
        loop {
            let mut line = String::new();
            let n = messages.read_line(&mut line).unwrap_or(0);
            if n == 0 {
                let _ = tcpdump.wait();
                let said = said.trim().replace('\n', "; ");
                return Err(Failure::Failed(format!("cannot capture, which needs root: {said}")));
            }
            if line.contains("listening on") {
                break;
            }
            said.push_str(&line);
        }
        let shared = Arc::new(Shared::default());
        let input = Copied { packets, copy, shared: Arc::clone(&shared) };
        let reading = std::thread::spawn(|| {
            let reader = Reader::new("the capture", Box::new(input)).map_err(damaged)?;
            Inspector::inspect(&mut Merged::new(vec![reader]), |_| true).map_err(damaged)
        });
        let messages = std::thread::spawn(move || {
            let mut rest = String::new();
            let _ = messages.read_to_string(&mut rest);
            rest
        });
        Ok(Capture { tcpdump, reading: Some(reading), messages: Some(messages), shared })
    }

    /// Ends the capture. Returns what was in it; none if it has no packet.
    fn end(&mut self) -> Result<Option<Inspection>, Failure> {
        self.stop();
        let rest = self.messages.take().and_then(|thread| thread.join().ok()).unwrap_or_default();
        let dropped = rest.lines().find_map(|line| {
            let (n, what) = line.trim().split_once(' ')?;
            what.contains("dropped by kernel").then(|| n.parse::<u64>().ok())?
        });
        if let Some(n) = dropped.filter(|n| *n > 0) {
            output::warn(format_args!("{n} packets were not captured, as this host was too slow"));
        }
        match self.reading.take().map(std::thread::JoinHandle::join) {
            Some(Ok(_)) if self.shared.bytes.load(Ordering::Relaxed) <= EMPTY => Ok(None),
            Some(Ok(result)) => result.map(Some),
            _ => Err(Failure::Failed("the capture could not be read".to_owned())),
        }
    }

    fn stop(&mut self) {
        if let Ok(None) = self.tcpdump.try_wait()
            && let Ok(id) = i32::try_from(self.tcpdump.id())
            && let Some(id) = Pid::from_raw(id)
        {
            let _ = kill_process(id, Signal::INT);
        }
        let _ = self.tcpdump.wait();
    }

    /// Returns the error of the copy, if it is not complete.
    fn copied(&self) -> io::Result<()> {
        self.shared.fault.lock().unwrap_or_else(PoisonError::into_inner).take().map_or(Ok(()), Err)
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Packets that are also written to a file.
struct Copied<R> {
    packets: R,
    copy: Option<File>,
    shared: Arc<Shared>,
}

impl<R: Read> Read for Copied<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let n = self.packets.read(into)?;
        self.shared.bytes.fetch_add(n as u64, Ordering::Relaxed);
        if let Some(copy) = &mut self.copy
            && let Err(error) = copy.write_all(&into[..n])
        {
            // The connections are shown all the same.
            *self.shared.fault.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
            self.copy = None;
        }
        Ok(n)
    }
}
