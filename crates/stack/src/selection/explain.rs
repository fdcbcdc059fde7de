//! The same choice with everything that was weighed, for people to read.

use super::{Coupling, MAX_PATHS, Order, PathEstimate, Selection, rtt_ratio, select_subflows, still_needed};
use crate::transfer_model::{TransferModel, Walk};
use anabranch_units::Bytes;

/// What a faster path delivers while a slower one is in its first round trip.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Contribution {
    /// Position of the faster path.
    pub path: usize,
    /// Round trips it has meanwhile; infinite where the slower path has no RTT sample.
    pub ratio: f64,
    /// Segments it delivers in them; infinite like `ratio`, unless it loses everything.
    pub segments: f64,
    /// The same in bytes, rounded down; [`Bytes::MAX`] if infinite.
    pub bytes: Bytes,
}

/// A path that may be used, and whether it is.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// Position of the path.
    pub path: usize,
    /// What each faster path delivers within its RTT, fastest first; empty for the fastest itself.
    pub contributions: Vec<Contribution>,
    /// Their sum `C_i`, rounded down. // DMPTCP eq. 15
    pub predicted: Bytes,
    /// Whether that is all that remains, so that this path and all slower ones are not needed.
    pub enough: bool,
    /// Whether the path is chosen.
    pub chosen: bool,
}

/// Why a path was not weighed at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// It is not usable.
    Unusable,
    /// It is a backup, and a path that is none is usable.
    Backup,
    /// It is behind the first [`MAX_PATHS`] paths.
    BeyondLimit,
}

/// A choice of subflows with its grounds.
#[derive(Clone, Debug, PartialEq)]
pub struct Explanation {
    /// What [`select_subflows`] answers.
    pub selection: Selection,
    /// The paths that may be used, fastest first.
    pub candidates: Vec<Candidate>,
    /// The others by position, each with the reason.
    pub not_weighed: Vec<(usize, Reason)>,
}

/// [`select_subflows`] with its grounds: every path is weighed to the end, also those behind the
/// first that is not needed.
pub fn explain_selection(paths: &[PathEstimate], remaining: Bytes, model: &TransferModel) -> Explanation {
    let selection = select_subflows(paths, remaining, model);
    let order = Order::new(paths);
    let coupling = Coupling::new(paths, &order, model);
    let known = remaining != Bytes::MAX;
    let needed = remaining.get() as f64;
    let place = |place: usize| (order.at(place), &paths[order.at(place)]);
    let mut walks: Vec<Walk> = Vec::new();
    let mut candidates = Vec::new();
    for slow in 0..order.len {
        let (path, estimate) = place(slow);
        let mut candidate = Candidate {
            path,
            contributions: Vec::with_capacity(slow),
            predicted: Bytes::ZERO,
            enough: false,
            chosen: selection.contains(path),
        };
        let mut sum = 0.0;
        for (fast, walk) in walks.iter_mut().enumerate() {
            let (path, faster) = place(fast);
            let ratio = rtt_ratio(estimate, faster);
            let segments = walk.reach(ratio, f64::INFINITY);
            // As `select_subflows` adds and compares: no rounding sets the two apart.
            candidate.enough |= known && segments >= still_needed(needed, sum, faster.segment());
            sum += segments * faster.segment();
            let bytes = Bytes((segments * faster.segment()) as u64);
            candidate.contributions.push(Contribution { path, ratio, segments, bytes });
        }
        candidate.predicted = Bytes(sum as u64);
        candidates.push(candidate);
        walks.push(estimate.walk(&coupling.model_of(estimate)));
    }
    let reason = |(position, path): (usize, &PathEstimate)| {
        let reason = match () {
            () if position >= MAX_PATHS => Reason::BeyondLimit,
            () if !path.usable => Reason::Unusable,
            () if candidates.iter().all(|candidate| candidate.path != position) => Reason::Backup,
            () => return None,
        };
        Some((position, reason))
    };
    let not_weighed = paths.iter().enumerate().filter_map(reason).collect();
    Explanation { selection, candidates, not_weighed }
}
