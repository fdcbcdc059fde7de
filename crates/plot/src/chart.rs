//! A figure before it is drawn: panels with axes and marks, in the units of the data.

/// A figure.
#[derive(Clone, Debug, Default)]
pub(crate) struct Chart {
    pub(crate) panels: Vec<Panel>,
    pub(crate) keys: Vec<Key>,
    /// A warning that a reader must not miss.
    pub(crate) warning: Option<String>,
}

/// A pair of axes with its marks, drawn in their order.
#[derive(Clone, Debug)]
pub(crate) struct Panel {
    pub(crate) title: String,
    pub(crate) x: Axis,
    pub(crate) y: Axis,
    pub(crate) marks: Vec<Mark>,
}

#[derive(Clone, Debug)]
pub(crate) struct Axis {
    pub(crate) label: String,
    pub(crate) unit: Unit,
    pub(crate) scale: Scale,
    pub(crate) range: (f64, f64),
    /// The places of the ticks of numbers; empty: round numbers.
    pub(crate) at: Vec<f64>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Scale {
    Linear,
    Logarithmic,
    /// A row or a column for each name; the first one is at 0, and at the top of a vertical axis.
    Names(Vec<String>),
}

/// The unit of the numbers of an axis, from which it chooses a multiple.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Unit {
    Seconds,
    Bytes,
    BitsPerSecond,
    Percent,
    Named(String),
    None,
}

impl Axis {
    pub(crate) fn new(label: &str, unit: Unit, range: (f64, f64)) -> Axis {
        Axis { label: label.to_owned(), unit, scale: Scale::Linear, range, at: Vec::new() }
    }

    pub(crate) fn names(names: Vec<String>) -> Axis {
        let range = (-0.5, names.len().max(1) as f64 - 0.5);
        Axis { label: String::new(), unit: Unit::None, scale: Scale::Names(names), range, at: Vec::new() }
    }

    /// Returns the axis with the limits of `values`, and a margin.
    pub(crate) fn around(label: &str, unit: Unit, values: impl IntoIterator<Item = f64>) -> Axis {
        let (low, high) = limits(values).unwrap_or((0.0, 1.0));
        let margin = if high > low { 0.05 * (high - low) } else { 0.05 * high.abs().max(1e-9) };
        Axis::new(label, unit, (low - margin, high + margin))
    }

    /// Returns the axis from zero to a little more than the largest of `values`.
    pub(crate) fn up_to(label: &str, unit: Unit, values: impl IntoIterator<Item = f64>) -> Axis {
        let high = limits(values).map_or(1.0, |(_, high)| if high > 0.0 { high } else { 1.0 });
        Axis::new(label, unit, (0.0, 1.05 * high))
    }

    /// Returns the value that is `by` of the length of the axis further than `value`.
    pub(crate) fn moved(&self, value: f64, by: f64) -> f64 {
        let (low, high) = self.range;
        match self.scale {
            Scale::Logarithmic => value * (high / low).powf(by),
            _ => value + by * (high - low),
        }
    }

    /// Returns the distance of two values as a share of the length of the axis.
    pub(crate) fn distance(&self, from: f64, to: f64) -> f64 {
        let (low, high) = self.range;
        match self.scale {
            Scale::Logarithmic => (to / from).ln() / (high / low).ln(),
            _ => (to - from) / (high - low),
        }
    }
}

/// Returns the minimum and the maximum of the finite values.
pub(crate) fn limits(values: impl IntoIterator<Item = f64>) -> Option<(f64, f64)> {
    values.into_iter().filter(|value| value.is_finite()).fold(None, |limits, value| {
        let (low, high) = limits.unwrap_or((value, value));
        Some((value.min(low), value.max(high)))
    })
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Stroke {
    pub(crate) colour: &'static str,
    pub(crate) width: f64,
    pub(crate) dash: &'static [f64],
}

impl Stroke {
    pub(crate) const fn solid(colour: &'static str, width: f64) -> Stroke {
        Stroke { colour, width, dash: &[] }
    }
}

/// The symbol of a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Symbol {
    /// A disc.
    Circle,
    /// A square on its side.
    Square,
    /// A triangle with a point at the top.
    Triangle,
    /// A square on a corner.
    Diamond,
    /// Two lines that cross.
    Cross,
}

#[derive(Clone, Debug)]
pub(crate) enum Mark {
    /// A line; a value that is not finite is a gap.
    Line { points: Vec<(f64, f64)>, stroke: Stroke, step: bool },
    /// Vertical lines at x from y to y. Where they are as dense as the figure is fine, the lines of `slot.0` out of
    /// `slot.1` series are drawn side by side, so that none hides another.
    Segments { bars: Vec<(f64, f64, f64)>, stroke: Stroke, slot: (usize, usize) },
    /// Symbols, hollow if `hollow` is true.
    Points {
        points: Vec<(f64, f64)>,
        symbol: Symbol,
        colour: &'static str,
        size: f64,
        hollow: bool,
        opacity: f64,
    },
    /// An interval between two points of the same x or y, with caps.
    Interval { from: (f64, f64), to: (f64, f64), stroke: Stroke },
    /// A rectangle, with a text in it.
    Rect { x: (f64, f64), y: (f64, f64), fill: String, edge: Option<Stroke>, text: String },
    /// A line across the whole panel.
    VerticalRule(f64),
    /// Marks with a text that is shown under the pointer.
    Titled { title: String, marks: Vec<Mark> },
}

/// An entry of the legend.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Key {
    pub(crate) text: String,
    pub(crate) sample: Sample,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Sample {
    Line(Stroke, Option<Symbol>),
    Symbol(Symbol, &'static str, bool),
    Area(String),
    /// An empty rectangle.
    Frame(Stroke),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_on_a_logarithmic_axis_are_factors() {
        let linear = Axis::new("", Unit::None, (10.0, 1000.0));
        let log = Axis { scale: Scale::Logarithmic, ..linear.clone() };
        let close =
            |value: f64, expected: f64| assert!((value - expected).abs() < 1e-9, "{value} {expected}");
        close(linear.moved(10.0, 0.5), 505.0);
        close(log.moved(10.0, 0.5), 100.0);
        close(linear.distance(10.0, 505.0), 0.5);
        close(log.distance(10.0, 100.0), 0.5);
        close(log.distance(100.0, 10.0), -0.5);
    }

    #[test]
    fn an_axis_has_a_margin_around_its_values() {
        assert_eq!(Axis::around("", Unit::None, [10.0, f64::NAN, 30.0]).range, (9.0, 31.0));
        assert_eq!(Axis::up_to("", Unit::None, [10.0, 20.0]).range, (0.0, 21.0));
        assert_eq!(Axis::names(vec!["a".to_owned(), "b".to_owned()]).range, (-0.5, 1.5));
    }
}
