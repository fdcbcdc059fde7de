//! One connection: the data level of RFC 8684 over its subflows, or plain TCP.
//!
//! Calls between the files lead downwards in this list, so that each can be read with only those below it
//! (`tests/test_architecture.py` looks for cycles):
//!
//! 1. The entrances, which the endpoint calls: `receive.rs` (a segment was received), `transmit.rs` (the next
//!    segment to send), `timers.rs` (timeouts), `application.rs` (a call of the program). `fast.rs` has the
//!    fast paths of the first two.
//! 2. The steps of a received segment: `handshake.rs` and `simultaneous_open.rs`; `checksum.rs`,
//!    `payload.rs`, `hold.rs` and `mapping.rs` for the payload; `fallback.rs` for fallback to TCP; `ack.rs`
//!    for acknowledgements of both levels.
//! 3. The steps towards a transmission: `schedule.rs` executes the scheduler's decisions, `make.rs` builds
//!    every segment, `depart.rs` updates the state after a transmission.
//! 4. The ends: `close.rs` (the local stream, and the application's request), `keepalive.rs`,
//!    `subflow_end.rs`, `end.rs` (the connection), `time_wait.rs` (what is remembered of it).
//! 5. The parts: `race.rs`, `data_timer.rs`, `reinject.rs`, `opportunistic.rs`, `scatter.rs`, `paths.rs`, `persist.rs`,
//!    `deliver.rs`, `send_space.rs`, `negotiate.rs`, `challenge.rs`.
//! 6. The state: this file, with the common predicates; `context.rs`, the state that a step lends to a part;
//!    `subflows.rs`, `send_state.rs` and `recv_state.rs`, the halves of
//!    the data level; `fallback_state.rs`, `head_repair.rs`, `scheduling.rs`, `keys.rs`, `advertised.rs`,
//!    `events.rs`, `rotation.rs`, `rules.rs` and `timer_table.rs`; and `wanted.rs`, the work left for the next poll. Each
//!    of these structs owns its fields.

mod ack;
mod advertised;
mod application;
mod challenge;
mod checksum;
mod close;
mod context;
mod data_timer;
mod deliver;
mod depart;
mod end;
mod events;
mod fallback;
mod fallback_state;
mod fast;
mod handshake;
mod head_repair;
mod hold;
mod keepalive;
mod keys;
mod make;
mod mapping;
mod negotiate;
mod opportunistic;
mod paths;
mod payload;
mod persist;
mod race;
mod receive;
mod recv_state;
mod reinject;
mod rejoin;
mod rotation;
mod rules;
mod scatter;
mod schedule;
mod scheduling;
mod send_space;
mod send_state;
mod simultaneous_open;
mod step;
mod subflow_end;
mod subflows;
mod time_wait;
mod timer_table;
mod timers;
mod transmit;
mod wanted;

use core::slice;
use std::sync::Arc;

use anabranch_units::{Duration, Time};
use prefetch_index::prefetch_index;

use crate::config::{Checksums, SimConfig};
use crate::congestion::AnyCongestion;
use crate::event::{ConnectionId, SubflowId};
use crate::observer::{Observer, StackEvent, StackEvents, Windows};
use crate::segment::Key;
use crate::seq::Dsn;
use crate::stats::{ConnectionStats, SubflowStats};
use crate::subflow::defer::Deferral;
use crate::subflow::{FastPaths, Subflow};
use crate::timestamp::TimestampTick;

use advertised::Advertised;
use challenge::Challenges;
use close::Closing;
use events::EventQueue;
use fallback_state::Fallback;
use head_repair::HeadRepair;
use keepalive::Keepalive;
use keys::Keys;
pub(crate) use negotiate::{find_capable, find_join, is_acceptable_offer, own_scale};
use opportunistic::Opportunistic;
pub(crate) use paths::Opening;
use paths::PathsState;
use persist::Persist;
pub(crate) use recv_state::RecvState;

use rotation::Rotation;
pub(crate) use rotation::TURN;
use rules::Rules;
use scatter::Scatter;
use scheduling::Scheduling;
use send_state::SendState;
use subflows::Subflows;
pub(crate) use time_wait::TimeWait;
use timer_table::TimerTable;
pub(crate) use transmit::{Polled, Timers};
use wanted::Wanted;

/// Whether option 30 is used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mode {
    Mptcp,
    /// Plain TCP: the stream is the stream of the only subflow.
    Plain,
}

/// The phase of a connection's life.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Phase {
    /// The first handshake is in progress.
    Opening,
    /// Data may flow.
    Open,
    /// The connection has ended for the application; subflows may still answer late segments.
    Ended,
}

/// One connection.
// The field order keeps the fields used for each segment together: with thousands of connections, the cost of
// a packet is the number of cache lines it touches.
#[derive(Clone)]
#[repr(C)]
pub(crate) struct Connection {
    // Used for every segment.
    pub(crate) subflows: Subflows,
    /// Shared by connections of the same configuration.
    pub(crate) config: Arc<SimConfig>,
    rules: Rules,
    id: ConnectionId,
    pub(crate) wanted: Wanted,
    mode: Mode,
    rotation: Rotation,
    pub(crate) phase: Phase,
    initiator: bool,
    /// True after the first DSS: the peer has the local key, and joins may begin (RFC 8684 section 3.1).
    confirmed: bool,
    /// True if DSS checksums were negotiated (RFC 8684 section 3.3.1): either side has requested them.
    checksummed: bool,
    /// The tick of local timestamps.
    tick: TimestampTick,
    /// True if the peer sends 64-bit DSNs, so that local data ACKs must have 64 bits (section 3.3.2).
    peer_wide: bool,
    /// Whether the functions of `fast.rs`, and of `subflow/fast.rs`, are used.
    fast_paths: FastPaths,
    scatter: Scatter,
    closing: Closing,
    scheduling: Scheduling,
    fallback: Fallback,

    // The two halves of the data level.
    recv: RecvState,
    send: SendState,
    advertised: Advertised,
    /// The DSN of the first byte of the local stream.
    local_dsn: Dsn,
    /// The DSN of the peer's first byte.
    remote_dsn: Dsn,
    pub(crate) keys: Keys,

    // Timers of the data level.
    timers: TimerTable,
    head_repair: HeadRepair,
    persist: Persist,

    // Changed by most segments.
    stats: ConnectionStats,
    pub(crate) events: EventQueue,
    pub(crate) congestion: AnyCongestion,
    pub(crate) paths: PathsState,

    // The rest.
    challenges: Challenges,
    keepalive: Keepalive,
    past: Vec<SubflowStats>,
    opportunistic: Opportunistic,
}

/// The parameters of a new connection.
pub(crate) struct ConnectionSetup {
    pub id: ConnectionId,
    pub initiator: bool,
    pub mode: Mode,
    pub local_key: Key,
    pub local_token: u32,
    pub local_dsn: Dsn,
    pub addresses: Vec<crate::path_manager::HostAddress>,
    pub tick: TimestampTick,
    pub fast_paths: FastPaths,
}

impl Connection {
    pub(crate) fn new(now: Time, setup: ConnectionSetup, config: Arc<SimConfig>) -> Connection {
        let scheduling = Scheduling::new(&config);
        let mut recv = RecvState::new(config.receive_buffer);
        if config.ack.growth {
            // The maximum that a SYN can advertise.
            recv.begin_with(u64::from(u16::MAX));
            recv.begin_with(config.first_window(setup.initiator));
            recv.limit_by(config.receive_memory());
        }
        Connection {
            id: setup.id,
            initiator: setup.initiator,
            mode: setup.mode,
            phase: Phase::Opening,
            keys: Keys::new(setup.local_key, setup.local_token),
            local_dsn: setup.local_dsn,
            remote_dsn: Dsn(0),
            confirmed: false,
            checksummed: setup.mode == Mode::Mptcp && config.checksums == Checksums::Required,
            tick: setup.tick,
            fallback: Fallback::default(),
            challenges: Challenges::default(),
            keepalive: Keepalive::NEW,
            peer_wide: false,
            subflows: Subflows::new(),
            past: Vec::new(),
            congestion: config.congestion.build().with_lisa(config.lisa),
            opportunistic: Opportunistic::new(
                now,
                scheduling.opportunistic().unwrap_or(config.opportunistic),
            ),
            scheduling,
            paths: PathsState::new(&config.path_manager, setup.addresses),
            send: SendState::default(),
            recv,
            advertised: Advertised::default(),
            scatter: Scatter::new(config.only.scatter_switch, setup.mode),
            rotation: Rotation::default(),
            events: EventQueue::default(),
            stats: ConnectionStats::default(),
            timers: TimerTable::IDLE,
            head_repair: HeadRepair::default(),
            persist: Persist::new(now),
            closing: Closing::default(),
            wanted: Wanted::NOTHING,
            rules: Rules::of(&config),
            fast_paths: setup.fast_paths,
            config,
        }
    }

    /// Prefetches the state that a segment uses that will be received for the subflow `id`, with data or without.
    pub(crate) fn fetch(&self, id: SubflowId, data: bool) {
        fn line<T>(field: &T) {
            prefetch_index(slice::from_ref(field), 0);
        }
        line(&self.rules);
        line(&self.wanted);
        line(&self.scheduling);
        line(&self.fallback);
        line(&self.recv);
        line(&self.send);
        line(&self.send.window_end);
        line(&self.advertised);
        line(&self.timers);
        line(&self.stats);
        line(&self.congestion);
        self.subflows.fetch(id.index(), data);
    }

    /// Returns its subflows that have not ended.
    pub(crate) fn live_subflows(&self) -> impl Iterator<Item = &Subflow> {
        self.subflows.iter().filter(|subflow| !subflow.state().is_closed())
    }

    pub(crate) fn is_dead(&self) -> bool {
        self.phase == Phase::Ended && self.live_subflows().next().is_none()
    }

    /// True if data is assigned to the send buffers of subflows as Linux does, and data of a failing subflow is not
    /// moved until the data level's timer expires: with Linux's scheduler.
    #[inline]
    fn models_buffers(&self) -> bool {
        self.rules.linux_buffers && self.mode == Mode::Mptcp
    }

    /// Returns the data that waits for acknowledgements that let a packet grow, as in Linux.
    #[inline]
    fn deferral(&self) -> Deferral {
        match self.mode {
            _ if !self.rules.tso_defer => Deferral::Nothing,
            Mode::Mptcp if self.rules.linux_buffers => Deferral::Packets,
            Mode::Mptcp => Deferral::Nothing,
            Mode::Plain => {
                Deferral::Stream { unassigned: self.send.written - self.send.nxt, ends: self.send.closed }
            }
        }
    }

    /// Copies the window of a subflow from the congestion control, after any call to it.
    #[inline]
    fn refresh_window(&mut self, at: usize) {
        self.subflows[at].refresh_window(&self.congestion);
    }

    /// Reports to the observer the windows of every subflow if its congestion window or threshold differs
    /// from the last report, for any cause.
    #[inline]
    pub(crate) fn report_windows<O: Observer>(&mut self, now: Time, observer: &mut O) {
        if !O::EVENTS.has(StackEvents::WINDOWS) {
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
    fn report_windows_of<O: Observer>(&mut self, now: Time, at: usize, observer: &mut O) {
        if O::EVENTS.has(StackEvents::WINDOWS) {
            let paces = self.paces();
            let subflow = &mut self.subflows[at];
            let (id, own) = (subflow.id(), subflow.report_windows(paces, &self.congestion));
            let windows = Windows { peer_window_edge: self.send.window_end, ..own };
            observer.on_event(now, self.id, &StackEvent::Windows { subflow: id, windows: &windows });
        }
    }

    /// True if a join is currently admitted (RFC 8684 section 3.2). Linux opens and accepts none once the
    /// program has ended its stream, as its connection has left ESTABLISHED.
    pub(crate) fn admits_join(&self) -> bool {
        self.mode == Mode::Mptcp
            && !(self.models_buffers() && self.send.closed)
            && (self.config.only.simultaneous || self.phase == Phase::Open)
            && self.phase != Phase::Ended
            && !(self.send.fin_acked && self.recv.finished())
    }

    /// Returns the index of a subflow, if it exists.
    fn subflow_index(&self, id: SubflowId) -> Option<usize> {
        (id.index() < self.subflows.len()).then_some(id.index())
    }

    /// Panics if the counters disagree with their objects; for tests.
    pub(crate) fn assert_consistent(&self) {
        for subflow in &self.subflows {
            subflow.assert_consistent();
        }
        assert!(self.send.una <= self.send.nxt && self.send.nxt <= self.send.written);
        // Every written byte is acknowledged, assigned to a subflow, or unassigned.
        let held: u64 = self.send.outstanding.as_slice().iter().map(|pending| pending.range.len()).sum();
        assert_eq!(self.send.una + held + self.send.unassigned.total(), self.send.written);
        // Only data assigned to some subflow can be reinjected.
        for pending in self.send.reinject.as_slice() {
            let mut found = 0;
            self.send.outstanding.overlap(pending.range, |part, _| found += part.len());
            assert_eq!(found, pending.range.len(), "reinjection of {:?}", pending.range);
        }
    }

    /// True on the initiator's first subflow until a DSS shows that the listener has both keys (RFC 8684
    /// section 3.1).
    #[inline]
    fn keys_pending(&self, at: usize) -> bool {
        !self.confirmed
            && self.initiator
            && self.mode == Mode::Mptcp
            && self.keys.remote().is_some()
            && !self.config.only.simultaneous
            && !self.subflows[at].handshake().is_join()
    }

    /// True if segments are sent at a pacing rate.
    #[inline]
    fn paces(&self) -> bool {
        self.rules.pacing || self.congestion.paces()
    }

    /// Returns the maximum retransmission timeout of the usable subflows.
    fn max_rto(&self) -> Duration {
        context::max_rto(&self.subflows, &self.config)
    }

    fn waiting_for_progress(&self) -> bool {
        self.send.una < self.send.written || (self.send.closed && !self.send.fin_acked)
    }
}
