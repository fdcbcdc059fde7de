//! What every classic congestion control does, whatever its rule.

use anabranch_stack::congestion::{Ack, CongestionControl, CongestionEvent, CongestionKind, SubflowStart};
use anabranch_stack::event::SubflowId;
use anabranch_units::{Duration, Time};

const MSS: u64 = 1400;
const A: SubflowId = SubflowId(0);

fn start() -> SubflowStart {
    SubflowStart {
        now: Time::ZERO,
        mss: MSS,
        initial_window: 10,
        initial_ssthresh: None,
        rtt: Some(Duration::from_millis(20)),
        prr: false,
    }
}

fn ack(now: Time, segments: u64) -> Ack {
    Ack {
        now,
        acked_bytes: segments * MSS,
        acked_segments: segments as u32,
        lost_bytes: 0,
        rtt: Some(Duration::from_millis(20)),
        srtt: Duration::from_millis(20),
        min_rtt: Duration::from_millis(20),
        one_way_delay_us: None,
        delivery_rate: None,
        app_limited: false,
        cwnd_limited: true,
        ce: false,
        inflight_bytes: 10 * MSS,
        in_recovery: false,
        una_advanced: true,
        round_start: false,
    }
}

fn loss(now: Time, flight: u64) -> CongestionEvent {
    CongestionEvent { now, flight_bytes: flight * MSS, recover_bytes: flight * MSS, ecn: false }
}

#[test]
fn slow_start_doubles_and_a_loss_reduces_by_the_rules_factor() {
    for (name, left) in [("newreno", 10), ("cubic", 14), ("lia", 10)] {
        let kind = CongestionKind::from_name(name).unwrap();
        let mut congestion = kind.build();
        congestion.on_subflow_up(A, &start());
        assert_eq!(congestion.cwnd(A), 10 * MSS);
        assert_eq!(congestion.ssthresh(A), None);
        congestion.on_ack(A, &ack(Time::from_millis(20), 10));
        assert_eq!(congestion.cwnd(A), 20 * MSS, "{name}");
        congestion.on_congestion(A, &loss(Time::from_millis(40), 20));
        assert_eq!(congestion.cwnd(A), left * MSS, "{name}");
        assert_eq!(congestion.ssthresh(A), Some(left * MSS), "{name}");
    }
}
