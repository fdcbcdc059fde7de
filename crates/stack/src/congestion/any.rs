//! Which congestion controls there are, and one of them chosen at run time.

use core::fmt;
use std::sync::Arc;

use anabranch_units::{Rate, Time};

use super::{
    Ack, Classic, CongestionControl, CongestionEvent, Cubic, CustomCongestion, Lia, NewReno, SubflowStart,
};
use crate::event::SubflowId;
use crate::parameter::{Parameterised, Spec, Value};

/// Which congestion control a connection uses.
#[derive(Clone, Debug, PartialEq)]
pub enum CongestionKind {
    /// Reno with NewReno's recovery (RFC 5681, RFC 6582).
    NewReno,
    /// CUBIC (RFC 9438).
    Cubic,
    /// CUBIC with HyStart++ in slow start (RFC 9406).
    CubicHystart,
    /// The linked increases algorithm (RFC 6356).
    Lia,
    /// A user's own.
    Custom(CustomCongestionKind),
}

impl CongestionKind {
    /// All that are built in.
    pub const ALL: [CongestionKind; 4] =
        [CongestionKind::NewReno, CongestionKind::Cubic, CongestionKind::CubicHystart, CongestionKind::Lia];

    /// Its name in scenarios, on the command line, in Python and in columns of results.
    pub fn name(&self) -> &str {
        match self {
            CongestionKind::NewReno => "newreno",
            CongestionKind::Cubic => "cubic",
            CongestionKind::CubicHystart => "cubic_hystart",
            CongestionKind::Lia => "lia",
            CongestionKind::Custom(custom) => &custom.name,
        }
    }

    /// The built-in congestion control of that name.
    pub fn from_name(name: &str) -> Option<CongestionKind> {
        CongestionKind::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// What it does, in one line.
    pub fn description(&self) -> &str {
        match self {
            CongestionKind::NewReno => {
                "every subflow by itself: one segment more per round trip, half at a loss (RFC 5681)"
            }
            CongestionKind::Cubic => {
                "every subflow by itself: a cubic function of the time since the last loss (RFC 9438)"
            }
            CongestionKind::CubicHystart => {
                "CUBIC that leaves slow start when the round-trip time grows (RFC 9406)"
            }
            CongestionKind::Lia => {
                "coupled: all subflows together take what one TCP takes on the best path (RFC 6356)"
            }
            CongestionKind::Custom(_) => "a user's own",
        }
    }

    /// Whether the subflows' windows depend on each other. A user's own is taken to be coupled if it says so.
    pub fn is_coupled(&self) -> bool {
        match self {
            CongestionKind::NewReno | CongestionKind::Cubic | CongestionKind::CubicHystart => false,
            CongestionKind::Lia => true,
            CongestionKind::Custom(custom) => custom.coupled,
        }
    }

    /// A congestion control of this kind for a new connection, without subflows.
    pub fn build(&self) -> AnyCongestion {
        match self {
            CongestionKind::NewReno => AnyCongestion::NewReno(Classic::new(NewReno)),
            CongestionKind::Cubic => AnyCongestion::Cubic(Classic::new(Cubic::default())),
            CongestionKind::CubicHystart => {
                AnyCongestion::Cubic(Classic::new(Cubic::default()).with_hystart())
            }
            CongestionKind::Lia => AnyCongestion::Lia(Classic::new(Lia::default())),
            CongestionKind::Custom(custom) => AnyCongestion::Custom((custom.build)()),
        }
    }
}

impl Parameterised for CongestionKind {
    const WHAT: &'static str = "congestion control";

    fn from_name(name: &str) -> Option<CongestionKind> {
        CongestionKind::from_name(name)
    }

    fn names() -> Vec<&'static str> {
        vec!["newreno", "cubic", "cubic_hystart", "lia"]
    }

    fn parameters(&self) -> Vec<(Spec, Value)> {
        Vec::new()
    }

    fn set_parameter(&mut self, _name: &str, _value: Value) -> bool {
        false
    }
}

/// A congestion control of a user's own: its name, and how one is made for each connection.
///
/// Two are equal if their names are.
#[derive(Clone)]
pub struct CustomCongestionKind {
    name: Arc<str>,
    coupled: bool,
    build: Arc<dyn Fn() -> Box<dyn CustomCongestion> + Send + Sync>,
}

impl CustomCongestionKind {
    /// The congestion control that `build` makes, known as `name`.
    pub fn new(
        name: &str,
        coupled: bool,
        build: impl Fn() -> Box<dyn CustomCongestion> + Send + Sync + 'static,
    ) -> CustomCongestionKind {
        CustomCongestionKind { name: name.into(), coupled, build: Arc::new(build) }
    }
}

impl fmt::Debug for CustomCongestionKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CustomCongestionKind").field(&self.name).finish()
    }
}

impl PartialEq for CustomCongestionKind {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name && self.coupled == other.coupled
    }
}

/// The congestion control of a connection.
#[derive(Clone)]
pub enum AnyCongestion {
    /// NewReno.
    NewReno(Classic<NewReno>),
    /// CUBIC.
    Cubic(Classic<Cubic>),
    /// LIA.
    Lia(Classic<Lia>),
    /// A user's own.
    Custom(Box<dyn CustomCongestion>),
}

impl fmt::Debug for AnyCongestion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AnyCongestion::NewReno(inner) => inner.fmt(f),
            AnyCongestion::Cubic(inner) => inner.fmt(f),
            AnyCongestion::Lia(inner) => inner.fmt(f),
            AnyCongestion::Custom(_) => f.write_str("Custom"),
        }
    }
}

macro_rules! dispatch {
    ($self:ident, $inner:ident => $call:expr) => {
        match $self {
            AnyCongestion::NewReno($inner) => $call,
            AnyCongestion::Cubic($inner) => $call,
            AnyCongestion::Lia($inner) => $call,
            AnyCongestion::Custom($inner) => $call,
        }
    };
}

impl CongestionControl for AnyCongestion {
    fn on_subflow_up(&mut self, id: SubflowId, start: &SubflowStart) {
        dispatch!(self, inner => inner.on_subflow_up(id, start));
    }

    fn on_subflow_down(&mut self, id: SubflowId) {
        dispatch!(self, inner => inner.on_subflow_down(id));
    }

    #[inline]
    fn on_sent(&mut self, id: SubflowId, now: Time, bytes: u64) {
        dispatch!(self, inner => inner.on_sent(id, now, bytes));
    }

    #[inline]
    fn on_ack(&mut self, id: SubflowId, ack: &Ack) {
        dispatch!(self, inner => inner.on_ack(id, ack));
    }

    fn on_congestion(&mut self, id: SubflowId, event: &CongestionEvent) {
        dispatch!(self, inner => inner.on_congestion(id, event));
    }

    fn on_recovered(&mut self, id: SubflowId, now: Time) {
        dispatch!(self, inner => inner.on_recovered(id, now));
    }

    fn on_rto(&mut self, id: SubflowId, now: Time, flight_bytes: u64, again: bool) {
        dispatch!(self, inner => inner.on_rto(id, now, flight_bytes, again));
    }

    fn on_undo(&mut self, id: SubflowId, now: Time) {
        dispatch!(self, inner => inner.on_undo(id, now));
    }

    fn on_idle(&mut self, id: SubflowId, now: Time) {
        dispatch!(self, inner => inner.on_idle(id, now));
    }

    fn penalise(&mut self, id: SubflowId, now: Time) {
        dispatch!(self, inner => inner.penalise(id, now));
    }

    #[inline]
    fn cwnd(&self, id: SubflowId) -> u64 {
        dispatch!(self, inner => inner.cwnd(id))
    }

    #[inline]
    fn ssthresh(&self, id: SubflowId) -> Option<u64> {
        dispatch!(self, inner => inner.ssthresh(id))
    }

    #[inline]
    fn window(&self, id: SubflowId) -> (u64, Option<u64>) {
        dispatch!(self, inner => inner.window(id))
    }

    #[inline]
    fn pacing_rate(&self, id: SubflowId) -> Option<Rate> {
        dispatch!(self, inner => inner.pacing_rate(id))
    }
}
