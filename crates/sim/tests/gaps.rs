//! The longest gap in the delivery of a flow, against the times of all its deliveries.

use anabranch_link::{Change, LinkConfig, Loss, Step};
use anabranch_sim::application::{Application, Datagrams, OnOff, Pace, Requests};
use anabranch_sim::distribution::Distribution;
use anabranch_sim::topology::{self, Duplex, PathSpec, ServerAddresses, Topology};
use anabranch_sim::{AppReport, FlowEvent, FlowReport, FlowSpec, Outcome, Recorder, Sim, Trace, Wants, What};
use anabranch_stack::config::ConnectionConfig;
use anabranch_units::{Bytes, Duration, Rate, Time};

const RTT: Duration = Duration::from_millis(40);

/// The times at which data of the only flow was delivered in order.
#[derive(Default)]
struct Deliveries(Vec<Time>);

impl Recorder for Deliveries {
    const WANTS: Wants = Wants::FLOWS;

    fn on_trace(&mut self, trace: &Trace<'_>) {
        if let What::Flow { event: FlowEvent::Progress { .. }, .. } = trace.what {
            self.0.push(trace.time);
        }
    }
}

fn one_path(change: impl Fn(&mut LinkConfig)) -> Topology {
    let link = Duplex::symmetric(Rate::from_mbps(10), RTT).with(change);
    topology::disjoint(&[PathSpec::new("a", link)], ServerAddresses::One).unwrap()
}

/// The path is down from `from` to `until`, in seconds, and nobody is notified.
fn outage(from: f64, until: f64) -> impl Fn(&mut LinkConfig) {
    let at = |seconds: f64, change| Step { at: Time::ZERO + Duration::from_secs_f64(seconds), change };
    move |link| link.timeline = vec![at(from, Change::Down), at(until, Change::Up)]
}

fn transfer(topology: &Topology, size: Option<Bytes>) -> FlowSpec {
    topology.pairs[0].flow("f", size, ConnectionConfig::linux()).download()
}

fn application(topology: &Topology, application: Application) -> FlowSpec {
    FlowSpec { application, ..transfer(topology, None) }
}

/// Returns the report of a flow, which is the same with and without a recorder, and the times of its deliveries.
fn run(topology: &Topology, flow: FlowSpec, until: Time) -> (FlowReport, Vec<Time>) {
    let sim = |flow: &FlowSpec| (topology.network.clone(), vec![flow.clone()]);
    let (network, flows) = sim(&flow);
    let plain = Sim::new(network, flows, 7, ()).unwrap().run(until);
    let (network, flows) = sim(&flow);
    let mut recorded = Sim::new(network, flows, 7, Deliveries::default()).unwrap();
    let report = recorded.run(until);
    assert_eq!(plain.flows[0].longest_gap, report.flows[0].longest_gap);
    (report.flows[0].clone(), recorded.into_recorder().0)
}

fn longest(times: &[Time]) -> Duration {
    times.windows(2).map(|two| two[1].since(two[0])).max().unwrap_or_default()
}

fn constant(seconds: f64) -> Distribution {
    Distribution::Constant(seconds * 1e9)
}

#[test]
fn the_gap_of_a_transfer_is_the_longest_time_between_two_deliveries() {
    for size in [1, 2_000, 50_000, 2_000_000] {
        for loss in [0.0, 0.02] {
            let topology = one_path(|link| link.loss = Loss::Bernoulli(loss));
            let (flow, times) = run(&topology, transfer(&topology, Some(Bytes(size))), Time::from_secs(60));
            assert_eq!(flow.outcome, Outcome::Completed);
            assert_eq!(flow.longest_gap, Some(longest(&times)), "{size} {loss}");
        }
    }
}

#[test]
fn an_outage_is_a_gap_as_long_as_it_and_its_recovery() {
    let topology = one_path(outage(1.0, 3.0));
    let (flow, times) = run(&topology, transfer(&topology, Some(Bytes(4_000_000))), Time::from_secs(60));
    let gap = flow.longest_gap.unwrap();
    assert_eq!(gap, longest(&times));
    // The last packet before the outage arrives within half a round trip. Timeouts double from 0.2 s on, so that the
    // first retransmission on the live path is at most 2 s late.
    assert!(gap > Duration::from_secs(2) - RTT && gap < Duration::from_secs(4) + RTT, "{gap}");
}

#[test]
fn a_flow_that_receives_nothing_more_has_a_gap_until_its_end() {
    let topology = one_path(outage(1.0, 100.0));
    let until = Time::from_secs(20);
    for size in [None, Some(Bytes(4_000_000))] {
        let (flow, times) = run(&topology, transfer(&topology, size), until);
        assert_eq!(flow.longest_gap, Some(until.since(*times.last().unwrap())));
        // Broken off, or failed, before the end of the run.
        let at = Duration::from_secs(5);
        let stopped = FlowSpec { stop: size.is_none().then_some(at), ..transfer(&topology, size) };
        let mut sim = Sim::new(topology.network.clone(), vec![stopped], 7, ()).unwrap();
        sim.run_through(Time::ZERO + at);
        if size.is_some() {
            sim.abort(anabranch_sim::FlowId(0), anabranch_sim::End::Client);
        }
        let report = sim.run_through(until);
        let end = Time::ZERO + at;
        assert_eq!(report.flows[0].longest_gap, Some(end.since(*times.last().unwrap())), "{size:?}");
    }
    // Nothing was delivered.
    let topology = one_path(outage(0.0, 100.0));
    assert_eq!(run(&topology, transfer(&topology, None), until).0.longest_gap, None);
}

#[test]
fn the_silence_of_an_application_is_no_gap() {
    let plan = OnOff {
        on: constant(0.2),
        off: constant(1.8),
        rate: Rate::from_mbps(2),
        span: Duration::from_secs(20),
    };
    for download in [true, false] {
        let of = |topology: &Topology| {
            let flow = application(topology, Application::OnOff(plan.clone()));
            if download { flow } else { FlowSpec { direction: anabranch_sim::Direction::Upload, ..flow } }
        };
        let topology = one_path(|_| {});
        let (flow, times) = run(&topology, of(&topology), Time::from_secs(100));
        let gap = flow.longest_gap.unwrap();
        assert!(longest(&times) > Duration::from_millis(1700));
        // A block travels for half a round trip, and one is written each 5.6 ms.
        assert!(gap >= RTT / 2 && gap < RTT, "{gap}");
        // Blocks of the second period are lost, and retransmitted when the path is back.
        let topology = one_path(outage(2.1, 3.1));
        let (flow, _) = run(&topology, of(&topology), Time::from_secs(100));
        let gap = flow.longest_gap.unwrap();
        assert!(gap > Duration::from_millis(960) && gap < Duration::from_millis(2000), "{gap}");
    }
}

#[test]
fn the_wait_for_a_response_is_a_gap_and_thinking_is_not() {
    let plan = Requests {
        request: Distribution::Constant(100.0),
        response: Distribution::Constant(1000.0),
        pace: Pace::Closed(constant(1.0)),
        count: Some(5),
        span: Duration::from_secs(100),
    };
    let topology = one_path(|_| {});
    let (flow, _) = run(&topology, application(&topology, Application::Requests(plan)), Time::from_secs(100));
    let AppReport::Requests(all) = &flow.app else { panic!() };
    // The first one includes the handshake, before anything is delivered.
    assert_eq!(flow.longest_gap, all[1..].iter().filter_map(|one| one.time).max());
}

#[test]
fn datagrams_have_no_gap() {
    let plan = Datagrams { payload: 1000, gap: constant(0.02), span: Duration::from_secs(2) };
    let topology = one_path(|_| {});
    let flow = application(&topology, Application::Datagrams(plan));
    assert_eq!(run(&topology, flow, Time::from_secs(10)).0.longest_gap, None);
}
