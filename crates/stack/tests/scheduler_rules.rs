//! Rules of individual schedulers on numbers computed by hand, with more than two subflows or more than one
//! decision.

use crate::scheduler_common;

use anabranch_stack::event::SubflowId;
use anabranch_stack::known::{KnownPath, KnownPaths};
use anabranch_stack::prediction;
use anabranch_stack::scheduler::{
    Anabranch, AssignKind, Decision, Ecf, EcfOptions, EcfProfile, Linux, LinuxOptions, MinRtt, Pending, Rule,
    Scheduler, StmsC, StmsCOptions, SubflowView, View,
};
use anabranch_stack::segment::Address;
use anabranch_stack::seq::DataRange;
use anabranch_stack::transfer_model::{self, ModelOptions, TransferModel};
use anabranch_units::{Duration, Rate, Time};
use scheduler_common::{Connection, Licence, MSS, full, local, only, remembered, set, steady, subflow};

/// Returns the subflow that carries the next data, if it is new.
fn chosen(scheduler: &mut impl Scheduler, connection: &Connection) -> Option<SubflowId> {
    match scheduler.decide(&connection.view()) {
        Decision::Assign { subflow, kind: AssignKind::New, .. } => Some(subflow),
        _ => None,
    }
}

// ECF, algorithm 1: `waiting` ends if the first inequality fails, but not if only the second does.
#[test]
fn ecf_goes_on_waiting_where_only_the_second_inequality_fails() {
    let mut subflows = vec![full(subflow(0, 10, 10)), subflow(1, 100, 10)];
    subflows.iter_mut().for_each(|subflow| subflow.rttvar = Duration::ZERO);
    let remaining = |segments| Connection::new(subflows.clone(), segments * MSS);
    let mut ecf = Ecf::new(EcfOptions { profile: EcfProfile::Paper, beta: 0.25 });
    // (1 + 100/10) 10 ms is not less than 100 ms.
    assert_eq!(chosen(&mut ecf, &remaining(100)), Some(SubflowId(1)));
    assert!(!ecf.is_waiting());
    // (1 + 20/10) 10 ms is, and 20/10 of 100 ms is more than twice 10 ms.
    assert_eq!(chosen(&mut ecf, &remaining(20)), None);
    assert!(ecf.is_waiting());
    // One tenth of 100 ms is not.
    assert_eq!(chosen(&mut ecf, &remaining(1)), Some(SubflowId(1)));
    assert!(ecf.is_waiting());
    // (1 + 100/10) 10 ms is less than 125 ms, and not less than 100 ms.
    assert_eq!(chosen(&mut ecf, &remaining(100)), None);
    // Nor is 130 ms less than 125 ms.
    assert_eq!(chosen(&mut ecf, &remaining(120)), Some(SubflowId(1)));
    assert!(!ecf.is_waiting());
}

// STMS, equation 2: a subflow's data begins where all faster subflows will be by then.
#[test]
fn stms_adds_up_what_all_faster_subflows_deliver() {
    let subflows = vec![full(subflow(0, 20, 11)), full(subflow(1, 65, 12)), subflow(2, 100, 10)];
    let connection = Connection::new(subflows, 100 * MSS);
    let mut stms = StmsC::new(StmsCOptions::DEFAULT);
    let view = connection.view();
    // 11 segments in 20 ms for (100 - 20) / 2 ms, and 12 in 65 ms for (100 - 65) / 2 ms: 22 and 3.2.
    assert_eq!(stms.gap(&view, &view.subflows[2]), 25);
    // Only the first is faster than the second: 11 in 20 ms for (65 - 20) / 2 ms.
    assert_eq!(stms.gap(&view, &view.subflows[1]), 12);
    assert_eq!(stms.gap(&view, &view.subflows[0]), 0);
    let Decision::Assign { subflow, range, .. } = stms.decide(&view) else { panic!("it has room") };
    assert_eq!((subflow, range), (SubflowId(2), DataRange::new(25 * MSS, 26 * MSS)));
}

// RFC 8684 section 3.3.6: data of a failed subflow is reinjected on another, and waits for that if it has no
// free window now.
#[test]
fn data_of_a_failed_subflow_waits_for_one_that_has_not_tried_it() {
    let reinjected = |subflows: Vec<SubflowView>, tried: &[u8]| {
        let pending = Pending { range: DataRange::new(0, MSS), tried: set(tried) };
        let connection = Connection { reinject: vec![pending], ..Connection::new(subflows, 100 * MSS) };
        match MinRtt.decide(&connection.view()) {
            Decision::Assign { subflow, kind: AssignKind::Reinject, .. } => Ok(subflow.0),
            Decision::Wait { why, .. } => Err(why.rule),
            other => panic!("{other:?}"),
        }
    };
    let free = || vec![subflow(0, 10, 10), subflow(1, 100, 10)];
    assert_eq!(reinjected(free(), &[0]), Ok(1));
    assert_eq!(reinjected(vec![subflow(0, 10, 10), full(subflow(1, 100, 10))], &[0]), Err(Rule::NoRoom));
    assert_eq!(reinjected(free(), &[0, 1]), Ok(0));
}

// Linux, mptcp_pm_subflow_chk_stale: if all subflows are silent, all are used.
#[test]
fn linux_leaves_no_subflow_alone_where_all_are_silent() {
    let mut subflows = vec![subflow(0, 20, 20), subflow(1, 20, 20)];
    subflows.iter_mut().for_each(|subflow| subflow.unacked = 5 * MSS);
    let connection = Connection { licence: Licence::of("linux"), ..Connection::new(subflows, 200 * MSS) };
    let mut linux = Linux::new(LinuxOptions::DEFAULT);
    for data_timeouts in 1..20 {
        let view = View { data_timeouts, ..connection.view() };
        let decision = linux.decide(&view);
        assert!(matches!(decision, Decision::Assign { .. }), "{data_timeouts}: {decision:?}");
    }
}

// With constant windows and no rates the gap is the gap of STMS-C: equation 2.
#[test]
fn the_gap_of_stms_is_a_special_case_of_anabranch() {
    for (fast_ms, slow_ms, cwnd) in [(20, 100, 100), (20, 60, 7), (10, 300, 25), (50, 51, 400), (30, 90, 1)] {
        let subflows = vec![full(steady(subflow(0, fast_ms, cwnd))), steady(subflow(1, slow_ms, 10))];
        let connection = Connection::new(subflows, 100_000 * MSS);
        let view = connection.view();
        let gap = StmsC::new(StmsCOptions::DEFAULT).gap(&view, &view.subflows[1]);
        let Decision::Assign { subflow, range, .. } = only(|options| options.gap = true).decide(&view) else {
            panic!("it has room")
        };
        assert_eq!(subflow, SubflowId(1));
        assert!((range.start / MSS).abs_diff(gap) <= 1, "{fast_ms} {slow_ms} {cwnd}: {range:?} and {gap}");
    }
}

// DMPTCP's model: rounds of doubling windows, all of it delivered by the end of a whole number of them.
#[test]
fn the_rounds_of_dmptcp_are_a_special_case_of_the_prediction() {
    for cwnd in [1, 3, 8, 10, 40] {
        for ssthresh in [None, Some(16), Some(100)] {
            let options = ModelOptions { clip_at_ssthresh: true, increase: 0.0, ..ModelOptions::default() };
            let start = transfer_model::PathState { cwnd, ssthresh, loss: 0.0 };
            let state = prediction::PathState {
                base_rtt: 0.05,
                rtt: 0.05,
                free: f64::from(cwnd) * 1400.0,
                flight: 0.0,
                acks: (0.0, 0.0),
                backlog: 0.0,
                rate: f64::INFINITY,
                ssthresh: ssthresh.map_or(f64::INFINITY, |segments| f64::from(segments) * 1400.0),
                growth: 1.0,
                limit: f64::INFINITY,
                loss: 0.0,
                mss: 1400.0,
            };
            for rounds in 1..8_u32 {
                let model = TransferModel::new(options).delivered(start, f64::from(rounds), f64::NAN);
                // The last round is delivered half a round trip after it was sent.
                let at = 0.05 * (f64::from(rounds) - 0.5) + 1e-6;
                let segments = state.delivered(at) / 1400.0;
                assert!(
                    (segments - model).abs() < 0.01 * model,
                    "{cwnd} {ssthresh:?} {rounds}: {segments} {model}"
                );
            }
        }
    }
}

// DMPTCP's and ECF's question: does the rest arrive sooner without the slow subflow? BLEST's: does the window suffice for it?
#[test]
fn anabranch_leaves_a_path_idle_that_brings_the_end_no_nearer_or_would_block_the_window() {
    // Within 50 ms the fast subflow delivers two windows of 10 segments.
    let subflows = || vec![full(steady(subflow(0, 20, 10))), steady(subflow(1, 100, 10))];
    let abstains = |segments: u64| {
        let connection = Connection::new(subflows(), segments * MSS);
        chosen(&mut only(|options| options.abstain = true), &connection).is_none()
    };
    assert!(abstains(20) && !abstains(22));
    assert!(
        chosen(&mut only(|_| ()), &Connection::new(subflows(), 20 * MSS)).is_some(),
        "unless told otherwise"
    );
    // A path of less than a quarter of the best rate. Its segment takes 10 ms, so that it is acknowledged after 110 ms, and the fast
    // subflow sends five and a half windows until then.
    let address = |last: u8| Address::new([10, 0, 0, last].into(), 4000);
    let blocked = |segments: u64, slow: Option<f64>| {
        let rates = [(1, Some(1e9)), (2, slow)].into_iter();
        let known = |(last, rate)| Some((address(last).ip, KnownPath { rtt: 0.02, rate: rate?, loss: 0.0 }));
        let paths: KnownPaths = rates.filter_map(known).collect();
        let mut subflows = subflows();
        (subflows[0].local, subflows[1].local) = (address(1), address(2));
        let connection = Connection { window_end: segments * MSS, ..Connection::new(subflows, 1000 * MSS) };
        let mut scheduler =
            only(|options| (options.block, options.memory, options.unknown) = (true, 1.0, 16.0));
        let decision = scheduler.decide(&View { known: Some(&paths), ..connection.view() });
        !matches!(decision, Decision::Assign { .. })
    };
    assert!(blocked(54, Some(140_000.0)) && !blocked(57, Some(140_000.0)));
    assert!(!blocked(54, Some(200_000.0)), "its rate is comparable");
    assert!(!blocked(50, None), "its rate is not known");
}

// The SYN was sent again, and there are no timestamps. Within half a second the fast subflow delivers 24 windows of ten segments and half of another one.
#[test]
fn a_path_without_a_round_trip_counts_with_a_second() {
    let mut unmeasured = steady(subflow(1, 1, 10));
    (unmeasured.srtt, unmeasured.min_rtt, unmeasured.last_rtt) = (None, Duration::ZERO, Duration::ZERO);
    let connection = Connection::new(vec![full(steady(subflow(0, 20, 10))), unmeasured], 1000 * MSS);
    let decision = only(|options| options.gap = true).decide(&connection.view());
    let Decision::Assign { subflow, range, .. } = decision else { panic!("{decision:?}") };
    assert_eq!(subflow, SubflowId(1));
    assert!((235..=250).contains(&(range.start / MSS)), "{range:?}");
}

// Linux advertises less of its memory until every subflow has received a segment of 536 bytes.
#[test]
fn an_idle_path_gets_one_segment_where_the_receive_window_is_short() {
    let widens = |window: u64, sent: u64, outstanding: u64, scheduler: &mut Anabranch| {
        let idle = SubflowView { bytes_sent: sent, ..steady(subflow(1, 100, 10)) };
        let used = SubflowView { bytes_sent: 10 * MSS, ..full(steady(subflow(0, 20, 10))) };
        let subflows = vec![used, idle];
        let mut connection = Connection { window_end: window * MSS, ..Connection::new(subflows, 1000 * MSS) };
        connection.outstanding = vec![Pending { range: DataRange::new(0, outstanding), tried: set(&[0]) }];
        let mut copied = |connection: &Connection| match scheduler.decide(&connection.view()) {
            Decision::Assign { subflow, range, kind: AssignKind::Copy, why } => {
                assert_eq!((subflow, why.rule), (SubflowId(1), Rule::Opportunistic));
                Some(range)
            }
            _ => None,
        };
        // A window counts as one that grows for two of the longest round trips of the used paths after it was first seen.
        assert_eq!(copied(&connection), None, "the window grows");
        connection.now += Duration::from_millis(if sent > 0 { 250 } else { 50 });
        for subflow in &mut connection.subflows {
            subflow.last_received = connection.now;
        }
        copied(&connection)
    };
    // The others deliver two windows of 10 segments before its first data, so that a window of 15 ends before that.
    let places = || only(|options| (options.gap, options.tail) = (true, 0.05));
    assert_eq!(widens(15, 0, 10 * MSS, &mut places()), Some(DataRange::new(0, MSS)));
    assert_eq!(widens(15, 0, 536, &mut places()), Some(DataRange::new(0, 536)));
    assert_eq!(widens(15, 0, 535, &mut places()), None, "too short to count");
    assert_eq!(widens(15, MSS, 10 * MSS, &mut places()), None, "it has carried a segment");
    assert_eq!(widens(50, 0, 10 * MSS, &mut places()), None, "the window is wide");
    assert_eq!(widens(15, 0, 10 * MSS, &mut only(|options| options.gap = true)), None, "no copies");
}

#[test]
fn a_path_other_than_the_best_takes_a_segment_at_a_time() {
    // Neither rate is known, so that the first subflow counts as the best one.
    let takes = |first: u64, second: u64| {
        let subflows = vec![steady(subflow(0, first, 10)), steady(subflow(1, second, 10))];
        let connection = Connection::new(subflows, 100 * MSS);
        match only(|_| ()).decide(&connection.view()) {
            Decision::Assign { subflow, range, .. } => (subflow, range.len() / MSS),
            wait => panic!("{wait:?}"),
        }
    };
    assert_eq!(takes(20, 40), (SubflowId(0), 10));
    assert_eq!(takes(40, 20), (SubflowId(1), 1));
}

// A window that is full waits for the repair of a loss: 2 % of 20 segments, a round trip of 20 ms, are 8 ms.
#[test]
fn where_the_receive_window_is_the_limit_losses_count_for_all_of_it() {
    let chooses = |window: u64, later: u64| {
        let lossy = SubflowView { loss_rate: 0.02, bytes_sent: MSS, ..steady(subflow(0, 20, 30)) };
        let subflows = vec![lossy, steady(subflow(1, 24, 30))];
        let mut connection = Connection { window_end: window * MSS, ..Connection::new(subflows, 1000 * MSS) };
        let mut scheduler = only(|_| ());
        scheduler.decide(&connection.view());
        connection.now += Duration::from_millis(later);
        chosen(&mut scheduler, &connection)
    };
    assert_eq!(chooses(20, 100), Some(SubflowId(1)));
    assert_eq!(chooses(20, 10), Some(SubflowId(0)), "a window that grows");
    assert_eq!(chooses(500, 100), Some(SubflowId(0)), "a wide window");
}

#[test]
fn the_last_bytes_of_a_flow_take_the_subflow_that_delivers_them_soonest() {
    // 20 segments: ten now and ten after a round trip of 40 ms, or all at once in 25 ms.
    let subflows = vec![steady(subflow(0, 40, 10)), steady(subflow(1, 50, 30))];
    let connection = Connection::new(subflows, 20 * MSS);
    let least = |least| only(|options| (options.abstain, options.least) = (true, least));
    assert_eq!(chosen(&mut least(0), &connection), Some(SubflowId(0)));
    assert_eq!(chosen(&mut least(30_000), &connection), Some(SubflowId(1)));
}

// 40 segments in flight at a million bytes a second, 40 ms of them in a queue: a segment arrives there in 51 ms.
#[test]
fn another_subflow_takes_the_end_of_a_flow_only_if_it_is_sooner_by_half_of_the_queue() {
    let takes = |rtt: u64| {
        let first = SubflowView {
            local: local(1),
            srtt: Some(Duration::from_millis(60)),
            sent: Some((Time::from_millis(950), Time::from_secs(1))),
            ..full(steady(subflow(0, 20, 40)))
        };
        let second = SubflowView { local: local(2), ..steady(subflow(1, rtt, 20)) };
        let connection = Connection::new(vec![first, second], MSS);
        let known = remembered(&[(1, 1e6), (2, 1e6)]);
        let mut scheduler =
            only(|options| (options.abstain, options.least, options.memory) = (true, 30_000, 1.0));
        matches!(
            scheduler.decide(&View { known: Some(&known), ..connection.view() }),
            Decision::Assign { subflow: SubflowId(1), .. }
        )
    };
    assert!(takes(50));
    assert!(!takes(75), "sooner, but both may share the queue");
}

#[test]
fn data_that_a_slow_subflow_has_at_the_end_is_copied_and_no_more_than_allowed() {
    let mut connection = Connection::new(vec![subflow(0, 20, 10), full(steady(subflow(1, 400, 10)))], 0);
    connection.outstanding = vec![Pending { range: DataRange::new(0, 10 * MSS), tried: set(&[1]) }];
    connection.data_nxt = 10 * MSS;
    let view = connection.view();
    let mut copies = only(|options| options.tail = 0.01);
    assert!(copies.copies_outstanding());
    let Decision::Assign { subflow: on, range, kind, why } = copies.decide(&view) else { panic!("{view:?}") };
    assert_eq!((on, kind, why.rule), (SubflowId(0), AssignKind::Copy, Rule::Tail));
    assert_eq!(
        range,
        DataRange::new(0, 10 * MSS),
        "a window, since that is more than a hundredth of the flow"
    );
    let Decision::Wait { until: Some(overdue), .. } = copies.decide(&view) else {
        panic!("it has copied a window")
    };
    // Then its acknowledgement takes one and a half times as long as expected: a timeout would send it again.
    assert_eq!(overdue, Time::from_millis(1600));
    let later = View { now: overdue, ..view };
    assert!(matches!(copies.decide(&later), Decision::Assign { kind: AssignKind::Copy, .. }));
    assert!(matches!(only(|_| ()).decide(&view), Decision::Wait { .. }), "unless told otherwise");
    // Data that arrives sooner on its own subflow is not copied.
    let heard = SubflowView { last_received: connection.now, ..full(subflow(1, 21, 10)) };
    let mut soon = Connection { subflows: vec![subflow(0, 20, 10), heard], ..connection.clone() };
    let mut copies = only(|options| options.tail = 0.01);
    let Decision::Wait { until: Some(again), .. } = copies.decide(&soon.view()) else { panic!("{soon:?}") };
    // Without an acknowledgement it is copied then, and not before.
    soon.now = again - Duration::from_millis(1);
    assert!(matches!(copies.decide(&soon.view()), Decision::Wait { until, .. } if until == Some(again)));
    soon.now = again;
    assert!(matches!(copies.decide(&soon.view()), Decision::Assign { kind: AssignKind::Copy, .. }));
}

// A path on which this number of segments is acknowledged in a millisecond, and an unknown path.
fn beside_an_unknown_path(acknowledged: u64, unknown: f64, rest: u64) -> Option<SubflowId> {
    let known = SubflowView {
        delivery_rate: Rate(11_200_000 * acknowledged),
        bytes_sent: 20 * acknowledged * MSS,
        ..full(steady(subflow(0, 20, 20 * acknowledged)))
    };
    let mut connection = Connection::new(vec![known, steady(subflow(1, 20, 10))], rest * MSS);
    let mut scheduler =
        only(|options| (options.abstain, options.rate, options.unknown) = (true, true, unknown));
    for _ in 0..10 {
        connection.now += Duration::from_millis(1);
        let first = &mut connection.subflows[0];
        first.bytes_sent += acknowledged * MSS;
        first.last_received = connection.now;
        scheduler.decide(&connection.view());
    }
    chosen(&mut scheduler, &connection)
}

#[test]
fn a_path_of_unknown_rate_is_not_trusted_with_the_end_of_a_flow() {
    assert_eq!(beside_an_unknown_path(10, 0.0, 10), Some(SubflowId(1)));
    assert_eq!(beside_an_unknown_path(10, 16.0, 10), None);
    assert_eq!(beside_an_unknown_path(10, 16.0, 4000), Some(SubflowId(1)), "a long flow tries it");
    // A first window in a round trip is half of the rate of the known path.
    assert_eq!(beside_an_unknown_path(1, 16.0, 10), Some(SubflowId(1)));
}

// As above, and the host remembers the second path. Its data has half a millisecond to arrive before the end.
#[test]
fn a_remembered_rate_counts_until_the_rate_is_measured() {
    let address = |last: u8| Address::new([10, 0, 0, last].into(), 4000);
    let takes = |remembered: f64, factor: f64, acks: u64| {
        let known = SubflowView {
            delivery_rate: Rate(112_000_000),
            bytes_sent: 200 * MSS,
            ..full(steady(subflow(0, 20, 200)))
        };
        let second = SubflowView { local: address(2), bytes_sent: 20 * MSS, ..steady(subflow(1, 20, 10)) };
        let mut connection = Connection::new(vec![known, second], 10 * MSS);
        let path = KnownPath { rtt: 0.02, rate: remembered, loss: 0.0 };
        let paths: KnownPaths = [(address(2).ip, path)].into_iter().collect();
        let mut scheduler = only(|options| {
            (options.abstain, options.rate, options.unknown, options.memory) = (true, true, 16.0, factor);
        });
        for ack in 1..=60 {
            connection.now += Duration::from_millis(1);
            let first = &mut connection.subflows[0];
            first.bytes_sent += 10 * MSS;
            first.last_received = connection.now;
            if ack <= acks {
                // A small part of the first one's rate.
                let second = &mut connection.subflows[1];
                second.bytes_sent += MSS / 16;
                second.last_received = connection.now;
            }
            scheduler.decide(&View { known: Some(&paths), ..connection.view() });
        }
        match scheduler.decide(&View { known: Some(&paths), ..connection.view() }) {
            Decision::Assign { subflow, kind: AssignKind::New, .. } => Some(subflow),
            _ => None,
        }
    };
    assert_eq!(takes(1.4e7, 1.0, 0), Some(SubflowId(1)));
    assert_eq!(takes(1.4e7, 0.0, 0), None, "no memory");
    assert_eq!(takes(1.4e7, 0.01, 0), None, "a distorted one");
    assert_eq!(takes(0.8e5, 1.0, 0), None, "a slow path");
    assert_eq!(takes(1.4e7, 1.0, 60), None, "a path that is measured as slow");
    assert_eq!(takes(0.8e5, 200.0, 0), Some(SubflowId(1)), "the factor");
}

// As above: measured as slow, but more than a second ago. It is tried again, with four segments.
#[test]
fn a_path_that_may_have_recovered_is_tried_with_four_segments() {
    let takes = |wait: u64, flight: u64, memory: f64| {
        let known =
            SubflowView { local: local(1), bytes_sent: 200 * MSS, ..full(steady(subflow(0, 20, 200))) };
        let second = SubflowView { local: local(2), bytes_sent: 20 * MSS, ..steady(subflow(1, 20, 10)) };
        let mut connection = Connection::new(vec![known, second], 10 * MSS);
        let paths = remembered(&[(1, 1.4e7), (2, 1.4e7)]);
        let mut scheduler = only(|options| {
            (options.abstain, options.rate, options.unknown, options.memory) = (true, true, 16.0, memory);
        });
        // The second path at a tenth of the first one's rate; each segment waits for others.
        for ack in 1..=20 {
            connection.now += Duration::from_millis(1);
            for (subflow, segments) in connection.subflows.iter_mut().zip([10, 1]) {
                subflow.bytes_sent += segments * MSS;
                subflow.last_received = connection.now;
                subflow.last_rtt = Duration::from_millis(40);
            }
            scheduler.decide(&View { known: Some(&paths), ..connection.view() });
            if ack == 20 {
                connection.now += Duration::from_millis(wait);
                connection.subflows[0].last_received = connection.now;
                let second = &mut connection.subflows[1];
                (second.inflight, second.unacked) = (flight * MSS, flight * MSS);
                second.bytes_sent += flight * MSS;
                second.sent = (flight > 0).then_some((connection.now, connection.now));
            }
        }
        match scheduler.decide(&View { known: Some(&paths), ..connection.view() }) {
            Decision::Assign { subflow, kind: AssignKind::New, .. } => Some(subflow),
            _ => None,
        }
    };
    assert_eq!(takes(500, 0, 1.0), None, "it is slow");
    assert_eq!(takes(1500, 0, 1.0), Some(SubflowId(1)));
    assert_eq!(takes(1500, 3, 1.0), Some(SubflowId(1)));
    assert_eq!(takes(1500, 4, 1.0), None);
    assert_eq!(takes(1500, 0, 0.0), None, "it never was another one");
}

// 1 MB/s and 20 ms hold 20 KB. Of 50 KB in flight 30 KB wait in the queue, before any acknowledgement has shown it.
#[test]
fn data_in_flight_beyond_what_the_path_holds_waits_in_its_queue() {
    let arrival = |flight: f64, rtt: f64| {
        let state = prediction::PathState {
            base_rtt: 0.02,
            rtt,
            free: 100_000.0,
            flight,
            acks: (0.0, rtt),
            backlog: 0.0,
            rate: 1e6,
            ssthresh: f64::INFINITY,
            growth: 1.0,
            limit: f64::INFINITY,
            loss: 0.0,
            mss: 1000.0,
        };
        state.arrival(1000.0) * 1e3
    };
    let close = |got: f64, expected: f64| assert!((got - expected).abs() < 1e-6, "{got} {expected}");
    close(arrival(20_000.0, 0.02), 11.0);
    close(arrival(50_000.0, 0.02), 41.0);
    close(arrival(50_000.0, 0.06), 51.0);
    close(arrival(10_000.0, 0.06), 21.0);
}

// Ten segments are sent at once to a path that carries each of them in 10 ms: as soon as the queue there takes longer than the other path, that is the better one.
#[test]
fn segments_that_are_sent_at_once_wait_for_each_other() {
    let address = |last: u8| Address::new([10, 0, 0, last].into(), 4000);
    let path = |rate| KnownPath { rtt: 0.02, rate, loss: 0.0 };
    let paths: KnownPaths =
        [(address(1).ip, path(140_000.0)), (address(2).ip, path(1e7))].into_iter().collect();
    let near = SubflowView { local: address(1), ..steady(subflow(0, 20, 10)) };
    let far = SubflowView { local: address(2), ..steady(subflow(1, 80, 10)) };
    let mut connection = Connection::new(vec![near, far], 100 * MSS);
    let mut scheduler = only(|options| options.memory = 1.0);
    let mut counts = [0; 2];
    while counts[1] == 0 {
        let decision = scheduler.decide(&View { known: Some(&paths), ..connection.view() });
        let Decision::Assign { subflow, range, .. } = decision else { panic!("{decision:?}") };
        counts[subflow.index()] += range.len() / MSS;
        connection.apply(&decision).unwrap();
    }
    // The far one's arrive after 40 ms, the near one's after 10, and 10 more for each.
    assert_eq!(counts, [3, 10]);
}

// The acknowledgements of data that was sent at once arrive at once, a round trip later, and so do the windows that they open.
#[test]
fn acknowledgements_are_expected_a_round_trip_after_their_data() {
    let state = |acks| prediction::PathState {
        base_rtt: 0.1,
        rtt: 0.1,
        free: 0.0,
        flight: 10_000.0,
        acks,
        backlog: 0.0,
        rate: f64::INFINITY,
        ssthresh: 0.0,
        growth: 1.0,
        limit: f64::INFINITY,
        loss: 0.0,
        mss: 1000.0,
    };
    let close = |got: f64, expected: f64| assert!((got - expected).abs() < 1e-6, "{got} {expected}");
    let even = state((0.0, 0.1));
    close(even.delivered(0.1), 5000.0);
    close(even.arrival(5000.0), 0.1);
    let late = state((0.08, 0.09));
    close(late.delivered(0.129), 0.0);
    close(late.delivered(0.135), 5000.0);
    close(late.arrival(5000.0), 0.135);
    close(late.arrival(15_000.0), 0.235);
}

// Until a segment on the far path arrives, in 100 ms, the near one delivers 50 segments. The send buffer has 30. A window of 15 segments beside
// the near one's 10 makes it large enough.
#[test]
fn a_far_path_takes_the_last_data_of_a_send_buffer_that_would_grow_with_its_window() {
    let of = |rest: u64, size_known: bool, cwnd: u64, rate: f64, most: u64, full_buffer: bool| {
        let near = SubflowView { local: local(1), ..full(steady(subflow(0, 20, 10))) };
        let far = SubflowView { local: local(2), last_received: Time::from_secs(1), ..subflow(1, 200, cwnd) };
        let connection = Connection::new(vec![near, far], 30 * MSS);
        let view = View {
            known: Some(&remembered(&[(1, 1e9), (2, rate)])),
            remaining: if size_known { rest * MSS } else { 30 * MSS },
            written: rest * MSS,
            size_known,
            send_buffer_full: full_buffer,
            send_buffer_max: most * MSS,
            ..connection.view()
        };
        match only(|options| (options.gap, options.memory) = (true, 1.0)).decide(&view) {
            Decision::Assign { range, .. } => Some(range.start / MSS),
            _ => None,
        }
    };
    let takes = |rest, cwnd, rate, most, full_buffer| of(rest, true, cwnd, rate, most, full_buffer);
    assert_eq!(takes(400, 10, 1e7, 10_000, true), Some(20), "it delivers 150 segments until then");
    assert_eq!(takes(100, 10, 1e7, 10_000, true), None, "it delivers fewer than the near one loses");
    assert_eq!(takes(400, 10, 12.0 * MSS as f64 / 0.2, 10_000, true), None, "the path holds 12 segments");
    assert_eq!(takes(400, 10, 1e7, 40, true), None, "the buffer stays too small");
    assert_eq!(takes(400, 16, 1e7, 10_000, true), None, "its window suffices");
    assert_eq!(takes(400, 10, 1e7, 10_000, false), None, "the application has written all that it has");
    // A flow of unknown size is expected to last as long again.
    assert_eq!(of(400, false, 10, 1e7, 10_000, true), Some(20));
    assert_eq!(of(100, false, 10, 1e7, 10_000, true), None);
}

// As above, and the rate of the far path is not known. Ten segments are less than half of the share of the flow that may be copied.
#[test]
fn a_path_of_unknown_rate_whose_data_has_no_place_is_measured_by_copies() {
    let copies = |far_rate: Option<f64>, tail: f64, sent: u64, buffered: u64, rest: u64| {
        let near = SubflowView { local: local(1), ..full(steady(subflow(0, 20, 10))) };
        let far = SubflowView { local: local(2), bytes_sent: sent * MSS, ..steady(subflow(1, 200, 10)) };
        let mut connection = Connection::new(vec![near, far], buffered * MSS);
        connection.outstanding = vec![Pending { range: DataRange::new(0, 10 * MSS), tried: set(&[0]) }];
        let rates: Vec<_> = [(1, 1e9)].into_iter().chain(far_rate.map(|rate| (2, rate))).collect();
        let known = remembered(&rates);
        let view = View { known: Some(&known), remaining: rest * MSS, ..connection.view() };
        let mut scheduler = only(|options| (options.gap, options.tail, options.memory) = (true, tail, 1.0));
        match scheduler.decide(&view) {
            Decision::Assign { subflow, range, kind: AssignKind::Copy, .. } => Some((subflow, range)),
            _ => None,
        }
    };
    assert_eq!(copies(None, 0.05, 1, 15, 1000), Some((SubflowId(1), DataRange::new(0, MSS))));
    assert_eq!(copies(Some(1e5), 0.05, 1, 15, 1000), None, "its rate is known");
    assert_eq!(copies(None, 0.0, 1, 15, 1000), None, "no copies");
    assert_eq!(copies(None, 0.05, 10, 15, 1000), None, "it has carried ten segments");
    assert_eq!(copies(None, 0.05, 1, 1000, 1000), None, "its data has a place");
    assert_eq!(copies(None, 0.05, 1, 15, 300), None, "a short flow");
}

// The first subflow is the fastest one, and has lost what is outstanding.
#[test]
fn a_copy_takes_the_fastest_subflow_that_has_not_sent_the_data() {
    let lost = SubflowView {
        inflight: MSS,
        unacked: MSS,
        last_received: Time::from_millis(900),
        ..subflow(0, 20, 10)
    };
    let mut connection = Connection::new(vec![lost, subflow(1, 60, 10), subflow(2, 40, 10)], 0);
    connection.outstanding = vec![Pending { range: DataRange::new(0, MSS), tried: set(&[0]) }];
    connection.data_nxt = MSS;
    let decision = only(|options| options.tail = 0.05).decide(&connection.view());
    assert!(
        matches!(decision, Decision::Assign { subflow: SubflowId(2), kind: AssignKind::Copy, .. }),
        "{decision:?}"
    );
}

// Ten segments measure a path of unknown rate. After that its window is the limit.
#[test]
fn a_path_gets_ten_segments_until_its_rate_is_known() {
    let most = |remembered: Option<f64>| {
        let address = Address::new([10, 0, 0, 2].into(), 4000);
        let path = |rate| KnownPath { rtt: 0.02, rate, loss: 0.0 };
        let paths: KnownPaths = remembered.map(|rate| (address.ip, path(rate))).into_iter().collect();
        let fits = |flight: u64| {
            let first = SubflowView {
                delivery_rate: Rate(11_200_000),
                bytes_sent: 20 * MSS,
                ..full(steady(subflow(0, 20, 20)))
            };
            let second = SubflowView { local: address, ..steady(subflow(1, 20, 30)) };
            let second = SubflowView { inflight: flight * MSS, unacked: flight * MSS, ..second };
            let mut connection = Connection::new(vec![first, second], 4000 * MSS);
            let mut scheduler = only(|options| {
                (options.rate, options.unknown, options.memory) = (true, 16.0, 1.0);
            });
            for _ in 0..20 {
                connection.now += Duration::from_millis(1);
                connection.subflows[0].bytes_sent += MSS;
                connection.subflows[0].last_received = connection.now;
                scheduler.decide(&View { known: Some(&paths), ..connection.view() });
            }
            match scheduler.decide(&View { known: Some(&paths), ..connection.view() }) {
                Decision::Assign { subflow, .. } => subflow == SubflowId(1),
                _ => false,
            }
        };
        (0..30).take_while(|flight| fits(*flight)).count()
    };
    assert_eq!((most(Some(500.0 * MSS as f64)), most(None)), (30, 10));
    // A path of less than a quarter of the best rate has at most that in its queue.
    assert_eq!(most(Some(100.0 * MSS as f64)), 11);
}

// A program that waits for space is to write the rest of the last segment.
#[test]
fn a_short_end_waits_for_a_program_that_waits_for_space() {
    let assigned = |ready: u64, acknowledged: u64, full_buffer: bool| {
        let mut connection = Connection::new(vec![steady(subflow(0, 20, 20))], 30 * MSS);
        connection.data_una = acknowledged;
        connection.outstanding =
            vec![Pending { range: DataRange::new(acknowledged, 30 * MSS), tried: set(&[0]) }];
        let unassigned = [DataRange::new(30 * MSS, 30 * MSS + ready)];
        let view = View {
            unassigned: &unassigned,
            written: 30 * MSS + ready,
            send_buffer_full: full_buffer,
            ..connection.view()
        };
        match only(|_| ()).decide(&view) {
            Decision::Assign { range, .. } => range.len(),
            Decision::Wait { why, .. } => {
                assert_eq!(why.rule, Rule::NothingToSend);
                0
            }
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(assigned(2 * MSS + 500, 0, true), 2 * MSS);
    assert_eq!(assigned(500, 0, true), 0);
    assert_eq!(assigned(500, 0, false), 500, "nobody waits");
    assert_eq!(assigned(500, 20 * MSS, true), 0);
    assert_eq!(assigned(500, 21 * MSS, true), 500, "a small buffer");
    let decided = |unassigned: &[DataRange]| {
        let mut connection = Connection::new(vec![steady(subflow(0, 20, 20))], 30 * MSS);
        if unassigned.len() > 1 {
            connection.outstanding = vec![Pending { range: DataRange::new(500, 39 * MSS), tried: set(&[0]) }];
        }
        let view = View { unassigned, written: 40 * MSS, send_buffer_full: true, ..connection.view() };
        matches!(only(|_| ()).decide(&view), Decision::Assign { .. })
    };
    assert!(decided(&[DataRange::new(30 * MSS, 30 * MSS + 500)]), "nothing is outstanding");
    let hole = [DataRange::new(0, 500), DataRange::new(39 * MSS, 40 * MSS)];
    assert!(decided(&hole), "other data follows");
}

// Of two subflows with free window the best one takes what it delivers before the other would deliver a segment: 5 ms at a million bytes a second.
#[test]
fn the_best_path_takes_what_arrives_before_a_segment_on_the_next_one() {
    let takes = |second: u64| {
        let paths = [(0, 20), (1, second)]
            .map(|(id, rtt)| SubflowView { local: local(id + 1), ..steady(subflow(id, rtt, 20)) });
        let connection = Connection::new(paths.to_vec(), 100 * MSS);
        let known = remembered(&[(1, 1e6), (2, 1e6)]);
        match only(|options| options.memory = 1.0).decide(&View { known: Some(&known), ..connection.view() })
        {
            Decision::Assign { subflow, range, .. } => (subflow, range),
            wait => panic!("{wait:?}"),
        }
    };
    assert_eq!(takes(30), (SubflowId(0), DataRange::new(0, 3 * MSS)));
    assert_eq!(takes(20), (SubflowId(0), DataRange::new(0, MSS)), "at least one");
    assert_eq!(takes(200), (SubflowId(0), DataRange::new(0, 20 * MSS)), "its window");
}

// A short segment waits until the one before it is acknowledged (Nagle's algorithm).
#[test]
fn a_short_piece_goes_where_no_short_segment_waits() {
    let sent = Time::from_secs(1);
    let decided = |ready: u64, short: u64, second: bool, least: u32| {
        let first = SubflowView {
            inflight: MSS,
            unacked: MSS,
            short_unacked: short,
            sent: Some((sent, sent)),
            ..steady(subflow(0, 20, 20))
        };
        let second = if second { steady(subflow(1, 26, 20)) } else { full(steady(subflow(1, 26, 20))) };
        let mut scheduler = only(|options| (options.abstain, options.least) = (least > 0, least));
        match scheduler.decide(&Connection::new(vec![first, second], ready).view()) {
            Decision::Assign { subflow, range, .. } => Some((subflow.index(), range.len())),
            Decision::Wait { .. } => None,
            other => panic!("{other:?}"),
        }
    };
    for least in [0, 30_000] {
        assert_eq!(decided(500, 0, true, least), Some((0, 500)));
        assert_eq!(decided(500, MSS, true, least), Some((1, 500)), "{least}");
        assert_eq!(decided(500, MSS, false, least), None, "it waits for more data");
    }
    assert_eq!(decided(3 * MSS + 500, 0, true, 0), Some((0, 3 * MSS + 500)));
    assert_eq!(decided(3 * MSS + 500, MSS, true, 0), Some((0, 3 * MSS)));
    assert_eq!(decided(3 * MSS + 500, MSS, true, 30_000), Some((1, 3 * MSS + 500)), "the end arrives later");
}

// As above. The program writes 700 bytes every 4 ms, so that the next write completes a segment.
#[test]
fn a_short_piece_waits_for_the_write_that_completes_it() {
    let mut scheduler = only(|_| ());
    let mut decided = |now: u64, written: u64| {
        let now = Time::from_millis(now);
        let first = SubflowView {
            inflight: MSS,
            unacked: MSS,
            short_unacked: MSS,
            sent: Some((now, now)),
            ..steady(subflow(0, 20, 20))
        };
        let unassigned = [DataRange::new(0, written)];
        let connection = Connection::new(vec![first, steady(subflow(1, 60, 20))], written);
        let view = View { now, unassigned: &unassigned, written, ..connection.view() };
        match scheduler.decide(&view) {
            Decision::Assign { subflow, range, .. } => Ok((subflow.index(), range.len())),
            Decision::Wait { until, .. } => Err(until),
            other => panic!("{other:?}"),
        }
    };
    // Nothing is known of the program: the acknowledgement is sooner than the second path.
    assert_eq!(decided(1000, 500), Err(None));
    assert_eq!(decided(1004, 1200), Err(Some(Time::from_millis(1010))), "a write is expected");
    assert_eq!(decided(1006, 1200), Err(Some(Time::from_millis(1010))));
    assert_eq!(decided(1009, 1200), Err(Some(Time::from_millis(1010))), "it is a little late");
    assert_eq!(decided(1012, 1900), Ok((0, MSS)));
    assert_eq!(decided(1016, 1200), Err(Some(Time::from_millis(1022))));
    assert_eq!(decided(1022, 1200), Err(None), "it has not come");
}

// A sender of a segment in 2 ms: acknowledgements have that spacing too, delayed ones wait for the next segment, and the path has no queue.
#[test]
fn a_slow_sender_meets_no_queue() {
    let takes = |last_rtt: u64| {
        let mut connection = Connection::new(
            vec![
                SubflowView { local: local(1), bytes_sent: 10 * MSS, ..steady(subflow(0, 20, 20)) },
                SubflowView { local: local(2), ..steady(subflow(1, 24, 20)) },
            ],
            2 * MSS,
        );
        let known = remembered(&[(2, 1.4e6)]);
        let mut scheduler = only(|options| (options.rate, options.memory) = (true, 1.0));
        for _ in 0..40 {
            connection.now += Duration::from_millis(2);
            let first = &mut connection.subflows[0];
            first.bytes_sent += MSS;
            (first.inflight, first.unacked) = (MSS, MSS);
            first.sent = Some((connection.now, connection.now));
            first.last_received = connection.now;
            first.last_rtt = Duration::from_millis(last_rtt);
            (first.min_rtt, first.srtt) = (Duration::from_millis(20), Some(Duration::from_millis(24)));
            scheduler.decide(&View { known: Some(&known), ..connection.view() });
        }
        match scheduler.decide(&View { known: Some(&known), ..connection.view() }) {
            Decision::Assign { subflow, .. } => subflow.index(),
            other => panic!("{other:?}"),
        }
    };
    // A segment arrives in 10 and 2 ms there, and in 12 and 1 ms on the second path.
    assert_eq!(takes(24), 1, "another one is in the queue");
    assert_eq!(takes(20), 0);
}
