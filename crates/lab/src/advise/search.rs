//! The search for the best way to send: screening, and the judgement of a few candidates in other runs.

use core::fmt::Write as _;

use super::{AdviceError, Answer, Candidate, Options};
use crate::compare::{self, Comparison};
use crate::report::difference::Reading;
use crate::report::{self, Row};
use crate::scenario::{Condition, Document, InitialChoice, Scenario};
use crate::source::{ScenarioError, did_you_mean};

/// The schedulers that are screened: those that can be had, and those that the literature found best.
const SCHEDULERS: [&str; 7] = ["linux", "min_rtt", "dmptcp", "blest", "ecf", "stms_a", "redundant"];
/// The congestion controls that are screened with the best scheduler, beside that of the scenario.
const CONGESTION: [&str; 4] = ["lia", "olia", "balia", "bbr"];
/// Runs of each candidate in screening.
const SCREENING_RUNS: u32 = 10;
/// Candidates that are judged.
const JUDGED: usize = 3;
/// First paths that are screened, those with the best estimates.
const MOST_STARTS: usize = 4;
/// Screening and judgement have seeds of their own, so that neither has the runs of `compare`.
const SCREENING_SEED: u64 = 0x5c2e_e017;
const JUDGEMENT_SEED: u64 = 0x1d6e_0b41;

/// The setting for which advice is sought.
pub(super) struct Setting<'a> {
    document: Document,
    options: &'a Options<'a>,
    /// The scenario without changes.
    pub scenario: Scenario,
    /// The position of the condition.
    position: usize,
    pub bulk: bool,
}

/// The result of screening.
pub(super) struct Found {
    /// The position of the best first path.
    pub start: usize,
    /// The candidates to judge, the best first.
    pub candidates: Vec<Candidate>,
    /// The number of combinations.
    pub screened: usize,
}

impl<'a> Setting<'a> {
    pub(super) fn new(document: &Document, options: &'a Options<'a>) -> Result<Setting<'a>, AdviceError> {
        let scenario = document.scenario()?;
        let names: Vec<&str> = scenario.conditions.iter().map(|condition| condition.name.as_str()).collect();
        let position = match options.condition {
            None if names.len() == 1 => 0,
            None => {
                let mut error = ScenarioError::new(format!("the scenario has {} conditions", names.len()));
                error.help = Some(format!("choose one with --condition: {}", names.join(", ")));
                return Err(error.into());
            }
            Some(wanted) => names.iter().position(|name| *name == wanted).ok_or_else(|| {
                let mut error = ScenarioError::new(format!("there is no condition called `{wanted}`"));
                error.help = Some(match did_you_mean(wanted, names.iter().copied()) {
                    Some(name) => format!("did you mean `{name}`?"),
                    None => format!("there are {}", names.join(", ")),
                });
                error
            })?,
        };
        let condition = &scenario.conditions[position];
        if condition.experiment.paths().len() < 2 {
            let mut error = ScenarioError::new("there is one path, on which Multipath TCP has no choice");
            error.help = Some("give a second `--path`".to_owned());
            return Err(error.into());
        }
        if let Err(text) = condition.experiment.has_one_class() {
            let mut error = ScenarioError::new(format!("there is no advice for this scenario: {text}"));
            error.help = Some("`anabranch compare` judges each class".to_owned());
            return Err(error.into());
        }
        let bulk = report::is_bulk(condition);
        Ok(Setting { document: document.clone(), options, position, bulk, scenario })
    }

    /// The condition without changes.
    pub(super) fn condition(&self) -> &Condition {
        &self.scenario.conditions[self.position]
    }

    /// The name of a path in a sentence: `wifi`, or `path 1` where a name is a number.
    pub(super) fn path_name(&self, path: usize) -> String {
        self.condition().experiment.paths().get(path).map(|path| spoken(&path.name)).unwrap_or_default()
    }

    /// Reports that a step begins.
    pub(super) fn begin(&self, step: &str) {
        (self.options.progress)(step);
    }

    /// Compares TCP on the best single path with `candidates` that start on path `start`, after `changes`.
    pub(super) fn compare(
        &self,
        candidates: &[Candidate],
        start: usize,
        runs: u32,
        seed: u64,
        changes: &[String],
    ) -> Result<Comparison, AdviceError> {
        let mut document = self.document.clone();
        let mut schedulers = String::from("schedulers = [\"tcp\"");
        for candidate in candidates {
            let _ = write!(
                schedulers,
                ", {{ scheduler = \"{}\", name = \"{}\"",
                candidate.scheduler, candidate.name
            );
            if let Some(congestion) = &candidate.congestion {
                let _ = write!(schedulers, ", congestion = \"{congestion}\"");
            }
            schedulers.push_str(" }");
        }
        schedulers.push(']');
        document.set_from("advise", &schedulers)?;
        for change in changes {
            document.set_from("advise", change)?;
        }
        document.set_option("advise", "reference", "tcp");
        document.set_option("advise", "initial", &(start + 1).to_string());
        document.set_option("advise", "runs", &runs.to_string());
        let mut scenario = document.scenario()?;
        scenario.seed = self.scenario.seed ^ seed;
        scenario.other_starts = false;
        let condition = scenario.conditions.swap_remove(self.position);
        scenario.conditions = vec![Condition { name: String::new(), ..condition }];
        let options = compare::Options {
            jobs: self.options.jobs,
            cancelled: self.options.cancelled,
            progress: &|_, _| {},
            captures: None,
            every_path: false,
        };
        Ok(compare::compare(&scenario, &options)?)
    }

    /// Screens schedulers on every promising first path, and then congestion controls with the best one.
    pub(super) fn screen(&self) -> Result<Found, AdviceError> {
        let plain = |scheduler: &&str| Candidate {
            name: (*scheduler).to_owned(),
            scheduler: (*scheduler).to_owned(),
            congestion: None,
        };
        let schedulers: Vec<Candidate> = SCHEDULERS.iter().map(plain).collect();
        let mut screened = 0;
        // By first path, the values of the candidates.
        let mut tried: Vec<(f64, usize, Candidate)> = Vec::new();
        for start in self.starts() {
            self.begin(&format!(
                "screening {} schedulers that start on {}",
                schedulers.len(),
                self.path_name(start)
            ));
            let comparison = self.compare(&schedulers, start, SCREENING_RUNS, SCREENING_SEED, &[])?;
            for candidate in &schedulers {
                screened += 1;
                tried.push((self.value(&comparison, candidate), start, candidate.clone()));
            }
        }
        tried.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (_, start, best) = tried[0].clone();
        let with = |congestion: &&str| Candidate {
            name: format!("{} with {congestion}", best.scheduler),
            scheduler: best.scheduler.clone(),
            congestion: Some((*congestion).to_owned()),
        };
        let own = self.condition().base.congestion.name();
        let controls: Vec<Candidate> =
            CONGESTION.iter().filter(|congestion| **congestion != own).map(with).collect();
        self.begin(&format!("screening {} congestion controls with {}", controls.len(), best.scheduler));
        let comparison = self.compare(&controls, start, SCREENING_RUNS, SCREENING_SEED, &[])?;
        let mut here: Vec<(f64, Candidate)> = tried
            .into_iter()
            .filter(|(_, path, _)| *path == start)
            .map(|(value, _, candidate)| (value, candidate))
            .collect();
        for candidate in controls {
            screened += 1;
            here.push((self.value(&comparison, &candidate), candidate));
        }
        here.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut candidates: Vec<Candidate> =
            here.iter().take(JUDGED).map(|(_, candidate)| candidate.clone()).collect();
        // The kernel's own scheduler is what most readers can have at once.
        if !candidates.iter().any(|candidate| candidate.name == "linux") {
            candidates.push(plain(&"linux"));
        }
        Ok(Found { start, candidates, screened })
    }

    /// The paths on which a connection may start, those that are best by what a host can know beforehand.
    fn starts(&self) -> Vec<usize> {
        let condition = self.condition();
        if condition.experiment.initial_choice == InitialChoice::Given {
            return vec![condition.experiment.initial];
        }
        let estimates = crate::estimate::estimates(&condition.experiment, &condition.base);
        let mut starts: Vec<usize> = (0..estimates.len()).collect();
        starts.sort_by_key(|path| estimates[*path]);
        starts.truncate(MOST_STARTS);
        starts
    }

    /// The value of a candidate, the smaller the better: its time, or for bulk its negative goodput. Unfinished flows are
    /// worse than any value.
    fn value(&self, comparison: &Comparison, candidate: &Candidate) -> f64 {
        let Some(row) = comparison.rows.iter().find(|row| row.scheduler == candidate.name) else {
            return f64::INFINITY;
        };
        value(row, self.bulk)
    }

    /// Judges the candidates; returns them with the best first.
    pub(super) fn judge(&self, found: &Found) -> Result<(Comparison, Vec<Candidate>), AdviceError> {
        let runs = self.scenario.runs.max(SCREENING_RUNS);
        self.begin(&format!("judging {} candidates in {runs} other runs", found.candidates.len()));
        let comparison = self.compare(&found.candidates, found.start, runs, JUDGEMENT_SEED, &[])?;
        let mut candidates = found.candidates.clone();
        candidates.sort_by(|a, b| self.value(&comparison, a).total_cmp(&self.value(&comparison, b)));
        Ok((comparison, candidates))
    }

    /// Whether `best` is better than TCP on the best single path.
    pub(super) fn answer(&self, judgement: &Comparison, best: &Candidate) -> Answer {
        if !judgement.is_complete() {
            return Answer::Incomplete;
        }
        let row = judgement.rows.iter().find(|row| row.scheduler == best.name);
        let Some(difference) = row.and_then(|row| row.vs_reference_pct) else { return Answer::Undecided };
        match (difference.read(judgement.min_effect_pct), self.bulk) {
            (Some(Reading::Equal), _) => Answer::Equal,
            (Some(Reading::Below), false) | (Some(Reading::Above), true) => Answer::Pays,
            (Some(Reading::Above), false) | (Some(Reading::Below), true) => Answer::Costs,
            (Some(Reading::Undecided) | None, _) => Answer::Undecided,
        }
    }
}

/// The name of a path in a sentence.
pub(crate) fn spoken(name: &str) -> String {
    if name.parse::<u32>().is_ok() { format!("path {name}") } else { name.to_owned() }
}

fn value(row: &Row, bulk: bool) -> f64 {
    match (bulk, row.completed == row.n) {
        (_, false) => f64::INFINITY,
        (true, true) => row.goodput_bps.map_or(f64::INFINITY, |rate| -rate),
        (false, true) => row.fct_s.mean.unwrap_or(f64::INFINITY),
    }
}
