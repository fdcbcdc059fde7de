//! How far a quantity of the setting may change before Multipath TCP pays no more, or begins to pay.

use serde::Serialize;

use super::search::{Found, Setting};
use super::{AdviceError, Answer, Candidate};
use crate::scenario::FlowSize;

use anabranch_link::{Capacity, Loss};

/// Runs at each value.
const RUNS: u32 = 10;
const SEED: u64 = 0x33aa_917d;
/// The search goes to this factor in either direction.
const WIDEST: f64 = 8.0;
/// The search for a greater loss begins here on a path without loss: one packet in four thousand.
const LEAST_LOSS: f64 = 0.00025;
/// It goes at least as far as this loss.
const WIDEST_LOSS: f64 = 0.05;
/// Bisections of a factor of two: the limit is known within 2^(1/8), which is 9 %.
const BISECTIONS: u32 = 3;

/// A quantity that changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Quantity {
    /// The rate of a path, both ways.
    Rate,
    /// The round-trip time of a path.
    Rtt,
    /// The loss of a path in the direction of the data.
    Loss,
    /// The size of the flows.
    Size,
}

/// How far a quantity may change.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Margin {
    /// The quantity.
    pub quantity: Quantity,
    /// The path; none for the size of the flows.
    pub path: Option<String>,
    /// The value of the setting, in bit/s, seconds, a share of packets, or bytes; 0 for a path without loss.
    pub value: f64,
    /// The greatest value below it at which the answer is another one; none within an eighth.
    pub below: Option<f64>,
    /// The least value above it at which the answer is another one; none within eight times, for a loss within 5 % if that is
    /// more.
    pub above: Option<f64>,
}

/// A quantity that can change.
struct Range {
    quantity: Quantity,
    path: Option<usize>,
    value: f64,
    /// The rate against the direction of the data, as a multiple of the other one.
    back: f64,
}

/// Returns the margins around an answer. A value counts as one that pays if the mean difference is an advantage, and, where
/// the answer is that Multipath TCP does not pay, one that matters. None if these runs contradict the answer already at the
/// present values, which then are at a limit.
pub(super) fn margins(
    setting: &Setting<'_>,
    found: &Found,
    best: &Candidate,
    answer: Answer,
) -> Result<Vec<Margin>, AdviceError> {
    if answer == Answer::Incomplete {
        return Ok(Vec::new());
    }
    let here = answer == Answer::Pays;
    let least_pct = if here { 0.0 } else { 100.0 * setting.scenario.min_effect };
    let pays = |changes: &[String]| -> Result<bool, AdviceError> {
        let comparison = setting.compare(&found.plan(core::slice::from_ref(best), RUNS, SEED), changes)?;
        let row = comparison.rows.iter().find(|row| row.scheduler == best.name);
        let complete = row.is_some_and(|row| row.completed == row.n);
        let difference = row.and_then(|row| row.vs_reference_pct).map_or(0.0, |difference| difference.mean);
        Ok(complete && if setting.bulk { difference > least_pct } else { difference < -least_pct })
    };
    if pays(&[])? != here {
        return Ok(Vec::new());
    }
    let mut margins = Vec::new();
    for range in ranges(setting) {
        let Range { quantity, path, value, .. } = range;
        let name = path.map(|path| setting.path_name(path));
        let of = name.as_deref().map_or(String::new(), |name| format!(" of {name}"));
        setting.begin(&format!("measuring how far the {}{of} may change", quantity.noun()));
        let pays = |value: f64| pays(&[range.assignment(value)]);
        // A topology that is not a list of paths has no such keys.
        match range.limits(here, &pays) {
            Ok((below, above)) => margins.push(Margin { quantity, path: name, value, below, above }),
            Err(AdviceError::Scenario(_)) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(margins)
}

impl Range {
    /// Returns the nearest values below and above the present one with the other answer.
    fn limits(
        &self,
        here: bool,
        pays: &dyn Fn(f64) -> Result<bool, AdviceError>,
    ) -> Result<(Option<f64>, Option<f64>), AdviceError> {
        let is_loss = self.quantity == Quantity::Loss;
        if is_loss && self.value == 0.0 {
            if pays(LEAST_LOSS)? != here {
                return Ok((None, Some(LEAST_LOSS)));
            }
            return Ok((None, limit(LEAST_LOSS, 2.0, WIDEST_LOSS, here, pays)?));
        }
        let widest = self.value * WIDEST;
        let widest = if is_loss { widest.max(WIDEST_LOSS) } else { widest };
        let below = limit(self.value, 0.5, self.value / WIDEST, here, pays)?;
        Ok((below, limit(self.value, 2.0, widest, here, pays)?))
    }

    /// Returns the change of a scenario that gives the quantity `value`.
    fn assignment(&self, value: f64) -> String {
        let number = self.path.map_or(0, |path| path + 1);
        match self.quantity {
            Quantity::Rate if self.back == 1.0 => format!("path.{number}.rate={value:.0} bit/s"),
            Quantity::Rate => format!(
                "path.{number}.rate={{ data = \"{value:.0} bit/s\", acks = \"{:.0} bit/s\" }}",
                value * self.back
            ),
            Quantity::Rtt => format!("path.{number}.rtt={:.0} ns", value * 1e9),
            Quantity::Loss => format!("path.{number}.loss={}", (value * 1e7).round() / 1e7),
            Quantity::Size => format!("traffic.size={value:.0} B"),
        }
    }
}

/// Returns the nearest value up to `widest` at which the answer is another one, in steps of `factor` and then by bisection.
fn limit(
    value: f64,
    factor: f64,
    widest: f64,
    here: bool,
    pays: &dyn Fn(f64) -> Result<bool, AdviceError>,
) -> Result<Option<f64>, AdviceError> {
    let mut near = value;
    loop {
        let far = near * factor;
        if if factor > 1.0 { far > widest * 1.01 } else { far * 1.01 < widest } {
            return Ok(None);
        }
        if pays(far)? != here {
            return bisect(near, far, here, pays).map(Some);
        }
        near = far;
    }
}

/// The end of the interval that has the other answer, after it was halved several times on a logarithmic scale.
fn bisect(
    mut near: f64,
    mut far: f64,
    here: bool,
    pays: &dyn Fn(f64) -> Result<bool, AdviceError>,
) -> Result<f64, AdviceError> {
    for _ in 0..BISECTIONS {
        let middle = (near * far).sqrt();
        if pays(middle)? == here { near = middle } else { far = middle }
    }
    Ok(far)
}

/// Returns what can change.
fn ranges(setting: &Setting<'_>) -> Vec<Range> {
    let experiment = &setting.condition().experiment;
    let mut all = Vec::new();
    for (position, path) in experiment.paths().iter().enumerate() {
        let mut add = |quantity, value, back| {
            all.push(Range { quantity, path: Some(position), value, back });
        };
        let (link, acks) = (experiment.own_link(path), experiment.own_ack_link(path));
        if let (Capacity::Rate(rate), Capacity::Rate(back)) = (&link.config.capacity, &acks.config.capacity) {
            add(Quantity::Rate, rate.as_bps_f64(), back.as_bps_f64() / rate.as_bps_f64());
        }
        let rtt = experiment.rtt(position).as_secs_f64();
        if rtt > 0.0 {
            add(Quantity::Rtt, rtt, 1.0);
        }
        match link.config.loss {
            Loss::None => add(Quantity::Loss, 0.0, 1.0),
            Loss::Bernoulli(loss) if loss * WIDEST < 1.0 => add(Quantity::Loss, loss, 1.0),
            Loss::Bernoulli(_) | Loss::GilbertElliott(_) => {}
        }
    }
    if let FlowSize::Fixed(size) = experiment.traffic.size {
        all.push(Range { quantity: Quantity::Size, path: None, value: size.0 as f64, back: 1.0 });
    }
    all
}

impl Quantity {
    /// The name in a sentence.
    pub const fn noun(self) -> &'static str {
        match self {
            Quantity::Rate => "rate",
            Quantity::Rtt => "round-trip time",
            Quantity::Loss => "loss",
            Quantity::Size => "size",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_the_first_value_with_the_other_answer_within_nine_percent() {
        for (edge, factor, widest) in [(300.0, 2.0, 800.0), (30.0, 0.5, 12.5)] {
            let pays = |value: f64| Ok((value - 100.0).abs() < (edge - 100.0_f64).abs());
            let found = limit(100.0, factor, widest, true, &pays).unwrap().unwrap();
            assert!(!pays(found).unwrap());
            assert!((found / edge).ln().abs() < 1.09_f64.ln(), "{found} for {edge}");
        }
        assert_eq!(limit(100.0, 2.0, 800.0, true, &|_| Ok(true)).unwrap(), None);
        // The last value is tried.
        assert!(limit(100.0, 2.0, 800.0, true, &|value| Ok(value < 750.0)).unwrap().is_some());
    }

    #[test]
    fn losses_are_tried_from_none_to_five_percent_and_below_the_present_one() {
        let loss = |value| Range { quantity: Quantity::Loss, path: Some(0), value, back: 1.0 };
        let below = |most: f64| move |value: f64| Ok(value < most);
        assert_eq!(loss(0.0).limits(true, &below(0.0001)).unwrap(), (None, Some(LEAST_LOSS)));
        let above = loss(0.0).limits(true, &below(0.03)).unwrap().1.unwrap();
        assert!((0.03..0.033).contains(&above), "{above}");
        let (now_below, now_above) = loss(0.04).limits(false, &below(0.03)).unwrap();
        assert!((0.027..0.03).contains(&now_below.unwrap()) && now_above.is_none());
    }

    #[test]
    fn both_directions_of_an_asymmetric_path_change_in_proportion() {
        let dsl = Range { quantity: Quantity::Rate, path: Some(1), value: 12e6, back: 1.0 / 12.0 };
        let text = dsl.assignment(24e6);
        assert_eq!(text, "path.2.rate={ data = \"24000000 bit/s\", acks = \"2000000 bit/s\" }");
        let mut document = crate::scenario::Document::bare();
        document.set_paths(&["10Mbit/s,20ms".to_owned(), "dsl".to_owned()]).unwrap();
        document.set_from("test", &text).unwrap();
        let experiment = &document.scenario().unwrap().conditions[0].experiment;
        let path = &experiment.paths()[1];
        assert_eq!(
            experiment.own_link(path).config.capacity,
            Capacity::Rate(anabranch_units::Rate(24_000_000))
        );
        assert_eq!(
            experiment.own_ack_link(path).config.capacity,
            Capacity::Rate(anabranch_units::Rate(2_000_000))
        );
    }
}
