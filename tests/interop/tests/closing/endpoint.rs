//! An endpoint of anabranch on a virtual clock.

use std::collections::VecDeque;

use anabranch_stack::config::{ConnectionConfig, EndpointConfig, Entropy, LocalAddress};
use anabranch_stack::endpoint::Endpoint;
use anabranch_stack::event::{CloseReason, ConnectionId, Event, Placement};
use anabranch_stack::path_manager::PathManagerKind;
use anabranch_stack::segment::{Address, PathId, Segment};
use anabranch_units::{Duration, RandomStream, Time};

use crate::peer::{PEER_PORT, SUBJECT_PORT, peer_ip, subject_ip};
use crate::{Role, Subject};

/// The longest time to wait for a segment.
const PATIENCE: Duration = Duration::from_secs(300);

pub struct Anabranch {
    endpoint: Endpoint,
    now: Time,
    id: Option<ConnectionId>,
    events: Vec<Event>,
    sent: VecDeque<(Segment, Vec<u8>)>,
    /// All bytes that the application has written.
    written: Vec<u8>,
    /// The received bytes, by offset in the stream.
    arrived: Vec<Option<u8>>,
    read: usize,
}

impl Anabranch {
    pub fn new(role: Role) -> Anabranch {
        let address = LocalAddress { ip: subject_ip(), path: PathId(0), backup: false };
        let entropy = Entropy::Seeded(RandomStream::new(1, "closing"));
        let mut endpoint = Endpoint::new(EndpointConfig::new(vec![address]), entropy);
        let config = ConnectionConfig { path_manager: PathManagerKind::None, ..ConnectionConfig::linux() };
        let now = Time::from_secs(1);
        let mut id = None;
        match role {
            Role::Server => endpoint.listen(SUBJECT_PORT, config),
            Role::Client => {
                let remote = Address::new(peer_ip(0), PEER_PORT);
                id = endpoint.connect(now, subject_ip(), remote, config).ok();
            }
        }
        let mut new = Anabranch {
            endpoint,
            now,
            id,
            events: Vec::new(),
            sent: VecDeque::new(),
            written: Vec::new(),
            arrived: Vec::new(),
            read: 0,
        };
        new.poll();
        new
    }

    fn id(&self) -> ConnectionId {
        self.id.expect("there is a connection")
    }

    fn poll(&mut self) {
        loop {
            while let Some(transmit) = self.endpoint.poll_transmit(self.now) {
                let start = transmit.stream_offset as usize;
                let payload = self.written[start..][..transmit.segment.payload_len as usize].to_vec();
                self.sent.push_back((transmit.segment, payload));
            }
            let Some((id, event)) = self.endpoint.poll_event() else { break };
            self.id.get_or_insert(id);
            self.events.push(event);
        }
    }
}

impl Subject for Anabranch {
    fn inject(&mut self, segment: &Segment, payload: &[u8]) {
        let mut placed = Vec::new();
        self.endpoint.handle_segment(self.now, PathId(0), segment, &mut placed);
        for place in placed {
            if let Placement::Deliver { payload_offset, stream, .. } = place {
                let end = stream.end as usize;
                self.arrived.resize(self.arrived.len().max(end), None);
                for at in stream.start..stream.end {
                    let from = payload_offset as usize + (at - stream.start) as usize;
                    let before = self.arrived[at as usize].replace(payload[from]);
                    assert_eq!(before, None, "a byte is delivered twice");
                }
            }
        }
        self.poll();
    }

    fn next(&mut self) -> Option<(Segment, Vec<u8>)> {
        let limit = self.now + PATIENCE;
        while self.sent.is_empty() {
            let due = self.endpoint.poll_timeout().filter(|&due| due <= limit)?;
            self.now = self.now.max(due);
            self.endpoint.handle_timeout(self.now);
            self.poll();
        }
        self.sent.pop_front()
    }

    fn opened(&mut self) {
        let opened = self.events.iter().any(|event| matches!(event, Event::Connected | Event::Accepted));
        assert!(opened, "{:?}", self.events);
    }

    fn write(&mut self, bytes: &[u8]) {
        self.written.extend(bytes);
        let taken = self.endpoint.write(self.now, self.id(), bytes.len() as u64);
        assert_eq!(taken, bytes.len() as u64);
        self.poll();
    }

    fn end(&mut self) {
        self.endpoint.close(self.now, self.id());
        self.poll();
    }

    fn read(&mut self, len: usize) -> Vec<u8> {
        let bytes = self.arrived.get(self.read..self.read + len).unwrap_or_default();
        let bytes: Option<Vec<u8>> = bytes.iter().copied().collect();
        let bytes = bytes.filter(|bytes| bytes.len() == len).expect("the bytes have not arrived");
        self.read += len;
        self.endpoint.consume(self.now, self.id(), len as u64);
        self.poll();
        bytes
    }

    fn read_end(&mut self) {
        assert!(self.events.contains(&Event::PeerClosed), "the stream has not ended: {:?}", self.events);
        assert_eq!(self.arrived.len(), self.read, "there is more to read");
    }

    fn is_over(&mut self) {
        let over = Event::Closed(CloseReason::Finished);
        assert!(self.events.contains(&over), "the connection has not ended: {:?}", self.events);
    }
}
