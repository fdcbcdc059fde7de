//! `anabranch kernel top`

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::FileTypeExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anabranch_kernel::top::{ConnectionRow, Observer, Sample, SubflowRow};
use anabranch_units::Time;
use serde::Serialize;

use super::failed;
use super::steer::RUN_DIRECTORY;
use crate::args::{Show, whole};
use crate::failure::Failure;
use crate::table::{Align, Table};
use crate::terminal::{WARNING, paint};
use crate::{interrupt, output, terminal};

/// Shows the connections and subflows of the kernel's Multipath TCP
#[derive(clap::Args)]
#[command(after_help = "Examples:\n    \
    sudo anabranch kernel top\n    \
    sudo anabranch kernel top --once --json\n    \
    sudo anabranch kernel top --metrics 127.0.0.1:9184 --quiet\n\n\
    It changes nothing.")]
pub(crate) struct Args {
    /// Show the connections of this moment, and end
    #[arg(long)]
    once: bool,
    /// The time between two samples in milliseconds; with --once the time over which rates are measured
    #[arg(long, value_name = "MS", value_parser = whole::<u32>(10..=3_600_000))]
    every: Option<u32>,
    /// Also serve the newest sample to Prometheus, at unix:PATH or a loopback address
    #[arg(long, value_name = "ADDRESS", conflicts_with = "once")]
    metrics: Option<Address>,
    /// The directory of the state of `anabranch kernel steer`, for its last decisions
    #[arg(long, value_name = "DIR", default_value = RUN_DIRECTORY)]
    run_directory: PathBuf,
    #[command(flatten)]
    pub show: Show,
}

/// The address of the metrics.
#[derive(Clone, Debug)]
enum Address {
    Unix(PathBuf),
    Loopback(SocketAddr),
}

impl std::str::FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Address, String> {
        if let Some(path) = text.strip_prefix("unix:").filter(|path| !path.is_empty()) {
            return Ok(Address::Unix(path.into()));
        }
        let address: Option<SocketAddr> = text.parse().ok();
        match address {
            Some(address) if address.ip().is_loopback() => Ok(Address::Loopback(address)),
            Some(_) => Err(format!(
                "{text} is not a loopback address; the metrics name peers, so they are served on this host only"
            )),
            None => Err(format!("`{text}` cannot be parsed; write unix:PATH or for example 127.0.0.1:9184")),
        }
    }
}

/// The time over which `--once` measures rates.
const MOMENT: Duration = Duration::from_millis(200);
const SECOND: Duration = Duration::from_secs(1);
/// The interval at which a waiting thread checks whether it was interrupted.
const LOOK: Duration = Duration::from_millis(50);

/// A line of `--json`.
#[derive(Serialize)]
struct Line<'a> {
    t_unix_s: f64,
    #[serde(flatten)]
    sample: &'a Sample,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let mut observer = Observer::open(&args.run_directory).map_err(failed)?;
    let begun = Instant::now();
    let mut look = || observer.look(Time(begun.elapsed().as_nanos() as u64)).map_err(failed);
    let every = args.every.map(|ms| Duration::from_millis(ms.into()));
    let cancelled = interrupt::watch();
    let newest = Arc::new(Mutex::new(String::new()));
    let served = args.metrics.as_ref().map(|address| serve(address, &newest)).transpose()?;
    let mut sample = look()?;
    loop {
        let last = Instant::now();
        let pause = every.unwrap_or(if args.once { MOMENT } else { SECOND });
        while last.elapsed() < pause && !cancelled.load(Ordering::Relaxed) {
            std::thread::sleep(LOOK.min(pause.saturating_sub(last.elapsed())));
        }
        if cancelled.load(Ordering::Relaxed) && !args.once {
            break;
        }
        let now = look()?;
        sample = now;
        *newest.lock().unwrap_or_else(PoisonError::into_inner) = sample.metrics();
        if args.once {
            break;
        }
        if args.show.json {
            output::print_part(&line(&sample)?)?;
        } else if served.is_none() || !output::is_quiet() {
            output::print_part(&live(&sample))?;
        }
    }
    if let Some(Address::Unix(path)) = &args.metrics {
        let _ = std::fs::remove_file(path);
    }
    match args.once {
        true if args.show.json => output::print(&line(&sample)?),
        true => output::print(&table(&sample)),
        false => output::print(""),
    }
}

fn line(sample: &Sample) -> Result<String, Failure> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64());
    let text = serde_json::to_string(&Line { t_unix_s: now, sample });
    text.map(|text| text + "\n").map_err(|error| Failure::Failed(error.to_string()))
}

/// Returns the table; on a terminal it replaces the one before.
fn live(sample: &Sample) -> String {
    if terminal::is_there() {
        // Move to the first place, and clear to the end.
        return format!("\x1b[H\x1b[J{}", table(sample));
    }
    table(sample)
}

fn table(sample: &Sample) -> String {
    if sample.connections.is_empty() {
        return "The kernel has no connections of Multipath TCP in this network namespace.\n".to_owned();
    }
    let mut table = Table::new()
        .column("connection", Align::Left)
        .column("path", Align::Left)
        .optional("send", Align::Right, 0)
        .optional("receive", Align::Right, 1)
        .column("RTT", Align::Right)
        .optional("window", Align::Right, 1)
        .optional("in flight", Align::Right, 3)
        .optional("queued", Align::Right, 3)
        .optional("retx %", Align::Right, 2)
        .optional("RTOs", Align::Right, 5)
        .optional("cc", Align::Left, 4)
        .optional("state", Align::Left, 4)
        .column("use", Align::Left)
        .optional("last decision of steer", Align::Left, 6);
    for connection in &sample.connections {
        table.row(connection_cells(connection));
        connection.subflows.iter().for_each(|subflow| table.row(subflow_cells(subflow)));
    }
    table.render(terminal::width())
}

fn rate(bps: Option<u64>) -> String {
    bps.map_or("-".to_owned(), |bps| output::rate(bps as f64))
}

fn connection_cells(connection: &ConnectionRow) -> Vec<String> {
    let arrow = if connection.role == Some("server") { "<-" } else { "->" };
    let queued = match connection.unsent_bytes {
        0 => "-".to_owned(),
        bytes => output::size(bytes) + if connection.send_buffer_full { "+" } else { "" },
    };
    let state = if connection.fallback { paint(WARNING, "fallback") } else { String::new() };
    vec![
        format!("{} {arrow} {}", connection.token, connection.remote),
        String::new(),
        rate(connection.sent_bps),
        rate(connection.received_bps),
        String::new(),
        String::new(),
        output::size(connection.outstanding_bytes),
        queued,
        String::new(),
        String::new(),
        String::new(),
        state,
        String::new(),
        String::new(),
    ]
}

fn subflow_cells(subflow: &SubflowRow) -> Vec<String> {
    let used = match (subflow.backup_by_host, subflow.backup_by_peer) {
        (false, false) => "active",
        (true, false) => "backup",
        (false, true) => "backup, by the peer",
        (true, true) => "backup, by both",
    };
    vec![
        format!("  {} > {}", subflow.local, subflow.remote),
        subflow.interface.clone().unwrap_or_else(|| "-".to_owned()),
        rate(subflow.sent_bps),
        rate(subflow.received_bps),
        subflow.srtt_us.map_or("-".to_owned(), |us| output::span(f64::from(us) / 1e6)),
        output::size(subflow.cwnd_bytes),
        output::size(subflow.inflight_bytes),
        output::size(subflow.notsent_bytes.into()),
        subflow.retransmitted().map_or("-".to_owned(), |part| output::percent(part * 100.0)),
        subflow.rto_count.map_or("-".to_owned(), |count| count.to_string()),
        subflow.congestion.clone(),
        subflow.state.to_owned(),
        used.to_owned(),
        subflow.decision.clone().unwrap_or_default(),
    ]
}

/// Serves the newest sample on threads that end with the process.
fn serve(address: &Address, newest: &Arc<Mutex<String>>) -> Result<(), Failure> {
    let failed = |error| Failure::Failed(format!("cannot serve metrics at {}: {error}", show(address)));
    let newest = Arc::clone(newest);
    let text = move || newest.lock().unwrap_or_else(PoisonError::into_inner).clone();
    match address {
        Address::Loopback(socket) => {
            let listener = TcpListener::bind(socket).map_err(failed)?;
            std::thread::spawn(move || {
                for stream in listener.incoming().flatten() {
                    let _ = stream.set_read_timeout(Some(SECOND));
                    answer(stream, &text());
                }
            });
        }
        Address::Unix(path) => {
            // The socket of a process that was killed: no process answers there.
            let is_left = std::fs::symlink_metadata(path).is_ok_and(|file| file.file_type().is_socket());
            if is_left && UnixStream::connect(path).is_err() {
                let _ = std::fs::remove_file(path);
            }
            let listener = UnixListener::bind(path).map_err(failed)?;
            std::thread::spawn(move || {
                for stream in listener.incoming().flatten() {
                    let _ = stream.set_read_timeout(Some(SECOND));
                    answer(stream, &text());
                }
            });
        }
    }
    Ok(())
}

fn show(address: &Address) -> String {
    match address {
        Address::Unix(path) => path.display().to_string(),
        Address::Loopback(socket) => socket.to_string(),
    }
}

/// Answers any request with the metrics. A client that goes away is no error.
fn answer(mut stream: impl Read + Write, text: &str) {
    let mut request = [0; 4096];
    let _ = stream.read(&mut request);
    let _ = write!(
        stream,
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: {}\r\nConnection: close\r\n\r\n\
         {text}",
        text.len()
    );
    let _ = stream.flush();
}
