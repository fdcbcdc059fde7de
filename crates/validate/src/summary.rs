//! The share of points with a close prediction of the kernel, by the kind of the points.

use anabranch_lab::stats::percentile;
use serde::Serialize;

use crate::compare::Row;
use crate::grid::KINDS;
use crate::measure::Kind;
use crate::points::{Point, Set};

/// A prediction within these per cent is close.
pub const CLOSE: f64 = 5.0;
/// A prediction within these per cent is near.
pub const NEAR: f64 = 10.0;
/// A difference beyond these per cent needs a cause on the page.
pub const FAR: f64 = 25.0;

/// The accuracy of the simulator at the points of a kind, against the kernel: of the main measure of each point.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// True if the points were drawn at random.
    pub drawn: bool,
    /// The word of the kind in tables, such as `tcp`.
    pub kind: &'static str,
    /// Its description.
    pub title: &'static str,
    /// Points with a result.
    pub points: usize,
    /// The median absolute difference, in per cent.
    pub median_pct: f64,
    /// The number of points within [`CLOSE`].
    pub close: usize,
    /// The number of points within [`NEAR`].
    pub near: usize,
    /// The number of points beyond [`FAR`].
    pub far: usize,
    /// The point with the largest difference.
    pub worst: String,
    /// That difference, in per cent.
    pub worst_pct: f64,
}

/// True if a summary counts the row: the main measure of a point, simulated.
pub fn is_main(row: &Row) -> bool {
    // The name of another class of a point ends with that class.
    row.metric.is_main() && row.kind == Kind::Simulated && !row.point.ends_with(']')
}

/// Returns the summaries of `rows` by kind of points, the drawn ones first; those without points are left out.
pub fn summaries(rows: &[Row], points: &[Point]) -> Vec<Summary> {
    let mut all = Vec::new();
    for set in [Set::Drawn, Set::Chosen] {
        for (kind, title) in KINDS {
            let own = |row: &&Row| {
                is_main(row)
                    && row.reference == Kind::Kernel
                    && points.iter().any(|point| {
                        // The names of points in a table have no commas.
                        point.name.replace(',', ";") == row.point.replace(',', ";")
                            && (point.set, point.group.as_str()) == (set, kind)
                    })
            };
            let own: Vec<&Row> = rows.iter().filter(own).collect();
            all.extend(summary(&own, set == Set::Drawn, kind, title));
        }
    }
    all
}

fn summary(rows: &[&Row], drawn: bool, kind: &'static str, title: &'static str) -> Option<Summary> {
    let mut sizes: Vec<f64> = rows.iter().map(|row| row.difference.percent.abs()).collect();
    sizes.sort_unstable_by(f64::total_cmp);
    let size = |row: &&&Row| row.difference.percent.abs();
    let worst = rows.iter().max_by(|a, b| size(a).total_cmp(&size(b)))?;
    let within = |bound: f64| sizes.iter().filter(|size| **size <= bound).count();
    Some(Summary {
        drawn,
        kind,
        title,
        points: rows.len(),
        median_pct: percentile(&sizes, 50.0)?,
        close: within(CLOSE),
        near: within(NEAR),
        far: rows.len() - within(FAR),
        worst: worst.point.clone(),
        worst_pct: worst.difference.percent,
    })
}

impl core::fmt::Display for Summary {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let Summary { title, points, median_pct, close, near, far, worst, worst_pct, .. } = self;
        write!(
            f,
            "{title}, {points} {}: median {median_pct:.1} % against the kernel, {close} within {CLOSE:.0} %, {near} \
             within {NEAR:.0} %, {far} beyond {FAR:.0} %, worst {worst_pct:+.1} % ({worst})",
            match (self.drawn, *points) {
                (true, 1) => "drawn point",
                (true, _) => "drawn points",
                (false, 1) => "chosen point",
                (false, _) => "chosen points",
            },
        )
    }
}

/// Returns the summaries of the drawn points as a table of the page.
pub fn markdown(summaries: &[Summary]) -> String {
    let mut text = format!(
        "| kind | points | median, % | within {CLOSE:.0} % | within {NEAR:.0} % | beyond {FAR:.0} % | worst |\n\
         |---|---|---|---|---|---|---|\n"
    );
    for own in summaries.iter().filter(|own| own.drawn) {
        text.push_str(&format!(
            "| {} (`{}`) | {} | {:.1} | {} | {} | {} | {:+.1} % at `{}` |\n",
            own.title,
            own.kind,
            own.points,
            own.median_pct,
            own.close,
            own.near,
            own.far,
            own.worst_pct,
            own.worst,
        ));
    }
    text
}

/// Returns the headline of the page and the README: the median of each kind of drawn points.
pub fn headline(summaries: &[Summary]) -> String {
    let own = summaries.iter().filter(|own| own.drawn);
    let kinds: Vec<String> = own.map(|own| format!("{} {:.1} %", own.title, own.median_pct)).collect();
    kinds.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::Difference;
    use crate::grid::{Which, grid};
    use crate::measure::Metric;

    fn row(point: &str, reference: Kind, percent: f64) -> Row {
        let difference = Difference::of(&[(1.0 + percent / 100.0, 1.0)], 0.0).unwrap();
        Row {
            point: point.to_owned(),
            metric: Metric::CompletionTime,
            kind: Kind::Simulated,
            reference,
            difference,
        }
    }

    #[test]
    fn kinds_and_drawn_and_chosen_points_are_counted_apart() {
        let points = grid(Which::All).unwrap();
        let of = |set, kind: &str| {
            let is = |point: &&Point| point.set == set && point.group == kind;
            points.iter().filter(is).map(|point| point.name.clone()).collect::<Vec<_>>()
        };
        let (tcp, failures, chosen) =
            (of(Set::Drawn, "tcp"), of(Set::Drawn, "failures"), of(Set::Chosen, "mptcp"));
        let mut rows = vec![
            row(&tcp[0], Kind::Kernel, 0.5),
            row(&tcp[1], Kind::Kernel, -1.5),
            row(&tcp[2], Kind::Kernel, 6.0),
            row(&failures[0], Kind::Kernel, -32.0),
            row(&failures[0], Kind::Emulated, 4.0),
            row(&chosen[0], Kind::Kernel, 2.0),
        ];
        // The emulation against the kernel is no prediction, and neither is a share; other classes have their own row.
        rows.push(Row { kind: Kind::Emulated, ..row(&tcp[3], Kind::Kernel, 50.0) });
        rows.push(Row { metric: Metric::Share, ..row(&tcp[3], Kind::Kernel, 50.0) });
        rows.push(row(&format!("{} [2]", failures[0]), Kind::Kernel, 90.0));
        let all = summaries(&rows, &points);
        let seen: Vec<_> =
            all.iter().map(|own| (own.drawn, own.kind, own.points, own.close, own.near, own.far)).collect();
        assert_eq!(
            seen,
            [(true, "tcp", 3, 2, 3, 0), (true, "failures", 1, 0, 0, 1), (false, "mptcp", 1, 1, 1, 0),]
        );
        assert!((all[0].median_pct - 1.5).abs() < 1e-9 && all[0].worst == tcp[2]);
        assert!(all[1].to_string().contains("1 drawn point: median 32.0 %"), "{}", all[1]);
        let table = markdown(&all);
        assert!(
            table.contains("(`failures`) | 1 | 32.0 | 0 | 0 | 1 | -32.0 %") && !table.contains(&chosen[0])
        );
        assert!(headline(&all).starts_with("plain transfers, TCP 1.5 %; outages"), "{}", headline(&all));
    }
}
