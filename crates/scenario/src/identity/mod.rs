//! The canonical form of a scenario and its hash: two scenarios with the same hash, seed and number
//! of runs are the same experiment.
//!
//! The form is a text with a line `key = value` for each value that differs from the default that [`form`]
//! has for that key; the rest of the form is frozen there too. A new option with the old behaviour as its
//! default gets a row in those defaults, and changes no hash. A new field of a [`Scenario`] causes a
//! compilation error until it has a line here, or is excluded by name.

#[cfg(test)]
mod class_tests;
mod classes;
mod form;
#[cfg(test)]
mod tests;

use anabranch_stack::config::SimConfig;
use anabranch_stack::congestion::CongestionKind;
use anabranch_stack::parameter::Parameterised;

use anabranch_link::{
    Change, Jitter, JitterShape, LinkConfig, Loss, LossDraws, MiddleboxConfig, Step, WhenDown,
};

use crate::model::{
    Background, Beside, Condition, Contender, Direction, Experiment, FlowSize, Form, Graph, GraphNode,
    InitialChoice, Link, Pair, Path, PhaseChoice, Phases, Scenario, Signal, Start, TraceStart, Traffic,
    Transport,
};
use crate::read::files::sha256;
use crate::read::link::IMPAIRMENTS;
use crate::read::{endpoints, knobs, middlebox, queueing, tariff};
use crate::text::base::{
    self, bytes, capacity, distribution, instant, list, loss, number, optional, queue, time,
};
use form::Canonical;

impl Scenario {
    /// Returns the canonical form: base units, without values that are the defaults of the form. Name,
    /// description, seed and number of runs are omitted, and traces are identified by their contents.
    pub fn canonical(&self) -> String {
        self.canonical_in(Canonical::new())
    }

    fn canonical_in(&self, mut form: Canonical<'_>) -> String {
        let Scenario {
            name: _,
            description: _,
            runs: _,
            has_runs: _,
            precision: _,
            seed: _,
            // Settings of the report.
            reference: _,
            min_effect: _,
            other_starts: _,
            contenders,
            conditions,
            files: _,
            text: _,
        } = self;
        for (index, condition) in conditions.iter().enumerate() {
            let Condition { name, experiment, base, plain, configs } = condition;
            form.profile = experiment.profile;
            form.always("condition", name);
            write_experiment(&mut form, experiment);
            for (contender, config) in contenders.iter().zip(configs) {
                let Contender { name, transport, congestion: _, knobs: _, span: _ } = contender;
                form.always("contender", name);
                match transport {
                    Transport::Tcp { path: None } => form.always("transport", "tcp"),
                    Transport::Tcp { path: Some(path) } => form.always("transport", format!("tcp {path}")),
                    Transport::Multipath(_) => {
                        form.always("transport", "multipath");
                        write_algorithm(&mut form, "scheduler", config.scheduler.name(), &config.scheduler);
                    }
                }
                write_connection(&mut form, config);
            }
            // The lower bound depends on these two; background and competing flows depend on the second.
            form.always("connection", "base");
            write_connection(&mut form, base);
            form.always("connection", "plain");
            write_connection(&mut form, plain);
            form.always("end", index);
        }
        form.text
    }

    /// Returns the SHA-256 of the canonical form, in hexadecimal.
    pub fn hash(&self) -> String {
        sha256(self.canonical().as_bytes())
    }
}

fn write_experiment(form: &mut Canonical<'_>, experiment: &Experiment) {
    let Experiment {
        profile,
        graph,
        pairs,
        initial,
        // The way of the choice is reported; the run depends only on the path, and in a race on the delay of each
        // connection.
        initial_choice:
            InitialChoice::First | InitialChoice::Given | InitialChoice::Best | InitialChoice::Race,
        endpoints,
        ipv6,
        traffic,
        classes,
        deadline,
        phases,
    } = experiment;
    form.line("profile", profile.name());
    form.line("initial", initial);
    form.line("ipv6", ipv6);
    for (key, value) in endpoints.iter().flat_map(endpoints::canonical) {
        form.always(key, value);
    }
    form.line("deadline", time(*deadline));
    match phases {
        PhaseChoice::Unset => {}
        PhaseChoice::Off => form.line("phases", "off"),
        PhaseChoice::On(Phases { start, join, delay, jitter, traces }) => {
            form.line("phases", "on");
            form.line("phases.start", time(*start));
            form.line("phases.join", time(*join));
            form.line("phases.delay", time(*delay));
            form.line("phases.jitter", time(*jitter));
            form.line("phases.traces", traces);
        }
    }
    match graph.form {
        Form::Paths { shared } => {
            pairs.iter().flat_map(|pair| &pair.paths).for_each(|path| write_path(form, experiment, path));
            // Its two directions are the first links.
            let common = pairs[0].paths[0].data[0].iter().find(|link| **link < 2).filter(|_| shared);
            if let Some(Link { rtt, config, .. }) = common.map(|link| &graph.links[*link]) {
                form.always("topology", "shared");
                form.always("topology.rate", capacity(&config.capacity));
                form.line("topology.rtt", time(*rtt));
                form.line("topology.queue", queue(&config.queue));
                form.line("topology.ecn-threshold", optional(config.ecn_threshold.as_ref(), queue));
                form.line("topology.loss", loss(&config.loss));
                for (name, value) in queueing::canonical(config) {
                    form.always(&format!("topology.{name}"), value);
                }
            }
        }
        Form::Graph => write_graph(form, graph, pairs),
    }
    match classes.is_empty() {
        true => write_traffic(form, traffic, graph.form),
        false => classes::write(form, classes, traffic.direction, graph.form),
    }
}

fn write_path(form: &mut Canonical<'_>, experiment: &Experiment, path: &Path) {
    // The role of the endpoint is written with the others.
    let Path { name, backup, endpoint: _, middlebox, tariff, data: _, acks: _ } = path;
    let (data, acks) = (experiment.own_link(path), experiment.own_ack_link(path));
    form.always("path", name);
    form.always("path.down", capacity(&data.config.capacity));
    let up = capacity(&acks.config.capacity);
    if up != capacity(&data.config.capacity) {
        form.always("path.up", up);
    }
    write_trace_start(form, "path", data.trace_start);
    form.always("path.rtt", time(data.rtt));
    write_link(form, "path", &data.config, Some(&acks.config.loss));
    write_other_side(form, data, acks);
    form.line("path.backup", backup);
    write_middlebox(form, middlebox);
    for (key, value) in tariff::canonical(tariff) {
        form.always(&format!("path.{key}"), value);
    }
    // Both directions have the same changes, except of the loss, unless the scenario separates them.
    let common = |steps: &[Step]| -> Vec<Step> {
        steps.iter().filter(|step| !matches!(step.change, Change::Loss(_))).cloned().collect()
    };
    if common(&data.config.timeline) == common(&acks.config.timeline) {
        write_changes(form, &data.config.timeline, &acks.config.timeline);
    } else {
        write_changes(form, &data.config.timeline, &[]);
        form.always("path.acks", "changes");
        write_changes(form, &acks.config.timeline, &[]);
    }
    // They belong to the link from the client.
    write_signals(form, &data.signals);
    write_signals(form, &acks.signals);
}

/// Writes the settings of the direction of the acknowledgements that differ from the data
/// direction, and impairments other than its loss.
fn write_other_side(form: &mut Canonical<'_>, data: &Link, acks: &Link) {
    let (mut data_lines, mut acks_lines) = (form.part(), form.part());
    // Impairments belong only to the direction of the data, unless the scenario gives them to both.
    let unimpaired = LinkConfig {
        queue: data.config.queue,
        ecn_threshold: data.config.ecn_threshold,
        loss_draws: data.config.loss_draws,
        when_down: data.config.when_down,
        mtu: data.config.mtu,
        reports_mtu: data.config.reports_mtu,
        repeat_after: data.config.repeat_after,
        aqm: data.config.aqm,
        policer: data.config.policer,
        shaper: data.config.shaper,
        redraws: data.config.redraws.clone(),
        ..LinkConfig::default()
    };
    let own = LinkConfig { loss: Loss::None, ..acks.config.clone() };
    write_link(&mut data_lines, "path.acks", &unimpaired, None);
    write_link(&mut acks_lines, "path.acks", &own, None);
    if data_lines.text != acks_lines.text {
        form.always("path.acks", "settings");
        form.text += &acks_lines.text;
    }
    if data.config.delay != acks.config.delay {
        form.always("path.acks.delay", time(acks.config.delay));
    }
}

fn write_middlebox(form: &mut Canonical<'_>, config: &MiddleboxConfig) {
    for (key, value) in middlebox::canonical(config) {
        form.always(&format!("path.{key}"), value);
    }
}

fn write_trace_start(form: &mut Canonical<'_>, of: &str, start: TraceStart) {
    match start {
        TraceStart::Beginning => {}
        TraceStart::At(start) => form.line(&format!("{of}.trace-start"), time(start)),
        TraceStart::Random => form.line(&format!("{of}.trace-start"), "random"),
        TraceStart::Together => form.line(&format!("{of}.trace-start"), "together"),
    }
}

/// Writes the settings of a link from its queue on; for a path the settings of the data direction, and the
/// loss of acknowledgements.
fn write_link(form: &mut Canonical<'_>, of: &str, config: &LinkConfig, loss_up: Option<&Loss>) {
    let LinkConfig {
        queue: size,
        ecn_threshold,
        loss: model,
        jitter,
        loss_draws,
        when_down,
        mtu,
        reports_mtu,
        // Capacity, delay and timeline are written by the callers, and the other impairments by their rows; a test
        // asks for every key. The round trip of a BDP follows from the network.
        ..
    } = config;
    let key = |name: &str| format!("{of}.{name}");
    form.line(&key("queue"), queue(size));
    form.line(&key("ecn-threshold"), optional(ecn_threshold.as_ref(), queue));
    form.line(&key("loss"), loss(model));
    if let Some(loss_up) = loss_up {
        form.line(&key("loss-up"), loss(loss_up));
    }
    if let Some(Jitter { shape, reorder }) = jitter {
        let shape = match shape {
            JitterShape::Uniform { max } => format!("uniform {}", time(*max)),
            JitterShape::Normal { mean, std_dev } => format!("normal {} {}", time(*mean), time(*std_dev)),
        };
        form.line(&key("jitter"), shape);
        form.line(&key("jitter.reorder"), reorder);
    }
    for impairment in IMPAIRMENTS {
        if let Some(value) = (impairment.canonical)(config) {
            form.always(&key(impairment.key), value);
        }
    }
    for (name, value) in queueing::canonical(config) {
        form.always(&key(name), value);
    }
    form.line(
        &key("loss-draws"),
        match loss_draws {
            LossDraws::Separate => "separate",
            LossDraws::Shared => "shared",
        },
    );
    form.line(
        &key("when-down"),
        match when_down {
            WhenDown::Keep => "keep",
            WhenDown::Drop => "drop",
        },
    );
    if let Some(mtu) = mtu {
        form.line(&key("mtu"), mtu);
        form.line(&key("mtu-reports"), reports_mtu);
    }
}

/// Writes any graph: its nodes, its links, and for each pair of hosts its routes.
fn write_graph(form: &mut Canonical<'_>, graph: &Graph, pairs: &[Pair]) {
    let Graph { form: _, nodes, links } = graph;
    for GraphNode { name, is_router } in nodes {
        form.always(if *is_router { "router" } else { "host" }, name);
    }
    for link in links {
        let Link { name, from, to, config, trace_start, signals, rtt: _, trace_stream: _, phase_stream: _ } =
            link;
        form.always("link", name);
        form.always("link.ends", format!("{from} {to}"));
        form.always("link.capacity", capacity(&config.capacity));
        write_trace_start(form, "link", *trace_start);
        form.always("link.delay", time(config.delay));
        write_link(form, "link", config, None);
        write_changes(form, &config.timeline, &[]);
        write_signals(form, signals);
    }
    for Pair { client, server, paths } in pairs {
        form.always("pair", format!("{client} {server}"));
        // Links have no tariff.
        for Path { name, backup, endpoint: _, middlebox, tariff: _, data, acks } in paths {
            form.always("path", name);
            form.line("path.backup", backup);
            write_middlebox(form, middlebox);
            data.iter().for_each(|route| form.always("path.data", list(route)));
            acks.iter().for_each(|route| form.always("path.acks", list(route)));
        }
    }
}

/// Writes the changes of a path or of a link. Each change of a path is several steps of its two links.
fn write_changes(form: &mut Canonical<'_>, data: &[Step], acks: &[Step]) {
    // Only the loss differs in the direction of the acknowledgements.
    let place = |step: &Step, is_data: bool| match (&step.change, is_data) {
        (Change::Delay(_), true) => Some(0),
        (Change::Rate(_) | Change::Trace { .. }, true) => Some(1),
        (Change::Up | Change::Down, true) => Some(2),
        (Change::Loss(_), true) => Some(3),
        (Change::Loss(_), false) => Some(4),
        _ => None,
    };
    let data = data.iter().filter_map(|step| Some((step, place(step, true)?)));
    let acks = acks.iter().filter_map(|step| Some((step, place(step, false)?)));
    let mut steps: Vec<(&Step, usize)> = data.chain(acks).collect();
    steps.sort_by_key(|(step, _)| step.at);
    let mut rest = steps.as_slice();
    while let Some(&(first, _)) = rest.first() {
        let more = |two: &&[(&Step, usize)]| two[1].0.at == first.at && two[1].1 > two[0].1;
        let (together, later) = rest.split_at(rest.windows(2).take_while(more).count() + 1);
        let (mut rate, mut rtt, mut link, mut losses) = (None, None, None, [const { None }; 2]);
        for (step, place) in together {
            match &step.change {
                Change::Rate(to) => rate = Some(format!("{} bit/s", to.0)),
                Change::Delay(to) => rtt = Some(time(*to * 2)),
                Change::Up => link = Some("up"),
                Change::Down => link = Some("down"),
                Change::Loss(to) => losses[place - 3] = Some(loss(to)),
                Change::Trace { trace, .. } => rate = Some(format!("trace {}", trace.label())),
            }
        }
        form.always("change", instant(first.at));
        form.line("change.rate", rate.as_deref().unwrap_or("none"));
        form.line("change.rtt", rtt.as_deref().unwrap_or("none"));
        form.line("change.loss", losses[0].as_deref().unwrap_or("none"));
        form.line("change.loss-up", losses[1].as_deref().unwrap_or("none"));
        form.line("change.link", link.unwrap_or("none"));
        rest = later;
    }
}

fn write_signals(form: &mut Canonical<'_>, signals: &[Signal]) {
    for Signal { at, up } in signals {
        form.always("notify", format!("{} {}", instant(*at), if *up { "up" } else { "down" }));
    }
}

fn write_traffic(form: &mut Canonical<'_>, traffic: &Traffic, shape: Form) {
    let Traffic { size, flows, pairs, start, direction, duration, size_known, background, beside } = traffic;
    if shape == Form::Graph {
        form.always("traffic.pairs", pairs);
    }
    match size {
        FlowSize::Web { max } => {
            form.line("traffic.size", "web");
            form.line("traffic.max", optional(*max, bytes));
        }
        FlowSize::Fixed(size) => form.line("traffic.size", bytes(*size)),
        FlowSize::Drawn(sizes) => form.line("traffic.size", distribution(sizes)),
        FlowSize::Bulk => {
            form.line("traffic.size", "bulk");
            form.line("traffic.duration", time(*duration));
        }
    }
    form.line("traffic.flows", flows);
    match start {
        Start::Together(at) => form.line("traffic.start", instant(*at)),
        Start::At(times) => form.line("traffic.starts", list(times.iter().map(|at| at.0))),
        Start::Poisson { from, load } => {
            form.line("traffic.start", instant(*from));
            form.line("traffic.load", number(*load));
        }
        Start::Every { from, gap } => {
            form.line("traffic.start", instant(*from));
            form.line("traffic.every", distribution(gap));
        }
    }
    form.line(
        "traffic.direction",
        match direction {
            Direction::Upload => "upload",
            Direction::Download => "download",
        },
    );
    form.line("traffic.size-known", size_known);
    for Background { pair, path, flows, start } in background {
        form.always("background", path);
        if shape == Form::Graph {
            form.always("background.pair", pair);
        }
        form.line("background.flows", flows);
        form.line("background.start", instant(*start));
    }
    for Beside { name, flows, pairs, path, congestion } in beside {
        form.always("beside", flows);
        if let Some(name) = name {
            // Random streams depend on the name.
            form.always("beside.name", name);
        }
        if shape == Form::Graph {
            form.always("beside.pairs", list(pairs));
        }
        form.line("beside.path", optional(*path, |path| path.to_string()));
        if let Some(congestion) = congestion {
            write_congestion(form, "beside.congestion", congestion);
        }
    }
}

/// Writes the congestion control and the settings of a connection.
fn write_connection(form: &mut Canonical<'_>, config: &SimConfig) {
    write_congestion(form, "congestion", &config.congestion);
    let settings = knobs::ALL.iter().map(|knob| (knob.name.to_owned(), knob.canonical(config)));
    form.settings(settings.collect());
}

fn write_congestion(form: &mut Canonical<'_>, key: &str, kind: &CongestionKind) {
    write_algorithm(form, key, kind.name(), kind);
}

/// Writes an algorithm, and its parameters that differ from the defaults of the form.
fn write_algorithm<K: Parameterised>(form: &mut Canonical<'_>, key: &str, name: &str, kind: &K) {
    form.line(key, name);
    let parameters = kind.parameters().into_iter();
    let values = parameters.map(|(spec, value)| (spec.name.to_owned(), base::value(&spec.domain, &value)));
    form.parameters(key, name, values.collect());
}
