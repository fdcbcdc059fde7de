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
