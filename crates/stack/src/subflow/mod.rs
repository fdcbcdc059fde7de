//! A subflow: one TCP (RFC 9293) that carries a part of a connection's stream.
//!
//! Its fields are private. `state.rs` changes its state, `receive.rs` takes segments in, `acknowledge.rs` processes their
//! acknowledgements, `send.rs` has the queue and what is sent from it, `header.rs` writes headers and signals, and
//! `timers.rs` knows when something is due; `fast.rs` has the fast paths of these. The parts have files of their own:
//! scoreboard, loss recovery, round trips, receiver, delivery rate, path MTU, congestion marks, held payload, mappings.

pub(crate) mod acknowledge;
pub mod ecn;
mod fast;
pub mod growth;
mod header;
pub(crate) mod held;
pub(crate) mod mappings;
pub mod path_mtu;
pub mod rate;
pub(crate) mod receive;
pub mod recovery;
pub mod recv;
pub mod rtt;
pub mod scoreboard;
pub(crate) mod send;
pub mod send_buffer;
mod signals;
mod state;
pub(crate) mod timers;
mod window_held;

use std::collections::VecDeque;

use anabranch_units::{Duration, Rate, Time};

use crate::config::ConnectionConfig;
use crate::event::SubflowId;
use crate::observer::Windows;
use crate::scheduler::{AssignKind, SubflowView};
use crate::segment::{Address, Flags, PathId, ResetReason, Segment};
use crate::seq::{DataRange, Seq, offset_near};
use crate::stats::{SubflowCounters, SubflowStats};
use ecn::EcnState;
use held::Held;
use mappings::Mappings;
use path_mtu::PathMtu;
use rate::RateEstimator;
use recovery::Recovery;
use recv::{AckDue, Receiver};
use rtt::RttEstimator;
use scoreboard::Scoreboard;
use signals::Signals;
use window_held::WindowHeld;

pub(crate) use state::Ending;
pub use state::{Handshake, ResetCause, TcpState};

/// A part of the stream that waits in a subflow's queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Queued {
    /// Which part.
    pub range: DataRange,
    /// Whether another subflow was given it before.
    pub kind: AssignKind,
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
    state: TcpState,
    id: SubflowId,
    sack: bool,
    timestamps: bool,
    send_scale: u8,
    receive_scale: u8,
    /// The FIN shall be sent when the queue is empty.
    fin_wanted: bool,
    fin_sent: bool,
    probe_wanted: bool,
    tail_probe_wanted: bool,
    signals: Signals,
    reset: Option<ResetCause>,
    /// Congestion-window validation, as Linux does it.
    cwnd_limited: bool,
    /// For the endpoint: its addresses are in the tables.
    demuxed: bool,
    /// What came last had no MPTCP option.
    bare: bool,
    /// A data acknowledgement has come by it.
    dss_seen: bool,
    /// No acknowledgement has come since the buffer was last looked at.
    buffer_checked: bool,
    /// How many segments have left at the time of `last_sent`, since the last with PSH.
    train: u8,
    /// The most payload in a segment: what the peers agreed on, or less where the path admits less.
    mss: u32,
    iss: Seq,
    ts_recent: u32,
    /// Its send buffer, in bytes of memory.
    send_buffer: u32,
    /// The window that we have shown on it, as the peer may hold it.
    window_held: WindowHeld,
    local: Address,
    remote: Address,
    path: PathId,
    /// When it was received.
    ts_recent_at: Time,
    last_received: Time,
    /// The peer has withdrawn the address: reset unless something arrives before.
    removal_deadline: Time,

    // The receiving half.
    recv: Receiver,
    /// Mappings that reach beyond the segment that carried them: subflow range and stream offset.
    mappings: Mappings,
    /// What has arrived here and may not be delivered yet.
    held: Option<Box<Held>>,

    // The sending half.
    board: Scoreboard,
    queue: VecDeque<Queued>,
    queued: u64,
    /// The congestion window in bytes, as the congestion control last said.
    cwnd: u64,
    /// The slow-start threshold in bytes; none is infinite.
    ssthresh: Option<u64>,
    /// The right edge of the peer's window for this subflow, as an offset.
    window_edge: u64,
    /// The largest window that the peer has shown.
    max_window: u64,
    handshake: Handshake,
    timer_base: Time,
    last_new: Time,
    last_sent: Time,
    pace_at: Time,
    max_in_flight: u64,
    usage_seq: u64,
    rtt: RttEstimator,
    rate: RateEstimator,
    recovery: Recovery,
    /// The next round trip starts when this is acknowledged.
    round_end: u64,
    round_sent: u64,
    round_lost: u64,
    loss_rate: f64,
    ecn: EcnState,
    path_mtu: PathMtu,
    one_way_delay_us: Option<i64>,
    counters: SubflowCounters,

    // The rest.
    local_id: u8,
    remote_id: u8,
    /// We asked the peer to treat it as a backup.
    backup_asked: bool,
    /// The peer asked us to treat it as a backup.
    backup_wanted: bool,
    started: Time,
    established: Option<Time>,
    ended: Option<Time>,
    /// SACK blocks that were processed already.
    known_blocks: [(u64, u64); 4],
    /// The [`Subflow::windows_now`] of the last report to the observer.
    windows_told: (u64, u64),
    /// What the peer has said with its reset: whether the cause may pass, and the cause.
    peer_reset: Option<(bool, ResetReason)>,
    time_wait_until: Time,
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
    #[inline]
    pub fn id(&self) -> SubflowId {
        self.id
    }

    /// Its local address.
    #[inline]
    pub(crate) fn local(&self) -> Address {
        self.local
    }

    /// Its remote address.
    #[inline]
    pub(crate) fn remote(&self) -> Address {
        self.remote
    }

    /// The interface by which it leaves.
    #[inline]
    pub(crate) fn path(&self) -> PathId {
        self.path
    }

    /// The IDs of its addresses (RFC 8684 section 3.2): ours, and the peer's.
    pub(crate) fn address_ids(&self) -> (u8, u8) {
        (self.local_id, self.remote_id)
    }

    /// The ID of our address.
    pub(crate) fn set_local_id(&mut self, id: u8) {
        self.local_id = id;
    }

    /// The ID of the peer's address.
    pub(crate) fn set_remote_id(&mut self, id: u8) {
        self.remote_id = id;
    }

    /// True if this side asks the peer to treat it as a backup.
    pub(crate) fn asks_backup(&self) -> bool {
        self.backup_asked
    }

    /// Whether this side asks the peer to treat it as a backup.
    pub(crate) fn ask_backup(&mut self, backup: bool) {
        self.backup_asked = backup;
    }

    /// Whether the peer asks to treat it as a backup.
    pub(crate) fn on_backup_asked(&mut self, backup: bool) {
        self.backup_wanted = backup;
    }

    /// For the endpoint: true if its addresses are in the tables.
    pub(crate) fn is_demuxed(&self) -> bool {
        self.demuxed
    }

    /// For the endpoint: whether its addresses are in the tables.
    pub(crate) fn set_demuxed(&mut self, demuxed: bool) {
        self.demuxed = demuxed;
    }

    /// The segments that are not acknowledged.
    #[inline]
    pub(crate) fn board(&self) -> &Scoreboard {
        &self.board
    }

    /// Nothing that was sent is waited for any more.
    pub(crate) fn abandon(&mut self) {
        self.board.abandon();
    }

    /// True if the segment that was asked for last, or one near it, carries the byte at `offset` of the stream.
    #[inline]
    pub(crate) fn carries_nearby(&mut self, offset: u64) -> bool {
        self.board.begins_with(offset) || self.board.carries_nearby(offset)
    }

    /// True if the byte at `offset` of the stream is in flight here, or in the queue, or the rest of its mapping is.
    pub(crate) fn carries(&mut self, offset: u64) -> bool {
        self.board.carries(offset)
            || self.queue.iter().any(|queued| queued.range.start <= offset && offset < queued.range.end)
    }

    /// The estimator of round trips.
    #[inline]
    pub(crate) fn rtt(&self) -> &RttEstimator {
        &self.rtt
    }

    /// The loss recovery.
    #[inline]
    pub(crate) fn recovery(&self) -> &Recovery {
        &self.recovery
    }

    /// Its counters.
    #[inline]
    pub(crate) fn counters(&self) -> &SubflowCounters {
        &self.counters
    }

    /// The congestion window in bytes.
    #[inline]
    pub(crate) fn cwnd(&self) -> u64 {
        self.cwnd
    }

    /// Takes over the congestion window and the threshold.
    #[inline]
    pub(crate) fn set_windows(&mut self, (cwnd, ssthresh): (u64, Option<u64>)) {
        self.cwnd = cwnd;
        self.ssthresh = ssthresh;
    }

    /// True if the windows are not those of the last report to the observer.
    #[inline]
    pub(crate) fn has_news_of_windows(&self) -> bool {
        self.windows_told != self.windows_now()
    }

    /// The windows, to be reported to the observer.
    #[inline]
    pub(crate) fn report_windows(&mut self) -> Windows {
        self.windows_told = self.windows_now();
        Windows {
            cwnd_bytes: self.cwnd,
            ssthresh_bytes: self.ssthresh,
            inflight_bytes: self.in_flight(),
            srtt: self.rtt.srtt(),
        }
    }

    /// Probes the peer with an octet that it has had.
    pub(crate) fn probe(&mut self) {
        self.probe_wanted = true;
    }

    /// Probes the peer if its window for this subflow is shut.
    pub(crate) fn probe_if_shut(&mut self) {
        self.probe_wanted = self.window_edge <= self.board.nxt();
    }

    /// The peer's window for this subflow, counted from what is acknowledged.
    pub(crate) fn whole_window(&self) -> u64 {
        self.window_edge.saturating_sub(self.board.una())
    }

    /// Takes in the cause of the peer's reset, and whether it may pass.
    pub(crate) fn on_peer_reset(&mut self, transient: bool, reason: ResetReason) {
        self.peer_reset = Some((transient, reason));
    }

    /// The cause of the peer's reset, if it has named one.
    pub(crate) fn peer_reset(&self) -> Option<(bool, ResetReason)> {
        self.peer_reset
    }

    /// Returns the congestion window and the threshold, the greatest number if it is infinite.
    fn windows_now(&self) -> (u64, u64) {
        (self.cwnd, self.ssthresh.unwrap_or(u64::MAX))
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
