//! The numbers with which schedulers give their reasons, worked out by hand: they are in `decisions` of a recording and in the
//! page of a scheduler. And rules of BLEST, STMS-A and DMPTCP's model, against a second computation.

use crate::scheduler_common;

use anabranch_stack::event::SubflowId;
use anabranch_stack::parameter::{Numbers, Parameterised, Value};
use anabranch_stack::scheduler::{
    Blest, BlestOptions, BlestProfile, Decision, Pending, Rule, Scheduler, SchedulerEvent, SchedulerKind,
    StmsA, StmsAOptions, SubflowView, Why,
};
use anabranch_stack::selection::{PathEstimate, explain_selection};
use anabranch_stack::seq::DataRange;
use anabranch_stack::transfer_model::{ModelOptions, TransferModel};
use anabranch_units::{Bytes, Duration, RandomStream};
use scheduler_common::{Connection, Licence, MSS, set, subflow};

fn full(mut subflow: SubflowView) -> SubflowView {
    subflow.inflight = subflow.cwnd;
    subflow.unacked = subflow.cwnd;
    subflow
}

/// A fast and a slow subflow with windows of 10 segments.
fn pair() -> Vec<SubflowView> {
    vec![subflow(0, 20, 10), subflow(1, 80, 10)]
}

/// The subflow of a decision, if it assigns, and its reason.
fn reason(decision: &Decision) -> (Option<u8>, Why) {
    match *decision {
        Decision::Assign { subflow, why, .. } => (Some(subflow.0), why),
        Decision::Recall { subflow, why, .. } => (Some(subflow.0), why),
        Decision::Wait { why, .. } => (None, why),
    }
}

#[track_caller]
fn expect(decision: &Decision, subflow: Option<u8>, rule: Rule, score: f64, other: f64) {
    let (on, why) = reason(decision);
    assert_eq!((on, why.rule), (subflow, rule), "{decision:?}");
    let near = |found: f64, expected: f64| {
        found.is_nan() && expected.is_nan() || (found - expected).abs() <= 1e-9 * expected.abs()
    };
    assert!(near(why.score, score) && near(why.other, other), "{why:?}, and by hand {score} and {other}");
}

/// Returns the decision of the named scheduler about 200 segments.
fn decide(name: &str, set: &[(&str, Value)], subflows: Vec<SubflowView>) -> Decision {
    let mut kind = SchedulerKind::from_name(name).unwrap();
    set.iter().for_each(|(key, value)| assert!(kind.set_parameter(key, *value), "{key}"));
    kind.build().decide(&Connection::new(subflows, 200 * MSS).view())
}

const NAN: f64 = f64::NAN;

#[test]
fn times_are_in_seconds_and_the_other_one_is_the_best_of_the_rest() {
    let (on_fast, on_slow) = (Some(0), Some(1));
    let busy = || vec![full(subflow(0, 20, 10)), subflow(1, 80, 10)];
    expect(&decide("min_rtt", &[], pair()), on_fast, Rule::LowestRtt, 0.020, 0.080);
    expect(&decide("min_rtt", &[], busy()), on_slow, Rule::LowestRtt, 0.080, NAN);
    let three = vec![subflow(0, 50, 10), subflow(1, 20, 10), subflow(2, 30, 10)];
    expect(&decide("min_rtt", &[], three), on_slow, Rule::LowestRtt, 0.020, 0.030);
    expect(&decide("ll_bm", &[], pair()), on_fast, Rule::LowestRtt, 0.020, 0.080);
    let threshold = [("threshold", Value::Time(Duration::from_millis(70)))];
    expect(&decide("delay_threshold", &threshold, pair()), on_fast, Rule::LowestRtt, 0.020, 0.070);
    // 60 ms more than the fastest, and 50 are permitted.
    expect(&decide("freeze", &[], busy()), None, Rule::Frozen, 0.080, 0.020);
    // Half a round trip each.
    expect(&decide("otias", &[], pair()), on_fast, Rule::EarliestArrival, 0.010, 0.040);
    // One round trip and a half with a full window and an empty queue.
    let full_fast = vec![full(subflow(0, 20, 10)), full(subflow(1, 80, 10))];
    expect(&decide("otias", &[], full_fast), on_fast, Rule::EarliestArrival, 0.030, 0.120);
    // 7000 bytes at twice 14,000 bytes in a round trip: 1.4 MB/s and 0.35 MB/s.
    let mut lingering = pair();
    lingering.iter_mut().for_each(|subflow| subflow.unacked = 7000);
    expect(&decide("linux", &[], lingering), on_fast, Rule::Linger, 0.005, 0.020);
}

#[test]
fn ecf_compares_the_fast_subflows_time_with_the_slow_ones() {
    let mut subflows = vec![full(subflow(0, 10, 10)), subflow(1, 100, 10)];
    subflows.iter_mut().for_each(|subflow| subflow.rttvar = Duration::from_millis(3));
    let mut ecf = SchedulerKind::from_name("ecf").unwrap().build();
    // 20 segments: (1 + 20/10) 10 ms against 100 ms and a deviation of 3.
    let decision = ecf.decide(&Connection::new(subflows, 20 * MSS).view());
    expect(&decision, None, Rule::FasterToWait, 0.030, 0.103);
}

#[test]
fn kimuras_three_rules_name_rates_spaces_and_times_per_space() {
    let (on_fast, on_slow) = (Some(0), Some(1));
    // 14,000 bytes in 20 and in 80 ms.
    expect(&decide("hsr", &[], pair()), on_fast, Rule::HighestRate, 700_000.0, 175_000.0);
    let mut used = pair();
    used[0].inflight = 3 * MSS;
    expect(&decide("lws", &[], used.clone()), on_slow, Rule::LargestSpace, 10.0, 7.0);
    expect(&decide("lts", &[], used), on_fast, Rule::LeastTimePerSpace, 0.020 / 7.0, 0.080 / 10.0);
}

#[test]
fn priorities_and_weights_are_those_of_the_chosen_subflow() {
    let numbers = |numbers: &[f64]| Value::Numbers(Numbers::new(numbers).unwrap());
    let priorities = [("priorities", numbers(&[5.0, 3.0]))];
    expect(&decide("strict_priority", &priorities, pair()), Some(1), Rule::Priority, 3.0, NAN);
    expect(&decide("backup", &priorities, pair()), Some(1), Rule::Priority, 3.0, NAN);
    // Each earns its weight for each segment; the chosen one pays for all: 2 and 1, then 1 and 2, then 3 and 0.
    let mut kind = SchedulerKind::from_name("weighted_round_robin").unwrap();
    assert!(kind.set_parameter("weights", numbers(&[2.0, 1.0])));
    let (mut scheduler, connection) = (kind.build(), Connection::new(pair(), 200 * MSS));
    for (on, credit, weight) in [(0, 2.0, 2.0), (1, 2.0, 1.0), (0, 3.0, 2.0), (0, 2.0, 2.0)] {
        expect(&scheduler.decide(&connection.view()), Some(on), Rule::Weight, credit, weight);
    }
}

#[test]
fn stms_names_its_gap_in_segments_and_daps_the_time_in_its_schedule() {
    let busy = vec![full(subflow(0, 20, 10)), subflow(1, 80, 10)];
    // 10 segments in 20 ms for 30 ms.
    for name in ["stms_c", "stms_a"] {
        expect(&decide(name, &[], busy.clone()), Some(1), Rule::Gap, 15.0, NAN);
    }
    // One-way delays of 10 and 40 ms, to the nearest 4 ms: 12 and 40, so that the first turn is at 12 of 120.
    expect(&decide("daps", &[], pair()), Some(0), Rule::Schedule, 12.0, 120.0);
}

#[test]
fn dmptcp_names_the_prediction_and_the_remaining_bytes() {
    // A full window of 8: 16 + 32 + 64 + 128 segments in four round trips.
    let subflows = vec![full(subflow(0, 20, 8)), subflow(1, 80, 8)];
    let (predicted, remaining) = (240.0 * MSS as f64, 200.0 * MSS as f64);
    expect(&decide("dmptcp", &[], subflows), None, Rule::NotSelected, predicted, remaining);
}

fn blest() -> Blest {
    Blest::new(BlestOptions { profile: BlestProfile::Paper, ..BlestOptions::DEFAULT })
}

/// The paper: in the 10 round trips of the fast subflow within one of the slow, X = MSS (10 + 9/2) 10 bytes.
#[test]
fn blest_names_the_need_of_the_fast_subflow_and_the_window_that_is_left() {
    let subflows = vec![full(subflow(0, 10, 10)), subflow(1, 100, 10)];
    let connection = Connection { window_end: 100_000, ..Connection::new(subflows, 200 * MSS) };
    let mut blest = blest();
    // Lambda has fallen once, from 1 to 0.995; a segment on the slow subflow leaves 98,600 bytes of the window.
    let decision = blest.decide(&connection.view());
    expect(&decision, None, Rule::WouldBlock, 145.0 * MSS as f64 * 0.995, 98_600.0);
}

/// The window blocks only a subflow that could send: with full congestion windows it is not the window that is missing.
#[test]
fn blest_counts_a_closed_window_as_blocking_only_where_a_subflow_has_free_window() {
    let lambda = |subflows: Vec<SubflowView>, outstanding: bool| {
        let mut connection = Connection { window_end: 0, ..Connection::new(subflows, 200 * MSS) };
        if outstanding {
            connection.outstanding = vec![Pending { range: DataRange::new(0, MSS), tried: set(&[1]) }];
            connection.unassigned = vec![DataRange::new(MSS, 200 * MSS)];
            (connection.data_nxt, connection.window_end) = (MSS, MSS);
        }
        let mut blest = blest();
        let (_, why) = reason(&blest.decide(&connection.view()));
        assert_eq!(why.rule, Rule::WindowFull);
        // The window opens, and an interval is over.
        connection.window_end = u64::MAX / 2;
        connection.subflows = vec![full(subflow(0, 10, 10)), subflow(1, 100, 10)];
        connection.now += Duration::from_secs(1);
        blest.decide(&connection.view());
        blest.lambda()
    };
    let free = || vec![full(subflow(0, 10, 10)), subflow(1, 100, 10)];
    let both_full = || vec![full(subflow(0, 10, 10)), full(subflow(1, 100, 10))];
    assert!((lambda(free(), true) - 1.005).abs() < 1e-12);
    assert!((lambda(both_full(), true) - 0.995).abs() < 1e-12);
    // Nor does a window block that nothing occupies, or the only subflow.
    assert!((lambda(free(), false) - 0.995).abs() < 1e-12);
    assert!((lambda(vec![subflow(0, 10, 10)], true) - 0.995).abs() < 1e-12);
}

/// Algorithm 2 of STMS once more, in whole numbers of quarters: the average of jumps with a gain of 1/4, and the gap that
/// follows it after the greater of the slow round trip and twice the fast one.
#[test]
fn stms_a_follows_the_jumps_of_the_data_acknowledgement() {
    for seed in 0..50 {
        let mut stream = RandomStream::new(seed, "jumps");
        // A gap between two whole numbers, which rounding does not reach.
        let slow_ms = 30 + 4 * stream.below(50);
        let mut connection =
            Connection::new(vec![full(subflow(0, 20, 10)), subflow(1, slow_ms, 10)], 1 << 30);
        connection.licence = Licence::of("stms_a");
        let mut scheduler = StmsA::new(StmsAOptions::DEFAULT);
        scheduler.decide(&connection.view());
        // 10 segments in 20 ms for half of the difference.
        let mut gap = ((slow_ms - 20) / 4) as i64;
        assert_eq!(scheduler.gap(&connection.subflows[1]), Some(gap as u32));
        let mut due = connection.now + Duration::from_millis(slow_ms);
        let interval = Duration::from_millis(slow_ms.max(40));
        let (mut average, mut from) = (0.0_f64, 0);
        for _ in 0..200 {
            connection.now += Duration::from_millis(stream.below(60));
            // A jump of a part of a segment counts as a whole one.
            let bytes = 1 + stream.below(40 * MSS);
            let carried_by = [&[0][..], &[1], &[0, 1], &[]][stream.below(4) as usize];
            let event = SchedulerEvent::DataAcked { from, to: from + bytes, carried_by: set(carried_by) };
            from += bytes;
            scheduler.on_event(&connection.view(), &event);
            let segments = bytes.div_ceil(MSS);
            if segments >= 3 {
                let jump = match carried_by {
                    [1] => segments as f64,
                    [] => 0.0,
                    _ => -(segments as f64),
                };
                average = 0.75 * average + 0.25 * jump;
            }
            if connection.now >= due {
                gap = (gap + average.round() as i64).max(0);
                (average, due) = (0.0, connection.now + interval);
            }
            assert_eq!(scheduler.gap(&connection.subflows[1]), Some(gap as u32), "seed {seed}");
        }
    }
}

/// The sums of LIA's formula are over the paths of the choice: one that is not usable has neither a rate nor a best window.
#[test]
fn the_coupling_of_the_model_is_over_usable_paths() {
    let path = |rtt_ms: u64| PathEstimate {
        srtt: Duration::from_millis(rtt_ms),
        cwnd: 8,
        ssthresh: Some(1),
        loss: 0.0,
        mss: MSS as u32,
        rate_limit: None,
        full: false,
        usable: true,
        backup: false,
    };
    let model = TransferModel::new(ModelOptions { coupled_increase: true, ..ModelOptions::default() });
    let delivered = |paths: &[PathEstimate]| {
        let explained = explain_selection(paths, Bytes(1 << 40), &model);
        let slow = explained.candidates.iter().find(|one| paths[one.path].srtt == Duration::from_millis(80));
        slow.unwrap().contributions.iter().map(|one| one.segments).sum::<f64>()
    };
    let two = [path(20), path(80)];
    // A share of 0.64: one more segment after the second and the fourth round trip.
    assert_eq!(delivered(&two), 8.0 + 8.0 + 9.0 + 9.0);
    for other in [
        PathEstimate { usable: false, ..path(10) },
        PathEstimate { usable: false, cwnd: 1000, ..path(20) },
        // A backup does not take part either, while another path is usable.
        PathEstimate { backup: true, ..path(10) },
    ] {
        assert_eq!(delivered(&[two[0], two[1], other]), 34.0, "{other:?}");
    }
    assert_ne!(delivered(&[two[0], two[1], path(10)]), 34.0);
}

#[test]
fn names_of_subflows_in_reasons_are_those_of_the_view() {
    let mut subflows = pair();
    subflows.iter_mut().zip([4, 7]).for_each(|(subflow, id)| subflow.id = SubflowId(id));
    expect(&decide("min_rtt", &[], subflows), Some(4), Rule::LowestRtt, 0.020, 0.080);
}
