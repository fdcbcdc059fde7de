//! The result of a claim, in numbers and words.

use serde::{Deserialize, Serialize};

use crate::claims::{Claim, Kind, Paper};
use crate::judge::Status;
use crate::parts::{self, Part};

/// A judgement in numbers and words.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// The condition; empty if there is only one.
    pub condition: String,
    /// Whether the required relation holds under this condition.
    pub status: Status,
    /// The mean of the contender; none if it has none.
    pub of: Option<f64>,
    /// The mean of that with which it is compared.
    pub to: Option<f64>,
    /// The judged ratio, difference or mean.
    pub value: Option<f64>,
    /// Its 95 % interval.
    pub interval: Option<(f64, f64)>,
    /// The number of paired runs.
    pub runs: usize,
    /// The values above as a sentence for the report.
    pub words: String,
}

/// A check with its judgements.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Checked {
    /// The part of the claim to which it belongs; empty if the claim has no parts.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub part: String,
    /// Whether the variant changes nothing of it.
    #[serde(default, skip_serializing_if = "is_false")]
    pub same: bool,
    /// The scenario, plan or simulation.
    pub source: String,
    /// The required relation, in words.
    pub required: String,
    /// The contender, and that with which it is compared.
    pub names: (String, Option<String>),
    /// The unit of both.
    pub unit: String,
    /// The judgements, by condition.
    pub lines: Vec<Line>,
}

impl Checked {
    /// Returns its source, its part, and whether a variant changes it, in words.
    pub fn place(&self) -> String {
        let part = if self.part.is_empty() { String::new() } else { format!("; {}", self.part) };
        let same = if self.same { "; not changed by the variant" } else { "" };
        format!("{}{part}{same}", self.source)
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
fn is_false(value: &bool) -> bool {
    !value
}

/// The result with a variant.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tried {
    /// The name of the variant.
    pub name: String,
    /// The difference.
    pub what: String,
    /// The status of the claim with it.
    pub status: Status,
    /// The judgements of each check with the variant, in the order of the claim.
    pub checks: Vec<Checked>,
}

/// The result of a claim.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// The claim's identifier.
    pub id: String,
    /// The paper's identifier, such as `dmptcp`.
    pub paper: String,
    /// The figure, table or section.
    pub figure: String,
    /// [`Kind::name`].
    pub kind: String,
    /// The statement of the paper, in our words.
    pub claim: String,
    /// The status over all checks and variants.
    pub status: Status,
    /// The measured values in words, the name of the test, or the reason that there is none.
    pub evidence: String,
    /// The paper's numbers.
    pub numbers: String,
    /// The reason for the tolerance.
    pub reason: String,
    /// The finding, for a reader of the paper.
    pub finding: String,
    /// The checks of the plain result.
    pub checks: Vec<Checked>,
    /// The variants that were tried.
    pub variants: Vec<Tried>,
    /// The verdicts on its parts; empty if it has none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<Part>,
    /// The version and commit of the program that judged it, if another program judged the whole record: rows are judged again
    /// one by one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub build: String,
}

impl Finding {
    /// Returns the result of a claim that was not judged.
    pub fn of(paper: &Paper, claim: &Claim) -> Finding {
        let (status, evidence) = match claim.kind {
            Kind::NotCheckable => (Status::NotCheckable, claim.reason.clone()),
            // The test passes in every version that is published, or there is no such version.
            Kind::Unit => (Status::Holds, claim.test.clone().unwrap_or_default()),
            Kind::Scenario => (Status::NotRun, claim.reason.clone()),
        };
        Finding {
            id: claim.id.clone(),
            paper: paper.id.clone(),
            figure: claim.figure.clone(),
            kind: claim.kind.name().to_owned(),
            claim: claim.claim.clone(),
            status,
            evidence,
            numbers: claim.paper.clone(),
            reason: claim.reason.clone(),
            finding: claim.finding.clone(),
            checks: Vec::new(),
            variants: Vec::new(),
            parts: Vec::new(),
            build: String::new(),
        }
    }

    /// Judges its parts, and itself by them.
    pub(crate) fn judge(&mut self) {
        self.parts = parts::parts(self);
        self.status = parts::whole(&self.parts);
    }
}

/// Returns the status of a claim with these checks.
pub fn status(checks: &[Checked]) -> Status {
    Status::all(checks.iter().flat_map(|check| check.lines.iter().map(|line| line.status)))
}

/// Returns the evidence in words: what does not hold first.
pub(crate) fn evidence(finding: &Finding) -> String {
    let lines = |checks: &[Checked]| {
        let all = || checks.iter().flat_map(|check| &check.lines);
        let bad = all().filter(|line| line.status != Status::Holds);
        let good = all().filter(|line| line.status == Status::Holds);
        let words = |line: &Line| match line.status {
            Status::Holds => line.words.clone(),
            status => format!("{} ({})", line.words, status.name()),
        };
        let mut texts: Vec<String> = bad.chain(good).map(words).collect();
        let rest = texts.len().saturating_sub(6);
        texts.truncate(6);
        if rest > 0 {
            texts.push(format!("and {rest} more"));
        }
        texts.join("; ")
    };
    let mut text = lines(&finding.checks);
    for tried in &finding.variants {
        match tried.status {
            Status::Holds => text += &format!(". With {}: {}", tried.name, lines(&tried.checks)),
            status => text += &format!(". With {}: {} too", tried.name, status.name()),
        }
    }
    text
}

/// Returns the number of findings of each status, in the order of [`Status::ALL`].
pub fn score<'a>(findings: impl Iterator<Item = &'a Finding>) -> [usize; 6] {
    let mut counts = [0; 6];
    for finding in findings {
        if let Some(at) = Status::ALL.iter().position(|status| *status == finding.status) {
            counts[at] += 1;
        }
    }
    counts
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Returns the finding of a claim that was not judged.
    pub(crate) fn unjudged() -> Finding {
        let text =
            "id = 'x'\ntitle = 'X'\n[[claim]]\nid = 'X1'\nfigure = ''\nclaim = ''\nkind = 'scenario'\n";
        let paper = Paper::parse("x", text).unwrap();
        Finding::of(&paper, &paper.claims[0])
    }

    fn checked(lines: &[(&str, Status)]) -> Vec<Checked> {
        let line = |(words, status): &(&str, Status)| Line {
            words: (*words).to_owned(),
            status: *status,
            ..Line::default()
        };
        vec![Checked { lines: lines.iter().map(line).collect(), ..Checked::default() }]
    }

    #[test]
    fn evidence_has_first_the_judgements_that_do_not_hold() {
        let mut finding = unjudged();
        finding.checks = checked(&[
            ("a", Status::Holds),
            ("b", Status::Fails),
            ("c", Status::Holds),
            ("d", Status::Undecided),
        ]);
        assert_eq!(evidence(&finding), "b (fails); d (undecided); a; c");
        // Six are shown, and the others counted.
        let many: Vec<(&str, Status)> =
            ["1", "2", "3", "4", "5", "6", "7", "8"].map(|name| (name, Status::Holds)).into();
        finding.checks = checked(&many);
        assert_eq!(evidence(&finding), "1; 2; 3; 4; 5; 6; and 2 more");
        finding.checks = checked(&[("b", Status::Fails)]);
        let tried = |name: &str, status| Tried {
            name: name.to_owned(),
            what: String::new(),
            status,
            checks: checked(&[("e", status)]),
        };
        finding.variants = vec![tried("first", Status::Fails), tried("second", Status::Holds)];
        assert_eq!(evidence(&finding), "b (fails). With first: fails too. With second: e");
    }
}
