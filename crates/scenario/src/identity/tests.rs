//! Tests that every key of a scenario is in the canonical form, and that one with its default is not.

use std::collections::BTreeMap;

use anabranch_stack::parameter::{Domain, Numbers, Value};
use anabranch_stack::scheduler::SchedulerKind;

use super::form::{PARAMETERS, SETTINGS};
use super::*;
use crate::read::{Document, path, phases, scenario, traffic};

const BASE: &str = "
    schedulers = ['tcp', 'min_rtt']
    traffic = {}
    [[path]]
    name = 'wifi'
    rate = '50 Mbit/s'
    rtt = '20 ms'
    [[path]]
    rate = '10 Mbit/s'
    rtt = '60 ms'
";

/// Returns the base scenario with assignments, if it is valid.
fn with(assignments: &[&str]) -> Option<Scenario> {
    let mut document = Document::built_in("test", BASE).ok()?;
    for assignment in assignments {
        document.set(assignment).ok()?;
    }
    document.scenario().ok()
}

/// Returns the same, which must be valid.
fn valid(assignments: &[&str]) -> Scenario {
    with(assignments).unwrap_or_else(|| panic!("{assignments:?} is no scenario"))
}

/// An example for a key of a scenario: required other keys, its default, and another value.
struct Example {
    needs: &'static [&'static str],
    default: Option<&'static str>,
    other: &'static str,
}

const fn example(default: &'static str, other: &'static str) -> Example {
    Example { needs: &[], default: Some(default), other }
}

const fn without_default(other: &'static str) -> Example {
    Example { needs: &[], default: None, other }
}

/// Returns the example of a key. Every key must have one, and with it a place in the form.
fn example_of(key: &str) -> Example {
    match key {
        "profile" => example("profile=linux", "profile=ns3"),
        "congestion" => example("congestion=cubic_linux", "congestion=olia"),
        "schedulers" => example("schedulers=tcp,min_rtt", "schedulers=tcp,blest"),
        "scheduler" => Example {
            needs: &["schedulers=blest"],
            default: Some("scheduler.blest.lambda=profile"),
            other: "scheduler.blest.lambda=1.5",
        },
        "phases" => without_default("phases=false"),
        "deadline" => example("deadline=60s", "deadline=61s"),
        "initial" => example("initial=1", "initial=2"),
        "ipv6" => example("ipv6=false", "ipv6=true"),
        "topology" => example("topology={ kind = 'disjoint' }", SHARED),
        "condition" => without_default("condition=[{ name = 'other', deadline = '9 s' }]"),
        "phases.start" => Example {
            needs: &["phases=true"],
            ..example("phases={ start = '500 us' }", "phases={ start = '1 us' }")
        },
        "phases.join" => Example {
            needs: &["phases=true"],
            ..example("phases={ join = '200 us' }", "phases={ join = '1 us' }")
        },
        "phases.delay" => Example {
            needs: &["phases=true"],
            ..example("phases={ delay = '100 us' }", "phases={ delay = '1 us' }")
        },
        "phases.jitter" => Example {
            needs: &["phases=true"],
            ..example("phases={ jitter = '20 us' }", "phases={ jitter = '1 us' }")
        },
        "phases.traces" => Example {
            needs: &["phases=true"],
            ..example("phases={ traces = true }", "phases={ traces = false }")
        },
        "topology.kind" => example("topology={ kind = 'disjoint' }", SHARED),
        "topology.rate" => Example { needs: &[SHARED], ..without_default("topology.rate=9 Mbit/s") },
        "topology.rtt" => Example { needs: &[SHARED], ..example("topology.rtt=0s", "topology.rtt=1 ms") },
        "topology.queue" => {
            Example { needs: &[SHARED], ..example("topology.queue=1 BDP", "topology.queue=9 packets") }
        }
        "topology.ecn-threshold" => {
            Example { needs: &[SHARED], ..without_default("topology.ecn-threshold=5 packets") }
        }
        "topology.loss" => Example { needs: &[SHARED], ..example("topology.loss=0", "topology.loss=1%") },
        "traffic.size" => example("traffic.size=web", "traffic.size=1 MB"),
        "traffic.max" => without_default("traffic.max=1 MB"),
        "traffic.flows" => example("traffic.flows=1", "traffic.flows=2"),
        "traffic.start" => example("traffic.start=0s", "traffic.start=1s"),
        "traffic.starts" => without_default("traffic.starts=['0 s', '1 s']"),
        "traffic.load" => without_default("traffic.load=50%"),
        "traffic.direction" => example("traffic.direction=download", "traffic.direction=upload"),
        "traffic.duration" => Example {
            needs: &["traffic.size=bulk"],
            ..example("traffic.duration=10s", "traffic.duration=9s")
        },
        "traffic.size-known" => example("traffic.size-known=true", "traffic.size-known=false"),
        "traffic.every" => without_default("traffic.every=200 ms"),
        "traffic.background" => without_default("traffic.background=[{ path = 1 }]"),
        "traffic.beside" => without_default("traffic.beside={ flows = 2 }"),
        "path.name" => without_default("path.wifi.name=lan"),
        "path.rate" => without_default("path.wifi.rate=51Mbit/s"),
        "path.trace" | "path.trace-start" => without_default(""),
        "path.rtt" => without_default("path.wifi.rtt=21ms"),
        "path.queue" => example("path.wifi.queue=1 BDP", "path.wifi.queue=1.5 BDP"),
        "path.ecn-threshold" => without_default("path.wifi.ecn-threshold=1500 packets"),
        "path.loss" => example("path.wifi.loss=0", "path.wifi.loss=1%"),
        "path.loss-up" => example("path.wifi.loss-up=0", "path.wifi.loss-up=1%"),
        "path.gilbert-elliott" => without_default(
            "path.wifi.gilbert-elliott={ mean-good = '1 s', mean-bad = '1 ms', loss-bad = 1 }",
        ),
        "path.jitter" => without_default("path.wifi.jitter=3ms"),
        "path.reorder" => without_default("path.wifi.reorder={ probability = '1%', extra = '5 ms' }"),
        "path.duplicate" => example("path.wifi.duplicate=0", "path.wifi.duplicate=1%"),
        "path.drop" => example("path.wifi.drop=[]", "path.wifi.drop=[3, 5]"),
        "path.loss-draws" => example("path.wifi.loss-draws=separate", "path.wifi.loss-draws=shared"),
        "path.when-down" => example("path.wifi.when-down=drop", "path.wifi.when-down=keep"),
        "path.mtu" => without_default("path.wifi.mtu=1500 B"),
        "path.mtu-reports" => Example {
            needs: &["path.wifi.mtu=1400 B"],
            ..example("path.wifi.mtu-reports=true", "path.wifi.mtu-reports=false")
        },
        "path.backup" => example("path.wifi.backup=false", "path.wifi.backup=true"),
        "path.strip" => without_default("path.wifi.strip=mptcp"),
        "path.mss-clamp" => without_default("path.wifi.mss-clamp=1360"),
        "path.nat-timeout" => without_default("path.wifi.nat-timeout=30 s"),
        "path.nat-resets" => Example {
            needs: &["path.wifi.nat-timeout=30 s"],
            ..example("path.wifi.nat-resets=false", "path.wifi.nat-resets=true")
        },
        "path.overhead" => example("path.wifi.overhead=0 B", "path.wifi.overhead=60 B"),
        "path.proxy" => without_default("path.wifi.proxy=1 ms"),
        "path.repeat-after" => without_default("path.wifi.repeat-after=60 ms"),
        "path.corrupt" => example("path.wifi.corrupt=0", "path.wifi.corrupt=1%"),
        "path.preset" => without_default(""),
        "path.delay" => without_default(
            "path=[{ rate = '50 Mbit/s', delay = '9 ms' }, { rate = '10 Mbit/s', rtt = '60 ms' }]",
        ),
        "path.aqm" => example("path.wifi.aqm=drop-tail", "path.wifi.aqm=codel"),
        "path.policer" => without_default("path.wifi.policer={ rate = '9 Mbit/s', burst = '30 KB' }"),
        "path.shaper" => without_default("path.wifi.shaper={ rate = '9 Mbit/s', burst = '30 KB' }"),
        "path.cross-traffic" => without_default("path.wifi.cross-traffic={ rate = '9 Mbit/s' }"),
        "path.redraw" => without_default("path.wifi.redraw={ every = '1 s', rate = ['9 Mbit/s'] }"),
        "topology.aqm" => {
            Example { needs: &[SHARED], ..example("topology.aqm=drop-tail", "topology.aqm=codel") }
        }
        "path.quota" => without_default("path.wifi.quota=1 GB"),
        "path.over-quota" => Example {
            needs: &["path.wifi.quota=1 GB"],
            ..example("path.wifi.over-quota=report", "path.wifi.over-quota=backup")
        },
        "path.price" => example("path.wifi.price=0", "path.wifi.price=0.5"),
        "path.budget" => Example { needs: &["path.wifi.price=2"], ..without_default("path.wifi.budget=5") },
        "client" => without_default("client={ limits = { subflows = 2 } }"),
        "server" => without_default("server={ address = [{}, { paths = [1] }] }"),
        "path.endpoint" => without_default("path.wifi.endpoint=fullmesh"),
        "path.change" => without_default("path.wifi.change=[{ at = '1 s', rate = '2 Mbit/s' }]"),
        "path.change-every" => Example {
            needs: &["path.wifi.change=[{ at = '1 s', loss = '2 %' }]"],
            ..without_default("path.wifi.change-every=1000 s")
        },
        other => panic!("`{other}` has no example here"),
    }
}

const SHARED: &str = "topology={ kind = 'shared', rate = '40 Mbit/s' }";

/// The keys of a scenario that do not belong to the experiment, with an example of each.
const LEFT_OUT: &[(&str, &str)] = &[
    ("name", "name=other"),
    ("description", "description=other"),
    ("runs", "runs=3"),
    ("precision", "precision=3%"),
    ("seed", "seed=9"),
    ("reference", "reference=min_rtt"),
    ("min-effect", "min-effect=2%"),
    ("other-starts", "other-starts=false"),
];

/// Returns all keys outside `[connection]`, dotted.
fn keys() -> Vec<String> {
    // These have keys of their own, which follow.
    let tables = ["path", "traffic", "connection", "node", "link", "route"];
    let top = scenario::KEYS.iter().filter(|key| !tables.contains(key)).map(|key| (*key).to_owned());
    let of = |table: &'static str, keys: &'static [&'static str]| {
        keys.iter().map(move |key| format!("{table}.{key}"))
    };
    let left_out = |key: &String| LEFT_OUT.iter().any(|(left, _)| left == key);
    top.filter(|key| !left_out(key))
        .chain(of("path", path::KEYS))
        .chain(of("topology", &["kind", "rate", "rtt", "queue", "ecn-threshold", "aqm", "loss"]))
        .chain(of("traffic", traffic::KEYS))
        // Those of graphs have a separate test.
        .filter(|key| !["traffic.from", "traffic.to", "traffic.pattern"].contains(&key.as_str()))
        .chain(of("phases", phases::KEYS))
        .collect()
}

#[test]
fn every_key_of_a_scenario_changes_the_hash_and_its_default_does_not() {
    let mut seen: BTreeMap<String, String> = BTreeMap::new();
    for key in keys() {
        let Example { needs, default, other } = example_of(&key);
        if other.is_empty() {
            continue; // Traces, below; a preset is the same as its keys.
        }
        let plain = valid(needs).hash();
        if let Some(default) = default {
            assert_eq!(valid(&[needs, &[default]].concat()).hash(), plain, "{default}");
        }
        let hash = valid(&[needs, &[other]].concat()).hash();
        assert_ne!(hash, plain, "{other}");
        let before = seen.insert(hash, key.clone());
        assert!(before.is_none() || key == "topology.kind", "{key} and {before:?}");
    }
    let plain = valid(&[]).hash();
    for (key, assignment) in LEFT_OUT {
        assert!(scenario::KEYS.contains(key), "{key}");
        assert_eq!(valid(&[assignment]).hash(), plain, "{key}");
    }
}

/// The keys of tables inside of a path, of a change and of traffic.
#[test]
fn every_part_of_a_value_changes_the_hash() {
    let groups: &[&[&str]] = &[
        &[
            "path.wifi.gilbert-elliott={ mean-good = '1 s', mean-bad = '1 ms', loss-bad = 1 }",
            "path.wifi.gilbert-elliott={ mean-good = '2 s', mean-bad = '1 ms', loss-bad = 1 }",
            "path.wifi.gilbert-elliott={ mean-good = '1 s', mean-bad = '2 ms', loss-bad = 1 }",
            "path.wifi.gilbert-elliott={ mean-good = '1 s', mean-bad = '1 ms', loss-bad = 0.5 }",
            "path.wifi.gilbert-elliott={ mean-good = '1 s', mean-bad = '1 ms', loss-bad = 1, loss-good = 0.1 }",
        ],
        &[
            "path.wifi.jitter=3 ms",
            "path.wifi.jitter=4 ms",
            "path.wifi.jitter={ max = '3 ms', reorder = true }",
            "path.wifi.jitter={ mean = '3 ms', deviation = '1 ms' }",
            "path.wifi.jitter={ mean = '4 ms', deviation = '1 ms' }",
            "path.wifi.jitter={ mean = '3 ms', deviation = '2 ms' }",
            "path.wifi.jitter={ mean = '3 ms', deviation = '1 ms', reorder = true }",
        ],
        &[
            "path.wifi.reorder={ probability = '1%', extra = '5 ms' }",
            "path.wifi.reorder={ probability = '2%', extra = '5 ms' }",
            "path.wifi.reorder={ probability = '1%', extra = '6 ms' }",
        ],
        &[
            "path.wifi.change=[{ at = '1 s', rate = '2 Mbit/s' }]",
            "path.wifi.change=[{ at = '2 s', rate = '2 Mbit/s' }]",
            "path.wifi.change=[{ at = '1 s', rate = '3 Mbit/s' }]",
            "path.wifi.change=[{ at = '1 s', rtt = '2 ms' }]",
            "path.wifi.change=[{ at = '1 s', loss = 0.1 }]",
            "path.wifi.change=[{ at = '1 s', loss-up = 0.1 }]",
            "path.wifi.change=[{ at = '1 s', up = true }]",
            "path.wifi.change=[{ at = '1 s', down = true }]",
            "path.wifi.change=[{ at = '1 s', loss = 0 }]",
            "path.wifi.change=[{ at = '1 s', loss = 0 }, { at = '1 s', up = true }]",
        ],
        &[
            "path.wifi.aqm=codel",
            "path.wifi.aqm={ kind = 'codel', target = '6 ms' }",
            "path.wifi.aqm={ kind = 'codel', interval = '90 ms' }",
            "path.wifi.aqm={ kind = 'codel', ecn = false }",
            "path.wifi.aqm=fq-codel",
            "path.wifi.aqm={ kind = 'fq-codel', queues = 7 }",
            "path.wifi.aqm={ kind = 'fq-codel', quantum = '300 B' }",
            "path.wifi.aqm={ kind = 'fq-codel', target = '6 ms' }",
            "path.wifi.aqm=red",
            "path.wifi.aqm={ kind = 'red', min = '4 packets' }",
            "path.wifi.aqm={ kind = 'red', max = '14 packets' }",
            "path.wifi.aqm={ kind = 'red', probability = 0.1 }",
            "path.wifi.aqm={ kind = 'red', weight = 0.1 }",
            "path.wifi.aqm={ kind = 'red', gentle = false }",
            "path.wifi.aqm={ kind = 'red', ecn = false }",
            "path.wifi.aqm={ down = 'codel' }",
            "path.wifi.aqm={ up = 'codel' }",
        ],
        &[
            "path.wifi.strip=mptcp",
            "path.wifi.strip=mptcp-syn",
            "path.wifi.strip=mptcp-syn-ack",
            "path.wifi.strip=mptcp-data",
            "path.wifi.nat-timeout=30 s",
            "path.wifi.nat-timeout=31 s",
            "path.wifi.proxy=1 ms",
            "path.wifi.proxy=2 ms",
            "path.wifi.repeat-after=60 ms",
            "path.wifi.repeat-after={ down = '60 ms' }",
        ],
        &[
            "path.wifi.policer={ rate = '9 Mbit/s', burst = '30 KB' }",
            "path.wifi.policer={ rate = '8 Mbit/s', burst = '30 KB' }",
            "path.wifi.policer={ rate = '9 Mbit/s', burst = '31 KB' }",
            "path.wifi.policer={ acks = { rate = '9 Mbit/s', burst = '31 KB' } }",
            "path.wifi.shaper={ rate = '9 Mbit/s', burst = '30 KB' }",
            "path.wifi.shaper={ rate = '8 Mbit/s', burst = '30 KB' }",
            "path.wifi.shaper={ rate = '9 Mbit/s', burst = '31 KB' }",
        ],
        &[
            "path.wifi.cross-traffic={ rate = '9 Mbit/s' }",
            "path.wifi.cross-traffic={ rate = '8 Mbit/s' }",
            "path.wifi.cross-traffic={ rate = '9 Mbit/s', packet = '500 B' }",
            "path.wifi.cross-traffic={ rate = '9 Mbit/s', from = '1 s' }",
            "path.wifi.cross-traffic={ rate = '9 Mbit/s', until = '2 s' }",
            "path.wifi.cross-traffic=[{ rate = '9 Mbit/s' }, { rate = '9 Mbit/s' }]",
            "path.wifi.cross-traffic={ up = { rate = '9 Mbit/s' } }",
        ],
        &[
            "path.wifi.redraw={ every = '1 s', rate = ['9 Mbit/s'] }",
            "path.wifi.redraw={ every = '2 s', rate = ['9 Mbit/s'] }",
            "path.wifi.redraw={ every = '1 s', rate = ['9 Mbit/s', '8 Mbit/s'] }",
            "path.wifi.redraw={ every = '1 s', rate = ['9 Mbit/s'], from = '1 s' }",
            "path.wifi.redraw={ every = '1 s', rate = ['9 Mbit/s'], until = '9 s' }",
            "path.wifi.redraw={ every = '1 s', rtt = { deviation = '40%' } }",
            "path.wifi.redraw={ every = '1 s', rtt = { deviation = '7 ms' } }",
            "path.wifi.redraw={ every = '1 s', rtt = { mean = '30 ms', deviation = '7 ms' } }",
        ],
        &[
            "path.wifi.rate={ down = '9 Mbit/s', up = '8 Mbit/s' }",
            "path.wifi.rate={ down = '9 Mbit/s', up = '7 Mbit/s' }",
            "path.wifi.rate={ acks = '9 Mbit/s', data = '8 Mbit/s' }",
            "path.wifi.queue={ up = '9 packets' }",
            "path.wifi.queue={ down = '9 packets' }",
            "path.wifi.ecn-threshold={ up = '9 packets' }",
            "path.wifi.when-down={ up = 'keep' }",
            "path.wifi.mtu={ up = '1000 B' }",
            "path.wifi.loss={ up = '1%' }",
            "path.wifi.jitter={ up = '1 ms' }",
            "path.wifi.jitter={ up = '1 ms', down = '1 ms' }",
            "path.wifi.duplicate={ up = '1%' }",
            "path.wifi.gilbert-elliott={ up = { mean-good = '1 s', mean-bad = '1 ms', loss-bad = 1 } }",
        ],
        &[
            "path.wifi.change=[{ at = '1 s', rate = { down = '2 Mbit/s' } }]",
            "path.wifi.change=[{ at = '1 s', rate = { data = '2 Mbit/s', acks = '3 Mbit/s' } }]",
            "path.wifi.change=[{ at = '1 s', delay = { up = '2 ms', down = '3 ms' } }]",
            "path.wifi.change=[{ at = '1 s', down = { data = true } }]",
            "path.wifi.change=[{ at = '1 s', down = { acks = true } }]",
        ],
        &[
            "path.wifi.queue=1 packet",
            "path.wifi.queue=1 ms",
            "path.wifi.queue=1500 B",
            "path.wifi.queue=unlimited",
        ],
        &[
            "traffic.background=[{ path = 1 }]",
            "traffic.background=[{ path = 2 }]",
            "traffic.background=[{ path = 1, flows = 2 }]",
            "traffic.background=[{ path = 1, start = '1 s' }]",
            "traffic.background=[{ path = 1 }, { path = 1 }]",
        ],
        &[
            "traffic.beside={ flows = 2 }",
            "traffic.beside={ flows = 3 }",
            "traffic.beside={ flows = 2, path = 1 }",
            "traffic.beside={ flows = 2, congestion = 'cubic' }",
            "traffic.beside={ flows = 2, congestion = 'vegas' }",
            "traffic.beside={ flows = 2, congestion = 'vegas:alpha=3' }",
            "traffic.beside={ flows = 2, name = 'a' }",
            "traffic.beside=[{ flows = 2, name = 'a' }, { flows = 2, name = 'b' }]",
            "traffic.beside=[{ flows = 2, name = 'a' }, { flows = 2, name = 'b', congestion = 'cubic' }]",
        ],
        &[
            "path.wifi.quota=1 GB",
            "path.wifi.quota=2 GB",
            "path.wifi.quota={ up = '1 GB' }",
            "path.wifi.quota={ down = '1 GB' }",
            "path.wifi.quota={ up = '1 GB', down = '1 GB' }",
            "path.wifi.price=0.5",
            "path.wifi.price={ up = 0.5 }",
            "path.wifi.price={ down = 0.5 }",
        ],
        &[
            "server={}",
            "client={ limits = { subflows = 2 } }",
            "client={ limits = { add-addr-accepted = 2 } }",
            "server={ limits = { subflows = 2 } }",
            "server={ address = [{}, {}] }",
            "server={ address = [{}, { paths = [1] }] }",
            "server={ address = [{}, { paths = [] }] }",
            "server={ address = [{}, { paths = [1, 2] , signal = false }] }",
            "server={ address = [{}, { backup = true }] }",
            "server={ address = [{}, { removed-at = '1 s' }] }",
            "server={ address = [{}, { removed-at = '1 s', added-at = '2 s' }] }",
        ],
        &["traffic.load=50%", "traffic.load=60%"],
        &["traffic.starts=['1 s', '2 s']", "traffic.starts=['1 s', '3 s']"],
        &["schedulers=tcp", "schedulers=tcp@1", "schedulers=tcp@2"],
        &[
            "traffic.size=1 MB",
            "traffic.size=2 MB",
            "traffic.size=web",
            "traffic.size=bulk",
            "traffic.size=web-search",
            "traffic.size=data-mining",
            "traffic.size={ distribution = 'uniform', min = '1 KB', max = '2 KB' }",
            "traffic.size={ distribution = 'exponential', mean = '2 KB' }",
            "traffic.size={ distribution = 'pareto', shape = 1.5, min = '2 KB' }",
            "traffic.size={ distribution = 'pareto', shape = 1.5, min = '2 KB', max = '3 KB' }",
            "traffic.size={ distribution = 'log-normal', median = '2 KB', sigma = 1 }",
            "traffic.size={ distribution = 'log-normal', median = '2 KB', sigma = 2 }",
            "traffic.size={ distribution = 'sequence', values = ['2 KB', '3 KB'] }",
            "traffic.size={ distribution = 'sequence', values = ['3 KB', '2 KB'] }",
        ],
        &[
            "traffic.every=1 s",
            "traffic.every=2 s",
            "traffic.every={ distribution = 'exponential', mean = '1 s' }",
        ],
    ];
    for group in groups {
        let mut hashes: Vec<String> = group.iter().map(|assignment| valid(&[assignment]).hash()).collect();
        hashes.sort();
        hashes.dedup();
        assert_eq!(hashes.len(), group.len(), "{group:?}");
    }
}

/// Returns a graph with one thing changed: the text of its middle link, of routes, and of the traffic.
fn graph(link: &str, more: &str, traffic: &str) -> String {
    format!(
        "node = [{{ name = 'a' }}, {{ name = 'b' }}, {{ name = 'c' }}, {{ name = 'r', kind = 'router' }},
            {{ name = 's', kind = 'router' }}]
         link = [
            {{ from = 'a', to = 'r', rate = '9 Mbit/s', delay = '1 ms' }},
            {{ from = 'r', to = 'b', rate = '9 Mbit/s', delay = '1 ms' {link} }},
            {{ from = 'a', to = 's', rate = '9 Mbit/s', delay = '1 ms' }},
            {{ from = 's', to = 'b', rate = '9 Mbit/s', delay = '1 ms' }},
            {{ from = 's', to = 'r', rate = '9 Mbit/s', delay = '1 ms' }},
            {{ from = 'c', to = 's', rate = '9 Mbit/s', delay = '1 ms' }} ]
         {more}
         traffic = {{ size = '1 MB', {traffic} }}"
    )
}

#[test]
fn every_part_of_a_graph_changes_the_hash() {
    let usual = "from = 'b', to = 'a'";
    let links = [
        "",
        ", queue = '9 packets'",
        ", aqm = 'codel'",
        ", policer = { rate = '1 Mbit/s', burst = '9 KB' }",
        ", shaper = { rate = '1 Mbit/s', burst = '9 KB' }",
        ", cross-traffic = { rate = '1 Mbit/s' }",
        ", redraw = { every = '1 s', delay = { deviation = '10%' } }",
        ", redraw = { every = '1 s', rate = ['1 Mbit/s'] }",
        ", ecn-threshold = '9 packets'",
        ", loss = '1%'",
        ", jitter = '1 ms'",
        ", reorder = { probability = '1%', extra = '1 ms' }",
        ", duplicate = '1%'",
        ", drop = [1]",
        ", corrupt = '1%'",
        ", loss-draws = 'shared'",
        ", when-down = 'keep'",
        ", mtu = '1400 B'",
        ", change = [{ at = '1 s', delay = '2 ms' }]",
        ", change = [{ at = '1 s', rate = '2 Mbit/s' }]",
        ", duplex = false }, { from = 'b', to = 'r', rate = '8 Mbit/s', delay = '1 ms'",
        ", name = 'other'",
    ];
    let routes = [
        "route = [{ from = 'a', to = 'b', via = ['r', 's'] }]",
        "route = [{ from = 'a', to = 'b', via = ['s', 'r'] }]",
        "route = [{ from = 'a', to = 'b', via = ['s', 'r'], one-way = true }]",
        "route = [{ from = 'a', to = 'b', via = ['s', 'r'] }, { from = 'a', to = 'b', via = 's' }]",
    ];
    let traffic = [
        "from = 'a', to = 'b'",
        "from = 'b', to = 'a', flows = 2",
        "from = ['b', 'c'], to = 'a'",
        "pattern = 'incast', to = 'a', flows = 3",
        "pattern = 'permutation', flows = 4",
        "from = 'b', to = 'a', background = { from = 'b', to = 'c' }",
        "from = 'b', to = 'a', beside = { flows = 1, from = 'c', to = 'b' }",
    ];
    let texts = links.iter().map(|link| graph(link, "", usual));
    let texts = texts.chain(routes.iter().map(|route| graph("", route, usual)));
    let mut texts: Vec<String> = texts.chain(traffic.iter().map(|traffic| graph("", "", traffic))).collect();
    texts.push(
        graph("", "", usual).replace("{ from = 'a', to = 's',", "{ from = 'a', to = 's', backup = true,"),
    );
    for kind in [
        "kind = 'dumbbell', rate = '9 Mbit/s', delay = '1 ms'",
        "kind = 'dumbbell', rate = '9 Mbit/s', delay = '1 ms', hosts = 3",
        "kind = 'dumbbell', rate = '9 Mbit/s', delay = '1 ms', access-rate = '1 Mbit/s'",
        "kind = 'dumbbell', rate = '9 Mbit/s', delay = '1 ms', access-delay = '2 ms'",
        "kind = 'fat-tree', rate = '9 Mbit/s', delay = '1 ms', k = 4",
        "kind = 'fat-tree', rate = '9 Mbit/s', delay = '1 ms', k = 6",
        "kind = 'fat-tree', rate = '9 Mbit/s', delay = '2 ms', k = 4",
    ] {
        texts.push(format!("topology = {{ {kind} }}"));
    }
    let hash = |text: &String| {
        let scenario = Document::built_in("test", text.as_str()).unwrap().scenario();
        scenario.unwrap_or_else(|error| panic!("{error}\n{text}")).hash()
    };
    let mut hashes: BTreeMap<String, &String> = BTreeMap::new();
    for text in &texts {
        if let Some(before) = hashes.insert(hash(text), text) {
            panic!("one hash for\n{before}\nand\n{text}");
        }
    }
}

#[test]
fn traces_are_named_by_their_contents() {
    let hash = |path: &str| {
        let text = format!("[[path]]\nrtt = '20 ms'\n{path}");
        Document::built_in("test", text).unwrap().scenario().unwrap().hash()
    };
    let (down, up) = ("traces/synthetic-lte.down", "traces/synthetic-lte.up");
    let texts = [
        format!("trace = '{down}'"),
        format!("trace = '{up}'"),
        format!("trace = {{ down = '{down}', up = '{up}' }}"),
        format!("trace = '{down}'\ntrace-start = 'random'"),
        format!("trace = '{down}'\ntrace-start = 'together'"),
        format!("trace = '{down}'\ntrace-start = '1 s'"),
    ];
    let mut hashes: Vec<String> = texts.iter().map(|text| hash(text)).collect();
    assert_eq!(hash(&format!("trace = {{ down = '{down}', up = '{down}' }}")), hashes[0]);
    hashes.sort();
    hashes.dedup();
    assert_eq!(hashes.len(), texts.len());
}

/// Values for settings of a connection; values of choices come from their domains.
const CANDIDATES: &[&str] = &[
    "true",
    "false",
    "1",
    "2",
    "7",
    "100",
    "1300",
    "3000",
    "300 ms",
    "7 s",
    "2 MB",
    "none",
    "full_mesh",
    "n_diff_ports:2",
    "{ initial = \"20 KB\", max = \"1 MB\" }",
    "{ isn = 1, initiator = 2, listener = 3 }",
];

#[test]
fn every_setting_of_a_connection_changes_the_hash_where_it_changes_the_value() {
    for knob in knobs::ALL.iter() {
        let mut changed = 0;
        let words = match knob.domain() {
            Some(Domain::Choice(words)) => words,
            _ => CANDIDATES,
        };
        for profile in ["profile=linux", "profile=ns3"] {
            let plain = valid(&[profile]);
            let shown = |scenario: &Scenario| {
                let all = scenario.conditions[0].configs.iter();
                all.map(|config| knob.value(config)).collect::<Vec<_>>()
            };
            for value in words {
                let Some(other) = with(&[profile, &format!("{}={value}", knob.name)]) else { continue };
                let same = shown(&other) == shown(&plain);
                changed += u32::from(!same);
                assert!(same || other.hash() != plain.hash(), "{} = {value}", knob.name);
            }
        }
        assert!(changed > 0, "no candidate is another value of {}", knob.name);
    }
}

/// Returns a value of `domain` that is not `value`.
fn another(domain: &Domain, value: &Value) -> Value {
    let candidates = match *domain {
        Domain::Bool => [Value::Bool(true), Value::Bool(false)],
        Domain::Integer(low, high) | Domain::OpenInteger(low, high, _) => [low, high].map(Value::Integer),
        Domain::Number(low, high) | Domain::OpenNumber(low, high, _) => [low, high].map(Value::Number),
        Domain::Time(low, high) | Domain::OpenTime(low, high, _) => [low, high].map(Value::Time),
        Domain::Choice(_) => [0, 1].map(Value::Choice),
        Domain::Buffer(low, high) | Domain::OpenBuffer(low, high, _) => [low, high].map(Value::Size),
        Domain::Numbers(low, high) => {
            [low, high].map(|number| Value::Numbers(Numbers::new(&[number]).expect("one is not too many")))
        }
    };
    candidates.into_iter().find(|other| other != value).expect("a domain has two values")
}

fn every_parameter_is_written<K: Parameterised>(kinds: &[K], name: impl Fn(&K) -> String) {
    let text = |kind: &K| {
        let mut form = Canonical::new();
        write_algorithm(&mut form, "algorithm", &name(kind), kind);
        form.text
    };
    for kind in kinds {
        let plain = text(kind);
        for (spec, value) in kind.parameters() {
            let mut other = kind.clone();
            assert!(
                other.set_parameter(spec.name, another(&spec.domain, &value)),
                "{} {}",
                name(kind),
                spec.name
            );
            assert_ne!(text(&other), plain, "{} {}", name(kind), spec.name);
        }
        // One line for the name: no parameter at its default is written.
        assert_eq!(plain.lines().count(), 2, "{plain}");
    }
}

#[test]
fn every_parameter_of_an_algorithm_is_written_where_it_has_not_its_default() {
    every_parameter_is_written(&SchedulerKind::ALL, |kind| kind.name().to_owned());
    every_parameter_is_written(&CongestionKind::ALL, |kind| kind.name().to_owned());
}

/// Writes the form as if an option did not exist, and with it: each row of the defaults in turn.
#[test]
fn an_option_that_comes_with_its_old_behaviour_changes_no_hash() {
    let without = |text: &str, key: &str| {
        let line = format!("{key} = ");
        text.lines().filter(|own| !own.starts_with(&line)).map(|own| format!("{own}\n")).collect::<String>()
    };
    for profile in ["profile=linux", "profile=ns3"] {
        let scenario = valid(&[profile, "schedulers=min_rtt,blest,dmptcp", SHARED]);
        let text = scenario.canonical();
        for (key, ..) in SETTINGS {
            let before: Vec<_> = SETTINGS.iter().copied().filter(|(other, ..)| other != key).collect();
            let before = scenario.canonical_in(Canonical::with_defaults(&before, PARAMETERS));
            assert_eq!(without(&before, key), without(&text, key), "{key}");
        }
        for row in PARAMETERS {
            let before: Vec<_> = PARAMETERS.iter().copied().filter(|other| other != row).collect();
            let before = scenario.canonical_in(Canonical::with_defaults(SETTINGS, &before));
            assert_eq!(without(&before, &format!("scheduler.{}", row.1)), text, "{row:?}");
        }
    }
    // A new row, with a setting that has its value and one that does not.
    let rows = [SETTINGS, &[("new-option", "off", "off")]].concat();
    let text = |value: &str| {
        let mut form = Canonical::with_defaults(&rows, PARAMETERS);
        form.settings(vec![("new-option".to_owned(), value.to_owned())]);
        form.text
    };
    assert_eq!(
        (text("off"), text("on")),
        (Canonical::new().text, format!("{}new-option = on\n", Canonical::new().text))
    );
}

#[test]
fn every_setting_has_a_default_in_the_form_and_no_default_is_of_nothing() {
    for knob in knobs::ALL.iter() {
        assert!(SETTINGS.iter().any(|(key, ..)| *key == knob.name), "{}", knob.name);
    }
    for (index, (key, ..)) in SETTINGS.iter().enumerate() {
        assert!(SETTINGS[..index].iter().all(|(other, ..)| other != key), "{key} is there twice");
    }
    let (schedulers, controls) = (&SchedulerKind::ALL, &CongestionKind::ALL);
    for (algorithm, parameter, _) in PARAMETERS {
        let all = schedulers.iter().find(|kind| kind.name() == *algorithm).map(Parameterised::parameters);
        let all = all.or_else(|| {
            controls.iter().find(|kind| kind.name() == *algorithm).map(Parameterised::parameters)
        });
        let all = all.unwrap_or_else(|| panic!("there is no {algorithm}"));
        assert!(all.iter().any(|(spec, _)| spec.name == *parameter), "{algorithm} has no {parameter}");
    }
}

/// The same round trip divided in other ways is another experiment.
#[test]
fn the_delay_of_the_acknowledgements_changes_the_hash() {
    let of = |delay: &str| {
        let paths =
            format!("path=[{{ rate = '50 Mbit/s', {delay} }}, {{ rate = '10 Mbit/s', rtt = '60 ms' }}]");
        valid(&[&paths]).hash()
    };
    let hashes = [
        of("rtt = '20 ms'"),
        of("delay = { down = '9 ms', up = '11 ms' }"),
        of("delay = { down = '11 ms', up = '9 ms' }"),
        of("delay = { down = '8 ms', up = '12 ms' }"),
        // The data has half of the round trip, and only the acknowledgements differ.
        of("delay = { down = '10 ms', up = '12 ms' }"),
        of("delay = { down = '10 ms', up = '14 ms' }"),
    ];
    for (at, hash) in hashes.iter().enumerate() {
        assert!(!hashes[..at].contains(hash), "{at}");
    }
    // Halves of a round trip are the default.
    assert_eq!(of("delay = '10 ms'"), hashes[0]);
    assert_eq!(of("delay = { down = '10 ms', up = '10 ms' }"), hashes[0]);
}
