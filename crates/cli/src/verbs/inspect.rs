//! `anabranch inspect`

mod run_directory;
mod simulate;

use std::collections::BTreeMap;
use std::fs::File;
use std::hash::BuildHasher as _;
use std::io::{BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use anabranch_inspect::capture::{Merged, Reader};
use anabranch_inspect::{Anonymiser, CaptureFault, ConnectionReport, Inspection, Inspector};
use anabranch_lab::inspected;
use anabranch_lab::whole_file::WholeFile;
use anabranch_recording::measured::MeasuredWindow;
use anabranch_show::inspect::{simulation, text as pages};

use crate::args::Jobs;
use crate::failure::Failure;
use crate::progress::Progress;
use crate::record::Record;
use crate::{interrupt, output, provenance};

/// Reads captures of real connections, and says what happened in them
#[derive(clap::Args)]
#[command(long_about = LONG)]
pub(crate) struct Args {
    /// Captures: pcap or pcapng, also compressed by gzip; `-` is standard input. Several are merged by time
    #[arg(required = true, value_name = "CAPTURE")]
    captures: Vec<PathBuf>,
    /// Writes the packets with TCP without their payload and with renumbered addresses, as one pcapng that can be shown to
    /// others, in place of the pages
    #[arg(long, value_name = "FILE", conflicts_with_all = ["connection", "scenario", "simulate", "advise", "record", "json", "output"])]
    anonymise: Option<PathBuf>,
    #[command(flatten)]
    pub reading: Reading,
}

/// The connections of a capture that are shown, and how.
#[derive(clap::Args)]
pub(crate) struct Reading {
    /// Only connection N of the result, from 1
    #[arg(long, value_name = "N", value_parser = crate::args::whole::<usize>(1..=1_000_000))]
    connection: Option<usize>,
    /// Writes the paths and the flow of the connection (the one with most data, or `--connection`) as a scenario for
    /// `anabranch run` and `compare`, in place of the pages
    #[arg(long, value_name = "FILE")]
    scenario: Option<PathBuf>,
    /// Simulates that scenario, shows how well it matches the capture, and what other schedulers would have done
    #[arg(long)]
    simulate: bool,
    /// Advises on that scenario, as `anabranch advise` does: whether Multipath TCP pays on these paths, with what, and on
    /// which path to start
    #[arg(long, conflicts_with = "simulate")]
    advise: bool,
    /// The scheduler of the simulation [default: linux; of TCP: tcp]
    #[arg(long, value_name = "NAME")]
    scheduler: Option<String>,
    /// The congestion control of the simulation [default: cubic_linux]
    #[arg(long = "cc", value_name = "NAME")]
    congestion: Option<String>,
    #[command(flatten)]
    jobs: Jobs,
    #[command(flatten)]
    record: Record,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    pub to: output::Destination,
}

const LONG: &str = "\
Reads captures of real connections, and says what happened in them.

    anabranch inspect FILE.pcap
    tcpdump -s 120 -w - tcp | anabranch inspect -

Each connection has a page: its handshake, its subflows with their bytes, round trips and
retransmissions, the data level (reinjections, holes, head-of-line blocking), announced addresses,
faults against the standard, and a sentence that names the largest cause of its time. Multipath TCP
of RFC 8684 and RFC 6824, connections that fell back to TCP, and plain TCP are read; payload is not
needed. `docs/inspect.md` has the definitions.";

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    if let Some(path) = &args.anonymise {
        return anonymise(path, &args.captures);
    }
    if args.reading.records() && args.captures.iter().any(|path| path == Path::new("-")) {
        return Err(Failure::Usage(
            "--record reads the capture twice, and standard input can be read once; write it to a file first"
                .to_owned(),
        ));
    }
    let captures = readers(&args.captures)?;
    args.reading.prepare()?;
    show(&args.reading, read(captures)?, &Sampled::new(), || readers(&args.captures))
}

impl Reading {
    /// True if a run directory is to be written, for which a capture is read twice.
    pub(super) fn records(&self) -> bool {
        self.record.directory().is_some()
    }

    /// Creates the run directory, if there is to be one, before the captures are read or made.
    pub(super) fn prepare(&self) -> Result<(), Failure> {
        self.record.prepare()
    }
}

/// The windows that the kernel had, by connection, subflow and direction; times count from 1970.
pub(super) type Sampled = BTreeMap<(usize, usize, usize), Vec<MeasuredWindow>>;

/// Shows connections; `again` opens their captures once more, and `sampled` has the windows of this host.
pub(super) fn show(
    args: &Reading,
    mut inspection: Inspection,
    sampled: &Sampled,
    again: impl FnOnce() -> Result<Merged, Failure>,
) -> Result<(), Failure> {
    if let Some(number) = args.connection {
        let all = inspection.connections.len();
        inspection.connections.retain(|connection| connection.number == number);
        if inspection.connections.is_empty() {
            let range =
                if all == 1 { "only connection 1".to_owned() } else { format!("connections 1 to {all}") };
            return Err(Failure::Usage(format!("there is no connection {number}: the capture has {range}")));
        }
    }
    if args.records() {
        let connection = chosen(&inspection)?;
        let begun = inspection.begun_unix_s + connection.start_s;
        run_directory::record(&args.record, connection, (sampled, begun), again)?;
    }
    if args.scenario.is_some() || args.simulate || args.advise {
        return draft(args, &inspection);
    }
    match args.json {
        true => output::print_json(&inspection),
        false => output::print(&pages(&inspection)),
    }
}

/// Returns the connection that is recorded or simulated.
fn chosen(inspection: &Inspection) -> Result<&ConnectionReport, Failure> {
    inspected::chosen(inspection).ok_or_else(|| Failure::Usage("the capture has no connection".to_owned()))
}

/// Writes or simulates the scenario of a connection.
fn draft(args: &Reading, inspection: &Inspection) -> Result<(), Failure> {
    let connection = chosen(inspection)?;
    let (scheduler, congestion) = (args.scheduler.as_deref(), args.congestion.as_deref());
    let draft = inspected::draft(inspection, connection, scheduler, congestion);
    let draft = draft.map_err(|error| Failure::Usage(error.to_string()))?;
    if let Some(path) = &args.scenario {
        simulate::write(path, &draft)?;
    }
    if args.advise {
        return simulate::advise(draft, args.jobs.jobs, args.json);
    }
    if !args.simulate {
        return Ok(());
    }
    let (simulation, comparison) = simulate::simulate(connection, draft, args.jobs.jobs)?;
    match args.json {
        true => output::print_json(&simulation),
        false => output::print(&simulation::text(&simulation, &comparison)),
    }
}

/// Writes the captures without payload and with other addresses.
fn anonymise(path: &Path, captures: &[PathBuf]) -> Result<(), Failure> {
    let cancelled = interrupt::watch();
    let mut captures = readers(captures)?;
    let unwritable = |error: std::io::Error| Failure::unwritable(path, &error);
    let file = match path == Path::new("-") {
        true => None,
        false => Some(WholeFile::create(path).map_err(unwritable)?),
    };
    let out: Box<dyn Write> = match &file {
        Some(file) => Box::new(file.file()),
        None => Box::new(std::io::stdout().lock()),
    };
    let mut anonymiser = Anonymiser::new(BufWriter::new(out), key()).map_err(unwritable)?;
    let progress = Progress::of("packets");
    let mut packets = 0_u64;
    while captures.advance().map_err(damaged)? {
        if let Some((file, frame)) = captures.frame() {
            anonymiser.on_frame(file, &frame).map_err(unwritable)?;
        }
        packets += 1;
        if packets.is_multiple_of(65_536) && cancelled.load(std::sync::atomic::Ordering::Relaxed) {
            return Err(Failure::Interrupted);
        }
    }
    progress.finish();
    let (out, written, left_out) = anonymiser.finish().map_err(unwritable)?;
    drop(out);
    if let Some(file) = file {
        file.commit().map_err(unwritable)?;
        let others = match left_out {
            0 => String::new(),
            n => format!("; {n} without TCP, or cut off, are left out"),
        };
        output::remark(format!("wrote {written} packets to {}{others}", path.display()));
    }
    Ok(())
}

/// Returns a key that nobody knows: the standard library seeds its hashers by the system's random numbers.
fn key() -> [u8; 32] {
    let hasher = std::collections::hash_map::RandomState::new();
    let mut key = [0; 32];
    for (n, part) in key.as_chunks_mut::<8>().0.iter_mut().enumerate() {
        *part = hasher.hash_one(n).to_le_bytes();
    }
    key
}

/// Opens captures, to be read in the order of time.
fn readers(paths: &[PathBuf]) -> Result<Merged, Failure> {
    if paths.iter().filter(|path| *path == Path::new("-")).count() > 1 {
        return Err(Failure::Usage("standard input is given twice".to_owned()));
    }
    let readers: Result<Vec<Reader>, Failure> = paths.iter().map(|path| open(path)).collect();
    Ok(Merged::new(readers?))
}

/// Reads captures to their end.
fn read(mut captures: Merged) -> Result<Inspection, Failure> {
    let cancelled = interrupt::watch();
    let progress = Progress::of("packets");
    let result = Inspector::inspect(&mut captures, |_| !cancelled.load(std::sync::atomic::Ordering::Relaxed));
    progress.finish();
    if cancelled.load(std::sync::atomic::Ordering::Relaxed) {
        return Err(Failure::Interrupted);
    }
    let mut inspection = result.map_err(damaged)?;
    inspection.commit = provenance::commit();
    inspection.command = provenance::command();
    Ok(inspection)
}

pub(super) fn damaged(fault: CaptureFault) -> Failure {
    Failure::Usage(fault.to_string())
}

fn open(path: &Path) -> Result<Reader, Failure> {
    let name = path.display().to_string();
    let input: Box<dyn Read + Send> = if path == Path::new("-") {
        Box::new(std::io::stdin())
    } else {
        let unreadable = |error: std::io::Error| {
            Failure::Usage(format!("cannot read the capture {name}: {error}; give a file of `tcpdump -w`"))
        };
        let file = File::open(path).map_err(unreadable)?;
        if file.metadata().map_err(unreadable)?.is_dir() {
            return Err(unreadable(std::io::ErrorKind::IsADirectory.into()));
        }
        Box::new(file)
    };
    Reader::new(&name, input).map_err(damaged)
}
