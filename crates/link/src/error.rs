//! Errors of a link's configuration.

use core::fmt;

use anabranch_units::{Duration, Rate, Time};

/// The problem of a configuration; its text includes a valid value.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum LinkConfigError {
    /// The rate is zero or beyond [`LinkConfigError::MAX_RATE`].
    Rate(Rate),
    /// A probability is outside 0 to 1.
    Probability {
        /// The name of the probability.
        of: &'static str,
        /// The value given.
        value: f64,
    },
    /// A duration exceeds [`LinkConfigError::MAX_SPAN`].
    Span {
        /// The name of the duration.
        of: &'static str,
        /// The value given.
        value: Duration,
    },
    /// A mean sojourn time of the Gilbert-Elliott channel is below [`LinkConfigError::MIN_SOJOURN`].
    Sojourn {
        /// `good` or `bad`.
        state: &'static str,
        /// The value given.
        value: Duration,
    },
    /// A queue limit admits nothing.
    EmptyQueue,
    /// A multiple of the BDP is negative, infinite or NaN.
    BdpMultiple(f64),
    /// The drop list names packet 0; packets are counted from 1.
    DropListZero,
    /// A token bucket holds nothing, or too much.
    Burst {
        /// `policer` or `shaper`.
        of: &'static str,
        /// The value given, in bytes.
        value: u64,
    },
    /// A setting of the queue management is invalid; the text includes a valid value.
    Aqm(String),
    /// A length of packets of the cross traffic is outside 40 to 65535 bytes.
    CrossPacket(u32),
    /// An interval of cross traffic is empty.
    CrossInterval {
        /// Its start.
        from: Time,
        /// Its end.
        until: Time,
    },
    /// A period of a redraw is shorter than [`LinkConfigError::MIN_PERIOD`].
    Period(Duration),
    /// A redraw has no rate to draw from.
    NoRates,
    /// A step of the timeline is earlier than its predecessor.
    TimelineOrder {
        /// Its position in the list, counted from 1.
        step: usize,
        /// Its time.
        at: Time,
        /// The time of the step before it.
        previous: Time,
    },
    /// A step of the timeline is invalid.
    InStep {
        /// Its position in the list, counted from 1.
        step: usize,
        /// The problem.
        error: Box<LinkConfigError>,
    },
}

impl LinkConfigError {
    /// The highest rate: 10^15 bit/s. Beyond it, nanoseconds are too coarse.
    pub const MAX_RATE: Rate = Rate(1_000_000_000_000_000);
    /// The longest delay, jitter or extra delay: a day.
    pub const MAX_SPAN: Duration = Duration::from_secs(86_400);
    /// The shortest mean sojourn time. The channel's state is followed from change to change even while
    /// nothing is sent, which would take very long for shorter times.
    pub const MIN_SOJOURN: Duration = Duration::from_micros(1);
    /// The largest burst of a token bucket: 1 GB.
    pub const MAX_BURST: u64 = 1_000_000_000;
    /// The shortest period of a redraw: every redraw is followed, even while nothing is sent.
    pub const MIN_PERIOD: Duration = Duration::from_micros(100);
}

impl fmt::Display for LinkConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LinkConfigError::Rate(rate) if rate.as_bps() == 0 => f.write_str(
                "the rate is 0; give at least 1 bit/s, or a step `down` for a link that carries nothing",
            ),
            LinkConfigError::Rate(rate) => {
                write!(f, "the rate {rate} is too high; the highest is {} bit/s", Self::MAX_RATE.as_bps())
            }
            LinkConfigError::Probability { of, value } => {
                write!(f, "the probability of {of} is {value}; it must lie between 0 and 1")
            }
            LinkConfigError::Span { of, value } => {
                write!(f, "the {of} is {value}; the longest is {}", Self::MAX_SPAN)
            }
            LinkConfigError::Sojourn { state, value } => write!(
                f,
                "the mean time in the {state} state is {value}; the shortest is {}",
                Self::MIN_SOJOURN
            ),
            LinkConfigError::EmptyQueue => f.write_str(
                "the queue has no space; it counts the packet in service, so give at least 1 packet, or the \
                 bytes of one",
            ),
            LinkConfigError::BdpMultiple(value) => {
                write!(f, "the queue is {value} BDP; give a finite number that is not negative")
            }
            LinkConfigError::DropListZero => {
                f.write_str("the drop list names packet 0; the first packet offered is number 1")
            }
            LinkConfigError::Burst { of, value } => write!(
                f,
                "the burst of the {of} is {value} bytes; give from 1 byte (better at least one packet of 1500) to {} bytes",
                LinkConfigError::MAX_BURST
            ),
            LinkConfigError::Aqm(text) => f.write_str(text),
            LinkConfigError::CrossPacket(value) => {
                write!(f, "the packets of the cross traffic have {value} bytes; give from 40 to 65535")
            }
            LinkConfigError::CrossInterval { from, until } => {
                write!(f, "the cross traffic ends at {until} and begins at {from}; it must end later")
            }
            LinkConfigError::Period(value) => {
                write!(f, "the period of the redraw is {value}; the shortest is {}", Self::MIN_PERIOD)
            }
            LinkConfigError::NoRates => f.write_str("the redraw has no rates; give at least one"),
            LinkConfigError::TimelineOrder { step, at, previous } => write!(
                f,
                "step {step} of the timeline is at {at}, before the step ahead of it at {previous}; \
                 put the steps in order of time"
            ),
            LinkConfigError::InStep { step, error } => write!(f, "step {step} of the timeline: {error}"),
        }
    }
}

impl core::error::Error for LinkConfigError {}

/// Rejects values outside 0 to 1, including NaN.
pub(crate) fn check_probability(of: &'static str, value: f64) -> Result<(), LinkConfigError> {
    if (0.0..=1.0).contains(&value) { Ok(()) } else { Err(LinkConfigError::Probability { of, value }) }
}

/// Rejects a duration longer than [`LinkConfigError::MAX_SPAN`].
pub(crate) fn check_span(of: &'static str, value: Duration) -> Result<(), LinkConfigError> {
    if value <= LinkConfigError::MAX_SPAN { Ok(()) } else { Err(LinkConfigError::Span { of, value }) }
}
