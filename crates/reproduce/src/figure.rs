//! Figures of papers, to be drawn from measurements: which runs are at which position of which curve.

use std::collections::BTreeMap;

use anabranch_lab::stats::{self, Interval, Part};
use anabranch_plot as plot;
use anabranch_plot::{Curves, Dot, Shape};
use serde::{Deserialize, Serialize};

use crate::choice::Choice;
use crate::metric::{Metric, Quantity};
use crate::take::{Form, Samples, Take, rounded};

/// A file of figures.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Figures {
    /// The figures, in the order of the paper.
    #[serde(default, rename = "figure")]
    pub figures: Vec<Figure>,
}

/// A figure, or one panel of it. Its positions are conditions, contenders, paths or spans of time.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Figure {
    /// The claim about it.
    pub claim: String,
    /// The heading of a panel.
    #[serde(default)]
    pub panel: String,
    /// The runs; their conditions are the positions unless one of the next three is given.
    #[serde(flatten)]
    pub choice: Choice,
    /// Contenders as positions.
    #[serde(default)]
    pub contenders: Vec<String>,
    /// This number of paths as positions.
    #[serde(default)]
    pub paths: usize,
    /// Spans of time as positions.
    #[serde(default)]
    pub time: Option<Spans>,
    /// True if the runs are drawn as a cumulative distribution of the measure.
    #[serde(default)]
    pub distribution: bool,
    /// The seconds of the first run that are drawn, if the figure shows its course.
    #[serde(default)]
    pub course: Option<Course>,
    /// The form of a distribution over packets or seconds, within the runs.
    #[serde(default)]
    pub samples: Option<Plot>,
    /// The places of the positions on the axis; without them they are categories.
    #[serde(default)]
    pub at: Vec<f64>,
    /// The names of categories, if not the names of the conditions or contenders.
    #[serde(default)]
    pub names: Vec<String>,
    /// The label of the axis of the positions.
    pub x: String,
    /// The label of the axis of the values.
    pub y: String,
    /// The measure of curves without their own.
    #[serde(default)]
    pub metric: Option<Metric>,
    /// The curves, in the order of the legend.
    pub curves: Vec<Curve>,
    /// Values that the paper prints.
    #[serde(default)]
    pub printed: Vec<Printed>,
    /// A logarithmic axis of the positions.
    #[serde(default)]
    pub log_x: bool,
    /// A logarithmic axis of the values.
    #[serde(default)]
    pub log_y: bool,
}

/// Consecutive spans of time, in seconds.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Spans {
    /// The begin of the first.
    pub from: f64,
    /// The end of the last.
    pub upto: f64,
    /// The length of each.
    pub step: f64,
}

/// A part of a run, in seconds since the start of the flow.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Course {
    /// Its begin.
    #[serde(default)]
    pub from: f64,
    /// Its end.
    pub upto: f64,
}

/// The form of a distribution.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Plot {
    /// The cumulative distribution of each curve.
    Cdf,
    /// A box for each curve at each position.
    Box,
}

/// A curve: a contender, or what differs from the figure.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(from = "NameOrCurve")]
pub struct Curve {
    /// The contender; none if contenders are the positions.
    pub of: Option<String>,
    /// Its name, if not the contender's.
    pub name: Option<String>,
    /// The measure, if not the figure's.
    pub metric: Option<Metric>,
    /// The conditions, if not the figure's.
    pub conditions: Vec<String>,
    /// Values that it sets in addition.
    pub set: Vec<String>,
}

/// A name, or a table.
#[derive(Deserialize)]
#[serde(untagged)]
enum NameOrCurve {
    Name(String),
    Curve(Table),
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Table {
    of: Option<String>,
    name: Option<String>,
    metric: Option<Metric>,
    #[serde(default, rename = "in")]
    conditions: Vec<String>,
    #[serde(default)]
    set: Vec<String>,
}

impl From<NameOrCurve> for Curve {
    fn from(either: NameOrCurve) -> Curve {
        match either {
            NameOrCurve::Name(name) => Curve { of: Some(name), ..Curve::default() },
            NameOrCurve::Curve(Table { of, name, metric, conditions, set }) => {
                Curve { of, name, metric, conditions, set }
            }
        }
    }
}

/// Values of the paper at the positions; NaN where it has none.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Printed {
    /// The name of the curve.
    pub name: String,
    /// A value for each position; NaN where the paper prints none.
    pub values: Vec<f64>,
}

/// The runs at one position of a curve.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) condition: String,
    pub(crate) contender: String,
    pub(crate) metric: Metric,
    pub(crate) set: Vec<String>,
    /// The values taken from within the runs instead of the measure.
    pub(crate) take: Option<Take>,
}

impl Figure {
    /// Returns the fault of the figure, if it has one.
    pub(crate) fn fault(&self) -> Option<String> {
        if !self.choice.has_one_source() {
            return Some("a figure has one of `scenario`, `plan` and `window`".to_owned());
        }
        if self.curves.is_empty() {
            return Some("a figure has `curves`".to_owned());
        }
        if let Some(fault) = self.fault_within() {
            return Some(fault);
        }
        let positions = self.positions();
        for curve in &self.curves {
            if curve.metric.or(self.metric).is_none() {
                return Some("a curve needs a `metric`, its own or the figure's".to_owned());
            }
            if curve.of.is_none() == self.contenders.is_empty() {
                return Some(
                    "a curve needs a contender, unless contenders are the positions of the figure".to_owned(),
                );
            }
            let by_condition = self.contenders.is_empty() && self.paths == 0 && self.time.is_none();
            let own = curve.conditions.len();
            if own > 0 && by_condition && !self.has_own_axis() && own != positions {
                return Some(format!("a curve has {own} conditions and the figure {positions} positions"));
            }
        }
        for (what, count) in [("at", self.at.len()), ("names", self.names.len())] {
            if count > 0 && count != positions {
                return Some(format!("`{what}` has {count} values and the figure {positions} positions"));
            }
        }
        let printed = self.printed.iter().find(|printed| printed.values.len() != positions)?;
        Some(format!(
            "`{}` has {} values and the figure {positions} positions",
            printed.name,
            printed.values.len()
        ))
    }

    /// Returns the fault of the values that the figure takes from within runs, or of its measures if it takes none.
    fn fault_within(&self) -> Option<String> {
        let metrics = || self.curves.iter().filter_map(|curve| curve.metric.or(self.metric));
        let name = match (self.course, self.samples) {
            (None, None) => return metrics().find_map(Metric::fault),
            (Some(_), Some(_)) => return Some("a figure has one of `course` and `samples`".to_owned()),
            (Some(_), None) => "course",
            (None, Some(_)) => "samples",
        };
        if self.choice.scenario.is_none() {
            return Some(format!("`{name}` needs a `scenario`"));
        }
        let is_box = self.samples == Some(Plot::Box);
        let others = [
            ("paths", self.paths > 0),
            ("time", self.time.is_some()),
            ("distribution", self.distribution),
            ("contenders", !is_box && !self.contenders.is_empty()),
            ("at", !self.at.is_empty()),
            ("names", !is_box && !self.names.is_empty()),
            ("printed", !self.printed.is_empty()),
            ("runs", self.course.is_some() && self.choice.runs.is_some()),
            ("log-x", (is_box || self.course.is_some()) && self.log_x),
        ];
        if let Some((other, _)) = others.iter().find(|(_, has)| *has) {
            return Some(format!("a figure with `{name}` has no `{other}`"));
        }
        let conditions = |curve: &Curve| curve.conditions.len().max(self.choice.conditions.len());
        if !is_box && self.curves.iter().any(|curve| conditions(curve) > 1) {
            return Some(format!("a curve of a figure with `{name}` is of one condition"));
        }
        metrics().find_map(|metric| self.take(metric)?.fault())
    }

    /// Returns what the figure takes from within the runs of a curve with this measure.
    fn take(&self, metric: Metric) -> Option<Take> {
        let form = match (self.course, self.samples) {
            (Some(Course { from, upto }), _) => Form::Course { from, upto },
            (None, Some(_)) => Form::Samples,
            (None, None) => return None,
        };
        Some(Take { metric, form })
    }

    /// True if the axis of the positions is one of times or values.
    fn has_own_axis(&self) -> bool {
        self.distribution || self.course.is_some() || self.samples == Some(Plot::Cdf)
    }

    /// Returns the number of runs instead of the scenario's.
    pub(crate) fn runs(&self) -> Option<u32> {
        self.course.map_or(self.choice.runs, |_| Some(1))
    }

    fn positions(&self) -> usize {
        match (&self.time, self.contenders.len(), self.paths) {
            (Some(spans), _, _) => spans.all().count(),
            (None, 0, 0) => {
                let own = self.curves.first().map_or(0, |curve| curve.conditions.len());
                self.choice.conditions.len().max(own).max(1)
            }
            (None, 0, paths) => paths,
            (None, contenders, _) => contenders,
        }
    }

    /// Returns the runs at each position of a curve; a distribution has one position.
    pub(crate) fn places(&self, curve: &Curve) -> Vec<Place> {
        let Some(metric) = curve.metric.or(self.metric) else { return Vec::new() };
        let own = if curve.conditions.is_empty() { &self.choice.conditions } else { &curve.conditions };
        let first = own.first().cloned().unwrap_or_default();
        let place = |condition: &str, contender: Option<&String>, metric| Place {
            condition: condition.to_owned(),
            contender: contender.or(curve.of.as_ref()).cloned().unwrap_or_default(),
            metric,
            set: [self.choice.set.clone(), curve.set.clone()].concat(),
            take: self.take(metric),
        };
        if let Some(spans) = &self.time {
            let spans = spans.all().map(|span| Metric { span: Some(span), ..metric });
            spans.map(|metric| place(&first, None, metric)).collect()
        } else if !self.contenders.is_empty() {
            self.contenders.iter().map(|name| place(&first, Some(name), metric)).collect()
        } else if self.paths > 0 {
            let paths = (0..self.paths).map(|path| Metric { path: Some(path), ..metric });
            paths.map(|metric| place(&first, None, metric)).collect()
        } else if own.is_empty() {
            vec![place("", None, metric)]
        } else {
            own.iter().map(|condition| place(condition, None, metric)).collect()
        }
    }

    /// Returns the figure with values: `values` are the runs of each place of each curve, or what was taken from within
    /// them.
    pub(crate) fn drawn(&self, values: &[Vec<&[f64]>]) -> Drawn {
        let count = self.positions();
        let categories = match (&self.names, &self.contenders) {
            _ if !self.at.is_empty() || self.has_own_axis() || self.time.is_some() => Vec::new(),
            (names, _) if !names.is_empty() => names.clone(),
            (_, contenders) if !contenders.is_empty() => contenders.clone(),
            _ if self.paths > 0 => (1..=self.paths).map(|path| path.to_string()).collect(),
            _ => self.choice.conditions.clone(),
        };
        let x: Vec<f64> = match &self.time {
            Some(spans) => spans.all().map(|(from, to)| (from + to) / 2.0).collect(),
            None if self.at.is_empty() => (0..count).map(|position| position as f64).collect(),
            None => self.at.clone(),
        };
        let points = |places: &Vec<&[f64]>| -> Vec<Dot> {
            if self.distribution {
                return distribution(places);
            }
            if self.course.is_some() || self.samples.is_some() {
                return self.within(places);
            }
            x.iter().zip(places).filter_map(|(x, runs)| mean(*x, runs)).collect()
        };
        let mut curves: Vec<plot::Curve> = self
            .curves
            .iter()
            .zip(values)
            .map(|(curve, places)| plot::Curve {
                name: curve.name.clone().or(curve.of.clone()).unwrap_or_default(),
                printed: false,
                dots: points(places),
            })
            .collect();
        if self.course.is_some() {
            self.count_from_first(&mut curves);
        }
        curves.extend(self.printed.iter().map(|printed| {
            plot::Curve {
                name: printed.name.clone(),
                printed: true,
                dots: x
                    .iter()
                    .zip(&printed.values)
                    .filter(|(_, y)| y.is_finite())
                    .map(|(x, y)| Dot(*x, *y, None))
                    .collect(),
            }
        }));
        Drawn {
            claim: self.claim.clone(),
            figure: Curves {
                panel: self.panel.clone(),
                x: self.x.clone(),
                y: self.y.clone(),
                categories,
                log_x: self.log_x,
                log_y: self.log_y,
                curves,
                shape: self.shape(),
                span: self.course.map(|course| (course.from, course.upto)),
            },
            note: String::new(),
        }
    }

    /// Counts places in a stream from the first one that is drawn, and rounds all values.
    fn count_from_first(&self, curves: &mut [plot::Curve]) {
        let metrics = || self.curves.iter().filter_map(|curve| curve.metric.or(self.metric));
        let first = match metrics().all(|metric| metric.quantity.is_place()) {
            true => {
                curves.iter().flat_map(|curve| &curve.dots).map(|dot| dot.1).fold(f64::INFINITY, f64::min)
            }
            false => 0.0,
        };
        for dot in curves.iter_mut().flat_map(|curve| &mut curve.dots) {
            dot.1 = rounded(dot.1 - first, 5);
        }
    }

    /// Returns the points of a curve from the values that were taken from within its runs.
    fn within(&self, places: &[&[f64]]) -> Vec<Dot> {
        let whole = || places.iter().copied().flatten().copied().collect::<Vec<f64>>();
        match self.samples {
            None => whole().chunks_exact(2).map(|pair| Dot(pair[0], pair[1], None)).collect(),
            Some(Plot::Cdf) => {
                let steps = Samples::of(&whole()).cumulative();
                let mut dots: Vec<Dot> = Vec::new();
                for (value, part) in steps {
                    // A step of less than a five-hundredth is not seen.
                    match dots.last() {
                        Some(last) if part < 1.0 && part - last.1 < 0.002 => {}
                        _ => dots.push(Dot(value, rounded(part, 4), None)),
                    }
                }
                dots
            }
            Some(Plot::Box) => {
                let five = |(at, flat): (usize, &&[f64])| {
                    let five = Samples::of(flat).five();
                    five.into_iter().flatten().map(move |value| Dot(at as f64, value, None))
                };
                places.iter().enumerate().flat_map(five).collect()
            }
        }
    }

    fn shape(&self) -> Shape {
        let metrics = || self.curves.iter().filter_map(|curve| curve.metric.or(self.metric));
        let is_dots = |metric: Metric| {
            matches!(metric.quantity, Quantity::Sequence | Quantity::Data | Quantity::Timeouts)
        };
        match (self.course, self.samples) {
            (Some(_), _) if metrics().any(is_dots) => Shape::Dots,
            (Some(_), _) => Shape::Steps,
            (None, Some(Plot::Box)) => Shape::Boxes,
            (None, _) => Shape::Means,
        }
    }
}

impl Spans {
    fn all(self) -> impl Iterator<Item = (f64, f64)> {
        let count = ((self.upto - self.from) / self.step).floor().max(0.0) as usize;
        (0..count).map(move |number| {
            let from = self.from + self.step * number as f64;
            (from, from + self.step)
        })
    }
}

/// Returns the mean over `runs`; none if it is no number.
fn mean(x: f64, runs: &[f64]) -> Option<Dot> {
    let mean = stats::mean(runs).filter(|mean| mean.is_finite())?;
    let parts: Vec<Part> = runs.iter().map(|value| Part::one(*value)).collect();
    let interval = stats::bootstrap(&parts, 1).map(|Interval(low, high)| (rounded(low, 4), rounded(high, 4)));
    Some(Dot(x, rounded(mean, 4), interval))
}

/// Returns the fraction of the runs that are at most as large, for each run.
fn distribution(places: &[&[f64]]) -> Vec<Dot> {
    let mut values: Vec<f64> = places.concat().into_iter().filter(|value| value.is_finite()).collect();
    values.sort_unstable_by(f64::total_cmp);
    let count = values.len() as f64;
    let rank = |(at, value): (usize, f64)| Dot(rounded(value, 4), rounded((at + 1) as f64 / count, 4), None);
    values.into_iter().enumerate().map(rank).collect()
}

/// A figure with its values.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Drawn {
    /// The claim about it.
    pub claim: String,
    /// Its curves.
    #[serde(flatten)]
    pub figure: Curves,
    /// The runs from which the values are taken, if they are not means.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub note: String,
}

/// Returns the figures by claim, in the order of the file.
pub(crate) fn by_claim(figures: &[Drawn]) -> BTreeMap<&str, Vec<&Drawn>> {
    let mut all: BTreeMap<&str, Vec<&Drawn>> = BTreeMap::new();
    for figure in figures {
        all.entry(&figure.claim).or_default().push(figure);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(text: &str) -> Figure {
        toml::from_str(&format!("claim = 'D1'\nx = 'x'\ny = 'y'\n{text}")).unwrap()
    }

    #[test]
    fn positions_are_conditions_contenders_paths_or_spans() {
        let names = |figure: &Figure| -> Vec<String> {
            let places = figure.places(&figure.curves[0]).into_iter();
            places.map(|place| format!("{} {} {}", place.condition, place.contender, place.metric)).collect()
        };
        let by_condition = figure("scenario = 's'\nmetric = 'done'\nin = ['a', 'b']\ncurves = ['tcp']");
        assert_eq!(names(&by_condition), ["a tcp done", "b tcp done"]);
        let by_contender =
            figure("scenario = 's'\nin = ['a']\ncontenders = ['tcp', 'ecf']\ncurves = [{ metric = 'done' }]");
        assert_eq!(names(&by_contender), ["a tcp done", "a ecf done"]);
        let by_path = figure("scenario = 's'\nmetric = 'segments'\npaths = 2\ncurves = ['tcp']");
        assert_eq!(names(&by_path), [" tcp segments.1", " tcp segments.2"]);
        let by_time = figure(
            "scenario = 's'\nmetric = 'gap'\ntime = { from = 0, upto = 4, step = 2 }\ncurves = ['tcp']",
        );
        assert_eq!(names(&by_time), [" tcp gap@0..2", " tcp gap@2..4"]);
        for figure in [by_condition, by_contender, by_path, by_time] {
            assert_eq!(figure.fault(), None);
        }
    }

    #[test]
    fn a_figure_that_does_not_fit_together_is_refused() {
        let fault = |text: &str| figure(text).fault().unwrap_or_default();
        assert!(fault("metric = 'done'\ncurves = ['tcp']").contains("one of `scenario`"));
        assert!(fault("scenario = 's'\ncurves = ['tcp']").contains("needs a `metric`"));
        let two = "scenario = 's'\nmetric = 'done'\nin = ['a', 'b']\ncurves = ['tcp']\n";
        assert!(fault(&format!("{two}at = [1]")).contains("`at` has 1 values and the figure 2"));
        assert!(fault(&format!("{two}printed = [{{ name = 'p', values = [1] }}]")).contains("`p` has 1"));
        assert!(fault("scenario = 's'\nmetric = 'done'\ncurves = [{}]").contains("needs a contender"));
    }

    #[test]
    fn a_point_is_a_mean_and_a_distribution_has_one_for_each_run() {
        let mean = figure("scenario = 's'\nmetric = 'done'\nin = ['a']\ncurves = ['tcp']");
        let drawn = mean.drawn(&[vec![&[1.0, 2.0, 3.0]]]);
        assert_eq!(
            (drawn.figure.curves[0].dots[0].1, drawn.figure.categories.as_slice()),
            (2.0, &["a".to_owned()][..])
        );
        let all = figure("plan = 's'\nmetric = 'benefit'\ndistribution = true\ncurves = ['tcp']");
        let drawn = all.drawn(&[vec![&[0.5, -0.25]]]);
        assert_eq!(drawn.figure.curves[0].dots, [Dot(-0.25, 0.5, None), Dot(0.5, 1.0, None)]);
    }

    #[test]
    fn places_in_a_stream_count_from_the_first_that_is_drawn() {
        let data = figure(
            "scenario = 's'\ncourse = { from = 1, upto = 2 }\ncurves = [{ of = 'a', metric = 'data' }, { of = 'a', metric = 'data-acked' }]",
        );
        let drawn = data.drawn(&[vec![&[1.0, 500.0, 1.5, 700.0]], vec![&[1.2, 450.0]]]);
        assert_eq!(drawn.figure.curves[0].dots, [Dot(1.0, 50.0, None), Dot(1.5, 250.0, None)]);
        assert_eq!(drawn.figure.curves[1].dots, [Dot(1.2, 0.0, None)]);
        // Windows have a zero of their own.
        let window = figure("scenario = 's'\ncourse = { upto = 2 }\nmetric = 'window.1'\ncurves = ['a']")
            .drawn(&[vec![&[1.0, 500.0]]]);
        assert_eq!(window.figure.curves[0].dots, [Dot(1.0, 500.0, None)]);
    }

    #[test]
    fn positions_are_at_their_values_or_in_the_middle_of_their_spans() {
        let x = |text: &str, values: &[Vec<&[f64]>]| {
            figure(text)
                .drawn(values)
                .figure
                .curves
                .iter()
                .map(|curve| curve.dots.iter().map(|dot| dot.0).collect())
                .collect::<Vec<Vec<f64>>>()
        };
        let two: &[Vec<&[f64]>] = &[vec![&[1.0], &[2.0]]];
        let head = "scenario = 's'\nmetric = 'done'\nin = ['a', 'b']\ncurves = ['tcp']\n";
        assert_eq!(x(head, two), [[0.0, 1.0]]);
        // The paper's own values are at the same positions; it prints none at the first.
        let printed = "at = [10, 40]\nprinted = [{ name = 'paper', values = [nan, 3] }]";
        assert_eq!(x(&format!("{head}{printed}"), two), [vec![10.0, 40.0], vec![40.0]]);
        let time =
            "scenario = 's'\nmetric = 'gap'\ntime = { from = 1, upto = 5, step = 2 }\ncurves = ['tcp']";
        assert_eq!(x(time, two), [[2.0, 4.0]]);
        // A run without a value has no point.
        assert_eq!(x(head, &[vec![&[f64::NAN], &[2.0]]]), [[1.0]]);
    }
}
