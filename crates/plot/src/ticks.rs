//! Places and texts of the ticks of an axis.

use crate::chart::{Axis, Scale, Unit};

/// A multiple of a unit: the value of one of them, and its name.
pub(crate) type Multiple = (f64, String);

/// Returns the multiple in which the numbers of an axis are written: one for the whole axis.
pub(crate) fn multiple(axis: &Axis) -> Multiple {
    let most = axis.range.0.abs().max(axis.range.1.abs());
    let multiples: &[(f64, &str)] = match &axis.unit {
        Unit::Seconds => &[(1.0, "s"), (1e-3, "ms"), (1e-6, "µs")],
        Unit::Bytes => &[(1e9, "GB"), (1e6, "MB"), (1e3, "KB"), (1.0, "B")],
        Unit::BitsPerSecond => &[(1e9, "Gbit/s"), (1e6, "Mbit/s"), (1e3, "kbit/s"), (1.0, "bit/s")],
        Unit::Percent => &[(1.0, "%")],
        Unit::Named(name) => return (1.0, name.clone()),
        Unit::None => return (1.0, String::new()),
    };
    let fits = multiples.iter().find(|(one, _)| most >= 1.2 * one);
    let (one, name) = fits.or(multiples.last()).copied().unwrap_or((1.0, ""));
    (one, name.to_owned())
}

/// Returns the label of an axis with its unit.
pub(crate) fn label(axis: &Axis) -> String {
    let (_, unit) = multiple(axis);
    match (axis.label.as_str(), unit.as_str()) {
        (label, "") => label.to_owned(),
        ("", unit) => unit.to_owned(),
        (label, unit) => format!("{label} ({unit})"),
    }
}

/// Returns the ticks of an axis, at most about `most`: the values and their texts.
pub(crate) fn ticks(axis: &Axis, most: usize) -> Vec<(f64, String)> {
    match &axis.scale {
        Scale::Linear | Scale::Logarithmic if !axis.at.is_empty() => given(axis),
        Scale::Names(names) => names.iter().enumerate().map(|(at, name)| (at as f64, name.clone())).collect(),
        Scale::Linear => linear(axis, most),
        Scale::Logarithmic => logarithmic(axis, most),
    }
}

/// Returns the ticks at the places that are given.
fn given(axis: &Axis) -> Vec<(f64, String)> {
    let (one, _) = multiple(axis);
    let text = |value: f64| number(value / one, 6).trim_end_matches('0').trim_end_matches('.').to_owned();
    let text = |value: f64| if value == 0.0 { "0".to_owned() } else { text(value) };
    axis.at.iter().map(|value| (*value, text(*value))).collect()
}

fn linear(axis: &Axis, most: usize) -> Vec<(f64, String)> {
    let (one, _) = multiple(axis);
    let (low, high) = (axis.range.0 / one, axis.range.1 / one);
    let least = (high - low) / most.max(1) as f64;
    if !(least.is_finite() && least > 0.0) {
        return Vec::new();
    }
    let power = 10f64.powf(least.log10().floor());
    let step =
        [1.0, 2.0, 5.0, 10.0].into_iter().map(|factor| factor * power).find(|step| *step >= 0.999 * least);
    let step = step.unwrap_or(10.0 * power);
    let decimals = usize::try_from(-(step.log10() + 1e-9).floor() as i64).unwrap_or_default();
    let first = (low / step - 1e-9).ceil() as i64;
    let last = (high / step + 1e-9).floor() as i64;
    let tick = |at: i64| (at as f64 * step * one, number(at as f64 * step, decimals));
    (first..=last).map(tick).collect()
}

fn logarithmic(axis: &Axis, most: usize) -> Vec<(f64, String)> {
    let (one, _) = multiple(axis);
    let (low, high) = (axis.range.0 / one, axis.range.1 / one);
    let decades = (low.log10().floor() as i32)..=(high.log10().ceil() as i32);
    for factors in [&[1.0, 2.0, 3.0, 5.0, 7.0][..], &[1.0, 2.0, 5.0], &[1.0, 3.0], &[1.0]] {
        let all =
            decades.clone().flat_map(|decade| factors.iter().map(move |factor| factor * 10f64.powi(decade)));
        let inside: Vec<f64> = all.filter(|value| (0.999 * low..=1.001 * high).contains(value)).collect();
        if inside.len() <= most.max(2) {
            let decimals =
                |value: f64| usize::try_from(-(value.log10() + 1e-9).floor() as i64).unwrap_or_default();
            return inside.into_iter().map(|value| (value * one, number(value, decimals(value)))).collect();
        }
    }
    Vec::new()
}

/// Writes a number with a typographic minus.
fn number(value: f64, decimals: usize) -> String {
    let text = format!("{value:.decimals$}");
    if text.trim_start_matches(['-', '0', '.']).is_empty() {
        return "0".to_owned();
    }
    text.replace('-', "\u{2212}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(unit: Unit, range: (f64, f64), most: usize) -> Vec<String> {
        ticks(&Axis::new("", unit, range), most).into_iter().map(|(_, text)| text).collect()
    }

    #[test]
    fn ticks_are_round_in_the_multiple_of_the_axis() {
        assert_eq!(texts(Unit::Seconds, (0.0, 0.68), 5), ["0", "200", "400", "600"]);
        assert_eq!(texts(Unit::Bytes, (0.0, 2.1e6), 5), ["0", "0.5", "1.0", "1.5", "2.0"]);
        assert_eq!(texts(Unit::Percent, (-3.0, 7.0), 5), ["\u{2212}2", "0", "2", "4", "6"]);
        assert_eq!(texts(Unit::None, (1.0, 1.0), 5), [""; 0]);
    }

    #[test]
    fn a_logarithmic_axis_has_more_ticks_where_it_is_short() {
        let axis = |range| Axis { scale: Scale::Logarithmic, ..Axis::new("", Unit::None, range) };
        let texts = |range| ticks(&axis(range), 6).into_iter().map(|(_, text)| text).collect::<Vec<_>>();
        assert_eq!(texts((5.0, 50.0)), ["5", "7", "10", "20", "30", "50"]);
        assert_eq!(texts((0.01, 100.0)), ["0.01", "0.1", "1", "10", "100"]);
    }
}
