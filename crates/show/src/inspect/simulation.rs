//! The match of a capture and its simulation as text.

use anabranch_lab::figures::{about, signed_percent};
use anabranch_lab::inspected::Simulation;
use anabranch_lab::stats::Interval;

use crate::table::{Align, Table, wrap};
use crate::terminal;

/// Returns the result for people: the match, then the comparison.
pub fn text(simulation: &Simulation, comparison: &str) -> String {
    let width = terminal::text_width();
    let mut table = Table::new()
        .column(&format!("connection {}", simulation.connection), Align::Left)
        .column("captured", Align::Decimal)
        .column("simulated", Align::Decimal)
        .column("95 % interval", Align::Right)
        .column("difference", Align::Right);
    for one in &simulation.matches {
        let interval =
            one.ci95.map_or(String::new(), |Interval(low, high)| format!("{}..{}", about(low), about(high)));
        let difference = if one.measure.starts_with("completion") && one.captured > 0.0 {
            signed_percent(100.0 * (one.simulated / one.captured - 1.0))
        } else {
            String::new()
        };
        table.row(vec![one.measure.clone(), about(one.captured), about(one.simulated), interval, difference]);
    }
    let scheduler = simulation.comparison.rows.first().map_or("", |row| row.scheduler.as_str());
    let intro = wrap(
        &format!("The paths of the capture, simulated with `{scheduler}`, and then with other contenders:"),
        width,
    );
    format!("{intro}\n{}\n{comparison}", table.render(width))
}
