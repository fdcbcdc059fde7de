//! A path without losses: a base RTT, a rate, and an unlimited queue.

use anabranch_stack::congestion::{Ack, AnyCongestion, CongestionControl};
use anabranch_stack::event::SubflowId;
use anabranch_units::{Duration, Time};

use crate::congestion_common::{MSS, ack, window};

/// The parameters of a path.
#[derive(Clone, Copy)]
pub struct Path {
    /// The round-trip time without load.
    pub base: Duration,
    /// The rate in segments per second.
    pub rate: f64,
}

impl Path {
    pub fn new(base_ms: u64, rate: f64) -> Path {
        Path { base: Duration::from_millis(base_ms), rate }
    }

    /// Returns the number of segments that fill it without a queue.
    pub fn bdp(&self) -> f64 {
        self.base.as_secs_f64() * self.rate
    }

    /// Returns the round-trip time of a full window.
    pub fn rtt(&self, window: f64) -> Duration {
        self.base.max(Duration::from_secs_f64(window / self.rate))
    }

    /// Returns the segments in the queue with a full window.
    pub fn queued(&self, window: f64) -> f64 {
        (window - self.bdp()).max(0.0)
    }
}

/// Sends one acknowledgement for each segment of the window over a round trip, which the last one ends.
/// Returns the time at its end.
pub fn round(congestion: &mut AnyCongestion, id: SubflowId, path: &Path, from: Time) -> Time {
    let full = window(congestion, id);
    round_at(congestion, id, path.rtt(full), from)
}

/// Does the same with the given RTT.
pub fn round_at(congestion: &mut AnyCongestion, id: SubflowId, rtt: Duration, from: Time) -> Time {
    let segments = congestion.cwnd(id) / MSS;
    for n in 1..=segments {
        let now = from + Duration(rtt.0 * n / segments);
        let one = Ack {
            rtt: Some(rtt),
            srtt: rtt,
            inflight_bytes: segments * MSS,
            round_start: n == segments,
            ..ack(now, 1)
        };
        congestion.on_ack(id, &one);
        congestion.on_sent(id, now, MSS);
    }
    from + rtt
}

/// Sends an acknowledgement that shows the RTT without load, in a round trip of its own.
pub fn show_base(congestion: &mut AnyCongestion, id: SubflowId, base: Duration, now: Time) {
    let one = Ack { cwnd_limited: false, rtt: Some(base), srtt: base, round_start: true, ..ack(now, 1) };
    congestion.on_ack(id, &one);
}

/// Runs `n` round trips.
pub fn rounds(congestion: &mut AnyCongestion, id: SubflowId, path: &Path, from: Time, n: u32) -> Time {
    (0..n).fold(from, |now, _| round(congestion, id, path, now))
}
