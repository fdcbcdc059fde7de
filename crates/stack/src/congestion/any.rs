//! The list of congestion controls, and one chosen at run time.

use core::fmt;

use anabranch_units::{Duration, Rate, Time};

use super::classic::Windows;
use super::{
    Ack, Balia, Bbr, BbrOptions, BuiltIn, Classic, CongestionControl, CongestionEvent, Cubic, CubicLinux,
    CubicOptions, CustomCongestion, CustomCongestionKind, Dwc, DwcOptions, Growth, Lia, NewReno, Olia, Sbd,
    SbdOptions, SubflowStart, Vegas, VegasOptions, Veno, VenoOptions, Westwood, Wvegas, WvegasOptions,
};
use crate::event::SubflowId;
use crate::parameter::{Options, Parameterised, Spec, Value};

/// All kinds: the variant with the options that it may have; its type and how one is made; its name and
/// others for it; whether the windows of its subflows depend on each other; what it does, in one line,
/// and its source.
macro_rules! congestion_controls {
    ($($(#[$doc:meta])* $variant:ident $(($options:ident: $type:ty = $default:expr))?
        : $control:ty = $build:expr => $name:literal $([$($alias:literal),+])?, coupled $coupled:literal,
        $what:literal, $source:literal;)*) => {
        /// The congestion control of a connection.
        #[derive(Clone, Debug, PartialEq)]
        pub enum CongestionKind {
            $($(#[$doc])* $variant $(($type))?,)*
            /// A user-defined congestion control.
            Custom(CustomCongestionKind),
        }

        impl CongestionKind {
            /// All built-in congestion controls, with their default options.
            pub const ALL: [CongestionKind; [$($name),*].len()] =
                [$(CongestionKind::$variant $(($default))?),*];

            /// Returns the name used in scenarios, on the command line, in Python and in result columns.
            pub fn name(&self) -> &str {
                match self {
                    $(CongestionKind::$variant { .. } => $name,)*
                    CongestionKind::Custom(custom) => &custom.name,
                }
            }

            /// Returns the built-in congestion control with the given name, with its default options.
            pub fn from_name(name: &str) -> Option<CongestionKind> {
                match name {
                    $($name $($(| $alias)+)? => Some(CongestionKind::$variant $(($default))?),)*
                    _ => None,
                }
            }

            /// Returns a one-line description with its source.
            pub fn description(&self) -> &str {
                match self {
                    $(CongestionKind::$variant { .. } => concat!($what, " (", $source, ")"),)*
                    CongestionKind::Custom(_) => "user-defined",
                }
            }

            /// Returns the document or the code that defines it; empty for a user-defined one.
            pub fn source(&self) -> &'static str {
                match self {
                    $(CongestionKind::$variant { .. } => $source,)*
                    CongestionKind::Custom(_) => "",
                }
            }

            /// True if the subflows' windows depend on each other. A user-defined one declares it.
            pub fn is_coupled(&self) -> bool {
                match self {
                    $(CongestionKind::$variant { .. } => $coupled,)*
                    CongestionKind::Custom(custom) => custom.coupled,
                }
            }

            /// Builds a congestion control of this kind for a new connection, without subflows.
            pub fn build(&self) -> AnyCongestion {
                match self {
                    $(CongestionKind::$variant $(($options))? => AnyCongestion::$variant($build),)*
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
                vec![$($name),*]
            }

            fn parameters(&self) -> Vec<(Spec, Value)> {
                match self {
                    $($(CongestionKind::$variant($options) => $options.values(),)?)*
                    _ => Vec::new(),
                }
            }

            fn set_parameter(&mut self, name: &str, value: Value) -> bool {
                match self {
                    $($(CongestionKind::$variant($options) => $options.set(name, value),)?)*
                    _ => false,
                }
            }

            fn contradiction(&self) -> Option<[&'static str; 2]> {
                match self {
                    $($(CongestionKind::$variant($options) => <$type as Options>::contradiction($options),)?)*
                    _ => None,
                }
            }
        }

        /// The congestion control of a connection.
        #[derive(Clone)]
        pub enum AnyCongestion {
            $($(#[$doc])* $variant($control),)*
            /// A user-defined congestion control.
            Custom(Box<dyn CustomCongestion>),
        }

        /// Evaluates `$call` with a built-in congestion control, and `$custom` with a user-defined one.
        macro_rules! dispatch {
            ($self:expr, $inner:ident => $call:expr, custom $own:ident => $custom:expr) => {
                match $self {
                    $(AnyCongestion::$variant($inner) => $call,)*
                    AnyCongestion::Custom($own) => $custom,
                }
            };
            ($self:expr, $inner:ident => $call:expr) => {
                dispatch!($self, $inner => $call, custom $inner => $call)
            };
        }
    };
}

congestion_controls! {
    /// Reno with NewReno's recovery (RFC 5681, RFC 6582).
    NewReno: Classic<NewReno> = Classic::new(NewReno) => "newreno" ["reno"], coupled false,
        "uncoupled: one segment more per round trip, half at a loss", "RFC 5681";
    /// CUBIC (RFC 9438).
    Cubic(options: CubicOptions = CubicOptions::DEFAULT): Classic<Cubic> = Classic::new(Cubic::new(*options)) =>
        "cubic", coupled false,
        "uncoupled: a cubic function of the time since the last loss", "RFC 9438";
    /// CUBIC with HyStart++ in slow start (RFC 9406).
    CubicHystart(options: CubicOptions = CubicOptions::DEFAULT):
        Classic<Cubic> = Classic::new(Cubic::new(*options)).with_hystart() => "cubic_hystart", coupled false,
        "CUBIC that leaves slow start when the round-trip time grows", "RFC 9406";
    /// CUBIC and HyStart as in Linux.
    CubicLinux: Classic<CubicLinux> = Classic::new(CubicLinux::default()).with_hystart_of_linux() =>
        "cubic_linux", coupled false,
        "CUBIC and HyStart as in the Linux kernel, to predict Linux senders",
        "tcp_cubic.c";
    /// Vegas (JSAC 1995).
    Vegas(options: VegasOptions = VegasOptions::DEFAULT): Classic<Vegas> = Classic::new(Vegas::new(*options)) =>
        "vegas", coupled false, "uncoupled: keeps 2 to 4 segments in the path's queue", "JSAC 1995";
    /// Veno (JSAC 2003).
    Veno(options: VenoOptions = VenoOptions::DEFAULT): Classic<Veno> = Classic::new(Veno::new(*options)) =>
        "veno", coupled false,
        "uncoupled: Reno that yields less to losses while the queue is short", "JSAC 2003";
    /// Westwood+ (CCR 2004).
    Westwood: Classic<Westwood> = Classic::new(Westwood::default()) => "westwood", coupled false,
        "uncoupled: Reno that reduces to the measured bandwidth times the least RTT", "CCR 2004";
    /// BBR version 3 (draft-ietf-ccwg-bbr).
    Bbr(options: BbrOptions = BbrOptions::DEFAULT): Bbr = Bbr::with_options(*options) => "bbr", coupled false,
        "uncoupled: a model of bandwidth and minimum RTT, version 3", "draft-ietf-ccwg-bbr";
    /// The linked increases algorithm (RFC 6356).
    Lia: Classic<Lia> = Classic::new(Lia::default()) => "lia" ["coupled"], coupled true,
        "coupled: all subflows together take as much as one TCP on the best path", "RFC 6356";
    /// The opportunistic linked increases algorithm (CoNEXT 2012).
    Olia: Classic<Olia> = Classic::new(Olia::default()) => "olia", coupled true,
        "coupled: like LIA, and moves traffic to the paths that lose least", "CoNEXT 2012";
    /// The balanced linked adaptation (draft-walid-mptcp-congestion-control).
    Balia: Classic<Balia> = Classic::new(Balia) => "balia", coupled true,
        "coupled: between LIA and OLIA, slower paths yield more at a loss", "draft-walid-mptcp";
    /// Weighted Vegas (ICNP 2012).
    Wvegas(options: WvegasOptions = WvegasOptions::DEFAULT): Classic<Wvegas> = Classic::new(Wvegas::new(*options)) =>
        "wvegas", coupled true, "coupled: all subflows together keep 10 segments in queues", "ICNP 2012";
    /// Shared bottleneck detection (RFC 8382, INFOCOM 2016).
    Sbd(options: SbdOptions = SbdOptions::DEFAULT): Box<Classic<Sbd>> = Box::new(Classic::new(Sbd::new(*options))) =>
        "sbd", coupled true, "coupled by OLIA if delays show a shared bottleneck", "RFC 8382, INFOCOM 2016";
    /// Dynamic window coupling (ICNP 2011).
    Dwc(options: DwcOptions = DwcOptions::DEFAULT): Box<Classic<Dwc>> = Box::new(Classic::new(Dwc::new(*options))) =>
        "dwc", coupled true, "coupled by LIA if losses and delays coincide", "after ICNP 2011";
}

impl fmt::Debug for AnyCongestion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        dispatch!(self, inner => inner.fmt(f), custom _own => f.write_str("Custom"))
    }
}

impl AnyCongestion {
    /// Links the slow starts of the subflows (LISA) if `on` and if the control has slow starts; a
    /// user-defined one is not changed.
    pub fn with_lisa(mut self, on: bool) -> AnyCongestion {
        dispatch!(&mut self, inner => inner.set_lisa(on), custom _own => ());
        self
    }

    /// True if segments are sent at its pacing rate, regardless of the configuration.
    #[inline]
    pub fn paces(&self) -> bool {
        dispatch!(self, inner => inner.always_paces(), custom _own => false)
    }

    /// True if [`CongestionControl::pacing_rate`] may return a rate.
    #[inline]
    pub(crate) fn sets_pacing_rates(&self) -> bool {
        dispatch!(self, inner => inner.always_paces(), custom _own => true)
    }

    /// Returns the windows with their fractions; `None` for a control that does not count in windows of
    /// segments.
    pub fn windows(&self) -> Option<&Windows> {
        dispatch!(self, inner => inner.segment_windows(), custom _own => None)
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

    fn on_idle(&mut self, id: SubflowId, now: Time, timeouts: u32) {
        dispatch!(self, inner => inner.on_idle(id, now, timeouts));
    }

    fn on_underused(&mut self, id: SubflowId, now: Time, used: u64) {
        dispatch!(self, inner => inner.on_underused(id, now, used));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_aliases_are_unique_and_each_parameter_takes_its_own_default() {
        let all: Vec<String> = CongestionKind::ALL.iter().map(|kind| kind.name().to_owned()).collect();
        assert_eq!(<CongestionKind as Parameterised>::names(), all);
        for (alias, name) in [("reno", "newreno"), ("coupled", "lia")] {
            assert_eq!(CongestionKind::from_name(alias), CongestionKind::from_name(name));
        }
        for kind in CongestionKind::ALL {
            assert_eq!(CongestionKind::from_name(kind.name()), Some(kind.clone()));
            for (spec, value) in kind.parameters() {
                let mut other = kind.clone();
                assert!(other.set_parameter(spec.name, value), "{}", spec.name);
                assert_eq!(other, kind);
            }
            assert!(!kind.clone().set_parameter("colour", Value::Bool(true)));
        }
        let mut vegas = CongestionKind::from_name("vegas").unwrap();
        assert!(vegas.set_parameter("alpha", Value::Number(3.0)));
        assert_eq!(vegas, CongestionKind::Vegas(VegasOptions { alpha: 3.0, ..VegasOptions::DEFAULT }));
        assert!(!vegas.set_parameter("alpha", Value::Number(-1.0)));
        assert!(vegas.contradiction().is_none() && vegas.set_parameter("alpha", Value::Number(4.5)));
        assert_eq!(vegas.contradiction(), Some(["alpha", "beta"]));
    }
}
