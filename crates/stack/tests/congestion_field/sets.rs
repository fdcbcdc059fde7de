//! DWC and SBD: the coupled subflows, and the resulting growth.

use anabranch_stack::congestion::{
    Ack, AnyCongestion, CongestionControl, CongestionKind, Dwc, Sbd, SbdOptions,
};
use anabranch_stack::event::SubflowId;
use anabranch_units::{Duration, Time};

use crate::congestion_common::{A, B, ack, connection, loss, window};

const NOW: Time = Time::from_secs(1);
const RTT: Duration = Duration::from_millis(50);

fn dwc(congestion: &AnyCongestion) -> &Dwc {
    let AnyCongestion::Dwc(inner) = congestion else { panic!("it is another") };
    inner.rule()
}

fn sbd(congestion: &AnyCongestion) -> &Sbd {
    let AnyCongestion::Sbd(inner) = congestion else { panic!("it is another") };
    inner.rule()
}

fn lose(congestion: &mut AnyCongestion, id: SubflowId, now: Time) {
    let flight = congestion.cwnd(id) / crate::congestion_common::MSS;
    congestion.on_congestion(id, &loss(now, flight));
    congestion.on_recovered(id, now);
}

fn growth(congestion: &AnyCongestion, id: SubflowId) -> f64 {
    let mut copy = congestion.clone();
    let before = window(&copy, id);
    copy.on_ack(id, &Ack { rtt: Some(RTT), srtt: RTT, ..ack(NOW + RTT * 1000, 1) });
    window(&copy, id) - before
}

// ---- DWC ----

#[test]
fn each_subflow_begins_in_a_set_of_its_own_and_is_newreno() {
    let congestion = connection("dwc", &[(40, 50), (40, 50)]);
    assert!(!dwc(&congestion).couples(A, B) && dwc(&congestion).couples(A, A));
    assert!((growth(&congestion, A) - 1.0 / 40.0).abs() < 1e-12);
}

#[test]
fn losses_within_a_round_trip_put_two_into_one_set_whichever_is_first() {
    for (first, second) in [(A, B), (B, A)] {
        let mut congestion = connection("dwc", &[(40, 50), (40, 50)]);
        lose(&mut congestion, first, NOW);
        assert!(!dwc(&congestion).couples(A, B));
        lose(&mut congestion, second, NOW + RTT);
        assert!(dwc(&congestion).couples(A, B));
        // LIA in the set of both: 20 and 20 segments.
        assert!((growth(&congestion, A) - 1.0 / 80.0).abs() < 1e-12);
        // Losses far from each other divide them again.
        lose(&mut congestion, first, NOW + RTT * 9);
        assert!(!dwc(&congestion).couples(A, B));
    }
}

#[test]
fn losses_further_apart_are_of_two_bottlenecks() {
    let mut congestion = connection("dwc", &[(40, 50), (40, 50)]);
    lose(&mut congestion, A, NOW);
    lose(&mut congestion, B, NOW + RTT + Duration(1));
    assert!(!dwc(&congestion).couples(A, B));
}

#[test]
fn the_greater_of_both_round_trips_counts() {
    let mut congestion = connection("dwc", &[(40, 50), (40, 200)]);
    lose(&mut congestion, A, NOW);
    lose(&mut congestion, B, NOW + Duration::from_millis(190));
    assert!(dwc(&congestion).couples(A, B));
}

/// Acknowledges a segment of B with this smoothed RTT.
fn delay(congestion: &mut AnyCongestion, ms: u64, now: Time) {
    let srtt = Duration::from_millis(ms);
    congestion.on_ack(B, &Ack { rtt: Some(srtt), srtt, ..ack(now, 1) });
}

#[test]
fn a_delay_in_the_upper_quarter_of_its_range_is_a_sign_before_a_loss_and_after() {
    for (ms, together) in [(87, false), (88, true), (100, true)] {
        for before in [true, false] {
            let mut congestion = connection("dwc", &[(40, 50), (40, 50)]);
            delay(&mut congestion, 50, NOW);
            delay(&mut congestion, 100, NOW + RTT * 10);
            let at = NOW + RTT * 100;
            if before {
                delay(&mut congestion, ms, at);
                lose(&mut congestion, A, at + RTT);
            } else {
                lose(&mut congestion, A, at);
                delay(&mut congestion, ms, at + RTT);
            }
            assert_eq!(dwc(&congestion).couples(A, B), together, "{ms} ms, {before}");
        }
    }
}

#[test]
fn a_range_of_less_than_five_milliseconds_is_no_sign() {
    let mut congestion = connection("dwc", &[(40, 50), (40, 50)]);
    delay(&mut congestion, 50, NOW);
    delay(&mut congestion, 54, NOW);
    lose(&mut congestion, A, NOW);
    assert!(!dwc(&congestion).couples(A, B));
}

/// Shows B's smoothed RTTs, one every ten round trips from `from` on; the last may be a sign or not. Returns
/// the time of the last.
fn delays(congestion: &mut AnyCongestion, rtts: &[u64], from: Time) -> Time {
    (0..).zip(rtts).fold(from, |_, (n, ms)| {
        let at = from + RTT * (10 * n);
        delay(congestion, *ms, at);
        at
    })
}

#[test]
fn a_delay_is_high_in_the_range_since_the_last_loss_but_one() {
    let mut congestion = connection("dwc", &[(40, 50), (40, 50)]);
    let at = delays(&mut congestion, &[50, 100], NOW);
    lose(&mut congestion, B, at + RTT * 10);
    // 60 would be the highest in 50 to 60; in 50 to 100, before and after that loss, it is in the lowest
    // quarter.
    let at = delays(&mut congestion, &[50, 60], at + RTT * 30);
    let mut low = congestion.clone();
    lose(&mut low, A, at);
    assert!(!dwc(&low).couples(A, B));
    let at = delays(&mut congestion, &[90], at + RTT * 10);
    lose(&mut congestion, A, at);
    assert!(dwc(&congestion).couples(A, B));
}

#[test]
fn a_delay_from_before_the_last_loss_but_one_is_forgotten() {
    let mut congestion = connection("dwc", &[(40, 50), (40, 50)]);
    let at = delays(&mut congestion, &[50, 200], NOW);
    lose(&mut congestion, B, at + RTT * 10);
    let at = delays(&mut congestion, &[50, 100], at + RTT * 30);
    // In the range of 50 to 200 that is not high.
    let mut earlier = congestion.clone();
    lose(&mut earlier, A, at);
    assert!(!dwc(&earlier).couples(A, B));
    // After one more loss the range of 50 to 200 has expired, and 50 to 100 remains.
    lose(&mut congestion, B, at + RTT * 10);
    let at = delays(&mut congestion, &[100], at + RTT * 30);
    lose(&mut congestion, A, at);
    assert!(dwc(&congestion).couples(A, B));
}

// ---- SBD ----

/// Returns options for quick decisions, for tests.
fn quick() -> SbdOptions {
    SbdOptions { warm_up: 20, ..SbdOptions::DEFAULT }
}

/// Returns two subflows of 40 segments in congestion avoidance, with the given delays in microseconds, one
/// per 10 ms.
fn sbd_of(options: SbdOptions, seconds: u64, delays: impl Fn(u64) -> [i64; 2]) -> AnyCongestion {
    let mut congestion = CongestionKind::Sbd(options).build();
    for id in [A, B] {
        let start = anabranch_stack::congestion::SubflowStart {
            initial_window: 40,
            initial_ssthresh: Some(2),
            rtt: Some(RTT),
            ..crate::congestion_common::start()
        };
        congestion.on_subflow_up(id, &start);
    }
    for step in 0..seconds * 100 {
        let now = NOW + Duration::from_millis(10) * step;
        for (id, delay) in [A, B].into_iter().zip(delays(step)) {
            let one = Ack { one_way_delay_us: Some(delay), cwnd_limited: false, ..ack(now, 1) };
            congestion.on_ack(id, &Ack { rtt: Some(RTT), srtt: RTT, ..one });
        }
    }
    congestion
}

/// Returns a queue that is full most of the time, and empties for a part of each wave of 2 s.
fn busy(step: u64) -> i64 {
    let phase = step % 200;
    if phase < 50 { phase as i64 * 400 } else { 20_000 + (step * 7919 % 13) as i64 * 100 }
}

#[test]
fn before_a_decision_all_are_coupled_by_olia() {
    let congestion = sbd_of(quick(), 5, |step| [busy(step), busy(step)]);
    assert_eq!((sbd(&congestion).decisions(), sbd(&congestion).group(A)), (0, None));
    assert!(sbd(&congestion).couples(A, B));
    assert!((growth(&congestion, A) - 1.0 / 160.0).abs() < 1e-9);
}

#[test]
fn the_same_queue_is_one_group_and_stays_coupled() {
    let congestion = sbd_of(quick(), 40, |step| [busy(step) + 900, busy(step + 1)]);
    assert!(sbd(&congestion).decisions() > 3);
    assert!(sbd(&congestion).group(A).is_some());
    assert_eq!(sbd(&congestion).group(A), sbd(&congestion).group(B));
    assert!(sbd(&congestion).couples(A, B));
}

#[test]
fn different_queues_are_two_groups_of_one_newreno_each() {
    // The other queue is longer and changes more slowly.
    let congestion = sbd_of(quick(), 40, |step| [busy(step), 3 * busy(step / 3)]);
    assert!(sbd(&congestion).group(A).is_some() && sbd(&congestion).group(B).is_some());
    assert!(!sbd(&congestion).couples(A, B));
    assert!((growth(&congestion, A) - 1.0 / 40.0).abs() < 1e-9);
}

#[test]
fn a_subflow_without_bottleneck_is_coupled_with_all() {
    // Its delay is mostly low, with rare peaks.
    let idle = |step: u64| if step % 50 < 5 { 9000 } else { 0 };
    let congestion = sbd_of(quick(), 40, |step| [busy(step), idle(step)]);
    assert!(sbd(&congestion).summary(B).unwrap().skew > 0.3);
    assert!(sbd(&congestion).group(A).is_some());
    assert_eq!(sbd(&congestion).group(B), None);
    assert!(sbd(&congestion).couples(A, B));
}

#[test]
fn the_first_decision_is_ten_groupings_after_the_warm_up() {
    let at = |seconds| sbd(&sbd_of(quick(), seconds, |step| [busy(step), busy(step)])).decisions();
    // 20 intervals of 350 ms and 9 more.
    assert_eq!((at(10), at(11)), (0, 1));
}

#[test]
fn a_long_silence_is_not_made_of_intervals() {
    let mut congestion = sbd_of(quick(), 6, |step| [busy(step), busy(step)]);
    assert_eq!(sbd(&congestion).decisions(), 0);
    // One over fewer than N = 50 is: after twelve seconds 34 intervals of 350 ms have ended, 15 of them after
    // the warm-up.
    let mut shorter = congestion.clone();
    let late = NOW + Duration::from_secs(12);
    shorter.on_ack(A, &Ack { one_way_delay_us: Some(0), rtt: Some(RTT), srtt: RTT, ..ack(late, 1) });
    assert_eq!(sbd(&shorter).decisions(), 1);
    let late = NOW + Duration::from_secs(3600);
    congestion.on_ack(A, &Ack { one_way_delay_us: Some(0), rtt: Some(RTT), srtt: RTT, ..ack(late, 1) });
    assert_eq!(sbd(&congestion).decisions(), 0);
}

#[test]
fn a_subflow_that_ends_takes_its_group_along() {
    let mut congestion = sbd_of(quick(), 40, |step| [busy(step), busy(step)]);
    congestion.on_subflow_down(B);
    assert_eq!(sbd(&congestion).group(B), None);
    assert!((growth(&congestion, A) - 1.0 / 40.0).abs() < 1e-9);
}
