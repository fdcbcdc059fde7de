//! Script tests: segments written by hand from the RFCs against one endpoint, one test per rule, so
//! that two ends cannot share a mistake. Row IDs (I12, W3, ...) are those of `docs/rfc8684.md`.

mod kit;

mod acceptable;
mod address;
mod alive;
mod checksum;
mod close;
mod cookie;
mod dss;
mod ecn;
mod fallback;
mod half_close;
mod handshake;
mod hold;
mod join;
mod nagle;
mod pacing;
mod path_mtu;
mod placed;
mod plain;
mod recovery;
mod reinject;
mod scatter;
mod simultaneous_open;
mod tcp;
mod timestamps;
mod told;
mod turns;
mod unheld;
mod unheld_second;
mod window;

/// The table of rules names tests; none of them may be missing.
#[test]
fn the_tests_that_the_table_of_rules_names_exist() {
    let table = include_str!("../../../../docs/rfc8684.md");
    let sources = [
        ("acceptable", include_str!("acceptable.rs")),
        ("address", include_str!("address.rs")),
        ("alive", include_str!("alive.rs")),
        ("checksum", include_str!("checksum.rs")),
        ("close", include_str!("close.rs")),
        ("cookie", include_str!("cookie.rs")),
        ("dss", include_str!("dss.rs")),
        ("fallback", include_str!("fallback.rs")),
        ("half_close", include_str!("half_close.rs")),
        ("hold", include_str!("hold.rs")),
        ("handshake", include_str!("handshake.rs")),
        ("join", include_str!("join.rs")),
        ("placed", include_str!("placed.rs")),
        ("plain", include_str!("plain.rs")),
        ("recovery", include_str!("recovery.rs")),
        ("path_mtu", include_str!("path_mtu.rs")),
        ("reinject", include_str!("reinject.rs")),
        ("simultaneous_open", include_str!("simultaneous_open.rs")),
        ("tcp", include_str!("tcp.rs")),
        ("told", include_str!("told.rs")),
        ("window", include_str!("window.rs")),
    ];
    let mut found = 0;
    for name in table.split('`').filter(|part| part.contains("::")) {
        let (topic, test) = name.split_once("::").unwrap();
        let Some((_, source)) = sources.iter().find(|(known, _)| *known == topic) else { continue };
        assert!(source.contains(&format!("fn {test}()")), "{name} is not there");
        found += 1;
    }
    assert!(found > 200, "{found}");
}
