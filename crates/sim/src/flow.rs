//! The description of a flow: its ends, start, size, direction and settings.

use core::net::IpAddr;

use anabranch_stack::config::SimConfig;
use anabranch_units::{Bytes, Duration, Rate, Time};

use crate::network::HostId;

/// Identifies a flow of a run: its index in the list.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct FlowId(pub u32);

impl FlowId {
    /// Returns the index.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// The sender of a flow. The client always connects.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub enum Direction {
    /// The client.
    #[default]
    Upload,
    /// The server, once it has received the whole request.
    Download,
}

/// One of the two ends of a flow.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum End {
    /// The end that connects.
    Client,
    /// The end that listens.
    Server,
}

/// The reading behaviour of the receiving application.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub enum Reading {
    /// Reads everything immediately.
    #[default]
    AtOnce,
    /// Reads at this rate at most: after each 4096 bytes (or fewer, if fewer are available) it pauses for as
    /// long as they take at the rate.
    AtRate(Rate),
    /// Reads nothing between two times after the flow's start, and everything immediately before and after.
    Pause {
        /// The start of the pause.
        after: Duration,
        /// Its length.
        span: Duration,
    },
}

/// A flow.
#[derive(Clone, Debug)]
pub struct FlowSpec {
    /// Its name in the report.
    pub name: String,
    /// The time at which the client connects.
    pub start: Time,
    /// The host that connects.
    pub client: HostId,
    /// The address from which it connects: that of the initial subflow.
    pub client_address: IpAddr,
    /// The host that listens.
    pub server: HostId,
    /// The address to which the client connects.
    pub server_address: IpAddr,
    /// The number of bytes sent, at least one; none sends until the end of the run.
    pub size: Option<Bytes>,
    /// The direction of the data.
    pub direction: Direction,
    /// The length of the request of a download, at least one byte.
    pub request: Bytes,
    /// True if the sender's stack knows the size ([`ConnectionConfig::flow_size`]).
    ///
    /// [`ConnectionConfig::flow_size`]: anabranch_stack::config::ConnectionConfig::flow_size
    pub hint: bool,
    /// The reading behaviour of the receiver.
    pub reading: Reading,
    /// The client's settings.
    pub client_config: SimConfig,
    /// The server's settings.
    pub server_config: SimConfig,
}

impl FlowSpec {
    /// The default length of a request.
    pub const REQUEST: Bytes = Bytes(100);

    /// Returns an upload from the start of the run with the same settings at both ends, which are given as
    /// `(host, address)`.
    pub fn new(
        name: impl Into<String>,
        client: (HostId, IpAddr),
        server: (HostId, IpAddr),
        size: Option<Bytes>,
        config: impl Into<SimConfig>,
    ) -> FlowSpec {
        let config = config.into();
        FlowSpec {
            name: name.into(),
            start: Time::ZERO,
            client: client.0,
            client_address: client.1,
            server: server.0,
            server_address: server.1,
            size,
            direction: Direction::Upload,
            request: FlowSpec::REQUEST,
            hint: true,
            reading: Reading::AtOnce,
            client_config: config.clone(),
            server_config: config,
        }
    }

    /// Returns this flow with another start.
    pub fn starting(self, start: Time) -> FlowSpec {
        FlowSpec { start, ..self }
    }

    /// Returns this flow as a download.
    pub fn download(self) -> FlowSpec {
        FlowSpec { direction: Direction::Download, ..self }
    }

    /// Returns the end that sends the data.
    pub const fn sender(&self) -> End {
        match self.direction {
            Direction::Upload => End::Client,
            Direction::Download => End::Server,
        }
    }

    /// Returns the end that receives the data.
    pub const fn receiver(&self) -> End {
        match self.direction {
            Direction::Upload => End::Server,
            Direction::Download => End::Client,
        }
    }

    /// Returns the host of an end.
    pub const fn host(&self, end: End) -> HostId {
        match end {
            End::Client => self.client,
            End::Server => self.server,
        }
    }

    /// Returns the configuration of the stack at an end: its settings, and the size if it is known. With
    /// `progress` the stack reports all data that arrives in order.
    pub(crate) fn config(&self, end: End, progress: bool) -> SimConfig {
        let mut config = match end {
            End::Client => self.client_config.clone(),
            End::Server => self.server_config.clone(),
        };
        if end == self.sender() && self.hint {
            config.flow_size = self.size;
        }
        if self.counts_only(end) {
            config.only.consume_at_once = true;
            if !progress {
                let whole = if end == self.receiver() { self.size } else { Some(self.request) };
                config.only.readable_from = whole.unwrap_or(Bytes::MAX);
            }
        }
        config
    }

    /// True if the application at that end only counts received data, so that the stack may consume it.
    pub(crate) fn counts_only(&self, end: End) -> bool {
        end != self.receiver() || matches!(self.reading, Reading::AtOnce)
    }
}
