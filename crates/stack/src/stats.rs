//! Counters of subflows and connections.

use anabranch_units::{Duration, Time};

use crate::event::SubflowId;
use crate::segment::{Address, PathId};

/// What a host has refused and forgotten so far.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct EndpointCounters {
    /// Half-open connections that were evicted: for others after 3 s, or for one that is established where there are
    /// too many connections.
    pub half_open_evicted: u64,
    /// SYNs answered with a cookie, because too many connections were half-open.
    pub cookies_sent: u64,
    /// Connections that a cookie has opened.
    pub cookies_accepted: u64,
    /// Segments that belonged to no connection, while cookies were out, and brought back none that is good.
    pub cookies_rejected: u64,
    /// SYNs refused because there were too many connections.
    pub connections_refused: u64,
    /// SYNs with MP_JOIN refused: an unknown token, or a connection that takes no more subflows.
    pub joins_refused: u64,
    /// Segments that belonged to no connection and were answered with a reset.
    pub strays_reset: u64,
    /// Segments that belonged to no connection and got no answer, as too many answers waited.
    pub strays_dropped: u64,
}

/// What a subflow has done so far. Bytes are payload.
#[derive(Clone, Copy, Default, Debug, PartialEq)]
pub struct SubflowCounters {
    /// Data segments sent, retransmissions included.
    pub data_segments_sent: u64,
    /// Data segments sent again on this subflow.
    pub segments_retransmitted: u64,
    /// Payload sent, retransmissions included.
    pub bytes_sent: u64,
    /// Payload sent here that another subflow had been given before.
    pub bytes_reinjected: u64,
    /// Data segments sent whose data another subflow had been given before.
    pub segments_reinjected: u64,
    /// Payload acknowledged on the subflow level.
    pub bytes_acked: u64,
    /// Data segments received.
    pub data_segments_received: u64,
    /// Payload received whose first copy came by this subflow.
    pub bytes_delivered: u64,
    /// Payload received that had arrived before, by any subflow.
    pub bytes_duplicate: u64,
    /// Segments without payload sent.
    pub control_segments_sent: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// Tail loss probes sent.
    pub tail_probes: u64,
    /// Fast recoveries begun.
    pub recoveries: u64,
    /// Reductions after congestion marks.
    pub ecn_reductions: u64,
    /// Reductions undone.
    pub undos: u64,
    /// Zero-window probes sent.
    pub window_probes: u64,
    /// Segments taken for lost.
    pub segments_lost: u64,
}

/// One subflow of a connection, alive or dead.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SubflowStats {
    /// Its name.
    pub id: SubflowId,
    /// Its local address.
    pub local: Address,
    /// Its remote address.
    pub remote: Address,
    /// The local interface.
    pub path: PathId,
    /// When its first SYN was sent or received.
    pub started: Time,
    /// When it could carry data; none if it never could.
    pub established: Option<Time>,
    /// When it ended; none while it lives.
    pub ended: Option<Time>,
    /// Its counters.
    pub counters: SubflowCounters,
    /// The smoothed RTT, once there is a sample.
    pub srtt: Option<Duration>,
    /// The least RTT sample, once there is one.
    pub min_rtt: Option<Duration>,
    /// The congestion window now, in bytes.
    pub cwnd_bytes: u64,
    /// The most payload in a segment now, in bytes.
    pub mss: u32,
}

/// One connection.
#[derive(Clone, Copy, Default, Debug, PartialEq)]
pub struct ConnectionStats {
    /// Bytes the application has written.
    pub written: u64,
    /// Bytes acknowledged at the data level.
    pub data_acked: u64,
    /// When data was last newly acknowledged, at the data level or by a subflow that carries it: both
    /// are needed before it can be forgotten (RFC 8684 section 3.3.6).
    pub last_data_ack: Time,
    /// Bytes received in order.
    pub received: u64,
    /// When the in-order stream last grew.
    pub last_in_order: Time,
    /// Bytes that are received out of order now.
    pub out_of_order: u64,
    /// Bytes that were dropped because they lay behind the right edge of the window.
    pub refused: u64,
    /// How often the data-level retransmission timer has run out while no subflow carried the head of the stream any
    /// more, so that the head was reinjected, or a silent peer asked for it.
    pub head_timeouts: u64,
    /// Ranges sent by opportunistic retransmission.
    pub opportunistic_retransmissions: u64,
    /// Windows halved by penalisation.
    pub penalisations: u64,
    /// Whether it speaks MPTCP; a plain TCP does not, from the handshake on or after its way back.
    pub mptcp: bool,
    /// 1 once the connection has gone back to TCP after its handshake (RFC 8684 section 3.7).
    pub fallbacks: u64,
    /// Mappings whose checksum was wrong.
    pub checksum_failures: u64,
    /// MP_FAIL received.
    pub fails_received: u64,
    /// Decisions of the scheduler.
    pub decisions: u64,
}
