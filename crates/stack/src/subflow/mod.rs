//! A subflow: one TCP (RFC 9293) that carries a part of a connection's stream.
//!
//! Its fields are private. Reception is one call for each step, with an answer: `receive.rs` accepts a received
//! segment, `acknowledge.rs` processes its acknowledgement, `payload.rs` its payload, `timers.rs` the expired
//! timers (`timer_table.rs` has their deadlines); `transmit.rs` sends, with `send.rs`; `header.rs` writes
//! segments. `fast.rs` has the fast paths of these.
//!
//! The parts are types with private fields, each in its own file: state, handshake, route, queue, scoreboard,
//! loss recovery, round trips, receiver, signals, delivery rate, path MTU, congestion marks, held payload,
//! mappings. The connection reaches a part through the method with its name.

pub(crate) mod acknowledge;
pub(crate) mod defer;
pub(crate) mod ecn;
mod fast;
pub(crate) mod growth;
mod handshake;
pub(crate) mod header;
pub(crate) mod held;
pub(crate) mod mappings;
pub(crate) mod memory;
pub(crate) mod path_mtu;
pub(crate) mod payload;
pub(crate) mod queue;
pub(crate) mod rate;
pub(crate) mod receive;
pub(crate) mod recovery;
pub(crate) mod recv;
mod route;
pub(crate) mod rtt;
pub(crate) mod scoreboard;
pub(crate) mod send;
pub(crate) mod send_buffer;
mod signals;
mod state;
pub(crate) mod timer_table;
pub(crate) mod timers;
pub(crate) mod transmit;
mod window_held;

use core::slice;

use anabranch_units::{Duration, Rate, Time};
use prefetch_index::prefetch_index;

use crate::config::ConnectionConfig;
use crate::congestion::CongestionControl;
use crate::event::SubflowId;
use crate::observer::Windows;
use crate::scheduler::SubflowView;
use crate::segment::{Address, Flags, PathId, ResetReason, Segment};
use crate::seq::{Seq, offset_near};
use crate::stats::{SubflowCounters, SubflowStats};
use ecn::EcnState;
use handshake::Handshake;
use held::Held;
use mappings::Mappings;
use path_mtu::PathMtu;
use queue::SendQueue;
use rate::RateEstimator;
use recovery::Recovery;
pub(crate) use recovery::{TimerSlack, Tolerance};
use recv::Receiver;
use route::Route;
use rtt::RttEstimator;
use scoreboard::Scoreboard;
use signals::Signals;
use state::Lifecycle;
use timer_table::TimerTable;
use window_held::WindowHeld;

pub(crate) use fast::{Expected, FastPaths};
pub(crate) use receive::Late;
pub(crate) use state::{Ended, Ending, Remains, Reset, ResetCause, TcpState};

/// The parameters of a new subflow.
pub(crate) struct SubflowSetup {
    /// Its local address.
    pub local: Address,
    /// Its remote address.
    pub remote: Address,
    /// The interface on which it sends.
    pub path: PathId,
    /// The local initial sequence number.
    pub iss: Seq,
    /// True if this side sends the SYN.
    pub initiator: bool,
    /// The local nonce, for a join.
    pub nonce: u32,
    /// The parameters of a join; `None` for the first subflow.
    pub join: Option<JoinSetup>,
}

/// The parameters that only a join has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct JoinSetup {
    /// The ID of the remote address.
    pub remote_id: u8,
    /// The peer's nonce; 0 if it is not known yet.
    pub remote_nonce: u32,
    /// True if this side asks the peer to treat the subflow as a backup.
    pub asks_backup: bool,
    /// True if the peer asks for that.
    pub backup_asked: bool,
}

/// One subflow.
// The field order keeps the fields used for each segment together: with thousands of connections, the cost of
// a packet is the number of cache lines it touches.
#[derive(Clone, Debug)]
#[repr(C)]
pub(crate) struct Subflow {
    // Used for every segment.
    state: Lifecycle,
    id: SubflowId,
    sack: bool,
    timestamps: bool,
    send_scale: u8,
    receive_scale: u8,
    probe_wanted: bool,
    tail_probe_wanted: bool,
    signals: Signals,
    ecn: EcnState,
    /// Congestion-window validation, as in Linux.
    cwnd_limited: bool,
    /// True if the window has not been filled for a retransmission timeout, and the congestion control is not yet informed.
    underused: bool,
    /// True if the last segment received had no MPTCP option.
    bare: bool,
    /// True if a data acknowledgement was received on it.
    dss_seen: bool,
    /// True if the segment that acknowledged its last data had no data acknowledgement.
    data_ack_missed: bool,
    /// True if no acknowledgement was received since the buffer was last checked.
    buffer_checked: bool,
    /// True if `send_space` limits the data that may be assigned while the application waits for space.
    space_bounds: bool,
    /// True if the application waits for space.
    awaits_space: bool,
    /// True if it carries nothing while it is probed after the withdrawal of its address.
    is_avoided: bool,
    /// The number of segments sent at the time `last_sent` since the last with PSH.
    train: u8,
    /// The content of the peer's reset: whether the cause is transient, and the cause.
    peer_reset: Option<(bool, ResetReason)>,
    /// The maximum payload of a segment: the negotiated value, or less if the path admits less.
    mss: u32,
    iss: Seq,
    ts_recent: u32,
    /// Its send buffer, in bytes of memory, and the payload that fits into it.
    send_buffer: u32,
    send_space: u32,
    /// Where the packets of the queue begin.
    packets: queue::Packets,
    /// The window advertised on it, as the peer may store it.
    window_held: WindowHeld,
    route: Route,
    /// The time at which it was received.
    ts_recent_at: Time,
    last_received: Time,
    timers: TimerTable,

    // The receiving half.
    recv: Receiver,
    /// Mappings that extend beyond their segment: subflow range and stream offset.
    mappings: Mappings,
    /// Received payload that may not be delivered yet.
    held: Option<Box<Held>>,

    // The sending half.
    board: Scoreboard,
    queue: SendQueue,
    /// The congestion window in bytes, as last set by the congestion control.
    cwnd: u64,
    /// The slow-start threshold in bytes; `None` is infinite.
    ssthresh: Option<u64>,
    /// The right edge of the peer's window for this subflow, as an offset.
    window_edge: u64,
    /// The largest window that the peer has advertised.
    max_window: u64,
    handshake: Handshake,
    timer_base: Time,
    last_new: Time,
    last_sent: Time,
    pace_at: Time,
    max_in_flight: u64,
    usage_seq: u64,
    /// The greatest number of bytes in flight since the window was last filled, or was last lowered.
    window_used: u64,
    window_filled: Time,
    /// The end of the last new segment of less than the MSS, as an offset.
    short_end: u64,
    rtt: RttEstimator,
    rate: RateEstimator,
    recovery: Recovery,
    /// The next round trip starts when this offset is acknowledged.
    round_end: u64,
    round_sent: u64,
    round_lost: u64,
    loss_rate: f64,
    path_mtu: PathMtu,
    one_way_delay_us: Option<i64>,
    counters: SubflowCounters,

    // The rest.
    started: Time,
    /// The time at which it was established, and the time at which it ended; [`Time::NEVER`] until then.
    established: Time,
    ended: Time,
    /// SACK blocks that were already processed.
    known_blocks: [(u64, u64); 4],
    /// The [`Subflow::windows_now`] of the last report to the observer.
    windows_told: (u64, u64),
}

impl Subflow {
    /// Returns a subflow before its handshake; `local_id` is the ID of its local address, and `tolerance` the
    /// reordering that is expected.
    pub(crate) fn new(
        id: SubflowId,
        now: Time,
        setup: &SubflowSetup,
        local_id: u8,
        tolerance: Tolerance,
        config: &ConnectionConfig,
    ) -> Subflow {
        let SubflowSetup { local, iss, initiator, .. } = *setup;
        let mut recovery = Recovery::new(config, false, 1);
        recovery.tolerate(tolerance);
        let mut subflow = Subflow {
            id,
            state: Lifecycle::new(if initiator { TcpState::SynSent } else { TcpState::SynReceived }),
            route: Route::new(setup, local_id),
            timers: TimerTable::IDLE,
            handshake: Handshake::new(now, setup),
            started: now,
            established: Time::NEVER,
            ended: Time::NEVER,
            mss: config.mss,
            path_mtu: PathMtu::new(config.path_mtu, local.ip.is_ipv4(), config.mss, config.data_options()),
            sack: false,
            timestamps: false,
            send_scale: 0,
            receive_scale: 0,
            ts_recent: 0,
            window_held: WindowHeld::NONE,
            ts_recent_at: now,
            iss,
            board: Scoreboard::starting_at(1),
            queue: SendQueue::default(),
            cwnd: 0,
            ssthresh: None,
            windows_told: (0, u64::MAX),
            window_edge: 1,
            max_window: 0,
            rtt: RttEstimator::new(&config.rto),
            rate: RateEstimator::default(),
            recovery,
            one_way_delay_us: None,
            known_blocks: [(0, 0); 4],
            cwnd_limited: false,
            underused: false,
            max_in_flight: 0,
            usage_seq: 0,
            window_used: 0,
            window_filled: now,
            short_end: 0,
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
            data_ack_missed: false,
            bare: false,
            peer_reset: None,
            timer_base: now,
            last_new: now,
            last_sent: now,
            last_received: now,
            pace_at: Time::ZERO,
            train: 0,
            send_buffer: u32::MAX,
            send_space: u32::MAX,
            space_bounds: false,
            awaits_space: false,
            buffer_checked: true,
            is_avoided: false,
            packets: queue::Packets::default(),
            probe_wanted: false,
            signals: Signals::default(),
            tail_probe_wanted: false,
            counters: SubflowCounters::default(),
        };
        subflow.set_send_buffer(config, config.mptcp);
        subflow
    }

    /// Prefetches the state that reception uses: the receiver's for a segment with data, the sender's for one
    /// without.
    #[inline]
    pub(crate) fn fetch(&self, data: bool) {
        const LINE: usize = 64 / size_of::<u32>();
        const BOARD: usize = core::mem::offset_of!(Subflow, board) / 64;
        const COUNTERS: usize = core::mem::offset_of!(Subflow, counters) / 64;
        let begin = slice::from_ref(&self.mss);
        prefetch_index(begin, 0);
        prefetch_index(begin, LINE);
        let lines = if data { 2..=BOARD } else { BOARD..=COUNTERS };
        for line in lines {
            prefetch_index(begin, line * LINE);
        }
    }

    #[inline]
    pub(crate) fn id(&self) -> SubflowId {
        self.id
    }

    /// Changes its ID, before it is established.
    pub(crate) fn set_id(&mut self, id: SubflowId) {
        self.id = id;
    }

    /// Returns its path: addresses, their IDs, and its priority.
    #[inline]
    pub(crate) fn route(&self) -> &Route {
        &self.route
    }

    #[inline]
    pub(crate) fn route_mut(&mut self) -> &mut Route {
        &mut self.route
    }

    /// Returns the first offset that is not acknowledged.
    #[inline]
    pub(crate) fn una(&self) -> u64 {
        self.board.una()
    }

    pub(crate) fn has_sent_data(&self) -> bool {
        self.board.nxt() > 1
    }

    /// Returns the stream offset of the first byte that is not acknowledged here, and occupies the send buffer.
    #[inline]
    pub(crate) fn lowest_data(&self) -> Option<u64> {
        self.board.lowest_data()
    }

    /// True if the segment found by the last query, or one near it, carries the byte at `offset` of the
    /// stream.
    #[inline]
    pub(crate) fn carries_nearby(&mut self, offset: u64) -> bool {
        self.board.begins_with(offset) || self.board.carries_nearby(offset)
    }

    /// True if the byte at `offset` of the stream, or the rest of its mapping, is in flight here or in the
    /// queue.
    pub(crate) fn carries(&mut self, offset: u64) -> bool {
        self.board.carries(offset)
            || self.queue.iter().any(|queued| queued.range.start <= offset && offset < queued.range.end)
    }

    /// Returns the retransmission timeout, which grows with each consecutive timeout if there is a `backoff`.
    #[inline]
    pub(crate) fn rto(&self, backoff: bool) -> Duration {
        self.rtt.rto(if backoff { self.recovery.backoff() } else { 0 })
    }

    /// Copies the window and the threshold from the congestion control, after any call to it.
    #[inline]
    pub(crate) fn refresh_window<C: CongestionControl>(&mut self, congestion: &C) {
        (self.cwnd, self.ssthresh) = congestion.window(self.id);
    }

    /// True if the windows differ from the last report to the observer.
    #[inline]
    pub(crate) fn has_news_of_windows(&self) -> bool {
        self.windows_told != self.windows_now()
    }

    /// Returns the windows for the observer, without the connection's window, and records the report.
    #[inline]
    pub(crate) fn report_windows<C: CongestionControl>(&mut self, paces: bool, congestion: &C) -> Windows {
        self.windows_told = self.windows_now();
        Windows {
            cwnd_bytes: self.cwnd,
            ssthresh_bytes: self.ssthresh,
            inflight_bytes: self.in_flight(),
            srtt: self.rtt.srtt(),
            pacing_rate: paces.then(|| self.pacing_rate(congestion)),
            peer_window_edge: 0,
        }
    }

    /// Probes the peer with an octet that it has received.
    pub(crate) fn probe(&mut self) {
        self.probe_wanted = true;
    }

    /// Probes the peer if its window for this subflow is closed.
    pub(crate) fn probe_if_shut(&mut self) {
        self.probe_wanted = self.window_edge <= self.board.nxt();
    }

    /// Returns the content of the peer's reset: whether the cause is transient, and the cause.
    pub(crate) fn peer_reset(&self) -> Option<(bool, ResetReason)> {
        self.peer_reset
    }

    /// Records the cause of the peer's reset, and whether it is transient.
    pub(crate) fn on_peer_reset(&mut self, transient: bool, reason: ResetReason) {
        self.peer_reset = Some((transient, reason));
    }

    /// Returns the congestion window and the threshold, or the maximum value if that is infinite.
    fn windows_now(&self) -> (u64, u64) {
        (self.cwnd, self.ssthresh.unwrap_or(u64::MAX))
    }

    /// Returns the sender's estimate of bytes in the network.
    fn in_flight(&self) -> u64 {
        self.board.in_flight().saturating_sub(self.recovery.credit())
    }

    /// True if a poll may find something to send.
    #[inline]
    pub(crate) fn wants_to_send(&self) -> bool {
        (self.recv.is_ack_due()
            || self.has_data_to_send()
            || self.handshake.is_due()
            || self.state.is_resetting()
            || self.probe_wanted
            || self.signals.may_leave())
            && !self.state.is_closed()
    }

    /// True if there is sequence space to send, for the first time or again, provided the windows admit it.
    #[inline]
    pub(crate) fn has_data_to_send(&self) -> bool {
        !self.queue.is_empty()
            || self.board.lost_segments() > 0
            || self.tail_probe_wanted
            || self.state.fin_pending()
    }

    /// Returns the offset of an acknowledgement number.
    pub(crate) fn ack_offset(&self, segment: &Segment) -> i64 {
        offset_near(self.iss, self.board.una(), segment.ack)
    }

    /// Returns the offset of the start of a received segment.
    pub(crate) fn seq_offset(&self, segment: &Segment) -> i64 {
        offset_near(self.recv.irs, self.recv.nxt(), segment.seq)
    }

    /// Returns the right edge given by the peer's window field, relative to an acknowledged offset.
    pub(crate) fn scaled_window(&self, segment: &Segment) -> u64 {
        let shift = if segment.flags.has(Flags::SYN) { 0 } else { self.send_scale };
        u64::from(segment.window) << shift
    }

    /// True if the subflow has potentially failed: a timeout has occurred, or the peer has withdrawn the address, and nothing
    /// was received since.
    pub(crate) fn has_potentially_failed(&self) -> bool {
        self.recovery.timeouts() > 0
            || (self.is_avoided && self.timers.is_armed(timer_table::Timer::Withdrawal))
    }

    /// Returns a scheduler's view; `pacing_rate` is the congestion control's pacing rate, if it has one.
    #[inline]
    pub(crate) fn view(&self, pacing_rate: Option<Rate>) -> SubflowView {
        let mut view = SubflowView::idle(self.id, Duration::ZERO, 0, 0);
        self.renew_view(&mut view, pacing_rate);
        view
    }

    /// Updates a view of it. Each field is written where it is: this happens for every acknowledgement.
    #[inline(always)]
    pub(crate) fn renew_view(&self, view: &mut SubflowView, pacing_rate: Option<Rate>) {
        let SubflowView {
            id,
            local,
            remote,
            usable,
            potentially_failed,
            timeouts,
            backup,
            recovery,
            cwnd,
            ssthresh,
            inflight,
            queued,
            unacked,
            short_unacked,
            window_room,
            srtt,
            rttvar,
            srtt_min,
            srtt_max,
            min_rtt,
            last_rtt,
            mss,
            pacing_rate: rate,
            delivery_rate,
            one_way_delay_us,
            loss_rate,
            bytes_sent,
            established,
            last_received,
            sent,
            send_buffer,
        } = view;
        *id = self.id;
        (*local, *remote) = (self.route.local(), self.route.remote());
        *usable = self.state.is_usable();
        *potentially_failed = self.has_potentially_failed();
        *timeouts = self.recovery.timeouts();
        *backup = self.route.is_backup();
        *recovery = self.recovery.state();
        *cwnd = self.cwnd;
        *ssthresh = self.ssthresh;
        *inflight = self.in_flight();
        *queued = self.queue.bytes();
        *unacked = self.board.nxt() - self.board.una();
        *short_unacked = self.short_end.saturating_sub(self.board.una());
        let window = self.window_edge.saturating_sub(self.board.nxt() + self.queue.bytes());
        *window_room = window.min(self.free_space());
        (*srtt, *rttvar) = match *unacked == 0 && *queued == 0 {
            true => self.rtt.while_idle(),
            false => (self.rtt.srtt(), self.rtt.rttvar()),
        };
        *srtt_min = self.rtt.srtt_min();
        *srtt_max = self.rtt.srtt_max();
        *min_rtt = self.rtt.min().unwrap_or(Duration::ZERO);
        *last_rtt = self.rtt.last();
        *mss = u64::from(self.mss);
        *rate = pacing_rate;
        *delivery_rate = self.rate.last_rate();
        *one_way_delay_us = self.one_way_delay_us;
        *loss_rate = self.loss_rate;
        *bytes_sent = self.counters.bytes_sent;
        *established = if self.established.is_armed() { self.established } else { self.started };
        *last_received = self.last_received;
        *sent = self.board.sent();
        *send_buffer = self.send_buffer;
    }

    /// Returns its counters and addresses.
    pub(crate) fn stats(&self) -> SubflowStats {
        SubflowStats {
            id: self.id,
            local: self.route.local(),
            remote: self.route.remote(),
            path: self.route.path(),
            started: self.started,
            established: Some(self.established).filter(|time| time.is_armed()),
            ended: Some(self.ended).filter(|time| time.is_armed()),
            counters: self.counters,
            srtt: self.rtt.srtt(),
            min_rtt: self.rtt.min(),
            cwnd_bytes: self.cwnd,
            mss: self.mss,
        }
    }
}
