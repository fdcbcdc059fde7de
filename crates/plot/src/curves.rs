//! Figures of curves over positions, from numbers in place of a result: the figures of papers and of the documentation.

use serde::{Deserialize, Serialize};

use crate::chart::{Axis, Chart, Key, Mark, Panel, Sample, Scale, Stroke, Symbol, Unit, limits};
use crate::palette::{DASHES, KNOWN};
use crate::style::{self, Style, TEXT};

/// A panel of curves with its axes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Curves {
    /// The heading; empty without one.
    pub panel: String,
    /// The label of the axis of the positions.
    pub x: String,
    /// The label of the axis of the values.
    pub y: String,
    /// The names of the positions, which are then 0, 1, 2 and so on.
    pub categories: Vec<String>,
    /// A logarithmic axis of the positions.
    pub log_x: bool,
    /// A logarithmic axis of the values.
    pub log_y: bool,
    /// The curves, in the order of the legend.
    pub curves: Vec<Curve>,
    /// The way in which the points are drawn.
    #[serde(default, skip_serializing_if = "Shape::is_means")]
    pub shape: Shape,
    /// The ends of the axis of the positions, if they are not the least and the greatest position.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub span: Option<(f64, f64)>,
}

/// The way in which the points of a figure are drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Shape {
    /// Lines or bars of means, or a cumulative distribution.
    #[default]
    Means,
    /// Steps: each value lasts until the next one.
    Steps,
    /// Dots without lines between them.
    Dots,
    /// Boxes, each of five points: the end of the lower whisker, the lower quartile, the median, the upper quartile
    /// and the end of the upper whisker.
    Boxes,
}

impl Shape {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
    fn is_means(&self) -> bool {
        *self == Shape::Means
    }
}

/// A curve with its values. Its colour, symbol and dashes are the ones of the contender with its name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Curve {
    /// Its name. After a text and a colon, as in `paper: lia`, it has the colour of the curve with the same name.
    pub name: String,
    /// True if it is dashed and hollow: its values are printed in a paper.
    pub printed: bool,
    /// Its points.
    pub dots: Vec<Dot>,
}

/// A point of a curve: its position, its value, and the 95 % interval of that.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Dot(pub f64, pub f64, pub Option<(f64, f64)>);

/// With more points than this, curves have no symbols.
const MOST_SYMBOLS: usize = 24;
/// The share of a category that its bars take.
const BARS: f64 = 0.8;

/// Returns the panels as a chart.
pub(crate) fn chart(panels: &[Curves]) -> Chart {
    let mut names: Vec<String> = Vec::new();
    for curve in panels.iter().flat_map(|panel| &panel.curves) {
        let name = contender(&curve.name);
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let styles = style::contenders(&names);
    let style = |curve: &Curve| {
        let name = contender(&curve.name);
        names.iter().position(|known| *known == name).map_or(styles[0], |at| styles[at])
    };
    let mut keys: Vec<Key> = Vec::new();
    for (panel, curve) in panels.iter().flat_map(|panel| panel.curves.iter().map(move |curve| (panel, curve)))
    {
        let none = if curve.dots.is_empty() { " (none)" } else { "" };
        let key = Key { text: format!("{}{none}", curve.name), sample: panel.sample(curve, style(curve)) };
        if !keys.iter().any(|known| known.text == key.text) {
            keys.push(key);
        }
    }
    if keys.len() < 2 {
        keys.clear();
    }
    let panels = panels.iter().map(|panel| Panel {
        title: panel.panel.clone(),
        x: panel.positions(),
        y: panel.values(),
        marks: panel.marks(&style),
    });
    Chart { panels: panels.collect(), keys, warning: None }
}

/// Returns the contender that a curve is drawn as.
fn contender(curve: &str) -> String {
    let name = curve.split_once(": ").map_or(curve, |(_, name)| name);
    let first = name.split([' ', '@']).next().unwrap_or(name);
    match first {
        // The default scheduler of papers is minRTT.
        "default" => "min_rtt".to_owned(),
        first if KNOWN.iter().any(|known| known.name == first) => first.to_owned(),
        _ => name.to_owned(),
    }
}

impl Curves {
    fn dots(&self) -> impl Iterator<Item = &Dot> {
        self.curves.iter().flat_map(|curve| &curve.dots)
    }

    /// True if points have symbols; with many points these would hide each other.
    fn has_symbols(&self) -> bool {
        self.shape == Shape::Means && self.curves.iter().all(|curve| curve.dots.len() <= MOST_SYMBOLS)
    }

    fn positions(&self) -> Axis {
        if !self.categories.is_empty() {
            return Axis { label: self.x.clone(), ..Axis::names(self.categories.clone()) };
        }
        let (low, high) = self.span.or_else(|| limits(self.dots().map(|dot| dot.0))).unwrap_or((0.0, 1.0));
        let margin = if self.span.is_none() && self.has_symbols() { 0.03 } else { 0.0 };
        let (scale, range) = match self.log_x && low > 0.0 {
            true => {
                let factor = (high / low).max(1.01).powf(margin);
                (Scale::Logarithmic, (low / factor, high.max(1.01 * low) * factor))
            }
            false => {
                let more = margin * (high - low).max(1e-9);
                (Scale::Linear, (low - more, high.max(low + 1e-9) + more))
            }
        };
        let mut at: Vec<f64> =
            if self.span.is_some() { Vec::new() } else { self.dots().map(|dot| dot.0).collect() };
        at.sort_unstable_by(f64::total_cmp);
        at.dedup();
        let at = if at.len() > 12 { Vec::new() } else { at };
        Axis { scale, at, ..Axis::new(&self.x, Unit::None, range) }
    }

    fn values(&self) -> Axis {
        // The interval of a mean of counts may reach below 0, where the axis has nothing to show.
        let is_positive = self.dots().all(|dot| dot.1 >= 0.0);
        let least = if is_positive { 0.0 } else { f64::NEG_INFINITY };
        let ends = self
            .dots()
            .flat_map(|dot| [Some(dot.1), dot.2.map(|span| span.0.max(least)), dot.2.map(|span| span.1)]);
        let ends = ends.flatten().filter(|value| !self.log_y || *value > 0.0);
        let (low, high) = limits(ends).unwrap_or((0.1, 1.0));
        if self.log_y {
            let range = (10f64.powf(low.log10().floor()), 10f64.powf(high.log10().ceil()));
            let range = (range.0, range.1.max(range.0 * 10.0));
            return Axis { scale: Scale::Logarithmic, ..Axis::new(&self.y, Unit::None, range) };
        }
        let (low, high) = (low.min(0.0), high.max(0.0));
        let margin = 0.05 * (high - low).max(1e-9);
        let range =
            (if low < 0.0 { low - margin } else { 0.0 }, if high > 0.0 { high + margin } else { 0.0 });
        Axis::new(&self.y, Unit::None, range)
    }

    /// Returns the stroke of a curve: dashes are for printed values, and tell curves without symbols apart.
    fn stroke(&self, curve: &Curve, style: Style) -> Stroke {
        let dash: &[f64] = match (curve.printed, self.has_symbols()) {
            (true, _) => DASHES[1],
            (false, true) => &[],
            (false, false) if self.shape == Shape::Means => style.dash,
            (false, false) => &[],
        };
        Stroke { colour: style.colour, width: if self.shape == Shape::Steps { 1.3 } else { 1.8 }, dash }
    }

    /// Returns the sample of a curve in the legend.
    fn sample(&self, curve: &Curve, style: Style) -> Sample {
        let stroke = self.stroke(curve, style);
        match (self.shape, self.categories.is_empty()) {
            (Shape::Dots, _) => Sample::Symbol(Symbol::Circle, style.colour, false),
            (Shape::Boxes, _) => Sample::Frame(stroke),
            (Shape::Means, false) if curve.printed => Sample::Frame(stroke),
            (Shape::Means, false) => Sample::Area(style.colour.to_owned()),
            _ => Sample::Line(stroke, Some(style.symbol).filter(|_| self.has_symbols() && !curve.printed)),
        }
    }

    fn marks(&self, style: &dyn Fn(&Curve) -> Style) -> Vec<Mark> {
        let mut marks = Vec::new();
        for (number, curve) in self.curves.iter().enumerate() {
            let style = style(curve);
            match (self.shape, self.categories.is_empty()) {
                (Shape::Boxes, _) => self.boxes(number, curve, style, &mut marks),
                (_, true) => self.line(curve, style, &mut marks),
                (_, false) => self.bars(number, curve, style, &mut marks),
            }
        }
        marks
    }

    fn line(&self, curve: &Curve, style: Style, marks: &mut Vec<Mark>) {
        let stroke = self.stroke(curve, style);
        let shown = || curve.dots.iter().filter(|dot| !self.log_y || dot.1 > 0.0);
        let points: Vec<(f64, f64)> = shown().map(|dot| (dot.0, dot.1)).collect();
        if self.shape == Shape::Dots {
            let size = if points.len() > 300 { 1.6 } else { 3.2 };
            let (symbol, colour) = (Symbol::Circle, style.colour);
            marks.push(Mark::Points { points, symbol, colour, size, hollow: false, opacity: 0.8 });
            return;
        }
        marks.push(Mark::Line { points, stroke: stroke.clone(), step: self.shape == Shape::Steps });
        if !self.has_symbols() {
            return;
        }
        for dot in shown() {
            let mut own = Vec::new();
            own.extend(self.interval(dot, dot.0, style.colour));
            own.push(Mark::Points {
                points: vec![(dot.0, dot.1)],
                symbol: style.symbol,
                colour: style.colour,
                size: 6.0,
                hollow: curve.printed,
                opacity: 1.0,
            });
            marks.push(Mark::Titled { title: title(curve, &dot.0.to_string(), dot), marks: own });
        }
    }

    fn interval(&self, dot: &Dot, x: f64, colour: &'static str) -> Option<Mark> {
        let (low, high) = dot.2?;
        let low = if self.log_y { low.max(self.values().range.0) } else { low };
        Some(Mark::Interval { from: (x, low), to: (x, high), stroke: Stroke::solid(colour, 1.0) })
    }

    /// Returns the ends of the bar of a curve in a category.
    fn slot(&self, number: usize, category: f64) -> (f64, f64) {
        let width = BARS / self.curves.len() as f64;
        let left = category - BARS / 2.0 + width * number as f64;
        (left, left + 0.95 * width)
    }

    fn category(&self, dot: &Dot) -> &str {
        self.categories.get(dot.0 as usize).map_or("", String::as_str)
    }

    fn bars(&self, number: usize, curve: &Curve, style: Style, marks: &mut Vec<Mark>) {
        let zero = if self.log_y { self.values().range.0 } else { 0.0 };
        let edge = Some(self.stroke(curve, style)).filter(|_| curve.printed);
        let fill = if curve.printed { "none" } else { style.colour };
        for dot in &curve.dots {
            let x = self.slot(number, dot.0);
            let y = (dot.1.min(zero), dot.1.max(zero));
            let (fill, edge, text) = (fill.to_owned(), edge.clone(), String::new());
            let mut own = vec![Mark::Rect { x, y, fill, edge, text }];
            own.extend(self.interval(dot, (x.0 + x.1) / 2.0, TEXT));
            marks.push(Mark::Titled { title: title(curve, self.category(dot), dot), marks: own });
        }
    }

    fn boxes(&self, number: usize, curve: &Curve, style: Style, marks: &mut Vec<Mark>) {
        let stroke = Stroke::solid(style.colour, 1.2);
        for five in curve.dots.chunks_exact(5) {
            let (left, right) = self.slot(number, five[0].0);
            let middle = (left + right) / 2.0;
            let [low, lower, median, upper, high] = [0, 1, 2, 3, 4].map(|at: usize| five[at].1);
            let line = |from, to, width| Mark::Line {
                points: vec![from, to],
                stroke: Stroke { width, ..stroke.clone() },
                step: false,
            };
            let own = vec![
                line((middle, low), (middle, lower), 1.2),
                line((middle, upper), (middle, high), 1.2),
                Mark::Rect {
                    x: (left, right),
                    y: (lower, upper),
                    fill: "#ffffff".to_owned(),
                    edge: Some(stroke.clone()),
                    text: String::new(),
                },
                line((left, median), (right, median), 2.4),
            ];
            let title = format!(
                "{}, {}: median {median}, quartiles {lower} and {upper}, whiskers {low} and {high}",
                curve.name,
                self.category(&five[0])
            );
            marks.push(Mark::Titled { title, marks: own });
        }
    }
}

/// Returns the words under the pointer over a point.
fn title(curve: &Curve, position: &str, dot: &Dot) -> String {
    let interval = dot.2.map_or(String::new(), |(low, high)| format!(" [{low}, {high}]"));
    format!("{}, {position}: {}{interval}", curve.name, dot.1)
}

#[cfg(test)]
#[path = "curves_tests.rs"]
mod tests;
