//! The judgement of a claim.

use anabranch_lab::stats::{self, Interval, Part};
use anabranch_units::RandomStream;
use serde::{Deserialize, Serialize};

use crate::claims::{Check, Pick, Relation};
use crate::metric::Metric;

/// A direction counts from this relative difference on, as in the verdict of a comparison.
pub const MIN_EFFECT: f64 = 0.01;

/// The status of a claim.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Every check holds.
    Holds,
    /// It holds with one of its variants.
    Variant,
    /// It does not hold.
    Fails,
    /// The runs do not decide it.
    Undecided,
    /// It cannot be checked.
    NotCheckable,
    /// It was not simulated.
    #[default]
    NotRun,
}

impl Status {
    /// All of them, in the order of a score.
    pub const ALL: [Status; 6] = [
        Status::Holds,
        Status::Variant,
        Status::Fails,
        Status::Undecided,
        Status::NotCheckable,
        Status::NotRun,
    ];

    /// Returns its name in results.
    pub const fn name(self) -> &'static str {
        match self {
            Status::Holds => "holds",
            Status::Variant => "variant",
            Status::Fails => "fails",
            Status::Undecided => "undecided",
            Status::NotCheckable => "not_checkable",
            Status::NotRun => "not_run",
        }
    }

    /// Returns the status of several checks that all have to hold.
    pub fn all(of: impl IntoIterator<Item = Status>) -> Status {
        // One failure decides; without one, one undecided check leaves all undecided.
        of.into_iter().fold(Status::Holds, |all, one| match (all, one) {
            (Status::NotRun, _) | (_, Status::NotRun) => Status::NotRun,
            (Status::Fails, _) | (_, Status::Fails) => Status::Fails,
            (Status::Undecided, _) | (_, Status::Undecided) => Status::Undecided,
            _ => Status::Holds,
        })
    }
}

/// The values of one condition of a check, one for each run.
#[derive(Clone, Debug)]
pub struct Sides<'a> {
    /// The condition; empty if there is only one.
    pub condition: &'a str,
    /// The values of the contender.
    pub of: &'a [f64],
    /// The values of that with which it is compared.
    pub to: Option<&'a [f64]>,
}

/// The judgement of a check under one condition.
#[derive(Clone, Debug, PartialEq)]
pub struct Judgement {
    /// The condition; empty if there is only one.
    pub condition: String,
    /// Whether the check holds under this condition.
    pub status: Status,
    /// The mean of the contender.
    pub of: f64,
    /// The mean of that with which it is compared.
    pub to: Option<f64>,
    /// The judged ratio, difference or mean.
    pub value: f64,
    /// Its 95 % interval; none for one run, or runs that are all equal.
    pub interval: Option<Interval>,
    /// The number of paired runs.
    pub runs: usize,
}

/// Judges a check under all of its conditions.
pub fn judge(check: &Check, sides: &[Sides<'_>], seed: u64) -> Vec<Judgement> {
    if check.is == Relation::Printed {
        return sides.iter().map(|sides| printed(check, sides, seed)).collect();
    }
    // If one of several conditions is chosen by its value, their intervals hold simultaneously.
    let parts: Vec<Vec<Part>> = sides.iter().map(|sides| parts(check, sides)).collect();
    let intervals = match check.pick {
        Some(_) => stats::simultaneous(&parts, seed),
        None => parts.iter().map(|parts| stats::bootstrap(parts, seed)).collect(),
    };
    let judged = sides.iter().zip(&parts).zip(intervals).map(|((sides, parts), interval)| {
        let value =
            parts.iter().map(|part| part.sum).sum::<f64>() / parts.iter().map(|part| part.count).sum::<f64>();
        let status = status(check, value, interval);
        Judgement {
            condition: sides.condition.to_owned(),
            status,
            of: stats::mean(sides.of).unwrap_or(f64::NAN),
            to: sides.to.map(|to| stats::mean(to).unwrap_or(f64::NAN)),
            value,
            interval,
            runs: sides.of.len(),
        }
    });
    let judged: Vec<Judgement> = judged.collect();
    let by_value = |a: &&Judgement, b: &&Judgement| a.value.total_cmp(&b.value);
    match check.pick {
        None => judged,
        Some(Pick::Least) => judged.iter().min_by(by_value).cloned().into_iter().collect(),
        Some(Pick::Greatest) => judged.iter().max_by(by_value).cloned().into_iter().collect(),
    }
}

/// The 95 % range of fewer runs is not known: one run in forty lies in either tail.
const LEAST_RUNS: usize = 40;
/// The number of means that are drawn for a range.
const DRAWS: usize = 4000;

/// Judges a printed number by the range in which 95 % of single runs lie, or of means of as many runs as the paper has. The
/// runs of two contenders are no pairs then, as the paper's are not.
fn printed(check: &Check, sides: &Sides<'_>, seed: u64) -> Judgement {
    let mut random = RandomStream::new(seed, "printed");
    let count = check.mean_of.unwrap_or(1).max(1);
    let mut draw = |values: &[f64]| {
        let mut one = || values[random.below(values.len() as u64) as usize];
        (0..count).map(|_| one()).sum::<f64>() / f64::from(count)
    };
    let enough = sides.of.len() >= LEAST_RUNS && sides.to.is_none_or(|to| to.len() >= LEAST_RUNS);
    let mut drawn: Vec<f64> = match (enough, sides.to) {
        (false, _) => Vec::new(),
        (true, None) if count == 1 => sides.of.to_vec(),
        (true, None) => (0..DRAWS).map(|_| draw(sides.of)).collect(),
        (true, Some(to)) => {
            let pair = |(of, to): (f64, f64)| if check.difference { of - to } else { of / to };
            (0..DRAWS).map(|_| pair((draw(sides.of), draw(to)))).collect()
        }
    };
    drawn.sort_by(f64::total_cmp);
    let end = |p| stats::percentile(&drawn, p).filter(|end| end.is_finite());
    let interval = end(2.5).zip(end(97.5)).map(|(low, high)| Interval(low, high));
    let status = match (interval, check.value) {
        (Some(range), Some(value)) if range.contains(value) => Status::Holds,
        (Some(_), Some(_)) => Status::Fails,
        _ => Status::Undecided,
    };
    let (of, to) = (stats::mean(sides.of), sides.to.map(|to| stats::mean(to).unwrap_or(f64::NAN)));
    Judgement {
        condition: sides.condition.to_owned(),
        status,
        of: of.unwrap_or(f64::NAN),
        to,
        value: check.value.unwrap_or(f64::NAN),
        interval,
        runs: sides.of.len(),
    }
}

/// Returns the contribution of each run: to a ratio of means, or to a mean.
fn parts(check: &Check, sides: &Sides<'_>) -> Vec<Part> {
    match sides.to {
        None => sides.of.iter().map(|value| Part::one(*value)).collect(),
        Some(to) => {
            let pairs = sides.of.iter().zip(to);
            match check.difference {
                true => pairs.map(|(of, to)| Part::one(of - to)).collect(),
                false => pairs.map(|(of, to)| Part { sum: *of, count: *to }).collect(),
            }
        }
    }
}

/// Compares the interval with the range that the check requires.
fn status(check: &Check, value: f64, interval: Option<Interval>) -> Status {
    if !value.is_finite() {
        return Status::Undecided;
    }
    let Interval(low, high) = interval.unwrap_or(Interval(value, value));
    let neutral = if check.difference { 0.0 } else { 1.0 };
    let (from, upto) = match check.is {
        Relation::Less | Relation::Greater => {
            // Practically equal is not less, and a difference without a scale has no such limit.
            let least = if check.difference { 0.0 } else { MIN_EFFECT };
            let sign = if check.is == Relation::Less { -1.0 } else { 1.0 };
            let (low, high) = if sign < 0.0 { (-high, -low) } else { (low, high) };
            let (value, neutral) = (sign * value, sign * neutral);
            return if low > neutral && value >= neutral + least {
                Status::Holds
            } else if high < neutral + least {
                Status::Fails
            } else {
                Status::Undecided
            };
        }
        Relation::Equal => {
            let tolerance = check.tolerance.unwrap_or(0.0);
            (neutral - tolerance, neutral + tolerance)
        }
        Relation::Printed => return Status::Undecided,
        Relation::Within => (check.from.unwrap_or(f64::NEG_INFINITY), check.upto.unwrap_or(f64::INFINITY)),
    };
    if from <= low && high <= upto {
        Status::Holds
    } else if high < from || upto < low {
        Status::Fails
    } else {
        Status::Undecided
    }
}

/// Returns the relation that a check requires, in words.
pub fn required(check: &Check) -> String {
    let other = || {
        let mut parts = vec![check.to.clone().unwrap_or_else(|| check.of.clone())];
        parts.extend(check.to_metric.map(|metric| format!("({metric})")));
        parts.extend(check.to_in.as_ref().map(|condition| format!("with {condition}")));
        parts.join(" ")
    };
    let measured = format!("{} of {}", check.metric, check.of);
    let range = || match (check.from, check.upto) {
        (Some(from), Some(upto)) => format!("from {from} to {upto}"),
        (Some(from), None) => format!("at least {from}"),
        (None, Some(upto)) => format!("at most {upto}"),
        (None, None) => String::new(),
    };
    match check.is {
        Relation::Less => format!("{measured} less than that of {}", other()),
        Relation::Greater => format!("{measured} greater than that of {}", other()),
        Relation::Equal => {
            let percent = 100.0 * check.tolerance.unwrap_or(0.0);
            format!("{measured} within {percent} % of that of {}", other())
        }
        Relation::Printed => {
            let runs = match check.mean_of {
                None | Some(1) => "single runs".to_owned(),
                Some(count) => format!("means of {count} runs"),
            };
            let what = match (check.compares(), check.difference) {
                (false, _) => measured,
                (true, true) => format!("{measured} less that of {}", other()),
                (true, false) => format!("{measured} over that of {}", other()),
            };
            let value = check.value.unwrap_or(f64::NAN);
            let unit = if check.compares() && !check.difference { "" } else { check.metric.unit() };
            format!("the printed {value} {unit} in the 95 % range of {runs}: {what}").replace("  ", " ")
        }
        Relation::Within if check.difference => {
            format!("{measured} less that of {}: {} {}", other(), range(), check.metric.unit())
        }
        Relation::Within if check.compares() => format!("{measured} over that of {}: {}", other(), range()),
        Relation::Within => format!("{measured}: {} {}", range(), check.metric.unit()),
    }
}

/// Returns a number with at most four digits.
pub(crate) fn number(value: f64) -> String {
    let digits = match value.abs() {
        v if v >= 100.0 => 0,
        v if v >= 10.0 => 1,
        v if v >= 1.0 => 2,
        _ => 3,
    };
    format!("{value:.digits$}")
}

/// Returns a judgement in words: the values, the judged quantity and its interval.
pub fn words(check: &Check, judgement: &Judgement) -> String {
    let value = |metric: Metric, value: f64| match metric.unit() {
        "" => number(value),
        unit => format!("{} {unit}", number(value)),
    };
    let condition = match judgement.condition.as_str() {
        "" => String::new(),
        condition => format!("{condition}: "),
    };
    let mut text = format!("{condition}{} {}", check.of, value(check.metric, judgement.of));
    if let Some(to) = judgement.to {
        let other = match (&check.to_in, &check.to, check.to_metric) {
            (Some(condition), None, _) => condition.clone(),
            (Some(condition), Some(to), _) => format!("{to} with {condition}"),
            (None, Some(to), _) => to.clone(),
            (None, None, Some(metric)) => format!("its {metric}"),
            (None, None, None) => "itself".to_owned(),
        };
        text += &format!(" against {other} {}", value(check.to_metric.unwrap_or(check.metric), to));
    }
    let relative = judgement.to.is_some() && !check.difference;
    let show = |v: f64| if relative { format!("{:+.1}", 100.0 * (v - 1.0)) } else { number(v) };
    let unit = if relative { " %" } else { "" };
    if check.is == Relation::Printed {
        let range = judgement.interval.map_or_else(
            || format!("fewer than {LEAST_RUNS} runs have no 95 % range"),
            |Interval(low, high)| format!("95 % of them in [{}, {}]{unit}", show(low), show(high)),
        );
        text += &format!("; printed {}{unit}, {range}", show(judgement.value));
    } else {
        match (judgement.interval, judgement.to) {
            (Some(Interval(low, high)), Some(_)) => {
                text += &format!(", {}{unit} [{}, {}]", show(judgement.value), show(low), show(high));
            }
            (Some(Interval(low, high)), None) => text += &format!(" [{}, {}]", show(low), show(high)),
            (None, Some(_)) => text += &format!(", {}{unit}", show(judgement.value)),
            (None, None) => {}
        }
    }
    let runs = if judgement.runs == 1 { "1 run".to_owned() } else { format!("{} runs", judgement.runs) };
    text + &format!(" ({runs})")
}

#[cfg(test)]
#[path = "judge_tests.rs"]
mod rules;
#[cfg(test)]
mod tests {
    use super::*;

    fn check(rest: &str) -> Check {
        let head = "scenario='s'\nmetric='done'\nof='a'\nto='b'\n";
        toml::from_str(&format!("{head}{rest}")).unwrap()
    }

    fn judged(check: &Check, of: &[f64], to: &[f64]) -> Status {
        judge(check, &[Sides { condition: "", of, to: Some(to) }], 1)[0].status
    }

    const TO: [f64; 6] = [10.0, 11.0, 9.0, 10.0, 10.5, 9.5];

    #[test]
    fn a_direction_needs_its_side_of_the_interval_and_a_hundredth() {
        let less = check("is='less'");
        assert_eq!(judged(&less, &[9.0, 10.0, 8.2, 9.0, 9.5, 8.4], &TO), Status::Holds);
        assert_eq!(judged(&less, &[11.0, 12.0, 9.8, 11.0, 11.5, 10.4], &TO), Status::Fails);
        assert_eq!(judged(&less, &[6.0, 15.0, 7.0, 12.0, 8.0, 9.5], &TO), Status::Undecided);
        // Surely less, but by 0.1 %: practically equal.
        assert_eq!(judged(&less, &TO.map(|v| 0.999 * v), &TO), Status::Fails);
        assert_eq!(judged(&check("is='greater'"), &TO.map(|v| 1.1 * v), &TO), Status::Holds);
        assert_eq!(judged(&check("is='greater'"), &TO.map(|v| 0.9 * v), &TO), Status::Fails);
    }

    #[test]
    fn a_range_holds_the_whole_interval_or_none_of_it() {
        let equal = check("is='equal'\ntolerance=0.05");
        assert_eq!(judged(&equal, &TO.map(|v| 1.02 * v), &TO), Status::Holds);
        assert_eq!(judged(&equal, &TO.map(|v| 1.2 * v), &TO), Status::Fails);
        assert_eq!(judged(&equal, &[8.0, 12.0, 9.0, 10.0, 11.5, 10.5], &TO), Status::Undecided);
        let within = check("is='within'\ndifference=true\nfrom=1.5\nupto=2.5");
        assert_eq!(judged(&within, &TO.map(|v| v + 2.0), &TO), Status::Holds);
        assert_eq!(judged(&within, &TO.map(|v| v + 3.0), &TO), Status::Fails);
    }

    #[test]
    fn nothing_is_undecided_and_not_equal() {
        assert_eq!(judged(&check("is='equal'\ntolerance=0.5"), &[0.0, 0.0], &[0.0, 0.0]), Status::Undecided);
        assert_eq!(judged(&check("is='less'"), &[f64::NAN, 1.0], &[2.0, 2.0]), Status::Undecided);
    }

    #[test]
    fn one_condition_of_several_may_be_enough() {
        let least = check("is='within'\nupto=0.6\npick='least'");
        let (half, same) = (TO.map(|v| 0.5 * v), TO);
        let sides = [
            Sides { condition: "a", of: &same, to: Some(&TO) },
            Sides { condition: "b", of: &half, to: Some(&TO) },
        ];
        let judged = judge(&least, &sides, 1);
        assert_eq!((judged.len(), judged[0].condition.as_str(), judged[0].status), (1, "b", Status::Holds));
    }

    #[test]
    fn a_claim_fails_with_one_check_and_is_undecided_with_one() {
        use Status::{Fails, Holds, NotRun, Undecided};
        assert_eq!(Status::all([Holds, Undecided, Fails]), Fails);
        assert_eq!(Status::all([Holds, Undecided]), Undecided);
        assert_eq!(Status::all([Fails, NotRun]), NotRun);
        assert_eq!(Status::all([Holds, Holds]), Holds);
    }
}
