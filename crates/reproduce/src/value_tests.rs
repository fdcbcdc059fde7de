//! Measures of runs that are written by hand.

use anabranch_sim::{AppReport, EndReport, FlowReport, Outcome, Performance};
use anabranch_stack::event::SubflowId;
use anabranch_stack::segment::{Address, PathId};
use anabranch_stack::stats::{ConnectionStats, SubflowCounters, SubflowStats};
use anabranch_units::{Bytes, Duration, Time};

use super::*;

fn subflow(path: u8, segments: u64) -> SubflowStats {
    SubflowStats {
        id: SubflowId(path),
        local: Address::new(IpAddr::from([10, 0, path, 1]), 1000),
        remote: Address::new(IpAddr::from([10, 0, 9, 1]), 80),
        path: PathId(u16::from(path)),
        started: Time::ZERO,
        established: None,
        ended: None,
        counters: SubflowCounters { data_segments_sent: segments, ..SubflowCounters::default() },
        srtt: None,
        min_rtt: None,
        cwnd_bytes: 0,
        mss: 1000,
    }
}

/// A flow of 1 MB that is delivered after two seconds, a quarter of it over the first path.
fn flow(class: Class) -> FlowResult {
    let second = Duration::from_millis(1000);
    let report = FlowReport {
        name: "1".to_owned(),
        size: Some(Bytes(1_000_000)),
        start: Time::ZERO,
        outcome: Outcome::Completed,
        fct: Some(second * 2),
        acked: Some(second * 3),
        connected: None,
        delivered: 1_000_000,
        written: 1_000_000,
        data_acked: 1_000_000,
        bytes_by_path: vec![250_000, 750_000],
        subflows_used: 2,
        data_segments: 1000,
        retransmitted_segments: 30,
        reinjected_bytes: 0,
        duplicate_bytes: 0,
        rto_count: 4,
        longest_gap: None,
        ended: None,
        app: AppReport::Transfer,
        sender: EndReport {
            connection: Some(ConnectionStats {
                opportunistic_retransmissions: 5,
                penalisations: 7,
                ..ConnectionStats::default()
            }),
            subflows: vec![subflow(0, 300), subflow(1, 700)],
            ..EndReport::default()
        },
        receiver: EndReport::default(),
    };
    FlowResult {
        class,
        group: 0,
        pair: 0,
        report,
        path: 0,
        reinjected_segments: 20,
        lower_bound: None,
        time: second * 2,
        planned: None,
    }
}

/// Two flows of the contender, the second of four seconds, and a competing one with an eighth of the data.
fn result() -> RunResult {
    let mut flows = vec![flow(Class::Contender), flow(Class::Contender), flow(Class::Beside)];
    flows[1].time = Duration::from_millis(4000);
    flows[1].report.fct = Some(Duration::from_millis(4000));
    flows[1].report.acked = None;
    flows[2].report.delivered = 125_000;
    RunResult {
        flows,
        links: Vec::new(),
        middleboxes: Vec::new(),
        usage: Vec::new(),
        performance: Performance::default(),
    }
}

fn of(result: &RunResult, bulk: bool, metric: &str) -> f64 {
    value(Metric::parse(metric).unwrap(), &Ran { result, watch: None, bulk, download: false })
}

#[track_caller]
fn close(value: f64, expected: f64) {
    assert!((value - expected).abs() < 1e-9, "{value}, and not {expected}");
}

#[test]
fn times_are_of_the_last_byte_and_of_its_acknowledgement() {
    let result = result();
    close(of(&result, false, "done"), 3000.0);
    // One that was not acknowledged in full counts with the time that it had.
    close(of(&result, false, "acked"), 3500.0);
    close(of(&result, false, "beside.done"), 2000.0);
}

#[test]
fn the_goodput_of_bulk_flows_is_their_sum_and_of_others_their_mean() {
    let result = result();
    // 4 and 2 Mbit/s.
    close(of(&result, false, "goodput"), 3.0);
    close(of(&result, true, "goodput"), 6.0);
    close(of(&result, true, "goodput.1"), 1.5);
    close(of(&result, true, "beside.goodput"), 0.5);
    close(of(&result, true, "benefit"), 6.0);
}

#[test]
fn counts_are_means_of_the_flows_and_shares_of_all_of_their_data() {
    let mut result = result();
    // On the same subflow and on another one.
    close(of(&result, false, "repeated"), 5.0);
    close(of(&result, false, "share.1"), 25.0);
    result.flows[0].report.delivered = 0;
    close(of(&result, false, "share.2"), 75.0);
    close(of(&result, false, "subflows-used"), 2.0);
    close(of(&result, false, "segments"), 1000.0);
    close(of(&result, false, "segments.2"), 700.0);
    close(of(&result, false, "segments-most"), 700.0);
    close(of(&result, false, "timeouts"), 4.0);
    close(of(&result, false, "opportunistic"), 5.0);
    close(of(&result, false, "penalisations"), 7.0);
}

#[test]
fn a_download_has_the_segments_of_the_paths_of_its_client() {
    let mut result = result();
    for flow in &mut result.flows {
        // The server has one interface, and its remote addresses are those of the client.
        let report = &mut flow.report;
        report.receiver.subflows = report.sender.subflows.clone();
        for subflow in &mut report.sender.subflows {
            (subflow.local, subflow.remote) = (subflow.remote, subflow.local);
            subflow.path = PathId(0);
        }
    }
    let ran = Ran { result: &result, watch: None, bulk: false, download: true };
    let segments = |text| value(Metric::parse(text).unwrap(), &ran);
    close(segments("segments.1"), 300.0);
    close(segments("segments.2"), 700.0);
    assert_eq!(addresses(&result.flows[0], true), [[10, 0, 0, 1], [10, 0, 1, 1]].map(IpAddr::from));
}

/// Rates of 4, 2 and 0.5: the index is of all flows, the competing ones included.
#[test]
fn jains_index_counts_the_competing_flows() {
    close(of(&result(), false, "jain"), 6.5 * 6.5 / (3.0 * (16.0 + 4.0 + 0.25)));
}

#[test]
fn only_flows_with_a_size_can_be_unfinished() {
    let mut result = result();
    assert_eq!(of(&result, false, "unfinished"), 0.0);
    result.flows.iter_mut().for_each(|flow| flow.report.fct = None);
    assert_eq!((of(&result, false, "unfinished"), of(&result, true, "unfinished")), (2.0, 0.0));
}

fn mean(sum: f64, weight: f64, most: f64) -> Mean {
    Mean { sum, weight, most }
}

/// Two paths of the first flow, with round trips of 20 and 50 ms and a window of 4 and 8 segments.
fn watch() -> Watch {
    let mut watch = Watch::new(3, false);
    let on = |srtt: f64, window: f64| {
        let mut on = OnPath::default();
        on.srtt = mean(2.0 * srtt, 2.0, srtt);
        on.window = mean(2.0 * window, 2.0, 1.5 * window);
        on.free = mean(window, 2.0, window);
        on.wait = mean(0.5, 100.0, 0.09);
        on.burst = mean(12.0, 4.0, 4.0);
        on.bins = vec![1000; 40];
        on
    };
    let paths = [([10, 0, 0, 1], on(0.020, 4000.0)), ([10, 0, 1, 1], on(0.050, 8000.0))];
    watch.flows[0].paths = paths.into_iter().map(|(ip, on)| (IpAddr::from(ip), on)).collect();
    watch.flows[0].interval = mean(0.3, 100.0, 0.1);
    watch.flows[0].jump = mean(6000.0, 2.0, 5000.0);
    watch.flows[0].guard = mean(0.4, 4.0, 0.2);
    watch
}

#[test]
fn observed_measures_have_their_units() {
    let (result, watch) = (result(), watch());
    let ran = Ran { result: &result, watch: Some(&watch), bulk: true, download: false };
    for (metric, expected) in [
        ("interval", 3.0),
        ("wait", 5.0),
        ("wait-most", 90.0),
        ("srtt.1", 20.0),
        ("srtt.2", 50.0),
        // The second path less the first.
        ("srtt-gap", 30.0),
        ("window.1", 4.0),
        ("window.2", 8.0),
        ("window", 6.0),
        ("window-most", 12.0),
        ("free.1", 2.0),
        ("burst", 3.0),
        ("jump", 3.0),
        ("guard", 100.0),
        ("pauses", 0.0),
        // 1000 bytes in each tenth of a second, from the tenth up to the thirtieth: on one path and on both.
        ("goodput.1@1..3", 0.08),
        ("goodput@1..3", 0.16),
        ("goodput@2..3", 0.16),
        // The last two of these seconds have no data.
        ("goodput@2..6", 0.08),
        ("beside.goodput@1..3", 0.0),
    ] {
        close(value(Metric::parse(metric).unwrap(), &ran), expected);
    }
    // Without a recorder there is no value.
    assert!(of(&result, true, "wait").is_nan());
}
