//! The contenders: schedulers, and plain TCP as a reference.

use anabranch_stack::congestion::CongestionKind;
use anabranch_stack::scheduler::SchedulerKind;

use crate::text::source::Span;
use crate::text::tree::Table;

/// A way to send the traffic, which is compared with others.
#[derive(Clone, Debug)]
pub struct Contender {
    /// Its name in results: by default the scheduler's.
    pub name: String,
    /// Multipath TCP with a scheduler, or plain TCP.
    pub transport: Transport,
    /// Its own congestion control, if it has one.
    pub congestion: Option<CongestionKind>,
    /// Its own knobs.
    pub(crate) knobs: Table,
    pub(crate) span: Span,
}

/// The transport of a contender.
#[derive(Clone, Debug, PartialEq)]
// There are few, and a scheduler's options may be a list of numbers.
#[allow(clippy::large_enum_variant)]
pub enum Transport {
    /// A plain TCP on one path; without a position on the best one by measurement.
    Tcp {
        /// The position of the path.
        path: Option<usize>,
    },
    /// Multipath TCP with this scheduler.
    Multipath(SchedulerKind),
}
