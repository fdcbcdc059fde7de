//! The canonical form of a scenario and its hash: two scenarios with the same hash, seed and number
//! of runs are the same experiment.
//!
//! The form is a text with a line `key = value` for each value that differs from the default that
//! [`form`] has for that key; the rest of the form is frozen there too. A new option whose default is
//! the old behaviour gets a row in those defaults, and changes no hash. A new field of a [`Scenario`]
//! does not compile before it has a line here, or is left out by name.

mod form;
#[cfg(test)]
mod tests;

use anabranch_stack::config::ConnectionConfig;
use anabranch_stack::congestion::CongestionKind;
use anabranch_stack::parameter::Parameterised;
use anabranch_units::{Bytes, Duration, Time};

use super::{
    Background, Beside, Capacity, Change, CommonLink, Condition, Contender, Direction, Experiment, FlowSize,
    InitialChoice, Jitter, LossModel, Path, PhaseChoice, Phases, Scenario, Start, TraceFile, TraceStart,
    Traffic, Transport, knobs,
};
use crate::units::QueueSize;
use form::Form;
pub(super) use form::value;

impl Scenario {
    /// The canonical form: base units, without values that are the defaults of the form. Name,
    /// description, seed and number of runs are left out, and traces are named by their contents.
    pub fn canonical(&self) -> String {
        self.canonical_in(Form::new())
    }

    fn canonical_in(&self, mut form: Form<'_>) -> String {
        let Scenario {
            name: _,
            description: _,
            runs: _,
            seed: _,
            // What a report makes of the results.
            reference: _,
            min_effect: _,
            other_starts: _,
            contenders,
            conditions,
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
            // The lower bound depends on these two; background flows and those beside on the second.
            form.always("connection", "base");
            write_connection(&mut form, base);
            form.always("connection", "plain");
            write_connection(&mut form, plain);
            form.always("end", index);
        }
        form.text
    }

    /// SHA-256 of the canonical form, in hexadecimal.
    pub fn hash(&self) -> String {
        super::document::sha256(self.canonical().as_bytes())
    }
}

fn write_experiment(form: &mut Form<'_>, experiment: &Experiment) {
    let Experiment {
        profile,
        paths,
        common,
        initial,
        // A report says how the path was chosen; the run depends on the path alone.
        initial_choice: InitialChoice::First | InitialChoice::Given | InitialChoice::Best,
        ipv6,
        traffic,
        deadline,
        phases,
    } = experiment;
    form.line("profile", profile.name());
    form.line("initial", initial);
    form.line("ipv6", ipv6);
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
    paths.iter().for_each(|path| write_path(form, path));
    if let Some(CommonLink { rate, rtt, queue: size, ecn_threshold, loss: model }) = common {
        form.always("topology", "shared");
        form.always("topology.rate", format!("{} bit/s", rate.0));
        form.line("topology.rtt", time(*rtt));
        form.line("topology.queue", queue(size));
        form.line("topology.ecn-threshold", optional(ecn_threshold.as_ref(), queue));
        form.line("topology.loss", loss(model));
    }
    write_traffic(form, traffic);
}

fn write_path(form: &mut Form<'_>, path: &Path) {
    let Path {
        name,
        trace_start,
        down,
        up,
        rtt,
        queue: size,
        ecn_threshold,
        loss: model,
        loss_up,
        jitter,
        reorder,
        duplicate,
        drop,
        luck_apart,
        keep_when_down,
        mtu,
        reports_mtu,
        backup,
        changes,
    } = path;
    form.always("path", name);
    form.always("path.down", capacity(down));
    if up != down {
        form.always("path.up", capacity(up));
    }
    match trace_start {
        TraceStart::Beginning => {}
        TraceStart::At(start) => form.line("path.trace-start", time(*start)),
        TraceStart::Random => form.line("path.trace-start", "random"),
    }
    form.always("path.rtt", time(*rtt));
    form.line("path.queue", queue(size));

    form.line("path.ecn-threshold", optional(ecn_threshold.as_ref(), queue));
    form.line("path.loss", loss(model));
    form.line("path.loss-up", loss(loss_up));
    match jitter {
        None => {}
        Some(Jitter::Uniform { max, reorder }) => {
            form.line("path.jitter", format!("uniform {}", time(*max)));
            form.line("path.jitter.reorder", reorder);
        }
        Some(Jitter::Normal { mean, deviation, reorder }) => {
            form.line("path.jitter", format!("normal {} {}", time(*mean), time(*deviation)));
            form.line("path.jitter.reorder", reorder);
        }
    }
    if let Some((probability, extra)) = reorder {
        form.line("path.reorder", format!("{} {}", number(*probability), time(*extra)));
    }
    form.line("path.duplicate", number(*duplicate));
    form.line("path.drop", list(drop));
    form.line("path.luck", if *luck_apart { "apart" } else { "shared" });
    form.line("path.when-down", if *keep_when_down { "keep" } else { "drop" });
    if let Some(mtu) = mtu {
        form.line("path.mtu", mtu);
        form.line("path.mtu-reports", reports_mtu);
    }
    form.line("path.backup", backup);
    for Change { at, rate, rtt, loss, loss_up, up } in changes {
        form.always("change", instant(*at));
        form.line("change.rate", optional(rate.as_ref(), |rate| format!("{} bit/s", rate.0)));
        form.line("change.rtt", optional(*rtt, time));
        form.line("change.loss", optional(*loss, number));
        form.line("change.loss-up", optional(*loss_up, number));
        form.line("change.link", optional(*up, |up| if up { "up" } else { "down" }.to_owned()));
    }
}

fn write_traffic(form: &mut Form<'_>, traffic: &Traffic) {
    let Traffic { size, flows, start, direction, duration, size_known, background, beside } = traffic;
    match size {
        FlowSize::Web { max } => {
            form.line("traffic.size", "web");
            form.line("traffic.max", optional(*max, bytes));
        }
        FlowSize::Fixed(size) => form.line("traffic.size", bytes(*size)),
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
    }
    form.line(
        "traffic.direction",
        match direction {
            Direction::Upload => "upload",
            Direction::Download => "download",
        },
    );
    form.line("traffic.size-known", size_known);
    for Background { path, flows, start } in background {
        form.always("background", path);
        form.line("background.flows", flows);
        form.line("background.start", instant(*start));
    }
    if let Some(Beside { flows, path, congestion }) = beside {
        form.always("beside", flows);
        form.line("beside.path", optional(*path, |path| path.to_string()));
        if let Some(congestion) = congestion {
            write_congestion(form, "beside.congestion", congestion);
        }
    }
}

/// The congestion control and the settings of a connection.
fn write_connection(form: &mut Form<'_>, config: &ConnectionConfig) {
    write_congestion(form, "congestion", &config.congestion);
    let settings = knobs::ALL.iter().map(|knob| (knob.name.to_owned(), knob.canonical(config)));
    form.settings(settings.collect());
}

fn write_congestion(form: &mut Form<'_>, key: &str, kind: &CongestionKind) {
    write_algorithm(form, key, kind.name(), kind);
}

/// An algorithm, and those of its parameters that differ from the defaults of the form.
fn write_algorithm<K: Parameterised>(form: &mut Form<'_>, key: &str, name: &str, kind: &K) {
    form.line(key, name);
    let parameters = kind.parameters().into_iter();
    let values = parameters.map(|(spec, value)| (spec.name.to_owned(), form::value(&spec.domain, &value)));
    form.parameters(key, name, values.collect());
}

/// A number: the shortest decimal, without an exponent, that reads back as the same.
fn number(value: f64) -> String {
    format!("{value}")
}

fn time(value: Duration) -> String {
    format!("{} ns", value.0)
}

fn instant(value: Time) -> String {
    format!("{} ns", value.0)
}

fn bytes(value: Bytes) -> String {
    format!("{} B", value.0)
}

fn optional<T>(value: Option<T>, show: impl Fn(T) -> String) -> String {
    value.map_or("none".to_owned(), show)
}

fn list(values: impl IntoIterator<Item = impl ToString>) -> String {
    values.into_iter().map(|value| value.to_string()).collect::<Vec<_>>().join(" ")
}

fn queue(size: &QueueSize) -> String {
    match size {
        QueueSize::Bdp(n) => format!("{} BDP", number(*n)),
        QueueSize::Packets(n) => format!("{n} packets"),
        QueueSize::Bytes(n) => format!("{n} B"),
        QueueSize::Time(span) => time(*span),
        QueueSize::Unlimited => "unlimited".to_owned(),
    }
}

fn capacity(capacity: &Capacity) -> String {
    match capacity {
        Capacity::Rate(rate) => format!("{} bit/s", rate.0),
        Capacity::Trace(TraceFile { name: _, sha256, trace: _ }) => format!("trace {sha256}"),
    }
}

fn loss(model: &LossModel) -> String {
    match model {
        LossModel::Bernoulli(p) => number(*p),
        LossModel::GilbertElliott { mean_good, mean_bad, loss_good, loss_bad } => {
            let [good, bad] = [mean_good, mean_bad].map(|mean| time(*mean));
            format!("gilbert-elliott {good} {bad} {} {}", number(*loss_good), number(*loss_bad))
        }
    }
}
