//! A recorder of courses and distributions, for figures that show what happens within a run.

use core::net::IpAddr;
use std::collections::BTreeMap;

use anabranch_lab::run::{Class, RunResult};
use anabranch_sim::{FlowEvent, Recorder, Scope, Trace, Wants, What};
use anabranch_stack::event::SubflowId;
use anabranch_stack::observer::{LossReason, StackEvent, StackEvents, Windows};
use anabranch_stack::seq::Seq;
use anabranch_units::Time;

use crate::metric::{Metric, Quantity};
use crate::observe::{BIN, Watch};
use crate::take::{Columns, Form, Samples, Take, rounded};
use crate::value::{addresses, segment};

/// Observes all flows, and takes what is wanted.
#[derive(Clone, Debug)]
pub(crate) struct Taker {
    pub(crate) watch: Watch,
    takes: Vec<Take>,
    /// The courses by take, flow and path.
    courses: BTreeMap<(usize, usize, IpAddr), Columns>,
    /// The start of each flow.
    starts: Vec<Time>,
    /// The first sequence number of the data of each subflow.
    first: BTreeMap<(usize, SubflowId), Seq>,
    /// The last timeout of each subflow: it marks many segments lost.
    timeouts: BTreeMap<(usize, SubflowId), Time>,
}

impl Taker {
    /// Returns the recorder of `takes`, with the observations of `watch`.
    pub(crate) fn new(mut watch: Watch, takes: &[Take]) -> Taker {
        let is_wait = |take: &Take| take.form == Form::Samples && take.metric.quantity == Quantity::Wait;
        if takes.iter().any(is_wait) {
            watch.keep_waits();
        }
        Taker {
            starts: vec![Time::ZERO; watch.flows.len()],
            watch,
            takes: takes.to_vec(),
            courses: BTreeMap::new(),
            first: BTreeMap::new(),
            timeouts: BTreeMap::new(),
        }
    }

    /// Adds a value of a quantity to the courses of it.
    fn add(&mut self, now: Time, flow: usize, subflow: SubflowId, quantity: Quantity, value: f64) {
        let Some(path) = self.watch.flows[flow].path(subflow) else { return };
        let at = now.since(self.starts[flow]).as_secs_f64();
        for (number, take) in self.takes.iter().enumerate() {
            if let Form::Course { from, upto } = take.form
                && take.metric.quantity == quantity
            {
                let columns = self.courses.entry((number, flow, path));
                columns.or_insert_with(|| Columns::new(from, upto)).add(at, value);
            }
        }
    }

    fn on_stack(&mut self, now: Time, scope: Scope, event: &StackEvent<'_>) {
        let Some(flow) = self.watch.sent_by(scope) else { return };
        match *event {
            StackEvent::Sent { subflow, segment, data, .. } if segment.payload_len > 0 => {
                let first = *self.first.entry((flow, subflow)).or_insert(segment.seq);
                let offset = f64::from(segment.seq.0.wrapping_sub(first.0));
                self.add(now, flow, subflow, Quantity::Sequence, offset);
                self.add(now, flow, subflow, Quantity::Data, data.start as f64);
            }
            StackEvent::Windows { subflow, windows } => {
                let Windows { cwnd_bytes, inflight_bytes, srtt, .. } = *windows;
                self.add(now, flow, subflow, Quantity::Window, cwnd_bytes as f64);
                self.add(now, flow, subflow, Quantity::Flight, inflight_bytes as f64);
                let free = cwnd_bytes.saturating_sub(inflight_bytes);
                self.add(now, flow, subflow, Quantity::Free, free as f64);
                if let Some(srtt) = srtt {
                    self.add(now, flow, subflow, Quantity::Srtt, srtt.as_secs_f64());
                }
            }
            StackEvent::DataAcked { subflow, una, .. } => {
                self.add(now, flow, subflow, Quantity::DataAcked, una as f64);
            }
            StackEvent::Lost { subflow, reason: LossReason::Timeout, .. }
                if self.timeouts.insert((flow, subflow), now) != Some(now) =>
            {
                self.add(now, flow, subflow, Quantity::Timeouts, 1.0);
            }
            _ => {}
        }
    }

    /// Returns what was taken by the take at that place: times and values of a course, values and their numbers of
    /// a distribution. A bulk flow runs for `seconds`.
    pub(crate) fn taken(&self, number: usize, result: &RunResult, seconds: Option<f64>) -> Vec<f64> {
        let take = &self.takes[number];
        match take.form {
            Form::Course { from, upto } => self.course(number, result, upto - from),
            Form::Samples => self.samples(take.metric, result, seconds).flat(),
        }
    }

    /// Returns the flows of the class, each with the addresses of its paths.
    fn flows(&self, metric: Metric, result: &RunResult) -> Vec<(usize, Vec<IpAddr>)> {
        let class = if metric.beside { Class::Beside } else { Class::Contender };
        let known = result.flows.iter().take(self.watch.flows.len()).enumerate();
        let own = known.filter(|(_, flow)| flow.class == class);
        own.map(|(place, flow)| (place, addresses(flow, self.watch.download))).collect()
    }

    fn course(&self, number: usize, result: &RunResult, length: f64) -> Vec<f64> {
        let metric = self.takes[number].metric;
        let scale = match metric.quantity {
            Quantity::Window | Quantity::Flight | Quantity::Free => 1.0 / segment(result),
            Quantity::Srtt => 1e3,
            Quantity::Sequence | Quantity::Data | Quantity::DataAcked => 1e-3,
            _ => 1.0,
        };
        let mut flows = self.flows(metric, result);
        if metric.quantity != Quantity::Timeouts {
            flows.truncate(1);
        }
        let mut points: Vec<(f64, f64)> = Vec::new();
        for (flow, paths) in flows {
            for (place, ip) in paths.iter().enumerate() {
                let Some(columns) = self.courses.get(&(number, flow, *ip)) else { continue };
                if metric.path.is_some_and(|path| path != place) {
                    continue;
                }
                let own = columns.points(metric.quantity.is_state()).into_iter();
                match metric.quantity {
                    Quantity::Timeouts => points.extend(own.map(|(at, _)| (at, (place + 1) as f64))),
                    _ => points.extend(own.map(|(at, value)| (at, value * scale))),
                }
            }
        }
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        if metric.quantity == Quantity::DataAcked {
            // All paths acknowledge one stream: of their values at the begin the greatest counts.
            let mut most = 0.0;
            points.retain(|(_, value)| {
                most = f64::max(most, *value);
                *value >= most
            });
            let begin = points.iter().take_while(|point| point.0 == points[0].0).count();
            points.drain(..begin.saturating_sub(1));
        }
        // A place in a long stream has more digits than its figure, which counts from the first.
        let digits = if metric.quantity.is_place() { 9 } else { 5 };
        // A figure shows a ten-thousandth of its width neither more nor less.
        let step = 10f64.powi(4 - length.log10().ceil() as i32);
        points
            .into_iter()
            .flat_map(|(at, value)| [(at * step).round() / step, rounded(value, digits)])
            .collect()
    }

    fn samples(&self, metric: Metric, result: &RunResult, seconds: Option<f64>) -> Samples {
        let mut all = Samples::default();
        let flows = self.flows(metric, result);
        let is_on = |path: usize| metric.path.is_none_or(|own| own == path);
        if metric.quantity == Quantity::Wait {
            for (flow, paths) in flows {
                let on = paths.iter().enumerate().filter(|(path, _)| is_on(*path));
                let waits = on.filter_map(|(_, ip)| self.watch.flows[flow].waits.as_ref()?.get(ip));
                waits.for_each(|waits| all.merge(waits));
            }
            return all;
        }
        let bins = |flow: usize| self.watch.flows[flow].paths.values().map(|on| on.bins.len());
        let longest = flows.iter().flat_map(|(flow, _)| bins(*flow)).max().unwrap_or(0);
        let end = seconds.unwrap_or(longest as f64 * BIN);
        let (from, upto) = metric.span.unwrap_or((0.0, end));
        let each = (1.0 / BIN).round() as usize;
        for second in from.ceil() as usize..upto.min(end).floor() as usize {
            let on = flows.iter().flat_map(|(flow, paths)| {
                let on = paths.iter().enumerate().filter(|(path, _)| is_on(*path));
                on.filter_map(|(_, ip)| self.watch.flows[*flow].paths.get(ip))
            });
            let bytes: u64 = on.flat_map(|on| on.bins.iter().skip(second * each).take(each)).sum();
            all.add(bytes as f64 * 8e-6);
        }
        all
    }
}

impl Recorder for Taker {
    const WANTS: Wants = Watch::WANTS.and(Wants::stack(StackEvents::LOST.and(StackEvents::DATA_ACKED)));

    fn on_trace(&mut self, trace: &Trace<'_>) {
        self.watch.on_trace(trace);
        match trace.what {
            What::Flow { flow, event: FlowEvent::Start { .. } } => {
                if let Some(start) = self.starts.get_mut(flow.0 as usize) {
                    *start = trace.time;
                }
            }
            What::Stack { scope, event } => self.on_stack(trace.time, scope, event),
            _ => {}
        }
    }
}
