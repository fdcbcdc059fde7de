//! `anabranch check`

use anabranch_lab::run::Prepared;
use anabranch_lab::scenario::{Document, Scenario};

use crate::failure::Failure;
use crate::output;

/// Checks a scenario without running it
#[derive(clap::Args)]
pub struct Args {
    /// A scenario file, or a name of `anabranch list scenarios`
    scenario: String,
    /// Show the canonical form, whose hash names the experiment
    #[arg(long)]
    canonical: bool,
}

pub fn run(args: &Args) -> Result<(), Failure> {
    let scenario = Document::open(&args.scenario)?.scenario()?;
    for condition in 0..scenario.conditions.len() {
        Prepared::new(&scenario, condition)?;
    }
    if args.canonical {
        return output::print(&scenario.canonical());
    }
    output::print(&summary(&args.scenario, &scenario))
}

fn summary(name: &str, scenario: &Scenario) -> String {
    let count = |n: usize, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
    let first = &scenario.conditions[0].experiment;
    let contenders: Vec<&str> = scenario.contenders.iter().map(|contender| contender.name.as_str()).collect();
    let parts = [
        count(first.paths.len(), "path"),
        format!("{} in each run", count(first.traffic.flows as usize, "flow")),
        count(scenario.conditions.len(), "condition"),
        format!("{} ({})", count(contenders.len(), "contender"), contenders.join(", ")),
        count(scenario.runs as usize, "run"),
    ];
    format!("{name} is right: {}\nhash {}\n", parts.join(", "), scenario.hash())
}
