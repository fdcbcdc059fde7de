//! Compares completion times in slow start with the closed form.

use anabranch_link::QueueLimit;
use anabranch_sim::topology::{self, Duplex, PathSpec, ServerAddresses};
use anabranch_sim::{FlowEvent, Recorder, Sim, Trace, Wants, What};
use anabranch_stack::config::{AckConfig, ConnectionConfig, ReceiveBuffer};
use anabranch_units::{Bytes, Duration, Rate, Time};

const MSS: u64 = 1400;
const MOST: u64 = 2000;

/// A path and the sizes of packets on it.
struct Case {
    rate: Rate,
    rtt: Duration,
    initial_window: u64,
    mptcp: bool,
}

impl Case {
    fn config(&self) -> ConnectionConfig {
        ConnectionConfig {
            mptcp: self.mptcp,
            initial_window: self.initial_window as u32,
            ack: AckConfig { every: 1, ..ConnectionConfig::linux().ack },
            receive_buffer: ReceiveBuffer::Fixed(Bytes::from_kib(64 << 10)),
            send_buffer: Bytes::from_kib(64 << 10),
            ..ConnectionConfig::linux()
        }
    }

    /// Returns the time on the wire of the headers with this number of option bytes, and a payload.
    fn serialisation(&self, options: u64, payload: u64) -> f64 {
        (40 + options + payload) as f64 * 8.0 / self.rate.as_bps_f64()
    }

    /// Returns the delivery time of `bytes`: the handshake; half a round trip and the transmission of all
    /// segments; and after each round that is shorter than the round trip, the wait for the first
    /// acknowledgement of the next. Round k sends IW 2^k segments (Kurose and Ross, "TCP latency").
    fn closed_form(&self, bytes: u64) -> f64 {
        let rtt = self.rtt.as_secs_f64();
        // MSS, SACK permitted, timestamps, window scale; MP_CAPABLE has 4 bytes, with a key 12.
        let (syn, syn_ack, data, ack) = if self.mptcp { (24, 32, 40, 24) } else { (20, 20, 12, 12) };
        let handshake = rtt + self.serialisation(syn, 0) + self.serialisation(syn_ack, 0);
        let segment = self.serialisation(data, MSS);
        let whole = (bytes / MSS) as f64;
        let rest = bytes % MSS;
        let all = whole * segment + if rest > 0 { self.serialisation(data, rest) } else { 0.0 };
        let round_trip = segment + rtt + self.serialisation(ack, 0);
        let segments = bytes.div_ceil(MSS);
        let (mut sent, mut window, mut waits) = (self.initial_window, self.initial_window, 0.0);
        while sent < segments {
            waits += (round_trip - window as f64 * segment).max(0.0);
            window *= 2;
            sent += window;
        }
        handshake + all + rtt / 2.0 + waits
    }

    fn run<R: Recorder>(&self, bytes: u64, recorder: R) -> (f64, R) {
        let link = Duplex::symmetric(self.rate, self.rtt).with(|link| link.queue = QueueLimit::Unlimited);
        let topology = topology::disjoint(&[PathSpec::new("a", link)], ServerAddresses::One).unwrap();
        let flow = topology.pairs[0].flow("flow", Some(Bytes(bytes)), self.config());
        let mut sim = Sim::new(topology.network, vec![flow], 1, recorder).unwrap();
        let fct = sim.run(Time::from_secs(300)).flows[0].fct.expect("it ends");
        (fct.as_secs_f64(), sim.into_recorder())
    }

    fn check(&self, bytes: u64, seconds: f64) -> f64 {
        let error = seconds - self.closed_form(bytes);
        let segment = self.serialisation(if self.mptcp { 40 } else { 12 }, MSS);
        assert!(
            error.abs() <= segment,
            "{} ms, {}, initial window {}, mptcp {}: {bytes} B took {seconds} s and not {} s",
            self.rtt.as_millis_f64(),
            self.rate,
            self.initial_window,
            self.mptcp,
            self.closed_form(bytes),
        );
        error / segment
    }
}

fn cases() -> impl Iterator<Item = Case> {
    let paths = [(1, 20), (10, 10), (10, 100), (100, 20), (100, 200), (1000, 50)];
    paths.into_iter().flat_map(|(mbps, ms)| {
        [(1, false), (10, false), (1, true), (10, true)].map(|(initial_window, mptcp)| Case {
            rate: Rate::from_mbps(mbps),
            rtt: Duration::from_millis(ms),
            initial_window,
            mptcp,
        })
    })
}

/// The delivery time of each part of the stream.
#[derive(Clone, Default)]
struct Progress(Vec<(f64, u64)>);

impl Recorder for Progress {
    const WANTS: Wants = Wants::FLOWS;

    fn on_trace(&mut self, trace: &Trace<'_>) {
        if let What::Flow { event: FlowEvent::Progress { delivered }, .. } = trace.what {
            self.0.push((trace.time.as_secs_f64(), delivered));
        }
    }
}

/// One transfer of 2000 segments covers each size below: the n-th segment is delivered when a transfer of n
/// segments would end.
#[test]
fn every_size_from_1_to_2000_segments_takes_what_the_closed_form_says() {
    for case in cases() {
        let (fct, progress) = case.run(MOST * MSS, Progress::default());
        assert_eq!(progress.0.len() as u64, MOST);
        let errors = progress.0.iter().map(|&(time, delivered)| case.check(delivered, time));
        let worst = errors.map(f64::abs).fold(0.0, f64::max);
        println!(
            "{} {} ms IW {} mptcp={}: {fct:.4} s, worst {worst:.3} segments",
            case.rate,
            case.rtt.as_millis_f64(),
            case.initial_window,
            case.mptcp
        );
    }
}

#[test]
fn transfers_of_their_own_take_what_the_closed_form_says() {
    for case in cases() {
        for bytes in [1, 700, MSS, MSS + 1, 10 * MSS, 10 * MSS + 1, 14_600, 57_000, 300_001, 1_000_000] {
            let (fct, ()) = case.run(bytes, ());
            case.check(bytes, fct);
        }
    }
}
