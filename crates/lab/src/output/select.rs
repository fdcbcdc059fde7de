//! `anabranch select --json`

use anabranch_stack::selection::{self, Explanation, PathEstimate, Reason, explain_selection};
use anabranch_stack::transfer_model::TransferModel;
use anabranch_units::{Bytes, Duration, Rate};
use serde::Serialize;

use crate::figures;

/// A path among which DMPTCP selects.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Candidate {
    /// Its rate, which the selection does not use.
    pub rate: Option<Rate>,
    /// Its round-trip time.
    pub rtt: Duration,
    /// The probability that a segment is lost.
    pub loss: f64,
    /// The congestion window, in segments.
    pub cwnd: u32,
    /// The slow-start threshold, in segments; none is infinite.
    pub ssthresh: Option<u32>,
    /// True if its window is full.
    pub full: bool,
    /// True if its subflow has the flag B.
    pub backup: bool,
}

/// The subflows that DMPTCP selects.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Selection {
    /// The bytes of the flow that were never assigned; none if unknown.
    pub remaining_bytes: Option<u64>,
    /// Positions of the selected paths from 1, fastest first.
    pub selected: Vec<usize>,
    /// All paths, in the given order.
    pub paths: Vec<SelectedPath>,
}

/// A path, and the reason that it is selected or not.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SelectedPath {
    /// Its position, from 1.
    pub path: usize,
    /// Its rate, in bit/s.
    pub rate_bps: Option<u64>,
    /// Its round-trip time, in seconds.
    pub rtt_s: f64,
    /// The probability that a segment is lost.
    pub loss: f64,
    /// The congestion window, in segments.
    pub cwnd: u32,
    /// The slow-start threshold, in segments.
    pub ssthresh: Option<u32>,
    /// True if data may be sent on it.
    pub selected: bool,
    /// The bytes that the faster paths deliver within this path's RTT; none for a path that was not
    /// considered.
    pub faster_deliver_bytes: Option<u64>,
    /// The reason, in words.
    pub why: String,
}

/// There are more than 32 paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooManyPaths;

impl core::fmt::Display for TooManyPaths {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "there are more than {} paths", selection::MAX_PATHS)
    }
}

impl std::error::Error for TooManyPaths {}

impl Selection {
    /// Returns the selection for the `remaining` bytes of a flow, [`Bytes::MAX`] if unknown, in segments of
    /// `mss` bytes.
    ///
    /// # Errors
    /// If there are too many paths.
    pub fn new(paths: &[Candidate], mss: u32, remaining: Bytes) -> Result<Selection, TooManyPaths> {
        if paths.len() > selection::MAX_PATHS {
            return Err(TooManyPaths);
        }
        let estimate = |path: &Candidate| PathEstimate {
            srtt: path.rtt,
            cwnd: path.cwnd,
            ssthresh: path.ssthresh,
            loss: path.loss,
            mss,
            rate_limit: None,
            full: path.full,
            usable: true,
            backup: path.backup,
        };
        let estimates: Vec<PathEstimate> = paths.iter().map(estimate).collect();
        let explanation = explain_selection(&estimates, remaining, &TransferModel::default());
        let one = |(index, path)| selected_path(index, path, remaining, &explanation);
        Ok(Selection {
            remaining_bytes: (remaining != Bytes::MAX).then_some(remaining.0),
            selected: explanation.selection.paths().map(|path| path + 1).collect(),
            paths: paths.iter().enumerate().map(one).collect(),
        })
    }
}

fn selected_path(
    index: usize,
    path: &Candidate,
    remaining: Bytes,
    explanation: &Explanation,
) -> SelectedPath {
    let candidate = explanation.candidates.iter().find(|candidate| candidate.path == index);
    let why = match candidate {
        None => match explanation.not_weighed.iter().find(|(path, _)| *path == index) {
            Some((_, Reason::Backup)) => "a backup, and another path is usable".to_owned(),
            Some((_, Reason::Unusable)) => "not usable".to_owned(),
            _ => "not weighed".to_owned(),
        },
        Some(candidate) if candidate.contributions.is_empty() => "the fastest path".to_owned(),
        Some(_) if remaining == Bytes::MAX => "the size is unknown, so every path is selected".to_owned(),
        Some(candidate) => {
            let faster = candidate.contributions.iter().map(|part| {
                format!(
                    "path {} {} in {} round trips",
                    part.path + 1,
                    figures::size(part.bytes.0),
                    figures::digits(part.ratio)
                )
            });
            let faster = faster.collect::<Vec<_>>().join(", ");
            let relation = if candidate.enough { "enough for" } else { "less than" };
            match (candidate.chosen, candidate.enough) {
                (false, false) => format!("slower than a path that is not needed ({faster})"),
                _ => format!(
                    "within its RTT the faster paths deliver {}, {relation} {remaining} ({faster})",
                    figures::size(candidate.predicted.0)
                ),
            }
        }
    };
    SelectedPath {
        path: index + 1,
        rate_bps: path.rate.map(|rate| rate.0),
        rtt_s: path.rtt.as_secs_f64(),
        loss: path.loss,
        cwnd: path.cwnd,
        ssthresh: path.ssthresh,
        selected: explanation.selection.contains(index),
        faster_deliver_bytes: candidate.map(|candidate| candidate.predicted.0),
        why,
    }
}
