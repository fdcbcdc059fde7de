//! Connections and subflows initiated by this host: keys, tokens, ports, initial sequence numbers.

use core::net::IpAddr;
use std::sync::Arc;

use anabranch_units::Time;

use super::Endpoint;
use super::demux::Demux;
use super::table::Entry;
use super::time_wait::Place;
use crate::config::SimConfig;
use crate::connection::{Connection, Timers};
use crate::crypto;
use crate::event::{ConnectionId, SubflowId, SubflowSet};
use crate::observer::Observer;
use crate::path_manager::HostAddress;
use crate::segment::{Address, Key, PathId, Segment};
use crate::seq::{Dsn, Seq};
use crate::subflow::{FastPaths, JoinSetup, Subflow, SubflowSetup};
use crate::timestamp::TimestampTick;

/// The reason why a connection could not be opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ConnectError {
    /// The local address does not belong to this host.
    UnknownLocalAddress(IpAddr),
    /// There are too many connections.
    TooManyConnections,
    /// No local port is free for that remote address.
    NoFreePort,
}

impl core::fmt::Display for ConnectError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            ConnectError::UnknownLocalAddress(ip) => write!(f, "{ip} is not an address of this host"),
            ConnectError::TooManyConnections => f.write_str("too many connections"),
            ConnectError::NoFreePort => f.write_str("no local port is free towards that address"),
        }
    }
}

impl std::error::Error for ConnectError {}

/// The number of attempts to draw a key with a token that is not taken (RFC 8684 section 3.1), for each endpoint to which the
/// token could belong.
const KEY_ATTEMPTS: u32 = 16;

/// The number of ports among which one without a subflow in TIME-WAIT is looked for, if there is another one.
const SEARCHED: u32 = 64;

impl<O: Observer> Endpoint<O> {
    /// Opens a connection from `local` to `remote`.
    ///
    /// # Errors
    /// If `local` is not an address of this host, there are too many connections, or no port is free.
    pub fn connect(
        &mut self,
        now: Time,
        local: IpAddr,
        remote: Address,
        config: impl Into<SimConfig>,
    ) -> Result<ConnectionId, ConnectError> {
        if self.path_of(local).is_none() {
            return Err(ConnectError::UnknownLocalAddress(local));
        }
        let port = self.free_port(now, local, remote).ok_or(ConnectError::NoFreePort)?;
        self.connect_from(now, Address::new(local, port), remote, config)
    }

    /// Opens a connection from a given local port. If both ends call this, each with the other's address and
    /// port, the SYNs may cross; the connection is then plain TCP (RFC 9293 section 3.5).
    ///
    /// # Errors
    /// If `local` is not an address of this host, its port is taken for `remote`, or there are too many
    /// connections.
    pub fn connect_from(
        &mut self,
        now: Time,
        end: Address,
        remote: Address,
        config: impl Into<SimConfig>,
    ) -> Result<ConnectionId, ConnectError> {
        let local = end.ip;
        let Some(path) = self.path_of(local) else { return Err(ConnectError::UnknownLocalAddress(local)) };
        if self.is_full() {
            return Err(ConnectError::TooManyConnections);
        }
        if self.demux.find(end, remote).is_some() || self.time_waits.place(now, (end, remote)) == Place::Taken
        {
            return Err(ConnectError::NoFreePort);
        }
        let config: SimConfig = config.into();
        let simultaneous = config.mptcp && config.only.simultaneous;
        let race = config.race.filter(|_| config.mptcp && !simultaneous);
        let id = if simultaneous {
            let token = self.entropy.next_u32() | 1;
            self.create_agreed(now, token, true, config)
        } else {
            self.create(now, true, config)
        };
        let setup = SubflowSetup {
            local: end,
            remote,
            path,
            iss: self.initial_seq(now, id, end, remote),
            initiator: true,
            nonce: self.entropy.next_u32(),
            join: None,
        };
        if let Some(entry) = self.connections.get_mut(id) {
            entry.in_ready = true;
            let connection = &mut entry.connection;
            connection.paths.set_initial_local(local);
            if let Some(at) = connection.add_subflow(now, setup) {
                let subflow = connection.subflows[at].id();
                entry.note_demuxed(subflow);
                let to = (id, subflow);
                self.demux.add(end, remote, to);
            }
            if let Some(delay) = race {
                // The rest of the addresses in their order of preference. A backup is for the time when no other works.
                let rivals =
                    self.config.addresses.iter().filter(|own| {
                        own.ip != local && own.ip.is_ipv4() == remote.ip.is_ipv4() && !own.backup
                    });
                entry.connection.start_race(now, rivals.map(|own| own.ip), remote, delay);
            }
        }
        if simultaneous && let Some(connection) = self.connection_mut(id) {
            connection.start_path_manager();
        }
        self.opening.push_back(id);
        Ok(id)
    }

    /// Opens a further subflow from one of this host's addresses. Either side may do so, as the path manager
    /// does automatically (RFC 8684 section 3.2). Returns whether it will be tried: not before the peer has
    /// proved knowledge of the keys, not beyond the limit of subflows, not after both streams have ended, and
    /// not in plain TCP.
    pub fn open_subflow(&mut self, id: ConnectionId, local: IpAddr, remote: Address) -> bool {
        let Some(backup) = self.config.addresses.iter().find(|own| own.ip == local).map(|own| own.backup)
        else {
            return false;
        };
        let Some(connection) = self.connection_mut(id) else { return false };
        let wanted = connection.want_subflow(local, remote, backup);
        self.mark_ready(id);
        wanted
    }

    /// Opens the subflows requested by the path manager.
    #[cold]
    pub(super) fn open_subflows(&mut self, now: Time, id: ConnectionId) {
        let Some(connection) = self.connection_mut(id) else { return };
        let racing = connection.is_racing();
        let wanted = connection.paths.take_new_subflows(now);
        if let Some(entry) = self.connections.get_mut(id) {
            // Those that stay are due later.
            entry.timers = Timers::Moved;
        }
        for new in wanted {
            let Some(path) = self.path_of(new.local) else { continue };
            let Some(port) = self.free_port(now, new.local, new.remote) else { continue };
            let local = Address::new(new.local, port);
            let join = JoinSetup {
                remote_id: new.remote_id,
                remote_nonce: 0,
                asks_backup: new.backup,
                backup_asked: false,
            };
            let setup = SubflowSetup {
                local,
                remote: new.remote,
                path,
                iss: self.initial_seq(now, id, local, new.remote),
                initiator: true,
                nonce: self.entropy.next_u32(),
                join: (!racing).then_some(join),
            };
            let Some(entry) = self.connections.get_mut(id) else { return };
            let Some(at) = entry.connection.add_subflow(now, setup) else { continue };
            let to = (id, entry.connection.subflows[at].id());
            entry.note_demuxed(to.1);
            self.demux.add(local, new.remote, to);
        }
        self.mark_ready(id);
    }

    /// Returns the ID of the subflow for which `segment` has arrived. If it ends a race of first subflows, that is a
    /// new ID, and the addresses of the other attempts are forgotten.
    #[cold]
    pub(super) fn judge_race(
        demux: &mut Demux,
        entry: &mut Entry,
        now: Time,
        (id, subflow): (ConnectionId, SubflowId),
        segment: &Segment,
    ) -> SubflowId {
        let ends = |subflow: &Subflow| (subflow.route().local(), subflow.route().remote());
        let known = entry.connection.subflows.iter().filter(|subflow| entry.demuxed.has(subflow.id()));
        let known: Vec<(Address, Address)> = known.map(ends).collect();
        if !entry.connection.settle_race(now, subflow, segment) {
            return subflow;
        }
        for (local, remote) in known {
            demux.remove(local, remote);
        }
        let first = &entry.connection.subflows[0];
        let (local, remote) = ends(first);
        demux.add(local, remote, (id, first.id()));
        entry.demuxed = SubflowSet::one(first.id());
        first.id()
    }

    /// Returns the initial sequence number of a subflow of connection `id` (RFC 6528): a clock with a tick of
    /// 4 us plus a hash of both ends. Third parties cannot guess it, and between the same ends it increases
    /// from one subflow to the next. The subflow takes the place of one in TIME-WAIT.
    pub(super) fn initial_seq(
        &mut self,
        now: Time,
        id: ConnectionId,
        local: Address,
        remote: Address,
    ) -> Seq {
        if let Some(origin) =
            self.connection(id).and_then(|connection| connection.config.only.sequence_origin)
        {
            return origin.isn;
        }
        let entropy = &mut self.entropy;
        let secret = *self.isn_secret.get_or_insert_with(|| [(); 2].map(|()| Key(entropy.next_u64())));
        let seq = Seq(crypto::isn_hash(secret, local, remote).wrapping_add((now.as_micros() / 4) as u32));
        match self.time_waits.take((local, remote)) {
            Some(before) => before.first_after(seq),
            None => seq,
        }
    }

    pub(super) fn path_of(&self, ip: IpAddr) -> Option<PathId> {
        self.config.addresses.iter().find(|address| address.ip == ip).map(|address| address.path)
    }

    /// Returns a local port for a subflow to `remote`: one that had none lately, or if there is none among the next [`SEARCHED`]
    /// ports, one in TIME-WAIT that may be used again.
    fn free_port(&mut self, now: Time, local: IpAddr, remote: Address) -> Option<u16> {
        let mut again = None;
        for searched in 0..16_384 {
            if searched >= SEARCHED && again.is_some() {
                break;
            }
            let port = self.next_port;
            self.next_port = if port == u16::MAX { 49_152 } else { port + 1 };
            let end = Address::new(local, port);
            // A join to a port where all endpoints of the host listen may be at another one, though its four-tuple belongs to this one.
            let is_shared = !self.config.shard.is_whole() && self.listeners.contains_key(&port);
            if is_shared || !self.config.shard.has_ends(end, remote) || self.demux.find(end, remote).is_some()
            {
                continue;
            }
            match self.time_waits.place(now, (end, remote)) {
                Place::Free => return Some(port),
                Place::Again => again = again.or(Some(port)),
                Place::Taken => {}
            }
        }
        again
    }

    /// True if there is no space for another connection.
    pub(super) fn is_full(&self) -> bool {
        self.connections.live() >= self.config.max_connections
    }

    /// Creates a connection with new keys.
    pub(super) fn create(&mut self, now: Time, initiator: bool, mut config: SimConfig) -> ConnectionId {
        let id = self.connections.next_id();
        let mut key = Key(self.entropy.next_u64());
        if config.mptcp {
            let mut attempts = 0;
            while !self.demux.claim_token(crypto::token(key), id) {
                key = Key(self.entropy.next_u64());
                attempts += 1;
                if attempts > KEY_ATTEMPTS * u32::from(self.config.shard.count()) {
                    // RFC 8684 section 3.1: without a unique token the connection is plain TCP.
                    config.mptcp = false;
                    break;
                }
            }
        }
        self.begin(now, id, initiator, key, config);
        id
    }

    /// Creates a connection initiated by the peer, with a given key. Returns `None` if its token is taken.
    pub(super) fn create_with_key(&mut self, now: Time, key: Key, config: SimConfig) -> Option<ConnectionId> {
        let id = self.connections.next_id();
        if config.mptcp && !self.demux.claim_token(crypto::token(key), id) {
            return None;
        }
        self.begin(now, id, false, key, config);
        Some(id)
    }

    /// Stores a connection. The token of `key` is claimed already.
    fn begin(&mut self, now: Time, id: ConnectionId, initiator: bool, key: Key, config: SimConfig) {
        let token = if config.mptcp { crypto::token(key) } else { 0 };
        let initial = match config.only.sequence_origin {
            Some(origin) if initiator => origin.initiator,
            Some(origin) => origin.listener,
            None if config.mptcp => crypto::initial_dsn(key),
            None => Dsn(0),
        };
        self.store(now, id, initiator, key, token, Dsn(initial.0.wrapping_add(1)), config);
    }

    /// Creates a connection with keys that both sides derive from `token` (simultaneous joins; simulation
    /// only).
    pub(super) fn create_agreed(
        &mut self,
        now: Time,
        token: u32,
        initiator: bool,
        config: SimConfig,
    ) -> ConnectionId {
        let id = self.connections.next_id();
        self.demux.claim_token(token, id);
        let keys = [Key(u64::from(token) << 32 | 1), Key(u64::from(token) << 32 | 2)];
        let (local, remote) = if initiator { (keys[0], keys[1]) } else { (keys[1], keys[0]) };
        let initial = match config.only.sequence_origin {
            Some(origin) if initiator => origin.initiator,
            Some(origin) => origin.listener,
            None => crypto::initial_dsn(local),
        };
        self.store(now, id, initiator, local, token, Dsn(initial.0.wrapping_add(1)), config);
        if let Some(connection) = self.connection_mut(id) {
            connection.agree_on_keys(remote, token);
        }
        id
    }

    #[allow(clippy::too_many_arguments)]
    fn store(
        &mut self,
        now: Time,
        id: ConnectionId,
        initiator: bool,
        local_key: Key,
        local_token: u32,
        local_dsn: Dsn,
        config: SimConfig,
    ) {
        let addresses = &self.config.addresses;
        let setup = crate::connection::ConnectionSetup {
            id,
            initiator,
            mode: if config.mptcp { crate::connection::Mode::Mptcp } else { crate::connection::Mode::Plain },
            local_key,
            local_token,
            local_dsn,
            // IDs from 1 in the order of the configuration; 0 is the address of the first subflow.
            addresses: addresses
                .iter()
                .zip(1..)
                .map(|(own, id)| HostAddress { id, ip: own.ip, backup: own.backup })
                .collect(),
            tick: match config.only.microsecond_timestamps {
                true => TimestampTick::Microsecond,
                false => self.config.timestamp_tick,
            },
            // They acknowledge without a look at the stream.
            fast_paths: if config.only.withhold_acks { FastPaths::Off } else { self.fast_paths },
        };
        let config = match &self.shared {
            Some(shared) if **shared == config => Arc::clone(shared),
            _ => Arc::clone(self.shared.insert(Arc::new(config))),
        };
        self.connections.insert(Connection::new(now, setup, config));
    }
}
