//! The parameters of the congestion controls, by name.

use anabranch_units::Duration;

use super::{
    BbrOptions, CongestionKind, CubicOptions, DwcOptions, SbdOptions, VegasOptions, VenoOptions,
    WvegasOptions,
};
use crate::parameter;
use crate::parameter::{Parameter, Parameterised, Spec, Value, set};

const CUBIC: &[Parameter<CubicOptions>] = &[parameter!(
    CubicOptions,
    "fast-convergence",
    "a loss below the last maximum sets a lower one",
    bool,
    fast_convergence
)];

const BBR: &[Parameter<BbrOptions>] = &[
    parameter!(BbrOptions, "loss-threshold", "maximum tolerated loss rate in a round trip", number 0.0, 0.9, loss_threshold),
    parameter!(BbrOptions, "beta", "fraction of the bounds that remains after a loss", number 0.0, 1.0, beta),
    parameter!(BbrOptions, "headroom", "fraction of the long-term bound left to other flows", number 0.0, 0.9, headroom),
    parameter!(BbrOptions, "probe-rtt-interval", "interval between two ProbeRTT", time LEAST_PROBE, LONGEST_PROBE, probe_rtt_interval),
    parameter!(BbrOptions, "probe-rtt-duration", "minimum duration of ProbeRTT", time Duration::ZERO, LONGEST_INTERVAL, probe_rtt_duration),
    parameter!(BbrOptions, "min-rtt-window", "lifetime of the minimum RTT", time LEAST_PROBE, LONGEST_PROBE, min_rtt_window),
];

const LEAST_PROBE: Duration = Duration::from_millis(100);
const LONGEST_PROBE: Duration = Duration::from_secs(3600);

const VEGAS: &[Parameter<VegasOptions>] = &[
    parameter!(VegasOptions, "alpha", "segments in the queue below which the window grows", number 0.0, 1e6, alpha),
    parameter!(VegasOptions, "beta", "segments in the queue above which the window shrinks", number 0.0, 1e6, beta),
    parameter!(VegasOptions, "gamma", "segments in the queue above which slow start ends", number 0.0, 1e6, gamma),
    parameter!(
        VegasOptions,
        "over-base",
        "compute the queue relative to the base RTT, as Linux does",
        bool,
        over_base
    ),
];

const VENO: &[Parameter<VenoOptions>] =
    &[parameter!(VenoOptions, "beta", "segments in the queue of a congested path", number 0.0, 1e6, beta)];

const WVEGAS: &[Parameter<WvegasOptions>] = &[
    parameter!(WvegasOptions, "total-alpha", "segments in all queues together", number 0.0, 1e6, total_alpha),
    parameter!(WvegasOptions, "initial-alpha", "segments in one queue, initially and at least", number 0.0, 1e6, initial_alpha),
    parameter!(WvegasOptions, "gamma", "segments in the queue above which slow start ends", number 0.0, 1e6, gamma),
];

const LEAST_INTERVAL: Duration = Duration::from_millis(1);
const LONGEST_INTERVAL: Duration = Duration::from_secs(60);

const SBD: &[Parameter<SbdOptions>] = &[
    parameter!(SbdOptions, "interval", "T: length of an interval", time LEAST_INTERVAL, LONGEST_INTERVAL, interval),
    parameter!(SbdOptions, "n", "N: intervals for loss and oscillation", integer 2, 64, n),
    parameter!(SbdOptions, "m", "M: intervals for skewness and variability", integer 1, 64, m),
    parameter!(SbdOptions, "f", "F: newest intervals, with full weight", integer 1, 64, f),
    parameter!(SbdOptions, "c-s", "skewness below which a bottleneck is detected", number - 1.0, 1.0, c_s),
    parameter!(
        SbdOptions,
        "c-h",
        "skewness below which a detected bottleneck persists",
        number - 1.0,
        1.0,
        c_h
    ),
    parameter!(SbdOptions, "p-l", "loss rate above which a bottleneck is detected", number 0.0, 1.0, p_l),
    parameter!(SbdOptions, "p-f", "maximum difference of the oscillation in a group", number 0.0, 1.0, p_f),
    parameter!(SbdOptions, "p-mad", "maximum difference of the variability in a group, relative to the higher", number 0.0, 1.0, p_mad),
    parameter!(SbdOptions, "p-s", "maximum difference of the skewness in a group", number 0.0, 2.0, p_s),
    parameter!(SbdOptions, "p-d", "maximum difference of the loss rate in a group, relative to the higher", number 0.0, 1.0, p_d),
    parameter!(SbdOptions, "p-v", "distance of a significant crossing from the mean, in variabilities", number 0.0, 10.0, p_v),
    parameter!(
        SbdOptions,
        "remove-noise",
        "ignore crossings and variability of intervals without a bottleneck",
        bool,
        remove_noise
    ),
    parameter!(SbdOptions, "warm-up", "intervals before the first grouping", integer 0, 100_000, warm_up),
    parameter!(SbdOptions, "observations", "groupings before each decision", integer 1, 1000, observations),
    parameter!(SbdOptions, "majority", "groupings that must agree", integer 1, 1000, majority),
];

const DWC: &[Parameter<DwcOptions>] = &[
    parameter!(DwcOptions, "near", "interval in which signs count as simultaneous, in round trips", number 0.0, 100.0, near),
    parameter!(DwcOptions, "delay-share", "fraction of the RTT range above which the RTT is a sign", number 0.0, 1.0, delay_share),
    parameter!(DwcOptions, "delay-range", "minimum width of the RTT range", time Duration::ZERO, LONGEST_INTERVAL, delay_range),
];

/// Returns the entries of a table with their values.
fn all<O>(table: &[Parameter<O>], options: &O) -> Vec<(Spec, Value)> {
    table.iter().map(|parameter| (parameter.spec, (parameter.get)(options))).collect()
}

impl Parameterised for CongestionKind {
    const WHAT: &'static str = "congestion control";

    fn from_name(name: &str) -> Option<CongestionKind> {
        CongestionKind::from_name(name)
    }

    fn names() -> Vec<&'static str> {
        CongestionKind::NAMES.to_vec()
    }

    fn parameters(&self) -> Vec<(Spec, Value)> {
        match self {
            CongestionKind::Cubic(options) | CongestionKind::CubicHystart(options) => all(CUBIC, options),
            CongestionKind::Bbr(options) => all(BBR, options),
            CongestionKind::Vegas(options) => all(VEGAS, options),
            CongestionKind::Veno(options) => all(VENO, options),
            CongestionKind::Wvegas(options) => all(WVEGAS, options),
            CongestionKind::Sbd(options) => all(SBD, options),
            CongestionKind::Dwc(options) => all(DWC, options),
            _ => Vec::new(),
        }
    }

    fn set_parameter(&mut self, name: &str, value: Value) -> bool {
        match self {
            CongestionKind::Cubic(options) | CongestionKind::CubicHystart(options) => {
                set(CUBIC, options, name, value)
            }
            CongestionKind::Bbr(options) => set(BBR, options, name, value),
            CongestionKind::Vegas(options) => set(VEGAS, options, name, value),
            CongestionKind::Veno(options) => set(VENO, options, name, value),
            CongestionKind::Wvegas(options) => set(WVEGAS, options, name, value),
            CongestionKind::Sbd(options) => set(SBD, options, name, value),
            CongestionKind::Dwc(options) => set(DWC, options, name, value),
            _ => false,
        }
    }

    fn contradiction(&self) -> Option<[&'static str; 2]> {
        let wrong: &[_] = match self {
            CongestionKind::Vegas(options) => &[(options.alpha > options.beta, ["alpha", "beta"])],
            CongestionKind::Sbd(options) => &[
                (options.m > options.n, ["m", "n"]),
                (options.f > options.m, ["f", "m"]),
                (options.majority > options.observations, ["majority", "observations"]),
            ],
            _ => &[],
        };
        wrong.iter().find(|(is, _)| *is).map(|(_, names)| *names)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_all_and_each_parameter_takes_its_own_default() {
        let all: Vec<String> = CongestionKind::ALL.iter().map(|kind| kind.name().to_owned()).collect();
        assert_eq!(<CongestionKind as Parameterised>::names(), all);
        for kind in CongestionKind::ALL {
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
