//! `anabranch check`

use anabranch_lab::run::Prepared;
use anabranch_lab::scenario::{Document, Scenario};

use serde::Serialize;

use crate::args::read;
use crate::failure::Failure;
use crate::table::{wrap, wrap_behind};
use crate::terminal::{GOOD, paint};
use crate::{output, terminal};

/// Checks a scenario without running it
#[derive(clap::Args)]
pub struct Args {
    /// A scenario file, or a name of `anabranch list scenarios`
    scenario: String,
    /// Show the canonical form, whose hash identifies the experiment
    #[arg(long)]
    canonical: bool,
    /// Print JSON
    #[arg(long, conflicts_with = "canonical")]
    json: bool,
    #[command(flatten)]
    pub to: crate::output::Destination,
}

pub fn run(args: &Args) -> Result<(), Failure> {
    let scenario = read(&Document::open(&args.scenario)?)?;
    for condition in 0..scenario.conditions.len() {
        Prepared::new(&scenario, condition)?;
    }
    if args.canonical {
        return output::print(&scenario.canonical());
    }
    if args.json {
        return output::print_json(&Output {
            scenario: &args.scenario,
            scenario_hash: scenario.hash(),
            paths: scenario.conditions[0].experiment.paths().len(),
            flows: scenario.conditions[0].experiment.traffic.flows,
            conditions: scenario.conditions.iter().map(|condition| condition.name.as_str()).collect(),
            contenders: scenario.contenders.iter().map(|contender| contender.name.as_str()).collect(),
            runs: scenario.runs,
            traffic: classes(&scenario),
            warnings: scenario.warnings(),
        });
    }
    output::print(&summary(&args.scenario, &scenario))
}

/// The object that `check --json` prints.
#[derive(Serialize)]
struct Output<'a> {
    scenario: &'a str,
    scenario_hash: String,
    paths: usize,
    flows: u32,
    conditions: Vec<&'a str>,
    contenders: Vec<&'a str>,
    runs: u32,
    /// The classes of traffic; absent if there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    traffic: Vec<TrafficClass>,
    warnings: Vec<String>,
}

/// A class of traffic.
#[derive(Serialize)]
struct TrafficClass {
    condition: String,
    name: String,
    kind: &'static str,
    transport: &'static str,
    flows: u32,
    description: String,
    /// True if its flows have a lower bound.
    lower_bound: bool,
}

fn classes(scenario: &Scenario) -> Vec<TrafficClass> {
    let of = |condition: &anabranch_lab::scenario::Condition| {
        let class = |class: &anabranch_lab::scenario::TrafficClass| TrafficClass {
            condition: condition.name.clone(),
            name: class.name.clone(),
            kind: class.kind.name(),
            transport: class.via.name(),
            flows: class.flows,
            description: class.describe(),
            lower_bound: matches!(class.kind, anabranch_lab::scenario::Kind::Transfer { .. }),
        };
        condition.experiment.classes.iter().map(class).collect::<Vec<_>>()
    };
    scenario.conditions.iter().flat_map(of).collect()
}

fn summary(name: &str, scenario: &Scenario) -> String {
    let count = |n: usize, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
    let first = &scenario.conditions[0].experiment;
    let contenders: Vec<&str> = scenario.contenders.iter().map(|contender| contender.name.as_str()).collect();
    let parts = [
        count(first.paths().len(), "path"),
        format!("{} in each run", count(first.traffic.flows as usize, "flow")),
        count(scenario.conditions.len(), "condition"),
        format!("{} ({})", count(contenders.len(), "contender"), contenders.join(", ")),
        count(scenario.runs as usize, "run"),
    ];
    let sentence = format!("{name}: {}: {}", paint(GOOD, "OK"), parts.join(", "));
    let mut text = wrap(&sentence, terminal::text_width());
    let mut last: Vec<String> = Vec::new();
    for condition in &scenario.conditions {
        let lines: Vec<String> = condition
            .experiment
            .classes
            .iter()
            .map(|class| {
                wrap_behind("  ", &format!("{}: {}", class.name, class.describe()), terminal::text_width())
            })
            .collect();
        // Conditions with the same traffic are described once.
        if !lines.is_empty() && lines != last {
            let of = if condition.name.is_empty() { String::new() } else { format!(" ({})", condition.name) };
            text.push_str(&format!("traffic{of}:\n{}", lines.concat()));
            last = lines;
        }
    }
    format!("{text}hash {}\n", scenario.hash())
}
