//! Networks of nodes and links: the same as paths where both can describe them, and right where only a graph can.

use std::sync::atomic::AtomicBool;

use anabranch_lab::run::{Prepared, RunResult};
use anabranch_lab::scenario::{Document, Scenario};
use anabranch_link::Effect;

fn scenario(text: &str) -> Scenario {
    let document = Document::built_in("test", text).unwrap();
    document.scenario().unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// Run 0 of each contender in the first condition.
fn runs(scenario: &Scenario) -> Vec<RunResult> {
    let prepared = Prepared::new(scenario, 0).unwrap();
    let cancelled = AtomicBool::new(false);
    (0..scenario.contenders.len()).map(|at| prepared.run(at, 0, &cancelled).unwrap()).collect()
}

/// The goodputs of the flows, in Mbit/s.
fn goodputs(run: &RunResult) -> Vec<f64> {
    run.flows.iter().map(|flow| flow.goodput().as_bps_f64() / 1e6).collect()
}

/// Two paths as paths and as two links between two hosts. Only the names of links differ, and nothing here is drawn.
#[test]
fn a_graph_of_two_links_gives_what_two_paths_give() {
    let rest = "schedulers = ['tcp@1', 'tcp@2', 'min_rtt', 'dmptcp']\ntraffic = { size = '1 MB'";
    let paths = format!(
        "path = [{{ rate = '20 Mbit/s', rtt = '20 ms' }}, {{ rate = '9 Mbit/s', rtt = '50 ms', queue = '40 packets' }}]
         {rest} }}"
    );
    let graph = format!(
        "node = [{{ name = 'client' }}, {{ name = 'server' }}]
         link = [{{ name = 'x', from = 'client', to = 'server', rate = '20 Mbit/s', delay = '10 ms' }},
            {{ name = 'y', from = 'client', to = 'server', rate = '9 Mbit/s', delay = '25 ms', queue = '40 packets' }}]
         {rest}, from = 'server', to = 'client' }}"
    );
    let (paths, graph) = (runs(&scenario(&paths)), runs(&scenario(&graph)));
    for (one, other) in paths.iter().zip(&graph) {
        let (one, other) = (&one.flows[0], &other.flows[0]);
        assert_eq!((one.time, one.lower_bound), (other.time, other.lower_bound));
        assert_eq!(one.report.bytes_by_path, other.report.bytes_by_path);
    }
}

/// The payload of full segments of a plain TCP at this rate, in Mbit/s: 1448 of 1500 bytes.
fn payload(mbps: f64) -> f64 {
    mbps * 1448.0 / 1500.0
}

#[test]
fn a_bottleneck_is_shared_by_all_that_cross_it_and_never_exceeded() {
    for hosts in [1, 3] {
        let text = format!(
            "schedulers = ['tcp']\ncongestion = 'cubic'
             topology = {{ kind = 'dumbbell', hosts = {hosts}, rate = '20 Mbit/s', delay = '10 ms' }}
             traffic = {{ size = 'bulk', duration = '20 s' }}"
        );
        let run = &runs(&scenario(&text))[0];
        assert_eq!(run.flows.len(), hosts);
        let sum: f64 = goodputs(run).iter().sum();
        assert!(sum > 0.96 * payload(20.0) && sum < payload(20.0), "{sum}");
        let bottleneck = run.links.iter().find(|link| link.name == "bottleneck").unwrap();
        let busy = bottleneck.busy.as_secs_f64();
        assert!(busy > 19.0 && busy < 20.0, "{busy}");
    }
}

#[test]
fn equal_routes_spread_subflows_and_keep_each_on_its_own() {
    let text = "schedulers = ['tcp', 'min_rtt']
        topology = { kind = 'fat-tree', k = 4, rate = '50 Mbit/s', delay = '100 us', queue = '100 packets' }
        traffic = { from = 'h1', to = 'h16', size = 'bulk', duration = '1 s', direction = 'upload' }
        connection.path-manager = 'n_diff_ports:8'";
    let runs = runs(&scenario(text));
    let up = |run: &RunResult, of: &str| {
        let carried =
            run.links.iter().filter(|link| link.name.starts_with(of) && !link.name.ends_with(".back"));
        carried.filter(|link| link.counters.delivered.bytes > 100_000).count()
    };
    // A TCP takes one route of four, and eight subflows with this seed all of them.
    assert_eq!((up(&runs[0], "edge1.1-"), up(&runs[1], "edge1.1-")), (1, 2));
    assert_eq!((up(&runs[0], "agg1."), up(&runs[1], "agg1.")), (1, 4));
    // No packet of a subflow overtakes another, so that nothing arrives twice.
    assert_eq!(runs[0].flows[0].report.duplicate_bytes, 0);
    for run in &runs {
        let flow = &run.flows[0];
        let goodput = flow.goodput().as_bps_f64() / 1e6;
        assert!(goodput > 0.85 * payload(50.0) && goodput < payload(50.0), "{goodput}");
    }
}

/// The whole rate of one uplink cannot be had twice: the other way is there for multipath, and a control that is
/// coupled leaves more of the shared link to the TCP on it than one that is not.
#[test]
fn coupled_control_moves_traffic_off_the_shared_link() {
    let mut document = Document::open("two-bottlenecks").unwrap();
    document.set("phases=true").unwrap();
    let scenario = document.scenario().unwrap();
    let cancelled = AtomicBool::new(false);
    // One run alone may be an exception.
    const RUNS: u32 = 5;
    let [coupled, uncoupled] = [0, 1].map(|condition| {
        let prepared = Prepared::new(&scenario, condition).unwrap();
        let runs = (0..RUNS).map(|run| goodputs(&prepared.run(0, run, &cancelled).unwrap()));
        runs.reduce(|sum, one| sum.iter().zip(one).map(|(sum, one)| sum + one).collect())
            .unwrap()
            .into_iter()
            .map(|sum| sum / f64::from(RUNS))
            .collect::<Vec<f64>>()
    });
    let total = payload(20.0);
    for goodputs in [&coupled, &uncoupled] {
        // Both links are full, and the TCP has what the shared one leaves it.
        let sum: f64 = goodputs.iter().sum();
        assert!(sum > 1.9 * total && sum < 2.0 * total, "{goodputs:?}");
    }
    assert!(coupled[1] > 1.5 * uncoupled[1], "{coupled:?} {uncoupled:?}");
    assert!(uncoupled[1] < 0.5 * total && coupled[1] < total, "{coupled:?} {uncoupled:?}");
}

#[test]
fn four_subflows_use_a_fat_tree_better_than_one() {
    let mut document = Document::open("fat-tree").unwrap();
    document.set("traffic.duration=1s").unwrap();
    let runs = runs(&document.scenario().unwrap());
    let [tcp, multipath] = [0, 1].map(|at: usize| goodputs(&runs[at]).iter().sum::<f64>() / 16.0);
    assert_eq!(runs[0].flows.len(), 16);
    assert!(multipath > 1.15 * tcp && multipath < payload(100.0), "{tcp} {multipath}");
}

#[test]
fn flows_take_the_explicit_route() {
    let text = |route: &str| {
        format!(
            "schedulers = ['tcp']
             node = [{{ name = 'a' }}, {{ name = 'b' }}, {{ name = 'r', kind = 'router' }}, {{ name = 's', kind = 'router' }}]
             link = [{{ from = 'a', to = 'r', rate = '50 Mbit/s', delay = '1 ms' }},
                {{ from = 'r', to = 'b', rate = '1 Mbit/s', delay = '1 ms' }},
                {{ from = 'r', to = 's', rate = '50 Mbit/s', delay = '1 ms' }},
                {{ from = 's', to = 'b', rate = '10 Mbit/s', delay = '1 ms' }}]
             {route}\ntraffic = {{ from = 'b', to = 'a', size = 'bulk', duration = '5 s' }}"
        )
    };
    let goodput = |route: &str| goodputs(&runs(&scenario(&text(route)))[0])[0];
    let (short, long) = (goodput(""), goodput("route = [{ from = 'a', to = 'b', via = ['r', 's'] }]"));
    assert!(short < payload(1.0) && long > 0.9 * payload(10.0), "{short} {long}");
    let by_links = "route = [{ from = 'b', to = 'a', links = ['s-b', 'r-s', 'a-r'] }]";
    assert_eq!(goodput(by_links), long);
    // The data alone: acknowledgements go the short way.
    let one_way = goodput("route = [{ from = 'b', to = 'a', via = ['s', 'r'], one-way = true }]");
    assert!(one_way > 0.9 * payload(10.0) && one_way != long, "{one_way}");
}

/// A corrupted packet crosses all links, and the receiver's checksum rejects it.
#[test]
fn corruption_uses_the_link_and_is_a_loss_to_the_receiver() {
    let text = "schedulers = ['tcp']\ncongestion = 'bbr'
        node = [{ name = 'a' }, { name = 'b' }, { name = 'r', kind = 'router' }]
        link = [{ name = 'first', from = 'a', to = 'r', rate = '20 Mbit/s', delay = '2 ms', corrupt = '1%' },
            { name = 'second', from = 'r', to = 'b', rate = '40 Mbit/s', delay = '2 ms' }]
        traffic = { from = 'a', to = 'b', size = '20 MB', direction = 'upload' }";
    let run = &runs(&scenario(text))[0];
    let (flow, counters) =
        (&run.flows[0], |name: &str| run.links.iter().find(|link| link.name == name).unwrap().counters);
    let (first, second) = (counters("first"), counters("second"));
    let share = first.effect(Effect::Corrupted).packets as f64 / first.offered.packets as f64;
    assert!((0.008..0.012).contains(&share), "{share}");
    assert_eq!(second.effect(Effect::Corrupted).packets, 0);
    // Nothing is lost on a link beside full queues, and all that was damaged had to be sent again.
    assert_eq!((first.dropped() + second.dropped()).packets, first.dropped_queue.packets);
    assert_eq!(first.delivered.packets, second.offered.packets);
    let lost = first.effect(Effect::Corrupted).packets + first.dropped_queue.packets;
    let again = flow.report.retransmitted_segments;
    assert!(
        flow.report.fct.is_some() && again + 20 >= lost && again <= lost + lost / 5 + 20,
        "{again} {lost}"
    );
}

/// A link of an asymmetric path gives what the path gives, and each direction its own counters.
#[test]
fn the_directions_of_a_link_may_differ() {
    let rest = "schedulers = ['tcp']\ntraffic = { size = '1 MB', direction = 'download'";
    let settings = |one: &str, other: &str| {
        format!(
            "rate = {{ {one} = '20 Mbit/s', {other} = '1 Mbit/s' }}, delay = {{ {one} = '10 ms', {other} = '30 ms' }}, \
             queue = {{ {one} = '40 packets', {other} = '9 packets' }}, loss = {{ {one} = '1%', {other} = '2%' }}, \
             aqm = {{ {one} = 'codel' }}, change = [{{ at = '200 ms', rate = {{ {one} = '5 Mbit/s' }} }}]"
        )
    };
    let path = format!("path = [{{ name = 'x', {} }}]\n{rest} }}", settings("down", "up"));
    let graph = format!(
        "node = [{{ name = 'client' }}, {{ name = 'server' }}]
         link = [{{ name = 'x', from = 'server', to = 'client', {} }}]\n{rest}, from = 'server', to = 'client' }}",
        settings("forth", "back")
    );
    let links = |text: &str| {
        let experiment = scenario(text).conditions[0].experiment.clone();
        let mut links: Vec<_> = experiment.graph.links.into_iter().map(|link| link.config).collect();
        // The BDP of a graph's link is that of the longest path.
        links.iter_mut().for_each(|config| config.rtt = None);
        links
    };
    let (paths, graphs) = (links(&path), links(&graph));
    // Paths list the direction up first.
    assert_eq!((&paths[1], &paths[0]), (&graphs[0], &graphs[1]));
    assert_ne!(graphs[0], graphs[1]);
    assert_eq!(
        scenario(&graph).conditions[0].experiment.rtt(0),
        scenario(&path).conditions[0].experiment.rtt(0)
    );
    let run = &runs(&scenario(&graph))[0];
    let of = |name: &str| run.links.iter().find(|link| link.name == name).unwrap().counters;
    assert!(of("x").delivered.bytes > 1_000_000 && of("x.back").delivered.bytes < 100_000);
}

#[test]
fn a_direction_that_a_link_does_not_have_is_an_error() {
    let error = |rest: &str| {
        let text = format!(
            "node = [{{ name = 'a' }}, {{ name = 'b' }}]\n\
             link = [{{ from = 'a', to = 'b', rate = '9 Mbit/s', delay = '9 ms', {rest} }}]\ntraffic = {{ from = 'a', to = 'b' }}"
        );
        Document::built_in("test", text).unwrap().scenario().unwrap_err().to_string()
    };
    assert!(error("queue = { up = '1 BDP' }").contains("a link has no direction `up`"));
    assert!(error("queue = { forth = '1 BDP', down = '1 BDP' }").contains("a link has no direction `down`"));
    assert!(error("backup = { forth = true }").contains("one value for both directions"));
    assert!(error("duplex = false, loss = { back = '1%' }").contains("none back"));
}
