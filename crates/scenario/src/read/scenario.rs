//! Reads a whole scenario, and each of its conditions.

use anabranch_stack::config::{ConnectionConfig, Profile, SimConfig};
use anabranch_stack::scheduler::SchedulerKind;
use anabranch_units::Duration;

use super::contender::Base;
use super::files::Files;
use super::{classes, contender, endpoints, knobs, network, parameters, path, phases, traffic};
use crate::bounds::estimate;
use crate::model::{
    Condition, Contender, Experiment, FlowSize, Form, InitialChoice, Path, Scenario, SubflowLimits, Transport,
};
use crate::text::keys::{Keys, rows};
use crate::text::reader::{Reader, list, unknown_key};
use crate::text::source::{Problem, Span, did_you_mean};
use crate::text::tree::{Entry, Node, Table, Value};

rows! {
    /// The keys of a scenario.
    pub(crate) ROWS, KEYS {
        "name": Name, "the name";
        "description": Text, "the purpose, shown by `anabranch list scenarios`";
        "profile": Named(profiles), "the sender and receiver: the start values of all knobs; default `linux`";
        "congestion": Derived(Derived::Congestion), "the congestion control; default the profile's";
        "schedulers": AnyOf(&[Text, List(&Derived(Derived::Contender))]),
            "the contenders; default `[\"tcp\", \"linux\", \"min_rtt\", \"dmptcp\"]`";
        "scheduler": Derived(Derived::SchedulerDefaults), "parameters of schedulers, a table for each";
        "reference": Name, "the contender with which the others are compared; default `tcp`";
        "runs": Whole(1, 1_000_000), "runs of each contender under each condition; default as many as the precision needs";
        "precision": Probability, "intervals as narrow as this are precise enough, without `runs`; default 1%";
        "seed": Whole(0, i64::MAX), "the seed of all runs; default 1";
        "min-effect": Probability, "a difference below this is practically equal; default 1%";
        "phases": AnyOf(&[Bool, Table(&phases::TABLE)]), "small random shifts of each run";
        "deadline": Time, "a run ends this long after the start of its last flow; default 60 s";
        "initial": Name, "the path of the initial subflow, by name or number, `best` or `race`; default the first";
        "other-starts": Bool, "whether a comparison also measures starts on other paths; default true";
        "ipv6": Bool, "IPv6 addresses and headers; default false";
        "path": List(&Table(&path::TABLE)), "the paths";
        "client": Table(&endpoints::CLIENT), "limits of the client's subflows";
        "server": Table(&endpoints::SERVER), "addresses of the server, and limits of its subflows";
        "topology": Table(&network::TOPOLOGY), "a common link of the paths, a dumbbell or a fat tree";
        "node": List(&Table(&network::NODE)), "hosts and routers of any network, in place of paths";
        "link": List(&Table(&network::LINK)), "its links";
        "route": List(&Table(&network::ROUTE)), "its routes, where they are not the shortest";
        "traffic": AnyOf(&[Table(&traffic::TABLE), Table(&classes::TABLE), List(&Table(&classes::NAMED))]),
            "the flows; default one web-like flow";
        "connection": Derived(Derived::Connection), "knobs of the connections; default the profile's";
        "condition": List(&Derived(Derived::Condition)), "variations that all contenders meet";
    }
}
pub(crate) const TABLE: Keys = Keys::new("scenario", &[ROWS]);

fn profiles() -> Vec<&'static str> {
    Profile::ALL.iter().map(|profile| profile.name()).collect()
}

/// The keys of the whole comparison, which no condition can change.
pub(crate) const FIXED: &[&str] = &[
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

/// The default contenders.
const DEFAULT_SCHEDULERS: [&str; 5] = ["tcp", "linux", "min_rtt", "dmptcp", "anabranch"];
const DEFAULT_RUNS: u32 = 30;
const DEFAULT_PRECISION: f64 = 0.01;
const DEFAULT_MIN_EFFECT: f64 = 0.01;
const DEFAULT_DEADLINE: Duration = Duration::from_secs(60);

pub(super) fn read(table: &Table, end: &Span, files: &Files<'_>) -> Result<Scenario, Problem> {
    let reader = Reader::new(table, end, "the scenario", KEYS)?;
    let mut conditions = Vec::new();
    let mut contenders: Vec<Contender> = Vec::new();
    for (name, table) in variations(table)? {
        let (experiment, base) = experiment(&table, end, files)?;
        // A condition may give schedulers other parameters, and other paths to `tcp@`.
        let here = read_contenders(&reader, table.get("scheduler"), experiment.paths(), end)?;
        let configs = here.iter().map(|c| c.config(&base)).collect::<Result<Vec<_>, _>>()?;
        let downloads = experiment.has_downloads();
        for (contender, config) in here.iter().zip(&configs) {
            if let Transport::Multipath(_) = contender.transport {
                knobs::check_scatter(config, downloads, &contender.span)?;
            }
        }
        if contenders.is_empty() {
            contenders = here;
        }
        for contender in &contenders {
            if let Transport::Tcp { path: Some(path) } = contender.transport
                && path >= experiment.paths().len()
            {
                return Err(Problem::at(
                    &contender.span,
                    format!("condition `{name}` has no path {}", path + 1),
                ));
            }
        }
        let plain = base.plain_tcp();
        conditions.push(Condition { name, experiment, plain, base: base.config, configs });
    }
    let reference = reader.optional("reference", |node| {
        let name = node.name()?;
        contenders.iter().position(|contender| contender.name == name).ok_or_else(|| {
            let names: Vec<&str> = contenders.iter().map(|contender| contender.name.as_str()).collect();
            Problem::at(&node.span, format!("the reference `{name}` is none of the contenders"))
                .help(format!("they are {}", list(&names)))
        })
    })?;
    // The best measured path before a given one.
    let plain = |path: fn(&Option<usize>) -> bool| {
        contenders.iter().position(|contender| match &contender.transport {
            Transport::Tcp { path: at } => path(at),
            Transport::Multipath(_) => false,
        })
    };
    let reference = reference.or_else(|| plain(Option::is_none)).or_else(|| plain(Option::is_some));
    let runs = reader.optional("runs", |node| node.integer(1, 1_000_000))?.map(|n| n as u32);
    Ok(Scenario {
        name: reader.optional("name", Node::name)?.unwrap_or_default(),
        description: reader
            .optional("description", |node| node.string().map(str::to_owned))?
            .unwrap_or_default(),
        runs: runs.unwrap_or(DEFAULT_RUNS),
        has_runs: runs.is_some(),
        precision: reader.optional("precision", Node::probability)?.unwrap_or(DEFAULT_PRECISION),
        seed: reader.optional("seed", |node| node.integer(0, i64::MAX))?.map_or(1, |n| n as u64),
        reference,
        min_effect: reader.optional("min-effect", Node::probability)?.unwrap_or(DEFAULT_MIN_EFFECT),
        other_starts: reader.optional("other-starts", Node::boolean)?.unwrap_or(true),
        contenders,
        conditions,
        files: Vec::new(),
        text: String::new(),
    })
}

fn read_contenders(
    reader: &Reader<'_>,
    parameters: Option<&Entry>,
    paths: &[Path],
    end: &Span,
) -> Result<Vec<Contender>, Problem> {
    let defaults = parameters.map(|entry| entry.node.table("[scheduler]")).transpose()?;
    if let Some(defaults) = defaults {
        parameters::check_defaults::<SchedulerKind>(defaults)?;
    }
    if let Some(node) = reader.get("schedulers") {
        return contender::read_all(node, paths, defaults);
    }
    let text = |name: &str| Node { span: end.clone(), value: Value::String(name.to_owned()) };
    let names = Value::Array(DEFAULT_SCHEDULERS.iter().map(|name| text(name)).collect());
    contender::read_all(&Node { span: end.clone(), value: names }, paths, defaults)
}

/// Returns the scenario once for each condition, with its name; once without a name if there is none.
fn variations(table: &Table) -> Result<Vec<(String, Table)>, Problem> {
    let mut base = table.clone();
    let Some(conditions) = base.remove("condition") else {
        return Ok(vec![(String::new(), base)]);
    };
    let nodes =
        conditions.node.array().map_err(|problem| problem.help("write each condition as `[[condition]]`"))?;
    if nodes.is_empty() {
        return Ok(vec![(String::new(), base)]);
    }
    let mut variations: Vec<(String, Table)> = Vec::new();
    for node in nodes {
        let changes = node.table("a condition")?;
        let Some(name) = changes.get("name") else {
            return Err(Problem::at(&node.span, "this condition has no name")
                .help("add for example `name = \"loss=0\"`"));
        };
        let (name, name_span) = (name.node.name()?, &name.node.span);
        if variations.iter().any(|(other, _)| *other == name) {
            return Err(Problem::at(name_span, format!("two conditions are called `{name}`"))
                .help("give each condition a name of its own"));
        }
        let mut varied = base.clone();
        for entry in changes.entries.iter().filter(|entry| entry.key != "name") {
            if FIXED.contains(&entry.key.as_str()) {
                return Err(Problem::at(
                    &entry.key_span,
                    format!("a condition cannot change `{}`", entry.key),
                )
                .help("that belongs to the whole comparison"));
            }
            if !KEYS.contains(&entry.key.as_str()) {
                return Err(unknown_key(entry, "a condition", KEYS));
            }
            merge(&mut varied, entry.clone())?;
        }
        variations.push((name, varied));
    }
    Ok(variations)
}

/// Applies the changes of a condition to the scenario `table`; keys that no condition may have are left to [`scenario`],
/// which refuses them.
pub(super) fn vary(table: &mut Table, changes: &Table) -> Result<(), Problem> {
    let is_change = |entry: &&Entry| {
        let key = entry.key.as_str();
        key != "name" && KEYS.contains(&key) && !FIXED.contains(&key)
    };
    changes.entries.iter().filter(is_change).try_for_each(|entry| merge(table, entry.clone()))
}

/// Sets `node` at the dotted `keys`.
pub(super) fn apply(table: &mut Table, keys: &[(String, Span)], node: Node) -> Result<(), Problem> {
    let mut node = node;
    for (key, key_span) in keys[1..].iter().rev() {
        let span = node.span.clone();
        let entry = Entry { key: key.clone(), key_span: key_span.clone(), node };
        node = Node { span, value: Value::Table(Table { entries: vec![entry] }) };
    }
    let entry = Entry { key: keys[0].0.clone(), key_span: keys[0].1.clone(), node };
    if !KEYS.contains(&entry.key.as_str()) {
        let mut known: Vec<&str> = KEYS.to_vec();
        known.extend(knobs::ALL.iter().map(|knob| knob.name));
        return Err(match did_you_mean(&entry.key, known.iter().copied()) {
            Some(_) => unknown_key(&entry, "a scenario", &known),
            None => unknown_key(&entry, "a scenario", KEYS),
        });
    }
    merge(table, entry)
}

/// Merges one entry into a scenario. `path.KEY` means all paths and `path.NAME.KEY` one, and likewise for
/// `link`.
fn merge(table: &mut Table, entry: Entry) -> Result<(), Problem> {
    let is_list = |key: &str| table.get(key).is_some_and(|known| matches!(known.node.value, Value::Array(_)));
    match (entry.key.as_str(), &entry.node.value) {
        ("path" | "link", Value::Table(_)) => {}
        ("traffic", Value::Table(_)) if is_list("traffic") => {}
        // Parameters for the congestion control that is already named.
        ("congestion", Value::Table(changes)) if changes.get("name").is_none() => {
            if let Some(old) = table.get_mut("congestion")
                && let Value::String(_) = &old.node.value
            {
                let name = Entry { key: "name".to_owned(), ..old.clone() };
                old.node.value = Value::Table(Table { entries: vec![name] });
            }
            table.merge(entry);
            return Ok(());
        }
        _ => {
            table.merge(entry);
            return Ok(());
        }
    }
    let (what, keys) = match entry.key.as_str() {
        "path" => ("path", path::KEYS),
        "traffic" => ("class of traffic", classes::KEYS),
        _ => ("link", network::LINK_KEYS),
    };
    let Value::Table(changes) = entry.node.value else { return Ok(()) };
    let Some(Entry { node: Node { value: Value::Array(items), .. }, .. }) = table.get_mut(&entry.key) else {
        return Err(Problem::at(&entry.key_span, format!("there is no {what} to change"))
            .help(format!("give {what}s as `[[{what}]]`")));
    };
    for change in changes.entries {
        if keys.contains(&change.key.as_str()) {
            for item in items.iter_mut() {
                if let Value::Table(item) = &mut item.value {
                    item.merge(change.clone());
                }
            }
            continue;
        }
        let names: Vec<Option<String>> = items.iter().map(|item| name_of(item, what)).collect();
        // A name comes before a number, as a name may be a number.
        let is_meant =
            |name: &Option<String>| name.as_ref().is_some_and(|name| name.replace('_', "-") == change.key);
        let named = names.iter().position(is_meant);
        let numbered = || (1..=items.len()).position(|number| number.to_string() == change.key);
        let found = named.or_else(numbered).and_then(|at| items.get_mut(at));
        match (found, &change.node.value) {
            (Some(Node { value: Value::Table(item), .. }), Value::Table(inner)) => {
                inner.entries.iter().for_each(|entry| item.merge(entry.clone()));
            }
            (Some(_), _) => {
                let example = match entry.key.as_str() {
                    "path" => "path.wifi.loss = \"1%\"",
                    "link" => "link.uplink.loss = \"1%\"",
                    _ => "traffic.web.flows = 3",
                };
                return Err(Problem::at(&change.node.span, format!("a {what} is a table of keys"))
                    .help(format!("write for example `{example}`")));
            }
            (None, Value::Table(_)) if did_you_mean(&change.key, keys.iter().copied()).is_none() => {
                return Err(unknown_item(&change, what, &names));
            }
            (None, _) => {
                let at = match entry.key.as_str() {
                    "path" => "a path (and no path has that name)",
                    "link" => "a link (and no link has that name)",
                    _ => "a class of traffic (and no class has that name)",
                };
                return Err(unknown_key(&change, at, keys));
            }
        }
    }
    Ok(())
}

/// Returns the name of a path, a link or a class of traffic, if it has one.
fn name_of(item: &Node, what: &str) -> Option<String> {
    let Value::Table(item) = &item.value else { return None };
    let text = |key: &str| item.get(key).and_then(|entry| entry.node.name().ok());
    match (text("name"), text("from"), text("to")) {
        (Some(name), ..) => Some(name),
        (None, Some(from), Some(to)) if what == "link" => Some(format!("{from}-{to}")),
        _ => None,
    }
}

/// Returns the error for a change of a path, a link or a class of traffic that does not exist.
fn unknown_item(change: &Entry, what: &str, names: &[Option<String>]) -> Problem {
    let all: Vec<&str> = names.iter().flatten().map(String::as_str).collect();
    let problem = Problem::at(&change.key_span, format!("no {what} is called `{}`", change.key));
    if let Some(name) = did_you_mean(&change.key, all.iter().copied()) {
        return problem.help(format!("did you mean `{name}`?"));
    }
    let known = match (all.as_slice(), names.len()) {
        ([], 1) => format!("there is one {what}, without a name"),
        ([], count) => format!("there are {count} without a name"),
        ([one], _) => format!("there is {one}"),
        (all, _) => format!("there are {}", list(all)),
    };
    let add = if what == "path" { "; `--path` takes `name=NAME` too" } else { "" };
    problem.help(format!("{known}{add}"))
}

/// Reads the experiment of one condition, and the configuration that its contenders start from.
fn experiment(table: &Table, end: &Span, files: &Files<'_>) -> Result<(Experiment, Base), Problem> {
    let reader = Reader::new(table, end, "the scenario", KEYS)?;
    let profile =
        reader.optional("profile", |node| Ok(Profile::ALL[node.choice("profile", &profiles())?]))?;
    let profile = profile.unwrap_or_default();
    let several = reader.get("traffic").filter(|node| classes::is_classes(node));
    let table = reader.get("traffic").filter(|_| several.is_none());
    let table = table.map(|node| Reader::of(node, "traffic", traffic::KEYS)).transpose()?;
    let direction = match several {
        Some(node) => classes::direction(node)?,
        None => traffic::direction(table.as_ref())?,
    };
    let mut network = network::Network::read(&reader, end, files, profile, direction)?;
    let (traffic, classes) = match several {
        Some(node) => classes::read(node, end, &mut network, files)?,
        None => (traffic::read(table.as_ref(), end, &mut network, files)?, Vec::new()),
    };
    let paths = network.pairs[..traffic.pairs].iter().rev().max_by_key(|pair| pair.paths.len());
    let paths: Vec<Path> = paths.map(|pair| pair.paths.clone()).unwrap_or_default();
    let mut base = SimConfig::new(profile);
    // Every path of a scenario can be used.
    base.max_subflows = base.max_subflows.max(u8::try_from(paths.len()).unwrap_or(u8::MAX));
    if let Some(congestion) = reader.optional("congestion", contender::congestion)? {
        base.congestion = congestion;
    }
    let ipv6 = reader.optional("ipv6", Node::boolean)?.unwrap_or(false);
    let mut fills_mtu = profile == Profile::Linux;
    if let Some(node) = reader.get("connection") {
        let table = node.table("connection")?;
        knobs::apply(&mut base, table, "[connection]", &[])?;
        fills_mtu &= table.get("mss").is_none();
        if fills_mtu {
            base.mss = base.full_segment(ipv6);
        }
        knobs::check(&base, &node.span)?;
    }
    let deadline = reader.optional("deadline", Node::positive_time)?;
    if let (FlowSize::Bulk, Some(deadline), Some(node)) = (&traffic.size, deadline, reader.get("deadline"))
        && classes.is_empty()
        && deadline < traffic.duration
    {
        return Err(Problem::at(
            &node.span,
            format!("bulk flows of {} do not fit before a deadline of {deadline}", traffic.duration),
        )
        .help("give a later `deadline`, or a shorter `traffic.duration`"));
    }
    let (initial, initial_choice) =
        reader.optional("initial", |node| initial(node, &paths))?.unwrap_or_default();
    if initial_choice == InitialChoice::Race {
        base.race = base.race.or(Some(ConnectionConfig::RACE_DELAY));
    }
    let (graph, pairs) = network.finish();
    let endpoints = endpoints::read(&reader, &paths, graph.form == Form::Graph)?;
    if endpoints.is_some() {
        // Linux counts the subflows besides the first.
        base.max_subflows = base.max_subflows.max(SubflowLimits::MOST + 1);
    }
    let mut experiment = Experiment {
        profile,
        graph,
        pairs,
        initial,
        initial_choice,
        endpoints,
        ipv6,
        deadline: deadline.unwrap_or(DEFAULT_DEADLINE.max(traffic.duration)),
        phases: reader.optional("phases", phases::read)?.unwrap_or_default(),
        traffic,
        classes,
    };
    if initial_choice == InitialChoice::Best {
        experiment.initial = estimate::best(&experiment, &base);
    }
    Ok((experiment, Base { config: base, fills_mtu, ipv6 }))
}

/// Reads the path of the initial subflow and the way of its choice; `best` is determined when everything is
/// read. A path of that name, or with the name `race`, has precedence.
fn initial(node: &Node, paths: &[Path]) -> Result<(usize, InitialChoice), Problem> {
    let name = node.name()?;
    match path::find_path(&name, paths) {
        Some(position) => Ok((position, InitialChoice::Given)),
        None if name == "best" => Ok((0, InitialChoice::Best)),
        None if name == "race" => Ok((0, InitialChoice::Race)),
        None => {
            let problem = path::no_such_path(node, &name, paths);
            let help = problem.help.clone().unwrap_or_default();
            Err(problem.help(format!("{help}; or `best`, or `race`")))
        }
    }
}
