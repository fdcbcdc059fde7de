//! The recorded table of differences, and its comparison with new ones.

use anabranch_lab::stats::{Interval, mean};
use serde::Serialize;

use crate::compare::{BOUND, Difference, LEAST_PAIRS, Row, Verdict};
use crate::measure::{Kind, Measured, Metric};
use crate::points::Point;

/// The last recorded table, as text.
pub const RECORDED: &str = include_str!("../fidelity.csv");

const COLUMNS: &str = "point,metric,first,second,pairs,mean_first,mean_second,percent,low,high,median,median_low,median_high,verdict";

/// The rounding error of a percentage in the table, plus arithmetic errors.
const ROUNDING: f64 = 0.006;

/// Returns the table as text; `about` describes the place and time of the measurement.
pub fn write(about: &[String], rows: &[Row]) -> String {
    let mut text: String = about.iter().map(|line| format!("# {line}\n")).collect();
    text.push_str(COLUMNS);
    text.push('\n');
    for row in rows {
        let own = &row.difference;
        let ends = |interval: Option<Interval>| {
            interval.map_or(",".to_owned(), |Interval(low, high)| format!("{low:.2},{high:.2}"))
        };
        text.push_str(&format!(
            "{},{},{},{},{},{},{},{:.2},{},{:.2},{},{}\n",
            row.point.replace(',', ";"),
            row.metric.name(),
            row.kind.name(),
            row.reference.name(),
            own.pairs,
            own.first,
            own.second,
            own.percent,
            ends(own.interval),
            own.median,
            ends(own.median_interval),
            own.verdict.name(),
        ));
    }
    text
}

/// Returns the remarks and the lines of a table.
///
/// # Errors
/// The first invalid line.
pub fn read(text: &str) -> Result<(Vec<String>, Vec<Row>), String> {
    let (mut about, mut rows, mut head) = (Vec::new(), Vec::new(), false);
    for (number, line) in text.lines().enumerate() {
        if let Some(remark) = line.strip_prefix('#') {
            about.push(remark.trim().to_owned());
        } else if !head {
            if line != COLUMNS {
                return Err(format!("line {}: the columns are not {COLUMNS}", number + 1));
            }
            head = true;
        } else {
            rows.push(row(line).ok_or_else(|| format!("line {} is not a row of the table", number + 1))?);
        }
    }
    if head { Ok((about, rows)) } else { Err("there is no table".to_owned()) }
}

fn row(line: &str) -> Option<Row> {
    let cells: Vec<&str> = line.split(',').collect();
    let [
        point,
        metric,
        kind,
        reference,
        pairs,
        first,
        second,
        percent,
        low,
        high,
        median,
        m_low,
        m_high,
        verdict,
    ] = cells[..]
    else {
        return None;
    };
    let kind_of =
        |name: &str| [Kind::Simulated, Kind::Emulated, Kind::Kernel].into_iter().find(|k| k.name() == name);
    let interval = |low: &str, high: &str| match (low, high) {
        ("", "") => Some(None),
        _ => Some(Some(Interval(low.parse().ok()?, high.parse().ok()?))),
    };
    Some(Row {
        point: point.to_owned(),
        metric: Metric::from_name(metric)?,
        kind: kind_of(kind)?,
        reference: kind_of(reference)?,
        difference: Difference {
            pairs: pairs.parse().ok()?,
            first: first.parse().ok()?,
            second: second.parse().ok()?,
            percent: percent.parse().ok()?,
            interval: interval(low, high)?,
            median: median.parse().ok()?,
            median_interval: interval(m_low, m_high)?,
            verdict: Verdict::from_name(verdict)?,
        },
    })
}

/// Returns the differences of the simulator of this build from the recorded runs of the kernel: the mean over the
/// runs in `simulated`, by point, that the kernel has too, against the recorded mean. Points and measures that were never
/// recorded are left out.
///
/// A record has the number of the kernel's runs, which are the first ones: a run with other losses moves a mean by half.
pub fn against_recorded(points: &[Point], simulated: &[Vec<Measured>], recorded: &[Row]) -> Vec<Row> {
    let mut rows = Vec::new();
    for (point, runs) in points.iter().zip(simulated) {
        for (class, name) in point.classes() {
            // The names of points in a table have no commas.
            let name = name.replace(',', ";");
            let of_point = |row: &&Row| {
                row.point == name && (row.kind, row.reference) == (Kind::Simulated, Kind::Kernel)
            };
            for kept in recorded.iter().filter(of_point) {
                let value = |run: &Measured| kept.metric.of(point, run.of_class(class)?);
                let same = runs.iter().take(kept.difference.pairs);
                let values: Vec<f64> = same.filter_map(value).collect();
                let difference = mean(&values)
                    .and_then(|mean| Difference::of(&[(mean, kept.difference.second)], kept.metric.floor()));
                rows.extend(difference.map(|difference| Row { difference, ..kept.clone() }));
            }
        }
    }
    rows
}

/// The result of comparing a difference with the recorded one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Judgement {
    /// It has not grown.
    Same,
    /// It has increased by more than its noise.
    Grown,
    /// There are too few reliable runs.
    Inconclusive,
    /// It was never recorded.
    Unknown,
}

/// A difference, its permitted range, and the judgement.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Held {
    /// The present difference.
    #[serde(flatten)]
    pub row: Row,
    /// The recorded interval, or plus and minus 5 % if that is wider.
    pub allowed: Option<Interval>,
    /// The result.
    pub judgement: Judgement,
}

/// Compares `row` with the recorded one. It has grown if the whole interval of its median lies beyond the
/// recorded one, and beyond plus and minus 5 %.
pub fn hold(row: &Row, recorded: &[Row]) -> Held {
    let own = |kept: &&Row| {
        (&kept.point, kept.metric, kept.kind, kept.reference)
            == (&row.point, row.metric, row.kind, row.reference)
    };
    let Some(kept) = recorded.iter().find(own) else {
        return Held { row: row.clone(), allowed: None, judgement: Judgement::Unknown };
    };
    let mut allowed = Interval(-BOUND, BOUND);
    let kept = &kept.difference;
    let known = [Some(Interval(kept.percent, kept.percent)), kept.interval, kept.median_interval];
    for Interval(low, high) in known.into_iter().flatten() {
        allowed = Interval(allowed.0.min(low - ROUNDING), allowed.1.max(high + ROUNDING));
    }
    let judgement = match row.difference.median_interval {
        Some(Interval(low, high)) if row.difference.pairs >= LEAST_PAIRS => {
            if low > allowed.1 || high < allowed.0 { Judgement::Grown } else { Judgement::Same }
        }
        _ => Judgement::Inconclusive,
    };
    Held { row: row.clone(), allowed: Some(allowed), judgement }
}

/// Returns a value in the unit of tables, the unit, and the number of decimals.
fn shown(metric: Metric, value: f64) -> (f64, &'static str, usize) {
    match metric {
        Metric::CompletionTime
        | Metric::CompletionTimeP95
        | Metric::LongestGap
        | Metric::ResponseTime
        | Metric::Lateness
        | Metric::Waiting
        | Metric::DatagramDelay => (value * 1e3, "ms", 1),
        Metric::Goodput => (value / 1e6, "Mbit/s", 2),
        Metric::Retransmissions => (value, "segments", 1),
        Metric::Timeouts => (value, "timeouts", 2),
        Metric::Share | Metric::DatagramLoss => (value * 100.0, "%", 1),
        Metric::RttInflation => (value, "times", 2),
    }
}

/// Returns the unit of a metric, in which [`number`] gives its values.
pub fn unit(metric: Metric) -> &'static str {
    shown(metric, 0.0).1
}

/// Returns a value in the unit of [`fn@unit`].
pub fn number(metric: Metric, value: f64) -> String {
    let (value, _, decimals) = shown(metric, value);
    format!("{value:.decimals$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(percents: &[f64]) -> Row {
        let pairs: Vec<(f64, f64)> = percents.iter().map(|percent| (1.0 + percent / 100.0, 1.0)).collect();
        Row {
            point: "p".into(),
            metric: Metric::CompletionTime,
            kind: Kind::Simulated,
            reference: Kind::Kernel,
            difference: Difference::of(&pairs, 0.0).unwrap(),
        }
    }

    fn recorded(percents: &[f64]) -> Vec<Row> {
        read(&write(&[], &[row(percents)])).unwrap().1
    }

    #[test]
    fn the_table_is_read_as_it_was_written() {
        let rows = [row(&[1.0, 2.0, 3.0, 4.0, 5.0]), row(&[7.0])];
        let (about, kept) = read(&write(&["where and when".to_owned()], &rows)).unwrap();
        assert_eq!(about, ["where and when"]);
        assert_eq!(kept.len(), 2);
        let (first, second) = (&kept[0].difference, &kept[1].difference);
        assert!((first.percent - 3.0).abs() < 0.01 && first.median_interval == Some(Interval(1.0, 5.0)));
        assert_eq!(
            (second.interval, second.median_interval, second.verdict),
            (None, None, Verdict::Inconclusive)
        );
        assert!(read("").is_err() && read("a,b\n").is_err() && read(&format!("{COLUMNS}\nx,y\n")).is_err());
        assert_eq!(
            (number(Metric::CompletionTime, 1.03), unit(Metric::CompletionTime)),
            ("1030.0".into(), "ms")
        );
    }

    #[test]
    fn a_difference_has_grown_when_all_of_its_interval_lies_beyond_what_was_recorded() {
        let judge = |now: &[f64], then: &[f64]| hold(&row(now), &recorded(then)).judgement;
        // Within 5 % nothing has grown.
        assert_eq!(judge(&[4.0; 5], &[0.0; 20]), Judgement::Same);
        assert_eq!(judge(&[6.0; 5], &[0.0; 20]), Judgement::Grown);
        assert_eq!(judge(&[-6.0; 5], &[0.0; 20]), Judgement::Grown);
        // The noise extends into the permitted range.
        assert_eq!(judge(&[4.0, 9.0, 9.0, 9.0, 9.0], &[0.0; 20]), Judgement::Same);
        // A recorded difference may persist, but not grow.
        assert_eq!(judge(&[12.0; 5], &[12.0; 20]), Judgement::Same);
        assert_eq!(judge(&[13.0; 5], &[12.0; 20]), Judgement::Grown);
        assert_eq!(judge(&[13.0; 5], &[-12.0; 20]), Judgement::Grown);
        // A decrease is permitted.
        assert_eq!(judge(&[1.0; 5], &[12.0; 20]), Judgement::Same);
    }

    #[test]
    fn a_build_is_compared_in_the_runs_that_the_kernel_has() {
        let points = crate::grid::grid(crate::grid::Which::Chosen).unwrap();
        let point = points.iter().find(|point| point.classes().len() == 1).unwrap();
        let mut kept = row(&[0.0; 2]);
        kept.point = point.name.clone();
        let run = |time_s| Measured { time_s: Some(time_s), ..Measured::default() };
        let simulated = [vec![run(1.0), run(1.1), run(9.0)]];
        let now = against_recorded(std::slice::from_ref(point), &simulated, &[kept]);
        assert!((now[0].difference.first - 1.05).abs() < 1e-9, "{:?}", now[0].difference);
    }

    #[test]
    fn too_few_runs_and_unknown_points_are_told_apart() {
        assert_eq!(hold(&row(&[50.0; 4]), &recorded(&[0.0; 20])).judgement, Judgement::Inconclusive);
        assert_eq!(hold(&row(&[50.0; 5]), &[]).judgement, Judgement::Unknown);
    }

    #[test]
    fn the_widest_recorded_interval_is_allowed() {
        let kept = |interval, median| {
            let mut kept = row(&[2.0; 5]);
            (kept.difference.interval, kept.difference.median_interval) = (Some(interval), Some(median));
            [kept]
        };
        let of = |kept: [Row; 1], now: f64| hold(&row(&[now; 5]), &kept).judgement;
        let (narrow, wide) = (Interval(1.0, 3.0), Interval(-9.0, 12.0));
        for kept in [kept(narrow, wide), kept(wide, narrow)] {
            assert_eq!(of(kept.clone(), 11.9), Judgement::Same);
            assert_eq!(of(kept.clone(), -8.9), Judgement::Same);
            assert_eq!((of(kept.clone(), 12.1), of(kept, -9.1)), (Judgement::Grown, Judgement::Grown));
        }
    }
}
