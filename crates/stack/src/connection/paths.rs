//! The connection's side of path management: addresses and their IDs, joins, announcements.

use core::net::IpAddr;

use anabranch_units::{Duration, Time};

use super::rejoin::Rejoins;
use super::{Connection, Mode, Phase, Timers};
use crate::crypto;
use crate::path_manager::{
    AnyPathManager, HostAddress, PathCommand, PathEvent, PathManager, PathManagerKind,
};
use crate::scheduler::SubflowView;
use crate::segment::{AddAddress, Address, AddressIds, MptcpOption};

/// The number of transmissions of an announcement before it is given up (soft state: RFC 8684 section 3.4.1).
const ANNOUNCE_ATTEMPTS: u32 = 4;
/// The maximum number of announcements that wait for their echo: more than two consecutive acknowledgements
/// that only signal might be taken for a loss (RFC 8684 section 3), and Linux drops one that arrives while it
/// is processing another (its counter `AddAddrDrop`), as it sends them one at a time itself.
const ANNOUNCE_AT_ONCE: usize = 1;

/// A subflow to be opened by the endpoint, which has the ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NewSubflow {
    pub local: IpAddr,
    pub remote: Address,
    pub remote_id: u8,
    pub backup: bool,
    /// The time for which it is held back.
    pub after: Duration,
    /// The time at which it is opened, once that is decided.
    pub at: Time,
}

/// When the new subflows of a connection are opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Opening {
    /// There are none.
    Nothing,
    /// After a delay, which is a timer of the connection.
    Later(Timers),
    Now,
}

/// An announcement that has not been echoed.
#[derive(Clone, Copy, Debug)]
struct Announcement {
    id: u8,
    ip: IpAddr,
    attempts: u32,
    due: Time,
}

/// The addresses of both ends, and the path manager.
#[derive(Clone, Debug)]
pub(crate) struct PathsState {
    manager: AnyPathManager,
    /// The local addresses. The first subflow's address has ID 0 in any case.
    local: Vec<HostAddress>,
    /// The peer's addresses by ID (RFC 8684 section 3.2: both sides store the mapping).
    remote: Vec<(u8, Address)>,
    /// The local address of the first subflow.
    initial_local: Option<IpAddr>,
    /// True if the peer accepts no joins at the address and port of the first subflow (flag C).
    joins_denied: bool,
    announcements: Vec<Announcement>,
    /// The subflows to be opened by the endpoint.
    new_subflows: Vec<NewSubflow>,
    /// True if `new_subflows` are attempts to be the first subflow, until one of them is answered.
    race: bool,
    /// The attempts to replace subflows that have ended.
    rejoins: Rejoins,
}

impl PathsState {
    pub(super) fn new(kind: &PathManagerKind, local: Vec<HostAddress>) -> PathsState {
        PathsState {
            manager: kind.build(&local),
            local,
            remote: Vec::new(),
            initial_local: None,
            joins_denied: false,
            announcements: Vec::new(),
            new_subflows: Vec::new(),
            race: false,
            rejoins: Rejoins::default(),
        }
    }

    /// Notifies the path manager of `event`. [`Connection::run_path_manager`] executes its commands.
    pub(super) fn notify(&mut self, event: &PathEvent) {
        self.manager.on_event(event);
    }

    /// Records flag C of the peer's MP_CAPABLE.
    pub(super) fn set_joins_denied(&mut self, denied: bool) {
        self.joins_denied = denied;
    }

    pub(crate) fn set_initial_local(&mut self, ip: IpAddr) {
        self.initial_local = Some(ip);
    }

    /// Returns the ID of a local address: 0 for the address of the first subflow.
    pub(super) fn local_id(&self, ip: IpAddr) -> u8 {
        if self.initial_local == Some(ip) {
            return 0;
        }
        self.local.iter().find(|own| own.ip == ip).map_or(0, |own| own.id)
    }

    /// Cancels all further subflows.
    pub(super) fn forget(&mut self) {
        self.announcements.clear();
        self.new_subflows.clear();
        self.rejoins.clear();
    }

    pub(super) fn rejoins_mut(&mut self) -> &mut Rejoins {
        &mut self.rejoins
    }

    /// Handles the loss of a local address.
    pub(super) fn on_local_down(&mut self, ip: IpAddr) {
        self.manager.on_event(&PathEvent::LocalDown(ip));
        self.new_subflows.retain(|new| new.local != ip);
    }

    /// Announces an address, until the peer echoes it.
    fn announce(&mut self, id: u8, ip: IpAddr) {
        self.announcements.push(Announcement { id, ip, attempts: 0, due: Time::ZERO });
    }

    /// Returns the next announcement that is due: ID and address. It is due again after `wait`, which doubles
    /// each time.
    fn next_announcement(&mut self, now: Time, wait: Duration) -> Option<(u8, IpAddr)> {
        let mut at = 0;
        while let Some(announcement) = self.announcements.get_mut(at).filter(|_| at < ANNOUNCE_AT_ONCE) {
            if announcement.due > now {
                at += 1;
            } else if announcement.attempts >= ANNOUNCE_ATTEMPTS {
                self.announcements.remove(at);
            } else {
                announcement.due = now + wait * (1 << announcement.attempts);
                announcement.attempts += 1;
                return Some((announcement.id, announcement.ip));
            }
        }
        None
    }

    /// Handles the peer's echo of an announcement.
    fn on_echo(&mut self, id: u8, ip: IpAddr) {
        self.announcements.retain(|known| !(known.id == id && known.ip == ip));
    }

    /// Withdraws the address with this ID of the configuration. Returns the ID known to the peer, and the
    /// address.
    fn withdraw(&mut self, id: u8) -> (u8, Option<IpAddr>) {
        let ip = self.local.iter().find(|own| own.id == id).map(|own| own.ip);
        let id = ip.map_or(id, |ip| self.local_id(ip));
        self.announcements.retain(|known| known.id != id);
        (id, ip)
    }

    /// Handles an address announced by the peer. Returns true if the path manager was notified.
    fn take_announcement(&mut self, id: u8, address: Address) -> bool {
        if let Some((_, known)) = self.remote.iter_mut().find(|(known, _)| *known == id) {
            // RFC 8684 section 3.4.1: an ID keeps its address until it is removed; only the port may change.
            if known.ip != address.ip {
                return false;
            }
            *known = address;
        } else if self.remote.len() < 32 {
            self.remote.push((id, address));
        } else {
            return false;
        }
        self.manager.on_event(&PathEvent::Announced { id, address });
        true
    }

    /// Handles the withdrawal of an address by the peer.
    pub(super) fn forget_remote(&mut self, id: u8) {
        self.remote.retain(|(known, _)| *known != id);
        self.manager.on_event(&PathEvent::Removed { id });
    }

    /// Sets the opening time of new subflows that have none.
    fn set_opening(&mut self, at: Time) -> Timers {
        let mut timers = Timers::Unmoved;
        for new in self.new_subflows.iter_mut().filter(|new| !new.at.is_armed()) {
            new.at = at + new.after;
            timers = Timers::Moved;
        }
        timers
    }

    /// Returns and removes the subflows to be opened by the endpoint now.
    pub(crate) fn take_new_subflows(&mut self, now: Time) -> Vec<NewSubflow> {
        let all = core::mem::take(&mut self.new_subflows);
        let (taken, later) = all.into_iter().partition(|new| new.at <= now || !new.at.is_armed());
        self.new_subflows = later;
        taken
    }

    /// Adds an attempt to be the first subflow, which begins at the time `at`.
    pub(super) fn add_attempt(&mut self, local: IpAddr, remote: Address, at: Time) {
        self.race = true;
        self.new_subflows.push(NewSubflow {
            local,
            remote,
            remote_id: 0,
            backup: false,
            after: Duration::ZERO,
            at,
        });
    }

    /// Cancels the attempts that have not begun.
    pub(super) fn end_race(&mut self) {
        if core::mem::take(&mut self.race) {
            self.new_subflows.clear();
        }
    }

    /// True if a local address is for the time when no other works.
    pub(super) fn is_backup(&self, ip: IpAddr) -> bool {
        self.local.iter().any(|own| own.ip == ip && own.backup)
    }

    /// True if a further subflow is to be opened, now or later.
    pub(super) fn opens_another(&self) -> bool {
        !self.new_subflows.is_empty()
    }

    /// Lets the next attempt begin now, and the later ones earlier by the same time.
    pub(super) fn hasten(&mut self, now: Time) {
        let earlier = self.open_at().since(now);
        for new in &mut self.new_subflows {
            new.at = new.at - earlier;
        }
    }

    pub(crate) fn learn_remote(&mut self, id: u8, address: Address) {
        if !self.remote.iter().any(|(known, _)| *known == id) {
            self.remote.push((id, address));
        }
    }

    /// Adds a subflow to be opened by the endpoint after a time.
    fn add_new_subflow(&mut self, local: IpAddr, remote: Address, backup: bool, after: Duration) {
        let known = self.remote.iter().find(|(_, known)| *known == remote);
        let remote_id = known.map_or(0, |(id, _)| *id);
        self.new_subflows.push(NewSubflow { local, remote, remote_id, backup, after, at: Time::NEVER });
    }

    /// Returns the time at which the first of the new subflows is opened.
    pub(super) fn open_at(&self) -> Time {
        self.new_subflows.iter().map(|new| new.at).min().unwrap_or(Time::NEVER)
    }

    pub(super) fn next_timer(&self) -> Time {
        let announcement = self.announcements.iter().take(ANNOUNCE_AT_ONCE).map(|a| a.due).min();
        announcement.unwrap_or(Time::NEVER).min(self.rejoins.next())
    }
}

impl Connection {
    /// Notifies the path manager, once, that joins may begin.
    #[cold]
    pub(crate) fn start_path_manager(&mut self) {
        if self.scatter.holds() {
            return;
        }
        let Some(first) = self.subflows.first() else { return };
        let event = PathEvent::Established {
            initiator: self.initiator,
            local: first.route().local(),
            remote: first.route().remote(),
            deny_join_initial: self.paths.joins_denied,
        };
        self.paths.rejoins.set_first(first.route().remote());
        self.paths.notify(&event);
        self.run_path_manager();
    }

    /// Executes the path manager's requests.
    #[cold]
    pub(super) fn run_path_manager(&mut self) {
        while let Some(command) = self.paths.manager.poll() {
            if self.mode != Mode::Mptcp || self.phase == Phase::Ended {
                continue;
            }
            match command {
                PathCommand::Announce { id, ip } => {
                    self.paths.announce(id, ip);
                }
                PathCommand::Remove { id } => {
                    let (id, ip) = self.paths.withdraw(id);
                    self.signal(MptcpOption::RemoveAddress(AddressIds::one(id)), ip);
                }
                PathCommand::SubflowCreate { local, remote, backup, after, .. } => {
                    self.paths
                        .new_subflows
                        .retain(|new| new.after.is_zero() || (new.local, new.remote) != (local, remote));
                    let live = self.live_subflows().count() + self.paths.new_subflows.len();
                    if live < usize::from(self.config.max_subflows.clamp(1, 32))
                        && self.has_use_for_subflows()
                    {
                        self.paths.add_new_subflow(local, remote, backup, after);
                    }
                }
                PathCommand::SubflowDestroy(id) => {
                    if let Some(at) = self.subflow_index(id) {
                        self.subflows[at].state_mut().request_fin();
                    }
                }
                PathCommand::SetBackup(id, backup) => {
                    if let Some(at) = self.subflow_index(id) {
                        self.subflows[at].route_mut().ask_backup(backup);
                        self.subflows[at].signals_mut().push(MptcpOption::Priority { backup });
                    }
                }
            }
        }
    }

    /// True if a further subflow could carry something: the peer's stream continues, or the local stream has
    /// unassigned data, or data of ended subflows.
    fn has_use_for_subflows(&self) -> bool {
        let sends = !self.send.fin_sent || !self.subflows.iter().any(|subflow| subflow.state().is_usable());
        self.admits_join() && (sends || !self.recv.finished())
    }

    /// True if several local addresses compete for the first subflow.
    #[inline]
    pub(crate) fn is_racing(&self) -> bool {
        self.phase == Phase::Opening && self.paths.race
    }

    /// Returns when the new subflows are to be opened: at once, or after `join_delay` since they were first
    /// requested, and the time for which each is held back. Those without use by then are dropped.
    pub(crate) fn opening(&mut self, now: Time) -> Opening {
        if self.paths.new_subflows.is_empty() {
            return Opening::Nothing;
        }
        if self.is_racing() {
            return if self.paths.open_at() <= now { Opening::Now } else { Opening::Later(Timers::Moved) };
        }
        let held = self.paths.new_subflows.iter().any(|new| !new.after.is_zero());
        if self.config.join_delay.is_zero() && !held {
            return Opening::Now;
        }
        let timers = self.paths.set_opening(now + self.config.join_delay);
        if self.paths.open_at() > now {
            return Opening::Later(timers);
        }
        if !self.has_use_for_subflows() {
            self.paths.new_subflows.clear();
            return Opening::Nothing;
        }
        Opening::Now
    }

    /// Requests a subflow; returns true if it can be opened.
    pub(crate) fn want_subflow(&mut self, local: IpAddr, remote: Address, backup: bool) -> bool {
        let live = self.live_subflows().count() + self.paths.new_subflows.len();
        let room = live < usize::from(self.config.max_subflows.clamp(1, 32));
        if !self.confirmed || !self.admits_join() || !room {
            return false;
        }
        self.paths.add_new_subflow(local, remote, backup, Duration::ZERO);
        true
    }

    /// Sends an option on the best subflow that does not use `avoid`.
    fn signal(&mut self, option: MptcpOption, avoid: Option<IpAddr>) {
        if let Some(at) = self.best_for_signal(avoid) {
            self.subflows[at].signals_mut().push(option);
        }
    }

    /// Returns the subflow with the lowest RTT that has not failed and has not reached the limit of
    /// consecutive signalling acknowledgements.
    fn best_for_signal(&self, avoid: Option<IpAddr>) -> Option<usize> {
        (0..self.subflows.len())
            .filter(|&at| {
                self.subflows[at].state().is_usable() && Some(self.subflows[at].route().local().ip) != avoid
            })
            .min_by_key(|&at| {
                let SubflowView { potentially_failed, srtt, .. } = self.subflows[at].view(None);
                (potentially_failed, self.subflows[at].signals().is_held_up(), srtt)
            })
    }

    /// Lets a new subflow send at once the signals that wait on others only because of that limit.
    pub(super) fn relieve_signals(&mut self, at: usize) {
        let (before, rest) = self.subflows.split_at_mut(at);
        let Some((new, after)) = rest.split_first_mut() else { return };
        for other in before.iter_mut().chain(after) {
            other.signals_mut().take_movable(new.signals_mut());
        }
    }

    /// Sends the announcements that are due, once the peer has confirmed that it has the local key.
    #[cold]
    pub(super) fn send_announcements(&mut self, now: Time) {
        let knows_peer = self.keys.remote().is_some();
        if self.mode != Mode::Mptcp || !self.confirmed || self.phase != Phase::Open || !knows_peer {
            return;
        }
        let wait = self.max_rto().max(Duration::from_secs(1));
        while let Some((id, ip)) = self.paths.next_announcement(now, wait) {
            let mut announced = AddAddress { id, ip, port: None, hmac: None };
            announced.hmac = self.keys.address_code(&announced);
            self.signal(MptcpOption::AddAddress(announced), None);
        }
    }

    /// Handles the announcement of a peer's address, or the echo of a local announcement.
    #[cold]
    pub(super) fn on_add_address(&mut self, now: Time, at: usize, add: &AddAddress) {
        let Some(expected) = self.keys.peer_address_code(add) else { return };
        let Some(hmac) = add.hmac else {
            self.paths.on_echo(add.id, add.ip);
            return;
        };
        if !crypto::equal(&hmac.to_be_bytes(), &expected.to_be_bytes()) {
            return;
        }
        let echo = MptcpOption::AddAddress(AddAddress { hmac: None, ..*add });
        for subflow in &mut self.subflows {
            subflow.signals_mut().on_timer(now);
        }
        let held_up = self.subflows[at].signals().is_held_up();
        let by = if held_up { self.best_for_signal(None).unwrap_or(at) } else { at };
        self.subflows[by].signals_mut().push(echo);
        let port = add.port.unwrap_or(self.subflows[at].route().remote().port);
        let address = Address::new(add.ip, port);
        if self.paths.take_announcement(add.id, address) {
            self.run_path_manager();
        }
    }
}
