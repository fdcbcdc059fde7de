//! The canonical form of a scenario and its hash: two scenarios with the same hash, seed and number
//! of runs are the same experiment.

use core::fmt::Write;

use super::{
    Capacity, Change, Experiment, FlowSize, Jitter, LossModel, Path, PhaseChoice, Phases, Scenario, Start,
    TraceStart, Transport, knobs,
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
    experiment.paths.iter().for_each(|one| path(out, one));
    match &experiment.common {
        None => out.line("common", "none"),
        Some(common) => {
            out.line(
                "common",
                format!("{} {} {:?} {}", common.rate.0, common.rtt.0, common.queue, loss(&common.loss)),
            );
            if let Some(threshold) = common.ecn_threshold {
                out.line("common_ecn_threshold", format!("{threshold:?}"));
            }
        }
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
        out.line("background", format!("{} {} {}", background.path, background.flows, background.start.0));
    }
    if let Some(beside) = &traffic.beside {
        out.line("beside", format!("{} {:?}", beside.flows, beside.path));
        if let Some(congestion) = &beside.congestion {
            out.line("beside_congestion", format!("{congestion:?}"));
        }
    }
}

fn path(out: &mut Lines, path: &Path) {
    out.line("path", &path.name);
    out.line("down", capacity(&path.down));
    out.line("up", capacity(&path.up));
    if path.trace_start != TraceStart::Beginning {
        out.line("trace_start", format!("{:?}", path.trace_start));
    }
    out.line("rtt_ns", path.rtt.0);
    out.line("queue", format!("{:?}", path.queue));
    if let Some(threshold) = path.ecn_threshold {
        out.line("ecn_threshold", format!("{threshold:?}"));
    }
    out.line("loss", loss(&path.loss));
    out.line("loss_up", loss(&path.loss_up));
    out.line(
        "jitter",
        match path.jitter {
            None => "none".to_owned(),
            Some(Jitter::Uniform { max, reorder }) => format!("uniform {} {reorder}", max.0),
            Some(Jitter::Normal { mean, deviation, reorder }) => {
                format!("normal {} {} {reorder}", mean.0, deviation.0)
            }
        },
    );
    out.line(
        "reorder",
        match path.reorder {
            None => "none".to_owned(),
            Some((probability, extra)) => format!("{probability:?} {}", extra.0),
        },
    );
    out.line("duplicate", format!("{:?}", path.duplicate));
    out.line("drop", format!("{:?}", path.drop));
    if path.luck_apart {
        out.line("luck", "apart");
    }
    out.line("keep_when_down", path.keep_when_down);
    if let Some(mtu) = path.mtu {
        out.line("mtu", format!("{mtu} {}", path.reports_mtu));
    }
    out.line("backup", path.backup);
    for change in &path.changes {
        let Change { at, rate, rtt, loss, loss_up, up } = change;
        let (rate, rtt) = (rate.map(|rate| rate.0), rtt.map(|rtt| rtt.0));
        out.line("change", format!("{} {rate:?} {rtt:?} {loss:?} {loss_up:?} {up:?}", at.0));
    }
}

fn capacity(capacity: &Capacity) -> String {
    match capacity {
        Capacity::Rate(rate) => format!("rate {}", rate.0),
        Capacity::Trace(file) => format!("trace {}", file.sha256),
    }
}

fn loss(model: &LossModel) -> String {
    match model {
        LossModel::Bernoulli(p) => format!("bernoulli {p:?}"),
        LossModel::GilbertElliott { mean_good, mean_bad, loss_good, loss_bad } => {
            format!("gilbert-elliott {} {} {loss_good:?} {loss_bad:?}", mean_good.0, mean_bad.0)
        }
    }
}
