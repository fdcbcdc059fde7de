//! The built-in papers.

use std::path::Path;

use anabranch_lab::ScenarioError;
use anabranch_lab::scenario::Document;
use anabranch_lab::sweep::Plan;

use crate::claims::{ClaimsError, Paper};

/// A built-in file of claims.
struct Embedded {
    paper: &'static str,
    claims: &'static str,
    figures: &'static str,
    plans: &'static [(&'static str, &'static str)],
}

macro_rules! embedded {
    ($($paper:literal: $plans:expr),* $(,)?) => {
        &[$(Embedded {
            paper: $paper,
            claims: include_str!(concat!("../scenarios/", $paper, "/claims.toml")),
            figures: include_str!(concat!("../scenarios/", $paper, "/figures.toml")),
            plans: $plans,
        }),*]
    };
}

const ALL: &[Embedded] = embedded![
    "dmptcp": &[],
    "cp": &[("space", include_str!("../scenarios/cp/space.plan.toml"))],
    "stms": &[],
    "coupled": &[],
];

/// Returns the names of the papers.
pub fn names() -> impl Iterator<Item = &'static str> {
    ALL.iter().map(|embedded| embedded.paper)
}

/// Reads the claims and figures of all papers.
///
/// # Errors
/// If a file is not valid.
pub fn papers() -> Result<Vec<Paper>, ClaimsError> {
    let read = |embedded: &Embedded| {
        let name = |file: &str| format!("scenarios/{}/{file}.toml", embedded.paper);
        let mut paper = Paper::parse(&name("claims"), embedded.claims)?;
        paper.read_figures(&name("figures"), embedded.figures)?;
        Ok(paper)
    };
    ALL.iter().map(read).collect()
}

/// Reads the paper in a directory: `claims.toml`, and `figures.toml` if it is there.
///
/// # Errors
/// If a file cannot be read, or is not valid.
pub fn open(directory: &Path) -> Result<Paper, ClaimsError> {
    let path = |file: &str| directory.join(file);
    let read = |path: &Path| {
        std::fs::read_to_string(path).map_err(|error| ClaimsError(format!("{}: {error}", path.display())))
    };
    let claims = path("claims.toml");
    let mut paper = Paper::parse(&claims.display().to_string(), &read(&claims)?)?;
    let figures = path("figures.toml");
    if figures.exists() {
        paper.read_figures(&figures.display().to_string(), &read(&figures)?)?;
    }
    paper.home = path("").display().to_string();
    Ok(paper)
}

/// Opens a scenario of the paper at `home` (see [`Paper::home`]).
pub(crate) fn scenario(home: &str, name: &str) -> Result<Document, ScenarioError> {
    match home.ends_with('/') {
        true => Document::open(&format!("{home}{name}.toml")),
        false => Document::open(&format!("{home}/{name}")),
    }
}

/// Opens a plan of the paper at `home`.
pub(crate) fn plan(home: &str, name: &str) -> Result<Plan, ScenarioError> {
    if home.ends_with('/') {
        return Plan::open(Path::new(&format!("{home}{name}.plan.toml")));
    }
    let plans = ALL.iter().filter(|embedded| embedded.paper == home).flat_map(|embedded| embedded.plans);
    let (_, text) = plans
        .into_iter()
        .find(|(other, _)| *other == name)
        .ok_or_else(|| ScenarioError::new(format!("the paper `{home}` has no plan `{name}`")))?;
    Plan::parse(format!("{home}/{name}.plan.toml"), *text, "")
}
