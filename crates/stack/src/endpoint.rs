//! A host: demultiplexes segments to connections, listens, connects.

use core::net::IpAddr;

use anabranch_units::Time;

use crate::config::{ConnectionConfig, EndpointConfig, Entropy};
use crate::event::{ConnectionId, Event, Placement, Transmit};
use crate::observer::Observer;
use crate::segment::{Address, PathId, Segment};
use crate::stats::{ConnectionStats, SubflowStats};

/// All connections of one host.
#[derive(Clone)]
pub struct Endpoint<O = ()> {
    observer: O,
}

/// Why a connection could not be opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ConnectError {
    /// The local address is not one of this host.
    UnknownLocalAddress(IpAddr),
    /// There are too many connections.
    TooManyConnections,
    /// No local port is free towards that address.
    NoFreePort,
}

#[allow(clippy::unimplemented, unused_variables)]
impl<O: Observer> Endpoint<O> {
    /// A host that tells `observer` what it does.
    pub fn with_observer(config: EndpointConfig, entropy: Entropy, observer: O) -> Endpoint<O> {
        Endpoint { observer }
    }
    /// The observer.
    pub fn observer(&self) -> &O {
        &self.observer
    }
    /// The observer.
    pub fn observer_mut(&mut self) -> &mut O {
        &mut self.observer
    }
    /// Accepts connections to `port` on every local address, each with `config`.
    pub fn listen(&mut self, port: u16, config: ConnectionConfig) {
        unimplemented!()
    }
    /// Opens a connection from `local` to `remote`.
    pub fn connect(
        &mut self,
        now: Time,
        local: IpAddr,
        remote: Address,
        config: ConnectionConfig,
    ) -> Result<ConnectionId, ConnectError> {
        unimplemented!()
    }
    /// A segment has arrived by `path`. What becomes of its payload is appended to `placed`.
    pub fn handle_segment(
        &mut self,
        now: Time,
        path: PathId,
        segment: &Segment,
        placed: &mut Vec<Placement>,
    ) {
        unimplemented!()
    }
    /// The time of [`Endpoint::poll_timeout`] has come (calling early or late is harmless).
    pub fn handle_timeout(&mut self, now: Time) {
        unimplemented!()
    }
    /// The next segment to send; ask until there is none, after each call that changes anything.
    pub fn poll_transmit(&mut self, now: Time) -> Option<Transmit> {
        unimplemented!()
    }
    /// When [`Endpoint::handle_timeout`] is due.
    pub fn poll_timeout(&self) -> Option<Time> {
        unimplemented!()
    }
    /// The next event; ask until there is none.
    pub fn poll_event(&mut self) -> Option<(ConnectionId, Event)> {
        unimplemented!()
    }
    /// The application writes `n` bytes; returns how many fit into the send buffer.
    pub fn write(&mut self, now: Time, id: ConnectionId, n: u64) -> u64 {
        unimplemented!()
    }
    /// How many bytes can be read in order.
    pub fn readable(&self, id: ConnectionId) -> u64 {
        unimplemented!()
    }
    /// The application has read `n` bytes.
    pub fn consume(&mut self, now: Time, id: ConnectionId, n: u64) {
        unimplemented!()
    }
    /// The application writes no more.
    pub fn close(&mut self, now: Time, id: ConnectionId) {
        unimplemented!()
    }
    /// Ends the connection at once.
    pub fn abort(&mut self, now: Time, id: ConnectionId) {
        unimplemented!()
    }
    /// A local address cannot be used any more, or can again.
    pub fn set_address_up(&mut self, now: Time, ip: IpAddr, up: bool) {
        unimplemented!()
    }
    /// The connection's counters; none once its [`Event::Closed`] was polled and events are polled on.
    pub fn stats(&self, id: ConnectionId) -> Option<ConnectionStats> {
        unimplemented!()
    }
    /// Its subflows, the dead ones included, in the order in which they began.
    pub fn subflow_stats(&self, id: ConnectionId) -> Vec<SubflowStats> {
        unimplemented!()
    }
}

impl Endpoint<()> {
    /// A host that nobody listens to.
    pub fn new(config: EndpointConfig, entropy: Entropy) -> Endpoint<()> {
        Endpoint::with_observer(config, entropy, ())
    }
}
