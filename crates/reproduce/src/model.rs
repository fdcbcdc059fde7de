//! Predictions of DMPTCP's transfer model, as contenders beside a simulated TCP.
//!
//! `model` is the model as the scheduler uses it: every round takes a round trip. `model, rate` is a corrected
//! reading: a round takes at least as long as the link needs for its window. Neither knows of losses in a full
//! queue or of timeouts that are longer than a round.

use anabranch_lab::scenario::{Condition, FlowSize, Scenario};
use anabranch_link::Loss;
use anabranch_stack::transfer_model::{PathState, TransferModel};

use crate::measure::{Values, Wanted};
use crate::metric::Quantity;

/// Bytes of the headers of a segment: IP, TCP with timestamps.
const HEADERS: f64 = 52.0;
/// Rounds after which the model has surely delivered everything.
const MOST_ROUNDS: u32 = 100_000;

const PLAIN: &str = "model";
const AT_RATE: &str = "model, rate";

/// True if `name` is a contender of this module.
pub(crate) fn is_name(name: &str) -> bool {
    [PLAIN, AT_RATE].contains(&name)
}

/// Adds the predictions that are wanted, one for each run: they do not differ.
pub(crate) fn predict(scenario: &Scenario, wanted: &Wanted, values: &mut Values) {
    for name in wanted.contenders.iter().filter(|name| is_name(name)) {
        for condition in &scenario.conditions {
            let time = completion(condition, name == AT_RATE).unwrap_or(f64::NAN);
            for metric in &wanted.metrics {
                let value = if metric.quantity == Quantity::Done { 1e3 * time } else { f64::NAN };
                let own = values.entry(name.clone()).or_default().entry(metric.to_string()).or_default();
                own.extend((0..scenario.runs).map(|_| value));
            }
        }
    }
}

/// Returns the seconds from the SYN to the last byte by the model; none for flows without a size.
fn completion(condition: &Condition, at_rate: bool) -> Option<f64> {
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
    let segments = size.0 as f64 / f64::from(config.mss);
    let span = (f64::from(config.mss) + HEADERS) * 8.0 / link.mean_rate().as_bps_f64();
    let model = TransferModel::default();
    let (mut delivered, mut time) = (0.0, rtt);
    for round in 1..MOST_ROUNDS {
        let after = model.delivered(start, f64::from(round), segments + 1.0);
        if after >= segments {
            // The last round arrives half a round trip after it began.
            let rest = if at_rate { span * (segments - delivered) } else { 0.0 };
            return Some(time + rest + rtt / 2.0);
        }
        time += if at_rate { rtt.max(span * (after - delivered)) } else { rtt };
        delivered = after;
    }
    None
}
