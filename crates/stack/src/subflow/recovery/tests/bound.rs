//! Compares the lower bound of the timer and its fast path with a search of all records.

use super::*;
use proptest::prelude::*;

#[derive(Clone, Copy, Debug)]
enum Step {
    Send,
    /// Acknowledges this number of the outstanding segments, and reports these above them.
    Ack(u64, [u64; 2]),
    Duplicate,
    Resend,
    Timeout,
    ReorderingTimer,
    Probe,
    Measure(u64),
    Wait(u64),
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => Just(Step::Send),
        4 => (0..4_u64, [0..8_u64, 0..8_u64]).prop_map(|(acked, above)| Step::Ack(acked, above)),
        1 => Just(Step::Duplicate),
        3 => Just(Step::Resend),
        1 => Just(Step::Timeout),
        1 => Just(Step::ReorderingTimer),
        1 => Just(Step::Probe),
        2 => (1..400_u64).prop_map(Step::Measure),
        4 => (1..300_u64).prop_map(Step::Wait),
    ]
}

fn any_config() -> impl Strategy<Value = ConnectionConfig> {
    (any::<bool>(), any::<bool>(), prop_oneof![Just(20), Just(200), Just(3000)]).prop_map(
        |(ns3, sack, min)| {
            let mut config = if ns3 { ConnectionConfig::ns3() } else { ConnectionConfig::linux() };
            config.sack = sack;
            config.rto.min = Duration::from_millis(min);
            config
        },
    )
}

/// Executes a step at `now`, in milliseconds.
fn apply(bench: &mut Bench, now: u64, step: Step) {
    let sent = bench.board.nxt() / MSS;
    let una = bench.board.una() / MSS;
    match step {
        Step::Send => bench.send(now),
        Step::Ack(acked, above) => {
            let una = (una + acked).min(sent);
            let above: Vec<u64> = above.iter().map(|at| una + 1 + at).filter(|at| *at < sent).collect();
            let above = if bench.recovery.detection == LossDetection::RackTlp { above } else { Vec::new() };
            bench.ack(now, una, &above);
        }
        Step::Duplicate => {
            bench.duplicate(now);
        }
        Step::Resend => {
            if let Some(index) = bench.board.next_lost() {
                let segment = bench.board.records()[index].seq / MSS;
                bench.resend(segment, now);
            }
        }
        Step::Timeout if sent > una => {
            bench.timeout();
        }
        Step::ReorderingTimer => {
            bench.reordering_timer(now);
        }
        Step::Probe if sent > una => bench.recovery.on_probe(bench.board.nxt(), false),
        Step::Measure(rtt) => bench.measure(rtt),
        Step::Timeout | Step::Probe | Step::Wait(_) => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_timer_never_runs_out_before_its_bound(
        config in any_config(),
        steps in prop::collection::vec(any_step(), 1..60),
        backoff: bool,
        since in 0..200_u64,
    ) {
        let mut bench = Bench::new(&config);
        let mut now = 10;
        for step in steps {
            if let Step::Wait(time) = step {
                now += time;
            }
            apply(&mut bench, now, step);
            let Bench { recovery, board, rtt, .. } = &bench;
            let base = ms(now.saturating_sub(since));
            let (due, _) = recovery.timer(base, ms(now), board, rtt, backoff, bench.slack);
            let bound = recovery.timer_not_before(base, board, rtt);
            prop_assert!(bound <= due, "{:?} and {:?} after {:?}", bound, due, step);
            // RFC 8985 section 6.2: segments sent before the newest delivered one and in flight.
            let newest = (recovery.rack.sent, recovery.rack.end);
            let overtaken = |record: &&Sent| record.is_in_flight() && (record.sent, record.end()) < newest;
            if recovery.none_overtaken(board) {
                prop_assert!(!board.records().iter().any(|record| overtaken(&record)), "after {:?}", step);
            }
        }
    }
}
