//! NewReno, CUBIC and HyStart++ compared with their formulas (RFC 5681, RFC 9438, RFC 9406).

use crate::congestion_common;

use anabranch_stack::congestion::{
    Ack, AnyCongestion, CongestionControl, CongestionKind, CubicOptions, SubflowStart,
};
use anabranch_units::{Duration, Time};
use congestion_common::{A, B, MSS, ack, connection, loss, round, start, window};

const NOW: Time = Time::from_secs(1);
const HYSTART: CongestionKind = CongestionKind::CubicHystart(CubicOptions::DEFAULT);

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn close(a: f64, b: f64, relative: f64) -> bool {
    (a - b).abs() <= relative * b.abs().max(1e-12)
}

#[test]
fn newreno_grows_by_one_segment_in_a_round_trip() {
    for segments in [2, 10, 100, 1000] {
        let mut congestion = connection("newreno", &[(segments, 20)]);
        round(&mut congestion, A, NOW, ms(20));
        let grown = window(&congestion, A) - f64::from(segments);
        // Slightly less than one, as the window grows within the round.
        assert!(grown > 1.0 - 0.3 / f64::from(segments).sqrt() && grown <= 1.0, "{segments}: {grown}");
    }
}

#[test]
fn newreno_halves_to_whole_segments() {
    let mut congestion = connection("newreno", &[(25, 20)]);
    congestion.on_congestion(A, &loss(NOW, 25));
    assert_eq!((congestion.cwnd(A), window(&congestion, A)), (12 * MSS, 12.0));
}

#[test]
fn newreno_sawtooth_has_a_mean_of_three_quarters() {
    let mut congestion = connection("newreno", &[(40, 20)]);
    let (mut sum, mut n, mut now) = (0.0, 0.0, NOW);
    for _ in 0..2000 {
        if window(&congestion, A) >= 40.0 {
            congestion.on_congestion(A, &loss(now, 40));
            congestion.on_recovered(A, now);
        }
        sum += window(&congestion, A);
        n += 1.0;
        now = round(&mut congestion, A, now, ms(20));
    }
    assert!(close(sum / n / 40.0, 0.75, 0.03), "{}", sum / n / 40.0);
}

#[test]
fn uncoupled_subflows_do_not_see_each_other() {
    for name in ["newreno", "cubic"] {
        let mut two = connection(name, &[(10, 20), (50, 80)]);
        let mut one = connection(name, &[(10, 20)]);
        two.on_congestion(B, &loss(NOW, 50));
        for n in 0..30 {
            let now = NOW + ms(20 * n);
            assert_eq!(round(&mut two, A, now, ms(20)), round(&mut one, A, now, ms(20)));
            two.on_ack(B, &ack(now, 3));
        }
        assert_eq!(window(&two, A), window(&one, A), "{name}");
    }
}

/// Returns CUBIC after a loss at a window of `w_max` segments.
fn after_loss(w_max: u64) -> AnyCongestion {
    let mut congestion = connection("cubic", &[(w_max as u32, 100)]);
    congestion.on_congestion(A, &loss(NOW, w_max));
    congestion.on_recovered(A, NOW);
    congestion
}

/// Returns `W_cubic(t)` after a loss at `w_max`, of a window that was full.
fn w_cubic(w_max: f64, t: f64) -> f64 {
    let k = (w_max * 0.3 / 0.4).cbrt();
    0.4 * (t - k).powi(3) + w_max
}

#[test]
fn cubic_reduces_to_seven_tenths() {
    let congestion = after_loss(1000);
    assert!(close(window(&congestion, A), 700.0, 1e-12));
}

#[test]
fn cubic_follows_its_closed_form() {
    // Long round trips, in which Reno grows far more slowly. K = cbrt(750) = 9.09 s.
    for rtt in [60, 100, 250] {
        let mut congestion = after_loss(1000);
        let mut now = NOW;
        // The first acknowledgement starts the epoch.
        let epoch = NOW + Duration(ms(rtt).0 / 700);
        while now < NOW + Duration::from_secs(16) {
            now = round(&mut congestion, A, now, ms(rtt));
            let t = (now - epoch).as_secs_f64();
            // The target is that of one round trip later, and the window reaches it one round trip later.
            let (low, high) = (w_cubic(1000.0, t), w_cubic(1000.0, t + 0.001 * rtt as f64));
            let w = window(&congestion, A);
            assert!(w > low - 3.0 && w < high + 3.0, "RTT {rtt} ms, t = {t}: {w} and {low}..{high}");
        }
        assert!(window(&congestion, A) > 1100.0);
    }
}

#[test]
fn cubic_is_concave_below_w_max_and_convex_above() {
    let mut congestion = after_loss(1000);
    let mut growths = vec![];
    let mut now = NOW;
    for _ in 0..180 {
        let before = window(&congestion, A);
        now = round(&mut congestion, A, now, ms(100));
        growths.push((before, window(&congestion, A) - before));
    }
    let below: Vec<_> = growths.iter().filter(|(w, _)| *w < 995.0).map(|(_, g)| *g).collect();
    let above: Vec<_> = growths.iter().filter(|(w, _)| *w > 1005.0).map(|(_, g)| *g).collect();
    assert!(below.len() > 50 && above.len() > 50);
    // The first round lasts from the reduction to the first target.
    assert!(below[1..].windows(2).all(|pair| pair[1] < pair[0] + 0.05), "{below:?}");
    assert!(above.windows(2).all(|pair| pair[1] > pair[0] - 0.05), "{above:?}");
}

#[test]
fn cubic_grows_with_time_and_not_with_round_trips() {
    let after = |rtt, secs| {
        let mut congestion = after_loss(2000);
        let mut now = NOW;
        while now < NOW + Duration::from_secs(secs) {
            now = round(&mut congestion, A, now, ms(rtt));
        }
        window(&congestion, A)
    };
    assert!(close(after(60, 12), after(240, 12), 0.01));
}

#[test]
fn cubic_is_as_fast_as_reno_on_a_small_path() {
    // 10 segments at 5 ms: the Reno-friendly region. W_est grows by 9/17 per round trip up to the window
    // before the loss, and by 1 from there.
    let mut congestion = after_loss(10);
    let (mut now, mut w_est, mut w) = (NOW, 7.0_f64, 7.0_f64);
    for _ in 0..100 {
        for _ in 0..w as u64 {
            w_est += if w_est >= 10.0 { 1.0 } else { 9.0 / 17.0 } / w_est;
        }
        w = w_est;
        now = round(&mut congestion, A, now, ms(5));
        assert!(close(window(&congestion, A), w, 0.02), "{} and {w}", window(&congestion, A));
    }
    assert!(w > 90.0);
}

#[test]
fn cubic_converges_fast_when_the_window_is_below_the_last_maximum() {
    let mut congestion = after_loss(1000);
    congestion.on_congestion(A, &loss(NOW, 700));
    congestion.on_recovered(A, NOW);
    // W_max is 700 * 0.85 = 595 rather than 700: the curve is flat there.
    let k = ((595.0 - 490.0) / 0.4_f64).cbrt();
    let mut now = NOW;
    while (now - NOW).as_secs_f64() < k {
        now = round(&mut congestion, A, now, ms(50));
    }
    assert!(close(window(&congestion, A), 595.0, 0.005), "{}", window(&congestion, A));
}

#[test]
fn cubic_without_fast_convergence_aims_at_the_window_of_the_loss() {
    let options = CubicOptions { fast_convergence: false };
    let mut congestion = CongestionKind::Cubic(options).build();
    let start =
        SubflowStart { initial_window: 1000, initial_ssthresh: Some(2), rtt: Some(ms(50)), ..start() };
    congestion.on_subflow_up(A, &start);
    for window in [1000, 700] {
        congestion.on_congestion(A, &loss(NOW, window));
        congestion.on_recovered(A, NOW);
    }
    // W_max is 700 rather than 595.
    let k = ((700.0 - 490.0) / 0.4_f64).cbrt();
    let mut now = NOW;
    while (now - NOW).as_secs_f64() < k {
        now = round(&mut congestion, A, now, ms(50));
    }
    assert!(close(window(&congestion, A), 700.0, 0.005), "{}", window(&congestion, A));
}

#[test]
fn cubic_target_grows_by_half_a_window_at_most() {
    let mut congestion = after_loss(1000);
    congestion.on_ack(A, &ack(NOW, 1));
    let before = window(&congestion, A);
    // A year later.
    let late = NOW + Duration::from_secs(31_536_000);
    congestion.on_ack(A, &ack(late, 100));
    assert!(close(window(&congestion, A), before + 0.5 * 100.0, 1e-9));
    // One acknowledgement, however much it covers, does not exceed the target.
    let before = window(&congestion, A);
    congestion.on_ack(A, &ack(late, 1_000_000));
    assert!(close(window(&congestion, A), 1.5 * before, 1e-9));
}

#[test]
fn cubic_does_not_count_time_in_which_the_application_sent_too_little() {
    let mut busy = after_loss(1000);
    let mut paused = after_loss(1000);
    for n in 0..20 {
        let now = NOW + ms(100 * n);
        round(&mut busy, A, now, ms(100));
        round(&mut paused, A, now, ms(100));
    }
    // For 30 s only a few segments are in flight.
    let pause = NOW + ms(2000);
    let mut now = pause;
    while now < pause + Duration::from_secs(30) {
        now += ms(50);
        paused.on_ack(A, &Ack { cwnd_limited: false, srtt: ms(100), ..ack(now, 2) });
    }
    for n in 0..20 {
        round(&mut busy, A, pause + ms(100 * n), ms(100));
        round(&mut paused, A, now + ms(100 * n), ms(100));
    }
    assert!(close(window(&paused, A), window(&busy, A), 0.002));
}

#[test]
fn cubic_does_not_count_idle_time() {
    let mut busy = after_loss(1000);
    let mut idle = after_loss(1000);
    for n in 0..20 {
        round(&mut busy, A, NOW + ms(100 * n), ms(100));
        round(&mut idle, A, NOW + ms(100 * n), ms(100));
    }
    // Everything is acknowledged, and 30 s later a full window is sent at once.
    let last = NOW + ms(2000);
    let end = Ack { srtt: ms(100), inflight_bytes: 0, cwnd_limited: false, ..ack(last, 1) };
    idle.on_ack(A, &end);
    let again = last + Duration::from_secs(30);
    idle.on_sent(A, again, MSS);
    for n in 0..20 {
        round(&mut busy, A, last + ms(100 * n), ms(100));
        round(&mut idle, A, again + ms(100 * n), ms(100));
    }
    assert!(close(window(&idle, A), window(&busy, A), 0.005), "{} {}", window(&idle, A), window(&busy, A));
}

#[test]
fn cubic_starts_at_its_maximum_after_a_timeout() {
    let mut congestion = after_loss(1000);
    congestion.on_rto(A, NOW, 700 * MSS, false);
    let mut now = NOW;
    while congestion.cwnd(A) < congestion.ssthresh(A).unwrap() {
        now = round(&mut congestion, A, now, ms(100));
    }
    let (start, w) = (now, window(&congestion, A));
    assert!(close(w, 490.0, 0.05));
    while now < start + Duration::from_secs(5) {
        now = round(&mut congestion, A, now, ms(100));
    }
    // K = 0: 0.4 * 5^3 = 50 segments above it, up to the first and last round trips.
    let grown = window(&congestion, A) - w;
    assert!(grown > 44.0 && grown < 62.0, "{grown}");
}

#[test]
fn cubic_undo_goes_on_where_it_was() {
    let mut congestion = after_loss(1000);
    let mut never = after_loss(1000);
    let mut now = NOW;
    for _ in 0..50 {
        round(&mut never, A, now, ms(100));
        now = round(&mut congestion, A, now, ms(100));
    }
    let before = window(&congestion, A);
    // Two reductions in one recovery.
    congestion.on_congestion(A, &loss(now, before as u64));
    congestion.on_congestion(A, &loss(now, before as u64));
    congestion.on_recovered(A, now);
    congestion.on_undo(A, now);
    assert_eq!(window(&congestion, A), before);
    for _ in 0..50 {
        round(&mut never, A, now, ms(100));
        now = round(&mut congestion, A, now, ms(100));
    }
    assert!(close(window(&congestion, A), window(&never, A), 1e-9));
}

/// Runs slow start with these RTTs in milliseconds, ten acknowledgements each.
fn slow_start(kind: CongestionKind, rtts: &[u64]) -> AnyCongestion {
    let mut congestion = kind.build();
    congestion.on_subflow_up(A, &SubflowStart { paced: true, ..start() });
    for (n, rtt) in rtts.iter().enumerate() {
        let now = NOW + ms(100 * n as u64);
        let each = congestion.cwnd(A) / MSS / 10;
        for i in 0..10 {
            congestion.on_ack(A, &Ack { rtt: Some(ms(*rtt)), round_start: i == 0, ..ack(now, each) });
        }
    }
    congestion
}

#[test]
fn hystart_lets_eight_segments_of_an_acknowledgement_count_where_segments_are_not_paced() {
    for (paced, grown) in [(false, 8), (true, 30)] {
        let mut congestion = HYSTART.build();
        congestion.on_subflow_up(A, &SubflowStart { paced, ..start() });
        congestion.on_ack(A, &ack(NOW, 30));
        assert_eq!(congestion.cwnd(A), (10 + grown) * MSS);
    }
}

#[test]
fn hystart_goes_on_as_long_as_the_rtt_stays() {
    let with = slow_start(HYSTART, &[40, 43, 40, 43]);
    let without = slow_start(CongestionKind::Cubic(CubicOptions::DEFAULT), &[40, 43, 40, 43]);
    assert_eq!(with.cwnd(A), 160 * MSS);
    assert_eq!(with.cwnd(A), without.cwnd(A));
}

#[test]
fn hystart_slows_down_when_the_rtt_grows_by_an_eighth_and_ends_five_rounds_later() {
    // The eighth sample of the second round ends slow start: 7 segments were acknowledged before, 3 after.
    let congestion = slow_start(HYSTART, &[40, 45]);
    let expected = 20.0 + 7.0 * 2.0 + 3.0 * 2.0 * 0.25;
    assert_eq!(window(&congestion, A), expected);
    assert_eq!(congestion.ssthresh(A), None);
    let congestion = slow_start(HYSTART, &[40, 45, 50, 55, 60, 65]);
    assert_eq!(congestion.ssthresh(A), None);
    let congestion = slow_start(HYSTART, &[40, 45, 50, 55, 60, 65, 70]);
    assert!(congestion.ssthresh(A).is_some());
    assert!(congestion.cwnd(A) < 120 * MSS);
}

#[test]
fn hystart_takes_4_to_16_ms_for_an_increase() {
    for (rtts, slower) in [([20, 23], false), ([20, 24], true), ([200, 215], false), ([200, 216], true)] {
        let congestion = slow_start(HYSTART, &rtts);
        assert_eq!(congestion.cwnd(A) < 40 * MSS, slower, "{rtts:?}");
    }
}

#[test]
fn hystart_compares_a_round_trip_with_the_one_before() {
    // 48 is not 5.5 more than 44, though 5 more than 40.
    assert_eq!(slow_start(HYSTART, &[40, 44, 48]).cwnd(A), 80 * MSS);
}

#[test]
fn hystart_resumes_when_the_rtt_falls_again() {
    let congestion = slow_start(HYSTART, &[40, 45, 40, 40, 40, 40, 40, 40]);
    assert_eq!(congestion.ssthresh(A), None);
    assert!(congestion.cwnd(A) > 1000 * MSS);
    // The eighth sample also ends CSS: 7 acknowledgements of 3 segments before, 3 after.
    let congestion = slow_start(HYSTART, &[40, 45, 40]);
    assert_eq!(window(&congestion, A), 35.5 + 7.0 * 3.0 * 0.25 + 3.0 * 3.0);
}

#[test]
fn hystart_takes_the_least_rtt_of_a_round_trip() {
    let mut congestion = HYSTART.build();
    congestion.on_subflow_up(A, &SubflowStart { paced: true, ..start() });
    for n in 0..20 {
        // In the second round all but one are longer.
        let rtt = if n < 10 || n == 12 { 40 } else { 60 };
        let one = ack(NOW + ms(n), 1);
        congestion.on_ack(A, &Ack { rtt: Some(ms(rtt)), round_start: n % 10 == 0, ..one });
    }
    assert_eq!(congestion.cwnd(A), 30 * MSS);
}

#[test]
fn hystart_takes_part_in_the_first_slow_start_alone() {
    let mut congestion = HYSTART.build();
    congestion.on_subflow_up(A, &SubflowStart { initial_window: 200, ..start() });
    congestion.on_rto(A, NOW, 200 * MSS, false);
    for (n, rtt) in [40_u64, 80, 160, 320].into_iter().enumerate() {
        let each = congestion.cwnd(A) / MSS;
        for i in 0..each.max(10) {
            let now = NOW + ms(100 * n as u64);
            congestion.on_ack(A, &Ack { rtt: Some(ms(rtt)), round_start: i == 0, ..ack(now, 1) });
        }
    }
    // The window doubles, from the eleven of the first round on.
    assert_eq!((congestion.ssthresh(A), congestion.cwnd(A)), (Some(140 * MSS), 88 * MSS));
}
