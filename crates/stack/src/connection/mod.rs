//! One connection: the data level of RFC 8684 over its subflows, or a plain TCP.
//!
//! Calls between the files lead downwards in this list, so that each can be read with those below it alone
//! (`tools/structure.py` finds call cycles):
//!
//! 1. The entrances, which the endpoint calls: `receive.rs` (a segment has arrived), `transmit.rs` (what is sent next),
//!    `timers.rs` (what is due), `application.rs` (a call of the program). `fast.rs` has the fast paths of the first two.
//! 2. The steps of a segment that arrives: `handshake.rs` with `simultaneous_open.rs`; `checksum.rs`, `payload.rs`,
//!    `hold.rs` and `mapping.rs` for the payload; `fallback.rs` for the way back to TCP; `ack.rs` for acknowledgements of
//!    both levels.
//! 3. The steps towards a segment that is sent: `schedule.rs` asks the scheduler, `make.rs` builds every segment,
//!    `depart.rs` does the bookkeeping of one that is sent.
//! 4. What ends: `close.rs` (our stream, the application's wish), `subflow_end.rs`, `end.rs` (the connection).
//! 5. The parts: `data_timer.rs`, `reinject.rs`, `paths.rs`, `persist.rs`, `keepalive.rs`, `deliver.rs`, `send_space.rs`,
//!    `negotiate.rs`, `challenge.rs`, `scheduling.rs`.
//! 6. The state: this file, with the questions that all ask, the halves of the data level in `send_state.rs` and
//!    `recv_state.rs`, and `timer_table.rs`.

mod ack;
mod application;
mod challenge;
mod checksum;
mod close;
mod data_timer;
mod deliver;
mod depart;
mod end;
mod fallback;
mod fast;
mod handshake;
mod hold;
mod keepalive;
mod make;
mod mapping;
mod negotiate;
mod paths;
mod payload;
mod persist;
mod receive;
mod recv_state;
mod reinject;
mod schedule;
mod scheduling;
mod send_space;
mod send_state;
mod simultaneous_open;
mod step;
mod subflow_end;
mod timer_table;
mod timers;
mod transmit;
mod wanted;

use std::collections::VecDeque;
use std::sync::Arc;

use anabranch_units::{Duration, Time};

use crate::config::{Checksums, ConnectionConfig};
use crate::congestion::{AnyCongestion, CongestionControl};
use crate::event::{ConnectionId, Event, SubflowId};
use crate::observer::Observer;
use crate::path_manager::{AnyPathManager, HostAddress};
use crate::scheduler::SchedulerKind;
use crate::segment::Key;
use crate::seq::Dsn;
use crate::stats::{ConnectionStats, SubflowStats};
use crate::subflow::Subflow;
use crate::timestamp::TimestampTick;

use challenge::Challenges;
use close::Closing;
use fallback::Fallback;
pub(crate) use negotiate::{find_capable, find_join, is_acceptable_offer, own_scale};
use paths::PathsState;
use persist::Persist;
pub(crate) use recv_state::RecvState;
use reinject::HeadRepair;
use scheduling::Scheduling;
use send_state::SendState;
use timer_table::TimerTable;
pub(crate) use transmit::TURN;
use wanted::Wanted;

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
    pub(crate) wanted: Wanted,
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
    /// The peer sends 64-bit DSNs, so our data ACKs must have 64 bits (section 3.3.2).
    pub(crate) peer_wide: bool,
    readable_pending: bool,
    remote_fin_told: bool,
    /// The functions of `fast.rs`, and of `subflow/fast.rs`, are used.
    pub(crate) fast_paths: bool,
    scheduling: Scheduling,
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
    /// When the connection began.
    born: Time,
    /// As the scheduler wants it, or else the configuration.
    opportunistic: crate::config::OpportunisticRetransmission,
    /// When a penalty was last imposed, by fast subflow; not at all before the first.
    last_opportunistic: Vec<Time>,
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
        let scheduling = Scheduling::new(&config.scheduler);
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
            peer_wide: false,
            subflows: Vec::with_capacity(1),
            past: Vec::new(),
            congestion: config.congestion.build().with_lisa(config.lisa),
            opportunistic: scheduling.opportunistic().unwrap_or(config.opportunistic),
            scheduling,
            path_manager: config.path_manager.build(&birth.addresses),
            paths: PathsState::new(birth.addresses),
            send: SendState::default(),
            recv,
            last_data_ack_sent: 0,
            last_edge_sent: 0,
            data_ack_told: 0,
            room_told: 0,
            cursor: 0,
            turn: 0,
            last_opportunistic: Vec::new(),
            born: now,
            events: VecDeque::new(),
            readable_pending: false,
            remote_fin_told: false,
            stats: ConnectionStats::default(),
            timers: TimerTable::IDLE,
            head_repair: HeadRepair::default(),
            persist: Persist::default(),
            closing: Closing::default(),
            progress_at: now,
            wanted: Wanted::NEW,
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

    /// Whether the send buffers are those of Linux, and data of a subflow in trouble stays where it is until the data
    /// level's timer runs out: with Linux's scheduler.
    #[inline]
    pub(crate) fn models_buffers(&self) -> bool {
        self.config.send_buffers.is_some()
            && self.mode == Mode::Mptcp
            && matches!(self.config.scheduler, SchedulerKind::Linux(_))
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

    /// Whether a join is admitted now (RFC 8684 section 3.2). Linux opens and takes none once the program has ended its
    /// stream, as its connection has left ESTABLISHED.
    pub(crate) fn admits_join(&self) -> bool {
        self.mode == Mode::Mptcp
            && !(self.models_buffers() && self.send.closed)
            && (self.config.simultaneous || self.phase == Phase::Open)
            && self.phase != Phase::Ended
            && !(self.send.fin_acked && self.recv.finished())
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

    /// True on the initiator's first subflow until a DSS shows that the listener has both keys (RFC 8684
    /// section 3.1).
    #[inline]
    pub(super) fn keys_pending(&self, at: usize) -> bool {
        !self.confirmed
            && self.initiator
            && self.mode == Mode::Mptcp
            && self.remote_key.is_some()
            && !self.config.simultaneous
            && !self.subflows[at].is_join()
    }

    /// How many bytes a subflow offers at the most.
    #[inline]
    pub(super) fn offered(&self, at: usize) -> u64 {
        if self.config.ack.growth { self.subflows[at].recv().growth.window() } else { u64::MAX }
    }

    /// Whether segments leave at a pacing rate.
    #[inline]
    pub(super) fn paces(&self) -> bool {
        self.config.pacing || self.congestion.paces()
    }

    /// The greatest retransmission timeout of the usable subflows.
    pub(crate) fn max_rto(&self) -> Duration {
        let backoff = self.config.rto.backoff;
        self.subflows
            .iter()
            .filter(|subflow| subflow.is_synchronised())
            .map(|subflow| subflow.rtt().rto(if backoff { subflow.recovery().timeouts() } else { 0 }))
            .max()
            .unwrap_or(self.config.rto.initial)
    }

    pub(super) fn heard_at(&self) -> Time {
        self.subflows.iter().map(|subflow| subflow.last_received()).max().unwrap_or(Time::ZERO)
    }

    pub(super) fn waiting_for_progress(&self) -> bool {
        self.send.una < self.send.written || (self.send.closed && !self.send.fin_acked)
    }
}
