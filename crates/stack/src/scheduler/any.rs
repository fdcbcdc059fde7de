//! Which schedulers there are, and one of them chosen at run time.

use core::fmt;
use std::sync::Arc;

use super::{CustomScheduler, Decision, MinRtt, Scheduler, SchedulerEvent, View};
use crate::event::SubflowId;

/// Which scheduler a connection uses.
#[derive(Clone, Debug, PartialEq)]
pub enum SchedulerKind {
    /// The subflow with the lowest RTT that has room.
    MinRtt,
    /// A user's own.
    Custom(CustomSchedulerKind),
}

impl SchedulerKind {
    /// All that are built in, with their default options.
    pub const ALL: [SchedulerKind; 1] = [SchedulerKind::MinRtt];

    /// Its name in scenarios, on the command line, in Python and in columns of results.
    pub fn name(&self) -> &str {
        match self {
            SchedulerKind::MinRtt => "minrtt",
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
            SchedulerKind::Custom(_) => "a user's own",
        }
    }

    /// A scheduler of this kind for a new connection.
    pub fn build(&self) -> AnyScheduler {
        match self {
            SchedulerKind::MinRtt => AnyScheduler::MinRtt(MinRtt),
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
    /// A user's own.
    Custom(Box<dyn CustomScheduler>),
}

impl fmt::Debug for AnyScheduler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AnyScheduler::MinRtt(inner) => inner.fmt(f),
            AnyScheduler::Custom(_) => f.write_str("Custom"),
        }
    }
}

macro_rules! dispatch {
    ($self:ident, $inner:ident => $call:expr) => {
        match $self {
            AnyScheduler::MinRtt($inner) => $call,
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
