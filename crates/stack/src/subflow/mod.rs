//! A subflow: one TCP (RFC 9293) that carries a part of a connection's stream.

pub mod ecn;
pub mod growth;
pub mod path_mtu;
pub mod rate;
pub mod recovery;
pub mod recv;
pub mod rtt;
pub mod scoreboard;
pub mod send_buffer;
mod signals;
mod window_held;

use std::collections::VecDeque;

use anabranch_units::{Duration, Rate, Time};

use crate::config::ConnectionConfig;
use crate::connection::{Held, Mappings};
use crate::event::SubflowId;
use crate::scheduler::{AssignKind, SubflowView};
use crate::segment::{Address, Flags, PathId, ResetReason, Segment};
use crate::seq::{DataRange, Seq, offset_near};
use crate::stats::{SubflowCounters, SubflowStats};
use ecn::EcnState;
use path_mtu::PathMtu;
use rate::RateEstimator;
use recovery::Recovery;
use recv::{AckDue, Receiver};
use rtt::RttEstimator;
use scoreboard::Scoreboard;
use signals::Signals;
use window_held::WindowHeld;

/// The states of RFC 9293 section 3.3.2, with the one that RFC 8684 adds for joins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TcpState {
    /// A SYN was sent.
    SynSent,
    /// A SYN was received and answered.
    SynReceived,
    /// The third ACK of a join was sent, and not yet answered.
    PreEstablished,
    /// Data may go both ways.
    Established,
    /// This side has sent its FIN.
    FinWait1,
    /// And it was acknowledged.
    FinWait2,
    /// The peer has sent its FIN.
    CloseWait,
    /// Both have sent a FIN, ours is not acknowledged.
    Closing,
    /// The peer's FIN came first, ours is not acknowledged.
    LastAck,
    /// Both FINs are acknowledged; late segments are still answered.
    TimeWait,
    /// Gone.
    Closed,
}

/// A part of the stream that waits in a subflow's queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Queued {
    /// Which part.
    pub range: DataRange,
    /// Whether another subflow was given it before.
    pub kind: AssignKind,
}

/// What the three-way or four-way handshake still needs.
#[derive(Clone, Copy, Debug, Default)]
pub struct Handshake {
    /// This is a join and not the first subflow.
    pub join: bool,
    /// Our nonce.
    pub local_nonce: u32,
    /// The peer's nonce.
    pub remote_nonce: u32,
    /// How often the SYN, the SYN/ACK or a join's third ACK was sent.
    pub attempts: u32,
    /// It shall be sent (again) now.
    pub send: bool,
    /// When it is sent again.
    pub retry_at: Option<Time>,
    /// When it was first sent, for an RTT sample if it was sent once.
    pub sent_at: Time,
}

/// Why a subflow was reset by us.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ResetCause {
    /// The connection is aborted: carry MP_FASTCLOSE.
    Abort,
    /// The subflow alone ends: carry MP_TCPRST (RFC 8684 section 3.6).
    Because(ResetReason),
    /// The whole connection is gone, and no new subflow can succeed: MP_TCPRST is not transient.
    Gone,
    /// The payload mapped from this offset of the stream on was changed on its way: carry MP_FAIL too
    /// (section 3.7).
    Damage(i64),
}

/// What a new subflow is made from.
pub struct SubflowBirth {
    /// Its local address.
    pub local: Address,
    /// Its remote address.
    pub remote: Address,
    /// The interface by which it leaves.
    pub path: PathId,
    /// Our initial sequence number.
    pub iss: Seq,
    /// This side sends the SYN.
    pub initiator: bool,
    /// It is a join and not the first subflow.
    pub join: bool,
    /// Our nonce of the join.
    pub nonce: u32,
}

/// One subflow.
// In this order what each segment looks at lies together: with thousands of connections, what a packet
// costs is how many cache lines it touches.
#[derive(Clone, Debug)]
#[repr(C)]
pub struct Subflow {
    // What every segment looks at.
    pub(crate) state: TcpState,
    pub(crate) id: SubflowId,
    pub(crate) sack: bool,
    pub(crate) timestamps: bool,
    pub(crate) send_scale: u8,
    pub(crate) receive_scale: u8,
    /// The FIN shall be sent when the queue is empty.
    pub(crate) fin_wanted: bool,
    pub(crate) fin_sent: bool,
    pub(crate) probe_wanted: bool,
    pub(crate) tail_probe_wanted: bool,
    pub(crate) signals: Signals,
    pub(crate) reset: Option<ResetCause>,
    /// Congestion-window validation, as Linux does it.
    pub(crate) cwnd_limited: bool,
    /// For the endpoint: its addresses are in the tables.
    pub(crate) demuxed: bool,
    /// What came last had no MPTCP option.
    pub(crate) bare: bool,
    /// A data acknowledgement has come by it.
    pub(crate) dss_seen: bool,
    /// A mapping has contradicted one of them.
    pub(crate) contradicted: bool,
    /// An acknowledgement has come since the buffer was last looked at.
    pub(crate) buffer_checked: bool,
    /// How many segments have left at the time of `last_sent`, since the last with PSH.
    pub(crate) train: u8,
    /// The most payload in a segment: what the peers agreed on, or less where the path admits less.
    pub(crate) mss: u32,
    pub(crate) iss: Seq,
    pub(crate) ts_recent: u32,
    /// Its send buffer, in bytes of memory.
    pub(crate) send_buffer: u32,
    /// The window that we have shown on it, as the peer may hold it.
    pub(crate) window_held: WindowHeld,
    pub(crate) local: Address,
    pub(crate) remote: Address,
    pub(crate) path: PathId,
    /// When it was received.
    pub(crate) ts_recent_at: Time,
    pub(crate) last_received: Time,
    /// The peer has withdrawn the address: reset unless something arrives before.
    pub(crate) removal_deadline: Time,

    // The receiving half.
    pub(crate) recv: Receiver,
    /// Mappings that reach beyond the segment that carried them: subflow range and stream offset.
    pub(crate) mappings: Mappings,
    /// What has arrived here and may not be delivered yet.
    pub(crate) held: Option<Box<Held>>,

    // The sending half.
    pub(crate) board: Scoreboard,
    pub(crate) queue: VecDeque<Queued>,
    pub(crate) queued: u64,
    /// The congestion window in bytes, as the congestion control last said.
    pub(crate) cwnd: u64,
    /// The slow-start threshold in bytes; none is infinite.
    pub(crate) ssthresh: Option<u64>,
    /// The right edge of the peer's window for this subflow, as an offset.
    pub(crate) window_edge: u64,
    /// The largest window that the peer has shown.
    pub(crate) max_window: u64,
    pub(crate) handshake: Handshake,
    pub(crate) timer_base: Time,
    pub(crate) last_new: Time,
    pub(crate) last_sent: Time,
    pub(crate) pace_at: Time,
    pub(crate) max_in_flight: u64,
    pub(crate) usage_seq: u64,
    pub(crate) rtt: RttEstimator,
    pub(crate) rate: RateEstimator,
    pub(crate) recovery: Recovery,
    /// The next round trip starts when this is acknowledged.
    pub(crate) round_end: u64,
    pub(crate) round_sent: u64,
    pub(crate) round_lost: u64,
    pub(crate) loss_rate: f64,
    pub(crate) ecn: EcnState,
    pub(crate) path_mtu: PathMtu,
    pub(crate) one_way_delay_us: Option<i64>,
    pub(crate) counters: SubflowCounters,

    // The rest.
    pub(crate) local_id: u8,
    pub(crate) remote_id: u8,
    /// We asked the peer to treat it as a backup.
    pub(crate) backup_asked: bool,
    /// The peer asked us to treat it as a backup.
    pub(crate) backup_wanted: bool,
    pub(crate) started: Time,
    pub(crate) established: Option<Time>,
    pub(crate) ended: Option<Time>,
    /// SACK blocks that were processed already.
    pub(crate) known_blocks: [(u64, u64); 4],
    /// The [`Subflow::windows_now`] of the last report to the observer.
    pub(crate) windows_told: (u64, u64),
    /// What the peer has said with its reset: whether the cause may pass, and the cause.
    pub(crate) peer_reset: Option<(bool, ResetReason)>,
    pub(crate) time_wait_until: Time,
}

impl Subflow {
    /// A subflow before its handshake.
    pub fn new(id: SubflowId, now: Time, birth: &SubflowBirth, config: &ConnectionConfig) -> Subflow {
        let SubflowBirth { local, remote, path, iss, initiator, join, nonce } = *birth;
        Subflow {
            id,
            state: if initiator { TcpState::SynSent } else { TcpState::SynReceived },
            local,
            remote,
            path,
            local_id: 0,
            remote_id: 0,
            handshake: Handshake {
                join,
                local_nonce: nonce,
                send: true,
                sent_at: now,
                ..Handshake::default()
            },
            backup_asked: false,
            backup_wanted: false,
            started: now,
            established: None,
            ended: None,
            mss: config.mss,
            path_mtu: PathMtu::new(config.path_mtu, local.ip.is_ipv4(), config.mss),
            sack: false,
            timestamps: false,
            send_scale: 0,
            receive_scale: 0,
            ts_recent: 0,
            window_held: WindowHeld::NONE,
            ts_recent_at: now,
            iss,
            board: Scoreboard::starting_at(1),
            queue: VecDeque::new(),
            queued: 0,
            cwnd: 0,
            ssthresh: None,
            windows_told: (0, u64::MAX),
            window_edge: 1,
            max_window: 0,
            rtt: RttEstimator::new(&config.rto),
            rate: RateEstimator::default(),
            recovery: Recovery::new(config, false, 1),
            one_way_delay_us: None,
            fin_wanted: false,
            fin_sent: false,
            known_blocks: [(0, 0); 4],
            cwnd_limited: false,
            max_in_flight: 0,
            usage_seq: 0,
            // The first byte has offset 1: an acknowledgement of nothing starts no round trip.
            round_end: 2,
            round_sent: 0,
            round_lost: 0,
            loss_rate: 0.0,
            ecn: EcnState::default(),
            recv: Receiver::new(Seq(0), config.ack, config.receive_buffer),
            mappings: Mappings::default(),
            contradicted: false,
            held: None,
            dss_seen: false,
            bare: false,
            peer_reset: None,
            timer_base: now,
            last_new: now,
            last_sent: now,
            last_received: now,
            pace_at: Time::ZERO,
            train: 0,
            send_buffer: config.send_buffers.map_or(u32::MAX, send_buffer::initial),
            buffer_checked: true,
            time_wait_until: Time::NEVER,
            removal_deadline: Time::NEVER,
            probe_wanted: false,
            reset: None,
            signals: Signals::default(),
            tail_probe_wanted: false,
            counters: SubflowCounters::default(),
            demuxed: false,
        }
    }

    /// Its name.
    pub fn id(&self) -> SubflowId {
        self.id
    }

    /// Returns the congestion window and the threshold, the greatest number if it is infinite.
    pub(crate) fn windows_now(&self) -> (u64, u64) {
        (self.cwnd, self.ssthresh.unwrap_or(u64::MAX))
    }

    /// Whether it is gone.
    pub fn is_closed(&self) -> bool {
        self.state == TcpState::Closed
    }

    /// Whether it has not come to its end, nor is about to be reset.
    #[inline]
    pub fn is_open(&self) -> bool {
        !matches!(self.state, TcpState::Closed | TcpState::TimeWait) && self.reset.is_none()
    }

    /// Whether data may be put on it.
    pub fn is_usable(&self) -> bool {
        matches!(self.state, TcpState::Established | TcpState::CloseWait)
            && !self.fin_wanted
            && self.reset.is_none()
    }

    /// Whether it can still exchange segments about the connection.
    pub fn is_synchronised(&self) -> bool {
        !matches!(
            self.state,
            TcpState::SynSent | TcpState::SynReceived | TcpState::TimeWait | TcpState::Closed
        )
    }

    /// The sender's estimate of bytes in the network.
    pub fn in_flight(&self) -> u64 {
        self.board.in_flight().saturating_sub(self.recovery.credit())
    }

    /// Whether a poll may find something to send.
    #[inline]
    pub fn wants_to_send(&self) -> bool {
        (self.recv.due() == AckDue::Now
            || self.has_data_to_send()
            || self.handshake.send
            || self.reset.is_some()
            || self.probe_wanted
            || self.signals.may_leave())
            && self.state != TcpState::Closed
    }

    /// Whether there is sequence space to send, for the first time or again, if the windows admit it.
    #[inline]
    pub fn has_data_to_send(&self) -> bool {
        !self.queue.is_empty()
            || self.board.lost_segments() > 0
            || self.tail_probe_wanted
            || (self.fin_wanted && !self.fin_sent)
    }

    /// Takes `len` bytes off the front of the first range in the queue, which holds as much.
    #[inline]
    pub fn dequeue(&mut self, len: u64) {
        if let Some(front) = self.queue.front_mut() {
            front.range.start += len;
            if front.range.is_empty() {
                self.queue.pop_front();
            }
        }
        self.queued -= len;
    }

    /// Whether our FIN was sent and acknowledged.
    pub fn fin_acked(&self) -> bool {
        self.fin_sent && self.board.is_empty()
    }

    /// The offset that an acknowledgement number means.
    pub fn ack_offset(&self, segment: &Segment) -> i64 {
        offset_near(self.iss, self.board.una(), segment.ack)
    }

    /// The offset where an arrived segment starts.
    pub fn seq_offset(&self, segment: &Segment) -> i64 {
        offset_near(self.recv.irs, self.recv.nxt(), segment.seq)
    }

    /// Whether all of a segment, which starts at `offset`, lies before what was acknowledged. It is not
    /// acceptable, and neither its acknowledgement nor its options count (RFC 9293 section 3.10.7.4,
    /// first; RFC 8684 sections 3.4 and 3.5). Up to the last acknowledgement sent: what was reordered since does count, as in Linux.
    #[inline]
    pub fn is_old(&self, segment: &Segment, offset: i64) -> bool {
        offset + (segment.seq_len() as i64) < self.recv.last_ack_sent() as i64
    }

    /// The peer's window field as an edge, relative to an acknowledged offset.
    pub fn scaled_window(&self, segment: &Segment) -> u64 {
        let shift = if segment.flags.has(Flags::SYN) { 0 } else { self.send_scale };
        u64::from(segment.window) << shift
    }

    /// Whether a potential failure is known: a timeout and nothing since.
    pub fn potentially_failed(&self) -> bool {
        self.recovery.timeouts() > 0
    }

    /// What a scheduler sees; `pacing_rate` is the congestion control's, if it has one.
    #[inline]
    pub fn view(&self, pacing_rate: Option<Rate>) -> SubflowView {
        SubflowView {
            id: self.id,
            usable: self.is_usable(),
            potentially_failed: self.potentially_failed(),
            timeouts: self.recovery.timeouts(),
            backup: self.backup_wanted || self.backup_asked,
            recovery: self.recovery.state(),
            cwnd: self.cwnd,
            ssthresh: self.ssthresh,
            inflight: self.in_flight(),
            queued: self.queued,
            unacked: self.board.nxt() - self.board.una(),
            window_room: self.window_edge.saturating_sub(self.board.nxt() + self.queued),
            srtt: self.rtt.srtt(),
            rttvar: self.rtt.rttvar(),
            srtt_min: self.rtt.srtt_min(),
            srtt_max: self.rtt.srtt_max(),
            min_rtt: self.rtt.min().unwrap_or(Duration::ZERO),
            last_rtt: self.rtt.last(),
            mss: u64::from(self.mss),
            pacing_rate,
            delivery_rate: self.rate.last_rate(),
            one_way_delay_us: self.one_way_delay_us,
            loss_rate: self.loss_rate,
            bytes_sent: self.counters.bytes_sent,
            established: self.established.unwrap_or(self.started),
            last_received: self.last_received,
            send_buffer: self.send_buffer,
        }
    }

    /// Its counters and addresses.
    pub fn stats(&self) -> SubflowStats {
        SubflowStats {
            id: self.id,
            local: self.local,
            remote: self.remote,
            path: self.path,
            started: self.started,
            established: self.established,
            ended: self.ended,
            counters: self.counters,
            srtt: self.rtt.srtt(),
            min_rtt: self.rtt.min(),
            cwnd_bytes: self.cwnd,
            mss: self.mss,
        }
    }
}
