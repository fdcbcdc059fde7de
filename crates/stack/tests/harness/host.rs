//! One host with its one connection, and the application using it.

use std::collections::BTreeMap;

use anabranch_stack::config::{EndpointConfig, Entropy, LocalAddress};
use anabranch_stack::endpoint::Endpoint;
use anabranch_stack::event::{CloseReason, ConnectionId, Event, Placement, SubflowId};
use anabranch_stack::observer::{Observer, StackEvent, StackEvents};
use anabranch_stack::segment::Segment;
use anabranch_stack::seq::DataRange;
use anabranch_stack::stats::{ConnectionStats, SubflowStats};
use anabranch_units::{RandomStream, Time};

/// The last reported congestion window of each subflow.
#[derive(Clone, Default)]
pub struct Reported(BTreeMap<(ConnectionId, SubflowId), u64>);

impl Observer for Reported {
    const EVENTS: StackEvents = StackEvents::WINDOWS;

    fn on_event(&mut self, _: Time, connection: ConnectionId, event: &StackEvent<'_>) {
        if let StackEvent::Windows { subflow, windows } = *event {
            self.0.insert((connection, subflow), windows.cwnd_bytes);
        }
    }
}

/// One host with its one connection.
#[derive(Clone)]
pub struct Host {
    pub endpoint: Endpoint<Reported>,
    pub connection: Option<ConnectionId>,
    /// True once the connection is established (it may have ended since).
    pub open: bool,
    pub events: Vec<Event>,
    /// Held data: subflow, place there, offset in the sender's stream, whether it was changed.
    held: Vec<(SubflowId, DataRange, u64, bool)>,
    /// Number of bytes held so far.
    pub held_bytes: u64,
    /// Number of bytes delivered although they were changed in transit.
    pub damaged_bytes: u64,
    /// Delivered bytes in any order, as ranges: checks that each is delivered once.
    delivered: Vec<(u64, u64)>,
    /// True if checksums were negotiated: no changed byte may be delivered.
    pub checksums: bool,
    pub written: u64,
    pub read: u64,
    pub auto_read: bool,
    /// Bytes that the application has yet to write.
    pub backlog: u64,
    /// True to close when all of that is written.
    pub close_wanted: bool,
    pub close_called: bool,
    pub closed: Option<CloseReason>,
    pub peer_closed: bool,
    pub all_acked: bool,
    /// Subflows that ended while the connection needed them.
    pub subflow_deaths: u64,
    /// Bytes written after the peer had closed its direction.
    pub half_closed_bytes: u64,
    /// The counters at the end of the connection.
    pub final_stats: Option<(ConnectionStats, Vec<SubflowStats>)>,
}

impl Host {
    pub(super) fn new(addresses: Vec<LocalAddress>, seed: u64, name: &str) -> Host {
        let config = EndpointConfig { max_connections: 16, ..EndpointConfig::new(addresses) };
        let entropy = Entropy::Seeded(RandomStream::new(seed, name));
        Host {
            endpoint: Endpoint::with_observer(config, entropy, Reported::default()),
            connection: None,
            open: false,
            events: Vec::new(),
            held: Vec::new(),
            held_bytes: 0,
            damaged_bytes: 0,
            delivered: Vec::new(),
            checksums: false,
            written: 0,
            read: 0,
            auto_read: true,
            backlog: 0,
            close_wanted: false,
            close_called: false,
            closed: None,
            peer_closed: false,
            all_acked: false,
            subflow_deaths: 0,
            half_closed_bytes: 0,
            final_stats: None,
        }
    }

    /// Checks that the counters agree, and that the windows were reported.
    pub(super) fn assert_consistent(&self) {
        self.endpoint.assert_consistent();
        self.assert_windows_reported();
    }

    /// Checks that the observer was notified of every change of a congestion window.
    pub(super) fn assert_windows_reported(&self) {
        let Some(id) = self.connection else { return };
        let live = |subflow: &SubflowStats| subflow.established.is_some() && subflow.ended.is_none();
        for subflow in self.endpoint.subflow_stats(id).into_iter().filter(live) {
            let reported = self.endpoint.observer().0.get(&(id, subflow.id)).copied();
            assert_eq!(reported, Some(subflow.cwnd_bytes), "the reported window of {:?}", subflow.id);
        }
    }

    /// Places payload: each byte once, and the byte that the sender sent. `sent` is the offset of the
    /// segment's payload in the sender's stream.
    pub(super) fn place(&mut self, placed: &[Placement], sent: u64, segment: &Segment) {
        let damaged = segment.payload_sum != 0;
        for &place in placed {
            match place {
                Placement::Deliver { connection, stream, payload_offset, .. } => {
                    let from = sent + u64::from(payload_offset);
                    self.deliver(connection, stream, from, damaged);
                }
                Placement::Hold { subflow, payload_offset, held, .. } => {
                    self.held_bytes += held.len();
                    self.held.push((subflow, held, sent + u64::from(payload_offset), damaged));
                }
                Placement::Release { connection, subflow, held, stream } => {
                    for (part, from, damaged) in self.let_go(subflow, held) {
                        let start = stream.start + (part.start - held.start);
                        self.deliver(connection, DataRange::new(start, start + part.len()), from, damaged);
                    }
                }
                Placement::Drop { subflow, held, .. } => {
                    self.let_go(subflow, held);
                }
                Placement::Discard { .. } => {}
            }
        }
    }

    /// Removes a range from the held data, and returns the part that was held.
    fn let_go(&mut self, subflow: SubflowId, range: DataRange) -> Vec<(DataRange, u64, bool)> {
        let mut gone = Vec::new();
        for (of, held, from, damaged) in core::mem::take(&mut self.held) {
            let inside = if of == subflow { held.intersection(range) } else { DataRange::default() };
            if inside.is_empty() {
                self.held.push((of, held, from, damaged));
                continue;
            }
            gone.push((inside, from + (inside.start - held.start), damaged));
            for rest in [DataRange::new(held.start, inside.start), DataRange::new(inside.end, held.end)] {
                if !rest.is_empty() {
                    self.held.push((of, rest, from + (rest.start - held.start), damaged));
                }
            }
        }
        let bytes: u64 = gone.iter().map(|(part, ..)| part.len()).sum();
        assert_eq!(bytes, range.len(), "{range:?} of {subflow:?} was not held");
        gone
    }

    fn deliver(&mut self, connection: ConnectionId, stream: DataRange, sent: u64, damaged: bool) {
        {
            if self.connection.is_some_and(|known| known != connection) {
                return;
            }
            assert!(stream.start < stream.end);
            assert_eq!(stream.start, sent, "delivered to the wrong place");
            if damaged {
                self.damaged_bytes += stream.len();
                let plain = self.endpoint.stats(connection).is_none_or(|stats| !stats.mptcp);
                assert!(!self.checksums || plain, "{stream:?} was changed on its way, and delivered");
            }
            let at = self.delivered.partition_point(|&(_, end)| end < stream.start);
            if let Some(&(start, end)) = self.delivered.get(at) {
                assert!(stream.end <= start || stream.start >= end, "{stream:?} was delivered twice");
            }
            self.delivered.insert(at, (stream.start, stream.end));
            self.delivered.sort_unstable();
            let mut merged: Vec<(u64, u64)> = Vec::with_capacity(self.delivered.len());
            for &(start, end) in &self.delivered {
                match merged.last_mut() {
                    Some(last) if last.1 >= start => {
                        assert_eq!(last.1, start, "{stream:?} was delivered twice");
                        last.1 = end;
                    }
                    _ => merged.push((start, end)),
                }
            }
            self.delivered = merged;
        }
    }

    /// Returns the number of bytes delivered without a hole from the start.
    pub fn in_order(&self) -> u64 {
        self.delivered.first().filter(|first| first.0 == 0).map_or(0, |first| first.1)
    }

    pub(super) fn write(&mut self, now: Time, n: u64) -> u64 {
        let Some(id) = self.connection else { return 0 };
        let accepted = self.endpoint.write(now, id, n);
        self.written += accepted;
        accepted
    }

    /// Writes as much of the backlog as fits, and then closes if requested.
    pub(super) fn push_backlog(&mut self, now: Time) -> bool {
        if self.connection.is_none() || self.closed.is_some() {
            return false;
        }
        let accepted = self.write(now, self.backlog);
        self.backlog -= accepted;
        if self.peer_closed {
            self.half_closed_bytes += accepted;
        }
        if self.backlog == 0 && self.close_wanted && !self.close_called {
            self.close_called = true;
            if let Some(id) = self.connection {
                self.endpoint.close(now, id);
            }
            return true;
        }
        accepted > 0
    }

    /// Lets the application read at most `n` bytes.
    pub fn consume(&mut self, now: Time, n: u64) {
        if let Some(id) = self.connection {
            let n = n.min(self.endpoint.readable(id));
            self.read += n;
            self.endpoint.consume(now, id, n);
        }
    }

    /// Handles an event; returns true if it may have given the endpoint something to send.
    pub(super) fn on_event(&mut self, now: Time, id: ConnectionId, event: Event) -> bool {
        if event == Event::Accepted && !self.open {
            self.connection = Some(id);
        }
        if self.connection != Some(id) {
            // A late SYN whose peer is gone: the connection is not needed.
            if event == Event::Accepted {
                self.endpoint.abort(now, id);
            }
            return event == Event::Accepted;
        }
        self.events.push(event);
        assert!(self.closed.is_none(), "{event:?} after the end");
        match event {
            Event::Connected | Event::Accepted => {
                self.open = true;
                self.push_backlog(now);
            }
            Event::Readable if self.auto_read => self.consume(now, u64::MAX),
            Event::Writable => {
                self.push_backlog(now);
            }
            Event::SubflowDown(down) => {
                self.held.retain(|(subflow, ..)| *subflow != down);
                self.subflow_deaths += u64::from(!(self.peer_closed && self.all_acked));
            }
            Event::PeerClosed => self.peer_closed = true,
            Event::AllAcked => self.all_acked = self.close_called,
            Event::Closed(reason) => {
                self.closed = Some(reason);
                // The ID is valid until the next poll, so the data is read now.
                self.consume(now, u64::MAX);
                let stats = self.endpoint.stats(id).unwrap_or_default();
                self.final_stats = Some((stats, self.endpoint.subflow_stats(id)));
            }
            _ => {}
        }
        true
    }
}
