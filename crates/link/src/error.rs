//! Why a configuration is not that of a link.

use core::fmt;

use anabranch_units::{Duration, Rate, Time};

/// What is wrong with a configuration; its text says what would be right.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum LinkConfigError {
    /// The rate is zero or beyond [`LinkConfigError::MAX_RATE`].
    Rate(Rate),
    /// A probability outside 0 to 1.
    Probability {
        /// What it is the probability of.
        of: &'static str,
        /// The value given.
        value: f64,
    },
    /// A span of time beyond [`LinkConfigError::MAX_SPAN`].
    Span {
        /// What lasts so long.
        of: &'static str,
        /// The value given.
        value: Duration,
    },
    /// A mean sojourn time of the Gilbert-Elliott channel below [`LinkConfigError::MIN_SOJOURN`].
    Sojourn {
        /// `good` or `bad`.
        state: &'static str,
        /// The value given.
        value: Duration,
    },
    /// A queue limit that lets nothing in.
    EmptyQueue,
    /// A multiple of the BDP that is negative, infinite or not a number.
    BdpMultiple(f64),
    /// The drop list names packet 0; packets are counted from 1.
    DropListZero,
    /// A step of the timeline lies before its predecessor.
    TimelineOrder {
        /// Its place in the list, counted from 1.
        step: usize,
        /// Its instant.
        at: Time,
        /// The instant of the step before it.
        previous: Time,
    },
    /// A step of the timeline is wrong in itself.
    InStep {
        /// Its place in the list, counted from 1.
        step: usize,
        /// What is wrong with it.
        error: Box<LinkConfigError>,
    },
}

impl LinkConfigError {
    /// The highest rate: 10^15 bit/s. Beyond it, nanoseconds are too coarse to mean anything.
    pub const MAX_RATE: Rate = Rate(1_000_000_000_000_000);
    /// The longest delay, jitter or extra delay: a day.
    pub const MAX_SPAN: Duration = Duration::from_secs(86_400);
    /// The shortest mean sojourn time: the state is followed from change to change, also while nothing is
    /// sent, so very short ones would take very long to follow.
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

/// Refuses what is not a probability, not-a-number among it.
pub(crate) fn check_probability(of: &'static str, value: f64) -> Result<(), LinkConfigError> {
    if (0.0..=1.0).contains(&value) { Ok(()) } else { Err(LinkConfigError::Probability { of, value }) }
}

/// Refuses a span that is longer than makes sense.
pub(crate) fn check_span(of: &'static str, value: Duration) -> Result<(), LinkConfigError> {
    if value <= LinkConfigError::MAX_SPAN { Ok(()) } else { Err(LinkConfigError::Span { of, value }) }
}
