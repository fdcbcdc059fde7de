//! The samples of a comparison, by column, and whether they are its own.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::Path;

use anabranch_lab::samples::SCHEMA;
use anabranch_table::Format;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::failure::Failure;

/// The flows of a samples file. `condition` and `scheduler` are places in the lists of names.
#[derive(Default, Serialize)]
pub(super) struct Samples {
    file: String,
    conditions: Vec<String>,
    schedulers: Vec<String>,
    condition: Vec<usize>,
    scheduler: Vec<usize>,
    run: Vec<u32>,
    flow: Vec<u64>,
    fct_s: Vec<Option<f64>>,
}

/// The columns that are shown.
#[derive(Deserialize)]
struct Row {
    schema: u32,
    condition: String,
    scheduler: String,
    run: u32,
    flow: u64,
    fct_s: Option<f64>,
}

impl Samples {
    /// Reads the samples in `path`, which must be those of `comparison` in the file `of`.
    pub(super) fn read(path: &Path, comparison: &Value, of: &str) -> Result<Samples, Failure> {
        let mut samples = Samples { file: path.display().to_string(), ..Samples::default() };
        let failed = |why: String| Failure::Failed(format!("{}: {why}", path.display()));
        if Format::of(path) == Some(Format::Parquet) {
            return Err(failed(
                "a report reads CSV or JSON lines; write them with `compare --samples FILE.csv`".to_owned(),
            ));
        }
        let file = File::open(path).map_err(|error| failed(format!("cannot read it: {error}")))?;
        if Format::of(path) == Some(Format::Csv) {
            for (at, row) in csv::Reader::from_reader(BufReader::new(file)).into_deserialize().enumerate() {
                samples.add(row.map_err(|error| error.to_string()), at + 2).map_err(failed)?;
            }
        } else {
            for (at, line) in BufReader::new(file).lines().enumerate() {
                let row = line
                    .map_err(|error| error.to_string())
                    .and_then(|line| serde_json::from_str(&line).map_err(|error| error.to_string()));
                samples.add(row, at + 1).map_err(failed)?;
            }
        }
        samples.check(comparison).map_err(|why| failed(format!("it has not the flows of {of}: {why}")))?;
        Ok(samples)
    }

    /// The name of the file.
    pub(super) fn file(&self) -> &str {
        &self.file
    }

    fn add(&mut self, row: Result<Row, String>, line: usize) -> Result<(), String> {
        let row = row.map_err(|error| format!("line {line} is no sample: {error}"))?;
        if row.schema != SCHEMA {
            return Err(format!(
                "its schema is {}, and this version of anabranch reads {SCHEMA}; run the comparison again",
                row.schema
            ));
        }
        self.condition.push(place(&mut self.conditions, row.condition));
        self.scheduler.push(place(&mut self.schedulers, row.scheduler));
        self.run.push(row.run);
        self.flow.push(row.flow);
        self.fct_s.push(row.fct_s);
        Ok(())
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
fn place(names: &mut Vec<String>, name: String) -> usize {
    names.iter().position(|known| *known == name).unwrap_or_else(|| {
        names.push(name);
        names.len() - 1
    })
}
