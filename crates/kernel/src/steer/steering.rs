//! The steering of all connections: events, observations and results in, decisions out.

use std::collections::BTreeMap;
use std::net::IpAddr;

use anabranch_scenario::policy::{Policy, Use};
use anabranch_units::{Duration, Time};

use super::choose::{choose, name_of};
use super::decision::{Decision, Why};
use super::opening::{Identifiers, announce, close, open};
use super::state::{Around, Opening, Tracked};
use crate::diag::Connection;
use crate::interfaces::Interfaces;
use crate::memory::Memory;
use crate::pm::{Command, Event, EventKind, Subflow, Token};

/// The shortest and the longest time between two observations of a connection with data.
const SHORTEST: Duration = Duration::from_millis(10);
const LONGEST: Duration = Duration::from_millis(200);
/// The time between two observations of a connection without data.
const IDLE: Duration = Duration::from_secs(1);

/// The refusals in a row, over a second, after which a connection belongs to another path manager.
const MOST_REFUSALS: u32 = 8;

/// The state of the steering. It has no side effects: the same inputs at the same times give the same decisions.
#[derive(Clone, Debug, Default)]
pub struct Steering {
    policy: Policy,
    interfaces: Interfaces,
    identifiers: Identifiers,
    connections: BTreeMap<Token, Tracked>,
    memory: Memory,
    decisions: Vec<Decision>,
}

impl Steering {
    /// Returns a steering of no connections.
    pub fn new(policy: Policy, interfaces: Interfaces, memory: Memory) -> Steering {
        Steering { policy, interfaces, memory, ..Steering::default() }
    }

    /// Returns the decisions since the last call, in the order in which they must be carried out.
    pub fn take_decisions(&mut self) -> Vec<Decision> {
        std::mem::take(&mut self.decisions)
    }

    /// Returns the memory of paths.
    pub fn memory(&self) -> &Memory {
        &self.memory
    }

    /// Returns the number of connections.
    pub fn len(&self) -> usize {
        self.connections.len()
    }

    /// True if there are no connections.
    pub fn is_empty(&self) -> bool {
        self.connections.is_empty()
    }

    /// Returns the time of the next observation.
    pub fn next_look(&self) -> Option<Time> {
        let steered = self.connections.values().filter(|tracked| !tracked.foreign);
        steered.map(|tracked| tracked.next_look).min()
    }

    /// Replaces the policy.
    pub fn set_policy(&mut self, now: Time, policy: Policy) {
        self.policy = policy;
        self.connections.values_mut().for_each(|tracked| tracked.next_look = now);
        self.maintain_all(now);
    }

    /// Notes the interfaces of this moment: paths through those that are gone are closed, and new ones opened.
    pub fn set_interfaces(&mut self, now: Time, interfaces: Interfaces) {
        if interfaces == self.interfaces {
            return;
        }
        self.interfaces = interfaces;
        for tracked in self.connections.values_mut() {
            // An attempt through an interface that has changed may succeed now.
            tracked.opening.clear();
        }
        self.maintain_all(now);
    }

    /// Notes an event.
    pub fn on_event(&mut self, now: Time, event: &Event) {
        let token = event.token;
        match &event.kind {
            EventKind::Created { subflow, server, deny_join_id0 }
            | EventKind::Established { subflow, server, deny_join_id0 } => {
                let tracked = self.connections.entry(token).or_insert_with(|| Tracked::new(*subflow));
                tracked.client = Some(!server);
                tracked.deny_join_id0 |= *deny_join_id0;
                tracked.established |= matches!(event.kind, EventKind::Established { .. });
                tracked.subflows.entry(*subflow).or_default();
                tracked.next_look = now;
            }
            EventKind::Closed => {
                self.connections.remove(&token);
                return;
            }
            kind => {
                let Some(tracked) = self.connections.get_mut(&token) else { return };
                tracked.on_event(now, token, kind, &mut self.decisions);
            }
        }
        self.maintain(now, token);
    }

    /// Notes the state of all connections. Connections that are not in it have ended.
    pub fn observe(&mut self, now: Time, seen: BTreeMap<Token, Connection>) {
        self.connections.retain(|token, _| seen.contains_key(token));
        for (token, connection) in seen {
            if connection.info.fallback {
                self.connections.remove(&token);
                continue;
            }
            let tracked = self.connections.entry(token).or_insert_with(|| Tracked::new(connection.addresses));
            tracked.on_seen(now, &connection, &mut self.identifiers);
            self.memory.learn(now, &connection, &self.interfaces);
            tracked.view = Some(connection);
            self.maintain(now, token);
        }
    }

    /// Notes that a connection belongs to another path manager.
    pub fn on_foreign(&mut self, token: Token) {
        if let Some(tracked) = self.connections.get_mut(&token) {
            tracked.foreign = true;
        }
    }

    /// Notes that the kernel has refused a command, with its error number.
    pub fn on_refused(&mut self, now: Time, command: &Command, errno: i32) {
        match command {
            Command::SetBackup { token, subflow, .. } => {
                let Some(tracked) = self.connections.get_mut(token) else { return };
                let Some(known) = tracked.subflows.get_mut(subflow) else { return };
                // A subflow that was just opened is not found for a round trip. Subflows of another path manager
                // are never found.
                known.refusals += 1;
                known.quiet_until = now + Duration(SHORTEST.0 << known.refusals.min(6));
                tracked.foreign |= known.refusals > MOST_REFUSALS;
            }
            Command::Create { token, local, .. } => {
                let Some(tracked) = self.connections.get_mut(token) else { return };
                // Of a connection of the in-kernel path manager every attempt is refused.
                let attempts = tracked.opening.get(local).map_or(0, |opening| opening.attempts);
                tracked.foreign |= errno == libc::EINVAL && attempts > 2 && tracked.subflows.len() < 2;
            }
            _ => {}
        }
    }

    /// Notes that the kernel has carried out a command.
    pub fn on_accepted(&mut self, command: &Command) {
        if let Command::SetBackup { token, subflow, .. } = command
            && let Some(tracked) = self.connections.get_mut(token)
            && let Some(known) = tracked.subflows.get_mut(subflow)
        {
            known.refusals = 0;
        }
    }

    /// Describes the connections and their subflows for a status file: token, subflow, and interface.
    pub fn subflows(&self) -> impl Iterator<Item = (Token, Subflow, String)> + '_ {
        self.connections.iter().flat_map(|(token, tracked)| {
            tracked
                .subflows
                .keys()
                .map(|subflow| (*token, *subflow, name_of(self.interfaces.with_address(subflow.local.ip()))))
        })
    }

    fn maintain_all(&mut self, now: Time) {
        let tokens: Vec<Token> = self.connections.keys().copied().collect();
        tokens.into_iter().for_each(|token| self.maintain(now, token));
    }

    /// Closes, opens and chooses the subflows of a connection.
    fn maintain(&mut self, now: Time, token: Token) {
        let Some(tracked) = self.connections.get_mut(&token) else { return };
        let treatment = self.policy.treatment(tracked.initial.remote.ip(), tracked.server_port());
        if treatment.subflow_use == Use::Nothing {
            return;
        }
        let before = self.decisions.len();
        let around = Around { now, token, interfaces: &self.interfaces, treatment };
        close(around, tracked, &mut self.decisions);
        let expected = |interface: &str, destination: IpAddr| self.memory.rtt(interface, destination);
        open(around, tracked, &mut self.identifiers, &expected, &mut self.decisions);
        announce(around, tracked, &mut self.identifiers, &mut self.decisions);
        if let Some(view) = tracked.view.take() {
            if !tracked.foreign {
                choose(around, tracked, &view, &mut self.decisions);
            }
            let active = view.info.outstanding() > 0
                || tracked.traffic.received.fresh > 0
                || self.decisions.len() > before
                || tracked.subflows.values().any(|known| known.spare > 0);
            tracked.next_look = now + if active { pace(&view) } else { IDLE };
            tracked.view = Some(view);
            let attempts = tracked.opening.values().map(|opening| opening.next).filter(|at| *at > now);
            tracked.next_look = attempts.fold(tracked.next_look, Time::min);
        }
    }
}

/// Returns the time until the next observation of a connection with data: the shortest RTT of its subflows.
fn pace(view: &Connection) -> Duration {
    let rtts = view.subflows.iter().map(|subflow| subflow.info.rtt_us).filter(|rtt| *rtt > 0);
    let shortest = Duration::from_micros(rtts.min().unwrap_or(0).into());
    shortest.clamp(SHORTEST, LONGEST)
}

impl Tracked {
    /// Notes an event of an existing connection.
    fn on_event(&mut self, now: Time, token: Token, kind: &EventKind, decisions: &mut Vec<Decision>) {
        match kind {
            EventKind::Announced { id, address } => {
                self.announced.insert(*id, *address);
            }
            EventKind::Removed(id) => {
                self.announced.remove(id);
                let withdrawn = self.subflows.iter().filter(|(_, known)| *id != 0 && known.remote_id == *id);
                let withdrawn: Vec<Subflow> = withdrawn.map(|(subflow, _)| *subflow).collect();
                if withdrawn.len() < self.subflows.len() {
                    for subflow in withdrawn {
                        self.subflows.remove(&subflow);
                        decisions.push(Decision {
                            command: Command::Destroy { token, subflow },
                            interface: "-".to_owned(),
                            why: Why::Withdrawn,
                        });
                    }
                }
            }
            EventKind::SubflowEstablished { subflow, local_id, .. } => {
                let known = self.subflows.entry(*subflow).or_default();
                known.local_id = *local_id;
                // The state of the new subflow.
                self.next_look = now;
            }
            EventKind::SubflowClosed { subflow, .. } => {
                self.subflows.remove(subflow);
                let address = subflow.local.ip();
                let before = self.opening.get(&address).copied();
                if before.is_none_or(|before| before.next <= now) {
                    self.opening.insert(address, Opening::after(before, now));
                }
                self.next_look = now;
            }
            EventKind::SubflowPriority { .. } => self.next_look = now,
            EventKind::Created { .. } | EventKind::Established { .. } | EventKind::Closed => {}
        }
    }

    /// Notes an observation.
    pub(super) fn on_seen(&mut self, now: Time, connection: &Connection, identifiers: &mut Identifiers) {
        self.client = self.client.or(connection.is_client());
        // A connection that was found without its events.
        self.established |= connection.subflows.iter().any(|subflow| subflow.flags.is_fully_established());
        self.traffic.update(now, connection);
        self.subflows
            .retain(|addresses, _| connection.subflows.iter().any(|subflow| subflow.addresses == *addresses));
        for subflow in &connection.subflows {
            let known = self.subflows.entry(subflow.addresses).or_default();
            (known.local_id, known.remote_id) = (subflow.local_id, subflow.remote_id);
            known.loss.update(&subflow.info);
            known.received = [subflow.info.bytes_received, known.received[0]];
            known.growth.update(now, &subflow.info);
            identifiers.learn(subflow.addresses.local.ip(), subflow.local_id);
        }
    }
}
