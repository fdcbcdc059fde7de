//! Ends slow start before a queue overflows.

mod linux;
mod plus_plus;

use linux::LinuxHystart;
use plus_plus::HystartPlusPlus;

use super::rule::Window;
use super::{Ack, SubflowStart};

/// The variants of HyStart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum HystartKind {
    /// HyStart++ (RFC 9406), only in the first slow start.
    PlusPlus,
    /// HyStart of Linux, in the first slow start and in every slow start after a timeout.
    Linux,
}

/// The phase of slow start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Phase {
    /// Normal slow start.
    SlowStart,
    /// Conservative slow start.
    Conservative,
    /// Slow start has ended: congestion avoidance follows.
    Done,
}

/// The state of one slow start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Hystart {
    PlusPlus(HystartPlusPlus),
    Linux(LinuxHystart),
}

impl Hystart {
    /// Returns the state for a new subflow.
    pub(super) fn new(kind: HystartKind, start: &SubflowStart) -> Hystart {
        match kind {
            HystartKind::PlusPlus => Hystart::PlusPlus(HystartPlusPlus::new(start.paced)),
            HystartKind::Linux => Hystart::Linux(LinuxHystart::new(start.paced)),
        }
    }

    /// Returns the state for the slow start after a timeout; `None` if this kind has none.
    pub(super) fn after_timeout(kind: HystartKind, paced: bool) -> Option<Hystart> {
        match kind {
            HystartKind::PlusPlus => None,
            HystartKind::Linux => Some(Hystart::Linux(LinuxHystart::new(paced))),
        }
    }

    /// True if it works only in the first slow start (RFC 9406 section 4.3); Linux's works in every slow start, until it
    /// has ended one.
    #[inline]
    pub(super) fn is_only_for_start(&self) -> bool {
        matches!(self, Hystart::PlusPlus(_))
    }

    /// Returns the maximum number of acknowledged segments that count per acknowledgement.
    pub(super) fn limit(&self) -> f64 {
        match self {
            Hystart::PlusPlus(state) => state.limit(),
            Hystart::Linux(_) => f64::INFINITY,
        }
    }

    /// Returns the phase after `ack`, which has not changed `window` yet.
    pub(super) fn on_ack(&mut self, ack: &Ack, window: &Window) -> Phase {
        match self {
            Hystart::PlusPlus(state) => state.on_ack(ack),
            Hystart::Linux(state) => match state.ends(ack, window) {
                true => Phase::Done,
                false => Phase::SlowStart,
            },
        }
    }

    /// Returns the growth of the window per acknowledged segment in `phase`.
    pub(super) fn growth(phase: Phase) -> f64 {
        if phase == Phase::Conservative { plus_plus::CSS_GROWTH } else { 1.0 }
    }
}
