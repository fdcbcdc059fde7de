//! The information that the congestion control and the scheduler receive from an acknowledgement. Both are
//! replaced by recorders; the window is always ten segments.

use std::sync::{Arc, Mutex, MutexGuard};

use anabranch_stack::config::{ConnectionConfig, LossDetection};
use anabranch_stack::congestion::{
    Ack, CongestionControl, CongestionEvent, CongestionKind, CustomCongestion, CustomCongestionKind,
    SubflowStart,
};
use anabranch_stack::event::SubflowId;
use anabranch_stack::scheduler::{
    CustomScheduler, CustomSchedulerKind, Decision, EventKinds, MinRtt, Scheduler, SchedulerEvent,
    SchedulerKind, SubflowView, View,
};
use anabranch_units::{Duration, Rate, Time};

use crate::kit::*;

#[derive(Default)]
struct Heard {
    acks: Vec<Ack>,
    reductions: Vec<CongestionEvent>,
    events: Vec<SchedulerEvent>,
    /// The view passed with the last event: its subflows and the peer's window.
    subflows: Vec<SubflowView>,
    peer_window: u64,
}

/// The recorded calls since the start of the script, in the order of time.
#[derive(Clone, Default)]
struct Ear(Arc<Mutex<Heard>>);

impl Ear {
    fn heard(&self) -> MutexGuard<'_, Heard> {
        self.0.lock().unwrap()
    }

    /// Returns the bytes and segments of each acknowledgement.
    fn acked(&self) -> Vec<(u64, u32)> {
        self.heard().acks.iter().map(|ack| (ack.acked_bytes, ack.acked_segments)).collect()
    }

    fn last(&self) -> Ack {
        *self.heard().acks.last().expect("an acknowledgement")
    }

    fn lost(&self) -> Vec<u32> {
        let of = |event: &SchedulerEvent| match *event {
            SchedulerEvent::Lost { segments, .. } => Some(segments),
            _ => None,
        };
        self.heard().events.iter().filter_map(of).collect()
    }

    fn view(&self) -> SubflowView {
        self.heard().subflows[0]
    }
}

impl CongestionControl for Ear {
    fn on_subflow_up(&mut self, _: SubflowId, _: &SubflowStart) {}
    fn on_subflow_down(&mut self, _: SubflowId) {}
    fn on_ack(&mut self, _: SubflowId, ack: &Ack) {
        self.heard().acks.push(*ack);
    }
    fn on_congestion(&mut self, _: SubflowId, event: &CongestionEvent) {
        self.heard().reductions.push(*event);
    }
    fn on_recovered(&mut self, _: SubflowId, _: Time) {}
    fn on_rto(&mut self, _: SubflowId, _: Time, _: u64, _: bool) {}
    fn on_undo(&mut self, _: SubflowId, _: Time) {}
    fn on_idle(&mut self, _: SubflowId, _: Time, _: u32) {}
    fn penalise(&mut self, _: SubflowId, _: Time) {}
    fn cwnd(&self, _: SubflowId) -> u64 {
        10 * u64::from(MSS)
    }
    fn ssthresh(&self, _: SubflowId) -> Option<u64> {
        Some(0)
    }
}

impl CustomCongestion for Ear {
    fn clone_box(&self) -> Box<dyn CustomCongestion> {
        Box::new(self.clone())
    }
}

impl Scheduler for Ear {
    fn decide(&mut self, view: &View<'_>) -> Decision {
        MinRtt.decide(view)
    }
    fn on_event(&mut self, view: &View<'_>, event: &SchedulerEvent) {
        let mut heard = self.heard();
        heard.events.push(*event);
        heard.subflows = view.subflows.to_vec();
        heard.peer_window = view.peer_window;
    }
    fn wants_events(&self) -> EventKinds {
        EventKinds::ALL
    }
}

impl CustomScheduler for Ear {
    fn clone_box(&self) -> Box<dyn CustomScheduler> {
        Box::new(self.clone())
    }
}

/// Returns a client whose RTT is 10 ms and which has sent `count` segments, 10 ms ago.
fn sent(config: ConnectionConfig, count: i64) -> (Script, Ear) {
    let ear = Ear::default();
    let (congestion, scheduler) = (ear.clone(), ear.clone());
    let congestion = CustomCongestionKind::new("ear", false, move || Box::new(congestion.clone()));
    let scheduler = CustomSchedulerKind::new("ear", move || Box::new(scheduler.clone()));
    let mut s = Script::client(ConnectionConfig {
        congestion: CongestionKind::Custom(congestion),
        scheduler: SchedulerKind::Custom(scheduler),
        ..config
    });
    if !s.is_mptcp() {
        s.inject(ack(0, 1));
    }
    s.write(count as u64 * 1000);
    s.expect_data(0, 1, count);
    s.advance(10);
    (s, ear)
}

/// Returns three duplicate ACKs and NewReno, without SACK.
fn reno() -> ConnectionConfig {
    ConnectionConfig { loss_detection: LossDetection::DuplicateAcks, sack: false, prr: false, ..plain() }
}

#[test]
fn each_segment_counts_when_it_is_acknowledged_first() {
    let (mut s, ear) = sent(plain(), 10);
    s.inject(ack(0, 3001));
    s.inject(ack(0, 3001).sack(&[(8001, 9001)]));
    s.inject(ack(0, 3001).sack(&[(7001, 9001)]));
    // If an earlier hole is filled, a block grows to the left and merges with another.
    s.inject(ack(0, 3001).sack(&[(5001, 6001), (7001, 9001)]));
    s.sent();
    s.inject(ack(0, 3001).sack(&[(4001, 9001)]));
    s.sent();
    s.inject(ack(0, 10_001));
    assert_eq!(ear.acked(), [(3000, 3), (1000, 1), (1000, 1), (1000, 1), (2000, 2), (2000, 2)]);
    assert_eq!(s.subflow(0).counters.bytes_acked, 10_000);
}

#[test]
fn an_acknowledgement_of_nothing_is_not_reported() {
    let (mut s, ear) = sent(plain(), 5);
    s.inject(ack(0, 1));
    s.inject(ack(0, 1).window(64_000));
    assert!(ear.heard().acks.is_empty());
    // Outside of recovery nothing begins a new round trip before something is acknowledged.
    s.inject(ack(0, 1001));
    assert!(ear.last().round_start && ear.last().una_advanced);
    s.inject(ack(0, 2001));
    assert!(!ear.last().round_start && ear.last().una_advanced);
    s.inject(ack(0, 2001).sack(&[(3001, 4001)]));
    assert!(!ear.last().round_start && !ear.last().una_advanced);
    // The second, when all data sent before the start of the first is acknowledged.
    s.inject(ack(0, 4001));
    assert!(!ear.last().round_start);
    s.inject(ack(0, 5001));
    assert!(ear.last().round_start);
    s.write(1000);
    s.expect_data(0, 5001, 1);
    s.inject(ack(0, 6001));
    assert!(ear.last().round_start);
}

#[test]
fn a_loss_is_reported_once_and_nothing_else_is_a_loss() {
    let (mut s, ear) = sent(rack(), 10);
    s.inject(ack(0, 1).sack(&[(1001, 3001)]));
    assert!(ear.lost().is_empty());
    s.inject(ack(0, 1).sack(&[(1001, 4001)]));
    s.expect(data(0, 1, 1000));
    let last = ear.last();
    assert_eq!((last.acked_bytes, last.lost_bytes, last.in_recovery), (1000, 1000, true));
    // Ten were in flight, of which three had arrived.
    let reduction = ear.heard().reductions[0];
    assert_eq!((reduction.flight_bytes, reduction.recover_bytes), (10_000, 8000));
    s.inject(ack(0, 1).sack(&[(1001, 5001)]));
    s.inject(ack(0, 10_001));
    assert_eq!(ear.lost(), [1]);
    assert_eq!((ear.heard().reductions.len(), s.subflow(0).counters.recoveries), (1, 1));
    // The acknowledgement that ends the recovery is part of it.
    assert!(ear.last().in_recovery);
    s.write(1000);
    s.expect_data(0, 10_001, 1);
    s.inject(ack(0, 11_001));
    assert!(!ear.last().in_recovery);
}

fn rack() -> ConnectionConfig {
    ConnectionConfig { timestamps: false, ..plain() }
}

// RFC 6298 section 3 (Karn): a retransmitted segment measures nothing, acknowledged cumulatively or
// selectively.
#[test]
fn a_retransmission_gives_no_rtt() {
    let (mut s, ear) = sent(rack(), 10);
    s.inject(ack(0, 1).sack(&[(2001, 5001)]));
    s.expect_data(0, 1, 2);
    s.advance(5);
    let srtt = s.subflow(0).srtt;
    s.inject(ack(0, 1).sack(&[(1001, 5001)]));
    assert_eq!((ear.last().acked_bytes, ear.last().rtt), (1000, None));
    s.inject(ack(0, 5001));
    assert_eq!((ear.last().acked_bytes, ear.last().rtt), (1000, None));
    assert_eq!(s.subflow(0).srtt, srtt);
}

// RFC 7323 section 4.1: an echo is used if the segment itself gives no measurement; an echo from the future,
// by up to half of the number space, is not.
#[test]
fn an_echo_of_the_future_measures_nothing() {
    let rtt_of = |echo_of: fn(u32) -> u32| {
        let (mut s, ear) = sent(ConnectionConfig { undo: false, ..plain() }, 1);
        while s.subflow(0).counters.timeouts == 0 {
            s.wait_until_sent(2000);
        }
        s.advance(7);
        let now = s.now.as_micros() as u32;
        s.inject(ack(0, 1001).echo_us(echo_of(now)));
        ear.last().rtt
    };
    assert_eq!(rtt_of(|now| now - 7000), Some(Duration::from_millis(7)));
    assert_eq!(rtt_of(|now| now.wrapping_sub((1 << 31) - 1)), Some(Duration::from_micros((1 << 31) - 1)));
    assert_eq!(rtt_of(|now| now.wrapping_sub(1 << 31)), None);
    assert_eq!(rtt_of(|now| now + 1), None);
    assert_eq!(rtt_of(|_| 0), None);
}

// RFC 5681 section 3.2, step 4: without SACK each duplicate in recovery means that a segment has arrived.
#[test]
fn each_duplicate_in_recovery_counts_as_a_segment() {
    let (mut s, ear) = sent(reno(), 10);
    s.inject(ack(0, 1));
    s.inject(ack(0, 1));
    assert!(ear.acked().is_empty());
    s.inject(ack(0, 1));
    s.expect(data(0, 1, 1000));
    s.inject(ack(0, 1));
    assert_eq!(ear.acked(), [(1000, 1), (1000, 1)]);
    // With SACK the blocks report it.
    let (mut s, ear) = sent(rack(), 10);
    s.inject(ack(0, 1).sack(&[(1001, 4001)]));
    s.expect(data(0, 1, 1000));
    s.inject(ack(0, 1).sack(&[(1001, 4001)]));
    assert_eq!(ear.acked(), [(3000, 3), (0, 0)]);
}

// RFC 2018 section 2: blocks of a peer without SACK-permitted are ignored.
#[test]
fn blocks_that_were_not_agreed_on_mean_nothing() {
    let (mut s, ear) = sent(reno(), 10);
    s.inject(ack(0, 1).sack(&[(1001, 4001)]));
    assert!(ear.acked().is_empty());
    s.inject(ack(0, 5001).sack(&[(6001, 7001)]));
    assert_eq!(ear.acked(), [(5000, 5)]);
}

// RFC 2018 section 3, RFC 2883: a block that begins at the SYN, or ends at or before its beginning, is
// ignored, as data and as a duplicate.
#[test]
fn impossible_blocks_tell_of_no_duplicate() {
    let (mut s, _) = sent(rack(), 10);
    s.inject(ack(0, 1).sack(&[(1001, 4001)]));
    s.expect(data(0, 1, 1000));
    s.inject(ack(0, 4001));
    s.sent();
    for block in [(0, 1001), (-500, 1001), (1001, 1001), (2001, 1001)] {
        s.inject(ack(0, 4001).sack(&[block]));
        assert_eq!(s.subflow(0).counters.undos, 0, "{block:?}");
    }
    s.inject(ack(0, 4001).sack(&[(1, 1001)]));
    assert_eq!(s.subflow(0).counters.undos, 1);
}

// RFC 8684 section 3.3.6: the subflow's acknowledgement also acknowledges data, regardless of the data level.
#[test]
fn an_acknowledgement_of_a_subflow_is_progress() {
    let (mut s, _) = sent(config(), 2);
    s.inject(ack(0, 1001));
    let then = s.now;
    assert_eq!((s.stats().last_data_ack, s.stats().data_acked), (then, 0));
    s.advance(1);
    s.inject(ack(0, 1001));
    assert_eq!(s.stats().last_data_ack, then);
    s.inject(ack(0, 1001).data_ack(1000));
    assert_eq!((s.stats().last_data_ack, s.stats().data_acked), (s.now, 1000));
}

// RFC 8684 section 3.3.4: the newest data acknowledgement contains the peer's window, an old one does not.
#[test]
fn the_peers_window_is_that_of_the_newest_data_ack() {
    let (mut s, ear) = sent(config(), 10);
    s.inject(ack(0, 2001).data_ack(2000).window(64_000));
    assert_eq!(ear.heard().peer_window, 64_000);
    let told = |s: &mut Script| {
        s.write(1);
        s.sent();
        ear.heard().peer_window
    };
    s.inject(ack(0, 4001).data_ack(1000).window(128_000));
    assert_eq!(told(&mut s), 64_000);
    s.inject(ack(0, 5001).data_ack(2000).window(32_000));
    assert_eq!(told(&mut s), 32_000);
    s.inject(ack(0, 6001).data_ack(6000).window(48_000));
    assert_eq!(told(&mut s), 48_000);
}

#[test]
fn the_loss_rate_follows_the_round_trips() {
    let (mut s, ear) = sent(rack(), 10);
    s.inject(ack(0, 1).sack(&[(1001, 4001)]));
    s.expect(data(0, 1, 1000));
    assert_eq!(ear.view().loss_rate, 0.0);
    // Ten were sent in the first round trip, of which one was lost and retransmitted; an eighth of that
    // counts.
    s.inject(ack(0, 9001).sack(&[(9001, 10_001)]));
    let first = 1.0 / 11.0 / 8.0;
    assert!((ear.view().loss_rate - first).abs() < 1e-12, "{}", ear.view().loss_rate);
    s.write(3000);
    s.expect_data(0, 10_001, 3);
    // The second ends when all data sent before its beginning is acknowledged; nothing was lost in it.
    s.inject(ack(0, 11_001));
    let second = first * 7.0 / 8.0;
    assert!((ear.view().loss_rate - second).abs() < 1e-12, "{}", ear.view().loss_rate);
    // A round without data changes nothing.
    s.inject(ack(0, 13_001));
    assert!((ear.view().loss_rate - second).abs() < 1e-12, "{}", ear.view().loss_rate);
}

#[test]
fn the_relative_one_way_delay_is_that_of_the_newest_segment_that_arrived() {
    let (mut s, ear) = sent(plain(), 8);
    // The peer's clock is 5 s ahead of the local one; all was sent at 1.01 s.
    let first = 1_010_000;
    s.inject(ack(0, 2001).value_us(6_000_000).echo_us(first));
    assert_eq!(ear.last().one_way_delay_us, Some(4_990_000));
    // One segment in order: the acknowledgement may have been delayed for a second one.
    s.inject(ack(0, 3001).value_us(6_000_100).echo_us(first));
    assert_eq!(ear.last().one_way_delay_us, None);
    // 10 ms later more is sent, of which a part arrives while an older segment is missing. The echo remains
    // the old one.
    s.write(3000);
    s.expect_data(0, 8001, 3);
    s.advance(7);
    let hole = ack(0, 3001).echo_us(first);
    s.inject(hole.clone().sack(&[(8001, 9001)]).value_us(6_011_000));
    assert_eq!(ear.last().one_way_delay_us, Some(4_991_000));
    // Segments older by a quarter of a round trip are retransmitted.
    assert_eq!(s.sent().len(), 5);
    // Nothing new, later.
    s.inject(hole.clone().sack(&[(8001, 9001)]).value_us(6_014_000));
    assert_eq!(ear.last().one_way_delay_us, None);
    // An acknowledgement that waited for its second segment echoes the first.
    s.inject(ack(0, 10_001).value_us(6_012_000).echo_us(first));
    assert_eq!(ear.last().one_way_delay_us, Some(4_992_000));
}

#[test]
fn a_delivery_rate_spans_a_round_trip() {
    let (mut s, ear) = sent(plain(), 10);
    // Ten segments in the 10 ms since their transmission.
    s.inject(ack(0, 10_001));
    assert_eq!(ear.last().delivery_rate, Some(Rate::from_mbps(8)));
    assert_eq!(ear.view().delivery_rate, Rate::from_mbps(8));
}

// RFC 4821 section 7.6.1: a probe that arrives increases the size of all segments.
#[test]
fn a_path_mtu_probe_that_arrives_raises_the_size() {
    let (mut s, ear) = sent(config(), 1);
    let sub = s.subs[0];
    let first = sub.own_isn.unwrap().add(1);
    s.endpoint.handle_too_big(s.now, sub.own, sub.peer, first, 680);
    s.poll();
    s.expect(data(0, 1, 600));
    s.expect(data(0, 601, 400));
    s.inject(ack(0, 1001).data_ack(1000));
    // Larger segments are probed again after ten minutes.
    s.advance(600_000);
    s.write(4000);
    let sizes: Vec<u32> = s.sent().iter().map(|segment| segment.payload_len).collect();
    assert_eq!(sizes, [1000, 600, 600, 600, 600, 600]);
    assert_eq!(s.subflow(0).mss, 600);
    s.inject(ack(0, 2001).data_ack(1000));
    assert_eq!(s.subflow(0).mss, MSS);
    assert!(ear.heard().reductions.is_empty());
}
