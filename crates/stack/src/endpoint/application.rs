//! The application's interface to its connections.

use core::net::IpAddr;
use std::sync::Arc;

use anabranch_units::{Bytes, Time};

use super::Endpoint;
use crate::connection::Phase;
use crate::event::{CloseReason, ConnectionId, SubflowId};
use crate::observer::Observer;
use crate::seq::DataRange;
use crate::stats::{ConnectionStats, EndpointCounters, SubflowStats};

impl<O: Observer> Endpoint<O> {
    /// Writes `n` bytes for the application; returns the number that fits into the send buffer.
    pub fn write(&mut self, now: Time, id: ConnectionId, n: u64) -> u64 {
        let grows = self.send_buffers_grow;
        let Some(connection) = self.connection_mut(id) else { return 0 };
        let accepted = connection.write(now, n, grows);
        self.mark_ready(id);
        accepted
    }

    /// Sets whether send buffers may grow beyond their initial size (`send_buffer_start`). True by default; a
    /// driver that is short of memory sets it to false. Data already written is kept.
    pub fn set_send_buffers_grow(&mut self, grow: bool) {
        self.send_buffers_grow = grow;
    }

    /// Emits [`Event::Writable`](crate::event::Event::Writable) once the send buffer of a connection holds at
    /// most `enough` bytes, for a driver that has no memory for more; until then the buffer counts as full.
    pub fn await_room(&mut self, id: ConnectionId, enough: u64) {
        if let Some(connection) = self.connection_mut(id) {
            connection.await_room(enough);
        }
    }

    /// Informs the scheduler of the total number of bytes that the application will write, including those
    /// already written; `None` if unknown.
    pub fn set_flow_size(&mut self, id: ConnectionId, size: Option<Bytes>) {
        if let Some(connection) = self.connection_mut(id) {
            Arc::make_mut(&mut connection.config).flow_size = size;
        }
    }

    /// True if the connection has ended for its application, or does not exist.
    pub fn has_ended(&self, id: ConnectionId) -> bool {
        self.connection(id).is_none_or(|connection| connection.phase == Phase::Ended)
    }

    /// Returns the number of bytes that can be read in order.
    pub fn readable(&self, id: ConnectionId) -> u64 {
        self.connection(id).map_or(0, |connection| connection.readable())
    }

    /// True if the send buffer of a connection follows its windows (`send_buffer_start`).
    pub fn send_buffer_follows(&self, id: ConnectionId) -> bool {
        self.connection(id).is_some_and(|connection| connection.config.send_buffer_start.is_some())
    }

    /// Returns the number of bytes received in order since the start of the connection.
    pub fn received(&self, id: ConnectionId) -> u64 {
        self.connection(id).map_or(0, |connection| connection.received())
    }

    /// Consumes `n` bytes that the application has read.
    pub fn consume(&mut self, now: Time, id: ConnectionId, n: u64) {
        if let Some(connection) = self.connection_mut(id) {
            connection.consume(now, n);
            self.mark_ready(id);
        }
    }

    /// Returns the ranges of bytes before [`Endpoint::freed`] that are still needed: failed subflows carry
    /// them, and retransmit them when their paths return. The ranges may overlap, and are in no order.
    pub fn still_carried(&self, id: ConnectionId) -> Vec<DataRange> {
        self.connection(id).map_or(Vec::new(), |connection| connection.still_carried())
    }

    /// Returns the offset below which bytes of the sent stream are no longer needed, except
    /// [`Endpoint::still_carried`].
    pub fn freed(&self, id: ConnectionId) -> u64 {
        self.connection(id).map_or(0, |connection| connection.freed())
    }

    /// Closes the sending direction.
    pub fn close(&mut self, now: Time, id: ConnectionId) {
        if let Some(connection) = self.connection_mut(id) {
            connection.close(now);
            self.mark_ready(id);
        }
    }

    /// Aborts the connection.
    pub fn abort(&mut self, now: Time, id: ConnectionId) {
        if let Some(connection) = self.connection_mut(id) {
            connection.abort(now, CloseReason::Aborted);
            self.mark_ready(id);
        }
    }

    /// Sets whether a local address is usable.
    pub fn set_address_up(&mut self, now: Time, ip: IpAddr, up: bool) {
        let all: Vec<ConnectionId> = self.connections.ids().collect();
        for id in all {
            self.set_address_up_in(now, id, ip, up);
        }
    }

    /// Sets whether one connection may use a local address.
    pub fn set_address_up_in(&mut self, now: Time, id: ConnectionId, ip: IpAddr, up: bool) {
        if let Some(connection) = self.connection_mut(id) {
            connection.set_address_up(now, ip, up);
            self.mark_ready(id);
        }
    }

    /// Asks the peer to use a subflow only when no other works, or to use it normally again.
    pub fn set_backup(&mut self, id: ConnectionId, subflow: SubflowId, backup: bool) {
        if let Some(connection) = self.connection_mut(id) {
            connection.set_backup(subflow, backup);
            self.mark_ready(id);
        }
    }

    /// Returns the connection's counters; `None` once its [`Event::Closed`](crate::event::Event::Closed) and
    /// a further event were polled.
    pub fn stats(&self, id: ConnectionId) -> Option<ConnectionStats> {
        self.connection(id).map(|connection| connection.current_stats())
    }

    /// Returns the statistics of its subflows, including ended ones, in the order of their creation.
    pub fn subflow_stats(&self, id: ConnectionId) -> Vec<SubflowStats> {
        self.connection(id).map(|connection| connection.subflow_stats()).unwrap_or_default()
    }

    /// Returns its congestion control.
    pub fn congestion(&self, id: ConnectionId) -> Option<&crate::congestion::AnyCongestion> {
        self.connection(id).map(|connection| &connection.congestion)
    }

    /// Returns the number of connections, including ended ones that still answer late segments.
    pub fn connection_count(&self) -> usize {
        self.connections.live()
    }

    /// Returns the counters of refused and forgotten connections and segments.
    pub fn counters(&self) -> EndpointCounters {
        self.counters
    }

    /// Panics if the counters of a connection disagree with its contents; for tests.
    #[doc(hidden)]
    pub fn assert_consistent(&self) {
        for (_, connection) in self.connections.iter() {
            connection.assert_consistent();
        }
    }
}
