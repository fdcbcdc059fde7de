//! The value of each measure in a run.

use core::net::IpAddr;

use anabranch_lab::run::{Class, FlowResult, RunResult};
use anabranch_stack::stats::SubflowCounters;
use anabranch_units::Rate;

use crate::metric::{Metric, Quantity};
use crate::observe::{BIN, Flow, Mean, OnPath, Watch};

/// A run to be measured.
pub(crate) struct Ran<'a> {
    pub(crate) result: &'a RunResult,
    pub(crate) watch: Option<&'a Watch>,
    pub(crate) bulk: bool,
    /// True if the server sends the data.
    pub(crate) download: bool,
}

/// Returns the mean of the values of flows.
fn mean<'a>(flows: impl Iterator<Item = &'a FlowResult>, value: impl Fn(&FlowResult) -> f64) -> f64 {
    let (sum, count) = flows.fold((0.0, 0.0), |(sum, count), flow| (sum + value(flow), count + 1.0));
    sum / count
}

/// Returns the value of a measure of a run; NaN if it has none.
pub(crate) fn value(metric: Metric, ran: &Ran<'_>) -> f64 {
    let &Ran { result, watch, bulk, download } = ran;
    let class = if metric.beside { Class::Beside } else { Class::Contender };
    let flows = || result.flows.iter().filter(move |flow| flow.class == class);
    let sum = |value: &dyn Fn(&FlowResult) -> f64| flows().map(value).sum::<f64>();
    let count = |n: u64| n as f64;
    let segments = |flow: &FlowResult| match metric.path {
        None => count(flow.report.data_segments),
        Some(path) => {
            by_path(flow, download, &|own| own.data_segments_sent).get(path).copied().unwrap_or(0.0)
        }
    };
    let counted = |counter: &dyn Fn(&SubflowCounters) -> u64| {
        let of = |flow: &FlowResult| {
            let all = by_path(flow, download, counter);
            metric.path.map_or(all.iter().sum(), |path| all.get(path).copied().unwrap_or(0.0))
        };
        sum(&of)
    };
    match metric.quantity {
        Quantity::Done => mean(flows(), |flow| flow.time.as_secs_f64() * 1e3),
        Quantity::Acked => mean(flows(), |flow| flow.report.acked.unwrap_or(flow.time).as_secs_f64() * 1e3),
        Quantity::Goodput => goodput(metric, flows(), result, watch, bulk),
        Quantity::Share => {
            let own = sum(&|flow| {
                count(flow.report.bytes_by_path.get(metric.path.unwrap_or(0)).copied().unwrap_or(0))
            });
            100.0 * own / sum(&|flow| count(flow.report.bytes_by_path.iter().sum()))
        }
        Quantity::Used => mean(flows(), |flow| f64::from(flow.report.subflows_used)),
        Quantity::Segments => mean(flows(), segments),
        Quantity::Most => mean(flows(), |flow| {
            by_path(flow, download, &|own| own.data_segments_sent).into_iter().fold(0.0, f64::max)
        }),
        Quantity::Repeated => match metric.path {
            // On the same subflow or another one.
            None => {
                let again =
                    |flow: &FlowResult| count(flow.report.retransmitted_segments + flow.reinjected_segments);
                100.0 * sum(&again) / sum(&|flow| count(flow.report.data_segments))
            }
            Some(_) => {
                100.0 * counted(&|own| own.segments_retransmitted + own.segments_reinjected) / sum(&segments)
            }
        },
        Quantity::Lost => 100.0 * counted(&|own| own.segments_lost) / sum(&segments),
        Quantity::Timeouts => match metric.path {
            None => mean(flows(), |flow| count(flow.report.rto_count)),
            Some(_) => counted(&|own| own.timeouts) / flows().count() as f64,
        },
        Quantity::Opportunistic => mean(flows(), |flow| {
            let connection = flow.report.sender.connection.unwrap_or_default();
            count(connection.opportunistic_retransmissions)
        }),
        Quantity::Penalisations => {
            mean(flows(), |flow| count(flow.report.sender.connection.unwrap_or_default().penalisations))
        }
        Quantity::Jain => {
            let rate = |flow: &FlowResult| flow.goodput().as_bps_f64();
            let sum: f64 = result.flows.iter().map(rate).sum();
            let squares: f64 = result.flows.iter().map(|flow| rate(flow).powi(2)).sum();
            sum * sum / (result.flows.len() as f64 * squares)
        }
        Quantity::Unfinished => sum(&|flow| f64::from(!bulk && flow.report.fct.is_none())),
        // Relative to others: first the goodput.
        Quantity::Benefit | Quantity::Degraded => {
            goodput(Metric { quantity: Quantity::Goodput, ..metric }, flows(), result, watch, bulk)
        }
        _ => observed(metric, result, watch, class),
    }
}

/// Returns a counter of the sender's subflows on each path, which is an interface of the client.
fn by_path(flow: &FlowResult, download: bool, counter: &dyn Fn(&SubflowCounters) -> u64) -> Vec<f64> {
    let mut segments = vec![0.0; flow.report.bytes_by_path.len()];
    for subflow in &flow.report.sender.subflows {
        let client = match download {
            false => Some(subflow),
            true => flow.report.receiver.subflows.iter().find(|other| other.local == subflow.remote),
        };
        if let Some(slot) = client.and_then(|client| segments.get_mut(usize::from(client.path.0))) {
            *slot += counter(&subflow.counters) as f64;
        }
    }
    segments
}

/// Returns the goodput in Mbit/s: of bulk flows their sum, of others their mean.
fn goodput<'a>(
    metric: Metric,
    flows: impl Iterator<Item = &'a FlowResult> + Clone,
    result: &RunResult,
    watch: Option<&Watch>,
    bulk: bool,
) -> f64 {
    let rates: Vec<f64> = match (metric.span, watch) {
        (Some((from, to)), Some(watch)) => {
            let class = if metric.beside { Class::Beside } else { Class::Contender };
            let seen = of_class(result, watch, class);
            let bytes = |flow: &Flow, paths: &[IpAddr]| {
                let on = flow.paths.iter().filter(|(ip, _)| {
                    metric.path.is_none_or(|path| paths.get(path).is_some_and(|own| own == *ip))
                });
                let bins = |on: &OnPath| {
                    let (from, to) = ((from / BIN).round() as usize, (to / BIN).round() as usize);
                    on.bins.iter().take(to).skip(from).sum::<u64>()
                };
                on.map(|(_, on)| bins(on)).sum::<u64>() as f64
            };
            seen.map(|(flow, paths)| bytes(flow, &paths) * 8e-6 / (to - from)).collect()
        }
        _ => flows
            .map(|flow| {
                let bytes = match metric.path {
                    None => flow.report.delivered,
                    Some(path) => flow.report.bytes_by_path.get(path).copied().unwrap_or(0),
                };
                Rate::from_bytes_over(bytes, flow.time).as_bps_f64() * 1e-6
            })
            .collect(),
    };
    let sum: f64 = rates.iter().sum();
    if bulk { sum } else { sum / rates.len() as f64 }
}

/// Returns the observations of the flows of a class, each with the addresses of its client's interfaces.
fn of_class<'a>(
    result: &'a RunResult,
    watch: &'a Watch,
    class: Class,
) -> impl Iterator<Item = (&'a Flow, Vec<IpAddr>)> {
    let flows = result.flows.iter().zip(&watch.flows).filter(move |(flow, _)| flow.class == class);
    flows.map(|(flow, seen)| (seen, addresses(flow, watch.download)))
}

/// Returns the addresses of the paths of a flow, which are the addresses of its client's interfaces.
pub(crate) fn addresses(flow: &FlowResult, download: bool) -> Vec<IpAddr> {
    let client = if download { &flow.report.receiver } else { &flow.report.sender };
    let mut paths = vec![IpAddr::from([0, 0, 0, 0]); flow.report.bytes_by_path.len()];
    for subflow in &client.subflows {
        if let Some(slot) = paths.get_mut(usize::from(subflow.path.0)) {
            *slot = subflow.local.ip;
        }
    }
    paths
}

/// Returns the bytes of a full segment.
pub(crate) fn segment(result: &RunResult) -> f64 {
    let own = result.flows.iter().flat_map(|flow| flow.report.sender.subflows.first());
    f64::from(own.map(|subflow| subflow.mss).max().unwrap_or(1400))
}

/// Returns the value of a measure that was observed.
fn observed(metric: Metric, result: &RunResult, watch: Option<&Watch>, class: Class) -> f64 {
    let Some(watch) = watch else { return f64::NAN };
    let mss = segment(result);
    let mut all = Mean::default();
    let mut add = |mean: &Mean| {
        all.sum += mean.sum;
        all.weight += mean.weight;
        all.most = all.most.max(mean.most);
    };
    let (mut srtts, mut pauses) = ([f64::NAN; 2], 0.0);
    for (flow, paths) in of_class(result, watch, class) {
        match metric.quantity {
            Quantity::Interval => add(&flow.interval),
            Quantity::Gap => add(&flow.gap(metric.span)),
            Quantity::Jump => add(&flow.jump),
            Quantity::Guard => add(&flow.guard),
            Quantity::Pauses => pauses += flow.pauses(),
            _ => {}
        }
        for (place, ip) in paths.iter().enumerate() {
            let Some(on) = flow.paths.get(ip) else { continue };
            if place < 2 {
                srtts[place] = on.srtt.get();
            }
            if metric.path.is_some_and(|path| path != place) {
                continue;
            }
            match metric.quantity {
                Quantity::Wait | Quantity::WaitMost => add(&on.wait),
                Quantity::Latency => add(&on.latency),
                Quantity::Srtt => add(&on.srtt),
                Quantity::Window | Quantity::WindowMost => add(&on.window),
                Quantity::Free => add(&on.free),
                Quantity::Burst => add(&on.burst),
                _ => {}
            }
        }
    }
    match metric.quantity {
        Quantity::SrttGap => 1e3 * (srtts[1] - srtts[0]),
        Quantity::WaitMost => 1e3 * all.most,
        Quantity::WindowMost => all.most / mss,
        Quantity::Window | Quantity::Free | Quantity::Jump => all.get() / mss,
        Quantity::Gap | Quantity::Burst => all.get(),
        Quantity::Pauses => pauses,
        _ => 1e3 * all.get(),
    }
}

#[cfg(test)]
#[path = "value_tests.rs"]
mod tests;
