//! The JSON Schema of scenarios and plans, judged by an independent validator.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anabranch_scenario::plan::{Plan, Space};
use anabranch_scenario::policy::Policy;
use anabranch_scenario::policy::proxy::{ClientPolicy, ServerPolicy};
use anabranch_scenario::{Document, library};
use anabranch_scenario::{schema, units};
use jsonschema::Validator;
use serde_json::{Map, Value, json};
use toml::de::{DeTable, DeValue};

fn json_of(value: &DeValue<'_>) -> Value {
    match value {
        DeValue::String(text) => json!(text.as_ref()),
        DeValue::Integer(number) => json!(i64::from_str_radix(number.as_str(), number.radix()).unwrap()),
        DeValue::Float(number) => json!(number.as_str().replace('_', "").parse::<f64>().unwrap()),
        DeValue::Boolean(value) => json!(value),
        DeValue::Datetime(time) => json!({ "datetime": time.to_string() }),
        DeValue::Array(items) => items.iter().map(|item| json_of(item.get_ref())).collect(),
        DeValue::Table(table) => Value::Object(table_of(table)),
    }
}

fn table_of(table: &DeTable<'_>) -> Map<String, Value> {
    table.iter().map(|(key, value)| (key.get_ref().to_string(), json_of(value.get_ref()))).collect()
}

/// Returns the data of a TOML document; none if it is not TOML.
fn data(text: &str) -> Option<Value> {
    DeTable::parse(text).ok().map(|table| Value::Object(table_of(table.get_ref())))
}

fn validator(schema: &Value) -> Validator {
    jsonschema::meta::validate(schema).unwrap();
    jsonschema::draft202012::new(schema).unwrap()
}

fn errors(validator: &Validator, text: &str) -> Vec<String> {
    let data = data(text).unwrap();
    validator.iter_errors(&data).map(|error| format!("{}: {error}", error.instance_path())).collect()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns the files below `directory` with this extension.
fn files(directory: &Path, extension: &str) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            all.extend(files(&path, extension));
        } else if path.extension().is_some_and(|found| found == extension) {
            all.push(path);
        }
    }
    all.sort();
    all
}

#[test]
fn every_built_in_scenario_and_plan_is_valid() {
    let (scenario, plan) = (validator(&schema::scenario()), validator(&schema::plan()));
    for built_in in library::ALL.iter().chain(library::PAPERS) {
        assert_eq!(errors(&scenario, built_in.text), [""; 0], "{}", built_in.name);
    }
    let mut plans = 0;
    for path in files(&root().join("scenarios"), "toml") {
        let text = std::fs::read_to_string(&path).unwrap();
        if Plan::open(&path).is_ok() {
            plans += 1;
            assert_eq!(errors(&plan, &text), [""; 0], "{}", path.display());
        }
    }
    assert!(plans > 0);
}

/// A block is a scenario, a plan, a part of a scenario with paths, or a policy.
#[test]
fn every_documented_scenario_and_plan_is_valid() {
    let (scenario, plan) = (validator(&schema::scenario()), validator(&schema::plan()));
    let paths = "path = [{ name = 'wifi', rate = '9 Mbit/s', rtt = '9 ms' }, { name = 'lte', rate = '9 Mbit/s', rtt = '9 ms' }]\n";
    let (mut scenarios, mut plans, mut policies) = (0, 0, 0);
    let mut others: BTreeMap<String, u32> = BTreeMap::new();
    let mut pages = files(&root().join("docs"), "md");
    pages.push(root().join("README.md"));
    for page in pages {
        let text = std::fs::read_to_string(&page).unwrap();
        for block in text.split("```toml").skip(1) {
            let block = block.split_once('\n').unwrap().1.split("```").next().unwrap();
            let at = format!("{}: {block}", page.display());
            let whole = [block.to_owned(), format!("{paths}{block}")];
            let valid = |text: &&String| {
                Document::built_in("x", text.as_str()).is_ok_and(|document| document.scenario().is_ok())
            };
            if let Some(text) = whole.iter().find(valid) {
                scenarios += 1;
                assert_eq!(errors(&scenario, text), [""; 0], "{at}");
            } else if Space::parse("x", block).is_ok() {
                plans += 1;
                assert_eq!(errors(&plan, block), [""; 0], "{at}");
            } else if Policy::parse("x", block).is_ok()
                || ClientPolicy::parse("x", block).is_ok()
                || ServerPolicy::parse("x", block).is_ok()
            {
                policies += 1;
            } else {
                let page = page.strip_prefix(root()).unwrap().display().to_string();
                *others.entry(page).or_default() += 1;
            }
        }
    }
    // An error on purpose, claims of papers, and a list of sizes to choose from; no other block may be neither.
    let wanted = [("README.md", 1), ("docs/claims.md", 5), ("docs/traffic.md", 1)];
    assert_eq!(others, wanted.map(|(page, count)| (page.to_owned(), count)).into());
    assert!(scenarios >= 8 && plans >= 1, "{scenarios} scenarios and {plans} plans");
    assert_eq!(policies, 7, "of `kernel steer`, of both sides of the proxy, of budgets and of prices");
}

/// The kinds of errors that a schema can find.
const FORMS: [&str; 6] =
    ["unknown key", "no unit", "wrong unit", "bits in place of bytes", "another type", "unknown name"];

/// Returns the kind of an error, if a schema can find it.
fn form(error: &str) -> Option<&'static str> {
    let first = error.lines().next().unwrap();
    let is = [
        first.starts_with("unknown key"),
        first.contains("has no unit"),
        first.contains("is not a unit of"),
        first.contains("counts bytes"),
        first.starts_with("this is ") && first.contains(", not ") && !first.starts_with("this is not TOML"),
        first.starts_with("there is no ") && first.contains(" called "),
    ];
    is.into_iter().position(|is| is).map(|at| FORMS[at])
}

#[test]
fn a_wrong_key_name_unit_or_type_is_refused() {
    let scenario = validator(&schema::scenario());
    let mut refused = BTreeSet::new();
    for path in files(&root().join("crates/scenario/tests/errors"), "txt") {
        for case in std::fs::read_to_string(&path).unwrap().split("==== ").skip(1) {
            let (title, rest) = case.split_once('\n').unwrap();
            let (text, error) = rest.split_once("---- error\n").unwrap();
            // A value inside of a text such as `bbr:loss-threshold=2%` has no form of its own.
            let is_short = |part: &str| part.contains(':') && part.contains('=');
            let in_text = text.lines().any(|line| line.split('"').skip(1).step_by(2).any(is_short));
            let is_value = in_text && !error.starts_with("unknown key");
            if let Some(form) = form(error).filter(|_| !is_value) {
                refused.insert(form);
                assert!(!errors(&scenario, text).is_empty(), "{}: {title}:\n{text}", path.display());
            }
        }
    }
    // Not their number, which follows from the files: of each kind there is one at least.
    assert_eq!(refused, BTreeSet::from(FORMS));
    let plan = validator(&schema::plan());
    for wrong in [
        "scenario = 'phone'",
        "scenario = 'phone'\nvary = { 'path.1.rate' = '5 Mbit/s' }",
        "scenario = 'phone'\nvary = { 'pth.1.rate' = ['5 Mbit/s'] }",
        "scenario = 'phone'\ndesign = 'sobl'\nvary = { 'path.1.rate' = ['5 Mbit/s'] }",
        "scenario = 'phone'\nstop = { half-width = '2 ms' }\nvary = { 'path.1.rate' = ['5 Mbit/s'] }",
        "scenario = 'phone'\nvary.path.1.rate = { from = '5 Mbit/s', to = '9 Mbit/s', step = 3 }",
    ] {
        assert!(!errors(&plan, wrong).is_empty(), "{wrong}");
    }
}

/// Returns the keys that the reader lists in its error about the key `zzzz` in `text`.
fn known_to_the_reader(text: &str) -> BTreeSet<String> {
    let error = Document::built_in("x", text).unwrap().scenario().unwrap_err();
    let help = error.help.as_deref().unwrap_or_default();
    let list = help.strip_prefix("the keys here are ").unwrap_or_else(|| panic!("{text}: {error}"));
    list.replace(" and ", ", ").split(", ").map(str::to_owned).collect()
}

#[test]
fn every_key_that_the_reader_knows_is_in_the_schema() {
    let schema = schema::scenario();
    let path = "rate = '9 Mbit/s', rtt = '9 ms'";
    let in_path = |rest: &str| format!("path = [{{ {path}, {rest} }}]");
    let with_path = |rest: &str| format!("path = [{{ {path} }}]\n{rest}");
    let graph = "node = [{ name = 'a' }, { name = 'b' }]\n";
    let link = "from = 'a', to = 'b', rate = '9 Mbit/s', delay = '9 ms'";
    let cases = [
        ("/properties", "zzzz = 1".to_owned()),
        ("/$defs/path/properties", in_path("zzzz = 1")),
        ("/$defs/path-change/properties", in_path("change = [{ zzzz = 1 }]")),
        ("/$defs/token-bucket/properties", in_path("policer = { zzzz = 1 }")),
        ("/$defs/cross-traffic/properties", in_path("cross-traffic = { zzzz = 1 }")),
        ("/$defs/redraw/properties", in_path("redraw = { zzzz = 1 }")),
        ("/$defs/redrawn-delay/properties", in_path("redraw = { every = '1 s', rtt = { zzzz = 1 } }")),
        ("/$defs/gilbert-elliott/properties", in_path("gilbert-elliott = { zzzz = 1 }")),
        ("/$defs/jitter/properties", in_path("jitter = { zzzz = 1 }")),
        ("/$defs/reorder/properties", in_path("reorder = { zzzz = 1 }")),
        ("/$defs/aqm/properties", in_path("aqm = { kind = 'red', zzzz = 1 }")),
        ("/$defs/aqm/properties", in_path("aqm = { kind = 'fq-codel', zzzz = 1 }")),
        ("/$defs/phases/properties", with_path("phases = { zzzz = 1 }")),
        ("/$defs/traffic/properties", with_path("traffic = { zzzz = 1 }")),
        ("/$defs/background/properties", with_path("traffic.background = { zzzz = 1 }")),
        ("/$defs/beside/properties", with_path("traffic.beside = { zzzz = 1 }")),
        ("/$defs/named-class/properties", with_path("traffic = [{ zzzz = 1 }]")),
        ("/$defs/class/properties", with_path("traffic = { kind = 'udp', zzzz = 1 }")),
        ("/$defs/distribution/properties", with_path("traffic.size = { zzzz = 1 }")),
        ("/$defs/condition/properties", with_path("condition = [{ name = 'x', zzzz = 1 }]")),
        ("/$defs/topology/properties", "topology = { zzzz = 1 }".to_owned()),
        ("/$defs/node/properties", "node = [{ zzzz = 1 }]".to_owned()),
        ("/$defs/link/properties", format!("{graph}link = [{{ zzzz = 1 }}]")),
        ("/$defs/link-change/properties", format!("{graph}link = [{{ {link}, change = [{{ zzzz = 1 }}] }}]")),
        ("/$defs/route/properties", format!("{graph}link = [{{ {link} }}]\nroute = [{{ zzzz = 1 }}]")),
    ];
    for (pointer, text) in cases {
        let properties = schema.pointer(pointer).unwrap_or_else(|| panic!("{pointer}"));
        let mut known = known_to_the_reader(&text);
        if pointer.contains("condition") {
            // The keys of a comparison as a whole are known, and refused there.
            let fixed = [
                "description",
                "schedulers",
                "reference",
                "runs",
                "precision",
                "seed",
                "min-effect",
                "other-starts",
                "condition",
            ];
            known.retain(|key| !fixed.contains(&key.as_str()));
        }
        for key in known {
            assert!(properties.get(&key).is_some(), "{pointer}/{key}");
        }
    }
    for knob in anabranch_scenario::knobs::ALL.iter() {
        let place = knob.name.replacen('.', "/properties/", 1);
        assert!(schema.pointer(&format!("/$defs/connection/properties/{place}")).is_some(), "{}", knob.name);
    }
    for (pointer, text) in [
        ("/properties", "zzzz = 1"),
        ("/$defs/stop/properties", "vary.path.1.rate = ['5 Mbit/s']\nstop.zzzz = 1"),
    ] {
        let error = Plan::of_document("x", text, Document::open("phone").unwrap()).unwrap_err();
        let help = error.help.as_deref().unwrap_or_default();
        let list = help.strip_prefix("the keys here are ").unwrap_or_else(|| panic!("{text}: {error}"));
        for key in list.replace(" and ", ", ").split(", ") {
            assert!(schema::plan().pointer(&format!("{pointer}/{key}")).is_some(), "{pointer}/{key}");
        }
    }
}

/// Every value is described, as editors show it.
#[test]
fn every_key_has_a_description() {
    let all = [schema::scenario(), schema::plan()];
    for schema in &all {
        let tables = schema["$defs"].as_object().unwrap().values().chain([schema]);
        for table in tables.filter_map(|table| table["properties"].as_object()) {
            for (key, form) in table {
                let group = form["properties"].is_object();
                assert!(group || form["description"].as_str().is_some_and(|text| !text.is_empty()), "{key}");
            }
        }
    }
}

/// Valid scenarios of other forms than those of the documentation: each key of `[[path]]`, in each direction.
#[test]
fn forms_that_the_reader_takes_are_valid() {
    let schema = validator(&schema::scenario());
    for text in [
        "path = [{ rate = { down = '9 Mbit/s', up = '.5 gbps' }, delay = '1_000 us', queue = { up = 'UNLIMITED' } }]",
        "path = [{ preset = 'lte', loss_draws = 'shared', loss = 0.5 }]",
        "path = [{ preset = 'wifi', change = [{ at = 0, rate = { up = '1e3kbit/s' }, down = true }] }]",
        "path = [{ preset = 'dsl', redraw = { every = '10 s', rate = ['1Mbps', '2 Mbps'] }, aqm = { kind = 'fq-codel', queues = 8 } }]",
        "path = [{ preset = 'dsl', mtu = { down = '1400 B' }, drop = [1, 2], jitter = { mean = '2 ms', deviation = '1 ms' } }]",
        "path = [{ preset = 'dsl' }]\nschedulers = 'tcp,blest:lambda=1.2'\nscheduler.weighted_round_robin.weights = [1, 2]",
        "path = [{ preset = 'dsl' }]\nschedulers = [{ scheduler = 'blest', lambda = 1.2, rto.min = '1 s', congestion = { name = 'cubic' } }, 'tcp@1']",
        "path = [{ preset = 'dsl' }]\ntraffic = [{ name = 'a', kind = 'video', bitrate = ['1 Mbit/s', '2 Mbit/s'] }, { name = 'b', size = 'web-search' }]",
        "path = [{ preset = 'dsl' }]\nconnection = { receive-buffer = { max = '4 MB' }, path_manager = 'n_diff_ports:4', sequence-origin = { isn = '0xffff', initiator = 1, listener = 2 } }",
        "path = [{ preset = 'dsl' }]\ncondition = [{ name = 'x', path.dsl.rate = '1 Mbit/s' }, { name = 'y', path.loss = '3%', traffic.flows = 2, phases.start = 0 }]",
    ] {
        Document::built_in("x", text).unwrap().scenario().unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(errors(&schema, text), [""; 0], "{text}");
    }
}

/// Numbers with an exponent have no bound in a pattern: there the schema may accept more.
#[test]
fn the_schema_accepts_the_quantities_that_the_parser_accepts() {
    const NUMBERS: &str = "0 0.0 1 1. 1.0 1.5 .5 +3 5_0 9 9.99 10 10.0 10.1 11 99.9 100 100.0 100.01 0100 101 120 \
                           1000 1000.0 1001 1_0_0 1_2_0 -1 0e3 1e2 1.2e2 5e_ 1e . x";
    const UNITS: &str = "% bit/s bps kbit/s kBit/s KBPS kbps kBps Mbps MBps mBps MBPs MbpS MBpS MB/s Gbps GBps GBPS Tbps TBps ns us µs \
                         ms s min h m B bytes byte KB kb MB Mb mbit Mbit Mb/s Mib KiB GiB BDP bdp packet packets PKT pkts unlimited";
    let schema = schema::scenario();
    type Parser = fn(&str) -> Result<(), String>;
    let kinds: [(&str, Parser); 6] = [
        ("rate", |text| units::parse_rate(text).map(drop).map_err(|error| error.message)),
        ("time", |text| units::parse_span(text).map(drop).map_err(|error| error.message)),
        ("size", |text| units::parse_size(text).map(drop).map_err(|error| error.message)),
        ("probability", |text| units::parse_probability(text).map(drop).map_err(|error| error.message)),
        ("load", |text| units::parse_load(text).map(drop).map_err(|error| error.message)),
        ("queue", |text| units::parse_queue(text).map(drop).map_err(|error| error.message)),
    ];
    for (name, parse) in kinds {
        let form = validator(&schema["$defs"][name]);
        let mut accepted = 0;
        for number in NUMBERS.split_whitespace().chain([""]) {
            for unit in UNITS.split_whitespace().chain([""]) {
                for text in [format!("{number}{unit}"), format!(" {number} {unit} ")] {
                    let parsed = parse(&text);
                    let (reads, validates) = (parsed.is_ok(), form.is_valid(&json!(text)));
                    let is_free =
                        number.contains('e') || parsed.is_err_and(|why| why.ends_with("is too fast"));
                    assert!(
                        reads == validates || (is_free && validates),
                        "{name} `{text}`: {reads}, {validates}"
                    );
                    accepted += usize::from(reads);
                }
            }
        }
        assert!(accepted > 20, "{name}: {accepted}");
    }
}
