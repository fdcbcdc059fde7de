//! OTIAS, out-of-order transmission for in-order arrival scheduling: queues each segment on the subflow where
//! it is predicted to arrive first.
//!
//! **Decides** on which subflow each segment is queued, by its predicted time of arrival: half a round trip,
//! and a whole one for each window that has to be sent before it. Segments are queued beyond the congestion
//! window.
//!
//! **Source**: Yang and others (2014), as in the Karlstad and Simula fork of the MPTCP kernel; the paper
//! itself was not available. With `q` segments queued and `space` free ones in the window of `cwnd`, the fork
//! waits `ceil((q - space + 1) / cwnd)` round trips and two other implementations of the paper `floor((q -
//! space) / cwnd)`, at least 0: the option `wait`.
//!
//! **Constants**: none.
//!
//! **Departures from the source**
//! * A subflow without an RTT is the slowest; in the fork it is the fastest.
//! * Backups are used only when no active subflow works; the fork ignores the flag.
//! * The queue of a subflow that may no longer carry data is recalled; the fork leaves it.

use super::pick;
use super::{Decision, Scheduler, SubflowView, View};
use crate::parameter;
use crate::parameter::{Options, Parameter};

/// The number of round trips that a queued segment waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OtiasWait {
    /// The fork's formula: a full window costs a round trip.
    CeilPlusOne,
    /// The paper's formula, as other implementations read it.
    Floor,
}

/// The rounding of the wait, which implementations of OTIAS read in two ways.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OtiasOptions {
    /// The number of round trips that a queued segment waits.
    pub wait: OtiasWait,
}

impl OtiasOptions {
    /// The fork's formula.
    pub const DEFAULT: OtiasOptions = OtiasOptions { wait: OtiasWait::CeilPlusOne };
}

impl Options for OtiasOptions {
    const PARAMETERS: &'static [Parameter<OtiasOptions>] = &[parameter!(
        OtiasOptions,
        "wait",
        "round trips that a queued segment waits",
        choice ["ceil-plus-one" => OtiasWait::CeilPlusOne, "floor" => OtiasWait::Floor],
        wait
    )];
}

/// Queues each segment on the subflow with the earliest predicted arrival.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Otias(OtiasOptions);

impl Otias {
    /// Returns a scheduler with the given options.
    pub fn new(options: OtiasOptions) -> Otias {
        Otias(options)
    }

    /// Returns the predicted arrival of the next segment, in seconds from now.
    fn arrival(&self, subflow: &SubflowView) -> f64 {
        let Some(srtt) = subflow.srtt else { return f64::INFINITY };
        let mss = subflow.mss.max(1);
        let space = subflow.cwnd.saturating_sub(subflow.inflight) / mss;
        let queued = pick::segments(subflow, subflow.queued);
        let cwnd = (subflow.cwnd / mss).max(1);
        let rounds = match self.0.wait {
            _ if queued < space => 0,
            OtiasWait::CeilPlusOne => (queued - space + 1).div_ceil(cwnd),
            OtiasWait::Floor => (queued - space) / cwnd,
        };
        (rounds as f64 + 0.5) * srtt.as_secs_f64()
    }
}

impl Scheduler for Otias {
    fn decide(&mut self, view: &View<'_>) -> Decision {
        if let Some(decision) = pick::stranded(view) {
            return decision;
        }
        let chunk = match pick::next_new(view) {
            Ok(chunk) => chunk,
            Err(decision) => return decision,
        };
        pick::queue_on_soonest(view, chunk, |subflow| self.arrival(subflow))
    }

    fn revises_queues(&self) -> bool {
        true
    }
}
