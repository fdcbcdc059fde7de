//! Quirks of the papers' tools, which are settings of the simulator.

use core::sync::atomic::AtomicBool;

use anabranch_lab::run::{Prepared, RunResult};
use anabranch_lab::scenario::Document;

/// Simulates 100 KB over two paths, of which the first loses its fourth segment.
fn one_loss(withhold: bool) -> RunResult {
    let text = format!(
        "profile = 'ns3'
        schedulers = ['min_rtt']
        phases = false
        path = [
            {{ rate = '100 Mbit/s', rtt = '20 ms', drop = [4] }},
            {{ rate = '100 Mbit/s', rtt = '40 ms' }},
        ]
        traffic = {{ size = '100 KB', direction = 'upload' }}
        connection = {{ withhold-acks = {withhold}, reinjection = 'on-death', rto.max = '200 ms' }}"
    );
    let scenario = Document::parse("quirks.toml", text, ".").unwrap().scenario().unwrap();
    Prepared::new(&scenario, 0).unwrap().run(0, 0, &AtomicBool::new(false)).unwrap()
}

/// The receiver of the published ns-3 code: a loss on one path silences the other, whose segments time out
/// although they have arrived.
#[test]
fn withheld_acknowledgements_make_the_other_path_time_out() {
    let (honest, silent) = (one_loss(false), one_loss(true));
    let timeouts = |result: &RunResult, path: usize| {
        let subflows = &result.flows[0].report.sender.subflows;
        subflows
            .iter()
            .filter(|one| usize::from(one.path.0) == path)
            .map(|one| one.counters.timeouts)
            .sum::<u64>()
    };
    assert_eq!(timeouts(&honest, 1), 0);
    assert!(timeouts(&silent, 1) >= 1);
    // All of it arrives, once the hole is closed.
    for result in [&honest, &silent] {
        assert_eq!(result.flows[0].report.delivered, 100_000);
        assert!(result.flows[0].report.acked.is_some());
    }
    assert!(silent.flows[0].report.acked > honest.flows[0].report.acked);
}
