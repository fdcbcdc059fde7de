//! What the application asks of its connections, and tells them.

use core::net::IpAddr;
use std::sync::Arc;

use anabranch_units::{Bytes, Time};

use super::Endpoint;
use crate::connection::Phase;
use crate::event::{CloseReason, ConnectionId, SubflowId};
use crate::observer::Observer;
use crate::stats::{ConnectionStats, EndpointCounters, SubflowStats};

impl<O: Observer> Endpoint<O> {
    /// The application writes `n` bytes; returns how many fit into the send buffer.
    pub fn write(&mut self, now: Time, id: ConnectionId, n: u64) -> u64 {
        let grows = self.send_buffers_grow;
        let Some(connection) = self.connection_mut(id) else { return 0 };
        let accepted = connection.write(now, n, grows);
        self.touch(now, id);
        accepted
    }

    /// Whether send buffers may grow beyond what they are at first (`send_buffer_start`); yes, unless a driver that is
    /// short of memory says no. What is written already stays.
    pub fn set_send_buffers_grow(&mut self, grow: bool) {
        self.send_buffers_grow = grow;
    }

    /// Emits [`Event::Writable`](crate::event::Event::Writable) once the send buffer of a connection holds no more than
    /// `enough` bytes, for a driver that has no memory for more; until then the buffer counts as full.
    pub fn await_room(&mut self, id: ConnectionId, enough: u64) {
        if let Some(connection) = self.connection_mut(id) {
            connection.await_room(enough);
        }
    }

    /// Tells the scheduler how many bytes the application will write in all, those included that it has
    /// written already; none if it does not know.
    pub fn set_flow_size(&mut self, id: ConnectionId, size: Option<Bytes>) {
        if let Some(connection) = self.connection_mut(id) {
            Arc::make_mut(&mut connection.config).flow_size = size;
        }
    }

    /// Whether the connection has ended for its application, or is not there at all.
    pub fn has_ended(&self, id: ConnectionId) -> bool {
        self.connection(id).is_none_or(|connection| connection.phase == Phase::Ended)
    }

    /// How many bytes can be read in order.
    pub fn readable(&self, id: ConnectionId) -> u64 {
        self.connection(id).map_or(0, |connection| connection.readable())
    }

    /// Whether the send buffer of a connection follows its windows (`send_buffer_start`).
    pub fn send_buffer_follows(&self, id: ConnectionId) -> bool {
        self.connection(id).is_some_and(|connection| connection.config.send_buffer_start.is_some())
    }

    /// How many bytes have arrived in order since the connection began.
    pub fn received(&self, id: ConnectionId) -> u64 {
        self.connection(id).map_or(0, |connection| connection.received())
    }

    /// The application has read `n` bytes.
    pub fn consume(&mut self, now: Time, id: ConnectionId, n: u64) {
        if let Some(connection) = self.connection_mut(id) {
            connection.consume(n);
            self.touch(now, id);
        }
    }

    /// The offset below which the sent stream's bytes are not needed any more.
    pub fn freed(&self, id: ConnectionId) -> u64 {
        self.connection(id).map_or(0, |connection| connection.freed())
    }

    /// The application writes no more.
    pub fn close(&mut self, now: Time, id: ConnectionId) {
        if let Some(connection) = self.connection_mut(id) {
            connection.close(now);
            self.touch(now, id);
        }
    }

    /// Ends the connection at once.
    pub fn abort(&mut self, now: Time, id: ConnectionId) {
        if let Some(connection) = self.connection_mut(id) {
            connection.abort(now, CloseReason::Aborted);
            self.touch(now, id);
        }
    }

    /// A local address cannot be used any more, or can again.
    pub fn set_address_up(&mut self, now: Time, ip: IpAddr, up: bool) {
        let all: Vec<ConnectionId> = self.connections.ids().collect();
        for id in all {
            if let Some(connection) = self.connection_mut(id) {
                connection.set_address_up(now, ip, up);
                self.touch(now, id);
            }
        }
    }

    /// Asks the peer to use a subflow only when no other works, or again like the others.
    pub fn set_backup(&mut self, now: Time, id: ConnectionId, subflow: SubflowId, backup: bool) {
        if let Some(connection) = self.connection_mut(id) {
            connection.set_backup(subflow, backup);
            self.touch(now, id);
        }
    }

    /// The connection's counters; none once its [`Event::Closed`](crate::event::Event::Closed) was polled and events
    /// are polled on.
    pub fn stats(&self, id: ConnectionId) -> Option<ConnectionStats> {
        self.connection(id).map(|connection| connection.current_stats())
    }

    /// Its subflows, the dead ones included, in the order in which they began.
    pub fn subflow_stats(&self, id: ConnectionId) -> Vec<SubflowStats> {
        self.connection(id).map(|connection| connection.subflow_stats()).unwrap_or_default()
    }

    /// Its congestion control.
    pub fn congestion(&self, id: ConnectionId) -> Option<&crate::congestion::AnyCongestion> {
        self.connection(id).map(|connection| &connection.congestion)
    }

    /// How many connections there are, those included that have ended and still answer late segments.
    pub fn connection_count(&self) -> usize {
        self.connections.live()
    }

    /// What the host has refused and forgotten so far.
    pub fn counters(&self) -> EndpointCounters {
        self.counters
    }

    /// Panics if what a connection counts disagrees with what it holds; for tests.
    #[doc(hidden)]
    pub fn assert_consistent(&self) {
        for (_, connection) in self.connections.iter() {
            connection.assert_consistent();
        }
    }
}
