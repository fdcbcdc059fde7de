//! The paths of curves: points and bars that a print does not resolve are one.

use std::fmt::Write as _;

use super::{Frame, pt};

/// Keeps the first, the lowest, the highest and the last of the points in each part of width `cell`.
pub(super) fn thinned(points: impl Iterator<Item = (f64, f64)>, cell: f64) -> Vec<(f64, f64)> {
    let mut kept: Vec<(f64, f64)> = Vec::new();
    let mut group: Vec<(f64, f64)> = Vec::new();
    let flush = |group: &mut Vec<(f64, f64)>, kept: &mut Vec<(f64, f64)>| {
        if group.len() <= 4 {
            kept.append(group);
            return;
        }
        let by = |a: &usize, b: &usize| group[*a].1.total_cmp(&group[*b].1);
        let (low, high) = ((0..group.len()).min_by(by), (0..group.len()).max_by(by));
        let mut places = vec![0, low.unwrap_or_default(), high.unwrap_or_default(), group.len() - 1];
        places.sort_unstable();
        places.dedup();
        kept.extend(places.into_iter().map(|at| group[at]));
        group.clear();
    };
    for point in points {
        let same = group.first().is_some_and(|first| (first.0 / cell).floor() == (point.0 / cell).floor());
        if !same || !point.1.is_finite() {
            flush(&mut group, &mut kept);
        }
        group.push(point);
    }
    flush(&mut group, &mut kept);
    kept
}

pub(super) fn polyline(points: &[(f64, f64)], step: bool) -> String {
    let mut path = String::new();
    let mut before: Option<(f64, f64)> = None;
    for (at, (x, y)) in points.iter().copied().enumerate() {
        if !y.is_finite() || !x.is_finite() {
            // A value holds until the gap.
            if let (Some(_), true) = (before, step && x.is_finite()) {
                let _ = write!(path, "H{}", pt(x));
            }
            before = None;
            continue;
        }
        match before {
            None => {
                let _ = write!(path, "M{} {}", pt(x), pt(y));
                // A point by itself is visible.
                let alone = points.get(at + 1).is_none_or(|next| !next.1.is_finite());
                if alone && !step {
                    path.push_str("h0.5");
                }
            }
            Some((_, old)) if step => {
                let _ = write!(path, "H{}", pt(x));
                if (old - y).abs() >= 0.005 {
                    let _ = write!(path, "V{}", pt(y));
                }
            }
            Some(_) => {
                let _ = write!(path, "L{} {}", pt(x), pt(y));
            }
        }
        before = Some((x, y));
    }
    path
}

/// The distance between lines that a print resolves.
const FINE: f64 = 0.25;

/// The width of the lines of a subflow where the lines of several are side by side, so that their
/// colours can be distinguished.
pub(super) const SLOT: f64 = 1.2;

/// Returns the path of vertical lines, and whether they are side by side with the lines of others. Lines
/// within a cell of a fine grid are one.
pub(super) fn segments(
    bars: &[(f64, f64, f64)],
    slot: (usize, usize),
    frame: Frame,
    x: &dyn Fn(f64) -> f64,
    y: &dyn Fn(f64) -> f64,
) -> (String, bool) {
    let dense = slot.1 > 0 && bars.len() as f64 > frame.width / SLOT / 2.0;
    let cell = if dense { SLOT * slot.1 as f64 } else { FINE };
    let mut open: Vec<(f64, f64, f64)> = Vec::new();
    let mut done: Vec<(f64, f64, f64)> = Vec::new();
    let mut column = f64::NEG_INFINITY;
    for (at, low, high) in bars {
        let place = x(*at);
        if place < frame.left - 1.0 || place > frame.left + frame.width + 1.0 {
            continue;
        }
        let here = (place / cell).floor();
        if here != column {
            done.append(&mut open);
            column = here;
        }
        let place = if dense { here * cell + SLOT * (slot.0 as f64 + 0.5) } else { place };
        let (mut top, mut bottom) = (y(*high), y(*low));
        if bottom - top < 1.2 {
            (top, bottom) = ((top + bottom) / 2.0 - 0.6, (top + bottom) / 2.0 + 0.6);
        }
        if bottom < frame.top - 1.0 || top > frame.top + frame.height + 1.0 {
            continue;
        }
        match open.iter_mut().rev().take(16).find(|line| top <= line.2 + 0.4 && bottom >= line.1 - 0.4) {
            Some(line) => (line.1, line.2) = (line.1.min(top), line.2.max(bottom)),
            None => open.push((place, top, bottom)),
        }
    }
    done.append(&mut open);
    let mut path = String::new();
    for (place, top, bottom) in done {
        let _ = write!(path, "M{} {}V{}", pt(place), pt(top), pt(bottom));
    }
    (path, dense)
}
