//! Checks whether option 30 passes the network, as far as one end can observe.

use super::{fail, ok};
use crate::doctor::{Check, Probe, ProbeOutcome};
use crate::install;

/// The remedy if the network interferes.
const DETOUR: &str = "use another path for this peer, or a tunnel";
/// The scope of a finding.
const SCOPE: &str = "This result is for the path that the kernel chose, not for the other interfaces";

pub(super) fn probe(probe: &Probe) -> Check {
    let id = "option-30";
    let target = match probe.address.map(|address| address.to_string()) {
        Some(address) if address != probe.target => format!("{} ({address})", probe.target),
        _ => probe.target.clone(),
    };
    let rose = |name: &str| probe.counters.contains_key(name);
    let elsewhere = "try a host that is known to support Multipath TCP, and this host from another network; \
                     only a capture at the far end is conclusive";
    match &probe.outcome {
        ProbeOutcome::NoMptcp(error) => fail(
            id,
            format!("cannot be tested: the kernel provides no Multipath TCP socket ({error})"),
            "sysctl -w net.mptcp.enabled=1, or a kernel with CONFIG_MPTCP",
        ),
        ProbeOutcome::NoName(error) => {
            fail(id, format!("cannot be tested: {error}"), "give another HOST:PORT")
        }
        ProbeOutcome::NoConnection(error) => fail(
            id,
            format!("unknown: {target} cannot be reached, with the option or without ({error})"),
            "give a HOST:PORT that is reachable by plain TCP",
        ),
        ProbeOutcome::Refused => fail(
            id,
            format!("unknown: {target} refuses connections; no server listens there, or a firewall answers"),
            "give the HOST:PORT of a running server",
        ),
        ProbeOutcome::PlainAlone(tried) => fail(
            id,
            format!(
                "{target} did not answer a connection with it for {} s, but answers one without: a middlebox \
                 drops segments with it, SYNs or SYN/ACKs",
                tried.as_secs()
            ),
            DETOUR,
        ),
        ProbeOutcome::Multipath => {
            ok(id, format!("passes to {target} and back, in the handshake and with data. {SCOPE}"))
        }
        ProbeOutcome::Handshake => ok(
            id,
            format!(
                "passes to {target} and back in the handshake; data was not tested (only on the ports 80, \
                 8000 and 8080). {SCOPE}"
            ),
        ),
        ProbeOutcome::Silent(waited) => fail(
            id,
            format!(
                "passes to {target} and back in the handshake, but a request had no answer in {} s. Either \
                 the server does not support HTTP, or a middlebox drops segments with the option",
                waited.as_secs()
            ),
            "test whether plain TCP gets an answer (curl -I)",
        ),
        ProbeOutcome::FellBackLater => fail(
            id,
            format!("passes to {target} in the handshake, but not with data: a middlebox removes it there"),
            "use another path for this peer, or a tunnel; data is transferred correctly, over one path",
        ),
        ProbeOutcome::FellBack if rose("MPCapableSYNTXDisabled") => fail(
            id,
            format!(
                "was not sent to {target}: the kernel omits it for some time (net.mptcp.blackhole_timeout), \
                 since SYNs with it were dropped before"
            ),
            "sysctl -w net.mptcp.blackhole_timeout=0 and try again",
        ),
        ProbeOutcome::FellBack if rose("MPCapableSYNTXDrop") => fail(
            id,
            format!("SYNs with it to {target} had no answer, but one without had: a middlebox drops them"),
            DETOUR,
        ),
        ProbeOutcome::FellBack => fail(
            id,
            format!(
                "{target} answered without it. Either it does not support Multipath TCP, or a middlebox \
                 removes the option from the SYN or the SYN/ACK; one end alone cannot distinguish these"
            ),
            elsewhere,
        ),
        ProbeOutcome::Unknown(error) => {
            fail(id, format!("unknown: connected to {target}, and then: {error}"), &install("ss"))
        }
    }
}
