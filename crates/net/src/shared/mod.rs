//! The state that the driver and the streams of a host share, under one lock that is held briefly and never
//! across an `await`.

mod events;
mod handle;
mod memory;
mod packets;
mod streams;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use anabranch_stack::config::LocalAddress;
use anabranch_stack::endpoint::Endpoint;
use anabranch_stack::event::{ConnectionId, Placement};
use anabranch_stack::segment::{Address, PathId};
use anabranch_stack::shard::Shard;
use anabranch_units::{Duration, Time};
use rustc_hash::FxHashMap;

pub(crate) use self::handle::Handle;
use self::memory::Memory;
use crate::buffer::Pool;
use crate::capture::{Tap, Watcher};
use crate::counters::HostCounters;
use crate::flow::Flow;
use crate::notice::Notice;
use anabranch_device::Clock;

/// The state shared by the driver and the streams.
#[derive(Debug)]
pub(crate) struct Shared {
    core: Mutex<Core>,
    pub clock: Clock,
}

impl Shared {
    pub(crate) fn new(core: Core, clock: Clock) -> Shared {
        Shared { core: Mutex::new(core), clock }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Core> {
        // A panic in a user's scheduler leaves no partial update that a later call could depend on.
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs `act` and wakes the driver if it sleeps.
    pub(crate) fn act<T>(&self, act: impl FnOnce(&mut Core, Time) -> T) -> T {
        let mut core = self.lock();
        // Read under the lock: the stack's time must not run backwards.
        let now = self.clock.now();
        let result = act(&mut core, now);
        let driver = core.rouse();
        drop(core);
        if let Some(driver) = driver {
            driver.wake();
        }
        result
    }
}

/// A listening port.
#[derive(Debug, Default)]
pub(crate) struct Listening {
    pub backlog: usize,
    pub waiting: VecDeque<ConnectionId>,
    pub accepter: Option<Waker>,
}

/// All state of a host.
pub(crate) struct Core {
    pub endpoint: Endpoint<Watcher>,
    pub flows: FxHashMap<ConnectionId, Box<Flow>>,
    /// The blocks of the flows' buffers.
    pool: Pool,
    /// The accounting of the blocks.
    memory: Memory,
    /// The next progress check of each flow with queued data.
    progress_due: BTreeSet<(Time, ConnectionId)>,
    /// The number of connections so far.
    opened: u64,
    /// The place of this stack among those of its host.
    shard: Shard,
    /// True if a peer uses DSS checksums, so that payload has to be summed even if TCP checksums are not
    /// verified.
    pub sums_wanted: bool,
    pub listeners: BTreeMap<u16, Listening>,
    pub addresses: Vec<LocalAddress>,
    /// The deadlines of orphans.
    deadlines: BTreeSet<(Time, ConnectionId)>,
    /// The driver, if it sleeps.
    pub driver: Option<Waker>,
    /// The bytes of the packets that the driver keeps for reuse, when it last looked.
    pub spare_packets: u64,
    /// True if the driver has new work.
    pub stirred: bool,
    /// Readers of received data, to be woken by the driver.
    pub woken: Vec<Waker>,
    /// True if segments should be sent without waiting for further packets.
    pub urgent: bool,
    /// The error of all operations, once the host has stopped.
    pub failure: Option<(io::ErrorKind, Arc<str>)>,
    /// The number of handles, streams and listeners.
    pub handles: usize,
    /// The tasks that wait for all connections to end.
    pub finishers: Vec<Waker>,
    pub notices: Option<tokio::sync::mpsc::UnboundedSender<Notice>>,
    /// The capture, if there is one.
    pub tap: Option<Tap>,
    placed: Vec<Placement>,
    pub counters: HostCounters,
    /// The addresses that are unavailable.
    pub down: Vec<IpAddr>,
}

impl std::fmt::Debug for Core {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Core").field("flows", &self.flows.len()).finish_non_exhaustive()
    }
}

impl Core {
    pub(crate) fn new(
        endpoint: Endpoint<Watcher>,
        shard: Shard,
        addresses: Vec<LocalAddress>,
        notices: Option<tokio::sync::mpsc::UnboundedSender<Notice>>,
        tap: Option<Tap>,
        buffer_memory: u64,
        send_timeout: Option<Duration>,
    ) -> Core {
        Core {
            endpoint,
            flows: FxHashMap::default(),
            pool: Pool::default(),
            spare_packets: 0,
            memory: Memory::new(buffer_memory, send_timeout),
            progress_due: BTreeSet::new(),
            opened: 0,
            shard,
            sums_wanted: false,
            listeners: BTreeMap::new(),
            addresses,
            deadlines: BTreeSet::new(),
            driver: None,
            stirred: false,
            woken: Vec::new(),
            urgent: false,
            failure: None,
            handles: 0,
            finishers: Vec::new(),
            notices,
            tap,
            placed: Vec::new(),
            counters: HostCounters::default(),
            down: Vec::new(),
        }
    }

    /// Returns the driver's waker if it sleeps and has work.
    fn rouse(&mut self) -> Option<Waker> {
        if core::mem::take(&mut self.stirred) { self.driver.take() } else { None }
    }

    /// Returns the error of a host that has stopped.
    pub(crate) fn check(&self) -> io::Result<()> {
        match &self.failure {
            Some((kind, text)) => Err(io::Error::new(*kind, text.to_string())),
            None => Ok(()),
        }
    }

    /// True if a packet for `ip` is for this host.
    pub(crate) fn is_local(&self, ip: IpAddr) -> bool {
        self.addresses.iter().any(|address| address.ip == ip)
    }

    /// Returns the path of an address of this host.
    pub(crate) fn path_of(&self, ip: IpAddr) -> Option<PathId> {
        self.addresses.iter().find(|address| address.ip == ip).map(|address| address.path)
    }

    /// Returns the time of the next timer.
    pub(crate) fn next_timeout(&self) -> Option<Time> {
        let orphan = self.deadlines.first().map(|(at, _)| *at);
        [self.endpoint.poll_timeout(), orphan, self.next_progress_check()].into_iter().flatten().min()
    }

    /// Returns all connections, in the order of their IDs.
    pub(crate) fn connections(&self) -> Vec<ConnectionId> {
        #[expect(clippy::disallowed_methods, reason = "sorted before use")]
        let mut all: Vec<_> = self.flows.keys().copied().collect();
        all.sort_unstable();
        all
    }

    fn track(&mut self, now: Time, id: ConnectionId, local: Address, remote: Address) {
        self.opened += 1;
        // Each stack of a host has its own numbers.
        let number = (self.opened - 1) * u64::from(self.shard.count()) + u64::from(self.shard.index()) + 1;
        let mut flow = Box::new(Flow::new(now, number, local, remote));
        flow.client = self.memory.join(remote.ip);
        self.flows.insert(id, flow);
        // A connection that begins at such an address may know better.
        for ip in self.down.clone().into_iter().filter(|ip| *ip != local.ip) {
            self.endpoint.set_address_up_in(now, id, ip, false);
        }
    }

    /// Marks an address of this host as available or not, for open and new connections.
    pub(crate) fn set_address_up(&mut self, now: Time, ip: IpAddr, up: bool) {
        self.down.retain(|known| *known != ip);
        if !up && self.is_local(ip) {
            self.down.push(ip);
        }
        self.endpoint.set_address_up(now, ip, up);
        self.stirred = true;
    }

    /// Adds a connection opened by this host.
    pub(crate) fn track_outgoing(&mut self, now: Time, id: ConnectionId, remote: Address) {
        let local = self.ends(id).map_or(remote, |(local, _)| local);
        self.track(now, id, local, remote);
    }

    fn ends(&self, id: ConnectionId) -> Option<(Address, Address)> {
        self.endpoint.subflow_stats(id).first().map(|subflow| (subflow.local, subflow.remote))
    }

    /// Returns the flow `id`, which is created if the stack has just accepted it, and the block pool.
    fn flow_and_pool(&mut self, now: Time, id: ConnectionId) -> Option<(&mut Flow, &mut Pool)> {
        if !self.flows.contains_key(&id) && !self.endpoint.has_ended(id) {
            let (local, remote) = self.ends(id)?;
            self.track(now, id, local, remote);
        }
        self.flows.get_mut(&id).map(|flow| (&mut **flow, &mut self.pool))
    }
}
