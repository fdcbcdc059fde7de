//! Checks whether option 30 passes the network, as far as one end can observe.

use super::{fail, ok};
use crate::doctor::{Check, Probe, ProbeOutcome};
use crate::install;

/// The remedy if the network interferes.
const DETOUR: &str = "use another path for this peer, or a tunnel";
/// The scope of a finding.
const SCOPE: &str = "This tells of the way that the kernel took, and not of the other interfaces";

pub(super) fn probe(probe: &Probe) -> Check {
    let id = "option-30";
    let target = match probe.address.map(|address| address.to_string()) {
        Some(address) if address != probe.target => format!("{} ({address})", probe.target),
        _ => probe.target.clone(),
    };
    let rose = |name: &str| probe.counters.contains_key(name);
    let elsewhere = "try a host that is known to speak Multipath TCP, and this host from another network; only a capture at \
                     the far end can tell";
    match &probe.outcome {
        ProbeOutcome::NoMptcp(error) => fail(
            id,
            format!("cannot be tried: the kernel gives no Multipath TCP socket ({error})"),
            "sysctl -w net.mptcp.enabled=1, and a kernel with CONFIG_MPTCP",
        ),
        ProbeOutcome::NoName(error) => {
            fail(id, format!("cannot be tried: {error}"), "give another HOST:PORT")
        }
        ProbeOutcome::NoConnection(error) => fail(
            id,
            format!("cannot be told: {target} cannot be reached, with the option or without ({error})"),
            "give a HOST:PORT that plain TCP reaches",
        ),
        ProbeOutcome::Refused => fail(
            id,
            format!(
                "cannot be told: {target} refuses connections; nobody listens there, or a firewall answers"
            ),
            "give the HOST:PORT of a server that is there",
        ),
        ProbeOutcome::PlainAlone(tried) => fail(
            id,
            format!(
                "{target} did not answer to a connection with it for {} s, and does to one without: something on the way \
                 drops what has it, SYNs or the answers to them",
                tried.as_secs()
            ),
            DETOUR,
        ),
        ProbeOutcome::Multipath => {
            ok(id, format!("comes through to {target} and back, in the handshake and with data. {SCOPE}"))
        }
        ProbeOutcome::Handshake => ok(
            id,
            format!(
                "comes through to {target} and back in the handshake; with data it was not tried (that is done on the ports \
                 80, 8000 and 8080). {SCOPE}"
            ),
        ),
        ProbeOutcome::Silent(waited) => fail(
            id,
            format!(
                "comes through to {target} and back in the handshake, but a request had no answer in {} s. Either the server \
                 does not speak HTTP, or something on the way drops segments that have the option",
                waited.as_secs()
            ),
            "see whether plain TCP has an answer (curl -I)",
        ),
        ProbeOutcome::FellBackLater => fail(
            id,
            format!(
                "comes through to {target} in the handshake and not with data: something on the way strips it there"
            ),
            "use another path for this peer, or a tunnel; the stream itself is whole, over one path",
        ),
        ProbeOutcome::FellBack if rose("MPCapableSYNTXDisabled") => fail(
            id,
            format!(
                "was not sent to {target}: the kernel leaves it out for a while (net.mptcp.blackhole_timeout), since SYNs \
                 with it were dropped before"
            ),
            "sysctl -w net.mptcp.blackhole_timeout=0 and try again",
        ),
        ProbeOutcome::FellBack if rose("MPCapableSYNTXDrop") => fail(
            id,
            format!(
                "SYNs with it to {target} had no answer, and one without had: something on the way drops them"
            ),
            DETOUR,
        ),
        ProbeOutcome::FellBack => fail(
            id,
            format!(
                "{target} answered without it. Either it does not speak Multipath TCP, or something on the way strips the \
                 option, from the SYN or from the answer; from one end these look the same"
            ),
            elsewhere,
        ),
        ProbeOutcome::Unknown(error) => {
            fail(id, format!("cannot be told: connected to {target}, and then: {error}"), &install("ss"))
        }
    }
}
