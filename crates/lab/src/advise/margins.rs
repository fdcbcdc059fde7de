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
    /// The value of the setting, in bit/s, seconds, a share of packets, or bytes.
    pub value: f64,
    /// The greatest value below it at which the answer is another one; none within an eighth.
    pub below: Option<f64>,
    /// The least value above it at which the answer is another one; none within eight times.
    pub above: Option<f64>,
}

/// The margins around an answer. Points count by their mean difference, which is below or above zero.
pub(super) fn margins(
    setting: &Setting<'_>,
    found: &Found,
    best: &Candidate,
    answer: Answer,
) -> Result<Vec<Margin>, AdviceError> {
    if answer == Answer::Incomplete {
        return Ok(Vec::new());
    }
    let mut margins = Vec::new();
    for (quantity, path, value) in quantities(setting) {
        let name = path.map(|path| setting.path_name(path));
        let of = name.as_deref().map_or(String::new(), |name| format!(" of {name}"));
        setting.begin(&format!("measuring how far the {}{of} may change", quantity.noun()));
        let pays = |value: f64| -> Result<bool, AdviceError> {
            let changes = [quantity.assignment(path, value)];
            let comparison =
                setting.compare(core::slice::from_ref(best), found.start, RUNS, SEED, &changes)?;
            let row = comparison.rows.iter().find(|row| row.scheduler == best.name);
            let complete = row.is_some_and(|row| row.completed == row.n);
            let difference =
                row.and_then(|row| row.vs_reference_pct).map_or(0.0, |difference| difference.mean);
            Ok(complete && if setting.bulk { difference > 0.0 } else { difference < 0.0 })
        };
        // A topology that is not a list of paths has no such keys.
        let here = match pays(value) {
            Ok(here) => here,
            Err(AdviceError::Scenario(_)) => continue,
            Err(error) => return Err(error),
        };
        let below = match quantity {
            Quantity::Loss => None,
            _ => limit(value, 0.5, here, &pays)?,
        };
        let above = limit(value, 2.0, here, &pays)?;
        margins.push(Margin { quantity, path: name, value, below, above });
    }
    Ok(margins)
}

/// The nearest value at which the answer is another one, in steps of `factor` and then by bisection.
fn limit(
    value: f64,
    factor: f64,
    here: bool,
    pays: &dyn Fn(f64) -> Result<bool, AdviceError>,
) -> Result<Option<f64>, AdviceError> {
    let mut near = value;
    loop {
        let far = near * factor;
        if far > value * WIDEST * 1.01 || far < value / WIDEST / 1.01 {
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

/// What can change, and its present value.
fn quantities(setting: &Setting<'_>) -> Vec<(Quantity, Option<usize>, f64)> {
    let experiment = &setting.condition().experiment;
    let mut all = Vec::new();
    for (position, path) in experiment.paths().iter().enumerate() {
        let link = experiment.own_link(path);
        if let Capacity::Rate(rate) = link.config.capacity {
            all.push((Quantity::Rate, Some(position), rate.as_bps_f64()));
        }
        let rtt = experiment.rtt(position).as_secs_f64();
        if rtt > 0.0 {
            all.push((Quantity::Rtt, Some(position), rtt));
        }
        match link.config.loss {
            // From no loss the search begins at one packet in four thousand.
            Loss::None => all.push((Quantity::Loss, Some(position), 0.00025)),
            Loss::Bernoulli(loss) if loss > 0.0 && loss * WIDEST < 1.0 => {
                all.push((Quantity::Loss, Some(position), loss));
            }
            Loss::Bernoulli(_) | Loss::GilbertElliott(_) => {}
        }
    }
    if let FlowSize::Fixed(size) = experiment.traffic.size {
        all.push((Quantity::Size, None, size.0 as f64));
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

    /// The change of a scenario that gives it `value`.
    fn assignment(self, path: Option<usize>, value: f64) -> String {
        let number = path.map_or(0, |path| path + 1);
        match self {
            Quantity::Rate => format!("path.{number}.rate={value:.0} bit/s"),
            Quantity::Rtt => format!("path.{number}.rtt={:.0} ns", value * 1e9),
            Quantity::Loss => format!("path.{number}.loss={}", (value * 1e7).round() / 1e7),
            Quantity::Size => format!("traffic.size={value:.0} B"),
        }
    }
}
