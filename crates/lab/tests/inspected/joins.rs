//! Joins that began late, in the scenario of a capture.

use anabranch_inspect::scenario::scenario as draft;
use anabranch_lab::compare::compare;
use anabranch_lab::options::Options;
use anabranch_lab::scenario::Document;
use std::sync::atomic::AtomicBool;

use super::{ENDS, connection};

#[test]
fn a_late_join_is_as_late_in_the_scenario_and_another_one_is_not() {
    for (change, is_late) in [
        (
            "change = [{ at = '10 ms', down = true, notify-after = '0 s' }, { at = '2 s', up = true, notify-after = '0 s' }]",
            true,
        ),
        ("backup = false", false),
    ] {
        let text = format!(
            "schedulers = ['linux']\npath = [{{ rate = '10 Mbit/s', rtt = '20 ms' }}, {{ rate = '8 Mbit/s', rtt = '40 ms', {change} }}]
             initial = 1\ntraffic = {{ size = '6 MB' }}"
        );
        for end in ENDS {
            let connection = connection(&text, end);
            let draft = draft(&connection, "x", "linux", "cubic_linux").unwrap();
            assert_eq!(
                draft.toml.matches("up = true\nnotify-after").count(),
                usize::from(is_late),
                "{}",
                draft.toml
            );
            let scenario = Document::built_in("it", draft.replay).unwrap().scenario().unwrap();
            let cancelled = AtomicBool::new(false);
            let again = compare(&scenario, &Options::new(1, &cancelled, &|_, _| {})).unwrap();
            let (found, simulated) = (connection.streams[1].fct_s.unwrap(), again.rows[0].fct_s.p50.unwrap());
            assert!(
                (simulated / found - 1.0).abs() < 0.06,
                "{end:?} {is_late}: captured {found}, simulated {simulated}"
            );
        }
    }
}
