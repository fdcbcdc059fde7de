//! Simulated runs and the lower bound: none is faster, and some must reach it.

use std::sync::atomic::AtomicBool;

use anabranch_lab::run::{FlowResult, Prepared};
use anabranch_lab::scenario::{Document, Scenario};
use proptest::prelude::*;

fn scenario(text: &str) -> Scenario {
    Document::parse("test", text, ".").unwrap().scenario().unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// Returns all flows of run 0, by contender.
fn flows(scenario: &Scenario) -> Vec<Vec<FlowResult>> {
    let prepared = Prepared::new(scenario, 0).unwrap();
    let cancelled = AtomicBool::new(false);
    (0..scenario.contenders.len()).map(|c| prepared.run(c, 0, &cancelled).unwrap().flows).collect()
}

/// A single TCP with an ACK for every segment, on a clean path whose queue holds every burst, ends within one
/// segment's time of the bound, whatever the size.
#[test]
fn a_lone_tcp_on_a_clean_path_meets_the_bound_within_one_segment() {
    for profile in ["ns3", "linux"] {
        for (rate, rtt) in [("100 Mbit/s", "20 ms"), ("10 Mbit/s", "50 ms"), ("1 Mbit/s", "100 ms")] {
            for size in ["1 B", "1400 B", "57 KB", "300 KB", "1 MB"] {
                let text = format!(
                    "schedulers = ['tcp']\nprofile = '{profile}'\nconnection = {{ ack.every = 1, receive-buffer = '20 MB' }}
                     path = [{{ rate = '{rate}', rtt = '{rtt}', queue = 'unlimited' }}]\ntraffic = {{ size = '{size}', direction = 'upload' }}"
                );
                let scenario = scenario(&text);
                let flow = &flows(&scenario)[0][0];
                let link = &scenario.conditions[0].experiment.graph.links[0];
                let segment = link.mean_rate().transmission_time(1500);
                let fct = flow.report.fct.expect("it ends");
                let bound = flow.lower_bound.unwrap();
                assert!(fct >= bound, "{text}\n{fct} {bound}");
                assert!(fct <= bound + segment, "{text}\n{fct} {bound}");
            }
        }
    }
}

#[test]
fn bulk_on_two_equal_clean_paths_is_within_five_percent() {
    let text = "schedulers = ['min_rtt', 'round_robin']\ncongestion = 'newreno'
        path = [{ rate = '50 Mbit/s', rtt = '20 ms' }, { rate = '50 Mbit/s', rtt = '20 ms' }]
        traffic = { size = 'bulk', duration = '20 s' }";
    for flows in flows(&scenario(text)) {
        let ratio = flows[0].time.as_secs_f64() / flows[0].lower_bound.unwrap().as_secs_f64();
        assert!((1.0..1.05).contains(&ratio), "{ratio}");
    }
}

fn path() -> impl Strategy<Value = String> {
    let rates = prop_oneof![Just("1 Mbit/s"), Just("7 Mbit/s"), Just("50 Mbit/s"), Just("400 Mbit/s")];
    let queues = prop_oneof![Just("1 BDP"), Just("10 packets"), Just("unlimited"), Just("50 ms")];
    let impairments = prop_oneof![
        4 => Just(""),
        1 => Just(", loss = '1%'"),
        1 => Just(", loss = '10%', loss-up = '5%'"),
        1 => Just(", jitter = '5 ms'"),
        1 => Just(", jitter = { max = '30 ms', reorder = true }"),
        1 => Just(", reorder = { probability = '5%', extra = '20 ms' }"),
        1 => Just(", duplicate = '5%'"),
        1 => Just(", corrupt = '2%'"),
        1 => Just(", change = [{ at = '50 ms', down = true }, { at = '400 ms', up = true }]"),
        1 => Just(", change = [{ at = '60 ms', rate = '90 Mbit/s', rtt = '5 ms' }]"),
        1 => Just(", change = [{ at = '60 ms', delay = { up = '1 ms' } }, { at = '90 ms', rate = { down = '70 Mbit/s' } }]"),
        1 => Just(", aqm = 'codel'"),
        1 => Just(", aqm = { down = 'fq-codel', up = 'red' }"),
        1 => Just(", policer = { rate = '3 Mbit/s', burst = '30 KB' }"),
        1 => Just(", shaper = { rate = '2 Mbit/s', burst = '9 KB' }"),
        1 => Just(", shaper = { data = { rate = '900 kbit/s', burst = '90 KB' } }, aqm = 'codel'"),
        1 => Just(", cross-traffic = { rate = '500 kbit/s', from = '10 ms', until = '2 s' }"),
        1 => Just(", redraw = { every = '30 ms', rate = ['2 Mbit/s', '80 Mbit/s'] }"),
        1 => Just(", redraw = { every = '40 ms', rtt = { deviation = '40%' } }"),
    ];
    (rates, 0..120_u32, queues, impairments).prop_map(|(rate, rtt, queue, more)| {
        format!("{{ rate = '{rate}', rtt = '{rtt} ms', queue = '{queue}'{more} }}")
    })
}

fn traced() -> impl Strategy<Value = String> {
    (1..60_u32, prop_oneof![Just("../../scenario/tests/errors/short.down"), Just("../../../scenarios/traces/synthetic-lte.down")])
        .prop_flat_map(|(rtt, file)| {
            let later = prop_oneof![
                2 => Just(""),
                1 => Just(", change = [{ at = '150 ms', trace = '../scenario/tests/errors/short.down' }]"),
                1 => Just(", shaper = { rate = '2 Mbit/s', burst = '9 KB' }"),
            ];
            later.prop_map(move |later| {
                format!("{{ trace = {{ down = 'tests/{file}' }}, trace-start = 'random', rtt = '{rtt} ms'{later} }}")
            })
        })
}

prop_compose! {
    fn any_scenario()(
        paths in prop::collection::vec(prop_oneof![5 => path(), 1 => traced()], 1..4),
        profile in prop_oneof![Just("linux"), Just("ns3")],
        direction in prop_oneof![Just("upload"), Just("download")],
        size in prop_oneof![1..3000_u32, 3000..400_000_u32],
        flows in 1..4_u32,
        shared in prop_oneof![3 => Just(""), 1 => Just("topology = { kind = 'shared', rate = '20 Mbit/s', rtt = '10 ms' }")],
        knobs in prop_oneof![
            4 => Just(""),
            1 => Just("connection = { dsn-width = 'narrow', timestamps = false }"),
            1 => Just("connection = { initial-window = 3, mss = 536 }"),
            1 => Just("connection = { pacing = true, opportunistic = 'retransmit-and-penalise' }"),
        ],
        seed in 0..1000_u32,
    ) -> String {
        format!(
            "schedulers = ['tcp', 'min_rtt', 'round_robin', 'redundant', 'dmptcp']\nprofile = '{profile}'\nseed = {seed}
             path = [{}]\n{shared}\n{knobs}\ndeadline = '20 s'
             traffic = {{ size = '{size} B', flows = {flows}, direction = '{direction}' }}",
            paths.join(", ")
        )
    }
}

/// A link between two nodes, in both directions.
fn link(from: &'static str, to: &'static str) -> impl Strategy<Value = String> {
    let rates = prop_oneof![Just("2 Mbit/s"), Just("9 Mbit/s"), Just("40 Mbit/s")];
    let queues = prop_oneof![Just("1 BDP"), Just("10 packets"), Just("unlimited")];
    let impairments = prop_oneof![
        6 => Just(""),
        1 => Just(", loss = '1%'"),
        1 => Just(", jitter = { max = '10 ms', reorder = true }"),
        1 => Just(", duplicate = '3%'"),
        1 => Just(", aqm = 'fq-codel'"),
        1 => Just(", shaper = { rate = '1 Mbit/s', burst = '20 KB' }, cross-traffic = { rate = '100 kbit/s' }"),
        1 => Just(", redraw = { every = '20 ms', delay = { deviation = '50%' } }"),
        1 => Just(", change = [{ at = '60 ms', rate = '50 Mbit/s', delay = '1 ms' }]"),
        1 => Just(", change = [{ at = '50 ms', down = true }, { at = '300 ms', up = true }]"),
    ];
    (rates, 0..30_u32, queues, impairments).prop_map(move |(rate, delay, queue, more)| {
        format!("{{ from = '{from}', to = '{to}', rate = '{rate}', delay = '{delay} ms', queue = '{queue}'{more} }}")
    })
}

prop_compose! {
    /// Hosts a and c with one or two interfaces, b with one or two, over routers that may be joined in several ways.
    fn any_graph()(
        needed in (link("a", "r"), link("r", "b"), link("c", "r"), link("s", "r")),
        more in prop::collection::vec(
            prop_oneof![link("a", "s"), link("s", "b"), link("c", "s"), link("t", "s"), link("r", "t")], 0..5
        ),
        traffic in prop_oneof![
            Just("from = 'b', to = 'a'"),
            Just("from = 'a', to = 'b', direction = 'upload'"),
            Just("from = ['b', 'a', 'b'], to = ['a', 'c', 'c'], flows = 6"),
            Just("pattern = 'permutation', direction = 'upload'"),
            Just("pattern = 'incast', to = 'b'"),
        ],
        manager in prop_oneof![3 => Just("full_mesh"), 1 => Just("n_diff_ports:3")],
        profile in prop_oneof![Just("linux"), Just("ns3")],
        size in prop_oneof![1..3000_u32, 3000..400_000_u32],
        seed in 0..1000_u32,
    ) -> String {
        let (a, b, c, s) = needed;
        let mut links = vec![a, b, c, s];
        // A name for each: parallel links would have the same.
        links.extend(more);
        let links = links.iter().enumerate().map(|(at, link)| link.replacen('{', &format!("{{ name = 'l{at}',"), 1));
        format!(
            "schedulers = ['tcp', 'min_rtt', 'redundant', 'dmptcp']\nprofile = '{profile}'\nseed = {seed}
             node = [{{ name = 'a' }}, {{ name = 'b' }}, {{ name = 'c' }}, {{ name = 'r', kind = 'router' }},
                {{ name = 's', kind = 'router' }}, {{ name = 't', kind = 'router' }}]
             link = [{}]\nconnection.path-manager = '{manager}'\ndeadline = '20 s'
             traffic = {{ size = '{size} B', {traffic} }}",
            links.collect::<Vec<_>>().join(",\n  ")
        )
    }
}

/// Returns the number of cases, enough for every kind of scenario; `PROPTEST_CASES` overrides it.
fn cases() -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(300)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), ..ProptestConfig::default() })]

    #[test]
    fn no_run_beats_the_lower_bound(text in prop_oneof![2 => any_scenario(), 1 => any_graph()]) {
        let scenario = scenario(&text);
        for (contender, flows) in scenario.contenders.iter().zip(flows(&scenario)) {
            for flow in flows {
                prop_assert!(
                    flow.time >= flow.lower_bound.unwrap(),
                    "{} took {} and the bound is {}\n{text}", contender.name, flow.time, flow.lower_bound.unwrap()
                );
            }
        }
    }
}
