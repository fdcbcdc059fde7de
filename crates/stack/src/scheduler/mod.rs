//! Packet schedulers: which data goes on which subflow, and why.
//!
//! A scheduler sees a read-only [`View`] and answers with one [`Decision`] at a time until it says
//! [`Decision::Wait`]. What it assigns waits in the subflow's own queue until congestion window,
//! pacing and receive windows let it go. All ranges are offsets in the stream, from 0.

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
mod otias;
mod pick;
mod priority;
mod redundant;
mod round_robin;
mod stms;
mod sttf;
mod weighted_round_robin;

use anabranch_units::{Duration, Rate, Time};

pub use any::{AnyScheduler, SchedulerKind};
pub use blest::{Blest, BlestOptions, BlestProfile};
pub use cp::{Available, CpConservative, CpOptions, CpRadical, DeliveryModel, Probing};
pub use custom::CustomSchedulerKind;
pub use daps::{Daps, DapsOptions};
pub use delay::{DelayThreshold, DelayThresholdOptions, Freeze, FreezeOptions};
pub use dmptcp::{Choice, Dmptcp, DmptcpOptions, FileSize, FirstRound, UnknownSize};
pub use ecf::{Ecf, EcfOptions, EcfProfile};
pub use kimura::{Hsr, HsrOptions, Lts, Lws, SendingRate};
pub use linux::{Linux, LinuxOptions};
pub use ll_bm::{LlBm, LlBmOptions};
pub use ll_rp::{LlRp, LlRpOptions};
pub use min_rtt::MinRtt;
pub use otias::{Otias, OtiasOptions, OtiasWait};
pub use priority::{Backup, PriorityOptions, StrictPriority};
pub use redundant::Redundant;
pub use round_robin::{RoundRobin, RoundRobinOptions};
pub use stms::{Bandwidth, StmsA, StmsAOptions, StmsC, StmsCOptions};
pub use sttf::{Sttf, SttfOptions, SttfRtt};
pub use weighted_round_robin::{WeightedRoundRobin, WeightedRoundRobinOptions};

use crate::config::OpportunisticRetransmission;
use crate::congestion::{AnyCongestion, CongestionControl, Growth};
use crate::event::{SubflowId, SubflowSet};
use crate::seq::DataRange;

/// The state of a subflow's loss recovery.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub enum RecoveryState {
    /// No loss is being repaired.
    #[default]
    Open,
    /// A loss is being repaired by fast recovery.
    Recovery,
    /// The retransmission timer has run out, and what was in flight is not all repaired.
    Loss,
}

/// What a scheduler sees of one subflow.
#[derive(Clone, Copy, Debug)]
pub struct SubflowView {
    /// Its name.
    pub id: SubflowId,
    /// It may carry data: established, for a join after the fourth ACK, and not closing.
    pub usable: bool,
    /// A timeout has fired and nothing came back since.
    pub potentially_failed: bool,
    /// Timeouts in a row with no acknowledgement between them; 0 unless it is potentially failed.
    pub timeouts: u32,
    /// Either side asked to use it only when no other works.
    pub backup: bool,
    /// Loss recovery.
    pub recovery: RecoveryState,
    /// The congestion window in bytes, in whole segments.
    pub cwnd: u64,
    /// The slow-start threshold in bytes; none until the first loss.
    pub ssthresh: Option<u64>,
    /// Bytes in flight: sent, and neither acknowledged nor taken for lost.
    pub inflight: u64,
    /// Bytes assigned to it and not yet sent for the first time.
    pub queued: u64,
    /// Bytes sent, and not yet acknowledged there in order; those taken for lost and those selectively
    /// acknowledged count.
    pub unacked: u64,
    /// Bytes that its own receive window still admits behind what is sent and queued.
    pub window_room: u64,
    /// The smoothed RTT; the handshake's where there is no other. None before any sample.
    pub srtt: Option<Duration>,
    /// The RTT variation of RFC 6298.
    pub rttvar: Duration,
    /// The least that the smoothed RTT has been; none before any sample.
    pub srtt_min: Option<Duration>,
    /// The most that it has been; none before any sample.
    pub srtt_max: Option<Duration>,
    /// The least RTT sample.
    pub min_rtt: Duration,
    /// The last RTT sample.
    pub last_rtt: Duration,
    /// The most payload in one segment.
    pub mss: u64,
    /// The congestion control's pacing rate, if it names one.
    pub pacing_rate: Option<Rate>,
    /// The rate at which data was last delivered; zero before a sample.
    pub delivery_rate: Rate,
    /// The relative one-way delay of the last sample, in microseconds: differences count, not the value.
    pub one_way_delay_us: Option<i64>,
    /// Segments taken for lost over segments sent, smoothed over round trips.
    pub loss_rate: f64,
    /// Everything sent on it, in bytes, retransmissions included.
    pub bytes_sent: u64,
    /// When it became usable, or else began; another subflow of the same ID began at another time.
    pub established: Time,
    /// When anything last arrived on it.
    pub last_received: Time,
    /// Its own send buffer in bytes, the memory around the payload included; the greatest number if it has none.
    pub send_buffer: u32,
}

impl SubflowView {
    /// A usable subflow with nothing under way: its smoothed RTT, and a window of `cwnd` segments of `mss`
    /// bytes. What else a test wants is set in its fields.
    pub fn idle(id: SubflowId, srtt: Duration, cwnd: u64, mss: u64) -> SubflowView {
        SubflowView {
            id,
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
            send_buffer: u32::MAX,
        }
    }

    /// Bytes of new data, in whole segments, that window and queue still admit at once.
    pub fn room(&self) -> u64 {
        let free = self.cwnd.saturating_sub(self.inflight + self.queued).min(self.window_room);
        free - free % self.mss.max(1)
    }

    /// Whether new data may be put on it: the availability rule of the out-of-tree kernel
    /// but for room.
    pub fn may_carry(&self) -> bool {
        self.usable && !self.potentially_failed && self.recovery != RecoveryState::Loss
    }
}

/// Data that shall go on another subflow than before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pending {
    /// Which data.
    pub range: DataRange,
    /// The subflows it was ever put on.
    pub tried: SubflowSet,
}

/// What a scheduler sees.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// The time.
    pub now: Time,
    /// The subflows that exist, in the order of their IDs; not all are usable.
    pub subflows: &'a [SubflowView],
    /// Written and never given to any subflow, ascending, disjoint.
    pub unassigned: &'a [DataRange],
    /// To be sent again on another subflow, ascending, disjoint; goes before new data.
    pub reinject: &'a [Pending],
    /// Given to a subflow and not yet acknowledged at the data level, ascending, disjoint.
    pub outstanding: &'a [Pending],
    /// Everything before it is acknowledged at the data level.
    pub data_una: u64,
    /// Nothing at or behind it was ever given to a subflow.
    pub data_nxt: u64,
    /// The right edge of the connection's receive window: nothing may go beyond.
    pub window_end: u64,
    /// The whole window that the peer advertises, in bytes from its data acknowledgement.
    pub peer_window: u64,
    /// Bytes of the flow never handed to any subflow: by the size that the application has named,
    /// else what waits in the send buffer.
    pub remaining: u64,
    /// Whether `remaining` comes from a size that the application has named.
    pub size_known: bool,
    /// The application could not write all it has.
    pub send_buffer_full: bool,
    /// How much the application has written.
    pub written: u64,
    /// How often the data-level retransmission timer has run out.
    pub data_timeouts: u64,
    /// The subflows' congestion windows depend on each other.
    pub coupled: bool,
    /// The congestion control, for schedulers that ask how a window goes on; none in a view that a test
    /// makes.
    pub congestion: Option<&'a AnyCongestion>,
}

impl<'a> View<'a> {
    /// A sender that has written `unassigned` and sent nothing yet, with all the windows it could wish. What
    /// else a test wants is set in its fields.
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
            written: unassigned.last().map_or(0, |range| range.end),
            data_timeouts: 0,
            coupled: false,
            congestion: None,
        }
    }

    /// The subflow of that name.
    pub fn subflow(&self, id: SubflowId) -> Option<&SubflowView> {
        self.subflows.iter().find(|subflow| subflow.id == id)
    }

    /// How the window of `subflow` goes on: by its congestion control, or where that is not in view by its
    /// threshold.
    pub fn growth(&self, subflow: &SubflowView) -> Growth {
        match self.congestion {
            Some(congestion) => congestion.growth(subflow.id),
            None if subflow.ssthresh.is_none_or(|threshold| subflow.cwnd < threshold) => Growth::SlowStart,
            None => Growth::Acks,
        }
    }

    /// The first unassigned bytes that the connection's window admits, at most `limit` of them, wherever in a segment
    /// that ends.
    pub fn next_new(&self, limit: u64) -> Option<DataRange> {
        let first = self.unassigned.first()?;
        let end = first.end.min(self.window_end).min(first.start.saturating_add(limit));
        (end > first.start).then_some(DataRange::new(first.start, end))
    }
}

/// Whether data is sent for the first time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AssignKind {
    /// No subflow has it.
    New,
    /// A copy of what another subflow carries as well.
    Copy,
    /// Another subflow has failed with it.
    Reinject,
}

/// The reason of a decision, with the scores behind it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Why {
    /// The rule that decided.
    pub rule: Rule,
    /// What the chosen subflow scored, by the rule's measure.
    pub score: f64,
    /// What the best other scored; not a number where there is none.
    pub other: f64,
}

impl Why {
    /// A reason without scores.
    pub const fn rule(rule: Rule) -> Why {
        Why { rule, score: f64::NAN, other: f64::NAN }
    }

    /// A reason with the score of the chosen and of the best other.
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
    /// No usable subflow has room.
    NoRoom,
    /// No subflow is usable.
    NoSubflow,
    /// The smoothed RTT in seconds, the least wins.
    LowestRtt,
    /// It is its turn.
    Turn,
    /// Every subflow walks the whole stream.
    EverySubflow,
    /// A faster subflow is full, and the slower ones are not selected: the predicted bytes of the
    /// selected ones against the bytes that remain.
    NotSelected,
    /// The linger time in seconds, the least wins: what is queued on the subflow over its rate.
    Linger,
    /// The credit, the most wins, against the subflow's weight.
    Weight,
    /// Bytes a second, the most wins.
    HighestRate,
    /// Free segments of the window, the most wins.
    LargestSpace,
    /// The RTT in seconds over the free segments of the window, the least wins.
    LeastTimePerSpace,
    /// The predicted time of arrival in seconds from now, the least wins.
    EarliestArrival,
    /// The slot of a schedule made beforehand.
    Schedule,
    /// The bytes that would fill the connection's window while the slow subflow has a segment of it,
    /// against the bytes that there are: the fast subflow is waited for.
    WouldBlock,
    /// The fast subflow would be done sooner, in seconds, than the slow one: it is waited for.
    FasterToWait,
    /// The bytes that arrive out of order against the buffer for them: the slow subflow pauses.
    NoBuffer,
    /// A packet to see whether a paused subflow has become of use.
    PathProbe,
    /// The RTT of the subflow exceeds what was asked for.
    TooSlow,
    /// So many bytes ahead of the next ones, to arrive in order.
    Gap,
    /// The first by priority.
    Priority,
    /// The subflow is frozen: its RTT, in seconds, is far from the fastest's.
    Frozen,
    /// The subflow may carry nothing, and what waits for it is taken back.
    Stranded,
    /// What waits is shared out anew.
    Rebalance,
    /// Data whose subflow has failed.
    Reinjection,
    /// Data that blocks the receive window.
    Opportunistic,
    /// A rule of a user's own scheduler.
    Custom(u16),
}

/// What a scheduler answers.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Decision {
    /// Put this range into that subflow's queue.
    Assign {
        /// The subflow.
        subflow: SubflowId,
        /// Which data; inside the connection's window.
        range: DataRange,
        /// Whether it is new.
        kind: AssignKind,
        /// The reason.
        why: Why,
    },
    /// Take back what waits in that subflow's queue and was never sent.
    Recall {
        /// The subflow.
        subflow: SubflowId,
        /// Which data.
        range: DataRange,
        /// The reason.
        why: Why,
    },
    /// Nothing more for now.
    Wait {
        /// Ask again at this time, even if nothing happens until then.
        until: Option<Time>,
        /// The reason.
        why: Why,
    },
}

/// What a scheduler hears between its decisions.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum SchedulerEvent {
    /// A subflow has become usable.
    SubflowUp(SubflowId),
    /// A subflow has ended; what it had not sent is unassigned again.
    SubflowDown(SubflowId),
    /// The application has written.
    Written,
    /// Data has left on a subflow for the first time there.
    Sent {
        /// The subflow.
        subflow: SubflowId,
        /// Which data.
        range: DataRange,
    },
    /// A subflow has had so many bytes acknowledged.
    Acked {
        /// The subflow.
        subflow: SubflowId,
        /// How many bytes.
        bytes: u64,
    },
    /// The data level is acknowledged up to here.
    DataAcked {
        /// The first offset that was not acknowledged before.
        from: u64,
        /// The first that is not acknowledged now.
        to: u64,
        /// The subflows that carried the first of it.
        carried_by: SubflowSet,
    },
    /// A subflow has lost so many segments.
    Lost {
        /// The subflow.
        subflow: SubflowId,
        /// How many segments.
        segments: u32,
    },
    /// A subflow's retransmission timer has run out.
    Timeout(SubflowId),
}

/// Some kinds of [`SchedulerEvent`].
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct EventKinds(u8);

impl EventKinds {
    /// None.
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
    /// All.
    pub const ALL: EventKinds = EventKinds(255);

    /// These and those.
    pub const fn and(self, other: EventKinds) -> EventKinds {
        EventKinds(self.0 | other.0)
    }

    /// Whether all of `other` are among these.
    pub const fn has(self, other: EventKinds) -> bool {
        self.0 & other.0 == other.0
    }
}

impl SchedulerEvent {
    /// Which kind it is.
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
    /// The next decision; asked again until it is [`Decision::Wait`].
    ///
    /// A decision that the view does not allow (an unknown subflow, a range that is not there or
    /// outside the window) is taken for a wait.
    fn decide(&mut self, view: &View<'_>) -> Decision;

    /// Something has happened.
    fn on_event(&mut self, _view: &View<'_>, _event: &SchedulerEvent) {}

    /// Which events [`Scheduler::on_event`] is called with. Asked once; each costs the making of a view.
    fn wants_events(&self) -> EventKinds {
        EventKinds::NONE
    }

    /// Whether it is to be asked when there is nothing new to send but something waits in a subflow's
    /// queue, which it may take back. Asked once.
    fn revises_queues(&self) -> bool {
        false
    }

    /// Whether it is to be asked when there is only one subflow; else that is filled as its window allows.
    /// Asked once.
    fn decides_alone(&self) -> bool {
        false
    }

    /// Opportunistic retransmission and penalisation as this scheduler wants them, whatever the
    /// connection was told; none where that shall count. Asked once.
    fn opportunistic(&self) -> Option<OpportunisticRetransmission> {
        None
    }
}

/// A scheduler of a user's own.
pub trait CustomScheduler: Scheduler + Send {
    /// A copy, so that a run can be forked.
    fn clone_box(&self) -> Box<dyn CustomScheduler>;
}

impl Clone for Box<dyn CustomScheduler> {
    fn clone(&self) -> Self {
        self.clone_box()
    }
}
