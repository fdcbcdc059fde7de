//! Recorders of the events of a run.
//!
//! Every event is a [`Trace`]: its time, and an event of a stack, a link, a flow or a host. A recorder names what
//! it uses ([`Recorder::WANTS`]), so that the rest is not even computed. Two recorders combine as a pair.

use core::net::IpAddr;

use anabranch_link::DropReason;
use anabranch_stack::event::{ConnectionId, Event};
use anabranch_stack::observer::{Observer, StackEvent, StackEvents};
use anabranch_stack::segment::Segment;
use anabranch_units::Time;

use crate::flow::{End, FlowId};
use crate::network::{HostId, LinkId};

/// The origin of a stack's event.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Scope {
    /// The host that runs the stack.
    pub host: HostId,
    /// The connection on that host.
    pub connection: ConnectionId,
}

/// The queue of a link at the time of an event, the packet in service included.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Queue {
    /// Its length in bytes on the wire.
    pub bytes: u64,
    /// Its length in packets.
    pub packets: usize,
}

/// The arrival, departure or loss of a packet, or a change of a link.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum LinkEvent<'a> {
    /// A packet is offered to the link, and may be dropped immediately.
    Enter {
        /// The packet.
        segment: &'a Segment,
        /// Its number, which its copies share. Once all have left the network, another packet may have it.
        packet: u32,
        /// Its length on the wire.
        wire_bytes: u32,
        /// The queue that it finds.
        queue: Queue,
    },
    /// A packet has crossed the link.
    Leave {
        /// The packet.
        segment: &'a Segment,
        /// Its number, which its copies share. Once all have left the network, another packet may have it.
        packet: u32,
        /// The time at which the link had transmitted it, before its propagation.
        departed: Time,
        /// Its length on the wire.
        wire_bytes: u32,
        /// The queue at that time.
        queue: Queue,
    },
    /// The link has dropped a packet. Packets dropped from the queue when a link goes down may be reported
    /// later than the drop; the event's time is always the time of the drop.
    Drop {
        /// The packet.
        segment: &'a Segment,
        /// Its number, which its copies share. Once all have left the network, another packet may have it.
        packet: u32,
        /// Its length on the wire.
        wire_bytes: u32,
        /// The queue, the loss model or the state that dropped it.
        reason: DropReason,
        /// The queue without the packet.
        queue: Queue,
    },
    /// A packet has been queued, was dropped, or has crossed the link: its queue, for recorders that need no packets.
    Queue {
        /// The queue after that; a packet that was queued is part of it.
        queue: Queue,
        /// True if the packet was dropped.
        dropped: bool,
    },
    /// The link has gone down or come up.
    State {
        /// True from now on if packets pass.
        up: bool,
    },
}

/// The start or end of a flow, or an event of its application.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum FlowEvent<'a> {
    /// The flow has started; this is its client's connection.
    Start {
        /// The connection.
        client: Scope,
    },
    /// The server has accepted the flow's connection.
    Accept {
        /// The connection.
        server: Scope,
    },
    /// Data of the flow has arrived in order at its receiver.
    Progress {
        /// The bytes that have arrived so far.
        delivered: u64,
    },
    /// An application of the flow has tried to write.
    Write {
        /// The end of the flow.
        end: End,
        /// The bytes that it has wanted to write so far.
        offered: u64,
        /// The bytes of them that its send buffer has accepted so far.
        written: u64,
    },
    /// A stack reports an event to the flow's application.
    Application {
        /// The end of the flow.
        end: End,
        /// The event as the application receives it.
        event: &'a Event,
    },
}

/// A packet or a timer of a host, or an event of its stack.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum HostEvent<'a> {
    /// The host has sent a packet for which it has no route; it is lost.
    Unroutable {
        /// The packet.
        segment: &'a Segment,
    },
    /// An address of the host has become unavailable or available.
    Address {
        /// The address.
        ip: IpAddr,
        /// True if it is available.
        up: bool,
    },
}

/// The subject of a trace, with its event.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum What<'a> {
    /// A connection of a stack.
    Stack {
        /// The connection.
        scope: Scope,
        /// The event as the stack reports it to its observer.
        event: &'a StackEvent<'a>,
    },
    /// A packet at a link in one direction.
    Link {
        /// The link in the order of the network.
        link: LinkId,
        /// The arrival, departure or drop.
        event: LinkEvent<'a>,
    },
    /// The start, the acceptance or the progress of a flow, or an event of its application.
    Flow {
        /// The flow in the order of the run's specifications.
        flow: FlowId,
        /// The step that the flow has reached.
        event: FlowEvent<'a>,
    },
    /// A packet without a route, or an address that has changed.
    Host {
        /// The host in the order of the network.
        host: HostId,
        /// The packet that is lost, or the change.
        event: HostEvent<'a>,
    },
}

/// An event of a run.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Trace<'a> {
    /// The time of the event.
    pub time: Time,
    /// Its subject, and the event.
    pub what: What<'a>,
}

/// The events that a recorder uses. All recorders receive the changes of links and addresses, which are rare.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wants {
    /// The events of stacks.
    pub stack: StackEvents,
    /// True for the packets on links, and the unroutable ones.
    pub packets: bool,
    /// True for the queues of links.
    pub queues: bool,
    /// True for the events of flows.
    pub flows: bool,
}

impl Wants {
    /// Everything; queues are known from packets.
    pub const ALL: Wants = Wants { stack: StackEvents::ALL, packets: true, queues: false, flows: true };
    /// Only the changes of links and addresses.
    pub const NONE: Wants = Wants { stack: StackEvents::NONE, packets: false, queues: false, flows: false };
    /// The events of flows.
    pub const FLOWS: Wants = Wants { flows: true, ..Wants::NONE };

    /// Returns these kinds of events of stacks, and the events of flows.
    pub const fn stack(stack: StackEvents) -> Wants {
        Wants { stack, ..Wants::FLOWS }
    }

    /// Returns everything in either.
    pub const fn and(self, other: Wants) -> Wants {
        Wants {
            stack: self.stack.and(other.stack),
            packets: self.packets || other.packets,
            queues: self.queues || other.queues,
            flows: self.flows || other.flows,
        }
    }

    /// True if the event of a trace is among them.
    #[inline(always)]
    pub const fn has(self, what: &What<'_>) -> bool {
        match what {
            What::Stack { event, .. } => self.stack.has(event.kind()),
            What::Link { event: LinkEvent::State { .. }, .. } => true,
            What::Link { event: LinkEvent::Queue { .. }, .. } => self.queues,
            What::Link { .. } | What::Host { event: HostEvent::Unroutable { .. }, .. } => self.packets,
            What::Flow { .. } => self.flows,
            What::Host { event: HostEvent::Address { .. }, .. } => true,
        }
    }
}

/// Receives the events of a run, in the order in which they happen.
///
/// There is one recorder for the whole run, so that its output is in order over all hosts.
pub trait Recorder {
    /// The events that it uses. The others are neither computed nor passed to it.
    const WANTS: Wants = Wants::ALL;

    /// Records an event.
    fn on_trace(&mut self, trace: &Trace<'_>);
}

impl Wants {
    /// True if packets on links have events.
    pub(crate) const fn of_links(self) -> bool {
        self.packets || self.queues
    }
}

/// Passes an event to a recorder that uses it.
#[inline(always)]
pub(crate) fn report<R: Recorder>(recorder: &mut R, time: Time, what: What<'_>) {
    if R::WANTS.has(&what) {
        recorder.on_trace(&Trace { time, what });
    }
}

/// Records nothing.
impl Recorder for () {
    const WANTS: Wants = Wants::NONE;

    #[inline(always)]
    fn on_trace(&mut self, _: &Trace<'_>) {}
}

/// Both record, the first one first.
impl<A: Recorder, B: Recorder> Recorder for (A, B) {
    const WANTS: Wants = A::WANTS.and(B::WANTS);

    #[inline]
    fn on_trace(&mut self, trace: &Trace<'_>) {
        report(&mut self.0, trace.time, trace.what);
        report(&mut self.1, trace.time, trace.what);
    }
}

/// Records if there is a recorder. Its events are computed even if there is none.
impl<R: Recorder> Recorder for Option<R> {
    const WANTS: Wants = R::WANTS;

    #[inline]
    fn on_trace(&mut self, trace: &Trace<'_>) {
        if let Some(recorder) = self {
            recorder.on_trace(trace);
        }
    }
}

/// Observes one host's stack and forwards its events to the recorder of the run, which it holds while the
/// stack runs.
#[derive(Clone, Debug)]
pub struct HostObserver<R> {
    host: HostId,
    /// True for a proxy: its connections belong to no flow.
    is_silent: bool,
    pub(crate) lent: Option<Box<R>>,
}

impl<R> HostObserver<R> {
    pub(crate) fn new(host: HostId, is_silent: bool) -> HostObserver<R> {
        HostObserver { host, is_silent, lent: None }
    }
}

impl<R: Recorder> HostObserver<R> {
    /// True if the recorder uses events of stacks.
    pub(crate) const LISTENS: bool = R::WANTS.stack.has(StackEvents::ALL);
}

impl<R: Recorder> Observer for HostObserver<R> {
    const EVENTS: StackEvents = R::WANTS.stack;

    #[inline]
    fn on_event(&mut self, now: Time, connection: ConnectionId, event: &StackEvent<'_>) {
        if let Some(recorder) = self.lent.as_mut().filter(|_| !self.is_silent) {
            let scope = Scope { host: self.host, connection };
            recorder.on_trace(&Trace { time: now, what: What::Stack { scope, event } });
        }
    }
}
