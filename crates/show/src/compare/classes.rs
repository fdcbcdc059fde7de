//! A table for each class of traffic, with the columns of its kind.

use anabranch_lab::compare::Comparison;
use anabranch_lab::measure::{Record, TableKind};
use anabranch_lab::scenario::{Condition, Kind, TrafficClass, Via};

use super::{Rows, leaders, path_name, row_name};
use crate::table::wrap;
use crate::terminal;
use crate::terminal::{GOOD, paint};

pub(super) fn tables(comparison: &Comparison, condition: &Condition, gaps: bool) -> String {
    let mut text = String::new();
    for (at, class) in condition.experiment.classes.iter().enumerate() {
        if at > 0 {
            text.push('\n');
        }
        let heading = format!("{}: {}", class.name, class.describe());
        text.push_str(&wrap(&heading, terminal::text_width()));
        let own =
            |row: &&Record| row.condition == condition.name && row.traffic.as_ref() == Some(&class.name);
        let rows: Vec<&Record> = comparison.rows.iter().filter(own).collect();
        let leaders = leaders(comparison, &condition.name, Some(&class.name));
        text.push_str(&table(class, rows, &leaders, comparison.reference.as_deref(), gaps));
    }
    text
}

/// Returns the table of a class: its rows, and the best contenders among them.
fn table(
    class: &TrafficClass,
    rows: Vec<&Record>,
    leaders: &[&str],
    reference: Option<&str>,
    gaps: bool,
) -> String {
    let bulk = class.kind.is_bulk();
    let own = class.via == Via::Contender;
    let kind = match class.kind {
        // A plain TCP is not on the contender's path.
        Kind::Transfer { .. } if !own && bulk => TableKind::PlainBulk,
        Kind::Transfer { .. } if !own => TableKind::Plain,
        Kind::Transfer { .. } if bulk => TableKind::Bulk,
        Kind::Transfer { .. } => TableKind::Transfers,
        Kind::Requests(_) => TableKind::Requests,
        Kind::OnOff(_) => TableKind::Bursts,
        Kind::Datagrams(_) => TableKind::Datagrams,
        Kind::Video(_) => TableKind::Videos,
    };
    let name = |row: &&Record| match kind {
        TableKind::Transfers | TableKind::Bulk => row_name(row, leaders),
        _ => {
            let name = match &row.path {
                Some(path) if own && !row.scheduler.contains('@') => {
                    format!("{} on {}", row.scheduler, path_name(path))
                }
                _ => row.scheduler.clone(),
            };
            if leaders.contains(&row.scheduler.as_str()) { paint(GOOD, &name) } else { name }
        }
    };
    // A class that does not use the contender has a row for each contender that it runs with.
    let title = if own { "scheduler" } else { "beside" };
    let names = rows.iter().map(name).collect();
    Rows { kind, names: (title, names), rows, reference, gaps }.text()
}
