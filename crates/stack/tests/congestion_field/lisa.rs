//! LISA: the window that a joining subflow takes, and the donor.

use anabranch_stack::congestion::{Ack, AnyCongestion, CongestionControl, CongestionKind, SubflowStart};
use anabranch_stack::event::SubflowId;
use anabranch_units::{Duration, Time};
use proptest::prelude::*;

use crate::congestion_common::{A, B, MSS, ack, loss, start, window};

const NOW: Time = Time::from_secs(1);
const C: SubflowId = SubflowId(2);

/// Returns a connection whose first subflow has `segments` in slow start, all of them in flight.
fn started(name: &str, segments: u32) -> AnyCongestion {
    let mut congestion = CongestionKind::from_name(name).unwrap().build().with_lisa(true);
    congestion.on_subflow_up(A, &SubflowStart { initial_window: segments, ..start() });
    congestion.on_sent(A, NOW, u64::from(segments) * MSS);
    congestion
}

/// Acknowledges all data in flight, segment by segment, too slowly for a train of `cubic_linux`.
fn acknowledge(congestion: &mut AnyCongestion, id: SubflowId, segments: u64) {
    for n in 1..=segments {
        let inflight_bytes = (segments - n) * MSS;
        congestion.on_ack(id, &Ack { inflight_bytes, ..ack(NOW + Duration::from_millis(3 * n), 1) });
    }
}

fn classic() -> impl Iterator<Item = CongestionKind> {
    CongestionKind::ALL.into_iter().filter(|kind| kind.build().windows().is_some())
}

#[test]
fn of_40_segments_the_new_one_takes_10_and_a_round_trip_later_there_are_80() {
    for kind in classic() {
        let mut congestion = started(kind.name(), 40);
        congestion.on_subflow_up(B, &start());
        assert_eq!((window(&congestion, A), window(&congestion, B)), (30.0, 10.0), "{kind:?}");
        acknowledge(&mut congestion, A, 40);
        acknowledge(&mut congestion, B, 10);
        // 10 of the 40 do not increase it: 30 + 30, and 20.
        assert_eq!(window(&congestion, A) + window(&congestion, B), 80.0, "{kind:?}");
    }
}

#[test]
fn only_acknowledgements_of_the_flight_are_ignored() {
    let mut congestion = started("lia", 40);
    acknowledge(&mut congestion, A, 5);
    // 45 segments of window, with none in flight.
    congestion.on_subflow_up(B, &start());
    assert_eq!(window(&congestion, A), 35.0);
    acknowledge(&mut congestion, A, 5);
    assert_eq!(window(&congestion, A), 40.0);
}

#[test]
fn without_one_in_its_first_slow_start_the_initial_window_stays() {
    let mut congestion = started("lia", 40);
    congestion.on_congestion(A, &loss(NOW, 40));
    congestion.on_recovered(A, NOW);
    congestion.on_subflow_up(B, &start());
    assert_eq!((window(&congestion, A), window(&congestion, B)), (20.0, 10.0));
    // Slow start after a timeout is not the first either.
    congestion.on_rto(A, NOW, 20 * MSS, false);
    congestion.on_congestion(B, &loss(NOW, 10));
    congestion.on_recovered(B, NOW);
    congestion.on_subflow_up(C, &start());
    assert_eq!(window(&congestion, C), 10.0);
}

#[test]
fn the_fastest_gives() {
    let mut congestion = started("olia", 40);
    let slow = SubflowStart { initial_window: 60, rtt: Some(Duration::from_millis(200)), ..start() };
    congestion.on_subflow_up(B, &slow);
    let before = window(&congestion, B);
    congestion.on_subflow_up(C, &start());
    assert_eq!(window(&congestion, B), before, "60 segments in 200 ms are fewer than 30 in 20 ms");
}

#[test]
fn without_lisa_no_subflow_gives_up_window() {
    let mut congestion = CongestionKind::Lia.build();
    congestion.on_subflow_up(A, &SubflowStart { initial_window: 40, ..start() });
    congestion.on_subflow_up(B, &start());
    assert_eq!((window(&congestion, A), window(&congestion, B)), (40.0, 10.0));
}

proptest! {
    #[test]
    fn a_join_adds_at_most_three_segments(segments in 1..200_u32, initial_window in 1..20_u32) {
        let mut congestion = started("balia", segments);
        congestion.on_subflow_up(B, &SubflowStart { initial_window, ..start() });
        let (a, b) = (window(&congestion, A), window(&congestion, B));
        prop_assert!(a + b <= f64::from(segments) + 3.0);
        if segments >= 6 {
            prop_assert_eq!(a + b, f64::from(segments));
            let taken = if segments >= 20 { 10 } else { segments / 2 };
            prop_assert_eq!(b, f64::from(taken.min(initial_window)));
        } else {
            prop_assert_eq!((a, b), (f64::from(segments), f64::from(initial_window.min(3))));
        }
        prop_assert!(b <= 10.0);
        // Acknowledged segments are ignored in the number that it has in flight beyond its window.
        let before = a;
        acknowledge(&mut congestion, A, u64::from(segments));
        prop_assert_eq!(window(&congestion, A), before + (f64::from(segments) - (f64::from(segments) - before)));
    }
}
