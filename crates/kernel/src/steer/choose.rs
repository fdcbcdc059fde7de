//! The choice between the subflows of a connection.

use anabranch_scenario::policy::{Treatment, Use};
use anabranch_stack::selection::{PathEstimate, explain_selection, select_subflows};
use anabranch_stack::transfer_model::TransferModel;
use anabranch_units::{Bytes, Duration};

use super::decision::{Decision, Why, describe};
use super::state::{Around, Tracked, TrackedSubflow, Traffic};
use super::{LOOKS, MARGIN};
use crate::diag::{Connection, SubflowState, TcpInfo};
use crate::interfaces::{Interface, Interfaces};
use crate::pm::Command;

/// The least time between two changes of a subflow, in addition to two of its round trips.
const LEAST_PAUSE: Duration = Duration::from_millis(20);
/// The state of congestion control after a timeout (`TCP_CA_Loss`).
const LOSS: u8 = 4;

/// The segments of the window that is assumed of a peer that has sent less. // RFC 6928
const INITIAL_WINDOW: u32 = 10;

/// Returns the remaining data of a connection: what no subflow has sent.
///
/// The rest that cannot be seen, which the application has not written because the buffer is full or which the peer is
/// going to send, is taken to be as long as the burst so far: the mean rest of a size with a Pareto distribution of
/// shape 2, near the shapes of flow sizes on the Internet.
pub(super) fn remaining(connection: &Connection, traffic: &Traffic, treatment: &Treatment) -> Bytes {
    let queued: u64 = connection.subflows.iter().map(|subflow| u64::from(subflow.info.notsent_bytes)).sum();
    let own = connection.unsent() + queued;
    let rest = if traffic.is_receiving(connection.info.outstanding()) {
        let so_far = traffic.received.burst;
        match treatment.receives.and_then(|size| size.0.checked_sub(so_far)) {
            Some(rest) => rest,
            None => so_far,
        }
    } else if connection.send_buffer.is_full() {
        own + traffic.sent.burst
    } else {
        own
    };
    // Between two bursts the next one is expected to be small.
    Bytes(rest.max(1))
}

/// A subflow that is weighed.
pub(super) struct Weighed<'a> {
    pub subflow: &'a SubflowState,
    pub interface: Option<&'a Interface>,
    pub estimate: PathEstimate,
}

/// Returns the subflows of a connection with their estimates.
pub(super) fn weigh<'a>(
    tracked: &Tracked,
    connection: &'a Connection,
    interfaces: &'a Interfaces,
    treatment: &Treatment,
) -> Vec<Weighed<'a>> {
    let receives = tracked.traffic.is_receiving(connection.info.outstanding());
    let is_idle = connection.info.outstanding() == 0;
    let one = |subflow: &'a SubflowState| {
        let interface = interfaces.of(subflow.interface, subflow.addresses.local.ip());
        let info = &subflow.info;
        let known = tracked.subflows.get(&subflow.addresses);
        let (cwnd, ssthresh) = match receives {
            true => peer_window(info, known, tracked.traffic.span),
            false => (info.cwnd, known.map_or(info.ssthresh, |known| known.growth.threshold(info))),
        };
        let estimate = PathEstimate {
            srtt: match receives {
                true => Duration::from_micros(info.rtt_us.into()),
                false => next_rtt(info, is_idle),
            },
            cwnd,
            ssthresh,
            loss: known.map_or(0.0, |known| known.loss.rate()),
            mss: info.snd_mss,
            rate_limit: None,
            full: !receives && info.cwnd > 0 && info.in_flight() >= info.cwnd,
            usable: subflow.can_send()
                && interface.is_some_and(|interface| interface.running || interface.loopback)
                && !(info.ca_state == LOSS && info.backoff > 0),
            backup: subflow.flags.peer_backup()
                || interface.is_some_and(|interface| treatment.is_backup(&interface.name)),
        };
        Weighed { subflow, interface, estimate }
    };
    connection.subflows.iter().map(one).collect()
}

/// Returns the RTT of the next data. The smoothed RTT contains the queue that the subflow has built: while the connection is
/// idle, no sample replaces it, but the queue has drained.
fn next_rtt(info: &TcpInfo, is_idle: bool) -> Duration {
    let has_least = is_idle && info.min_rtt_us > 0;
    Duration::from_micros(if has_least { info.min_rtt_us } else { info.rtt_us }.into())
}

/// Estimates the peer's window from the payload that has arrived since the observation before, and the threshold at
/// which it stops to double: this window, once there is one.
fn peer_window(info: &TcpInfo, known: Option<&TrackedSubflow>, span: Duration) -> (u32, Option<u32>) {
    let [now, before] = known.map_or([0, 0], |known| known.received);
    let arrived = now.saturating_sub(before) as f64;
    let rounds = (span.as_secs_f64() / Duration::from_micros(info.rtt_us.into()).as_secs_f64()).max(1.0);
    let window = (arrived / rounds / f64::from(info.snd_mss.max(1))) as u32;
    match window > INITIAL_WINDOW {
        true => (window, Some(window)),
        false => (INITIAL_WINDOW, None),
    }
}

/// Returns the commands that make the subflows used or backups.
pub(super) fn choose(
    Around { now, token, interfaces, treatment }: Around<'_>,
    tracked: &mut Tracked,
    connection: &Connection,
    decisions: &mut Vec<Decision>,
) {
    let weighed = weigh(tracked, connection, interfaces, treatment);
    if weighed.len() < 2 {
        return;
    }
    let estimates: Vec<PathEstimate> = weighed.iter().map(|one| one.estimate).collect();
    let model = TransferModel::default();
    let remaining = match treatment.subflow_use {
        Use::Nothing => return,
        Use::All => Bytes::MAX,
        Use::Dmptcp => remaining(connection, &tracked.traffic, treatment),
    };
    let chosen = select_subflows(&estimates, remaining, &model);
    if chosen.is_empty() {
        return;
    }
    let more = match remaining {
        Bytes::MAX => Bytes::MAX,
        Bytes(bytes) => Bytes((bytes as f64 * MARGIN) as u64),
    };
    let cautious = select_subflows(&estimates, more, &model);
    let names: Vec<String> = weighed.iter().map(|one| name_of(one.interface)).collect();
    // First the subflows that are needed, so that there is always one to send on.
    for needed in [true, false] {
        for (position, one) in weighed.iter().enumerate() {
            let Some(known) = tracked.subflows.get_mut(&one.subflow.addresses) else { continue };
            let is_backup = one.subflow.flags.own_backup();
            if needed {
                let unneeded = !is_backup && !cautious.contains(position);
                known.spare = if unneeded { known.spare + 1 } else { 0 };
            }
            let backup = match (is_backup, needed) {
                (true, true) if chosen.contains(position) => false,
                // One that cannot send has no need of a mark.
                (false, false) if known.spare >= LOOKS && one.estimate.usable => true,
                _ => continue,
            };
            if !one.subflow.flags.is_fully_established() || now < known.quiet_until {
                continue;
            }
            known.spare = 0;
            known.quiet_until = now + one.estimate.srtt + one.estimate.srtt + LEAST_PAUSE;
            let why = match treatment.subflow_use {
                Use::All => Why::Policy,
                _ => {
                    let explanation = explain_selection(&estimates, remaining, &model);
                    Why::Selected(describe(&explanation, position, remaining, &names))
                }
            };
            decisions.push(Decision {
                command: Command::SetBackup { token, subflow: one.subflow.addresses, backup },
                interface: names.get(position).cloned().unwrap_or_default(),
                why,
            });
        }
    }
}

/// Returns the name of an interface for people.
pub(super) fn name_of(interface: Option<&Interface>) -> String {
    interface.map_or("-".to_owned(), |interface| interface.name.clone())
}

/// Returns the reason that a new path with the expected RTT (none if it is unknown) is needed at once; none if it is
/// not.
pub(super) fn needs(
    tracked: &Tracked,
    interfaces: &Interfaces,
    treatment: &Treatment,
    expected: Option<Duration>,
) -> Option<String> {
    let connection = tracked.view.as_ref()?;
    let weighed = weigh(tracked, connection, interfaces, treatment);
    let mut estimates: Vec<PathEstimate> = weighed.iter().map(|one| one.estimate).collect();
    let mut names: Vec<String> = weighed.iter().map(|one| name_of(one.interface)).collect();
    let position = estimates.len();
    let mss = estimates.first().map_or(1400, |first| first.mss);
    estimates.push(PathEstimate {
        srtt: expected.unwrap_or(Duration::ZERO),
        cwnd: INITIAL_WINDOW,
        ssthresh: None,
        loss: 0.0,
        mss,
        rate_limit: None,
        full: false,
        usable: true,
        backup: false,
    });
    names.push(String::new());
    let remaining = match treatment.subflow_use {
        Use::All => Bytes::MAX,
        _ => remaining(connection, &tracked.traffic, treatment),
    };
    let explanation = explain_selection(&estimates, remaining, &TransferModel::default());
    explanation.selection.contains(position).then(|| describe(&explanation, position, remaining, &names))
}
