//! The equivalent of each knob of a connection in the kernel, or the reason that there is none.
//!
//! A knob that is not at its default is either applied to the kernel's runs, by a value under `/proc/sys`, an
//! attribute of the routes, a limit of the kernel's path manager or a socket option, or the scenario is
//! rejected. A knob missing from this table is rejected, so that none can be ignored; those that exist only in
//! the simulator need no row.

use anabranch_lab::scenario::knobs::ALL;
use anabranch_stack::config::{
    Checksums, ConnectionConfig, LossDetection, PathMtuDiscovery, ReceiveBuffer, SendBuffers, SimConfig,
};
use anabranch_stack::path_manager::PathManagerKind;
use anabranch_units::Duration;

use crate::points::KernelEnd;

/// The headers of a full segment over IPv4 and IPv6.
const HEADERS: [u32; 2] = [40, 60];
/// The length of the timestamps option.
const TIMESTAMPS: u32 = 12;
/// The length of the kernel's DSS, with a data ACK of 32 bits and a data sequence number of 64.
const DSS: u32 = 24;
/// The MTU of a device.
const MTU: u32 = 1500;

/// The kernel's settings for the knobs that are not at their defaults.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KernelSettings {
    /// Values under `/proc/sys`, on both hosts.
    pub sysctls: Vec<(String, String)>,
    /// Attributes of the routes over the paths, in the syntax of `ip route`.
    pub route: Vec<String>,
    /// The MTU of the paths' devices.
    pub mtu: Option<u32>,
    /// The largest number of subflows of a connection.
    pub subflows: Option<u32>,
    /// `SO_RCVBUF`, in bytes.
    pub receive_buffer: Option<u32>,
    /// `SO_SNDBUF`, in bytes.
    pub send_buffer: Option<u32>,
    /// `TCP_USER_TIMEOUT`.
    pub user_timeout: Option<Duration>,
    /// The idle time of `SO_KEEPALIVE`.
    pub keepalive: Option<Duration>,
    /// True for `TCP_NODELAY`.
    pub no_delay: bool,
}

impl KernelSettings {
    fn sysctl(&mut self, key: &str, value: impl ToString) -> Result<(), String> {
        self.sysctls.push((key.to_owned(), value.to_string()));
        Ok(())
    }

    fn route(&mut self, attribute: String) -> Result<(), String> {
        self.route.push(attribute);
        Ok(())
    }

    /// Sets a boolean below `net/ipv4`.
    fn switch(&mut self, key: &str, on: bool) -> Result<(), String> {
        self.sysctl(&format!("net/ipv4/{key}"), u8::from(on))
    }
}

/// The treatment of a knob.
enum How {
    /// Applied by this function; its error names the values that the kernel does not have.
    Applied(fn(&ConnectionConfig, &mut KernelSettings) -> Result<(), String>),
    /// Rejected, for this reason.
    Refused(&'static str),
}
use How::{Applied, Refused};

/// The end of a transfer at which a knob matters, for the sender of the data and the receiver.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Matters {
    Sender,
    Receiver,
    Both,
}
use Matters::{Both, Receiver, Sender};

impl Matters {
    /// True if it matters to the kernel at that end; at both ends, if none is given.
    fn at(self, end: Option<KernelEnd>) -> bool {
        match end {
            None => true,
            Some(KernelEnd::Sender) => self != Receiver,
            Some(KernelEnd::Receiver) => self != Sender,
        }
    }
}

/// All knobs but those that exist only in the simulator.
const KNOBS: &[(&str, Matters, How)] = &[
    ("mss", Sender, Applied(mss)),
    ("mtu", Both, Applied(mtu)),
    (
        "initial-window",
        Sender,
        Applied(|config, kernel| kernel.route(format!("initcwnd {}", config.initial_window))),
    ),
    ("initial-ssthresh", Sender, Refused("the kernel takes it only from earlier connections")),
    ("byte-counting-limit", Sender, Refused("the kernel counts all acknowledged bytes")),
    ("loss-detection", Sender, Applied(loss_detection)),
    ("sack", Both, Applied(|config, kernel| kernel.switch("tcp_sack", config.sack))),
    ("timestamps", Both, Applied(|config, kernel| kernel.switch("tcp_timestamps", config.timestamps))),
    ("prr", Sender, Refused("the kernel always has it")),
    ("undo", Sender, Refused("the kernel always has it")),
    ("limited-transmit", Sender, Refused("the kernel always has it")),
    ("ecn", Both, Applied(|config, kernel| kernel.switch("tcp_ecn", config.ecn))),
    (
        "idle-restart",
        Sender,
        Applied(|config, kernel| kernel.switch("tcp_slow_start_after_idle", config.idle_restart)),
    ),
    (
        "pacing",
        Sender,
        Refused("the kernel paces by a queueing discipline, which the emulated devices do not have"),
    ),
    (
        "nagle",
        Sender,
        Applied(|config, kernel| {
            kernel.no_delay = !config.nagle;
            Ok(())
        }),
    ),
    ("fill-window", Sender, Refused("the kernel always assigns data up to the edge of the window")),
    ("tso-defer", Sender, Refused("the kernel always defers packets that acknowledgements let grow")),
    ("small-queues", Sender, Refused("the kernel's scheduler does not look at the queue of a device")),
    ("whole-first-window", Sender, Refused("the kernel's first window always has whole segments")),
    ("window-memory", Receiver, Refused("the kernel's window is always its free memory")),
    ("fin-with-data", Sender, Refused("the kernel always sends the FIN with data that waits")),
    ("late-probes", Sender, Refused("the kernel's probes are always as late")),
    ("repeat-keys", Both, Refused("the kernel sends the keys with the third ACK and the first data only")),
    ("lisa", Sender, Refused("the kernel does not have it")),
    ("rto.initial", Both, Refused("the kernel uses 1 s")),
    (
        "rto.min",
        Sender,
        Applied(|config, kernel| kernel.sysctl("net/ipv4/tcp_rto_min_us", config.rto.min.as_nanos() / 1000)),
    ),
    (
        "rto.max",
        Sender,
        Applied(|config, kernel| {
            let millis = config.rto.max.as_nanos() / 1_000_000;
            within("rto.max", millis, 1000, 120_000, "ms")?;
            kernel.sysctl("net/ipv4/tcp_rto_max_ms", millis)
        }),
    ),
    ("rto.backoff", Sender, Refused("the kernel always backs off")),
    (
        "rto.max-timeouts",
        Sender,
        Applied(|config, kernel| {
            within("rto.max-timeouts", config.rto.max_timeouts.into(), 1, 255, "timeouts")?;
            kernel.sysctl("net/ipv4/tcp_retries2", config.rto.max_timeouts)
        }),
    ),
    (
        "rto.syn-retries",
        Both,
        Applied(|config, kernel| {
            within("rto.syn-retries", config.rto.syn_retries.into(), 1, 127, "retries")?;
            kernel.sysctl("net/ipv4/tcp_syn_retries", config.rto.syn_retries)
        }),
    ),
    (
        "mptcp-syns",
        Both,
        // The kernel does not count the first.
        Applied(|config, kernel| {
            kernel.sysctl("net/mptcp/syn_retrans_before_tcp_fallback", config.mptcp_syns.saturating_sub(1))
        }),
    ),
    ("ack.every", Receiver, Applied(ack_every)),
    ("ack.delay", Receiver, Refused("the kernel adapts its delay to the sender, between 40 and 200 ms")),
    ("ack.quick", Receiver, Refused("the kernel decides by itself how long it acknowledges every segment")),
    ("ack.growth", Receiver, Refused("the kernel always acknowledges segments that raise its window")),
    ("ack.drain", Receiver, Refused("the kernel always acknowledges when its program has read all")),
    ("ack.push", Receiver, Refused("the kernel always acknowledges at the end of a burst")),
    ("receive-buffer", Receiver, Applied(receive_buffer)),
    ("send-buffer", Sender, Applied(send_buffer)),
    ("subflow-send-buffer", Sender, Applied(subflow_send_buffer)),
    (
        "user-timeout",
        Both,
        Applied(|config, kernel| match config.mptcp {
            true => Err("the kernel does not have it for Multipath TCP".to_owned()),
            false => {
                kernel.user_timeout = Some(config.user_timeout);
                Ok(())
            }
        }),
    ),
    (
        "keepalive",
        Both,
        Applied(|config, kernel| {
            let idle = config.keepalive.map_or(0, |idle| idle.as_nanos());
            if idle < 1_000_000_000 || !idle.is_multiple_of(1_000_000_000) {
                return Err("the kernel supports only whole seconds".to_owned());
            }
            kernel.keepalive = config.keepalive;
            Ok(())
        }),
    ),
    ("time-wait", Both, Refused("the kernel uses 60 s")),
    (
        "close-timeout",
        Both,
        Applied(|config, kernel| {
            let nanos = config.close_timeout.as_nanos();
            if !nanos.is_multiple_of(1_000_000_000) {
                return Err("the kernel supports only whole seconds".to_owned());
            }
            kernel.sysctl("net/mptcp/close_timeout", nanos / 1_000_000_000)
        }),
    ),
    (
        "path-manager",
        Both,
        Applied(|config, kernel| match &config.path_manager {
            PathManagerKind::FullMesh => Ok(()),
            PathManagerKind::None => {
                kernel.subflows = Some(1);
                Ok(())
            }
            PathManagerKind::NDiffPorts(_) => {
                Err("the kernel's path manager has no `n_diff_ports`".to_owned())
            }
            PathManagerKind::Anabranch(_) => {
                Err("the kernel's path manager opens every subflow at once".to_owned())
            }
            PathManagerKind::Endpoints(_) => {
                Err("endpoints and limits belong to hosts, not to a connection".to_owned())
            }
            PathManagerKind::Custom(_) => Err("the kernel has no path manager of a user's own".to_owned()),
        }),
    ),
    ("race", Both, Refused("the kernel opens a connection on one path")),
    (
        "max-subflows",
        Both,
        Applied(|config, kernel| {
            within("max-subflows", config.max_subflows.into(), 1, 9, "subflows")?;
            kernel.subflows = kernel.subflows.or(Some(config.max_subflows.into()));
            Ok(())
        }),
    ),
    ("opportunistic", Sender, Refused("the kernel does not have it")),
    ("reinjection", Sender, Refused("the kernel itself decides when to reinject")),
    (
        "path-mtu",
        Sender,
        Applied(|config, kernel| match config.path_mtu {
            PathMtuDiscovery::Icmp => Ok(()),
            PathMtuDiscovery::Probe => kernel.sysctl("net/ipv4/tcp_mtu_probing", 1),
            PathMtuDiscovery::Off => Err("the kernel always accepts ICMP errors".to_owned()),
        }),
    ),
    ("dsn-width", Both, Refused("the kernel itself decides the width")),
    (
        "checksums",
        Both,
        Applied(|config, kernel| match config.checksums {
            Checksums::IfAsked => Ok(()),
            Checksums::Required => kernel.sysctl("net/mptcp/checksum_enabled", 1),
            Checksums::Refused => Err("the kernel never rejects them".to_owned()),
        }),
    ),
];

fn within(name: &str, value: u64, low: u64, high: u64, unit: &str) -> Result<(), String> {
    match (low..=high).contains(&value) {
        true => Ok(()),
        false => Err(format!("the kernel's `{name}` is from {low} to {high} {unit}")),
    }
}

/// Returns the length of the options of a full segment.
fn options(config: &ConnectionConfig) -> u32 {
    (if config.timestamps { TIMESTAMPS } else { 0 }) + (if config.mptcp { DSS } else { 0 })
}

/// Returns the payload of a full segment of the kernel with the MTU of `config`, over IPv6 or IPv4.
pub(crate) fn full_segment(config: &ConnectionConfig, ipv6: bool) -> u32 {
    config.mtu.min(MTU).saturating_sub(HEADERS[usize::from(ipv6)] + options(config))
}

fn mss(config: &ConnectionConfig, kernel: &mut KernelSettings) -> Result<(), String> {
    within("mss", config.mss.into(), 88, full_segment(config, false).into(), "bytes here")?;
    kernel.route(format!("advmss {}", config.mss + options(config)))
}

fn mtu(config: &ConnectionConfig, kernel: &mut KernelSettings) -> Result<(), String> {
    within("mtu", config.mtu.into(), 576, MTU.into(), "bytes here")?;
    kernel.mtu = Some(config.mtu);
    Ok(())
}

fn loss_detection(config: &ConnectionConfig, kernel: &mut KernelSettings) -> Result<(), String> {
    match (config.loss_detection, config.sack) {
        (LossDetection::RackTlp, _) => Ok(()),
        // Without SACK the kernel uses duplicate ACKs; its tail loss probes are disabled.
        (LossDetection::DuplicateAcks, false) => kernel.sysctl("net/ipv4/tcp_early_retrans", 0),
        (LossDetection::DuplicateAcks, true) => {
            Err("with SACK the kernel always uses RACK; set `sack` to false too".to_owned())
        }
    }
}

fn ack_every(config: &ConnectionConfig, kernel: &mut KernelSettings) -> Result<(), String> {
    match config.ack.every {
        1 => kernel.route("quickack 1".to_owned()),
        _ => Err("the kernel acknowledges every second segment, or with 1 every one".to_owned()),
    }
}

/// Doubles a window: the kernel counts memory, which is about half payload, and doubles `SO_RCVBUF` by
/// itself.
fn memory(window: u64) -> u64 {
    window.saturating_mul(2).min(1 << 30)
}

fn receive_buffer(config: &ConnectionConfig, kernel: &mut KernelSettings) -> Result<(), String> {
    match config.receive_buffer {
        ReceiveBuffer::Fixed(size) => {
            kernel.receive_buffer = Some(size.0.min(1 << 29) as u32);
            Ok(())
        }
        ReceiveBuffer::Auto { initial, max } => {
            kernel.sysctl("net/ipv4/tcp_rmem", format!("4096 {} {}", memory(initial.0), memory(max.0)))
        }
    }
}

fn send_buffer(config: &ConnectionConfig, kernel: &mut KernelSettings) -> Result<(), String> {
    if config.mptcp {
        return Err("Multipath TCP in the kernel has only its subflows' buffers; set `subflow-send-buffer`"
            .to_owned());
    }
    let size = config.send_buffer.0.min(1 << 30);
    match config.send_buffer_start {
        // The kernel doubles it, and counts little besides the payload.
        None => {
            kernel.send_buffer = Some((size / 2) as u32);
            Ok(())
        }
        Some(initial) => kernel.sysctl("net/ipv4/tcp_wmem", format!("4096 {} {size}", initial.0)),
    }
}

fn subflow_send_buffer(config: &ConnectionConfig, kernel: &mut KernelSettings) -> Result<(), String> {
    match config.send_buffers {
        None => Err("the kernel's subflows always have send buffers".to_owned()),
        Some(SendBuffers::Fixed(size)) => {
            // It doubles `SO_SNDBUF` by itself.
            kernel.send_buffer = Some((size.0.min(1 << 31) / 2) as u32);
            Ok(())
        }
        Some(SendBuffers::Auto { initial, max }) => {
            kernel.sysctl("net/ipv4/tcp_wmem", format!("4096 {} {}", initial.0, max.0))
        }
    }
}

/// Returns the kernel's settings for the knobs of `config` that differ from `default`, if it is only at `end` or
/// at both ends. Knobs that matter only at the other end are not the kernel's.
///
/// # Errors
/// The knob that cannot be applied, and the reason.
pub(crate) fn settings(
    config: &SimConfig,
    default: &SimConfig,
    end: Option<KernelEnd>,
) -> Result<KernelSettings, String> {
    let mut kernel = KernelSettings::default();
    for knob in ALL.iter() {
        let value = knob.value(config);
        if value == knob.value(default) {
            continue;
        }
        let refused = |why: &str| format!("`{} = {value}` cannot be applied to the kernel: {why}", knob.name);
        match KNOBS.iter().find(|(name, _, _)| *name == knob.name) {
            Some((_, matters, _)) if !matters.at(end) => {}
            Some((_, _, Applied(apply))) => apply(config, &mut kernel).map_err(|why| refused(&why))?,
            Some((_, _, Refused(why))) => return Err(refused(why)),
            None if knob.is_sim_only() => return Err(refused("it exists only in the simulator")),
            None => return Err(refused("it has no rule for the kernel")),
        }
    }
    Ok(kernel)
}

#[cfg(test)]
mod tests {
    use super::*;
    use anabranch_lab::scenario::Document;

    /// A value other than the default for each knob, in the syntax of `--set`.
    const OTHER: &[(&str, &str)] = &[
        ("simultaneous", "true"),
        ("withhold-acks", "true"),
        ("microsecond-timestamps", "true"),
        ("scatter.switch", "volume"),
        ("scatter.volume", "50000"),
        ("scatter.dup-acks", "7"),
        ("scatter.rate", "2000000"),
        ("scatter.reordering-window", "adaptive"),
        ("mss", "1000"),
        ("mtu", "1400"),
        ("initial-window", "4"),
        ("initial-ssthresh", "20"),
        ("byte-counting-limit", "1"),
        ("loss-detection", "duplicate-acks"),
        ("sack", "false"),
        ("timestamps", "false"),
        ("prr", "false"),
        ("undo", "false"),
        ("limited-transmit", "false"),
        ("ecn", "true"),
        ("idle-restart", "false"),
        ("pacing", "true"),
        ("nagle", "false"),
        ("fill-window", "false"),
        ("tso-defer", "false"),
        ("small-queues", "5000"),
        ("whole-first-window", "false"),
        ("window-memory", "false"),
        ("fin-with-data", "false"),
        ("late-probes", "false"),
        ("repeat-keys", "true"),
        ("lisa", "true"),
        ("rto.initial", "2 s"),
        ("rto.min", "50 ms"),
        ("rto.max", "10 s"),
        ("rto.backoff", "false"),
        ("rto.max-timeouts", "5"),
        ("rto.syn-retries", "2"),
        ("mptcp-syns", "1"),
        ("ack.every", "1"),
        ("ack.delay", "10 ms"),
        ("ack.quick", "3"),
        ("ack.growth", "false"),
        ("ack.drain", "false"),
        ("ack.push", "false"),
        ("receive-buffer", "20 KB"),
        ("send-buffer", "50 KB"),
        ("subflow-send-buffer", "500 KB"),
        ("user-timeout", "5 s"),
        ("keepalive", "5 s"),
        ("time-wait", "1 s"),
        ("close-timeout", "1 s"),
        ("path-manager", "none"),
        ("race", "50 ms"),
        ("max-subflows", "4"),
        ("opportunistic", "retransmit"),
        ("reinjection", "on-death"),
        ("path-mtu", "probe"),
        ("dsn-width", "narrow"),
        ("checksums", "required"),
        ("sequence-origin", "{ isn = 1, initiator = 2, listener = 3 }"),
    ];

    fn config(scheduler: &str, sets: &[String]) -> SimConfig {
        let mut document = Document::bare();
        document.set_paths(&["8Mbit/s,10ms".to_owned()]).unwrap();
        document.set_schedulers("--schedulers", &[scheduler.to_owned()]);
        for set in sets {
            document.set(set).unwrap();
        }
        document.scenario().unwrap().conditions[0].configs[0].clone()
    }

    #[test]
    fn every_knob_is_applied_or_refused_by_name() {
        for knob in ALL.iter() {
            let row = KNOBS.iter().any(|(name, _, _)| *name == knob.name);
            assert_ne!(row, knob.is_sim_only(), "{}", knob.name);
            let value = OTHER.iter().find(|(name, _)| *name == knob.name).map(|(_, value)| *value);
            let value = value.unwrap_or_else(|| panic!("give another value of {} to try", knob.name));
            // A time or a size needs quotes, a number or a table none.
            let quoted = format!("{}=\"{value}\"", knob.name);
            let plain = format!("{}={value}", knob.name);
            let set = if value.contains(' ') && !value.starts_with('{') { quoted } else { plain };
            // Some values require another knob.
            let more = match knob.name {
                "mtu" => Some("mss=1000"),
                "sack" => Some("loss-detection=duplicate-acks"),
                _ => None,
            };
            let sets: Vec<String> =
                [Some(set.as_str()), more].into_iter().flatten().map(str::to_owned).collect();
            let mut differs = false;
            for scheduler in ["tcp", "linux"] {
                let (mut own, default) = (config(scheduler, &sets), config(scheduler, &[]));
                if more.is_some() {
                    (own.mss, own.loss_detection) = (default.mss, default.loss_detection);
                }
                // A plain TCP has no additional handshakes.
                if knob.value(&own) == knob.value(&default) {
                    continue;
                }
                differs = true;
                match settings(&own, &default, None) {
                    Ok(kernel) => {
                        assert_ne!(kernel, KernelSettings::default(), "{set} is ignored for {scheduler}");
                    }
                    Err(why) => {
                        assert!(why.contains(&format!("`{} = ", knob.name)), "{set}: {why}");
                        assert!(why.len() > 30, "{set}: {why}");
                    }
                }
            }
            assert!(differs, "{set} is the default");
        }
        for (name, _, _) in KNOBS {
            assert!(ALL.iter().any(|knob| knob.name == *name), "{name} is no knob");
        }
        let default = config("linux", &[]);
        assert_eq!(settings(&default, &default, None), Ok(KernelSettings::default()));
    }

    #[test]
    fn the_kernel_is_given_what_was_asked_for() {
        let given = |scheduler: &str, sets: &[&str]| {
            let sets: Vec<String> = sets.iter().map(|set| (*set).to_owned()).collect();
            settings(&config(scheduler, &sets), &config(scheduler, &[]), None).unwrap()
        };
        assert_eq!(given("linux", &["receive-buffer=20KB"]).receive_buffer, Some(20_000));
        assert_eq!(given("tcp", &["send-buffer=100KB"]).send_buffer, Some(50_000));
        let both = given("linux", &["rto.min=50ms", "initial-window=4"]);
        assert_eq!(both.route, ["initcwnd 4"]);
        assert_eq!(both.sysctls, [("net/ipv4/tcp_rto_min_us".to_owned(), "50000".to_owned())]);
        // Timestamps take 12 bytes, and a DSS 24.
        assert_eq!(given("tcp", &["mss=1000"]).route, ["advmss 1012"]);
        assert_eq!(given("linux", &["mss=1000"]).route, ["advmss 1036"]);
        let ecn = given("tcp", &["ecn=true"]).sysctls;
        assert_eq!(ecn, [("net/ipv4/tcp_ecn".to_owned(), "1".to_owned())]);
        let none = given("linux", &["path-manager=none"]);
        assert_eq!(none.subflows, Some(1));
    }

    #[test]
    fn only_knobs_of_its_end_are_the_kernels() {
        let at = |set: &str, end| {
            let own = config("linux", &[set.to_owned()]);
            settings(&own, &config("linux", &[]), Some(end))
        };
        for (set, matters, other) in [
            ("ack.growth=false", KernelEnd::Receiver, KernelEnd::Sender),
            ("initial-ssthresh=20", KernelEnd::Sender, KernelEnd::Receiver),
        ] {
            let name = set.split_once('=').unwrap().0;
            assert!(at(set, matters).unwrap_err().contains(&format!("`{name} = ")), "{set}");
            assert_eq!(at(set, other), Ok(KernelSettings::default()), "{set}");
        }
        let buffer = |end| at("receive-buffer=20KB", end).unwrap().receive_buffer;
        assert_eq!((buffer(KernelEnd::Receiver), buffer(KernelEnd::Sender)), (Some(20_000), None));
        for end in [KernelEnd::Receiver, KernelEnd::Sender] {
            assert!(at("dsn-width=narrow", end).is_err());
        }
    }

    #[test]
    fn a_full_segment_is_the_kernels() {
        let (tcp, mptcp) = (config("tcp", &[]), config("linux", &[]));
        assert_eq!((full_segment(&tcp, false), full_segment(&mptcp, false)), (1448, 1424));
        assert_eq!((full_segment(&tcp, true), full_segment(&mptcp, true)), (1428, 1404));
        let plain = ConnectionConfig { timestamps: false, ..tcp.connection };
        assert_eq!(full_segment(&plain, false), 1460);
    }
}
