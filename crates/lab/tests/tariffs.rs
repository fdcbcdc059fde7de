//! Prices and quotas of paths.

use std::sync::atomic::AtomicBool;

use anabranch_lab::compare::compare;
use anabranch_lab::options::Options;
use anabranch_lab::run::Prepared;
use anabranch_lab::scenario::{Document, Scenario};
use anabranch_lab::usage::PathUsage;

fn scenario(first: &str, second: &str, direction: &str) -> Scenario {
    let text = format!(
        "schedulers = ['min_rtt', 'tcp@1']\nruns = 2
         path = [{{ rate = '10 Mbit/s', rtt = '20 ms'{first} }}, {{ rate = '10 Mbit/s', rtt = '20 ms'{second} }}]
         traffic = {{ size = '2 MB', direction = '{direction}' }}"
    );
    Document::built_in("test", text.clone())
        .unwrap()
        .scenario()
        .unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn usage(scenario: &Scenario) -> Vec<PathUsage> {
    let cancelled = AtomicBool::new(false);
    compare(scenario, &Options::new(1, &cancelled, &|_, _| {})).unwrap().usage
}

#[test]
fn a_path_costs_what_it_carries_in_each_direction() {
    for direction in ["upload", "download"] {
        let rows = usage(&scenario(", price = { up = 1, down = 10 }", "", direction));
        let names: Vec<_> = rows.iter().map(|row| (row.scheduler.as_str(), row.path.as_str())).collect();
        assert_eq!(names, [("min_rtt", "1"), ("min_rtt", "2"), ("tcp@1", "1"), ("tcp@1", "2")]);
        for row in &rows {
            let priced = if row.path == "1" { row.up_bytes + 10.0 * row.down_bytes } else { 0.0 };
            assert!((row.cost - priced / 1e9).abs() < 1e-12, "{row:?}");
            assert_eq!((row.over_quota, row.runs), (None, 2));
        }
        // Two megabytes with their headers one way, and acknowledgements the other way.
        let tcp = &rows[2];
        let (data, acks) = match direction {
            "upload" => (tcp.up_bytes, tcp.down_bytes),
            _ => (tcp.down_bytes, tcp.up_bytes),
        };
        assert!((2.05e6..2.2e6).contains(&data) && acks > 1000.0 && acks < 1e5, "{tcp:?}");
        assert_eq!((rows[3].up_bytes, rows[3].down_bytes), (0.0, 0.0));
    }
}

#[test]
fn a_quota_is_of_both_directions_or_of_each() {
    let over = |first: &str| {
        let rows = usage(&scenario(first, ", quota = '1 B'", "download"));
        (rows[2].over_quota, rows[3].over_quota)
    };
    assert_eq!(over(", quota = '2 MB'"), (Some(2), Some(0)), "the other path carries nothing");
    assert_eq!(over(", quota = '3 MB'"), (Some(0), Some(0)));
    assert_eq!(over(", quota = { up = '2 MB' }"), (Some(0), Some(0)));
    assert_eq!(over(", quota = { up = '2 KB', down = '3 MB' }"), (Some(2), Some(0)));
    assert_eq!(over(""), (None, Some(0)));
}

#[test]
fn nothing_is_counted_without_a_tariff_and_a_tariff_changes_nothing() {
    let (plain, priced) =
        (scenario("", "", "download"), scenario(", price = 3, quota = '1 KB'", "", "download"));
    assert!(usage(&plain).is_empty());
    let flow = |scenario: &Scenario| {
        let run = Prepared::new(scenario, 0).unwrap().run(0, 0, &AtomicBool::new(false)).unwrap();
        run.flows[0].report.fct
    };
    assert_eq!(flow(&plain), flow(&priced));
    assert_ne!(plain.hash(), priced.hash());
}

#[test]
fn a_wrong_tariff_is_an_error() {
    let error = |keys: &str| {
        let text = format!("path = [{{ preset = 'dsl', {keys} }}]");
        Document::built_in("x", text).unwrap().scenario().unwrap_err().to_string()
    };
    assert!(error("price = -1").contains("below 0"));
    assert!(error("price = '5 EUR'").contains("the price of a GB"));
    assert!(error("price = 1, budget = 0").contains("a budget of 0 is out of range"));
    assert!(error("budget = 5").contains("the path has no price"));
    assert!(error("price = { up = 1, down = 1e-7 }, budget = 5").contains("too low for a budget"));
    assert!(error("quota = '0 B'").contains("permits no connection"));
    assert!(error("quota = '10'").contains("unit"), "{}", error("quota = '10'"));
}

/// A path beyond its quota carries what was on its way, acknowledgements, and nothing else.
#[test]
fn a_path_beyond_its_quota_becomes_a_backup() {
    for direction in ["upload", "download"] {
        let side = if direction == "upload" { "up" } else { "down" };
        let used = |settings: &str| {
            let rows = usage(&scenario("", settings, direction));
            let row = &rows[1];
            assert_eq!((row.scheduler.as_str(), row.path.as_str()), ("min_rtt", "2"));
            if direction == "upload" { row.up_bytes } else { row.down_bytes }
        };
        let free = used(", quota = '300 KB'");
        let limited = used(", quota = '300 KB', over-quota = 'backup'");
        let by_side = used(&format!(", quota = {{ {side} = '300 KB' }}, over-quota = 'backup'"));
        // A round trip of 20 ms and a queue at 10 Mbit/s are on their way, up to 25 KB each.
        for limited in [limited, by_side] {
            assert!(free > 900e3 && (280e3..370e3).contains(&limited), "{direction}: {free} {limited}");
        }
        // At a price of 1 for a GB in the direction of the data, 300 KB cost 0.0003.
        let price = if direction == "upload" { "{ up = 1 }" } else { "{ down = 1 }" };
        let by_cost = used(&format!(", price = {price}, budget = 0.0003, over-quota = 'backup'"));
        assert_eq!(by_cost, by_side, "{direction}");
        // The other direction has acknowledgements only.
        let other = if direction == "upload" { "down" } else { "up" };
        let other = used(&format!(", quota = {{ {other} = '300 KB' }}, over-quota = 'backup'"));
        assert!((other / free - 1.0).abs() < 0.01, "{other} {free}");
    }
}

#[test]
fn a_rule_without_a_quota_is_refused_and_so_is_its_emulation() {
    let text = "schedulers = ['tcp@1']\npath = [{ rate = '10 Mbit/s', rtt = '20 ms', over-quota = 'backup' }]
         traffic = { size = '2 MB' }";
    let error = Document::built_in("test", text.to_owned()).unwrap().scenario().unwrap_err().to_string();
    assert!(error.contains("the path has no quota"), "{error}");
    let scenario = scenario(", quota = '1 MB', over-quota = 'backup'", "", "download");
    let error = scenario.conditions[0].experiment.has_fixed_paths().unwrap_err();
    assert!(error.contains("becomes a backup beyond its quota"), "{error}");
}
