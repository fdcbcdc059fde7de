//! The common parts of the verbs that use real packets.

pub(crate) mod bench;
pub(crate) mod capture;
pub(crate) mod conversation;
pub(crate) mod fallback;
pub(crate) mod few;
pub(crate) mod files;
pub(crate) mod flood;
pub(crate) mod heap;
pub(crate) mod http;
pub(crate) mod log;
pub(crate) mod table;
pub(crate) mod trace;
pub(crate) mod uplinks;

use std::collections::BTreeMap;
use std::future::Future;
use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use anabranch_lab::capture::CaptureFile;
use anabranch_lab::scenario::parameters;
use anabranch_net::device::Device as _;
use anabranch_net::device::share::SharedDevice;
use anabranch_net::device::tun::{TunDevice, TunError, TunOptions};
use anabranch_net::{Host, HostBuilder};
use anabranch_setup::route::{Route, route_to};
use anabranch_stack::config::ConnectionConfig;
use anabranch_stack::congestion::CongestionKind;
use anabranch_stack::scheduler::SchedulerKind;

use crate::failure::Failure;
use crate::output;

/// The devices and addresses of a host, and the behaviour of its connections.
#[derive(clap::Args)]
pub(crate) struct HostArgs {
    /// A TUN device that exists and is up; may be given several times. A name with `/` is a socket of `anabranch tun share`
    #[arg(long, value_name = "NAME")]
    pub tun: Vec<String>,
    /// An address of anabranch itself that the kernel routes into the TUN device; each is a path
    #[arg(
        long = "address",
        value_name = "IP[@TUN]",
        help = "An address of anabranch itself that the kernel routes into the TUN device (by default the \
                first one); each is a path, and several may be given"
    )]
    pub addresses: Vec<OwnAddress>,
    /// The packet scheduler (see `anabranch list schedulers`); with parameters as NAME:KEY=VALUE
    #[arg(long, value_name = "NAME", default_value = "dmptcp", value_parser = parse_scheduler)]
    pub scheduler: SchedulerKind,
    /// The congestion control (see `anabranch list congestion`); with parameters as NAME:KEY=VALUE
    #[arg(long = "cc", value_name = "NAME", default_value = "cubic_linux", value_parser = parse_congestion)]
    pub congestion: CongestionKind,
    /// Compute checksums and segment packets here instead of in the kernel
    #[arg(long)]
    pub no_offload: bool,
    #[command(flatten)]
    pub capture: capture::CaptureArgs,
}

/// An address, and its device.
#[derive(Clone, Debug)]
pub(crate) struct OwnAddress {
    ip: IpAddr,
    tun: Option<String>,
}

impl FromStr for OwnAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<OwnAddress, String> {
        let (ip, tun) = match text.split_once('@') {
            Some((ip, tun)) => (ip, Some(tun.to_owned())),
            None => (text, None),
        };
        let ip =
            ip.parse().map_err(|_| format!("`{ip}` is not an IP address; write for example 10.80.0.5"))?;
        Ok(OwnAddress { ip, tun })
    }
}

fn parse_scheduler(text: &str) -> Result<SchedulerKind, String> {
    parameters::from_option("--scheduler", text).map_err(short)
}

fn parse_congestion(text: &str) -> Result<CongestionKind, String> {
    parameters::from_option("--cc", text).map_err(short)
}

/// Formats an error without its place, which clap adds.
fn short(error: anabranch_lab::ScenarioError) -> String {
    match error.help {
        Some(help) => format!("{}; {help}", error.message),
        None => error.message,
    }
}

impl HostArgs {
    /// Returns the configuration of connections.
    pub(crate) fn config(&self) -> ConnectionConfig {
        ConnectionConfig {
            scheduler: self.scheduler.clone(),
            congestion: self.congestion.clone(),
            ..anabranch_net::default_config()
        }
    }

    /// Starts the host, after `change`. Has to be called within a runtime. `report` gets a line when a path is lost or back.
    pub(crate) fn start(
        &self,
        change: impl FnOnce(HostBuilder) -> HostBuilder,
        report: impl Fn(&str) + Send + 'static,
    ) -> Result<Started, Failure> {
        let (builder, addresses) = self.builder()?;
        let mut builder = change(builder);
        let mut file = None;
        if let Some((wanted, capture)) = self.capture.open()? {
            builder = builder.capture(capture);
            file = Some(wanted);
        }
        let host = builder.start().map_err(|error| Failure::Usage(error.to_string()))?;
        warn_of_routes(&addresses);
        uplinks::follow(&host, addresses, report);
        Ok(Started { host, capture: file })
    }

    /// Returns the TUN devices of `host` that its stacks have to read in turn. A shared device has one queue for each process, whoever made it.
    pub(crate) fn devices_with_one_queue<'a>(&self, host: &'a Host) -> &'a [String] {
        if self.tun.iter().any(|name| name.contains('/')) { &[] } else { host.shared_queues() }
    }

    /// Returns the builder of the host, and its addresses with their devices.
    fn builder(&self) -> Result<(HostBuilder, Vec<(IpAddr, String)>), Failure> {
        if let [socket] = self.tun.as_slice()
            && socket.contains('/')
        {
            return self.shared(Path::new(socket));
        }
        if let Some(socket) = self.tun.iter().find(|name| name.contains('/')) {
            return Err(Failure::Usage(format!(
                "{socket} is the socket of a shared device, which has to be the only --tun"
            )));
        }
        if self.tun.is_empty() || self.addresses.is_empty() {
            let text = "give this host's device and address: --tun NAME --address IP; `anabranch tun setup` \
                        makes such a device";
            return Err(Failure::Usage(text.to_owned()));
        }
        let mut by_tun: BTreeMap<usize, Vec<IpAddr>> = BTreeMap::new();
        for address in &self.addresses {
            let name = self.tun_of(address);
            let at = self.tun.iter().position(|tun| tun == name).ok_or_else(|| {
                Failure::Usage(format!("`@{name}`: the device is not among those of --tun"))
            })?;
            by_tun.entry(at).or_default().push(address.ip);
        }
        let mut builder = Host::builder();
        for (at, addresses) in by_tun {
            let options = TunOptions { offload: !self.no_offload };
            let device = TunDevice::attach(&self.tun[at], options).map_err(|error| match error {
                TunError::Missing(_) | TunError::NotTun(_) => Failure::Usage(error.to_string()),
                error => Failure::Failed(error.to_string()),
            })?;
            builder = builder.device(device, &addresses);
        }
        let of = |address: &OwnAddress| (address.ip, self.tun_of(address).to_owned());
        Ok((builder, self.addresses.iter().map(of).collect()))
    }

    /// Returns the builder of a host on a shared device.
    fn shared(&self, socket: &Path) -> Result<(HostBuilder, Vec<(IpAddr, String)>), Failure> {
        if !self.addresses.is_empty() || self.no_offload {
            let text = "the owner of a shared device gives the addresses and decides on offload: leave out --address and --no-offload";
            return Err(Failure::Usage(text.to_owned()));
        }
        let device = SharedDevice::connect(socket).map_err(|error| {
            let remedy = match error.kind() {
                ErrorKind::NotFound | ErrorKind::ConnectionRefused => "; `anabranch tun share` makes it",
                ErrorKind::PermissionDenied => "; `anabranch tun share --group GROUP` lets a group connect",
                _ => "",
            };
            Failure::Failed(format!("cannot use {}: {error}{remedy}", socket.display()))
        })?;
        let name = device.name().unwrap_or_default().to_owned();
        let addresses = device.addresses().to_vec();
        let list: Vec<String> = addresses.iter().map(ToString::to_string).collect();
        output::remark(format_args!("the addresses of this host are {}", list.join(", ")));
        let builder = Host::builder().device(device, &addresses);
        Ok((builder, addresses.into_iter().map(|ip| (ip, name.clone())).collect()))
    }

    /// Returns the device of an address.
    fn tun_of<'a>(&'a self, address: &'a OwnAddress) -> &'a str {
        address.tun.as_ref().or(self.tun.first()).map_or("", String::as_str)
    }
}

/// Warns of addresses if the kernel does not route their packets into their device. It is not an error,
/// since a route may be added later, or apply only to packets from other hosts.
fn warn_of_routes(addresses: &[(IpAddr, String)]) {
    for (ip, tun) in addresses {
        let remedy =
            format!("so its packets will not arrive here; add one with `ip route add {ip} dev {tun}`");
        match route_to(*ip) {
            Ok(Route::Local) => output::warn(format_args!(
                "{ip} is an address of this machine's kernel, which answers its packets itself; give \
                 anabranch another address, with a route into {tun}"
            )),
            Ok(Route::Device(device)) if device != *tun => {
                output::warn(format_args!("the route to {ip} leads to {device} and not to {tun}, {remedy}"));
            }
            Ok(Route::None) => output::warn(format_args!("there is no route to {ip}, {remedy}")),
            // The query failed, so nothing is known.
            Ok(Route::Device(_)) | Err(_) => {}
        }
    }
}

/// How a connection begins.
#[derive(clap::Args)]
pub(crate) struct RaceArgs {
    /// Try every path when a connection begins, each this time after the one before, by default at once; the first
    /// answer decides which path carries the first subflow
    #[arg(long, value_name = "SPAN", num_args = 0..=1, require_equals = true, default_missing_value = "0",
          value_parser = crate::args::parse_span)]
    race: Option<Duration>,
}

impl RaceArgs {
    /// True if there is a race.
    pub(crate) fn is_given(&self) -> bool {
        self.race.is_some()
    }

    /// Returns `config` with the race.
    pub(crate) fn apply(&self, config: ConnectionConfig) -> ConnectionConfig {
        let race = self.race.map(|delay| anabranch_units::Duration(delay.as_nanos() as u64));
        ConnectionConfig { race, ..config }
    }
}

/// The time limit of a connection attempt.
#[derive(clap::Args)]
pub(crate) struct ConnectArgs {
    /// The time to wait for an answer when connecting
    #[arg(long, value_name = "SPAN", default_value = "10s", value_parser = crate::args::parse_span)]
    pub connect_timeout: Duration,
}

/// The time after which a connection attempt prints its destination.
const SILENCE: Duration = Duration::from_secs(1);

impl ConnectArgs {
    /// Waits for `connecting` to `to`, and prints a remark when it takes long.
    ///
    /// # Errors
    /// The failure, with the address.
    pub(crate) async fn wait<T>(
        &self,
        to: impl std::fmt::Display,
        connecting: impl Future<Output = std::io::Result<T>>,
    ) -> Result<T, String> {
        let mut connecting = std::pin::pin!(connecting);
        let begun = tokio::time::Instant::now();
        let silence = tokio::time::timeout(SILENCE.min(self.connect_timeout), &mut connecting).await;
        let result = match silence {
            Ok(result) => Ok(result),
            Err(_) if self.connect_timeout <= SILENCE => silence,
            Err(_) => {
                output::remark(format_args!("connecting to {to} ..."));
                tokio::time::timeout_at(begun + self.connect_timeout, connecting).await
            }
        };
        match result {
            Ok(connected) => connected.map_err(|error| format!("cannot connect to {to}: {error}")),
            Err(_) => Err(format!(
                "cannot connect to {to}: it has not answered within {} s; is it there, and is there a route to it and \
                 back?",
                self.connect_timeout.as_secs_f64()
            )),
        }
    }
}

/// Returns the first address of `name` in a family in which `host` has an address.
pub(crate) async fn resolve(host: &Host, name: &str, port: Option<u16>) -> Result<SocketAddr, String> {
    let own = host.addresses();
    // A URL has brackets around an IPv6 address.
    let bare = name.trim_start_matches('[').trim_end_matches(']');
    let found = tokio::net::lookup_host((bare, port.unwrap_or(80))).await;
    let found: Vec<SocketAddr> = found.map_err(|error| format!("cannot find `{name}`: {error}"))?.collect();
    let fits = |there: &&SocketAddr| own.iter().any(|here| here.is_ipv4() == there.is_ipv4());
    found.iter().find(fits).copied().ok_or_else(|| match found.first() {
        Some(there) => format!("`{name}` is {there}, but no --address is of that family"),
        None => format!("`{name}` has no address"),
    })
}

/// Raises the limit of open files to the maximum that the system permits.
pub(crate) fn raise_file_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    // Fewer than requested are sufficient too.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

/// Runs `work` on one thread, until it is done or Ctrl-C is pressed.
pub(crate) fn block_on<F: Future<Output = Result<(), Failure>>>(work: F) -> Result<(), Failure> {
    block_on_threads(1, work)
}

/// Runs `work`, and its tasks on that number of threads.
pub(crate) fn block_on_threads<F: Future<Output = Result<(), Failure>>>(
    threads: usize,
    work: F,
) -> Result<(), Failure> {
    use tokio::runtime::Builder;
    let runtime = match threads {
        1 => Builder::new_current_thread().enable_all().build(),
        _ => Builder::new_multi_thread().worker_threads(threads).enable_all().build(),
    };
    let runtime = runtime.map_err(|error| Failure::Failed(format!("cannot start: {error}")))?;
    let result = runtime.block_on(work);
    // A file being read from a slow disk must not delay the end.
    runtime.shutdown_background();
    result
}

/// Runs `work` on this thread, with the runtimes of that number of threads, this one's first. The others end with it.
pub(crate) fn block_on_runtimes<F: Future<Output = Result<(), Failure>>>(
    threads: usize,
    work: impl FnOnce(Vec<tokio::runtime::Handle>) -> F,
) -> Result<(), Failure> {
    let failed = |error| Failure::Failed(format!("cannot start: {error}"));
    let make = || tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed);
    let own = make()?;
    let mut runtimes = vec![own.handle().clone()];
    let mut others = Vec::new();
    for _ in 1..threads {
        let runtime = make()?;
        runtimes.push(runtime.handle().clone());
        let (end, ended) = tokio::sync::oneshot::channel::<()>();
        let run = move || {
            // Its sender is dropped at the end.
            let _ = runtime.block_on(ended);
            runtime.shutdown_background();
        };
        others.push((end, std::thread::Builder::new().spawn(run).map_err(failed)?));
    }
    let result = own.block_on(work(runtimes));
    for (end, thread) in others {
        drop(end);
        let _ = thread.join();
    }
    own.shutdown_background();
    result
}

/// Waits for Ctrl-C or SIGTERM.
pub(crate) async fn interrupted() {
    use tokio::signal::unix::{SignalKind, signal};
    match (signal(SignalKind::interrupt()), signal(SignalKind::terminate())) {
        (Ok(mut interrupt), Ok(mut terminate)) => {
            tokio::select! { _ = interrupt.recv() => {}, _ = terminate.recv() => {} }
        }
        // Without a handler, the system's default ends the process.
        _ => std::future::pending().await,
    }
}

/// A started host, and its capture if requested.
pub(crate) struct Started {
    pub host: Host,
    capture: Option<CaptureFile>,
}

impl Started {
    /// Gives completed connections a moment for their last acknowledgements.
    pub(crate) async fn settle(&self) {
        let _ = tokio::time::timeout(std::time::Duration::from_secs(1), self.host.finished()).await;
    }

    /// Resets open connections, gives the resets a moment to be sent, and ends the capture. `result` is the
    /// result of the work.
    pub(crate) async fn leave(self, result: Result<(), Failure>) -> Result<(), Failure> {
        self.host.abort_all();
        let _ = tokio::time::timeout(std::time::Duration::from_millis(500), self.host.finished()).await;
        let captured = match self.capture {
            Some(file) => capture::finish(&self.host, file).await,
            None => Ok(()),
        };
        // Of two failures the first is more informative.
        result.and(captured)
    }
}

#[cfg(test)]
mod tests {
    use anabranch_net::default_config;
    use anabranch_stack::config::{Profile, SimConfig};
    use anabranch_stack::congestion::CongestionKind;
    use anabranch_stack::parameter::Options as _;

    /// A comparison simulates profile `linux`; a setting that a real host has otherwise makes its prediction wrong for this host.
    #[test]
    fn a_real_host_differs_from_the_simulated_one_in_these_settings_only() {
        let simulated = SimConfig::new(Profile::Linux).connection;
        let pairs = default_config().values().into_iter().zip(simulated.values());
        let names: Vec<&str> = pairs.filter(|(a, b)| a.1 != b.1).map(|(a, _)| a.0.name).collect();
        let expected = [
            // Full segments, and no wait for more data of the application.
            "mss",
            "nagle",
            // What only the kernel does.
            "fill-window",
            "tso-defer",
            "whole-first-window",
            "window-memory",
            "fin-with-data",
            "late-probes",
            "repeat-keys",
            "ack.drain",
            "send-buffer",
            "subflow-send-buffer",
            "path-mtu",
        ];
        assert_eq!(names, expected);
        assert!(matches!(default_config().congestion, CongestionKind::CubicLinux));
        assert!(matches!(simulated.congestion, CongestionKind::CubicLinux));
    }
}
