//! The share of points with a close prediction, separately for TCP and Multipath TCP, for drawn and chosen
//! points, and for the kernel and the emulation as reference.

use anabranch_lab::stats::percentile;
use serde::Serialize;

use crate::compare::Row;
use crate::measure::{Kind, Metric};
use crate::points::{Point, Sender, Set};

/// A prediction of the kernel within these per cent is close.
pub const CLOSE_TO_KERNEL: f64 = 5.0;
/// A prediction of the emulation within these per cent is close.
pub const CLOSE_TO_EMULATION: f64 = 3.0;
/// A difference beyond these per cent needs a cause on the page.
pub const FAR: f64 = 10.0;

/// The sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Protocol {
    /// TCP.
    #[serde(rename = "tcp")]
    Tcp,
    /// Multipath TCP.
    #[serde(rename = "mptcp")]
    Multipath,
}

impl Protocol {
    const fn name(self) -> &'static str {
        match self {
            Protocol::Tcp => "TCP",
            Protocol::Multipath => "Multipath TCP",
        }
    }
}

/// The accuracy of the simulator at some points: completion times, or goodputs of infinite flows.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// True if the points were drawn at random.
    pub drawn: bool,
    /// The sender.
    pub protocol: Protocol,
    /// The reference.
    pub reference: Kind,
    /// The number of points.
    pub points: usize,
    /// The median absolute difference, in per cent.
    pub median_pct: f64,
    /// The bound of a close prediction, in per cent.
    pub close_pct: f64,
    /// The number of close points.
    pub close: usize,
    /// The number of points that differ by more than [`FAR`].
    pub far: usize,
    /// The point with the largest difference.
    pub worst: String,
    /// That difference, in per cent.
    pub worst_pct: f64,
}

/// True if a summary counts the row: a duration or goodput of the simulator.
pub fn is_main(row: &Row) -> bool {
    matches!(row.metric, Metric::CompletionTime | Metric::Goodput) && row.kind == Kind::Simulated
}

/// Returns the summaries of `rows`, whose points are among `points`; those without points are left out.
pub fn summaries(rows: &[Row], points: &[Point]) -> Vec<Summary> {
    let mut all = Vec::new();
    for set in [Set::Drawn, Set::Chosen] {
        for (protocol, reference) in [
            (Protocol::Tcp, Kind::Kernel),
            (Protocol::Multipath, Kind::Kernel),
            (Protocol::Tcp, Kind::Emulated),
            (Protocol::Multipath, Kind::Emulated),
        ] {
            let own = |row: &&Row| {
                is_main(row)
                    && row.reference == reference
                    && points.iter().any(|point| {
                        let sender = match point.sender {
                            Sender::Tcp { .. } => Protocol::Tcp,
                            Sender::Multipath => Protocol::Multipath,
                        };
                        // The names of points in a table have no commas.
                        point.name.replace(',', ";") == row.point.replace(',', ";")
                            && (point.set, sender) == (set, protocol)
                    })
            };
            let own: Vec<&Row> = rows.iter().filter(own).collect();
            all.extend(summary(&own, set == Set::Drawn, protocol, reference));
        }
    }
    all
}

fn summary(rows: &[&Row], drawn: bool, protocol: Protocol, reference: Kind) -> Option<Summary> {
    let mut sizes: Vec<f64> = rows.iter().map(|row| row.difference.percent.abs()).collect();
    sizes.sort_unstable_by(f64::total_cmp);
    let size = |row: &&&Row| row.difference.percent.abs();
    let worst = rows.iter().max_by(|a, b| size(a).total_cmp(&size(b)))?;
    let close_pct = if reference == Kind::Kernel { CLOSE_TO_KERNEL } else { CLOSE_TO_EMULATION };
    Some(Summary {
        drawn,
        protocol,
        reference,
        points: rows.len(),
        median_pct: percentile(&sizes, 50.0)?,
        close_pct,
        close: sizes.iter().filter(|size| **size <= close_pct).count(),
        far: sizes.iter().filter(|size| **size > FAR).count(),
        worst: worst.point.clone(),
        worst_pct: worst.difference.percent,
    })
}

impl core::fmt::Display for Summary {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let Summary { points, median_pct, close_pct, close, far, worst, worst_pct, .. } = self;
        write!(
            f,
            "{} against the {}, {} {}: median {median_pct:.1} %, {close} within {close_pct:.0} %, {far} beyond \
             {FAR:.0} %, worst {worst_pct:+.1} % ({worst})",
            self.protocol.name(),
            if self.reference == Kind::Kernel { "kernel" } else { "emulation" },
            points,
            match (self.drawn, *points) {
                (true, 1) => "drawn point",
                (true, _) => "drawn points",
                (false, 1) => "chosen point",
                (false, _) => "chosen points",
            },
        )
    }
}

/// Returns the summaries as a table of the page.
pub fn markdown(summaries: &[Summary]) -> String {
    let mut text = format!(
        "| points | who sends | simulated against | number | median, % | close | beyond {FAR:.0} % | worst |\n\
         |---|---|---|---|---|---|---|---|\n"
    );
    for own in summaries {
        text.push_str(&format!(
            "| {} | {} | {} | {} | {:.1} | {} within {:.0} % | {} | {:+.1} % at `{}` |\n",
            if own.drawn { "drawn" } else { "chosen" },
            own.protocol.name(),
            own.reference.name(),
            own.points,
            own.median_pct,
            own.close,
            own.close_pct,
            own.far,
            own.worst_pct,
            own.worst,
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::Difference;
    use crate::grid::{Which, grid};

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
    fn tcp_and_multipath_tcp_and_drawn_and_chosen_points_are_counted_apart() {
        let points = grid(Which::All).unwrap();
        let of = |set, multipath: bool| {
            let is = |point: &&Point| point.set == set && (point.sender == Sender::Multipath) == multipath;
            points.iter().filter(is).map(|point| point.name.clone()).collect::<Vec<_>>()
        };
        let (tcp, mptcp, chosen) = (of(Set::Drawn, false), of(Set::Drawn, true), of(Set::Chosen, true));
        let mut rows = vec![
            row(&tcp[0], Kind::Kernel, 0.5),
            row(&tcp[1], Kind::Kernel, -1.5),
            row(&tcp[2], Kind::Kernel, 6.0),
            row(&mptcp[0], Kind::Kernel, -12.0),
            row(&mptcp[0], Kind::Emulated, 4.0),
            row(&chosen[0], Kind::Kernel, 2.0),
        ];
        // The emulation against the kernel is no prediction, and neither is a share.
        rows.push(Row { kind: Kind::Emulated, ..row(&tcp[3], Kind::Kernel, 50.0) });
        rows.push(Row { metric: Metric::Share, ..row(&tcp[3], Kind::Kernel, 50.0) });
        let all = summaries(&rows, &points);
        let seen: Vec<_> = all
            .iter()
            .map(|own| (own.drawn, own.protocol, own.reference, own.points, own.close, own.far))
            .collect();
        assert_eq!(
            seen,
            [
                (true, Protocol::Tcp, Kind::Kernel, 3, 2, 0),
                (true, Protocol::Multipath, Kind::Kernel, 1, 0, 1),
                (true, Protocol::Multipath, Kind::Emulated, 1, 0, 0),
                (false, Protocol::Multipath, Kind::Kernel, 1, 1, 0),
            ]
        );
        assert!((all[0].median_pct - 1.5).abs() < 1e-9 && all[0].worst == tcp[2]);
        let text = all[1].to_string();
        assert!(text.starts_with("Multipath TCP against the kernel, 1 drawn point: median 12.0 %"), "{text}");
        assert!(text.contains("worst -12.0 %"), "{text}");
        assert!(markdown(&all).contains("| drawn | Multipath TCP | emulated | 1 | 4.0 | 0 within 3 % | 0 |"));
    }
}
