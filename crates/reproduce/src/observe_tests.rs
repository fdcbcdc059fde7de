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

/// Subflows carry copies of the same data, and data that is reinjected is cut anew.
#[test]
fn data_is_in_flight_since_its_first_transmission_on_the_subflow_that_brings_it() {
    const OTHER: IpAddr = IpAddr::V4(core::net::Ipv4Addr::new(10, 0, 1, 1));
    let mut flow = Flow::default();
    // A server has one address for all subflows.
    let server = Address::new(IpAddr::V4(core::net::Ipv4Addr::new(10, 9, 0, 1)), 80);
    let ends = |client: IpAddr| (server, Address::new(client, 1));
    let (one, other) = (flow.place(ends(IP), IP), flow.place(ends(OTHER), OTHER));
    assert_eq!((one, other, flow.place(ends(IP), IP)), (0, 1, 0));
    let send = |flow: &mut Flow, place: usize, at, from, to| {
        flow.carried[place].sent.entry(from).or_insert((ms(at), to));
    };
    send(&mut flow, one, 1, 0, 1000);
    send(&mut flow, one, 2, 1000, 2500);
    send(&mut flow, other, 5, 0, 1000);
    // A retransmission.
    send(&mut flow, one, 7, 1000, 2500);
    let data = DataRange::new;
    assert_eq!(flow.take(other, data(0, 1000)), Some((OTHER, ms(5))));
    assert_eq!(flow.take(one, data(1000, 1500)), Some((IP, ms(2))));
    assert_eq!(flow.take(one, data(1500, 2500)), Some((IP, ms(2))));
    assert_eq!(flow.take(one, data(1500, 2500)), None, "it has arrived");
    assert_eq!(flow.take(other, data(2500, 3000)), None, "the other subflow has not sent it");
    // Its copy of the first data is forgotten once the stream is beyond it.
    flow.next = 2500;
    send(&mut flow, one, 9, 2500, 3000);
    assert_eq!((flow.carried[one].sent.len(), flow.take(one, data(2500, 3000))), (2, Some((IP, ms(9)))));
    assert!(flow.carried[one].sent.is_empty());
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
