//! Explicit congestion notification from the queue to the window (RFC 3168).

use anabranch_link::{Aqm, Codel, Effect, FqCodel, QueueLimit};
use anabranch_sim::topology::{self, ServerAddresses};
use anabranch_sim::{RunReport, Sim};
use anabranch_stack::config::ConnectionConfig;
use anabranch_stack::congestion::CongestionKind;
use anabranch_units::{Bytes, Time};

use crate::common::path;

/// Runs ten megabytes over two paths of 20 Mbit/s and 40 ms, whose queues of 200 packets mark from
/// `threshold` on.
fn run(congestion: &str, ecn: bool, threshold: Option<QueueLimit>) -> RunReport {
    let mut paths = [path("a", 20, 40), path("b", 20, 40)];
    for path in &mut paths {
        let link = &mut path.stretches[0].up;
        link.queue = QueueLimit::Packets(200);
        link.ecn_threshold = threshold;
    }
    let topology = topology::disjoint(&paths, ServerAddresses::One).unwrap();
    let congestion = CongestionKind::from_name(congestion).unwrap();
    let config = ConnectionConfig { ecn, congestion, ..ConnectionConfig::linux() };
    let flow = topology.pairs[0].flow("flow", Some(Bytes(10_000_000)), config);
    Sim::new(topology.network, vec![flow], 1, ()).unwrap().run(Time::from_secs(60))
}

struct Seen {
    marked: u64,
    dropped: u64,
    reductions: u64,
    retransmitted: u64,
}

fn seen(report: &RunReport) -> Seen {
    assert!(report.flows[0].fct.is_some(), "it is delivered");
    Seen {
        marked: report.links.iter().map(|link| link.counters.effect(Effect::Marked).packets).sum(),
        dropped: report.links.iter().map(|link| link.counters.dropped_queue.packets).sum(),
        reductions: report.flows[0].sender.subflows.iter().map(|s| s.counters.ecn_reductions).sum(),
        retransmitted: report.flows[0].retransmitted_segments,
    }
}

const THRESHOLD: Option<QueueLimit> = Some(QueueLimit::Packets(30));

#[test]
fn with_marks_nothing_is_lost_and_without_them_the_queue_overflows() {
    for name in ["newreno", "cubic", "lia", "olia", "balia", "veno", "westwood"] {
        let marks = seen(&run(name, true, THRESHOLD));
        assert!(marks.marked > 0 && marks.reductions > 0, "{name}");
        assert_eq!((marks.dropped, marks.retransmitted), (0, 0), "{name}");
        let losses = seen(&run(name, true, None));
        assert_eq!((losses.marked, losses.reductions), (0, 0), "{name}");
        assert!(losses.dropped > 0 && losses.retransmitted > 0, "{name}");
    }
}

#[test]
fn a_window_is_reduced_once_for_all_marks_of_a_round_trip() {
    let marks = seen(&run("newreno", true, THRESHOLD));
    // A window of 70 to 100 segments overshoots the threshold by several segments in each round trip in which
    // it does.
    assert!(
        marks.reductions * 3 < marks.marked,
        "{} reductions for {} marks",
        marks.reductions,
        marks.marked
    );
    // In 2.3 seconds there are less than 60 round trips of each subflow.
    assert!(marks.reductions < 2 * 60);
}

#[test]
fn whoever_has_not_agreed_is_not_marked() {
    let plain = seen(&run("newreno", false, THRESHOLD));
    // The queue is as long as before, and overflows.
    assert!(plain.marked > 0 && plain.dropped > 0);
    assert_eq!(plain.reductions, 0);
}

#[test]
fn marks_keep_the_queue_at_the_threshold() {
    let longest = |report: &RunReport| {
        report.links.iter().map(|link| link.counters.max_queue.packets).max().unwrap_or(0)
    };
    let (with, without) = (run("newreno", true, THRESHOLD), run("newreno", true, None));
    assert_eq!(longest(&without), 200);
    // Slow start doubles once more before the first echo arrives.
    assert!(longest(&with) <= 150, "{}", longest(&with));
    let time = |report: &RunReport| report.flows[0].fct.unwrap().as_secs_f64();
    // Half of the capacity of path and threshold is less than that of the path, so that it is idle for a
    // while.
    assert!(time(&with) < time(&without) * 1.2, "{} and {} s", time(&with), time(&without));
}

/// CoDel and FQ-CoDel on the same paths, whose connections support ECN or do not.
#[test]
fn codel_marks_connections_with_ecn_and_drops_packets_of_others() {
    let run = |aqm: Aqm, ecn: bool| {
        let mut paths = [path("a", 20, 40), path("b", 20, 40)];
        for path in &mut paths {
            let link = &mut path.stretches[0].up;
            (link.queue, link.aqm) = (QueueLimit::Packets(1000), aqm);
        }
        let topology = topology::disjoint(&paths, ServerAddresses::One).unwrap();
        let config = ConnectionConfig { ecn, ..ConnectionConfig::linux() };
        let flow = topology.pairs[0].flow("flow", Some(Bytes(10_000_000)), config);
        let report = Sim::new(topology.network, vec![flow], 1, ()).unwrap().run(Time::from_secs(60));
        let dropped: u64 = report.links.iter().map(|link| link.counters.dropped_aqm.packets).sum();
        (seen(&report), dropped)
    };
    for aqm in [Aqm::Codel(Codel::default()), Aqm::FqCodel(FqCodel::default())] {
        let (marks, dropped) = run(aqm, true);
        assert!(marks.marked > 0 && marks.reductions > 0, "{aqm}");
        assert_eq!((dropped, marks.dropped, marks.retransmitted), (0, 0, 0), "{aqm}");
        let (losses, dropped) = run(aqm, false);
        assert_eq!((losses.marked, losses.reductions, losses.dropped), (0, 0, 0), "{aqm}");
        assert!(dropped > 0 && losses.retransmitted > 0, "{aqm}");
    }
}
