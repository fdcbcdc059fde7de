//! This project's Multipath TCP: a host in user space, with every scheduler and congestion control.

use std::io::{self, IoSlice};
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use anabranch_net::device::{self, Caps};
use anabranch_net::{Host, MptcpListener, MptcpStream};
use anabranch_scenario::parameters::from_option;
use anabranch_scenario::policy::proxy::{Budget, Cap, Joins, Multipath, Price, Spent, Treatment};
use anabranch_stack::config::ConnectionConfig;
use anabranch_stack::congestion::CongestionKind;
use anabranch_stack::known::KnownPath;
use anabranch_stack::path_manager::{
    self, CustomPathManager, CustomPathManagerKind, FullMesh, HostAddress, JoinRules, PathCommand, PathEvent,
    PathManager, PathManagerKind,
};
use anabranch_units::Bytes;
use tokio::io::AsyncBufRead as _;
use tokio::time::{Instant, timeout};

use super::{Accept, Link, LinkReport, Stream, SubflowReport, Transport};
use crate::paths::{Paths, set_budgets};
use crate::prices::{self, Choice};
use crate::status::lock;

/// The most pieces that are written at once.
const PIECES: usize = 4;
/// The number of connections that may wait to be accepted.
const BACKLOG: usize = 4096;
/// The time in which a connection has to begin on its first path, if there is another path: three SYNs.
const PATIENCE: Duration = Duration::from_secs(4);
/// The time for which a path on which none has begun is not the first one of others.
const AVOIDED: Duration = Duration::from_secs(60);

/// A path manager of the addresses that a policy allows.
#[derive(Clone)]
struct Chosen<P>(P);

impl<P: PathManager> PathManager for Chosen<P> {
    fn on_event(&mut self, event: &PathEvent) {
        self.0.on_event(event);
    }

    fn poll(&mut self) -> Option<PathCommand> {
        self.0.poll()
    }
}

impl<P: PathManager + Clone + Send + 'static> CustomPathManager for Chosen<P> {
    fn clone_box(&self) -> Box<dyn CustomPathManager> {
        Box::new(self.clone())
    }
}

/// A host in user space.
#[derive(Clone, Debug)]
pub struct Anabranch {
    host: Host,
    config: ConnectionConfig,
    paths: Option<Paths>,
    caps: Caps,
    joins: Joins,
    prices: Arc<Mutex<Vec<Price>>>,
    /// The paths on which a connection has not begun, and the end of the time for which they are avoided.
    avoided: Arc<Mutex<Vec<(IpAddr, Instant)>>>,
}

impl Anabranch {
    /// Returns the transport of a host; `config` holds for connections that have no other treatment.
    pub fn new(host: Host, config: ConnectionConfig) -> Anabranch {
        Anabranch {
            host,
            config,
            paths: None,
            caps: Caps::default(),
            joins: Joins::default(),
            prices: Arc::default(),
            avoided: Arc::default(),
        }
    }

    /// Lets connections begin on the best path of this memory.
    pub fn with_paths(self, paths: Option<Paths>) -> Anabranch {
        Anabranch { paths, ..self }
    }

    /// Sets the path manager of connections that have no other treatment.
    pub fn with_path_manager(self, joins: Joins) -> Anabranch {
        Anabranch { joins, ..self }
    }

    /// Sets the caps with which the host was built.
    pub fn with_caps(self, caps: Caps) -> Anabranch {
        Anabranch { caps, ..self }
    }

    /// Checks that the limit of a path is for an address of this host: its addresses never change, and a limit that holds for none costs money.
    fn find(&self, kind: &str, name: &str, covers: impl Fn(&str) -> bool) -> Result<(), String> {
        let own: Vec<String> = self.host.addresses().iter().map(ToString::to_string).collect();
        if own.iter().any(|ip| covers(ip)) {
            return Ok(());
        }
        Err(format!("the {kind} of `{name}` is for no address of this host; write one of {}", own.join(", ")))
    }

    /// Returns the configuration of a connection, the address of its first subflow, and whether another one could be the first.
    fn adapt(&self, to: SocketAddr, how: &Treatment) -> io::Result<(ConnectionConfig, IpAddr, bool)> {
        let mut config = self.config.clone();
        if let Some(scheduler) = &how.scheduler {
            config.scheduler = scheduler.clone();
        }
        if let Some(name) = &how.congestion {
            config.congestion = from_option("congestion", name).map_err(io::Error::other)?;
        }
        let mut how = how.clone();
        let own = self.host.addresses().into_iter().filter(|ip| ip.is_ipv4() == to.is_ipv4());
        let spent = |path: &str| self.paths.as_ref().and_then(|paths| paths.spent(path));
        let mut own: Vec<IpAddr> = own.filter(|ip| admit(&ip.to_string(), &mut how, spent)).collect();
        if own.iter().any(|ip| self.host.is_address_up(*ip)) {
            own.retain(|ip| self.host.is_address_up(*ip));
        }
        self.avoid(&mut own);
        let is_choice = own.len() > 1;
        let (mut used, mut backup): (Vec<IpAddr>, Vec<IpAddr>) =
            own.into_iter().partition(|ip| !how.is_backup(&ip.to_string()));
        self.spare(&mut used, &mut backup, to.ip(), &mut how);
        // A backup is the first path only if there is no other.
        let known = self.paths.as_ref().and_then(|paths| paths.best_address(&used, to.ip(), how.receives));
        used.extend(backup);
        let first = known.or_else(|| used.first().copied()).ok_or_else(|| {
            io::Error::new(
                io::ErrorKind::AddrNotAvailable,
                "the policy, or the budget of a path, allows no path to this destination",
            )
        })?;
        let is_limited = how.paths.is_some() || !how.backup.is_empty() || !how.refused.is_empty();
        if is_limited {
            // A race would use all addresses.
            config.race = None;
        }
        let remembered = self.known(to.ip());
        config.known_paths = remembered.iter().copied().collect();
        let rules = self.join_rules(&how);
        if is_limited || rules.is_some() {
            let how = how.clone();
            let kind = CustomPathManagerKind::new("by_policy", move |own| {
                let own = own.iter().filter(|one| how.allows(&one.ip.to_string()));
                let backup = |one: &HostAddress| one.backup || how.is_backup(&one.ip.to_string());
                let own: Vec<HostAddress> =
                    own.map(|one| HostAddress { backup: backup(one), ..*one }).collect();
                let Some(rules) = &rules else { return Box::new(Chosen(FullMesh::new(&own))) };
                // A backup carries nothing, so it is joined at once, and no other path waits for it.
                let of = |one: &HostAddress| {
                    let known = remembered.iter().find(|(ip, _)| *ip == one.ip && !one.backup);
                    known.map(|(_, known)| *known)
                };
                let rules = JoinRules { paths: own.iter().map(of).collect(), ..rules.clone() };
                Box::new(Chosen(path_manager::Anabranch::new(rules, &own)))
            });
            config.path_manager = PathManagerKind::Custom(kind);
        }
        config.flow_size = how.sends;
        Ok((config, first, is_choice))
    }

    /// Removes the avoided paths, unless all are.
    fn avoid(&self, own: &mut Vec<IpAddr>) {
        let now = Instant::now();
        let mut avoided = lock(&self.avoided);
        avoided.retain(|(_, until)| *until > now);
        let is_avoided = |ip: &IpAddr| avoided.iter().any(|(avoided, _)| avoided == ip);
        if !own.iter().all(is_avoided) {
            own.retain(|ip| !is_avoided(ip));
        }
    }

    /// Returns the expected bytes of a connection in its larger direction, and true if they come from the peer; none without a memory.
    fn expected(&self, how: &Treatment) -> Option<(Bytes, bool)> {
        let receives = how.receives.unwrap_or(self.paths.as_ref()?.expected());
        let sends = how.sends.unwrap_or_default();
        Some((receives.max(sends), receives >= sends))
    }

    /// Returns the remembered paths to this address, with the addresses of this host.
    fn known(&self, to: IpAddr) -> Vec<(IpAddr, KnownPath)> {
        let Some(paths) = &self.paths else { return Vec::new() };
        let known = self.host.addresses().into_iter().filter_map(|own| {
            let seen = paths.known(own, to)?;
            Some((own, KnownPath { rtt: seen.rtt_s, rate: seen.rate_bps? / 8.0, loss: seen.loss }))
        });
        known.collect()
    }

    /// Returns the rules for joins of the path manager `anabranch`, without the known paths; none for a full mesh.
    fn join_rules(&self, how: &Treatment) -> Option<JoinRules> {
        self.paths.as_ref()?;
        if how.path_manager.unwrap_or(self.joins) != Joins::Anabranch {
            return None;
        }
        let (bytes, from_peer) = self.expected(how)?;
        Some(JoinRules {
            paths: Vec::new(),
            expected: Some(bytes.0),
            from_peer,
            initial_window: self.config.initial_window * self.config.mss,
            mss: self.config.mss,
        })
    }

    /// Makes the paths with a price backups, unless the connection is expected to be much slower without them.
    fn spare(&self, used: &mut Vec<IpAddr>, backup: &mut Vec<IpAddr>, to: IpAddr, how: &mut Treatment) {
        let prices = lock(&self.prices);
        if prices.is_empty() {
            return;
        }
        let choice = |ip: &IpAddr| Choice {
            known: self.paths.as_ref().and_then(|paths| paths.known(*ip, to)),
            price: prices.iter().find(|price| price.covers(&ip.to_string())),
        };
        let choices: Vec<Choice<'_>> = used.iter().map(choice).collect();
        let bytes = self.expected(how).map(|(bytes, _)| bytes).unwrap_or_default();
        let spared = prices::spared(&choices, bytes, self.config.initial_window, self.config.mss);
        let mut spared = spared.into_iter();
        used.retain(|ip| {
            let is_spared = spared.next() == Some(true);
            if is_spared {
                how.backup.push(ip.to_string());
                backup.push(*ip);
            }
            !is_spared
        });
        // Also the ones that are down, and come back while the connection lasts.
        for ip in self.host.addresses().iter().filter(|ip| !used.contains(ip)) {
            let name = ip.to_string();
            if prices.iter().any(|price| price.covers(&name)) && !how.is_backup(&name) {
                how.backup.push(name);
            }
        }
    }
}

/// True if a connection may use this path. If its budget is spent, it is a backup, or not used.
fn admit(path: &str, how: &mut Treatment, spent: impl Fn(&str) -> Option<Spent>) -> bool {
    if !how.allows(path) {
        // Not even as a backup.
        return false;
    }
    match spent(path) {
        None => {}
        Some(Spent::Backup) => how.backup.push(path.to_owned()),
        Some(Spent::Off) => how.refused.push(path.to_owned()),
    }
    how.allows(path)
}

impl Transport for Anabranch {
    type Link = MptcpStream;
    type Listener = MptcpListener;

    fn name(&self) -> &'static str {
        "anabranch"
    }

    fn check(&self, how: &Treatment) -> Result<(), String> {
        if how.multipath == Multipath::Never {
            return Err("`multipath = \"never\"` is for sockets of the kernel: --transport kernel, or rules with `via = \"direct\"`".to_owned());
        }
        if self.paths.is_none() && how.path_manager.unwrap_or(self.joins) == Joins::Anabranch {
            return Err(
                "the path manager `anabranch` needs --memory FILE, from which it knows the paths".to_owned()
            );
        }
        let Some(name) = &how.congestion else { return Ok(()) };
        from_option::<CongestionKind>("congestion", name).map(drop).map_err(|error| error.to_string())
    }

    fn set_budgets(&self, budgets: &[Budget]) -> Result<(), String> {
        for budget in budgets {
            self.find("budget", &budget.path, |path| budget.covers(path))?;
        }
        set_budgets(self.paths.as_ref(), budgets)
    }

    fn set_caps(&self, caps: &[Cap]) -> Result<(), String> {
        if self.host.stacks() > 1 && !caps.is_empty() {
            return Err("`[[cap]]` needs --threads 1: the queues before a device have one reader".to_owned());
        }
        for cap in caps {
            self.find("cap", &cap.path, |path| cap.covers(path))?;
        }
        let cap = |address: IpAddr| {
            let cap = caps.iter().find(|cap| cap.covers(&address.to_string()))?;
            Some(device::Cap { address, send: cap.send, receive: cap.receive })
        };
        self.caps.set(self.host.addresses().into_iter().filter_map(cap).collect());
        Ok(())
    }

    fn set_prices(&self, prices: &[Price]) -> Result<(), String> {
        for price in prices {
            self.find("price", &price.path, |path| price.covers(path))?;
        }
        if !prices.is_empty() && self.paths.is_none() {
            return Err("`[[price]]` needs --memory FILE, from which the times of connections are predicted"
                .to_owned());
        }
        *lock(&self.prices) = prices.to_vec();
        Ok(())
    }

    async fn dial(&self, to: SocketAddr, how: &Treatment) -> io::Result<MptcpStream> {
        let mut tried = Vec::new();
        loop {
            let (config, first, is_choice) = self.adapt(to, how)?;
            let is_race = config.race.is_some();
            let connecting = self.host.connect_from(first, to, config);
            let connected = match is_choice && !is_race {
                true => timeout(PATIENCE, connecting).await.unwrap_or_else(|late| Err(late.into())),
                false => connecting.await,
            };
            match connected {
                Err(error) if error.kind() != io::ErrorKind::ConnectionRefused => {
                    // The next connection begins on another path.
                    if let Some(paths) = &self.paths {
                        paths.forget(&first.to_string(), to.ip());
                    }
                    lock(&self.avoided).push((first, Instant::now() + AVOIDED));
                    if !is_choice || is_race || tried.contains(&first) {
                        return Err(error);
                    }
                    tried.push(first);
                }
                connected => return connected,
            }
        }
    }

    fn listen(&self, at: SocketAddr) -> io::Result<MptcpListener> {
        self.host.listen(at.port(), self.config.clone(), BACKLOG)
    }

    fn adopt(&self, _: std::net::TcpListener) -> io::Result<MptcpListener> {
        let text = "the host of --transport anabranch listens at its own addresses, and takes no sockets of the kernel";
        Err(io::Error::new(io::ErrorKind::Unsupported, text))
    }
}

impl Accept for MptcpListener {
    type Link = MptcpStream;

    fn split(self) -> Vec<MptcpListener> {
        MptcpListener::split(self)
    }

    async fn accept(&mut self) -> io::Result<(MptcpStream, SocketAddr)> {
        MptcpListener::accept(self).await
    }
}

impl Stream for MptcpStream {
    fn set_remaining(&self, remaining: Option<u64>) {
        self.set_flow_size(remaining.map(|remaining| self.written().saturating_add(remaining)));
    }

    fn lends(&self) -> bool {
        true
    }

    fn poll_lend(
        &mut self,
        cx: &mut Context<'_>,
        mut take: impl FnMut(&mut Context<'_>, &[IoSlice<'_>]) -> Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        ready!(Pin::new(&mut *self).poll_fill_buf(cx))?;
        let mut pieces = [IoSlice::new(&[]); PIECES];
        let mut count = 0;
        for (piece, bytes) in pieces.iter_mut().zip(self.lent()) {
            *piece = IoSlice::new(bytes);
            count += 1;
        }
        let n = ready!(take(cx, &pieces[..count]))?;
        Pin::new(&mut *self).consume(n);
        Poll::Ready(Ok(n))
    }
}

impl Link for MptcpStream {
    const USES_SIZE: bool = true;

    fn reset(self) {
        self.abort();
    }

    fn report(&self) -> LinkReport {
        let subflows = self.subflow_stats().into_iter().filter(|subflow| subflow.established.is_some());
        let subflows = subflows.map(|subflow| SubflowReport {
            local: SocketAddr::new(subflow.local.ip, subflow.local.port),
            remote: SocketAddr::new(subflow.remote.ip, subflow.remote.port),
            srtt_us: subflow.srtt.map(|srtt| srtt.0 / 1000),
            variation_us: None,
            rate_bps: None,
            sent_bytes: subflow.counters.bytes_sent,
            received_bytes: subflow.counters.bytes_delivered,
            retransmitted_bytes: subflow.counters.segments_retransmitted * u64::from(subflow.mss),
        });
        LinkReport { mptcp: self.stats().mptcp, subflows: subflows.collect() }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::atomic::{AtomicU64, Ordering};

    use anabranch_kernel::memory::{Memory, Remembered};
    use anabranch_net::default_config;
    use anabranch_net::device::{Capabilities, memory};
    use anabranch_stack::known::KnownPaths;
    use anabranch_stack::segment::Address;
    use anabranch_units::{Duration, Rate, Time};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;
    use crate::paths::PathNames;
    use crate::relay::{Direction, End, relay};

    const HOUR: core::time::Duration = core::time::Duration::from_secs(3600);

    /// A path that is up, and on which no packet arrives.
    #[tokio::test(start_paused = true)]
    async fn a_connection_begins_on_another_path_if_the_first_one_is_silent() {
        let (dead, _nobody) = memory::pair(Capabilities::plain(1500));
        let (left, right) = memory::pair(Capabilities::plain(1500));
        let ip = |text: &str| -> IpAddr { text.parse().unwrap() };
        let (silent, good, there) = (ip("10.0.0.1"), ip("10.0.1.1"), ip("10.0.2.1"));
        let client = Host::builder().device(dead, &[silent]).device(left, &[good]).start().unwrap();
        let server = Host::builder().device(right, &[there]).start().unwrap();
        let mut listener = server.listen(80, default_config(), 9).unwrap();
        let transport = Anabranch::new(client, default_config());
        let mut seconds = Vec::new();
        for _ in 0..2 {
            let begun = Instant::now();
            let link = transport.dial((there, 80).into(), &Treatment::default()).await.unwrap();
            seconds.push(begun.elapsed().as_secs());
            assert_eq!(MptcpListener::accept(&mut listener).await.unwrap().1.ip(), good);
            link.abort();
        }
        // The second one knows.
        assert_eq!(seconds, [PATIENCE.as_secs(), 0]);
        // A path that nothing else replaces is tried for as long as the caller waits.
        let only = Treatment { paths: Some(vec![silent.to_string()]), ..Treatment::default() };
        let wait = timeout(PATIENCE * 4, transport.dial((there, 80).into(), &only));
        assert!(wait.await.is_err());
        tokio::time::advance(AVOIDED).await;
        let begun = Instant::now();
        transport.dial((there, 80).into(), &Treatment::default()).await.unwrap();
        assert_eq!(begun.elapsed().as_secs(), PATIENCE.as_secs(), "tried again");
    }

    #[tokio::test(start_paused = true)]
    async fn data_is_passed_from_the_buffers_of_the_stack_and_complete() {
        let (left, right) = memory::pair(Capabilities::plain(1500));
        let (here, there): (IpAddr, IpAddr) = ("10.0.0.1".parse().unwrap(), "10.0.0.2".parse().unwrap());
        let client = Host::builder().device(left, &[here]).start().unwrap();
        let server = Host::builder().device(right, &[there]).start().unwrap();
        let mut listener = server.listen(80, default_config(), 1).unwrap();
        let mut near = client.connect((there, 80).into(), default_config()).await.unwrap();
        let (mut far, _) = MptcpListener::accept(&mut listener).await.unwrap();
        assert!(Stream::lends(&near));
        let sent: Vec<u8> = (0..1_000_000_u32).map(|at| (at * 7 / 3) as u8).collect();
        let all = sent.clone();
        tokio::spawn(async move {
            far.write_all(&all).await.unwrap();
            far.shutdown().await.unwrap();
            far.read_to_end(&mut Vec::new()).await.unwrap();
        });
        // The application is slow, and takes pieces that end anywhere.
        let (mut app, mut proxy) = tokio::io::duplex(10_007);
        let counts = [AtomicU64::new(0), AtomicU64::new(0)];
        let relaying = async {
            let (_asks, asked) = tokio::sync::watch::channel(0);
            let up = Direction::new(Vec::new(), None);
            relay(&mut proxy, &mut near, up, counts.each_ref(), HOUR, asked, |_| {}).await
        };
        let reading = async {
            let mut got = Vec::new();
            app.read_to_end(&mut got).await.unwrap();
            app.shutdown().await.unwrap();
            got
        };
        let (end, got) = tokio::join!(relaying, reading);
        assert!(matches!(end, End::Finished), "{end:?}");
        assert!(got == sent);
        assert_eq!(counts[1].load(Ordering::Relaxed), sent.len() as u64);
    }

    #[tokio::test]
    async fn caps_are_refused_with_several_threads() {
        let (device, _far) = memory::pair(Capabilities::plain(1500));
        let runtimes = vec![tokio::runtime::Handle::current(); 2];
        let host = Host::builder().device(device, &["10.0.0.1".parse().unwrap()]).runtimes(runtimes);
        let transport = Anabranch::new(host.start().unwrap(), default_config());
        assert_eq!(transport.set_caps(&[]), Ok(()));
        let cap = Cap { path: "10.0.0.1".to_owned(), send: Some(Rate::from_mbps(1)), receive: None };
        let error = transport.set_caps(&[cap]).unwrap_err();
        assert!(error.contains("--threads 1"), "{error}");
    }

    #[tokio::test]
    async fn a_limit_for_no_address_of_the_host_is_refused() {
        let (device, _far) = memory::pair(Capabilities::plain(1500));
        let own: IpAddr = "fd86:8684::1".parse().unwrap();
        let host = Host::builder().device(device, &[own]).start().unwrap();
        let transport = Anabranch::new(host, default_config());
        let cap = |path: &str| Cap { path: path.to_owned(), send: Some(Rate::from_mbps(1)), receive: None };
        transport.set_caps(&[cap("fd86:8684::*")]).unwrap();
        let error = transport.set_caps(&[cap("fd86:8684::1"), cap("wwan0")]).unwrap_err();
        assert!(error.contains("cap of `wwan0`") && error.contains("fd86:8684::1"), "{error}");
        let budget = Budget { path: "wwan0".to_owned(), monthly: Bytes(1), spent: Spent::Off };
        let error = transport.set_budgets(&[budget]).unwrap_err();
        assert!(error.contains("budget of `wwan0`"), "{error}");
    }

    const NEAR: &str = "10.0.0.1";
    const FAR: &str = "10.0.1.1";
    const SERVER: &str = "192.0.2.1";

    /// The transport of a host with two addresses, and its file. The near path has 20 ms and 10 Mbit/s, the far one 50 ms and 20 Mbit/s.
    fn with_memory(directory: &Path) -> Anabranch {
        let file = directory.join("paths.json");
        let mut memory = Memory::default();
        for (path, rtt_s, rate) in [(NEAR, 0.02, 10e6), (FAR, 0.05, 20e6)] {
            let now = Time(crate::now_ms() * 1_000_000);
            memory.note(path, SERVER.parse().unwrap(), Remembered::new(rtt_s, 0.0, Some(rate), 0.0, now));
        }
        memory.write(&file).unwrap();
        let paths = Paths::open(&file, PathNames::Addresses, Bytes(100_000)).unwrap();
        let (device, _far) = memory::pair(Capabilities::plain(1500));
        let own = [NEAR, FAR].map(|ip| ip.parse().unwrap());
        let host = Host::builder().device(device, &own).start().unwrap();
        Anabranch::new(host, default_config()).with_paths(Some(paths))
    }

    /// The address of a connection's first subflow, and of each further one, with the time for which it is held back and whether it is a backup.
    fn begins(transport: &Anabranch, how: &Treatment) -> (String, Vec<(String, Duration, bool)>) {
        let to: SocketAddr = (SERVER.parse::<IpAddr>().unwrap(), 80).into();
        let (config, first, _) = transport.adapt(to, how).unwrap();
        let own = transport.host.addresses().into_iter().enumerate();
        let own: Vec<HostAddress> =
            own.map(|(at, ip)| HostAddress { id: at as u8 + 1, ip, backup: false }).collect();
        let mut manager = config.path_manager.build(&own);
        manager.on_event(&PathEvent::Established {
            initiator: true,
            local: Address::new(first, 4000),
            remote: Address::new(to.ip(), to.port()),
            deny_join_initial: false,
        });
        let joins = std::iter::from_fn(|| manager.poll()).map(|command| match command {
            PathCommand::SubflowCreate { local, after, backup, .. } => (local.to_string(), after, backup),
            other => panic!("{other:?}"),
        });
        (first.to_string(), joins.collect())
    }

    fn receives(bytes: u64) -> Treatment {
        Treatment { receives: Some(Bytes(bytes)), ..Treatment::default() }
    }

    #[tokio::test]
    async fn a_further_path_is_joined_at_once_where_it_helps() {
        let directory = tempfile::tempdir().unwrap();
        let transport = with_memory(directory.path());
        let waits = |transport: &Anabranch, how: &Treatment| {
            let (first, joins) = begins(transport, how);
            let [(other, after, false)] = &joins[..] else { panic!("{joins:?}") };
            assert!(first != *other, "{first} {other}");
            after.as_secs_f64()
        };
        assert_eq!(waits(&transport, &receives(30_000)), 0.0, "a full mesh by default");
        let transport = transport.with_path_manager(Joins::Anabranch);
        // 30 KB take 24 ms over the near path, and the first data over the other one comes 87 ms after its join may begin at the earliest.
        let after = waits(&transport, &receives(30_000));
        assert!((0.02..0.1).contains(&after), "{after}");
        assert_eq!(waits(&transport, &receives(5_000_000)), 0.0);
        let upload = Treatment { sends: Some(Bytes(5_000_000)), ..receives(1000) };
        assert_eq!(waits(&transport, &upload), 0.0);
        let full = Treatment { path_manager: Some(Joins::FullMesh), ..receives(30_000) };
        assert_eq!(waits(&transport, &full), 0.0, "a rule replaces the option");
        // A backup is joined at once: it is for the failure of the first path, and carries nothing before.
        let backup = Treatment { backup: vec![FAR.to_owned()], ..receives(30_000) };
        assert_eq!(
            begins(&transport, &backup),
            (NEAR.to_owned(), vec![(FAR.to_owned(), Duration::ZERO, true)])
        );
        let unknown = Anabranch { paths: None, ..transport };
        let error = unknown.check(&Treatment::default()).unwrap_err();
        assert!(error.contains("--memory FILE"), "{error}");
    }

    #[tokio::test]
    async fn a_connection_gets_the_memory_of_its_paths() {
        let directory = tempfile::tempdir().unwrap();
        let transport = with_memory(directory.path());
        let to: SocketAddr = (SERVER.parse::<IpAddr>().unwrap(), 80).into();
        let (config, ..) = transport.adapt(to, &Treatment::default()).unwrap();
        let rates = [NEAR, FAR].map(|own| {
            let known = config.known_paths.between(own.parse().unwrap(), to.ip());
            known.map(|known| known.rate)
        });
        assert_eq!(rates, [Some(1.25e6), Some(2.5e6)]);
        let (config, ..) =
            transport.adapt("198.51.100.1:80".parse().unwrap(), &Treatment::default()).unwrap();
        assert_eq!(config.known_paths, KnownPaths::default());
    }

    #[tokio::test]
    async fn a_path_with_a_price_is_a_backup_of_connections_that_are_fast_without_it() {
        let directory = tempfile::tempdir().unwrap();
        let transport = with_memory(directory.path());
        let price = |path: &str, slower| Price { path: path.to_owned(), price: 2.0, slower };
        let far_is_backup = |slower, bytes| {
            transport.set_prices(&[price(FAR, slower)]).unwrap();
            let (first, joins) = begins(&transport, &receives(bytes));
            let [(_, _, backup)] = &joins[..] else { panic!("{joins:?}") };
            assert!(!backup || first == NEAR, "a path with a price is not the first one for nothing");
            *backup
        };
        // With the far path 10 MB take a third of the time.
        assert!(!far_is_backup(2.0, 10_000_000) && far_is_backup(4.0, 10_000_000));
        assert!(far_is_backup(2.0, 30_000));
        let error = transport.set_prices(&[price("wwan0", 2.0)]).unwrap_err();
        assert!(error.contains("price of `wwan0`"), "{error}");
        let unknown = Anabranch { paths: None, ..transport };
        let error = unknown.set_prices(&[price(FAR, 2.0)]).unwrap_err();
        assert!(error.contains("--memory FILE"), "{error}");
    }

    #[tokio::test]
    async fn a_connection_begins_on_the_path_of_the_memory_and_on_none_that_is_down() {
        let directory = tempfile::tempdir().unwrap();
        let transport = with_memory(directory.path());
        assert_eq!(begins(&transport, &receives(10_000)).0, NEAR);
        assert_eq!(begins(&transport, &receives(50_000_000)).0, FAR);
        transport.host.set_address_up(FAR.parse().unwrap(), false);
        assert_eq!(begins(&transport, &receives(50_000_000)).0, NEAR);
        // It may come back while the connection lasts, and then it still has its price.
        transport.set_prices(&[Price { path: FAR.to_owned(), price: 2.0, slower: 2.0 }]).unwrap();
        let (first, joins) = begins(&transport, &receives(50_000_000));
        assert_eq!((first.as_str(), &joins[..]), (NEAR, &[(FAR.to_owned(), Duration::ZERO, true)][..]));
    }

    #[tokio::test]
    async fn a_race_is_only_for_connections_that_may_use_every_path_and_the_larger_direction_counts() {
        let directory = tempfile::tempdir().unwrap();
        let mut transport = with_memory(directory.path());
        transport.config.race = Some(Duration::ZERO);
        let to: SocketAddr = (SERVER.parse::<IpAddr>().unwrap(), 80).into();
        let races = |how: &Treatment| transport.adapt(to, how).unwrap().0.race.is_some();
        assert!(races(&Treatment::default()));
        assert!(!races(&Treatment { backup: vec![FAR.to_owned()], ..Treatment::default() }));
        assert!(!races(&Treatment { paths: Some(vec![NEAR.to_owned()]), ..Treatment::default() }));
        let expected =
            |sends, bytes| transport.expected(&Treatment { sends: Some(Bytes(sends)), ..receives(bytes) });
        assert_eq!(expected(500, 400), Some((Bytes(500), false)));
        assert_eq!(expected(400, 500), Some((Bytes(500), true)));
    }

    #[test]
    fn a_path_with_a_spent_budget_is_a_backup_or_not_used() {
        let mut how = Treatment { paths: Some(vec!["10.0.0.*".to_owned()]), ..Treatment::default() };
        let spent = |path: &str| match path {
            "10.0.0.2" | "10.0.1.1" => Some(Spent::Backup),
            "10.0.0.3" => Some(Spent::Off),
            _ => None,
        };
        let names = ["10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.1.1"];
        assert_eq!(names.map(|path| admit(path, &mut how, spent)), [true, true, false, false]);
        assert_eq!(names.map(|path| how.allows(path)), [true, true, false, false]);
        assert_eq!(names.map(|path| how.is_backup(path)), [false, true, false, false]);
    }
}
