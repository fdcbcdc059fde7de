//! The common behaviour of the classic congestion controls, whatever their rule.

use crate::congestion_common;

use anabranch_stack::congestion::{
    Ack, AnyCongestion, CongestionControl, CongestionEvent, CongestionKind, CustomCongestion,
    CustomCongestionKind, SubflowStart,
};
use anabranch_stack::event::SubflowId;
use anabranch_units::{Duration, Time};
use congestion_common::{A, B, MSS, ack, connection, loss, start, window};

const NOW: Time = Time::from_secs(1);

/// Returns all classic kinds, each with one new subflow. Paced, so that HyStart++ has no limit.
fn all() -> impl Iterator<Item = (CongestionKind, AnyCongestion)> {
    CongestionKind::ALL.into_iter().filter(|kind| kind.build().windows().is_some()).map(|kind| {
        let mut congestion = kind.build();
        congestion.on_subflow_up(A, &SubflowStart { paced: true, ..start() });
        (kind, congestion)
    })
}

#[test]
fn slow_start_doubles_and_a_loss_reduces_by_the_rules_factor() {
    for (kind, mut congestion) in all() {
        let left = if kind.name().starts_with("cubic") { 14 } else { 10 };
        assert_eq!(congestion.cwnd(A), 10 * MSS);
        assert_eq!(congestion.ssthresh(A), None);
        congestion.on_ack(A, &ack(NOW, 10));
        assert_eq!(congestion.cwnd(A), 20 * MSS, "{kind:?}");
        congestion.on_congestion(A, &loss(NOW, 20));
        assert_eq!(congestion.cwnd(A), left * MSS, "{kind:?}");
        assert_eq!(congestion.ssthresh(A), Some(left * MSS), "{kind:?}");
    }
}

#[test]
fn slow_start_is_clipped_at_the_threshold_and_the_rest_is_congestion_avoidance() {
    let mut congestion = CongestionKind::NewReno.build();
    congestion.on_subflow_up(A, &SubflowStart { initial_ssthresh: Some(14), ..start() });
    congestion.on_ack(A, &ack(NOW, 10));
    assert_eq!(window(&congestion, A), 14.0 + 6.0 / 14.0);
}

#[test]
fn a_window_that_is_not_used_does_not_grow() {
    for (kind, mut congestion) in all() {
        let idle = Ack { cwnd_limited: false, ..ack(NOW, 5) };
        congestion.on_ack(A, &idle);
        assert_eq!(congestion.cwnd(A), 10 * MSS, "{kind:?} in slow start");
        congestion.on_congestion(A, &loss(NOW, 10));
        congestion.on_recovered(A, NOW);
        let before = window(&congestion, A);
        congestion.on_ack(A, &idle);
        assert_eq!(window(&congestion, A), before, "{kind:?} in congestion avoidance");
    }
}

#[test]
fn a_duplicate_acknowledgement_does_not_grow_the_window() {
    for (kind, mut congestion) in all() {
        congestion.on_ack(A, &Ack { una_advanced: false, ..ack(NOW, 1) });
        assert_eq!(congestion.cwnd(A), 10 * MSS, "{kind:?}");
    }
}

#[test]
fn the_window_does_not_grow_in_recovery() {
    for (kind, mut congestion) in all() {
        congestion.on_congestion(A, &loss(NOW, 10));
        let before = congestion.cwnd(A);
        congestion.on_ack(A, &Ack { in_recovery: true, ..ack(NOW, 5) });
        assert_eq!(congestion.cwnd(A), before, "{kind:?}");
        congestion.on_recovered(A, NOW);
        assert_eq!(congestion.cwnd(A), before, "{kind:?}");
        // Two round trips, as some rules act once in each and ignore the first.
        for n in 9..11 {
            congestion.on_ack(A, &Ack { round_start: true, ..ack(NOW + Duration::from_secs(n), 20) });
        }
        assert!(congestion.cwnd(A) > before, "{kind:?}");
    }
}

#[test]
fn limited_transmit_does_not_count_in_the_flight() {
    let mut congestion = connection("newreno", &[(20, 20)]);
    congestion.on_congestion(A, &loss(NOW, 22));
    assert_eq!(congestion.cwnd(A), 10 * MSS);
}

#[test]
fn a_window_that_is_not_full_is_reduced_from_its_flight() {
    let mut congestion = connection("newreno", &[(20, 20)]);
    congestion.on_congestion(A, &loss(NOW, 9));
    assert_eq!(congestion.cwnd(A), 4 * MSS);
}

#[test]
fn a_timeout_leaves_one_segment_and_lowers_the_threshold_once_for_the_same_data() {
    for (kind, mut congestion) in all() {
        congestion.on_ack(A, &ack(NOW, 10));
        congestion.on_rto(A, NOW, 20 * MSS, false);
        let ssthresh = congestion.ssthresh(A);
        assert_eq!(ssthresh, Some(if kind.name().starts_with("cubic") { 14 } else { 10 } * MSS));
        assert_eq!(congestion.cwnd(A), MSS);
        congestion.on_rto(A, NOW, 20 * MSS, true);
        assert_eq!(congestion.ssthresh(A), ssthresh, "{kind:?}");
        // Slow start up to the threshold.
        congestion.on_ack(A, &ack(NOW, 3));
        assert_eq!(congestion.cwnd(A), 4 * MSS, "{kind:?}");
    }
}

#[test]
fn the_threshold_is_never_below_two_segments() {
    for (kind, mut congestion) in all() {
        for _ in 0..5 {
            congestion.on_congestion(A, &loss(NOW, 1));
            congestion.on_recovered(A, NOW);
        }
        assert_eq!((congestion.cwnd(A), congestion.ssthresh(A)), (2 * MSS, Some(2 * MSS)), "{kind:?}");
        congestion.on_rto(A, NOW, 0, false);
        assert_eq!((congestion.cwnd(A), congestion.ssthresh(A)), (MSS, Some(2 * MSS)), "{kind:?}");
    }
}

#[test]
fn marks_reduce_down_to_one_segment_without_recovery() {
    for (kind, mut congestion) in all() {
        for _ in 0..12 {
            let flight_bytes = congestion.cwnd(A);
            congestion.on_congestion(
                A,
                &CongestionEvent {
                    now: NOW,
                    flight_bytes,
                    recover_bytes: flight_bytes,
                    ecn: true,
                    reduced: false,
                },
            );
        }
        assert_eq!((congestion.cwnd(A), congestion.ssthresh(A)), (MSS, Some(2 * MSS)), "{kind:?}");
        congestion.on_ack(A, &ack(NOW, 1));
        assert_eq!(congestion.cwnd(A), 2 * MSS, "{kind:?}");
    }
}

#[test]
fn undo_restores_window_and_threshold_of_before_the_loss() {
    for (kind, mut congestion) in all() {
        congestion.on_congestion(A, &loss(NOW, 10));
        congestion.on_undo(A, NOW);
        assert_eq!((congestion.cwnd(A), congestion.ssthresh(A)), (10 * MSS, None), "{kind:?}");
        // Only once.
        congestion.on_rto(A, NOW, 10 * MSS, false);
        congestion.on_undo(A, NOW);
        congestion.on_undo(A, NOW);
        assert_eq!((congestion.cwnd(A), congestion.ssthresh(A)), (10 * MSS, None), "{kind:?}");
    }
}

#[test]
fn two_reductions_in_one_recovery_are_undone_together() {
    for (kind, mut congestion) in all() {
        congestion.on_congestion(A, &loss(NOW, 10));
        congestion.on_congestion(A, &loss(NOW, 10));
        congestion.on_undo(A, NOW);
        assert_eq!(congestion.cwnd(A), 10 * MSS, "{kind:?}");
    }
}

#[test]
fn a_timeout_within_a_recovery_is_undone_to_the_end_of_that_recovery() {
    let mut congestion = CongestionKind::NewReno.build();
    congestion.on_subflow_up(A, &SubflowStart { prr: true, ..start() });
    congestion.on_congestion(A, &loss(NOW, 10));
    congestion.on_rto(A, NOW, 10 * MSS, false);
    congestion.on_undo(A, NOW);
    assert_eq!((congestion.cwnd(A), congestion.ssthresh(A)), (5 * MSS, Some(5 * MSS)));
}

#[test]
fn a_late_undo_keeps_a_window_that_has_grown_beyond() {
    for (kind, mut congestion) in all() {
        congestion.on_rto(A, NOW, 10 * MSS, false);
        congestion.on_undo(A, NOW);
        congestion.on_rto(A, NOW, 10 * MSS, false);
        for n in 0..400 {
            congestion.on_ack(A, &Ack { round_start: true, ..ack(NOW + Duration::from_millis(20 * n), 10) });
        }
        let grown = congestion.cwnd(A);
        assert!(grown > 10 * MSS);
        congestion.on_undo(A, NOW);
        assert_eq!((congestion.cwnd(A), congestion.ssthresh(A)), (grown, None), "{kind:?}");
    }
}

#[test]
fn an_undo_without_a_reduction_changes_nothing() {
    for (_, mut congestion) in all() {
        congestion.on_undo(A, NOW);
        assert_eq!((congestion.cwnd(A), congestion.ssthresh(A)), (10 * MSS, None));
    }
}

#[test]
fn an_idle_time_brings_back_the_initial_window_and_never_raises_it() {
    for (kind, mut congestion) in all() {
        congestion.on_ack(A, &ack(NOW, 10));
        congestion.on_idle(A, NOW, 1);
        assert_eq!((congestion.cwnd(A), congestion.ssthresh(A)), (10 * MSS, None), "{kind:?}");
        congestion.on_rto(A, NOW, 10 * MSS, false);
        congestion.on_idle(A, NOW, 1);
        assert_eq!(congestion.cwnd(A), MSS, "{kind:?}");
    }
}

#[test]
fn a_penalty_halves_the_window_and_the_threshold_only_outside_of_slow_start() {
    for (kind, mut congestion) in all() {
        congestion.penalise(A, NOW);
        assert_eq!((congestion.cwnd(A), congestion.ssthresh(A)), (5 * MSS, None), "{kind:?}");
        congestion.on_ack(A, &ack(NOW, 15));
        congestion.on_rto(A, NOW, 20 * MSS, false);
        congestion.on_ack(A, &ack(NOW, 3));
        let threshold = congestion.ssthresh(A);
        congestion.penalise(A, NOW);
        assert_eq!((congestion.cwnd(A), congestion.ssthresh(A)), (2 * MSS, threshold), "{kind:?}");
    }
    for name in ["newreno", "cubic", "lia"] {
        let mut congestion = connection(name, &[(20, 20)]);
        congestion.on_congestion(A, &loss(NOW, 20));
        let target = congestion.cwnd(A);
        congestion.penalise(A, NOW);
        assert_eq!(congestion.cwnd(A), target, "{name}: not in recovery");
        congestion.on_recovered(A, NOW);
        congestion.penalise(A, NOW);
        assert_eq!(congestion.cwnd(A), target / 2, "{name}");
        assert_eq!(congestion.ssthresh(A), Some(target / 2), "{name}");
        for _ in 0..9 {
            congestion.penalise(A, NOW);
        }
        assert_eq!(congestion.cwnd(A), MSS, "{name}");
    }
}

#[test]
fn a_place_used_again_starts_anew() {
    for (kind, mut congestion) in all() {
        congestion.on_congestion(A, &loss(NOW, 10));
        congestion.on_subflow_down(A);
        congestion.on_subflow_up(A, &SubflowStart { mss: 1000, initial_window: 4, ..start() });
        assert_eq!((congestion.cwnd(A), congestion.ssthresh(A)), (4000, None), "{kind:?}");
        congestion.on_undo(A, NOW);
        assert_eq!(congestion.cwnd(A), 4000, "{kind:?}");
        congestion.on_ack(A, &Ack { acked_bytes: 4000, ..ack(NOW, 4) });
        assert_eq!(congestion.cwnd(A), 8000, "{kind:?}");
    }
}

#[test]
fn a_subflow_that_does_not_exist_does_no_harm() {
    for (_, mut congestion) in all() {
        for id in [B, SubflowId(31), SubflowId(255)] {
            congestion.on_ack(id, &ack(NOW, 10));
            congestion.on_congestion(id, &loss(NOW, 10));
            congestion.on_recovered(id, NOW);
            congestion.on_rto(id, NOW, 10, false);
            congestion.on_undo(id, NOW);
            congestion.on_idle(id, NOW, 1);
            congestion.penalise(id, NOW);
            congestion.on_sent(id, NOW, 10);
            congestion.on_subflow_down(id);
            assert_eq!(congestion.ssthresh(id), None);
            assert!(congestion.cwnd(id) > 0);
        }
        assert_eq!(congestion.cwnd(A), 10 * MSS);
    }
}

#[test]
fn names_are_unique_and_lead_back_to_the_kind() {
    for kind in CongestionKind::ALL {
        assert_eq!(CongestionKind::from_name(kind.name()), Some(kind.clone()));
        assert!(!kind.description().is_empty());
        let coupled = ["lia", "olia", "balia", "wvegas", "sbd", "dwc"].contains(&kind.name());
        assert_eq!(kind.is_coupled(), coupled, "{kind:?}");
    }
    // The kernel's name.
    assert_eq!(CongestionKind::from_name("reno"), Some(CongestionKind::NewReno));
    assert_eq!(CongestionKind::from_name("renoo"), None);
}

/// A window that never changes.
#[derive(Clone)]
struct Fixed;

impl CongestionControl for Fixed {
    fn on_subflow_up(&mut self, _: SubflowId, _: &SubflowStart) {}
    fn on_subflow_down(&mut self, _: SubflowId) {}
    fn on_ack(&mut self, _: SubflowId, _: &Ack) {}
    fn on_congestion(&mut self, _: SubflowId, _: &CongestionEvent) {}
    fn on_recovered(&mut self, _: SubflowId, _: Time) {}
    fn on_rto(&mut self, _: SubflowId, _: Time, _: u64, _: bool) {}
    fn on_undo(&mut self, _: SubflowId, _: Time) {}
    fn on_idle(&mut self, _: SubflowId, _: Time, _: u32) {}
    fn penalise(&mut self, _: SubflowId, _: Time) {}
    fn cwnd(&self, _: SubflowId) -> u64 {
        7 * MSS
    }
    fn ssthresh(&self, _: SubflowId) -> Option<u64> {
        None
    }
}

impl CustomCongestion for Fixed {
    fn clone_box(&self) -> Box<dyn CustomCongestion> {
        Box::new(self.clone())
    }
}

#[test]
fn a_users_own_congestion_control_is_built_forked_and_compared_by_name() {
    let kind = CongestionKind::Custom(CustomCongestionKind::new("fixed", true, || Box::new(Fixed)));
    assert_eq!((kind.name(), kind.is_coupled()), ("fixed", true));
    assert_eq!(kind, kind.clone());
    let fork = kind.build().clone();
    assert_eq!(fork.cwnd(A), 7 * MSS);
}

/// Returns a NewReno subflow with the given byte-counting limit in slow start.
fn limited(byte_counting_limit: Option<u32>) -> AnyCongestion {
    let mut congestion = CongestionKind::NewReno.build();
    congestion.on_subflow_up(A, &SubflowStart { byte_counting_limit, ..start() });
    congestion
}

// RFC 5681 section 3.1, RFC 3465 section 2.2.
#[test]
fn an_acknowledgement_adds_at_most_the_byte_counting_limit_in_slow_start() {
    for (limit, acked, window) in
        [(None, 7, 17), (Some(1), 7, 11), (Some(2), 7, 12), (Some(2), 1, 11), (Some(8), 7, 17)]
    {
        let mut congestion = limited(limit);
        congestion.on_ack(A, &ack(NOW, acked));
        assert_eq!(congestion.cwnd(A), window * MSS, "{limit:?} {acked}");
    }
}

#[test]
fn the_byte_counting_limit_is_about_slow_start_alone() {
    let mut congestion = CongestionKind::NewReno.build();
    let start = SubflowStart { byte_counting_limit: Some(1), initial_ssthresh: Some(10), ..start() };
    congestion.on_subflow_up(A, &start);
    congestion.on_ack(A, &ack(NOW, 5));
    assert_eq!(window(&congestion, A), 10.5);
}

// RFC 3465 section 2.3: with a limit, it is one segment in the slow start after a timeout.
#[test]
fn the_byte_counting_limit_is_one_segment_in_the_slow_start_after_a_timeout() {
    for (limit, windows) in [(None, [5, 6]), (Some(1), [2, 3]), (Some(4), [2, 3])] {
        let mut congestion = limited(limit);
        congestion.on_ack(A, &ack(NOW, 1));
        congestion.on_rto(A, NOW, 20 * MSS, false);
        for window in windows {
            congestion.on_ack(A, &ack(NOW, 5));
            assert_eq!(congestion.cwnd(A) / MSS, window, "{limit:?}");
        }
    }
    // Undoing a spurious timeout restores the limit.
    let mut undone = limited(Some(4));
    undone.on_rto(A, NOW, 10 * MSS, false);
    undone.on_undo(A, NOW);
    undone.on_ack(A, &ack(NOW, 5));
    assert_eq!(undone.cwnd(A), 14 * MSS);
}
