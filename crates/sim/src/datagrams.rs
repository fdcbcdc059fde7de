//! Datagrams (UDP) over the links that segments use.
//!
//! In flight a datagram is a segment without any flag, which no TCP sends: its sequence number is the number of the
//! datagram, its acknowledgement number is the number of the flow, and its timestamps are the two halves of
//! the time of sending.

use anabranch_stack::segment::{Address, Flags, PathId, Segment, Timestamps};
use anabranch_stack::seq::Seq;
use anabranch_units::{Duration, RandomStream, Time};

use crate::application::{DatagramReport, Datagrams};
use crate::flow::{FlowId, FlowSpec};
use crate::network::HostId;
use crate::recorder::{FlowEvent, Recorder, What, report};
use crate::session::AppState;
use crate::sim::{Sim, Wake};

/// The port of receivers of datagrams; no TCP listens there.
const PORT: u16 = 5000;
/// The most delays that are allocated in advance.
const MOST_RESERVED: f64 = 4e6;

/// The datagrams of a flow.
#[derive(Clone, Debug)]
pub(crate) struct DatagramState {
    plan: Datagrams,
    gaps: RandomStream,
    start: Time,
    sent: u64,
    /// True if the last one is sent.
    finished: bool,
    /// The time at which the last one was sent or arrived.
    last: Time,
    /// A bit for each datagram that has arrived.
    seen: Vec<u64>,
    /// The delays in nanoseconds, in the order of arrival.
    delays: Vec<u64>,
    /// The sum of the differences between successive delays.
    differences: f64,
}

impl DatagramState {
    pub(crate) fn new(plan: Datagrams, spec: &FlowSpec, gaps: RandomStream) -> DatagramState {
        // So that the steady state does not allocate.
        let expected = plan.span.0 as f64 / plan.gap.mean().max(1.0) + 1.0;
        let reserved = (expected * 1.1).clamp(1.0, MOST_RESERVED) as usize;
        DatagramState {
            plan,
            gaps,
            start: spec.start,
            sent: 0,
            finished: false,
            last: spec.start,
            seen: Vec::with_capacity(reserved / 64 + 1),
            delays: Vec::with_capacity(reserved),
            differences: 0.0,
        }
    }

    /// Counts a datagram and returns its number and the time at which to continue.
    pub(crate) fn send(&mut self, now: Time) -> (u64, Time) {
        let number = self.sent;
        self.sent += 1;
        self.last = now;
        if number.is_multiple_of(64) {
            self.seen.push(0);
        }
        let next = now + self.plan.gap.draw_time(number, &mut self.gaps).max(Duration(1));
        self.finished = next.since(self.start) >= self.plan.span;
        (number, if self.finished { now + Datagrams::LINGER } else { next })
    }

    /// Counts an arrival, unless it is a copy.
    pub(crate) fn receive(&mut self, now: Time, number: u64, sent: Time) {
        let Some(word) = self.seen.get_mut((number / 64) as usize) else { return };
        let bit = 1 << (number % 64);
        if *word & bit != 0 {
            return;
        }
        *word |= bit;
        self.last = now;
        let delay = now.since(sent).0;
        if let Some(last) = self.delays.last() {
            self.differences += delay.abs_diff(*last) as f64;
        }
        self.delays.push(delay);
    }

    pub(crate) fn report(&self) -> DatagramReport {
        let mut sorted = self.delays.clone();
        sorted.sort_unstable();
        let n = sorted.len();
        // The least delay that the fraction `p` of them does not exceed.
        let percentile = |p: f64| {
            let rank = (p * n as f64).ceil().max(1.0) as usize;
            sorted.get(rank - 1).copied().map(Duration)
        };
        let sum: f64 = sorted.iter().map(|delay| *delay as f64).sum();
        DatagramReport {
            sent: self.sent,
            received: n as u64,
            delay_mean_s: (n > 0).then(|| sum / n as f64 / 1e9),
            delay_p50: percentile(0.5),
            delay_p95: percentile(0.95),
            delay_p99: percentile(0.99),
            delay_max: sorted.last().copied().map(Duration),
            jitter_s: (n > 1).then(|| self.differences / (n - 1) as f64 / 1e9),
        }
    }

    pub(crate) fn received(&self) -> u64 {
        self.delays.len() as u64
    }

    pub(crate) fn payload(&self) -> u64 {
        u64::from(self.plan.payload)
    }

    pub(crate) fn sent(&self) -> u64 {
        self.sent
    }

    /// True if the last one is sent.
    pub(crate) fn is_finished(&self) -> bool {
        self.finished
    }
}

impl<R: Recorder> Sim<R> {
    /// Sends the next datagram of a flow, or ends the flow if the last one was sent some time ago.
    pub(crate) fn on_datagram_due(&mut self, flow: FlowId) {
        let now = self.now;
        let Some(AppState::Datagrams(state)) = self.flows[flow.index()].app.as_deref_mut() else { return };
        if state.finished {
            // The other datagrams are lost; the time of waiting for them is not part of the stream.
            let last = state.last;
            self.end_app_at(flow, last);
            return;
        }
        let (number, next) = state.send(now);
        let payload = state.plan.payload;
        let spec = &self.specs[flow.index()];
        // Datagrams of different flows may take different routes of equal cost.
        let own = 10_000 + (flow.0 % 50_000) as u16;
        let client = Address::new(spec.client_address, own);
        let server = Address::new(spec.server_address, PORT);
        let (host, source, destination) = match spec.sender() {
            crate::flow::End::Client => (spec.client, client, server),
            crate::flow::End::Server => (spec.server, server, client),
        };
        let path = self.path_of(host, source.ip);
        let segment = &mut self.segment;
        *segment = Segment::new(source, destination, Seq(number as u32), Flags::default());
        segment.ack = Seq(flow.0);
        segment.payload_len = payload;
        segment.options.timestamps = Some(Timestamps { value: (now.0 >> 32) as u32, echo: now.0 as u32 });
        let headers = if source.ip.is_ipv4() { 28 } else { 48 };
        self.fabric.send_sized(now, host.0, path, segment, payload + headers);
        self.wake_at(next, Wake::App(flow));
    }

    /// Returns the interface of a host that has the address.
    pub(crate) fn path_of(&self, host: HostId, ip: core::net::IpAddr) -> PathId {
        let interfaces = &self.network.hosts()[host.index()].interfaces;
        PathId(interfaces.iter().position(|interface| interface.ip == ip).unwrap_or(0) as u16)
    }

    /// Takes the datagram that has arrived, which is in the segment between pool and stack.
    #[cold]
    pub(crate) fn on_datagram(&mut self) {
        let (segment, now) = (&self.segment, self.now);
        let flow = FlowId(segment.ack.0);
        let sent = segment
            .options
            .timestamps
            .map_or(now, |time| Time(u64::from(time.value) << 32 | u64::from(time.echo)));
        let number = u64::from(segment.seq.0);
        let Some(AppState::Datagrams(state)) =
            self.flows.get_mut(flow.index()).and_then(|flow| flow.app.as_deref_mut())
        else {
            return;
        };
        state.receive(now, number, sent);
        let delivered = state.received() * state.payload();
        let all = state.finished && state.received() == state.sent;
        if let Some(recorder) = &mut self.fabric.recorder {
            let event = FlowEvent::Progress { delivered };
            report(&mut **recorder, now, What::Flow { flow, event });
        }
        if all {
            self.end_app(flow);
        }
    }
}
