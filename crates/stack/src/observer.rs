//! Events for recordings, captures and explanations, reported as they happen.
//!
//! Every event is a [`StackEvent`]. The observer is a type parameter of the endpoint and names the kinds that
//! it uses ([`Observer::EVENTS`]), so that the others are not even computed. Two observers combine as a pair.

use anabranch_units::{Duration, Rate, Time};

use crate::event::{ConnectionId, SubflowId};
use crate::scheduler::Decision;
use crate::segment::Segment;
use crate::seq::DataRange;

/// The kind of a segment sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SendKind {
    /// No payload: a handshake, an acknowledgement, a signal.
    Control,
    /// Data that no subflow has carried before.
    New,
    /// Data that this subflow retransmits.
    Retransmission,
    /// Data that another subflow has already carried: a reinjection or a copy.
    Reinjection,
    /// A probe of a silent peer: TLP, zero window, keepalive.
    Probe,
}

/// The reason why a segment was marked lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LossReason {
    /// A later segment was delivered long enough ago (RFC 8985).
    Rack,
    /// Three duplicate acknowledgements, or a partial acknowledgement in recovery (RFC 6582).
    DuplicateAcks,
    /// The retransmission timer expired.
    Timeout,
    /// The segment is larger than the path admits.
    TooLarge,
}

/// The reason why a connection sends no more.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub enum Limit {
    /// The application has written no more.
    #[default]
    Application,
    /// Every usable subflow's congestion window is full.
    CongestionWindow,
    /// The peer's receive window is full.
    ReceiveWindow,
    /// The application has filled the send buffer.
    SendBuffer,
    /// The scheduler waits although a subflow has free window.
    Scheduler,
    /// No subflow is usable.
    NoSubflow,
}

/// The reason why a subflow does not send the data assigned to it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Hold {
    /// Its congestion window is full.
    CongestionWindow,
    /// The peer's receive window is full.
    ReceiveWindow,
    /// It is paced, and its next transmission is not due.
    Pacing,
    /// The rest is a short segment, and another one is unacknowledged (Nagle's algorithm).
    ShortSegment,
}

/// The windows of a subflow at one time.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Windows {
    /// The congestion window, in bytes.
    pub cwnd_bytes: u64,
    /// The slow-start threshold in bytes; `None` is infinite.
    pub ssthresh_bytes: Option<u64>,
    /// Bytes in flight by the sender's estimate.
    pub inflight_bytes: u64,
    /// The smoothed RTT, once there is a sample.
    pub srtt: Option<Duration>,
    /// The pacing rate, if the subflow is paced.
    pub pacing_rate: Option<Rate>,
    /// The right edge of the peer's receive window, as an offset of the stream. In a report on an
    /// acknowledgement, the edge before its segment.
    pub peer_window_edge: u64,
}

/// An event of a connection.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum StackEvent<'a> {
    /// A segment is sent.
    Sent {
        /// The subflow that sends it.
        subflow: SubflowId,
        /// The segment with the options that are sent.
        segment: &'a Segment,
        /// Whether the segment has data, and whether for the first time.
        kind: SendKind,
        /// The part of the stream that is its payload.
        data: DataRange,
    },
    /// A segment for a subflow is received.
    Received {
        /// The subflow that receives it.
        subflow: SubflowId,
        /// The segment as it arrived.
        segment: &'a Segment,
    },
    /// Data sent by a subflow is marked lost.
    Lost {
        /// The subflow that sent the data.
        subflow: SubflowId,
        /// The data, as a range of the stream.
        range: DataRange,
        /// The rule that marked the data lost.
        reason: LossReason,
    },
    /// A loss is undone: it was reordering or delay.
    Undone {
        /// The subflow that had marked the data lost.
        subflow: SubflowId,
    },
    /// The scheduler has decided.
    Decision(&'a Decision),
    /// The windows of a subflow after an acknowledgement, or after any other change of the congestion window
    /// or the threshold: a timer, a penalty, an idle time, a new subflow. Whenever a call of the endpoint
    /// returns, the last report on a subflow has its current congestion window and threshold.
    Windows {
        /// The subflow that sends with these windows.
        subflow: SubflowId,
        /// The congestion window, the threshold and the data in flight, in bytes.
        windows: &'a Windows,
    },
    /// The limit of the connection has changed.
    Limit(Limit),
    /// Payload has arrived that has a place in the stream and had not arrived before. Data before it may still
    /// be missing.
    Arrived {
        /// The subflow that carried it.
        subflow: SubflowId,
        /// The part of the peer's stream.
        range: DataRange,
    },
    /// A part of the stream is assigned to a subflow, which sends it as soon as its windows and its pacing permit.
    Assigned {
        /// The subflow that is to send it.
        subflow: SubflowId,
        /// The part of the stream.
        range: DataRange,
    },
    /// The connection has sent all that it can, and a subflow holds data. Reported after every poll for which this is so.
    Held {
        /// The subflow that holds data.
        subflow: SubflowId,
        /// The reason why the subflow does not send it.
        hold: Hold,
    },
    /// The peer has acknowledged data of the connection, or has moved the right edge of its window, by a
    /// segment of this subflow.
    DataAcked {
        /// The subflow that received the segment.
        subflow: SubflowId,
        /// The first offset of the stream that is not acknowledged.
        una: u64,
        /// The right edge of the peer's window, as an offset of the stream.
        window_edge: u64,
    },
}

impl StackEvent<'_> {
    /// Returns the kind of the event, as a set of one.
    #[inline(always)]
    pub const fn kind(&self) -> StackEvents {
        match self {
            StackEvent::Sent { .. } => StackEvents::SENT,
            StackEvent::Received { .. } => StackEvents::RECEIVED,
            StackEvent::Lost { .. } => StackEvents::LOST,
            StackEvent::Undone { .. } => StackEvents::UNDONE,
            StackEvent::Decision(_) => StackEvents::DECISION,
            StackEvent::Windows { .. } => StackEvents::WINDOWS,
            StackEvent::Limit(_) => StackEvents::LIMIT,
            StackEvent::Arrived { .. } => StackEvents::ARRIVED,
            StackEvent::Assigned { .. } => StackEvents::ASSIGNED,
            StackEvent::Held { .. } => StackEvents::HELD,
            StackEvent::DataAcked { .. } => StackEvents::DATA_ACKED,
        }
    }
}

/// A set of kinds of events.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StackEvents(u32);

impl StackEvents {
    /// No kind.
    pub const NONE: StackEvents = StackEvents(0);
    /// All kinds, including the kinds that later versions add.
    pub const ALL: StackEvents = StackEvents(u32::MAX);
    /// [`StackEvent::Sent`].
    pub const SENT: StackEvents = StackEvents(1);
    /// [`StackEvent::Received`].
    pub const RECEIVED: StackEvents = StackEvents(1 << 1);
    /// [`StackEvent::Lost`].
    pub const LOST: StackEvents = StackEvents(1 << 2);
    /// [`StackEvent::Undone`].
    pub const UNDONE: StackEvents = StackEvents(1 << 3);
    /// [`StackEvent::Decision`].
    pub const DECISION: StackEvents = StackEvents(1 << 4);
    /// [`StackEvent::Windows`].
    pub const WINDOWS: StackEvents = StackEvents(1 << 5);
    /// [`StackEvent::Limit`].
    pub const LIMIT: StackEvents = StackEvents(1 << 6);
    /// [`StackEvent::Arrived`].
    pub const ARRIVED: StackEvents = StackEvents(1 << 7);
    /// [`StackEvent::DataAcked`].
    pub const DATA_ACKED: StackEvents = StackEvents(1 << 8);
    /// [`StackEvent::Assigned`].
    pub const ASSIGNED: StackEvents = StackEvents(1 << 9);
    /// [`StackEvent::Held`].
    pub const HELD: StackEvents = StackEvents(1 << 10);

    /// Returns the kinds in either set.
    pub const fn and(self, other: StackEvents) -> StackEvents {
        StackEvents(self.0 | other.0)
    }

    /// True if the sets have a kind in common.
    #[inline(always)]
    pub const fn has(self, kind: StackEvents) -> bool {
        self.0 & kind.0 != 0
    }
}

/// Receives the events of an endpoint, in the order in which they happen.
pub trait Observer {
    /// The kinds of events that it uses. The others are neither computed nor passed to it.
    const EVENTS: StackEvents = StackEvents::ALL;

    /// Observes an event of a connection.
    fn on_event(&mut self, now: Time, connection: ConnectionId, event: &StackEvent<'_>);
}

/// Passes an event to an observer that uses it.
#[inline(always)]
pub(crate) fn report<O: Observer>(
    observer: &mut O,
    now: Time,
    connection: ConnectionId,
    event: &StackEvent<'_>,
) {
    if O::EVENTS.has(event.kind()) {
        observer.on_event(now, connection, event);
    }
}

/// Observes nothing.
impl Observer for () {
    const EVENTS: StackEvents = StackEvents::NONE;

    #[inline(always)]
    fn on_event(&mut self, _: Time, _: ConnectionId, _: &StackEvent<'_>) {}
}

/// Both observe, the first one first.
impl<A: Observer, B: Observer> Observer for (A, B) {
    const EVENTS: StackEvents = A::EVENTS.and(B::EVENTS);

    #[inline]
    fn on_event(&mut self, now: Time, connection: ConnectionId, event: &StackEvent<'_>) {
        report(&mut self.0, now, connection, event);
        report(&mut self.1, now, connection, event);
    }
}
