//! The search for the best way to send: screening, the judgement of a few candidates in other runs, and the reasons.

use super::{AdviceError, Answer, Application, Candidate, Options, Reason};
use crate::compare::{self, Comparison, Cost};
use crate::explain::{self, Explicable, Question, explain_on};
use crate::report::difference::Reading;
use crate::report::measured::measures;
use crate::report::verdict::Measure;
use crate::report::{self, Record};
use crate::run::Prepared;
use crate::scenario::{Condition, Document, InitialChoice, Kind, Scenario, TrafficClass};
use crate::scenario::{ScenarioError, did_you_mean};
use crate::spoken::spoken;
use crate::stats::Interval;

/// The scheduler of the Linux kernel.
pub(super) const KERNEL: &str = "linux";
/// The schedulers that are screened: the available ones, the best ones in the literature, and ours.
const SCHEDULERS: [&str; 8] =
    [KERNEL, "min_rtt", "dmptcp", "blest", "ecf", "stms_a", "redundant", "anabranch"];
/// The congestion controls that are screened with the best scheduler, in addition to the scenario's one.
const CONGESTION: [&str; 4] = ["lia", "olia", "balia", "bbr"];
/// The congestion control that is screened for TCP on a single path, in addition to the scenario's one.
/// Coupled controls have nothing to couple there.
const SINGLE_PATH_CONGESTION: &str = "bbr";
/// Runs of each candidate in screening.
const SCREENING_RUNS: u32 = 10;
/// Runs of the best candidates on each first path, if screening cannot tell which path is best.
const SECOND_SCREENING_RUNS: u32 = 40;
/// Candidates that are judged.
const JUDGED: usize = 3;
/// First paths that are screened, those with the best estimates.
const MOST_STARTS: usize = 4;
/// Screening and judgement have other seeds than `compare`, so that neither repeats its runs.
const SCREENING_SEED: u64 = 0x5c2e_e017;
const SECOND_SCREENING_SEED: u64 = 0x2f8b_1c65;
const JUDGEMENT_SEED: u64 = 0x1d6e_0b41;
/// The second judgement, if the first one cannot tell, has this multiple of its runs.
pub(super) const SECOND_JUDGEMENT: u32 = 4;
const SECOND_JUDGEMENT_SEED: u64 = 0x6b1f_52a9;
/// The runs of the judgement that are explained.
pub const EXPLAINED_RUNS: u32 = 10;

/// The setting for which advice is sought.
pub(super) struct Setting<'a> {
    document: Document,
    options: &'a Options<'a>,
    /// The scenario without changes.
    pub scenario: Scenario,
    /// The position of the condition.
    position: usize,
    /// The class of traffic that is judged: the first that uses the contender. None without classes.
    pub class: Option<String>,
    /// Its first measure.
    pub measure: Measure,
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
    /// The congestion control of TCP on a single path; none for the scenario's one.
    pub single_congestion: Option<String>,
}

/// A candidate in screening runs. The smaller a value, the better: a time, or for bulk a negative goodput.
struct Tried {
    mean: f64,
    /// The ends of the interval of the mean.
    least: f64,
    most: f64,
    /// The position of the first path.
    start: usize,
    candidate: Candidate,
}

/// A comparison to make.
pub(super) struct Plan<'p> {
    pub candidates: &'p [Candidate],
    /// The position of the first path.
    pub start: usize,
    pub runs: u32,
    pub seed: u64,
    /// The congestion control of TCP on a single path; none for the scenario's one.
    pub single_congestion: Option<&'p str>,
}

impl<'p> Plan<'p> {
    fn screening(candidates: &'p [Candidate], start: usize, single_congestion: Option<&'p str>) -> Plan<'p> {
        Plan { candidates, start, runs: SCREENING_RUNS, seed: SCREENING_SEED, single_congestion }
    }
}

impl Found {
    /// Returns a comparison of candidates on the found first path with the found TCP.
    pub(super) fn plan<'p>(&'p self, candidates: &'p [Candidate], runs: u32, seed: u64) -> Plan<'p> {
        let single_congestion = self.single_congestion.as_deref();
        Plan { candidates, start: self.start, runs, seed, single_congestion }
    }
}

/// Returns the candidate with the congestion control of the scenario.
fn plain(scheduler: &&str) -> Candidate {
    Candidate { name: (*scheduler).to_owned(), scheduler: (*scheduler).to_owned(), congestion: None }
}

fn with(scheduler: &str, congestion: &str) -> Candidate {
    Candidate {
        name: format!("{scheduler} with {congestion}"),
        scheduler: scheduler.to_owned(),
        congestion: Some(congestion.to_owned()),
    }
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
        let experiment = &condition.experiment;
        let class = experiment.main_class().map(str::to_owned);
        let kind =
            experiment.classes.iter().find(|one| Some(&one.name) == class.as_ref()).map(|one| &one.kind);
        let bulk = kind.map_or_else(|| report::is_bulk(condition), Kind::is_bulk);
        let measure = match kind {
            Some(kind) => measures(kind)[0],
            None if bulk => Measure::Goodput,
            None => Measure::MeanTime,
        };
        Ok(Setting { document: document.clone(), options, position, class, measure, bulk, scenario })
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

    /// Returns the judgement in a line, for a reader who waits for the margins.
    pub(super) fn interim(&self, best: &Candidate, start: usize, difference_pct: f64) -> String {
        format!(
            "judged: the {} of {} that starts on {} is {} TCP's; the margins follow, and may take several times as long",
            self.measure.noun(),
            best.name,
            self.path_name(start),
            crate::spoken::amount(difference_pct, None, "below", "above").0,
        )
    }

    /// Compares the contenders of `plan`, after `changes`.
    pub(super) fn compare(&self, plan: &Plan<'_>, changes: &[String]) -> Result<Comparison, AdviceError> {
        Ok(compare::compare(&self.planned(plan, changes)?, &self.runs())?)
    }

    /// Returns the least advantage with which Multipath TCP pays, in percent.
    pub(super) fn least_gain_pct(&self, comparison: &Comparison) -> f64 {
        comparison.min_effect_pct.max(100.0 * self.options.min_gain)
    }

    /// Returns the options of all runs.
    fn runs(&self) -> crate::options::Options<'a> {
        crate::options::Options::new(self.options.jobs, self.options.cancelled, &|_, _| {})
    }

    /// Returns the scenario of a comparison of TCP on the best single path with candidates, after `changes`.
    fn planned(&self, plan: &Plan<'_>, changes: &[String]) -> Result<Scenario, AdviceError> {
        let mut document = self.document.clone();
        let one = |name: &str, scheduler: &str, congestion: Option<&str>| {
            let congestion = congestion.map_or(String::new(), |name| format!(", congestion = \"{name}\""));
            format!("{{ scheduler = \"{scheduler}\", name = \"{name}\"{congestion} }}")
        };
        let mut contenders = vec![one("tcp", "tcp", plan.single_congestion)];
        contenders.extend(
            plan.candidates
                .iter()
                .map(|candidate| one(&candidate.name, &candidate.scheduler, candidate.congestion.as_deref())),
        );
        document.set_from("advise", &format!("schedulers = [{}]", contenders.join(", ")))?;
        for change in changes {
            document.set_from("advise", change)?;
        }
        document.set_option("advise", "reference", "tcp");
        document.set_option("advise", "initial", &(plan.start + 1).to_string());
        document.set_option("advise", "runs", &plan.runs.to_string());
        let mut scenario = document.scenario()?;
        scenario.seed = self.scenario.seed ^ plan.seed;
        scenario.other_starts = false;
        let condition = scenario.conditions.swap_remove(self.position);
        scenario.conditions = vec![Condition { name: String::new(), ..condition }];
        Ok(scenario)
    }

    /// Screens schedulers on every promising first path, and then congestion controls with the best one.
    pub(super) fn screen(&self) -> Result<Found, AdviceError> {
        let schedulers: Vec<Candidate> = SCHEDULERS.iter().map(plain).collect();
        let mut tried = Vec::new();
        for start in self.starts() {
            self.begin(&format!(
                "screening {} schedulers that start on {}",
                schedulers.len(),
                self.path_name(start)
            ));
            tried.extend(self.try_on(&Plan::screening(&schedulers, start, None))?);
        }
        let mut screened = tried.len();
        let (start, mut here) = self.choose_start(tried)?;
        let best = &here[0].candidate;
        let own = self.condition().base.congestion.name();
        let mut controls: Vec<Candidate> = CONGESTION
            .iter()
            .filter(|congestion| **congestion != own)
            .map(|congestion| with(&best.scheduler, congestion))
            .collect();
        // A stock kernel has no coupled congestion control.
        let with_kernel = with(KERNEL, SINGLE_PATH_CONGESTION);
        if self.options.application == Application::Kernel
            && own != SINGLE_PATH_CONGESTION
            && !controls.contains(&with_kernel)
        {
            controls.push(with_kernel);
        }
        self.begin(&format!("screening {} congestion controls with {}", controls.len(), best.scheduler));
        let comparison = self.compare(&Plan::screening(&controls, start, None), &[])?;
        screened += controls.len();
        here.extend(controls.into_iter().map(|candidate| self.tried(&comparison, start, candidate)));
        here.sort_by(|a, b| a.mean.total_cmp(&b.mean));
        let mut candidates: Vec<Candidate> =
            here.iter().take(JUDGED).map(|tried| tried.candidate.clone()).collect();
        // The kernel's own scheduler is what most readers can have at once, with any congestion control of TCP.
        let mut kernel = vec![plain(&KERNEL)];
        let with_kernel = with(KERNEL, SINGLE_PATH_CONGESTION);
        if here[0].candidate.congestion == with_kernel.congestion
            || here.iter().any(|tried| tried.candidate == with_kernel)
        {
            kernel.push(with_kernel);
        }
        for candidate in kernel {
            if !candidates.iter().any(|other| other.name == candidate.name) {
                candidates.push(candidate);
            }
        }
        let single_congestion = self.single_congestion(&comparison, start)?;
        Ok(Found { start, candidates, screened, single_congestion })
    }

    /// Compares the candidates of a plan.
    fn try_on(&self, plan: &Plan<'_>) -> Result<Vec<Tried>, AdviceError> {
        let comparison = self.compare(plan, &[])?;
        Ok(plan
            .candidates
            .iter()
            .map(|candidate| self.tried(&comparison, plan.start, candidate.clone()))
            .collect())
    }

    fn tried(&self, comparison: &Comparison, start: usize, candidate: Candidate) -> Tried {
        let mean = self.value(comparison, &candidate.name);
        let ends = self.row(comparison, &candidate.name).and_then(|row| match self.bulk {
            true => row.goodput_ci95_bps.map(|Interval(least, most)| (-most, -least)),
            false => row.fct_s.ci95.map(|Interval(least, most)| (least, most)),
        });
        let (least, most) = ends.filter(|_| mean.is_finite()).unwrap_or((mean, mean));
        Tried { mean, least, most, start, candidate }
    }

    /// Returns the best first path for the schedulers that the application can have, and the candidates that were tried
    /// on it, the best first. Paths that these runs cannot tell apart get more runs of their best candidates, and the
    /// one with the smallest upper end of an interval is chosen: a start that is sometimes slow is no better advice for
    /// a slightly smaller mean.
    fn choose_start(&self, mut tried: Vec<Tried>) -> Result<(usize, Vec<Tried>), AdviceError> {
        tried.sort_by(|a, b| a.mean.total_cmp(&b.mean));
        let usable = |tried: &&Tried| tried.candidate.is_usable(self.options.application);
        let best = tried.iter().find(usable).unwrap_or(&tried[0]);
        let mut alike: Vec<usize> = tried
            .iter()
            .filter(usable)
            .filter(|other| other.least <= best.most)
            .map(|other| other.start)
            .collect();
        alike.sort_unstable();
        alike.dedup();
        let mut start = best.start;
        if alike.len() > 1 {
            let mut again: Vec<Tried> = Vec::new();
            for start in &alike {
                let here = tried.iter().filter(usable).filter(|other| other.start == *start).take(JUDGED);
                let candidates: Vec<Candidate> = here.map(|tried| tried.candidate.clone()).collect();
                self.begin(&format!(
                    "screening {} schedulers that start on {} in more runs",
                    candidates.len(),
                    self.path_name(*start)
                ));
                again.extend(self.try_on(&Plan {
                    candidates: &candidates,
                    start: *start,
                    runs: SECOND_SCREENING_RUNS,
                    seed: SECOND_SCREENING_SEED,
                    single_congestion: None,
                })?);
            }
            start = surest(&again).unwrap_or(start);
            let is_same =
                |one: &Tried, other: &Tried| one.start == other.start && one.candidate == other.candidate;
            tried.retain(|one| !again.iter().any(|other| is_same(one, other)));
            tried.extend(again);
            tried.sort_by(|a, b| a.mean.total_cmp(&b.mean));
        }
        tried.retain(|one| one.start == start);
        Ok((start, tried))
    }

    /// Returns the congestion control with which TCP on a single path is better than in `comparison`, by more
    /// than the least difference that counts. `comparison` has the scenario's congestion control.
    fn single_congestion(
        &self,
        comparison: &Comparison,
        start: usize,
    ) -> Result<Option<String>, AdviceError> {
        if self.condition().base.congestion.name() == SINGLE_PATH_CONGESTION {
            return Ok(None);
        }
        self.begin(&format!("screening TCP with {SINGLE_PATH_CONGESTION} on a single path"));
        let other = self.compare(&Plan::screening(&[], start, Some(SINGLE_PATH_CONGESTION)), &[])?;
        let (before, after) = (self.value(comparison, "tcp"), self.value(&other, "tcp"));
        Ok(gains(after, before, self.scenario.min_effect).then(|| SINGLE_PATH_CONGESTION.to_owned()))
    }

    /// The paths on which a connection may start, those that are best by what a host can know beforehand. A backup is one only
    /// if all are backups.
    fn starts(&self) -> Vec<usize> {
        let condition = self.condition();
        if matches!(condition.experiment.initial_choice, InitialChoice::Given | InitialChoice::Race) {
            return vec![condition.experiment.initial];
        }
        let estimates = crate::scenario::estimate::estimates(&condition.experiment, &condition.base);
        let paths = condition.experiment.paths();
        let only_backups = paths.iter().all(|path| path.backup);
        let mut starts: Vec<usize> =
            (0..paths.len()).filter(|path| only_backups || !paths[*path].backup).collect();
        starts.sort_by_key(|path| estimates[*path]);
        starts.truncate(MOST_STARTS);
        starts
    }

    /// Returns the row of a contender for the traffic that is judged.
    pub(super) fn row<'c>(&self, comparison: &'c Comparison, contender: &str) -> Option<&'c Record> {
        comparison.row_of_class(contender, self.class.as_deref())
    }

    /// True if TCP and `candidate` delivered all flows that are judged. Another candidate that did not is no obstacle to advice.
    fn is_complete(&self, judgement: &Comparison, candidate: &Candidate) -> bool {
        self.judged(judgement, candidate).all(|row| row.completed == row.n)
    }

    /// True if flows of TCP or of `candidate` missed the deadline that have not failed.
    pub(super) fn is_late(&self, judgement: &Comparison, candidate: &Candidate) -> bool {
        self.judged(judgement, candidate).any(|row| row.completed + row.failed < row.n)
    }

    /// Returns the first of `candidates`, the best first, that a stock kernel can be and that pays.
    pub(super) fn kernel<'c>(
        &self,
        judgement: &Comparison,
        candidates: &'c [Candidate],
    ) -> Option<&'c Candidate> {
        let pays = |candidate: &&Candidate| self.answer(judgement, candidate) == Answer::Pays;
        candidates.iter().filter(|candidate| candidate.for_kernel()).find(pays)
    }

    /// Returns the rows of TCP and of `candidate`, for the traffic that is judged.
    fn judged<'c>(
        &self,
        judgement: &'c Comparison,
        candidate: &Candidate,
    ) -> impl Iterator<Item = &'c Record> {
        ["tcp", &candidate.name].into_iter().filter_map(|name| self.row(judgement, name))
    }

    /// The value of a contender, the smaller the better: its time, or for bulk its negative goodput. Unfinished flows are
    /// worse than any value.
    fn value(&self, comparison: &Comparison, contender: &str) -> f64 {
        self.row(comparison, contender).map_or(f64::INFINITY, |row| value(row, self.bulk))
    }

    /// Judges the candidates; returns them with the best first. Runs that cannot tell are followed by more.
    pub(super) fn judge(&self, found: &Found) -> Result<(Comparison, Vec<Candidate>), AdviceError> {
        let first = self.scenario.runs.max(SCREENING_RUNS);
        let judged = self.judge_in(found, first, JUDGEMENT_SEED)?;
        if self.is_clear(&judged.0, &judged.1[0]) {
            return Ok(judged);
        }
        self.judge_in(found, first.saturating_mul(SECOND_JUDGEMENT), SECOND_JUDGEMENT_SEED)
    }

    fn judge_in(
        &self,
        found: &Found,
        runs: u32,
        seed: u64,
    ) -> Result<(Comparison, Vec<Candidate>), AdviceError> {
        self.begin(&format!("judging {} candidates in {runs} other runs", found.candidates.len()));
        let comparison = self.compare(&found.plan(&found.candidates, runs, seed), &[])?;
        let mut candidates = found.candidates.clone();
        candidates
            .sort_by(|a, b| self.value(&comparison, &a.name).total_cmp(&self.value(&comparison, &b.name)));
        let values: Vec<f64> = candidates.iter().map(|one| self.value(&comparison, &one.name)).collect();
        let least = |candidate: &&Candidate| candidate.is_usable(self.options.application);
        let answer = candidates.iter().find(least).map(|best| self.answer(&comparison, best));
        let same = |at: usize| Some(self.answer(&comparison, &candidates[at])) == answer;
        let nearest = nearest(&candidates, &values, self.scenario.min_effect, self.options.application, same);
        candidates[..=nearest].rotate_right(1);
        Ok((comparison, candidates))
    }

    /// Returns where the time of the flows went for TCP and each candidate, in the first runs of the judgement.
    pub(super) fn reasons(
        &self,
        found: &Found,
        judgement: &Comparison,
        candidates: &[Candidate],
    ) -> Result<Vec<Reason>, AdviceError> {
        self.begin(&format!("explaining {} ways to send", candidates.len() + 1));
        let seed = judgement.head.seed ^ self.scenario.seed;
        let judged = self.planned(&found.plan(candidates, judgement.runs, seed), &[])?;
        let scenario = Scenario { runs: judgement.runs.min(EXPLAINED_RUNS), ..judged.clone() };
        // Every TCP has the path that it has in the judgement: fewer runs may choose another one.
        let mut prepared = compare::prepare(&scenario, Prepared::for_comparison)?;
        compare::select_beside(&judged, &mut prepared, &self.runs(), &mut Cost::default())?;
        let (own, of_classes) = self.judged_paths(judgement);
        prepared[0].set_class_paths(vec![of_classes]);
        let mut paths = vec![None; scenario.contenders.len()];
        paths[0] = own;
        let explicable = Explicable::new(&scenario)?;
        let explanation = explain_on(explicable, &prepared, &[paths], Question::default(), &self.runs())?;
        let reason = |row: explain::Row| Reason {
            scheduler: row.of.scheduler,
            largest: row.largest,
            excess: row.excess,
            sentence: row.sentence,
        };
        let judged = explanation.rows.into_iter().filter(|row| row.of.traffic == self.class);
        Ok(judged.map(reason).collect())
    }

    /// Returns the path of TCP in the judgement, and its path for each class of traffic.
    fn judged_paths(&self, judgement: &Comparison) -> (Option<usize>, Vec<usize>) {
        let experiment = &self.condition().experiment;
        let position = |name: &String| experiment.paths().iter().position(|path| path.name == *name);
        let own = self.row(judgement, "tcp").and_then(|row| position(row.path.as_ref()?));
        let all = judgement.conditions.first().map_or(&[][..], |setting| &setting.class_paths);
        let of_class = |class: &TrafficClass| {
            let measured = all.iter().find(|of| of.traffic == class.name);
            measured.and_then(|of| position(&of.path)).or(own)
        };
        let of_classes: Option<Vec<usize>> = experiment.classes.iter().map(of_class).collect();
        (own, of_classes.unwrap_or_default())
    }

    /// Whether `best` is better than TCP on the best single path.
    pub(super) fn answer(&self, judgement: &Comparison, best: &Candidate) -> Answer {
        if !self.is_complete(judgement, best) {
            return Answer::Incomplete;
        }
        let row = self.row(judgement, &best.name);
        let Some(difference) = row.and_then(|row| row.vs_reference_pct) else { return Answer::Undecided };
        let least = 100.0 * self.options.min_gain;
        match (difference.read(judgement.min_effect_pct), self.bulk) {
            (Some(Reading::Equal), _) => Answer::Equal,
            (Some(Reading::Below), false) | (Some(Reading::Above), true) => {
                if difference.mean.abs() >= least { Answer::Pays } else { Answer::Small }
            }
            (Some(Reading::Above), false) | (Some(Reading::Below), true) => Answer::Costs,
            (Some(Reading::Undecided), _)
                if difference.ci95.is_some_and(|Interval(low, high)| -least < low && high < least) =>
            {
                Answer::Small
            }
            (Some(Reading::Undecided) | None, _) => Answer::Undecided,
        }
    }

    /// True if more runs would probably give the same answer.
    fn is_clear(&self, judgement: &Comparison, best: &Candidate) -> bool {
        let answer = self.answer(judgement, best);
        let row = self.row(judgement, &best.name);
        let interval = row.and_then(|row| row.vs_reference_pct?.ci95);
        let least = if self.bulk { self.options.min_gain } else { -self.options.min_gain };
        let holds_least = interval.is_some_and(|interval| interval.contains(100.0 * least));
        match answer {
            Answer::Undecided => false,
            Answer::Pays | Answer::Small => !holds_least,
            Answer::Equal | Answer::Costs | Answer::Incomplete => true,
        }
    }

    /// Returns the best of `candidates` that the application cannot have, if it is better than TCP and than the first, which is advised,
    /// by what a user would call a gain.
    pub(super) fn beyond<'c>(
        &self,
        judgement: &Comparison,
        candidates: &'c [Candidate],
    ) -> Option<&'c Candidate> {
        let value = |candidate: &Candidate| self.value(judgement, &candidate.name);
        let others = candidates.iter().filter(|candidate| !candidate.is_usable(self.options.application));
        let best = others.min_by(|a, b| value(a).total_cmp(&value(b)))?;
        let gains = |than: f64| gains(value(best), than, self.options.min_gain);
        (gains(value(candidates.first()?)) && gains(self.value(judgement, "tcp"))).then_some(best)
    }
}

/// Returns the start of the candidate with the least upper end of its interval.
fn surest(tried: &[Tried]) -> Option<usize> {
    tried.iter().min_by(|a, b| a.most.total_cmp(&b.most)).map(|tried| tried.start)
}

/// True if `value` is less than another one by more than a part of that. A sender with unfinished flows has an infinite value,
/// and values of bulk are negative.
fn gains(value: f64, than: f64, part: f64) -> bool {
    match than.is_finite() {
        true => value < than - part * than.abs(),
        false => value.is_finite(),
    }
}

/// Returns the position of the candidate that is nearest to a stock host among those that an application can have and that
/// are practically equal to the best of them, with the same answer: which of them has the least mean is chance. `candidates` are in the
/// order of their `values`, and `same` tells whether the answer of one is that of the best.
fn nearest(
    candidates: &[Candidate],
    values: &[f64],
    min_effect: f64,
    application: Application,
    same: impl Fn(usize) -> bool,
) -> usize {
    let usable = || (0..candidates.len()).filter(|at| candidates[*at].is_usable(application));
    let least = usable().next().map_or(0.0, |first| values[first]);
    let equal =
        usable().take_while(|at| values[*at] <= least + min_effect * least.abs()).filter(|at| same(*at));
    // A scheduler needs another stack, and a coupled congestion control another kernel.
    let distance = |candidate: &Candidate| {
        (!candidate.for_kernel(), candidate.congestion.is_some(), candidate.scheduler != KERNEL)
    };
    equal.min_by_key(|at| distance(&candidates[*at])).unwrap_or(0)
}

fn value(row: &Record, bulk: bool) -> f64 {
    match (bulk, row.completed == row.n) {
        (_, false) => f64::INFINITY,
        (true, true) => row.goodput_bps.map_or(f64::INFINITY, |rate| -rate),
        (false, true) => row.fct_s.mean.unwrap_or(f64::INFINITY),
    }
}

#[cfg(test)]
#[path = "search_tests.rs"]
mod tests;
