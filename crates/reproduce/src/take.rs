//! Values that a figure takes from within runs: the course of one run, or a distribution over packets or seconds.
//!
//! Both are thinned out while a run is simulated, so that memory does not grow with its length. A course of more than
//! `FEW` values keeps the first, the last, the least and the greatest value of each of `COLUMNS` columns of the
//! figure. A sample is rounded to three significant digits, and equal ones are counted.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::metric::{Metric, Quantity};

/// The columns of a course: about one for each pixel of a figure.
pub(crate) const COLUMNS: u32 = 370;
/// The values of a course that is not thinned out.
pub(crate) const FEW: usize = 600;

/// Values that a figure takes from within runs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Take {
    /// The measure. Every value of it counts.
    pub metric: Metric,
    /// Whether times are kept.
    pub form: Form,
}

/// The form of a [`Take`].
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Form {
    /// Values over time, in seconds since the start of the flow.
    Course {
        /// The first second.
        from: f64,
        /// The last second.
        upto: f64,
    },
    /// All values without their times.
    Samples,
}

impl Take {
    /// Returns its name in a measurement, which no measure has.
    pub(crate) fn key(&self) -> String {
        match self.form {
            Form::Course { from, upto } => format!("course {} {from}..{upto}", self.metric),
            Form::Samples => format!("samples {}", self.metric),
        }
    }

    /// Returns in words from which runs it is, of this seed.
    pub(crate) fn note(&self, seed: u64, runs: usize) -> String {
        let each = match self.metric.quantity {
            Quantity::Wait => "packet",
            _ => "second",
        };
        match (self.form, runs) {
            (Form::Course { .. }, _) => format!("one run: number 0 of seed {seed}"),
            (Form::Samples, 1) => format!("each {each} of one run: number 0 of seed {seed}"),
            (Form::Samples, _) => format!("each {each} of {runs} runs of seed {seed}"),
        }
    }

    /// Returns the reason that there is no such course or distribution, if there is none.
    pub(crate) fn fault(&self) -> Option<String> {
        let Metric { quantity, path, span, .. } = self.metric;
        let name = self.metric.name();
        match self.form {
            Form::Course { from, upto } if !(0.0 <= from && from < upto && upto.is_finite()) => {
                Some("a `course` begins at 0 or later, and ends after it begins".to_owned())
            }
            Form::Course { .. } if !quantity.has_course() => {
                Some(format!("`{name}` has no course; there are {}", Quantity::names(Quantity::has_course)))
            }
            Form::Course { .. } if span.is_some() => {
                Some(format!("the `course` has the time of `{}`: leave `@` out", self.metric))
            }
            Form::Course { .. } if quantity.is_of_path() && path.is_none() => {
                Some(format!("a course of `{name}` is of one path, such as `{name}.1`"))
            }
            Form::Samples if !quantity.has_samples() => Some(format!(
                "`{name}` has no distribution over packets or seconds; there are {}",
                Quantity::names(Quantity::has_samples)
            )),
            Form::Samples if quantity == Quantity::Wait && span.is_some() => {
                Some("the distribution of `wait` is of the whole run: leave `@` out".to_owned())
            }
            _ => None,
        }
    }
}

/// The values of a course, thinned out.
#[derive(Clone, Debug)]
pub(crate) struct Columns {
    from: f64,
    upto: f64,
    /// The last value before the course begins.
    before: Option<f64>,
    /// All values while there are few.
    all: Vec<(f64, f64)>,
    cells: BTreeMap<u32, Cell>,
}

/// The values in one column, each with its time.
#[derive(Clone, Copy, Debug)]
struct Cell {
    first: (f64, f64),
    last: (f64, f64),
    least: (f64, f64),
    most: (f64, f64),
}

impl Columns {
    pub(crate) fn new(from: f64, upto: f64) -> Columns {
        Columns { from, upto, before: None, all: Vec::new(), cells: BTreeMap::new() }
    }

    /// Adds a value; times do not decrease.
    pub(crate) fn add(&mut self, at: f64, value: f64) {
        if at < self.from {
            self.before = Some(value);
            return;
        }
        if at > self.upto {
            return;
        }
        let column = ((at - self.from) / (self.upto - self.from) * f64::from(COLUMNS)) as u32;
        let point = (at, value);
        if self.all.len() <= FEW {
            self.all.push(point);
        }
        let cell = self.cells.entry(column.min(COLUMNS - 1)).or_insert(Cell {
            first: point,
            last: point,
            least: point,
            most: point,
        });
        cell.last = point;
        if value < cell.least.1 {
            cell.least = point;
        }
        if value > cell.most.1 {
            cell.most = point;
        }
    }

    /// Returns the points in the order of their times. A `state` lasts: it has its value at the begin too.
    pub(crate) fn points(&self, state: bool) -> Vec<(f64, f64)> {
        let mut points: Vec<(f64, f64)> = Vec::new();
        if let Some(before) = self.before.filter(|_| state) {
            points.push((self.from, before));
        }
        if self.all.len() <= FEW {
            points.extend(&self.all);
            points.dedup();
            return points;
        }
        for Cell { first, last, least, most } in self.cells.values() {
            let mut own = [*first, *least, *most, *last];
            own.sort_by(|a, b| a.0.total_cmp(&b.0));
            points.extend(own);
        }
        points.dedup();
        points
    }
}

/// Returns `value` with that number of significant digits.
pub(crate) fn rounded(value: f64, digits: i32) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return value;
    }
    let decimals = digits - 1 - value.abs().log10().floor() as i32;
    // A power of ten with a negative exponent is not exact.
    match decimals {
        0.. => (value * 10f64.powi(decimals)).round() / 10f64.powi(decimals),
        _ => (value / 10f64.powi(-decimals)).round() * 10f64.powi(-decimals),
    }
}

/// The number of samples of each value of three digits. It has at most 900 values in each decade.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Samples(BTreeMap<u64, (f64, u64)>);

impl Samples {
    /// Adds a sample, which is not negative.
    pub(crate) fn add(&mut self, value: f64) {
        self.add_all(value, 1);
    }

    fn add_all(&mut self, value: f64, count: u64) {
        let value = rounded(value.max(0.0), 3);
        // The bits of numbers that are not negative have their order.
        self.0.entry(value.to_bits()).or_insert((value, 0)).1 += count;
    }

    /// Adds the samples of others.
    pub(crate) fn merge(&mut self, other: &Samples) {
        other.0.values().for_each(|(value, count)| self.add_all(*value, *count));
    }

    /// Returns the samples from pairs of a value and its number, one after the other.
    pub(crate) fn of(flat: &[f64]) -> Samples {
        let mut all = Samples::default();
        flat.chunks_exact(2).for_each(|pair| all.add_all(pair[0], pair[1] as u64));
        all
    }

    /// Returns the pairs of [`Samples::of`].
    pub(crate) fn flat(&self) -> Vec<f64> {
        self.0.values().flat_map(|(value, count)| [*value, *count as f64]).collect()
    }

    fn count(&self) -> u64 {
        self.0.values().map(|(_, count)| count).sum()
    }

    /// Returns each value with the fraction of the samples that are at most as large.
    pub(crate) fn cumulative(&self) -> Vec<(f64, f64)> {
        let all = self.count() as f64;
        let mut below = 0;
        let rank = |(value, count): &(f64, u64)| {
            below += count;
            (*value, below as f64 / all)
        };
        self.0.values().map(rank).collect()
    }

    /// Returns the least value with at least this fraction of the samples at or below it; none without samples.
    fn quantile(&self, part: f64) -> Option<f64> {
        let rank = ((part * self.count() as f64).ceil() as u64).max(1);
        let mut below = 0;
        self.0.values().find_map(|(value, count)| {
            below += count;
            (below >= rank).then_some(*value)
        })
    }

    /// Returns the five values of a box plot: the end of the lower whisker, the quartiles, and the end of the upper
    /// whisker. A whisker ends at the farthest sample within 1.5 times the distance of the quartiles (Tukey).
    pub(crate) fn five(&self) -> Option<[f64; 5]> {
        let [lower, median, upper] = [self.quantile(0.25)?, self.quantile(0.5)?, self.quantile(0.75)?];
        let reach = 1.5 * (upper - lower);
        let mut inside =
            self.0.values().map(|(value, _)| *value).filter(|v| lower - reach <= *v && *v <= upper + reach);
        let low = inside.next()?;
        let high = inside.next_back().unwrap_or(low);
        Some([low, lower, median, upper, high])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers without a pattern, the same in every run.
    fn numbers(count: usize) -> Vec<f64> {
        let mut state = 7_u64;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 40) as f64 / 1000.0
        };
        (0..count).map(|_| next()).collect()
    }

    #[test]
    fn a_column_keeps_its_first_last_least_and_greatest_value() {
        let width = 1.0 / f64::from(COLUMNS);
        // All but the first and the last two in the first column.
        let all = [(0.5, 4.0), (1.0, 5.0), (1.1, 6.0), (1.2, 1.0), (1.3, 9.0), (1.4, 3.0), (1.5, 2.0)];
        let place = |at: f64| if at < 1.0 { at } else { 1.0 + (at - 1.0) * width };
        let course = |more: usize| {
            let mut columns = Columns::new(1.0, 2.0);
            all.iter().for_each(|(at, value)| columns.add(place(*at), *value));
            (0..more).for_each(|_| columns.add(2.0, 7.0));
            columns.add(2.1, 8.0);
            columns
        };
        let values =
            |columns: &Columns, state| columns.points(state).iter().map(|point| point.1).collect::<Vec<_>>();
        let many = course(FEW);
        assert_eq!(values(&many, false), [5.0, 1.0, 9.0, 2.0, 7.0]);
        assert_eq!((values(&many, true)[0], many.points(true)[0].0), (4.0, 1.0));
        // A short course has all of its values.
        assert_eq!(values(&course(1), false), [5.0, 6.0, 1.0, 9.0, 3.0, 2.0, 7.0]);
    }

    #[test]
    fn a_long_course_is_bounded_and_keeps_its_extremes() {
        let mut columns = Columns::new(0.0, 10.0);
        let all = numbers(100_000);
        all.iter().enumerate().for_each(|(n, value)| columns.add(n as f64 / 1e4, *value));
        let points = columns.points(true);
        assert!(points.len() <= 4 * COLUMNS as usize);
        let most = |values: &mut dyn Iterator<Item = f64>| values.fold(0.0, f64::max);
        assert_eq!(most(&mut points.iter().map(|point| point.1)), most(&mut all.iter().copied()));
        assert_eq!((points[0].1, points[points.len() - 1].1), (all[0], all[all.len() - 1]));
        assert!(points.windows(2).all(|pair| pair[0].0 <= pair[1].0));
    }

    #[test]
    fn a_distribution_is_that_of_a_sorted_list() {
        let mut all = numbers(5000);
        let mut samples = Samples::default();
        let (one, two) = all.split_at(1234);
        one.iter().for_each(|value| samples.add(*value));
        let mut others = Samples::default();
        two.iter().for_each(|value| others.add(*value));
        samples.merge(&Samples::of(&others.flat()));
        all.iter_mut().for_each(|value| *value = rounded(*value, 3));
        all.sort_unstable_by(f64::total_cmp);
        for (value, part) in samples.cumulative() {
            let below = all.iter().filter(|other| **other <= value).count();
            assert_eq!(part, below as f64 / all.len() as f64, "{value}");
        }
        let rank = |part: f64| all[(part * all.len() as f64).ceil() as usize - 1];
        let (lower, upper) = (rank(0.25), rank(0.75));
        let reach = 1.5 * (upper - lower);
        let inside: Vec<f64> =
            all.iter().copied().filter(|v| (lower - reach..=upper + reach).contains(v)).collect();
        let five = [inside[0], lower, rank(0.5), upper, inside[inside.len() - 1]];
        assert_eq!(samples.five(), Some(five));
        assert_eq!(Samples::default().five(), None);
    }

    #[test]
    fn a_box_leaves_outliers_outside() {
        let mut samples = Samples::default();
        [1.0, 2.0, 3.0, 4.0, 5.0, 100.0].iter().for_each(|value| samples.add(*value));
        // 1.5 times the distance of the quartiles reaches up to 9.5 of them: 10 is outside.
        let mut near = Samples::default();
        [1.0, 2.0, 3.0, 4.0, 5.0, 10.0].iter().for_each(|value| near.add(*value));
        assert_eq!(near.five(), Some([1.0, 2.0, 3.0, 5.0, 5.0]));
        assert_eq!(samples.five(), Some([1.0, 2.0, 3.0, 5.0, 5.0]));
    }

    #[test]
    fn a_take_that_is_not_there_is_refused() {
        let fault = |metric: &str, form| {
            Take { metric: Metric::parse(metric).unwrap(), form }.fault().unwrap_or_default()
        };
        let course = Form::Course { from: 0.0, upto: 2.0 };
        assert!(fault("done", course).contains("`done` has no course; there are"));
        assert!(fault("window", course).contains("such as `window.1`"));
        assert!(fault("window.1@0..3", course).contains("leave `@` out"));
        assert!(fault("window.1", Form::Course { from: 2.0, upto: 2.0 }).contains("ends after it begins"));
        assert!(fault("window.1", Form::Course { from: -1.0, upto: 2.0 }).contains("begins at 0"));
        assert!(fault("window.1", Form::Samples).contains("no distribution over packets or seconds"));
        assert!(fault("wait@3..4", Form::Samples).contains("whole run"));
        for (metric, form) in [("window.1", course), ("data", course), ("goodput.2@3..9", Form::Samples)] {
            assert_eq!(fault(metric, form), "");
        }
    }
}
