//! What is transferred: who, from when, how much, which way, and with which settings.

use core::net::IpAddr;

use anabranch_stack::config::ConnectionConfig;
use anabranch_units::{Bytes, Duration, Rate, Time};

use crate::network::HostId;

/// Names a flow of a run: its place in the list.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct FlowId(pub u32);

impl FlowId {
    /// As an index.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Who sends. The client always connects.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub enum Direction {
    /// The client.
    #[default]
    Upload,
    /// The server, when it has received the whole request.
    Download,
}

/// One of the two ends of a flow.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum End {
    /// The one that connects.
    Client,
    /// The one that listens.
    Server,
}

/// How the receiving application reads.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub enum Reading {
    /// Everything at once.
    #[default]
    AtOnce,
    /// No faster than this: after each 4096 bytes (or less, if there is less) it works on them
    /// for as long as they take at the rate.
    AtRate(Rate),
    /// Nothing between two moments after the flow's start; everything at once before and after.
    Pause {
        /// The beginning of the pause.
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
    /// When the client connects.
    pub start: Time,
    /// The host that connects.
    pub client: HostId,
    /// The address from which it connects: that of the initial subflow.
    pub client_address: IpAddr,
    /// The host that listens.
    pub server: HostId,
    /// The address to which the client connects.
    pub server_address: IpAddr,
    /// How much is sent, at least one byte; none sends until the end of the run.
    pub size: Option<Bytes>,
    /// Who sends it.
    pub direction: Direction,
    /// The length of the request of a download, at least one byte.
    pub request: Bytes,
    /// Whether the sender tells its stack the size ([`ConnectionConfig::flow_size`]).
    pub hint: bool,
    /// How the receiver reads.
    pub reading: Reading,
    /// The client's settings.
    pub client_config: ConnectionConfig,
    /// The server's settings.
    pub server_config: ConnectionConfig,
}

impl FlowSpec {
    /// The length of a request unless it is said otherwise.
    pub const REQUEST: Bytes = Bytes(100);

    /// An upload from the start of the run with the same settings at both ends, which are here
    /// `(host, address)`.
    pub fn new(
        name: impl Into<String>,
        client: (HostId, IpAddr),
        server: (HostId, IpAddr),
        size: Option<Bytes>,
        config: ConnectionConfig,
    ) -> FlowSpec {
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

    /// This flow with another start.
    pub fn starting(self, start: Time) -> FlowSpec {
        FlowSpec { start, ..self }
    }

    /// This flow as a download.
    pub fn download(self) -> FlowSpec {
        FlowSpec { direction: Direction::Download, ..self }
    }

    /// The end that sends the data.
    pub const fn sender(&self) -> End {
        match self.direction {
            Direction::Upload => End::Client,
            Direction::Download => End::Server,
        }
    }

    /// The end that receives the data.
    pub const fn receiver(&self) -> End {
        match self.direction {
            Direction::Upload => End::Server,
            Direction::Download => End::Client,
        }
    }

    /// The host of an end.
    pub const fn host(&self, end: End) -> HostId {
        match end {
            End::Client => self.client,
            End::Server => self.server,
        }
    }

    /// What the stack of an end is told: its settings, and the size where it is hinted. With
    /// `progress` somebody wants to hear of everything that arrives in order.
    pub(crate) fn config(&self, end: End, progress: bool) -> ConnectionConfig {
        let mut config = match end {
            End::Client => self.client_config.clone(),
            End::Server => self.server_config.clone(),
        };
        if end == self.sender() && self.hint {
            config.flow_size = self.size;
        }
        if self.counts_only(end) {
            config.consume_at_once = true;
            if !progress {
                let whole = if end == self.receiver() { self.size } else { Some(self.request) };
                config.readable_from = whole.unwrap_or(Bytes::MAX);
            }
        }
        config
    }

    /// Whether the application at that end only counts what arrives, so that the stack may take it.
    pub(crate) fn counts_only(&self, end: End) -> bool {
        end != self.receiver() || matches!(self.reading, Reading::AtOnce)
    }
}
