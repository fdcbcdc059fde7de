//! The memory of paths: connections begin on the path with the shortest expected time.
//!
//! A path is an interface of this host (transport `kernel`) or one of its addresses (transport `anabranch`), towards the network of the
//! peer: with a server side its network. Once a second the connections of the moment, and those that have ended since, give the values. The
//! memory itself, and the expected time, are [`kernel steer`](anabranch_kernel::memory)'s.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anabranch_kernel::interfaces::{Interfaces, LinkEvents, Links};
use anabranch_kernel::memory::{Memory, Month, Remembered};
use anabranch_net::device::tun::watch;
use anabranch_scenario::policy::proxy::{Budget, Spent};
use anabranch_units::{Bytes, Time};
use tokio::time::Instant;

use crate::budgets::Budgets;
use crate::endpoints::BackupEndpoints;
use crate::now_ms;
use crate::status::{Snapshot, Status, lock};
use crate::transport::{LinkReport, SubflowReport};

/// The time between two values of a connection.
const EVERY: Duration = Duration::from_secs(1);
/// The time between two writes of the file.
const WRITE_EVERY: Duration = Duration::from_secs(60);
/// The least part of [`EVERY`] over which a rate is computed.
const LEAST_SPAN: Duration = Duration::from_millis(500);
/// A rate counts if the receiver got more than this in a round trip: then the initial window did not limit it. // RFC 6928
const LEAST_ROUND: f64 = 20_000.0;

/// The names of paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathNames {
    /// Interfaces of this host.
    Interfaces,
    /// Addresses of this host.
    Addresses,
}

/// The memory of paths. Clones are the same.
#[derive(Clone, Debug)]
pub struct Paths {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    names: PathNames,
    /// The expected size of a transfer.
    size: Bytes,
    file: PathBuf,
    memory: Mutex<Memory>,
    budgets: Mutex<Budgets>,
    /// The interfaces of this moment.
    interfaces: Mutex<Interfaces>,
    /// The endpoints of interfaces with a spent budget.
    endpoints: Mutex<BackupEndpoints>,
}

/// The first path of a connection of the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FirstPath {
    /// Any: the system decides.
    Any,
    /// The one that is expected to finish first: an interface and its address. Any, if it fails.
    Best(String, IpAddr),
    /// One of these, as the budgets of others are spent; the best first. If `single`, others must not be joined.
    Only {
        /// The interfaces and their addresses.
        paths: Vec<(String, IpAddr)>,
        /// True if the kernel would join a path that must not be used.
        single: bool,
    },
    /// None: the budgets of all are spent.
    Spent,
}

/// The bytes that a subflow had received.
type Seen = BTreeMap<(u64, SocketAddr, SocketAddr), (Instant, u64)>;

impl Paths {
    /// Reads the file; without one the memory is empty. `size` is the expected size of a transfer.
    ///
    /// # Errors
    /// If there is a file that cannot be read or is no memory, or the interfaces cannot be read.
    pub fn open(file: &Path, names: PathNames, size: Bytes) -> io::Result<Paths> {
        let text = match std::fs::read_to_string(file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            other => other?,
        };
        // An empty memory would replace the file, and with it the used part of each budget.
        if !text.trim().is_empty() && !Memory::is_memory(&text) {
            let why = "it is no memory of paths, or one of another version; remove it, or give another file";
            return Err(io::Error::new(io::ErrorKind::InvalidData, why));
        }
        let mut memory = Memory::parse(&text);
        memory.forget(now());
        let interfaces = read_interfaces(names)?;
        let inner = Inner {
            names,
            size,
            file: file.to_owned(),
            memory: Mutex::new(memory),
            budgets: Mutex::default(),
            interfaces: Mutex::new(interfaces),
            endpoints: Mutex::default(),
        };
        Ok(Paths { inner: Arc::new(inner) })
    }

    /// Returns the name of the path from this local address; none for loopback.
    fn name(&self, local: IpAddr) -> Option<String> {
        match self.inner.names {
            PathNames::Addresses => Some(local.to_string()),
            PathNames::Interfaces => {
                let interfaces = lock(&self.inner.interfaces);
                let interface = interfaces.with_address(local).filter(|interface| !interface.loopback);
                interface.map(|interface| interface.name.clone())
            }
        }
    }

    /// Replaces the budgets of metered paths.
    pub(crate) fn set_budgets(&self, budgets: &[Budget]) {
        lock(&self.inner.budgets).set(budgets);
    }

    /// Returns the use of a path whose budget of this month is spent; none if it may be used.
    pub(crate) fn spent(&self, name: &str) -> Option<Spent> {
        let budgets = lock(&self.inner.budgets);
        if budgets.is_empty() {
            None
        } else {
            budgets.spent(name, Month::of(now()), &lock(&self.inner.memory))
        }
    }

    /// Counts the bytes of metered paths, and shows their budgets. Returns a warning if the kernel refuses to make their endpoints backups, once.
    fn count(&self, status: &Status, look: &Snapshot) -> Option<String> {
        let mut budgets = lock(&self.inner.budgets);
        if !budgets.is_empty() {
            let (mut memory, month) = (lock(&self.inner.memory), Month::of(now()));
            budgets.count(look, month, &mut memory, |ip| self.name(ip));
            status.set_budgets(budgets.rows(month, &memory));
        }
        drop(budgets);
        if self.inner.names == PathNames::Addresses {
            return None;
        }
        let interfaces = lock(&self.inner.interfaces).clone();
        let is_backup = |name: &str| self.spent(name) == Some(Spent::Backup);
        let error = lock(&self.inner.endpoints).apply(&interfaces, is_backup).err()?;
        Some(format!(
            "the endpoints of a path with a spent budget cannot be backups, so new connections are plain TCP on another path: {error}"
        ))
    }

    /// Returns the best of these addresses of this host for a transfer of this size, or else of the expected one; none if no path from
    /// them is known.
    pub(crate) fn best_address(&self, own: &[IpAddr], to: IpAddr, size: Option<Bytes>) -> Option<IpAddr> {
        let names: Vec<String> = own.iter().map(ToString::to_string).collect();
        let size = size.unwrap_or(self.inner.size);
        let best = lock(&self.inner.memory).best(names.iter().map(String::as_str), to, size);
        best.and_then(|at| own.get(at).copied())
    }

    /// Returns what is known of the path from an address of this host.
    pub(crate) fn known(&self, own: IpAddr, to: IpAddr) -> Option<Remembered> {
        lock(&self.inner.memory).path(&own.to_string(), to).copied()
    }

    /// Returns the expected size of a transfer.
    pub(crate) fn expected(&self) -> Bytes {
        self.inner.size
    }

    /// Returns the first path of a connection of the kernel for a transfer of this size, or else of the expected one.
    pub(crate) fn first_path(&self, to: IpAddr, size: Option<Bytes>) -> FirstPath {
        let usable = lock(&self.inner.interfaces).clone();
        let usable: Vec<(String, IpAddr)> =
            usable.towards(to).into_iter().map(|(interface, ip)| (interface.name.clone(), ip)).collect();
        let spent: Vec<Option<Spent>> = usable.iter().map(|(name, _)| self.spent(name)).collect();
        let with = |allowed: &dyn Fn(Option<Spent>) -> bool| {
            let paths = usable.iter().zip(&spent).filter(|(_, spent)| allowed(**spent));
            paths.map(|(path, _)| path.clone()).collect::<Vec<_>>()
        };
        let best = |paths: &[(String, IpAddr)]| {
            let names = paths.iter().map(|(name, _)| name.as_str());
            lock(&self.inner.memory).best(names, to, size.unwrap_or(self.inner.size))
        };
        let mut paths = with(&|spent| spent.is_none());
        if paths.is_empty() {
            // Backups are left.
            paths = with(&|spent| spent != Some(Spent::Off));
        }
        if paths.is_empty() && !usable.is_empty() {
            return FirstPath::Spent;
        }
        let first = best(&paths);
        if paths.len() == usable.len() {
            let first = first.and_then(|at| paths.into_iter().nth(at));
            return first.map_or(FirstPath::Any, |(name, ip)| FirstPath::Best(name, ip));
        }
        paths.swap(0, first.unwrap_or(0));
        let single = spent.contains(&Some(Spent::Off)) || lock(&self.inner.endpoints).is_refused();
        FirstPath::Only { paths, single }
    }

    /// Forgets a path on which a connection could not begin.
    pub(crate) fn forget(&self, name: &str, to: IpAddr) {
        lock(&self.inner.memory).remove(name, to);
    }

    /// Returns the memory of this moment.
    pub fn memory(&self) -> Memory {
        lock(&self.inner.memory).clone()
    }

    /// Notes the values of a subflow, with the rate at which it has received.
    fn learn(&self, now: Time, subflow: &SubflowReport, received_bps: Option<f64>) {
        let (Some(srtt_us), Some(name)) = (subflow.srtt_us, self.name(subflow.local.ip())) else { return };
        let rtt_s = srtt_us as f64 / 1e6;
        let received = received_bps.filter(|rate| rate * rtt_s / 8.0 > LEAST_ROUND);
        let sent = subflow.rate_bps.map(|rate| rate as f64);
        let loss = match subflow.sent_bytes {
            0 => 0.0,
            sent => subflow.retransmitted_bytes as f64 / sent as f64,
        };
        let rate = received.into_iter().chain(sent).reduce(f64::max);
        let variation_s = subflow.variation_us.unwrap_or(0) as f64 / 1e6;
        let values = Remembered::new(rtt_s, variation_s, rate, loss, now);
        lock(&self.inner.memory).note(&name, subflow.remote.ip(), values);
    }

    fn learn_all(&self, number: u64, report: &LinkReport, at: Instant, seen: &Seen, next: &mut Seen) {
        for subflow in &report.subflows {
            let key = (number, subflow.local, subflow.remote);
            let before = seen.get(&key);
            let rate = before.and_then(|(since, bytes)| {
                let span = at.saturating_duration_since(*since);
                let got = subflow.received_bytes.saturating_sub(*bytes);
                (span >= LEAST_SPAN).then(|| got as f64 * 8.0 / span.as_secs_f64())
            });
            self.learn(now(), subflow, rate);
            next.insert(key, (at, subflow.received_bytes));
        }
    }

    /// Reads the interfaces whenever they change, or once a second if the system reports no changes.
    async fn follow_interfaces(&self) {
        if self.inner.names == PathNames::Addresses {
            return std::future::pending().await;
        }
        let events = LinkEvents::open().map_err(io::Error::other);
        let events = events.and_then(|events| Ok((watch(events.as_fd().try_clone_to_owned()?)?, events)));
        let mut events = events.ok();
        loop {
            // At first too: they may have changed since they were read.
            if let Ok(interfaces) = read_interfaces(self.inner.names) {
                *lock(&self.inner.interfaces) = interfaces;
            }
            let ready = match &mut events {
                Some((fd, events)) => fd.readable().await.and_then(|mut ready| {
                    ready.clear_ready();
                    events.has_changed().map_err(io::Error::other)
                }),
                None => {
                    tokio::time::sleep(EVERY).await;
                    Ok(true)
                }
            };
            if ready.is_err() {
                events = None;
            }
        }
    }

    /// Learns from the connections of a proxy, and writes the file once a minute. `warn` gets words for the user.
    pub async fn watch(&self, status: &Status, warn: impl Fn(&str)) {
        tokio::select! {
            () = self.learn_from(status, warn) => {}
            () = self.follow_interfaces() => {}
        }
    }

    async fn learn_from(&self, status: &Status, warn: impl Fn(&str)) {
        let mut seen = Seen::new();
        let mut written = Instant::now();
        loop {
            tokio::time::sleep(EVERY).await;
            let look = status.look().await;
            let (at, mut next) = (Instant::now(), Seen::new());
            for report in status.take_ended() {
                self.learn_all(0, &report, at, &Seen::new(), &mut Seen::new());
            }
            for row in &look.connections {
                self.learn_all(row.number, &row.report, at, &seen, &mut next);
            }
            seen = next;
            if let Some(text) = self.count(status, &look) {
                warn(&text);
            }
            if written.elapsed() >= WRITE_EVERY {
                written = Instant::now();
                // A full disk is no reason to end.
                let _ = self.write();
            }
        }
    }

    /// Counts the last bytes, and writes the file.
    ///
    /// # Errors
    /// If it cannot be written; the old one stays.
    pub fn finish(&self, status: &Status) -> io::Result<()> {
        let _ = self.count(status, &status.snapshot());
        lock(&self.inner.endpoints).undo();
        self.write()
    }

    /// Writes the file.
    ///
    /// # Errors
    /// If it cannot be written; the old one stays.
    pub fn write(&self) -> io::Result<()> {
        let memory = self.memory();
        if memory == Memory::default() { Ok(()) } else { memory.write(&self.inner.file) }
    }
}

/// Gives the memory its budgets.
pub(crate) fn set_budgets(paths: Option<&Paths>, budgets: &[Budget]) -> Result<(), String> {
    match paths {
        Some(paths) => {
            paths.set_budgets(budgets);
            Ok(())
        }
        None if budgets.is_empty() => Ok(()),
        None => Err("`[[budget]]` needs --memory FILE, which keeps the bytes of the month".to_owned()),
    }
}

fn now() -> Time {
    Time(now_ms().saturating_mul(1_000_000))
}

fn read_interfaces(names: PathNames) -> io::Result<Interfaces> {
    match names {
        PathNames::Addresses => Ok(Interfaces::default()),
        PathNames::Interfaces => Links::open().and_then(|mut links| links.read()).map_err(io::Error::other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subflow(local: &str, srtt_ms: u64, received_bytes: u64) -> SubflowReport {
        SubflowReport {
            local: SocketAddr::new(local.parse().unwrap(), 4000),
            remote: "192.0.2.9:8803".parse().unwrap(),
            srtt_us: Some(srtt_ms * 1000),
            variation_us: None,
            rate_bps: None,
            sent_bytes: 1000,
            received_bytes,
            retransmitted_bytes: 10,
        }
    }

    fn report(near: SubflowReport, far: SubflowReport) -> LinkReport {
        LinkReport { mptcp: true, subflows: vec![near, far] }
    }

    const NEAR: &str = "10.0.0.1";
    const FAR: &str = "10.0.1.1";

    fn addresses() -> [IpAddr; 2] {
        [NEAR, FAR].map(|ip| ip.parse().unwrap())
    }

    #[tokio::test]
    async fn the_rate_of_a_download_counts_for_large_transfers_and_the_round_trip_for_small_ones() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("paths.json");
        let there: IpAddr = "192.0.2.77".parse().unwrap();
        let open = |bytes| Paths::open(&file, PathNames::Addresses, Bytes(bytes)).unwrap();
        let paths = open(10_000);
        assert_eq!(paths.best_address(&addresses(), there, None), None, "nothing is known");
        let (mut seen, mut next) = (Seen::new(), Seen::new());
        let start = Instant::now();
        // The near path receives 2 Mbit/s, the far one 80 Mbit/s.
        let first = report(subflow(NEAR, 100, 0), subflow(FAR, 200, 0));
        for (number, report) in [(7, first.clone()), (8, first)] {
            paths.learn_all(number, &report, start, &seen, &mut next);
        }
        std::mem::swap(&mut seen, &mut next);
        // The values of one path are a second apart.
        lock(&paths.inner.memory).remove(NEAR, there);
        lock(&paths.inner.memory).remove(FAR, there);
        let later = report(subflow(NEAR, 100, 250_000), subflow(FAR, 200, 10_000_000));
        paths.learn_all(7, &later, start + EVERY, &seen, &mut next);
        assert_eq!(paths.best_address(&addresses(), there, None), Some(addresses()[0]));
        let memory = paths.memory();
        let far = memory.path(FAR, there).unwrap();
        assert!(far.rate_bps == Some(80e6) && far.loss == 0.01, "{far:?}");
        assert_eq!(memory.path(NEAR, there).unwrap().rate_bps, Some(2e6));
        // A rule may expect another size.
        assert_eq!(paths.best_address(&addresses(), there, Some(Bytes(10_000_000))), Some(addresses()[1]));
        paths.write().unwrap();
        let large = open(10_000_000);
        assert_eq!(large.best_address(&addresses(), there, None), Some(addresses()[1]));
        // A file of another kind is not replaced by an empty memory.
        std::fs::write(&file, "{}").unwrap();
        let error = Paths::open(&file, PathNames::Addresses, Bytes(1)).unwrap_err().to_string();
        assert!(error.contains("no memory of paths"), "{error}");
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "{}");
        // A path on which no connection began is not chosen again, and one of another network is unknown.
        large.forget(FAR, there);
        assert_eq!(large.best_address(&addresses(), there, None), Some(addresses()[0]));
        assert_eq!(large.best_address(&addresses(), "198.51.100.1".parse().unwrap(), None), None);
    }

    #[tokio::test]
    async fn a_rate_that_the_application_limits_is_no_rate_of_the_path() {
        let directory = tempfile::tempdir().unwrap();
        let paths = Paths::open(&directory.path().join("p.json"), PathNames::Addresses, Bytes(1)).unwrap();
        let start = Instant::now();
        let key = |local| (1, subflow(local, 10, 0).local, subflow(local, 10, 0).remote);
        let seen = Seen::from([NEAR, FAR].map(|local| (key(local), (start, 0))));
        let slow = LinkReport { mptcp: true, subflows: vec![subflow(NEAR, 10, 100_000)] };
        paths.learn_all(1, &slow, start + EVERY, &seen, &mut Seen::new());
        let rate = |local| paths.memory().path(local, "192.0.2.9".parse().unwrap()).unwrap().rate_bps;
        assert_eq!(rate(NEAR), None);
        // A burst is none either.
        let burst = LinkReport { mptcp: true, subflows: vec![subflow(FAR, 10, 10_000_000)] };
        paths.learn_all(1, &burst, start + LEAST_SPAN / 2, &seen, &mut Seen::new());
        assert_eq!(rate(FAR), None);
    }

    #[tokio::test(start_paused = true)]
    async fn connections_that_have_ended_between_two_looks_are_learnt() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("p.json");
        let paths = Paths::open(&file, PathNames::Addresses, Bytes(1)).unwrap();
        let status = Arc::new(Status::new("client", "anabranch"));
        let ending = async {
            tokio::time::sleep(EVERY * 3 / 2).await;
            let tracked = status.begin("", "192.0.2.9:80".to_owned(), "server");
            tracked.finish(&report(subflow(NEAR, 10, 0), subflow(FAR, 20, 0)), "finished");
            drop(tracked);
            tokio::time::sleep(WRITE_EVERY + EVERY).await;
        };
        tokio::select! { () = paths.watch(&status, |text| panic!("{text}")) => {}, () = ending => {} }
        assert_eq!(paths.memory().len(), 2);
        assert!(file.exists(), "it is written once a minute");
    }
}
