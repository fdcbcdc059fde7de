//! Captures of tcpdump's tests. tshark 4.0 has the same counts (`mptcp.stream`, `tcp.stream`,
//! `tcp.options.mptcp.subtype == 2`).

use anabranch_inspect::{Inspection, ProtocolName, Vantage};

use crate::kit::{inspect, of_tcpdump};

fn read(name: &str) -> Inspection {
    inspect(&[&of_tcpdump(name)]).unwrap()
}

#[test]
fn connections_subflows_and_signals_are_as_tshark_counts_them() {
    // tshark counts the signal of `dss-oobr` too, which is on a SYN and has no meaning there.
    for (name, connections, subflows, signals) in [
        ("aa-echo", 2, 2, 2),
        ("aa-v1", 1, 1, 18),
        ("dss-oobr", 0, 1, 0),
        ("fclose", 1, 1, 5),
        ("tcprst", 1, 1, 0),
        ("v0", 1, 2, 258),
        ("v1", 1, 1, 16),
    ] {
        let inspection = read(name);
        let multipath = inspection.connections.iter().filter(|one| one.protocol == ProtocolName::Mptcp);
        assert_eq!(multipath.count(), connections, "{name}");
        let all = inspection.connections.iter().flat_map(|one| &one.subflows);
        assert_eq!(all.clone().count(), subflows, "{name}");
        let found: u64 = all.flat_map(|one| &one.directions).map(|one| one.dss_packets).sum();
        assert_eq!(found, signals, "{name}");
    }
}

#[test]
fn the_first_version_is_tied_by_its_sha1_token() {
    let inspection = read("v0");
    let connection = &inspection.connections[0];
    assert_eq!(connection.standard, Some("RFC 6824"));
    assert_eq!(connection.tokens[0].as_deref(), Some("af9706eb"));
    assert_eq!(connection.tokens[1].as_deref(), Some("e47f0142"));
    assert_eq!(connection.streams[0].delivered_bytes, 5121);
    assert_eq!(connection.streams[1].delivered_bytes, 8561);
    assert!(!connection.by_continuity && connection.faults.is_empty());
}

#[test]
fn an_abort_a_reset_and_an_announcement_are_named() {
    let inspection = read("fclose");
    let outcome = &inspection.connections[0].outcome;
    assert_eq!(outcome, "aborted by the client with MP_FASTCLOSE at 5.012 s");
    let inspection = read("tcprst");
    let ended = inspection.connections[0].subflows[0].ended.as_deref();
    assert_eq!(ended, Some("reset by the client at 0.000 s (MP_TCPRST: unspecified)"));
    let inspection = read("aa-v1");
    let connection = &inspection.connections[0];
    let address = &connection.addresses[0];
    assert_eq!((address.address.as_str(), address.used, address.by), ("192.168.136.225", false, "server"));
    // Its code has the leftmost bits of the HMAC; RFC 8684 section 3.4.1 asks for the rightmost.
    assert_eq!(connection.faults[0].rule, "RFC 8684 3.4.1");
    // Each part of the answer was sent twice, under new numbers of the subflow.
    assert_eq!(connection.streams[1].reinjected_bytes, 32);
}

#[test]
fn a_transfer_is_followed_at_both_levels() {
    let inspection = inspect(&[&crate::kit::two_paths()]).unwrap();
    let connection = &inspection.connections[0];
    assert_eq!((connection.captured, connection.main_direction()), (Vantage::Server, 1));
    assert_eq!(connection.streams.each_ref().map(|stream| stream.delivered_bytes), [3, 1_000_000]);
    let retransmitted: u64 =
        connection.subflows.iter().map(|subflow| subflow.directions[1].retransmitted_segments).sum();
    assert_eq!(retransmitted, 4, "as tshark counts");
    assert_eq!(connection.subflows[1].hmac, Some(true));
    assert_eq!(connection.streams[1].duplicate_bytes, connection.streams[1].reinjected_bytes);
    let shares: f64 = connection.subflows.iter().map(|subflow| subflow.directions[1].share_pct).sum();
    assert!((shares - 100.0).abs() < 1e-9);
    assert!(connection.sentences[0].contains("serialisation"), "{:?}", connection.sentences);
}
