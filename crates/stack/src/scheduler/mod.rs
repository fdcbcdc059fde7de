//! Packet schedulers, which decide which data each subflow carries, and report the reason.
//!
//! A scheduler receives a read-only [`View`] and returns one [`Decision`] at a time until it returns
//! [`Decision::Wait`]. Assigned data stays in the subflow's own queue until its congestion window, pacing and
//! the receive windows allow it to be sent. All ranges are stream offsets, counted from 0.

mod anabranch;
mod any;
mod blest;
mod cp;
mod custom;
mod daps;
mod delay;
mod dmptcp;
mod ecf;
mod kimura;
mod linux;
mod ll_bm;
mod ll_rp;
mod min_rtt;
mod opportunistic;
mod otias;
mod pick;
mod priority;
mod redundant;
mod round_robin;
mod small_queues;
mod stms;
mod sttf;
mod weighted_round_robin;

use anabranch_units::{Duration, Rate, Time};

pub use anabranch::{Anabranch, AnabranchOptions};
pub use any::{AnyScheduler, SchedulerKind};
pub use blest::{Blest, BlestOptions, BlestProfile};
pub use cp::{Available, CpConservative, CpOptions, CpRadical, DeliveryModel, Probing};
pub use custom::CustomSchedulerKind;
pub use daps::{Daps, DapsOptions};
pub use delay::{DelayThreshold, DelayThresholdOptions, Freeze, FreezeOptions};
pub use dmptcp::{Choice, Dmptcp, DmptcpOptions, FileSize, FirstRound, UnknownSize};
pub use ecf::{Ecf, EcfOptions, EcfProfile};
pub use kimura::{Hsr, HsrOptions, Lts, Lws, SendingRate};
pub(crate) use linux::AfterTimeout;
pub use linux::{Linux, LinuxOptions};
pub use ll_bm::{LlBm, LlBmOptions};
pub use ll_rp::{LlRp, LlRpOptions};
pub use min_rtt::MinRtt;
pub use opportunistic::OpportunisticRetransmission;
pub use otias::{Otias, OtiasOptions, OtiasWait};
pub use priority::{Backup, PriorityOptions, StrictPriority};
pub use redundant::Redundant;
pub use round_robin::{RoundRobin, RoundRobinOptions};
pub(crate) use small_queues::SmallQueues;
pub use stms::{Bandwidth, StmsA, StmsAOptions, StmsC, StmsCOptions};
pub use sttf::{Sttf, SttfOptions, SttfRtt};
pub use weighted_round_robin::{WeightedRoundRobin, WeightedRoundRobinOptions};

use crate::congestion::{AnyCongestion, CongestionControl, Growth};
use crate::event::{SubflowId, SubflowSet};
use crate::known::{KnownPath, KnownPaths};
use crate::segment::Address;
use crate::seq::DataRange;

/// The state of a subflow's loss recovery.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub enum RecoveryState {
    /// No loss is being repaired.
    #[default]
    Open,
    /// Fast recovery is repairing a loss.
    Recovery,
    /// The retransmission timer has expired, and the data then in flight is not yet all acknowledged.
    Loss,
}

/// A scheduler's view of one subflow.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct SubflowView {
    /// The subflow's ID.
    pub id: SubflowId,
    /// Its local address.
    pub local: Address,
    /// Its remote address.
    pub remote: Address,
    /// True if the subflow may carry data: it is established (a join, after the fourth ACK) and not closing.
    pub usable: bool,
    /// True if the retransmission timer has expired and nothing has been received since.
    pub potentially_failed: bool,
    /// Consecutive timeouts without an acknowledgement between them; 0 unless the subflow is potentially
    /// failed.
    pub timeouts: u32,
    /// True if either side asked to use the subflow only when no other works.
    pub backup: bool,
    /// The state of loss recovery.
    pub recovery: RecoveryState,
    /// The congestion window in bytes, in whole segments.
    pub cwnd: u64,
    /// The slow-start threshold in bytes; `None` until the first loss.
    pub ssthresh: Option<u64>,
    /// Bytes in flight: sent, and neither acknowledged nor marked lost.
    pub inflight: u64,
    /// Bytes assigned to the subflow and not yet sent for the first time.
    pub queued: u64,
    /// Bytes sent and not yet cumulatively acknowledged on this subflow, including those marked lost and
    /// those selectively acknowledged.
    pub unacked: u64,
    /// The part of `unacked` up to the end of the last short segment: a further short one waits until it is acknowledged (Nagle's
    /// algorithm). 0 if none would wait.
    pub short_unacked: u64,
    /// Bytes that the subflow's own receive window admits beyond sent and queued data.
    pub window_room: u64,
    /// The smoothed RTT, or the handshake's RTT if there is no other sample. `None` before any sample.
    pub srtt: Option<Duration>,
    /// The RTT variation (RFC 6298).
    pub rttvar: Duration,
    /// The minimum of the smoothed RTT; `None` before any sample.
    pub srtt_min: Option<Duration>,
    /// The maximum of the smoothed RTT; `None` before any sample.
    pub srtt_max: Option<Duration>,
    /// The minimum RTT sample.
    pub min_rtt: Duration,
    /// The latest RTT sample.
    pub last_rtt: Duration,
    /// The maximum payload of a segment.
    pub mss: u64,
    /// The congestion control's pacing rate, if it sets one.
    pub pacing_rate: Option<Rate>,
    /// The latest delivery rate sample; zero before the first.
    pub delivery_rate: Rate,
    /// The relative one-way delay of the latest sample, in microseconds. Only differences are meaningful.
    pub one_way_delay_us: Option<i64>,
    /// The ratio of segments marked lost to segments sent, smoothed over round trips.
    pub loss_rate: f64,
    /// Bytes sent on the subflow, including retransmissions.
    pub bytes_sent: u64,
    /// The time at which the subflow became usable, or before that the time of its creation. It distinguishes
    /// two subflows that use the same ID one after the other.
    pub established: Time,
    /// The time at which the last segment was received.
    pub last_received: Time,
    /// The times at which the first and the last of the segments that are not cumulatively acknowledged were last sent; `None` without one.
    pub sent: Option<(Time, Time)>,
    /// The subflow's own send buffer in bytes, including the memory overhead of the payload; the maximum
    /// value if it has none.
    pub send_buffer: u32,
}

impl SubflowView {
    /// Returns a usable subflow with nothing in flight, the given smoothed RTT and a window of `cwnd`
    /// segments of `mss` bytes. Tests set the remaining fields directly.
    #[inline]
    pub fn idle(id: SubflowId, srtt: Duration, cwnd: u64, mss: u64) -> SubflowView {
        const NONE: Address = Address::new(core::net::IpAddr::V4(core::net::Ipv4Addr::UNSPECIFIED), 0);
        SubflowView {
            id,
            local: NONE,
            remote: NONE,
            usable: true,
            potentially_failed: false,
            timeouts: 0,
            backup: false,
            recovery: RecoveryState::Open,
            cwnd: cwnd * mss,
            ssthresh: None,
            inflight: 0,
            queued: 0,
            unacked: 0,
            short_unacked: 0,
            window_room: 1 << 30,
            srtt: Some(srtt),
            rttvar: Duration::ZERO,
            srtt_min: Some(srtt),
            srtt_max: Some(srtt),
            min_rtt: srtt,
            last_rtt: srtt,
            mss,
            pacing_rate: None,
            delivery_rate: Rate(0),
            one_way_delay_us: None,
            loss_rate: 0.0,
            bytes_sent: 0,
            established: Time::ZERO,
            last_received: Time::ZERO,
            sent: None,
            send_buffer: u32::MAX,
        }
    }

    /// Returns the bytes of new data, in whole segments, that windows and queue admit now.
    pub fn room(&self) -> u64 {
        let free = self.cwnd.saturating_sub(self.inflight + self.queued).min(self.window_room);
        free - free % self.mss.max(1)
    }

    /// True if new data may be assigned to the subflow: the availability rule of the out-of-tree kernel,
    /// without the check for free window.
    pub fn may_carry(&self) -> bool {
        self.usable && !self.potentially_failed && self.recovery != RecoveryState::Loss
    }
}

/// Data to be assigned to a subflow that has not carried it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pending {
    /// The data.
    pub range: DataRange,
    /// The subflows to which the data was ever assigned.
    pub tried: SubflowSet,
}

/// A scheduler's view of the connection.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// The current time.
    pub now: Time,
    /// The existing subflows in the order of their IDs; not all are usable.
    pub subflows: &'a [SubflowView],
    /// Data written and never assigned to a subflow; ascending, disjoint.
    pub unassigned: &'a [DataRange],
    /// Data to be reinjected on another subflow; ascending, disjoint; it precedes new data.
    pub reinject: &'a [Pending],
    /// Data assigned to a subflow and not yet acknowledged at the data level; ascending, disjoint.
    pub outstanding: &'a [Pending],
    /// The first offset not acknowledged at the data level.
    pub data_una: u64,
    /// The first offset that was never assigned to a subflow.
    pub data_nxt: u64,
    /// The right edge of the connection's receive window; no data beyond it may be assigned.
    pub window_end: u64,
    /// The full window that the peer advertises, in bytes from its data acknowledgement.
    pub peer_window: u64,
    /// Bytes of the flow never assigned to any subflow: from the size that the application announced, or else
    /// the unassigned data in the send buffer.
    pub remaining: u64,
    /// True if `remaining` comes from a size that the application announced.
    pub size_known: bool,
    /// True if the send buffer had no space for all of the last write: the application has more to write.
    pub send_buffer_full: bool,
    /// The size to which the send buffer can grow, in bytes.
    pub send_buffer_max: u64,
    /// Bytes written by the application so far.
    pub written: u64,
    /// Number of expirations of the data-level retransmission timer.
    pub data_timeouts: u64,
    /// True if new data may be assigned up to `window_end` inside a segment: `fill-window`.
    pub fills_window: bool,
    /// True if the congestion windows of the subflows are coupled.
    pub coupled: bool,
    /// The paths that this host knows from before; `None` in the views of tests.
    pub known: Option<&'a KnownPaths>,
    /// The congestion control, for schedulers that predict the growth of a window; `None` in the views of
    /// tests.
    pub congestion: Option<&'a AnyCongestion>,
}

/// True if an end of less than a segment is little of the send buffer, which holds `buffered` bytes: it waits for a program that has more to write.
/// In a small buffer it is much of what may be in flight.
pub(crate) fn is_end_small(buffered: u64, mss: u64) -> bool {
    buffered >= 10 * mss
}

impl<'a> View<'a> {
    /// Returns the view of a sender that has written `unassigned` and sent nothing, with unlimited windows.
    /// Tests set the remaining fields directly.
    pub fn fresh(now: Time, subflows: &'a [SubflowView], unassigned: &'a [DataRange]) -> View<'a> {
        let remaining = unassigned.iter().map(|range| range.len()).sum();
        View {
            now,
            subflows,
            unassigned,
            reinject: &[],
            outstanding: &[],
            data_una: 0,
            data_nxt: 0,
            window_end: u64::MAX / 2,
            peer_window: u64::MAX / 2,
            remaining,
            size_known: true,
            send_buffer_full: false,
            send_buffer_max: u64::MAX / 2,
            written: unassigned.last().map_or(0, |range| range.end),
            data_timeouts: 0,
            fills_window: false,
            coupled: false,
            known: None,
            congestion: None,
        }
    }

    /// Returns the subflow with the given ID.
    pub fn subflow(&self, id: SubflowId) -> Option<&SubflowView> {
        self.subflows.iter().find(|subflow| subflow.id == id)
    }

    /// Returns what this host knows of the path of `subflow` from before.
    pub fn known(&self, subflow: &SubflowView) -> Option<&KnownPath> {
        self.known?.between(subflow.local.ip, subflow.remote.ip)
    }

    /// Returns the growth of the window of `subflow` as its congestion control reports it, or else as derived
    /// from its slow-start threshold.
    pub fn growth(&self, subflow: &SubflowView) -> Growth {
        match self.congestion {
            Some(congestion) => congestion.growth(subflow.id),
            None if subflow.ssthresh.is_none_or(|threshold| subflow.cwnd < threshold) => Growth::SlowStart,
            None => Growth::Acks,
        }
    }

    /// Returns the first unassigned bytes that the connection's window admits, at most `limit`, not rounded
    /// to segments.
    pub fn next_new(&self, limit: u64) -> Option<DataRange> {
        let first = self.unassigned.first()?;
        let end = first.end.min(self.window_end).min(first.start.saturating_add(limit));
        (end > first.start).then_some(DataRange::new(first.start, end))
    }
}

/// Distinguishes new data from data that another subflow has carried.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AssignKind {
    /// No subflow has carried the data.
    New,
    /// A copy of data that another subflow carries too.
    Copy,
    /// Data of a failed subflow.
    Reinject,
}

/// The reason of a decision, with the scores it is based on.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Why {
    /// The rule that decided.
    pub rule: Rule,
    /// The score of the chosen subflow, in the rule's measure.
    pub score: f64,
    /// The best score of the other subflows; NaN if there is none.
    pub other: f64,
}

impl Why {
    /// Returns a reason without scores.
    pub const fn rule(rule: Rule) -> Why {
        Why { rule, score: f64::NAN, other: f64::NAN }
    }

    /// Returns a reason with the score of the chosen subflow and the best of the others.
    pub const fn scored(rule: Rule, score: f64, other: f64) -> Why {
        Why { rule, score, other }
    }
}

/// The rule that decided.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rule {
    /// There is nothing to send.
    NothingToSend,
    /// The connection's receive window is full.
    WindowFull,
    /// No usable subflow has free window.
    NoRoom,
    /// No subflow is usable.
    NoSubflow,
    /// The smoothed RTT in seconds; the lowest wins.
    LowestRtt,
    /// The subflow's turn.
    Turn,
    /// Every subflow carries the whole stream.
    EverySubflow,
    /// A faster subflow is full and the slower ones are not selected. Scores: the bytes that the selected
    /// subflows are predicted to send, and the bytes that remain.
    NotSelected,
    /// The linger time in seconds, the lowest wins: the subflow's unacknowledged and queued data divided by
    /// its rate.
    Linger,
    /// The credit, highest wins, and the subflow's weight.
    Weight,
    /// The rate in bytes per second; the highest wins.
    HighestRate,
    /// The free segments of the window; the most wins.
    LargestSpace,
    /// The RTT in seconds divided by the free segments of the window; the lowest wins.
    LeastTimePerSpace,
    /// The predicted arrival in seconds from now; the earliest wins.
    EarliestArrival,
    /// A slot of a precomputed schedule.
    Schedule,
    /// The scheduler waits for the fast subflow, because a segment on the slow one would block the
    /// connection's window. Scores: the bytes needed meanwhile, and the bytes available.
    WouldBlock,
    /// The scheduler waits for the fast subflow, because it would finish sooner than the slow one. Scores in
    /// seconds.
    FasterToWait,
    /// The slow subflow pauses. Scores: the bytes that would arrive out of order, and the buffer for them.
    NoBuffer,
    /// A packet that probes a paused subflow. Scores: its guard time in seconds, and the number of its pauses.
    PathProbe,
    /// The RTT of the subflow exceeds the configured limit.
    TooSlow,
    /// The offset in segments from the next data, chosen so that the data arrives in order.
    Gap,
    /// The subflow with the highest priority.
    Priority,
    /// The subflow is frozen: its RTT, in seconds, exceeds the RTT of the fastest by too much.
    Frozen,
    /// The subflow may not carry data, and its queued data is recalled.
    Stranded,
    /// Queued data is redistributed.
    Rebalance,
    /// Data of a failed subflow.
    Reinjection,
    /// Data that blocks the receive window.
    Opportunistic,
    /// A copy of the last data of a flow. Scores: the seconds until the copy is predicted to arrive, and until the data
    /// arrives on the subflow that has it.
    Tail,
    /// A rule of a user-defined scheduler.
    Custom(u16),
}

/// A scheduler's answer.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Decision {
    /// Appends the range to the queue of the subflow.
    Assign {
        /// The subflow that gets the data.
        subflow: SubflowId,
        /// The data; inside the connection's window.
        range: DataRange,
        /// Whether the data is new.
        kind: AssignKind,
        /// The reason.
        why: Why,
    },
    /// Removes data never sent from the subflow's queue.
    Recall {
        /// The subflow that loses the data.
        subflow: SubflowId,
        /// The data, as a range of the stream; the parts that are not in the queue do not count.
        range: DataRange,
        /// The reason.
        why: Why,
    },
    /// Nothing more can be assigned now.
    Wait {
        /// The time at which to ask again even if nothing happens before.
        until: Option<Time>,
        /// The reason.
        why: Why,
    },
}

/// An event reported to a scheduler between its decisions.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum SchedulerEvent {
    /// A subflow has become usable.
    SubflowUp(SubflowId),
    /// A subflow has ended; its unsent data is unassigned again.
    SubflowDown(SubflowId),
    /// The application has written data.
    Written,
    /// Data was sent on a subflow for the first time.
    Sent {
        /// The subflow that sent it.
        subflow: SubflowId,
        /// The data, as a range of the stream.
        range: DataRange,
    },
    /// Bytes were acknowledged on a subflow.
    Acked {
        /// The subflow that sent them.
        subflow: SubflowId,
        /// Newly acknowledged payload.
        bytes: u64,
    },
    /// The data acknowledgement has advanced.
    DataAcked {
        /// The first offset newly acknowledged.
        from: u64,
        /// The first offset not yet acknowledged.
        to: u64,
        /// The subflows that carried the first of these bytes.
        carried_by: SubflowSet,
    },
    /// Segments of a subflow were marked lost.
    Lost {
        /// The subflow that sent them.
        subflow: SubflowId,
        /// Newly lost segments.
        segments: u32,
    },
    /// A subflow's retransmission timer has expired.
    Timeout(SubflowId),
}

/// A set of kinds of [`SchedulerEvent`].
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct EventKinds(u8);

impl EventKinds {
    /// The empty set.
    pub const NONE: EventKinds = EventKinds(0);
    /// [`SchedulerEvent::SubflowUp`].
    pub const SUBFLOW_UP: EventKinds = EventKinds(1);
    /// [`SchedulerEvent::SubflowDown`].
    pub const SUBFLOW_DOWN: EventKinds = EventKinds(2);
    /// [`SchedulerEvent::Written`].
    pub const WRITTEN: EventKinds = EventKinds(4);
    /// [`SchedulerEvent::Sent`].
    pub const SENT: EventKinds = EventKinds(8);
    /// [`SchedulerEvent::Acked`].
    pub const ACKED: EventKinds = EventKinds(16);
    /// [`SchedulerEvent::DataAcked`].
    pub const DATA_ACKED: EventKinds = EventKinds(32);
    /// [`SchedulerEvent::Lost`].
    pub const LOST: EventKinds = EventKinds(64);
    /// [`SchedulerEvent::Timeout`].
    pub const TIMEOUT: EventKinds = EventKinds(128);
    /// All kinds.
    pub const ALL: EventKinds = EventKinds(255);

    /// Returns the union with `other`.
    pub const fn and(self, other: EventKinds) -> EventKinds {
        EventKinds(self.0 | other.0)
    }

    /// True if the set contains all of `other`.
    pub const fn has(self, other: EventKinds) -> bool {
        self.0 & other.0 == other.0
    }
}

impl SchedulerEvent {
    /// Returns the kind of the event.
    pub const fn kind(&self) -> EventKinds {
        match self {
            SchedulerEvent::SubflowUp(_) => EventKinds::SUBFLOW_UP,
            SchedulerEvent::SubflowDown(_) => EventKinds::SUBFLOW_DOWN,
            SchedulerEvent::Written => EventKinds::WRITTEN,
            SchedulerEvent::Sent { .. } => EventKinds::SENT,
            SchedulerEvent::Acked { .. } => EventKinds::ACKED,
            SchedulerEvent::DataAcked { .. } => EventKinds::DATA_ACKED,
            SchedulerEvent::Lost { .. } => EventKinds::LOST,
            SchedulerEvent::Timeout(_) => EventKinds::TIMEOUT,
        }
    }
}

/// A packet scheduler.
pub trait Scheduler {
    /// Returns the next decision. It is called again until it returns [`Decision::Wait`].
    ///
    /// A decision that the view does not allow (an unknown subflow, a range that does not exist or lies
    /// outside the window) counts as a wait.
    fn decide(&mut self, view: &View<'_>) -> Decision;

    /// Handles an event.
    fn on_event(&mut self, _view: &View<'_>, _event: &SchedulerEvent) {}

    /// Returns the events for which [`Scheduler::on_event`] is called. Asked once; each event costs the
    /// construction of a view.
    fn wants_events(&self) -> EventKinds {
        EventKinds::NONE
    }

    /// True if the scheduler is to be asked even when there is no new data, as long as some subflow has
    /// queued data that it could recall. Asked once.
    fn revises_queues(&self) -> bool {
        false
    }

    /// True if the scheduler is to be asked even when there is no new data, as long as it could send copies of outstanding
    /// data. Asked once.
    fn copies_outstanding(&self) -> bool {
        false
    }

    /// True if the scheduler is to be asked even when there is only one subflow, which is otherwise filled as
    /// its window allows. Asked once.
    fn decides_alone(&self) -> bool {
        false
    }

    /// Returns the scheduler's own mode of opportunistic retransmission and penalisation, which overrides the
    /// connection's mode; `None` leaves the connection's. Asked once.
    fn opportunistic(&self) -> Option<OpportunisticRetransmission> {
        None
    }
}

/// A user-defined scheduler.
pub trait CustomScheduler: Scheduler + Send {
    /// Returns a copy, so that a run can be forked.
    fn clone_box(&self) -> Box<dyn CustomScheduler>;
}

impl Clone for Box<dyn CustomScheduler> {
    fn clone(&self) -> Self {
        self.clone_box()
    }
}
