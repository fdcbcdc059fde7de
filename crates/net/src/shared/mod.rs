//! The state that the driver and the streams of one host share, under one lock that nobody holds
//! for long or across an `await`.

mod events;
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
use anabranch_units::{Duration, Time};
use rustc_hash::FxHashMap;

use self::memory::Memory;
pub(crate) use self::memory::Progress;
use crate::buffer::Pool;
use crate::capture::{Tap, Watcher};
use crate::flow::Flow;
use crate::notice::Notice;
use anabranch_device::Clock;

/// What driver and streams share.
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
        // A panic of a user's own scheduler leaves nothing half done that a later call could trip over.
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does `act` and wakes the driver if it sleeps.
    pub(crate) fn act<T>(&self, act: impl FnOnce(&mut Core, Time) -> T) -> T {
        let mut core = self.lock();
        // Not before: the stack's time does not run backwards.
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
    /// What the buffers of the flows are made of.
    pool: Pool,
    /// Who holds how much of it.
    memory: Memory,
    /// When flows with queued data are to have made progress.
    progress_due: BTreeSet<(Time, ConnectionId)>,
    /// How many connections there were.
    opened: u64,
    /// A peer uses DSS checksums, so payload has to be summed also where nobody checks TCP's.
    pub sums_wanted: bool,
    pub listeners: BTreeMap<u16, Listening>,
    pub addresses: Vec<LocalAddress>,
    /// When an orphan is to be aborted.
    deadlines: BTreeSet<(Time, ConnectionId)>,
    /// The driver, if it sleeps.
    pub driver: Option<Waker>,
    /// Something was done that the driver has to look at.
    pub stirred: bool,
    /// Readers of what has come, to be woken by the driver.
    pub woken: Vec<Waker>,
    /// What is to be sent should not wait for further packets to come.
    pub urgent: bool,
    /// Why nothing works any more.
    pub failure: Option<(io::ErrorKind, Arc<str>)>,
    /// How many handles, streams and listeners there are.
    pub handles: usize,
    /// Whoever waits for all connections to end.
    pub finishers: Vec<Waker>,
    pub notices: Option<tokio::sync::mpsc::UnboundedSender<Notice>>,
    /// The capture, if there is one.
    pub tap: Option<Tap>,
    placed: Vec<Placement>,
    pub counters: crate::HostCounters,
}

impl std::fmt::Debug for Core {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Core").field("flows", &self.flows.len()).finish_non_exhaustive()
    }
}

impl Core {
    pub(crate) fn new(
        endpoint: Endpoint<Watcher>,
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
            memory: Memory::new(buffer_memory, send_timeout),
            progress_due: BTreeSet::new(),
            opened: 0,
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
            counters: crate::HostCounters::default(),
        }
    }

    /// The driver, if it sleeps and there is something for it to do.
    fn rouse(&mut self) -> Option<Waker> {
        if core::mem::take(&mut self.stirred) { self.driver.take() } else { None }
    }

    /// The error of a host that has stopped.
    pub(crate) fn check(&self) -> io::Result<()> {
        match &self.failure {
            Some((kind, text)) => Err(io::Error::new(*kind, text.to_string())),
            None => Ok(()),
        }
    }

    /// Whether a packet for `ip` is for this host.
    pub(crate) fn is_local(&self, ip: IpAddr) -> bool {
        self.addresses.iter().any(|address| address.ip == ip)
    }

    /// The path of an address of this host.
    pub(crate) fn path_of(&self, ip: IpAddr) -> Option<PathId> {
        self.addresses.iter().find(|address| address.ip == ip).map(|address| address.path)
    }

    /// When the driver has to come back.
    pub(crate) fn next_timeout(&self) -> Option<Time> {
        let orphan = self.deadlines.first().map(|(at, _)| *at);
        [self.endpoint.poll_timeout(), orphan, self.next_progress_check()].into_iter().flatten().min()
    }

    /// All connections, in the order of their IDs.
    pub(crate) fn connections(&self) -> Vec<ConnectionId> {
        #[expect(clippy::disallowed_methods, reason = "sorted before use")]
        let mut all: Vec<_> = self.flows.keys().copied().collect();
        all.sort_unstable();
        all
    }

    fn track(&mut self, now: Time, id: ConnectionId, local: Address, remote: Address) {
        self.opened += 1;
        let mut flow = Box::new(Flow::new(now, self.opened, local, remote));
        flow.client = self.memory.join(remote.ip);
        self.flows.insert(id, flow);
    }

    /// A connection that this side opens.
    pub(crate) fn track_outgoing(&mut self, now: Time, id: ConnectionId, remote: Address) {
        let local = self.ends(id).map_or(remote, |(local, _)| local);
        self.track(now, id, local, remote);
    }

    fn ends(&self, id: ConnectionId) -> Option<(Address, Address)> {
        self.endpoint.subflow_stats(id).first().map(|subflow| (subflow.local, subflow.remote))
    }

    /// The flow `id`, which begins now if the stack has just accepted it, and the blocks for its buffers.
    fn flow_and_pool(&mut self, now: Time, id: ConnectionId) -> Option<(&mut Flow, &mut Pool)> {
        if !self.flows.contains_key(&id) && !self.endpoint.has_ended(id) {
            let (local, remote) = self.ends(id)?;
            self.track(now, id, local, remote);
        }
        self.flows.get_mut(&id).map(|flow| (&mut **flow, &mut self.pool))
    }
}
