//! The order of data at a receiver, bursts of a sender, and spans of time.

use super::*;

const IP: IpAddr = IpAddr::V4(core::net::Ipv4Addr::new(10, 0, 0, 1));

const fn ms(at: u64) -> Time {
    Time(at * 1_000_000)
}

const fn us(at: u64) -> Time {
    Time(at * 1000)
}

#[track_caller]
fn close(value: f64, expected: f64) {
    assert!((value - expected).abs() < 1e-12, "{value}, and not {expected}");
}

/// Segments of 1000 bytes, each with the milliseconds at which it was sent and arrives.
fn received(segments: &[(u64, u64, u64)]) -> Flow {
    let mut flow = Flow { waits: Some(BTreeMap::new()), ..Flow::default() };
    for (number, sent, arrived) in segments {
        let data = DataRange::new(1000 * number, 1000 * (number + 1));
        flow.arrived(ms(*arrived), IP, ms(*sent), data);
    }
    flow
}

#[test]
fn data_waits_from_its_arrival_and_is_under_way_from_its_first_transmission() {
    // The second one is 30 ms late.
    let flow = received(&[(0, 0, 10), (2, 2, 12), (3, 3, 13), (1, 1, 41), (4, 44, 54)]);
    let on = &flow.paths[&IP];
    close(on.wait.get(), (0.029 + 0.028) / 5.0);
    close(on.wait.most, 0.029);
    close(on.latency.get(), (0.010 + 0.040 + 0.039 + 0.038 + 0.010) / 5.0);
    // Three advances: after 10, 41 and 54 ms.
    close(flow.interval.get(), (0.031 + 0.013) / 2.0);
    close(flow.jump.get(), (1000.0 + 3000.0 + 1000.0) / 3.0);
    close(flow.jump.most, 3000.0);
    let waits = flow.waits.unwrap();
    assert_eq!(waits[&IP].flat(), [0.0, 3.0, 28.0, 1.0, 29.0, 1.0]);
}

#[test]
fn what_has_arrived_before_counts_once() {
    let flow = received(&[(0, 0, 10), (2, 2, 12), (2, 15, 20), (0, 15, 21), (1, 1, 41)]);
    close(flow.paths[&IP].wait.sum, 1000.0 * 0.029);
    assert_eq!((flow.next, flow.jump.weight), (3000, 2.0));
}

/// Paths have segments of different lengths, and data that is reinjected is cut anew.
#[test]
fn a_longer_copy_of_early_data_brings_the_rest_of_it() {
    let mut flow = Flow::default();
    let mut arrived = |at, from, to| {
        let new = flow.new_bytes(DataRange::new(from, to));
        flow.arrived(ms(at), IP, ms(0), DataRange::new(from, to));
        (new, flow.next)
    };
    assert_eq!(arrived(1, 1000, 1500), (500, 0));
    assert_eq!(arrived(2, 1000, 2000), (500, 0));
    assert_eq!(arrived(3, 1200, 1800), (0, 0));
    assert_eq!(arrived(4, 500, 2500), (1000, 0));
    assert_eq!(arrived(5, 0, 1000), (500, 2500));
    assert_eq!(arrived(6, 0, 2500), (0, 2500));
}

#[test]
fn a_burst_ends_with_a_gap_of_200_us() {
    let mut on = OnPath::default();
    // Three, two, and one that may go on.
    for at in [0, 150, 300, 500, 690, 2000] {
        on.sent(us(at));
    }
    // By segment: three are in a burst of three, and two in one of two.
    close(on.burst.get(), (3.0 * 3.0 + 2.0 * 2.0) / 5.0);
    close(on.burst.most, 3.0);
}

#[test]
fn a_lead_belongs_to_the_span_in_which_it_begins() {
    let flow = Flow { gaps: vec![(1.0, 2.0), (2.0, 4.0), (2.5, 6.0), (3.0, 100.0)], ..Flow::default() };
    close(flow.gap(Some((2.0, 3.0))).get(), 5.0);
    close(flow.gap(None).get(), 28.0);
    assert!(flow.gap(Some((4.0, 5.0))).get().is_nan());
}

#[test]
fn free_window_is_what_is_not_in_flight() {
    let mut watch = Watch::new(1, false);
    watch.flows[0].subflows.insert(SubflowId(0), IP);
    let windows = |cwnd_bytes, inflight_bytes| Windows {
        cwnd_bytes,
        ssthresh_bytes: None,
        inflight_bytes,
        srtt: None,
        pacing_rate: None,
        peer_window_edge: 0,
    };
    watch.flows[0].windows(SubflowId(0), &windows(5000, 2000));
    watch.flows[0].windows(SubflowId(0), &windows(3000, 4000));
    let on = &watch.flows[0].paths[&IP];
    close(on.window.get(), 4000.0);
    close(on.free.get(), 1500.0);
    assert!(on.srtt.get().is_nan(), "without a sample");
}
