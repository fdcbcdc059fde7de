//! A host in user space: its devices, addresses and connections.

use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;

use anabranch_stack::config::{
    ConnectionConfig, EndpointConfig, Entropy, LocalAddress, PathMtuDiscovery, ReceiveBuffer,
};
use anabranch_stack::congestion::CongestionKind;
use anabranch_stack::endpoint::{ConnectError, Endpoint};
use anabranch_stack::segment::{Address, PathId};
use anabranch_stack::shard::Shard;
use anabranch_stack::stats::EndpointCounters;
use anabranch_stack::timestamp::TimestampTick;
use anabranch_units::{Bytes, Duration, RandomStream};
use tokio::runtime::{Handle as Runtime, Id as RuntimeId};
use tokio::sync::mpsc::UnboundedSender;

use crate::capture::{Capture, CaptureReport, Tap, Watcher};
use crate::counters::HostCounters;
use crate::driver::{Driver, Port};
use crate::listener::MptcpListener;
use crate::notice::Notice;
use crate::shared::{Core, Handle, Listening, Shared};
use crate::spread::{Branch, Member, Spread};
use crate::stream::MptcpStream;
use anabranch_device::{Capped, Caps, Clock, Device};

/// Returns the default configuration of connections on a real network: like Linux, with its CUBIC, so that a comparison
/// predicts it; but with a search for the path MTU when full-sized segments are lost silently (RFC 4821), since ICMP is
/// often filtered, and with send buffers that grow with the windows.
pub fn default_config() -> ConnectionConfig {
    ConnectionConfig {
        congestion: CongestionKind::CubicLinux,
        path_mtu: PathMtuDiscovery::Probe,
        // The maximum of tcp_rmem in Linux 6.18.
        receive_buffer: ReceiveBuffer::Auto { initial: Bytes::from_kib(128), max: Bytes::from_kib(32 << 10) },
        send_buffer_start: Some(Bytes::from_kib(64)),
        send_buffers: None,
        ..ConnectionConfig::linux()
    }
}

/// The payload that the stack returns at once, in bytes: as much as fits into an IP packet.
const BURST: u32 = 65_000;

/// The configuration of a host.
pub struct HostBuilder {
    devices: Vec<(Box<dyn Device>, Vec<IpAddr>)>,
    backup: Vec<IpAddr>,
    max_connections: usize,
    buffer_memory: u64,
    send_timeout: Option<Duration>,
    seed: Option<u64>,
    notices: Option<UnboundedSender<Notice>>,
    capture: Option<Capture>,
    caps: Option<Caps>,
    runtimes: Vec<Runtime>,
}

impl fmt::Debug for HostBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let addresses: Vec<_> = self.devices.iter().map(|(_, addresses)| addresses).collect();
        f.debug_struct("HostBuilder").field("addresses", &addresses).finish_non_exhaustive()
    }
}

impl Default for HostBuilder {
    fn default() -> HostBuilder {
        HostBuilder {
            devices: Vec::new(),
            backup: Vec::new(),
            max_connections: 65_536,
            buffer_memory: 128 << 20,
            send_timeout: None,
            seed: None,
            notices: None,
            capture: None,
            caps: None,
            runtimes: Vec::new(),
        }
    }
}

impl HostBuilder {
    /// Adds a device and its addresses, in order of preference; each address is a path. The addresses belong
    /// to this host, not to the machine's kernel.
    pub fn device(mut self, device: impl Device + 'static, addresses: &[IpAddr]) -> HostBuilder {
        self.devices.push((Box::new(device), addresses.to_vec()));
        self
    }

    /// Asks peers to use subflows of that address only when no others work.
    pub fn backup(mut self, address: IpAddr) -> HostBuilder {
        self.backup.push(address);
        self
    }

    /// Limits the number of simultaneous connections; a SYN beyond it is refused. Default: 65,536.
    pub fn max_connections(mut self, max: usize) -> HostBuilder {
        self.max_connections = max;
        self
    }

    /// Limits the memory, in bytes, that the buffers of all connections may take, together with the memory
    /// [charged](crate::StreamControl::poll_charge) to them. Each remote address (for IPv6: each network of
    /// 64 bits) may take as much as is free, so that a single address gets half, two get a third each, and so on; when
    /// memory is short, writes wait. Default: 128 MiB.
    pub fn buffer_memory(mut self, bytes: u64) -> HostBuilder {
        self.buffer_memory = bytes;
        self
    }

    /// Aborts connections that have queued data if the peer acknowledges less than 4 KiB of it within this time,
    /// even while the peer's window is closed, and also after their stream was dropped. While more than
    /// five eighths of the memory for buffers are taken, a twelfth of this time is enough. The resolution is
    /// a twelfth of the time. Default: none.
    pub fn send_timeout(mut self, timeout: Option<core::time::Duration>) -> HostBuilder {
        self.send_timeout = timeout.map(|timeout| {
            Duration(u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX).clamp(1_000_000, 1 << 60))
        });
        self
    }

    /// Draws keys and sequence numbers from a seeded stream instead of the system's entropy. For tests only:
    /// keys can be computed from the seed.
    pub fn seed(mut self, seed: u64) -> HostBuilder {
        self.seed = Some(seed);
        self
    }

    /// Sends the events of connections to `notices`.
    pub fn notices(mut self, notices: UnboundedSender<Notice>) -> HostBuilder {
        self.notices = Some(notices);
        self
    }

    /// Records all packets in `capture`, with an interface for each device. [`Host::end_capture`] ends it.
    pub fn capture(mut self, capture: Capture) -> HostBuilder {
        self.capture = Some(capture);
        self
    }

    /// Keeps the packets of its addresses within `caps`, which may change while the host runs.
    pub fn caps(mut self, caps: Caps) -> HostBuilder {
        self.caps = Some(caps);
        self
    }

    /// Spreads the connections over several stacks: one in each of these runtimes, best with one thread each, instead of one in
    /// the current runtime. A connection stays where it was opened: [`Host::connect`] opens it at the stack of the current
    /// runtime, or if that has none, at the next one in turn; a peer's connections are spread by their four-tuples
    /// ([`MptcpListener::split`]). Each stack has an equal part of the memory, the connections and the ports of the host.
    ///
    /// Captures and caps need one stack, and so do devices without [`Device::another`].
    pub fn runtimes(mut self, runtimes: Vec<Runtime>) -> HostBuilder {
        self.runtimes = runtimes;
        self
    }

    /// Starts the host: its driver becomes a task of the current runtime, or each stack's of its own runtime
    /// ([`HostBuilder::runtimes`]).
    ///
    /// The driver ends when the host, its listeners and its streams were dropped and all connections have
    /// ended, or when a device fails; afterwards every operation returns an error.
    ///
    /// # Errors
    /// If there is no address, an address is duplicated or is none that a host can have, the system has no
    /// entropy, the thread of a capture cannot be started, or something needs a single stack
    /// ([`HostBuilder::runtimes`]). Panics outside of a tokio runtime.
    pub fn start(self) -> io::Result<Host> {
        let invalid = |text: String| Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        let mut addresses: Vec<LocalAddress> = Vec::new();
        let runtimes = if self.runtimes.is_empty() { vec![Runtime::current()] } else { self.runtimes };
        let is_spread = runtimes.len() > 1;
        if is_spread && (self.capture.is_some() || self.caps.is_some()) {
            return invalid("captures and caps need a host with one thread".to_owned());
        }
        let Ok(count) = u16::try_from(runtimes.len()) else {
            return invalid("a host has at most 65,535 stacks".to_owned());
        };
        let (mut devices, mut port_of) = (Vec::new(), Vec::new());
        let mut mtu = u32::MAX;
        for (device, ips) in self.devices {
            let device = match &self.caps {
                Some(caps) => Box::new(Capped::new(device, caps.clone())),
                None => device,
            };
            mtu = mtu.min(device.capabilities().mtu);
            let first = PathId(addresses.len() as u16);
            for ip in ips {
                if ip.is_unspecified() || ip.is_multicast() {
                    return invalid(format!("{ip} cannot be the address of a host"));
                }
                if addresses.iter().any(|address| address.ip == ip) {
                    return invalid(format!("the address {ip} is given twice"));
                }
                // RFC 8684 section 3.2 has address IDs of 8 bits.
                if addresses.len() >= 255 {
                    return invalid("a host has at most 255 addresses".to_owned());
                }
                let path = PathId(addresses.len() as u16);
                addresses.push(LocalAddress { ip, path, backup: self.backup.contains(&ip) });
                port_of.push(devices.len());
            }
            devices.push((device, first));
        }
        if addresses.is_empty() {
            return invalid("a host needs a device with an address".to_owned());
        }
        let mut entropies = (0..count).map(|index| match self.seed {
            Some(seed) if index == 0 => Entropy::Seeded(RandomStream::new(seed, "net.host")),
            Some(seed) => Entropy::Seeded(RandomStream::new(seed, &format!("net.host.{index}"))),
            None => Entropy::System(system_entropy),
        });
        if self.seed.is_none() {
            // Once initialised, the system's entropy is always available.
            getrandom::fill(&mut [0]).map_err(|error| {
                io::Error::other(format!("the system provides no random numbers: {error}"))
            })?;
        }
        let clock = Clock::start();
        let tap = match self.capture {
            Some(capture) => {
                let name = |(at, (device, _)): (usize, &(Box<dyn Device>, PathId))| {
                    device.name().map_or(format!("device{}", at + 1), str::to_owned)
                };
                let names: Vec<String> = devices.iter().enumerate().map(name).collect();
                Some(capture.begin(&names, clock.now())?)
            }
            None => None,
        };
        let share = |whole: usize| whole.div_ceil(usize::from(count));
        let base = EndpointConfig::new(addresses.clone());
        let endpoint = |entropy, shard, observer| {
            let config = EndpointConfig {
                max_connections: share(self.max_connections),
                max_half_open: share(base.max_half_open),
                // Peers on real networks remember a timestamp for days.
                timestamp_tick: TimestampTick::MILLISECOND,
                shard,
                ..base.clone()
            };
            let mut endpoint = Endpoint::with_observer(config, entropy, observer);
            // The driver splits packets for devices that do not.
            endpoint.set_burst_limit(BURST);
            endpoint
        };
        let core = |entropy, shard, tap: Option<Tap>| {
            let endpoint = endpoint(entropy, shard, Watcher::new(tap.is_some()));
            let memory = self.buffer_memory / u64::from(count);
            let (addresses, notices) = (addresses.clone(), self.notices.clone());
            Core::new(endpoint, shard, addresses, notices, tap, memory, self.send_timeout)
        };
        let (mut stacks, mut shared_queues, mut spread_of_host) = (Vec::new(), Vec::new(), None);
        if !is_spread {
            let Some(entropy) = entropies.next() else { return invalid("no stack".to_owned()) };
            let shared = Arc::new(Shared::new(core(entropy, Shard::WHOLE, tap), clock));
            stacks.push(Stack { handle: Handle::new(Arc::clone(&shared)), runtime: runtimes[0].id() });
            let ports = devices.into_iter().map(|(device, first)| Port::new(device, first)).collect();
            let _within = runtimes[0].enter();
            runtimes[0].spawn(Driver::new(shared, ports, port_of, None));
        } else {
            let mut entropies: Vec<Entropy> = entropies.collect();
            let seed = entropies[0].next_u64();
            let spread = Spread::new(count, devices.len(), seed);
            let mut drivers = Vec::new();
            for ((index, runtime), entropy) in (0..).zip(&runtimes).zip(entropies) {
                let shared =
                    Arc::new(Shared::new(core(entropy, Shard::new(index, count, seed), None), clock));
                stacks.push(Stack { handle: Handle::new(Arc::clone(&shared)), runtime: runtime.id() });
                let _within = runtime.enter();
                let mut branch = |(line, (device, first)): (usize, &(Box<dyn Device>, PathId))| {
                    let handle = device.another()?;
                    if index == 0 && !handle.has_own_queue() {
                        shared_queues.push(handle.name().unwrap_or_default().to_owned());
                    }
                    let branch = Branch::new(handle, &spread, line, index);
                    io::Result::Ok(Port::new(Box::new(branch), *first))
                };
                let ports = devices.iter().enumerate().map(&mut branch).collect::<io::Result<Vec<Port>>>()?;
                let member = Member::new(&spread, index);
                drivers.push((runtime, Driver::new(shared, ports, port_of.clone(), Some(member))));
            }
            for (runtime, driver) in drivers {
                runtime.spawn(driver);
            }
            spread_of_host = Some(spread);
        }
        Ok(Host {
            stacks: stacks.into(),
            next: Arc::default(),
            mtu,
            spread: spread_of_host,
            shared_queues: shared_queues.into(),
        })
    }
}

fn system_entropy(into: &mut [u8]) {
    // `start` has verified that it works. Weak keys would be worse than none.
    if getrandom::fill(into).is_err() {
        std::process::abort();
    }
}

/// A host, which opens and accepts connections. Clones are the same host.
#[derive(Clone, Debug)]
pub struct Host {
    stacks: Arc<[Stack]>,
    /// The number of connections that were opened at stacks in turn.
    next: Arc<AtomicUsize>,
    mtu: u32,
    spread: Option<Arc<Spread>>,
    shared_queues: Arc<[String]>,
}

/// A stack of a host.
#[derive(Debug)]
struct Stack {
    handle: Handle,
    runtime: RuntimeId,
}

impl Host {
    /// Returns the builder of a host with the default settings.
    pub fn builder() -> HostBuilder {
        HostBuilder::default()
    }

    /// Returns the number of its stacks.
    pub fn stacks(&self) -> usize {
        self.stacks.len()
    }

    /// Returns the names of the devices with one queue for all stacks, which read it in turn. Several queues are faster.
    pub fn shared_queues(&self) -> &[String] {
        &self.shared_queues
    }

    /// Returns its addresses, in order of preference.
    pub fn addresses(&self) -> Vec<IpAddr> {
        self.first().shared().lock().addresses.iter().map(|address| address.ip).collect()
    }

    /// Returns the number of bytes that the buffers of its connections take, together with those charged to
    /// them.
    pub fn memory_used(&self) -> u64 {
        self.cores(|core| core.memory_used()).sum()
    }

    /// Returns the number of bytes that it keeps for reuse: buffers that were not used for ten seconds are freed.
    pub fn memory_spare(&self) -> u64 {
        self.cores(|core| core.memory_spare()).sum()
    }

    /// Returns the number of subflows in TIME-WAIT of connections that have ended. Each takes less than 300 bytes.
    pub fn time_waits(&self) -> usize {
        self.cores(|core| core.time_waits()).sum()
    }

    /// Returns its packet counters.
    pub fn counters(&self) -> HostCounters {
        let mut all = HostCounters::default();
        self.cores(|core| core.counters).for_each(|counters| all += counters);
        if let Some(spread) = &self.spread {
            spread.count(&mut all);
        }
        all
    }

    /// Returns the first stack.
    fn first(&self) -> &Handle {
        &self.stacks[0].handle
    }

    /// Returns the answer of each stack.
    fn cores<T>(&self, ask: impl Fn(&mut Core) -> T) -> impl Iterator<Item = T> {
        self.stacks.iter().map(move |stack| ask(&mut stack.handle.shared().lock()))
    }

    /// Returns the stack for a new connection: one of this runtime, if it has any that work.
    fn choose(&self) -> &Handle {
        let here = Runtime::try_current().ok().map(|runtime| runtime.id());
        let works = |stack: &&Stack| stack.handle.shared().lock().check().is_ok();
        let mut stacks: Vec<&Stack> =
            self.stacks.iter().filter(|stack| Some(stack.runtime) == here).filter(works).collect();
        if stacks.is_empty() {
            stacks = self.stacks.iter().filter(works).collect();
        }
        let turn = |count: usize| self.next.fetch_add(1, Ordering::Relaxed) % count;
        let stack = match &stacks[..] {
            [] => None,
            [only] => Some(only),
            several => several.get(turn(several.len())),
        };
        stack.map_or(self.first(), |stack| &stack.handle)
    }

    /// Returns the connection configuration adapted to this host.
    fn adapt(&self, mut config: ConnectionConfig) -> ConnectionConfig {
        config.mtu = self.mtu.min(65_535);
        let six = self.first().shared().lock().addresses.iter().any(|address| address.ip.is_ipv6());
        // The headers of IP and TCP, and the options of a data segment: 12 of timestamps, 28 of a DSS.
        let headers = if six { 60 } else { 40 } + 40;
        config.mss = config.mtu.saturating_sub(headers).max(64);
        config
    }

    /// Opens a connection to `remote` from the first local address of its family.
    ///
    /// A configuration with settings that only a simulator has does not compile:
    ///
    /// ```
    /// # use std::{io, net::SocketAddr};
    /// # use anabranch_net::Host;
    /// use anabranch_stack::config::{ConnectionConfig, SimConfig};
    ///
    /// # async fn of(host: Host, remote: SocketAddr, config: SimConfig) -> io::Result<()> {
    /// host.connect(remote, config.connection).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// ```compile_fail,E0308
    /// # use std::{io, net::SocketAddr};
    /// # use anabranch_net::Host;
    /// use anabranch_stack::config::{ConnectionConfig, SimConfig};
    ///
    /// # async fn of(host: Host, remote: SocketAddr, config: SimConfig) -> io::Result<()> {
    /// host.connect(remote, config).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// If there is no such address, the peer refuses or does not answer, or the host has stopped.
    pub async fn connect(&self, remote: SocketAddr, config: ConnectionConfig) -> io::Result<MptcpStream> {
        let mut addresses = self.addresses();
        addresses.retain(|ip| ip.is_ipv4() == remote.is_ipv4());
        let up = addresses.iter().find(|ip| self.is_address_up(**ip));
        let local = up.or(addresses.first()).ok_or_else(|| {
            let family = if remote.is_ipv4() { "IPv4" } else { "IPv6" };
            let text = format!("this host has no {family} address from which to reach {remote}");
            io::Error::new(io::ErrorKind::AddrNotAvailable, text)
        })?;
        self.connect_from(*local, remote, config).await
    }

    /// Opens a connection to `remote` with its first subflow at `local`.
    ///
    /// # Errors
    /// As [`Host::connect`].
    pub async fn connect_from(
        &self,
        local: IpAddr,
        remote: SocketAddr,
        config: ConnectionConfig,
    ) -> io::Result<MptcpStream> {
        let config = self.adapt(config);
        if local.is_ipv4() != remote.is_ipv4() {
            let text = format!("{remote} cannot be reached from {local}");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        let remote = Address::new(remote.ip(), remote.port());
        let stack = self.choose();
        let stream = stack.shared().act(|core, now| {
            core.check()?;
            let id = core.endpoint.connect(now, local, remote, config).map_err(|error| {
                let kind = match error {
                    ConnectError::UnknownLocalAddress(_) => io::ErrorKind::AddrNotAvailable,
                    ConnectError::TooManyConnections | ConnectError::NoFreePort => io::ErrorKind::AddrInUse,
                };
                io::Error::new(kind, error)
            })?;
            core.track_outgoing(now, id, remote);
            core.stirred = true;
            io::Result::Ok(id)
        });
        let stream = MptcpStream::new(stack.clone(), stream?);
        stream.established().await?;
        Ok(stream)
    }

    /// Accepts connections to `port` on every address, each with `config`; up to `backlog` of them may wait
    /// to be accepted at each stack, and more are reset.
    ///
    /// # Errors
    /// If the port is in use, or the host has stopped.
    pub fn listen(&self, port: u16, config: ConnectionConfig, backlog: usize) -> io::Result<MptcpListener> {
        let config = self.adapt(config);
        let mut listener = MptcpListener::new(port);
        for stack in self.stacks.iter() {
            stack.handle.shared().act(|core, _| {
                core.check()?;
                if port == 0 || core.listeners.contains_key(&port) {
                    let text = format!("port {port} is in use");
                    return Err(io::Error::new(io::ErrorKind::AddrInUse, text));
                }
                let backlog = backlog.max(1);
                core.listeners.insert(port, Listening { backlog, ..Listening::default() });
                core.endpoint.listen(port, config.clone());
                Ok(())
            })?;
            listener.add(stack.handle.clone());
        }
        Ok(listener)
    }

    /// Marks a local address as unavailable or available again: its subflows end, and peers are notified
    /// (REMOVE_ADDR, ADD_ADDR). The only subflow of a connection that no other one may join yet stays. New
    /// connections open no subflow from an unavailable address; with [`Host::connect`] they begin at another
    /// one, if there is one.
    pub fn set_address_up(&self, ip: IpAddr, up: bool) {
        for stack in self.stacks.iter() {
            stack.handle.shared().act(|core, now| core.set_address_up(now, ip, up));
        }
    }

    /// True unless the address is marked as unavailable.
    pub fn is_address_up(&self, ip: IpAddr) -> bool {
        !self.first().shared().lock().down.contains(&ip)
    }

    /// Returns the remote addresses of its connections, each once.
    pub fn peers(&self) -> Vec<IpAddr> {
        let peers = |core: &mut Core| {
            let flows = core.connections().into_iter().filter_map(|id| core.flows.get(&id));
            flows.map(|flow| flow.remote.ip).collect::<Vec<IpAddr>>()
        };
        let peers: BTreeSet<IpAddr> = self.cores(peers).flatten().collect();
        peers.into_iter().collect()
    }

    /// Returns the stack's counters of refused and discarded items.
    pub fn endpoint_counters(&self) -> EndpointCounters {
        let mut all = EndpointCounters::default();
        self.cores(|core| core.endpoint.counters()).for_each(|counters| all += counters);
        all
    }

    /// Ends the capture, if there is one, and waits until it is written.
    ///
    /// # Errors
    /// The error that prevented it from being written completely.
    pub async fn end_capture(&self) -> io::Result<Option<CaptureReport>> {
        let tap = self.first().shared().act(|core, _| {
            core.endpoint.observer_mut().rest();
            core.tap.take()
        });
        match tap {
            Some(tap) => tap.finish().await.map(Some),
            None => Ok(None),
        }
    }

    /// Resets all connections.
    pub fn abort_all(&self) {
        for stack in self.stacks.iter() {
            stack.handle.shared().act(|core, now| {
                for id in core.connections() {
                    core.abort(now, id);
                }
            });
        }
    }

    /// Waits until no connection is left: every stream was dropped, and its data has been acknowledged or the
    /// connection has failed.
    ///
    /// # Errors
    /// If the host stops before.
    pub async fn finished(&self) -> io::Result<()> {
        for stack in self.stacks.iter() {
            std::future::poll_fn(|cx| {
                let mut core = stack.handle.shared().lock();
                if core.flows.is_empty() {
                    return Poll::Ready(io::Result::Ok(()));
                }
                core.check()?;
                core.finishers.push(cx.waker().clone());
                Poll::Pending
            })
            .await?;
        }
        Ok(())
    }
}
