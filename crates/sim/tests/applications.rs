//! Applications other than a single transfer, against arithmetic and against queueing theory.

use anabranch_link::{Capacity, LinkConfig, Loss, QueueLimit};
use anabranch_sim::application::{Application, Datagrams, OnOff, Pace, Requests, Video};
use anabranch_sim::distribution::Distribution;
use anabranch_sim::topology::{self, Duplex, PathSpec, ServerAddresses, Topology};
use anabranch_sim::{AppReport, FlowReport, FlowSpec, Outcome, RunReport, Sim};
use anabranch_stack::config::ConnectionConfig;
use anabranch_units::{Bytes, Duration, Rate, Time};

const RTT: Duration = Duration::from_millis(40);

fn one_path(change: impl Fn(&mut LinkConfig)) -> Topology {
    let link = Duplex::symmetric(Rate::from_mbps(10), RTT).with(change);
    topology::disjoint(&[PathSpec::new("a", link)], ServerAddresses::One).unwrap()
}

fn flow(topology: &Topology, name: &str, application: Application) -> FlowSpec {
    FlowSpec { application, ..topology.pairs[0].flow(name, None, ConnectionConfig::linux()).download() }
}

fn run(topology: &Topology, flows: Vec<FlowSpec>, seed: u64) -> RunReport {
    Sim::new(topology.network.clone(), flows, seed, ()).unwrap().run(Time::from_secs(600))
}

fn constant(value: f64) -> Distribution {
    Distribution::Constant(value)
}

fn requests(think: f64, count: Option<u64>, span: u64) -> Requests {
    Requests {
        request: constant(100.0),
        response: constant(1000.0),
        pace: Pace::Closed(constant(think)),
        count,
        span: Duration::from_secs(span),
    }
}

fn exchanges(report: &FlowReport) -> Vec<anabranch_sim::application::Exchange> {
    match &report.app {
        AppReport::Requests(exchanges) => exchanges.clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_response_takes_a_round_trip_and_its_serialisation() {
    let topology = one_path(|_| {});
    let plan = requests(1e9, Some(5), 100);
    let report = &run(&topology, vec![flow(&topology, "web", Application::Requests(plan))], 1);
    let web = &report.flows[0];
    let all = exchanges(web);
    assert_eq!((all.len(), web.outcome, web.delivered), (5, Outcome::Completed, 5000));
    // Request and response are a segment each, with at most 100 bytes of headers, at 10 Mbit/s; the response may wait
    // for the acknowledgement of the request. The first request also waits for the handshake.
    for (at, exchange) in all.iter().enumerate() {
        let time = exchange.time.unwrap();
        let round_trips = if at == 0 { 2 } else { 1 };
        let least = RTT * round_trips + Rate::from_mbps(10).transmission_time(1100 + 2 * 40);
        let most = RTT * round_trips
            + Rate::from_mbps(10).transmission_time(1100 + 3 * 100 + (round_trips - 1) * 300);
        assert!((least..=most).contains(&time), "{at}: {time} {least} {most}");
    }
    // A think time after each response.
    for two in all.windows(2) {
        assert_eq!(two[1].at, two[0].at + two[0].time.unwrap() + Duration::from_secs(1));
    }
}

#[test]
fn a_closed_loop_makes_a_request_each_think_and_response_time() {
    let topology = one_path(|_| {});
    let plan = requests(0.96e9, None, 30);
    let report = run(&topology, vec![flow(&topology, "web", Application::Requests(plan))], 1);
    // A cycle is 960 ms + 40 ms + about 1 ms of serialisation; requests until 30 s have passed.
    assert_eq!(exchanges(&report.flows[0]).len(), 30);
    let mut open = requests(0.0, None, 30);
    open.pace = Pace::Open(constant(0.5e9));
    let report = run(&topology, vec![flow(&topology, "web", Application::Requests(open))], 1);
    let all = exchanges(&report.flows[0]);
    // At 0, 0.5, ... 29.5 s: none at 30 s.
    assert_eq!(all.len(), 60);
    assert!(all.windows(2).all(|two| two[1].at == two[0].at + Duration::from_millis(500)));
    assert!(all.iter().all(|exchange| exchange.time.is_some()));
}

#[test]
fn a_think_time_of_zero_is_allowed_and_other_mistakes_are_named() {
    let topology = one_path(|_| {});
    let report =
        run(&topology, vec![flow(&topology, "web", Application::Requests(requests(0.0, Some(20), 9)))], 1);
    assert_eq!(exchanges(&report.flows[0]).len(), 20);
    let good = flow(&topology, "web", Application::Requests(requests(0.0, Some(20), 9)));
    let fault = |flow: FlowSpec| match Sim::new(topology.network.clone(), vec![flow], 1, ()).map(drop) {
        Err(error) => error.to_string(),
        Ok(()) => panic!("it was accepted"),
    };
    let upload = FlowSpec { direction: anabranch_sim::Direction::Upload, ..good.clone() };
    assert!(fault(upload).contains("make the flow a download"));
    assert!(fault(FlowSpec { size: Some(Bytes(1)), ..good.clone() }).contains("no size"));
    assert!(fault(FlowSpec { stop: Some(Duration(1)), ..good.clone() }).contains("no stop"));
    let plan = Requests { response: constant(-1.0), ..requests(0.0, None, 1) };
    assert!(fault(FlowSpec { application: Application::Requests(plan), ..good }).contains("positive"));
}

#[test]
fn an_application_draws_the_same_whatever_runs_beside_it() {
    let topology = one_path(|_| {});
    let plan = Requests {
        response: Distribution::Exponential { mean: 20e3 },
        pace: Pace::Closed(Distribution::Exponential { mean: 1e8 }),
        ..requests(0.0, Some(50), 600)
    };
    let web = flow(&topology, "web", Application::Requests(plan.clone()));
    let other = flow(&topology, "other", Application::Requests(plan));
    let sizes = |flows: Vec<FlowSpec>| {
        exchanges(&run(&topology, flows, 4).flows[0])
            .iter()
            .map(|exchange| exchange.response)
            .collect::<Vec<_>>()
    };
    let alone = sizes(vec![web.clone()]);
    assert_eq!(alone, sizes(vec![web.clone(), other.clone()]));
    assert_ne!(alone, sizes(vec![other, web]));
}

#[test]
fn datagrams_of_a_constant_rate_have_the_delay_of_the_path() {
    let topology = one_path(|_| {});
    let plan = Datagrams { payload: 160, gap: constant(20e6), span: Duration::from_secs(10) };
    let report = run(&topology, vec![flow(&topology, "call", Application::Datagrams(plan))], 1);
    let call = &report.flows[0];
    let AppReport::Datagrams(results) = call.app else { panic!() };
    assert_eq!((results.sent, results.received, call.outcome), (500, 500, Outcome::Completed));
    assert_eq!((call.written, call.delivered, &call.bytes_by_path[..]), (80_000, 80_000, &[80_000][..]));
    // Half a round trip, and 188 bytes at 10 Mbit/s.
    let delay = RTT / 2 + Rate::from_mbps(10).transmission_time(188);
    assert_eq!((results.delay_p50, results.delay_max), (Some(delay), Some(delay)));
    assert_eq!((results.delay_mean_s, results.jitter_s), (Some(delay.as_secs_f64()), Some(0.0)));
    // The last one arrives and ends the run.
    assert_eq!(report.end, Time::from_millis(9_980) + delay);
}

#[test]
fn lost_datagrams_are_counted_and_copies_are_not() {
    let topology = one_path(|link| {
        link.loss = Loss::bernoulli(0.1);
        link.duplicate = 0.2;
    });
    let plan = Datagrams { payload: 1000, gap: constant(2e6), span: Duration::from_secs(40) };
    let report = run(&topology, vec![flow(&topology, "udp", Application::Datagrams(plan))], 1);
    let AppReport::Datagrams(results) = report.flows[0].app else { panic!() };
    let down = report.links.iter().find(|link| link.name == "a.down").unwrap();
    assert_eq!(results.sent, 20_000);
    assert_eq!(results.sent - results.received, down.counters.dropped_random.packets);
    assert!(down.counters.duplicated.packets > 3000);
    let lost = 1.0 - results.received as f64 / 20_000.0;
    assert!((lost - 0.1).abs() < 0.01, "{lost}");
}

#[test]
fn datagrams_above_the_rate_are_dropped_by_the_queue() {
    let topology = one_path(|link| link.queue = QueueLimit::Packets(10));
    // 1028 bytes on the wire each 0.4 ms are 20.56 Mbit/s on a link of 10.
    let plan = Datagrams { payload: 1000, gap: constant(4e5), span: Duration::from_secs(10) };
    let report = run(&topology, vec![flow(&topology, "udp", Application::Datagrams(plan))], 1);
    let AppReport::Datagrams(results) = report.flows[0].app else { panic!() };
    let received = results.received as f64 / results.sent as f64;
    assert!((received - 10.0 / 20.56).abs() < 0.001, "{received}");
    // The time of the stream ends with its last datagram, and not with the wait for those that are lost.
    let ended = report.flows[0].ended.unwrap().as_secs_f64();
    assert!((10.0..10.1).contains(&ended), "{ended}");
}

#[test]
fn poisson_datagrams_wait_as_in_an_m_d_1_queue() {
    let topology = one_path(|link| link.queue = QueueLimit::Unlimited);
    for load in [0.5, 0.8] {
        // Service of 1.0224 ms: 1278 bytes at 10 Mbit/s.
        let service = 1.0224e6;
        let plan = Datagrams {
            payload: 1250,
            gap: Distribution::Exponential { mean: service / load },
            span: Duration::from_secs(500),
        };
        let flow = flow(&topology, "udp", Application::Datagrams(plan));
        let report = Sim::new(topology.network.clone(), vec![flow], 3, ()).unwrap().run(Time::from_secs(600));
        let AppReport::Datagrams(results) = report.flows[0].app else { panic!() };
        // Pollaczek and Khinchine: the mean wait is load / (2 (1 - load)) service times.
        let wait = results.delay_mean_s.unwrap() * 1e9 - 20e6 - service;
        let theory = service * load / (2.0 * (1.0 - load));
        assert!((wait / theory - 1.0).abs() < 0.03, "{load}: {wait} {theory}");
        assert_eq!(results.sent, results.received);
    }
}

#[test]
fn datagrams_share_the_queue_with_a_transfer() {
    let topology = one_path(|link| link.queue = QueueLimit::Packets(100));
    let plan = Datagrams { payload: 160, gap: constant(20e6), span: Duration::from_secs(20) };
    let call = flow(&topology, "call", Application::Datagrams(plan));
    let bulk = topology.pairs[0].flow("bulk", Some(Bytes(30_000_000)), ConnectionConfig::linux()).download();
    let alone = run(&topology, vec![bulk.clone()], 1).flows[0].fct.unwrap();
    let report = run(&topology, vec![call, bulk], 1);
    let AppReport::Datagrams(results) = report.flows[0].app else { panic!() };
    // A full queue is 120 ms at 10 Mbit/s.
    let queueing = results.delay_p95.unwrap().as_secs_f64() - 0.02;
    assert!((0.05..0.121).contains(&queueing), "{queueing}");
    assert!(results.jitter_s.unwrap() > 0.0);
    assert!(report.flows[1].fct.unwrap() > alone);
}

#[test]
fn an_on_off_sender_writes_its_share_in_both_directions() {
    let topology = one_path(|_| {});
    let plan = OnOff {
        on: constant(0.5e9),
        off: constant(1.5e9),
        rate: Rate::from_mbps(4),
        span: Duration::from_secs(20),
    };
    let down = flow(&topology, "down", Application::OnOff(plan.clone()));
    let up = FlowSpec { direction: anabranch_sim::Direction::Upload, name: "up".into(), ..down.clone() };
    for flow in &run(&topology, vec![down, up], 1).flows {
        let AppReport::OnOff(bursts) = &flow.app else { panic!() };
        assert_eq!((bursts.len(), flow.outcome), (10, Outcome::Completed));
        // A quarter of 4 Mbit/s over 20 s, in blocks of 1400 bytes: 179 in each period.
        assert_eq!((flow.written, flow.delivered), (10 * 179 * 1400, 10 * 179 * 1400));
        let delays: Vec<f64> = bursts.iter().map(|burst| burst.delay.unwrap().as_secs_f64()).collect();
        // Half a round trip, and at most a few packets before it.
        assert!(delays[2..].iter().all(|delay| (0.02..0.03).contains(delay)), "{delays:?}");
    }
}

#[test]
fn a_video_on_a_fast_path_starts_once_and_never_stalls() {
    let topology = one_path(|_| {});
    let plan = Video {
        segment: Duration::from_secs(2),
        segments: 15,
        ladder: vec![Rate::from_mbps(4)],
        startup: Duration::from_secs(4),
        resume: Duration::from_secs(4),
        buffer: Duration::from_secs(10),
    };
    let report = run(&topology, vec![flow(&topology, "video", Application::Video(plan))], 1);
    let AppReport::Video(video) = report.flows[0].app else { panic!() };
    assert_eq!(
        (video.segments, video.stalls, video.stalled, video.bitrate_bps),
        (15, 0, Duration::ZERO, Some(4e6))
    );
    // Two segments of 1 MB at 10 Mbit/s, with slow start.
    let startup = video.startup.unwrap().as_secs_f64();
    assert!((1.6..2.3).contains(&startup), "{startup}");
    // The last segment is requested when 8 s remain in the buffer, which is 20 s after the start of playback.
    let last = report.end.as_secs_f64() - startup - 20.0;
    assert!((0.8..1.2).contains(&last), "{last}");
}

#[test]
fn a_video_above_the_rate_stalls_by_the_difference() {
    // Segments of 2 s at 12.5 Mbit/s take about 2.6 s at 10 Mbit/s.
    let topology = one_path(|link| link.capacity = Capacity::Rate(Rate::from_mbps(10)));
    let second = Duration::from_secs;
    let plan = Video {
        segment: second(2),
        segments: 20,
        ladder: vec![Rate(12_500_000)],
        startup: second(2),
        resume: second(2),
        buffer: second(10),
    };
    let report = run(&topology, vec![flow(&topology, "video", Application::Video(plan.clone()))], 1);
    let AppReport::Video(video) = report.flows[0].app else { panic!() };
    // Every segment but the first is late: the delivery of 20 segments is startup + 19 segments played + stalls.
    assert_eq!((video.segments, video.stalls), (20, 19));
    assert_eq!(report.end, Time::ZERO + video.startup.unwrap() + second(38) + video.stalled);
    // With a lower bitrate to choose from it does not stall.
    let ladder = vec![Rate::from_mbps(2), Rate(12_500_000)];
    let report =
        run(&topology, vec![flow(&topology, "video", Application::Video(Video { ladder, ..plan }))], 1);
    let AppReport::Video(video) = report.flows[0].app else { panic!() };
    assert_eq!(video.stalls, 0);
    assert!(video.switches > 0 && video.bitrate_bps.unwrap() > 2e6, "{video:?}");
}

#[test]
fn a_transfer_that_is_broken_off_leaves_the_path_to_others() {
    let topology = one_path(|_| {});
    let bulk = topology.pairs[0].flow("bulk", None, ConnectionConfig::linux()).download();
    let bulk = FlowSpec { stop: Some(Duration::from_secs(5)), ..bulk };
    let late = topology.pairs[0].flow("late", Some(Bytes(1_000_000)), ConnectionConfig::linux()).download();
    let late = late.starting(Time::from_secs(6));
    let alone = run(&topology, vec![late.clone()], 1).flows[0].fct;
    let report = run(&topology, vec![bulk, late], 1);
    let bulk = &report.flows[0];
    assert_eq!((bulk.ended, bulk.outcome), (Some(Duration::from_secs(5)), Outcome::Completed));
    // Nearly 10 Mbit/s for 5 s.
    assert!((5_200_000..6_250_000).contains(&bulk.delivered), "{}", bulk.delivered);
    assert_eq!(report.flows[1].fct, alone);
}
