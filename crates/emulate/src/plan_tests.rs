//! Every key of a scenario has an effect on an emulation, is refused, is told to be left out, or belongs to what commands decide.

use anabranch_lab::scenario::{Document, schema};
use serde_json::Value;

use super::*;

/// The effect of a key.
enum Case {
    /// The emulation differs with the second settings from the one with the first.
    Effect(&'static [&'static str], &'static str),
    /// With these settings the emulation is refused, in a sentence with this word.
    Refused(&'static str, &'static str),
    /// A remark with this word says that it is left out.
    Told(&'static str, &'static str),
    /// Commands decide it: contenders, sizes and numbers of runs.
    Commands,
    /// A table; its keys are cases too.
    Table,
}

use Case::{Commands, Effect, Refused, Table, Told};

const BASE: &str = "
    path = [
        { name = 'wifi', rate = '50 Mbit/s', rtt = '20 ms' },
        { name = 'lte', rate = '10 Mbit/s', rtt = '60 ms' },
    ]
    traffic.size = '1 MB'";
const GRAPH: &str = "
    node = [{ name = 'a' }, { name = 'b' }]
    link = [
        { name = 'one', from = 'a', to = 'b', rate = '9 Mbit/s', delay = '1 ms' },
        { name = 'two', from = 'a', to = 'b', rate = '9 Mbit/s', delay = '1 ms' },
    ]
    traffic = { size = '1 MB', from = 'b', to = 'a' }";
const SHARED: &str = "topology={ kind = 'shared', rate = '40 Mbit/s' }";
const ONE_PAIR: &str = "topology={ kind = 'dumbbell', hosts = 1, rate = '40 Mbit/s', delay = '5 ms' }";
const TRACE: &str =
    "path=[{ trace = 'traces/synthetic-lte.down', rtt = '20 ms' }, { rate = '9 Mbit/s', rtt = '60 ms' }]";
const SERVERS: &str = "server={ address = [{ name = 'x' }, { name = 'y' }] }";

fn of_root(key: &str) -> Case {
    match key {
        "$schema" | "name" | "description" | "schedulers" | "scheduler" | "congestion" | "reference"
        | "runs" | "precision" | "min-effect" | "deadline" | "other-starts" | "condition" => Commands,
        "profile" => Effect(&[], "profile=ns3"),
        "seed" => Effect(&[], "seed=2"),
        "phases" => Told("phases={ start = '1 us' }", "phases"),
        "initial" => Effect(&[], "initial=2"),
        "ipv6" => Effect(&[], "ipv6=true"),
        "connection" => Told("connection.rto.min=300ms", "rto.min of the scenario is for simulated"),
        "path" | "client" | "server" | "topology" | "node" | "link" | "route" | "traffic" => Table,
        other => panic!("`{other}` has no case"),
    }
}

fn of_path(key: &str) -> Case {
    match key {
        "name" => Effect(&[], "path.wifi.name=lan"),
        "preset" => Effect(&[], "path=[{ preset = 'wifi' }, { preset = 'lte' }]"),
        "rate" => Effect(&[], "path.wifi.rate=51 Mbit/s"),
        "trace" => Effect(&[], TRACE),
        "trace-start" => Effect(&[TRACE], "path.1.trace-start=together"),
        "rtt" => Effect(&[], "path.wifi.rtt=21 ms"),
        "delay" => Effect(&[], "path=[{ rate = '50 Mbit/s', delay = '9 ms' }, { preset = 'lte' }]"),
        "queue" => Effect(&[], "path.wifi.queue=2 BDP"),
        "ecn-threshold" => Effect(&[], "path.wifi.ecn-threshold=9 packets"),
        "loss" => Effect(&[], "path.wifi.loss=1%"),
        "loss-up" => Effect(&[], "path.wifi.loss-up=1%"),
        "gilbert-elliott" => {
            Effect(&[], "path.wifi.gilbert-elliott={ mean-good = '1 s', mean-bad = '1 ms', loss-bad = 1 }")
        }
        "jitter" => Effect(&[], "path.wifi.jitter=3 ms"),
        "reorder" => Effect(&[], "path.wifi.reorder={ probability = '1%', extra = '5 ms' }"),
        "duplicate" => Effect(&[], "path.wifi.duplicate=1%"),
        "corrupt" => Effect(&[], "path.wifi.corrupt=1%"),
        "drop" => Effect(&[], "path.wifi.drop=[3]"),
        "loss-draws" => Effect(&["path.wifi.loss=1%"], "path.wifi.loss-draws=shared"),
        "when-down" => Effect(&[], "path.wifi.when-down=keep"),
        "mtu" => Effect(&[], "path.wifi.mtu=1300 B"),
        "mtu-reports" => Effect(&["path.wifi.mtu=1300 B"], "path.wifi.mtu-reports=false"),
        "aqm" => Effect(&[], "path.wifi.aqm=codel"),
        "policer" => Effect(&[], "path.wifi.policer={ rate = '9 Mbit/s', burst = '30 KB' }"),
        "shaper" => Effect(&[], "path.wifi.shaper={ rate = '9 Mbit/s', burst = '30 KB' }"),
        "cross-traffic" => Effect(&[], "path.wifi.cross-traffic={ rate = '9 Mbit/s' }"),
        "redraw" => Effect(&[], "path.wifi.redraw={ every = '1 s', rate = ['9 Mbit/s'] }"),
        "repeat-after" => Effect(&["path.wifi.loss=1%"], "path.wifi.repeat-after=60 ms"),
        "strip" => Effect(&[], "path.wifi.strip=mptcp"),
        "mss-clamp" => Effect(&[], "path.wifi.mss-clamp=1200"),
        "nat-timeout" => Effect(&[], "path.wifi.nat-timeout=30 s"),
        "nat-resets" => Effect(&["path.wifi.nat-timeout=30 s"], "path.wifi.nat-resets=true"),
        "overhead" => Effect(&[], "path.wifi.overhead=60 B"),
        "proxy" => Refused("path.wifi.proxy=1 ms", "a TCP proxy, which exists in the simulator only"),
        "quota" => Effect(&[], "path.wifi.quota=1 GB"),
        "over-quota" => Refused(
            "path=[{ preset = 'wifi' }, { preset = 'lte', quota = '1 GB', over-quota = 'backup' }]",
            "becomes a backup beyond its quota, in the simulator only",
        ),
        "price" => Effect(&[], "path.wifi.price=0.5"),
        "budget" => Effect(&["path.wifi.price=2"], "path.wifi.budget=5"),
        "backup" => Effect(&[], "path.lte.backup=true"),
        "endpoint" => Effect(&[], "path.lte.endpoint=none"),
        "change" => Effect(&[], "path.wifi.change=[{ at = '1 s', rate = '2 Mbit/s' }]"),
        "change-every" => {
            Effect(&["path.wifi.change=[{ at = '1 s', rate = '2 Mbit/s' }]"], "path.wifi.change-every=1000 s")
        }
        other => panic!("`path.{other}` has no case"),
    }
}

fn of_change(key: &str) -> Case {
    const DOWN: &str = "path.wifi.change=[{ at = '1 s', down = true }]";
    match key {
        "at" => Effect(&[DOWN], "path.wifi.change=[{ at = '2 s', down = true }]"),
        "rate" => Effect(&[], "path.wifi.change=[{ at = '1 s', rate = '2 Mbit/s' }]"),
        "trace" => Effect(&[TRACE], "path.1.change=[{ at = '1 s', trace = 'traces/synthetic-lte.up' }]"),
        "rtt" => Effect(&[], "path.wifi.change=[{ at = '1 s', rtt = '2 ms' }]"),
        "delay" => Effect(&[], "path.wifi.change=[{ at = '1 s', delay = '2 ms' }]"),
        "loss" => Effect(&[], "path.wifi.change=[{ at = '1 s', loss = 0.1 }]"),
        "loss-up" => Effect(&[], "path.wifi.change=[{ at = '1 s', loss-up = 0.1 }]"),
        "down" => Effect(&[], DOWN),
        "up" => Effect(&[DOWN], "path.wifi.change=[{ at = '1 s', down = true }, { at = '2 s', up = true }]"),
        "notify-after" => {
            Effect(&[DOWN], "path.wifi.change=[{ at = '1 s', down = true, notify-after = '0 s' }]")
        }
        other => panic!("`path.change.{other}` has no case"),
    }
}

fn of_topology(key: &str) -> Case {
    match key {
        "kind" => Effect(&[], SHARED),
        "rate" => Effect(&[SHARED], "topology.rate=9 Mbit/s"),
        "rtt" => Effect(&[SHARED], "topology.rtt=1 ms"),
        "queue" => Effect(&[SHARED], "topology.queue=9 packets"),
        "ecn-threshold" => Effect(&[SHARED], "topology.ecn-threshold=9 packets"),
        "aqm" => Effect(&[SHARED], "topology.aqm=codel"),
        "loss" => Effect(&[SHARED], "topology.loss=1%"),
        "hosts" => {
            Refused("topology={ kind = 'dumbbell', rate = '9 Mbit/s', delay = '1 ms' }", "2 pairs of hosts")
        }
        "k" => Refused(
            "topology={ kind = 'fat-tree', k = 4, rate = '9 Mbit/s', delay = '1 ms' }",
            "pairs of hosts",
        ),
        "delay" => Effect(&[ONE_PAIR], "topology.delay=9 ms"),
        "access-rate" => Effect(&[ONE_PAIR], "topology.access-rate=9 Mbit/s"),
        "access-delay" => Effect(&[ONE_PAIR], "topology.access-delay=9 ms"),
        other => panic!("`topology.{other}` has no case"),
    }
}

fn of_link(key: &str) -> Case {
    match key {
        "from" | "to" | "name" => Effect(&[], "link.one.name=other"),
        "rate" => Effect(&[], "link.one.rate=8 Mbit/s"),
        "delay" => Effect(&[], "link.one.delay=2 ms"),
        "backup" => Effect(&[], "link.two.backup=true"),
        "duplex" => Effect(
            &[],
            "link=[{ name = 'one', from = 'a', to = 'b', duplex = false, rate = '9 Mbit/s', delay = '1 ms' },
             { name = 'back', from = 'b', to = 'a', rate = '8 Mbit/s', delay = '1 ms' }]",
        ),
        // The reader of a link's settings is the one of a path.
        _ => Commands,
    }
}

fn of_route(_: &str) -> Case {
    Effect(
        &[
            "node=[{ name = 'a' }, { name = 'b' }, { name = 'r', kind = 'router' }]",
            "link=[{ name = 'first', from = 'a', to = 'r', rate = '9 Mbit/s', delay = '1 ms' },
             { name = 'one', from = 'r', to = 'b', rate = '9 Mbit/s', delay = '1 ms' },
             { name = 'two', from = 'r', to = 'b', rate = '8 Mbit/s', delay = '1 ms' }]",
            "route=[{ from = 'a', to = 'b', links = ['first', 'one'] }]",
        ],
        "route=[{ from = 'a', to = 'b', links = ['first', 'two'] }]",
    )
}

fn of_host(key: &str) -> Case {
    match key {
        "limits" => Effect(&[SERVERS], "client={ limits = { subflows = 1 } }"),
        "subflows" => Effect(&[SERVERS], "server.limits.subflows=1"),
        "add-addr-accepted" => Effect(&[SERVERS], "client.limits.add-addr-accepted=1"),
        "address" => Effect(&[], SERVERS),
        "name" => Commands,
        "paths" => {
            Effect(&[SERVERS], "server={ address = [{ name = 'x' }, { name = 'y', paths = ['lte'] }] }")
        }
        "signal" => {
            Effect(&[SERVERS], "server={ address = [{ name = 'x' }, { name = 'y', signal = false }] }")
        }
        "backup" => {
            Effect(&[SERVERS], "server={ address = [{ name = 'x' }, { name = 'y', backup = true }] }")
        }
        "removed-at" => {
            Effect(&[SERVERS], "server={ address = [{ name = 'x' }, { name = 'y', removed-at = '1 s' }] }")
        }
        "added-at" => Effect(
            &["server={ address = [{ name = 'x' }, { name = 'y', removed-at = '1 s' }] }"],
            "server={ address = [{ name = 'x' }, { name = 'y', removed-at = '1 s', added-at = '2 s' }] }",
        ),
        other => panic!("`{other}` of a host has no case"),
    }
}

fn of_traffic(key: &str) -> Case {
    match key {
        "flows" => Told("traffic.flows=2", "several flows"),
        "background" => Told("traffic.background=[{ path = 1 }]", "background flows"),
        "beside" => {
            Told("traffic.beside=[{ flows = 1, name = 'a' }, { flows = 1, name = 'b' }]", "flows beside it")
        }
        "name" => Told(
            "traffic=[{ name = 'a', size = '1 MB' }, { name = 'b', kind = 'udp', rate = '64 kbit/s' }]",
            "classes of traffic",
        ),
        "direction" => Effect(&["path.wifi.loss=1%"], "traffic.direction=upload"),
        "from" | "to" | "pattern" => {
            Refused("topology={ kind = 'dumbbell', rate = '9 Mbit/s', delay = '1 ms' }", "pairs of hosts")
        }
        // The data of a scenario's programs, and its times.
        "size" | "max" | "start" | "starts" | "every" | "load" | "duration" | "size-known" | "kind"
        | "via" | "path" | "request" | "think" | "gap" | "requests" | "on" | "off" | "rate" | "bitrate"
        | "segment" | "startup" | "resume" | "buffer" => Commands,
        other => panic!("`traffic.{other}` has no case"),
    }
}

/// Returns the plan of a scenario with these settings.
fn plan(base: &str, settings: &[&str]) -> Result<Plan, String> {
    let mut document = Document::parse("test.toml", base, ".").unwrap();
    for setting in settings {
        // A network of another kind replaces the paths.
        if setting.contains("'dumbbell'") || setting.contains("'fat-tree'") {
            document = Document::parse("test.toml", "traffic.size = '1 MB'", ".").unwrap();
        }
        document.set(setting).unwrap_or_else(|error| panic!("{setting}: {error}"));
    }
    let scenario = document.scenario().unwrap_or_else(|error| panic!("{settings:?}: {error}"));
    Plan::new(&scenario, 0, scenario.run_seed(0)).map_err(|error| error.to_string())
}

/// Returns everything from which an emulation is made.
fn shown(base: &str, settings: &[&str]) -> String {
    let plan = plan(base, settings).unwrap_or_else(|error| panic!("{settings:?}: {error}"));
    let wiring = crate::wiring::Wiring::new(&plan.topology, Vec::new(), Vec::new());
    let mut text = format!("{:?} {:?} {:?} {:?}", wiring, plan.paths, plan.changes, plan.withdrawals);
    let mut document = Document::parse("test.toml", base, ".").unwrap();
    settings.iter().filter(|one| one.starts_with("seed")).for_each(|one| document.set(one).unwrap());
    text += &document.scenario().unwrap().run_seed(0).to_string();
    for role in [Role::Client, Role::Server] {
        let with = network::Attributes::default();
        text += &network::routes(&plan.addresses, role, &with);
        text += &network::routes6(&plan.addresses, role, &with);
        text += &plan.endpoints(role, None);
        text += &format!("{:?}", plan.addresses.environment(role));
    }
    text
}

fn check(table: &str, key: &str, base: &str, case: Case) {
    match case {
        Effect(needs, setting) => {
            let both = [needs, &[setting]].concat();
            assert_ne!(shown(base, needs), shown(base, &both), "{table}.{key}: {setting} has no effect");
        }
        Refused(setting, word) => {
            let error = plan(base, &[setting]).expect_err(setting);
            assert!(error.contains(word), "{table}.{key}: {error}");
        }
        Told(setting, word) => {
            assert_eq!(plan(base, &[]).unwrap().left_out, [] as [String; 0]);
            let told = plan(base, &[setting]).unwrap().left_out;
            assert!(told.len() == 1 && told[0].contains(word), "{table}.{key}: {told:?}");
        }
        Commands | Table => {}
    }
}

/// Returns the keys of a table of the schema.
fn keys(schema: &Value, table: &str) -> Vec<String> {
    let of = if table == "scenario" { schema } else { &schema["$defs"][table] };
    let properties = of["properties"].as_object().unwrap_or_else(|| panic!("no table {table}"));
    properties.keys().cloned().collect()
}

#[test]
fn every_key_of_a_scenario_has_an_effect_or_is_refused_or_told() {
    let schema = schema::scenario();
    type Of = fn(&str) -> Case;
    let tables: [(&str, &str, Of); 12] = [
        ("scenario", BASE, of_root),
        ("path", BASE, of_path),
        ("path-change", BASE, of_change),
        ("topology", BASE, of_topology),
        ("link", GRAPH, of_link),
        ("route", GRAPH, of_route),
        ("client", BASE, of_host),
        ("server", BASE, of_host),
        ("limits", BASE, of_host),
        ("server-address", BASE, of_host),
        ("traffic", BASE, of_traffic),
        ("class", BASE, of_traffic),
    ];
    let mut count = 0;
    for (table, base, of) in tables {
        for key in keys(&schema, table) {
            check(table, &key, base, of(&key));
            count += 1;
        }
    }
    assert!(count > 120, "{count}");
}

/// The remarks that need several keys.
#[test]
fn remarks_name_what_a_kernel_cannot_have() {
    let told = |settings: &[&str]| plan(BASE, settings).unwrap().left_out.join("; ");
    assert!(told(&["initial=race"]).contains("no race of paths"));
    assert!(told(&["path.wifi.backup=true"]).contains("first subflow is no backup, and path wifi"));
    assert!(
        told(&["rto.min=300ms", "initial-window=20"])
            .contains("of the scenario are for simulated connections")
    );
    assert_eq!(told(&["path.lte.backup=true"]), "");
}
