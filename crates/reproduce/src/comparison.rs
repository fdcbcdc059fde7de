//! The runs that a claim compares, and the differences that a variant makes to them.

use std::collections::BTreeMap;

use crate::claims::{Check, Claim, Paper, Variant};
use crate::library;
use crate::measure::{MeasureError, Source, Unit, Work};
use crate::reproduce::{Needs, Options};

/// One condition of a check: the two units that are compared.
pub(crate) struct Comparison {
    pub(crate) check: Check,
    pub(crate) condition: String,
    pub(crate) of: Unit,
    pub(crate) to: Unit,
    /// Whether the variant changes nothing of this comparison.
    pub(crate) same: bool,
}

impl Comparison {
    pub(crate) fn other(&self) -> (&str, crate::Metric) {
        let name = self.check.to.as_deref().unwrap_or(&self.check.of);
        (name, self.check.to_metric.unwrap_or(self.check.metric))
    }
}

/// Returns the units of a claim's checks with a variant.
pub(crate) fn comparisons(
    paper: &Paper,
    claim: &Claim,
    variant: Option<&Variant>,
    options: &Options<'_>,
) -> Result<Vec<Vec<Comparison>>, MeasureError> {
    let mut all = Vec::with_capacity(claim.checks.len());
    for check in &claim.checks {
        let mut check = check.clone();
        if let Some(of) = variant.and_then(|variant| variant.of.as_ref()) {
            check.of.clone_from(of);
        }
        let source = check.choice.source();
        let mut conditions = check.choice.conditions.clone();
        if conditions.is_empty() {
            conditions = match &source {
                Source::Scenario(name) => {
                    let scenario = library::scenario(&paper.home, name)?.scenario()?;
                    scenario.conditions.into_iter().map(|condition| condition.name).collect()
                }
                Source::Plan(_) | Source::Window(_) => vec![String::new()],
            };
        }
        let mut set = check.choice.set.clone();
        set.extend(
            variant.iter().filter(|own| own.applies_to(&check)).flat_map(|own| own.set.iter().cloned()),
        );
        let runs = if options.quick { check.quick_runs.or(check.choice.runs) } else { check.choice.runs };
        let unit = |condition: &str| Unit {
            paper: paper.home.clone(),
            source: source.clone(),
            condition: condition.to_owned(),
            set: set.clone(),
            runs,
            seed: options.seed,
        };
        let comparison = |condition: String| Comparison {
            check: check.clone(),
            of: unit(&condition),
            to: unit(check.to_in.as_ref().unwrap_or(&condition)),
            condition,
            same: false,
        };
        all.push(conditions.into_iter().map(comparison).collect());
    }
    Ok(all)
}

/// Marks the comparisons of a claim that `variant` leaves as they are.
///
/// # Errors
/// If it changes nothing at all: it would be recorded as tried and was not. And if it makes two conditions of a check the same:
/// it then replaces the quantity by which they differ.
pub(crate) fn compare_with_plain(
    claim: &Claim,
    variant: &Variant,
    all: &mut [Vec<Comparison>],
) -> Result<(), MeasureError> {
    let mut needs = Needs::default();
    needs.add(claim, all);
    // The identity of the runs of each unit, plain and with the variant.
    let mut runs: BTreeMap<&Unit, (String, String)> = BTreeMap::new();
    for (unit, _) in &needs.order {
        let wanted = &needs.wanted[unit];
        // A variant that does not apply to the check has set nothing.
        let own = if unit.set.ends_with(&variant.set) { variant.set.len() } else { 0 };
        let plain = Unit { set: unit.set[..unit.set.len() - own].to_vec(), ..unit.clone() };
        let identity = |unit| Work::new(unit, wanted).map(|work| work.identity().to_owned());
        // A variant may add the contender that it names: there are no plain runs then.
        if let (Ok(plain), Ok(varied)) = (identity(&plain), identity(unit)) {
            runs.insert(unit, (plain, varied));
        }
    }
    let is_same = |unit: &Unit| runs.get(unit).is_some_and(|(plain, varied)| plain == varied);
    let become_one = |one: &Unit, other: &Unit| match (runs.get(one), runs.get(other)) {
        (Some(one), Some(other)) => one.0 != other.0 && one.1 == other.1,
        _ => false,
    };
    for comparisons in all.iter() {
        for (at, one) in comparisons.iter().enumerate() {
            if let Some(to_in) = &one.check.to_in
                && become_one(&one.of, &one.to)
            {
                return Err(same_runs(variant, &one.condition, to_in));
            }
            if let Some(other) = comparisons[..at].iter().find(|other| become_one(&one.of, &other.of)) {
                return Err(same_runs(variant, &other.condition, &one.condition));
            }
        }
    }
    let mut changes = false;
    for (check, comparisons) in claim.checks.iter().zip(all.iter_mut()) {
        for comparison in comparisons {
            comparison.same = comparison.check.of == check.of && is_same(&comparison.of);
            comparison.same &= !check.compares() || is_same(&comparison.to);
            changes |= !comparison.same;
        }
    }
    match changes {
        true => Ok(()),
        false => Err(MeasureError::Missing(format!(
            "the variant `{}` changes none of its runs: {} has no effect there",
            variant.name,
            if variant.set.is_empty() { "it" } else { "what it sets" }
        ))),
    }
}

/// Returns the error of a variant that replaces the quantity by which two conditions differ.
fn same_runs(variant: &Variant, one: &str, other: &str) -> MeasureError {
    MeasureError::Missing(format!(
        "the variant `{}` makes `{one}` and `{other}` the same runs: it sets what they differ in; name their scenario in its \
         `except`, or choose another one",
        variant.name
    ))
}

#[cfg(test)]
mod tests {
    use core::sync::atomic::AtomicBool;

    use super::*;

    /// Without this a variant that is recorded as tried may have changed nothing, or have measured one point of a sweep at
    /// all of its points.
    #[test]
    fn every_variant_of_every_claim_changes_its_runs_and_makes_no_two_the_same() {
        let cancelled = AtomicBool::new(false);
        let options = Options { variants: true, ..Options::new(&cancelled) };
        for paper in library::papers().unwrap() {
            for claim in &paper.claims {
                for variant in claim.variants.iter().filter_map(|name| paper.variant(name)) {
                    let mut all = comparisons(&paper, claim, Some(variant), &options).unwrap();
                    let compared = compare_with_plain(claim, variant, &mut all);
                    assert!(compared.is_ok(), "{}: {:?}", claim.id, compared.err());
                }
            }
        }
    }
}
