//! Requests, and their answers.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;

use anabranch_lab::compare::{Comparison, compare, planned, single_runs};
use anabranch_lab::explain::{Explicable, Question, explain};
use anabranch_lab::options::Options;
use anabranch_lab::output::{self, Check, Runs};
use anabranch_lab::run::{Prepared, RunError};
use anabranch_lab::scenario::{Document, Scenario, library};
use anabranch_lab::sweep::PointResult;
use anabranch_recording::film::Film;
use serde::{Deserialize, Serialize};

/// Nothing cancels a request: the page ends the worker.
static NEVER: AtomicBool = AtomicBool::new(false);

/// A request of the page to its worker.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// The work to do.
    pub verb: Verb,
    /// The name of a built-in scenario, or with `text` the name of the scenario in errors.
    #[serde(default)]
    pub name: String,
    /// The text of the scenario; none: the built-in one.
    pub text: Option<String>,
    /// The files that the text names, such as traces.
    #[serde(default)]
    pub files: BTreeMap<String, String>,
    /// Overrides, as `--set` has them.
    #[serde(default)]
    pub set: Vec<String>,
    /// True to measure the effect of other first paths, in a comparison.
    #[serde(default)]
    pub other_starts: bool,
    /// True for a row of plain TCP on every path, in a comparison.
    #[serde(default)]
    pub every_path: bool,
    /// True to run changes that remove the largest cause, in an explanation.
    #[serde(default)]
    pub changes: bool,
    /// The run of the comparison that is replayed.
    pub run: Option<u32>,
    /// The number of a point, from 0, where the verb is about one.
    #[serde(default)]
    pub point: usize,
}

/// The verb of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verb {
    /// `anabranch compare`.
    Compare,
    /// `anabranch run`.
    Run,
    /// A comparison as a point of `anabranch sweep`.
    Point,
    /// `anabranch explain`.
    Explain,
    /// The films of the first flow of one run, of each contender ([`Film`]).
    Film,
    /// `anabranch check`.
    Check,
    /// `anabranch check --canonical`, as a text.
    Canonical,
    /// All lists of `anabranch list`.
    List,
    /// The text of a built-in scenario.
    Scenario,
}

/// The lists of names, each as `anabranch list` prints it.
#[derive(Serialize)]
struct Lists {
    schedulers: Vec<output::Item>,
    congestion: Vec<output::Item>,
    presets: Vec<output::Item>,
    profiles: Vec<output::Item>,
    knobs: Vec<output::Item>,
    scenarios: Vec<output::Item>,
}

impl Request {
    /// Returns the JSON of the answer.
    ///
    /// # Errors
    /// As the command, with the same sentences.
    pub fn answer(&self) -> Result<String, String> {
        match self.verb {
            Verb::Compare => json(&self.compare()?),
            Verb::Point => json(&PointResult::new(self.point, &self.compare()?)),
            Verb::Run => {
                let scenario = self.scenario()?;
                let options = Options { every_path: self.every_path, ..options() };
                let (results, cost) = single_runs(&scenario, &options, self.run).map_err(sentence)?;
                json(&Runs::new(&scenario, &results, self.run, cost))
            }
            Verb::Explain => {
                let scenario = self.scenario()?;
                let explicable = Explicable::new(&scenario).map_err(|error| error.to_string())?;
                let question = Question { flow: None, changes: self.changes };
                json(&explain(explicable, question, &options()).map_err(sentence)?)
            }
            Verb::Film => json(&self.films()?),
            Verb::Check => json(&Check::new(&self.name, &self.checked()?)),
            Verb::Canonical => json(&self.checked()?.canonical()),
            Verb::List => json(&Lists {
                schedulers: output::schedulers(),
                congestion: output::congestion(),
                presets: output::presets(),
                profiles: output::profiles(),
                knobs: output::knobs(),
                scenarios: output::scenarios().map_err(|error| error.to_string())?,
            }),
            Verb::Scenario => match library::find(&self.name) {
                Some(scenario) => json(&scenario.text),
                None => Err(format!("there is no built-in scenario `{}`", self.name)),
            },
        }
    }

    /// Returns the scenario with its overrides.
    fn scenario(&self) -> Result<Scenario, String> {
        let document = match &self.text {
            Some(text) => Document::with_files(self.name.as_str(), text.as_str(), self.files.clone()),
            None => Document::open(&self.name),
        };
        let mut document = document.map_err(|error| error.to_string())?;
        for assignment in &self.set {
            document.set(assignment).map_err(|error| error.to_string())?;
        }
        document.scenario().map_err(|error| error.to_string())
    }

    /// Returns the scenario, if its networks can be made.
    fn checked(&self) -> Result<Scenario, String> {
        let scenario = self.scenario()?;
        for condition in 0..scenario.conditions.len() {
            Prepared::new(&scenario, condition).map_err(sentence)?;
        }
        Ok(scenario)
    }

    /// Returns the films of run number `run` of the comparison, of each contender in the first condition.
    fn films(&self) -> Result<Vec<Film>, String> {
        let run = self.run.unwrap_or(0);
        let scenario = self.scenario()?;
        let (prepared, jobs) = planned(&scenario, &options()).map_err(sentence)?;
        if run >= scenario.runs {
            let last = scenario.runs.saturating_sub(1);
            return Err(format!("there is no run {run}: the scenario has runs 0 to {last}"));
        }
        let chosen = jobs.iter().filter(|job| job.condition == 0 && job.run == run);
        let films = chosen.map(|job| Film::new(&scenario, &prepared[job.condition], job, &NEVER));
        films.collect::<Result<_, _>>().map_err(sentence)
    }

    fn compare(&self) -> Result<Comparison, String> {
        let mut scenario = self.scenario()?;
        scenario.other_starts &= self.other_starts;
        let options = Options { every_path: self.every_path, in_rounds: true, ..options() };
        let mut comparison = compare(&scenario, &options).map_err(sentence)?;
        comparison.keep_fairness_that_applies();
        Ok(comparison)
    }
}

/// Returns the options of runs on one thread.
fn options() -> Options<'static> {
    Options::new(1, &NEVER, &|_, _| {})
}

fn sentence(error: RunError) -> String {
    error.to_string()
}

/// Returns `value` as the command prints it.
fn json(value: &impl Serialize) -> Result<String, String> {
    serde_json::to_string_pretty(value).map_err(|error| format!("cannot write JSON: {error}"))
}
