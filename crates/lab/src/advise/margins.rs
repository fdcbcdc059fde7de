//! How far a quantity of the setting may change before Multipath TCP pays no more, or begins to pay.

use serde::Serialize;

use super::search::{Found, Setting};
use super::{AdviceError, Answer, Candidate};
use crate::compare::Comparison;
use crate::report::Record;
use crate::scenario::FlowSize;
use crate::stats::Interval;

use anabranch_link::{Capacity, Loss};

/// Runs at one value, a stage after the other until the answer is clear.
const STAGES: [Stage; 3] = [
    Stage { runs: 10, seed: 0x33aa_917d, widening: 1.4 },
    Stage { runs: 40, seed: 0x4c07_d2e9, widening: 1.2 },
    Stage { runs: 120, seed: 0x7be1_035b, widening: 1.0 },
];
/// The most segments of one contender in a later stage; longer flows get fewer runs.
const MOST_SEGMENTS: f64 = 1_500_000.0;
const SEGMENT_BYTES: f64 = 1448.0;
/// The search goes to this factor in either direction.
const WIDEST: f64 = 8.0;
/// The search for a greater loss begins here on a path without loss: one packet in four thousand.
const LEAST_LOSS: f64 = 0.00025;
/// It goes at least as far as this loss.
const WIDEST_LOSS: f64 = 0.05;
/// A clear limit is known within this factor, which is 2^(1/8) (and a little more, so that three bisections of 2 suffice).
const FINE: f64 = 1.091;
/// The ends of a range of values without a clear answer are known within 2^(1/4).
const COARSE: f64 = 1.19;

/// One size of sample at a value.
struct Stage {
    runs: u32,
    seed: u64,
    /// The interval is widened by this factor, as a search looks at many values and an early stage is not the last word.
    widening: f64,
}

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
    /// The size of the flows, in bytes.
    Size,
}

/// How far a quantity may change.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Margin {
    /// The quantity that changes.
    pub quantity: Quantity,
    /// The path; none for the size of the flows.
    pub path: Option<String>,
    /// The value of the setting, in bit/s, seconds, a share of packets, or bytes; 0 for a path without loss.
    pub value: f64,
    /// The greatest value below it at which the answer is clearly another one; none within an eighth.
    pub below: Option<f64>,
    /// The least value above it at which the answer is clearly another one; none within eight times, for a loss within 5 % if
    /// that is more.
    pub above: Option<f64>,
    /// The least value below it down to which the answer clearly holds; none if it holds in the whole range. Between this
    /// value and `below` (where that is none, the end of the range) the runs cannot tell, if they are more than 9 % apart. For a
    /// path without loss, 0 and the least loss that is tried are neighbours.
    pub holds_down_to: Option<f64>,
    /// The greatest value above it up to which the answer clearly holds; none if it holds in the whole range.
    pub holds_up_to: Option<f64>,
}

/// How far the setting may change in one direction before the answer does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum MarginEnd {
    /// The answer is another one beyond this value, known within 9 %.
    Clear(f64),
    /// The answer holds up to the first value and is another one from the second one; between them the runs cannot tell.
    Between(f64, f64),
    /// The answer holds up to this value; beyond it the runs cannot tell.
    Open(f64),
}

impl Margin {
    /// Returns the end below the present value; none if the answer holds in the whole range.
    pub fn end_below(&self) -> Option<MarginEnd> {
        MarginEnd::new(self.holds_down_to, self.below)
    }

    /// Returns the end above the present value; none if the answer holds in the whole range.
    pub fn end_above(&self) -> Option<MarginEnd> {
        MarginEnd::new(self.holds_up_to, self.above)
    }
}

impl MarginEnd {
    fn new(holds: Option<f64>, other: Option<f64>) -> Option<MarginEnd> {
        Some(match (holds?, other) {
            (holds, None) => MarginEnd::Open(holds),
            // A path without loss is compared with the least loss that is tried.
            (0.0, Some(other)) if other == LEAST_LOSS => MarginEnd::Clear(other),
            (holds, Some(other)) if apart(holds, other) < FINE => MarginEnd::Clear(other),
            (holds, Some(other)) => MarginEnd::Between(holds, other),
        })
    }
}

/// A quantity that can change.
struct Range {
    quantity: Quantity,
    path: Option<usize>,
    value: f64,
    /// The rate against the direction of the data, as a multiple of the other one.
    back: f64,
}

/// The answer at a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Probe {
    /// The answer at the present values.
    Same,
    Other,
    /// The runs cannot tell.
    Unclear,
}

/// The last value at which the answer clearly holds, and the first one at which it is clearly another one.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Limit {
    /// None if the answer holds in the whole range.
    holds: Option<f64>,
    other: Option<f64>,
}

type Probing<'a> = &'a dyn Fn(f64) -> Result<Probe, AdviceError>;

/// Returns the margins around an answer; none if it is not clear. At a value Multipath TCP pays if the judgement would say so
/// of the best candidate: with an advantage that is certain and that a user would call a gain.
pub(super) fn margins(
    setting: &Setting<'_>,
    found: &Found,
    best: &Candidate,
    answer: Answer,
) -> Result<Vec<Margin>, AdviceError> {
    if matches!(answer, Answer::Incomplete | Answer::Undecided) {
        return Ok(Vec::new());
    }
    let here = answer == Answer::Pays;
    let mut margins = Vec::new();
    for range in ranges(setting) {
        let Range { quantity, path, value, .. } = range;
        let name = path.map(|path| setting.path_name(path));
        let of = name.as_deref().map_or(String::new(), |name| format!(" of {name}"));
        setting.begin(&format!("measuring how far the {}{of} may change", quantity.noun()));
        let probe = |value: f64| {
            let pays = pays(setting, found, best, &[range.assignment(value)])?;
            Ok(pays.map_or(Probe::Unclear, |pays| if pays == here { Probe::Same } else { Probe::Other }))
        };
        // A topology that is not a list of paths has no such keys.
        match range.limits(&probe) {
            Ok((below, above)) => margins.push(Margin {
                quantity,
                path: name,
                value,
                below: below.other,
                above: above.other,
                holds_down_to: below.holds,
                holds_up_to: above.holds,
            }),
            Err(AdviceError::Scenario(_)) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(margins)
}

/// True if the candidate pays after `changes`; none if the runs of all stages cannot tell.
fn pays(
    setting: &Setting<'_>,
    found: &Found,
    best: &Candidate,
    changes: &[String],
) -> Result<Option<bool>, AdviceError> {
    let mut done: Option<Comparison> = None;
    for stage in &STAGES {
        let runs = stage.runs_after(done.as_ref());
        let is_futile = |before: &Comparison| {
            runs < 2 * before.runs
                || stage.is_futile(
                    before.runs,
                    setting.row(before, &best.name),
                    setting.bulk,
                    setting.least_gain_pct(before),
                )
        };
        if done.as_ref().is_some_and(is_futile) {
            continue;
        }
        let plan = found.plan(core::slice::from_ref(best), runs, stage.seed);
        let comparison = setting.compare(&plan, changes)?;
        let row = setting.row(&comparison, &best.name).filter(|row| row.completed == row.n);
        let Some(row) = row else { return Ok(Some(false)) };
        let pays = stage.pays(row, setting.bulk, setting.least_gain_pct(&comparison));
        if pays.is_some() {
            return Ok(pays);
        }
        done = Some(comparison);
    }
    Ok(None)
}

/// Returns the number of runs that later stages can have, from the length of the flows.
fn affordable_runs(comparison: &Comparison) -> u32 {
    let bytes = comparison.rows.iter().map(|row| row.bytes_by_path.iter().sum::<u64>()).max().unwrap_or(0);
    let segments = bytes as f64 / SEGMENT_BYTES / f64::from(comparison.runs);
    (MOST_SEGMENTS / segments.max(1.0)) as u32
}

impl Stage {
    /// Returns the number of runs after the runs of another stage, which show the length of the flows.
    fn runs_after(&self, before: Option<&Comparison>) -> u32 {
        before.map_or(self.runs, |before| self.runs.min(affordable_runs(before)))
    }

    /// True if this stage, which is not the last one, would not be clear with the mean and the spread of the runs before.
    fn is_futile(&self, runs: u32, before: Option<&Record>, bulk: bool, least_pct: f64) -> bool {
        let difference = before.and_then(|row| row.vs_reference_pct);
        let Some((difference, interval)) = difference.and_then(|one| Some((one, one.ci95?))) else {
            return false;
        };
        let narrower = (f64::from(runs) / f64::from(self.runs)).sqrt();
        let gain = if bulk { difference.mean } else { -difference.mean };
        let distance = (gain - least_pct).abs();
        self.widening > 1.0 && distance < self.widening * narrower * interval.half_width()
    }

    /// True if the row has an advantage over TCP that is certain and matters; none if these runs cannot tell.
    fn pays(&self, row: &Record, bulk: bool, least_pct: f64) -> Option<bool> {
        let Some(difference) = row.vs_reference_pct else { return Some(false) };
        let interval = difference.ci95?;
        let side = if bulk { 1.0 } else { -1.0 };
        let (mean, ends) = (side * difference.mean, [side * interval.0, side * interval.1]);
        let wide = |end: f64| mean + self.widening * (end - mean);
        let gain = Interval(wide(ends[0].min(ends[1])), wide(ends[0].max(ends[1])));
        if gain.1 < least_pct || gain.1 <= 0.0 {
            return Some(false);
        }
        if gain.0 >= least_pct && gain.0 > 0.0 {
            return Some(true);
        }
        // The last stage is read as the judgement is: the sign is certain, and the mean is enough.
        if self.widening > 1.0 || gain.contains(0.0) {
            return None;
        }
        Some(gain.0 > 0.0 && mean >= least_pct)
    }
}

impl Range {
    /// Returns the limits below and above the present value.
    fn limits(&self, probe: Probing<'_>) -> Result<(Limit, Limit), AdviceError> {
        let is_loss = self.quantity == Quantity::Loss;
        if is_loss && self.value == 0.0 {
            return Ok((Limit::default(), limit_above_zero(probe)?));
        }
        let widest = self.value * WIDEST;
        let widest = if is_loss { widest.max(WIDEST_LOSS) } else { widest };
        let below = Search::new(self.value, 0.5, self.value / WIDEST).limit(probe)?;
        Ok((below, Search::new(self.value, 2.0, widest).limit(probe)?))
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

/// Returns the limit of the loss of a path that has none.
fn limit_above_zero(probe: Probing<'_>) -> Result<Limit, AdviceError> {
    let mut search = Search::new(LEAST_LOSS, 2.0, WIDEST_LOSS);
    match probe(LEAST_LOSS)? {
        Probe::Same => {}
        Probe::Other => return Ok(Limit { holds: Some(0.0), other: Some(LEAST_LOSS) }),
        Probe::Unclear => {
            search.near = 0.0;
            search.unclear = Some((LEAST_LOSS, LEAST_LOSS));
        }
    }
    search.limit(probe)
}

/// The search for a limit in one direction.
struct Search {
    /// Where the search begins.
    begin: f64,
    factor: f64,
    widest: f64,
    /// The last value with the same answer.
    near: f64,
    /// The nearest and the farthest value without a clear answer between `near` and `far`.
    unclear: Option<(f64, f64)>,
    /// The first value with another answer.
    far: Option<f64>,
}

impl Search {
    fn new(value: f64, factor: f64, widest: f64) -> Search {
        Search { begin: value, factor, widest, near: value, unclear: None, far: None }
    }

    /// Returns the limit: in steps of the factor up to one with another answer, and then by bisection on a logarithmic scale.
    fn limit(mut self, probe: Probing<'_>) -> Result<Limit, AdviceError> {
        let mut at = self.begin;
        // The last step is shorter where `widest` is no power of the factor.
        while self.far.is_none() && apart(at, self.widest) > 1.01 {
            at *= self.factor;
            if !self.is_beyond(self.widest, at) {
                at = self.widest;
            }
            self.add(at, probe(at)?);
        }
        while let Some(middle) = self.middle() {
            self.add(middle, probe(middle)?);
        }
        let changes = self.far.is_some() || self.unclear.is_some();
        Ok(Limit { holds: changes.then_some(self.near), other: self.far })
    }

    /// True if `one` is farther from the present value than `other`.
    fn is_beyond(&self, one: f64, other: f64) -> bool {
        if self.factor > 1.0 { one > other } else { one < other }
    }

    /// Takes the answer at `value` into account.
    fn add(&mut self, value: f64, answer: Probe) {
        match (answer, self.unclear) {
            (Probe::Same, unclear) => {
                self.near = value;
                self.unclear = unclear.filter(|(first, _)| self.is_beyond(*first, value));
            }
            (Probe::Other, unclear) => {
                self.far = Some(value);
                self.unclear = unclear.filter(|(_, last)| self.is_beyond(value, *last));
            }
            (Probe::Unclear, None) => self.unclear = Some((value, value)),
            (Probe::Unclear, Some((first, last))) => {
                self.unclear = Some(match self.is_beyond(value, last) {
                    true => (first, value),
                    false => (value, last),
                });
            }
        }
    }

    /// Returns the next value to try; none if the limit is known well enough.
    fn middle(&self) -> Option<f64> {
        let gaps = match (self.unclear, self.far) {
            (None, None) => return None,
            (None, Some(far)) => [Some((self.near, far, FINE)), None],
            (Some((first, last)), far) => {
                [Some((self.near, first, COARSE)), far.map(|far| (last, far, COARSE))]
            }
        };
        let wide = |(one, other, within): &(f64, f64, f64)| *one > 0.0 && apart(*one, *other) > *within;
        gaps.into_iter().flatten().find(wide).map(|(one, other, _)| (one * other).sqrt())
    }
}

/// Returns the factor between two values, at least 1.
fn apart(one: f64, other: f64) -> f64 {
    (one / other).max(other / one)
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
    if let (FlowSize::Fixed(size), None) = (&experiment.traffic.size, &setting.class) {
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
#[path = "margins_tests.rs"]
mod rules;
#[cfg(test)]
mod tests {
    use super::*;

    /// Returns an answer that is the same up to `holds`, another one from `other`, and unclear between them.
    fn probe(factor: f64, holds: f64, other: f64) -> impl Fn(f64) -> Result<Probe, AdviceError> {
        let reaches = move |value: f64, edge: f64| if factor > 1.0 { value >= edge } else { value <= edge };
        move |value| {
            Ok(match (reaches(value, other), reaches(value, holds)) {
                (true, _) => Probe::Other,
                (false, true) => Probe::Unclear,
                (false, false) => Probe::Same,
            })
        }
    }

    fn limit(factor: f64, widest: f64, probe: Probing<'_>) -> Limit {
        Search::new(100.0, factor, widest).limit(probe).unwrap()
    }

    #[test]
    fn a_limit_is_the_first_value_with_the_other_answer_within_nine_percent() {
        for (edge, factor, widest) in [(300.0, 2.0, 800.0), (30.0, 0.5, 12.5)] {
            let probe = probe(factor, edge, edge);
            let found = limit(factor, widest, &probe);
            let (holds, other) = (found.holds.unwrap(), found.other.unwrap());
            assert_eq!((probe(holds).unwrap(), probe(other).unwrap()), (Probe::Same, Probe::Other));
            assert!(apart(other, edge) < 1.092 && apart(holds, other) < 1.092, "{holds} {other} for {edge}");
            assert_eq!(MarginEnd::new(found.holds, found.other), Some(MarginEnd::Clear(other)));
        }
        assert_eq!(limit(2.0, 800.0, &|_| Ok(Probe::Same)), Limit::default());
        // The last value is tried.
        assert!(limit(2.0, 800.0, &probe(2.0, 750.0, 750.0)).other.is_some());
    }

    #[test]
    fn where_runs_cannot_tell_the_limit_is_from_the_last_to_the_first_clear_value() {
        for (holds, other, factor, widest) in [(150.0, 350.0, 2.0, 800.0), (60.0, 20.0, 0.5, 12.5)] {
            let found = limit(factor, widest, &probe(factor, holds, other));
            let (last, first) = (found.holds.unwrap(), found.other.unwrap());
            assert!(apart(last, holds) < COARSE && apart(first, other) < COARSE, "{last} {first}");
            assert_eq!(MarginEnd::new(found.holds, found.other), Some(MarginEnd::Between(last, first)));
        }
        // Up to the end of the range.
        let found = limit(2.0, 800.0, &probe(2.0, 500.0, f64::INFINITY));
        let last = found.holds.unwrap();
        assert!(apart(last, 500.0) < COARSE && found.other.is_none());
        assert_eq!(MarginEnd::new(found.holds, found.other), Some(MarginEnd::Open(last)));
        // From the present value.
        let found = limit(2.0, 800.0, &probe(2.0, 100.5, 130.0));
        assert_eq!(found.holds, Some(100.0));
        assert!((130.0..155.0).contains(&found.other.unwrap()), "{found:?}");
        // An unclear value before one at which the answer clearly holds is no limit.
        let gap = |value: f64| Ok(if value == 200.0 { Probe::Unclear } else { Probe::Same });
        assert_eq!(limit(2.0, 800.0, &gap), Limit::default());
    }

    #[test]
    fn losses_are_tried_from_none_to_five_percent_and_below_the_present_one() {
        let loss = |value| Range { quantity: Quantity::Loss, path: Some(0), value, back: 1.0 };
        let (below, above) = loss(0.0).limits(&probe(2.0, 0.0001, 0.0001)).unwrap();
        assert_eq!((below, above), (Limit::default(), Limit { holds: Some(0.0), other: Some(LEAST_LOSS) }));
        assert_eq!(MarginEnd::new(above.holds, above.other), Some(MarginEnd::Clear(LEAST_LOSS)));
        let above = loss(0.0).limits(&probe(2.0, 0.03, 0.03)).unwrap().1.other.unwrap();
        assert!((0.03..0.033).contains(&above), "{above}");
        // 5 % itself is tried, though it is no power of two of the first loss.
        let above = loss(0.0).limits(&probe(2.0, 0.049, 0.049)).unwrap().1.other.unwrap();
        assert!((0.049..=WIDEST_LOSS).contains(&above), "{above}");
        let above = loss(0.0).limits(&probe(2.0, 0.0001, 0.03)).unwrap().1;
        assert!(above.holds == Some(0.0) && (0.03..0.036).contains(&above.other.unwrap()), "{above:?}");
        let (below, above) = loss(0.04).limits(&probe(0.5, 0.0301, 0.03)).unwrap();
        assert!((0.027..=0.03).contains(&below.other.unwrap()) && above == Limit::default(), "{below:?}");
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
