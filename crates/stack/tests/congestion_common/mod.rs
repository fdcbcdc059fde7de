//! Short helpers for the events of a subflow, and a path without a queue on which a window grows.
#![allow(dead_code)]

use anabranch_stack::congestion::{
    Ack, AnyCongestion, CongestionControl, CongestionEvent, CongestionKind, SubflowStart,
};
use anabranch_stack::event::SubflowId;
use anabranch_units::{Duration, Time};

pub const MSS: u64 = 1400;
pub const A: SubflowId = SubflowId(0);
pub const B: SubflowId = SubflowId(1);

/// Returns an initial window of 10 segments, 20 ms, no proportional rate reduction.
pub fn start() -> SubflowStart {
    SubflowStart {
        now: Time::ZERO,
        mss: MSS,
        initial_window: 10,
        initial_ssthresh: None,
        rtt: Some(Duration::from_millis(20)),
        prr: false,
        paced: false,
        sack: true,
        byte_counting_limit: None,
    }
}

/// Returns a cumulative acknowledgement of `segments` segments on a used window, outside of recovery.
pub fn ack(now: Time, segments: u64) -> Ack {
    let rtt = Duration::from_millis(20);
    Ack { inflight_bytes: 10 * MSS, ..Ack::of(now, segments * MSS, segments as u32, rtt) }
}

pub fn loss(now: Time, flight: u64) -> CongestionEvent {
    CongestionEvent {
        now,
        flight_bytes: flight * MSS,
        recover_bytes: flight * MSS,
        ecn: false,
        reduced: false,
    }
}

/// Returns a congestion control with subflows of these windows, in congestion avoidance, and RTTs in
/// milliseconds (0: no sample).
pub fn connection(name: &str, subflows: &[(u32, u64)]) -> AnyCongestion {
    let mut congestion = CongestionKind::from_name(name).unwrap().build();
    for (id, (window, rtt)) in subflows.iter().enumerate() {
        congestion.on_subflow_up(
            SubflowId(id as u8),
            &SubflowStart {
                initial_window: *window,
                initial_ssthresh: Some(2),
                rtt: (*rtt > 0).then(|| Duration::from_millis(*rtt)),
                ..start()
            },
        );
    }
    congestion
}

/// Returns the window of `id` with its fraction, in segments.
pub fn window(congestion: &AnyCongestion, id: SubflowId) -> f64 {
    congestion.windows().map_or(f64::NAN, |windows| windows.get(id).segments)
}

/// Runs one round trip: the whole window is acknowledged, segment by segment, evenly over the RTT. Returns
/// the time at its end.
pub fn round(congestion: &mut AnyCongestion, id: SubflowId, from: Time, rtt: Duration) -> Time {
    let segments = congestion.cwnd(id) / MSS;
    for n in 1..=segments {
        let now = from + Duration(rtt.0 * n / segments);
        let inflight_bytes = segments * MSS;
        congestion.on_ack(id, &Ack { rtt: Some(rtt), srtt: rtt, inflight_bytes, ..ack(now, 1) });
        congestion.on_sent(id, now, MSS);
    }
    from + rtt
}
