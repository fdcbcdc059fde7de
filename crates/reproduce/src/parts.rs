//! The parts of a claim: quantities of one sentence that are judged each for itself.

use serde::{Deserialize, Serialize};

use crate::finding::{Checked, Finding};
use crate::judge::Status;

/// The verdict on a part of a claim.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// The key `part` of its checks.
    pub name: String,
    /// Whether all checks of the part hold.
    pub status: Status,
    /// The variant with which it holds, if it does not hold without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variant: Option<String>,
}

/// Returns the status of the checks of one part.
fn of_part(checks: &[Checked], name: &str) -> Status {
    let own = checks.iter().filter(|check| check.part == name);
    Status::all(own.flat_map(|check| check.lines.iter().map(|line| line.status)))
}

/// Returns the verdicts on the parts of a claim by its plain checks and its variants. A claim without parts is one part
/// without a name.
pub(crate) fn parts(finding: &Finding) -> Vec<Part> {
    let mut names: Vec<&str> = Vec::new();
    for check in &finding.checks {
        if !names.contains(&check.part.as_str()) {
            names.push(&check.part);
        }
    }
    let part = |name: &str| {
        let plain = of_part(&finding.checks, name);
        let holds = |tried: &&crate::finding::Tried| of_part(&tried.checks, name) == Status::Holds;
        let tried = finding.variants.iter().find(holds).filter(|_| plain != Status::Holds);
        let status = if tried.is_some() { Status::Variant } else { plain };
        Part { name: name.to_owned(), status, variant: tried.map(|tried| tried.name.clone()) }
    };
    names.into_iter().map(part).collect()
}

/// Returns the status of a claim with these parts: the worst of theirs.
pub(crate) fn whole(parts: &[Part]) -> Status {
    let worst = [Status::NotRun, Status::Fails, Status::Undecided, Status::Variant];
    worst.into_iter().find(|bad| parts.iter().any(|part| part.status == *bad)).unwrap_or(Status::Holds)
}

/// Returns the parts in words; nothing for a claim without parts.
pub fn words(parts: &[Part]) -> String {
    let one = |part: &Part| match &part.variant {
        Some(variant) => format!("{}: {} ({variant})", part.name, part.status.name()),
        None => format!("{}: {}", part.name, part.status.name()),
    };
    parts.iter().map(one).collect::<Vec<_>>().join("; ")
}

/// True if a claim that fails or is undecided has a part that holds, plainly or as a variant.
pub fn holds_in_part(finding: &Finding) -> bool {
    let is_held = |part: &Part| matches!(part.status, Status::Holds | Status::Variant);
    matches!(finding.status, Status::Fails | Status::Undecided) && finding.parts.iter().any(is_held)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::tests::unjudged;
    use crate::finding::{Line, Tried};

    fn part(status: Status) -> Part {
        Part { name: status.name().to_owned(), status, variant: None }
    }

    #[test]
    fn a_claim_is_as_good_as_its_worst_part() {
        use Status::{Fails, Holds, NotRun, Undecided, Variant};
        let order = [NotRun, Fails, Undecided, Variant, Holds];
        for (at, worse) in order.iter().enumerate() {
            for better in &order[at..] {
                assert_eq!(whole(&[part(*better), part(*worse)]), *worse);
            }
        }
        assert_eq!(whole(&[]), Holds);
    }

    #[test]
    fn a_claim_that_does_not_hold_may_hold_in_part() {
        let mut finding = unjudged();
        let mut of = |status, parts: &[Status]| {
            (finding.status, finding.parts) = (status, parts.iter().map(|own| part(*own)).collect());
            holds_in_part(&finding)
        };
        assert!(of(Status::Fails, &[Status::Fails, Status::Holds]));
        assert!(of(Status::Undecided, &[Status::Variant, Status::Undecided]));
        assert!(!of(Status::Fails, &[Status::Fails, Status::Undecided]));
        assert!(
            !of(Status::Holds, &[Status::Holds]) && !of(Status::Variant, &[Status::Variant, Status::Holds])
        );
    }

    #[test]
    fn a_part_names_the_first_variant_with_which_it_holds_if_it_needs_one() {
        let checked = |needs: Status| {
            let check = |part: &str, status| Checked {
                part: part.to_owned(),
                lines: vec![Line { status, ..Line::default() }],
                ..Checked::default()
            };
            vec![check("plain", Status::Holds), check("needs", needs)]
        };
        let tried = |name: &str, needs| Tried {
            name: name.to_owned(),
            what: String::new(),
            status: needs,
            checks: checked(needs),
        };
        let mut finding = unjudged();
        finding.checks = checked(Status::Undecided);
        finding.variants =
            vec![tried("none", Status::Fails), tried("first", Status::Holds), tried("second", Status::Holds)];
        let named = |part: &Part| (part.status, part.variant.clone());
        let found = parts(&finding);
        assert_eq!(named(&found[0]), (Status::Holds, None));
        assert_eq!(named(&found[1]), (Status::Variant, Some("first".to_owned())));
    }

    #[test]
    fn a_part_in_words_has_its_variant() {
        let mut parts = [part(Status::Holds), part(Status::Variant)];
        parts[1].variant = Some("no SACK".to_owned());
        assert_eq!(words(&parts), "holds: holds; variant: variant (no SACK)");
    }
}
