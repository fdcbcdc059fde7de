//! Accounts of simulated flows: they add up in random scenarios, and name causes that are known.

use core::sync::atomic::AtomicBool;

use anabranch_stack::scheduler::SchedulerKind;
use proptest::prelude::*;

use super::account::{Account, Pieces};
use super::cause::{Cause, Parts};
use super::record::Notes;
use super::{Explicable, Question, explain};
use crate::job::Job;
use crate::options::Options;
use crate::run::{AppReport, FlowResult, Prepared, RunResult};
use crate::scenario::{Document, Scenario};

pub(super) fn scenario(text: &str) -> Scenario {
    Document::parse("test.toml", text, ".").unwrap().scenario().unwrap()
}

/// Returns a run, with the accounts of its whole flows.
fn run(text: &str, run: u32) -> (RunResult, Vec<Option<Account>>) {
    run_of(text, run, |_| Pieces::Whole)
}

/// Returns a run, with the accounts of these pieces of its flows.
pub(super) fn run_of(
    text: &str,
    run: u32,
    pieces: fn(&FlowResult) -> Pieces,
) -> (RunResult, Vec<Option<Account>>) {
    let scenario = scenario(text);
    let prepared = Prepared::for_comparison(&scenario, 0).unwrap();
    let job = Job { run, ..Job::default() };
    let (result, notes) = prepared.run_with(&job, &AtomicBool::new(false), Notes::default()).unwrap();
    let mut stories = notes.into_stories();
    let condition = &scenario.conditions[0];
    let paths = &condition.experiment.pairs[0].paths;
    let account = |(at, flow): (usize, &FlowResult)| {
        let direction = super::direction(condition, flow.group);
        Account::new(&mut stories, at, direction, &pieces(flow), paths)
    };
    let accounts = result.flows.iter().enumerate().map(account).collect();
    (result, accounts)
}

/// Returns the account of the first flow of a scenario, which is delivered.
pub(super) fn first(text: &str) -> Account {
    let (result, accounts) = run(text, 0);
    let account = accounts.into_iter().next().flatten().unwrap();
    assert_eq!(Some(account.total), result.flows[0].report.fct);
    account
}

pub(super) fn milliseconds(parts: &Parts) -> Vec<(Cause, f64)> {
    let of = |cause: Cause| (cause, parts[cause] as f64 / 1e6);
    Cause::ALL.into_iter().map(of).filter(|part| part.1 > 0.0).collect()
}

/// Asserts that `cause` has most of the time of the first flow, about `expected` milliseconds.
fn assert_largest(text: &str, cause: Cause, expected: f64) {
    let parts = first(text).parts();
    assert_eq!(parts.largest(), Some(cause), "{:?}", milliseconds(&parts));
    let found = parts[cause] as f64 / 1e6;
    assert!(
        (found / expected - 1.0).abs() < 0.05,
        "{found} ms, and by hand {expected}: {:?}",
        milliseconds(&parts)
    );
}

#[test]
fn a_copy_that_arrives_late_is_not_its_retransmission() {
    // A retransmission is under way while a copy of its original, which was held back, arrives.
    let text = "path = [{ rate = '83351 kbit/s', rtt = '29 ms', queue = '300 packets', jitter = '3 ms' },
                        { rate = '4412 kbit/s', rtt = '19 ms', drop = [2, 7, 8, 30] },
                        { rate = '26826 kbit/s', rtt = '1 ms', reorder = { probability = 0.05, extra = '5 ms' }, duplicate = 0.02 }]
                traffic = { size = '249 KB', direction = 'upload', background = { path = 1, flows = 1 } }
                schedulers = ['weighted_round_robin']
                congestion = 'newreno'
                connection = { pacing = true }";
    let (result, accounts) = run(text, 698);
    assert_eq!(Some(accounts[0].as_ref().unwrap().total), result.flows[0].report.fct);
}

#[test]
fn a_long_way_is_propagation() {
    // The round trip grows after the request has arrived: 10 ms for it, 300 ms for the answer.
    assert_largest(
        "path = [{ rate = '100 Mbit/s', rtt = '20 ms', change = [{ at = '25 ms', rtt = '600 ms' }] }]
         traffic = { size = '10 KB' }
         schedulers = ['tcp']
         phases = false",
        Cause::Propagation,
        310.0,
    );
}

#[test]
fn a_thin_link_is_serialisation() {
    // 200 KB in 143 packets of about 1452 bytes, at 1 Mbit/s.
    assert_largest(
        "path = [{ rate = '1 Mbit/s', rtt = '20 ms' }]
         traffic = { size = '200 KB' }
         schedulers = ['tcp']
         phases = false",
        Cause::Serialisation,
        1660.0,
    );
}

#[test]
fn a_full_queue_of_others_is_queueing() {
    // A bulk flow keeps a queue of 200 packets, 240 ms; the request meets none, the answer takes two round trips.
    let parts = first(
        "path = [{ rate = '10 Mbit/s', rtt = '20 ms', queue = '200 packets' }]
         traffic = { size = '20 KB', start = '3 s', background = { path = 1, flows = 1, start = '0 s' } }
         schedulers = ['tcp']
         phases = false",
    )
    .parts();
    assert_eq!(parts.largest(), Some(Cause::Queueing), "{:?}", milliseconds(&parts));
}

#[test]
fn a_buffer_that_the_flow_fills_itself_is_queueing_of_its_bytes_alone() {
    // All is sent at once: the link is always busy, so that the flow itself loses no time in the queue.
    let account = first(
        "path = [{ rate = '1 Mbit/s', rtt = '20 ms', queue = '1000 packets' }]
         traffic = { size = '100 KB' }
         schedulers = ['tcp']
         connection = { initial-window = 200 }
         phases = false",
    );
    assert_eq!(account.parts().largest(), Some(Cause::Serialisation));
    assert_eq!(account.bytes.largest(), Some(Cause::Queueing));
}

#[test]
fn a_small_receive_buffer_is_the_receive_window() {
    // 500 KB by at most 20 KB in a round trip of 100 ms, less one of slow start and the time of the segments.
    assert_largest(
        "path = [{ rate = '100 Mbit/s', rtt = '100 ms' }]
         traffic = { size = '500 KB' }
         schedulers = ['tcp']
         connection = { receive-buffer = '20 KB', window-memory = false }",
        Cause::ReceiveWindow,
        2450.0,
    );
}

#[test]
fn a_small_send_buffer_is_the_send_buffer() {
    // 500 KB by 20 KB or less, in whole segments, a round trip.
    let parts = first(
        "path = [{ rate = '100 Mbit/s', rtt = '100 ms' }]
         traffic = { size = '500 KB' }
         schedulers = ['tcp']
         connection = { send-buffer = '20 KB' }",
    )
    .parts();
    assert_eq!(parts.largest(), Some(Cause::SendBuffer), "{:?}", milliseconds(&parts));
}

#[test]
fn a_lost_end_is_a_retransmission() {
    // The last two segments are lost, and so is the probe: a retransmission timeout of more than 200 ms remains.
    let parts = first(
        "path = [{ rate = '10 Mbit/s', rtt = '20 ms', drop = [14, 15] }]
         traffic = { size = '20 KB' }
         schedulers = ['tcp']",
    )
    .parts();
    assert_eq!(parts.largest(), Some(Cause::Retransmission), "{:?}", milliseconds(&parts));
}

#[test]
fn a_slow_second_path_in_turns_is_head_of_line() {
    // The slow path has 10 segments in its window, 24 ms each.
    let parts = first(
        "path = [{ rate = '50 Mbit/s', rtt = '20 ms' }, { rate = '500 kbit/s', rtt = '20 ms', queue = '100 packets' }]
         traffic = { size = '200 KB' }
         schedulers = ['round_robin']",
    )
    .parts();
    assert_eq!(parts.largest(), Some(Cause::HeadOfLine), "{:?}", milliseconds(&parts));
}

#[test]
fn slow_start_is_the_congestion_window() {
    // From 10 segments on, 500 KB take six flights: five waits of a round trip, with little transmission.
    assert_largest(
        "path = [{ rate = '1 Gbit/s', rtt = '100 ms' }]
         traffic = { size = '500 KB' }
         schedulers = ['tcp']
         phases = false",
        Cause::CongestionWindow,
        497.0,
    );
}

#[test]
fn a_paced_flow_waits_for_its_pacing() {
    // In congestion avoidance the window is paced over a round trip divided by 1.2.
    let parts = first(
        "path = [{ rate = '1 Gbit/s', rtt = '50 ms' }]
         traffic = { size = '2 MB' }
         schedulers = ['tcp']
         congestion = 'newreno'
         connection = { pacing = true, initial-window = 40, initial-ssthresh = 2 }",
    )
    .parts();
    assert_eq!(parts.largest(), Some(Cause::Pacing), "{:?}", milliseconds(&parts));
}

#[test]
fn the_wait_of_nagles_algorithm_is_pacing_and_not_the_congestion_window() {
    // The first flight ends with a short segment at the edge of the window. The last bytes are a short segment too:
    // it waits for the acknowledgement of the other, which the link transmits 45 segments after the first.
    let parts = |nagle: bool| {
        first(&format!(
            "path = [{{ rate = '10 Mbit/s', rtt = '100 ms', queue = '200 packets' }}]
             traffic = {{ size = '66 KB' }}
             schedulers = ['linux']
             connection = {{ initial-window = 60, nagle = {nagle} }}
             phases = false"
        ))
        .parts()
    };
    let (with, without) = (parts(true), parts(false));
    let waited = with[Cause::Pacing] as f64 / 1e6;
    assert!((45.0..60.0).contains(&waited), "{waited} ms: {:?}", milliseconds(&with));
    assert_eq!(without[Cause::Pacing], 0, "{:?}", milliseconds(&without));
    assert!(with.total() > without.total() + 45_000_000);
}

#[test]
fn a_scheduler_that_waits_is_the_scheduler() {
    // CP scheduling leaves the slow path unused although its window is free.
    let parts = first(
        "path = [{ rate = '100 Mbit/s', rtt = '100 ms' }, { rate = '1 Mbit/s', rtt = '110 ms' }]
         traffic = { size = '500 KB' }
         schedulers = ['cp_conservative']",
    )
    .parts();
    assert_eq!(parts.largest(), Some(Cause::Scheduler), "{:?}", milliseconds(&parts));
}

#[test]
fn a_shared_fast_link_before_two_slow_ones_is_not_a_window() {
    // Both paths of a bulk flow are full; the link before them is nearly idle.
    let (_, accounts) = run(
        "profile = 'linux'
         schedulers = ['min_rtt']
         node = [{ name = 'phone' }, { name = 'server' }, { name = 'core', kind = 'router' }]
         link = [
             { name = 'wifi', from = 'phone', to = 'core', rate = '20 Mbit/s', delay = '2 ms' },
             { name = 'lte', from = 'phone', to = 'core', rate = '20 Mbit/s', delay = '20 ms' },
             { name = 'backbone', from = 'core', to = 'server', rate = '1 Gbit/s', delay = '5 ms' },
         ]
         traffic = { from = 'server', to = 'phone', size = 'bulk', duration = '5 s' }",
        0,
    );
    let parts = accounts[0].as_ref().unwrap().parts();
    assert!(10 * parts[Cause::Serialisation] > 9 * parts.total(), "{:?}", milliseconds(&parts));
}

#[test]
fn the_change_that_helps_is_found_and_measured() {
    let scenario = scenario(
        "path = [{ rate = '100 Mbit/s', rtt = '100 ms' }]
         traffic = { size = '500 KB' }
         schedulers = ['tcp']
         runs = 4
         connection = { receive-buffer = '20 KB' }",
    );
    let cancelled = AtomicBool::new(false);
    let explained = |jobs| {
        let question = Question { flow: None, changes: true };
        let options = Options::new(jobs, &cancelled, &|_, _| {});
        explain(Explicable::new(&scenario).unwrap(), question, &options).unwrap()
    };
    let explanation = explained(1);
    assert_eq!(explanation, explained(3), "the result does not depend on the number of threads");
    let row = &explanation.rows[0];
    let sum: u64 = row.parts.iter().filter_map(|part| part.sum_ns).sum();
    assert_eq!(sum, row.total_ns);
    let largest = row.largest.as_ref().unwrap();
    assert_eq!(largest.cause, Cause::ReceiveWindow);
    let best = &row.changes[0];
    assert_eq!((best.what.as_str(), best.helps), ("four times the receive buffer", Some(true)));
    // By 80 KB instead of 20 KB in a round trip.
    let effect = best.effect_pct.unwrap();
    assert!(effect.mean < -50.0 && effect.ci95.unwrap().1 < -50.0, "{best:?}");
    assert!(row.sentence.contains("With four times the receive buffer"), "{}", row.sentence);
}

#[test]
fn a_contender_is_compared_with_the_fastest_one() {
    let scenario = scenario(
        "path = [{ rate = '50 Mbit/s', rtt = '20 ms' }, { rate = '20 Mbit/s', rtt = '80 ms', loss = '0.1%' }]
         traffic = { size = '1 MB' }
         schedulers = ['tcp@1', 'linux']
         runs = 4",
    );
    let cancelled = AtomicBool::new(false);
    let question = Question { flow: Some(1), changes: true };
    let options = Options::new(2, &cancelled, &|_, _| {});
    let explanation = explain(Explicable::new(&scenario).unwrap(), question, &options).unwrap();
    let [tcp, linux] = &explanation.rows[..] else { panic!("two contenders have two rows") };
    assert_eq!(tcp.excess, None);
    let excess = linux.excess.as_ref().unwrap();
    assert_eq!(
        (excess.cause, excess.than.as_str(), excess.path.as_deref()),
        (Cause::HeadOfLine, "tcp@1", Some("2"))
    );
    let without = linux.changes.iter().find(|change| change.what == "no path 2").unwrap();
    assert_eq!(without.helps, Some(true), "{without:?}");
}

/// What others and the network do to a flow can be taken away, as each is a cause of its time.
#[test]
fn the_network_is_asked_without_its_faults() {
    let faults = [
        (
            "queue = '500 ms', cross-traffic = { rate = '11 Mbit/s', until = '20 s' }",
            ", start = '3 s'",
            "no cross traffic",
        ),
        ("change = [{ at = '100 ms', down = true }, { at = '2 s', up = true }]", "", "path 1 always up"),
        ("policer = { rate = '2 Mbit/s', burst = '20 KB' }", "", "no policer"),
        ("change = [{ at = '50 ms', loss = '60%' }, { at = '2 s', loss = '0%' }]", "", "no random loss"),
        ("corrupt = '20%'", "", "no random loss"),
    ];
    for (fault, traffic, what) in faults {
        helps(
            &format!("rate = '10 Mbit/s', rtt = '10 ms', {fault}"),
            &format!("size = '200 KB'{traffic}"),
            what,
        );
    }
}

#[test]
fn a_slow_way_back_and_a_shaper_are_asked() {
    let path = "rate = { down = '50 Mbit/s', up = '64 kbit/s' }, rtt = '40 ms'";
    helps(path, "size = '1 MB'", "the rate of the data for the acknowledgements on path 1");
    let path = "rate = '50 Mbit/s', rtt = '10 ms', shaper = { rate = '2 Mbit/s', burst = '10 KB' }";
    helps(path, "size = '1 MB'", "twice the rate of path 1");
}

/// Whole windows are lost, so that the flows wait for their timers.
#[test]
fn a_timeout_after_an_overflow_asks_for_a_larger_queue() {
    let path = "rate = '100 Mbit/s', rtt = '1 ms', queue = '15 packets'";
    helps(path, "size = '60 KB', flows = 20", "four times the queue of path 1");
}

/// The change makes TCP on the path clearly faster, and is among those that are tried.
fn helps(path: &str, traffic: &str, what: &str) {
    let scenario = scenario(&format!(
        "path = [{{ {path} }}]
         traffic = {{ {traffic} }}
         schedulers = ['tcp']
         runs = 4",
    ));
    let question = Question { flow: None, changes: true };
    let cancelled = AtomicBool::new(false);
    let options = Options::new(2, &cancelled, &|_, _| {});
    let explanation = explain(Explicable::new(&scenario).unwrap(), question, &options).unwrap();
    let row = &explanation.rows[0];
    let change = row.changes.iter().find(|change| change.what == what);
    let change = change.unwrap_or_else(|| panic!("{path}: {what}: {}", row.sentence));
    assert_eq!(change.helps, Some(true), "{path}: {}", row.sentence);
    assert!(change.effect_pct.unwrap().mean < -30.0, "{path}: {change:?}");
}

/// A path of a random scenario, with its losses.
pub(super) fn path() -> impl Strategy<Value = String> {
    let extra = prop_oneof![
        Just(""),
        Just(", loss = '2%', loss-up = '1%'"),
        Just(", queue = '10 packets'"),
        Just(", queue = '300 packets', jitter = '3 ms'"),
        Just(", reorder = { probability = 0.05, extra = '5 ms' }, duplicate = 0.02"),
        Just(", corrupt = 0.01"),
        Just(", drop = [2, 7, 8, 30]"),
        Just(", change = [{ at = '80 ms', down = true }, { at = '400 ms', up = true }]"),
        Just(", when-down = 'keep', change = [{ at = '60 ms', down = true }, { at = '90 ms', up = true }]"),
        Just(", change = [{ at = '70 ms', rate = '3 Mbit/s' }, { at = '100 ms', rtt = '90 ms' }]"),
    ];
    (500_u32..100_000, 1_u32..200, extra)
        .prop_map(|(rate, rtt, extra)| format!("{{ rate = '{rate} kbit/s', rtt = '{rtt} ms'{extra} }}"))
}

/// A random scenario.
fn any_scenario() -> impl Strategy<Value = String> {
    let schedulers: Vec<&str> = SchedulerKind::ALL.iter().map(SchedulerKind::name).chain(["tcp"]).collect();
    let connection = prop_oneof![
        Just(""),
        Just("pacing = true"),
        Just("receive-buffer = '30 KB'"),
        Just("send-buffer = '15 KB'"),
        Just("initial-window = 100, receive-buffer = '1 MB'"),
        Just("sack = false, loss-detection = 'duplicate-acks', limited-transmit = true"),
    ];
    let congestion = prop_oneof![Just("newreno"), Just("lia"), Just("bbr"), Just("cubic_linux")];
    let beside = prop_oneof![
        3 => Just(""),
        1 => Just(", background = { path = 1, flows = 1 }"),
        1 => Just(", beside = { flows = 1, path = 1 }"),
    ];
    let traffic = (1_u32..300, 1_u32..4, prop_oneof![Just("upload"), Just("download")], beside);
    let paths = prop::collection::vec(path(), 1..4);
    let topology = prop_oneof![
        3 => Just(""),
        1 => Just("topology = { kind = 'shared', rate = '20 Mbit/s', rtt = '4 ms', loss = '0.5%' }"),
    ];
    let profile = prop_oneof![3 => Just("linux"), 1 => Just("ns3")];
    (paths, traffic, prop::sample::select(schedulers), connection, congestion, topology, profile).prop_map(
        |(paths, (size, flows, direction, beside), scheduler, connection, congestion, topology, profile)| {
            format!(
                "path = [{}]
                 {topology}
                 traffic = {{ size = '{size} KB', flows = {flows}, direction = '{direction}'{beside} }}
                 schedulers = ['{scheduler}']
                 congestion = '{congestion}'
                 profile = '{profile}'
                 deadline = '20 s'
                 connection = {{ {connection} }}",
                paths.join(", ")
            )
        },
    )
}

/// The acknowledgement of a packet gets the number that the packet had in the network, and enters a link next.
#[test]
fn the_answer_to_a_packet_is_no_part_of_its_way() {
    let text = "path = [{ rate = '500 kbit/s', rtt = '66 ms', change = [{ at = '80 ms', down = true }, { at = '400 ms', up = true }] }]
        traffic = { size = '1 KB', flows = 3, direction = 'upload' }
        schedulers = ['min_rtt']\ncongestion = 'newreno'\nprofile = 'linux'\ndeadline = '20 s'";
    let (result, accounts) = run(text, 0);
    for (flow, account) in result.flows.iter().zip(accounts) {
        assert_eq!(account.unwrap().total, flow.report.fct.unwrap());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// The parts of every flow add up exactly to its completion time. The parts of its bytes add up to the
    /// times of the bytes; an assertion in `Story::bytes` checks that.
    #[test]
    fn the_parts_add_up(text in any_scenario(), number in 0_u32..1000) {
        let (result, accounts) = run(&text, number);
        for (flow, account) in result.flows.iter().zip(accounts) {
            let Some(account) = account else {
                prop_assert_eq!(flow.report.delivered, 0);
                continue;
            };
            prop_assert_eq!(account.parts().total(), u128::from(account.total.0));
            prop_assert_eq!(account.count, flow.report.delivered);
            if let Some(fct) = flow.report.fct {
                prop_assert_eq!(account.total, fct);
            }
        }
    }
}

/// Two users, a video and a speaker: each class that uses the contender has rows of its own, in which the time between
/// requests has no part.
#[test]
fn classes_are_explained_by_the_waits_for_data_that_was_written() {
    let text = "path = [{ rate = '20 Mbit/s', rtt = '20 ms' }, { rate = '10 Mbit/s', rtt = '60 ms', strip = 'mptcp' }]
        schedulers = ['tcp@1', 'min_rtt']
        runs = 2
        traffic = [
            { name = 'web', kind = 'requests', flows = 2, size = '200 KB', think = '1 s', requests = 3 },
            { name = 'film', kind = 'video', bitrate = '3 Mbit/s', duration = '20 s' },
            { name = 'speech', kind = 'on-off', on = '200 ms', off = '1 s', rate = '1 Mbit/s', duration = '5 s' },
            { name = 'load', kind = 'on-off', via = 'tcp', on = '1 s', off = '1 s', rate = '1 Mbit/s' },
        ]";
    let scenario = scenario(text);
    let cancelled = AtomicBool::new(false);
    let options = Options::new(1, &cancelled, &|_, _| {});
    let question = Question { flow: None, changes: true };
    let explanation = explain(Explicable::new(&scenario).unwrap(), question, &options).unwrap();
    let of: Vec<(&str, &str)> = explanation
        .rows
        .iter()
        .map(|row| (row.of.scheduler.as_str(), row.of.traffic.as_deref().unwrap()))
        .collect();
    let classes = ["web", "film", "speech"];
    assert_eq!(of, ["tcp@1", "min_rtt"].map(|name| classes.map(|class| (name, class))).concat());
    let comparison = crate::compare::compare(&scenario, &options).unwrap();
    for row in &explanation.rows {
        let class = row.of.traffic.as_deref();
        let sum: u64 = row.parts.iter().filter_map(|part| part.sum_ns).sum();
        assert_eq!(sum, row.total_ns);
        assert!(row.parts.iter().all(|part| part.cause != Cause::Application || part.sum_ns == Some(0)));
        assert_eq!(row.of.completed, row.of.n);
        if class == Some("web") {
            assert_eq!((row.of.n, row.measure), (12, "mean response time"));
        }
        if class != Some("film") {
            // The measure of a video is the waiting of its viewer.
            let measured = comparison.row_of_class(&row.of.scheduler, class).unwrap().fct_s.mean.unwrap();
            let mean = row.mean_s.unwrap();
            assert!((mean - measured).abs() < 1e-9, "{mean} of {measured}");
        }
        let is_tried = row.changes.iter().any(|change| change.what == "no middlebox on path 2");
        assert_eq!(is_tried, row.of.scheduler == "min_rtt", "{:?}", row.changes);
    }
}

/// Each response from its request on, and each burst from its last block on: the times that are compared.
#[test]
fn the_parts_of_exchanges_and_bursts_add_up_to_their_times() {
    let paths = "[{ rate = '5 Mbit/s', rtt = '30 ms', loss = '2%', loss-up = '2%' },
        { rate = '3 Mbit/s', rtt = '80 ms', change = [{ at = '500 ms', down = true }, { at = '1200 ms', up = true }] }]";
    let kinds = [
        "kind = 'requests', size = '30 KB', think = '50 ms', requests = 20",
        "kind = 'requests', size = '20 KB', gap = '20 ms', requests = 30",
        "kind = 'on-off', on = '100 ms', off = '100 ms', rate = '4 Mbit/s', duration = '3 s', direction = 'upload'",
        "kind = 'on-off', on = '50 ms', off = '20 ms', rate = '10 Mbit/s', duration = '3 s'",
    ];
    for kind in kinds {
        for scheduler in ["tcp@1", "min_rtt", "redundant", "round_robin"] {
            let text = format!(
                "path = {paths}\nschedulers = ['{scheduler}']\ntraffic = [{{ name = 'a', flows = 2, {kind} }}]"
            );
            let (result, accounts) = run_of(&text, 0, super::pieces);
            for (flow, account) in result.flows.iter().zip(accounts) {
                let account = account.unwrap();
                let times: Vec<u64> = match &flow.report.app {
                    AppReport::Requests(all) => all.iter().filter_map(|one| Some(one.time?.0)).collect(),
                    AppReport::OnOff(all) => all.iter().filter_map(|one| Some(one.delay?.0)).collect(),
                    other => panic!("{other:?}"),
                };
                let of = format!("{kind}, {scheduler}");
                assert_eq!(
                    (account.pieces, account.total.0),
                    (times.len() as u64, times.iter().sum()),
                    "{of}"
                );
                assert_eq!(account.parts().total(), u128::from(account.total.0), "{of}");
                assert_eq!(account.parts()[Cause::Application], 0, "{of}");
            }
        }
    }
}

/// The first request is made before the connection is established: 20 ms of its time, and of no other.
#[test]
fn the_first_request_waits_for_the_handshake() {
    let (_, accounts) = run_of(
        "path = [{ rate = '20 Mbit/s', rtt = '20 ms' }]
         schedulers = ['tcp']
         phases = false
         traffic = [{ name = 'web', kind = 'requests', size = '20 KB', think = '100 ms', requests = 5 }]",
        0,
        super::pieces,
    );
    let account = accounts[0].as_ref().unwrap();
    let handshake = account.parts()[Cause::Handshake] as f64 / 1e6;
    assert!((19.9..21.0).contains(&handshake), "{:?}", milliseconds(&account.parts()));
    // Each request and each response crosses the path once.
    let propagation = account.parts()[Cause::Propagation] as f64 / 1e6;
    assert!((99.0..101.0).contains(&propagation), "{:?}", milliseconds(&account.parts()));
}

/// Returns the explanation of a scenario.
pub(super) fn explained(text: &str, changes: bool) -> super::Explanation {
    let scenario = scenario(text);
    let cancelled = AtomicBool::new(false);
    let options = Options::new(2, &cancelled, &|_, _| {});
    explain(Explicable::new(&scenario).unwrap(), Question { flow: None, changes }, &options).unwrap()
}

/// TCP takes the second path because the first one is down, and would take that one otherwise.
#[test]
fn a_change_of_the_network_lets_tcp_choose_its_path_anew() {
    let paths = "path = [{ rate = '20 Mbit/s', rtt = '20 ms', change = [{ at = '0 s', down = true }, { at = '3 s', up = true }] },
                         { rate = '10 Mbit/s', rtt = '60 ms' }]
         traffic = { size = '1 MB' }
         runs = 3";
    let explanation = explained(&format!("{paths}\nschedulers = ['tcp']"), true);
    let row = &explanation.rows[0];
    assert_eq!(row.of.path.as_deref(), Some("2"));
    let up = row.changes.iter().find(|change| change.what == "path 1 always up").unwrap();
    assert!(up.helps == Some(true) && up.effect_pct.unwrap().mean < -20.0, "{up:?}");
    // With its path configured, nothing on the other one concerns it.
    let explanation = explained(&format!("{paths}\nschedulers = ['tcp@2']"), true);
    let changes = &explanation.rows[0].changes;
    assert!(changes.iter().all(|change| !change.what.contains("path 1")), "{changes:?}");
}

#[test]
fn one_run_has_effects_and_no_judgement() {
    let explanation = explained(
        "path = [{ rate = '20 Mbit/s', rtt = '20 ms' }]
         traffic = { size = '1 MB' }
         schedulers = ['tcp']
         runs = 1",
        true,
    );
    let sentence = &explanation.rows[0].sentence;
    let words = " One run cannot tell whether a change helps; tried: twice the rate of path 1 (-";
    assert!(sentence.contains(words), "{sentence}");
}

/// At the rate of 1 Mbit/s, 600 KB take five seconds.
#[test]
fn flows_that_end_at_the_deadline_take_at_least_the_time_until_then() {
    let explanation = explained(
        "path = [{ rate = '1 Mbit/s', rtt = '20 ms' }, { rate = '20 Mbit/s', rtt = '40 ms' }]
         traffic = { size = '600 KB' }
         schedulers = ['tcp@1', 'tcp@2']
         deadline = '2 s'
         runs = 2",
        false,
    );
    let excess = explanation.rows[0].excess.as_ref().unwrap();
    assert!(excess.at_least && excess.than == "tcp@2", "{excess:?}");
    let sentence = &explanation.rows[0].sentence;
    assert!(sentence.contains(" It takes at least "), "{sentence}");
}

/// A deadline of half a round trip lets nothing arrive.
#[test]
fn an_explanation_of_nothing_is_told_from_others() {
    let of = |deadline: &str| {
        let text = format!(
            "path = [{{ rate = '1 Mbit/s', rtt = '20 ms' }}]
             traffic = {{ size = '600 KB' }}
             schedulers = ['tcp', 'linux']
             deadline = '{deadline}'
             runs = 1"
        );
        explained(&text, false)
    };
    assert!(!of("10 ms").explains_something());
    assert!(of("1 s").explains_something(), "a part of the flow");
}
