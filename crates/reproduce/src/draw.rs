//! Figures as SVG. Lines over numbers, groups of bars over categories; values that the paper prints are hollow.

use core::fmt::Write;

use crate::draw_course;
use crate::figure::{Dot, Drawn, DrawnCurve, Shape};

pub(crate) const WIDTH: f64 = 440.0;
const HEIGHT: f64 = 270.0;
pub(crate) const LEFT: f64 = 56.0;
pub(crate) const RIGHT: f64 = 14.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 52.0;
/// The height of a glyph, for labels that must not overlap.
const LETTER: f64 = 6.2;
/// Of categories with longer names than this the labels are slanted.
const FLAT: f64 = 1.05;

/// An axis.
pub(crate) struct Axis {
    pub(crate) low: f64,
    high: f64,
    pub(crate) log: bool,
    from: f64,
    to: f64,
}

impl Axis {
    /// Returns an axis that shows `values` between the places `from` and `to`; of a linear axis of values it
    /// begins at 0 at most.
    fn of(values: impl Iterator<Item = f64> + Clone, log: bool, zero: bool, from: f64, to: f64) -> Axis {
        let values = values.filter(|value| value.is_finite() && (!log || *value > 0.0));
        let mut low = values.clone().fold(f64::INFINITY, f64::min);
        let mut high = values.fold(f64::NEG_INFINITY, f64::max);
        if low > high {
            (low, high) = (if log { 1.0 } else { 0.0 }, 1.0);
        }
        if log {
            if zero {
                (low, high) = (10f64.powf(low.log10().floor()), 10f64.powf(high.log10().ceil()));
            }
            high = high.max(low * 1.01);
        } else {
            if zero {
                let below = low.min(0.0);
                let step = step(high.max(0.0) - below);
                (low, high) = ((below / step).floor() * step, (high.max(0.0) / step).ceil() * step);
            }
            if high <= low {
                high = low + 1.0;
            }
        }
        Axis { low, high, log, from, to }
    }

    pub(crate) fn place(&self, value: f64) -> f64 {
        let part = match self.log {
            true => (value.max(self.low) / self.low).ln() / (self.high / self.low).ln(),
            false => (value - self.low) / (self.high - self.low),
        };
        self.from + (self.to - self.from) * part
    }

    fn ticks(&self) -> Vec<f64> {
        if self.log {
            let decades = self.low.log10().floor() as i32..=self.high.log10().ceil() as i32;
            let many = self.high / self.low > 200.0;
            let parts: &[f64] = if many { &[1.0] } else { &[1.0, 2.0, 5.0] };
            let all = decades.flat_map(|decade| parts.iter().map(move |part| part * 10f64.powi(decade)));
            return all.filter(|tick| *tick >= self.low * 0.999 && *tick <= self.high * 1.001).collect();
        }
        let step = step(self.high - self.low);
        let (first, last) = ((self.low / step).ceil() as i64, (self.high / step + 1e-9).floor() as i64);
        (first..=last).map(|tick| tick as f64 * step).collect()
    }
}

/// Returns a round step of which there are at most six in `range`.
fn step(range: f64) -> f64 {
    if range <= 0.0 || !range.is_finite() {
        return 1.0;
    }
    let decade = 10f64.powf((range / 5.0).log10().floor());
    let fits = |factor: &&f64| range / (decade * **factor) <= 6.0;
    decade * [1.0, 2.0, 5.0, 10.0].iter().find(fits).unwrap_or(&10.0)
}

/// Returns a number for a label.
fn label(value: f64) -> String {
    let text = match value.abs() {
        v if v >= 1e6 => return format!("{}M", label(value / 1e6)),
        v if v >= 1e4 => return format!("{}k", label(value / 1e3)),
        v if v >= 10.0 => format!("{value:.1}"),
        v if v >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    };
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text.is_empty() || text == "-0" { "0".to_owned() } else { text.to_owned() }
}

/// Returns the colour of each curve, as in all figures of contenders. A printed curve has the colour of the curve of the same
/// name without `paper: `.
pub(crate) fn colors(curves: &[DrawnCurve]) -> Vec<&'static str> {
    // The papers' default scheduler is minRTT, and their TCP runs on one path.
    let known = |name: &str| match name.strip_prefix("paper: ").unwrap_or(name) {
        "default" => "min_rtt".to_owned(),
        "tcp@1" => "tcp".to_owned(),
        name => name.to_owned(),
    };
    let names: Vec<String> = curves.iter().map(|curve| known(&curve.name)).collect();
    let mut own: Vec<String> = Vec::new();
    for name in &names {
        if !own.contains(name) {
            own.push(name.clone());
        }
    }
    let all = anabranch_plot::colours(&own);
    let color =
        |name: &String| own.iter().position(|known| known == name).map_or("currentColor", |at| all[at]);
    // Black is the colour of the text, which is white on a dark page.
    names.iter().map(color).map(|color| if color == "#000000" { "currentColor" } else { color }).collect()
}

/// Returns the drawing with its legend, as HTML.
pub(crate) fn figure(figure: &Drawn) -> String {
    let mut svg = String::from("<figure>");
    let parts = [&figure.panel, &figure.note].into_iter().filter(|part| !part.is_empty());
    let caption = parts.map(|part| escape(part)).collect::<Vec<_>>().join("; ");
    if !caption.is_empty() {
        let _ = write!(svg, "<figcaption>{caption}</figcaption>");
    }
    let _ = write!(
        svg,
        "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{} over {}\">",
        escape(&figure.y),
        escape(&figure.x)
    );
    let dots = || figure.curves.iter().flat_map(|curve| &curve.dots);
    // The interval of a mean of counts may reach below 0, where the axis has nothing to show.
    let is_positive = dots().all(|dot| dot.1 >= 0.0);
    let least = if is_positive { 0.0 } else { f64::NEG_INFINITY };
    let ends = |dot: &Dot| [Some(dot.1), dot.2.map(|span| span.0.max(least)), dot.2.map(|span| span.1)];
    let y = Axis::of(dots().flat_map(ends).flatten(), figure.log_y, true, HEIGHT - BOTTOM, TOP);
    for tick in y.ticks() {
        let place = y.place(tick);
        let _ = write!(
            svg,
            "<path class=\"grid\" d=\"M{LEFT},{place:.1}H{:.1}\"/><text x=\"{}\" y=\"{:.1}\" \
             text-anchor=\"end\">{}</text>",
            WIDTH - RIGHT,
            LEFT - 6.0,
            place + 4.0,
            label(tick)
        );
    }
    let kind = (figure.shape, figure.categories.is_empty());
    match kind {
        (_, true) => lines(&mut svg, figure, &y),
        (Shape::Boxes, false) => {
            categories(&mut svg, figure);
            draw_course::boxes(&mut svg, figure, &y);
        }
        (_, false) => {
            categories(&mut svg, figure);
            bars(&mut svg, figure, &y);
        }
    }
    let _ = write!(
        svg,
        "<path class=\"axis\" d=\"M{LEFT},{TOP}V{0:.1}H{1:.1}\"/>\
         <text class=\"label\" x=\"{2:.1}\" y=\"{3}\" text-anchor=\"middle\">{4}</text>\
         <text class=\"label\" transform=\"translate(13,{5:.1}) rotate(-90)\" text-anchor=\"middle\">{6}</text>\
         </svg>",
        HEIGHT - BOTTOM,
        WIDTH - RIGHT,
        (LEFT + WIDTH - RIGHT) / 2.0,
        HEIGHT - 6.0,
        escape(&figure.x),
        (TOP + HEIGHT - BOTTOM) / 2.0,
        escape(&figure.y)
    );
    if figure.curves.len() > 1 {
        svg += "<div class=\"legend\">";
        for (curve, color) in figure.curves.iter().zip(colors(&figure.curves)) {
            let style = match curve.printed {
                true => format!("border:2px dashed {color}"),
                false => format!("background:{color}"),
            };
            let none = if curve.dots.is_empty() { " (none)" } else { "" };
            let _ = write!(svg, "<span><i style=\"{style}\"></i>{}{none}</span>", escape(&curve.name));
        }
        svg += "</div>";
    }
    svg + "</figure>\n"
}

/// The text of a pointer over a point.
pub(crate) fn title(curve: &DrawnCurve, position: &str, dot: &Dot) -> String {
    let interval = dot.2.map_or(String::new(), |(low, high)| format!(" [{low}, {high}]"));
    format!("<title>{}, {}: {}{interval}</title>", escape(&curve.name), escape(position), dot.1)
}

fn whisker(svg: &mut String, x: f64, y: &Axis, dot: &Dot, color: &str) {
    if let Some((low, high)) = dot.2 {
        let _ = write!(
            svg,
            "<path d=\"M{x:.1},{:.1}V{:.1}\" stroke=\"{color}\" stroke-width=\"1.2\" opacity=\".6\"/>",
            y.place(low.max(y.low)),
            y.place(high)
        );
    }
}

fn lines(svg: &mut String, figure: &Drawn, y: &Axis) {
    let positions = || figure.curves.iter().flat_map(|curve| &curve.dots).map(|dot| dot.0);
    let many = figure.shape != Shape::Means || figure.curves.iter().any(|curve| curve.dots.len() > 24);
    let margin = if many { 0.0 } else { 10.0 };
    let (from, to) = (LEFT + margin, WIDTH - RIGHT - margin);
    let x = match figure.span {
        Some((low, high)) => Axis { low, high, log: false, from, to },
        None => Axis::of(positions(), figure.log_x, false, from, to),
    };
    let mut ticks: Vec<f64> = positions().collect();
    ticks.sort_unstable_by(f64::total_cmp);
    ticks.dedup();
    if ticks.len() > 12 || figure.span.is_some() {
        ticks = x.ticks();
    }
    let mut end = f64::NEG_INFINITY;
    for tick in ticks {
        let (place, text) = (x.place(tick), label(tick));
        let half = LETTER * text.len() as f64 / 2.0;
        let _ = write!(svg, "<path class=\"axis\" d=\"M{place:.1},{:.1}v4\"/>", HEIGHT - BOTTOM);
        if place - half > end + 3.0 {
            end = place + half;
            let _ = write!(
                svg,
                "<text x=\"{place:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{text}</text>",
                HEIGHT - BOTTOM + 17.0
            );
        }
    }
    for (curve, color) in figure.curves.iter().zip(colors(&figure.curves)) {
        if figure.shape != Shape::Means {
            draw_course::course(svg, figure.shape, &curve.dots, &x, y, color);
            continue;
        }
        let places = curve.dots.iter().filter(|dot| !y.log || dot.1 > 0.0);
        let path: Vec<String> =
            places.map(|dot| format!("{:.1},{:.1}", x.place(dot.0), y.place(dot.1))).collect();
        let dash = if curve.printed { " stroke-dasharray=\"5 4\"" } else { "" };
        let _ = write!(
            svg,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{color}\" stroke-width=\"1.8\"{dash}/>",
            path.join(" ")
        );
        if many {
            continue;
        }
        for dot in &curve.dots {
            whisker(svg, x.place(dot.0), y, dot, color);
            let fill = if curve.printed { "var(--paper)" } else { color };
            let _ = write!(
                svg,
                "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"3.2\" fill=\"{fill}\" stroke=\"{color}\">{}</circle>",
                x.place(dot.0),
                y.place(dot.1),
                title(curve, &label(dot.0), dot)
            );
        }
    }
}

/// Draws the names of categories.
fn categories(svg: &mut String, figure: &Drawn) {
    let span = (WIDTH - LEFT - RIGHT) / figure.categories.len() as f64;
    let longest = figure.categories.iter().map(|name| name.chars().count()).max().unwrap_or(0);
    let slanted = LETTER * longest as f64 > FLAT * span;
    for (at, name) in figure.categories.iter().enumerate() {
        let place = LEFT + span * (at as f64 + 0.5);
        let base = HEIGHT - BOTTOM;
        let _ = match slanted {
            false => write!(
                svg,
                "<text x=\"{place:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
                base + 17.0,
                escape(name)
            ),
            true => write!(
                svg,
                "<text transform=\"translate({:.1},{:.1}) rotate(-20)\" text-anchor=\"end\">{}</text>",
                place + 8.0,
                base + 13.0,
                escape(name)
            ),
        };
    }
}

fn bars(svg: &mut String, figure: &Drawn, y: &Axis) {
    let span = (WIDTH - LEFT - RIGHT) / figure.categories.len() as f64;
    let width = 0.8 * span / figure.curves.len() as f64;
    let zero = if y.log { y.low } else { 0.0 };
    for (number, (curve, color)) in figure.curves.iter().zip(colors(&figure.curves)).enumerate() {
        for dot in &curve.dots {
            let left = LEFT + span * (dot.0 + 0.1) + width * number as f64;
            let (top, bottom) = (y.place(dot.1.max(zero)), y.place(dot.1.min(zero)));
            let look = match curve.printed {
                true => {
                    format!("fill=\"none\" stroke=\"{color}\" stroke-width=\"1.5\" stroke-dasharray=\"3 2\"")
                }
                false => format!("fill=\"{color}\""),
            };
            let position = figure.categories.get(dot.0 as usize).map_or("", String::as_str);
            let _ = write!(
                svg,
                "<rect x=\"{left:.1}\" y=\"{top:.1}\" width=\"{:.1}\" height=\"{:.1}\" {look}>{}</rect>",
                (width - 1.0).max(1.0),
                (bottom - top).max(0.5),
                title(curve, position, dot)
            );
            whisker(svg, left + width / 2.0, y, dot, "currentColor");
        }
    }
}

/// Returns `text` for HTML.
pub(crate) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_of_a_count_does_not_move_the_axis_below_zero() {
        let drawn = |value: f64| {
            let dots = vec![Dot(1.0, value, Some((value - 2.0, value + 2.0))), Dot(2.0, 9.0, None)];
            let curves = vec![DrawnCurve { name: "tcp".to_owned(), printed: false, dots }];
            figure(&Drawn {
                claim: String::new(),
                panel: String::new(),
                x: "x".to_owned(),
                y: "y".to_owned(),
                categories: Vec::new(),
                log_x: false,
                log_y: false,
                curves,
                shape: Shape::Means,
                span: None,
                note: String::new(),
            })
        };
        // The height of the tick at 0.
        let zero = |svg: &str| -> f64 {
            let before = svg.split_once(">0</text>").expect("the axis has a tick at 0").0;
            let (_, y) = before.rsplit_once(" y=\"").expect("a label has its place");
            y.split('"').next().and_then(|y| y.parse().ok()).expect("a place is a number")
        };
        assert_eq!(zero(&drawn(0.5)), zero(&drawn(2.0)));
        assert!(zero(&drawn(-0.5)) < zero(&drawn(2.0)));
    }

    #[test]
    fn ticks_are_round_and_inside_the_axis() {
        let axis = Axis::of([3.0, 193.0].into_iter(), false, true, 0.0, 100.0);
        assert_eq!(axis.ticks(), [0.0, 50.0, 100.0, 150.0, 200.0]);
        assert_eq!((axis.place(0.0), axis.place(200.0)), (0.0, 100.0));
        let axis = Axis::of([-0.4, 0.9].into_iter(), false, true, 0.0, 100.0);
        assert!(axis.low <= -0.4 && axis.high >= 0.9 && axis.ticks().contains(&0.0));
        let axis = Axis::of([20.0, 6000.0].into_iter(), true, true, 0.0, 100.0);
        assert_eq!(axis.ticks(), [10.0, 100.0, 1000.0, 10_000.0]);
        for empty in [false, true] {
            let axis = Axis::of([f64::NAN].into_iter(), empty, true, 0.0, 100.0);
            assert!(axis.place(1.0).is_finite() && !axis.ticks().is_empty());
        }
    }

    #[test]
    fn labels_are_short() {
        let all = [0.0, 0.05, 2.5, 20.0, 150.0, 6000.0, 20_000.0, 10_000_000.0, -0.2].map(label);
        assert_eq!(all, ["0", "0.05", "2.5", "20", "150", "6000", "20k", "10M", "-0.2"]);
    }

    #[test]
    fn a_printed_curve_has_the_colour_of_ours() {
        let curve = |name: &str, printed| DrawnCurve { name: name.to_owned(), printed, dots: Vec::new() };
        let all = colors(&[curve("lia", false), curve("olia", false), curve("paper: lia", true)]);
        assert!(all[0] == all[2] && all[0] != all[1]);
        let all = colors(&[curve("tcp@1", false), curve("default", false), curve("dmptcp", false)]);
        assert_eq!(all, ["currentColor", "#0072B2", "#D55E00"], "the colours of `anabranch plot`");
    }

    /// Returns the numbers of an attribute, in their order.
    fn numbers(svg: &str, element: &str, attribute: &str) -> Vec<f64> {
        let begin = format!("<{element} ");
        let elements = svg.split(&begin).skip(1);
        let value =
            |text: &str| text.split_once(&format!("{attribute}=\""))?.1.split('"').next()?.parse().ok();
        elements.map(|text| value(text).expect("a number")).collect()
    }

    fn drawn(shape: Shape, categories: &[&str], curves: Vec<(&str, Vec<Dot>)>) -> Drawn {
        Drawn {
            claim: String::new(),
            panel: String::new(),
            x: "x".to_owned(),
            y: "y".to_owned(),
            categories: categories.iter().map(|name| (*name).to_owned()).collect(),
            log_x: false,
            log_y: false,
            curves: curves
                .into_iter()
                .map(|(name, dots)| DrawnCurve { name: name.to_owned(), printed: false, dots })
                .collect(),
            shape,
            span: None,
            note: String::new(),
        }
    }

    #[test]
    fn bars_are_in_the_order_of_the_curves_and_as_high_as_their_values() {
        let dots = |value: f64| vec![Dot(0.0, value, None), Dot(1.0, 2.0 * value, None)];
        let svg = figure(&drawn(Shape::Means, &["a", "b"], vec![("one", dots(1.0)), ("two", dots(2.0))]));
        let (x, height) = (numbers(&svg, "rect", "x"), numbers(&svg, "rect", "height"));
        // One at a, one at b, two at a, two at b.
        assert!(x[0] < x[2] && x[2] < x[1] && x[1] < x[3], "{x:?}");
        for (at, times) in [(1, 2.0), (2, 2.0), (3, 4.0)] {
            assert!((height[at] / height[0] - times).abs() < 0.01, "{height:?}");
        }
    }

    #[test]
    fn points_are_where_their_values_are() {
        let dots = vec![Dot(0.0, 10.0, Some((5.0, 20.0))), Dot(5.0, 20.0, None), Dot(10.0, 40.0, None)];
        let svg = figure(&drawn(Shape::Means, &[], vec![("one", dots)]));
        let (x, y) = (numbers(&svg, "circle", "cx"), numbers(&svg, "circle", "cy"));
        assert_eq!(x, [LEFT + 10.0, (LEFT + WIDTH - RIGHT) / 2.0, WIDTH - RIGHT - 10.0]);
        // The axis is from 0 to 40, from the bottom to the top.
        assert_eq!(y, [0.25, 0.5, 1.0].map(|part| HEIGHT - BOTTOM - part * (HEIGHT - BOTTOM - TOP)));
        assert!(svg.contains("<title>one, 0: 10 [5, 20]</title>"));
    }

    #[test]
    fn steps_hold_their_value_and_boxes_have_their_five_values() {
        let svg = figure(&drawn(
            Shape::Steps,
            &[],
            vec![("one", vec![Dot(0.0, 10.0, None), Dot(10.0, 20.0, None)])],
        ));
        let (bottom, top, right) = (HEIGHT - BOTTOM, TOP, WIDTH - RIGHT);
        assert!(
            svg.contains(&format!("d=\"M{LEFT:.1},{:.1}H{right:.1}V{top:.1}\"", (bottom + top) / 2.0)),
            "{svg}"
        );
        let five = [1.0, 2.0, 4.0, 6.0, 8.0].map(|value| Dot(0.0, value, None)).to_vec();
        let svg = figure(&drawn(Shape::Boxes, &["a"], vec![("one", five)]));
        assert!(svg.contains("one, a: median 4, quartiles 2 and 6, whiskers 1 and 8"), "{svg}");
        // The box is from 6 down to 2 of 8.
        let place = |value: f64| bottom - value / 8.0 * (bottom - top);
        let (y, height) = (numbers(&svg, "rect", "y"), numbers(&svg, "rect", "height"));
        assert!(
            (y[0] - place(6.0)).abs() < 0.1 && (height[0] - (place(2.0) - place(6.0))).abs() < 0.1,
            "{y:?} {height:?}"
        );
    }
}
