//! DMPTCP's transfer model and its choice of subflows.

use anabranch_lab::units;
use anabranch_stack::selection::{MAX_PATHS, PathEstimate, Reason, explain_selection};
use anabranch_stack::transfer_model::{ModelOptions, PathState, TransferModel};
use anabranch_units::Bytes;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// More states than a reader can use.
const MOST_STATES: usize = 1_000_000;

fn wrong(error: impl core::fmt::Display) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// A state of a round: window, threshold and probability.
type State = (u32, Option<u32>, f64);
/// A round: its number, the segments delivered so far, the expected window, and its states.
type Round = (u32, f64, f64, Vec<State>);

/// The rounds that the transfer model predicts.
#[pyfunction]
#[pyo3(signature = (*, cwnd, ssthresh, loss, rounds, clip))]
pub(crate) fn model(
    cwnd: u32,
    ssthresh: Option<u32>,
    loss: &str,
    rounds: u32,
    clip: bool,
) -> PyResult<Vec<Round>> {
    let segments = 1..=1_000_000;
    if !segments.contains(&cwnd) || ssthresh.is_some_and(|threshold| !segments.contains(&threshold)) {
        return Err(wrong("windows and thresholds are from 1 to 1000000 segments"));
    }
    if !(1..=100).contains(&rounds) {
        return Err(wrong("give from 1 to 100 rounds"));
    }
    let loss = units::parse_probability(loss).map_err(wrong)?;
    let options = ModelOptions { clip_at_ssthresh: clip, ..ModelOptions::default() };
    let mut all: Vec<Round> = Vec::new();
    let mut count = 0;
    for round in TransferModel::new(options).rounds(PathState { cwnd, ssthresh, loss }, rounds) {
        count += round.states.len();
        if count > MOST_STATES {
            let most = all.len();
            return Err(wrong(format!("this number of rounds has over a million states; give at most {most}")));
        }
        let states =
            round.states.iter().map(|state| (state.cwnd, state.ssthresh, state.probability)).collect();
        all.push((round.round, round.delivered_segments, round.expected_cwnd, states));
    }
    Ok(all)
}

/// A path: its round-trip time, loss, window, threshold, and whether its window is full and it is a backup.
type Path = (String, String, u32, Option<u32>, bool, bool);
/// A path's part in the choice: whether it is selected, the bytes that faster paths deliver within its round-trip time,
/// and a reason.
type Part = (bool, Option<u64>, &'static str);

/// DMPTCP's choice of subflows; `remaining` is none for a flow of unknown size.
#[pyfunction]
#[pyo3(signature = (paths, *, remaining, mss))]
pub(crate) fn select(paths: Vec<Path>, remaining: Option<&str>, mss: u32) -> PyResult<Vec<Part>> {
    if paths.is_empty() || paths.len() > MAX_PATHS {
        return Err(wrong(format!("give from 1 to {MAX_PATHS} paths")));
    }
    if !(1..=65_535).contains(&mss) {
        return Err(wrong("the payload of a segment is from 1 to 65535 bytes"));
    }
    let remaining = remaining.map(units::parse_size).transpose().map_err(wrong)?.unwrap_or(Bytes::MAX);
    let estimates = paths.iter().map(|(rtt, loss, cwnd, ssthresh, full, backup)| {
        let srtt = units::parse_span(rtt).map_err(wrong)?;
        if srtt.is_zero() || *cwnd == 0 || *cwnd > 1_000_000 {
            return Err(wrong("a path needs a round-trip time above 0, and a window of 1 to 1000000 segments"));
        }
        let loss = units::parse_probability(loss).map_err(wrong)?;
        let (cwnd, ssthresh, full, backup) = (*cwnd, *ssthresh, *full, *backup);
        Ok(PathEstimate { srtt, cwnd, ssthresh, loss, mss, full, usable: true, backup })
    });
    let estimates = estimates.collect::<PyResult<Vec<_>>>()?;
    let explanation = explain_selection(&estimates, remaining, &TransferModel::default());
    let part = |path: usize| {
        let candidate = explanation.candidates.iter().find(|candidate| candidate.path == path);
        let why = match candidate {
            None if explanation.not_weighed.iter().any(|one| *one == (path, Reason::Backup)) => "backup",
            None => "not_weighed",
            Some(candidate) if candidate.contributions.is_empty() => "fastest",
            Some(_) if remaining == Bytes::MAX => "unknown_size",
            Some(candidate) if candidate.chosen => "needed",
            Some(candidate) if candidate.enough => "faster_suffice",
            Some(_) => "slower_than_unneeded",
        };
        let faster = candidate.map(|candidate| candidate.predicted.0);
        (explanation.selection.contains(path), faster, why)
    };
    Ok((0..paths.len()).map(part).collect())
}
