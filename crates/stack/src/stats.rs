//! Counters of subflows and connections.

use anabranch_units::{Duration, Time};

use crate::event::SubflowId;
use crate::segment::{Address, PathId};

/// Counters of a host's refusals and evictions.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct EndpointCounters {
    /// Half-open connections evicted: for others after 3 s, or for one that became established at the limit
    /// of connections.
    pub half_open_evicted: u64,
    /// SYNs answered with a cookie, because too many connections were half-open.
    pub cookies_sent: u64,
    /// Connections opened by a cookie.
    pub cookies_accepted: u64,
    /// Segments of no connection, while cookies were outstanding, without a valid cookie.
    pub cookies_rejected: u64,
    /// SYNs refused because there were too many connections.
    pub connections_refused: u64,
    /// SYNs with MP_JOIN refused: an unknown token, or a connection that accepts no more subflows.
    pub joins_refused: u64,
    /// Segments of no connection that were answered with a reset.
    pub strays_reset: u64,
    /// Segments of no connection that were not answered, because too many answers were queued.
    pub strays_dropped: u64,
}

impl core::ops::AddAssign for EndpointCounters {
    fn add_assign(&mut self, other: EndpointCounters) {
        self.half_open_evicted += other.half_open_evicted;
        self.cookies_sent += other.cookies_sent;
        self.cookies_accepted += other.cookies_accepted;
        self.cookies_rejected += other.cookies_rejected;
        self.connections_refused += other.connections_refused;
        self.joins_refused += other.joins_refused;
        self.strays_reset += other.strays_reset;
        self.strays_dropped += other.strays_dropped;
    }
}

/// Counters of a subflow. Bytes are payload.
#[derive(Clone, Copy, Default, Debug, PartialEq)]
pub struct SubflowCounters {
    /// Data segments sent, retransmissions included.
    pub data_segments_sent: u64,
    /// Data segments retransmitted on this subflow.
    pub segments_retransmitted: u64,
    /// Payload sent, retransmissions included.
    pub bytes_sent: u64,
    /// Payload sent on this subflow after it was assigned to another.
    pub bytes_reinjected: u64,
    /// Data segments sent with data that was assigned to another subflow before.
    pub segments_reinjected: u64,
    /// Payload bytes acknowledged at the subflow level, which may not be acknowledged at the data level yet.
    pub bytes_acked: u64,
    /// Segments with payload received, including duplicates.
    pub data_segments_received: u64,
    /// Payload bytes that arrived first on this subflow.
    pub bytes_delivered: u64,
    /// Payload received that had already arrived, on any subflow.
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
    /// Reductions of the window that were undone, because the losses were reordering or delay.
    pub undos: u64,
    /// Zero-window probes sent.
    pub window_probes: u64,
    /// Segments marked lost.
    pub segments_lost: u64,
}

/// One subflow of a connection, active or ended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SubflowStats {
    /// The ID, which a later subflow may have again.
    pub id: SubflowId,
    /// Its local address.
    pub local: Address,
    /// Its remote address.
    pub remote: Address,
    /// The local interface.
    pub path: PathId,
    /// The time at which its first SYN was sent or received.
    pub started: Time,
    /// The time at which it became able to carry data; `None` if it never did.
    pub established: Option<Time>,
    /// The time at which it ended; `None` if it has not.
    pub ended: Option<Time>,
    /// Segments, bytes and timeouts since the subflow started.
    pub counters: SubflowCounters,
    /// The smoothed RTT, once there is a sample.
    pub srtt: Option<Duration>,
    /// The minimum RTT sample, once there is one.
    pub min_rtt: Option<Duration>,
    /// The current congestion window, in bytes.
    pub cwnd_bytes: u64,
    /// The current maximum payload of a segment, in bytes.
    pub mss: u32,
}

/// Counters of one connection.
#[derive(Clone, Copy, Default, Debug, PartialEq)]
pub struct ConnectionStats {
    /// Bytes written by the application.
    pub written: u64,
    /// Bytes acknowledged at the data level.
    pub data_acked: u64,
    /// The time of the last new acknowledgement of data, at the data level or by a subflow that carries it:
    /// both are needed before data can be discarded (RFC 8684 section 3.3.6).
    pub last_data_ack: Time,
    /// Bytes received in order.
    pub received: u64,
    /// The time at which the in-order stream last grew.
    pub last_in_order: Time,
    /// The longest time between two advances of the in-order stream.
    pub longest_gap: Duration,
    /// Bytes currently received out of order.
    pub out_of_order: u64,
    /// Bytes dropped because they were beyond the right edge of the window.
    pub refused: u64,
    /// Expirations of the data-level retransmission timer while no subflow carried the head of the stream any
    /// more, so that the head was reinjected, or a silent peer was probed with it.
    pub head_timeouts: u64,
    /// Ranges sent by opportunistic retransmission.
    pub opportunistic_retransmissions: u64,
    /// Windows halved by penalisation.
    pub penalisations: u64,
    /// True if the connection uses MPTCP; false for plain TCP, from the handshake on or after fallback.
    pub mptcp: bool,
    /// 1 once the connection has fallen back to TCP after its handshake (RFC 8684 section 3.7).
    pub fallbacks: u64,
    /// Mappings with a wrong checksum.
    pub checksum_failures: u64,
    /// MP_FAIL options received.
    pub fails_received: u64,
    /// Decisions of the scheduler.
    pub decisions: u64,
}
