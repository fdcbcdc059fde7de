//! The built-in papers.

use crate::claims::{ClaimsError, Paper};

/// A built-in file of claims.
struct Embedded {
    paper: &'static str,
    claims: &'static str,
    /// Plans by name.
    plans: &'static [(&'static str, &'static str)],
}

macro_rules! embedded {
    ($($paper:literal: $plans:expr),* $(,)?) => {
        &[$(Embedded {
            paper: $paper,
            claims: include_str!(concat!("../../../scenarios/", $paper, "/claims.toml")),
            plans: $plans,
        }),*]
    };
}

const ALL: &[Embedded] = embedded![
    "dmptcp": &[],
    "cp": &[("space", include_str!("../../../scenarios/cp/space.plan.toml"))],
    "stms": &[],
    "coupled": &[],
];

/// Returns the names of the papers.
pub fn names() -> impl Iterator<Item = &'static str> {
    ALL.iter().map(|embedded| embedded.paper)
}

/// Reads the claims of all papers.
///
/// # Errors
/// If a file of claims is not valid.
pub fn papers() -> Result<Vec<Paper>, ClaimsError> {
    ALL.iter()
        .map(|embedded| Paper::parse(&format!("scenarios/{}/claims.toml", embedded.paper), embedded.claims))
        .collect()
}

/// Returns the text of a plan of a paper.
pub(crate) fn plan(paper: &str, name: &str) -> Option<&'static str> {
    let embedded = ALL.iter().find(|embedded| embedded.paper == paper)?;
    embedded.plans.iter().find(|(other, _)| *other == name).map(|(_, text)| *text)
}
