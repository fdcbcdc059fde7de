//! Advice on the connections of this moment.

use std::net::SocketAddr;
use std::thread::sleep;
use std::time::Instant;

use anabranch_scenario::policy::{Policy, Use};
use anabranch_stack::selection::{PathEstimate, explain_selection};
use anabranch_stack::transfer_model::TransferModel;
use anabranch_units::{Bytes, Time};
use serde::Serialize;

use super::choose::{name_of, remaining, weigh};
use super::decision::describe;
use super::opening::Identifiers;
use super::state::Tracked;
use crate::diag::{Connection, Diagnostics};
use crate::error::KernelError;
use crate::interfaces::{Interfaces, Links};

/// The time over which rates are measured.
const MOMENT: std::time::Duration = std::time::Duration::from_millis(100);

/// The selection of a connection's subflows.
#[derive(Clone, Debug, Serialize)]
pub struct Advice {
    /// The local token, in hexadecimal digits.
    pub token: String,
    /// The peer.
    pub remote: SocketAddr,
    /// The remaining data; none if its size is unknown.
    pub remaining_bytes: Option<u64>,
    /// The selection for each subflow, in the order of the kernel.
    pub subflows: Vec<SubflowAdvice>,
}

/// The selection for a subflow.
#[derive(Clone, Debug, Serialize)]
pub struct SubflowAdvice {
    /// The interface by which it leaves, such as `eth0`.
    pub interface: String,
    /// Its local address.
    pub local: SocketAddr,
    /// The smoothed RTT; none without a sample.
    pub srtt_us: Option<u32>,
    /// The congestion window.
    pub cwnd_segments: u32,
    /// The slow-start threshold; none if it is infinite.
    pub ssthresh_segments: Option<u32>,
    /// The part of the payload that is lost.
    pub loss: f64,
    /// True if it is a backup now.
    pub backup: bool,
    /// True if DMPTCP's selection would send on it.
    pub selected: bool,
    /// The reason.
    pub why: String,
}

/// Returns the selections for the connections of this moment.
///
/// # Errors
/// If the kernel refuses to show them.
pub fn now(policy: &Policy) -> Result<Vec<Advice>, KernelError> {
    let (mut diagnostics, interfaces) = (Diagnostics::open()?, Links::open()?.read()?);
    let begun = Instant::now();
    let first = diagnostics.connections()?;
    if first.is_empty() {
        return Ok(Vec::new());
    }
    sleep(MOMENT);
    let second = diagnostics.connections()?;
    let time = Time(1 + begun.elapsed().as_nanos() as u64);
    let one = |connection: &Connection| {
        let mut tracked = Tracked::new(connection.addresses);
        let mut identifiers = Identifiers::default();
        if let Some(before) = first.get(&connection.token) {
            tracked.on_seen(Time(1), before, &mut identifiers);
        }
        tracked.on_seen(time, connection, &mut identifiers);
        advise(&tracked, connection, &interfaces, policy)
    };
    Ok(second.values().filter(|connection| !connection.info.fallback).map(one).collect())
}

fn advise(tracked: &Tracked, connection: &Connection, interfaces: &Interfaces, policy: &Policy) -> Advice {
    let treatment = policy.treatment(tracked.initial.remote.ip(), tracked.server_port());
    let weighed = weigh(tracked, connection, interfaces, treatment);
    let remaining = match treatment.subflow_use {
        Use::Dmptcp => remaining(connection, &tracked.traffic, treatment),
        Use::All | Use::Nothing => Bytes::MAX,
    };
    let estimates: Vec<PathEstimate> = weighed.iter().map(|one| one.estimate).collect();
    let names: Vec<String> = weighed.iter().map(|one| name_of(one.interface)).collect();
    let explanation = explain_selection(&estimates, remaining, &TransferModel::default());
    let subflows = weighed.iter().zip(&names).enumerate().map(|(position, (one, name))| SubflowAdvice {
        interface: name.clone(),
        local: one.subflow.addresses.local,
        srtt_us: Some(one.subflow.info.rtt_us).filter(|rtt| *rtt > 0),
        cwnd_segments: one.estimate.cwnd,
        ssthresh_segments: one.estimate.ssthresh,
        loss: one.estimate.loss,
        backup: one.subflow.flags.is_backup(),
        selected: explanation.selection.contains(position),
        why: describe(&explanation, position, remaining, &names),
    });
    Advice {
        token: connection.token.to_string(),
        remote: connection.addresses.remote,
        remaining_bytes: (remaining != Bytes::MAX).then_some(remaining.0),
        subflows: subflows.collect(),
    }
}
