//! Events for recordings, captures and explanations, reported as they happen.
//!
//! The observer is a type parameter of the endpoint, and the default one does nothing, so that unused events
//! cost nothing.

use anabranch_units::{Duration, Time};

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
}

/// Receives the events of an endpoint. Every method does nothing unless it is overridden.
pub trait Observer {
    /// True if events are used. Otherwise they are not even computed.
    const LISTENS: bool = true;

    /// Observes a transmission; the payload is this part of the stream that the host sends.
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
    /// Observes a segment received for a subflow.
    #[inline]
    fn on_received(
        &mut self,
        _now: Time,
        _connection: ConnectionId,
        _subflow: SubflowId,
        _segment: &Segment,
    ) {
    }
    /// Observes that the data in `range` of the stream, sent by this subflow, is marked lost.
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
    /// Observes that a loss was undone: it was reordering or delay.
    #[inline]
    fn on_undo(&mut self, _now: Time, _connection: ConnectionId, _subflow: SubflowId) {}
    /// Observes a decision of the scheduler.
    #[inline]
    fn on_decision(&mut self, _now: Time, _connection: ConnectionId, _decision: &Decision) {}
    /// Observes the windows after an acknowledgement, or after any other change of the congestion window or
    /// the threshold: a timer, a penalty, an idle time, a new subflow. Whenever a call of the endpoint
    /// returns, the last report on a subflow has its current windows.
    #[inline]
    fn on_windows(&mut self, _now: Time, _connection: ConnectionId, _subflow: SubflowId, _windows: &Windows) {
    }
    /// Observes a change of the connection's limit.
    #[inline]
    fn on_limit(&mut self, _now: Time, _connection: ConnectionId, _limit: Limit) {}
}

impl Observer for () {
    const LISTENS: bool = false;
}
