//! Classes of traffic: the behaviour of several kinds of applications in one scenario.

use anabranch_sim::application::{Application, Datagrams, OnOff, Pace, Requests, Video};
use anabranch_sim::distribution::{Distribution, PUBLISHED};
use anabranch_units::{Bytes, Duration, Rate};

use super::traffic::{Direction, FlowSize, Start};
use crate::text::reader::list;
use crate::text::units::show_rate;

/// No limit in time.
pub(crate) const UNLIMITED: Duration = Duration::from_secs(100 * 365 * 86_400);

/// Flows of one kind that start within a run, and the way in which they are sent.
#[derive(Clone, Debug, PartialEq)]
pub struct TrafficClass {
    /// Its name, from which its random streams are derived.
    pub name: String,
    /// The behaviour of its flows.
    pub kind: Kind,
    /// The positions of the pairs of hosts among which its flows alternate.
    pub pairs: Vec<usize>,
    /// The number of flows: transfers, or users with a connection each.
    pub flows: u32,
    /// Their start times.
    pub start: Start,
    /// The direction of the data.
    pub direction: Direction,
    /// The transport.
    pub via: Via,
    /// True if the sender's stack knows the size of a transfer beforehand.
    pub size_known: bool,
}

/// The transport of a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Via {
    /// By the contender: these flows are compared.
    Contender,
    /// A plain TCP on this path, or on the best one by its lower bound.
    Tcp(Option<usize>),
    /// Datagrams on this path, or on the path of the initial subflow.
    Udp(Option<usize>),
}

impl Via {
    /// Returns the value of the key `via`.
    pub const fn name(self) -> &'static str {
        match self {
            Via::Contender => "contender",
            Via::Tcp(_) => "tcp",
            Via::Udp(_) => "udp",
        }
    }
}

/// The behaviour of the flows of a class.
#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    /// Transfers of a size each, or as much as fits in `duration`.
    Transfer {
        /// The distribution from which each flow draws its size.
        size: FlowSize,
        /// The duration of bulk transfers.
        duration: Duration,
    },
    /// Requests and responses.
    Requests(Requests),
    /// Sending at a rate, and silence.
    OnOff(OnOff),
    /// Datagrams at fixed gaps, without retransmission.
    Datagrams(Datagrams),
    /// Video with a playback buffer.
    Video(Video),
}

impl Kind {
    /// The names of all kinds.
    pub const NAMES: [&str; 5] = ["transfer", "requests", "on-off", "udp", "video"];

    /// Returns the value of the key `kind`.
    pub const fn name(&self) -> &'static str {
        match self {
            Kind::Transfer { .. } => Kind::NAMES[0],
            Kind::Requests(_) => Kind::NAMES[1],
            Kind::OnOff(_) => Kind::NAMES[2],
            Kind::Datagrams(_) => Kind::NAMES[3],
            Kind::Video(_) => Kind::NAMES[4],
        }
    }

    /// Returns the noun for the things that are counted and measured, in the plural.
    pub const fn unit(&self) -> &'static str {
        match self {
            Kind::Transfer { .. } => "flows",
            Kind::Requests(_) => "requests",
            Kind::OnOff(_) => "bursts",
            Kind::Datagrams(_) => "streams",
            Kind::Video(_) => "videos",
        }
    }

    /// True for bulk transfers, which are measured by goodput.
    pub fn is_bulk(&self) -> bool {
        matches!(self, Kind::Transfer { size: FlowSize::Bulk, .. })
    }

    /// Returns the simulator's application.
    pub fn application(&self) -> Application {
        match self {
            Kind::Transfer { .. } => Application::Transfer,
            Kind::Requests(plan) => Application::Requests(plan.clone()),
            Kind::OnOff(plan) => Application::OnOff(plan.clone()),
            Kind::Datagrams(plan) => Application::Datagrams(plan.clone()),
            Kind::Video(plan) => Application::Video(plan.clone()),
        }
    }

    /// Returns the time for which a flow is active whatever the network does.
    pub fn span(&self) -> Duration {
        match self {
            Kind::Transfer { size: FlowSize::Bulk, duration } => *duration,
            Kind::Transfer { .. } => Duration::ZERO,
            Kind::Requests(Requests { span, count, .. }) => match count {
                Some(_) if *span == UNLIMITED => Duration::ZERO,
                _ => *span,
            },
            Kind::OnOff(OnOff { span, .. }) | Kind::Datagrams(Datagrams { span, .. }) => *span,
            Kind::Video(plan) => Duration(plan.segment.0 * u64::from(plan.segments)),
        }
    }

    /// Returns the number of requests of a flow, if it is fixed: no duration ends them.
    pub fn planned(&self) -> Option<u64> {
        match self {
            Kind::Requests(plan) if plan.span == UNLIMITED => plan.count,
            _ => None,
        }
    }

    /// Returns the size on which estimates of the paths are based: the size of a transfer, a response, a segment,
    /// or a period of sending.
    pub(crate) fn size(&self) -> FlowSize {
        let fixed = |bytes: f64| FlowSize::Fixed(Bytes((bytes as u64).max(1)));
        match self {
            Kind::Transfer { size, .. } => size.clone(),
            Kind::Requests(plan) => FlowSize::Drawn(plan.response.clone()),
            Kind::OnOff(plan) => fixed(plan.rate.bytes_per_sec() * plan.on.mean() / 1e9),
            Kind::Datagrams(plan) => fixed(f64::from(plan.payload)),
            Kind::Video(plan) => fixed(plan.segment_bytes(plan.ladder[0]) as f64),
        }
    }
}

/// Returns the position of the main class: the first that uses the contender.
pub fn main_class(classes: &[TrafficClass]) -> Option<usize> {
    classes.iter().position(|class| class.via == Via::Contender)
}

/// Returns a number with three significant digits.
fn rounded(value: f64) -> f64 {
    let value = value.clamp(0.0, 1e18);
    let unit = libm::pow(10.0, libm::log10(value.max(1.0)).floor() - 2.0).max(1.0);
    (value / unit).round() * unit
}

impl TrafficClass {
    /// Describes the class in a sentence without its name.
    pub fn describe(&self) -> String {
        let size = |value: f64| Bytes(rounded(value) as u64).to_string();
        let time = |value: f64| Duration(rounded(value) as u64).to_string();
        let what = match &self.kind {
            Kind::Transfer { size: FlowSize::Bulk, duration } => format!("bulk transfer for {duration}"),
            Kind::Transfer { size: FlowSize::Web { .. }, .. } => "transfer of web-like sizes".to_owned(),
            Kind::Transfer { size: FlowSize::Fixed(bytes), .. } => {
                format!("transfer of {}", size(bytes.0 as f64))
            }
            Kind::Transfer { size: FlowSize::Drawn(sizes), .. } => {
                format!("transfer of sizes {}", describe(sizes, size))
            }
            Kind::Requests(plan) => {
                let pace = match &plan.pace {
                    Pace::Closed(Distribution::Constant(0.0)) => "no think times".to_owned(),
                    Pace::Closed(think) => format!("think times {}", describe(think, time)),
                    Pace::Open(gap) => format!("gaps {}, answered or not", describe(gap, time)),
                };
                let until = match (plan.count, plan.span == UNLIMITED) {
                    (Some(1), true) => "one request".to_owned(),
                    (Some(1), false) => format!("at most one request in {}", plan.span),
                    (Some(count), true) => format!("{count} requests"),
                    (Some(count), false) => format!("up to {count} requests in {}", plan.span),
                    (None, _) => format!("for {}", plan.span),
                };
                format!("user: responses {}, {pace}, {until}", describe(&plan.response, size))
            }
            Kind::OnOff(plan) => format!(
                "sender: {} in periods {}, silences {}, for {}",
                show_rate(plan.rate),
                describe(&plan.on, time),
                describe(&plan.off, time),
                plan.span
            ),
            Kind::Datagrams(plan) => {
                let rate = Rate((f64::from(plan.payload) * 8e9 / plan.gap.mean()) as u64);
                format!(
                    "stream: datagrams of {}, gaps {}, {}, for {}",
                    size(f64::from(plan.payload)),
                    describe(&plan.gap, time),
                    show_rate(rate),
                    plan.span
                )
            }
            Kind::Video(plan) => {
                let rates: Vec<String> = plan.ladder.iter().map(|rate| show_rate(*rate)).collect();
                format!(
                    "video: {} segments of {} at {}, playback from {}, buffer {}",
                    plan.segments,
                    plan.segment,
                    list(&rates),
                    plan.startup,
                    plan.buffer
                )
            }
        };
        let via = match self.via {
            Via::Contender => "the contender",
            Via::Tcp(_) => "plain TCP",
            Via::Udp(_) => "UDP",
        };
        let direction = match self.direction {
            Direction::Upload => "upload",
            Direction::Download => "download",
        };
        format!("{} x {what}; {direction} over {via}", self.flows)
    }
}

/// Describes a distribution in a few words, with its values shown by `show`.
fn describe(of: &Distribution, show: impl Fn(f64) -> String) -> String {
    let mean = show(of.mean());
    match of {
        Distribution::Constant(_) => format!("of {mean}"),
        Distribution::Uniform { min, max } => format!("uniform {} to {}", show(*min), show(*max)),
        Distribution::Exponential { .. } => format!("exponential with mean {mean}"),
        Distribution::Pareto { max: None, .. } if !of.mean().is_finite() => {
            "Pareto without a mean".to_owned()
        }
        Distribution::Pareto { max: None, .. } => format!("Pareto with mean {mean}"),
        Distribution::Pareto { max: Some(_), .. } => format!("bounded Pareto with mean {mean}"),
        Distribution::LogNormal { .. } => format!("log-normal with mean {mean}"),
        Distribution::Empirical(cdf) if PUBLISHED.iter().any(|published| published.name == cdf.label()) => {
            format!("{} with mean {mean}", cdf.label())
        }
        Distribution::Empirical(_) => format!("from a file, with mean {mean}"),
        Distribution::Sequence(values) => format!("in a sequence of {} with mean {mean}", values.len()),
    }
}
