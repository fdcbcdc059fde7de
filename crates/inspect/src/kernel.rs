//! The values of a sender's kernel, which no capture shows.

use serde::Serialize;

/// One direction of a subflow in the kernel of its sender, from samples of its socket (`tcp_info`).
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct KernelReport {
    /// The congestion control, by the name of the kernel.
    pub congestion: String,
    /// Samples.
    pub samples: u64,
    /// The congestion window: the median over the time with data in flight.
    pub cwnd_p50_bytes: Option<u64>,
    /// Its largest value.
    pub cwnd_max_bytes: Option<u64>,
    /// The last slow-start threshold; null while it is infinite.
    pub ssthresh_bytes: Option<u64>,
    /// The smoothed round trip: the median over the time with data in flight.
    pub srtt_p50_s: Option<f64>,
    /// The least round trip.
    pub min_rtt_s: Option<f64>,
    /// Samples in which the congestion window was full, in percent of the samples with data in flight.
    pub window_full_pct: Option<f64>,
    /// The time in which data was queued or in flight.
    pub busy_s: f64,
    /// The part of that time in which the peer's receive window was full.
    pub receive_window_s: f64,
    /// The part of that time in which the send buffer was too small.
    pub send_buffer_s: f64,
    /// Retransmission timeouts; null before Linux 6.7.
    pub rto_count: Option<u64>,
}
