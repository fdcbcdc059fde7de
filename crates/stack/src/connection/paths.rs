//! The connection's side of path management: addresses and their IDs, joins, announcements.

use core::net::IpAddr;

use anabranch_units::{Duration, Time};

use super::{Connection, Mode, Phase};
use crate::crypto;
use crate::path_manager::{HostAddress, PathCommand, PathEvent, PathManager};
use crate::segment::{AddAddress, Address, AddressIds, MptcpOption};
use crate::subflow::Subflow;

/// How often an announcement is sent before it is given up (soft state: RFC 8684 section 3.4.1).
const ANNOUNCE_ATTEMPTS: u32 = 4;
/// How many announcements may wait for their echo at once: more than two acknowledgements in a row that
/// only signal might pass for a loss (RFC 8684 section 3), and Linux drops one that comes while it is still
/// at work on the one before (its counter `AddAddrDrop`), as it sends them one at a time itself.
const ANNOUNCE_AT_ONCE: usize = 1;

/// A subflow that the endpoint shall open: it has the ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NewSubflow {
    pub local: IpAddr,
    pub local_id: u8,
    pub remote: Address,
    pub remote_id: u8,
    pub backup: bool,
    /// When it is opened, once that is decided.
    pub at: Time,
}

/// An announcement that has not been echoed.
#[derive(Clone, Copy, Debug)]
struct Announcement {
    id: u8,
    ip: IpAddr,
    attempts: u32,
    due: Time,
}

/// What a connection knows of addresses.
#[derive(Clone, Debug)]
pub(crate) struct PathsState {
    /// Our addresses: ID, address, backup. The first subflow's address has ID 0 whatever stands here.
    local: Vec<HostAddress>,
    /// The peer's addresses by ID (RFC 8684 section 3.2: both sides store the mapping).
    remote: Vec<(u8, Address)>,
    /// The local address of the first subflow.
    initial_local: Option<IpAddr>,
    announcements: Vec<Announcement>,
    pub(crate) new_subflows: Vec<NewSubflow>,
}

impl PathsState {
    pub(crate) fn new(local: Vec<HostAddress>) -> PathsState {
        PathsState {
            local,
            remote: Vec::new(),
            initial_local: None,
            announcements: Vec::new(),
            new_subflows: Vec::new(),
        }
    }

    pub(crate) fn set_initial_local(&mut self, ip: IpAddr) {
        self.initial_local = Some(ip);
    }

    /// The ID of a local address: 0 for that of the first subflow.
    pub(crate) fn local_id(&self, ip: IpAddr) -> u8 {
        if self.initial_local == Some(ip) {
            return 0;
        }
        self.local.iter().find(|own| own.ip == ip).map_or(0, |own| own.id)
    }

    /// No further subflow is wanted.
    pub(crate) fn forget(&mut self) {
        self.announcements.clear();
        self.new_subflows.clear();
    }

    pub(crate) fn learn_remote(&mut self, id: u8, address: Address) {
        if !self.remote.iter().any(|(known, _)| *known == id) {
            self.remote.push((id, address));
        }
    }

    /// Adds a subflow that the endpoint opens, with the IDs of its addresses.
    fn add_new_subflow(&mut self, local: IpAddr, remote: Address, backup: bool) {
        let known = self.remote.iter().find(|(_, known)| *known == remote);
        let remote_id = known.map_or(0, |(id, _)| *id);
        let local_id = self.local_id(local);
        self.new_subflows.push(NewSubflow { local, local_id, remote, remote_id, backup, at: Time::NEVER });
    }

    /// When the first of the new subflows is opened.
    pub(crate) fn open_at(&self) -> Time {
        self.new_subflows.iter().map(|new| new.at).min().unwrap_or(Time::NEVER)
    }

    pub(crate) fn next_timer(&self) -> Time {
        self.announcements.iter().take(ANNOUNCE_AT_ONCE).map(|a| a.due).min().unwrap_or(Time::NEVER)
    }
}

impl Connection {
    /// Joins may begin: tells the path manager once.
    #[cold]
    pub(crate) fn start_path_manager(&mut self) {
        let Some(first) = self.subflows.first() else { return };
        let event = PathEvent::Established {
            initiator: self.initiator,
            local: first.local(),
            remote: first.remote(),
            deny_join_initial: self.joins_denied,
        };
        self.path_manager.on_event(&event);
        self.run_path_manager();
    }

    /// Carries out what the path manager asks for.
    #[cold]
    pub(crate) fn run_path_manager(&mut self) {
        while let Some(command) = self.path_manager.poll() {
            if self.mode != Mode::Mptcp || self.phase == Phase::Ended {
                continue;
            }
            match command {
                PathCommand::Announce { id, ip } => {
                    self.paths.announcements.push(Announcement { id, ip, attempts: 0, due: Time::ZERO });
                }
                PathCommand::Remove { id } => {
                    let ip = self.paths.local.iter().find(|own| own.id == id).map(|own| own.ip);
                    let id = ip.map_or(id, |ip| self.paths.local_id(ip));
                    self.paths.announcements.retain(|known| known.id != id);
                    self.signal(MptcpOption::RemoveAddress(AddressIds::one(id)), ip);
                }
                PathCommand::SubflowCreate { local, remote, backup, .. } => {
                    let live = self.live_subflows().count() + self.paths.new_subflows.len();
                    if live < usize::from(self.config.max_subflows.clamp(1, 32))
                        && self.has_use_for_subflows()
                    {
                        self.paths.add_new_subflow(local, remote, backup);
                    }
                }
                PathCommand::SubflowDestroy(id) => {
                    if let Some(at) = self.subflow_index(id) {
                        self.subflows[at].request_fin();
                    }
                }
                PathCommand::SetBackup(id, backup) => {
                    if let Some(at) = self.subflow_index(id) {
                        self.subflows[at].ask_backup(backup);
                        self.subflows[at].signal(MptcpOption::Priority { backup });
                    }
                }
            }
        }
    }

    /// Whether a further subflow would have something to carry: the peer's stream goes on, or ours has data that no
    /// subflow was given yet, or what it was given has lost its subflows.
    fn has_use_for_subflows(&self) -> bool {
        let sends = !self.send.fin_sent || !self.subflows.iter().any(Subflow::is_usable);
        self.admits_join() && (sends || !self.recv.finished())
    }

    /// True if the new subflows are to be opened now: at once, or when `join_delay` has passed since they were
    /// first wanted. Those that have no use by then are dropped.
    pub(crate) fn is_time_to_open(&mut self, now: Time) -> bool {
        if self.paths.new_subflows.is_empty() || self.config.join_delay.is_zero() {
            return !self.paths.new_subflows.is_empty();
        }
        for new in &mut self.paths.new_subflows {
            if !new.at.is_armed() {
                new.at = now + self.config.join_delay;
                self.wanted.timers();
            }
        }
        if self.paths.open_at() > now {
            return false;
        }
        if !self.has_use_for_subflows() {
            self.paths.new_subflows.clear();
        }
        !self.paths.new_subflows.is_empty()
    }

    /// A subflow shall be opened, if that is possible.
    pub(crate) fn want_subflow(&mut self, local: IpAddr, remote: Address, backup: bool) -> bool {
        let live = self.live_subflows().count() + self.paths.new_subflows.len();
        let room = live < usize::from(self.config.max_subflows.clamp(1, 32));
        if !self.confirmed || !self.admits_join() || !room {
            return false;
        }
        self.paths.add_new_subflow(local, remote, backup);
        true
    }

    /// Sends an option on the best subflow that does not use `avoid`.
    fn signal(&mut self, option: MptcpOption, avoid: Option<IpAddr>) {
        if let Some(at) = self.best_for_signal(avoid) {
            self.subflows[at].signal(option);
        }
    }

    /// One that has not failed, whose row of acknowledgements that only signal is not full, with the least RTT.
    fn best_for_signal(&self, avoid: Option<IpAddr>) -> Option<usize> {
        (0..self.subflows.len())
            .filter(|&at| self.subflows[at].is_usable() && Some(self.subflows[at].local().ip) != avoid)
            .min_by_key(|&at| {
                let subflow = &self.subflows[at];
                (subflow.potentially_failed(), subflow.signals_held_up(), subflow.rtt().srtt())
            })
    }

    /// A new subflow sends at once what waits on others only because their rows are full.
    pub(crate) fn relieve_signals(&mut self, at: usize) {
        let (before, rest) = self.subflows.split_at_mut(at);
        let Some((new, after)) = rest.split_first_mut() else { return };
        for other in before.iter_mut().chain(after) {
            other.relieve_signals(new);
        }
    }

    /// Announcements that are due. Only once the peer has confirmed that it has our key.
    #[cold]
    pub(crate) fn send_announcements(&mut self, now: Time) {
        if self.mode != Mode::Mptcp || !self.confirmed || self.phase != Phase::Open {
            return;
        }
        let Some(remote_key) = self.remote_key else { return };
        let mut at = 0;
        while let Some(announcement) =
            self.paths.announcements.get(at).copied().filter(|_| at < ANNOUNCE_AT_ONCE)
        {
            if announcement.due > now {
                at += 1;
                continue;
            }
            if announcement.attempts >= ANNOUNCE_ATTEMPTS {
                self.paths.announcements.remove(at);
                continue;
            }
            let wait = self.max_rto().max(Duration::from_secs(1)) * (1 << announcement.attempts);
            self.paths.announcements[at].attempts += 1;
            self.paths.announcements[at].due = now + wait;
            let hmac =
                crypto::add_address_hmac(self.local_key, remote_key, announcement.id, announcement.ip, None);
            let option =
                AddAddress { id: announcement.id, ip: announcement.ip, port: None, hmac: Some(hmac) };
            self.signal(MptcpOption::AddAddress(option), None);
            at += 1;
        }
    }

    /// The peer announces an address, or echoes an announcement of ours.
    #[cold]
    pub(crate) fn on_add_address(&mut self, now: Time, at: usize, add: &AddAddress) {
        let Some(remote_key) = self.remote_key else { return };
        let Some(hmac) = add.hmac else {
            self.paths.announcements.retain(|known| !(known.id == add.id && known.ip == add.ip));
            return;
        };
        let expected = crypto::add_address_hmac(remote_key, self.local_key, add.id, add.ip, add.port);
        if !crypto::equal(&hmac.to_be_bytes(), &expected.to_be_bytes()) {
            return;
        }
        let echo = MptcpOption::AddAddress(AddAddress { hmac: None, ..*add });
        for subflow in &mut self.subflows {
            subflow.refresh_signals(now);
        }
        let held_up = self.subflows[at].signals_held_up();
        let by = if held_up { self.best_for_signal(None).unwrap_or(at) } else { at };
        self.subflows[by].signal(echo);
        let port = add.port.unwrap_or(self.subflows[at].remote().port);
        let address = Address::new(add.ip, port);
        if let Some((_, known)) = self.paths.remote.iter_mut().find(|(id, _)| *id == add.id) {
            // Section 3.4.1: an ID keeps its address until it is removed; only the port may change.
            if known.ip != add.ip {
                return;
            }
            *known = address;
        } else if self.paths.remote.len() < 32 {
            self.paths.remote.push((add.id, address));
        } else {
            return;
        }
        self.path_manager.on_event(&PathEvent::Announced { id: add.id, address });
        self.run_path_manager();
    }

    /// The peer withdraws addresses: each path is probed, and reset if it does not answer (section 3.4.2).
    #[cold]
    pub(crate) fn on_remove_address(&mut self, now: Time, ids: &AddressIds) {
        for &id in ids.as_slice() {
            self.paths.remote.retain(|(known, _)| *known != id);
            self.path_manager.on_event(&PathEvent::Removed { id });
            for subflow in &mut self.subflows {
                if subflow.is_synchronised() && subflow.address_ids().1 == id {
                    subflow.withdraw(now);
                }
            }
        }
    }
}
