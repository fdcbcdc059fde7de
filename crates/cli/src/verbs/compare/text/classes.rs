//! A table for each class of traffic, with the columns of its kind.

use anabranch_lab::compare::Comparison;
use anabranch_lab::report::Row;
use anabranch_lab::scenario::{Condition, Kind, TrafficClass, Via};
use anabranch_lab::stats::Interval;

use super::{
    GAP, bulk_table, difference, done, headers, leaders, mega, millis, path_name, percent, shares, table,
};
use crate::table::{Align, Table, wrap};
use crate::terminal::{GOOD, paint};
use crate::{output, terminal};

pub(super) fn tables(comparison: &Comparison, condition: &Condition, gaps: bool) -> String {
    let mut text = String::new();
    for (at, class) in condition.experiment.classes.iter().enumerate() {
        if at > 0 {
            text.push('\n');
        }
        let heading = format!("{}: {}", class.name, class.describe());
        text.push_str(&wrap(&heading, terminal::text_width()));
        let own = |row: &&Row| row.condition == condition.name && row.traffic.as_ref() == Some(&class.name);
        let rows: Vec<&Row> = comparison.rows.iter().filter(own).collect();
        let leaders = leaders(comparison, &condition.name, Some(&class.name));
        let shown = Shown { class, reference: comparison.reference.as_deref(), leaders: &leaders, gaps };
        text.push_str(&shown.table(&rows));
    }
    text
}

struct Shown<'a> {
    class: &'a TrafficClass,
    reference: Option<&'a str>,
    leaders: &'a [&'a str],
    /// True if the longest gaps are shown.
    gaps: bool,
}

impl Shown<'_> {
    fn table(&self, rows: &[&Row]) -> String {
        let table = match self.class.kind {
            // A plain TCP is not on the contender's path.
            Kind::Transfer { .. } if self.class.via != Via::Contender => self.plain(rows),
            Kind::Transfer { .. } if self.class.kind.is_bulk() => {
                return bulk_table(rows.iter().copied(), self.reference, self.leaders, self.gaps);
            }
            Kind::Transfer { .. } => {
                return table(rows.iter().copied(), self.reference, self.leaders, self.gaps);
            }
            Kind::Requests(_) => self.requests(rows),
            Kind::OnOff(_) => self.on_off(rows),
            Kind::Datagrams(_) => self.datagrams(rows),
            Kind::Video(_) => self.video(rows),
        };
        table.render(terminal::width())
    }

    fn name(&self, row: &Row) -> String {
        let name = match (&row.path, self.class.via) {
            (Some(path), Via::Contender) if !row.scheduler.contains('@') => {
                format!("{} on {}", row.scheduler, path_name(path))
            }
            _ => row.scheduler.clone(),
        };
        if self.leaders.contains(&row.scheduler.as_str()) { paint(GOOD, &name) } else { name }
    }

    fn plain(&self, rows: &[&Row]) -> Table {
        let bulk = self.class.kind.is_bulk();
        let mut table = Table::new()
            .column("beside", Align::Left)
            .column("done", Align::Right)
            .column(if bulk { "goodput Mbit/s" } else { "mean ms" }, Align::Decimal)
            .column(&headers(self.reference), Align::Right)
            .shown_if(self.gaps, GAP, Align::Decimal, 1)
            .optional("x bound", Align::Decimal, 1)
            .optional("retx %", Align::Decimal, 2);
        for row in rows {
            table.row(vec![
                self.name(row),
                done(row),
                if bulk { mega(row.goodput_bps) } else { millis(row.fct_s.mean) },
                difference(row, self.reference),
                millis(row.longest_gap_s.mean),
                row.vs_lower_bound.map_or("-".to_owned(), output::digits),
                percent(row.retransmitted_ratio),
            ]);
        }
        table
    }

    fn requests(&self, rows: &[&Row]) -> Table {
        let mut table = Table::new()
            .column(self.subject(), Align::Left)
            .column("responses", Align::Right)
            .column("mean ms", Align::Decimal)
            .optional("95 % of mean", Align::Right, 3)
            .column("median", Align::Decimal)
            .column("p95", Align::Decimal)
            .optional("p99", Align::Decimal, 1)
            .column(&headers(self.reference), Align::Right)
            .shown_if(self.gaps, GAP, Align::Decimal, 1)
            .optional("retx %", Align::Decimal, 4)
            .optional("RTOs", Align::Decimal, 5)
            .optional("share by path, %", Align::Right, 6);
        for row in rows {
            table.row(vec![
                self.name(row),
                done(row),
                millis(row.fct_s.mean),
                interval(row),
                millis(row.fct_s.p50),
                millis(row.fct_s.p95),
                millis(row.fct_s.p99),
                difference(row, self.reference),
                millis(row.longest_gap_s.mean),
                percent(row.retransmitted_ratio),
                output::about(row.rto_count),
                shares(row),
            ]);
        }
        table
    }

    fn on_off(&self, rows: &[&Row]) -> Table {
        let mut table = Table::new()
            .column(self.subject(), Align::Left)
            .column("bursts", Align::Right)
            .column("delay ms", Align::Decimal)
            .optional("95 % of mean", Align::Right, 2)
            .column("p95", Align::Decimal)
            .column(&headers(self.reference), Align::Right)
            .shown_if(self.gaps, GAP, Align::Decimal, 1)
            .optional("Mbit/s", Align::Decimal, 1)
            .optional("retx %", Align::Decimal, 3)
            .optional("share by path, %", Align::Right, 4);
        for row in rows {
            table.row(vec![
                self.name(row),
                done(row),
                millis(row.fct_s.mean),
                interval(row),
                millis(row.fct_s.p95),
                difference(row, self.reference),
                millis(row.longest_gap_s.mean),
                mega(row.goodput_bps),
                percent(row.retransmitted_ratio),
                shares(row),
            ]);
        }
        table
    }

    fn datagrams(&self, rows: &[&Row]) -> Table {
        let mut table = Table::new()
            .column(self.subject(), Align::Left)
            .column("lost %", Align::Decimal)
            .column("delay ms", Align::Decimal)
            .optional("95 % of mean", Align::Right, 2)
            .column("p95", Align::Decimal)
            .optional("p99", Align::Decimal, 1)
            .optional("max", Align::Decimal, 3)
            .column("jitter", Align::Decimal)
            .column(&headers(self.reference), Align::Right);
        for row in rows {
            let own = row.datagrams.unwrap_or_default();
            table.row(vec![
                self.name(row),
                percent(own.lost_ratio),
                millis(row.fct_s.mean),
                interval(row),
                millis(own.delay_p95_s),
                millis(own.delay_p99_s),
                millis(own.delay_max_s),
                millis(own.jitter_s),
                difference(row, self.reference),
            ]);
        }
        table
    }

    fn video(&self, rows: &[&Row]) -> Table {
        let mut table = Table::new()
            .column(self.subject(), Align::Left)
            .column("videos", Align::Right)
            .column("startup s", Align::Decimal)
            .column("stalls", Align::Decimal)
            .column("stalled s", Align::Decimal)
            .column("waiting s", Align::Decimal)
            .column(&headers(self.reference), Align::Right)
            .shown_if(self.gaps, GAP, Align::Decimal, 1)
            .column("bitrate Mbit/s", Align::Decimal)
            .optional("switches", Align::Decimal, 2)
            .optional("share by path, %", Align::Right, 3);
        for row in rows {
            let own = row.video.unwrap_or_default();
            let seconds = |value: Option<f64>| value.map_or("-".to_owned(), output::digits);
            table.row(vec![
                self.name(row),
                done(row),
                seconds(own.startup_s.mean),
                output::about(own.stalls),
                output::about(own.stalled_s),
                seconds(row.fct_s.mean),
                difference(row, self.reference),
                millis(row.longest_gap_s.mean),
                mega(own.bitrate_bps),
                output::about(own.switches),
                shares(row),
            ]);
        }
        table
    }

    /// The title of the first column: rows of a class that does not use the contender show what it has beside it.
    fn subject(&self) -> &'static str {
        if self.class.via == Via::Contender { "scheduler" } else { "beside" }
    }
}

fn interval(row: &Row) -> String {
    row.fct_s.ci95.map_or("-".to_owned(), |Interval(low, high)| {
        format!("{}..{}", millis(Some(low)), millis(Some(high)))
    })
}
