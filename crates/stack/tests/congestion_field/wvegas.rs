//! wVegas: all paths together hold total_alpha segments in queues, each in proportion to its share of the
//! rate.

use anabranch_stack::congestion::{Ack, AnyCongestion, CongestionControl, CongestionKind, WvegasOptions};
use anabranch_stack::event::SubflowId;
use anabranch_units::{Duration, Time};
use proptest::prelude::*;

use crate::congestion_common::{A, B, ack, connection, start, window};
use crate::path::{Path, round, round_at, rounds};

const NOW: Time = Time::from_secs(1);

/// Runs both paths in parallel until `end`.
fn run(congestion: &mut AnyCongestion, paths: &[Path], mut at: Vec<Time>, end: Time) -> Vec<Time> {
    loop {
        let next = (0..paths.len()).min_by_key(|i| at[*i]).unwrap();
        if at[next] >= end {
            return at;
        }
        at[next] = round(congestion, SubflowId(next as u8), &paths[next], at[next]);
    }
}

fn wvegas(n: usize) -> AnyCongestion {
    let mut congestion = CongestionKind::Wvegas(WvegasOptions::default()).build();
    for id in 0..n {
        congestion.on_subflow_up(SubflowId(id as u8), &start());
    }
    congestion
}

/// Returns the segments queued on each path, as a mean over 300 round trips. Slow start overshoots by up to
/// 300 segments, which drain one by one in round trips of up to twice the base.
fn queued(congestion: &mut AnyCongestion, paths: &[Path]) -> Vec<f64> {
    let mut at = vec![NOW; paths.len()];
    let longest = paths.iter().map(|path| path.base).max().unwrap();
    at = run(congestion, paths, at, NOW + longest * 800);
    let begin = NOW + longest * 800;
    let (mut sums, mut n) = (vec![0.0; paths.len()], 0.0);
    for step in 1..=300_u64 {
        at = run(congestion, paths, at, begin + longest * step);
        for (sum, (id, path)) in sums.iter_mut().zip(paths.iter().enumerate()) {
            *sum += path.queued(window(congestion, SubflowId(id as u8)));
        }
        n += 1.0;
    }
    sums.iter().map(|sum| sum / n).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    // The shares are those of the rates, and none of these is low enough for less than two segments.
    #[test]
    fn all_paths_together_hold_total_alpha(base in 20..100_u64, first in 60.0..300.0_f64, part in 0.4..1.0_f64) {
        let seconds = base as f64 / 1e3;
        let paths = [Path::new(base, first / seconds), Path::new(base, first * part / seconds)];
        let mut congestion = wvegas(2);
        let queued = queued(&mut congestion, &paths);
        let total: f64 = queued.iter().sum();
        // Draining may keep a subflow below its first two segments: then its rate is not recorded, the other
        // holds all ten, and it up to two; each may hold one more, as the steps are of one.
        prop_assert!(total > 8.0 && total < 10.0 + 2.0 + 2.0, "{queued:?}");
        prop_assert!(queued[0] + 1.0 > queued[1]);
    }
}

#[test]
fn alone_it_holds_all_of_it() {
    let mut congestion = wvegas(1);
    let queued = queued(&mut congestion, &[Path::new(50, 2000.0)]);
    assert!((queued[0] - 10.0).abs() < 1.2, "{queued:?}");
}

#[test]
fn the_shares_of_alpha_follow_the_rates() {
    let mut congestion = wvegas(2);
    let queued = queued(&mut congestion, &[Path::new(50, 3000.0), Path::new(50, 1000.0)]);
    assert!((queued[0] - 7.5).abs() < 1.3 && (queued[1] - 2.5).abs() < 1.3, "{queued:?}");
}

#[test]
fn no_path_is_asked_to_hold_less_than_two() {
    let mut congestion = wvegas(2);
    let queued = queued(&mut congestion, &[Path::new(50, 10_000.0), Path::new(50, 400.0)]);
    assert!(queued[1] > 1.0 && queued[1] < 3.2, "{queued:?}");
}

#[test]
fn an_empty_path_is_not_drained() {
    // A constant RTT: nothing is queued, and twice zero is no reason to halve.
    let mut congestion = connection("wvegas", &[(20, 50)]);
    let mut now = NOW;
    for n in 1..=10 {
        now = round_at(&mut congestion, A, Duration::from_millis(50), now);
        assert_eq!(window(&congestion, A), 20.0 + f64::from(n));
    }
}

#[test]
fn a_queueing_delay_of_twice_the_least_drains_the_queue_once() {
    let mut congestion = connection("wvegas", &[(100, 50)]);
    let mut now = NOW;
    now = round_at(&mut congestion, A, Duration::from_millis(50), now);
    now = round_at(&mut congestion, A, Duration::from_millis(54), now);
    let before = window(&congestion, A);
    assert_eq!(before, 102.0);
    // 8 ms after 4 ms: w base / (2 rtt), after the step of the round trip.
    now = round_at(&mut congestion, A, Duration::from_millis(58), now);
    let expected = (before + 1.0) * 50.0 / 116.0;
    let lower = (before - 1.0) * 50.0 / 116.0;
    let is = window(&congestion, A);
    assert!(is >= lower - 1e-9 && is <= expected + 1e-9, "{is} of {lower}..{expected}");
    // 10 ms is more than twice the previous 4, and the minimum since: the window continues to grow to its
    // threshold, three quarters of its previous size, and takes a step.
    round_at(&mut congestion, A, Duration::from_millis(60), now);
    assert!((window(&congestion, A) - (0.75 * before - 1.0)).abs() < 1e-9, "{}", window(&congestion, A));
}

#[test]
fn a_path_whose_queue_others_fill_is_left() {
    // The same rate at first; then another flow takes half of the first path, whose round trips grow by its
    // queue.
    let mut congestion = wvegas(2);
    let paths = [Path::new(50, 2000.0), Path::new(50, 2000.0)];
    let at = run(&mut congestion, &paths, vec![NOW; 2], NOW + Duration::from_secs(20));
    let before = [window(&congestion, A), window(&congestion, B)];
    assert!((before[0] / before[1] - 1.0).abs() < 0.1, "{before:?}");
    let squeezed = [Path { rate: 1000.0, ..paths[0] }, paths[1]];
    run(&mut congestion, &squeezed, at, NOW + Duration::from_secs(60));
    let rate = |id, path: &Path| window(&congestion, id) / path.rtt(window(&congestion, id)).as_secs_f64();
    assert!(rate(A, &squeezed[0]) < 0.55 * rate(B, &squeezed[1]));
    assert!(squeezed[1].queued(window(&congestion, B)) > squeezed[0].queued(window(&congestion, A)));
}

#[test]
fn slow_start_ends_by_the_ratio_of_the_rtts() {
    let mut congestion = wvegas(1);
    let path = Path::new(50, 1000.0);
    rounds(&mut congestion, A, &path, NOW, 4);
    // As in Vegas: relative to the window that has doubled while the RTT was measured.
    assert!((window(&congestion, A) - 101.0).abs() < 3.0, "{}", window(&congestion, A));
}

#[test]
fn the_mean_rtt_of_a_round_trip_counts_and_not_the_least() {
    // 100 segments, half of them with 50 ms and half with 70: 60 in the mean, so 16 are queued rather than
    // none.
    let mut congestion = connection("wvegas", &[(100, 50)]);
    for n in 1..=100_u64 {
        let rtt = Duration::from_millis(if n % 2 == 0 { 50 } else { 70 });
        let one = ack(NOW + Duration::from_millis(n), 1);
        congestion.on_ack(A, &Ack { rtt: Some(rtt), srtt: rtt, round_start: n == 100, ..one });
    }
    assert_eq!(window(&congestion, A), 99.0);
}

#[test]
fn a_path_that_holds_less_than_its_share_has_no_part_in_the_others() {
    let mut congestion = connection("wvegas", &[(20, 50), (20, 50)]);
    let base = Duration::from_millis(50);
    round_at(&mut congestion, A, base, NOW);
    let now = round_at(&mut congestion, B, base, NOW);
    // 3.5 segments of B are queued, and none of A: all ten are B's.
    round_at(&mut congestion, B, Duration::from_millis(60), now);
    let AnyCongestion::Wvegas(inner) = &congestion else { panic!("it is another") };
    assert_eq!((inner.rule().alpha(A), inner.rule().alpha(B)), (2.0, 10.0));
}

#[test]
fn the_least_queueing_delay_is_of_all_since_the_last_draining() {
    let mut congestion = connection("wvegas", &[(100, 50)]);
    let mut now = NOW;
    for ms in [50, 60, 54] {
        now = round_at(&mut congestion, A, Duration::from_millis(ms), now);
    }
    // 8 ms is twice the 4, though not twice the 10 before.
    round_at(&mut congestion, A, Duration::from_millis(58), now);
    assert!(window(&congestion, A) < 50.0, "{}", window(&congestion, A));
}

#[test]
fn a_path_that_holds_just_its_share_has_a_part_too() {
    // 12 segments of which exactly two are queued, and each path is to hold two at first.
    let mut congestion = connection("wvegas", &[(11, 10)]);
    let now = round_at(&mut congestion, A, Duration::from_millis(10), NOW);
    assert_eq!(window(&congestion, A), 12.0);
    round_at(&mut congestion, A, Duration::from_millis(12), now);
    let AnyCongestion::Wvegas(inner) = &congestion else { panic!("it is another") };
    assert_eq!((inner.rule().alpha(A), window(&congestion, A)), (10.0, 13.0));
}
