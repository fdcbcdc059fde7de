//! Advice for one setting: whether Multipath TCP pays, with which scheduler and congestion control, on which path a connection
//! should start, and how far the setting may change before the answer does.
//!
//! Candidates are chosen in screening runs and judged in other runs with other seeds, so that the winner is not favoured by the
//! luck that chose it. The judgement is a comparison ([`crate::compare`]): its reference is TCP on the best single path as
//! measured, its intervals hold together.

mod actions;
mod margins;
mod search;

use core::sync::atomic::AtomicBool;

use serde::Serialize;

use crate::compare::Comparison;
use crate::explain::{Excess, Largest};
use crate::report::Difference;
use crate::run::RunError;
use crate::scenario::Document;
use crate::scenario::ScenarioError;

pub use margins::{Margin, MarginEnd, Quantity};
pub use search::EXPLAINED_RUNS;

/// How advice is sought.
pub struct Options<'a> {
    /// The number of threads; 0 is one for each core. The advice does not depend on it.
    pub jobs: usize,
    /// Becomes true when the work is to stop.
    pub cancelled: &'a AtomicBool,
    /// Receives the name of each step when it begins.
    pub progress: &'a (dyn Fn(&str) + Sync),
    /// The condition of a scenario that has several.
    pub condition: Option<&'a str>,
    /// Whether margins are measured, which takes most of the time.
    pub margins: bool,
    /// The least advantage over TCP that a user would call a gain, as a part of TCP's value.
    pub min_gain: f64,
    /// The senders that the user's application can have.
    pub application: Application,
}

/// The least advantage that a user would call a gain, if none is given.
pub const MIN_GAIN: f64 = 0.05;

/// The senders that an application can have. Only these are advised.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Application {
    /// An application that uses the sockets of a stock Linux kernel.
    #[default]
    Kernel,
    /// One that is built on this stack, such as `anabranch serve`.
    Anabranch,
}

/// The reason that there is no advice.
#[derive(Debug)]
pub enum AdviceError {
    /// The scenario is not valid, or not one that advice can be given for.
    Scenario(Box<ScenarioError>),
    /// A run failed, or the work was cancelled.
    Run(Box<RunError>),
}

impl From<ScenarioError> for AdviceError {
    fn from(error: ScenarioError) -> AdviceError {
        AdviceError::Scenario(Box::new(error))
    }
}

impl From<RunError> for AdviceError {
    fn from(error: RunError) -> AdviceError {
        AdviceError::Run(Box::new(error))
    }
}

/// The answer to whether Multipath TCP pays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// It is better than TCP on the best single path, by what a user would call a gain.
    Pays,
    /// It differs by less than a user would call a gain.
    Small,
    /// It is practically equal to it.
    Equal,
    /// It is worse.
    Costs,
    /// The runs cannot tell.
    Undecided,
    /// Flows did not finish.
    Incomplete,
}

/// A way to send.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Candidate {
    /// The name of its row in the judgement, such as `dmptcp` or `dmptcp with lia`.
    pub name: String,
    /// The name of the scheduler, or `tcp`.
    pub scheduler: String,
    /// The congestion control; none for the scenario's one.
    pub congestion: Option<String>,
}

impl Candidate {
    /// True if a stock Linux kernel can send in this way: it has one scheduler, and no coupled congestion control.
    fn for_kernel(&self) -> bool {
        self.scheduler == search::KERNEL && self.congestion.as_deref().is_none_or(|name| name == "bbr")
    }

    /// True if an application of this kind can send in this way.
    fn is_usable(&self, application: Application) -> bool {
        application == Application::Anabranch || self.for_kernel()
    }
}

/// Why a way to send takes the time that it takes, from [`crate::explain`], in the first runs of the judgement.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Reason {
    /// The name of the row of the judgement.
    pub scheduler: String,
    /// The largest cause of its time.
    pub largest: Option<Largest>,
    /// The cause on which it spends more than the fastest row; none for that one and for bulk.
    pub excess: Option<Excess>,
    /// Both in words.
    pub sentence: String,
}

/// The object that `anabranch advise --json` prints.
#[derive(Clone, Debug, Serialize)]
pub struct Advice {
    /// The condition; empty if the scenario has only one.
    pub condition: String,
    /// Whether Multipath TCP pays.
    pub answer: Answer,
    /// The least advantage that counts as a gain, in percent.
    pub min_gain_pct: f64,
    /// The senders that the application can have.
    pub application: Application,
    /// The best candidate that the application can have.
    pub best: Candidate,
    /// The best one of the others, if it is better than `best` by what a user would call a gain.
    pub beyond: Option<Candidate>,
    /// The path on which a connection should start.
    pub start: String,
    /// The best single path; `tcp` uses it.
    pub single_path: Option<String>,
    /// The congestion control of `tcp`, the better one for that path; none for the scenario's one.
    pub single_congestion: Option<String>,
    /// The difference of the best candidate from TCP on that path, in percent: completion time, for bulk goodput.
    pub difference_pct: Option<Difference>,
    /// The class of traffic that is judged; absent without classes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub traffic: Option<String>,
    /// The measure that is judged, in words, such as `mean response time`.
    pub measure: &'static str,
    /// Whether the traffic is measured by its goodput.
    pub bulk: bool,
    /// The number of combinations of scheduler, congestion control and first path that were screened.
    pub screened: usize,
    /// The candidates that were judged, `best` first.
    pub candidates: Vec<Candidate>,
    /// The judgement: TCP and the candidates, in runs that chose none of them.
    pub judgement: Comparison,
    /// A reason for TCP and each candidate.
    pub reasons: Vec<Reason>,
    /// How far each quantity may change before the answer does; empty if they were not measured, or no answer is clear enough.
    pub margins: Vec<Margin>,
    /// Commands and settings that put the advice into effect.
    pub actions: Vec<String>,
}

/// Seeks advice for the scenario of `document`.
///
/// # Errors
/// If the scenario is not valid, it has a single path, none of its several conditions is chosen, or a run
/// fails.
pub fn advise(document: &Document, options: &Options<'_>) -> Result<Advice, AdviceError> {
    let setting = search::Setting::new(document, options)?;
    let found = setting.screen()?;
    let (judgement, candidates) = setting.judge(&found)?;
    let best = candidates.first().cloned().unwrap_or_else(|| found.candidates[0].clone());
    let row = setting.row(&judgement, &best.name);
    let difference_pct = row.and_then(|row| row.vs_reference_pct);
    let answer = setting.answer(&judgement, &best);
    let single_path = setting.row(&judgement, "tcp").and_then(|row| row.path.as_ref());
    let single_path = single_path.map(|name| crate::spoken::spoken(name));
    let kernel = setting.kernel(&judgement, &candidates);
    let reasons = setting.reasons(&found, &judgement, &candidates)?;
    let late = setting.is_late(&judgement, &best);
    let margins = match options.margins {
        true => {
            if let Some(difference) = difference_pct.filter(|_| answer != Answer::Undecided) {
                setting.begin(&setting.interim(&best, found.start, difference.mean));
            }
            margins::margins(&setting, &found, &best, answer)?
        }
        false => Vec::new(),
    };
    Ok(Advice {
        condition: match setting.scenario.conditions.as_slice() {
            [_] => String::new(),
            _ => setting.condition().name.clone(),
        },
        answer,
        min_gain_pct: 100.0 * options.min_gain,
        application: options.application,
        beyond: setting.beyond(&judgement, &candidates).cloned(),
        start: setting.path_name(found.start),
        actions: actions::actions(
            &setting,
            answer,
            &best,
            kernel,
            &found,
            &actions::Judged {
                single_path: single_path.as_deref(),
                late,
                runs: judgement.runs,
                usage: &judgement.usage,
            },
        ),
        single_path,
        single_congestion: found.single_congestion.clone(),
        difference_pct,
        traffic: setting.class.clone(),
        measure: setting.measure.noun(),
        bulk: setting.bulk,
        screened: found.screened,
        best,
        candidates,
        judgement,
        reasons,
        margins,
    })
}
