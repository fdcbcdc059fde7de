//! What a recording, a capture or an explanation wants to know, told as it happens.
//!
//! The observer is a type parameter of the endpoint, and the default one does nothing, so what
//! nobody listens to costs nothing.

use anabranch_units::{Duration, Time};

use crate::event::{ConnectionId, SubflowId};
use crate::scheduler::Decision;
use crate::segment::Segment;
use crate::seq::DataRange;

/// What kind of segment was sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SendKind {
    /// No payload: a handshake, an acknowledgement, a signal.
    Control,
    /// Data that no subflow has carried before.
    New,
    /// Data that this subflow sends again.
    Retransmission,
    /// Data that another subflow has carried already: a reinjection or a copy.
    Reinjection,
    /// A probe of a silent peer: TLP, zero window, keepalive.
    Probe,
}

/// Why a segment was taken for lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LossReason {
    /// A segment sent later was delivered long enough ago (RFC 8985).
    Rack,
    /// Three duplicate acknowledgements, or a partial acknowledgement in recovery (RFC 6582).
    DuplicateAcks,
    /// The retransmission timer ran out.
    Timeout,
    /// It is larger than the path admits.
    TooLarge,
}

/// What keeps a connection from sending more.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub enum Limit {
    /// The application has written no more.
    #[default]
    Application,
    /// Every usable subflow's congestion window is full.
    CongestionWindow,
    /// The peer's receive window is full.
    ReceiveWindow,
    /// The application has written all that the send buffer takes.
    SendBuffer,
    /// The scheduler waits although a subflow has room.
    Scheduler,
    /// No subflow is usable.
    NoSubflow,
}

/// The windows of a subflow at one moment.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Windows {
    /// The congestion window, in bytes.
    pub cwnd_bytes: u64,
    /// The slow-start threshold in bytes; none is infinite.
    pub ssthresh_bytes: Option<u64>,
    /// Bytes in flight by the sender's estimate.
    pub inflight_bytes: u64,
    /// The smoothed RTT, once there is a sample.
    pub srtt: Option<Duration>,
}

/// Hears what an endpoint does. Every method does nothing unless it is overridden.
pub trait Observer {
    /// Whether anybody listens. What is told is not even computed where nobody does.
    const LISTENS: bool = true;

    /// A segment leaves; its payload is this part of the stream that the host sends.
    #[inline]
    fn on_sent(
        &mut self,
        _now: Time,
        _connection: ConnectionId,
        _subflow: SubflowId,
        _segment: &Segment,
        _kind: SendKind,
        _data: DataRange,
    ) {
    }
    /// A segment has arrived for a subflow.
    #[inline]
    fn on_received(
        &mut self,
        _now: Time,
        _connection: ConnectionId,
        _subflow: SubflowId,
        _segment: &Segment,
    ) {
    }
    /// The data in `range` of the stream, sent by this subflow, is taken for lost.
    #[inline]
    fn on_lost(
        &mut self,
        _now: Time,
        _connection: ConnectionId,
        _subflow: SubflowId,
        _range: DataRange,
        _reason: LossReason,
    ) {
    }
    /// A loss was undone: it had been reordering or delay.
    #[inline]
    fn on_undo(&mut self, _now: Time, _connection: ConnectionId, _subflow: SubflowId) {}
    /// The scheduler has decided.
    #[inline]
    fn on_decision(&mut self, _now: Time, _connection: ConnectionId, _decision: &Decision) {}
    /// An acknowledgement was processed, or the congestion window or the threshold has changed by anything else: a
    /// timer, a penalty, an idle time, a subflow that came up. Whenever a call of the endpoint returns, the last report
    /// on a subflow has the windows that it has.
    #[inline]
    fn on_windows(&mut self, _now: Time, _connection: ConnectionId, _subflow: SubflowId, _windows: &Windows) {
    }
    /// What limits the connection has changed.
    #[inline]
    fn on_limit(&mut self, _now: Time, _connection: ConnectionId, _limit: Limit) {}
}

impl Observer for () {
    const LISTENS: bool = false;
}
