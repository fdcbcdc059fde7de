//! The knobs of a connection by their names in `[connection]` and in `--set`.
//!
//! A knob is a row of the settings of [`ConnectionConfig`] or of [`SimOnly`], or one of `OWN`; the values
//! of `OWN` have their own syntax. The scheduler and the congestion control come from the contenders.

use std::sync::LazyLock;

use anabranch_stack::config::{
    ConnectionConfig, LossDetection, ScatterSwitch, SequenceOrigin, SimConfig, SimOnly,
};
use anabranch_stack::parameter::{self, Domain, Options, Parameter, Spec};
use anabranch_stack::path_manager::PathManagerKind;
use anabranch_stack::seq::{Dsn, Seq};
use anabranch_units::Duration;

use super::parameters;
use crate::text::base;
use crate::text::source::{Problem, did_you_mean};
use crate::text::tree::{Node, Table, Value};

/// A setting that a contender may have for itself.
#[derive(Clone, Copy)]
pub struct Knob {
    /// Its dotted name.
    pub name: &'static str,
    /// A short description.
    pub what: &'static str,
    kind: Kind,
}

#[derive(Clone, Copy)]
enum Kind {
    Setting(&'static Parameter<ConnectionConfig>),
    SimOnly(&'static Parameter<SimOnly>),
    Own {
        set: fn(&mut SimConfig, &Node) -> Result<(), Problem>,
        get: fn(&SimConfig) -> String,
        sim_only: bool,
    },
}

impl Knob {
    /// Returns its value in the syntax of a scenario.
    pub fn value(&self, config: &SimConfig) -> String {
        self.shown(config, |spec, value| spec.domain.show(value))
    }

    /// Returns its range, if it is a row of settings.
    pub fn domain(&self) -> Option<&'static Domain> {
        match self.kind {
            Kind::Setting(Parameter { spec, .. }) => Some(&spec.domain),
            Kind::SimOnly(Parameter { spec, .. }) => Some(&spec.domain),
            Kind::Own { .. } => None,
        }
    }

    /// True if it exists only in the simulator: an emulation, a kernel and a real host have no such setting.
    pub fn is_sim_only(&self) -> bool {
        matches!(self.kind, Kind::SimOnly(_) | Kind::Own { sim_only: true, .. })
    }

    /// Returns its value in the canonical form: in base units.
    pub(crate) fn canonical(&self, config: &SimConfig) -> String {
        self.shown(config, |spec, value| base::value(&spec.domain, value))
    }

    fn shown(&self, config: &SimConfig, show: fn(&Spec, &parameter::Value) -> String) -> String {
        match self.kind {
            Kind::Setting(setting) => show(&setting.spec, &(setting.get)(config)),
            Kind::SimOnly(setting) => show(&setting.spec, &(setting.get)(&config.only)),
            Kind::Own { get, .. } => get(config),
        }
    }

    fn set(&self, config: &mut SimConfig, node: &Node) -> Result<(), Problem> {
        match self.kind {
            Kind::Setting(setting) => set(setting, &mut config.connection, node),
            Kind::SimOnly(setting) => set(setting, &mut config.only, node),
            Kind::Own { set, .. } => set(config, node),
        }
    }
}

fn set<O>(Parameter { spec, get, set }: &Parameter<O>, options: &mut O, node: &Node) -> Result<(), Problem> {
    let value = parameters::setting(spec, node, &get(options))?;
    if !spec.domain.admits(&value) {
        return Err(parameters::out_of_range(spec, node, &value));
    }
    set(options, value);
    Ok(())
}

/// The knobs with their own syntax, each listed before the setting of that name.
const OWN: &[(&str, Knob)] = &[
    (
        "max-subflows",
        Knob {
            name: "path-manager",
            what: "path manager: none, full_mesh, n_diff_ports:N or anabranch",
            kind: Kind::Own {
                sim_only: false,
                set: set_path_manager,
                get: |config| match &config.path_manager {
                    PathManagerKind::NDiffPorts(n) => format!("n_diff_ports:{n}"),
                    kind => kind.name().to_owned(),
                },
            },
        },
    ),
    (
        "",
        Knob {
            name: "sequence-origin",
            what: "first sequence numbers for tests: `{ isn, initiator, listener }` or `random`",
            kind: Kind::Own {
                sim_only: true,
                set: set_sequence_origin,
                get: |config| match config.only.sequence_origin {
                    None => "random".to_owned(),
                    Some(origin) => format!(
                        "{{ isn = {}, initiator = {}, listener = {} }}",
                        origin.isn.0, origin.initiator.0, origin.listener.0
                    ),
                },
            },
        },
    ),
];

/// All knobs: first the settings of [`SimOnly`], then [`ConnectionConfig`] in its order.
pub static ALL: LazyLock<Vec<Knob>> = LazyLock::new(|| {
    let own =
        |before: &'static str| OWN.iter().filter(move |(place, _)| *place == before).map(|(_, knob)| *knob);
    let simulated = SimOnly::PARAMETERS.iter();
    let mut all: Vec<Knob> = simulated
        .map(|row| Knob { name: row.spec.name, what: row.spec.what, kind: Kind::SimOnly(row) })
        .collect();
    for setting in ConnectionConfig::PARAMETERS {
        all.extend(own(setting.spec.name));
        all.push(Knob { name: setting.spec.name, what: setting.spec.what, kind: Kind::Setting(setting) });
    }
    all.extend(own(""));
    all
});

fn set_path_manager(config: &mut SimConfig, node: &Node) -> Result<(), Problem> {
    let text = node.string()?.trim();
    let (name, count) = text.split_once(':').unwrap_or((text, ""));
    config.path_manager = match (name.replace('-', "_").as_str(), count.trim().parse::<u8>()) {
        ("none", _) if count.is_empty() => PathManagerKind::None,
        ("full_mesh", _) if count.is_empty() => PathManagerKind::FullMesh,
        ("n_diff_ports", Ok(n @ 1..=32)) => PathManagerKind::NDiffPorts(n),
        ("anabranch", _) if count.is_empty() => PathManagerKind::Anabranch(Box::default()),
        ("n_diff_ports", _) => {
            return Err(Problem::at(&node.span, "how many ports?")
                .help("write for example `n_diff_ports:2`; at most 32"));
        }
        _ => {
            return Err(crate::text::reader::unknown_name(
                node,
                text,
                "path manager",
                &["none", "full_mesh", "n_diff_ports:2", "anabranch"],
            ));
        }
    };
    Ok(())
}

fn set_sequence_origin(config: &mut SimConfig, node: &Node) -> Result<(), Problem> {
    if matches!(&node.value, Value::String(text) if text == "random") {
        config.only.sequence_origin = None;
        return Ok(());
    }
    let table = crate::text::reader::Reader::of(node, "sequence-origin", &["isn", "initiator", "listener"])?;
    // TOML has no integers beyond 2^63, and the DSN has 64 bits: a text in decimal or with 0x is accepted
    // too.
    let number = |most: u64| {
        move |node: &Node| match &node.value {
            Value::String(text) => {
                let text = text.trim();
                let number = match text.strip_prefix("0x") {
                    Some(hex) => u64::from_str_radix(hex, 16),
                    None => text.parse(),
                };
                number.ok().filter(|n| *n <= most).ok_or_else(|| {
                    Problem::at(&node.span, "this is not a sequence number")
                        .help("write for example \"0xfffffff0\"")
                })
            }
            _ => Ok(node.integer(0, most.min(i64::MAX as u64) as i64)? as u64),
        }
    };
    config.only.sequence_origin = Some(SequenceOrigin {
        isn: Seq(table.required("isn", "\"0xffff0000\"", number(u64::from(u32::MAX)))? as u32),
        initiator: Dsn(table.required("initiator", "\"0xffffffffffff0000\"", number(u64::MAX))?),
        listener: Dsn(table.required("listener", "\"0xffffffffffff0000\"", number(u64::MAX))?),
    });
    Ok(())
}

/// True if `key` is a knob or the first part of one.
pub fn is_knob_or_group(key: &str) -> bool {
    ALL.iter()
        .any(|knob| knob.name == key || knob.name.split_once('.').is_some_and(|(group, _)| group == key))
}

/// Sets the knobs of `table`; `skip` are other keys.
pub(crate) fn apply(config: &mut SimConfig, table: &Table, what: &str, skip: &[&str]) -> Result<(), Problem> {
    apply_group(config, table, "", what, skip)
}

fn apply_group(
    config: &mut SimConfig,
    table: &Table,
    group: &str,
    what: &str,
    skip: &[&str],
) -> Result<(), Problem> {
    for entry in table.entries.iter().filter(|entry| !skip.contains(&entry.key.as_str())) {
        let name = format!("{group}{}", entry.key);
        if let Some(knob) = ALL.iter().find(|knob| knob.name == name) {
            knob.set(config, &entry.node)?;
        } else if group.is_empty() && is_knob_or_group(&name) {
            let inner = entry.node.table(&format!("{what}.{name}"))?;
            apply_group(config, inner, &format!("{name}."), what, &[])?;
        } else {
            let names = ALL.iter().map(|knob| knob.name).chain(skip.iter().copied());
            let last = |name: &'static str| name.rsplit('.').next().unwrap_or(name);
            let near = did_you_mean(&name, names)
                .or_else(|| ALL.iter().map(|knob| knob.name).find(|known| last(known) == entry.key));
            let problem = Problem::at(&entry.key_span, format!("unknown key `{name}` in {what}"));
            return Err(problem.help(match near {
                Some(name) => format!("did you mean `{name}`?"),
                None => "`anabranch list knobs` shows what a connection can be told".to_owned(),
            }));
        }
    }
    Ok(())
}

/// Checks that a connection that begins with packet scatter can reach its switch; `downloads` is true if some flow is
/// sent by the side that listens.
pub(crate) fn check_scatter(
    config: &SimConfig,
    downloads: bool,
    span: &crate::text::source::Span,
) -> Result<(), Problem> {
    let switch = config.only.scatter_switch;
    let wrong = |message: &str, help: &str| Err(Problem::at(span, message).help(help));
    if matches!(switch, ScatterSwitch::Congestion | ScatterSwitch::Rate | ScatterSwitch::Either) && downloads
    {
        return wrong(
            match switch {
                ScatterSwitch::Rate => {
                    "the side that connects does not know the window of data that it receives"
                }
                _ => "the side that connects does not see the congestion of data that it receives",
            },
            "write `direction = \"upload\"` in `[traffic]`, or `scatter.switch = \"volume\"`",
        );
    }
    if config.path_manager == PathManagerKind::None
        && !matches!(switch, ScatterSwitch::Off | ScatterSwitch::Never)
    {
        return wrong(
            "after packet scatter no subflow is opened, as the path manager is `none`",
            "write for example `path-manager = \"n_diff_ports:9\"`, or `scatter.switch = \"never\"`",
        );
    }
    if switch != ScatterSwitch::Off && config.only.simultaneous {
        return wrong(
            "simultaneous joins leave no time for packet scatter",
            "write `simultaneous = false`, or remove `scatter`",
        );
    }
    Ok(())
}

/// Checks that the knobs are consistent.
pub(crate) fn check(config: &ConnectionConfig, span: &crate::text::source::Span) -> Result<(), Problem> {
    let wrong = |message: String, help: &str| Err(Problem::at(span, message).help(help));
    // The IP and TCP headers without options: 40 bytes of IPv4.
    if config.mss + 40 > config.mtu {
        return wrong(
            format!("an MSS of {} bytes does not fit into an MTU of {} bytes", config.mss, config.mtu),
            "the MTU has the payload, 40 bytes of IP and TCP headers, and up to 40 bytes of options",
        );
    }
    if config.loss_detection == LossDetection::RackTlp && !config.sack {
        return wrong(
            "RACK-TLP needs selective acknowledgements".to_owned(),
            "write `sack = true`, or `loss-detection = \"duplicate-acks\"`",
        );
    }
    if config.rto.min > config.rto.max || config.rto.max.is_zero() || config.rto.min.is_zero() {
        return wrong(
            format!("the timeout lies between {} and {}", config.rto.min, config.rto.max),
            "give `rto.min` and `rto.max` above 0, `rto.min` not above `rto.max`",
        );
    }
    if config.rto.initial.is_zero() || config.user_timeout < Duration::from_millis(1) {
        return wrong(
            "`rto.initial` and `user-timeout` must not be 0".to_owned(),
            "give for example `rto.initial = \"1 s\"` and `user-timeout = \"900 s\"`",
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::tree::parse_assignment;

    /// The displayed value of a knob, set again as text, gives the same configuration.
    #[test]
    fn every_knob_reads_what_it_shows() {
        for config in [SimConfig::from(ConnectionConfig::linux()), SimConfig::ns3()] {
            let mut other = SimConfig::new(anabranch_stack::config::Profile::Linux);
            other.mss = 500;
            for knob in ALL.iter() {
                // Inline tables need their texts quoted.
                let shown = knob.value(&config);
                let text = shown.replace("= ", "= \"").replace(" B,", " B\",").replace(" B }", " B\" }");
                let text = if shown.starts_with('{') { text } else { shown.clone() };
                let (_, node) = parse_assignment(&format!("x={text}"), 0).unwrap();
                knob.set(&mut other, &node).unwrap_or_else(|p| panic!("{}: {}", knob.name, p.message));
                assert_eq!(knob.value(&other), shown, "{}", knob.name);
            }
        }
    }

    #[test]
    fn names_are_unique() {
        for (index, knob) in ALL.iter().enumerate() {
            assert!(ALL[..index].iter().all(|other| other.name != knob.name), "{}", knob.name);
        }
    }
}
