//! The plain TCP flows beside a contender's, as a table shows them.

use std::sync::atomic::AtomicBool;

use anabranch_lab::compare::{Options, compare};
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
        let options = Options {
            jobs: 1,
            cancelled: &cancelled,
            progress: &|_, _| {},
            captures: None,
            every_path: false,
        };
        let rows = compare(&scenario, &options).unwrap().rows;
        let shows: Vec<_> = rows.iter().map(|row| (&*row.scheduler, &*row.congestion)).collect();
        assert_eq!(shows, [("min_rtt", "lia"), ("tcp beside min_rtt", shown)]);
    }
}
