//! Predictions of DMPTCP's transfer model, as contenders next to a simulated TCP.
//!
//! `model` is the model as its equations 2 and 3 have it: a round takes a round trip, and the time that the link needs for
//! its window and for the acknowledgements of it. `model, rounds` is the use that the scheduler makes of it: every round takes a
//! round trip. `model, rate` is a corrected reading, ours: a round takes at least as long as the link needs for its window.
//! None knows of losses in a full queue or of timeouts that are longer than a round.

use anabranch_lab::scenario::{Condition, FlowSize, Scenario};
use anabranch_link::Loss;
use anabranch_stack::transfer_model::{PathState, TransferModel};

use crate::metric::Quantity;
use crate::values::{Values, Wanted};

/// Bytes of the headers of a segment: IP, TCP with timestamps.
const HEADERS: f64 = 52.0;
/// Rounds after which the model has surely delivered everything.
const MOST_ROUNDS: u32 = 100_000;

/// Bytes of an acknowledgement (`sk_size`), and the segments that one acknowledges (`b`).
const ACK: f64 = 52.0;
const ACKED: f64 = 2.0;

/// The time of a round.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Round {
    /// Equation 3's second line: `RTT + (CW ck_size + CW / b sk_size) / BW`.
    Equation3,
    /// A round trip.
    Trip,
    /// A round trip, or the time that the link needs if it is longer.
    AtRate,
}

impl Round {
    const ALL: [(&'static str, Round); 3] =
        [("model", Round::Equation3), ("model, rounds", Round::Trip), ("model, rate", Round::AtRate)];

    fn of(name: &str) -> Option<Round> {
        Round::ALL.iter().find(|(own, _)| *own == name).map(|(_, round)| *round)
    }

    /// Returns the time of a round of `segments` that take `span` each on the link, and of its acknowledgements.
    fn time(self, rtt: f64, span: f64, segments: f64, bandwidth: f64) -> f64 {
        match self {
            Round::Equation3 => rtt + span * segments + segments / ACKED * ACK * 8.0 / bandwidth,
            Round::Trip => rtt,
            Round::AtRate => rtt.max(span * segments),
        }
    }
}

/// True if `name` is a contender of this module.
pub(crate) fn is_name(name: &str) -> bool {
    Round::of(name).is_some()
}

/// Adds the predictions that are wanted, one for each run: they do not differ.
pub(crate) fn predict(scenario: &Scenario, wanted: &Wanted, values: &mut Values) {
    let models = wanted.contenders.iter().filter_map(|name| Some((name, Round::of(name)?)));
    for (name, round) in models {
        for condition in &scenario.conditions {
            let course = Course::of(condition, round);
            for metric in &wanted.metrics {
                let value = course.as_ref().map_or(f64::NAN, |course| match (metric.quantity, metric.span) {
                    (Quantity::Done, None) => 1e3 * course.end(),
                    (Quantity::Goodput, None) => 8e-6 * course.bytes / course.end(),
                    (Quantity::Goodput, Some((from, to))) => {
                        8e-6 * (course.delivered(to) - course.delivered(from)) / (to - from)
                    }
                    _ => f64::NAN,
                });
                let own = values.entry(name.clone()).or_default().entry(metric.to_string()).or_default();
                own.extend((0..scenario.runs).map(|_| value));
            }
        }
    }
}

/// A transfer by the model.
struct Course {
    /// The size of the flow.
    bytes: f64,
    /// The seconds from the SYN, and the bytes that have arrived by then: at the begin of the first round's arrivals,
    /// and at the end of each round's arrivals.
    points: Vec<(f64, f64)>,
}

impl Course {
    /// Returns the transfer of a condition; none for flows without a size.
    fn of(condition: &Condition, round: Round) -> Option<Course> {
        let FlowSize::Fixed(size) = condition.experiment.traffic.size else { return None };
        let path = condition.experiment.paths().first()?;
        let rtt = condition.experiment.shortest_rtt().as_secs_f64();
        let link = condition.experiment.own_link(path);
        let config = &condition.base;
        let loss = match link.config.loss {
            Loss::None => 0.0,
            Loss::Bernoulli(loss) => loss,
            Loss::GilbertElliott(_) => return None,
        };
        let start = PathState { cwnd: config.initial_window, ssthresh: config.initial_ssthresh, loss };
        let bytes = size.0 as f64;
        let segment = f64::from(config.mss);
        let segments = bytes / segment;
        let bandwidth = link.mean_rate().as_bps_f64();
        let span = (segment + HEADERS) * 8.0 / bandwidth;
        let model = TransferModel::default();
        let (mut delivered, mut time) = (0.0, rtt);
        let mut points = vec![(time + rtt / 2.0, 0.0)];
        for number in 1..MOST_ROUNDS {
            let after = model.delivered(start, f64::from(number), segments + 1.0);
            if after >= segments {
                // The last round arrives half a round trip after it began, and the link needs its time.
                let rest = match round {
                    Round::Trip => 0.0,
                    Round::Equation3 | Round::AtRate => span * (segments - delivered),
                };
                points.push((time + rest + rtt / 2.0, bytes));
                return Some(Course { bytes, points });
            }
            time += round.time(rtt, span, after - delivered, bandwidth);
            delivered = after;
            points.push((time + rtt / 2.0, delivered * segment));
        }
        None
    }

    /// Returns the seconds from the SYN to the last byte.
    fn end(&self) -> f64 {
        self.points.last().map_or(f64::NAN, |(time, _)| *time)
    }

    /// Returns the bytes that have arrived at a time, evenly over each round.
    fn delivered(&self, time: f64) -> f64 {
        let after = self.points.partition_point(|(end, _)| *end <= time);
        match (after.checked_sub(1).map(|at| self.points[at]), self.points.get(after)) {
            (None, _) => 0.0,
            (Some((_, bytes)), None) => bytes,
            (Some((from, bytes)), Some((to, more))) => bytes + (more - bytes) * (time - from) / (to - from),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A window of 10 segments of 1000 bytes with headers, at 1 Mbit/s, and five acknowledgements of 52 bytes.
    #[test]
    fn a_round_of_equation_3_has_a_round_trip_and_the_time_of_its_window() {
        let time = |round: Round, rtt| round.time(rtt, 0.008, 10.0, 1e6);
        assert!((time(Round::Equation3, 0.02) - (0.02 + 0.08 + 5.0 * 52.0 * 8e-6)).abs() < 1e-12);
        assert_eq!((time(Round::Trip, 0.02), time(Round::AtRate, 0.02)), (0.02, 0.08));
        assert_eq!(time(Round::AtRate, 0.2), 0.2);
    }

    #[test]
    fn bytes_arrive_evenly_over_a_round_and_none_after_the_last() {
        let course = Course { bytes: 30.0, points: vec![(1.0, 0.0), (2.0, 10.0), (4.0, 30.0)] };
        let at = [0.5, 1.0, 1.5, 3.0, 4.0, 9.0].map(|time| course.delivered(time));
        assert_eq!((at, course.end()), ([0.0, 0.0, 5.0, 20.0, 30.0, 30.0], 4.0));
    }
}
