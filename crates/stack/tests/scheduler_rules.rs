//! Rules of individual schedulers on numbers computed by hand, with more than two subflows or more than one
//! decision.

mod scheduler_common;

use anabranch_stack::event::SubflowId;
use anabranch_stack::scheduler::{
    AssignKind, Decision, Ecf, EcfOptions, EcfProfile, Linux, LinuxOptions, MinRtt, Pending, Rule, Scheduler,
    StmsC, StmsCOptions, SubflowView, View,
};
use anabranch_stack::seq::DataRange;
use anabranch_units::Duration;
use scheduler_common::{Connection, Licence, MSS, set, subflow};

fn full(mut subflow: SubflowView) -> SubflowView {
    subflow.inflight = subflow.cwnd;
    subflow.unacked = subflow.cwnd;
    subflow
}

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
