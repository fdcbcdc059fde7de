//! The verdict in words: a statement a line, each after its class of traffic and its conditions.

use anabranch_units::Duration;

use super::difference::Reading;
use super::measured::Measure;
use super::verdict::{Finding, Outcome, Standing};
use crate::spoken;

impl Measure {
    /// Returns the phrase for the best contender, or for several that are best.
    const fn praise(self, several: bool) -> &'static str {
        match (self, several) {
            (Measure::Bitrate, false) => "gives this traffic the best picture",
            (Measure::Bitrate, true) => "give this traffic the best picture",
            (Measure::Delay, false) => "delays this traffic least",
            (Measure::Delay, true) => "delay this traffic least",
            (
                Measure::MeanTime
                | Measure::Goodput
                | Measure::ResponseTime
                | Measure::Waiting
                | Measure::BurstDelay,
                false,
            ) => "serves this traffic best",
            (
                Measure::MeanTime
                | Measure::Goodput
                | Measure::ResponseTime
                | Measure::Waiting
                | Measure::BurstDelay,
                true,
            ) => "serve this traffic best",
            (Measure::P95, false) => "has the shortest tail",
            (Measure::P95, true) => "have the shortest tails",
        }
    }
}

impl Finding {
    /// Returns the statements of the result, the answer and its difference first, without full stops.
    fn statements(&self) -> Vec<String> {
        let outcome = self.outcome();
        if outcome == Outcome::Incomplete {
            return vec![self.incomplete()];
        }
        let (Some(best), Some(reference)) = (self.best(), &self.reference) else { return vec![self.alone()] };
        let Some(difference) = &best.vs_reference else { return vec![self.alone()] };
        let (measure, name) = (self.measure.noun(), &reference.name);
        let better = self.measure.is_better(difference.mean);
        let multipath = self.others.iter().filter(|other| other.multipath).count();
        let shares = |multipath: bool| self.shares_cost(best, multipath);
        let several = self.others.len() > 1;
        // Unless it is clearly better than the reference, the best has the best mean of all.
        let role = match (best.multipath && !reference.multipath, several, self.is_given) {
            (true, true, _) if multipath > 1 && shares(true) => ", one of the best multipath schedulers,",
            (true, true, _) if multipath > 1 => ", the best multipath scheduler,",
            (true, true, _) => "",
            (false, true, _) if shares(false) => "",
            (false, true, true) if better => ", the best of the others,",
            (false, true, true) => ", the next best,",
            _ => "",
        };
        let (amount, range) = spoken::amount(difference.mean, difference.ci95, "below", "above");
        let range = match difference.ci95 {
            None => "(one run has no interval)",
            // Nothing in the scenario is random, or not enough to matter.
            Some(interval) if interval.half_width() < 1e-9 => "(the same in every run)",
            Some(_) => &range,
        };
        let is = match spoken::is_zero(difference.mean) {
            true => format!("is practically {name}'s {range}"),
            false => format!("is {amount} {name}'s {range}"),
        };
        let of_best = format!("The {measure} of {}{role} {is}", best.name);
        let equal_to = |like: &[&str], to: &str| {
            let are = if like.len() == 1 { "is" } else { "are" };
            let statement = format!("{} {are} practically equal to {to}", crate::scenario::list(like));
            (!like.is_empty()).then_some(statement)
        };
        let mut all = Vec::new();
        match outcome {
            Outcome::SingleRun if difference.mean == 0.0 => {
                all.push(format!(
                    "{}'s {measure} is {name}'s in the only run. More runs would tell more",
                    best.name
                ));
            }
            Outcome::SingleRun => {
                let winner = if better { best } else { reference };
                all.push(format!(
                    "{} is ahead in the only run. The {measure} of {} {is}",
                    winner.name, best.name
                ));
            }
            Outcome::Undecided => {
                all.push(format!(
                    "{} and {name} cannot be told apart with this number of runs. {of_best}",
                    best.name
                ));
                let needed = self.runs_needed(difference).filter(|runs| *runs <= 1_000_000);
                let show = match difference.mean.abs() < self.min_effect_pct {
                    true => "show whether they are practically equal",
                    false => "tell them apart",
                };
                all.extend(needed.map(|runs| format!("about {runs} runs would {show}")));
            }
            Outcome::Equal => {
                let least = (self.min_effect_pct * 1e6).round() / 1e6;
                let limit = match difference.is_within(least) {
                    true => format!(", within {least} %"),
                    false => format!(": no difference above {least} % is shown"),
                };
                all.push(format!("{} and {name} are practically equal{limit}. {of_best}", best.name));
            }
            _ if better => {
                let like = |reading| self.like(reading, |other| other.vs_best, &best.name);
                let (tied, unclear) = self.tied(best);
                let mut leaders = vec![best.name.as_str()];
                leaders.extend(tied);
                all.push(match leaders.as_slice() {
                    [only] => {
                        format!("{only} {}. Its {measure} {is}", self.measure.praise(false))
                    }
                    leaders => format!(
                        "{} {} and cannot be told apart with this number of runs. The {measure} of {} {is}",
                        crate::scenario::list(leaders),
                        self.measure.praise(true),
                        best.name
                    ),
                });
                all.extend(equal_to(&like(Reading::Equal), &best.name));
                if !unclear.is_empty() {
                    let unclear = crate::scenario::list(&unclear);
                    all.push(format!(
                        "{unclear} cannot be told apart from {}, nor from {name}, with this number of runs",
                        best.name
                    ));
                }
            }
            // Contenders that cannot be told apart from the reference have a worse mean than `best`, which is clearly worse
            // than the reference: they are no winners, only uncertain.
            _ => {
                let like = |reading| self.like(reading, |other| other.vs_reference, name);
                all.push(format!("{name} {}. {of_best}", self.measure.praise(false)));
                all.extend(equal_to(&like(Reading::Equal), name));
                let unclear = like(Reading::Undecided);
                if !unclear.is_empty() {
                    let unclear = crate::scenario::list(&unclear);
                    all.push(format!("{unclear} cannot be told apart from {name} with this number of runs"));
                }
            }
        }
        all.extend(self.detour.clone());
        if !self.is_given {
            all.push("there is no tcp to compare with".to_owned());
        }
        all
    }

    fn alone(&self) -> String {
        let mut all = self.reference.iter().chain(&self.others);
        let has_delivered = |one: &Standing| match self.measure.is_gain() {
            true => one.value > 0.0,
            false => one.value.is_finite(),
        };
        if let Some(reference) = self.reference.as_ref().filter(|one| self.is_given && !has_delivered(one))
            && self.others.iter().any(has_delivered)
        {
            return format!("{} delivered nothing, so there is nothing to compare with it", reference.name);
        }
        match (all.next(), all.next()) {
            (Some(only), None) => format!("there is nothing to compare {} with", only.name),
            (Some(_), Some(_)) => match self.measure {
                Measure::Goodput => {
                    "no two contenders have delivered data, so there is nothing to compare".to_owned()
                }
                _ => "no flow was delivered by two contenders, so there is nothing to compare".to_owned(),
            },
            (None, _) => "there is nothing to compare".to_owned(),
        }
    }

    fn incomplete(&self) -> String {
        let list = |count: &dyn Fn(&Standing) -> usize| {
            let of = self.reference.iter().chain(&self.others).filter(|standing| count(standing) > 0);
            let words = of.map(|one| match one.flows {
                1 => format!("{}'s only {}", one.name, self.unit.trim_end_matches('s')),
                flows => format!("{} of {}'s {flows} {}", count(one), one.name, self.unit),
            });
            let words: Vec<String> = words.collect();
            (!words.is_empty()).then(|| crate::scenario::list(&words))
        };
        let failed = list(&|standing| standing.failed).map(|flows| {
            let mut reasons: Vec<String> = Vec::new();
            for failure in self.reference.iter().chain(&self.others).flat_map(|one| &one.failures) {
                let reason = failure.to_string();
                if !reasons.contains(&reason) {
                    reasons.push(reason);
                }
            }
            format!("{flows} failed ({})", reasons.join("; "))
        });
        let late_of = |standing: &Standing| standing.missed.saturating_sub(standing.failed);
        let late = list(&late_of).map(|flows| {
            let all = self.reference.iter().chain(&self.others);
            let late: Vec<&Standing> = all.filter(|one| late_of(one) > 0).collect();
            let hint = match (late.iter().all(|one| one.stranded), late.len()) {
                (true, 1) => ", by which all of its paths are down for good".to_owned(),
                (true, _) => ", by which all of their paths are down for good".to_owned(),
                (false, _) => later_deadline(self.deadline),
            };
            format!("{flows} did not end within the deadline of {}{hint}", self.deadline)
        });
        let reasons: Vec<String> = failed.into_iter().chain(late).collect();
        format!("there is no winner, because {}", reasons.join(", and "))
    }
}

/// Returns the part of a sentence that suggests a later deadline than `deadline`.
pub fn later_deadline(deadline: Duration) -> String {
    let later = (deadline * 4).to_string().replace(' ', "");
    format!("; a later one may help, such as `--set deadline={later}`")
}

/// Returns the results of all conditions, a statement a line: those by the mean before those by the 95th percentile.
pub(crate) fn sentences(findings: &[Finding]) -> String {
    let mut classes: Vec<&Option<String>> = Vec::new();
    for finding in findings {
        if !classes.contains(&&finding.class) {
            classes.push(&finding.class);
        }
    }
    let mut lines = Vec::new();
    for class in classes {
        let own = || findings.iter().filter(|finding| finding.class == *class);
        // Means of all conditions are adjacent, whatever their measure.
        for further in [None, Some(Measure::Bitrate), Some(Measure::P95)] {
            let of =
                |measure| Some(measure).filter(|measure| matches!(measure, Measure::Bitrate | Measure::P95));
            let findings: Vec<&Finding> = own().filter(|finding| of(finding.measure) == further).collect();
            lines.extend(lines_of(&findings, class.as_deref()));
        }
    }
    lines.join("\n")
}

/// Returns the lines of each condition, or of several conditions with the same result.
fn lines_of(findings: &[&Finding], class: Option<&str>) -> Vec<String> {
    let mut results: Vec<(Vec<String>, Vec<&str>)> = Vec::new();
    for finding in findings {
        let statements = finding.statements();
        match results.iter_mut().find(|(other, _)| *other == statements) {
            Some((_, conditions)) => conditions.push(&finding.condition),
            None => results.push((statements, vec![&finding.condition])),
        }
    }
    let line = |place: &str, statement: &String| match place {
        // Names of contenders keep their case.
        "" if ["there ", "about ", "no flow ", "no two "]
            .iter()
            .any(|start| statement.starts_with(start)) =>
        {
            format!("{}{}.", statement[..1].to_uppercase(), &statement[1..])
        }
        place => format!("{place}{statement}."),
    };
    let lines = |(statements, conditions): &(Vec<String>, Vec<&str>)| {
        let place = spoken::place(class, conditions);
        statements.iter().map(|one| spoken::one_line(&line(&place, one))).collect::<Vec<_>>()
    };
    results.iter().flat_map(lines).collect()
}
