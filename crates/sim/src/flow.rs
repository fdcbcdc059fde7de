//! The description of a flow: its ends, start, size, direction and settings.

use core::net::IpAddr;

use anabranch_stack::config::SimConfig;
use anabranch_units::{Bytes, Duration, Rate, Time};

use crate::application::{Application, Pace};
use crate::distribution::Distribution;
use crate::network::HostId;

/// Identifies a flow of a run: its index in the list.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct FlowId(pub u32);

impl FlowId {
    /// Returns its place in the list of flows.
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
        /// The start of the pause, from the start of the flow.
        after: Duration,
        /// Its length.
        span: Duration,
    },
}

/// The hosts, the direction, the size and the start of a flow.
#[derive(Clone, Debug)]
pub struct FlowSpec {
    /// Its name in the report.
    pub name: String,
    /// The time at which the client connects.
    pub start: Time,
    /// The host that connects.
    pub client: HostId,
    /// The address from which the client connects: the local address of the initial subflow.
    pub client_address: IpAddr,
    /// The host that listens.
    pub server: HostId,
    /// The address to which the client connects.
    pub server_address: IpAddr,
    /// The number of bytes sent, at least one; none sends until the end of the run, or as the application does.
    pub size: Option<Bytes>,
    /// The applications at both ends.
    pub application: Application,
    /// The time between the client's connection and its first write.
    pub reaction: Duration,
    /// The time between the arrival of a complete request and the server's first write of its answer.
    pub answering: Duration,
    /// The time after its start at which a transfer without a size is broken off; its results are those at that time.
    pub stop: Option<Duration>,
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

const FROM_SERVER: &str = "responses are sent by the server; make the flow a download";

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
            application: Application::Transfer,
            reaction: Duration::ZERO,
            answering: Duration::ZERO,
            stop: None,
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

    /// True if it ends by itself.
    pub(crate) const fn is_finite(&self) -> bool {
        self.size.is_some() || self.stop.is_some() || !matches!(self.application, Application::Transfer)
    }

    /// Returns the problem of the application, if there is one.
    pub(crate) fn check_application(&self) -> Option<&'static str> {
        let is_transfer = matches!(self.application, Application::Transfer);
        if !is_transfer && self.size.is_some() {
            return Some("an application other than a transfer has no size; give none");
        }
        if self.stop.is_some() && !(is_transfer && self.size.is_none()) {
            return Some("only a transfer without a size can be broken off; give no stop");
        }
        let downloads = self.direction == Direction::Download;
        match &self.application {
            Application::Transfer => None,
            Application::Requests(plan) => {
                let think = match &plan.pace {
                    Pace::Closed(Distribution::Constant(0.0)) => true,
                    Pace::Closed(times) | Pace::Open(times) => times.is_valid(),
                };
                let valid =
                    think && plan.request.is_valid() && plan.response.is_valid() && plan.count != Some(0);
                let problem = "requests need positive sizes and times; give positive parameters";
                (!valid).then_some(problem).or((!downloads).then_some(FROM_SERVER))
            }
            Application::Video(plan) => {
                let valid = plan.segments > 0
                    && plan.segment.0 > 0
                    && plan.startup <= plan.buffer
                    && plan.resume <= plan.buffer
                    && (1..=255).contains(&plan.ladder.len())
                    && plan.ladder[0].0 > 0
                    && plan.ladder.windows(2).all(|two| two[0] < two[1]);
                let problem =
                    "a video needs segments, increasing bitrates, and a buffer above its thresholds";
                (!valid).then_some(problem).or((!downloads).then_some(FROM_SERVER))
            }
            Application::OnOff(plan) => {
                let valid = plan.on.is_valid() && plan.off.is_valid() && plan.rate.0 > 0;
                (!valid)
                    .then_some("an on/off sender needs a rate and positive times; give positive parameters")
            }
            Application::Datagrams(plan) => {
                let valid = plan.gap.is_valid() && (1..=65_000).contains(&plan.payload) && plan.span.0 > 0;
                (!valid).then_some(
                    "datagrams need a payload of 1 to 65000 bytes, a gap and a time; give all three",
                )
            }
        }
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
            if !progress && matches!(self.application, Application::Transfer) {
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
