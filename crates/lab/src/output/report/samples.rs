//! The samples of a comparison, by column, and whether they are its own.

use std::collections::BTreeMap;
use std::path::Path;

use anabranch_table::{Cell, Kind};
use serde::Serialize;
use serde_json::Value;

use crate::samples::SCHEMA;

/// The flows of a samples file. `condition` and `scheduler` are places in the lists of names.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Samples {
    file: String,
    conditions: Vec<String>,
    schedulers: Vec<String>,
    condition: Vec<usize>,
    scheduler: Vec<usize>,
    run: Vec<u64>,
    flow: Vec<u64>,
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

impl Samples {
    /// Reads the samples in `path`, which must be those of `comparison` in the file `of`.
    pub(super) fn read(path: &Path, comparison: &Value, of: &str) -> Result<Samples, String> {
        let mut samples = Samples { file: path.display().to_string(), ..Samples::default() };
        let mut other = None;
        anabranch_table::read(path, &COLUMNS, |row| other = samples.add(row).or(other))
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

    /// Returns the times of the flows of a contender under a condition.
    pub fn times(&self, condition: &str, scheduler: &str) -> Vec<Option<f64>> {
        let rows = self.condition.iter().zip(&self.scheduler).zip(&self.fct_s);
        let own =
            rows.filter(|((c, s), _)| self.conditions[**c] == condition && self.schedulers[**s] == scheduler);
        own.map(|(_, fct)| *fct).collect()
    }

    /// Returns the name of the file.
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
        self.fct_s.push(if let Cell::Number(fct) = row[5] { Some(fct) } else { None });
        (whole(0) != i64::from(SCHEMA)).then(|| whole(0))
    }

    /// Compares the number of flows, and the mean time, of each contender with the comparison's.
    fn check(&self, comparison: &Value) -> Result<(), String> {
        let mut found: BTreeMap<(&str, &str), (u64, u64, f64)> = BTreeMap::new();
        for ((condition, scheduler), fct) in self.condition.iter().zip(&self.scheduler).zip(&self.fct_s) {
            let names = (self.conditions[*condition].as_str(), self.schedulers[*scheduler].as_str());
            let (flows, timed, sum) = found.entry(names).or_default();
            *flows += 1;
            *timed += u64::from(fct.is_some());
            *sum += fct.unwrap_or_default();
        }
        for row in comparison["rows"].as_array().into_iter().flatten() {
            let text = |key: &str| row[key].as_str().unwrap_or_default();
            let names = (text("condition"), text("scheduler"));
            let (flows, timed, sum) = found.remove(&names).unwrap_or_default();
            let who = || match names.0 {
                "" => names.1.to_owned(),
                condition => format!("{} under {condition}", names.1),
            };
            if Some(flows) != row["n"].as_u64() {
                return Err(format!("{} has {flows} there, and {} in the comparison", who(), row["n"]));
            }
            let mean = row["fct_s"]["mean"].as_f64();
            // The sum of other times in the same order differs by far more than rounding does.
            if mean.is_some_and(|mean| (sum / timed.max(1) as f64 - mean).abs() > 1e-9 * mean) {
                return Err(format!("the mean completion time of {} is another one", who()));
            }
        }
        match found.keys().next() {
            Some((_, scheduler)) => Err(format!("the comparison has no {scheduler}")),
            None => Ok(()),
        }
    }
}

/// The place of `name` in `names`, at the end if it is new. There are few, and rows are grouped by them.
fn place(names: &mut Vec<String>, name: &str) -> usize {
    names.iter().position(|known| *known == name).unwrap_or_else(|| {
        names.push(name.to_owned());
        names.len() - 1
    })
}
