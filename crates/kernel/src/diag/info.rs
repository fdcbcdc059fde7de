//! `struct tcp_info`, `struct mptcp_info` and the memory of a socket.

/// Reads numbers at places of a structure; fields that an older kernel does not have are missing.
#[derive(Clone, Copy)]
struct Layout<'a>(&'a [u8]);

impl Layout<'_> {
    fn bytes<const N: usize>(&self, at: usize) -> Option<[u8; N]> {
        self.0.get(at..at + N).and_then(|bytes| bytes.try_into().ok())
    }

    fn u8(&self, at: usize) -> u8 {
        self.bytes::<1>(at).map_or(0, |[byte]| byte)
    }

    fn u16(&self, at: usize) -> Option<u16> {
        self.bytes(at).map(u16::from_ne_bytes)
    }

    fn u32(&self, at: usize) -> u32 {
        self.bytes(at).map_or(0, u32::from_ne_bytes)
    }

    fn u64(&self, at: usize) -> Option<u64> {
        self.bytes(at).map(u64::from_ne_bytes)
    }
}

/// The kernel's information on a subflow.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TcpInfo {
    /// The state of congestion control: 0 open, 1 disorder, 2 CWR, 3 recovery, 4 loss.
    pub ca_state: u8,
    /// Retransmission timeouts in a row.
    pub backoff: u8,
    /// The retransmission timeout.
    pub rto_us: u32,
    /// The largest payload of a segment.
    pub snd_mss: u32,
    /// Segments sent and not acknowledged.
    pub unacked: u32,
    /// Segments sacked.
    pub sacked: u32,
    /// Segments marked lost.
    pub lost: u32,
    /// Segments retransmitted and not acknowledged.
    pub retrans: u32,
    /// The time since data was received.
    pub last_data_recv_ms: u32,
    /// The smoothed RTT; 0 without a sample.
    pub rtt_us: u32,
    /// Its variation.
    pub rttvar_us: u32,
    /// The slow-start threshold in segments; none if it is infinite.
    pub ssthresh: Option<u32>,
    /// The congestion window in segments.
    pub cwnd: u32,
    /// The receiver's estimate of the RTT; 0 without one.
    pub rcv_rtt_us: u32,
    /// Retransmitted segments.
    pub total_retrans: u32,
    /// The pacing rate in bytes a second; none without pacing.
    pub pacing_rate: Option<u64>,
    /// Payload acknowledged.
    pub bytes_acked: u64,
    /// Payload received.
    pub bytes_received: u64,
    /// Bytes in the subflow's queue and not sent.
    pub notsent_bytes: u32,
    /// The minimum RTT; 0 without a sample.
    pub min_rtt_us: u32,
    /// Data segments received.
    pub data_segs_in: u32,
    /// Data segments sent.
    pub data_segs_out: u32,
    /// The rate of the last delivery, in bytes a second.
    pub delivery_rate: u64,
    /// True if the application limited that rate.
    pub app_limited: bool,
    /// The time in which data was queued or in flight.
    pub busy_us: u64,
    /// The part of that time in which the peer's receive window was full.
    pub receive_window_us: u64,
    /// The part of that time in which the send buffer was too small.
    pub send_buffer_us: u64,
    /// Payload sent, retransmissions included.
    pub bytes_sent: u64,
    /// Payload retransmitted.
    pub bytes_retrans: u64,
    /// The peer's receive window in bytes; none before Linux 5.4.
    pub snd_wnd: Option<u32>,
    /// Retransmission timeouts; none before Linux 6.7.
    pub total_rto: Option<u16>,
}

/// A threshold from which on it counts as infinite (`TCP_INFINITE_SSTHRESH`).
const INFINITE: u32 = 0x7fff_ffff;

impl TcpInfo {
    /// Returns the rate of the last delivery in bit/s; none if the application limited it.
    pub fn rate_bps(&self) -> Option<f64> {
        (!self.app_limited && self.delivery_rate > 0).then_some(self.delivery_rate as f64 * 8.0)
    }

    /// Reads a `struct tcp_info` of any length.
    pub fn parse(bytes: &[u8]) -> TcpInfo {
        let at = Layout(bytes);
        let ssthresh = at.u32(76);
        TcpInfo {
            ca_state: at.u8(1),
            backoff: at.u8(4),
            app_limited: at.u8(7) & 1 != 0,
            rto_us: at.u32(8),
            snd_mss: at.u32(16),
            unacked: at.u32(24),
            sacked: at.u32(28),
            lost: at.u32(32),
            retrans: at.u32(36),
            last_data_recv_ms: at.u32(52),
            rtt_us: at.u32(68),
            rttvar_us: at.u32(72),
            ssthresh: (ssthresh < INFINITE).then_some(ssthresh),
            cwnd: at.u32(80),
            rcv_rtt_us: at.u32(92),
            total_retrans: at.u32(100),
            pacing_rate: at.u64(104).filter(|rate| *rate != u64::MAX && *rate != 0),
            bytes_acked: at.u64(120).unwrap_or(0),
            bytes_received: at.u64(128).unwrap_or(0),
            notsent_bytes: at.u32(144),
            min_rtt_us: Some(at.u32(148)).filter(|rtt| *rtt != u32::MAX).unwrap_or(0),
            data_segs_in: at.u32(152),
            data_segs_out: at.u32(156),
            delivery_rate: at.u64(160).unwrap_or(0),
            busy_us: at.u64(168).unwrap_or(0),
            receive_window_us: at.u64(176).unwrap_or(0),
            send_buffer_us: at.u64(184).unwrap_or(0),
            bytes_sent: at.u64(200).unwrap_or(0),
            bytes_retrans: at.u64(208).unwrap_or(0),
            snd_wnd: at.bytes(228).map(u32::from_ne_bytes),
            total_rto: at.u16(240),
        }
    }

    /// Returns the segments in flight by the kernel's estimate (`tcp_packets_in_flight`).
    pub fn in_flight(&self) -> u32 {
        self.unacked.saturating_sub(self.sacked + self.lost) + self.retrans
    }
}

/// The kernel's information on a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MptcpInfo {
    /// Subflows besides the initial one.
    pub subflows: u8,
    /// True after a fallback to TCP.
    pub fallback: bool,
    /// The local token.
    pub token: u32,
    /// The sequence number after the last byte that the application has written.
    pub write_seq: u64,
    /// The first one that is not acknowledged at the data level.
    pub snd_una: u64,
    /// The next one expected.
    pub rcv_nxt: u64,
    /// The counters that Linux has had since 6.5.
    pub counters: Option<Counters>,
}

/// Counters of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Reinjected payload.
    pub bytes_retrans: u64,
    /// Payload handed to subflows for the first time.
    pub bytes_sent: u64,
    /// Payload received in order.
    pub bytes_received: u64,
    /// What is acknowledged at the data level: payload, and the DATA_FIN as one byte.
    pub bytes_acked: u64,
}

impl Counters {
    /// Returns the payload acknowledged.
    pub fn payload_acked(&self) -> u64 {
        self.bytes_acked.min(self.bytes_sent)
    }
}

const FLAG_FALLBACK: u32 = 1;

impl MptcpInfo {
    /// Reads a `struct mptcp_info` of any length.
    pub fn parse(bytes: &[u8]) -> MptcpInfo {
        let at = Layout(bytes);
        let counters = || {
            Some(Counters {
                bytes_retrans: at.u64(48)?,
                bytes_sent: at.u64(56)?,
                bytes_received: at.u64(64)?,
                bytes_acked: at.u64(72)?,
            })
        };
        MptcpInfo {
            subflows: at.u8(0),
            fallback: at.u32(8) & FLAG_FALLBACK != 0,
            token: at.u32(12),
            write_seq: at.u64(16).unwrap_or(0),
            snd_una: at.u64(24).unwrap_or(0),
            rcv_nxt: at.u64(32).unwrap_or(0),
            counters: counters(),
        }
    }

    /// Returns the bytes that the application has written and the peer has not acknowledged.
    pub fn outstanding(&self) -> u64 {
        self.write_seq.saturating_sub(self.snd_una)
    }

    /// Returns the written bytes that no subflow has got yet; before Linux 6.5, where they are not counted, the
    /// outstanding bytes without those that `subflows` hold.
    pub fn unsent<'a>(&self, subflows: impl Iterator<Item = &'a TcpInfo>) -> u64 {
        match self.counters {
            // Both differences count from the initial data sequence number.
            Some(counters) => self
                .write_seq
                .wrapping_sub(self.snd_una.wrapping_sub(counters.bytes_acked))
                .wrapping_sub(counters.bytes_sent)
                // A read between two updates may be one step too far.
                .min(self.outstanding()),
            None => {
                let held = |info: &TcpInfo| {
                    u64::from(info.notsent_bytes) + u64::from(info.in_flight()) * u64::from(info.snd_mss)
                };
                self.outstanding().saturating_sub(subflows.map(held).sum())
            }
        }
    }
}

/// The send buffer of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SendBuffer {
    /// Its limit, in bytes of memory.
    pub limit: u32,
    /// The memory of queued data.
    pub queued: u32,
}

impl SendBuffer {
    /// Reads the numbers of `SK_MEMINFO_*`.
    pub(crate) fn parse(bytes: &[u8]) -> SendBuffer {
        let at = Layout(bytes);
        SendBuffer { limit: at.u32(3 * 4), queued: at.u32(5 * 4) }
    }

    /// True if an application that writes has to wait, or soon will: less than a third is free
    /// (`sk_stream_is_writable`).
    pub fn is_full(&self) -> bool {
        self.limit > 0 && u64::from(self.queued) * 3 >= u64::from(self.limit) * 2
    }
}

/// The flags of a subflow (`MPTCP_SUBFLOW_FLAG_*`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SubflowFlags(pub u32);

impl SubflowFlags {
    /// True if this host has opened the connection or the subflow.
    pub fn is_opened_here(self) -> bool {
        self.0 & (1 << 1 | 1 << 3) != 0
    }

    /// True if the subflow joined an existing connection.
    pub fn is_join(self) -> bool {
        self.0 & (1 << 2 | 1 << 3) != 0
    }

    /// True if the peer asked to use it as a backup.
    pub fn peer_backup(self) -> bool {
        self.0 & 1 << 4 != 0
    }

    /// True if this host asked to use it as a backup.
    pub fn own_backup(self) -> bool {
        self.0 & 1 << 5 != 0
    }

    /// True if this host's scheduler uses it only as a backup.
    pub fn is_backup(self) -> bool {
        self.peer_backup() || self.own_backup()
    }

    /// True once the peer is known to have received its establishment.
    pub fn is_fully_established(self) -> bool {
        self.0 & 1 << 6 != 0
    }
}
