//! Compares the rate of NewReno under random loss with the full formula of Padhye et al. (1998).

use anabranch_link::{Loss, QueueLimit};
use anabranch_sim::topology::{self, Duplex, PathSpec, ServerAddresses};
use anabranch_sim::{FlowEvent, Recorder, Scope, Sim, Trace, Wants, What};
use anabranch_stack::config::{AckConfig, ConnectionConfig, ReceiveBuffer, SimConfig};
use anabranch_stack::congestion::CongestionKind;
use anabranch_stack::observer::{LossReason, SendKind, StackEvent, StackEvents};
use anabranch_stack::seq::Seq;
use anabranch_units::{Bytes, Duration, Rate, Time};

/// The two-way propagation; the link adds almost nothing.
const RTT: f64 = 0.1;

/// The sender's retransmission timer.
#[derive(Clone, Default)]
struct Timer {
    sender: Option<Scope>,
    /// The time at which it was started.
    base: Time,
    acknowledged: Option<Seq>,
    /// True if its last event was a timeout.
    running_out: bool,
    /// The time before the first timeout of each sequence.
    waits: Vec<f64>,
    last: Time,
}

impl Recorder for Timer {
    const WANTS: Wants = Wants::stack(StackEvents::SENT.and(StackEvents::RECEIVED).and(StackEvents::LOST));

    fn on_trace(&mut self, trace: &Trace<'_>) {
        let now = trace.time;
        match trace.what {
            What::Flow { event: FlowEvent::Start { client }, .. } => self.sender = Some(client),
            What::Stack { event: StackEvent::Lost { reason: LossReason::Timeout, .. }, .. }
                if self.last != now =>
            {
                if !self.running_out {
                    self.waits.push(now.since(self.base).as_secs_f64());
                }
                self.last = now;
                self.running_out = true;
            }
            What::Stack { scope, event } if self.sender == Some(scope) => match *event {
                StackEvent::Sent { kind: SendKind::Retransmission, .. } => self.base = now,
                StackEvent::Received { segment, .. } if self.acknowledged != Some(segment.ack) => {
                    self.acknowledged = Some(segment.ack);
                    self.base = now;
                    self.running_out = false;
                }
                _ => {}
            },
            _ => {}
        }
    }
}

/// The results of all seeds together, in segments and seconds.
#[derive(Default, Debug)]
struct Measured {
    seconds: f64,
    sent: f64,
    recoveries: f64,
    /// Sequences of timeouts.
    timeouts: f64,
    /// The time before the first timeout of each sequence.
    waited: f64,
    /// The rate of each seed.
    rates: Vec<f64>,
}

impl Measured {
    /// Returns the ratio of loss events (fast recoveries and sequences of timeouts) to segments.
    fn p(&self) -> f64 {
        (self.recoveries + self.timeouts) / self.sent
    }

    /// Returns the mean first timeout in seconds.
    fn t0(&self) -> f64 {
        self.waited / self.timeouts.max(1.0)
    }

    fn rate(&self) -> f64 {
        self.sent / self.seconds
    }

    /// Returns the standard error of the rate, as a fraction of it.
    fn error(&self) -> f64 {
        let n = self.rates.len() as f64;
        let variance = self.rates.iter().map(|rate| (rate - self.rate()).powi(2)).sum::<f64>() / (n - 1.0);
        (variance / n).sqrt() / self.rate()
    }

    /// Returns the rate of the formula, with an acknowledgement for every segment (b = 1).
    fn formula(&self) -> f64 {
        let (p, b) = (self.p(), 1.0);
        let fast = RTT * (2.0 * b * p / 3.0).sqrt();
        let slow = self.t0() * (3.0 * (3.0 * b * p / 8.0).sqrt()).min(1.0) * p * (1.0 + 32.0 * p * p);
        1.0 / (fast + slow)
    }
}

fn measure(loss: f64, config: &SimConfig, seconds: u64) -> Measured {
    let link = Duplex::symmetric(Rate::from_mbps(1000), Duration::from_millis(100));
    let mut link = link.with(|link| link.queue = QueueLimit::Unlimited);
    link.up.loss = Loss::Bernoulli(loss);
    let topology = topology::disjoint(&[PathSpec::new("a", link)], ServerAddresses::One).unwrap();
    let mut all = Measured::default();
    for seed in 0..10 {
        let flow = topology.pairs[0].flow("bulk", None, config.clone());
        let mut sim = Sim::new(topology.network.clone(), vec![flow], seed, Timer::default()).unwrap();
        // After the first slow start.
        let warm = sim.run(Time::from_secs(20)).flows[0].sender.subflows[0].counters;
        let waits = sim.recorder().waits.len();
        let report = sim.run(Time::from_secs(20 + seconds));
        let counters = report.flows[0].sender.subflows[0].counters;
        let waits = &sim.recorder().waits[waits..];
        let sent = (counters.data_segments_sent - warm.data_segments_sent) as f64;
        all.seconds += seconds as f64;
        all.sent += sent;
        all.recoveries += (counters.recoveries - warm.recoveries) as f64;
        all.timeouts += waits.len() as f64;
        all.waited += waits.iter().sum::<f64>();
        all.rates.push(sent / seconds as f64);
    }
    println!(
        "loss {loss}: p {:.5}, {} recoveries, {} rows of timeouts, T0 {:.3} s; {:.1} segments/s +- {:.1} %, \
         formula {:.1}, ratio {:.3}",
        all.p(),
        all.recoveries,
        all.timeouts,
        all.t0(),
        all.rate(),
        100.0 * all.error(),
        all.formula(),
        all.rate() / all.formula()
    );
    all
}

/// Returns a configuration in which the link rate and the windows never limit, and every segment is
/// acknowledged.
fn unlimited(config: impl Into<SimConfig>) -> SimConfig {
    let SimConfig { connection, only } = config.into();
    let connection = ConnectionConfig {
        mptcp: false,
        congestion: CongestionKind::NewReno,
        ack: AckConfig { every: 1, ..connection.ack },
        receive_buffer: ReceiveBuffer::Fixed(Bytes::from_kib(64 << 10)),
        send_buffer: Bytes::from_kib(64 << 10),
        rto: ConnectionConfig::linux().rto,
        ..connection
    };
    connection.simulated(only)
}

/// Loss rates, seconds per seed, and the permitted deviation from the formula.
const POINTS: [(f64, u64, f64); 5] =
    [(0.0005, 400, 0.15), (0.001, 300, 0.15), (0.003, 200, 0.15), (0.01, 200, 0.15), (0.02, 200, 0.20)];

#[test]
fn newreno_follows_the_formula_of_padhye() {
    let config = unlimited(SimConfig::ns3());
    for (loss, seconds, within) in POINTS {
        let all = measure(loss, &config, seconds);
        assert!(all.error() < 0.03, "{all:?}");
        assert!((all.rate() / all.formula() - 1.0).abs() <= within, "{loss} {} {all:?}", all.formula());
    }
}

#[test]
#[ignore = "prints what docs/reproduction.md reports beside NewReno"]
fn rack_tlp_beside_the_formula_of_padhye() {
    for (loss, seconds, _) in POINTS {
        measure(loss, &unlimited(ConnectionConfig::linux()), seconds);
    }
}
