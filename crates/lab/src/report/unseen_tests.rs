//! Tests the bound for events that no run has shown.

use super::*;
use crate::job::{Job, Purpose};
use crate::scenario::{Document, Scenario};

fn scenario(paths: &[&str], schedulers: &[&str], more: &[&str]) -> Scenario {
    let mut document = Document::bare();
    document.set_paths(&paths.iter().map(|path| (*path).to_owned()).collect::<Vec<_>>()).unwrap();
    document.set_schedulers("--schedulers", &schedulers.iter().map(|s| (*s).to_owned()).collect::<Vec<_>>());
    more.iter().for_each(|assignment| document.set(assignment).unwrap());
    document.scenario().unwrap()
}

/// Returns runs of one flow each, in seconds.
fn runs(times: &[f64]) -> Vec<Vec<Measured>> {
    let value = |time: &f64| vec![Measured { value: Some(*time), complete: true, parts: 1, failed: None }];
    times.iter().map(value).collect()
}

fn found(scenario: &Scenario, values: &[Vec<Vec<Measured>>], measure: Measure) -> Vec<Unseen> {
    let entrant = |contender: usize| {
        Entrant::of(scenario, &Job { contender, path: Some(0), purpose: Purpose::Compare, ..Job::default() })
    };
    let entrants: Vec<Entrant<'_>> = (0..values.len()).map(entrant).collect();
    Bounds::new(&scenario.conditions[0], &entrants.iter().collect::<Vec<_>>(), values, measure).of_means()
}

fn close(value: f64, expected: f64) {
    assert!((value - expected).abs() < 1e-9 * expected.abs().max(1.0), "{value} is not {expected}");
}

#[test]
fn a_lost_handshake_is_bounded_by_the_rule_of_three_or_by_its_probability() {
    // 60 % of the handshakes lose a packet, up or down: 3/30 is less. A second loss in a row costs 3 s, a third 7 s and
    // a fourth 15 s, each with more than 3/30; so does the loss of the tail, with 220 ms, and of one of ten segments.
    let ten = &["traffic.size=14480B"];
    let lossy = scenario(&["10Mbit/s,20ms,loss=50%,loss-up=20%"], &["min_rtt"], ten);
    let all = 0.1 * 15.0 + 0.1 * 0.22 * 15.0 + 0.1 * 0.02;
    close(found(&lossy, &[runs(&[0.1; 30])], Measure::MeanTime)[0].more, all / 0.1);
    // 0.1 % is less than 3/30, the tail is lost with 0.3 % and one of ten segments with 1 %.
    let rare = scenario(&["10Mbit/s,20ms,loss=0.1%"], &["min_rtt"], ten);
    let all = 0.001 * 1.0 + 0.003 * 0.22 + 0.01 * 0.02;
    close(found(&rare, &[runs(&[0.1; 30])], Measure::MeanTime)[0].more, all / 0.1);
    // With 30 flows in each run 3/900 is more than 0.1 %, and with 30,000 flows it is less.
    let flows = |n: usize| vec![(0..30).flat_map(|_| runs(&vec![0.1; n])).collect::<Vec<_>>()];
    close(found(&rare, &flows(1000), Measure::MeanTime)[0].more, 3.0 / 30_000.0 * (1.0 + 0.22 + 0.02) / 0.1);
}

/// 145 segments, of which the first window has 10: what is left after a loss is sent from a window of 7, 14, 28 or 56 segments.
#[test]
fn a_loss_in_slow_start_costs_the_rounds_that_a_reduced_window_needs_more() {
    let path = SlowStart { rtt_s: 0.1, segment_s: 1e-6, first_window: 10.0, reduction: 0.7 };
    let found: Vec<Event> = path.losses(145.0, 0.001).collect();
    let probabilities = [0.01, 0.02, 0.04, 0.075];
    assert_eq!(found.len(), 4);
    for (event, probability) in found.iter().zip(probabilities) {
        close(event.probability, probability);
    }
    // 135 segments are windows of 7 to 18 and some more, and without a loss of 20, 40 and 75 of 80.
    let rounds = (49.0 + 270.0_f64).sqrt() - 7.0;
    close(found[0].cost_s, 0.1 * (1.0 + rounds - libm::log2(1.0 + 135.0 / 20.0)));
    assert!((10.0..11.0).contains(&rounds) && found[1].cost_s < found[0].cost_s);
    // Nothing is left after the last window.
    close(found[3].cost_s, 0.1);
    // A path that carries 10 segments in a round trip is full either way.
    let slow = SlowStart { segment_s: 0.01, ..path };
    close(slow.losses(145.0, 0.001).next().unwrap().cost_s, 0.1);
    // BBR does not react to a loss.
    let steady = SlowStart { rtt_s: 0.1, segment_s: 1e-6, first_window: 10.0, reduction: 1.0 };
    assert!(steady.losses(145.0, 0.001).all(|event| event.cost_s == 0.1));
}

#[test]
fn an_event_that_a_contender_has_shown_needs_no_bound() {
    let rare = scenario(&["10Mbit/s,20ms,loss=0.1%"], &["min_rtt"], &[]);
    let mut times = vec![0.1; 30];
    times[7] = 1.1;
    // Two handshakes in a row are lost with 0.0001 %, for 2 s more, and three transmissions of the tail.
    let mean = (29.0 * 0.1 + 1.1) / 30.0;
    let more = found(&rare, &[runs(&times)], Measure::MeanTime)[0].more;
    close(more * 1e6, (2.0 + 3e-3 * (0.22 * 7.0 - 1.0)) / mean);
}

#[test]
fn without_anything_random_nothing_is_unseen() {
    let still = scenario(&["10Mbit/s,20ms"], &["min_rtt", "linux"], &[]);
    let values = [runs(&[0.1, 0.102, 0.101]), runs(&[0.2, 0.202, 0.201])];
    let found = found(&still, &values, Measure::MeanTime);
    // Only the spread that the other one showed.
    assert!(found.iter().all(|bound| bound.more < 0.02 && bound.less == 0.0), "{found:?}");
}

/// Four flows with different times, the same in every run.
#[test]
fn runs_that_are_all_the_same_have_shown_everything() {
    let still = scenario(&["10Mbit/s,20ms"], &["min_rtt", "linux"], &[]);
    let same = |times: &[f64]| vec![runs(times).concat(); 10];
    let values = [same(&[0.1, 0.2, 0.3, 0.4]), same(&[0.1, 0.1, 0.1, 0.9])];
    let found = found(&still, &values, Measure::MeanTime);
    assert!(found.iter().all(|bound| bound.more < 1e-12), "{found:?}");
}

#[test]
fn an_event_of_another_multipath_contender_is_not_excluded() {
    let still = scenario(&["10Mbit/s,20ms"], &["min_rtt", "linux", "tcp"], &[]);
    let mut late = vec![0.1; 30];
    late[3] = 0.5;
    let values = [runs(&late), runs(&[0.1; 30]), runs(&[0.1; 30])];
    let found = found(&still, &values, Measure::MeanTime);
    close(found[0].more, 0.0);
    close(found[1].more, 3.0 / 30.0 * 0.4 / 0.1);
    // A plain TCP does not use what a scheduler does.
    close(found[2].more, 0.0);
    // What a run of two flows has shown is an event of a run, and there are 30 of them.
    let twice = |times: &[f64]| times.iter().map(|time| runs(&[*time; 2]).concat()).collect::<Vec<_>>();
    let pairs = [twice(&late), twice(&[0.1; 30]), twice(&[0.1; 30])];
    close(self::found(&still, &pairs, Measure::MeanTime)[1].more, 3.0 / 30.0 * 0.4 / 0.1);
    // A delay has a bound of the same kind, but no timeouts.
    let lossy = scenario(&["10Mbit/s,20ms,loss=5%"], &["min_rtt"], &[]);
    close(self::found(&lossy, &[runs(&[0.1; 30])], Measure::Delay)[0].more, 0.0);
}

#[test]
fn goodput_may_be_less_and_never_by_more_than_all() {
    let lossy =
        scenario(&["10Mbit/s,20ms,loss=50%"], &["min_rtt"], &["traffic.size=bulk", "traffic.duration=2s"]);
    let found = found(&lossy, &[runs(&[1e6; 10])], Measure::Goodput);
    // Two handshakes of 25 %, which leave nothing, and three transmissions of the tail in 3/10 of all runs.
    close(found[0].less, 0.25 + 0.3 * 0.22 * 7.0 / 2.0);
    close(found[0].more, 0.0);
}

#[test]
fn the_worst_start_of_a_trace_is_the_longest_silence_or_the_slowest_flow() {
    // A delivery each 10 ms for 1 s, and then nothing for 1 s.
    let mut at: Vec<u32> = (0..=100).map(|n| n * 10).collect();
    at.push(2000);
    let trace = Trace::from_millis(at).unwrap();
    close(worst_start(&trace, 0.0), 1.0);
    // Ten packets take 100 ms at the median, and 1.09 s at the end of a burst.
    let slow = worst_start(&trace, 15_000.0);
    assert!((0.95..1.0).contains(&slow), "{slow}");
}

#[test]
fn a_bound_joins_the_side_of_the_interval_on_which_the_event_would_move_it() {
    use super::super::difference::Difference;
    use crate::stats::Interval;
    let difference = Difference { mean: 10.0, ci95: Some(Interval(5.0, 15.0)) };
    let (none, late) = (Unseen::default(), Unseen { more: 0.5, less: 0.0 });
    let with = |own, other, shared| {
        difference
            .with_unseen(OfPair { own, other, shared })
            .ci95
            .map(|Interval(low, high)| (low, high))
            .unwrap()
    };
    assert_eq!(with(none, none, 0.0), (5.0, 15.0));
    let (low, high) = with(late, none, 0.0);
    close(low, 5.0);
    close(high, 15.0 + 55.0);
    let (low, high) = with(none, late, 0.0);
    close(low, 100.0 * (1.05 / 1.5 - 1.0));
    close(high, 15.0);
    let less = Unseen { more: 0.0, less: 0.5 };
    let (low, high) = with(less, less, 0.0);
    close(low, 5.0 - 55.0);
    close(high, 130.0);
    // Both may be later by the mean of the other one, which halves the difference.
    let (low, high) = with(none, none, 1.0);
    close(low, 2.5);
    close(high, 15.0);
}

/// Returns the bounds of the ratio of `min_rtt` to `tcp` on path 1 for 30 flows.
fn of_pair(scenario: &Scenario, own: &[f64; 30], other: &[f64; 30]) -> OfPair {
    of_pair_by(Measure::MeanTime, scenario, own, other)
}

fn of_pair_by(measure: Measure, scenario: &Scenario, own: &[f64; 30], other: &[f64; 30]) -> OfPair {
    let job = |contender| Job { contender, path: Some(0), purpose: Purpose::Compare, ..Job::default() };
    let entrants = [0, 1].map(|contender| Entrant::of(scenario, &job(contender)));
    let (listed, values) = (entrants.iter().collect::<Vec<_>>(), [runs(own), runs(other)]);
    Bounds::new(&scenario.conditions[0], &listed, &values, measure).of_pair(0, 1)
}

/// A lost SYN of 1 s that both have in the same run does not show that one of them may lose its tail.
#[test]
fn an_event_that_both_have_shown_is_no_evidence_of_one_that_only_one_of_them_has() {
    let two = |set: &[&str]| {
        scenario(
            &["10Mbit/s,20ms,loss=0.1%", "10Mbit/s,40ms"],
            &["min_rtt", "tcp@1"],
            &[&["traffic.size=14480B"], set].concat(),
        )
    };
    let (mut late, even) = ([0.1; 30], [0.1; 30]);
    late[7] = 1.1;
    let mean = (29.0 * 0.1 + 1.1) / 30.0;
    // The tail with 0.3 %, and one of ten segments with 1 %; the second path loses nothing.
    let tail = 0.003 * 0.22 + 0.01 * 0.02;
    let both = of_pair(&two(&[]), &late, &late);
    close(both.own.more, tail / mean);
    close(both.other.more, tail / mean);
    // A second SYN in a row.
    close(both.shared * 1e6, 2.0 / mean);
    // Of one contender the runs have shown the tail, and of the other not.
    let one = of_pair(&two(&[]), &late, &even);
    assert!(one.own.more * mean < 1e-5, "{one:?}");
    close(one.other.more, tail / 0.1);
    close(one.shared, 0.001 / 0.1);
    // Without a shared start the handshake is in the bound of each.
    let apart = of_pair(&two(&["initial=2"]), &even, &even);
    close(apart.shared, 0.0);
    close(apart.own.more, tail / 0.1);
    close(apart.other.more, (tail + 0.001) / 0.1);
    assert_eq!(of_pair(&two(&["traffic.flows=2", "traffic.every=1s"]), &even, &even).shared, 0.0);
    // A single flow shares it whenever it starts.
    close(of_pair(&two(&["traffic.flows=1", "traffic.every=1s"]), &even, &even).shared, 0.001 / 0.1);
}

/// A handshake that both lose takes the same part of both goodputs.
#[test]
fn a_shared_handshake_does_not_move_the_ratio_of_goodputs() {
    let two = scenario(
        &["10Mbit/s,20ms,loss=5%", "10Mbit/s,40ms"],
        &["min_rtt", "tcp@1"],
        &["traffic.size=bulk", "traffic.duration=2s"],
    );
    let goodput = of_pair_by(Measure::Goodput, &two, &[9e6; 30], &[8e6; 30]);
    assert_eq!(goodput.shared, 0.0);
    assert!(of_pair(&two, &[9.0; 30], &[8.0; 30]).shared > 0.0);
}

/// The runs know which part of a flow a path carries: here 1448 of 14,480 bytes.
#[test]
fn a_path_loses_segments_of_the_part_that_it_carries() {
    use crate::made;
    let lossy = scenario(&["10Mbit/s,20ms,loss=0.1%"], &["min_rtt"], &["traffic.size=14480B"]);
    let mut flow = made::flow(Class::Contender, Some(100.0));
    flow.report.bytes_by_path = vec![1448];
    let results: Vec<crate::run::RunResult> = (0..30).map(|_| made::run_of(vec![flow.clone()])).collect();
    let job = Job { contender: 0, purpose: Purpose::Compare, ..Job::default() };
    let entrant = Entrant { runs: &results, ..Entrant::of(&lossy, &job) };
    let values = [runs(&[0.1; 30])];
    let bound = Bounds::new(&lossy.conditions[0], &[&entrant], &values, Measure::MeanTime).of_means()[0];
    close(bound.more, (0.001 * 1.0 + 0.003 * 0.22 + 0.001 * 0.02) / 0.1);
    // Of 3000 such flows three have lost the segment, so that their values have it.
    let (many, values) = (vec![results.clone(); 100].concat(), [runs(&vec![0.1; 3000])]);
    let entrant = Entrant { runs: &many, ..Entrant::of(&lossy, &job) };
    let bound = Bounds::new(&lossy.conditions[0], &[&entrant], &values, Measure::MeanTime).of_means()[0];
    close(bound.more, (0.001 * 1.0 + 0.001 * 0.22) / 0.1);
}

/// A full queue that drops one of ten segments may drop the last one of a flow.
#[test]
fn packets_that_a_full_queue_drops_have_a_timeout_that_no_run_has_shown() {
    use crate::made;
    let mut flow = made::flow(Class::Contender, Some(100.0));
    (flow.report.data_segments, flow.report.retransmitted_segments) = (11, 1);
    let results: Vec<crate::run::RunResult> = (0..30).map(|_| made::run_of(vec![flow.clone()])).collect();
    let job = Job { contender: 0, purpose: Purpose::Compare, ..Job::default() };
    let values = [runs(&[0.1; 30])];
    let more = |phases: &str| {
        let still = scenario(&["10Mbit/s,20ms"], &["min_rtt"], &["traffic.size=14480B", phases]);
        let entrant = Entrant { runs: &results, ..Entrant::of(&still, &job) };
        Bounds::new(&still.conditions[0], &[&entrant], &values, Measure::MeanTime).of_means()[0].more
    };
    // 3/30 is less than 3 of 11: two timeouts in a row have 3/121, and three 3/1331.
    close(more("phases=true"), 0.1 * 0.22 / 0.1);
    // Without phases all runs are the same.
    close(more("phases=false"), 0.0);
}

/// Of the retransmissions, those for random losses are no evidence of a full queue.
#[test]
fn a_queue_has_dropped_only_what_was_retransmitted_beyond_the_random_losses() {
    use crate::made;
    let mut flow = made::flow(Class::Contender, Some(100.0));
    (flow.report.data_segments, flow.report.bytes_by_path) = (1000, vec![14_480]);
    let mut more = |retransmitted: u64| {
        flow.report.retransmitted_segments = retransmitted;
        let results: Vec<crate::run::RunResult> = (0..30).map(|_| made::run_of(vec![flow.clone()])).collect();
        let lossy = scenario(&["10Mbit/s,20ms,loss=0.1%"], &["min_rtt"], &["traffic.size=14480B"]);
        let job = Job { contender: 0, purpose: Purpose::Compare, ..Job::default() };
        let entrant = Entrant { runs: &results, ..Entrant::of(&lossy, &job) };
        let values = [runs(&[0.1; 30])];
        Bounds::new(&lossy.conditions[0], &[&entrant], &values, Measure::MeanTime).of_means()[0].more
    };
    // The handshake, the tail and one of ten segments, all lost at random.
    let random = 0.001 * 1.0 + 0.003 * 0.22 + 0.01 * 0.02;
    let found = [0, 1, 3].map(&mut more);
    close(found[0], random / 0.1);
    close(found[1], random / 0.1);
    // Two of a thousand were dropped by a queue: one of the last three segments with 0.6 %.
    close(found[2], (random + 0.006 * 0.22) / 0.1);
}

#[test]
fn a_damaged_packet_is_a_lost_one_and_no_event_costs_more_than_the_deadline() {
    let more = |path: &str, set: &[&str]| {
        found(&scenario(&[path], &["min_rtt"], set), &[runs(&[0.1; 30])], Measure::MeanTime)[0].more
    };
    let ten = "traffic.size=14480B";
    close(more("10Mbit/s,20ms,corrupt=0.1%", &[ten]), more("10Mbit/s,20ms,loss=0.1%", &[ten]));
    // Four handshakes cost 15 s, and four timeouts of the tail 3.3 s: both 2 s here.
    let all = 0.1 * 2.0 + 0.1 * 2.0 + 0.1 * 0.02;
    close(more("10Mbit/s,20ms,loss=50%,loss-up=20%", &[ten, "deadline=2s"]), all / 0.1);
}

#[test]
fn a_multipath_contender_has_the_events_of_all_its_paths() {
    let two = scenario(
        &["10Mbit/s,20ms", "10Mbit/s,40ms,loss=0.1%"],
        &["tcp@1", "min_rtt"],
        &["traffic.size=14480B"],
    );
    let condition = &two.conditions[0];
    let values = [runs(&[0.1; 30]), runs(&[0.1; 30])];
    let job = |contender| Job { contender, purpose: Purpose::Compare, ..Job::default() };
    let entrants = [0, 1].map(|contender| Entrant::of(&two, &job(contender)));
    let listed: Vec<&Entrant<'_>> = entrants.iter().collect();
    let found = Bounds::new(condition, &listed, &values, Measure::MeanTime).of_means();
    close(found[0].more, 0.0);
    // The tail and one of ten segments on the second path; the handshake is on the first one.
    close(found[1].more, (0.003 * 0.24 + 0.01 * 0.04) / 0.1);
}

#[test]
fn a_trace_that_starts_together_with_others_has_a_bad_place_too() {
    let begins = |start: &str| {
        let path = format!("trace=../../scenarios/traces/synthetic-lte.down,40ms,trace-start={start}");
        let traced = scenario(&[&path], &["tcp@1"], &["phases=false"]);
        let experiment = &traced.conditions[0].experiment;
        begins_anywhere(experiment, &experiment.graph.links[0])
    };
    assert!(begins("together") && begins("random") && !begins("2s"));
}

/// Only the direction with losses has late flows that the runs may lack.
#[test]
fn a_class_of_the_opposite_direction_has_the_losses_of_its_direction() {
    let of = |first: &str, loss: &str| {
        let text = format!(
            "path = [{{ rate = '10 Mbit/s', rtt = '20 ms', loss = {{ {loss} = '0.1%' }} }}]
             schedulers = ['min_rtt']
             traffic = [{{ name = '{first}', size = '30 KB', direction = '{first}' }},
                        {{ name = 'other', size = '30 KB', direction = '{}' }}]",
            if first == "upload" { "download" } else { "upload" }
        );
        let scenario = Document::parse("test.toml", text, ".").unwrap().scenario().unwrap();
        let condition = &scenario.conditions[0];
        let job = Job { purpose: Purpose::Compare, ..Job::default() };
        let entrant = Entrant::of(&scenario, &job);
        let (values, entrants) = ([runs(&[0.1; 30])], [&entrant]);
        let bound = |class: usize| {
            let bounds = Bounds::new(condition, &entrants, &values, Measure::MeanTime);
            bounds.for_class(condition.experiment.classes.get(class)).of_means()[0].more
        };
        [bound(0), bound(1)]
    };
    for (first, loss) in [("upload", "up"), ("download", "down")] {
        let [own, other] = of(first, loss);
        // A handshake needs both directions.
        assert!(own > other && other > 0.0, "{first}: {own} and {other}");
    }
    let [down, up] = of("download", "up");
    let [first, second] = of("upload", "up");
    assert!((down - second).abs() < 1e-12 && (up - first).abs() < 1e-12, "whichever class is the first");
}
