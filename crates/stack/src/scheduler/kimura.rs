//! Three rules over the subflows with free window: the highest sending rate (HSR), the largest window space
//! (LWS) and the lowest time over space (LTS).
//!
//! **Decide** which subflow carries the next data; a tie is broken by the lower RTT, then by the lower ID.
//! They keep no state.
//!
//! **Source**: Kimura and others (2017). Neither text nor code was available: the rules are derived from
//! their names and from descriptions in later papers. **Constants**: none.
//!
//! * HSR: the highest `cwnd / srtt`; the pacing rate or the measured delivery rate can replace it.
//! * LWS: the most free segments of the window, within the receive window.
//! * LTS: the lowest `srtt` over the free segments.
//!
//! **Departures from the source**: a subflow without an RTT has no rate, and an infinite time.

use super::pick::{self, Chunk};
use super::{Decision, Rule, Scheduler, SubflowView, View, Why};
use crate::parameter;
use crate::parameter::{Options, Parameter};

/// Returns the candidate with free window and the highest `measure`, and its score; a tie is broken by the
/// lower RTT, then by order.
fn most(
    view: &View<'_>,
    chunk: Chunk,
    limit: u64,
    rule: Rule,
    sign: f64,
    measure: impl Fn(&SubflowView) -> f64,
) -> Decision {
    let with_room = pick::candidates(view).filter(|subflow| chunk.fits(subflow));
    let scored =
        with_room.map(|subflow| (subflow, (-sign * measure(subflow), pick::rtt_or_infinite(subflow))));
    let Some((subflow, (score, _), other)) = pick::least(scored) else {
        return pick::wait(pick::why_none(view));
    };
    let other = other.map_or(f64::NAN, |(other, _)| -sign * other);
    match chunk.fit(subflow, limit.saturating_mul(subflow.mss)) {
        Some(range) => pick::assign_new(subflow, range, Why::scored(rule, -sign * score, other)),
        None => pick::wait(Rule::NoRoom),
    }
}

/// Returns the free whole segments of a subflow's window.
fn space(subflow: &SubflowView) -> f64 {
    let free = subflow.cwnd.saturating_sub(pick::under_way(subflow)).min(subflow.window_room);
    (free / subflow.mss.max(1)) as f64
}

/// HSR's measure of the sending rate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SendingRate {
    /// The window divided by the RTT.
    Window,
    /// The pacing rate of the congestion control, if it sets one.
    Pacing,
    /// The measured delivery rate, if there is a sample.
    Delivery,
}

/// The meaning of a high sending rate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HsrOptions {
    /// The measure of the sending rate.
    pub rate: SendingRate,
}

impl HsrOptions {
    /// The window divided by the RTT.
    pub const DEFAULT: HsrOptions = HsrOptions { rate: SendingRate::Window };
}

impl Options for HsrOptions {
    const PARAMETERS: &'static [Parameter<HsrOptions>] = &[parameter!(
        HsrOptions,
        "rate",
        "measure of the sending rate; the window divided by the RTT if it is missing",
        choice [
            "window" => SendingRate::Window,
            "pacing" => SendingRate::Pacing,
            "delivery" => SendingRate::Delivery
        ],
        rate
    )];
}

/// The highest sending rate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hsr(HsrOptions);

impl Hsr {
    /// Returns a scheduler with the given options.
    pub fn new(options: HsrOptions) -> Hsr {
        Hsr(options)
    }

    /// Returns the rate in bytes per second.
    fn rate(&self, subflow: &SubflowView) -> f64 {
        let rate = match self.0.rate {
            SendingRate::Window => None,
            SendingRate::Pacing => subflow.pacing_rate,
            SendingRate::Delivery => Some(subflow.delivery_rate).filter(|rate| rate.0 > 0),
        };
        match rate {
            Some(rate) => rate.0 as f64 / 8.0,
            None => subflow.srtt.map_or(0.0, |srtt| subflow.cwnd as f64 / srtt.as_secs_f64().max(1e-9)),
        }
    }
}

impl Scheduler for Hsr {
    fn decide(&mut self, view: &View<'_>) -> Decision {
        match pick::next_new(view) {
            Ok(chunk) => most(view, chunk, u64::MAX, Rule::HighestRate, 1.0, |subflow| self.rate(subflow)),
            Err(decision) => decision,
        }
    }
}

/// The largest window space.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Lws;

impl Lws {
    /// Returns the scheduler; it has no options.
    pub const fn new() -> Lws {
        Lws
    }
}

impl Scheduler for Lws {
    fn decide(&mut self, view: &View<'_>) -> Decision {
        match pick::next_new(view) {
            // Each segment uses window, so the choice is made per segment.
            Ok(chunk) => most(view, chunk, 1, Rule::LargestSpace, 1.0, space),
            Err(decision) => decision,
        }
    }
}

/// The lowest time over space.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Lts;

impl Lts {
    /// Returns the scheduler; it has no options.
    pub const fn new() -> Lts {
        Lts
    }
}

impl Scheduler for Lts {
    fn decide(&mut self, view: &View<'_>) -> Decision {
        let time = |subflow: &SubflowView| {
            subflow.srtt.map_or(f64::INFINITY, |srtt| srtt.as_secs_f64() / space(subflow))
        };
        match pick::next_new(view) {
            Ok(chunk) => most(view, chunk, 1, Rule::LeastTimePerSpace, -1.0, time),
            Err(decision) => decision,
        }
    }
}
