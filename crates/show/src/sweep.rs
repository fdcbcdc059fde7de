//! The summary of a sweep as text.

use std::time::Duration;

use anabranch_lab::figures::{digits, signed_percent};
use anabranch_lab::measure::Record;
use anabranch_lab::spoken;
use anabranch_lab::sweep::{Journal, JournalError, Plan, PointResult, Reading, Standing, Summary};

use crate::table::{Align, Table, wrap};
use crate::terminal::{self, BAD, GOOD, paint};

/// A sweep of at most this number of points is shown point by point.
const SHOWN: usize = 25;

/// Returns the points of a plan.
pub fn points(plan: &Plan) -> String {
    let mut table = Table::new().column("point", Align::Right);
    for dimension in plan.dimensions() {
        table = table.column(&dimension.keys.join(", "), Align::Right);
    }
    for number in 0..plan.points() {
        let point = plan.point(number);
        let values = point.values.iter().map(|value| value.trim_matches(['"', '\'']).to_owned());
        table.row(core::iter::once(number.to_string()).chain(values).collect());
    }
    table.render(terminal::width())
}

/// Returns the results: point by point if there are few, and always a line for each contender.
///
/// # Errors
/// If the journal cannot be read.
pub fn text(
    plan: &Plan,
    journal: &Journal,
    summary: &Summary,
    wall: Option<(usize, Duration)>,
) -> Result<String, JournalError> {
    let mut text = String::new();
    if journal.done() <= SHOWN {
        let results = journal.results().collect::<Result<Vec<_>, _>>()?;
        text.push_str(&by_point(plan, &results));
        let rows = || results.iter().flat_map(|result| &result.rows);
        if rows().any(|row| row.completed < row.n) {
            let legend = "1/2 open: one of two flows was unfinished at the deadline, or failed";
            text.push_str(&wrap(legend, terminal::text_width()));
        }
        if rows().any(|row| row.vs_reference_pct.is_some() && row.reading == Some(Reading::Undecided)) {
            let legend = "?: cannot be told apart from the reference with this number of runs";
            text.push_str(&wrap(legend, terminal::text_width()));
        }
        text.push('\n');
    }
    text.push_str(&by_contender(summary));
    let done = match summary.points {
        done if done == plan.points() => spoken::counted(done as u64, "point"),
        done => format!("{done} of {}", spoken::counted(plan.points() as u64, "point")),
    };
    let mut line = format!("{done}, {}", plan.design().name());
    if let Some((simulated, wall)) = wall {
        line.push_str(&format!("; {simulated} simulated in {:.1} s", wall.as_secs_f64()));
    }
    text.push('\n');
    text.push_str(&wrap(&line, terminal::text_width()));
    Ok(text)
}

/// Returns the difference from the reference at each point, or the mean time where there is no reference.
fn by_point(plan: &Plan, results: &[PointResult]) -> String {
    let Some(first) = results.first() else { return String::new() };
    let mut table = Table::new().column("point", Align::Right);
    for dimension in plan.dimensions() {
        table = table.column(&dimension.keys.join(", "), Align::Right);
    }
    let conditions = first.rows.iter().any(|row| !row.condition.is_empty());
    if conditions {
        table = table.column("condition", Align::Left);
    }
    let classes = first.rows.iter().any(|row| row.traffic.is_some());
    if classes {
        table = table.column("traffic", Align::Left);
    }
    let mut names: Vec<&str> = Vec::new();
    for row in &first.rows {
        if !names.contains(&row.scheduler.as_str()) {
            names.push(&row.scheduler);
        }
    }
    for name in &names {
        table = table.column(name, Align::Right);
    }
    for result in results {
        let point = plan.point(result.point);
        let mut seen: Vec<(&str, Option<&str>)> = Vec::new();
        for row in &result.rows {
            let of = |row: &Record| (row.condition.clone(), row.traffic.clone());
            if seen.contains(&(row.condition.as_str(), row.traffic.as_deref())) {
                continue;
            }
            seen.push((&row.condition, row.traffic.as_deref()));
            let mut cells = vec![result.point.to_string()];
            cells.extend(point.values.iter().map(|value| value.trim_matches(['"', '\'']).to_owned()));
            if conditions {
                cells.push(row.condition.clone());
            }
            if classes {
                cells.push(row.traffic.clone().unwrap_or_default());
            }
            for name in &names {
                let found = result.rows.iter().find(|other| of(other) == of(row) && other.scheduler == *name);
                cells.push(found.map_or("-".to_owned(), cell));
            }
            table.row(cells);
        }
    }
    table.render(terminal::width())
}

/// Returns the number of unfinished flows if there are any, `-` if only the reference has some; else the difference, a time in
/// milliseconds, or a goodput.
fn cell(row: &Record) -> String {
    if row.completed < row.n {
        return paint(BAD, &format!("{}/{} open", row.n - row.completed, row.n));
    }
    match (row.vs_reference_pct.map(|difference| difference.mean), row.reading) {
        (_, Some(Reading::Incomplete)) => "-".to_owned(),
        (Some(difference), Some(Reading::Better)) => {
            paint(GOOD, &format!("{} %", signed_percent(difference)))
        }
        (Some(difference), Some(Reading::Undecided)) => format!("{} % ?", signed_percent(difference)),
        (Some(difference), _) => format!("{} %", signed_percent(difference)),
        (None, _) => match (row.fct_s.mean, row.goodput_bps) {
            (Some(mean), _) => format!("{} ms", digits(1e3 * mean)),
            (None, Some(rate)) => format!("{} Mbit/s", digits(rate / 1e6)),
            (None, None) => "-".to_owned(),
        },
    }
}

fn by_contender(summary: &Summary) -> String {
    let conditions = summary.contenders.iter().any(|standing| !standing.condition.is_empty());
    let mut table = Table::new();
    if conditions {
        table = table.column("condition", Align::Left);
    }
    let classes = summary.contenders.iter().any(|standing| standing.traffic.is_some());
    if classes {
        table = table.column("traffic", Align::Left);
    }
    table = table
        .column("scheduler", Align::Left)
        .column("best", Align::Right)
        .column("better", Align::Right)
        .optional("equal", Align::Right, 2)
        .column("worse", Align::Right)
        .optional("undecided", Align::Right, 1)
        .optional("unfinished", Align::Right, 1)
        .column("median, %", Align::Decimal)
        .optional("least, % (point)", Align::Right, 3)
        .optional("greatest, % (point)", Align::Right, 3);
    for standing in &summary.contenders {
        let mut cells = Vec::new();
        if conditions {
            cells.push(standing.condition.clone());
        }
        if classes {
            cells.push(standing.traffic.clone().unwrap_or_default());
        }
        cells.push(standing.scheduler.clone());
        cells.push(standing.best.to_string());
        cells.extend(counts(standing));
        cells.push(standing.median_pct.map_or("-".to_owned(), signed_percent));
        for extreme in [standing.least, standing.greatest] {
            cells.push(extreme.map_or("-".to_owned(), |(difference, point)| {
                format!("{} ({point})", signed_percent(difference))
            }));
        }
        table.row(cells);
    }
    table.render(terminal::width())
}

/// Returns the numbers of points at which a contender is better than the reference, and so on; none for the
/// reference.
fn counts(standing: &Standing) -> [String; 5] {
    let Standing { better, equal, worse, undecided, incomplete, .. } = standing;
    let counts = [better, equal, worse, undecided, incomplete];
    match counts.iter().all(|count| **count == 0) {
        true => counts.map(|_| "-".to_owned()),
        false => counts.map(ToString::to_string),
    }
}

#[cfg(test)]
mod tests {
    use anabranch_lab::report::Difference;

    use super::*;
    use crate::made::{TWO, compared};

    #[test]
    fn a_cell_has_the_difference_its_doubt_or_the_unfinished_flows() {
        let (_, comparison) = compared(TWO);
        let mut row = comparison.row_of("min_rtt").unwrap().clone();
        let mut of = |reading, completed, mean| {
            row.vs_reference_pct = Some(Difference { mean, ci95: None });
            (row.reading, row.completed) = (reading, completed);
            anstream::adapter::strip_str(&cell(&row)).to_string()
        };
        assert_eq!(of(Some(Reading::Better), 2, -7.26), "-7.3 %");
        assert_eq!(of(Some(Reading::Worse), 2, 230.4), "+230 %");
        assert_eq!(of(Some(Reading::Equal), 2, 0.3), "+0.3 %");
        assert_eq!(of(Some(Reading::Undecided), 2, -7.26), "-7.3 % ?");
        assert_eq!(of(Some(Reading::Incomplete), 1, -7.26), "1/2 open");
        // Only the reference has unfinished flows.
        assert_eq!(of(Some(Reading::Incomplete), 2, -7.26), "-");
        (row.vs_reference_pct, row.reading, row.fct_s.mean) = (None, None, Some(0.226));
        assert_eq!(cell(&row), "226 ms");
        (row.fct_s.mean, row.goodput_bps) = (None, Some(8.5e6));
        assert_eq!(cell(&row), "8.50 Mbit/s");
    }

    #[test]
    fn a_contender_that_is_compared_nowhere_has_no_counts() {
        assert_eq!(counts(&Standing::default()), ["-"; 5]);
        let mut standing = Standing::default();
        (standing.better, standing.undecided) = (3, 1);
        assert_eq!(counts(&standing), ["3", "0", "0", "1", "0"]);
    }
}
