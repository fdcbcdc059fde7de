//! Single runs as text: a table of the flows for each condition.

mod classes;

use anabranch_lab::figures;
use anabranch_lab::measure::FlowRecord;
use anabranch_lab::output::Runs;
use anabranch_lab::scenario::Scenario;
use anabranch_lab::spoken;

use crate::table::{Align, Table, wrap, wrap_behind};
use crate::{terminal, usage};

/// Returns the runs as text. `gaps` asks for the column of the longest gap, which scenarios with changes of links have anyway.
pub fn text(scenario: &Scenario, output: &Runs, gaps: bool) -> String {
    let mut text = String::new();
    for condition in &scenario.conditions {
        if scenario.conditions.len() > 1 {
            text.push_str(&format!("{}\n", crate::visible::line(&condition.name)));
        }
        let gaps = gaps || condition.experiment.changes();
        let flows = || output.flows.iter().filter(|flow| flow.condition == condition.name);
        if !condition.experiment.classes.is_empty() {
            text.push_str(&classes::table(condition, flows(), gaps));
            text.push_str(&failures(flows()));
            text.push_str(&middleboxes(output, &condition.name));
            text.push_str(&usage::table(&output.usage, &condition.name));
            text.push('\n');
            continue;
        }
        let mut table = Table::new()
            .column("scheduler", Align::Left)
            .column("flow", Align::Right)
            .column("size", Align::Right)
            .column("start s", Align::Decimal)
            .column("done ms", Align::Decimal)
            .column("acked ms", Align::Decimal)
            .column("Mbit/s", Align::Decimal)
            .shown_if(gaps, "gap ms", Align::Decimal, 1)
            .optional("x bound", Align::Decimal, 2)
            .optional("retx %", Align::Decimal, 1)
            .optional("RTOs", Align::Right, 3)
            .optional("KB by path", Align::Right, 4);
        let millis = |time: Option<f64>, flow: &FlowRecord| match time {
            Some(time) => figures::digits(time * 1e3),
            None => state(flow).to_owned(),
        };
        for flow in flows() {
            let kilobytes = |bytes: &u64| format!("{:.0}", *bytes as f64 / 1e3);
            table.row(vec![
                flow.scheduler.clone(),
                flow.flow.clone(),
                flow.size_bytes.map_or("bulk".to_owned(), figures::size),
                format!("{:.3}", flow.start_s),
                millis(flow.fct_s, flow),
                flow.acked_s.map_or("-".to_owned(), |time| figures::digits(time * 1e3)),
                figures::digits(flow.goodput_bps as f64 / 1e6),
                gap(flow),
                flow.vs_lower_bound.map_or("-".to_owned(), figures::digits),
                figures::about(flow.retransmitted_ratio * 100.0),
                flow.rto_count.to_string(),
                flow.bytes_by_path.iter().map(kilobytes).collect::<Vec<_>>().join("/"),
            ]);
        }
        text.push_str(&table.render(terminal::width()));
        text.push_str(&failures(flows()));
        text.push_str(&middleboxes(output, &condition.name));
        text.push_str(&usage::table(&output.usage, &condition.name));
        text.push('\n');
    }
    let cost = &output.performance;
    let sentence = format!(
        "seed {}; {}{} s of network time in {} s: {} packet-hops ({} million a second), {} data packets, {} events",
        output.head.seed,
        output.run.map_or(String::new(), |run| format!("run {run} of the comparison, with its phases; ")),
        figures::about(cost.simulated_s),
        figures::about(cost.wall_s),
        cost.packet_hops,
        figures::about(cost.packet_hops as f64 / cost.wall_s.max(1e-9) / 1e6),
        cost.data_packets,
        cost.events,
    );
    text.push_str(&wrap(&sentence, terminal::text_width()));
    text
}

/// Returns the state of a flow in a word: a failure without its reason.
fn state(flow: &FlowRecord) -> &str {
    flow.outcome.split(':').next().unwrap_or_default()
}

fn gap(flow: &FlowRecord) -> String {
    flow.longest_gap_s.map_or("-".to_owned(), |seconds| figures::digits(seconds * 1e3))
}

/// Returns the acts of middleboxes, and the flows that gave up Multipath TCP, as notes below a table.
fn middleboxes(output: &Runs, condition: &str) -> String {
    let mut text = String::new();
    for one in output.middleboxes.iter().filter(|one| one.condition == condition) {
        let acts = acts([one.stripped, one.clamped, one.dropped, one.resets]);
        if !acts.is_empty() {
            let note = format!("{}, middlebox of {}: {acts}", one.scheduler, one.path);
            text.push_str(&wrap_behind("  ", &note, terminal::text_width()));
        }
    }
    for one in output.fallbacks.iter().filter(|one| one.condition == condition) {
        let at = if one.at == "handshake" { "in its handshake" } else { "after its handshake" };
        let note = format!("{}, flow {}: gave up Multipath TCP {at}", one.scheduler, one.flow);
        text.push_str(&wrap_behind("  ", &note, terminal::text_width()));
    }
    text
}

/// Returns the acts of a middlebox in words: segments that it stripped, clamped, dropped, and answered by a reset; empty
/// if there were none.
pub fn acts([stripped, clamped, dropped, resets]: [u64; 4]) -> String {
    let acts = [
        (stripped, format!("removed the options of {}", spoken::counted(stripped, "segment"))),
        (clamped, format!("lowered the MSS of {}", spoken::counted(clamped, "segment"))),
        (
            dropped,
            format!("dropped {} of connections that it did not know", spoken::counted(dropped, "segment")),
        ),
        (resets, format!("answered {resets} of them by a reset")),
    ];
    let acts: Vec<String> = acts.into_iter().filter(|(count, _)| *count > 0).map(|(_, act)| act).collect();
    acts.join(", ")
}

/// Returns the reasons of failed flows, as notes below a table.
fn failures<'a>(flows: impl Iterator<Item = &'a FlowRecord>) -> String {
    let mut text = String::new();
    for flow in flows {
        if let Some((_, reason)) = flow.outcome.split_once(": ") {
            let note = format!("{}, flow {}, failed: {reason}", flow.scheduler, flow.flow);
            text.push_str(&wrap_behind("  ", &note, terminal::text_width()));
        }
    }
    text
}
