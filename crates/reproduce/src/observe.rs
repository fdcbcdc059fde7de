//! A recorder of the waits, windows, bursts and decisions that a run's report does not have.

use core::net::IpAddr;
use std::collections::BTreeMap;

use anabranch_sim::{FlowEvent, Recorder, Scope, Trace, Wants, What};
use anabranch_stack::event::SubflowId;
use anabranch_stack::observer::{StackEvent, StackEvents, Windows};
use anabranch_stack::scheduler::{Decision, Rule};
use anabranch_stack::segment::{Address, Segment};
use anabranch_stack::seq::DataRange;
use anabranch_units::Time;

use crate::take::Samples;

/// The span of a bin of received data, in seconds.
pub(crate) const BIN: f64 = 0.1;

/// Segments that are sent within this number of seconds of each other belong to one burst: half of the time that
/// the link needs for one at 30 Mbit/s, as in the experiments on bursts. Paced segments are further apart.
const BURST: f64 = 0.2e-3;

/// A sum and the number of its values.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Mean {
    pub(crate) sum: f64,
    pub(crate) weight: f64,
    pub(crate) most: f64,
}

impl Mean {
    fn add(&mut self, value: f64, weight: f64) {
        self.sum += value * weight;
        self.weight += weight;
        self.most = self.most.max(value);
    }

    pub(crate) fn get(&self) -> f64 {
        self.sum / self.weight
    }
}

/// The observations on one path of a flow, by the client's address.
#[derive(Clone, Debug, Default)]
pub(crate) struct OnPath {
    /// Bytes by bin of the time of their first arrival.
    pub(crate) bins: Vec<u64>,
    /// Seconds that a byte waited before it could be read.
    pub(crate) wait: Mean,
    /// Seconds from the first transmission of a byte until it could be read.
    pub(crate) latency: Mean,
    /// Smoothed round trips in seconds, at each change of the windows.
    pub(crate) srtt: Mean,
    /// Congestion windows in bytes.
    pub(crate) window: Mean,
    /// Congestion windows less the data in flight, in bytes.
    pub(crate) free: Mean,
    /// Segments that were sent in one burst, by segment.
    pub(crate) burst: Mean,
    last_sent: Option<Time>,
    in_burst: f64,
}

impl OnPath {
    fn sent(&mut self, now: Time) {
        let goes_on = self.last_sent.is_some_and(|last| now.since(last).as_secs_f64() < BURST);
        if !goes_on && self.in_burst > 0.0 {
            self.burst.add(self.in_burst, self.in_burst);
            self.in_burst = 0.0;
        }
        self.in_burst += 1.0;
        self.last_sent = Some(now);
    }
}

/// Data that arrived out of order: its end, its path, and when it was sent and arrived.
#[derive(Clone, Copy, Debug)]
struct Early {
    end: u64,
    path: IpAddr,
    sent: Time,
    arrived: Time,
}

/// The data that one subflow carries.
#[derive(Clone, Debug)]
struct Carried {
    /// The addresses of the data's sender and of its receiver.
    ends: (Address, Address),
    path: IpAddr,
    /// The first transmission of data that has not arrived, by its begin: the time, and the end of the data.
    sent: BTreeMap<u64, (Time, u64)>,
}

/// The observations of a flow.
#[derive(Clone, Debug, Default)]
pub(crate) struct Flow {
    carried: Vec<Carried>,
    /// The place in `carried` of each of the receiver's subflows.
    received: Vec<Option<usize>>,
    early: BTreeMap<u64, Early>,
    next: u64,
    last_progress: Option<Time>,
    /// The path of each subflow.
    subflows: BTreeMap<SubflowId, IpAddr>,
    pub(crate) paths: BTreeMap<IpAddr, OnPath>,
    /// Seconds between deliveries in order.
    pub(crate) interval: Mean,
    /// The lead of slow subflows, in segments, with the time in seconds.
    gaps: Vec<(f64, f64)>,
    /// Bytes that one delivery frees.
    pub(crate) jump: Mean,
    /// Guard times in seconds of pauses after the first. Only these pauses end with probes.
    pub(crate) guard: Mean,
    /// The number of pauses of each subflow.
    pauses: BTreeMap<SubflowId, u32>,
    /// Milliseconds that each packet waited before it could be read, by path; none unless a figure takes them.
    pub(crate) waits: Option<BTreeMap<IpAddr, Samples>>,
}

impl Flow {
    /// Returns the mean lead of slow subflows in a span of time.
    pub(crate) fn gap(&self, span: Option<(f64, f64)>) -> Mean {
        let (from, to) = span.unwrap_or((0.0, f64::INFINITY));
        let mut mean = Mean::default();
        let seen = self.gaps.iter().filter(|(at, _)| from <= *at && *at < to);
        seen.for_each(|(_, gap)| mean.add(*gap, 1.0));
        mean
    }

    /// Returns the number of pauses of slow subflows.
    pub(crate) fn pauses(&self) -> f64 {
        self.pauses.values().copied().map(f64::from).sum()
    }

    /// Returns the path of a subflow that has sent data.
    pub(crate) fn path(&self, subflow: SubflowId) -> Option<IpAddr> {
        self.subflows.get(&subflow).copied()
    }

    /// Returns the place of the subflow with data between these addresses.
    fn place(&mut self, ends: (Address, Address), path: IpAddr) -> usize {
        self.carried.iter().rposition(|known| known.ends == ends).unwrap_or_else(|| {
            self.carried.push(Carried { ends, path, sent: BTreeMap::new() });
            self.carried.len() - 1
        })
    }

    /// Notes that the receiver's subflow `id` has data between these addresses.
    fn receives(&mut self, id: SubflowId, ends: (Address, Address), path: IpAddr) {
        let (place, at) = (self.place(ends, path), id.index());
        if self.received.len() <= at {
            self.received.resize(at + 1, None);
        }
        self.received[at] = Some(place);
    }

    /// Takes data that had not arrived before, on the subflow at `place`. Returns its path and the time of its first
    /// transmission.
    fn take(&mut self, place: usize, data: DataRange) -> Option<(IpAddr, Time)> {
        let next = self.next;
        let Carried { path, sent, .. } = self.carried.get_mut(place)?;
        let (&start, &(time, end)) = sent.range(..=data.start).next_back()?;
        if end <= data.start {
            return None;
        }
        if end <= data.end {
            sent.remove(&start);
        }
        // Copies of data that another subflow has delivered.
        while let Some(first) = sent.first_entry().filter(|first| first.get().1 <= next) {
            first.remove();
        }
        Some((*path, time))
    }

    /// Notes the arrival of data that had not arrived before.
    fn arrived(&mut self, now: Time, path: IpAddr, sent: Time, data: DataRange) {
        self.early.insert(data.start, Early { end: data.end, path, sent, arrived: now });
        let before = self.next;
        while let Some((&start, &Early { end, path, sent, arrived })) = self.early.first_key_value() {
            if start > self.next {
                break;
            }
            self.early.remove(&start);
            if end > self.next {
                let bytes = (end - self.next) as f64;
                let wait = now.since(arrived).as_secs_f64();
                if let Some(waits) = &mut self.waits {
                    waits.entry(path).or_default().add(1e3 * wait);
                }
                let on = self.paths.entry(path).or_default();
                on.wait.add(wait, bytes);
                on.latency.add(now.since(sent).as_secs_f64(), bytes);
                self.next = end;
            }
        }
        if self.next > before {
            if let Some(last) = self.last_progress {
                self.interval.add(now.since(last).as_secs_f64(), 1.0);
            }
            self.last_progress = Some(now);
            self.jump.add((self.next - before) as f64, 1.0);
        }
    }
}

/// Observes all flows.
#[derive(Clone, Debug, Default)]
pub(crate) struct Watch {
    /// True if the server sends the data.
    pub(crate) download: bool,
    /// The number of flows to observe, from the first.
    pub(crate) flows: Vec<Flow>,
    clients: BTreeMap<Scope, usize>,
    servers: BTreeMap<Scope, usize>,
    /// The addresses of the data of subflows that have sent segments before their flow was known.
    answers: BTreeMap<(Scope, SubflowId), (Address, Address)>,
}

impl Watch {
    /// Returns the recorder for `flows` flows.
    pub(crate) fn new(flows: usize, download: bool) -> Watch {
        Watch { download, flows: vec![Flow::default(); flows], ..Watch::default() }
    }

    /// Keeps how long each packet waits.
    pub(crate) fn keep_waits(&mut self) {
        self.flows.iter_mut().for_each(|flow| flow.waits = Some(BTreeMap::new()));
    }

    /// Returns the place of the flow that has the data of this connection.
    pub(crate) fn sent_by(&self, scope: Scope) -> Option<usize> {
        let scopes = if self.download { &self.servers } else { &self.clients };
        scopes.get(&scope).copied().filter(|flow| *flow < self.flows.len())
    }

    fn sender(&mut self, scope: Scope) -> Option<&mut Flow> {
        let flow = self.sent_by(scope)?;
        self.flows.get_mut(flow)
    }

    fn receiver(&mut self, scope: Scope) -> Option<&mut Flow> {
        let scopes = if self.download { &self.clients } else { &self.servers };
        self.flows.get_mut(*scopes.get(&scope)?)
    }

    /// Returns the client's address on the path between the data's sender and receiver.
    fn path(&self, (from, to): (Address, Address)) -> IpAddr {
        if self.download { to.ip } else { from.ip }
    }
}

impl Recorder for Watch {
    const WANTS: Wants = Wants::stack(
        StackEvents::SENT.and(StackEvents::ARRIVED).and(StackEvents::DECISION).and(StackEvents::WINDOWS),
    );

    fn on_trace(&mut self, trace: &Trace<'_>) {
        match trace.what {
            What::Flow { flow, event: FlowEvent::Start { client } } => {
                self.clients.insert(client, flow.0 as usize);
            }
            What::Flow { flow, event: FlowEvent::Accept { server } } => {
                self.servers.insert(server, flow.0 as usize);
            }
            What::Stack { scope, event } => match *event {
                StackEvent::Sent { subflow, segment, data, .. } => {
                    self.on_sent(trace.time, scope, subflow, segment, data);
                }
                StackEvent::Arrived { subflow, range } => self.on_arrived(trace.time, scope, subflow, range),
                StackEvent::Decision(decision) => self.on_decision(trace.time, scope, decision),
                StackEvent::Windows { subflow, windows } => self.on_windows(scope, subflow, windows),
                _ => {}
            },
            _ => {}
        }
    }
}

impl Watch {
    fn on_sent(&mut self, now: Time, scope: Scope, subflow: SubflowId, segment: &Segment, data: DataRange) {
        if self.sent_by(scope).is_none() {
            // It answers to the address from which it receives data.
            let ends = (segment.destination, segment.source);
            let path = self.path(ends);
            match self.receiver(scope) {
                Some(flow) => flow.receives(subflow, ends, path),
                None => _ = self.answers.insert((scope, subflow), ends),
            }
            return;
        }
        let ends = (segment.source, segment.destination);
        let path = self.path(ends);
        let Some(flow) = self.sender(scope) else { return };
        flow.subflows.insert(subflow, path);
        if segment.payload_len > 0 {
            let place = flow.place(ends, path);
            flow.carried[place].sent.entry(data.start).or_insert((now, data.end));
            flow.paths.entry(path).or_default().sent(now);
        }
    }

    fn on_arrived(&mut self, now: Time, scope: Scope, subflow: SubflowId, data: DataRange) {
        // The segments with which the connection was opened came before its flow was known.
        let early = self.answers.remove(&(scope, subflow)).map(|ends| (ends, self.path(ends)));
        let Some(flow) = self.receiver(scope) else { return };
        if let Some((ends, path)) = early {
            flow.receives(subflow, ends, path);
        }
        let Some(place) = flow.received.get(subflow.index()).copied().flatten() else { return };
        let Some((path, sent)) = flow.take(place, data) else { return };
        let bin = (now.since(Time::ZERO).as_secs_f64() / BIN) as usize;
        let bins = &mut flow.paths.entry(path).or_default().bins;
        if bins.len() <= bin {
            bins.resize(bin + 1, 0);
        }
        bins[bin] += data.len();
        flow.arrived(now, path, sent, data);
    }

    fn on_decision(&mut self, now: Time, scope: Scope, decision: &Decision) {
        let Decision::Assign { subflow, why, .. } = decision else { return };
        match why.rule {
            Rule::Gap => {
                let Some(flow) = self.sender(scope) else { return };
                flow.gaps.push((now.since(Time::ZERO).as_secs_f64(), why.score));
            }
            Rule::PathProbe => {
                let Some(flow) = self.sender(scope) else { return };
                let (seen, count) = (flow.pauses.entry(*subflow).or_default(), why.other as u32);
                if count > *seen {
                    *seen = count;
                    flow.guard.add(why.score, 1.0);
                }
            }
            _ => {}
        }
    }

    fn on_windows(&mut self, scope: Scope, subflow: SubflowId, windows: &Windows) {
        if let Some(flow) = self.sender(scope) {
            flow.windows(subflow, windows);
        }
    }
}

impl Flow {
    fn windows(&mut self, subflow: SubflowId, windows: &Windows) {
        let Some(path) = self.subflows.get(&subflow) else { return };
        let on = self.paths.entry(*path).or_default();
        on.window.add(windows.cwnd_bytes as f64, 1.0);
        on.free.add(windows.cwnd_bytes.saturating_sub(windows.inflight_bytes) as f64, 1.0);
        if let Some(srtt) = windows.srtt {
            on.srtt.add(srtt.as_secs_f64(), 1.0);
        }
    }
}

#[cfg(test)]
#[path = "observe_tests.rs"]
mod tests;
