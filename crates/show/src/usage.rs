//! The data of each path and its cost as text.

use anabranch_lab::figures;
use anabranch_lab::usage::PathUsage;

use crate::table::{Align, Table};
use crate::terminal;

/// Returns the table of a condition; nothing if no path has a price or a quota.
pub(crate) fn table(usage: &[PathUsage], condition: &str) -> String {
    let rows: Vec<&PathUsage> = usage.iter().filter(|row| row.condition == condition).collect();
    if rows.is_empty() {
        return String::new();
    }
    let mut table = Table::new()
        .column("data per run", Align::Left)
        .column("path", Align::Left)
        .column("up MB", Align::Decimal)
        .column("down MB", Align::Decimal)
        .column("cost", Align::Decimal)
        .column("quota", Align::Left);
    let number = |value: f64| if value == 0.0 { "0".to_owned() } else { figures::digits(value) };
    for (at, row) in rows.iter().enumerate() {
        let is_first = at == 0 || rows[at - 1].scheduler != row.scheduler;
        table.row(vec![
            if is_first { row.scheduler.clone() } else { String::new() },
            crate::visible::line(&row.path).into_owned(),
            number(row.up_bytes / 1e6),
            number(row.down_bytes / 1e6),
            number(row.cost),
            quota(row),
        ]);
        let own = || rows.iter().filter(|other| other.scheduler == row.scheduler);
        let is_last = rows.get(at + 1).is_none_or(|next| next.scheduler != row.scheduler);
        if is_last && own().count() > 1 {
            let sum = |value: fn(&PathUsage) -> f64| number(own().map(|row| value(row)).sum());
            table.row(vec![
                String::new(),
                "all".to_owned(),
                sum(|row| row.up_bytes / 1e6),
                sum(|row| row.down_bytes / 1e6),
                sum(|row| row.cost),
                String::new(),
            ]);
        }
    }
    table.render(terminal::width())
}

fn quota(row: &PathUsage) -> String {
    match (row.over_quota, row.runs) {
        (None, _) => "-".to_owned(),
        (Some(0), _) => "kept".to_owned(),
        (Some(_), 1) => "exceeded".to_owned(),
        (Some(over), runs) => format!("exceeded in {over} of {runs} runs"),
    }
}
