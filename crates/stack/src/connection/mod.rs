//! One connection: the data level of RFC 8684 over its subflows, or a plain TCP.
//!
//! The files divide it by what happens: `handshake.rs` opens subflows, `receive.rs` takes segments
//! in, `ack.rs` acts on acknowledgements, `transmit.rs` makes segments, `schedule.rs` asks the
//! scheduler, `reinject.rs` moves data between subflows, `close.rs` ends things, `timers.rs` knows
//! when, and `paths.rs` speaks with the path manager. `checksum.rs`, `hold.rs` and `fallback.rs`
//! are for paths with boxes on them: what was changed, what lacks its mapping, and the way back to TCP.

mod ack;
mod challenge;
mod checksum;
mod close;
mod fallback;
mod fast;
mod handshake;
mod hold;
mod keepalive;
mod make;
mod mapping;
mod paths;
mod payload;
mod persist;
mod receive;
mod recv_state;
mod reinject;
mod schedule;
mod send_state;
mod simultaneous_open;
mod timer_table;
mod timers;
mod transmit;

use std::collections::VecDeque;
use std::sync::Arc;

use anabranch_units::{Rate, Time};

use crate::config::{Checksums, ConnectionConfig, SendBuffers};
use crate::congestion::{AnyCongestion, CongestionControl};
use crate::event::{CloseReason, ConnectionId, Event, SubflowId};
use crate::observer::{Limit, Observer};
use crate::path_manager::{AnyPathManager, HostAddress, PathEvent, PathManager};
use crate::scheduler::{AnyScheduler, EventKinds, Scheduler, SchedulerKind, SubflowView};
use crate::segment::{Key, MptcpOption};
use crate::seq::Dsn;
use crate::stats::{ConnectionStats, SubflowStats};
use crate::subflow::{Subflow, send_buffer};
use crate::timestamp::TimestampTick;

use challenge::Challenges;
use close::Closing;
use fallback::Fallback;
pub(crate) use handshake::{find_capable, find_join, is_acceptable_offer, own_scale};
use paths::PathsState;
use persist::Persist;
pub(crate) use recv_state::RecvState;
use reinject::HeadRepair;
use send_state::SendState;
use timer_table::{Timer, TimerTable};
pub(crate) use transmit::TURN;

/// Whether option 30 is spoken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mode {
    /// MPTCP.
    Mptcp,
    /// A plain TCP: the stream is that of the one subflow.
    Plain,
}

/// Where a connection is in its life.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Phase {
    /// The first handshake is under way.
    Opening,
    /// Data may flow.
    Open,
    /// It has ended for the application; subflows may still answer late segments.
    Ended,
}

/// One connection.
// In this order what each segment looks at lies together: with thousands of connections, what a packet
// costs is how many cache lines it touches.
#[derive(Clone)]
#[repr(C)]
pub struct Connection {
    // What every segment looks at.
    pub(crate) subflows: Vec<Subflow>,
    /// Shared by the connections that were told the same.
    pub(crate) config: Arc<ConnectionConfig>,
    pub(crate) id: ConnectionId,
    /// For the endpoint: when it has this connection in its timer queue.
    pub(crate) queued_at: Time,
    /// The subflow that sent last: asked first.
    cursor: usize,
    /// How many segments it has sent in a row.
    turn: u32,
    closing: Closing,
    pub(crate) mode: Mode,
    pub(crate) phase: Phase,
    pub(crate) initiator: bool,
    /// A DSS has come: the peer has our key, and joins may begin (RFC 8684 section 3.1).
    pub(crate) confirmed: bool,
    /// DSS checksums are agreed on (RFC 8684 section 3.3.1): either side has asked for them.
    pub(crate) checksummed: bool,
    /// How often our timestamps tick.
    pub(crate) tick: TimestampTick,
    /// The third ACK with both keys shall leave.
    pub(crate) third_ack_wanted: bool,
    /// The peer sends 64-bit DSNs, so our data ACKs must have 64 bits (section 3.3.2).
    pub(crate) peer_wide: bool,
    schedule_wanted: bool,
    /// The events that it wants to hear of.
    scheduler_events: EventKinds,
    /// It may take back what waits in a subflow's queue.
    scheduler_revises: bool,
    /// It is asked for one subflow alone as well.
    scheduler_alone: bool,
    readable_pending: bool,
    remote_fin_told: bool,
    /// For the endpoint: it is in the queue of those that may have something to send.
    pub(crate) in_ready: bool,
    /// For the endpoint: something may be due sooner than when it last asked.
    pub(crate) timers_moved: bool,
    /// For the endpoint: it is in the queue of those that have events.
    pub(crate) in_eventful: bool,
    /// For the endpoint: the addresses of a subflow that has closed may still be in the tables.
    pub(crate) lists_closed: bool,
    /// The functions of `fast.rs`, and of `subflow/fast.rs`, are used.
    pub(crate) fast_paths: bool,
    limit: Limit,
    pub(crate) fallback: Fallback,

    // The two halves of the data level.
    pub(crate) recv: RecvState,
    pub(crate) send: SendState,
    pub(crate) last_data_ack_sent: u64,
    /// The right edge of the window that went with a data acknowledgement.
    pub(crate) last_edge_sent: u64,
    /// How far the data acknowledgements have gone that were sent, and how much is free behind that, as the last
    /// one has told.
    data_ack_told: u64,
    room_told: u64,
    /// The DSN of our stream's first byte.
    pub(crate) local_dsn: Dsn,
    /// The DSN of the peer's first byte.
    pub(crate) remote_dsn: Dsn,
    pub(crate) remote_key: Option<Key>,

    // Timers of the data level.
    timers: TimerTable,
    head_repair: HeadRepair,
    progress_at: Time,
    persist: Persist,

    // What changes with most segments.
    pub(crate) stats: ConnectionStats,
    pub(crate) events: VecDeque<Event>,
    pub(crate) congestion: AnyCongestion,
    /// Apart from the rest: one subflow alone never needs it, and many connections have one.
    pub(crate) scheduler: AnyScheduler,
    pub(crate) paths: PathsState,

    // The rest.
    pub(crate) local_key: Key,
    pub(crate) local_token: u32,
    pub(crate) remote_token: u32,
    challenges: Challenges,
    /// When a silent peer was last probed.
    keepalive_sent: Time,
    /// The peer takes no joins at the address and port of the first subflow (flag C).
    pub(crate) joins_denied: bool,
    pub(crate) past: Vec<SubflowStats>,
    pub(crate) path_manager: AnyPathManager,
    /// Scratch for the scheduler's view.
    views: Vec<SubflowView>,
    /// When the connection began.
    born: Time,
    /// As the scheduler wants it, or else the configuration.
    opportunistic: crate::config::OpportunisticRetransmission,
    /// How often the data-level retransmission timer has run out.
    data_timeouts: u64,
    /// When a penalty was last imposed, by fast subflow; not at all before the first.
    last_opportunistic: Vec<Time>,
    /// For the endpoint: the application has heard that it is closed.
    pub(crate) closed_told: bool,
}

/// What a new connection is made from.
pub(crate) struct Birth {
    pub id: ConnectionId,
    pub initiator: bool,
    pub mode: Mode,
    pub local_key: Key,
    pub local_token: u32,
    pub local_dsn: Dsn,
    pub addresses: Vec<HostAddress>,
    pub tick: TimestampTick,
    pub fast_paths: bool,
}

impl Connection {
    pub(crate) fn new(now: Time, birth: Birth, config: Arc<ConnectionConfig>) -> Connection {
        let scheduler = config.scheduler.build();
        let mut recv = RecvState::new(config.receive_buffer);
        if config.ack.growth {
            // What a SYN can say.
            recv.begin_with(u64::from(u16::MAX));
        }
        Connection {
            id: birth.id,
            initiator: birth.initiator,
            mode: birth.mode,
            phase: Phase::Opening,
            local_key: birth.local_key,
            remote_key: None,
            local_token: birth.local_token,
            remote_token: 0,
            local_dsn: birth.local_dsn,
            remote_dsn: Dsn(0),
            confirmed: false,
            checksummed: birth.mode == Mode::Mptcp && config.checksums == Checksums::Required,
            tick: birth.tick,
            fallback: Fallback::default(),
            challenges: Challenges::default(),
            keepalive_sent: Time::ZERO,
            joins_denied: false,
            third_ack_wanted: false,
            peer_wide: false,
            subflows: Vec::with_capacity(1),
            past: Vec::new(),
            congestion: config.congestion.build().with_lisa(config.lisa),
            scheduler_events: scheduler.wants_events(),
            scheduler_revises: scheduler.revises_queues(),
            scheduler_alone: scheduler.decides_alone(),
            opportunistic: scheduler.opportunistic().unwrap_or(config.opportunistic),
            scheduler,
            path_manager: config.path_manager.build(&birth.addresses),
            paths: PathsState::new(birth.addresses),
            send: SendState::default(),
            recv,
            last_data_ack_sent: 0,
            last_edge_sent: 0,
            data_ack_told: 0,
            room_told: 0,
            views: Vec::new(),
            schedule_wanted: false,
            cursor: 0,
            turn: 0,
            limit: Limit::Application,
            last_opportunistic: Vec::new(),
            data_timeouts: 0,
            born: now,
            events: VecDeque::new(),
            readable_pending: false,
            remote_fin_told: false,
            closed_told: false,
            stats: ConnectionStats::default(),
            timers: TimerTable::IDLE,
            head_repair: HeadRepair::default(),
            persist: Persist::default(),
            closing: Closing::default(),
            progress_at: now,
            queued_at: Time::NEVER,
            in_ready: false,
            timers_moved: true,
            in_eventful: false,
            lists_closed: false,
            fast_paths: birth.fast_paths,
            config,
        }
    }

    /// Its subflows that are not gone.
    pub fn live_subflows(&self) -> impl Iterator<Item = &Subflow> {
        self.subflows.iter().filter(|subflow| !subflow.is_closed())
    }

    pub(crate) fn is_dead(&self) -> bool {
        self.phase == Phase::Ended && self.live_subflows().next().is_none()
    }

    /// The application writes `n` bytes; returns how many fit. The send buffer may grow if `grows`.
    pub(crate) fn write(&mut self, now: Time, n: u64, grows: bool) -> u64 {
        if self.phase == Phase::Ended || self.send.closed {
            return 0;
        }
        self.send.grows = grows;
        let room = self.room_to_write();
        let accepted = n.min(room);
        if accepted > 0 {
            if self.send.buffered() == 0 {
                self.progress_at = now;
            }
            self.send.write(accepted);
            self.stats.written += accepted;
            self.schedule_wanted = true;
            self.tell_scheduler(now, &crate::scheduler::SchedulerEvent::Written);
        }
        self.send.blocked = accepted < n;
        self.send.enough = u64::MAX;
        accepted
    }

    /// Emits `Writable` once the send buffer holds no more than `enough` bytes.
    pub(crate) fn await_room(&mut self, enough: u64) {
        self.send.blocked = true;
        self.send.enough = enough;
    }

    /// How many bytes the application may write now.
    fn room_to_write(&self) -> u64 {
        let limit = self.send_limit();
        if self.models_buffers() {
            // The kernel takes a piece as long as the buffer is not full, and then all of it.
            let end = send_buffer::end_of_piece(self.send.una + limit - 1);
            return end.saturating_sub(self.send.written);
        }
        limit.saturating_sub(self.buffered())
    }

    /// Whether the send buffers are those of Linux, and data of a subflow in trouble stays where it is until the data
    /// level's timer runs out: with Linux's scheduler.
    #[inline]
    pub(crate) fn models_buffers(&self) -> bool {
        self.config.send_buffers.is_some()
            && self.mode == Mode::Mptcp
            && matches!(self.config.scheduler, SchedulerKind::Linux(_))
    }

    /// Where an acknowledgement has come on a subflow that cannot fill its window while the application waits, its
    /// send buffer follows the window (`tcp_check_space`).
    pub(crate) fn expand_buffers(&mut self) {
        let Some(buffers) = self.config.send_buffers else { return };
        let mut grown = false;
        for subflow in &mut self.subflows {
            grown |= subflow.expand_send_buffer(buffers, self.send.blocked);
        }
        if grown {
            self.tell_writable();
        }
    }

    /// How much the send buffer may hold.
    pub(crate) fn send_limit(&self) -> u64 {
        if self.models_buffers() {
            if let Some(SendBuffers::Fixed(size)) = self.config.send_buffers {
                return size.get();
            }
            let subflows = self.subflows.iter().filter(|subflow| subflow.is_usable());
            let sum = subflows.map(|subflow| u64::from(subflow.send_buffer())).fold(0, u64::saturating_add);
            return send_buffer::CONNECTION + sum.max(1);
        }
        let most = self.config.send_buffer.get();
        let Some(start) = self.config.send_buffer_start else { return most };
        let start = start.get().min(most);
        if self.send.grows { start.max(self.wanted_send_buffer()).min(most) } else { start }
    }

    /// Twice what the windows let be under way until all of it is acknowledged in order: what goes by a fast
    /// subflow waits for what goes by the slowest (RFC 6182 section 5.3).
    fn wanted_send_buffer(&self) -> u64 {
        let usable = || self.subflows.iter().filter(|subflow| subflow.is_usable());
        let longest = usable().map(|subflow| subflow.rtt().srtt_or_zero().as_micros()).max().unwrap_or(0);
        let under_way = |subflow: &Subflow| match subflow.rtt().srtt_or_zero().as_micros() {
            0 => subflow.cwnd(),
            own => subflow.cwnd().saturating_mul(longest) / own,
        };
        usable().map(under_way).fold(0, u64::saturating_add).saturating_mul(2)
    }

    /// What the send buffer still holds: not acknowledged at the data level, or not yet on every
    /// subflow that carries it (RFC 8684 section 3.3.6).
    pub(crate) fn buffered(&self) -> u64 {
        self.send.written - self.freed()
    }

    /// The offset below which a driver may forget the bytes it keeps.
    pub(crate) fn freed(&self) -> u64 {
        if self.mode == Mode::Plain {
            return self.send.una;
        }
        let held = self.subflows.iter().filter_map(|subflow| subflow.board().lowest_data()).min();
        held.map_or(self.send.una, |lowest| lowest.min(self.send.una))
    }

    /// The application has read `n` bytes.
    pub(crate) fn consume(&mut self, n: u64) {
        self.recv.consume(n);
        self.readable_pending = false;
        let mss = u64::from(self.config.mss);
        let most = (0..self.subflows.len()).map(|at| self.offered(at)).max().unwrap_or(u64::MAX);
        if self.recv.should_update(mss, most) {
            // On every subflow: the window is the connection's, but a sender that heeds each subflow's
            // own edge as well (RFC 8684 section 3.3.5) could not use the others. Linux does so too.
            for subflow in self.subflows.iter_mut().filter(|subflow| subflow.is_usable()) {
                subflow.want_ack();
            }
        }
    }

    /// The usable subflow with the lowest RTT.
    fn best_subflow(&self) -> Option<usize> {
        (0..self.subflows.len())
            .filter(|&at| self.subflows[at].is_usable())
            .min_by_key(|&at| (self.subflows[at].potentially_failed(), self.subflows[at].rtt().srtt()))
    }

    pub(crate) fn push_event(&mut self, event: Event) {
        if event == Event::Readable && !self.config.consume_at_once {
            if self.readable_pending {
                return;
            }
            self.readable_pending = true;
        }
        self.events.push_back(event);
    }

    /// Ends the connection for the application.
    pub(crate) fn end(&mut self, reason: CloseReason) {
        if self.phase != Phase::Ended {
            self.phase = Phase::Ended;
            self.events.push_back(Event::Closed(reason));
            self.timers.disarm(Timer::Data);
            self.timers.disarm(Timer::Persist);
            self.timers.disarm(Timer::Fin);
            self.timers.disarm(Timer::Orphan);
        }
    }

    /// Takes over what the congestion control says of a subflow, after any call to it.
    #[inline]
    pub(crate) fn refresh_window(&mut self, at: usize) {
        let subflow = &mut self.subflows[at];
        subflow.set_windows(self.congestion.window(subflow.id()));
    }

    /// Reports to the observer the windows of every subflow whose congestion window or threshold is another than it
    /// was last told, whatever has changed it.
    #[inline]
    pub(crate) fn report_windows<O: Observer>(&mut self, now: Time, observer: &mut O) {
        if !O::LISTENS {
            return;
        }
        for at in 0..self.subflows.len() {
            let subflow = &self.subflows[at];
            if subflow.has_news_of_windows() {
                self.report_windows_of(now, at, observer);
            }
        }
    }

    /// Reports the windows of the subflow at `at`.
    #[inline]
    pub(crate) fn report_windows_of<O: Observer>(&mut self, now: Time, at: usize, observer: &mut O) {
        if O::LISTENS {
            let subflow = &mut self.subflows[at];
            let (id, windows) = (subflow.id(), subflow.report_windows());
            observer.on_windows(now, self.id, id, &windows);
        }
    }

    pub(crate) fn view_of(&self, at: usize) -> SubflowView {
        let subflow = &self.subflows[at];
        let pacing: Option<Rate> = self.congestion.pacing_rate(subflow.id());
        subflow.view(pacing)
    }

    /// A subflow has ended: what it carried goes elsewhere, and everyone hears of it.
    pub(crate) fn subflow_ended(&mut self, now: Time, at: usize) {
        if !self.subflows[at].note_end(now) {
            return;
        }
        let was_up = self.subflows[at].was_established();
        let id = self.subflows[at].id();
        self.recover_from_dead(at);
        self.subflows[at].abandon();
        let mut stats = self.subflows[at].stats();
        stats.ended = Some(now);
        self.past.push(stats);
        let (local, remote) = (self.subflows[at].local(), self.subflows[at].remote());
        self.send.outstanding.forget(id);
        self.send.reinject.forget(id);
        if was_up {
            self.congestion.on_subflow_down(id);
            self.tell_scheduler(now, &crate::scheduler::SchedulerEvent::SubflowDown(id));
            // Nobody hears of anything after the end.
            if self.phase != Phase::Ended {
                self.push_event(Event::SubflowDown(id));
            }
        }
        let reset = self.subflows[at].peer_reset();
        self.subflows[at].take_held();
        self.path_manager.on_event(&PathEvent::SubflowClosed { id, local, remote, reset });
        self.reopen_half_closed();
        self.expect_subflow(now);
        self.schedule_wanted = true;
        self.tell_writable();
    }

    /// Bytes that can be read in order.
    pub(crate) fn readable(&self) -> u64 {
        self.recv.readable()
    }

    /// Bytes that have arrived in order.
    pub(crate) fn received(&self) -> u64 {
        self.recv.nxt()
    }

    /// Whether a join is admitted now (RFC 8684 section 3.2). Linux opens and takes none once the program has ended its
    /// stream, as its connection has left ESTABLISHED.
    pub(crate) fn admits_join(&self) -> bool {
        self.mode == Mode::Mptcp
            && !(self.models_buffers() && self.send.closed)
            && (self.config.simultaneous || self.phase == Phase::Open)
            && self.phase != Phase::Ended
            && !(self.send.fin_acked && self.recv.finished())
    }

    /// Asks the peer for a subflow's priority, and keeps to it ourselves.
    pub(crate) fn set_backup(&mut self, id: SubflowId, backup: bool) {
        if let Some(at) = self.subflow_index(id).filter(|&at| self.subflows[at].is_usable()) {
            self.subflows[at].ask_backup(backup);
            self.subflows[at].signal(MptcpOption::Priority { backup });
            self.schedule_wanted = true;
        }
    }

    /// The counters as they stand.
    pub(crate) fn current_stats(&self) -> ConnectionStats {
        ConnectionStats {
            out_of_order: self.recv.out_of_order(),
            refused: self.recv.refused(),
            mptcp: self.mode == Mode::Mptcp,
            ..self.stats
        }
    }

    /// All subflows that there were, in the order in which they began.
    pub(crate) fn subflow_stats(&self) -> Vec<SubflowStats> {
        let alive = self.subflows.iter().filter(|subflow| !subflow.has_ended());
        let mut all = self.past.clone();
        all.extend(alive.map(Subflow::stats));
        all.sort_by_key(|stats| (stats.started, stats.id));
        all
    }

    /// The subflow in that place, if it is there.
    pub(crate) fn subflow_index(&self, id: SubflowId) -> Option<usize> {
        (id.index() < self.subflows.len()).then_some(id.index())
    }

    /// Panics if the counters disagree with what they count; for tests.
    pub(crate) fn assert_consistent(&self) {
        for subflow in &self.subflows {
            assert!(subflow.board().is_consistent(), "scoreboard of {:?}", subflow.id());
            let queued: u64 = subflow.queue().map(|queued| queued.range.len()).sum();
            assert_eq!(queued, subflow.queued(), "queue of {:?}", subflow.id());
        }
        assert!(self.send.una <= self.send.nxt && self.send.nxt <= self.send.written);
        // Every written byte is acknowledged, given to a subflow, or waiting.
        let held: u64 = self.send.outstanding.as_slice().iter().map(|pending| pending.range.len()).sum();
        assert_eq!(self.send.una + held + self.send.unassigned.total(), self.send.written);
        // Only what some subflow was given can be given to another.
        for pending in self.send.reinject.as_slice() {
            let mut found = 0;
            self.send.outstanding.overlap(pending.range, |part, _| found += part.len());
            assert_eq!(found, pending.range.len(), "reinjection of {:?}", pending.range);
        }
    }
}
