//! Two paths, a flow over them, and its observation.

use std::collections::{BTreeMap, HashMap};

use anabranch_link::QueueLimit;
use anabranch_sim::topology::{self, Duplex, PathSpec, ServerAddresses};
use anabranch_sim::{FlowEvent, FlowId, FlowReport, Recorder, Scope, Sim, Trace, Wants, What};
use anabranch_stack::config::{AckConfig, ConnectionConfig, ReceiveBuffer, SimConfig};
use anabranch_stack::event::SubflowId;
use anabranch_stack::observer::{StackEvent, StackEvents, Windows};
use anabranch_stack::parameter::Parameterised;
use anabranch_stack::scheduler::{Decision, Rule, SchedulerKind};
use anabranch_stack::segment::{Address, Segment};
use anabranch_stack::seq::DataRange;
use anabranch_units::{Bytes, Duration, Rate, Time};

/// Bytes of payload in a segment.
pub const MSS: f64 = 1400.0;

/// Returns the built-in scheduler with that name.
pub fn scheduler(name: &str) -> SchedulerKind {
    SchedulerKind::from_name(name).expect("it is built in")
}

/// Returns a path with this rate in kbit/s and round-trip time in milliseconds.
pub fn link(kbit: u64, rtt_ms: u64, queue: QueueLimit) -> Duplex {
    Duplex::symmetric(Rate(kbit * 1000), Duration::from_millis(rtt_ms)).with(|link| link.queue = queue)
}

/// Returns the settings of Linux with this scheduler, but with the windows and acknowledgements of the
/// schedulers' papers: the whole buffer is advertised from the start, and every second segment is
/// acknowledged.
pub fn with(scheduler: SchedulerKind) -> ConnectionConfig {
    let linux = ConnectionConfig::linux();
    let ack = AckConfig { growth: false, push: false, ..linux.ack };
    ConnectionConfig { scheduler, ack, ..linux }
}

/// Returns the same with a receive buffer of this number of bytes, which is the window from the start.
pub fn in_buffer(config: ConnectionConfig, bytes: u64) -> ConnectionConfig {
    ConnectionConfig { receive_buffer: ReceiveBuffer::Fixed(Bytes(bytes)), ..config }
}

/// A running mean.
#[derive(Clone, Copy, Default, Debug)]
pub struct Mean {
    sum: f64,
    weight: f64,
}

impl Mean {
    fn add(&mut self, value: f64, weight: f64) {
        self.sum += value * weight;
        self.weight += weight;
    }

    /// Returns the mean; NaN without values.
    pub fn get(&self) -> f64 {
        self.sum / self.weight
    }
}

/// Observes the data of the first flow, an upload, from a given time on.
#[derive(Default)]
pub struct Watch {
    from: Time,
    client: Option<Scope>,
    server: Option<Scope>,
    /// The time and the bytes of the stream of each segment sent, by its source and number.
    sent: HashMap<(Address, u32), (Time, DataRange)>,
    /// Data that arrived out of order: the end, the subflow and the time, by its start.
    early: BTreeMap<u64, (u64, SubflowId, Time)>,
    next: u64,
    /// The time that data waited before it could be read, by subflow, in seconds and per byte.
    pub waits: [Mean; 2],
    /// The time from the sending of a segment to its arrival, by subflow, in seconds.
    pub one_way: [Mean; 2],
    /// The smoothed RTT at each acknowledgement, by subflow, in seconds.
    pub srtt: [Mean; 2],
    /// The lead of a slow subflow, in segments, with the time.
    pub gaps: Vec<(f64, f64)>,
}

impl Watch {
    /// Returns the mean wait of a byte on both subflows, in seconds.
    pub fn wait(&self) -> f64 {
        let [a, b] = self.waits;
        (a.sum + b.sum) / (a.weight + b.weight)
    }

    /// Returns the mean gap in segments.
    pub fn gap(&self) -> f64 {
        self.gaps.iter().map(|(_, gap)| gap).sum::<f64>() / self.gaps.len() as f64
    }

    fn arrived(&mut self, now: Time, subflow: SubflowId, data: DataRange) {
        if data.end <= self.next {
            return;
        }
        self.early.entry(data.start).or_insert((data.end, subflow, now));
        while let Some((&start, &(end, subflow, at))) = self.early.first_key_value() {
            if start > self.next {
                break;
            }
            self.early.remove(&start);
            if end > self.next && now >= self.from {
                self.waits[subflow.index()].add(now.since(at).as_secs_f64(), (end - self.next) as f64);
            }
            self.next = self.next.max(end);
        }
    }
}

impl Recorder for Watch {
    const WANTS: Wants = Wants::stack(
        StackEvents::SENT.and(StackEvents::RECEIVED).and(StackEvents::DECISION).and(StackEvents::WINDOWS),
    );

    fn on_trace(&mut self, trace: &Trace<'_>) {
        let now = trace.time;
        match trace.what {
            What::Flow { flow: FlowId(0), event: FlowEvent::Start { client } } => self.client = Some(client),
            What::Flow { flow: FlowId(0), event: FlowEvent::Accept { server } } => self.server = Some(server),
            What::Stack { scope, event } => match *event {
                StackEvent::Sent { segment, data, .. }
                    if Some(scope) == self.client && segment.payload_len > 0 =>
                {
                    self.sent.insert((segment.source, segment.seq.0), (now, data));
                }
                StackEvent::Received { subflow, segment } => self.on_received(now, scope, subflow, segment),
                StackEvent::Decision(decision) => self.on_decision(now, scope, decision),
                StackEvent::Windows { subflow, windows } => self.on_windows(now, scope, subflow, windows),
                _ => {}
            },
            _ => {}
        }
    }
}

impl Watch {
    fn on_received(&mut self, now: Time, scope: Scope, subflow: SubflowId, segment: &Segment) {
        if Some(scope) != self.server || segment.payload_len == 0 {
            return;
        }
        let Some((sent, data)) = self.sent.remove(&(segment.source, segment.seq.0)) else { return };
        if now >= self.from {
            self.one_way[subflow.index()].add(now.since(sent).as_secs_f64(), 1.0);
        }
        self.arrived(now, subflow, data);
    }

    fn on_decision(&mut self, now: Time, scope: Scope, decision: &Decision) {
        if Some(scope) == self.client
            && now >= self.from
            && let Decision::Assign { why, .. } = decision
            && why.rule == Rule::Gap
        {
            self.gaps.push((now.since(Time::ZERO).as_secs_f64(), why.score));
        }
    }

    fn on_windows(&mut self, now: Time, scope: Scope, subflow: SubflowId, windows: &Windows) {
        if Some(scope) == self.client
            && now >= self.from
            && let Some(srtt) = windows.srtt
        {
            self.srtt[subflow.index()].add(srtt.as_secs_f64(), 1.0);
        }
    }
}

/// The results of a run.
pub struct Ran {
    /// The flow at the end.
    pub flow: FlowReport,
    /// The observation from the given time on.
    pub watch: Watch,
    /// The goodput from that time on, in Mbit/s.
    pub mbps: f64,
    /// The same by path of first arrival.
    pub by_path: [f64; 2],
}

impl Ran {
    /// Returns the completion time in milliseconds.
    pub fn fct_ms(&self) -> f64 {
        self.flow.fct.expect("it is delivered").as_secs_f64() * 1e3
    }
}

/// Runs a flow of that size (or bulk) over the paths; the measurement begins at `from`, and the run ends at
/// `end`, both in seconds.
pub fn run<C: Clone + Into<SimConfig>>(
    paths: &[Duplex],
    config: &C,
    size: Option<u64>,
    from: u64,
    end: u64,
) -> Ran {
    let specs: Vec<_> =
        paths.iter().enumerate().map(|(n, link)| PathSpec::new(format!("path{n}"), link.clone())).collect();
    let topology = topology::disjoint(&specs, ServerAddresses::One).expect("the paths are right");
    let mut config: SimConfig = config.clone().into();
    config.flow_size = size.map(Bytes);
    let flow = topology.pairs[0].flow("flow", size.map(Bytes), config);
    let watch = Watch { from: Time::from_secs(from), ..Watch::default() };
    let mut sim = Sim::new(topology.network, vec![flow], 1, watch).expect("the flow is right");
    let before = sim.run(Time::from_secs(from)).flows.swap_remove(0);
    let flow = sim.run(Time::from_secs(end)).flows.swap_remove(0);
    let mbps = |bytes: u64| bytes as f64 * 8e-6 / (end - from) as f64;
    let path = |n: usize| flow.bytes_by_path.get(n).map_or(0.0, |b| mbps(b - before.bytes_by_path[n]));
    let by_path = [path(0), path(1)];
    Ran { mbps: mbps(flow.delivered - before.delivered), by_path, flow, watch: sim.into_recorder() }
}

/// Returns the scheduler with that name and one parameter set.
pub fn set(name: &str, parameter: &str, value: anabranch_stack::parameter::Value) -> SchedulerKind {
    let mut kind = scheduler(name);
    assert!(kind.set_parameter(parameter, value), "{name} {parameter}");
    kind
}
