//! A chart as SVG. Lengths are points; text stays text, so that it can be searched and edited.

mod curve;
mod text;

use std::fmt::Write as _;

use crate::chart::{Axis, Chart, Key, Mark, Panel, Sample, Scale, Stroke, Symbol};
use crate::style::{DIM, LINE, TEXT, WARN};
use crate::ticks;
use curve::{SLOT, polyline, segments, thinned};
use text::{escaped, shortened, upright, width_of, wrapped};

/// The form of a figure on paper.
#[derive(Clone, Debug, PartialEq)]
pub struct Page {
    /// The width in points (1/72 inch).
    pub width: f64,
    /// The height of a panel in points; none: by its kind.
    pub panel_height: Option<f64>,
    /// The font families, as CSS lists them.
    pub font: String,
    /// The size of the text in points.
    pub font_size: f64,
}

/// The width of a column of a two-column paper, and of both: 3.5 and 7.16 inches.
pub const COLUMN: f64 = 252.0;
/// The width of a page of two columns.
pub const PAGE: f64 = 515.5;

impl Default for Page {
    fn default() -> Page {
        let font = "Helvetica, Arial, 'Liberation Sans', 'DejaVu Sans', sans-serif".to_owned();
        Page { width: COLUMN, panel_height: None, font, font_size: 8.0 }
    }
}

/// A number of points with two decimals at most.
fn pt(value: f64) -> String {
    let text = format!("{value:.2}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}

fn stroke(of: &Stroke) -> String {
    let dash: Vec<String> = of.dash.iter().map(|part| pt(*part)).collect();
    let dash =
        if dash.is_empty() { String::new() } else { format!(" stroke-dasharray=\"{}\"", dash.join(" ")) };
    format!("stroke=\"{}\" stroke-width=\"{}\"{dash}", of.colour, pt(of.width))
}

/// Where a text is relative to its point.
#[derive(Clone, Copy, PartialEq)]
enum Anchor {
    Start,
    Middle,
    End,
}

struct Svg<'a> {
    page: &'a Page,
    out: String,
    /// The begin of the names of clip paths.
    prefix: &'a str,
    clips: usize,
}

/// The part of the page inside the axes of a panel.
#[derive(Clone, Copy)]
struct Frame {
    left: f64,
    top: f64,
    width: f64,
    height: f64,
}

/// A panel with the space that its texts need.
struct Laid<'a> {
    panel: &'a Panel,
    height: f64,
    left: f64,
    x_ticks: Vec<(f64, String)>,
    /// The height of the names below the panel, if they are slanted because they are long; otherwise 0.
    slant: f64,
    y_ticks: Vec<(f64, String)>,
    /// The lines of the label of the vertical axis.
    y_label: Vec<String>,
}

/// Returns the chart as an SVG document.
pub(crate) fn draw(chart: &Chart, page: &Page) -> String {
    drawn(chart, page, "c")
}

/// Returns the chart as an element of an HTML page, in which names that begin with `prefix` are its own. Its text has the colour of the
/// page's text, and `--paper`, `--line` and `--dim` are the page's colours.
pub(crate) fn inline(chart: &Chart, page: &Page, prefix: &str) -> String {
    let colours = [
        (TEXT, "currentColor"),
        ("#000000", "currentColor"),
        ("#ffffff", "var(--paper)"),
        (LINE, "var(--line)"),
        (DIM, "var(--dim)"),
    ];
    // A quotation mark of a name is escaped: these are attributes.
    let of_page = |svg: String, (colour, own): (&str, &str)| {
        svg.replace(&format!("\"{colour}\""), &format!("\"{own}\""))
    };
    let svg = colours.into_iter().fold(drawn(chart, page, prefix), of_page);
    svg.replacen(" xmlns=\"http://www.w3.org/2000/svg\"", "", 1)
}

fn drawn(chart: &Chart, page: &Page, prefix: &str) -> String {
    let mut svg = Svg { page, out: String::new(), prefix, clips: 0 };
    let size = page.font_size;
    let (gap, margin) = (0.6 * size, 0.4 * size);
    let mut top = margin;
    if let Some(warning) = &chart.warning {
        for line in wrapped(warning, size, page.width - 2.0 * margin) {
            top += 1.25 * size;
            svg.text(margin, top - 0.25 * size, &line, Anchor::Start, WARN, "font-style=\"italic\"");
        }
    }
    top = svg.legend(&chart.keys, top, margin);
    // Panels are side by side where the page has space for them.
    let columns = if chart.panels.len() > 1 && page.width >= 380.0 { 2 } else { 1 };
    let width = (page.width - 2.0 * margin - gap * (columns - 1) as f64) / columns as f64;
    let laid: Vec<Laid<'_>> =
        chart.panels.iter().map(|panel| svg.lay(panel, width, chart.panels.len())).collect();
    for row in laid.chunks(columns) {
        let has_titles = row.iter().any(|laid| !laid.panel.title.is_empty());
        let above = size * if has_titles { 1.6 } else { 0.5 };
        // One left edge for the panels of a column.
        let height = row.iter().map(|laid| laid.height).fold(0.0, f64::max);
        for (at, one) in row.iter().enumerate() {
            let left = laid.iter().skip(at).step_by(columns).map(|laid| laid.left).fold(0.0, f64::max);
            let begin = margin + at as f64 * (width + gap);
            let frame = Frame {
                left: begin + left,
                top: top + above,
                width: width - left - 0.8 * size,
                height: one.height,
            };
            svg.panel(one, frame);
        }
        top += above + height + 2.9 * size + row.iter().map(|laid| laid.slant).fold(0.0, f64::max);
    }
    let height = top + margin;
    let (w, h) = (pt(page.width), pt(height));
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{w}pt\" height=\"{h}pt\" viewBox=\"0 0 {w} {h}\" font-family=\"{}\" \
         font-size=\"{}\" fill=\"{TEXT}\">\n<rect width=\"{w}\" height=\"{h}\" fill=\"#ffffff\"/>\n{}</svg>\n",
        escaped(&page.font),
        pt(size),
        svg.out
    )
}

/// The slant of long names below a panel, in degrees.
const SLANT: f64 = -20.0;

/// The number of text sizes by which the label of a vertical axis may be longer than its panel.
const OVER: f64 = 2.0;

impl Svg<'_> {
    fn text(&mut self, x: f64, y: f64, text: &str, anchor: Anchor, colour: &str, more: &str) {
        let anchor = match anchor {
            Anchor::Start => "",
            Anchor::Middle => " text-anchor=\"middle\"",
            Anchor::End => " text-anchor=\"end\"",
        };
        let colour = if colour == TEXT { String::new() } else { format!(" fill=\"{colour}\"") };
        let more = if more.is_empty() { String::new() } else { format!(" {more}") };
        let text = escaped(text);
        let _ =
            writeln!(self.out, "<text x=\"{}\" y=\"{}\"{anchor}{colour}{more}>{text}</text>", pt(x), pt(y));
    }

    fn line(&mut self, from: (f64, f64), to: (f64, f64), of: &Stroke) {
        let (x1, y1, x2, y2) = (pt(from.0), pt(from.1), pt(to.0), pt(to.1));
        let stroke = stroke(of);
        let _ = writeln!(self.out, "<path d=\"M{x1} {y1}L{x2} {y2}\" fill=\"none\" {stroke}/>");
    }

    fn symbol(
        &mut self,
        symbol: Symbol,
        (x, y): (f64, f64),
        size: f64,
        colour: &str,
        hollow: bool,
        opacity: f64,
    ) {
        let h = size / 2.0;
        let fill = if hollow { "#ffffff" } else { colour };
        let opacity = if opacity < 1.0 { format!(" opacity=\"{}\"", pt(opacity)) } else { String::new() };
        let paint =
            format!("fill=\"{fill}\" stroke=\"{colour}\" stroke-width=\"{}\"{opacity}", pt(0.16 * size));
        let polygon = |points: &[(f64, f64)]| {
            let points: Vec<String> =
                points.iter().map(|(dx, dy)| format!("{},{}", pt(x + dx * h), pt(y + dy * h))).collect();
            format!("<polygon points=\"{}\" {paint}/>", points.join(" "))
        };
        let drawn = match symbol {
            Symbol::Circle => format!("<circle cx=\"{}\" cy=\"{}\" r=\"{}\" {paint}/>", pt(x), pt(y), pt(h)),
            Symbol::Square => polygon(&[(-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)]),
            Symbol::Triangle => polygon(&[(0.0, -1.1), (1.1, 0.9), (-1.1, 0.9)]),
            Symbol::Diamond => polygon(&[(0.0, -1.25), (1.25, 0.0), (0.0, 1.25), (-1.25, 0.0)]),
            Symbol::Cross => format!(
                "<path d=\"M{} {}l{} {}m{} 0l{} {}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"{}\"{opacity}/>",
                pt(x - h),
                pt(y - h),
                pt(size),
                pt(size),
                pt(-size),
                pt(size),
                pt(-size),
                pt(0.2 * size)
            ),
        };
        self.out.push_str(&drawn);
        self.out.push('\n');
    }

    /// Draws the legend in lines; returns the end of the last one.
    fn legend(&mut self, keys: &[Key], top: f64, margin: f64) -> f64 {
        if keys.is_empty() {
            return top;
        }
        let size = self.page.font_size;
        // Long enough for the longest pattern of dashes, on each side of a symbol.
        let (sample, gap) = (3.6 * size, 1.1 * size);
        let (mut x, mut y) = (margin, top + 0.8 * size);
        for key in keys {
            let most = self.page.width - 2.0 * margin - sample - 0.5 * size;
            let text = shortened(&key.text, size, most);
            let short = if matches!(key.sample, Sample::Line(..)) { sample } else { 1.0 * size };
            let width = short + 0.4 * size + width_of(&text, size);
            if x > margin && x + width > self.page.width - margin {
                (x, y) = (margin, y + 1.4 * size);
            }
            let middle = y - 0.3 * size;
            match &key.sample {
                Sample::Line(stroke, symbol) => {
                    self.line((x, middle), (x + sample, middle), stroke);
                    if let Some(symbol) = symbol {
                        self.symbol(
                            *symbol,
                            (x + sample / 2.0, middle),
                            0.65 * size,
                            stroke.colour,
                            false,
                            1.0,
                        );
                    }
                }
                Sample::Symbol(symbol, colour, hollow) => {
                    self.symbol(*symbol, (x + 0.5 * size, middle), 0.7 * size, colour, *hollow, 1.0);
                }
                Sample::Frame(of) => {
                    let _ = writeln!(
                        self.out,
                        "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"none\" {}/>",
                        pt(x),
                        pt(middle - 0.4 * size),
                        pt(size),
                        pt(0.8 * size),
                        stroke(&Stroke { width: 1.2, ..of.clone() })
                    );
                }
                Sample::Area(fill) => {
                    let _ = writeln!(
                        self.out,
                        "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"{fill}\" stroke=\"{DIM}\" stroke-width=\"0.4\"/>",
                        pt(x),
                        pt(middle - 0.4 * size),
                        pt(size),
                        pt(0.8 * size)
                    );
                }
            }
            self.text(x + short + 0.4 * size, y, &text, Anchor::Start, TEXT, "");
            x += width + gap;
        }
        y + 0.5 * size
    }

    fn lay<'p>(&self, panel: &'p Panel, width: f64, panels: usize) -> Laid<'p> {
        let size = self.page.font_size;
        let rows = match &panel.y.scale {
            Scale::Names(names) => Some(names.len()),
            _ => None,
        };
        let mut height = match (self.page.panel_height, rows) {
            (Some(height), _) => height,
            (None, Some(rows)) => size * (2.2 * rows as f64 + 0.6).max(4.0),
            (None, None) => width * if panels > 1 { 0.45 } else { 0.58 },
        };
        let y_label = upright(&ticks::label(&panel.y), size, height + OVER * size);
        if self.page.panel_height.is_none() {
            let longest = y_label.iter().map(|line| width_of(line, size)).fold(0.0, f64::max);
            height = height.max((longest - OVER * size).min(0.6 * width));
        }
        let y_ticks = ticks::ticks(&panel.y, (height / (2.2 * size)) as usize);
        let widest = y_ticks.iter().map(|(_, text)| width_of(text, size)).fold(0.0, f64::max);
        let label = if y_label.is_empty() { 0.0 } else { (0.3 + 1.2 * y_label.len() as f64) * size };
        let left = (widest.min(0.4 * width) + 0.8 * size + label).max(2.0 * size);
        let x_ticks = self.x_ticks(&panel.x, width - left - 0.8 * size);
        let slant = self.slant(&panel.x, &x_ticks, width - left - 0.8 * size);
        Laid { panel, height, left, x_ticks, slant, y_ticks, y_label }
    }

    fn panel(&mut self, laid: &Laid<'_>, frame: Frame) {
        let size = self.page.font_size;
        let Panel { title, x, y, marks } = laid.panel;
        let Frame { left, top, width, height } = frame;
        let (right, bottom) = (left + width, top + height);
        if !title.is_empty() {
            let title = shortened(title, size, width);
            self.text(left, top - 0.5 * size, &title, Anchor::Start, TEXT, "font-weight=\"bold\"");
        }
        let thin = Stroke::solid(LINE, 0.5);
        let axis = Stroke::solid(TEXT, 0.6);
        let at_x = |value: f64| left + width * share(x, value);
        let at_y = |value: f64| match y.scale {
            Scale::Names(_) => top + height * share(y, value),
            _ => bottom - height * share(y, value),
        };
        let is_named = |axis: &Axis| matches!(axis.scale, Scale::Names(_));
        for (value, text) in &laid.x_ticks {
            if !is_named(x) {
                self.line((at_x(*value), top), (at_x(*value), bottom), &thin);
            }
            self.line((at_x(*value), bottom), (at_x(*value), bottom + 0.3 * size), &axis);
            if laid.slant > 0.0 {
                let (x, y, text) = (pt(at_x(*value) + 0.5 * size), pt(bottom + 1.1 * size), escaped(text));
                let turned = format!("transform=\"translate({x} {y}) rotate({SLANT})\"");
                let _ = writeln!(self.out, "<text {turned} text-anchor=\"end\">{text}</text>");
            } else {
                // The last place that is given may be at the edge of the page.
                let most = right + 0.8 * size - width_of(text, size) / 2.0;
                let middle = if x.at.is_empty() { at_x(*value) } else { at_x(*value).min(most) };
                self.text(middle, bottom + 1.25 * size, text, Anchor::Middle, TEXT, "");
            }
        }
        for (value, text) in &laid.y_ticks {
            let place = at_y(*value);
            if !is_named(y) {
                self.line((left, place), (right, place), &thin);
                self.line((left - 0.3 * size, place), (left, place), &axis);
            }
            let text = shortened(text, size, (left - 0.5 * size).min(0.45 * self.page.width));
            self.text(left - 0.5 * size, place + 0.35 * size, &text, Anchor::End, TEXT, "");
        }
        let label = ticks::label(x);
        if !label.is_empty() {
            self.text(
                left + width / 2.0,
                bottom + laid.slant + 2.55 * size,
                &label,
                Anchor::Middle,
                TEXT,
                "",
            );
        }
        for (at, line) in laid.y_label.iter().enumerate() {
            let (x, y) = (left - laid.left + (0.9 + 1.2 * at as f64) * size, top + height / 2.0);
            let (x, y) = (pt(x), pt(y));
            let line = escaped(&shortened(line, size, height + OVER * size));
            let _ = writeln!(
                self.out,
                "<text transform=\"translate({x} {y}) rotate(-90)\" text-anchor=\"middle\">{line}</text>"
            );
        }
        self.clips += 1;
        let (prefix, clip) = (self.prefix, self.clips);
        let _ = writeln!(
            self.out,
            "<clipPath id=\"{prefix}{clip}\"><rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"/></clipPath>\n<g clip-path=\"url(#{prefix}{clip})\">",
            pt(left),
            pt(top - 1.0),
            pt(width + 1.0),
            pt(height + 2.0)
        );
        for mark in marks {
            self.mark(mark, frame, &at_x, &at_y);
        }
        self.out.push_str("</g>\n");
        self.line((left, top), (left, bottom), &axis);
        self.line((left, bottom), (right, bottom), &axis);
    }

    /// Returns the ticks below a panel: as many as fit without texts that touch.
    fn x_ticks(&self, x: &Axis, width: f64) -> Vec<(f64, String)> {
        let size = self.page.font_size;
        if !x.at.is_empty() {
            let (mut found, mut end) = (ticks::ticks(x, 0), f64::NEG_INFINITY);
            found.retain(|(value, text)| {
                let (place, half) = (width * share(x, *value), width_of(text, size) / 2.0);
                let fits = place - half > end + 0.3 * size;
                end = if fits { place + half } else { end };
                fits
            });
            return found;
        }
        for most in (1..=((width / (3.0 * size)) as usize).max(2)).rev() {
            let found = ticks::ticks(x, most);
            let widest = found.iter().map(|(_, text)| width_of(text, size)).fold(0.0, f64::max);
            let places: Vec<f64> = found.iter().map(|(value, _)| width * share(x, *value)).collect();
            let least = places.windows(2).map(|pair| pair[1] - pair[0]).fold(f64::INFINITY, f64::min);
            if widest + 0.5 * size <= least {
                return found;
            }
            if let Scale::Names(_) = x.scale {
                // Long names of few positions are all shown, on a slant.
                if 1.6 * size <= least && widest <= 0.5 * width {
                    return found;
                }
                let step = ((widest + 0.5 * size) / least).ceil() as usize;
                return found.into_iter().step_by(step.max(1)).collect();
            }
        }
        Vec::new()
    }

    /// Returns the height of names on a slant; 0 if they fit as they are.
    fn slant(&self, x: &Axis, ticks: &[(f64, String)], width: f64) -> f64 {
        let size = self.page.font_size;
        let widest = ticks.iter().map(|(_, text)| width_of(text, size)).fold(0.0, f64::max);
        let mut places = ticks.windows(2).map(|pair| width * (share(x, pair[1].0) - share(x, pair[0].0)));
        let fits = places.all(|least| widest + 0.5 * size <= least);
        if fits || !matches!(x.scale, Scale::Names(_)) {
            0.0
        } else {
            widest * SLANT.abs().to_radians().sin()
        }
    }

    fn mark(&mut self, mark: &Mark, frame: Frame, x: &dyn Fn(f64) -> f64, y: &dyn Fn(f64) -> f64) {
        match mark {
            Mark::Line { points, stroke: of, step } => {
                let places = points.iter().map(|(a, b)| (x(*a), y(*b)));
                let path = polyline(&thinned(places, 0.3), *step);
                if !path.is_empty() {
                    let stroke = stroke(of);
                    let _ = writeln!(
                        self.out,
                        "<path d=\"{path}\" fill=\"none\" stroke-linejoin=\"round\" {stroke}/>"
                    );
                }
            }
            Mark::Segments { bars, stroke: of, slot } => {
                let (path, dense) = segments(bars, *slot, frame, x, y);
                if !path.is_empty() {
                    let stroke = stroke(&Stroke { width: if dense { SLOT } else { of.width }, ..of.clone() });
                    let _ = writeln!(self.out, "<path d=\"{path}\" fill=\"none\" {stroke}/>");
                }
            }
            Mark::Points { points, symbol, colour, size, hollow, opacity } => {
                for (a, b) in points {
                    self.symbol(*symbol, (x(*a), y(*b)), *size, colour, *hollow, *opacity);
                }
            }
            Mark::Interval { from, to, stroke } => {
                let (a, b) = ((x(from.0), y(from.1)), (x(to.0), y(to.1)));
                let cap = if from.1 == to.1 { (0.0, 2.2) } else { (2.2, 0.0) };
                self.line(a, b, stroke);
                for end in [a, b] {
                    self.line((end.0 - cap.0, end.1 - cap.1), (end.0 + cap.0, end.1 + cap.1), stroke);
                }
            }
            Mark::Rect { x: across, y: along, fill, edge, text } => {
                let (left, right) = (x(across.0).min(x(across.1)), x(across.0).max(x(across.1)));
                let (top, bottom) = (y(along.0).min(y(along.1)), y(along.0).max(y(along.1)));
                let edge = edge.as_ref().map_or(String::new(), |edge| format!(" {}", stroke(edge)));
                let _ = writeln!(
                    self.out,
                    "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"{fill}\"{edge}/>",
                    pt(left),
                    pt(top),
                    pt((right - left).max(0.2)),
                    pt((bottom - top).max(0.2))
                );
                let size = 0.85 * self.page.font_size;
                if !text.is_empty() && width_of(text, size) < right - left && bottom - top > 1.2 * size {
                    let colour = if is_dark(fill) { "#ffffff" } else { TEXT };
                    let middle = ((left + right) / 2.0, (top + bottom) / 2.0 + 0.35 * size);
                    let more = format!("font-size=\"{}\"", pt(size));
                    self.text(middle.0, middle.1, text, Anchor::Middle, colour, &more);
                }
            }
            Mark::Titled { title, marks } => {
                let _ = writeln!(self.out, "<g><title>{}</title>", escaped(title));
                marks.iter().for_each(|mark| self.mark(mark, frame, x, y));
                self.out.push_str("</g>\n");
            }
            Mark::VerticalRule(at) => {
                let rule = Stroke::solid(TEXT, 0.6);
                self.line((x(*at), frame.top), (x(*at), frame.top + frame.height), &rule);
            }
        }
    }
}

/// Returns the place of a value between the ends of an axis, from 0 to 1.
fn share(axis: &Axis, value: f64) -> f64 {
    let (low, high) = axis.range;
    let place = match axis.scale {
        Scale::Logarithmic => (value.ln() - low.ln()) / (high.ln() - low.ln()),
        _ => (value - low) / (high - low),
    };
    // Far outside is outside: paths with huge coordinates are drawn wrongly by some programs.
    if place.is_finite() {
        place.clamp(-2.0, 3.0)
    } else if place == f64::INFINITY {
        3.0
    } else {
        f64::NAN
    }
}

/// True if white text is easier to read on a colour.
fn is_dark(fill: &str) -> bool {
    let part = |at: usize| {
        fill.get(at..at + 2).and_then(|hex| u8::from_str_radix(hex, 16).ok()).map_or(255.0, f64::from)
    };
    0.299 * part(1) + 0.587 * part(3) + 0.114 * part(5) < 140.0
}

#[cfg(test)]
#[path = "svg_tests.rs"]
mod tests;
