//! `anabranch check`

use anabranch_lab::output::Check;
use anabranch_lab::run::Prepared;
use anabranch_lab::scenario::{Document, Scenario};
use anabranch_lab::spoken;

use crate::args::{Show, read};
use crate::failure::Failure;
use crate::table::{wrap, wrap_behind};
use crate::terminal::{GOOD, paint};
use crate::{output, terminal};

/// Checks a scenario without running it
#[derive(clap::Args)]
pub(crate) struct Args {
    /// A scenario file, or a name of `anabranch list scenarios`
    scenario: String,
    /// Show the canonical form; its hash identifies the experiment
    #[arg(long, conflicts_with = "json")]
    canonical: bool,
    #[command(flatten)]
    pub show: Show,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let scenario = read(&Document::open(&args.scenario)?)?;
    for condition in 0..scenario.conditions.len() {
        Prepared::new(&scenario, condition)?;
    }
    if args.canonical {
        return output::print(&scenario.canonical());
    }
    if args.show.json {
        return output::print_json(&Check::new(&args.scenario, &scenario));
    }
    output::print(&summary(&args.scenario, &scenario))
}

fn summary(name: &str, scenario: &Scenario) -> String {
    let count = |n: usize, what: &str| spoken::counted(n as u64, what);
    let first = &scenario.conditions[0].experiment;
    let contenders: Vec<&str> = scenario.contenders.iter().map(|contender| contender.name.as_str()).collect();
    let parts = [
        count(first.paths().len(), "path"),
        format!("{} in each run", count(first.traffic.flows as usize, "flow")),
        count(scenario.conditions.len(), "condition"),
        format!("{} ({})", count(contenders.len(), "contender"), contenders.join(", ")),
        count(scenario.runs as usize, "run") + if scenario.has_runs { "" } else { " or more" },
    ];
    let remarks = first.graph.links.iter().filter_map(|link| {
        let remarks = link.remarks();
        let line = format!("link {}: {}", link.name, remarks.join(", "));
        (!remarks.is_empty()).then(|| wrap(&line, terminal::text_width()))
    });
    let boxes = first.paths().iter().filter_map(|path| {
        let remarks = path.remarks();
        let line = format!("middlebox of {}: {}", path.name, remarks.join(", "));
        (!remarks.is_empty()).then(|| wrap(&line, terminal::text_width()))
    });
    let tariffs = first.paths().iter().filter_map(|path| {
        let remarks = path.tariff.remarks();
        let line = format!("tariff of {}: {}", path.name, remarks.join(", "));
        (!remarks.is_empty()).then(|| wrap(&line, terminal::text_width()))
    });
    let hosts = first.endpoints.iter().flat_map(|endpoints| endpoints.remarks(first.paths()));
    let hosts = hosts.map(|line| wrap(&line, terminal::text_width()));
    let remarks: String = remarks.chain(boxes).chain(tariffs).chain(hosts).collect();
    let sentence = format!("{name}: {}: {}", paint(GOOD, "OK"), parts.join(", "));
    let mut text = wrap(&sentence, terminal::text_width()) + &remarks;
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
