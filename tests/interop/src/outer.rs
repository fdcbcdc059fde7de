//! Runs cells, a few at once, each in a network namespace that is removed when its cell is over.

use std::collections::VecDeque;

use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use crate::Options;
use crate::cell::{Cell, Load};
use crate::inner::Outcome;

/// Set when Ctrl-C is pressed.
static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// A cell and its outcome.
struct Row {
    at: usize,
    cell: Cell,
    outcome: Outcome,
    seconds: f64,
    /// The failures before it passed.
    before: Vec<String>,
}

/// More unsteady cells than this are a failure.
const UNSTEADY: usize = 3;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs `cells` and prints the table.
pub fn run(options: &Options, cells: &[Cell]) -> ExitCode {
    if let Some(obstacle) = anabranch_emulate::obstacle() {
        eprintln!("SKIPPED: all {} cells of the interoperation matrix: {obstacle}", cells.len());
        // In CI, skipped cells would not be noticed.
        return if std::env::var_os("CI").is_some() { ExitCode::FAILURE } else { ExitCode::from(77) };
    }
    if let Some(directory) = &options.pcap
        && let Err(error) = std::fs::create_dir_all(directory)
    {
        eprintln!("anabranch-interop: cannot make {}: {error}", directory.display());
        return ExitCode::from(2);
    }
    let _ = ctrlc::set_handler(|| INTERRUPTED.store(true, Ordering::Relaxed));
    let begun = Instant::now();
    let waiting: Mutex<VecDeque<(usize, Cell)>> = Mutex::new(cells.iter().copied().enumerate().collect());
    let rows = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for worker in 0..options.jobs {
            let (waiting, rows) = (&waiting, &rows);
            scope.spawn(move || {
                loop {
                    if INTERRUPTED.load(Ordering::Relaxed) {
                        return;
                    }
                    let Some((at, cell)) = lock(waiting).pop_front() else { return };
                    let begun = Instant::now();
                    let outcome = run_cell(options, &cell, worker);
                    let seconds = begun.elapsed().as_secs_f64();
                    lock(rows).push(Row { at, cell, outcome, seconds, before: Vec::new() });
                }
            });
        }
    });
    let mut rows = rows.into_inner().unwrap_or_else(PoisonError::into_inner);
    rows.sort_by_key(|row| row.at);
    repeat_failed(options, &mut rows);
    report(options, &rows, cells.len(), begun.elapsed())
}

/// Repeats the failed cells, one at a time.
fn repeat_failed(options: &Options, rows: &mut [Row]) {
    for row in rows.iter_mut() {
        for _ in 0..options.again {
            if row.outcome.failures.is_empty() || INTERRUPTED.load(Ordering::Relaxed) {
                break;
            }
            let outcome = run_cell(options, &row.cell, 0);
            row.before.append(&mut row.outcome.failures);
            row.outcome = outcome;
        }
    }
}

fn report(options: &Options, rows: &[Row], meant: usize, elapsed: Duration) -> ExitCode {
    let width = rows.iter().map(|row| row.cell.to_string().len()).max().unwrap_or(0);
    println!("{:width$}  result  seen", "cell");
    for row in rows {
        let failures = &row.outcome.failures;
        let result = match (failures.is_empty(), row.before.is_empty()) {
            (true, true) => "ok",
            (true, false) => "again",
            (false, _) => "FAILED",
        };
        println!("{:width$}  {result:<6}  {}", row.cell.to_string(), row.outcome.seen);
        for failure in failures {
            println!("{:width$}          {failure}", "");
        }
        for failure in &row.before {
            println!("{:width$}          UNSTEADY, before: {failure}", "");
        }
        if options.verbose && !failures.is_empty() {
            for (name, text) in &row.outcome.details {
                println!("{:width$}          {name}: {text}", "");
            }
        }
    }
    let failed = rows.iter().filter(|row| !row.outcome.failures.is_empty()).count();
    let passed = rows.len() - failed;
    let unsteady = rows.iter().filter(|row| !row.before.is_empty()).count();
    let missing = meant - rows.len();
    println!(
        "\n{meant} cells: {passed} passed ({unsteady} of them not at once), {failed} failed, {missing} not run; {:.0} s, {} at once",
        elapsed.as_secs_f64(),
        options.jobs
    );
    if let Some(file) = &options.markdown
        && let Err(error) = std::fs::write(file, markdown(rows))
    {
        eprintln!("anabranch-interop: cannot write {}: {error}", file.display());
        return ExitCode::from(2);
    }
    if failed + missing == 0 && unsteady <= UNSTEADY { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn markdown(rows: &[Row]) -> String {
    let mut text = String::from("| cell | result | seen | s |\n|---|---|---|---|\n");
    for row in rows {
        let (failures, before) = (row.outcome.failures.join("; "), row.before.join("; "));
        let result = match (failures.is_empty(), before.is_empty()) {
            (true, true) => "ok".to_owned(),
            (true, false) => format!("ok again; before: {before}"),
            (false, _) => format!("**failed**: {failures}"),
        };
        text += &format!("| {} | {result} | {} | {:.1} |\n", row.cell, row.outcome.seen, row.seconds);
    }
    text
}

/// A network namespace, removed on drop.
struct Namespace(String);

impl Namespace {
    fn new(name: String) -> Result<Namespace, String> {
        ip(&["netns", "add", &name])?;
        Ok(Namespace(name))
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = ip(&["netns", "delete", &self.0]);
    }
}

fn ip(arguments: &[&str]) -> Result<(), String> {
    let output = Command::new("ip").args(arguments).stdin(Stdio::null()).output();
    match output {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => {
            Err(format!("ip {}: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr).trim()))
        }
        Err(error) => Err(format!("ip: {error}")),
    }
}

/// A child process and its own children, killed on drop.
struct Family(Child);

impl Family {
    /// Starts `command` in its own process group.
    fn spawn(command: &mut Command) -> Result<Family, String> {
        let child = command.process_group(0).spawn();
        child.map(Family).map_err(|error| format!("{command:?}: {error}"))
    }

    fn kill(&mut self, signal: Signal) {
        if let Some(pid) = Pid::from_raw(self.0.id() as i32) {
            let _ = kill_process_group(pid, signal);
        }
    }
}

impl Drop for Family {
    fn drop(&mut self) {
        self.kill(Signal::KILL);
        let _ = self.0.wait();
    }
}

/// Returns the time limit of a cell.
const fn limit(cell: &Cell) -> Duration {
    Duration::from_secs(match cell.load {
        Load::Large => 150,
        Load::Lossy | Load::Medium => 90,
        Load::Byte | Load::Small => 60,
    })
}

fn run_cell(options: &Options, cell: &Cell, worker: u8) -> Outcome {
    attempt(options, cell, worker)
        .unwrap_or_else(|failure| Outcome { failures: vec![failure], ..Outcome::default() })
}

fn attempt(options: &Options, cell: &Cell, worker: u8) -> Result<Outcome, String> {
    let namespace = Namespace::new(format!("anabranch-{}-{worker}", std::process::id()))?;
    let capture = match &options.pcap {
        Some(directory) => Some(capture(&namespace, &directory.join(format!("{cell}.pcap")))?),
        None => None,
    };
    let program = std::env::current_exe().map_err(|error| format!("this program is gone: {error}"))?;
    let mut command = Command::new("ip");
    command.args(["netns", "exec", &namespace.0]).arg(program).args(["--run-cell", &cell.to_string()]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut family = Family::spawn(&mut command)?;
    let (output, errors) = (family.0.stdout.take(), family.0.stderr.take());
    let output = std::thread::spawn(move || read(output));
    let errors = std::thread::spawn(move || read(errors));
    let deadline = Instant::now() + limit(cell);
    let mut late = None;
    while !matches!(family.0.try_wait(), Ok(Some(_)) | Err(_)) {
        if Instant::now() > deadline {
            late = Some(format!("not over after {} s", limit(cell).as_secs()));
        } else if INTERRUPTED.load(Ordering::Relaxed) {
            late = Some("interrupted".to_owned());
        }
        if late.is_some() {
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    drop(family);
    if let Some(mut capture) = capture {
        // It writes its buffered packets.
        capture.kill(Signal::INT);
        let _ = capture.0.wait();
    }
    let (output, errors) = (output.join().unwrap_or_default(), errors.join().unwrap_or_default());
    if let Some(late) = late {
        return Err(late);
    }
    serde_json::from_str(output.trim()).map_err(|_| format!("no result: {}", errors.trim()))
}

fn read(from: Option<impl std::io::Read>) -> String {
    let mut text = String::new();
    if let Some(mut from) = from {
        let _ = from.read_to_string(&mut text);
    }
    text
}

fn capture(namespace: &Namespace, file: &Path) -> Result<Family, String> {
    let mut command = Command::new("ip");
    command.args([
        "netns",
        "exec",
        &namespace.0,
        "tcpdump",
        "-Z",
        "root",
        "-i",
        "any",
        "-s",
        "160",
        "-U",
        "-w",
    ]);
    command.arg(file).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let family = Family::spawn(&mut command)?;
    // It has to run before the first packet.
    std::thread::sleep(Duration::from_millis(300));
    Ok(family)
}
