//! The copies of `anabranch`: which data, and when.

use crate::scheduler_common;

use anabranch_stack::event::SubflowId;
use anabranch_stack::known::KnownPaths;
use anabranch_stack::scheduler::{
    Anabranch, AssignKind, Decision, Pending, Rule, Scheduler, SubflowView, View,
};
use anabranch_stack::seq::DataRange;
use anabranch_units::{Duration, Time};
use scheduler_common::{Connection, MSS, full, local, only, remembered, set, steady, subflow};

/// Returns `segments` of outstanding data, each one a piece, that these subflows have carried.
fn pieces(segments: core::ops::Range<u64>, tried: &[u8]) -> Vec<Pending> {
    segments.map(|at| Pending { range: segment(at), tried: set(tried) }).collect()
}

fn segment(at: u64) -> DataRange {
    DataRange::new(at * MSS, (at + 1) * MSS)
}

/// Returns the copy that it decides to send.
fn copy(scheduler: &mut Anabranch, view: &View<'_>) -> Option<(SubflowId, DataRange)> {
    match scheduler.decide(view) {
        Decision::Assign { subflow, range, kind: AssignKind::Copy, why } => {
            assert_eq!(why.rule, Rule::Tail);
            Some((subflow, range))
        }
        _ => None,
    }
}

/// A fast subflow with a window of `room` segments, and a slow one with these in flight. Both heard an acknowledgement just now.
fn beside(room: u64, in_flight: u64) -> Vec<SubflowView> {
    let fast = SubflowView { local: local(1), bytes_sent: MSS, ..steady(subflow(0, 20, room)) };
    let slow = SubflowView {
        local: local(2),
        inflight: in_flight * MSS,
        unacked: in_flight * MSS,
        ..steady(subflow(1, 22, 30))
    };
    vec![fast, slow]
}

/// The slow path needs 10 ms for a segment, which is much less than the rate of the fast one.
fn rates() -> KnownPaths {
    remembered(&[(1, 1e7), (2, 100.0 * MSS as f64)])
}

fn copies() -> Anabranch {
    only(|options| (options.tail, options.memory) = (0.05, 1.0))
}

// The slow subflow delivers the other data meanwhile.
#[test]
fn at_the_end_the_data_that_arrives_last_is_copied_first() {
    let known = rates();
    let last = |outstanding: Vec<Pending>, room: u64, remaining: u64| {
        let connection =
            Connection { outstanding, data_nxt: 10 * MSS, ..Connection::new(beside(room, 10), 0) };
        let view = View { known: Some(&known), remaining, ..connection.view() };
        copy(&mut copies(), &view)
    };
    assert_eq!(last(pieces(0..10, &[1]), 10, 0), Some((SubflowId(0), segment(9))));
    // Of a larger piece it is the last part that the window admits.
    let whole = || vec![Pending { range: DataRange::new(0, 10 * MSS - 1), tried: set(&[1]) }];
    assert_eq!(last(whole(), 3, 0), Some((SubflowId(0), DataRange::new(7 * MSS, 10 * MSS - 1))));
    // What both have carried is no candidate.
    let tried = [pieces(0..8, &[1]), pieces(8..10, &[0, 1])].concat();
    assert_eq!(last(tried, 10, 0), Some((SubflowId(0), segment(7))));
}

// Ten segments are in flight on the slow subflow. The first eight have arrived as copies, but the link still sends them first.
#[test]
fn data_that_has_arrived_elsewhere_is_still_before_the_rest() {
    let known = rates();
    let is_copied = |in_flight: u64| {
        let connection = Connection {
            outstanding: pieces(8..9, &[1]),
            data_una: 8 * MSS,
            data_nxt: 9 * MSS,
            ..Connection::new(beside(10, in_flight), 0)
        };
        copy(&mut copies(), &View { known: Some(&known), ..connection.view() }).is_some()
    };
    // It arrives after 79 ms, and a copy after 10.
    assert!(is_copied(9));
    assert!(!is_copied(1), "it is the first, and arrives after 11 ms");
}

// New data waits for the receive window. The first outstanding data keeps it closed, and arrives as soon as a copy would.
#[test]
fn where_the_window_is_full_a_later_piece_is_copied_if_a_round_trip_does_not_suffice() {
    let known = rates();
    let copied = |pieces_there: u64, remaining: u64| {
        let connection = Connection {
            outstanding: pieces(0..pieces_there, &[1]),
            data_nxt: pieces_there * MSS,
            window_end: pieces_there * MSS,
            ..Connection::new(beside(10, pieces_there), 0)
        };
        let unassigned = [DataRange::new(pieces_there * MSS, 100 * MSS)];
        let unassigned = if remaining > 0 { &unassigned[..] } else { &[] };
        let view = View { known: Some(&known), unassigned, remaining, ..connection.view() };
        copy(&mut copies(), &view).map(|(_, range)| range)
    };
    // A copy takes 10 ms, and one that waits until it is the first outstanding data 20 ms more. The fifth segment arrives after 39 ms.
    assert_eq!(copied(9, 91 * MSS), Some(segment(4)));
    assert_eq!(copied(4, 91 * MSS), None);
    assert_eq!(copied(4, 0), Some(segment(3)), "at the end of a flow a round trip is no excuse");
}

/// The slow path has some segments, each one takes 10 ms there. The fast path sends a window each 20 ms.
fn ahead(
    mut scheduler: Anabranch,
    on_slow: u64,
    window: u64,
    slow: f64,
    rest: u64,
) -> Vec<(AssignKind, DataRange)> {
    let known = remembered(&[(1, 1e7), (2, slow)]);
    let mut connection = Connection::new(beside(30, 0), on_slow * MSS);
    connection.licence.reorders = true;
    // The slow subflow carries the first segments.
    connection.subflows[0] = full(connection.subflows[0]);
    for _ in 0..on_slow {
        let decision = scheduler.decide(&View { known: Some(&known), ..connection.view() });
        connection.apply(&decision).unwrap();
    }
    assert_eq!(connection.outstanding.last().map(|pending| pending.tried), Some(set(&[1])));
    connection.subflows[0] = beside(30, 0)[0];
    connection.unassigned = vec![DataRange::new(on_slow * MSS, (on_slow + rest) * MSS)];
    connection.window_end = window * MSS;
    let mut decided = Vec::new();
    for _ in 0..8 {
        let decision = scheduler.decide(&View { known: Some(&known), ..connection.view() });
        let Decision::Assign { subflow: SubflowId(0), range, kind, .. } = decision else { break };
        decided.push((kind, range));
        connection.apply(&decision).unwrap();
    }
    decided
}

#[test]
fn the_last_data_of_a_slow_path_is_copied_before_it_fills_the_window() {
    let slow = 100.0 * MSS as f64;
    let first = |on_slow, window, slow, rest| {
        ahead(copies(), on_slow, window, slow, rest).first().map(|(kind, _)| *kind)
    };
    // The third arrives after 30 ms less 11, and the second after 20 less 11: a copy takes 10.
    let expected: Vec<_> = [7, 6, 5, 4, 3, 2].map(|at| (AssignKind::Copy, segment(at))).into();
    let decided = ahead(copies(), 8, 40, slow, 1000);
    assert_eq!(decided[..6], expected);
    assert_eq!(decided[6].0, AssignKind::New, "{decided:?}");
    assert_eq!(first(1, 2, slow, 1000), Some(AssignKind::New), "it arrives as soon as a copy");
    assert_eq!(first(8, 1000, slow, 1000), Some(AssignKind::New), "a wide window");
    assert_eq!(first(8, 40, slow, 20), Some(AssignKind::New), "the rest does not fill the window");
    assert_eq!(first(8, 40, 4e6, 1000), Some(AssignKind::New), "its rate is comparable");
    let without = only(|options| options.memory = 1.0);
    assert!(ahead(without, 8, 40, slow, 1000).iter().all(|(kind, _)| *kind == AssignKind::New), "no copies");
}

// Nothing is known of either path. Ten segments have waited for 240 ms, and one has arrived: the path carries two in 218 ms at most.
#[test]
fn what_has_arrived_shows_the_highest_rate_of_an_unknown_path() {
    let copied = |sent: u64, known: &KnownPaths| {
        let mut subflows = beside(10, 9);
        subflows[1].bytes_sent = 10 * MSS;
        subflows[1].sent = Some((Time::from_millis(sent), Time::from_millis(sent)));
        let connection = Connection {
            outstanding: pieces(1..10, &[1]),
            data_nxt: 10 * MSS,
            ..Connection::new(subflows, 0)
        };
        copy(&mut copies(), &View { known: Some(known), ..connection.view() }).is_some()
    };
    let nothing = remembered(&[]);
    assert!(copied(760, &nothing));
    assert!(!copied(978, &nothing), "they were sent a round trip ago");
    assert!(!copied(760, &remembered(&[(2, 1e7)])), "a rate that is known has no such bound");
}

// A path of much lower rate gets further data when its queue has space, even if no acknowledgement arrives.
#[test]
fn a_path_whose_queue_is_long_enough_is_looked_at_again() {
    let known = rates();
    let mut subflows = beside(30, 0);
    subflows[0] = full(subflows[0]);
    let mut connection = Connection::new(subflows, 1000 * MSS);
    let mut scheduler = copies();
    let decisions = |scheduler: &mut Anabranch, connection: &mut Connection| {
        for sent in 0..100 {
            let decision = scheduler.decide(&View { known: Some(&known), ..connection.view() });
            if let Decision::Wait { until, .. } = decision {
                return (sent, until);
            }
            connection.apply(&decision).unwrap();
        }
        (100, None)
    };
    let (sent, until) = decisions(&mut scheduler, &mut connection);
    assert_eq!(sent, 11);
    // A segment takes 10 ms, and a tenth of a millisecond is added.
    let until = until.unwrap();
    assert!(until.since(connection.now) <= Duration::from_micros(10_200), "{until:?}");
    connection.now = until;
    assert_eq!(decisions(&mut scheduler, &mut connection).0, 1);
    // Whatever a program remembers, the time is one that a clock can have.
    let known = remembered(&[(1, 1e7), (2, 1e-300)]);
    let until =
        (0..12).find_map(|_| match scheduler.decide(&View { known: Some(&known), ..connection.view() }) {
            Decision::Wait { until, .. } => until,
            decision => connection.apply(&decision).err().map(|error| panic!("{error}")),
        });
    assert!(
        until.is_some_and(|until| until.since(connection.now) < Duration::from_secs(10_000_000)),
        "{until:?}"
    );
}

// The fast subflow sends at 100 segments a second too. A copy on it arrives after 20 ms, and the last outstanding data after 99.
#[test]
fn as_much_is_copied_as_arrives_sooner() {
    let known = remembered(&[(1, 100.0 * MSS as f64), (2, 100.0 * MSS as f64)]);
    let outstanding = vec![Pending { range: DataRange::new(0, 11 * MSS), tried: set(&[1]) }];
    let connection = Connection { outstanding, data_nxt: 11 * MSS, ..Connection::new(beside(20, 11), 0) };
    let copied = copy(&mut copies(), &View { known: Some(&known), ..connection.view() });
    assert_eq!(copied, Some((SubflowId(0), DataRange::new(4 * MSS, 11 * MSS))));
}

// Nothing was heard for half a second, since nothing was sent.
#[test]
fn data_after_a_pause_is_not_late_before_a_round_trip() {
    let is_copied = |sent_before: u64, in_flight: bool| {
        let mut subflows = beside(10, 2);
        let now = Time::from_secs(1) + Duration::from_millis(500);
        let sent = now - Duration::from_millis(sent_before);
        subflows[0].srtt = Some(Duration::from_millis(60));
        subflows[0].min_rtt = Duration::from_millis(60);
        subflows[1].sent = in_flight.then_some((sent, sent));
        (subflows[1].inflight, subflows[1].queued) = if in_flight { (2 * MSS, 0) } else { (0, 2 * MSS) };
        let known = remembered(&[(1, 1e7), (2, 1e7)]);
        let outstanding = pieces(0..2, &[1]);
        let connection = Connection { now, outstanding, data_nxt: 2 * MSS, ..Connection::new(subflows, 0) };
        copy(&mut copies(), &View { known: Some(&known), ..connection.view() }).is_some()
    };
    assert!(!is_copied(0, true));
    assert!(!is_copied(0, false), "it is about to be sent");
    assert!(is_copied(200, true), "an acknowledgement is overdue");
}

#[test]
fn data_is_copied_while_a_short_end_waits_for_the_program() {
    let known = rates();
    let connection = Connection {
        outstanding: pieces(0..12, &[1]),
        data_nxt: 12 * MSS,
        ..Connection::new(beside(10, 12), 0)
    };
    let unassigned = [DataRange::new(12 * MSS, 12 * MSS + 500)];
    let view = View {
        known: Some(&known),
        unassigned: &unassigned,
        written: 12 * MSS + 500,
        remaining: 500,
        send_buffer_full: true,
        ..connection.view()
    };
    assert!(copy(&mut copies(), &view).is_some());
}
