//! DWC, dynamic window coupling: if the losses and delays of subflows rise together, the subflows are assumed
//! to share a bottleneck, and are coupled.
//!
//! **Decides** growth in congestion avoidance: LIA among the subflows of one set, which equals NewReno for
//! the only subflow of a set.
//!
//! **Source**: Hassayoun, Iyengar, Ros, "Dynamic window coupling for multipath congestion control", ICNP
//! 2011, as described in Section 7.6 of the survey of coupled congestion controls (Telecom 3(4), 2022). Each
//! subflow begins in a separate set. A subflow that loses a packet leaves its set and opens a new one; the
//! others that also lose a packet, or have a considerable rise of delay, shortly before or after, join that
//! set.
//!
//! **Constants**: [`DwcOptions`]; decrease to 1/2.
//!
//! **Departures from the source**: the paper's text was not available, and the survey gives no numbers. The
//! meaning of "shortly" (the greater of the two RTTs), the definition of a rise, and LIA as the growth in a
//! set are this project's interpretation, and results with `dwc` are results of that interpretation. A delay
//! is compared with the range since the subflow's last loss but one: in the range since the last loss, a
//! steadily growing delay would always be the maximum.

use anabranch_units::{Duration, Time};

use super::Ack;
use super::delay::entry;
use super::lia::aggressiveness_among;
use super::rule::{Change, WindowRule, Windows};
use crate::event::SubflowId;
use crate::parameter;
use crate::parameter::{Options, Parameter};

/// The signs of a shared bottleneck.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct DwcOptions {
    /// The interval before or after a loss in which signs of other subflows count, in units of the greater
    /// RTT.
    pub near: f64,
    /// The delay is high if the smoothed RTT lies above this fraction of its range since the subflow's last
    /// loss but one.
    pub delay_share: f64,
    /// The minimum width of that range.
    pub delay_range: Duration,
}

impl DwcOptions {
    /// One RTT; the upper quarter of at least 5 ms.
    pub const DEFAULT: DwcOptions =
        DwcOptions { near: 1.0, delay_share: 0.75, delay_range: Duration::from_millis(5) };
}

impl Options for DwcOptions {
    const PARAMETERS: &'static [Parameter<DwcOptions>] = &[
        parameter!(DwcOptions, "near", "interval in which signs count as simultaneous, in round trips", number 0.0, 100.0, near),
        parameter!(DwcOptions, "delay-share", "fraction of the RTT range above which the RTT is a sign", number 0.0, 1.0, delay_share),
        parameter!(DwcOptions, "delay-range", "minimum width of the RTT range", time Duration::ZERO, Duration::from_secs(60), delay_range),
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
    /// The most recently opened set.
    active: Option<Active>,
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
    /// The time of the last loss or high delay.
    sign: Option<Time>,
    /// The range of the smoothed RTT since the subflow's last loss, and between its last two.
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
    /// Returns a rule with the given options.
    pub fn new(options: DwcOptions) -> Dwc {
        Dwc { options, subflows: Vec::new(), active: None, next: 1 }
    }

    /// True if the two subflows are in one set.
    pub fn couples(&self, one: SubflowId, other: SubflowId) -> bool {
        let set = |id: SubflowId| self.subflows.get(id.index()).map(|state| state.set);
        one == other || set(one) == set(other)
    }

    /// True if `later` is shortly after `earlier`, for these two subflows.
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

    /// Handles a loss of `id`.
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
