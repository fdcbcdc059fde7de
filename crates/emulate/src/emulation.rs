//! Two hosts with links between them, and commands on both.

use std::net::Ipv6Addr;
use std::os::fd::OwnedFd;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anabranch_lab::scenario::Scenario;
use anabranch_sim::topology::Topology;

use crate::command::Process;
use crate::congestion::set_default;
use crate::engine::{Engine, EngineOptions};
use crate::error::EmulateError;
use crate::leftovers::{self, Record, VARIABLE};
use crate::namespace::Namespace;
use crate::network::{self, Addresses, Role, STACK_DEVICE};
use crate::plan::Plan;
use crate::report::{Bounds, Named, Report};
use crate::signals::{Change, Signals};
use crate::tap::Tap;
use crate::wiring::{Lane, Port, Wiring};

/// The options of an emulation.
#[derive(Clone, Debug)]
pub struct Options {
    /// The position of the scenario's condition.
    pub condition: usize,
    /// The number of the run, from 0: its seed gives the links the same random streams as in that run of the
    /// simulator.
    pub run: u32,
    /// The options of the engine; its seed is the run's seed.
    pub engine: EngineOptions,
    /// The kernel's congestion control on both hosts; none keeps the system's default.
    pub congestion: Option<String>,
    /// Values to set under `/proc/sys` on both hosts, such as (`net/ipv4/tcp_sack`, `0`).
    pub settings: Vec<(String, String)>,
    /// Attributes appended to each route over the paths, such as `initcwnd 4`.
    pub route: Vec<String>,
    /// The MTU of the paths' devices; 1500 by default.
    pub mtu: Option<u32>,
    /// The largest number of subflows of a kernel connection; by default the number of paths.
    pub subflows: Option<u32>,
    /// The number of packets that a device queues for the engine. Packets are lost if the engine is delayed
    /// for longer.
    pub device_queue: u32,
    /// The longest time until a server listens.
    pub server_patience: Duration,
    /// The bounds beyond which a run is unreliable.
    pub bounds: Bounds,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            condition: 0,
            run: 0,
            engine: EngineOptions::default(),
            congestion: None,
            settings: Vec::new(),
            route: Vec::new(),
            mtu: None,
            subflows: None,
            device_queue: 10_000,
            server_patience: Duration::from_secs(5),
            bounds: Bounds::default(),
        }
    }
}

/// The result of a run with commands.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The exit status of the client's command; none if it did not end when it was terminated.
    pub client: Option<ExitStatus>,
    /// The links' report.
    pub report: Report,
    /// Notes for the user.
    pub notes: Vec<String>,
}

/// Two hosts, each a network namespace with a TUN device for each path, and the links between them.
///
/// On drop, everything that it has made is removed, and every process in its namespaces is killed.
#[derive(Debug)]
pub struct Emulation {
    paths: Vec<Named>,
    addresses: Addresses,
    topology: Topology,
    options: Options,
    client: Host,
    server: Host,
    record: Record,
    notes: Vec<String>,
    left_out: Vec<String>,
    changes: Vec<Change>,
    withdrawals: Vec<Change>,
}

#[derive(Debug)]
struct Host {
    namespace: Namespace,
    devices: Vec<OwnedFd>,
}

/// The running links.
#[derive(Debug)]
pub struct Live<'a> {
    emulation: &'a Emulation,
    engine: Engine,
    lost: Vec<u64>,
    signals: [Signals; 2],
}

impl Emulation {
    /// Makes the hosts of `scenario`. Needs root, or a user namespace in which this process is root. First
    /// removes the remains of a killed run.
    ///
    /// # Errors
    /// Any [`EmulateError`]. Nothing is left behind then.
    pub fn build(scenario: &Scenario, options: &Options) -> Result<Emulation, EmulateError> {
        let mut options = options.clone();
        options.engine.seed = scenario.run_seed(options.run);
        let plan = Plan::new(scenario, options.condition, options.engine.seed)?;
        let mut notes = leftovers::clear()?;
        let (client, server) = (Namespace::new()?, Namespace::new()?);
        let record = Record::new(&[client.inode(), server.inode()])?;
        let addresses = &plan.addresses;
        let devices: Vec<String> = (0..addresses.paths).map(network::device).collect();
        let mut host = |namespace: Namespace, role| {
            for (key, value, needed) in network::SETTINGS {
                let set = namespace.set(key, value);
                if *needed { set? } else { drop(set) }
            }
            for (key, value) in network::SETTINGS6.iter().filter(|_| addresses.ipv6) {
                namespace.set(key, value)?;
            }
            if let Some(note) = options.congestion.as_ref().and_then(|name| set_default(&namespace, name))
                && !notes.contains(&note)
            {
                notes.push(note);
            }
            for (key, value) in &options.settings {
                namespace.set(key, value).map_err(|error| EmulateError::Usage(error.to_string()))?;
            }
            let devices = namespace.devices(&devices)?;
            let mut route: Vec<String> =
                options.congestion.iter().map(|name| format!("congctl {name}")).collect();
            route.extend_from_slice(&options.route);
            let with = network::Attributes { queue: options.device_queue, mtu: options.mtu, route };
            namespace.ip(&network::routes(addresses, role, &with))?;
            if addresses.ipv6 {
                namespace.ip6(&network::routes6(addresses, role, &with))?;
                let own: Vec<Ipv6Addr> =
                    (0..addresses.count(role)).map(|number| network::address6(role, number, 1)).collect();
                await_addresses(&namespace, &own)?;
            }
            if let Err(error) = namespace.ip(&plan.endpoints(role, options.subflows)) {
                notes.push(format!("the kernel's Multipath TCP will not use additional paths: {error}"));
            }
            Ok::<Host, EmulateError>(Host { namespace, devices })
        };
        let (client, server) = (host(client, Role::Client)?, host(server, Role::Server)?);
        let Plan { paths, addresses, topology, changes, withdrawals, left_out, .. } = plan;
        Ok(Emulation {
            paths,
            addresses,
            topology,
            options,
            client,
            server,
            record,
            notes,
            left_out,
            changes,
            withdrawals,
        })
    }

    /// Returns the addresses of the hosts.
    pub fn addresses(&self) -> &Addresses {
        &self.addresses
    }

    /// Returns the namespace of a host.
    pub fn namespace(&self, role: Role) -> &Namespace {
        match role {
            Role::Client => &self.client.namespace,
            Role::Server => &self.server.namespace,
        }
    }

    /// Returns notes for the user on how it was made.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Returns a sentence for each part of the scenario that only simulated connections have, such as other flows and settings of
    /// connections: here commands decide it.
    pub fn left_out(&self) -> &[String] {
        &self.left_out
    }

    /// Returns the congestion control of the kernel's sockets on the hosts; none if the kernel does not provide it.
    pub fn congestion(&self) -> Option<String> {
        let own = || self.client.namespace.read(CONGESTION).ok().map(|text| text.trim().to_owned());
        self.options.congestion.clone().or_else(own)
    }

    /// Returns `command` with the environment variables of its host.
    fn prepared(&self, mut command: Command, role: Role) -> Command {
        command.envs(self.addresses.environment(role)).env(VARIABLE, self.record.token());
        command
    }

    /// Starts a command on a host.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn start(&self, role: Role, command: Command) -> Result<Process, EmulateError> {
        Process::start(self.namespace(role), self.prepared(command, role))
    }

    /// Starts the links; their timelines begin now.
    ///
    /// # Errors
    /// If a link's configuration is invalid, or the system provides no thread or timer.
    pub fn go(&self) -> Result<Live<'_>, EmulateError> {
        self.go_with(None)
    }

    /// Starts the links, and captures the packets of the ports of `tap`. The client's ports come first, one
    /// for each path, and then the server's. The end of the run finishes the capture.
    ///
    /// # Errors
    /// As for [`Emulation::go`].
    pub fn go_with(&self, tap: Option<Tap>) -> Result<Live<'_>, EmulateError> {
        self.connect(ports(&self.client)?, ports(&self.server)?, tap, self.changes.clone())
    }

    /// Starts the links with a stack in this process in place of the kernel of the host `role`: `other` are
    /// its ports, one for each path. The devices of that kernel remain without a link.
    ///
    /// # Errors
    /// As for [`Emulation::go`], and if there are not as many ports as paths.
    pub fn go_without(&self, role: Role, other: Vec<Port>) -> Result<Live<'_>, EmulateError> {
        if other.len() != self.addresses.paths {
            let (ports, paths) = (other.len(), self.addresses.paths);
            return Err(EmulateError::Usage(format!("there are {ports} ports for {paths} paths")));
        }
        match role {
            Role::Client => self.connect(other, ports(&self.server)?, None, Vec::new()),
            Role::Server => self.connect(ports(&self.client)?, other, None, self.changes.clone()),
        }
    }

    /// Starts the links between these ports, and the changes that the client's kernel notices.
    fn connect(
        &self,
        client: Vec<Port>,
        server: Vec<Port>,
        tap: Option<Tap>,
        changes: Vec<Change>,
    ) -> Result<Live<'_>, EmulateError> {
        let failed = |error| EmulateError::system("cannot start the links", error);
        let wiring = Wiring::new(&self.topology, client, server);
        let lost = self.lost()?;
        let engine = Engine::start_with(wiring, &self.options.engine, tap).map_err(failed)?;
        let signals = [
            Signals::start(&self.client.namespace, changes)?,
            Signals::start(&self.server.namespace, self.withdrawals.clone())?,
        ];
        Ok(Live { emulation: self, engine, lost, signals })
    }

    /// Returns the number of packets lost by the devices so far, by lane.
    fn lost(&self) -> Result<Vec<u64>, EmulateError> {
        let client = dropped(&self.client.namespace.read(STATISTICS)?, self.addresses.paths);
        let server = dropped(&self.server.namespace.read(STATISTICS)?, self.addresses.paths);
        Ok(client.into_iter().zip(server).flat_map(|(up, down)| [up, down]).collect())
    }

    /// Runs `client` on the client's host, and `server` on the server's, if there is one: starts the server,
    /// then, when it listens, the links and the client. When the client has ended, the server is terminated.
    ///
    /// If `cancelled` is set, the commands are terminated, and the outcome covers the time until then.
    ///
    /// # Errors
    /// If a command cannot be run, the server ends before it listens, or `cancelled` is set before that.
    pub fn run(
        &self,
        server: Option<Command>,
        client: Command,
        cancelled: &AtomicBool,
    ) -> Result<Outcome, EmulateError> {
        let mut notes = Vec::new();
        let mut server = match server {
            Some(command) => {
                let mut server = self.start(Role::Server, command)?;
                notes.extend(self.await_server(&mut server, cancelled)?);
                Some(server)
            }
            None => None,
        };
        let live = self.go()?;
        let mut process = self.start(Role::Client, client)?;
        let client = process.wait(cancelled);
        let report = live.finish();
        if let Some(server) = &mut server {
            server.end();
        }
        self.clear();
        Ok(Outcome { client: client?, report: report?, notes })
    }

    /// Waits until the server listens, or has opened the device of a stack in user space. Returns a note if
    /// it does not.
    fn await_server(
        &self,
        server: &mut Process,
        cancelled: &AtomicBool,
    ) -> Result<Option<String>, EmulateError> {
        let deadline = Instant::now() + self.options.server_patience;
        while Instant::now() < deadline {
            if let Some(status) = server.poll(Duration::from_millis(10))? {
                return Err(EmulateError::Failed(format!(
                    "the server's command has ended before the client's began: {status}"
                )));
            }
            if cancelled.load(Ordering::Relaxed) {
                return Err(EmulateError::Interrupted);
            }
            if self.server.namespace.run(listens)? {
                return Ok(None);
            }
        }
        Ok(Some(format!(
            "the server's command did not listen within {} s",
            self.options.server_patience.as_secs_f64()
        )))
    }

    /// Kills the remaining processes in the namespaces.
    fn clear(&self) {
        leftovers::kill_members(&[self.client.namespace.inode(), self.server.namespace.inode()], None);
    }
}

impl Drop for Emulation {
    fn drop(&mut self) {
        self.clear();
    }
}

impl Live<'_> {
    /// Stops the links, and returns their report.
    ///
    /// # Errors
    /// If a device has failed, or a capture could not be written.
    pub fn finish(self) -> Result<Report, EmulateError> {
        let Live { emulation, engine, lost: before, signals } = self;
        drop(signals);
        let lost =
            emulation.lost()?.iter().zip(&before).map(|(now, before)| now - before).collect::<Vec<_>>();
        let engine = engine.stop().map_err(|error| EmulateError::system("moving packets", error))?;
        let lanes = Lane::of(&emulation.topology);
        Ok(Report::new(&emulation.paths, &lanes, &lost, &engine, &emulation.options.bounds))
    }
}

/// Returns the ports of the devices of a host.
fn ports(host: &Host) -> Result<Vec<Port>, EmulateError> {
    let ports = host.devices.iter().map(|fd| Port::new(fd.try_clone()?)).collect::<std::io::Result<_>>();
    ports.map_err(|error| EmulateError::system("cannot start the links", error))
}

/// Waits until the IPv6 addresses are usable, which the kernel brings about asynchronously: it makes the local route
/// of an address in a work queue, even without detection of duplicates, and a packet to an address without one is
/// dropped.
fn await_addresses(namespace: &Namespace, addresses: &[Ipv6Addr]) -> Result<(), EmulateError> {
    let deadline = Instant::now() + Duration::from_secs(5);
    loop {
        let routes = namespace.read("/proc/thread-self/net/ipv6_route")?;
        let local = local_addresses(&routes);
        if addresses.iter().all(|address| local.contains(address)) {
            return Ok(());
        }
        if Instant::now() > deadline {
            return Err(EmulateError::Failed("the IPv6 addresses do not become usable".to_owned()));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Returns the destinations of the local routes in a table of IPv6 routes under `/proc`.
fn local_addresses(routes: &str) -> Vec<Ipv6Addr> {
    const LOCAL: u32 = 0x8000_0000;
    let destination = |line: &str| {
        let mut columns = line.split_whitespace();
        let address = u128::from_str_radix(columns.next()?, 16).ok()?;
        // Between them are the lengths of two prefixes, the source, the next hop, the metric and two counters.
        let flags = u32::from_str_radix(columns.nth(7)?, 16).ok()?;
        (flags & LOCAL != 0).then(|| Ipv6Addr::from_bits(address))
    };
    routes.lines().filter_map(destination).collect()
}

/// The file with the default congestion control of a thread's namespace.
const CONGESTION: &str = "/proc/sys/net/ipv4/tcp_congestion_control";

/// The file with the device statistics of a thread's namespace.
const STATISTICS: &str = "/proc/thread-self/net/dev";

/// Returns the number of packets that the paths' devices dropped on transmission.
fn dropped(statistics: &str, paths: usize) -> Vec<u64> {
    let of = |at: usize| {
        let prefix = format!("{}:", network::device(at));
        let line = statistics.lines().find_map(|line| line.trim().strip_prefix(&prefix))?;
        // Eight columns for reception, and the fourth for transmission.
        line.split_whitespace().nth(11)?.parse().ok()
    };
    (0..paths).map(|at| of(at).unwrap_or(0)).collect()
}

/// True if a process in this thread's namespace listens, or has opened the device of a stack in user space.
fn listens() -> bool {
    const LISTEN: &str = "0A";
    let lines = |name: &str| {
        let text = std::fs::read_to_string(format!("/proc/thread-self/net/{name}")).unwrap_or_default();
        text.lines().skip(1).map(str::to_owned).collect::<Vec<_>>()
    };
    let tcp = ["tcp", "tcp6"].iter().flat_map(|name| lines(name));
    if tcp.into_iter().any(|line| line.split_whitespace().nth(3) == Some(LISTEN)) {
        return true;
    }
    if ["udp", "udp6"].iter().any(|name| !lines(name).is_empty()) {
        return true;
    }
    // A device that no process has opened has no carrier.
    let mut ip = Command::new("ip");
    ip.args(["-o", "link", "show", "dev", STACK_DEVICE]).stdin(Stdio::null()).stderr(Stdio::null());
    let carrier =
        ip.output().is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains("LOWER_UP"));
    if carrier {
        // It listens immediately after it has opened the device.
        std::thread::sleep(Duration::from_millis(50));
    }
    carrier
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_devices_drop_is_in_the_twelfth_column() {
        let text = "Inter-| Receive\n face |bytes\n  path1: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n path12: 0 0 0 0 0 0 0 0 0 0 0 7 0 0 0 0\n";
        assert_eq!(dropped(text, 2), [12, 0]);
    }

    #[test]
    fn an_address_is_usable_once_its_local_route_exists() {
        let row = |address: &str, flags: &str| {
            format!(
                "{address} 80 {zero} 00 {zero} 00000000 00000002 00000000 {flags}       path1\n",
                zero = "0".repeat(32)
            )
        };
        let (one, two) = ("fd868684000000010000000000000001", "fd868684000000020000000000000001");
        let text = row(one, "00000001") + &row(two, "80200001");
        assert_eq!(local_addresses(&text), ["fd86:8684:0:2::1".parse::<Ipv6Addr>().unwrap()]);
        assert_eq!(local_addresses("unknown\n"), [] as [Ipv6Addr; 0]);
    }
}
