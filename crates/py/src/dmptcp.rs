//! DMPTCP's transfer model and its choice of subflows.

use anabranch_lab::output::{Candidate, Model, Selection};
use anabranch_lab::scenario::units;
use anabranch_stack::transfer_model::{ModelOptions, PathState};
use anabranch_units::Bytes;
use pyo3::prelude::*;

use crate::errors;

use crate::compare::json;

fn wrong(error: impl core::fmt::Display) -> PyErr {
    errors::argument(error.to_string())
}

fn check_segments(given: u32) -> PyResult<()> {
    match (1..=1_000_000).contains(&given) {
        true => Ok(()),
        false => Err(wrong("windows and thresholds are from 1 to 1000000 segments")),
    }
}

/// The object of `model --json`.
#[pyfunction]
#[pyo3(signature = (*, cwnd, ssthresh, loss, rounds, clip))]
pub(crate) fn model(
    py: Python<'_>,
    cwnd: u32,
    ssthresh: Option<u32>,
    loss: &str,
    rounds: u32,
    clip: bool,
) -> PyResult<String> {
    [Some(cwnd), ssthresh].into_iter().flatten().try_for_each(check_segments)?;
    if !(1..=100).contains(&rounds) {
        return Err(wrong("give from 1 to 100 rounds"));
    }
    let loss = units::parse_probability(loss).map_err(wrong)?;
    let options = ModelOptions { clip_at_ssthresh: clip, ..ModelOptions::default() };
    let model = py.detach(|| Model::new(options, PathState { cwnd, ssthresh, loss }, rounds));
    json(&model.map_err(wrong)?)
}

/// A path: its round-trip time, loss, window and threshold, and whether its window is full and it is a backup.
type Path = (String, String, u32, Option<u32>, bool, bool);

/// The object of `select --json`; `remaining` is none for a flow of unknown size.
#[pyfunction]
#[pyo3(signature = (paths, *, remaining, mss))]
pub(crate) fn select(paths: Vec<Path>, remaining: Option<&str>, mss: u32) -> PyResult<String> {
    if paths.is_empty() {
        return Err(wrong("there is no path to select"));
    }
    if !(1..=65_535).contains(&mss) {
        return Err(wrong("the payload of a segment is from 1 to 65535 bytes"));
    }
    let remaining = remaining.map(units::parse_size).transpose().map_err(wrong)?.unwrap_or(Bytes::MAX);
    let candidates = paths.iter().map(|(rtt, loss, cwnd, ssthresh, full, backup)| {
        let rtt = units::parse_span(rtt).map_err(wrong)?;
        if rtt.is_zero() {
            return Err(wrong("the path has no round-trip time; write for example `20 ms`"));
        }
        let loss = units::parse_probability(loss).map_err(wrong)?;
        let (cwnd, ssthresh, full, backup) = (*cwnd, *ssthresh, *full, *backup);
        [Some(cwnd), ssthresh].into_iter().flatten().try_for_each(check_segments)?;
        Ok(Candidate { rate: None, rtt, loss, cwnd, ssthresh, full, backup })
    });
    let candidates = candidates.collect::<PyResult<Vec<_>>>()?;
    json(&Selection::new(&candidates, mss, remaining).map_err(wrong)?)
}
