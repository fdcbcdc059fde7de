//! The list of congestion controls, and one chosen at run time.

use core::fmt;
use std::sync::Arc;

use anabranch_units::{Duration, Rate, Time};

use super::classic::Windows;
use super::{
    Ack, Balia, Bbr, BbrOptions, Classic, CongestionControl, CongestionEvent, Cubic, CubicLinux,
    CubicOptions, CustomCongestion, Dwc, DwcOptions, Growth, Lia, NewReno, Olia, Sbd, SbdOptions,
    SubflowStart, Vegas, VegasOptions, Veno, VenoOptions, Wvegas, WvegasOptions,
};
use crate::event::SubflowId;

/// The congestion control of a connection.
#[derive(Clone, Debug, PartialEq)]
pub enum CongestionKind {
    /// Reno with NewReno's recovery (RFC 5681, RFC 6582).
    NewReno,
    /// CUBIC (RFC 9438).
    Cubic(CubicOptions),
    /// CUBIC with HyStart++ in slow start (RFC 9406).
    CubicHystart(CubicOptions),
    /// CUBIC and HyStart as in Linux.
    CubicLinux,
    /// The linked increases algorithm (RFC 6356).
    Lia,
    /// The opportunistic linked increases algorithm (CoNEXT 2012).
    Olia,
    /// The balanced linked adaptation (draft-walid-mptcp-congestion-control).
    Balia,
    /// Vegas (JSAC 1995).
    Vegas(VegasOptions),
    /// Veno (JSAC 2003).
    Veno(VenoOptions),
    /// Weighted Vegas (ICNP 2012).
    Wvegas(WvegasOptions),
    /// BBR version 3 (draft-ietf-ccwg-bbr).
    Bbr(BbrOptions),
    /// Shared bottleneck detection (RFC 8382, INFOCOM 2016).
    Sbd(SbdOptions),
    /// Dynamic window coupling (ICNP 2011).
    Dwc(DwcOptions),
    /// A user-defined congestion control.
    Custom(CustomCongestionKind),
}

impl CongestionKind {
    /// All built-in congestion controls.
    pub const ALL: [CongestionKind; 13] = [
        CongestionKind::NewReno,
        CongestionKind::Cubic(CubicOptions::DEFAULT),
        CongestionKind::CubicHystart(CubicOptions::DEFAULT),
        CongestionKind::CubicLinux,
        CongestionKind::Vegas(VegasOptions::DEFAULT),
        CongestionKind::Veno(VenoOptions::DEFAULT),
        CongestionKind::Bbr(BbrOptions::DEFAULT),
        CongestionKind::Lia,
        CongestionKind::Olia,
        CongestionKind::Balia,
        CongestionKind::Wvegas(WvegasOptions::DEFAULT),
        CongestionKind::Sbd(SbdOptions::DEFAULT),
        CongestionKind::Dwc(DwcOptions::DEFAULT),
    ];

    /// The names of all built-in congestion controls, in the same order.
    pub(super) const NAMES: [&'static str; 13] = [
        "newreno",
        "cubic",
        "cubic_hystart",
        "cubic_linux",
        "vegas",
        "veno",
        "bbr",
        "lia",
        "olia",
        "balia",
        "wvegas",
        "sbd",
        "dwc",
    ];

    /// Returns the name used in scenarios, on the command line, in Python and in result columns.
    pub fn name(&self) -> &str {
        match self {
            CongestionKind::NewReno => "newreno",
            CongestionKind::Cubic(_) => "cubic",
            CongestionKind::CubicHystart(_) => "cubic_hystart",
            CongestionKind::CubicLinux => "cubic_linux",
            CongestionKind::Vegas(_) => "vegas",
            CongestionKind::Veno(_) => "veno",
            CongestionKind::Lia => "lia",
            CongestionKind::Olia => "olia",
            CongestionKind::Balia => "balia",
            CongestionKind::Wvegas(_) => "wvegas",
            CongestionKind::Bbr(_) => "bbr",
            CongestionKind::Sbd(_) => "sbd",
            CongestionKind::Dwc(_) => "dwc",
            CongestionKind::Custom(custom) => &custom.name,
        }
    }

    /// Returns the built-in congestion control with the given name.
    pub fn from_name(name: &str) -> Option<CongestionKind> {
        // Aliases: the Linux kernel's name, and that of RFC 6356.
        let name = match name {
            "reno" => "newreno",
            "coupled" => "lia",
            name => name,
        };
        CongestionKind::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Returns a one-line description.
    pub fn description(&self) -> &str {
        match self {
            CongestionKind::NewReno => {
                "uncoupled: one segment more per round trip, half at a loss (RFC 5681)"
            }
            CongestionKind::Cubic(_) => {
                "uncoupled: a cubic function of the time since the last loss (RFC 9438)"
            }
            CongestionKind::CubicHystart(_) => {
                "CUBIC that leaves slow start when the round-trip time grows (RFC 9406)"
            }
            CongestionKind::CubicLinux => {
                "CUBIC and HyStart as in the Linux kernel, to predict Linux senders"
            }
            CongestionKind::Lia => {
                "coupled: all subflows together take as much as one TCP on the best path (RFC 6356)"
            }
            CongestionKind::Vegas(_) => "uncoupled: keeps 2 to 4 segments in the path's queue (JSAC 1995)",
            CongestionKind::Veno(_) => {
                "uncoupled: Reno that yields less to losses while the queue is short (JSAC 2003)"
            }
            CongestionKind::Olia => {
                "coupled: like LIA, and moves traffic to the paths that lose least (CoNEXT 2012)"
            }
            CongestionKind::Balia => {
                "coupled: between LIA and OLIA, slower paths yield more at a loss (draft-walid-mptcp)"
            }
            CongestionKind::Wvegas(_) => {
                "coupled: all subflows together keep 10 segments in queues (ICNP 2012)"
            }
            CongestionKind::Bbr(_) => {
                "uncoupled: a model of bandwidth and minimum RTT, version 3 (draft-ietf-ccwg-bbr)"
            }
            CongestionKind::Sbd(_) => {
                "coupled by OLIA if delays show a shared bottleneck (RFC 8382, INFOCOM 2016)"
            }
            CongestionKind::Dwc(_) => "coupled by LIA if losses and delays coincide (after ICNP 2011)",
            CongestionKind::Custom(_) => "user-defined",
        }
    }

    /// True if the subflows' windows depend on each other. A user-defined one declares it.
    pub fn is_coupled(&self) -> bool {
        match self {
            CongestionKind::NewReno
            | CongestionKind::Cubic(_)
            | CongestionKind::CubicHystart(_)
            | CongestionKind::CubicLinux
            | CongestionKind::Vegas(_)
            | CongestionKind::Veno(_)
            | CongestionKind::Bbr(_) => false,
            CongestionKind::Lia
            | CongestionKind::Olia
            | CongestionKind::Balia
            | CongestionKind::Wvegas(_)
            | CongestionKind::Sbd(_)
            | CongestionKind::Dwc(_) => true,
            CongestionKind::Custom(custom) => custom.coupled,
        }
    }

    /// Builds a congestion control of this kind for a new connection, without subflows.
    pub fn build(&self) -> AnyCongestion {
        match self {
            CongestionKind::NewReno => AnyCongestion::NewReno(Classic::new(NewReno)),
            CongestionKind::Cubic(options) => AnyCongestion::Cubic(Classic::new(Cubic::new(*options))),
            CongestionKind::CubicHystart(options) => {
                AnyCongestion::Cubic(Classic::new(Cubic::new(*options)).with_hystart())
            }
            CongestionKind::CubicLinux => {
                AnyCongestion::CubicLinux(Classic::new(CubicLinux::default()).with_hystart_of_linux())
            }
            CongestionKind::Lia => AnyCongestion::Lia(Classic::new(Lia::default())),
            CongestionKind::Olia => AnyCongestion::Olia(Classic::new(Olia::default())),
            CongestionKind::Balia => AnyCongestion::Balia(Classic::new(Balia)),
            CongestionKind::Vegas(options) => AnyCongestion::Vegas(Classic::new(Vegas::new(*options))),
            CongestionKind::Veno(options) => AnyCongestion::Veno(Classic::new(Veno::new(*options))),
            CongestionKind::Wvegas(options) => AnyCongestion::Wvegas(Classic::new(Wvegas::new(*options))),
            CongestionKind::Bbr(options) => AnyCongestion::Bbr(Bbr::with_options(*options)),
            CongestionKind::Sbd(options) => AnyCongestion::Sbd(Box::new(Classic::new(Sbd::new(*options)))),
            CongestionKind::Dwc(options) => AnyCongestion::Dwc(Box::new(Classic::new(Dwc::new(*options)))),
            CongestionKind::Custom(custom) => AnyCongestion::Custom((custom.build)()),
        }
    }
}

/// A user-defined congestion control: its name, and a function that builds one for each connection.
///
/// Two are equal if their names are equal.
#[derive(Clone)]
pub struct CustomCongestionKind {
    name: Arc<str>,
    coupled: bool,
    build: Arc<dyn Fn() -> Box<dyn CustomCongestion> + Send + Sync>,
}

impl CustomCongestionKind {
    /// Returns a kind named `name` whose congestion controls are made by `build`.
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
    /// Linux's CUBIC.
    CubicLinux(Classic<CubicLinux>),
    /// LIA.
    Lia(Classic<Lia>),
    /// OLIA.
    Olia(Classic<Olia>),
    /// BALIA.
    Balia(Classic<Balia>),
    /// Vegas.
    Vegas(Classic<Vegas>),
    /// Veno.
    Veno(Classic<Veno>),
    /// Weighted Vegas.
    Wvegas(Classic<Wvegas>),
    /// BBR.
    Bbr(Bbr),
    /// SBD.
    Sbd(Box<Classic<Sbd>>),
    /// DWC.
    Dwc(Box<Classic<Dwc>>),
    /// A user-defined congestion control.
    Custom(Box<dyn CustomCongestion>),
}

/// Evaluates `$call` with the content of a classic variant, `$bbr` for BBR, and `$custom` for a user-defined
/// one.
macro_rules! dispatch {
    ($self:expr, $inner:ident => $call:expr, bbr $model:ident => $bbr:expr, custom $own:ident => $custom:expr) => {
        match $self {
            AnyCongestion::Bbr($model) => $bbr,
            AnyCongestion::Sbd($inner) => $call,
            AnyCongestion::Dwc($inner) => $call,
            AnyCongestion::NewReno($inner) => $call,
            AnyCongestion::Cubic($inner) => $call,
            AnyCongestion::CubicLinux($inner) => $call,
            AnyCongestion::Lia($inner) => $call,
            AnyCongestion::Olia($inner) => $call,
            AnyCongestion::Balia($inner) => $call,
            AnyCongestion::Vegas($inner) => $call,
            AnyCongestion::Veno($inner) => $call,
            AnyCongestion::Wvegas($inner) => $call,
            AnyCongestion::Custom($own) => $custom,
        }
    };
    ($self:expr, $inner:ident => $call:expr) => {
        dispatch!($self, $inner => $call, bbr $inner => $call, custom $inner => $call)
    };
}

impl fmt::Debug for AnyCongestion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        dispatch!(self, inner => inner.fmt(f), bbr model => model.fmt(f), custom _own => f.write_str("Custom"))
    }
}

impl AnyCongestion {
    /// Links the slow starts of the subflows (LISA) if `on` and if the control has slow starts; a
    /// user-defined one is not changed.
    pub fn with_lisa(mut self, on: bool) -> AnyCongestion {
        dispatch!(&mut self, inner => inner.link_slow_starts(on), bbr _model => (), custom _own => ());
        self
    }

    /// True if segments are sent at its pacing rate, regardless of the configuration.
    #[inline]
    pub fn paces(&self) -> bool {
        matches!(self, AnyCongestion::Bbr(_))
    }

    /// Returns the windows with their fractions; `None` for a control that does not count in windows of
    /// segments.
    pub fn windows(&self) -> Option<&Windows> {
        dispatch!(self, inner => Some(inner.windows()), bbr _model => None, custom _own => None)
    }
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

    fn growth(&self, id: SubflowId) -> Growth {
        dispatch!(self, inner => inner.growth(id))
    }

    fn window_at(&self, id: SubflowId, now: Time, ahead: Duration) -> u64 {
        dispatch!(self, inner => inner.window_at(id, now, ahead))
    }
}
