//! The plain TCP flows that compete with a contender's, as a table shows them.

use std::sync::atomic::AtomicBool;

use anabranch_lab::compare::compare;
use anabranch_lab::options::Options;
use anabranch_lab::scenario::Document;

#[test]
fn a_row_of_tcp_beside_names_its_own_congestion_control() {
    for (option, shown) in [("", "newreno"), (", congestion = 'cubic'", "cubic")] {
        let text = format!(
            "schedulers = ['min_rtt']\ncongestion = 'lia'\npath = [{{ rate = '10 Mbit/s', rtt = '10 ms' }}]\n
             traffic = {{ size = '10 KB', flows = 1, beside = {{ flows = 1{option} }} }}"
        );
        let scenario = Document::parse("test", &text, ".").unwrap().scenario().unwrap();
        let cancelled = AtomicBool::new(false);
        let options = Options::new(1, &cancelled, &|_, _| {});
        let rows = compare(&scenario, &options).unwrap().rows;
        let shows: Vec<_> = rows.iter().map(|row| (&*row.scheduler, &*row.congestion)).collect();
        assert_eq!(shows, [("min_rtt", "lia"), ("tcp beside min_rtt", shown)]);
    }
}

/// Returns the row of the TCPs that compete with `min_rtt`, with these lines in the scenario.
fn beside(lines: &str) -> anabranch_lab::report::Record {
    let text = format!(
        "schedulers = ['min_rtt']\nruns = 2
         path = [{{ rate = '100 Mbit/s', rtt = '40 ms', loss = '2%' }}, {{ rate = '20 Mbit/s', rtt = '20 ms' }}]
         [traffic]\nsize = 'bulk'\nduration = '3 s'\n{lines}"
    );
    let scenario = Document::parse("test", &text, ".").unwrap().scenario().unwrap();
    let cancelled = AtomicBool::new(false);
    let options = Options::new(1, &cancelled, &|_, _| {});
    compare(&scenario, &options).unwrap().rows[1].clone()
}

/// By its lower bound the lossy path is better, and by measurement far worse.
#[test]
fn tcps_beside_take_the_best_path_as_measured() {
    let row = beside("beside = { flows = 1 }");
    assert_eq!((row.scheduler.as_str(), row.path.as_deref()), ("tcp beside min_rtt", Some("2")));
    assert_eq!(row.bytes_by_path[0], 0);
    let row = beside("beside = { flows = 1, path = 1 }");
    assert_eq!((row.path.as_deref(), row.bytes_by_path[1]), (Some("1"), 0));
    // Background flows count: 40 TCPs leave little of the second path.
    let row = beside("beside = { flows = 1 }\nbackground = { path = 2, flows = 40 }");
    assert_eq!(row.path.as_deref(), Some("1"));
}

#[test]
fn several_kinds_of_tcps_beside_have_their_own_rows() {
    let compared = |beside: &str| {
        let text = format!(
            "schedulers = ['min_rtt']\nruns = 2
             path = [{{ rate = '20 Mbit/s', rtt = '40 ms' }}, {{ rate = '20 Mbit/s', rtt = '20 ms' }}]
             traffic = {{ size = 'bulk', duration = '2 s', beside = {beside} }}"
        );
        let scenario = Document::parse("test", &text, ".").unwrap().scenario();
        let scenario = scenario.map_err(|error| error.to_string())?;
        let cancelled = AtomicBool::new(false);
        Ok::<_, String>(compare(&scenario, &Options::new(1, &cancelled, &|_, _| {})).unwrap())
    };
    let both = "[{ name = 'reno', flows = 2, path = 1, congestion = 'newreno' }, { name = 'bbr', flows = 1, path = 2, \
                congestion = 'bbr' }]";
    let comparison = compared(both).unwrap();
    let shown: Vec<_> = comparison
        .rows
        .iter()
        .map(|row| (row.scheduler.as_str(), row.congestion.as_str(), row.path.as_deref(), row.n))
        .collect();
    let expected = [
        ("min_rtt", "cubic_linux", None, 2),
        ("reno beside min_rtt", "newreno", Some("1"), 4),
        ("bbr beside min_rtt", "bbr", Some("2"), 2),
    ];
    assert_eq!(shown, expected);
    let parties: Vec<_> =
        comparison.fairness[0].parties.iter().map(|party| party.scheduler.as_str()).collect();
    assert_eq!(parties, ["min_rtt", "reno beside min_rtt", "bbr beside min_rtt"]);
    let verdict = comparison.fairness_verdict.unwrap();
    assert!(verdict.contains("min_rtt") && verdict.contains(" beside reno and bbr"), "{verdict}");
    // A list of one is the same as a table, and the path of those without one is measured.
    let alone = |text: &str| compared(text).unwrap().rows[1].clone();
    assert_eq!(alone("[{ flows = 1 }]"), alone("{ flows = 1 }"));
    let open = "[{ name = 'a', flows = 1 }, { name = 'b', flows = 1, path = 2 }]";
    assert!(compared(open).unwrap().rows[1].path.is_some());
    for (wrong, fault) in [
        ("[]", "is empty"),
        ("[{ flows = 1 }, { flows = 1 }]", "has no `name`"),
        ("[{ flows = 1, name = 'a' }, { flows = 2, name = 'a' }]", "are called `a`"),
        ("[{ flows = 60000, name = 'a' }, { flows = 60000, name = 'b' }]", "120000 competing flows"),
    ] {
        let error = compared(wrong).unwrap_err();
        assert!(error.contains(fault), "{error}");
    }
}
