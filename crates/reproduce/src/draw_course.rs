//! Drawings of what happens within runs: steps and dots over time, and boxes.

use core::fmt::Write;

use crate::draw::{Axis, LEFT, RIGHT, WIDTH};
use crate::draw::{colors, escape};
use crate::figure::{Dot, Drawn, Shape};

/// Draws the points of a curve as steps or dots.
pub(crate) fn course(svg: &mut String, shape: Shape, dots: &[Dot], x: &Axis, y: &Axis, color: &str) {
    let places = dots.iter().filter(|dot| !y.log || dot.1 > 0.0);
    let mut places = places.map(|dot| (x.place(dot.0), y.place(dot.1)));
    let mut path = String::new();
    if shape == Shape::Dots {
        places.for_each(|(x, y)| _ = write!(path, "M{x:.1},{y:.1}h0"));
        let wide = if dots.len() > 300 { 1.6 } else { 3.2 };
        let look = "stroke-linecap=\"round\" opacity=\".8\"";
        let _ = write!(
            svg,
            "<path d=\"{path}\" fill=\"none\" stroke=\"{color}\" stroke-width=\"{wide}\" {look}/>"
        );
        return;
    }
    if let Some((x, y)) = places.next() {
        let _ = write!(path, "M{x:.1},{y:.1}");
    }
    places.for_each(|(x, y)| _ = write!(path, "H{x:.1}V{y:.1}"));
    let look = "stroke-width=\"1.3\" stroke-linejoin=\"round\"";
    let _ = write!(svg, "<path d=\"{path}\" fill=\"none\" stroke=\"{color}\" {look}/>");
}

/// Draws a box for each curve in each category.
pub(crate) fn boxes(svg: &mut String, figure: &Drawn, y: &Axis) {
    let span = (WIDTH - LEFT - RIGHT) / figure.categories.len() as f64;
    let width = 0.8 * span / figure.curves.len() as f64;
    for (number, (curve, color)) in figure.curves.iter().zip(colors(&figure.curves)).enumerate() {
        for five in curve.dots.chunks_exact(5) {
            let left = LEFT + span * (five[0].0 + 0.1) + width * (number as f64 + 0.1);
            let wide = 0.8 * width;
            let middle = left + wide / 2.0;
            let [low, lower, median, upper, high] = [0, 1, 2, 3, 4].map(|at: usize| y.place(five[at].1));
            let category = figure.categories.get(five[0].0 as usize).map_or("", String::as_str);
            let _ = write!(
                svg,
                "<g stroke=\"{color}\" stroke-width=\"1.2\"><title>{}, {}: median {}, quartiles {} and {}, whiskers \
                 {} and {}</title><path d=\"M{middle:.1},{low:.1}V{lower:.1}M{middle:.1},{upper:.1}V{high:.1}\"/>\
                 <rect x=\"{left:.1}\" y=\"{upper:.1}\" width=\"{wide:.1}\" height=\"{:.1}\" fill=\"{color}\" \
                 fill-opacity=\".3\"/><path d=\"M{left:.1},{median:.1}h{wide:.1}\" stroke-width=\"2.4\"/></g>",
                escape(&curve.name),
                escape(category),
                five[2].1,
                five[1].1,
                five[3].1,
                five[0].1,
                five[4].1,
                (lower - upper).max(0.5),
            );
        }
    }
}
