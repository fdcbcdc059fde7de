//! Sentences about a real connection, given the values of the test.

use std::path::Path;

use super::*;
use crate::capture::{Merged, Reader};
use crate::result::{AddressReport, PartReport};
use crate::{Estimate, Inspector};

/// Returns the connection of a download over two paths.
fn report() -> ConnectionReport {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/notebooks/two-paths.pcap");
    let bytes = std::fs::read(path).unwrap();
    let reader = Reader::new("two-paths", Box::new(std::io::Cursor::new(bytes))).unwrap();
    let inspection = Inspector::inspect(&mut Merged::new(vec![reader]), |_| true).unwrap();
    inspection.connections[0].clone()
}

/// Returns the sentences of a connection in which the data of the server waited for `cause` for three of four seconds.
fn of(cause: Cause, change: impl FnOnce(&mut ConnectionReport)) -> Vec<String> {
    let mut report = report();
    assert_eq!(report.main_direction(), 1);
    report.duration_s = 4.0;
    report.captured = Vantage::Server;
    let stream = &mut report.streams[1];
    let part = |cause, seconds| PartReport { cause, seconds, share_pct: 25.0 * seconds };
    stream.parts = vec![part(Cause::Handshake, 1.0), part(cause, 3.0)];
    (stream.time_s, stream.blocked_s, stream.longest_gap_s, stream.longest_gap_at_s) = (4.0, 0.0, 0.0, None);
    change(&mut report);
    sentences(&report)
}

#[test]
fn the_largest_cause_names_the_side_that_has_it() {
    for (cause, why) in [
        (Cause::Handshake, "handshake: the connection was being established."),
        (Cause::Application, "application: the server had sent nothing that was not acknowledged."),
        (Cause::ReceiveWindow, "receive window: the receive window of the client was full."),
        (Cause::Retransmission, "retransmission: a lost segment had not been replaced yet."),
        (
            Cause::HeadOfLine,
            "head-of-line: the receive window of the client was full of bytes after a missing one.",
        ),
    ] {
        let found = of(cause, |report| report.streams[1].parts.swap(0, 1));
        let expected = format!(
            "The largest part of the time of the data from the server, 3.00 s of 4.00 s (75 %), is {why}"
        );
        assert_eq!(found, [expected]);
    }
}

#[test]
fn a_bottleneck_has_the_rates_of_the_paths_with_most_data_first() {
    let found = of(Cause::Serialisation, |report| {
        for (at, (share, mega)) in [(20.0, 6.0), (80.0, 12.0)].into_iter().enumerate() {
            let own = &mut report.subflows[at];
            own.from = format!("path {at}");
            own.directions[1].share_pct = share;
            let path = own.directions[1].path.as_mut().unwrap();
            path.rate_bps = Some(Estimate { value: mega * 1e6, low: 0.0, high: 1e9 });
            path.busy_s = 1.0;
        }
    });
    let rates =
        "packets waited at the bottleneck, which delivers 12.0 Mbit/s over path 1, 6.00 Mbit/s over path 0.";
    assert!(found[0].ends_with(rates), "{found:?}");
    let idle = of(Cause::Serialisation, |report| {
        for own in &mut report.subflows {
            own.directions[1].path = None;
        }
    });
    assert!(idle[0].ends_with("is serialisation: packets waited at a bottleneck."), "{idle:?}");
}

#[test]
fn an_address_that_is_not_used_says_how_far_it_came() {
    let found = of(Cause::Handshake, |report| {
        let address = |echoed, removed, used| AddressReport {
            by: "server",
            id: 2,
            address: "10.0.0.9".to_owned(),
            time_s: 0.1,
            echoed,
            removed,
            used,
        };
        report.addresses = vec![
            address(true, true, false),
            address(true, false, false),
            address(false, false, false),
            address(false, true, false),
            address(true, false, true),
        ];
    });
    let announced = |state: &str| format!("The server announced 10.0.0.9, which {state}.");
    let removed = announced("was removed again");
    let expected = [
        &removed,
        &announced("was echoed, and no subflow uses it"),
        &announced("had no echo, and no subflow uses it"),
        &removed,
    ];
    assert_eq!(found[1..].iter().collect::<Vec<_>>(), expected);
}

#[test]
fn waits_have_a_sentence_if_they_are_a_part_of_the_time() {
    let with = |blocked, gap| {
        let all = of(Cause::Handshake, |report| {
            let stream = &mut report.streams[1];
            (stream.blocked_s, stream.holes, stream.most_waiting_bytes) = (blocked, 3, 1400);
            (stream.longest_gap_s, stream.longest_gap_at_s) = (gap, Some(1.25));
        });
        all[1..].to_vec()
    };
    // A twentieth of the time, and a tenth of it and 200 ms.
    assert_eq!(with(0.2, 0.4), [""; 0]);
    let waited = "Bytes waited for an earlier one in 210 ms of 4.00 s (3 times, up to 1400 bytes at once).";
    assert_eq!(with(0.21, 0.0), [waited]);
    assert_eq!(with(0.0, 0.41), ["Nothing was delivered for 410 ms from 1.250 s on."]);
}

#[test]
fn a_connection_without_a_handshake_says_what_is_not_known() {
    let unknown = |by_continuity| {
        of(Cause::Application, |report| {
            (report.connected_s, report.by_continuity, report.captured) =
                (None, by_continuity, Vantage::Unknown);
        })
    };
    let place = "The place of the capture is not known, since the handshake is missing.";
    let tied =
        "Its handshake is not in the capture; subflows were tied together by their data sequence numbers.";
    assert_eq!(unknown(true)[1..], [tied, place]);
    assert_eq!(
        unknown(false)[1..],
        ["Its handshake is not in the capture, so keys and tokens are not known.", place]
    );
    let fallen = of(Cause::Application, |report| {
        (report.protocol, report.captured) = (ProtocolName::Fallback, Vantage::Unknown);
        report.fallback = Some("the server answered without MPTCP options".to_owned());
    });
    assert_eq!(fallen[1..], ["It is a plain TCP: the server answered without MPTCP options."]);
}

#[test]
fn rates_and_times_have_three_digits() {
    assert_eq!([rate(999.4e6), rate(999.6e6), rate(99.94e6)], ["999 Mbit/s", "1.00 Gbit/s", "99.9 Mbit/s"]);
    assert_eq!([rate(9.99e6), rate(999_600.0), rate(12_345.0)], ["9.99 Mbit/s", "1.00 Mbit/s", "12 kbit/s"]);
    assert_eq!(
        [span(1.0), span(0.9994), span(0.0123), span(0.001_26)],
        ["1.00 s", "999 ms", "12 ms", "1.3 ms"]
    );
}
