//! Recorders of the events of a run.

use anabranch_link::DropReason;
use anabranch_stack::event::{ConnectionId, Event, SubflowId};
use anabranch_stack::observer::{Limit, LossReason, Observer, SendKind, Windows};
use anabranch_stack::scheduler::Decision;
use anabranch_stack::segment::Segment;
use anabranch_stack::seq::DataRange;
use anabranch_units::Time;

use crate::flow::{End, FlowId};
use crate::network::{HostId, LinkId};

/// The origin of a stack's event.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Scope {
    /// The host.
    pub host: HostId,
    /// The connection on that host.
    pub connection: ConnectionId,
}

/// Receives the events of a run, in the order in which they happen. Every method does nothing unless it is
/// overridden, and unused events cost nothing.
///
/// There is one recorder for the whole run, so that its output is in order over all hosts.
#[allow(unused_variables)]
pub trait Recorder {
    /// True if it receives the events of packets on links.
    const PACKETS: bool = true;
    /// True if it receives the events of stacks.
    const STACK: bool = true;

    /// A packet is offered to a link (and may be dropped immediately).
    #[inline]
    fn on_link_enter(&mut self, now: Time, link: LinkId, segment: &Segment, wire_bytes: u32) {}
    /// A packet has crossed a link.
    #[inline]
    fn on_link_leave(&mut self, now: Time, link: LinkId, segment: &Segment, wire_bytes: u32) {}
    /// A link has dropped a packet. Packets dropped from the queue when a link goes down may be reported
    /// later than the time of the drop, which is `now`.
    #[inline]
    fn on_drop(&mut self, now: Time, link: LinkId, segment: &Segment, wire_bytes: u32, reason: DropReason) {}
    /// A host has sent a packet for which it has no route; it is lost.
    #[inline]
    fn on_unroutable(&mut self, now: Time, host: HostId, segment: &Segment) {}
    /// A link has gone down or come up.
    #[inline]
    fn on_link_state(&mut self, now: Time, link: LinkId, up: bool) {}
    /// An address of a host has become unavailable or available.
    #[inline]
    fn on_address_state(&mut self, now: Time, host: HostId, address: core::net::IpAddr, up: bool) {}

    /// A flow has started; this is its client's connection.
    #[inline]
    fn on_flow_start(&mut self, now: Time, flow: FlowId, client: Scope) {}
    /// The server has accepted the flow's connection.
    #[inline]
    fn on_flow_accept(&mut self, now: Time, flow: FlowId, server: Scope) {}
    /// `delivered` bytes of a flow's data have arrived in order at its receiver.
    #[inline]
    fn on_progress(&mut self, now: Time, flow: FlowId, delivered: u64) {}
    /// A stack reports an event to a flow's application.
    #[inline]
    fn on_event(&mut self, now: Time, flow: FlowId, end: End, event: &Event) {}

    /// See [`Observer::on_sent`].
    #[inline]
    fn on_sent(
        &mut self,
        now: Time,
        scope: Scope,
        subflow: SubflowId,
        segment: &Segment,
        kind: SendKind,
        data: DataRange,
    ) {
    }
    /// See [`Observer::on_received`].
    #[inline]
    fn on_received(&mut self, now: Time, scope: Scope, subflow: SubflowId, segment: &Segment) {}
    /// See [`Observer::on_lost`].
    #[inline]
    fn on_lost(&mut self, now: Time, scope: Scope, subflow: SubflowId, range: DataRange, reason: LossReason) {
    }
    /// See [`Observer::on_undo`].
    #[inline]
    fn on_undo(&mut self, now: Time, scope: Scope, subflow: SubflowId) {}
    /// See [`Observer::on_decision`].
    #[inline]
    fn on_decision(&mut self, now: Time, scope: Scope, decision: &Decision) {}
    /// See [`Observer::on_windows`].
    #[inline]
    fn on_windows(&mut self, now: Time, scope: Scope, subflow: SubflowId, windows: &Windows) {}
    /// See [`Observer::on_limit`].
    #[inline]
    fn on_limit(&mut self, now: Time, scope: Scope, limit: Limit) {}
}

/// Records nothing.
impl Recorder for () {
    const PACKETS: bool = false;
    const STACK: bool = false;
}

/// Observes one host's stack and forwards its events to the recorder of the run, which it holds while the
/// stack runs.
#[derive(Clone, Debug)]
pub struct HostObserver<R> {
    host: HostId,
    pub(crate) lent: Option<Box<R>>,
}

impl<R> HostObserver<R> {
    pub(crate) fn new(host: HostId) -> HostObserver<R> {
        HostObserver { host, lent: None }
    }

    #[inline]
    fn scope(&self, connection: ConnectionId) -> Scope {
        Scope { host: self.host, connection }
    }
}

/// Forwards one call, with the host.
macro_rules! pass {
    ($self:ident, $connection:ident, $method:ident($now:ident $(, $argument:ident)*)) => {
        if R::STACK {
            let scope = $self.scope($connection);
            if let Some(recorder) = &mut $self.lent {
                recorder.$method($now, scope $(, $argument)*);
            }
        }
    };
}

impl<R: Recorder> Observer for HostObserver<R> {
    const LISTENS: bool = R::STACK;

    #[inline]
    fn on_sent(
        &mut self,
        now: Time,
        connection: ConnectionId,
        subflow: SubflowId,
        segment: &Segment,
        kind: SendKind,
        data: DataRange,
    ) {
        pass!(self, connection, on_sent(now, subflow, segment, kind, data));
    }
    #[inline]
    fn on_received(&mut self, now: Time, connection: ConnectionId, subflow: SubflowId, segment: &Segment) {
        pass!(self, connection, on_received(now, subflow, segment));
    }
    #[inline]
    fn on_lost(
        &mut self,
        now: Time,
        connection: ConnectionId,
        subflow: SubflowId,
        range: DataRange,
        reason: LossReason,
    ) {
        pass!(self, connection, on_lost(now, subflow, range, reason));
    }
    #[inline]
    fn on_undo(&mut self, now: Time, connection: ConnectionId, subflow: SubflowId) {
        pass!(self, connection, on_undo(now, subflow));
    }
    #[inline]
    fn on_decision(&mut self, now: Time, connection: ConnectionId, decision: &Decision) {
        pass!(self, connection, on_decision(now, decision));
    }
    #[inline]
    fn on_windows(&mut self, now: Time, connection: ConnectionId, subflow: SubflowId, windows: &Windows) {
        pass!(self, connection, on_windows(now, subflow, windows));
    }
    #[inline]
    fn on_limit(&mut self, now: Time, connection: ConnectionId, limit: Limit) {
        pass!(self, connection, on_limit(now, limit));
    }
}
