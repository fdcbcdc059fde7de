//! The canonical form of a scenario and its hash: two scenarios with the same hash, seed and number
//! of runs are the same experiment.

use core::fmt::Write;

use anabranch_link::{Capacity, Change, Jitter, JitterShape, Loss, Luck, Step, WhenDown};

use super::{
    Experiment, FlowSize, Form, Link, Path, PhaseChoice, Phases, Scenario, Start, TraceStart, Transport,
    knobs,
};

impl Scenario {
    /// The canonical form: a line for each value, in base units. Name, description, seed and number
    /// of runs are left out, and traces are named by what is in them.
    pub fn canonical(&self) -> String {
        let mut out = Lines(String::from("anabranch scenario 1\n"));
        for (index, condition) in self.conditions.iter().enumerate() {
            out.line("condition", &condition.name);
            experiment(&mut out, &condition.experiment);
            for (contender, config) in self.contenders.iter().zip(&condition.configs) {
                out.line("contender", &contender.name);
                match &contender.transport {
                    Transport::Tcp { path } => out.line("transport", format!("tcp {path:?}")),
                    Transport::Multipath(_) => out.line("transport", format!("{:?}", config.scheduler)),
                }
                out.line("congestion", format!("{:?}", config.congestion));
                for knob in knobs::ALL {
                    out.line(knob.name, knob.value(config));
                }
            }
            out.line("end", index);
        }
        out.0
    }

    /// SHA-256 of the canonical form, in hexadecimal.
    pub fn hash(&self) -> String {
        super::document::sha256(self.canonical().as_bytes())
    }
}

struct Lines(String);

impl Lines {
    fn line(&mut self, key: &str, value: impl core::fmt::Display) {
        // A name may hold a line break; it must not look like two lines.
        let value = value.to_string().replace('\\', "\\\\").replace('\n', "\\n");
        let _ = writeln!(self.0, "{key} = {value}");
    }
}

fn experiment(out: &mut Lines, experiment: &Experiment) {
    out.line("profile", experiment.profile.name());
    out.line("initial", experiment.initial);
    if experiment.ipv6 {
        out.line("ipv6", true);
    }
    out.line("deadline_ns", experiment.deadline.0);
    match experiment.phases {
        PhaseChoice::Unset => {}
        PhaseChoice::Off => out.line("phases", "off"),
        PhaseChoice::On(Phases { start, join, delay, jitter, traces }) => {
            out.line("phases", format!("{} {} {} {} {traces}", start.0, join.0, delay.0, jitter.0));
        }
    }
    match experiment.graph.form {
        Form::Paths { shared } => {
            experiment.paths().iter().for_each(|one| path(out, experiment, one));
            common(out, experiment, shared);
        }
        Form::Graph => graph(out, experiment),
    }
    let traffic = &experiment.traffic;
    out.line(
        "size",
        match traffic.size {
            FlowSize::Fixed(size) => size.0.to_string(),
            FlowSize::Web { max } => format!("web {:?}", max.map(|max| max.0)),
            FlowSize::Bulk => format!("bulk {}", traffic.duration.0),
        },
    );
    out.line("flows", traffic.flows);
    out.line(
        "start",
        match &traffic.start {
            Start::Together(at) => format!("together {}", at.0),
            Start::At(times) => format!("at {:?}", times.iter().map(|at| at.0).collect::<Vec<_>>()),
            Start::Poisson { from, load } => format!("poisson {} {load:?}", from.0),
        },
    );
    out.line("direction", format!("{:?}", traffic.direction));
    out.line("size_known", traffic.size_known);
    for background in &traffic.background {
        let pair = if background.pair > 0 { format!(" {}", background.pair) } else { String::new() };
        out.line(
            "background",
            format!("{} {} {}{pair}", background.path, background.flows, background.start.0),
        );
    }
    if let Some(beside) = &traffic.beside {
        out.line("beside", format!("{} {:?}", beside.flows, beside.path));
        if experiment.graph.form == Form::Graph {
            out.line("beside_pairs", format!("{:?}", beside.pairs));
        }
        if let Some(congestion) = &beside.congestion {
            out.line("beside_congestion", format!("{congestion:?}"));
        }
    }
}

fn path(out: &mut Lines, experiment: &Experiment, path: &Path) {
    let (data, acks) = (experiment.own_link(path), experiment.own_ack_link(path));
    out.line("path", &path.name);
    out.line("down", capacity(&data.config.capacity));
    out.line("up", capacity(&acks.config.capacity));
    if data.trace_start != TraceStart::Beginning {
        out.line("trace_start", format!("{:?}", data.trace_start));
    }
    out.line("rtt_ns", data.rtt.0);
    out.line("queue", format!("{:?}", data.config.queue));
    if let Some(threshold) = data.config.ecn_threshold {
        out.line("ecn_threshold", format!("{threshold:?}"));
    }
    out.line("loss", loss(&data.config.loss));
    out.line("loss_up", loss(&acks.config.loss));
    impairments(out, data);
    out.line("backup", path.backup);
    changes(out, &data.config.timeline, &acks.config.timeline);
}

/// The settings of a link from jitter to MTU.
fn impairments(out: &mut Lines, link: &Link) {
    let config = &link.config;
    out.line(
        "jitter",
        match config.jitter {
            None => "none".to_owned(),
            Some(Jitter { shape: JitterShape::Uniform { max }, reorder }) => {
                format!("uniform {} {reorder}", max.0)
            }
            Some(Jitter { shape: JitterShape::Normal { mean, std_dev }, reorder }) => {
                format!("normal {} {} {reorder}", mean.0, std_dev.0)
            }
        },
    );
    out.line(
        "reorder",
        match config.reordering {
            None => "none".to_owned(),
            Some(reordering) => format!("{:?} {}", reordering.probability, reordering.extra.0),
        },
    );
    out.line("duplicate", format!("{:?}", config.duplicate));
    out.line("drop", format!("{:?}", config.drop_list));
    if config.luck == Luck::Apart {
        out.line("luck", "apart");
    }
    out.line("keep_when_down", config.when_down == WhenDown::Keep);
    if let Some(mtu) = config.mtu {
        out.line("mtu", format!("{mtu} {}", config.reports_mtu));
    }
}

/// The link that all paths share; its two directions are the first links.
fn common(out: &mut Lines, experiment: &Experiment, shared: bool) {
    let link = |route: &[usize]| {
        let own = |link: &&usize| **link < 2;
        route.iter().find(own).map(|link| &experiment.graph.links[*link])
    };
    let route = experiment.paths().first().and_then(|path| path.data.first());
    let Some(link) = route.and_then(|route| link(route)).filter(|_| shared) else {
        out.line("common", "none");
        return;
    };
    let config = &link.config;
    let rate = config.capacity.mean_rate().0;
    out.line("common", format!("{rate} {} {:?} {}", link.rtt.0, config.queue, loss(&config.loss)));
    if let Some(threshold) = config.ecn_threshold {
        out.line("common_ecn_threshold", format!("{threshold:?}"));
    }
}

/// Any graph: its nodes, its links, and for each pair its routes.
fn graph(out: &mut Lines, experiment: &Experiment) {
    let graph = &experiment.graph;
    for node in &graph.nodes {
        out.line("node", format!("{} {}", if node.is_router { "router" } else { "host" }, node.name));
    }
    for link in &graph.links {
        out.line("link", &link.name);
        out.line("ends", format!("{} {}", link.from, link.to));
        out.line("capacity", capacity(&link.config.capacity));
        if link.trace_start != TraceStart::Beginning {
            out.line("trace_start", format!("{:?}", link.trace_start));
        }
        out.line("delay_ns", link.config.delay.0);
        out.line("queue", format!("{:?}", link.config.queue));
        if let Some(threshold) = link.config.ecn_threshold {
            out.line("ecn_threshold", format!("{threshold:?}"));
        }
        out.line("loss", loss(&link.config.loss));
        impairments(out, link);
        changes(out, &link.config.timeline, &[]);
    }
    for pair in &experiment.pairs {
        out.line("pair", format!("{} {}", pair.client, pair.server));
        for path in &pair.paths {
            out.line("path", format!("{} {:?} {:?}", path.backup, path.data, path.acks));
        }
    }
    out.line("flow_pairs", experiment.traffic.pairs);
}

/// The changes of a path, of which each is several steps of its two links.
fn changes(out: &mut Lines, data: &[Step], acks: &[Step]) {
    // What only the acknowledgements' direction has is its loss.
    let place = |step: &Step, is_data: bool| match (&step.change, is_data) {
        (Change::Delay(_), true) => Some(0),
        (Change::Rate(_), true) => Some(1),
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
        let together =
            rest.windows(2).take_while(|two| two[1].0.at == first.at && two[1].1 > two[0].1).count() + 1;
        let (mut rate, mut rtt, mut losses, mut up) = (None, None, [None; 2], None);
        for (step, place) in &rest[..together] {
            match &step.change {
                Change::Rate(to) => rate = Some(to.0),
                Change::Delay(to) => rtt = Some(to.0 * 2),
                Change::Up => up = Some(true),
                Change::Down => up = Some(false),
                Change::Loss(to) => losses[place - 3] = Some(to.mean_loss()),
                Change::Trace { .. } => {}
            }
        }
        let [loss, loss_up] = losses;
        out.line("change", format!("{} {rate:?} {rtt:?} {loss:?} {loss_up:?} {up:?}", first.at.0));
        rest = &rest[together..];
    }
}

fn capacity(capacity: &Capacity) -> String {
    match capacity {
        Capacity::Rate(rate) => format!("rate {}", rate.0),
        Capacity::Trace { trace, .. } => format!("trace {}", trace.label()),
    }
}

fn loss(model: &Loss) -> String {
    match model {
        Loss::GilbertElliott(channel) => format!(
            "gilbert-elliott {} {} {:?} {:?}",
            channel.mean_good.0, channel.mean_bad.0, channel.loss_good, channel.loss_bad
        ),
        independent => format!("bernoulli {:?}", independent.mean_loss()),
    }
}
