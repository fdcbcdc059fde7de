//! The sentence in which a comparison ends.

use super::{Difference, difference, is_bulk, is_complete, of_class};
use crate::run::{Class, FlowResult, RunResult};
use crate::scenario::{Condition, Scenario, Transport};
use crate::stats;

/// How a contender has done against the baseline.
#[derive(Clone, Debug, PartialEq)]
pub struct Standing {
    /// The contender.
    pub name: String,
    /// Flows that did not end in time.
    pub missed: usize,
    /// Of how many.
    pub flows: usize,
    /// Against the baseline, in percent; none for the baseline, and where no flow can be compared.
    pub difference: Option<Difference>,
    /// What it is ranked by, less being better: the mean completion time, a flow that missed the
    /// deadline counted with the time it had; for bulk the negative goodput.
    pub score: f64,
    /// Against the best multipath contender, in percent; none for itself.
    pub against_best: Option<Difference>,
}

/// What a condition has shown.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// The condition; empty where there is only one.
    pub condition: String,
    /// Whether goodput is what counts.
    pub bulk: bool,
    /// With whom the others are compared: `tcp`, or the reference where nobody is a plain TCP.
    pub baseline: Option<Standing>,
    /// The multipath contenders other than the baseline, in the order of the scenario.
    pub others: Vec<Standing>,
}

impl Finding {
    /// Of a condition; `results` by contender and run.
    pub fn new(scenario: &Scenario, condition: &Condition, results: &[&[RunResult]]) -> Finding {
        let bulk = is_bulk(condition);
        let runs: Vec<Vec<Vec<&FlowResult>>> =
            results.iter().map(|results| of_class(results, Class::Contender).collect()).collect();
        let is_tcp =
            |position: &usize| matches!(scenario.contenders[*position].transport, Transport::Tcp { .. });
        let score = |position: usize| score(&runs[position], bulk);
        let all = 0..scenario.contenders.len();
        // Of several plain TCPs the best one, so that no scheduler shines beside a bad path.
        let plain = all.clone().filter(is_tcp).min_by(|a, b| score(*a).total_cmp(&score(*b)));
        let baseline = plain.or(scenario.reference);
        let others: Vec<usize> = all.filter(|p| Some(*p) != baseline && !is_tcp(p)).collect();
        let best = others.iter().copied().min_by(|a, b| score(*a).total_cmp(&score(*b)));
        let against = |position: usize, other: Option<usize>| {
            let other = other.filter(|other| *other != position)?;
            difference(&runs[position], &runs[other], bulk, scenario.seed)
        };
        let standing = |position: usize| {
            let flows = || runs[position].iter().flatten();
            Standing {
                name: scenario.contenders[position].name.clone(),
                missed: flows().filter(|flow| !is_complete(flow, bulk)).count(),
                flows: flows().count(),
                difference: against(position, baseline),
                score: score(position),
                against_best: against(position, best),
            }
        };
        Finding {
            condition: condition.name.clone(),
            bulk,
            baseline: baseline.map(standing),
            others: others.into_iter().map(standing).collect(),
        }
    }

    fn best(&self) -> Option<&Standing> {
        self.others.iter().min_by(|a, b| a.score.total_cmp(&b.score))
    }
}

fn score(runs: &[Vec<&FlowResult>], bulk: bool) -> f64 {
    let value = |flow: &FlowResult| match bulk {
        true => -flow.goodput().as_bps_f64(),
        false => flow.time.as_secs_f64(),
    };
    let values: Vec<f64> = runs.iter().flatten().map(|flow| value(flow)).collect();
    stats::mean(&values).unwrap_or(f64::INFINITY)
}

/// What all conditions have shown, in one sentence.
pub fn sentence(findings: &[Finding]) -> String {
    let mut clauses: Vec<(String, Vec<&str>)> = Vec::new();
    for finding in findings {
        let clause = clause(finding);
        match clauses.iter_mut().find(|(other, _)| *other == clause) {
            Some((_, conditions)) => conditions.push(&finding.condition),
            None => clauses.push((clause, vec![&finding.condition])),
        }
    }
    let parts: Vec<String> = clauses
        .iter()
        .map(|(clause, conditions)| match conditions.as_slice() {
            _ if findings.len() == 1 => clause.clone(),
            conditions => format!("with {} {clause}", crate::reader::list(conditions)),
        })
        .collect();
    let mut text = parts.join("; ");
    if let Some(first) = text.get(..1).filter(|_| text.starts_with("with ") || text.starts_with("there ")) {
        let upper = first.to_uppercase();
        text.replace_range(..1, &upper);
    }
    text.push('.');
    text
}

fn clause(finding: &Finding) -> String {
    let mut text = core_clause(finding);
    let missed: Vec<String> = finding
        .baseline
        .iter()
        .chain(&finding.others)
        .filter(|standing| standing.missed > 0)
        .map(|standing| format!("{} of {}'s {} flows", standing.missed, standing.name, standing.flows))
        .collect();
    if !missed.is_empty() {
        let fate = if finding.bulk { "were broken off" } else { "did not end in time" };
        text.push_str(&format!(" ({} {fate})", crate::reader::list(&missed)));
    }
    text
}

fn core_clause(finding: &Finding) -> String {
    let Some(best) = finding.best() else {
        return match &finding.baseline {
            Some(only) => format!("there is only {} and nothing to compare it with", only.name),
            None => "there is nothing to compare".to_owned(),
        };
    };
    let Some(baseline) = &finding.baseline else {
        return match finding.others.as_slice() {
            [only] => format!("there is only {} and nothing to compare it with", only.name),
            _ => format!(
                "{} serves this traffic best{}, but there is no tcp to compare it with",
                best.name,
                level(finding, best)
            ),
        };
    };
    let Some(difference) = &best.difference else {
        let (better, worse) = if best.score < baseline.score { (best, baseline) } else { (baseline, best) };
        return format!(
            "{} serves this traffic best: no flow ended in time both with it and with {}",
            better.name, worse.name
        );
    };
    let measure = if finding.bulk { "goodput" } else { "mean completion time" };
    let amount = |mean: f64| format!("{:.1} % {}", mean.abs(), if mean < 0.0 { "below" } else { "above" });
    let better = if finding.bulk { difference.mean > 0.0 } else { difference.mean < 0.0 };
    let Some(interval) = difference.ci95 else {
        if difference.mean == 0.0 {
            return format!(
                "there is no difference in the only run: {}'s {measure} is {}'s",
                best.name, baseline.name
            );
        }
        let winner = if better { best } else { baseline };
        return format!(
            "{} serves this traffic best in the only run: {}'s {measure} is {} {}'s (no interval from one run){}",
            winner.name,
            best.name,
            amount(difference.mean),
            baseline.name,
            if better { level(finding, best) } else { String::new() },
        );
    };
    let range = match interval.1 - interval.0 {
        // Nothing in the scenario is random, or not enough to matter.
        width if width < 1e-9 => "(the same in every run)".to_owned(),
        _ => format!("(95 % interval {:+.1} to {:+.1} %)", interval.0, interval.1),
    };
    if interval.contains(0.0) {
        return format!(
            "there is no difference: the {measure} of {}, the best multipath scheduler, is {} {}'s {range}",
            best.name,
            amount(difference.mean),
            baseline.name,
        );
    }
    if better {
        return format!(
            "{} serves this traffic best: its {measure} is {} {}'s {range}{}",
            best.name,
            amount(difference.mean),
            baseline.name,
            level(finding, best),
        );
    }
    format!(
        "{} serves this traffic best: the {measure} of {}, the best multipath scheduler, is {} {}'s {range}",
        baseline.name,
        best.name,
        amount(difference.mean),
        baseline.name,
    )
}

/// Those that are no different from the best.
fn level(finding: &Finding, best: &Standing) -> String {
    let level: Vec<&str> = finding
        .others
        .iter()
        .filter(|other| other.name != best.name)
        .filter(|other| match &other.against_best {
            Some(Difference { mean, ci95 }) => ci95.map_or(*mean == 0.0, |interval| interval.contains(0.0)),
            None => false,
        })
        .map(|other| other.name.as_str())
        .collect();
    match level.len() {
        0 => String::new(),
        1 => format!(", and {} is no different from it", level[0]),
        _ => format!(", and {} are no different from it", crate::reader::list(&level)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::Interval;

    fn standing(name: &str, score: f64, difference: Option<(f64, f64, f64)>) -> Standing {
        Standing {
            name: name.into(),
            missed: 0,
            flows: 900,
            difference: difference
                .map(|(mean, low, high)| Difference { mean, ci95: Some(Interval(low, high)) }),
            score,
            against_best: None,
        }
    }

    fn finding(condition: &str, others: Vec<Standing>) -> Finding {
        Finding {
            condition: condition.into(),
            bulk: false,
            baseline: Some(standing("tcp", 1.0, None)),
            others,
        }
    }

    #[test]
    fn the_best_is_named_with_its_interval() {
        let mut second = standing("min_rtt", 0.82, Some((-18.0, -21.0, -15.0)));
        second.against_best = Some(Difference { mean: 2.0, ci95: Some(Interval(-1.0, 5.0)) });
        let finding = finding("", vec![second, standing("dmptcp", 0.8, Some((-20.0, -23.04, -17.0)))]);
        assert_eq!(
            sentence(&[finding]),
            "dmptcp serves this traffic best: its mean completion time is 20.0 % below tcp's (95 % interval \
             -23.0 to -17.0 %), and min_rtt is no different from it."
        );
    }

    #[test]
    fn no_difference_is_said() {
        let finding = finding("", vec![standing("dmptcp", 0.99, Some((-1.0, -3.0, 1.0)))]);
        assert_eq!(
            sentence(&[finding]),
            "There is no difference: the mean completion time of dmptcp, the best multipath scheduler, is \
             1.0 % below tcp's (95 % interval -3.0 to +1.0 %)."
        );
    }

    #[test]
    fn tcp_may_be_the_best() {
        let finding = finding("", vec![standing("min_rtt", 1.5, Some((50.0, 40.0, 60.0)))]);
        assert_eq!(
            sentence(&[finding]),
            "tcp serves this traffic best: the mean completion time of min_rtt, the best multipath \
             scheduler, is 50.0 % above tcp's (95 % interval +40.0 to +60.0 %)."
        );
    }

    #[test]
    fn several_conditions_make_one_sentence_and_missed_flows_are_told() {
        let clean = finding("loss=0", vec![standing("dmptcp", 0.8, Some((-20.0, -23.0, -17.0)))]);
        let mut lossy = finding("loss=1%", vec![standing("dmptcp", 0.99, Some((-1.0, -3.0, 1.0)))]);
        lossy.others[0].missed = 3;
        assert_eq!(
            sentence(&[clean, lossy]),
            "With loss=0 dmptcp serves this traffic best: its mean completion time is 20.0 % below tcp's (95 % \
             interval -23.0 to -17.0 %); with loss=1% there is no difference: the mean completion time of \
             dmptcp, the best multipath scheduler, is 1.0 % below tcp's (95 % interval -3.0 to +1.0 %) (3 of \
             dmptcp's 900 flows did not end in time)."
        );
    }

    #[test]
    fn more_goodput_is_better() {
        let mut bulk = finding("", vec![standing("min_rtt", -2.0, Some((95.0, 90.0, 99.0)))]);
        bulk.bulk = true;
        assert_eq!(
            sentence(&[bulk]),
            "min_rtt serves this traffic best: its goodput is 95.0 % above tcp's (95 % interval +90.0 to +99.0 %)."
        );
    }

    #[test]
    fn one_contender_is_no_comparison() {
        assert_eq!(sentence(&[finding("", vec![])]), "There is only tcp and nothing to compare it with.");
    }
}
