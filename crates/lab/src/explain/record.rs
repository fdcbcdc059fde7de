//! Records the events of a run from which the time of its flows is explained.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use anabranch_link::DropReason;
use anabranch_sim::{End, FlowEvent, FlowId, LinkEvent, LinkId, Recorder, Scope, Trace, Wants, What};
use anabranch_stack::event::{ConnectionId, Event};
use anabranch_stack::observer::{Hold, Limit, LossReason, SendKind, StackEvent, StackEvents};
use anabranch_stack::segment::{Address, Flags, Segment};
use anabranch_stack::seq::DataRange;
use anabranch_units::Time;

use super::cause::Cause;
use super::outage::{Drop, Outages};
use super::story::{Hop, Repeat, Service, Steps, Story, Transmission};

/// The end of a flow that sends a stream: its request, or its data.
type Sender = (FlowId, End);

/// Identifies a packet between its sending and its first link.
type Key = (Address, Address, u32, u32);

fn key(segment: &Segment) -> Key {
    (segment.source, segment.destination, segment.seq.0, segment.payload_len)
}

/// A transmission: the position of its stream, and its number.
#[derive(Clone, Copy, Debug)]
struct Id {
    stream: usize,
    number: usize,
}

/// A transmission that has entered a link.
#[derive(Clone, Copy, Debug)]
struct Entry {
    link: usize,
    id: Id,
    /// True until it leaves the link.
    inside: bool,
}

/// The packet that was just sent or has just left a link, and enters the next one.
#[derive(Clone, Copy, Debug)]
enum AtHand {
    /// Its number is not known yet.
    Sent(Key, Id),
    /// With its number. When it has arrived, another packet may get the number and enter a link next.
    Left(u32, Key, Id),
}

/// A recorder of the packets, outages and waits that the stories of flows need.
#[derive(Clone, Debug, Default)]
pub(crate) struct Notes {
    /// The stream that the connection of a host sends.
    scopes: HashMap<(u32, ConnectionId), usize>,
    streams: Vec<Stream>,
    /// By flow: its streams, the client's one first.
    flows: Vec<[Option<usize>; 2]>,
    at_hand: Option<AtHand>,
    /// By number of a packet in the network: the links that the transmissions of the packet and of its copies
    /// have entered, oldest first. Empty for packets without data.
    packets: Vec<Vec<Entry>>,
    /// The number of links on the longest way so far.
    longest_way: usize,
    services: Vec<Vec<Service>>,
    /// By flow: its data that has arrived in order.
    progress: Vec<Steps>,
    /// By the ends of a subflow: its flow.
    ends: HashMap<(Address, Address), FlowId>,
    /// By link: the times at which it went down and came up.
    downs: Vec<Vec<(Time, Time)>>,
    /// The packets that links have dropped because they were down, with their flow.
    lost: Vec<(FlowId, Drop)>,
}

/// A stream while it is recorded.
#[derive(Clone, Debug)]
struct Stream {
    sender: Sender,
    story: Story,
    /// The end of the data sent so far.
    sent: u64,
    /// By subflow: data assigned to it and not sent yet, with the time, oldest first.
    assigned: Vec<VecDeque<(DataRange, Time)>>,
}

impl Notes {
    fn stream(&mut self, flow: FlowId, end: End, scope: Scope, start: Time) {
        let stream = self.streams.len();
        self.scopes.insert((scope.host.0, scope.connection), stream);
        if self.flows.len() <= flow.index() {
            self.flows.resize(flow.index() + 1, [None; 2]);
        }
        self.flows[flow.index()][end as usize] = Some(stream);
        let mut story = Story { start, connected: Time::NEVER, stream: stream as u32, ..Story::default() };
        // A connection reports when its limit changes.
        story.limits.push(Time::ZERO, of_limit(Limit::Application));
        self.streams.push(Stream { sender: (flow, end), story, sent: 0, assigned: Vec::new() });
    }

    /// Returns the stories of the flows.
    pub(super) fn into_stories(mut self) -> Stories {
        for services in &mut self.services {
            services.sort_by_key(|service| service.departed);
        }
        for (link, services) in self.services.iter().enumerate() {
            for (place, service) in services.iter().enumerate() {
                if let Some((stream, _)) = service.carries {
                    self.streams[stream as usize].story.own.entry(link).or_default().push(place);
                }
            }
        }
        let services = Arc::new(self.services);
        let mut stories: Vec<FlowStory> = Vec::new();
        stories.resize_with(self.flows.len(), FlowStory::default);
        for mut stream in self.streams {
            stream.story.services = services.clone();
            let (flow, end) = stream.sender;
            stories[flow.index()].streams[end as usize] = Some(stream.story);
        }
        for (story, progress) in stories.iter_mut().zip(self.progress) {
            story.progress = progress;
        }
        // A queue that a link drops when it goes down may be reported later.
        self.lost.sort_by_key(|(_, drop)| drop.at);
        for (flow, story) in stories.iter_mut().enumerate() {
            let own = self.lost.iter().filter(|(of, _)| of.index() == flow).map(|(_, drop)| *drop);
            story.outages = Outages { downs: self.downs.clone(), drops: own.collect() };
        }
        Stories(stories)
    }

    fn on_stack(&mut self, now: Time, scope: Scope, event: &StackEvent<'_>) {
        let Some(&number) = self.scopes.get(&(scope.host.0, scope.connection)) else { return };
        let stream = &mut self.streams[number];
        match event {
            StackEvent::Sent { subflow, segment, kind, data } => {
                if segment.flags.has(Flags::SYN) {
                    // The client sends its SYN when its flow is known, the server answers before it has accepted.
                    let flow = stream.sender.0;
                    self.ends.insert((segment.source, segment.destination), flow);
                    self.ends.insert((segment.destination, segment.source), flow);
                }
                self.at_hand = None;
                if !data.is_empty() {
                    let sent = stream.send(now, subflow.index(), *kind, *data, self.longest_way);
                    self.at_hand = Some(AtHand::Sent(key(segment), Id { stream: number, number: sent }));
                }
            }
            StackEvent::Lost { subflow, reason: LossReason::Timeout, .. } => {
                let timeouts = at(&mut stream.story.timeouts, subflow.index());
                if timeouts.last() != Some(&now) {
                    timeouts.push(now);
                }
            }
            StackEvent::Assigned { subflow, range } => {
                at(&mut stream.assigned, subflow.index()).push_back((*range, now));
            }
            StackEvent::Held { subflow, hold } => {
                let cause = match hold {
                    Hold::CongestionWindow => Cause::CongestionWindow,
                    Hold::ReceiveWindow => Cause::ReceiveWindow,
                    Hold::Pacing | Hold::ShortSegment => Cause::Pacing,
                };
                at(&mut stream.story.holds, subflow.index()).push(now, cause);
            }
            StackEvent::Limit(limit) => {
                stream.story.limits.push(now, of_limit(*limit));
            }
            _ => {}
        }
    }

    fn on_flow(&mut self, now: Time, flow: FlowId, event: &FlowEvent<'_>) {
        match event {
            FlowEvent::Start { client } => self.stream(flow, End::Client, *client, now),
            FlowEvent::Accept { server } => self.stream(flow, End::Server, *server, now),
            FlowEvent::Application { end, event: Event::Connected | Event::Accepted } => {
                if let Some(story) = self.story(flow, *end) {
                    story.connected = story.connected.min(now);
                }
            }
            FlowEvent::Progress { delivered } => at(&mut self.progress, flow.index()).push(now, *delivered),
            FlowEvent::Write { end, offered, written } => {
                if let Some(story) = self.story(flow, *end) {
                    story.offered.push(now, *offered);
                    story.written.push(now, *written);
                }
            }
            _ => {}
        }
    }

    fn story(&mut self, flow: FlowId, end: End) -> Option<&mut Story> {
        let stream = self.flows.get(flow.index())?[end as usize]?;
        Some(&mut self.streams[stream].story)
    }

    fn on_link(&mut self, now: Time, link: LinkId, event: &LinkEvent<'_>) {
        let link = link.index();
        match event {
            LinkEvent::Enter { segment, packet, .. } => {
                let entries = at(&mut self.packets, *packet as usize);
                let id = match self.at_hand.take() {
                    Some(AtHand::Left(left, own, id)) if left == *packet && own == key(segment) => Some(id),
                    Some(AtHand::Sent(sent, id)) if sent == key(segment) => {
                        entries.clear();
                        Some(id)
                    }
                    _ => None,
                };
                // Another packet had the number before.
                let Some(id) = id else { return entries.clear() };
                entries.push(Entry { link, id, inside: true });
                let hops = &mut self.streams[id.stream].story.transmissions[id.number].hops;
                hops.push(Hop { link, entered: now, departed: None, left: None });
                self.longest_way = self.longest_way.max(hops.len());
            }
            LinkEvent::Leave { segment, packet, departed, .. } => {
                // A copy made by the link has the number of the original, and one that comes after it is not a later
                // transmission.
                let streams = &mut self.streams;
                let entered = |streams: &[Stream], id: &Id| {
                    let hops = &streams[id.stream].story.transmissions[id.number].hops;
                    hops.iter().rfind(|hop| hop.link == link).is_some_and(|hop| hop.entered <= *departed)
                };
                let entries = at(&mut self.packets, *packet as usize);
                let oldest = entries.iter_mut().find(|entry| entry.inside && entry.link == link);
                let id = match oldest.filter(|entry| entered(streams, &entry.id)) {
                    Some(entry) => {
                        entry.inside = false;
                        Some(entry.id)
                    }
                    None => {
                        let latest = entries.iter().rfind(|entry| entry.link == link).map(|entry| entry.id);
                        latest.filter(|id| entered(streams, id)).map(|original| copy(streams, original, link))
                    }
                };
                let carries = id.map(|id| (id.stream as u32, id.number as u32));
                at(&mut self.services, link).push(Service { departed: *departed, carries });
                self.at_hand = id.map(|id| AtHand::Left(*packet, key(segment), id));
                let Some(id) = id else { return };
                let transmission = &mut self.streams[id.stream].story.transmissions[id.number];
                if let Some(hop) = transmission.hops.iter_mut().rfind(|hop| hop.link == link) {
                    (hop.departed, hop.left) = (Some(*departed), Some(now));
                }
            }
            LinkEvent::Drop { segment, packet, reason, .. } => {
                if *reason == DropReason::Down
                    && let Some(flow) = self.ends.get(&(segment.source, segment.destination))
                {
                    self.lost.push((*flow, Drop { at: now, link }));
                }
                let id = match (reason, self.at_hand) {
                    // The receiver rejects it on arrival.
                    (DropReason::Effect(_), Some(AtHand::Left(left, _, id))) if left == *packet => {
                        self.at_hand = None;
                        Some(id)
                    }
                    (DropReason::Effect(_), _) => None,
                    // The newest one has just been offered, and is not admitted.
                    _ => {
                        let entries = at(&mut self.packets, *packet as usize);
                        let newest = entries.iter_mut().rfind(|entry| entry.inside && entry.link == link);
                        newest.map(|entry| {
                            entry.inside = false;
                            entry.id
                        })
                    }
                };
                if let Some(id) = id {
                    let transmission = &mut self.streams[id.stream].story.transmissions[id.number];
                    transmission.dropped = Some((now, *reason == DropReason::Queue));
                }
            }
            LinkEvent::State { up } => {
                let downs = at(&mut self.downs, link);
                match (up, downs.last_mut()) {
                    (false, Some(last)) if !last.1.is_armed() => {}
                    (false, _) => downs.push((now, Time::NEVER)),
                    (true, Some(last)) => last.1 = last.1.min(now),
                    (true, None) => {}
                }
            }
            LinkEvent::Queue { .. } => {}
        }
    }
}

/// Returns why data that the application has written is not assigned.
fn of_limit(limit: Limit) -> Cause {
    match limit {
        // The rest is a short segment, which the sender withholds (Nagle's algorithm).
        Limit::Application => Cause::Pacing,
        Limit::CongestionWindow => Cause::CongestionWindow,
        Limit::ReceiveWindow => Cause::ReceiveWindow,
        Limit::SendBuffer => Cause::SendBuffer,
        Limit::Scheduler => Cause::Scheduler,
        Limit::NoSubflow => Cause::Handshake,
    }
}

impl Stream {
    /// Records a segment that crosses about `links` links; returns its number.
    fn send(&mut self, now: Time, subflow: usize, kind: SendKind, data: DataRange, links: usize) -> usize {
        let repeat = match kind {
            SendKind::New => Repeat::No,
            SendKind::Probe | SendKind::Control if data.start >= self.sent => Repeat::No,
            SendKind::Probe | SendKind::Control | SendKind::Retransmission => Repeat::Retransmission,
            SendKind::Reinjection => Repeat::Reinjection,
        };
        self.sent = self.sent.max(data.end);
        let waiting = at(&mut self.assigned, subflow);
        let place = waiting.iter().position(|(range, _)| range.start <= data.start && data.start < range.end);
        let assigned = place.map(|place| waiting[place].1);
        if let Some(place) = place
            && waiting[place].0.end <= data.end
        {
            // Earlier ones were recalled, or dropped as acknowledged meanwhile.
            waiting.drain(..=place);
        }
        let transmission = Transmission {
            subflow,
            data,
            assigned,
            sent: now,
            repeat,
            hops: Vec::with_capacity(links),
            dropped: None,
        };
        self.story.transmissions.push(transmission);
        self.story.transmissions.len() - 1
    }
}

/// Adds a transmission for a copy that `link` has made of the transmission `id`.
fn copy(streams: &mut [Stream], id: Id, link: usize) -> Id {
    let transmissions = &mut streams[id.stream].story.transmissions;
    let mut copy = transmissions[id.number].clone();
    let end = copy.hops.iter().position(|hop| hop.link == link).map_or(copy.hops.len(), |hop| hop + 1);
    copy.hops.truncate(end);
    copy.dropped = None;
    transmissions.push(copy);
    Id { number: transmissions.len() - 1, ..id }
}

/// Returns the element at `index` of a list that grows up to it.
fn at<T: Default>(list: &mut Vec<T>, index: usize) -> &mut T {
    if list.len() <= index {
        list.resize_with(index + 1, T::default);
    }
    &mut list[index]
}

impl Recorder for Notes {
    const WANTS: Wants = Wants {
        stack: StackEvents::SENT
            .and(StackEvents::LOST)
            .and(StackEvents::LIMIT)
            .and(StackEvents::ASSIGNED)
            .and(StackEvents::HELD),
        packets: true,
        queues: false,
        flows: true,
    };

    fn on_trace(&mut self, trace: &Trace<'_>) {
        match &trace.what {
            What::Stack { scope, event } => self.on_stack(trace.time, *scope, event),
            What::Flow { flow, event } => self.on_flow(trace.time, *flow, event),
            What::Link { link, event } => self.on_link(trace.time, *link, event),
            What::Host { .. } => {}
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct FlowStory {
    /// The client's stream, and the server's stream.
    pub streams: [Option<Story>; 2],
    /// The data of the flow that has arrived in order.
    pub progress: Steps,
    /// The outages of links, and the packets of the flow that they have dropped.
    pub outages: Outages,
}

/// The stories of the flows of a run.
pub(crate) struct Stories(pub Vec<FlowStory>);
