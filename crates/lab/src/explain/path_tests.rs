//! The paths that waits concern, and the changes of paths, for classes of traffic in both directions.

use proptest::prelude::*;

use super::Row;
use super::cause::Cause;
use super::tests::{explained, path};

/// Asserts that the parts by path add up to each part that concerns subflows.
fn assert_adds_up(row: &Row) {
    for part in row.parts.iter().filter(|part| part.cause != Cause::Application) {
        let sum: f64 = part.by_path.iter().map(|path| path.mean_s).sum();
        let class = &row.of.traffic;
        assert!((sum - part.mean_s).abs() < 1e-9, "{class:?}, {sum} of {} s: {part:?}", part.mean_s);
    }
}

/// The paths of two classes of opposite directions.
const THERE_AND_BACK: &str = "path = [
        { name = 'p0', rate = { down = '18 Mbit/s', up = '4 Mbit/s' }, rtt = '20 ms', queue = '0.5 BDP' },
        { name = 'p1', rate = '21 Mbit/s', rtt = '146 ms' }]
    traffic = [
        { name = 'a', size = '800 KB', direction = 'upload' },
        { name = 'b', size = '500 KB', direction = 'download' }]
    runs = 2";

#[test]
fn a_class_of_the_opposite_direction_has_its_paths() {
    let explanation =
        explained(&format!("{THERE_AND_BACK}\nschedulers = ['tcp@1', 'tcp@2', 'min_rtt']"), false);
    for row in &explanation.rows {
        assert_adds_up(row);
        let used: Vec<bool> =
            (0..2).map(|path| row.parts.iter().any(|part| part.by_path[path].mean_s > 0.0)).collect();
        let expected = match row.of.scheduler.as_str() {
            "tcp@1" => [true, false],
            "tcp@2" => [false, true],
            _ => [true, true],
        };
        assert_eq!(used, expected, "{:?}: {:?}", row.of, row.parts);
    }
}

/// Doubles the rate at which the class sends, and not the rate of its acknowledgements.
#[test]
fn a_rate_is_doubled_in_the_direction_of_the_class() {
    let traffic = |first: &str, second: &str| {
        explained(
            &format!(
                "path = [{{ rate = {{ down = '20 Mbit/s', up = '2 Mbit/s' }}, rtt = '20 ms' }}]
                 traffic = [{{ name = '{first}', size = '300 KB', direction = '{first}load' }},
                            {{ name = '{second}', size = '300 KB', direction = '{second}load', start = '8 s' }}]
                 schedulers = ['tcp']
                 runs = 2"
            ),
            true,
        )
    };
    for (first, second) in [("up", "down"), ("down", "up")] {
        let explanation = traffic(first, second);
        let row = explanation.rows.iter().find(|row| row.of.traffic.as_deref() == Some("up")).unwrap();
        let twice = row.changes.iter().find(|change| change.what == "twice the rate of path 1").unwrap();
        assert!(twice.effect_pct.unwrap().mean < -30.0, "{first} first: {twice:?}");
    }
}

/// The acknowledgements of the downloads fill the uplink, and the uploads have a fast way back.
#[test]
fn slow_acknowledgements_are_those_of_the_class() {
    let what = "the rate of the data for the acknowledgements on path 1";
    for (first, second) in [("up", "down"), ("down", "up")] {
        let explanation = explained(
            &format!(
                "path = [{{ rate = {{ down = '50 Mbit/s', up = '64 kbit/s' }}, rtt = '40 ms' }}]
                 traffic = [{{ name = '{first}', size = '{}', direction = '{first}load' }},
                            {{ name = '{second}', size = '{}', direction = '{second}load', start = '30 s' }}]
                 schedulers = ['tcp']
                 runs = 2",
                if first == "up" { "10 KB" } else { "1 MB" },
                if second == "up" { "10 KB" } else { "1 MB" },
            ),
            true,
        );
        let of = |class: &str| explanation.rows.iter().find(|row| row.of.traffic.as_deref() == Some(class));
        let change = of("down").unwrap().changes.iter().find(|change| change.what == what);
        assert!(change.unwrap().effect_pct.unwrap().mean < -30.0, "{first} first: {change:?}");
        assert!(of("up").unwrap().changes.iter().all(|change| change.what != what), "{first} first");
    }
}

/// The first link of a packet in one of the directions is the shared one.
#[test]
fn an_outage_next_to_a_shared_link_is_the_outage_of_its_path() {
    for direction in ["upload", "download"] {
        let explanation = explained(
            &format!(
                "path = [
                    {{ name = 'still', rate = '10 Mbit/s', rtt = '40 ms' }},
                    {{ name = 'down', rate = '10 Mbit/s', rtt = '40 ms', when-down = 'keep',
                       change = [{{ at = '1 s', down = true }}, {{ at = '3 s', up = true }}] }}]
                 topology = {{ kind = 'shared', rate = '100 Mbit/s', rtt = '4 ms' }}
                 traffic = {{ size = '4 MB', direction = '{direction}' }}
                 schedulers = ['tcp@2']
                 phases = false
                 runs = 1"
            ),
            false,
        );
        let row = &explanation.rows[0];
        assert_adds_up(row);
        let [outage] = &row.outages[..] else { panic!("{direction}: {:?}", row.outages) };
        assert_eq!((outage.path.as_str(), outage.from_s), ("down", 1.0), "{direction}");
        assert!((1.9..2.1).contains(&outage.mean_s), "{direction}: {outage:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_parts_by_path_add_up(
        paths in prop::collection::vec(path(), 1..4),
        (up, down) in (1_u32..200, 1_u32..200),
        scheduler in prop::sample::select(vec!["tcp", "min_rtt", "linux", "redundant", "round_robin", "anabranch"]),
        shared in prop_oneof![Just(""), Just("topology = { kind = 'shared', rate = '20 Mbit/s', rtt = '4 ms' }")],
    ) {
        let explanation = explained(
            &format!(
                "path = [{}]
                 {shared}
                 traffic = [{{ name = 'up', size = '{up} KB', direction = 'upload' }},
                            {{ name = 'down', size = '{down} KB', direction = 'download' }},
                            {{ name = 'web', kind = 'requests', size = '10 KB', think = '50 ms', requests = 5 }}]
                 schedulers = ['{scheduler}']
                 deadline = '20 s'
                 runs = 1",
                paths.join(", ")
            ),
            false,
        );
        explanation.rows.iter().for_each(assert_adds_up);
    }
}
