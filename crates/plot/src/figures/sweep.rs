//! The figures of a sweep.

use anabranch_lab::measure::{Reading, Record};
use anabranch_lab::output::report::{Dimension, ShownSweep};
use anabranch_lab::stats::Interval;
use serde_json::Value;

use super::classes::{Class, class_names, classes, title};
use super::{Contenders, conditions};
use crate::chart::{Axis, Chart, Key, Mark, Panel, Sample, Scale, Stroke, Unit};
use crate::palette;
use crate::style::{self, DIM};
use crate::{PlotError, Selection};

pub(super) fn chart(sweep: &ShownSweep, name: &str, selection: &Selection) -> Result<Chart, PlotError> {
    let rows = || sweep.results.iter().flat_map(|point| &point.result.rows);
    let contenders = Contenders::new(rows().map(|row| row.scheduler.as_str()), selection)?;
    let conditions = conditions(rows().map(|row| row.condition.as_str()), selection)?;
    let classes = classes(rows().map(|row| (row.traffic.as_deref(), row.kind.as_deref())), selection)?;
    let key = |wanted: &Option<String>, other: usize| match wanted {
        None => Ok(other),
        Some(wanted) => {
            sweep.dimensions.iter().position(|dimension| dimension.name == *wanted).ok_or_else(|| {
                let names: Vec<&str> =
                    sweep.dimensions.iter().map(|dimension| dimension.name.as_str()).collect();
                PlotError::new(format!("the sweep has no key `{wanted}`; it has {}", names.join(", ")))
            })
        }
    };
    let x = key(&selection.x, 0)?;
    let y = key(&selection.y, usize::from(x == 0))?;
    let all = All { sweep, contenders, conditions, classes, x, y };
    let mut chart = if name == "map" { all.map()? } else { all.lines() };
    let done = sweep.results.len();
    if done < sweep.points {
        chart.warning = Some(format!("Partial: {done} of {} points are done.", sweep.points));
    }
    Ok(chart)
}

/// Returns the reason why a figure is empty.
pub(super) fn nothing(sweep: &ShownSweep, name: &str, selection: &Selection) -> String {
    if sweep.results.is_empty() {
        return "no point of the sweep is done".to_owned();
    }
    match (name, selection.schedulers.is_empty()) {
        ("map", true) => "no contender is compared with a reference".to_owned(),
        ("map", false) => format!("{} has no reference to differ from", selection.schedulers.join(", ")),
        _ => "no flow was delivered at any point".to_owned(),
    }
}

/// Returns the names of the classes of traffic.
pub(super) fn traffic(sweep: &ShownSweep) -> Vec<String> {
    class_names(sweep.results.iter().flat_map(|point| &point.result.rows).map(|row| row.traffic.as_deref()))
}

struct All<'a> {
    sweep: &'a ShownSweep,
    contenders: Contenders,
    conditions: Vec<String>,
    classes: Vec<Class>,
    x: usize,
    y: usize,
}

/// The space before the first and after the last value of a key, as a share of its axis.
const MARGIN: f64 = 0.045;

/// A place, a mean, and the ends of its interval.
type Estimate = (f64, f64, Option<(f64, f64)>);

fn ends(interval: Option<Interval>) -> Option<(f64, f64)> {
    interval.map(|Interval(low, high)| (low, high))
}

/// Returns the values of a key in their order.
fn values(sweep: &ShownSweep, key: usize) -> Vec<Value> {
    let mut values: Vec<Value> = Vec::new();
    for point in &sweep.results {
        if !values.contains(&point.values[key]) {
            values.push(point.values[key].clone());
        }
    }
    if values.iter().all(Value::is_number) {
        values.sort_by(|a, b| a.as_f64().unwrap_or_default().total_cmp(&b.as_f64().unwrap_or_default()));
    }
    values
}

fn text(value: &Value) -> String {
    match value.as_f64() {
        Some(number) => {
            let text = format!("{number:.3e}").parse::<f64>().map_or(number, |rounded| rounded);
            format!("{text}")
        }
        None => value.as_str().unwrap_or_default().to_owned(),
    }
}

impl All<'_> {
    fn title(&self, condition: &str, class: &Class, more: &str) -> String {
        let condition = if self.conditions.len() > 1 { condition } else { "" };
        title([condition, class.name.as_deref().unwrap_or_default(), more])
    }

    /// Returns the pairs of a condition and a class. Each pair has panels.
    fn each(&self) -> impl Iterator<Item = (&str, &Class)> {
        let of = |condition| self.classes.iter().map(move |class| (condition, class));
        self.conditions.iter().map(String::as_str).flat_map(of)
    }

    fn rows<'a>(
        &'a self,
        condition: &'a str,
        class: &'a Class,
        scheduler: &'a str,
    ) -> impl Iterator<Item = (&'a [Value], &'a Record)> {
        let of_class = move |row: &Record| class.has(row.traffic.as_deref());
        self.sweep.results.iter().filter_map(move |point| {
            let own = |row: &&Record| row.condition == condition && row.scheduler == scheduler;
            Some((point.values.as_slice(), point.result.rows.iter().filter(|row| of_class(row)).find(own)?))
        })
    }

    /// Returns the axis of a key: names where its values are few or texts, else numbers.
    fn axis(&self, key: usize, named: bool) -> Axis {
        let dimension: &Dimension = &self.sweep.dimensions[key];
        let unit = dimension.unit.clone().map_or(Unit::None, Unit::Named);
        let values = values(self.sweep, key);
        if named || !values.iter().all(Value::is_number) {
            let names = Axis::names(values.iter().map(text).collect());
            return Axis { label: dimension.name.clone(), unit, ..names };
        }
        let numbers: Vec<f64> = values.iter().filter_map(Value::as_f64).collect();
        let axis = Axis::around(&dimension.name, unit, numbers.iter().copied());
        let (low, high) = (numbers[0], numbers[numbers.len() - 1]);
        if dimension.logarithmic && low > 0.0 && high > low {
            let margin = (high / low).powf(0.05);
            return Axis { scale: Scale::Logarithmic, range: (low / margin, high * margin), ..axis };
        }
        axis
    }

    /// Returns the place of a value on the axis of its key.
    fn place(&self, axis: &Axis, key: usize, value: &Value) -> f64 {
        match &axis.scale {
            Scale::Names(_) => {
                values(self.sweep, key).iter().position(|other| other == value).unwrap_or_default() as f64
            }
            _ => value.as_f64().unwrap_or(f64::NAN),
        }
    }

    fn map(&self) -> Result<Chart, PlotError> {
        if self.sweep.dimensions.len() < 2 || self.x == self.y {
            return Err(PlotError::new("a map needs two swept keys; the figure `lines` shows one"));
        }
        let grid = self.sweep.design == "grid";
        let (x, mut y) = (self.axis(self.x, grid), self.axis(self.y, grid));
        // Values grow upwards.
        if let Scale::Names(names) = &mut y.scale {
            names.reverse();
        }
        let rows = (values(self.sweep, self.y).len() as f64 - 1.0).max(0.0);
        let strongest = {
            let all = self.sweep.results.iter().flat_map(|point| &point.result.rows);
            let all = all.filter(|row| self.classes.iter().any(|class| class.has(row.traffic.as_deref())));
            let mut sizes: Vec<f64> =
                all.filter_map(|row| row.vs_reference_pct).map(|difference| difference.mean.abs()).collect();
            sizes.sort_by(f64::total_cmp);
            sizes.get(sizes.len().saturating_sub(1) * 95 / 100).copied().unwrap_or(1.0).max(1.0)
        };
        let mut panels = Vec::new();
        for (condition, class) in self.each() {
            for scheduler in &self.contenders.names {
                let rows_of = self.rows(condition, class, scheduler);
                let compared: Vec<_> = rows_of.filter(|(_, row)| row.reading.is_some()).collect();
                if compared.is_empty() {
                    continue;
                }
                let mut marks = Vec::new();
                for (at, row) in compared {
                    let across = self.place(&x, self.x, &at[self.x]);
                    let along = self.place(&y, self.y, &at[self.y]);
                    let (fill, text) = cell(row, strongest);
                    if grid {
                        let along = rows - along;
                        let edge = Some(Stroke::solid(DIM, 0.3));
                        let (x, y) = ((across - 0.5, across + 0.5), (along - 0.5, along + 0.5));
                        marks.push(Mark::Rect { x, y, fill, edge, text });
                    } else {
                        let certain = matches!(row.reading, Some(Reading::Better | Reading::Worse));
                        let colour = match row.reading {
                            Some(Reading::Better) => palette::BETTER,
                            Some(Reading::Worse) => palette::WORSE,
                            _ => DIM,
                        };
                        let points = vec![(across, along)];
                        let symbol = crate::chart::Symbol::Circle;
                        marks.push(Mark::Points {
                            points,
                            symbol,
                            colour,
                            size: 4.0,
                            hollow: !certain,
                            opacity: 1.0,
                        });
                    }
                }
                panels.push(Panel {
                    title: self.title(condition, class, scheduler),
                    x: x.clone(),
                    y: y.clone(),
                    marks,
                });
            }
        }
        let area = |text: &str, fill: String| Key { text: text.to_owned(), sample: Sample::Area(fill) };
        let dot = |text: &str, colour, hollow| Key {
            text: text.to_owned(),
            sample: Sample::Symbol(crate::chart::Symbol::Circle, colour, hollow),
        };
        let keys = if grid {
            vec![
                area("better, %", style::diverging(true, 0.8)),
                area("worse, %", style::diverging(false, 0.8)),
                area("undecided (?)", "#ffffff".to_owned()),
            ]
        } else {
            vec![
                dot("better", palette::BETTER, false),
                dot("worse", palette::WORSE, false),
                dot("equal or undecided", DIM, true),
            ]
        };
        Ok(Chart { panels, keys, warning: None })
    }

    /// Returns the measure of a class with its unit, and true if it is a time.
    fn measure(&self, class: &Class) -> (String, Unit, bool) {
        let rows = self.sweep.results.iter().flat_map(|point| &point.result.rows);
        let mut rows = rows.filter(|row| class.has(row.traffic.as_deref()));
        match rows.any(|row| row.fct_s.mean.is_some()) || !class.is_transfer() {
            true => (format!("{}, mean", class.time()), Unit::Seconds, true),
            false => ("Goodput, mean".to_owned(), Unit::BitsPerSecond, false),
        }
    }

    /// Returns the distance between the marks of neighbouring contenders at one value of the key on the axis `x`, as a
    /// share of the axis: together they stay near their value, and within the margins of the axis.
    fn spread(&self, x: &Axis) -> f64 {
        let mut places: Vec<f64> =
            values(self.sweep, self.x).iter().map(|value| self.place(x, self.x, value)).collect();
        places.sort_by(f64::total_cmp);
        let least = places.windows(2).map(|pair| x.distance(pair[0], pair[1])).fold(1.0, f64::min);
        let gaps = (self.contenders.names.len() as f64 - 1.0).max(1.0);
        (0.6 * least / gaps).min(1.6 * MARGIN / gaps).min(0.018)
    }

    fn lines(&self) -> Chart {
        let x = self.axis(self.x, false);
        // A panel for each value of the other key, if these are few.
        let others: Vec<Option<Value>> = match self.sweep.dimensions.get(self.y).filter(|_| self.x != self.y)
        {
            Some(_) => {
                let all = values(self.sweep, self.y);
                if all.len() <= 4 { all.into_iter().map(Some).collect() } else { vec![None] }
            }
            None => vec![None],
        };
        // All contenders have the same places in a grid; in other designs each point has its own place.
        let aside = if self.sweep.design == "grid" { self.spread(&x) } else { 0.0 };
        let middle = (self.contenders.names.len() as f64 - 1.0) / 2.0;
        let mut panels = Vec::new();
        for (condition, class) in self.each() {
            let (label, unit, has_times) = self.measure(class);
            let of = |row: &Record| match has_times {
                true => row.fct_s.mean.map(|mean| (mean, ends(row.fct_s.ci95))),
                false => row.goodput_bps.map(|mean| (mean, ends(row.goodput_ci95_bps))),
            };
            for other in &others {
                let mut marks = Vec::new();
                let mut seen = Vec::new();
                for (order, scheduler) in self.contenders.names.iter().enumerate() {
                    let Some(style) = self.contenders.style(scheduler) else { continue };
                    let beside = |place| x.moved(place, aside * (order as f64 - middle));
                    let own = self
                        .rows(condition, class, scheduler)
                        .filter(|(at, _)| other.as_ref().is_none_or(|other| at[self.y] == *other));
                    let mut points: Vec<Estimate> = own
                        .filter_map(|(at, row)| {
                            of(row).map(|(mean, ci)| (beside(self.place(&x, self.x, &at[self.x])), mean, ci))
                        })
                        .collect();
                    points.sort_by(|a, b| a.0.total_cmp(&b.0));
                    for (at, mean, ci) in &points {
                        seen.push(*mean);
                        if let Some((low, high)) = ci {
                            seen.push(*high);
                            let stroke = Stroke::solid(style.colour, 0.7);
                            marks.push(Mark::Interval { from: (*at, *low), to: (*at, *high), stroke });
                        }
                    }
                    let points: Vec<(f64, f64)> =
                        points.into_iter().map(|(at, mean, _)| (at, mean)).collect();
                    if self.sweep.design == "grid" && (other.is_some() || self.sweep.dimensions.len() == 1) {
                        marks.push(Mark::Line {
                            points: points.clone(),
                            stroke: style.stroke(1.0),
                            step: false,
                        });
                    }
                    let (symbol, colour) = (style.symbol, style.colour);
                    marks.push(Mark::Points {
                        points,
                        symbol,
                        colour,
                        size: 3.5,
                        hollow: false,
                        opacity: 1.0,
                    });
                }
                let title = other.as_ref().map_or(String::new(), |other| {
                    let dimension = &self.sweep.dimensions[self.y];
                    format!(
                        "{} = {} {}",
                        dimension.name,
                        text(other),
                        dimension.unit.as_deref().unwrap_or_default()
                    )
                });
                let title = self.title(condition, class, title.trim_end());
                if !seen.is_empty() {
                    panels.push(Panel {
                        title,
                        x: x.clone(),
                        y: Axis::up_to(&label, unit.clone(), seen),
                        marks,
                    });
                }
            }
        }
        let mut keys = self.contenders.keys();
        for key in &mut keys {
            if let Sample::Line(_, symbol) = &mut key.sample {
                *symbol = self.contenders.style(&key.text).map(|style| style.symbol);
            }
        }
        Chart { panels, keys, warning: None }
    }
}

/// Returns the colour and the text of a cell: by how much a contender differs from the reference.
fn cell(row: &Record, strongest: f64) -> (String, String) {
    let difference = row.vs_reference_pct.map_or(0.0, |difference| difference.mean);
    let written = format!("{difference:+.0}").replace('-', "\u{2212}");
    let strength = difference.abs() / strongest;
    match row.reading {
        Some(Reading::Better) => (style::diverging(true, strength), written),
        Some(Reading::Worse) => (style::diverging(false, strength), written),
        Some(Reading::Equal) => ("#e6e9ec".to_owned(), "=".to_owned()),
        Some(Reading::Incomplete) => ("#ffffff".to_owned(), "!".to_owned()),
        _ => ("#ffffff".to_owned(), "?".to_owned()),
    }
}

#[cfg(test)]
#[path = "sweep_tests.rs"]
mod tests;
