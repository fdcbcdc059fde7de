//! DWC, dynamic window coupling: subflows whose losses and delays rise together share a bottleneck, as far
//! as can be told, and are coupled.
//!
//! **Decides** growth in congestion avoidance: LIA among the subflows of one set, which is NewReno for one
//! that is alone in its set.
//!
//! **Source**: Hassayoun, Iyengar, Ros, "Dynamic window coupling for multipath congestion control", ICNP
//! 2011, as Section 7.6 of the survey of coupled congestion controls (Telecom 3(4), 2022) tells it. Each
//! subflow begins in a set of its own. One that loses a packet leaves its set and opens a new one, and the
//! others that lose one too, or whose delay rises much, shortly before or after, move into it.
//!
//! **Constants**: [`DwcOptions`]; decrease to 1/2.
//!
//! **Read differently**: the paper's text was not at hand, and the survey names no numbers. That "shortly"
//! is the greater of the two RTTs, what a rise is, and LIA for the growth in a set are this project's
//! reading, and results with `dwc` are results of that. The range that a delay is high in is that since the last own
//! loss but one: since the last one alone a delay that grows all the time is always the highest.

use anabranch_units::{Duration, Time};

use super::Ack;
use super::delay::entry;
use super::lia::aggressiveness_among;
use super::rule::{Change, WindowRule, Windows};
use crate::event::SubflowId;
use crate::parameter;
use crate::parameter::{Options, Parameter};

/// What counts as a sign of the same bottleneck.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct DwcOptions {
    /// So many of the greater RTT before or after a loss others' signs count.
    pub near: f64,
    /// The smoothed RTT is in this upper part of what it has ranged over since the subflow's last loss but one.
    pub delay_share: f64,
    /// And that range is at least so wide.
    pub delay_range: Duration,
}

impl DwcOptions {
    /// One RTT; the upper quarter of at least 5 ms.
    pub const DEFAULT: DwcOptions =
        DwcOptions { near: 1.0, delay_share: 0.75, delay_range: Duration::from_millis(5) };
}

impl Options for DwcOptions {
    const PARAMETERS: &'static [Parameter<DwcOptions>] = &[
        parameter!(DwcOptions, "near", "what is at the same time, in round trips", number 0.0, 100.0, near),
        parameter!(DwcOptions, "delay-share", "upper part of the range of RTTs that is a sign, from below", number 0.0, 1.0, delay_share),
        parameter!(DwcOptions, "delay-range", "least range of RTTs in which there are signs", time Duration::ZERO, Duration::from_secs(60), delay_range),
    ];
}

impl Default for DwcOptions {
    fn default() -> DwcOptions {
        DwcOptions::DEFAULT
    }
}

/// The rule of DWC.
#[derive(Clone, Debug)]
pub struct Dwc {
    options: DwcOptions,
    subflows: Vec<State>,
    /// The set that was opened last.
    active: Option<Active>,
    /// The number of the next set.
    next: u64,
}

#[derive(Clone, Copy, Debug)]
struct Active {
    set: u64,
    by: SubflowId,
    at: Time,
}

#[derive(Clone, Copy, Debug)]
struct State {
    set: u64,
    /// When it last lost a packet, or its delay was high.
    sign: Option<Time>,
    /// The range of the smoothed RTT since the last own loss, and that between the last two.
    now: Range,
    before: Range,
}

#[derive(Clone, Copy, Debug)]
struct Range {
    least: Duration,
    most: Duration,
}

impl Range {
    const EMPTY: Range = Range { least: Duration::MAX, most: Duration::ZERO };

    fn with(self, other: Range) -> Range {
        Range { least: self.least.min(other.least), most: self.most.max(other.most) }
    }
}

impl State {
    const NEW: State = State { set: 0, sign: None, now: Range::EMPTY, before: Range::EMPTY };
}

impl Dwc {
    /// With these signs.
    pub fn new(options: DwcOptions) -> Dwc {
        Dwc { options, subflows: Vec::new(), active: None, next: 1 }
    }

    /// Whether the two are in one set.
    pub fn couples(&self, one: SubflowId, other: SubflowId) -> bool {
        let set = |id: SubflowId| self.subflows.get(id.index()).map(|state| state.set);
        one == other || set(one) == set(other)
    }

    /// Whether `later` is shortly after `earlier`, for these two subflows.
    fn is_near(
        &self,
        windows: &Windows,
        earlier: Time,
        later: Time,
        one: SubflowId,
        other: SubflowId,
    ) -> bool {
        let rtt = windows.get(one).srtt.max(windows.get(other).srtt);
        later.since(earlier) <= rtt.mul_f64(self.options.near)
    }

    /// A loss of `id`.
    fn on_loss(&mut self, windows: &Windows, id: SubflowId, now: Time) {
        let state = entry(&mut self.subflows, id.index(), State::NEW);
        *state = State { set: state.set, sign: Some(now), before: state.now, now: Range::EMPTY };
        if let Some(active) = self.active
            && self.is_near(windows, active.at, now, active.by, id)
        {
            self.subflows[id.index()].set = active.set;
            return;
        }
        let set = self.next;
        self.next += 1;
        self.active = Some(Active { set, by: id, at: now });
        self.subflows[id.index()].set = set;
        for (other, _) in windows.iter().filter(|(other, _)| *other != id) {
            let sign = self.subflows.get(other.index()).and_then(|state| state.sign);
            if sign.is_some_and(|sign| self.is_near(windows, sign, now, id, other)) {
                self.subflows[other.index()].set = set;
            }
        }
    }
}

impl WindowRule for Dwc {
    fn observe(&mut self, windows: &Windows, id: SubflowId, ack: &Ack) {
        let DwcOptions { delay_share, delay_range, .. } = self.options;
        let state = entry(&mut self.subflows, id.index(), State::NEW);
        if ack.srtt.is_zero() {
            return;
        }
        state.now = state.now.with(Range { least: ack.srtt, most: ack.srtt });
        let Range { least, most } = state.now.with(state.before);
        let range = most.saturating_sub(least);
        if range < delay_range || ack.srtt < least + range.mul_f64(delay_share) {
            return;
        }
        state.sign = Some(ack.now);
        if let Some(active) = self.active
            && active.by != id
            && self.is_near(windows, active.at, ack.now, active.by, id)
        {
            self.subflows[id.index()].set = active.set;
        }
    }

    fn increase(&mut self, windows: &Windows, id: SubflowId, acked: f64, _ack: &Ack) -> f64 {
        let coupled = aggressiveness_among(windows, |other| self.couples(id, other));
        acked * coupled.min(1.0 / windows.get(id).segments)
    }

    fn on_change(&mut self, windows: &Windows, id: SubflowId, now: Time, change: Change) {
        match change {
            Change::Up | Change::Down => {
                let set = self.next;
                self.next += 1;
                *entry(&mut self.subflows, id.index(), State::NEW) = State { set, ..State::NEW };
            }
            Change::Reduced | Change::Timeout => self.on_loss(windows, id, now),
            _ => {}
        }
    }
}
