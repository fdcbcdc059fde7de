//! The samples of a comparison, by column, and whether they are its own.

use std::collections::BTreeMap;
use std::path::Path;

use anabranch_table::{Cell, Kind};
use serde::Serialize;

use crate::compare::Comparison;
use crate::samples::SCHEMA;

/// The flows of a samples file. `condition`, `scheduler` and `traffic` are places in the lists of names.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Samples {
    file: String,
    conditions: Vec<String>,
    schedulers: Vec<String>,
    /// The classes of traffic; empty without classes, as are `traffic` and `part`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    traffics: Vec<String>,
    condition: Vec<usize>,
    scheduler: Vec<usize>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    traffic: Vec<usize>,
    run: Vec<u64>,
    flow: Vec<u64>,
    /// The number of the request or burst within its flow.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    part: Vec<Option<u64>>,
    /// The time of the class's measure.
    fct_s: Vec<Option<f64>>,
}

/// The columns that are shown.
const COLUMNS: [(&str, Kind); 6] = [
    ("schema", Kind::Integer),
    ("condition", Kind::Text),
    ("scheduler", Kind::Text),
    ("run", Kind::Integer),
    ("flow", Kind::Integer),
    ("fct_s", Kind::Number),
];

/// The further columns of a comparison with classes of traffic.
const CLASS_COLUMNS: [(&str, Kind); 7] = [
    ("traffic", Kind::Text),
    ("kind", Kind::Text),
    ("part", Kind::Integer),
    ("finished", Kind::Flag),
    ("startup_s", Kind::Number),
    ("stalled_s", Kind::Number),
    ("delay_mean_s", Kind::Number),
];

impl Samples {
    /// Reads the samples in `path`, which must belong to `comparison` in the file `of`.
    pub(super) fn read(path: &Path, comparison: &Comparison, of: &str) -> Result<Samples, String> {
        let mut samples = Samples { file: path.display().to_string(), ..Samples::default() };
        let mut other = None;
        let has_classes = comparison.rows.iter().any(|row| row.traffic.is_some());
        let mut columns = COLUMNS.to_vec();
        columns.extend(CLASS_COLUMNS.iter().filter(|_| has_classes));
        anabranch_table::read(path, &columns, |row| other = samples.add(row).or(other))
            .map_err(|error| error.to_string())?;
        let failed = |why: String| format!("{}: {why}", path.display());
        if let Some(schema) = other {
            return Err(failed(format!(
                "its schema is {schema}, and this version of anabranch reads {SCHEMA}; run the comparison again"
            )));
        }
        samples
            .check(comparison)
            .map_err(|why| failed(format!("it does not have the flows of {of}: {why}")))?;
        Ok(samples)
    }

    /// Returns the times of a contender under a condition: of its flows, or of the flows, requests or bursts of a class
    /// of traffic.
    pub fn times(&self, condition: &str, traffic: Option<&str>, scheduler: &str) -> Vec<Option<f64>> {
        let is_own = |at: &usize| {
            self.conditions[self.condition[*at]] == condition
                && self.schedulers[self.scheduler[*at]] == scheduler
                && self.traffic(*at) == traffic.unwrap_or_default()
        };
        (0..self.fct_s.len()).filter(is_own).map(|at| self.fct_s[at]).collect()
    }

    /// Returns the class of traffic of a row; empty without classes.
    fn traffic(&self, row: usize) -> &str {
        self.traffic.get(row).map_or("", |place| &self.traffics[*place])
    }

    /// Returns the file, as it was given.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// Adds a row; returns its schema if that is another one.
    fn add(&mut self, row: &[Cell<'_>]) -> Option<i64> {
        let whole = |at: usize| if let Cell::Integer(number) = row[at] { number } else { 0 };
        let text = |at: usize| if let Cell::Text(text) = row[at] { text } else { "" };
        self.condition.push(place(&mut self.conditions, text(1)));
        self.scheduler.push(place(&mut self.schedulers, text(2)));
        self.run.push(whole(3).unsigned_abs());
        self.flow.push(whole(4).unsigned_abs());
        let number = |at: usize| if let Cell::Number(number) = row[at] { Some(number) } else { None };
        let mut time = number(5);
        if row.len() > COLUMNS.len() {
            let class = COLUMNS.len();
            self.traffic.push(place(&mut self.traffics, text(class)));
            self.part
                .push(matches!(row[class + 2], Cell::Integer(_)).then(|| whole(class + 2).unsigned_abs()));
            let finished = matches!(row[class + 3], Cell::Flag(true));
            time = match text(class + 1) {
                // A viewer waits for the start of the playback, and in stalls.
                "video" => number(class + 4).zip(number(class + 5)).filter(|_| finished).map(|(a, b)| a + b),
                "udp" => number(class + 6),
                _ => time,
            };
        }
        self.fct_s.push(time);
        (whole(0) != i64::from(SCHEMA)).then(|| whole(0))
    }

    /// Compares the number of flows, and the mean time, of each contender with the comparison's.
    fn check(&self, comparison: &Comparison) -> Result<(), String> {
        let mut found: BTreeMap<(&str, &str, &str), (u64, u64, f64)> = BTreeMap::new();
        for (at, fct) in self.fct_s.iter().enumerate() {
            let (condition, scheduler) = (self.condition[at], self.scheduler[at]);
            let names =
                (self.conditions[condition].as_str(), self.traffic(at), self.schedulers[scheduler].as_str());
            let (flows, timed, sum) = found.entry(names).or_default();
            *flows += 1;
            *timed += u64::from(fct.is_some());
            *sum += fct.unwrap_or_default();
        }
        for row in &comparison.rows {
            let names =
                (row.condition.as_str(), row.traffic.as_deref().unwrap_or_default(), row.scheduler.as_str());
            let (flows, timed, sum) = found.remove(&names).unwrap_or_default();
            let who = || named(names);
            if flows != row.n as u64 {
                return Err(format!("{} has {flows} there, and {} in the comparison", who(), row.n));
            }
            let mean = row.fct_s.mean;
            // The sum of other times in the same order differs by far more than rounding does.
            if mean.is_some_and(|mean| (sum / timed.max(1) as f64 - mean).abs() > 1e-9 * mean) {
                let what = if names.1.is_empty() { "completion time" } else { "time" };
                return Err(format!("the mean {what} of {} is another one", who()));
            }
        }
        match found.keys().next() {
            Some(names) if names.1.is_empty() => Err(format!("the comparison has no {}", names.2)),
            Some(names) => Err(format!("the comparison has no {}", named(*names))),
            None => Ok(()),
        }
    }
}

/// Returns the words for a condition, a class of traffic and a contender.
fn named((condition, traffic, scheduler): (&str, &str, &str)) -> String {
    let of = if traffic.is_empty() { String::new() } else { format!(" for {traffic}") };
    let under = if condition.is_empty() { String::new() } else { format!(" under {condition}") };
    format!("{scheduler}{of}{under}")
}

/// The place of `name` in `names`, at the end if it is new. There are few, and rows are grouped by them.
fn place(names: &mut Vec<String>, name: &str) -> usize {
    names.iter().position(|known| *known == name).unwrap_or_else(|| {
        names.push(name.to_owned());
        names.len() - 1
    })
}
