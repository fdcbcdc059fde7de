//! How a slow start may end before a queue overflows.

mod linux;
mod plus_plus;

use linux::LinuxHystart;
use plus_plus::HystartPlusPlus;

use super::rule::Window;
use super::{Ack, SubflowStart};

/// Which of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum HystartKind {
    /// HyStart++ (RFC 9406), in the first slow start alone.
    PlusPlus,
    /// HyStart of Linux, in the first slow start and in those after timeouts.
    Linux,
}

/// How slow start goes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Phase {
    /// As ever.
    SlowStart,
    /// Conservatively.
    Conservative,
    /// It is over: congestion avoidance from here.
    Done,
}

/// The state of one slow start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Hystart {
    PlusPlus(HystartPlusPlus),
    Linux(LinuxHystart),
}

impl Hystart {
    /// That of a new subflow.
    pub(super) fn new(kind: HystartKind, start: &SubflowStart) -> Hystart {
        match kind {
            HystartKind::PlusPlus => Hystart::PlusPlus(HystartPlusPlus::new(start.paced)),
            HystartKind::Linux => Hystart::Linux(LinuxHystart::new(start.paced)),
        }
    }

    /// That of the same subflow after a timeout, if there is to be one.
    pub(super) fn after_timeout(kind: HystartKind, paced: bool) -> Option<Hystart> {
        match kind {
            HystartKind::PlusPlus => None,
            HystartKind::Linux => Some(Hystart::Linux(LinuxHystart::new(paced))),
        }
    }

    /// The most acknowledged segments that one acknowledgement lets count.
    pub(super) fn limit(&self) -> f64 {
        match self {
            Hystart::PlusPlus(state) => state.limit(),
            Hystart::Linux(_) => f64::INFINITY,
        }
    }

    /// How slow start goes on after `ack`, which has not moved `window` yet.
    pub(super) fn on_ack(&mut self, ack: &Ack, window: &Window) -> Phase {
        match self {
            Hystart::PlusPlus(state) => state.on_ack(ack),
            Hystart::Linux(state) => match state.ends(ack, window) {
                true => Phase::Done,
                false => Phase::SlowStart,
            },
        }
    }

    /// By how much of what is acknowledged the window grows in `phase`.
    pub(super) fn growth(phase: Phase) -> f64 {
        if phase == Phase::Conservative { plus_plus::CSS_GROWTH } else { 1.0 }
    }
}
