//! The same choice with all intermediate results, for display.

use super::{
    Coupling, MAX_PATHS, Order, PathEstimate, Selection, rounds, rtt_ratio, select_subflows, still_needed,
};
use crate::transfer_model::{TransferModel, Walk};
use anabranch_units::Bytes;

/// The data that a faster path delivers while a slower one is in its first round trip.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Contribution {
    /// Position of the faster path.
    pub path: usize,
    /// Round trips of the faster path in that time; infinite if the slower path has no RTT sample.
    pub ratio: f64,
    /// Segments delivered in them; infinite like `ratio`, unless the path loses everything.
    pub segments: f64,
    /// The same in bytes, rounded down; [`Bytes::MAX`] if infinite.
    pub bytes: Bytes,
}

/// A path that may be used, and whether it is.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// Position of the path.
    pub path: usize,
    /// The data that each faster path delivers within this path's RTT, fastest first; empty for the fastest
    /// path.
    pub contributions: Vec<Contribution>,
    /// Their sum `C_i`, rounded down. // DMPTCP eq. 15
    pub predicted: Bytes,
    /// True if that covers the remaining data, so that this path and all slower ones are not needed.
    pub enough: bool,
    /// True if the path is chosen.
    pub chosen: bool,
}

/// The reason why a path was not considered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The path is not usable.
    Unusable,
    /// The path is a backup, and a non-backup path is usable.
    Backup,
    /// The path is not among the first [`MAX_PATHS`].
    BeyondLimit,
}

/// A choice of subflows with its reasons.
#[derive(Clone, Debug, PartialEq)]
pub struct Explanation {
    /// The result of [`select_subflows`].
    pub selection: Selection,
    /// The paths that may be used, fastest first.
    pub candidates: Vec<Candidate>,
    /// The other paths by position, each with the reason.
    pub not_weighed: Vec<(usize, Reason)>,
}

/// Returns [`select_subflows`] with its reasons: every path is evaluated completely, including those slower
/// than the first that is not needed.
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
            let segments = walk.reach(rounds(estimate, faster, model), f64::INFINITY);
            // Adds and compares as `select_subflows` does, so that rounding cannot make the two differ.
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
