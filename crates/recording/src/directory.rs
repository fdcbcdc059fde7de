//! The run directory, and `run.json` in it.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{SystemTime, UNIX_EPOCH};

use anabranch_lab::recording::{Beginning, Recording, RunRecorder};
use anabranch_lab::run::RunError;
use anabranch_lab::scenario::Scenario;
use anabranch_lab::whole_file;
use anabranch_table::Format;
use anabranch_units::Duration;
use serde::Serialize;

use crate::recorder::Recorder;
use crate::schema::{SCHEMA, TABLES};
use crate::tables::Tables;
use crate::xpl::Xpl;

const STATE: &str = "run.json";

/// The origin of a recording.
#[derive(Clone, Debug)]
pub struct Origin {
    /// The version of the program.
    pub version: &'static str,
    /// The commit from which it was built, if known.
    pub commit: Option<&'static str>,
    /// The command line.
    pub command: Vec<String>,
    /// The number of the replayed run of a comparison, if there is one.
    pub run: Option<u32>,
}

/// The form of a recording.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// The format of the tables.
    pub format: Format,
    /// The least time between two rows of a series of windows or queues; zero for every change.
    pub interval: Duration,
    /// True if there are files for xplot.
    pub xpl: bool,
}

/// A run directory could not be made.
#[derive(Debug)]
pub struct DirectoryError {
    path: PathBuf,
    error: io::Error,
}

impl DirectoryError {
    pub(crate) fn new(path: &Path, error: io::Error) -> DirectoryError {
        DirectoryError { path: path.to_owned(), error }
    }
}

impl core::fmt::Display for DirectoryError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "cannot record in {}: {}", self.path.display(), self.error)
    }
}

impl std::error::Error for DirectoryError {}

/// `run.json`.
#[derive(Serialize)]
struct State<'a> {
    schema: u32,
    results: u32,
    version: &'static str,
    commit: Option<&'static str>,
    command: &'a [String],
    /// True once all runs and tables are whole.
    complete: bool,
    /// The reason that it is not complete, if known.
    reason: Option<&'a str>,
    scenario: &'a str,
    scenario_hash: &'a str,
    scenario_toml: &'a str,
    seed: u64,
    run: Option<u32>,
    format: &'static str,
    interval_ns: u64,
    host: Host,
    begun_unix_s: u64,
    ended_unix_s: Option<u64>,
    tables: Vec<&'static str>,
    runs: &'a [Run],
}

#[derive(Serialize)]
struct Host {
    os: &'static str,
    arch: &'static str,
    cpus: Option<usize>,
}

impl<'a> State<'a> {
    /// Returns the state of a recording that has begun, and has no scenario.
    fn begun(origin: &'a Origin, settings: &Settings, begun: SystemTime, runs: &'a [Run]) -> State<'a> {
        State {
            schema: SCHEMA,
            results: anabranch_lab::RESULTS,
            version: origin.version,
            commit: origin.commit,
            command: &origin.command,
            complete: false,
            reason: None,
            scenario: "",
            scenario_hash: "",
            scenario_toml: "",
            seed: 0,
            run: None,
            format: settings.format.name(),
            interval_ns: settings.interval.0,
            host: Host::this(),
            begun_unix_s: seconds(begun),
            ended_unix_s: None,
            tables: TABLES.iter().map(|table| table.name).collect(),
            runs,
        }
    }

    /// Writes `run.json` of the directory in `path`.
    fn write(&self, path: &Path) -> Result<(), DirectoryError> {
        let path = path.join(STATE);
        let written = serde_json::to_string_pretty(self)
            .map_err(io::Error::other)
            .and_then(|text| whole_file::write(&path, format!("{text}\n")));
        written.map_err(|error| DirectoryError { path, error })
    }
}

impl Host {
    fn this() -> Host {
        Host {
            os: std::env::consts::OS,
            arch: std::env::consts::ARCH,
            cpus: std::thread::available_parallelism().ok().map(usize::from),
        }
    }
}

/// Returns the seconds since 1970.
fn seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// Creates the directory of a recording, which must not exist or be empty.
///
/// # Errors
/// If it has files, or cannot be created.
pub fn make_empty(path: &Path) -> Result<(), DirectoryError> {
    let failed = |error| DirectoryError { path: path.to_owned(), error };
    std::fs::create_dir_all(path).map_err(failed)?;
    if std::fs::read_dir(path).map_err(failed)?.next().is_some() {
        let text = "it is not empty; choose another directory, or remove this one";
        return Err(failed(io::Error::new(io::ErrorKind::AlreadyExists, text)));
    }
    Ok(())
}

/// A run in `run.json`.
#[derive(Clone, Debug, Serialize)]
struct Run {
    /// The directory of its tables.
    directory: String,
    condition: String,
    scheduler: String,
    /// The names of its paths, in the order of the client's interfaces.
    paths: Vec<String>,
    /// The classes of its traffic, if it has classes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    traffic: Vec<Class>,
    /// The times in which its paths are down.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    outages: Vec<Outage>,
    seed: u64,
    complete: bool,
    /// The positions of its condition and its contender in the scenario.
    #[serde(skip)]
    place: (usize, usize),
}

/// A time in which a path is down, in `run.json`.
#[derive(Clone, Debug, Serialize)]
struct Outage {
    path: String,
    from_ns: u64,
    /// None if it does not end.
    until_ns: Option<u64>,
}

/// A class of traffic in `run.json`. Its flows have its name and a number.
#[derive(Clone, Debug, Serialize)]
struct Class {
    name: String,
    kind: &'static str,
    /// `contender`, `tcp` or `udp`.
    transport: &'static str,
}

/// A directory with the recordings of the runs of a scenario.
pub struct RunDirectory {
    path: PathBuf,
    scenario: Scenario,
    hash: String,
    origin: Origin,
    settings: Settings,
    begun: SystemTime,
    runs: Mutex<Vec<Run>>,
}

impl RunDirectory {
    /// Creates the directory, which must not exist or be empty, with a `run.json` that is not complete.
    ///
    /// # Errors
    /// If it is not empty, or cannot be written to.
    pub fn create(
        path: &Path,
        scenario: &Scenario,
        origin: Origin,
        settings: Settings,
    ) -> Result<RunDirectory, DirectoryError> {
        let directory = RunDirectory {
            path: path.to_owned(),
            hash: scenario.hash(),
            scenario: scenario.clone(),
            origin,
            settings,
            begun: SystemTime::now(),
            runs: Mutex::new(Vec::new()),
        };
        make_empty(path)?;
        directory.locked(|runs| directory.write(runs, None, false, None))?;
        Ok(directory)
    }

    /// Returns the path of the directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Marks the directory as complete, if all its runs are.
    ///
    /// # Errors
    /// If `run.json` cannot be written.
    pub fn finish(&self) -> Result<(), DirectoryError> {
        self.locked(|runs| {
            let complete = runs.iter().all(|run| run.complete);
            self.write(runs, Some(SystemTime::now()), complete, None)
        })
    }

    /// Records the reason that the runs have ended early; the directory stays marked as not complete, even if
    /// that cannot be written.
    pub fn give_up(&self, reason: &str) {
        let _ = self.locked(|runs| self.write(runs, Some(SystemTime::now()), false, Some(reason)));
    }

    fn locked<T>(&self, act: impl FnOnce(&mut Vec<Run>) -> T) -> T {
        act(&mut self.runs.lock().unwrap_or_else(std::sync::PoisonError::into_inner))
    }

    /// Writes `run.json`. The list of `runs` stays locked meanwhile, so that the last state is written last.
    fn write(
        &self,
        runs: &[Run],
        ended: Option<SystemTime>,
        complete: bool,
        reason: Option<&str>,
    ) -> Result<(), DirectoryError> {
        let mut runs = runs.to_vec();
        // Threads begin them in any order.
        runs.sort_by(|a, b| (a.place, &a.directory).cmp(&(b.place, &b.directory)));
        let state = State {
            complete,
            reason,
            scenario: &self.scenario.name,
            scenario_hash: &self.hash,
            scenario_toml: &self.scenario.text,
            seed: self.scenario.seed,
            run: self.origin.run,
            ended_unix_s: ended.map(seconds),
            ..State::begun(&self.origin, &self.settings, self.begun, &runs)
        };
        state.write(&self.path)
    }

    /// Adds a run to the list and to `run.json`, and creates its directory.
    fn add(&self, run: &Beginning<'_>) -> Result<Run, DirectoryError> {
        let condition = &self.scenario.conditions[run.job.condition];
        let class = |class: &anabranch_lab::scenario::TrafficClass| Class {
            name: class.name.clone(),
            kind: class.kind.name(),
            transport: class.via.name(),
        };
        let outage = |outage: &anabranch_lab::scenario::Outage| Outage {
            path: condition.experiment.paths()[outage.path].name.clone(),
            from_ns: outage.from.0,
            until_ns: outage.until.is_armed().then_some(outage.until.0),
        };
        let scheduler = run.job.name(&self.scenario);
        let parts = [condition.name.as_str(), scheduler.as_str()];
        let parts: Vec<String> =
            parts.into_iter().filter(|part| !part.is_empty()).map(whole_file::part_of_name).collect();
        let name = parts.join(".");
        self.locked(|runs| {
            let mut directory = name.clone();
            let mut number = 1;
            while runs.iter().any(|other| other.directory == directory) {
                number += 1;
                directory = format!("{name}.{number}");
            }
            let run = Run {
                directory,
                condition: condition.name.clone(),
                scheduler,
                paths: condition.experiment.paths().iter().map(|path| path.name.clone()).collect(),
                traffic: condition.experiment.classes.iter().map(class).collect(),
                outages: condition.experiment.outages().iter().map(outage).collect(),
                seed: run.seed,
                complete: false,
                place: (run.job.condition, run.job.contender),
            };
            let path = self.path.join(&run.directory);
            std::fs::create_dir(&path).map_err(|error| DirectoryError { path, error })?;
            runs.push(run.clone());
            self.write(runs, None, false, None)?;
            Ok(run)
        })
    }
}

impl Recording for RunDirectory {
    fn begin(&self, beginning: &Beginning<'_>) -> Result<Box<dyn RunRecorder + '_>, RunError> {
        let failed = |error: DirectoryError| RunError::Recording(error.to_string());
        let run = self.add(beginning).map_err(failed)?;
        let path = self.path.join(&run.directory);
        let links = beginning.network.links().iter().map(|link| link.name.as_str());
        let tables = Tables::create(&path, self.settings.format, links)
            .map_err(|error| RunError::Recording(error.to_string()))?;
        let xpl = self.settings.xpl.then(|| Xpl::new(&path));
        // After a kill, `run.json` has the runs that have ended. An error is ignored here, because `finish` writes the file again.
        let done = move |whole: bool| {
            self.locked(|runs| {
                for run in runs.iter_mut().filter(|other| other.directory == run.directory) {
                    run.complete = whole;
                }
                let _ = self.write(runs, None, false, None);
            });
        };
        let names = {
            let condition = &self.scenario.conditions[beginning.job.condition];
            (condition.name.clone(), beginning.job.name(&self.scenario))
        };
        let interval = self.settings.interval;
        Ok(Box::new(Recorder::new(tables, xpl, beginning, names, interval, Box::new(done))))
    }
}

/// A directory with one run, which was not simulated: it has no scenario.
pub(crate) struct Single {
    path: PathBuf,
    origin: Origin,
    settings: Settings,
    begun: SystemTime,
    run: Run,
}

impl Single {
    /// Creates the directory, which must not exist or be empty, with a `run.json` that is not complete.
    pub(crate) fn create(
        path: &Path,
        name: &str,
        paths: &[String],
        origin: Origin,
        settings: Settings,
    ) -> Result<Single, DirectoryError> {
        make_empty(path)?;
        let run = Run {
            directory: name.to_owned(),
            condition: String::new(),
            scheduler: name.to_owned(),
            paths: paths.to_vec(),
            traffic: Vec::new(),
            outages: Vec::new(),
            seed: 0,
            complete: false,
            place: (0, 0),
        };
        let own = path.join(name);
        std::fs::create_dir(&own).map_err(|error| DirectoryError { path: own, error })?;
        let single = Single { path: path.to_owned(), origin, settings, begun: SystemTime::now(), run };
        single.write(None)?;
        Ok(single)
    }

    /// Marks the directory and its run as complete. `paths` are the names of all paths.
    pub(crate) fn finish(mut self, paths: &[String]) -> Result<(), DirectoryError> {
        self.run.paths = paths.to_vec();
        self.run.complete = true;
        self.write(Some(SystemTime::now()))
    }

    fn write(&self, ended: Option<SystemTime>) -> Result<(), DirectoryError> {
        let runs = core::slice::from_ref(&self.run);
        let state = State {
            complete: ended.is_some(),
            seed: self.run.seed,
            ended_unix_s: ended.map(seconds),
            ..State::begun(&self.origin, &self.settings, self.begun, runs)
        };
        state.write(&self.path)
    }
}
