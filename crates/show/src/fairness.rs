//! The shares of the flows of a comparison.

use anabranch_lab::compare::Comparison;
use anabranch_lab::figures;
use anabranch_lab::report::fairness::{Estimate, Fairness, Party};
use anabranch_lab::stats::Interval;

use crate::table::{Align, Table, wrap};

/// Returns the tables of fairness and the sentence; empty without results.
pub fn text(comparison: &Comparison, width: usize) -> String {
    let mut text = String::new();
    for (at, setting) in comparison.conditions.iter().enumerate() {
        let own: Vec<&Fairness> =
            comparison.fairness.iter().filter(|fairness| fairness.condition == setting.name).collect();
        if own.is_empty() {
            continue;
        }
        text.push_str(if at > 0 { "\n" } else { "" });
        text.push_str(&match setting.name.as_str() {
            "" => "fairness\n".to_owned(),
            name => format!("fairness, {name}\n"),
        });
        text.push_str(&table(&own, width));
    }
    if let Some(sentence) = &comparison.fairness_verdict {
        text.push_str(&format!("\n{}", wrap(sentence, width)));
    }
    text
}

fn table(fairness: &[&Fairness], width: usize) -> String {
    // Networks without fair shares have only the index.
    if fairness.iter().all(|one| one.parties.is_empty() && one.flows.is_empty()) {
        let mut table = Table::new().column("who", Align::Left).column("Jain's index", Align::Right);
        for one in fairness {
            table.row(vec![one.scheduler.clone(), index(&one.jain)]);
        }
        return table.render(width);
    }
    let mut table = Table::new()
        .column("who", Align::Left)
        .column("flows", Align::Right)
        .column("Mbit/s", Align::Right)
        .optional("95 % interval", Align::Right, 2)
        .column("share, %", Align::Right)
        .column("fair, %", Align::Right)
        .column("vs fair, %", Align::Right)
        .optional("Jain's index", Align::Right, 1)
        .optional("of each path, %", Align::Right, 3);
    for one in fairness {
        let mut index = Some(index(&one.jain));
        let mut row = |party: &Party, name: String| {
            let Party { goodput_bps, vs_fair_pct, .. } = party;
            let mega = |bps: f64| figures::digits(bps / 1e6);
            let range = goodput_bps.ci95.map(|Interval(low, high)| format!("{}..{}", mega(low), mega(high)));
            let by_path = party.share_by_path_pct.iter();
            let by_path = by_path.map(|share| share.map_or("-".to_owned(), |share| format!("{share:.0}")));
            table.row(vec![
                name,
                party.flows.to_string(),
                mega(goodput_bps.mean),
                range.unwrap_or("-".to_owned()),
                format!("{:.1}", party.share_pct),
                format!("{:.1}", party.fair_share_pct),
                match vs_fair_pct.ci95 {
                    Some(Interval(low, high)) => format!("{:+.1} [{low:+.1}, {high:+.1}]", vs_fair_pct.mean),
                    None => format!("{:+.1}", vs_fair_pct.mean),
                },
                index.take().unwrap_or_default(),
                by_path.collect::<Vec<_>>().join("/"),
            ]);
        };
        for party in &one.parties {
            row(party, party.scheduler.clone());
        }
        // With competing TCPs, a single flow is the same as its party.
        if one.parties.iter().any(|party| party.flows > 1) || one.parties.is_empty() {
            for flow in &one.flows {
                row(flow, format!("{} flow {}", flow.scheduler, flow.flow.unwrap_or(0)));
            }
        }
        if one.parties.is_empty() && one.flows.is_empty() {
            let mut cells = vec![String::new(); 9];
            cells[0] = one.scheduler.clone();
            cells[7] = index.take().unwrap_or_default();
            table.row(cells);
        }
    }
    table.render(width)
}

fn index(jain: &Estimate) -> String {
    match jain.ci95 {
        Some(Interval(low, high)) => format!("{:.3} [{low:.3}, {high:.3}]", jain.mean),
        None => format!("{:.3}", jain.mean),
    }
}
