//! Whole runs with the real stack.

use crate::common;

use anabranch_link::{Change, Step};
use anabranch_sim::topology::{self, ServerAddresses};
use anabranch_sim::{
    Direction, End, FlowError, FlowEvent, FlowId, FlowSpec, LinkEvent, LinkId, Outcome, Queue, Reading,
    Recorder, Sim, SimError, Trace, Wants, What,
};
use anabranch_stack::config::{ConnectionConfig, Profile, ReceiveBuffer, SimConfig, SimOnly};
use anabranch_stack::event::Event;
use anabranch_stack::observer::{StackEvent, StackEvents};
use anabranch_stack::segment::PathId;
use anabranch_units::{Bytes, Duration, Rate, Time};
use common::{path, tcp, two_lossy_paths, two_paths};

const MB: Option<Bytes> = Some(Bytes(1_000_000));

fn is_send<T: Send + Clone>() {}

#[test]
fn a_run_can_be_sent_to_another_thread_and_cloned() {
    is_send::<Sim>();
}

#[test]
fn the_same_seed_gives_the_same_report_and_another_seed_another() {
    for profile in Profile::ALL {
        let run = |seed| {
            let (topology, flow) = two_lossy_paths(MB, SimConfig::new(profile));
            Sim::new(topology.network, vec![flow], seed, ()).unwrap().run(Time::from_secs(60))
        };
        let first = run(1);
        assert_eq!(first.flows[0].outcome, Outcome::Completed, "{first:#?}");
        assert_eq!(first, run(1));
        assert_ne!(first.flows[0].fct, run(2).flows[0].fct);
    }
}

#[test]
fn a_client_writes_its_reaction_time_after_it_has_connected() {
    for mptcp in [false, true] {
        let fct = |reaction| {
            let config = ConnectionConfig { mptcp, ..ConnectionConfig::linux() };
            let (topology, flow) = two_paths(Some(Bytes(10_000)), config);
            let flow = FlowSpec { reaction, ..flow };
            Sim::new(topology.network, vec![flow], 1, ()).unwrap().run(Time::from_secs(60)).flows[0]
                .fct
                .unwrap()
        };
        // Without a reaction time, the data is also sent after the third ACK, which takes some time itself.
        let (least, more) = (Duration::from_micros(500), Duration::from_micros(1000));
        assert_eq!(fct(least + more), fct(least) + more, "{mptcp}");
        assert!(fct(Duration::ZERO) < fct(least));
    }
}

#[test]
fn a_fork_continues_as_the_original_does() {
    let (topology, flow) = two_lossy_paths(MB, ConnectionConfig::linux());
    let flows = vec![flow.clone(), flow.starting(Time::from_millis(300))];
    let mut sim = Sim::new(topology.network, flows, 5, ()).unwrap();
    for _ in 0..1500 {
        sim.step();
    }
    assert!(!sim.is_complete());
    let mut fork = sim.clone();
    let steps = |sim: &mut Sim| (0..500).map(|_| sim.step()).collect::<Vec<_>>();
    assert_eq!(steps(&mut sim), steps(&mut fork));
    assert_eq!(sim.run(Time::from_secs(60)), fork.run(Time::from_secs(60)));
}

#[test]
fn a_forked_run_can_be_treated_differently() {
    let (topology, flow) = two_paths(Some(Bytes(5_000_000)), ConnectionConfig::linux());
    let mut sim = Sim::new(topology.network, vec![flow], 5, ()).unwrap();
    sim.run(Time::from_millis(1000));
    let mut fork = sim.clone();
    fork.set_address_up(fork.flows()[0].client, PathId(1), false);
    let (with, without) = (sim.run(Time::from_secs(60)), fork.run(Time::from_secs(60)));
    assert_eq!(with.flows[0].outcome, Outcome::Completed);
    assert_eq!(without.flows[0].outcome, Outcome::Completed);
    assert!(without.flows[0].fct > with.flows[0].fct);
    assert!(without.flows[0].bytes_by_path[1] < with.flows[0].bytes_by_path[1]);
}

#[test]
fn packets_are_conserved_and_bytes_are_delivered_once() {
    let (topology, flow) = two_lossy_paths(MB, ConnectionConfig::linux());
    let mut sim = Sim::new(topology.network, vec![flow], 3, ()).unwrap();
    let report = sim.run_through(Time::from_secs(300));
    assert_eq!(sim.packets_in_flight(), 0);
    let mut hops = 0;
    for link in &report.links {
        let counters = &link.counters;
        assert_eq!(link.inside, 0);
        assert_eq!(counters.offered, counters.delivered + counters.dropped());
        hops += counters.delivered.packets;
    }
    assert_eq!(hops, report.performance.packet_hops);
    assert_eq!(report.unroutable, 0);
    let flow = &report.flows[0];
    assert_eq!((flow.delivered, flow.written, flow.data_acked), (1_000_000, 1_000_000, 1_000_000));
    assert_eq!(flow.bytes_by_path.iter().sum::<u64>(), 1_000_000);
    assert_eq!(flow.subflows_used, 2);
    assert!(flow.retransmitted_segments > 0 && flow.retransmitted_segments < 60, "{flow:#?}");
    assert!(flow.acked.unwrap() > flow.fct.unwrap());
}

#[test]
fn a_lone_flow_on_a_clean_path_takes_handshake_serialisation_and_half_a_round_trip() {
    let topology = topology::disjoint(&[path("p", 10, 20)], ServerAddresses::One).unwrap();
    // Four segments fit into the initial window.
    let flow = topology.pairs[0].flow("flow", Some(Bytes(5_600)), tcp());
    let mut sim = Sim::new(topology.network.clone(), vec![flow.clone()], 1, ()).unwrap();
    let report = sim.run(Time::from_secs(60));
    let at = |bytes: u64| Rate::from_mbps(10).transmission_time(bytes);
    // SYN and SYN/ACK with MSS, SACK, timestamps and window scale are 60 bytes, a segment with timestamps is
    // 1452. The third ACK may be sent before the data.
    let exact = Duration::from_millis(30) + at(60) * 2 + at(1452) * 4;
    let fct = report.flows[0].fct.unwrap();
    assert!(fct >= exact - at(1) && fct <= exact + at(60), "{fct} {exact}");
    assert_eq!(report.flows[0].subflows_used, 1);

    // A download adds the request, which takes half a round trip before the answer.
    let flow = FlowSpec { request: Bytes(100), ..flow.download() };
    let report = Sim::new(topology.network, vec![flow], 1, ()).unwrap().run(Time::from_secs(60));
    let exact = Duration::from_millis(40) + at(60) * 2 + at(152) + at(1452) * 4;
    let fct = report.flows[0].fct.unwrap();
    assert!(fct >= exact - at(1) && fct <= exact + at(60) * 2, "{fct} {exact}");
    assert_eq!(report.flows[0].delivered, 5_600);
    assert_eq!(report.flows[0].bytes_by_path, [5_600]);
}

#[test]
fn the_flow_ends_the_run_and_bulk_runs_to_the_deadline() {
    let (topology, flow) = two_paths(Some(Bytes(10_000)), ConnectionConfig::linux());
    let bulk = FlowSpec { size: None, name: "bulk".into(), ..flow.clone() };
    let run = |flows| Sim::new(topology.network.clone(), flows, 1, ()).unwrap().run(Time::from_secs(3));
    let report = run(vec![flow.clone()]);
    assert!(report.end < Time::from_millis(200), "{}", report.end);
    let both = run(vec![flow, bulk.clone()]);
    assert!(both.end < Time::from_millis(400));
    assert_eq!(both.flows[1].outcome, Outcome::Running);
    let bulk = run(vec![bulk]);
    assert_eq!(bulk.end, Time::from_secs(3));
    assert_eq!((bulk.flows[0].fct, bulk.flows[0].acked), (None, None));
    let goodput = bulk.flows[0].goodput(bulk.end);
    assert!(goodput > Rate::from_mbps(15) && goodput < Rate::from_mbps(20), "{goodput}");
}

#[test]
fn a_slow_reader_limits_the_flow_to_its_rate() {
    let config = ConnectionConfig { receive_buffer: ReceiveBuffer::Fixed(Bytes(64_000)), ..tcp() };
    let (topology, flow) = two_paths(Some(Bytes(500_000)), config);
    let run = |reading| {
        let flow = FlowSpec { reading, ..flow.clone() };
        Sim::new(topology.network.clone(), vec![flow], 1, ()).unwrap().run(Time::from_secs(60)).flows[0]
            .fct
            .expect("it is delivered")
    };
    let at_once = run(Reading::AtOnce);
    let slow = run(Reading::AtRate(Rate::from_mbps(2)));
    let pause = Duration::from_secs(2);
    let paused = run(Reading::Pause { after: Duration::from_millis(100), span: pause });
    assert!(at_once < Duration::from_millis(700), "{at_once}");
    // Everything except one buffer has been read when the last byte arrives: 436 KB at 2 Mbit/s.
    assert!(slow > Duration::from_millis(1600) && slow < Duration::from_millis(2200), "{slow}");
    assert!(paused > pause && paused < pause + Duration::from_millis(900), "{paused}");
}

#[derive(Clone, Default)]
struct Tape {
    entered: u64,
    left: u64,
    dropped: u64,
    sent: u64,
    received: u64,
    acked: u64,
    longest: usize,
    states: Vec<(Time, LinkId, bool)>,
    progress: Vec<(Time, FlowId, u64)>,
    events: Vec<(FlowId, End, Event)>,
}

impl Recorder for Tape {
    fn on_trace(&mut self, trace: &Trace<'_>) {
        match trace.what {
            What::Link { event: LinkEvent::Enter { queue, .. }, .. } => {
                self.entered += 1;
                self.longest = self.longest.max(queue.packets);
            }
            What::Link { event: LinkEvent::Leave { .. }, .. } => self.left += 1,
            What::Link { event: LinkEvent::Drop { .. }, .. } => self.dropped += 1,
            What::Link { link, event: LinkEvent::State { up } } => self.states.push((trace.time, link, up)),
            What::Flow { flow, event: FlowEvent::Progress { delivered } } => {
                self.progress.push((trace.time, flow, delivered));
            }
            What::Flow { flow, event: FlowEvent::Application { end, event } } => {
                self.events.push((flow, end, *event));
            }
            What::Stack { event: StackEvent::Sent { .. }, .. } => self.sent += 1,
            What::Stack { event: StackEvent::Received { .. }, .. } => self.received += 1,
            What::Stack { event: StackEvent::DataAcked { una, window_edge, .. }, .. } => {
                assert!(una <= window_edge);
                self.acked = self.acked.max(*una);
            }
            _ => {}
        }
    }
}

/// Counts the events that reach it, of all kinds.
#[derive(Clone, Default)]
struct Count<const SENT: bool> {
    sent: u64,
    others: u64,
}

impl<const SENT: bool> Recorder for Count<SENT> {
    const WANTS: Wants = if SENT {
        Wants { stack: StackEvents::SENT, ..Wants::NONE }
    } else {
        Wants { stack: StackEvents::LOST, ..Wants::NONE }
    };

    fn on_trace(&mut self, trace: &Trace<'_>) {
        match trace.what {
            What::Stack { event: StackEvent::Sent { .. }, .. } => self.sent += 1,
            _ => self.others += 1,
        }
    }
}

#[test]
fn recorders_combine_and_each_gets_only_what_it_wants() {
    let (topology, flow) = two_lossy_paths(MB, ConnectionConfig::linux());
    let run = |recorder| {
        let mut sim = Sim::new(topology.network.clone(), vec![flow.clone()], 1, recorder).unwrap();
        sim.run(Time::from_secs(60));
        sim.into_recorder()
    };
    let (tape, (sent, lost)) =
        run((Tape::default(), (Count::<true>::default(), Some(Count::<false>::default()))));
    let lost = lost.unwrap();
    assert_eq!((sent.sent, sent.others, lost.sent), (tape.sent, 0, 0));
    assert!(tape.sent > 700 && lost.others > 0);
    assert_eq!((tape.acked, tape.longest > 1), (1_000_000, true));
    // Alone it gets the same.
    let mut sim = Sim::new(topology.network.clone(), vec![flow], 1, Count::<false>::default()).unwrap();
    sim.run(Time::from_secs(60));
    assert_eq!((sim.recorder().sent, sim.recorder().others), (0, lost.others));
}

/// The queues of links after each packet that is queued, dropped, or has crossed a link: from packets, or without them.
#[derive(Clone, Default)]
struct Queues<const PACKETS: bool> {
    after: Vec<(Time, LinkId, Queue, bool)>,
}

impl<const PACKETS: bool> Recorder for Queues<PACKETS> {
    const WANTS: Wants = Wants { packets: PACKETS, queues: !PACKETS, ..Wants::NONE };

    fn on_trace(&mut self, trace: &Trace<'_>) {
        let What::Link { link, event } = trace.what else { return };
        let (queue, dropped) = match event {
            LinkEvent::Enter { mut queue, wire_bytes, .. } => {
                queue.packets += 1;
                queue.bytes += u64::from(wire_bytes);
                (queue, false)
            }
            LinkEvent::Leave { queue, .. } => (queue, false),
            LinkEvent::Drop { queue, .. } => {
                // It was not queued.
                self.after.pop();
                (queue, true)
            }
            LinkEvent::Queue { queue, dropped } => (queue, dropped),
            LinkEvent::State { .. } => return,
        };
        assert_eq!(PACKETS, !matches!(event, LinkEvent::Queue { .. }));
        self.after.push((trace.time, link, queue, dropped));
    }
}

#[test]
fn queues_are_the_same_with_and_without_packets() {
    let (topology, flow) = two_lossy_paths(MB, ConnectionConfig::linux());
    let mut both = Sim::new(topology.network.clone(), vec![flow.clone()], 1, Default::default()).unwrap();
    both.run(Time::from_secs(60));
    let (with, without): (Queues<true>, Queues<false>) = both.into_recorder();
    assert!(with.after.len() > 1500 && with.after.iter().any(|event| event.3));
    assert!(with.after == without.after);
    let mut alone = Sim::new(topology.network, vec![flow], 1, Queues::<false>::default()).unwrap();
    alone.run(Time::from_secs(60));
    assert!(alone.into_recorder().after == with.after);
}

/// The timestamps of the segments that the first host sends, with their times.
#[derive(Clone, Default)]
struct Stamps(Vec<(Time, u32)>);

impl Recorder for Stamps {
    const WANTS: Wants = Wants { packets: true, ..Wants::NONE };

    fn on_trace(&mut self, trace: &Trace<'_>) {
        let What::Link { link: LinkId(0), event: LinkEvent::Enter { segment, .. } } = trace.what else {
            return;
        };
        self.0.extend(segment.options.timestamps.map(|timestamps| (trace.time, timestamps.value)));
    }
}

#[test]
fn timestamps_tick_every_millisecond_of_the_hosts_clock() {
    let only = SimOnly { microsecond_timestamps: true, ..SimOnly::default() };
    for (phase, fine) in [(0, false), (700, false), (700, true)] {
        let config = if fine { tcp().simulated(only) } else { tcp().into() };
        let (mut topology, flow) = two_paths(MB, config);
        let client = topology.pairs[0].client;
        topology.network.set_clock_phase(client, phase).unwrap();
        let mut sim = Sim::new(topology.network, vec![flow], 1, Stamps::default()).unwrap();
        sim.run(Time::from_secs(60));
        let stamps = sim.into_recorder().0;
        assert!(stamps.len() > 500);
        for (sent, value) in stamps {
            let micros = sent.as_micros();
            let due = if fine { micros } else { (micros + u64::from(phase)) / 1000 };
            assert_eq!(u64::from(value), due, "{phase} {sent:?}");
        }
    }
}

#[test]
fn a_recorder_hears_everything_and_changes_nothing() {
    let (mut topology, flow) = two_lossy_paths(MB, ConnectionConfig::linux());
    let link = topology.network.link("lte.up").unwrap();
    let (down, up) = (Time::from_millis(200), Time::from_millis(450));
    topology.network.link_config_mut(link).unwrap().timeline =
        vec![Step { at: down, change: Change::Down }, Step { at: up, change: Change::Up }];
    let network = topology.network;
    let quiet = Sim::new(network.clone(), vec![flow.clone()], 1, ()).unwrap().run(Time::from_secs(60));
    let mut sim = Sim::new(network, vec![flow], 1, Tape::default()).unwrap();
    let report = sim.run(Time::from_secs(60));
    assert_eq!(report, quiet);
    let fct = report.flows[0].fct.unwrap();
    let tape = sim.into_recorder();
    assert_eq!(tape.states, [(down, link, false), (up, link, true)]);
    assert_eq!(tape.progress.last(), Some(&(Time::ZERO + fct, FlowId(0), 1_000_000)));
    assert!(tape.progress.windows(2).all(|pair| pair[0].2 < pair[1].2));
    assert_eq!(tape.left, report.performance.packet_hops);
    let inside: u64 = report.links.iter().map(|link| link.inside).sum();
    let dropped: u64 = report.links.iter().map(|link| link.counters.dropped().packets).sum();
    assert_eq!((tape.dropped, tape.entered), (dropped, tape.left + tape.dropped + inside));
    assert_eq!(tape.sent, tape.entered);
    assert!(tape.received > 0 && tape.received <= tape.left);
    assert!(tape.events.contains(&(FlowId(0), End::Client, Event::Connected)));
    assert!(tape.events.contains(&(FlowId(0), End::Server, Event::Accepted)));
}

#[test]
fn a_flow_that_does_not_fit_the_network_is_refused() {
    let (topology, flow) = two_paths(MB, tcp());
    let refused = |change: fn(&mut FlowSpec)| {
        let mut flow = flow.clone();
        change(&mut flow);
        match Sim::new(topology.network.clone(), vec![flow], 1, ()).map(drop) {
            Err(SimError::Flow { error, .. }) => error,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(refused(|flow| flow.size = Some(Bytes::ZERO)), FlowError::ZeroSize);
    assert_eq!(
        refused(|flow| flow.server = flow.client),
        FlowError::Address { host: "client".into(), ip: flow.server_address }
    );
    assert_eq!(refused(|flow| flow.reading = Reading::AtRate(Rate(0))), FlowError::ZeroReadingRate);
    assert_eq!(
        refused(|flow| {
            flow.direction = Direction::Download;
            flow.request = Bytes::ZERO;
        }),
        FlowError::ZeroRequest
    );
}

#[test]
fn many_flows_share_a_host_pair() {
    let topology = topology::disjoint(&[path("p", 100, 20)], ServerAddresses::One).unwrap();
    let flows: Vec<_> = (0..200)
        .map(|number| {
            let flow = topology.pairs[0].flow(format!("f{number}"), Some(Bytes(20_000)), tcp());
            let flow = if number % 2 == 0 { flow } else { flow.download() };
            flow.starting(Time::from_millis(number * 5))
        })
        .collect();
    let report = Sim::new(topology.network, flows, 1, ()).unwrap().run(Time::from_secs(60));
    for flow in &report.flows {
        assert_eq!(flow.outcome, Outcome::Completed);
        assert_eq!(flow.delivered, 20_000);
        assert!(flow.fct.unwrap() < Duration::from_millis(500), "{flow:#?}");
    }
}

// definitions: `acked_s` is the time of the last data ACK, even if the sender had nothing unacknowledged
// before because of its small buffer.
#[test]
fn a_flow_is_acknowledged_with_its_last_byte() {
    let config = ConnectionConfig { send_buffer: Bytes(2000), ..tcp() };
    let (topology, flow) = two_paths(Some(Bytes(20_000)), config);
    let report = Sim::new(topology.network, vec![flow], 1, ()).unwrap().run(Time::from_secs(60));
    let (fct, acked) = (report.flows[0].fct.unwrap(), report.flows[0].acked.unwrap());
    assert!(acked > fct, "{acked:?} and {fct:?}");
}

#[test]
fn a_pause_of_the_reader_begins_after_its_time_and_lasts_its_span() {
    let config = ConnectionConfig { receive_buffer: ReceiveBuffer::Fixed(Bytes(64_000)), ..tcp() };
    let (topology, flow) = two_paths(Some(Bytes(2_500_000)), config);
    let pause = Reading::Pause { after: Duration::from_secs(1), span: Duration::from_secs(2) };
    let fct = |reading| {
        let flow = FlowSpec { reading, ..flow.clone() };
        let report = Sim::new(topology.network.clone(), vec![flow], 1, ()).unwrap().run(Time::from_secs(60));
        report.flows[0].fct.unwrap().as_secs_f64()
    };
    // The buffer holds 50 ms of the path.
    let longer = fct(pause) - fct(Reading::AtOnce);
    assert!(longer > 1.9 && longer < 2.3, "{longer}");
}
