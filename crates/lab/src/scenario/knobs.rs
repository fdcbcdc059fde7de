//! The knobs of a connection by their names in `[connection]` and in `--set`.

use anabranch_stack::config::{
    Checksums, ConnectionConfig, DsnWidth, LossDetection, OpportunisticRetransmission, PathMtuDiscovery,
    ReceiveBuffer, Reinjection, SendBuffers, SequenceOrigin,
};
use anabranch_stack::path_manager::PathManagerKind;
use anabranch_stack::seq::{Dsn, Seq};
use anabranch_units::{Bytes, Duration};

use crate::source::Problem;
use crate::source::did_you_mean;
use crate::tree::{Node, Table, Value};

/// One knob.
#[derive(Clone, Copy)]
pub struct Knob {
    /// Its dotted name.
    pub name: &'static str,
    /// A short description.
    pub what: &'static str,
    set: fn(&mut ConnectionConfig, &Node) -> Result<(), Problem>,
    get: fn(&ConnectionConfig) -> String,
    /// Its value in the canonical form, if that differs.
    canonical: Option<fn(&ConnectionConfig) -> String>,
}

impl Knob {
    /// Returns its value in the syntax of a scenario.
    pub fn value(&self, config: &ConnectionConfig) -> String {
        (self.get)(config)
    }

    /// Returns its value in the canonical form: in base units.
    pub(super) fn canonical(&self, config: &ConnectionConfig) -> String {
        self.canonical.unwrap_or(self.get)(config)
    }
}

/// Defines a knob that is a field of this kind.
macro_rules! knob {
    ($name:literal, $what:literal, bool, $($field:ident).+) => {
        Knob {
            name: $name,
            what: $what,
            set: |config, node| { config.$($field).+ = node.boolean()?; Ok(()) },
            canonical: None,
            get: |config| config.$($field).+.to_string(),
        }
    };
    ($name:literal, $what:literal, time, $($field:ident).+) => {
        Knob {
            name: $name,
            what: $what,
            set: |config, node| { config.$($field).+ = node.delay()?; Ok(()) },
            get: |config| config.$($field).+.to_string(),
            canonical: Some(|config| format!("{} ns", config.$($field).+.0)),
        }
    };
    ($name:literal, $what:literal, $low:literal..=$high:literal, $($field:ident).+) => {
        Knob {
            name: $name,
            what: $what,
            set: |config, node| { config.$($field).+ = node.integer($low, $high)? as _; Ok(()) },
            canonical: None,
            get: |config| config.$($field).+.to_string(),
        }
    };
    ($name:literal, $what:literal, [$($word:literal => $value:path),+], $($field:ident).+) => {
        Knob {
            name: $name,
            what: $what,
            set: |config, node| {
                let values = [$($value),+];
                config.$($field).+ = values[node.choice($what, &[$($word),+])?];
                Ok(())
            },
            canonical: None,
            get: |config| {
                let known = [$(($word, $value)),+];
                let found = known.iter().find(|(_, value)| *value == config.$($field).+);
                found.map_or("?", |(word, _)| *word).to_owned()
            },
        }
    };
}

/// All knobs, in the order of [`ConnectionConfig`]. The scheduler and the congestion control are those of the
/// contenders.
pub const ALL: &[Knob] = &[
    knob!("simultaneous", "all handshakes start together (simulator alone)", bool, simultaneous),
    knob!("mss", "most payload of a segment, bytes", 88..=65000, mss),
    knob!("mtu", "MTU of every path, bytes", 168..=65535, mtu),
    knob!("initial-window", "initial congestion window, segments", 1..=10000, initial_window),
    Knob {
        name: "initial-ssthresh",
        what: "initial slow-start threshold, segments, or `none`",
        set: |config, node| {
            config.initial_ssthresh = match &node.value {
                Value::String(text) if text == "none" => None,
                _ => Some(node.integer(2, 1 << 30)? as u32),
            };
            Ok(())
        },
        canonical: None,
        get: |config| config.initial_ssthresh.map_or("none".to_owned(), |n| n.to_string()),
    },
    Knob {
        name: "byte-counting-limit",
        what: "most segments that an ACK adds in slow start (L of RFC 3465), or `none`",
        set: |config, node| {
            config.byte_counting_limit = match &node.value {
                Value::String(text) if text == "none" => None,
                _ => Some(node.integer(1, 1 << 30)? as u32),
            };
            Ok(())
        },
        canonical: None,
        get: |config| config.byte_counting_limit.map_or("none".to_owned(), |n| n.to_string()),
    },
    knob!("loss-detection", "loss detection", ["rack-tlp" => LossDetection::RackTlp, "duplicate-acks" => LossDetection::DuplicateAcks], loss_detection),
    knob!("sack", "selective acknowledgements", bool, sack),
    knob!("timestamps", "timestamps", bool, timestamps),
    knob!("prr", "proportional rate reduction", bool, prr),
    knob!("undo", "undo of spurious timeouts and recoveries", bool, undo),
    knob!("limited-transmit", "limited transmit", bool, limited_transmit),
    knob!("ecn", "explicit congestion notification", bool, ecn),
    knob!("idle-restart", "initial window again after an idle time", bool, idle_restart),
    knob!("pacing", "pacing", bool, pacing),
    knob!("lisa", "slow start of joining subflows linked to the others'", bool, lisa),
    knob!("rto.initial", "timeout before there is an RTT sample", time, rto.initial),
    knob!("rto.min", "least timeout", time, rto.min),
    knob!("rto.max", "greatest timeout", time, rto.max),
    knob!("rto.backoff", "each timeout in a row doubles the next", bool, rto.backoff),
    knob!(
        "rto.max-timeouts",
        "timeouts in a row after which a subflow is dead",
        1..=1000000,
        rto.max_timeouts
    ),
    knob!("rto.syn-retries", "how often a SYN is sent again", 0..=1000, rto.syn_retries),
    knob!("mptcp-syns", "SYNs with MP_CAPABLE before the next is a plain one", 1..=1000, mptcp_syns),
    knob!("ack.every", "segments after which an ACK is due", 1..=1000, ack.every),
    knob!("ack.delay", "how long a single segment may wait for its ACK", time, ack.delay),
    knob!("ack.quick", "segments at the start that are acknowledged at once", 0..=1000000, ack.quick),
    knob!("ack.growth", "segments that raise the offered window are acknowledged at once", bool, ack.growth),
    knob!("ack.push", "full segments that end a burst are acknowledged at once", bool, ack.push),
    Knob {
        name: "receive-buffer",
        what: "receive buffer: a size, or `{ initial, max }` for autotuning",
        set: set_receive_buffer,
        canonical: None,
        get: |config| match config.receive_buffer {
            ReceiveBuffer::Fixed(size) => format!("{} B", size.0),
            ReceiveBuffer::Auto { initial, max } => {
                format!("{{ initial = {} B, max = {} B }}", initial.0, max.0)
            }
        },
    },
    Knob {
        name: "send-buffer",
        what: "bytes written and not yet acknowledged: a size, or `{ initial, max }` for autotuning",
        set: set_send_buffer,
        canonical: None,
        get: |config| match config.send_buffer_start {
            None => format!("{} B", config.send_buffer.0),
            Some(initial) => {
                format!("{{ initial = {} B, max = {} B }}", initial.0, config.send_buffer.0)
            }
        },
    },
    Knob {
        name: "subflow-send-buffer",
        what: "send buffer of each subflow, their sum the connection's: a size, `{ initial, max }` or `none`",
        set: set_send_buffers,
        canonical: None,
        get: |config| match config.send_buffers {
            None => "none".to_owned(),
            Some(SendBuffers::Fixed(size)) => format!("{} B", size.0),
            Some(SendBuffers::Auto { initial, max }) => {
                format!("{{ initial = {} B, max = {} B }}", initial.0, max.0)
            }
        },
    },
    knob!("user-timeout", "unacknowledged time after which a connection is aborted", time, user_timeout),
    Knob {
        name: "keepalive",
        what: "silence after which an idle peer is probed, or `none`",
        set: |config, node| {
            config.keepalive = match &node.value {
                Value::String(text) if text == "none" => None,
                _ => Some(node.delay()?),
            };
            Ok(())
        },
        canonical: Some(|config| config.keepalive.map_or("none".to_owned(), |time| format!("{} ns", time.0))),
        get: |config| config.keepalive.map_or("none".to_owned(), |time| time.to_string()),
    },
    knob!("time-wait", "how long a closed subflow is remembered", time, time_wait),
    knob!("close-timeout", "how long a connection lives without a subflow", time, close_timeout),
    Knob {
        name: "path-manager",
        what: "path manager: none, full_mesh or n_diff_ports:N",
        set: set_path_manager,
        canonical: None,
        get: |config| match config.path_manager {
            PathManagerKind::None => "none".to_owned(),
            PathManagerKind::FullMesh => "full_mesh".to_owned(),
            PathManagerKind::NDiffPorts(n) => format!("n_diff_ports:{n}"),
        },
    },
    knob!("max-subflows", "most subflows at once", 1..=32, max_subflows),
    knob!("opportunistic", "opportunistic retransmission", ["off" => OpportunisticRetransmission::Off, "retransmit" => OpportunisticRetransmission::Retransmit, "retransmit-and-penalise" => OpportunisticRetransmission::RetransmitAndPenalise], opportunistic),
    knob!("reinjection", "reinjection", ["on-death" => Reinjection::OnDeath, "on-timeout" => Reinjection::OnTimeout], reinjection),
    knob!("path-mtu", "how a smaller MTU on the way is found", ["off" => PathMtuDiscovery::Off, "icmp" => PathMtuDiscovery::Icmp, "probe" => PathMtuDiscovery::Probe], path_mtu),
    knob!("dsn-width", "width of data sequence numbers", ["wide" => DsnWidth::Wide, "narrow" => DsnWidth::Narrow], dsn_width),
    knob!("checksums", "DSS checksums", ["refused" => Checksums::Refused, "if-asked" => Checksums::IfAsked, "required" => Checksums::Required], checksums),
    Knob {
        name: "sequence-origin",
        what: "first sequence numbers for tests: `{ isn, initiator, listener }` or `random`",
        set: set_sequence_origin,
        canonical: None,
        get: |config| match config.sequence_origin {
            None => "random".to_owned(),
            Some(origin) => format!(
                "{{ isn = {}, initiator = {}, listener = {} }}",
                origin.isn.0, origin.initiator.0, origin.listener.0
            ),
        },
    },
];

fn buffer(node: &Node) -> Result<Bytes, Problem> {
    let size = node.size()?;
    if size.0 < 1000 || size.0 > 1 << 40 {
        return Err(Problem::at(&node.span, format!("a buffer of {size} is out of range"))
            .help("give from `1 KB` to `1 TB`"));
    }
    Ok(size)
}

fn set_receive_buffer(config: &mut ConnectionConfig, node: &Node) -> Result<(), Problem> {
    let Value::Table(_) = &node.value else {
        config.receive_buffer = ReceiveBuffer::Fixed(buffer(node)?);
        return Ok(());
    };
    let old = config.receive_buffer;
    let (initial, max) = initial_and_max(node, "receive-buffer", old.initial(), old.max())?;
    config.receive_buffer = ReceiveBuffer::Auto { initial, max };
    Ok(())
}

fn set_send_buffer(config: &mut ConnectionConfig, node: &Node) -> Result<(), Problem> {
    let Value::Table(_) = &node.value else {
        config.send_buffer = buffer(node)?;
        config.send_buffer_start = None;
        return Ok(());
    };
    let old = config.send_buffer;
    let (initial, max) = initial_and_max(node, "send-buffer", config.send_buffer_start.unwrap_or(old), old)?;
    config.send_buffer = max;
    config.send_buffer_start = Some(initial);
    Ok(())
}

fn set_send_buffers(config: &mut ConnectionConfig, node: &Node) -> Result<(), Problem> {
    config.send_buffers = match &node.value {
        Value::String(text) if text == "none" => None,
        Value::Table(_) => {
            let (initial, max) = match config.send_buffers {
                Some(SendBuffers::Auto { initial, max }) => (initial, max),
                _ => (Bytes::from_kib(16), Bytes::from_kib(4 << 10)),
            };
            let (initial, max) = initial_and_max(node, "subflow-send-buffer", initial, max)?;
            Some(SendBuffers::Auto { initial, max })
        }
        _ => Some(SendBuffers::Fixed(buffer(node)?)),
    };
    Ok(())
}

/// Reads the two sizes of a growing buffer; a missing one keeps its value.
fn initial_and_max(
    node: &Node,
    name: &'static str,
    initial: Bytes,
    max: Bytes,
) -> Result<(Bytes, Bytes), Problem> {
    let table = crate::reader::Reader::of(node, name, &["initial", "max"])?;
    let initial = table.optional("initial", buffer)?.unwrap_or(initial);
    let max = table.optional("max", buffer)?.unwrap_or(max.max(initial));
    if initial > max {
        let text = format!("the {name} starts at {initial} and ends at {max}");
        return Err(
            Problem::at(&node.span, text.replace('-', " ")).help("give a `max` that is not below `initial`")
        );
    }
    Ok((initial, max))
}

fn set_path_manager(config: &mut ConnectionConfig, node: &Node) -> Result<(), Problem> {
    let text = node.string()?.trim();
    let (name, count) = text.split_once(':').unwrap_or((text, ""));
    config.path_manager = match (name.replace('-', "_").as_str(), count.trim().parse::<u8>()) {
        ("none", _) if count.is_empty() => PathManagerKind::None,
        ("full_mesh", _) if count.is_empty() => PathManagerKind::FullMesh,
        ("n_diff_ports", Ok(n @ 1..=32)) => PathManagerKind::NDiffPorts(n),
        ("n_diff_ports", _) => {
            return Err(Problem::at(&node.span, "how many ports?")
                .help("write for example `n_diff_ports:2`; at most 32"));
        }
        _ => {
            return Err(crate::reader::unknown_name(
                node,
                text,
                "path manager",
                &["none", "full_mesh", "n_diff_ports:2"],
            ));
        }
    };
    Ok(())
}

fn set_sequence_origin(config: &mut ConnectionConfig, node: &Node) -> Result<(), Problem> {
    if matches!(&node.value, Value::String(text) if text == "random") {
        config.sequence_origin = None;
        return Ok(());
    }
    let table = crate::reader::Reader::of(node, "sequence-origin", &["isn", "initiator", "listener"])?;
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
    config.sequence_origin = Some(SequenceOrigin {
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
pub(crate) fn apply(
    config: &mut ConnectionConfig,
    table: &Table,
    what: &str,
    skip: &[&str],
) -> Result<(), Problem> {
    apply_group(config, table, "", what, skip)
}

fn apply_group(
    config: &mut ConnectionConfig,
    table: &Table,
    group: &str,
    what: &str,
    skip: &[&str],
) -> Result<(), Problem> {
    for entry in table.entries.iter().filter(|entry| !skip.contains(&entry.key.as_str())) {
        let name = format!("{group}{}", entry.key);
        if let Some(knob) = ALL.iter().find(|knob| knob.name == name) {
            (knob.set)(config, &entry.node)?;
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

/// Checks that the knobs are consistent.
pub(crate) fn check(config: &ConnectionConfig, span: &crate::source::Span) -> Result<(), Problem> {
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
    use crate::tree::parse_assignment;

    /// The displayed value of a knob, set again as text, gives the same configuration.
    #[test]
    fn every_knob_reads_what_it_shows() {
        for config in [ConnectionConfig::linux(), ConnectionConfig::ns3()] {
            let mut other = ConnectionConfig::new(anabranch_stack::config::Profile::Linux);
            other.mss = 500;
            for knob in ALL {
                // Inline tables need their texts quoted.
                let shown = knob.value(&config);
                let text = shown.replace("= ", "= \"").replace(" B,", " B\",").replace(" B }", " B\" }");
                let text = if shown.starts_with('{') { text } else { shown.clone() };
                let (_, node) = parse_assignment(&format!("x={text}"), 0).unwrap();
                (knob.set)(&mut other, &node).unwrap_or_else(|p| panic!("{}: {}", knob.name, p.message));
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
