//! The three kinds of runs, where namespaces and the kernel's Multipath TCP are available.
#![cfg(target_os = "linux")]

#[path = "../../../tests/skipped.rs"]
mod skipped;

use std::sync::atomic::{AtomicBool, Ordering};

use anabranch_emulate::obstacle;
use anabranch_lab::scenario::Document;
use anabranch_validate::campaign::build_id;
use anabranch_validate::machine::Machine;
use anabranch_validate::results::{Results, Trouble};
use anabranch_validate::{Campaign, Kind, Metric, Plan, Point};

/// Returns points over these paths; none if nothing can be measured, which is reported.
fn points(paths: &[&str], scheduler: &str, size: &str) -> Option<Vec<Point>> {
    if let Some(obstacle) = obstacle() {
        skipped::skipped(obstacle);
        return None;
    }
    let mut document = Document::bare();
    document.set_paths(&paths.iter().map(|path| (*path).to_owned()).collect::<Vec<_>>()).unwrap();
    document.set_size("--size", size);
    document.set_option("--set", "traffic.direction", "upload");
    document.set_schedulers("--schedulers", &[scheduler.to_owned()]);
    Some(Point::of(document.scenario().unwrap()).unwrap())
}

fn campaign(points: Vec<Point>, runs: u32) -> Campaign {
    let plan = Plan { points, runs, attempts: 1, jobs: 1, until: None, build: build_id(), captures: None };
    Campaign::new(plan, Results::in_memory(Machine::here()))
}

/// Whatever the timing of the machine, all bytes arrive, over both paths.
#[test]
fn a_transfer_is_the_same_bytes_three_times() {
    let paths = ["20Mbit/s,30ms,queue=4bdp", "10Mbit/s,30ms,queue=4bdp"];
    let Some(points) = points(&paths, "linux", "300KB") else { return };
    let mut campaign = campaign(points, 1);
    let never = AtomicBool::new(false);
    campaign.measure(&never, &|_, _| ()).unwrap();
    campaign.simulate(&never).unwrap();
    let simulated = campaign.simulated()[0][0].clone();
    let results = campaign.into_results();
    assert_eq!(results.records().len(), 2);
    let real = results.records().iter().map(|record| {
        assert!(record.measured.time_s.is_some(), "{:?}: {:?}", record.kind, record.objection);
        (record.kind, record.measured.clone())
    });
    for (kind, measured) in real.chain([(Kind::Simulated, simulated)]) {
        assert_eq!(measured.delivered, 300_000, "{kind:?}");
        assert!(measured.bytes_by_path.iter().all(|bytes| *bytes > 0), "{kind:?}: {measured:?}");
        assert!(measured.bytes_by_path.iter().sum::<u64>() >= 300_000, "{kind:?}: {measured:?}");
        // At 30 Mbit/s it takes 80 ms, plus a round trip for the handshake.
        assert!(measured.time_s.is_some_and(|time| time > 0.110), "{kind:?}: {measured:?}");
        assert!(measured.segments >= 300_000 / 1448, "{kind:?}: {measured:?}");
        let in_time = |srtt: &Option<f64>| srtt.is_some_and(|srtt| srtt >= 0.0299);
        assert!(measured.srtt_s.iter().all(in_time), "{kind:?}: {measured:?}");
    }
}

/// Flows that start together, downloaded, have the simulated sizes.
#[test]
fn transfers_that_start_together_are_all_delivered_by_all_three() {
    let paths = ["20Mbit/s,30ms,queue=4bdp", "10Mbit/s,30ms,queue=4bdp"];
    let Some(mut points) = points(&paths, "linux", "web") else { return };
    let traffic = &mut points[0].scenario.conditions[0].experiment.traffic;
    (traffic.flows, traffic.direction) = (5, anabranch_lab::scenario::Direction::Download);
    let total: u64 = points[0].plan(0).unwrap().iter().filter_map(|flow| flow.size).sum();
    let mut campaign = campaign(points, 1);
    let never = AtomicBool::new(false);
    campaign.measure(&never, &|_, _| ()).unwrap();
    campaign.simulate(&never).unwrap();
    let simulated = campaign.simulated()[0][0].clone();
    let results = campaign.into_results();
    assert_eq!(results.records().len(), 2);
    let real = results.records().iter().map(|record| {
        assert!(record.measured.time_s.is_some(), "{:?}: {:?}", record.kind, record.objection);
        (record.kind, record.measured.clone())
    });
    for (kind, measured) in real.chain([(Kind::Simulated, simulated)]) {
        assert_eq!(measured.delivered, total, "{kind:?}");
        assert!(measured.bytes_by_path.iter().sum::<u64>() >= total, "{kind:?}: {measured:?}");
        // A round trip for the handshake, and another for the request.
        assert!(measured.time_s.is_some_and(|time| time > 0.060), "{kind:?}: {measured:?}");
        assert!(measured.p95_s.is_none(), "{kind:?}: {measured:?}");
        assert!(measured.segments >= total / 1448, "{kind:?}: {measured:?}");
    }
}

/// The draws of a link belong to its data packets by number: every sender loses the same ones.
#[test]
fn listed_packets_are_lost_and_sent_again_by_all_three() {
    let Some(mut points) = points(&["20Mbit/s,20ms,queue=4bdp"], "tcp", "100KB") else { return };
    let experiment = &mut points[0].scenario.conditions[0].experiment;
    let data = experiment.paths()[0].data[0][0];
    experiment.graph.links[data].config.drop_list = vec![20, 40];
    let mut campaign = campaign(points, 1);
    let never = AtomicBool::new(false);
    campaign.measure(&never, &|_, _| ()).unwrap();
    campaign.simulate(&never).unwrap();
    let simulated = campaign.simulated()[0][0].clone();
    assert_eq!((simulated.delivered, simulated.retransmitted), (100_000, 2));
    for record in campaign.into_results().records() {
        assert_eq!(record.measured.delivered, 100_000, "{record:?}");
        // A slow machine may add a timeout or a probe.
        assert!(record.measured.retransmitted >= 2, "{record:?}");
    }
}

/// An infinite transfer ends after its duration.
#[test]
fn a_transfer_without_a_size_counts_what_has_arrived_in_its_time() {
    let Some(mut points) = points(&["8Mbit/s,20ms"], "tcp", "bulk") else { return };
    points[0].scenario.conditions[0].experiment.traffic.duration = anabranch_units::Duration::from_secs(1);
    let point = points[0].clone();
    let campaign = campaign(points, 1);
    campaign.measure(&AtomicBool::new(false), &|_, _| ()).unwrap();
    for record in campaign.into_results().records() {
        assert_eq!(record.measured.time_s, Some(1.0), "{record:?}");
        let goodput = Metric::Goodput.of(&point, &record.measured).unwrap();
        assert!(goodput > 1e6 && goodput <= 8e6, "{record:?}");
    }
}

#[test]
fn who_is_told_to_stop_keeps_what_there_is() {
    let Some(points) = points(&["8Mbit/s,20ms"], "tcp", "16KB") else { return };
    let campaign = campaign(points, 100);
    let cancelled = AtomicBool::new(false);
    let after_two = |done: usize, _: usize| cancelled.store(done >= 2, Ordering::Relaxed);
    assert_eq!(campaign.measure(&cancelled, &after_two), Err(Trouble::Interrupted));
    let there = campaign.into_results().records().len();
    // An unreliable run is repeated later, and is no progress.
    assert!((2..50).contains(&there), "{there}");
}

/// A point over IPv6 with another TCP on its path, whose flows start later and whose receiver has a small
/// buffer.
#[test]
fn cross_traffic_ipv6_later_starts_and_knobs_are_the_same_three_times() {
    if let Some(obstacle) = obstacle() {
        return skipped::skipped(obstacle);
    }
    let mut document = Document::bare();
    document
        .set_paths(&["20Mbit/s,20ms,queue=4bdp".to_owned(), "10Mbit/s,30ms,queue=4bdp".to_owned()])
        .unwrap();
    for set in [
        "ipv6=true",
        "schedulers=[\"linux\"]",
        "traffic.size=\"100 KB\"",
        "traffic.direction=download",
        "traffic.starts=[\"300 ms\", \"400 ms\"]",
        "traffic.background=[{ path = 2 }]",
        "receive-buffer=\"32 KB\"",
        "initial-window=4",
        "ecn=true",
        "rto.min=\"100 ms\"",
    ] {
        document.set(set).unwrap();
    }
    let mut campaign = campaign(Point::of(document.scenario().unwrap()).unwrap(), 1);
    let never = AtomicBool::new(false);
    campaign.measure(&never, &|_, _| ()).unwrap();
    campaign.simulate(&never).unwrap();
    let simulated = campaign.simulated()[0][0].clone();
    let results = campaign.into_results();
    let real = results.records().iter().map(|record| {
        assert!(record.measured.time_s.is_some(), "{:?}: {:?}", record.kind, record.objection);
        (record.kind, record.measured.clone())
    });
    let all: Vec<_> = real.chain([(Kind::Simulated, simulated)]).collect();
    assert_eq!(all.len(), 3);
    for (kind, measured) in all {
        assert_eq!(measured.delivered, 200_000, "{kind:?}");
        // The kernel's value includes the MPTCP option.
        let most = if kind == Kind::Kernel { 1428 } else { 1404 };
        assert!(measured.mss.iter().all(|mss| *mss <= most), "{kind:?}: {measured:?}");
    }
}

/// A host shares its memory for buffers among its connections. Background flows, which always have more to write,
/// left blocks of 16 KB to the measured flow, and a completion took twice as long as in the simulator and the kernel:
/// now a write that waits for memory fails the run.
#[test]
fn background_flows_leave_the_measured_flow_its_memory() {
    if let Some(obstacle) = obstacle() {
        return skipped::skipped(obstacle);
    }
    let mut document = Document::bare();
    document.set_paths(&["20Mbit/s,20ms".to_owned()]).unwrap();
    for set in [
        "schedulers=[\"tcp\"]",
        "traffic.size=\"64 KB\"",
        "traffic.direction=download",
        "traffic.start=\"1 s\"",
        "traffic.background=[{ path = 1, flows = 20 }]",
    ] {
        document.set(set).unwrap();
    }
    let campaign = campaign(Point::of(document.scenario().unwrap()).unwrap(), 1);
    campaign.measure(&AtomicBool::new(false), &|_, _| ()).unwrap();
    let results = campaign.into_results();
    let emulated = results.records().iter().find(|record| record.kind == Kind::Emulated).unwrap();
    assert!(!emulated.failed, "{emulated:?}");
    assert_eq!(emulated.measured.delivered, 64_000);
}

/// A small send buffer slows a sender down: without one these transfers take 0.8 s. (The kernel fills the
/// last segment of its buffer without checking the limit, so that it has some 300 KB in flight with 64 KB and
/// takes 1.1 s.) The bound for all of them is in the middle between these two.
#[test]
fn a_send_buffer_slows_the_sender_down() {
    let Some(mut points) = points(&["50Mbit/s,100ms"], "tcp@1", "1MB") else { return };
    let config = &mut points[0].scenario.conditions[0].configs[0];
    (config.send_buffer, config.kernel_buffers) = (anabranch_units::Bytes(64_000), false);
    points[0].kernel.send_buffer = Some(32_000);
    let campaign = campaign(points, 1);
    campaign.measure(&AtomicBool::new(false), &|_, _| ()).unwrap();
    for record in campaign.into_results().records() {
        assert!(record.measured.time_s.is_some_and(|time| time > 0.95), "{record:?}");
    }
}

/// A window of 32 KB limits the data of a round trip to 32 KB.
#[test]
fn a_receive_buffer_bounds_what_the_kernel_takes() {
    let Some(mut points) = points(&["100Mbit/s,100ms"], "tcp@1", "500KB") else { return };
    let small = anabranch_stack::config::ReceiveBuffer::Fixed(anabranch_units::Bytes(32_000));
    points[0].scenario.conditions[0].configs[0].receive_buffer = small;
    points[0].kernel.receive_buffer = Some(32_000);
    let campaign = campaign(points, 1);
    campaign.measure(&AtomicBool::new(false), &|_, _| ()).unwrap();
    for record in campaign.into_results().records() {
        assert!(record.measured.time_s.is_some_and(|time| time > 1.0), "{record:?}");
    }
}

/// Returns the measurements of run 0 of the only point over two paths with these settings, of all three kinds.
fn all_three(paths: [&str; 2], sets: &[&str]) -> Option<Vec<(Kind, anabranch_validate::Measured)>> {
    if let Some(obstacle) = obstacle() {
        skipped::skipped(obstacle);
        return None;
    }
    let mut document = Document::bare();
    document.set_paths(&paths.map(str::to_owned)).unwrap();
    for set in sets.iter().chain(&["schedulers=[\"linux\"]"]) {
        document.set(set).unwrap();
    }
    let mut campaign = campaign(Point::of(document.scenario().unwrap()).unwrap(), 1);
    let never = AtomicBool::new(false);
    campaign.measure(&never, &|_, _| ()).unwrap();
    campaign.simulate(&never).unwrap();
    let simulated = campaign.simulated()[0][0].clone();
    let results = campaign.into_results();
    let real = results.records().iter().map(|record| {
        assert!(!record.failed, "{:?}: {:?}", record.kind, record.objection);
        (record.kind, record.measured.clone())
    });
    let all: Vec<_> = real.chain([(Kind::Simulated, simulated)]).collect();
    assert_eq!(all.len(), 3);
    Some(all)
}

/// The programs of every kind of traffic make the same requests, blocks and segments, at once.
#[test]
fn streams_requests_video_datagrams_and_a_tcp_beside_are_the_same_three_times() {
    let traffic = "traffic=[{name='a',kind='on-off',on='200 ms',off='100 ms',rate='2 Mbit/s',duration='1 s',\
                   direction='upload'},{name='b',kind='requests',size='20 KB',think='100 ms',requests=4},\
                   {name='c',kind='udp',rate='200 kbit/s',duration='1 s',path='2'},\
                   {name='d',size='100 KB',via='tcp',path='1'},\
                   {name='e',kind='video',bitrate='1 Mbit/s',segment='200 ms',duration='1 s'}]";
    let paths = ["20Mbit/s,20ms,queue=4bdp", "10Mbit/s,30ms,queue=4bdp"];
    let Some(all) = all_three(paths, &[traffic]) else { return };
    for (kind, measured) in all {
        let of = |class| measured.of_class(class).unwrap_or_else(|| panic!("{kind:?}: no class {class}"));
        // The links give the lower bounds. How late a real-time run may be is the machine's affair.
        let within = |value: Option<f64>, low: f64, high: f64| {
            let high = if kind == Kind::Simulated { high } else { f64::INFINITY };
            assert!(value.is_some_and(|value| (low..high).contains(&value)), "{kind:?}: {measured:?}");
        };
        // The last block arrives half a round trip after it was written.
        within(of(0).lateness_s, 0.0099, 0.06);
        within(of(1).response_s, 0.02, 0.2);
        within(of(2).datagram_delay_s, 0.0149, 0.06);
        within(of(2).datagrams_lost, 0.0, 0.1);
        within(of(3).time_s, 0.06, 0.6);
        within(of(4).waiting_s, 0.04, 0.5);
        // The draws are the same: 250,000 bit/s of blocks for 0.7 s, four responses, five segments.
        assert_eq!(of(1).delivered, 80_000, "{kind:?}: {measured:?}");
        assert_eq!(of(4).delivered, 125_000, "{kind:?}: {measured:?}");
        assert_eq!(of(3).delivered, 100_000, "{kind:?}: {measured:?}");
        assert!(of(0).bytes_by_path.iter().sum::<u64>() >= of(0).delivered, "{kind:?}: {measured:?}");
        assert!(of(2).bytes_by_path[0] == 0 && of(2).bytes_by_path[1] > 0, "{kind:?}: {measured:?}");
    }
}

/// A noticed outage moves everything to the other path soon, and the path is used again when it returns.
#[test]
fn a_noticed_outage_ends_subflows_and_a_silent_one_stalls_all_three() {
    let change =
        "path.1.change=[{at='0.4 s',down=true,notify-after='20 ms'},{at='1 s',up=true,notify-after='20 ms'}]";
    let sets = ["traffic.size=\"2500 KB\"", "traffic.direction=upload", change];
    let paths = ["10Mbit/s,20ms,queue=2bdp", "8Mbit/s,30ms,queue=2bdp"];
    let Some(all) = all_three(paths, &sets) else { return };
    for (kind, measured) in all {
        assert_eq!(measured.delivered, 2_500_000, "{kind:?}: {measured:?}");
        // At 8 Mbit/s throughout it would take 2.5 s, and with both paths 1.1 s.
        assert!(measured.time_s.is_some_and(|time| time > 1.2), "{kind:?}: {measured:?}");
        assert!(measured.bytes_by_path.iter().all(|bytes| *bytes > 0), "{kind:?}: {measured:?}");
        if kind == Kind::Simulated {
            assert!(measured.time_s.is_some_and(|time| time < 2.6), "{measured:?}");
            assert!(measured.longest_gap_s.is_some_and(|gap| gap < 1.0), "{measured:?}");
        }
    }
    let silent = "path.change=[{at='0.4 s',down=true},{at='1 s',up=true}]";
    let sets = ["traffic.size=\"1 MB\"", "traffic.direction=download", silent];
    let Some(all) = all_three(paths, &sets) else { return };
    for (kind, measured) in all {
        assert_eq!(measured.delivered, 1_000_000, "{kind:?}: {measured:?}");
        assert!(measured.longest_gap_s.is_some_and(|gap| gap > 0.59), "{kind:?}: {measured:?}");
    }
}
