//! Files of claims.

use core::fmt;

use serde::Deserialize;

use crate::choice::Choice;
use crate::figure::{Figure, Figures};
use crate::metric::Metric;

/// A file of claims could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimsError(pub String);

impl fmt::Display for ClaimsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ClaimsError {}

/// A paper and its claims.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Paper {
    /// Its name on the command line, which is the name of its directory.
    pub id: String,
    /// Its authors, title and place of publication.
    pub title: String,
    /// Remarks that hold for all of its claims.
    #[serde(default)]
    pub notes: String,
    /// Changes that claims may name as variants.
    #[serde(default, rename = "variant")]
    pub variants: Vec<Variant>,
    /// The claims, in the order of the paper.
    #[serde(rename = "claim")]
    pub claims: Vec<Claim>,
    /// The figures of its report, from their own file.
    #[serde(skip)]
    pub figures: Vec<Figure>,
    /// The place of its scenarios: a built-in paper's name, or a directory that ends in `/`.
    #[serde(skip)]
    pub home: String,
}

/// A named change to the scenarios of a claim: something that the paper leaves open, or a quirk of its tools.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Variant {
    /// The identifier to which claims refer.
    pub name: String,
    /// The difference, in a sentence.
    pub what: String,
    /// The values of the scenario that it sets, as `--set` does.
    #[serde(default)]
    pub set: Vec<String>,
    /// Other variants that it combines, before its own values.
    #[serde(default)]
    pub with: Vec<String>,
    /// Scenarios: every claim about one of them tries this variant too.
    #[serde(default)]
    pub standard_for: Vec<String>,
    /// Scenarios to which it does not apply, since they vary what it sets.
    #[serde(default)]
    pub except: Vec<String>,
    /// The contender that replaces the one of the checks.
    #[serde(default)]
    pub of: Option<String>,
}

/// The way in which a claim is checked.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// By simulations.
    Scenario,
    /// By a test of this repository.
    Unit,
    /// Not by runs; its reason says why.
    NotCheckable,
}

impl Kind {
    /// Returns its name in results.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Scenario => "scenario",
            Kind::Unit => "unit",
            Kind::NotCheckable => "not_checkable",
        }
    }
}

/// A statement of a paper that runs can confirm or refute.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Claim {
    /// Its identifier, such as `D18`.
    pub id: String,
    /// The figure, table or section of the paper.
    pub figure: String,
    /// The way in which it is checked.
    pub kind: Kind,
    /// The statement of the paper, in our words.
    pub claim: String,
    /// The paper's numbers, if it has any.
    #[serde(default)]
    pub paper: String,
    /// The reason that it cannot be checked, or for the tolerance.
    #[serde(default)]
    pub reason: String,
    /// The finding: the result in a sentence for a reader of the paper.
    #[serde(default)]
    pub finding: String,
    /// The test that checks it, as `crates/...rs::name`.
    #[serde(default)]
    pub test: Option<String>,
    /// Whether `--quick` judges it.
    #[serde(default)]
    pub quick: bool,
    /// Names of variants of the paper, in the order in which they are tried.
    #[serde(default)]
    pub variants: Vec<String>,
    /// The checks. All of them have to hold.
    #[serde(default, rename = "check")]
    pub checks: Vec<Check>,
}

/// One comparison of a claim.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Check {
    /// The runs; each of their conditions has to satisfy the relation.
    #[serde(flatten)]
    pub choice: Choice,
    /// The measure.
    pub metric: Metric,
    /// The contender.
    pub of: String,
    /// The contender with which it is compared; the same if only `to-in` or `to-metric` is given.
    #[serde(default)]
    pub to: Option<String>,
    /// The condition with which it is compared.
    #[serde(default)]
    pub to_in: Option<String>,
    /// The measure with which it is compared.
    #[serde(default)]
    pub to_metric: Option<Metric>,
    /// The required relation.
    pub is: Relation,
    /// For `equal`: the greatest relative difference.
    #[serde(default)]
    pub tolerance: Option<f64>,
    /// For `within`: the least value.
    #[serde(default)]
    pub from: Option<f64>,
    /// For `within`: the greatest value.
    #[serde(default)]
    pub upto: Option<f64>,
    /// Whether a difference is judged instead of a ratio.
    #[serde(default)]
    pub difference: bool,
    /// Whether one condition is enough: that with the least or greatest value.
    #[serde(default)]
    pub pick: Option<Pick>,
    /// The number of runs with `--quick`.
    #[serde(default)]
    pub quick_runs: Option<u32>,
    /// For `printed`: the number of the paper.
    #[serde(default)]
    pub value: Option<f64>,
    /// For `printed`: the paper prints the mean of this number of runs; 1 unless given.
    #[serde(default)]
    pub mean_of: Option<u32>,
    /// The part of the claim to which it belongs. Parts are judged each for itself.
    #[serde(default)]
    pub part: String,
}

/// The relation of a check.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Relation {
    /// Less than the other.
    Less,
    /// Greater than the other.
    Greater,
    /// Equal to the other within a tolerance.
    Equal,
    /// In a range.
    Within,
    /// The range of single runs, or of means of as many runs as the paper has, has the printed number.
    Printed,
}

/// The condition that counts of several.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Pick {
    /// The condition with the least value.
    Least,
    /// The condition with the greatest value.
    Greatest,
}

impl Check {
    /// True if it compares two values.
    pub fn compares(&self) -> bool {
        self.to.is_some() || self.to_in.is_some() || self.to_metric.is_some()
    }

    /// Returns the fault of the check, if it has one.
    fn fault(&self) -> Option<String> {
        if !self.choice.has_one_source() {
            return Some("a check has one of `scenario`, `plan` and `window`".to_owned());
        }
        if let Some(fault) = self.metric.fault().or(self.to_metric.and_then(Metric::fault)) {
            return Some(fault);
        }
        let needs = match self.is {
            Relation::Less | Relation::Greater => [true, false, false],
            Relation::Equal => [true, true, false],
            Relation::Within => [self.compares(), false, true],
            Relation::Printed => [self.compares(), false, false],
        };
        if (self.is == Relation::Printed) != self.value.is_some() || self.mean_of == Some(0) {
            return Some("`printed` needs `value`, and no other relation has one".to_owned());
        }
        if self.is != Relation::Printed && self.mean_of.is_some()
            || self.is == Relation::Printed && self.pick.is_some()
        {
            return Some("only `printed` has `mean-of`, and it has no `pick`".to_owned());
        }
        let range = self.from.is_some() || self.upto.is_some();
        let has = [self.compares(), self.tolerance.is_some(), range];
        if needs == has {
            return None;
        }
        Some(match self.is {
            Relation::Less | Relation::Greater => {
                "`less` and `greater` need `to`, `to-in` or `to-metric`, and neither a tolerance nor a range"
                    .to_owned()
            }
            Relation::Equal => "`equal` needs `tolerance`, and `to`, `to-in` or `to-metric`".to_owned(),
            Relation::Printed => "`printed` has neither a tolerance nor a range".to_owned(),
            Relation::Within => "`within` needs `from` or `upto`, and no tolerance".to_owned(),
        })
    }
}

impl Variant {
    /// True if it changes the runs of this check.
    pub(crate) fn applies_to(&self, check: &Check) -> bool {
        !check.choice.scenario.as_ref().is_some_and(|name| self.except.contains(name))
    }
}

impl Paper {
    /// Reads the file of claims `text`, called `name` in errors.
    ///
    /// # Errors
    /// If it is not valid; the error has the place and the remedy.
    pub fn parse(name: &str, text: &str) -> Result<Paper, ClaimsError> {
        let mut paper: Paper =
            toml::from_str(text).map_err(|error| ClaimsError(format!("{name}: {error}")))?;
        paper.resolve().map_err(|fault| ClaimsError(format!("{name}: {fault}")))?;
        let mut ids: Vec<&str> = Vec::new();
        for claim in &paper.claims {
            if let Some(fault) = paper.fault(claim, &ids) {
                let line = text.lines().position(|line| line.trim() == format!("id = \"{}\"", claim.id));
                let line = line.map_or(String::new(), |line| format!(":{}", line + 1));
                return Err(ClaimsError(format!("{name}{line}: claim {}: {fault}", claim.id)));
            }
            ids.push(&claim.id);
        }
        paper.home.clone_from(&paper.id);
        Ok(paper)
    }

    /// Gives variants that combine others the values of these, and claims the standard variants of their scenarios.
    fn resolve(&mut self) -> Result<(), String> {
        for at in 0..self.variants.len() {
            let mut parts: Vec<Variant> = Vec::new();
            for name in &self.variants[at].with {
                let earlier = self.variants[..at].iter().find(|variant| variant.name == *name);
                let variant = &self.variants[at].name;
                parts.push(earlier.cloned().ok_or_else(|| {
                    format!("variant `{variant}`: there is no [[variant]] `{name}` before it")
                })?);
            }
            let own = &mut self.variants[at];
            let set = parts.iter().flat_map(|part| part.set.iter().cloned());
            own.set = set.chain(own.set.iter().cloned()).collect();
            own.of = own.of.take().or_else(|| parts.iter().find_map(|part| part.of.clone()));
        }
        for claim in &mut self.claims {
            let uses = |scenario: &String| {
                claim.checks.iter().any(|check| check.choice.scenario.as_ref() == Some(scenario))
            };
            let standard = self.variants.iter().filter(|variant| variant.standard_for.iter().any(uses));
            let names: Vec<String> = standard
                .map(|variant| variant.name.clone())
                .filter(|name| !claim.variants.contains(name))
                .collect();
            claim.variants.extend(names);
        }
        Ok(())
    }

    /// Reads the file of figures `text`, called `name` in errors.
    ///
    /// # Errors
    /// If it is not valid; the error has the place and the remedy.
    pub fn read_figures(&mut self, name: &str, text: &str) -> Result<(), ClaimsError> {
        let read: Figures = toml::from_str(text).map_err(|error| ClaimsError(format!("{name}: {error}")))?;
        for figure in &read.figures {
            let fault = match self.claim(&figure.claim) {
                None => Some(format!("{} has no such claim", self.id)),
                Some(_) => figure.fault(),
            };
            if let Some(fault) = fault {
                return Err(ClaimsError(format!("{name}: figure of claim {}: {fault}", figure.claim)));
            }
        }
        self.figures = read.figures;
        Ok(())
    }

    fn fault(&self, claim: &Claim, ids: &[&str]) -> Option<String> {
        if ids.contains(&claim.id.as_str()) {
            return Some("there is another one with this id".to_owned());
        }
        if let Some(missing) = claim.variants.iter().find(|name| self.variant(name).is_none()) {
            return Some(format!("there is no [[variant]] `{missing}`"));
        }
        match claim.kind {
            Kind::NotCheckable if claim.reason.is_empty() => {
                Some("`not_checkable` needs a `reason`".to_owned())
            }
            Kind::Unit if claim.test.is_none() => Some("`unit` needs a `test`".to_owned()),
            Kind::NotCheckable | Kind::Unit if !claim.checks.is_empty() => {
                Some("only a `scenario` has checks".to_owned())
            }
            _ => claim.checks.iter().find_map(Check::fault),
        }
    }

    /// Returns the variant that claims refer to by `name`; none if the paper has no such variant.
    pub fn variant(&self, name: &str) -> Option<&Variant> {
        self.variants.iter().find(|variant| variant.name == name)
    }

    /// Returns the claim with that identifier, in any case of its letter.
    pub fn claim(&self, id: &str) -> Option<&Claim> {
        self.claims.iter().find(|claim| claim.id.eq_ignore_ascii_case(id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "id = 'x'\ntitle = 'X'\n[[claim]]\nid = \"X1\"\nfigure = '1'\nclaim = 'c'\n";

    fn error(rest: &str) -> String {
        Paper::parse("x/claims.toml", &format!("{HEAD}{rest}")).unwrap_err().to_string()
    }

    #[test]
    fn a_fault_has_its_place() {
        assert!(
            error("kind = 'not_checkable'").starts_with("x/claims.toml:4: claim X1: `not_checkable` needs")
        );
        assert!(error("kind = 'unit'").contains("needs a `test`"));
        assert!(error("kind = 'drawing'").contains("line 7"));
        assert!(error("kind = 'scenario'\nvariants = ['none']").contains("no [[variant]] `none`"));
        assert!(error("kind = 'scenario'\nlevel = 3").contains("unknown field `level`"));
    }

    #[test]
    fn a_relation_has_what_it_needs_and_nothing_else() {
        let check = |rest: &str| error(&format!("kind = 'scenario'\n[[claim.check]]\n{rest}"));
        assert!(check("metric='done'\nof='a'\nto='b'\nis='less'").contains("one of `scenario`"));
        let check = |rest: &str| check(&format!("scenario='s'\nmetric='done'\nof='a'\n{rest}"));
        assert!(check("is='less'").contains("need `to`"));
        assert!(check("is='less'\nto='b'\ntolerance=0.1").contains("neither a tolerance"));
        assert!(check("is='equal'\nto='b'").contains("needs `tolerance`"));
        assert!(check("is='within'\nto='b'").contains("needs `from`"));
        assert!(check("is='within'\nfrom=1\nunit='ms'").contains("unknown field"));
        assert!(check("is='equal'\nto='b'\ntolerance=0.1\nfrom=1").contains("`equal` needs `tolerance`"));
        assert!(check("is='within'\nfrom=1\ntolerance=0.1").contains("no tolerance"));
        assert!(check("is='greater'\nto='b'\nupto=2").contains("nor a range"));
        assert!(check("is='about'\nto='b'").contains("unknown variant"));
    }

    /// Of two values of one key the last is set, so a variant's own values win over those that it combines.
    #[test]
    fn a_variant_sets_its_own_values_last_and_standard_variants_are_tried_last() {
        let text = HEAD.replace(
            "[[claim]]",
            "[[variant]]\nname = 'wide'\nwhat = ''\nset = ['k=1']\nstandard-for = ['s']\n\
             [[variant]]\nname = 'own'\nwhat = ''\nset = ['k=2', 'l=2']\nwith = ['wide']\n[[claim]]",
        ) + "kind = 'scenario'\nvariants = ['own']\n[[claim.check]]\nscenario='s'\nmetric='done'\nof='a'\nis='within'\nupto=1";
        let paper = Paper::parse("x", &text).unwrap();
        assert_eq!(paper.variant("own").unwrap().set, ["k=1", "k=2", "l=2"]);
        assert_eq!(paper.claims[0].variants, ["own", "wide"]);
    }
}
