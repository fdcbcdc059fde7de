//! The capacity of a link: a rate, or the recording of one.

use std::sync::Arc;

use anabranch_units::{Duration, Rate};

use crate::Trace;
use crate::error::{self, LinkConfigError};

/// The capacity of a link.
#[derive(Clone, Debug, PartialEq)]
pub enum Capacity {
    /// A constant rate. A packet of b bytes takes exactly 8 b / rate; its departure is rounded up to the next
    /// nanosecond, and the fraction is carried over to the packets after it.
    Rate(Rate),
    /// The delivery opportunities of a recording.
    Trace {
        /// The recording.
        trace: Arc<Trace>,
        /// The position in the recording at the link's time zero.
        start: Duration,
    },
}

impl Capacity {
    /// Returns the rate, or the mean rate of the trace.
    pub fn mean_rate(&self) -> Rate {
        match self {
            Capacity::Rate(rate) => *rate,
            Capacity::Trace { trace, .. } => trace.mean_rate(),
        }
    }

    pub(crate) fn check(&self) -> Result<(), LinkConfigError> {
        match self {
            Capacity::Rate(rate) if rate.as_bps() == 0 || *rate > LinkConfigError::MAX_RATE => {
                Err(LinkConfigError::Rate(*rate))
            }
            Capacity::Rate(_) => Ok(()),
            Capacity::Trace { start, .. } => error::check_span("start of the trace", *start),
        }
    }
}

impl From<Rate> for Capacity {
    fn from(rate: Rate) -> Capacity {
        Capacity::Rate(rate)
    }
}

impl From<Arc<Trace>> for Capacity {
    fn from(trace: Arc<Trace>) -> Capacity {
        Capacity::Trace { trace, start: Duration::ZERO }
    }
}
