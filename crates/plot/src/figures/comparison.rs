//! The figures of a comparison, from the object of `anabranch compare --json`.

use anabranch_lab::compare::Comparison;
use anabranch_lab::output::report::ShownComparison;
use anabranch_lab::report::Record;
use anabranch_lab::stats::Interval;

use super::classes::{Class, class_names, classes, title};
use super::recording::{path_keys, path_name, stack};
use super::{Contenders, conditions, distribution};
use crate::chart::{Axis, Chart, Mark, Panel, Stroke, Unit, limits};
use crate::style::{self, Style};
use crate::{PlotError, Selection};

/// With more, points are a dark bar: only the box is drawn.
const MOST_POINTS: usize = 2000;

pub(super) fn chart(shown: &ShownComparison, name: &str, selection: &Selection) -> Result<Chart, PlotError> {
    let all = All::read(shown, selection)?;
    Ok(match name {
        "difference" => all.difference()?,
        "completion" => all.completion(),
        "cdf" => all.cdf(),
        "paths" => all.paths(),
        "goodput" => all.goodput(),
        _ => all.jain(),
    })
}

/// Returns the reason why a figure is empty.
pub(super) fn nothing(shown: &ShownComparison, name: &str, selection: &Selection) -> String {
    All::read(shown, selection).map_or_else(|error| error.to_string(), |all| all.nothing(name))
}

/// Returns the names of the classes of traffic.
pub(super) fn traffic(shown: &ShownComparison) -> Vec<String> {
    let all = All::read(shown, &Selection::default()).ok();
    all.map(|all| class_names(all.result.rows.iter().map(|row| row.traffic.as_deref()))).unwrap_or_default()
}

struct All<'a> {
    shown: &'a ShownComparison,
    result: &'a Comparison,
    contenders: Contenders,
    conditions: Vec<String>,
    classes: Vec<Class>,
    /// True if one class was asked for.
    one: bool,
}

/// Returns the name of a contender: plain TCP with its path. Traffic that does not use the contender has its path whatever that is.
fn label(row: &Record) -> String {
    let path = row.path.as_ref().filter(|_| uses_contender(row));
    path.map_or(row.scheduler.clone(), |path| format!("{} ({})", row.scheduler, path_name(path)))
}

/// False for traffic of a class that is sent by a plain TCP or as datagrams.
fn uses_contender(row: &Record) -> bool {
    row.transport.as_deref().is_none_or(|via| via == "contender")
}

/// An estimate in a row.
struct Forest<'a> {
    label: String,
    scheduler: &'a str,
    mean: f64,
    ci95: Option<Interval>,
    certain: bool,
}

impl All<'_> {
    fn read<'a>(shown: &'a ShownComparison, selection: &Selection) -> Result<All<'a>, PlotError> {
        let result = &shown.comparison;
        let contenders = Contenders::new(result.rows.iter().map(|row| row.scheduler.as_str()), selection)?;
        let conditions =
            conditions(result.conditions.iter().map(|condition| condition.name.as_str()), selection)?;
        let rows = result.rows.iter().map(|row| (row.traffic.as_deref(), row.kind.as_deref()));
        let classes = classes(rows, selection)?;
        Ok(All { shown, result, contenders, conditions, classes, one: selection.traffic.is_some() })
    }

    fn nothing(&self, name: &str) -> String {
        let classes: Vec<String> = self.classes.iter().map(Class::words).collect();
        let classes = classes.join(", ");
        match name {
            "difference" => {
                let reference = self.result.reference.as_deref().unwrap_or_default();
                match self.contenders.names.as_slice() {
                    [one] if one == reference => {
                        format!("`{reference}` is the reference, and alone has no difference")
                    }
                    _ => format!("no difference from `{reference}` is known, as flows did not finish"),
                }
            }
            "completion" | "cdf" if self.classes.iter().all(|class| self.is_bulk(class)) => {
                "bulk flows have no completion times, and are judged by their goodput".to_owned()
            }
            "completion" => "no flow finished".to_owned(),
            "cdf" => {
                "a distribution needs two values at least; compare with more --runs, or give the file of --samples"
                    .to_owned()
            }
            "goodput" if !self.classes.iter().any(Class::is_transfer) => {
                format!("goodput is the measure of transfers, and the traffic is {classes}")
            }
            "goodput" => "no flow delivered data".to_owned(),
            "paths" => format!("the traffic {classes} is on one path, whatever the contender"),
            _ => match self.classes.as_slice() {
                [class] if class.name.is_none() => {
                    "the comparison has Jain's index with competing flows (`traffic.beside`) or several bulk flows in \
                     a run; for several other flows, write it by `anabranch compare --view fairness --json`"
                        .to_owned()
                }
                _ => "Jain's index compares flows of one kind, and this comparison has classes of traffic".to_owned(),
            },
        }
    }

    /// Returns the rows of a class under a condition.
    fn rows(&self, condition: &str, class: &Class) -> Vec<&Record> {
        let of_both = |row: &&Record| row.condition == condition && class.has(row.traffic.as_deref());
        let mut rows: Vec<&Record> = self.result.rows.iter().filter(of_both).collect();
        rows.retain(|row| self.contenders.place(&row.scheduler).is_some());
        rows.sort_by_key(|row| self.contenders.place(&row.scheduler));
        rows
    }

    /// Returns a panel for each class under each condition.
    fn each(&self, panel: impl FnMut((&str, &Class)) -> Option<Panel>) -> Vec<Panel> {
        let of = |condition| self.classes.iter().map(move |class| (condition, class));
        self.conditions.iter().map(String::as_str).flat_map(of).filter_map(panel).collect()
    }

    fn title(&self, condition: &str, class: &Class) -> String {
        let condition = if self.result.conditions.len() > 1 { condition } else { "" };
        title([condition, class.name.as_deref().unwrap_or_default()])
    }

    fn style(&self, scheduler: &str) -> Style {
        self.contenders.style(scheduler).unwrap_or_else(|| style::contenders(&[scheduler.to_owned()])[0])
    }

    /// True for bulk traffic, which has no completion times.
    fn is_bulk(&self, class: &Class) -> bool {
        let mut rows = self.result.rows.iter().filter(|row| class.has(row.traffic.as_deref()));
        class.is_transfer() && rows.all(|row| row.fct_s.mean.is_none())
    }

    fn forest(
        &self,
        title: String,
        x: &str,
        unit: Unit,
        rule: Option<(f64, f64)>,
        rows: &[Forest<'_>],
    ) -> Option<Panel> {
        let ends =
            rows.iter().flat_map(|row| [Some(row.mean), row.ci95.map(|ci| ci.0), row.ci95.map(|ci| ci.1)]);
        let band = rule.iter().flat_map(|(at, band)| [Some(at - band), Some(at + band)]);
        let x = Axis::around(x, unit, ends.chain(band).flatten());
        let mut marks = Vec::new();
        if let Some((at, band)) = rule {
            let whole = (-0.5, rows.len() as f64 - 0.5);
            let fill = "#e9edf1".to_owned();
            marks.push(Mark::Rect {
                x: (at - band, at + band),
                y: whole,
                fill,
                edge: None,
                text: String::new(),
            });
            marks.push(Mark::VerticalRule(at));
        }
        for (at, row) in rows.iter().enumerate() {
            let style = self.style(row.scheduler);
            let place = at as f64;
            if let Some(Interval(low, high)) = row.ci95 {
                let stroke = Stroke::solid(style.colour, 1.0);
                marks.push(Mark::Interval { from: (low, place), to: (high, place), stroke });
            }
            let (symbol, colour) = (style.symbol, style.colour);
            let points = vec![(row.mean, place)];
            marks.push(Mark::Points {
                points,
                symbol,
                colour,
                size: 5.0,
                hollow: !row.certain,
                opacity: 1.0,
            });
        }
        let y = Axis::names(rows.iter().map(|row| row.label.clone()).collect());
        (!rows.is_empty()).then_some(Panel { title, x, y, marks })
    }

    fn difference(&self) -> Result<Chart, PlotError> {
        let Some(reference) = &self.result.reference else {
            return Err(PlotError::new("this comparison has no reference, so there are no differences"));
        };
        let band = self.result.min_effect_pct;
        let panels = self.each(|(condition, class)| {
            let measure = if self.is_bulk(class) { "Goodput" } else { class.time() };
            let rows = self.rows(condition, class);
            let rows = rows.iter().filter(|row| row.scheduler != *reference).filter_map(|row| {
                let estimate = row.vs_reference_pct?;
                let Interval(low, high) = estimate.ci95.unwrap_or(Interval(f64::NEG_INFINITY, f64::INFINITY));
                let certain = low > 0.0 || high < 0.0 || (low >= -band && high <= band);
                let (label, scheduler) = (label(row), row.scheduler.as_str());
                Some(Forest { label, scheduler, mean: estimate.mean, ci95: estimate.ci95, certain })
            });
            let x = format!("{measure} against {reference}");
            self.forest(
                self.title(condition, class),
                &x,
                Unit::Percent,
                Some((0.0, band)),
                &rows.collect::<Vec<_>>(),
            )
        });
        Ok(Chart { panels, ..Chart::default() })
    }

    fn goodput(&self) -> Chart {
        let panels = self.each(|(condition, class)| {
            let rows = self.rows(condition, class);
            let rows = rows.iter().filter(|_| class.is_transfer()).filter_map(|row| {
                let (label, scheduler) = (label(row), row.scheduler.as_str());
                Some(Forest {
                    label,
                    scheduler,
                    mean: row.goodput_bps?,
                    ci95: row.goodput_ci95_bps,
                    certain: true,
                })
            });
            self.forest(
                self.title(condition, class),
                "Goodput of a flow, mean",
                Unit::BitsPerSecond,
                None,
                &rows.collect::<Vec<_>>(),
            )
        });
        Chart { panels, ..Chart::default() }
    }

    fn jain(&self) -> Chart {
        let panels = self.conditions.iter().filter_map(|condition| {
            let rows = self.result.fairness.iter().filter(|fairness| fairness.condition == *condition);
            let rows = rows.filter(|row| self.contenders.place(&row.scheduler).is_some()).map(|row| {
                let (label, scheduler) = (row.scheduler.clone(), row.scheduler.as_str());
                Forest { label, scheduler, mean: row.jain.mean, ci95: row.jain.ci95, certain: true }
            });
            let title = self.title(condition, &Class::default());
            self.forest(title, "Jain's index", Unit::None, None, &rows.collect::<Vec<_>>())
        });
        Chart { panels: panels.collect(), ..Chart::default() }
    }

    /// Returns the times of the flows of a row (of its requests or bursts), or the means of its runs, with the number of all.
    fn times(&self, row: &Record) -> (Vec<f64>, usize) {
        let all = match &self.shown.samples {
            Some(samples) => samples.times(&row.condition, row.traffic.as_deref(), &row.scheduler),
            None => row.by_run.fct_s.clone(),
        };
        let mut times: Vec<f64> = all.iter().flatten().copied().collect();
        times.sort_by(f64::total_cmp);
        (times, all.len())
    }

    fn time_axis(&self, condition: &str, class: &Class) -> Axis {
        let mean = if self.shown.samples.is_some() { "" } else { ", mean of a run" };
        let of = format!("{}{mean}", class.time());
        let rows = self.rows(condition, class);
        Axis::up_to(&of, Unit::Seconds, rows.iter().flat_map(|row| self.times(row).0))
    }

    fn completion(&self) -> Chart {
        let panels = self.each(|(condition, class)| {
            let rows = self.rows(condition, class).into_iter();
            let rows: Vec<&Record> = rows.filter(|row| !self.times(row).0.is_empty()).collect();
            let mut marks = Vec::new();
            for (at, row) in rows.iter().enumerate() {
                self.one(at as f64, row, &mut marks);
            }
            let y = Axis::names(rows.iter().map(|row| label(row)).collect());
            // Half of the range without values is a waste of a column.
            let ends =
                rows.iter().filter_map(|row| row.fct_s.ci95).flat_map(|Interval(low, high)| [low, high]);
            let shown: Vec<f64> = rows.iter().flat_map(|row| self.times(row).0).chain(ends).collect();
            let whole = match limits(shown.iter().copied()) {
                Some((low, high)) if low > 0.5 * high => Axis::around("", Unit::Seconds, shown),
                _ => Axis::up_to("", Unit::Seconds, shown),
            };
            let x = Axis { range: whole.range, ..self.time_axis(condition, class) };
            (!rows.is_empty()).then(|| Panel { title: self.title(condition, class), x, y, marks })
        });
        Chart { panels, ..Chart::default() }
    }

    /// Points below, the box in the middle, and the mean with its interval above.
    fn one(&self, at: f64, row: &Record, marks: &mut Vec<Mark>) {
        let (times, _) = self.times(row);
        let style = self.style(&row.scheduler);
        let colour = style.colour;
        if times.len() <= MOST_POINTS {
            let spread = |place: usize| (place as f64 * 0.618_033_988_75).fract() - 0.5;
            let points =
                times.iter().enumerate().map(|(place, time)| (*time, at + 0.3 + 0.2 * spread(place)));
            let opacity = if times.len() > 200 { 0.4 } else { 0.65 };
            let points = points.collect();
            marks.push(Mark::Points {
                points,
                symbol: style.symbol,
                colour,
                size: 1.6,
                hollow: false,
                opacity,
            });
        }
        let quantile = |share: f64| {
            let place = share * (times.len() - 1) as f64;
            let (low, high) = (times[place.floor() as usize], times[place.ceil() as usize]);
            low + (high - low) * place.fract()
        };
        let (q1, median, q3) = (quantile(0.25), quantile(0.5), quantile(0.75));
        let reach = 1.5 * (q3 - q1);
        let low = times.iter().copied().find(|time| *time >= q1 - reach).unwrap_or(q1).min(q1);
        let high = times.iter().rev().copied().find(|time| *time <= q3 + reach).unwrap_or(q3).max(q3);
        let (top, bottom) = (at - 0.14, at + 0.1);
        let middle = (top + bottom) / 2.0;
        let thin = Stroke::solid(colour, 0.7);
        for (from, to) in [(low, q1), (q3, high)] {
            marks.push(Mark::Line {
                points: vec![(from, middle), (to, middle)],
                stroke: thin.clone(),
                step: false,
            });
        }
        let fill = "#ffffff".to_owned();
        marks.push(Mark::Rect { x: (q1, q3), y: (top, bottom), fill, edge: Some(thin), text: String::new() });
        let bar = (median, median);
        marks.push(Mark::Rect {
            x: bar,
            y: (top, bottom),
            fill: colour.to_owned(),
            edge: Some(Stroke::solid(colour, 1.2)),
            text: String::new(),
        });
        let place = at - 0.32;
        if let Some(Interval(low, high)) = row.fct_s.ci95 {
            let stroke = Stroke::solid(colour, 0.9);
            marks.push(Mark::Interval { from: (low, place), to: (high, place), stroke });
        }
        if let Some(mean) = row.fct_s.mean {
            let points = vec![(mean, place)];
            marks.push(Mark::Points {
                points,
                symbol: style.symbol,
                colour,
                size: 4.0,
                hollow: false,
                opacity: 1.0,
            });
        }
    }

    fn cdf(&self) -> Chart {
        let panels = self.each(|(condition, class)| {
            let of = if self.shown.samples.is_some() { class.subject() } else { "Runs" };
            let rows = self.rows(condition, class);
            let marks: Vec<Mark> = rows
                .iter()
                .map(|row| (row, self.times(row)))
                .filter(|(_, (times, _))| times.len() > 1)
                .map(|(row, (times, all))| {
                    let points = distribution(&times, all);
                    Mark::Line { points, stroke: self.style(&row.scheduler).stroke(1.2), step: true }
                })
                .collect();
            let y = Axis::new(of, Unit::Percent, (0.0, 100.0));
            let (title, x) = (self.title(condition, class), self.time_axis(condition, class));
            (!marks.is_empty()).then_some(Panel { title, x, y, marks })
        });
        Chart { panels, keys: self.contenders.keys(), warning: self.few() }
    }

    /// One run has no distribution of its means.
    fn few(&self) -> Option<String> {
        let shown = |row: &&Record| self.classes.iter().any(|class| class.has(row.traffic.as_deref()));
        let few = self.shown.samples.is_none()
            && self.result.runs > 1
            && self.result.rows.iter().filter(shown).any(|row| row.n > self.result.runs as usize);
        let subject = match self.classes.as_slice() {
            [class] if class.name.is_none() => "a flow",
            _ => "a flow, request or burst",
        };
        few.then(|| format!("Each step is the mean of a run; with the file of --samples, it is {subject}."))
    }

    fn paths(&self) -> Chart {
        let mut names: Vec<&str> = Vec::new();
        for name in self.result.conditions.iter().flat_map(|condition| &condition.paths) {
            if !names.contains(&name.as_str()) {
                names.push(name);
            }
        }
        let x = Axis::new("Share of the bytes", Unit::Percent, (0.0, 100.0));
        let panels = self.each(|(condition, class)| {
            let paths = &self.result.conditions.iter().find(|known| known.name == condition)?.paths;
            let mut rows = self.rows(condition, class);
            // Other traffic is on one path: a panel of it is drawn if it was asked for.
            rows.retain(|row| self.one || uses_contender(row));
            let mut marks = Vec::new();
            for (at, row) in rows.iter().enumerate() {
                let all = row.bytes_by_path.iter().sum::<u64>().max(1) as f64;
                let parts = paths.iter().zip(&row.bytes_by_path).map(|(path, bytes)| {
                    let place = names.iter().position(|name| name == path).unwrap_or_default();
                    (style::path(place), 100.0 * *bytes as f64 / all)
                });
                marks.extend(stack(at, parts));
            }
            let y = Axis::names(rows.iter().map(|row| label(row)).collect());
            let title = self.title(condition, class);
            (!rows.is_empty()).then(|| Panel { title, x: x.clone(), y, marks })
        });
        Chart { panels, keys: path_keys(&names), warning: None }
    }
}

#[cfg(test)]
#[path = "comparison_tests.rs"]
mod tests;
