//! The results of a run, in the terms of `docs/definitions.md`.

use anabranch_link::{Counters, MiddleboxCounters};
use anabranch_stack::event::CloseReason;
use anabranch_stack::stats::{ConnectionStats, SubflowStats};
use anabranch_units::{Bytes, Duration, Rate, Time};

use crate::app::EndState;
use crate::application::AppReport;
use crate::flow::{End, FlowId};
use crate::network::HostId;
use crate::recorder::Recorder;
use crate::session::AppState;
use crate::sim::Sim;

/// The results of a run.
#[derive(Clone, PartialEq, Debug)]
pub struct RunReport {
    /// The flows, by [`FlowId`](crate::FlowId).
    pub flows: Vec<FlowReport>,
    /// The links, by [`LinkId`](crate::LinkId).
    pub links: Vec<LinkReport>,
    /// The middleboxes, in the order of the network.
    pub middleboxes: Vec<MiddleboxReport>,
    /// The time at which it ended: the end of the last flow, or the deadline.
    pub end: Time,
    /// The amount of simulation.
    pub performance: Performance,
    /// Packets lost because their sender had no route for them.
    pub unroutable: u64,
}

/// The state of a flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// It has not started yet.
    Waiting,
    /// The deadline came before its end.
    Running,
    /// Everything was delivered and acknowledged.
    Completed,
    /// It ended before that.
    Failed(Failure),
}

/// The reason that a flow failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Failure {
    /// The client could not connect: no free port, or too many connections.
    Connect,
    /// The client's connection has ended.
    Client(CloseReason),
    /// The server's connection has ended.
    Server(CloseReason),
}

/// The reason in words.
impl core::fmt::Display for Failure {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let (end, reason) = match self {
            Failure::Connect => {
                return f.write_str("the client has no port left, or too many connections");
            }
            Failure::Client(reason) => ("client", reason),
            Failure::Server(reason) => ("server", reason),
        };
        let reason = match reason {
            CloseReason::Finished => "has closed the connection before everything was acknowledged",
            CloseReason::Aborted => "has aborted the connection",
            CloseReason::Reset => "was reset by the other end",
            CloseReason::Refused => "was refused by the other end",
            CloseReason::TimedOut => "had no answer, or made no progress, within its timeout",
            CloseReason::NoSubflow => "has lost every subflow, and no new one was established in time",
        };
        write!(f, "the {end} {reason}")
    }
}

/// The results of a flow, up to the end of the run.
#[derive(Clone, PartialEq, Debug)]
pub struct FlowReport {
    /// The name that results have for it.
    pub name: String,
    /// Its size; none is bulk.
    pub size: Option<Bytes>,
    /// The time of its start, when its first SYN was sent.
    pub start: Time,
    /// Its state.
    pub outcome: Outcome,
    /// The time from the start to the last byte delivered in order at the receiver; none for bulk flows and
    /// incomplete ones.
    pub fct: Option<Duration>,
    /// The time from the start to the sender's last data ACK; none for bulk flows and flows not fully
    /// acknowledged.
    pub acked: Option<Duration>,
    /// The time from the start to the establishment of the connection at the client.
    pub connected: Option<Duration>,
    /// Bytes delivered in order at the receiver.
    pub delivered: u64,
    /// Bytes that the sender has written to its stack.
    pub written: u64,
    /// Bytes acknowledged at the data level.
    pub data_acked: u64,
    /// Unique bytes by the client's interface over which they were first delivered. Bytes received out of
    /// order count here but not yet in `delivered`.
    pub bytes_by_path: Vec<u64>,
    /// The number of subflows that have sent at least one byte of payload, in the direction of the flow.
    pub subflows_used: u32,
    /// Data segments sent by the sender, retransmissions included.
    pub data_segments: u64,
    /// Data segments retransmitted on the same subflow.
    pub retransmitted_segments: u64,
    /// Bytes reinjected on another subflow.
    pub reinjected_bytes: u64,
    /// Bytes that arrived at the receiver more than once.
    pub duplicate_bytes: u64,
    /// Retransmission timeouts of the sender's subflows.
    pub rto_count: u64,
    /// The longest time between two advances of the data delivered in order, from the first to the end of the flow
    /// (of the run, if that is earlier). For an application other than a transfer, only while data was outstanding:
    /// written and not delivered, or requested. None if nothing was delivered, and for datagrams.
    pub longest_gap: Option<Duration>,
    /// The time from its start to its end; none for a transfer with a size and for a flow that has not ended.
    pub ended: Option<Duration>,
    /// The results of its application.
    pub app: AppReport,
    /// The sending end.
    pub sender: EndReport,
    /// The receiving end.
    pub receiver: EndReport,
}

/// The results of a flow at one end.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct EndReport {
    /// The reason that its connection has ended; none while it exists.
    pub closed: Option<CloseReason>,
    /// The statistics of the connection; none if there was none.
    pub connection: Option<ConnectionStats>,
    /// Its subflows, including ended ones, in the order in which they began.
    pub subflows: Vec<SubflowStats>,
}

impl FlowReport {
    /// Returns the goodput: the unique bytes over the FCT for a complete flow, or over the time since its
    /// start for an incomplete one; `now` is the end of the run.
    pub fn goodput(&self, now: Time) -> Rate {
        let span = self.fct.unwrap_or(now.since(self.start));
        Rate::from_bytes_over(self.delivered, span)
    }
}

/// The results of a link.
#[derive(Clone, PartialEq, Debug)]
pub struct LinkReport {
    /// The name that results have for it, such as `fast.up`.
    pub name: String,
    /// Packets and bytes since the start of the run.
    pub counters: Counters,
    /// The time that it was up and had something to send.
    pub busy: Duration,
    /// Packets inside at the end: queued or in propagation.
    pub inside: u64,
}

/// The results of a middlebox.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MiddleboxReport {
    /// Its name, which is the name of its path.
    pub name: String,
    /// Its counts.
    pub counters: MiddleboxCounters,
}

/// The amount of simulation. It is the same for the same seed; wall time is for the caller to measure.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Performance {
    /// The end of the run, in seconds from its start.
    pub simulated_s: f64,
    /// Turns of the event loop.
    pub events: u64,
    /// Packets that have crossed a link, data or not, each link counted.
    pub packet_hops: u64,
    /// Segments with payload that hosts have sent, retransmissions included.
    pub data_packets: u64,
}

impl<R: Recorder> Sim<R> {
    /// Returns the results so far.
    pub fn report(&mut self) -> RunReport {
        let now = self.now;
        let names = self.network.links().iter();
        let links = names.zip(self.fabric.links_mut()).map(|(spec, link)| {
            link.advance(now);
            LinkReport {
                name: spec.name.clone(),
                counters: link.counters(),
                busy: link.busy_time(now),
                inside: link.inside() as u64,
            }
        });
        let links = links.collect();
        let middlebox = |(name, counters): (&str, _)| MiddleboxReport { name: name.to_owned(), counters };
        RunReport {
            links,
            middleboxes: self.fabric.middleboxes().counts().map(middlebox).collect(),
            flows: (0..self.specs.len()).map(|flow| self.flow_report(FlowId(flow as u32))).collect(),
            end: now,
            performance: self.performance(),
            unroutable: self.fabric.unroutable,
        }
    }

    /// Returns the results of a flow so far.
    ///
    /// # Panics
    /// If the flow does not exist.
    pub fn flow_report(&self, flow: FlowId) -> FlowReport {
        let now = self.now;
        let spec = &self.specs[flow.index()];
        let state = &self.flows[flow.index()];
        let (sending, receiving) = (state.end(spec.sender()), state.end(spec.receiver()));
        let sender = self.end_report(spec.host(spec.sender()), sending);
        let receiver = self.end_report(spec.host(spec.receiver()), receiving);
        let interfaces = &self.network.hosts()[spec.client.index()].interfaces;
        let mut bytes_by_path = vec![0; interfaces.len()];
        for subflow in &receiver.subflows {
            let path = match spec.receiver() {
                End::Client => Some(usize::from(subflow.path.0)),
                End::Server => interfaces.iter().position(|interface| interface.ip == subflow.remote.ip),
            };
            if let Some(bytes) = path.and_then(|path| bytes_by_path.get_mut(path)) {
                *bytes += subflow.counters.bytes_delivered;
            }
        }
        if let Some(AppState::Datagrams(datagrams)) = state.app.as_deref() {
            let path = interfaces.iter().position(|interface| interface.ip == spec.client_address);
            if let Some(bytes) = path.and_then(|path| bytes_by_path.get_mut(path)) {
                *bytes = datagrams.received() * datagrams.payload();
            }
        }
        // A late reader may not have been notified of the last bytes yet.
        let arrived = receiver.connection.unwrap_or_default();
        let delivered = match (state.stopped, state.app.as_deref()) {
            (Some((delivered, _)), _) => delivered,
            (None, Some(AppState::Datagrams(state))) => state.received() * state.payload(),
            (None, _) => receiving.received.max(arrived.received),
        };
        let all = spec.size.is_some_and(|size| arrived.received >= size.0);
        let fct = state.fct.or(all.then(|| arrived.last_in_order.since(spec.start)));
        let end = state.broken_at.unwrap_or(now);
        let longest_gap = match (state.stopped, state.app.as_deref()) {
            (Some((_, longest)), _) => longest,
            (None, Some(AppState::Datagrams(_))) => None,
            (None, Some(_)) => state.gap.until(end),
            (None, None) => (arrived.received > 0).then(|| {
                let last = if fct.is_some() { Duration::ZERO } else { end.since(arrived.last_in_order) };
                arrived.longest_gap.max(last)
            }),
        };
        let outcome = match state.failure {
            Some(failure) => Outcome::Failed(failure),
            None if state.over => Outcome::Completed,
            None if state.started => Outcome::Running,
            None => Outcome::Waiting,
        };
        let sum =
            |end: &EndReport, count: fn(&SubflowStats) -> u64| end.subflows.iter().map(count).sum::<u64>();
        FlowReport {
            name: spec.name.clone(),
            size: spec.size,
            start: spec.start,
            outcome,
            fct,
            acked: state.acked,
            connected: state.connected,
            delivered,
            written: match state.app.as_deref() {
                Some(AppState::Datagrams(state)) => state.sent() * state.payload(),
                _ => sending.written,
            },
            data_acked: sender.connection.map_or(0, |connection| connection.data_acked),
            bytes_by_path,
            subflows_used: sum(&sender, |subflow| u64::from(subflow.counters.bytes_sent > 0)) as u32,
            data_segments: sum(&sender, |subflow| subflow.counters.data_segments_sent),
            retransmitted_segments: sum(&sender, |subflow| subflow.counters.segments_retransmitted),
            reinjected_bytes: sum(&sender, |subflow| subflow.counters.bytes_reinjected),
            duplicate_bytes: sum(&receiver, |subflow| subflow.counters.bytes_duplicate),
            rto_count: sum(&sender, |subflow| subflow.counters.timeouts),
            longest_gap,
            ended: state.ended,
            app: state.app.as_deref().map(|app| app.report(now)).unwrap_or_default(),
            sender,
            receiver,
        }
    }

    fn end_report(&self, host: HostId, state: &EndState) -> EndReport {
        let stack = &self.hosts[host.index()].stack;
        let (connection, subflows) = match (&state.last, state.connection) {
            (Some(last), _) => (Some(last.0), last.1.clone()),
            (None, Some(id)) if state.closed.is_none() => (stack.stats(id), stack.subflow_stats(id)),
            _ => (None, Vec::new()),
        };
        EndReport { closed: state.closed, connection, subflows }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_failure_has_a_sentence() {
        let reasons = [
            CloseReason::Finished,
            CloseReason::Aborted,
            CloseReason::Reset,
            CloseReason::Refused,
            CloseReason::TimedOut,
            CloseReason::NoSubflow,
        ];
        let of_ends = reasons.into_iter().flat_map(|one| [Failure::Client(one), Failure::Server(one)]);
        let all: Vec<Failure> = core::iter::once(Failure::Connect).chain(of_ends).collect();
        let sentences: Vec<String> = all.iter().map(Failure::to_string).collect();
        for (failure, sentence) in all.iter().zip(&sentences) {
            let is_named = sentence.starts_with("the client ") || sentence.starts_with("the server ");
            assert!(is_named && sentence.split(' ').count() > 4, "{sentence}");
            let debug = format!("{failure:?}");
            assert!(!sentence.contains(['(', ':']) && !sentence.contains(&debug), "{sentence}");
            assert_eq!(sentences.iter().filter(|other| *other == sentence).count(), 1, "{sentence}");
        }
    }
}
