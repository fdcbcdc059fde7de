//! Reads the contenders, and makes the configurations of their connections.

use anabranch_stack::config::{ConnectionConfig, SimConfig};
use anabranch_stack::congestion::CongestionKind;
use anabranch_stack::scheduler::SchedulerKind;

use super::{knobs, parameters, path};
use crate::model::{Contender, Path, Transport};
use crate::text::keys::rows;
use crate::text::reader::unknown_name;
use crate::text::source::Problem;
use crate::text::tree::{Node, Table, Value};

rows! {
    /// The keys of a contender that are not knobs.
    pub(crate) OWN_ROWS, OWN_KEYS {
        "name": Name, "its unique name in results; default that of the scheduler";
        "scheduler": Derived(Derived::Scheduler), "the scheduler, or `tcp` or `tcp@N`";
        "congestion": Derived(Derived::Congestion), "a congestion control of its own";
    }
}

/// Returns the transport of the contender `node`, and its default name.
fn transport(node: &Node, paths: &[Path], defaults: Option<&Table>) -> Result<(Transport, String), Problem> {
    if let Value::Table(table) = &node.value {
        let kind: SchedulerKind = parameters::read(node, defaults)?;
        let name = table.get("name").map_or_else(|| Ok(kind.name().to_owned()), |entry| entry.node.name())?;
        return Ok((Transport::Multipath(kind), name));
    }
    let name = node.name()?;
    if name == "tcp" {
        return Ok((Transport::Tcp { path: None }, name));
    }
    if let Some(number) = name.strip_prefix("tcp@") {
        let position = path::find_path(number, paths);
        let Some(position) = position else {
            return Err(path::no_such_path(node, number, paths));
        };
        return Ok((Transport::Tcp { path: Some(position) }, name));
    }
    if !name.contains(':') && SchedulerKind::from_name(&name).is_none() {
        let kinds = SchedulerKind::ALL;
        let mut names = vec!["tcp"];
        names.extend(kinds.iter().map(|kind| kind.name()));
        return Err(unknown_name(node, &name, "scheduler", &names));
    }
    Ok((Transport::Multipath(parameters::read(node, defaults)?), name))
}

/// Reads a congestion control.
pub(super) fn congestion(node: &Node) -> Result<CongestionKind, Problem> {
    parameters::read(node, None)
}

/// Reads all contenders; `defaults` are the parameters of schedulers by name.
pub(super) fn read_all(
    node: &Node,
    paths: &[Path],
    defaults: Option<&Table>,
) -> Result<Vec<Contender>, Problem> {
    // `tcp,min_rtt` is a list as well.
    let split: Vec<Node>;
    let nodes = match &node.value {
        Value::String(text) => {
            let one =
                |name: &str| Node { span: node.span.clone(), value: Value::String(name.trim().to_owned()) };
            split = text.split(',').map(one).collect();
            &split
        }
        _ => node.array()?,
    };
    if nodes.is_empty() {
        return Err(Problem::at(&node.span, "there are no contenders")
            .help("give for example `[\"tcp\", \"min_rtt\", \"dmptcp\"]`"));
    }
    let mut contenders: Vec<Contender> = Vec::new();
    for node in nodes {
        let contender = read(node, paths, defaults)?;
        if contenders.iter().any(|other| other.name == contender.name) {
            return Err(Problem::at(&node.span, format!("`{}` is given twice", contender.name))
                .help("give one of them a name of its own: `{ scheduler = \"...\", name = \"...\", ... }`"));
        }
        contenders.push(contender);
    }
    Ok(contenders)
}

fn read(node: &Node, paths: &[Path], defaults: Option<&Table>) -> Result<Contender, Problem> {
    let span = node.span.clone();
    let Value::Table(table) = &node.value else {
        let (transport, name) = transport(node, paths, defaults)?;
        return Ok(Contender { name, transport, congestion: None, knobs: Table::default(), span });
    };
    let Some(scheduler) = table.get("scheduler") else {
        return Err(Problem::at(&span, "this contender has no `scheduler`")
            .help("add for example `scheduler = \"min_rtt\"`"));
    };
    let (mut transport, name) = transport(&scheduler.node, paths, defaults)?;
    // Parameters may be given directly or in the scheduler's table.
    let parameters = match &mut transport {
        Transport::Multipath(kind) => {
            let names = parameters::names(kind);
            parameters::apply(kind, table.entries.iter().filter(|e| names.contains(&e.key.as_str())))?;
            names
        }
        Transport::Tcp { .. } => Vec::new(),
    };
    let own = [OWN_KEYS, &parameters].concat();
    // Wrong knobs are found here once, and not for each condition.
    knobs::apply(&mut ConnectionConfig::linux().into(), table, "a contender", &own)?;
    let mut knobs = Table::default();
    knobs.entries.extend(table.entries.iter().filter(|e| !own.contains(&e.key.as_str())).cloned());
    Ok(Contender {
        name: table.get("name").map_or(Ok(name), |entry| entry.node.name())?,
        transport,
        congestion: table.get("congestion").map(|entry| congestion(&entry.node)).transpose()?,
        knobs,
        span,
    })
}

impl Contender {
    /// Returns the configuration of its connections, starting from `base`.
    pub(super) fn config(&self, base: &Base) -> Result<SimConfig, Problem> {
        let mut config = base.config.clone();
        if let Some(congestion) = &self.congestion {
            config.congestion = congestion.clone();
        }
        knobs::apply(&mut config, &self.knobs, "a contender", &[])?;
        match &self.transport {
            Transport::Tcp { .. } => config = plain_tcp(config),
            Transport::Multipath(kind) => config.scheduler = kind.clone(),
        }
        if base.fills_mtu && self.knobs.get("mss").is_none() {
            config.mss = config.full_segment(base.ipv6);
        }
        knobs::check(&config, &self.span)?;
        Ok(config)
    }
}

/// The configuration that the contenders of a condition start from.
pub(super) struct Base {
    pub config: SimConfig,
    /// True if segments have the size that the MTU permits, as no `mss` is given and the profile fills
    /// packets.
    pub fills_mtu: bool,
    /// True if the headers are IPv6.
    pub ipv6: bool,
}

impl Base {
    /// Returns a plain TCP with these settings.
    pub(super) fn plain_tcp(&self) -> SimConfig {
        let mut config = plain_tcp(self.config.clone());
        if self.fills_mtu {
            config.mss = config.full_segment(self.ipv6);
        }
        config
    }
}

/// Returns the same without MPTCP, with NewReno instead of a coupled congestion control.
fn plain_tcp(mut config: SimConfig) -> SimConfig {
    config.mptcp = false;
    config.only.simultaneous = false;
    if config.congestion.is_coupled() {
        config.congestion = CongestionKind::NewReno;
    }
    config
}
