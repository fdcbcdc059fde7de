//! SBD: detects which subflows share a bottleneck and couples only those.
//!
//! **Decides** growth in congestion avoidance: OLIA among the subflows that may share a bottleneck with the
//! one that received the acknowledgement, NewReno for one that shares with no other.
//!
//! **Source**: the statistics and the grouping of RFC 8382; their use as in Ferlin et al., "Revisiting
//! congestion control for multipath TCP with shared bottleneck detection", INFOCOM 2016, in the public port
//! to the out-of-tree kernel: of ten groupings, subflows together in five form a group, and a subflow that
//! was in no group in five has none. A subflow of a group is coupled with the group and with the subflows of
//! unknown group; a subflow of unknown group is coupled with all.
//!
//! **Constants**: see [`SbdOptions`]; decrease to 1/2, the minimum threshold is 1 segment while there are
//! several subflows.
//!
//! **Departures from the source**
//! * The sender measures the delays from the receiver's timestamps: the receiver's clock at the
//!   acknowledgement minus the sender's at the transmission. An acknowledgement that waits for a second
//!   segment shows the first one's delay including the wait. In the port the receiver groups, and signals the
//!   result by an option.
//! * RFC 8382 gives no threshold for loss; 0.1 is the port's.
//! * The first grouping counts after 2 `M` intervals, as the RFC advises; the port does not wait.
//! * If oscillation noise is removed (section 4.2), the variability is the mean over the samples of the valid
//!   intervals, as section 4.1.2 requires to allow for invalid ones. Section 4.2 prints all samples as the
//!   divisor, by which two subflows of one bottleneck would differ if it affected them for different times.
//! * Clock skew (section 5.2) is not removed.

mod grouping;
mod statistics;

use anabranch_units::{Duration, Time};

use super::Ack;
use super::delay::entry;
use super::olia::{Olia, least_threshold};
use super::rule::{Change, WindowRule, Windows};
use crate::event::SubflowId;
use crate::parameter;
use crate::parameter::{Options, Parameter};
pub(super) use grouping::Bottleneck;
use grouping::group;
use statistics::Statistics;
pub use statistics::Summary;

/// The constants of RFC 8382 section 2.2, and the number of groupings per decision.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct SbdOptions {
    /// `T`: the interval of a measurement.
    pub interval: Duration,
    /// `N`: the number of intervals for loss and oscillation; at most 64.
    pub n: u32,
    /// `M`: the number of intervals for delays; at most `N`.
    pub m: u32,
    /// `F`: the number of newest intervals with full weight; at most `M`.
    pub f: u32,
    /// `c_s`: the skewness below which a bottleneck is detected.
    pub c_s: f64,
    /// `c_h`: the skewness below which a bottleneck detected before persists.
    pub c_h: f64,
    /// `p_l`: the loss rate above which a bottleneck is detected.
    pub p_l: f64,
    /// `p_f`: the maximum difference of the oscillation in a group.
    pub p_f: f64,
    /// `p_mad`: the maximum difference of the variability, as a fraction of the higher one.
    pub p_mad: f64,
    /// `p_s`: the maximum difference of the skewness.
    pub p_s: f64,
    /// `p_d`: the maximum difference of the loss rate, as a fraction of the higher one.
    pub p_d: f64,
    /// `p_v`: the distance of a significant crossing from the mean, as a fraction of the variability.
    pub p_v: f64,
    /// True to remove oscillation noise (section 4.2): crossings and variability of intervals without a
    /// bottleneck do not count.
    pub remove_noise: bool,
    /// The number of intervals before the first grouping.
    pub warm_up: u32,
    /// The number of groupings before each decision.
    pub observations: u32,
    /// The number of groupings that must agree.
    pub majority: u32,
}

impl SbdOptions {
    /// The values recommended by RFC 8382.
    pub const DEFAULT: SbdOptions = SbdOptions {
        interval: Duration::from_millis(350),
        n: 50,
        m: 30,
        f: 20,
        c_s: 0.1,
        c_h: 0.3,
        p_l: 0.1,
        p_f: 0.1,
        p_mad: 0.1,
        p_s: 0.15,
        p_d: 0.1,
        p_v: 0.7,
        remove_noise: true,
        warm_up: 60,
        observations: 10,
        majority: 5,
    };
}

const LEAST_INTERVAL: Duration = Duration::from_millis(1);
const LONGEST_INTERVAL: Duration = Duration::from_secs(60);

impl Options for SbdOptions {
    const PARAMETERS: &'static [Parameter<SbdOptions>] = &[
        parameter!(SbdOptions, "interval", "T: length of an interval", time LEAST_INTERVAL, LONGEST_INTERVAL, interval),
        parameter!(SbdOptions, "n", "N: intervals for loss and oscillation", integer 2, 64, n),
        parameter!(SbdOptions, "m", "M: intervals for skewness and variability", integer 1, 64, m),
        parameter!(SbdOptions, "f", "F: newest intervals, with full weight", integer 1, 64, f),
        parameter!(
            SbdOptions,
            "c-s",
            "skewness below which a bottleneck is detected",
            number - 1.0,
            1.0,
            c_s
        ),
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
    const ORDERED: &'static [[&'static str; 2]] = &[["m", "n"], ["f", "m"], ["majority", "observations"]];
}

impl Default for SbdOptions {
    fn default() -> SbdOptions {
        SbdOptions::DEFAULT
    }
}

/// The rule of SBD.
#[derive(Clone, Debug)]
pub struct Sbd {
    options: SbdOptions,
    olia: Olia,
    subflows: Vec<State>,
    /// The end of the current interval; `None` before the first acknowledgement.
    interval_end: Option<Time>,
    intervals: u32,
    observed: u32,
    /// How often the subflows of a row and a column were grouped together, in rows of 32.
    together: Vec<[u32; 32]>,
    decisions: u32,
}

#[derive(Clone, Debug)]
struct State {
    up: bool,
    statistics: Statistics,
    /// The number of groupings without a bottleneck.
    alone: u32,
    /// The decided group; `None` if unknown.
    group: Option<u8>,
}

impl State {
    fn new() -> State {
        State { up: false, statistics: Statistics::default(), alone: 0, group: None }
    }
}

impl Sbd {
    /// Returns a rule with the given options, clamped to their ranges.
    pub fn new(options: SbdOptions) -> Sbd {
        let n = options.n.clamp(2, 64);
        let m = options.m.clamp(1, n);
        let options = SbdOptions { n, m, f: options.f.clamp(1, m), ..options };
        Sbd {
            options,
            olia: Olia::default(),
            subflows: Vec::new(),
            interval_end: None,
            intervals: 0,
            observed: 0,
            together: Vec::new(),
            decisions: 0,
        }
    }

    /// Returns the group of a subflow; `None` if it is not known whether it shares a bottleneck.
    pub fn group(&self, id: SubflowId) -> Option<u8> {
        self.subflows.get(id.index()).and_then(|state| state.group)
    }

    /// Returns the number of decisions so far.
    pub fn decisions(&self) -> u32 {
        self.decisions
    }

    /// Returns the measurements of a subflow, up to the last whole interval.
    pub fn summary(&self, id: SubflowId) -> Option<Summary> {
        self.subflows.get(id.index()).map(|state| state.statistics.summary(&self.options))
    }

    /// True if the two subflows are coupled.
    pub fn couples(&self, one: SubflowId, other: SubflowId) -> bool {
        one == other || self.group(one).is_none_or(|own| self.group(other).is_none_or(|its| its == own))
    }

    fn end_interval(&mut self) {
        for state in self.subflows.iter_mut().filter(|state| state.up) {
            state.statistics.end_interval(&self.options);
        }
        self.intervals = self.intervals.saturating_add(1);
        if self.intervals >= self.options.warm_up {
            self.observe_groups();
        }
    }

    fn observe_groups(&mut self) {
        let mut paths: Vec<Bottleneck> = Vec::with_capacity(self.subflows.len());
        for (at, state) in self.subflows.iter_mut().enumerate().filter(|(_, state)| state.up) {
            let summary = state.statistics.summary(&self.options);
            let bottlenecked = state.statistics.is_bottlenecked();
            state.alone += u32::from(!bottlenecked);
            if bottlenecked {
                paths.push(Bottleneck { index: at as u8, summary, group: 0 });
            }
        }
        group(&mut paths, &self.options);
        for one in &paths {
            for other in paths.iter().filter(|other| other.group == one.group) {
                self.together[usize::from(one.index)][usize::from(other.index)] += 1;
            }
        }
        self.observed += 1;
        if self.observed >= self.options.observations {
            self.decide();
        }
    }

    fn decide(&mut self) {
        let majority = self.options.majority;
        for at in 0..self.subflows.len() {
            self.subflows[at].group = None;
            if !self.subflows[at].up || self.subflows[at].alone >= majority {
                continue;
            }
            let earlier = (0..at)
                .find(|other| self.subflows[*other].group.is_some() && self.together[at][*other] >= majority);
            self.subflows[at].group = Some(match earlier {
                Some(other) => self.subflows[other].group.unwrap_or(other as u8),
                None => at as u8,
            });
        }
        self.subflows.iter_mut().for_each(|state| state.alone = 0);
        self.together.iter_mut().for_each(|row| *row = [0; 32]);
        self.observed = 0;
        self.decisions += 1;
    }
}

impl WindowRule for Sbd {
    fn observe(&mut self, _windows: &Windows, id: SubflowId, ack: &Ack) {
        self.olia.deliver(id, ack);
        let interval = self.options.interval.max(Duration::from_millis(1));
        let mut end = *self.interval_end.get_or_insert(ack.now + interval);
        // After a long silence, empty intervals contain no information.
        if ack.now.since(end) > interval * u64::from(self.options.n) {
            end = ack.now;
        }
        while ack.now >= end {
            self.end_interval();
            end += interval;
        }
        self.interval_end = Some(end);
        if let Some(state) = self.subflows.get_mut(id.index()) {
            state.statistics.on_ack(ack);
        }
    }

    fn increase(&mut self, windows: &Windows, id: SubflowId, acked: f64, _ack: &Ack) -> f64 {
        acked * self.olia.increase_among(windows, id, |other| self.couples(id, other))
    }

    fn least_threshold(&self, windows: &Windows) -> f64 {
        least_threshold(windows)
    }

    fn on_change(&mut self, _windows: &Windows, id: SubflowId, _now: Time, change: Change) {
        self.olia.note(id, change);
        if let Change::Up | Change::Down = change {
            entry(&mut self.together, id.index(), [0; 32]);
            for row in &mut self.together {
                row[id.index() % 32] = 0;
            }
            self.together[id.index()] = [0; 32];
            let state = entry(&mut self.subflows, id.index(), State::new());
            *state = State { up: change == Change::Up, ..State::new() };
        }
    }
}
