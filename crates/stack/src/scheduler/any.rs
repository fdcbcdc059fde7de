//! Which schedulers there are, and one of them chosen at run time.

use core::fmt;
use std::sync::Arc;

use super::{
    CustomScheduler, Decision, Dmptcp, DmptcpOptions, MinRtt, Redundant, RoundRobin, Scheduler,
    SchedulerEvent, View,
};
use crate::event::SubflowId;

/// Which scheduler a connection uses.
#[derive(Clone, Debug, PartialEq)]
pub enum SchedulerKind {
    /// The subflow with the lowest RTT that has room.
    MinRtt,
    /// Every subflow in turn.
    RoundRobin {
        /// Segments in a turn; 0 counts as 1.
        segments: u8,
        /// A subflow whose window is full is passed over; else everyone waits for it.
        cwnd_limited: bool,
    },
    /// Every subflow carries everything.
    Redundant,
    /// The lowest RTT of those subflows that a flow of this size has use for.
    Dmptcp(DmptcpOptions),
    /// A user's own.
    Custom(CustomSchedulerKind),
}

impl SchedulerKind {
    /// All that are built in, with their default options.
    pub const ALL: [SchedulerKind; 4] = [
        SchedulerKind::MinRtt,
        SchedulerKind::RoundRobin { segments: 1, cwnd_limited: true },
        SchedulerKind::Redundant,
        SchedulerKind::Dmptcp(DmptcpOptions::DEFAULT),
    ];

    /// Its name in scenarios, on the command line, in Python and in columns of results.
    pub fn name(&self) -> &str {
        match self {
            SchedulerKind::MinRtt => "min_rtt",
            SchedulerKind::RoundRobin { .. } => "round_robin",
            SchedulerKind::Redundant => "redundant",
            SchedulerKind::Dmptcp(_) => "dmptcp",
            SchedulerKind::Custom(custom) => &custom.name,
        }
    }

    /// The built-in scheduler of that name, with its default options.
    pub fn from_name(name: &str) -> Option<SchedulerKind> {
        SchedulerKind::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// What it does, in one line.
    pub fn description(&self) -> &str {
        match self {
            SchedulerKind::MinRtt => "the subflow with the lowest round-trip time that has room",
            SchedulerKind::RoundRobin { .. } => "every subflow in turn, a few segments each",
            SchedulerKind::Redundant => "every subflow carries everything",
            SchedulerKind::Dmptcp(_) => {
                "the lowest round-trip time among the subflows that what remains of the flow has use for"
            }
            SchedulerKind::Custom(_) => "a user's own",
        }
    }

    /// A scheduler of this kind for a new connection.
    pub fn build(&self) -> AnyScheduler {
        match self {
            SchedulerKind::MinRtt => AnyScheduler::MinRtt(MinRtt),
            SchedulerKind::RoundRobin { segments, cwnd_limited } => {
                AnyScheduler::RoundRobin(RoundRobin::new(*segments, *cwnd_limited))
            }
            SchedulerKind::Redundant => AnyScheduler::Redundant(Redundant::default()),
            SchedulerKind::Dmptcp(options) => AnyScheduler::Dmptcp(Dmptcp::new(*options)),
            SchedulerKind::Custom(custom) => AnyScheduler::Custom((custom.build)()),
        }
    }
}

/// A scheduler of a user's own: its name, and how one is made for each connection.
///
/// Two are equal if their names are.
#[derive(Clone)]
pub struct CustomSchedulerKind {
    name: Arc<str>,
    build: Arc<dyn Fn() -> Box<dyn CustomScheduler> + Send + Sync>,
}

impl CustomSchedulerKind {
    /// The scheduler that `build` makes, known as `name`.
    pub fn new(
        name: &str,
        build: impl Fn() -> Box<dyn CustomScheduler> + Send + Sync + 'static,
    ) -> CustomSchedulerKind {
        CustomSchedulerKind { name: name.into(), build: Arc::new(build) }
    }
}

impl fmt::Debug for CustomSchedulerKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CustomSchedulerKind").field(&self.name).finish()
    }
}

impl PartialEq for CustomSchedulerKind {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

/// The scheduler of a connection.
#[derive(Clone)]
pub enum AnyScheduler {
    /// minRTT.
    MinRtt(MinRtt),
    /// Round robin.
    RoundRobin(RoundRobin),
    /// Redundant.
    Redundant(Redundant),
    /// DMPTCP.
    Dmptcp(Dmptcp),
    /// A user's own.
    Custom(Box<dyn CustomScheduler>),
}

impl fmt::Debug for AnyScheduler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AnyScheduler::MinRtt(inner) => inner.fmt(f),
            AnyScheduler::RoundRobin(inner) => inner.fmt(f),
            AnyScheduler::Redundant(inner) => inner.fmt(f),
            AnyScheduler::Dmptcp(inner) => inner.fmt(f),
            AnyScheduler::Custom(_) => f.write_str("Custom"),
        }
    }
}

macro_rules! dispatch {
    ($self:ident, $inner:ident => $call:expr) => {
        match $self {
            AnyScheduler::MinRtt($inner) => $call,
            AnyScheduler::RoundRobin($inner) => $call,
            AnyScheduler::Redundant($inner) => $call,
            AnyScheduler::Dmptcp($inner) => $call,
            AnyScheduler::Custom($inner) => $call,
        }
    };
}

impl Scheduler for AnyScheduler {
    #[inline]
    fn decide(&mut self, view: &View<'_>) -> Decision {
        dispatch!(self, inner => inner.decide(view))
    }

    #[inline]
    fn on_event(&mut self, view: &View<'_>, event: &SchedulerEvent) {
        dispatch!(self, inner => inner.on_event(view, event));
    }

    #[inline]
    fn wants_events(&self) -> bool {
        dispatch!(self, inner => inner.wants_events())
    }

    #[inline]
    fn usable_window(&self, view: &View<'_>, subflow: SubflowId) -> Option<u64> {
        dispatch!(self, inner => inner.usable_window(view, subflow))
    }
}
