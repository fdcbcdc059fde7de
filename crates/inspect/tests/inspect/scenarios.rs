//! Scenarios from captures with known paths.

use anabranch_inspect::RateSource;
use anabranch_inspect::scenario::scenario;

use crate::kit::{inspect, of_tcpdump, two_paths};

#[test]
fn the_paths_of_the_emulator_are_found() {
    let inspection = inspect(&[&two_paths()]).unwrap();
    let connection = &inspection.connections[0];
    for (subflow, rate, rtt) in [(0, 12e6, 0.020), (1, 6e6, 0.050)] {
        let path = connection.subflows[subflow].directions[1].path.as_ref().unwrap();
        assert_eq!(path.rate_source, RateSource::BusyPeriods);
        let found = path.rate_bps.unwrap().value;
        assert!((found / rate - 1.0).abs() < 0.005, "{found}");
        let found = path.rtt_s.unwrap().value;
        assert!((found / rtt - 1.0).abs() < 0.02, "{found}");
    }
    let path = connection.subflows[1].directions[1].path.as_ref().unwrap();
    assert_eq!((path.queue_losses, path.random_losses, path.random_drops.len()), (0, 4, 4));
    assert!((path.random_loss.low..path.random_loss.high).contains(&0.02));
    let draft = scenario(connection, "two-paths.pcap", "linux", "cubic_linux").unwrap();
    for line in
        ["direction = \"download\"", "size = \"1000000 B\"", "name = \"path2\"", "initial = \"path1\""]
    {
        assert!(draft.toml.contains(line), "{line} is not in {}", draft.toml);
    }
    assert!(draft.replay.contains("drop = [") && !draft.toml.contains("drop = ["));
    assert_eq!((draft.paths, draft.direction, draft.bytes), (vec![0, 1], 1, 1_000_000));
}

#[test]
fn too_little_data_is_no_scenario() {
    let inspection = inspect(&[&of_tcpdump("aa-v1")]).unwrap();
    let error = scenario(&inspection.connections[0], "x", "linux", "cubic_linux").unwrap_err().to_string();
    assert!(error.contains("too few to know its paths"), "{error}");
}
