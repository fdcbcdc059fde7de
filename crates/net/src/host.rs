//! A host in user space: its devices, addresses and connections.

use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::task::Poll;

use anabranch_stack::config::{
    ConnectionConfig, EndpointConfig, Entropy, LocalAddress, PathMtuDiscovery, ReceiveBuffer,
};
use anabranch_stack::congestion::CongestionKind;
use anabranch_stack::endpoint::{ConnectError, Endpoint};
use anabranch_stack::segment::{Address, PathId};
use anabranch_stack::stats::EndpointCounters;
use anabranch_stack::timestamp::TimestampTick;
use anabranch_units::{Bytes, Duration, RandomStream};
use tokio::sync::mpsc::UnboundedSender;

use crate::capture::{Capture, CaptureReport, Watcher};
use crate::counters::HostCounters;
use crate::driver::{Driver, Port};
use crate::listener::MptcpListener;
use crate::notice::Notice;
use crate::shared::{Core, Handle, Listening, Shared};
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

    /// Starts the host: its driver becomes a task of the current runtime.
    ///
    /// The driver ends when the host, its listeners and its streams were dropped and all connections have
    /// ended, or when a device fails; afterwards every operation returns an error.
    ///
    /// # Errors
    /// If there is no address, an address is duplicated or is none that a host can have, the system has no
    /// entropy, or the thread of a capture cannot be started.
    pub fn start(self) -> io::Result<Host> {
        let invalid = |text: String| Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        let mut addresses: Vec<LocalAddress> = Vec::new();
        let (mut ports, mut port_of) = (Vec::new(), Vec::new());
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
                port_of.push(ports.len());
            }
            ports.push(Port::new(device, first));
        }
        if addresses.is_empty() {
            return invalid("a host needs a device with an address".to_owned());
        }
        let entropy = match self.seed {
            Some(seed) => Entropy::Seeded(RandomStream::new(seed, "net.host")),
            None => {
                // Once initialised, the system's entropy is always available.
                getrandom::fill(&mut [0]).map_err(|error| {
                    io::Error::other(format!("the system provides no random numbers: {error}"))
                })?;
                Entropy::System(system_entropy)
            }
        };
        let config = EndpointConfig {
            max_connections: self.max_connections,
            // Peers on real networks remember a timestamp for days.
            timestamp_tick: TimestampTick::MILLISECOND,
            ..EndpointConfig::new(addresses.clone())
        };
        let clock = Clock::start();
        let tap = match self.capture {
            Some(capture) => {
                let name = |(at, port): (usize, &Port)| port.name().unwrap_or(format!("device{}", at + 1));
                let names: Vec<String> = ports.iter().enumerate().map(name).collect();
                Some(capture.begin(&names, clock.now())?)
            }
            None => None,
        };
        let mut endpoint = Endpoint::with_observer(config, entropy, Watcher::new(tap.is_some()));
        // The driver splits packets for devices that do not.
        endpoint.set_burst_limit(BURST);
        let shared = Arc::new(Shared::new(
            Core::new(endpoint, addresses, self.notices, tap, self.buffer_memory, self.send_timeout),
            clock,
        ));
        let host = Host { handle: Handle::new(Arc::clone(&shared)), mtu };
        tokio::spawn(Driver::new(shared, ports, port_of));
        Ok(host)
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
    handle: Handle,
    mtu: u32,
}

impl Host {
    /// Returns the builder of a host with the default settings.
    pub fn builder() -> HostBuilder {
        HostBuilder::default()
    }

    /// Returns its addresses, in order of preference.
    pub fn addresses(&self) -> Vec<IpAddr> {
        self.handle.shared().lock().addresses.iter().map(|address| address.ip).collect()
    }

    /// Returns the number of bytes that the buffers of its connections take, together with those charged to
    /// them.
    pub fn memory_used(&self) -> u64 {
        self.handle.shared().lock().memory_used()
    }

    /// Returns its packet counters.
    pub fn counters(&self) -> HostCounters {
        self.handle.shared().lock().counters
    }

    /// Returns the connection configuration adapted to this host.
    fn adapt(&self, mut config: ConnectionConfig) -> ConnectionConfig {
        config.mtu = self.mtu.min(65_535);
        let six = self.handle.shared().lock().addresses.iter().any(|address| address.ip.is_ipv6());
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
        let stream = self.handle.shared().act(|core, now| {
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
        let stream = MptcpStream::new(self.handle.clone(), stream?);
        stream.established().await?;
        Ok(stream)
    }

    /// Accepts connections to `port` on every address, each with `config`; up to `backlog` of them may wait
    /// to be accepted, and more are reset.
    ///
    /// # Errors
    /// If the port is in use, or the host has stopped.
    pub fn listen(&self, port: u16, config: ConnectionConfig, backlog: usize) -> io::Result<MptcpListener> {
        let config = self.adapt(config);
        self.handle.shared().act(|core, _| {
            core.check()?;
            if port == 0 || core.listeners.contains_key(&port) {
                let text = format!("port {port} is in use");
                return Err(io::Error::new(io::ErrorKind::AddrInUse, text));
            }
            let backlog = backlog.max(1);
            core.listeners.insert(port, Listening { backlog, ..Listening::default() });
            core.endpoint.listen(port, config);
            Ok(())
        })?;
        Ok(MptcpListener::new(self.handle.clone(), port))
    }

    /// Marks a local address as unavailable or available again: its subflows end, and peers are notified
    /// (REMOVE_ADDR, ADD_ADDR). New connections open no subflow from an unavailable address; with
    /// [`Host::connect`] they begin at another one, if there is one.
    pub fn set_address_up(&self, ip: IpAddr, up: bool) {
        self.handle.shared().act(|core, now| core.set_address_up(now, ip, up));
    }

    /// True unless the address is marked as unavailable.
    pub fn is_address_up(&self, ip: IpAddr) -> bool {
        !self.handle.shared().lock().down.contains(&ip)
    }

    /// Returns the remote addresses of its connections, each once.
    pub fn peers(&self) -> Vec<IpAddr> {
        let core = self.handle.shared().lock();
        let flows = core.connections().into_iter().filter_map(|id| core.flows.get(&id));
        let peers: BTreeSet<IpAddr> = flows.map(|flow| flow.remote.ip).collect();
        peers.into_iter().collect()
    }

    /// Returns the stack's counters of refused and discarded items.
    pub fn endpoint_counters(&self) -> EndpointCounters {
        self.handle.shared().lock().endpoint.counters()
    }

    /// Ends the capture, if there is one, and waits until it is written.
    ///
    /// # Errors
    /// The error that prevented it from being written completely.
    pub async fn end_capture(&self) -> io::Result<Option<CaptureReport>> {
        let tap = self.handle.shared().act(|core, _| {
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
        self.handle.shared().act(|core, now| {
            for id in core.connections() {
                core.abort(now, id);
            }
        });
    }

    /// Waits until no connection is left: every stream was dropped, and its data has been acknowledged or the
    /// connection has failed.
    ///
    /// # Errors
    /// If the host stops before.
    pub async fn finished(&self) -> io::Result<()> {
        std::future::poll_fn(|cx| {
            let mut core = self.handle.shared().lock();
            if core.flows.is_empty() {
                return Poll::Ready(Ok(()));
            }
            core.check()?;
            core.finishers.push(cx.waker().clone());
            Poll::Pending
        })
        .await
    }
}
