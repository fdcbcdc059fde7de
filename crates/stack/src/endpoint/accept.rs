//! Connections and subflows initiated by a peer: the listener of a SYN, and refusals.

use anabranch_units::Time;

use super::half_open::{PATIENCE, Space};
use super::table::Table;
use super::{Endpoint, cookie};
use crate::config::{Checksums, SimConfig};
use crate::connection::Phase;
use crate::crypto;
use crate::event::{ConnectionId, Placement, Transmit};
use crate::observer::Observer;
use crate::segment::{Capable, Flags, Join, MptcpOption, PathId, ResetReason, Segment};
use crate::seq::Seq;
use crate::subflow::{JoinSetup, SubflowSetup};

impl<O: Observer> Endpoint<O> {
    /// Accepts connections to `port` on every local address, each with `config`.
    pub fn listen(&mut self, port: u16, config: impl Into<SimConfig>) {
        self.listeners.insert(port, config.into());
    }

    /// Stops accepting connections to `port`. Existing ones continue.
    pub fn stop_listening(&mut self, port: u16) {
        self.listeners.remove(&port);
    }

    fn listener(&self, port: u16) -> Option<&SimConfig> {
        self.listeners.get(&port)
    }

    /// Handles a SYN that matches no existing subflow. Returns false if it is refused.
    #[cold]
    pub(super) fn accept(&mut self, now: Time, path: PathId, segment: &Segment) -> bool {
        let path = self.path_of(segment.destination.ip).unwrap_or(path);
        if let Some(join) = crate::connection::find_join(&segment.options) {
            let Join::Syn { backup, address_id, token, nonce } = join else { return false };
            let known = self.demux.by_token(token);
            let listener = self.listener(segment.destination.port);
            let id = match (known, listener) {
                (Some(id), _) => id,
                (None, Some(config)) if config.mptcp && config.only.simultaneous => {
                    if self.is_full() {
                        self.counters.connections_refused += 1;
                        return false;
                    }
                    let config = config.clone();
                    self.create_agreed(now, token, false, config)
                }
                _ => {
                    self.counters.joins_refused += 1;
                    return false;
                }
            };
            return self.accept_join(now, path, segment, id, (backup, address_id, nonce));
        }
        if self.listener(segment.destination.port).is_none() {
            return false;
        }
        // A half-open connection is evicted only when a connection is established.
        let is_full = self.is_full();
        if is_full && self.oldest_half_open().is_none() {
            self.counters.connections_refused += 1;
            return false;
        }
        let Some(config) = self.listener(segment.destination.port) else { return false };
        let config = agreed_config(config, segment);
        if is_full || !self.make_half_open_space(now) {
            self.answer_with_cookie(now, path, segment, &config);
            return true;
        }
        let id = self.create(now, false, config);
        let iss = self.initial_seq(now, id, segment.destination, segment.source);
        let setup = AcceptedSetup { iss, join: None };
        let accepted = self.add_accepted(now, path, segment, id, setup).is_some();
        self.half_open.push(now, id);
        accepted
    }

    fn accept_join(
        &mut self,
        now: Time,
        path: PathId,
        segment: &Segment,
        id: ConnectionId,
        (backup, address_id, nonce): (bool, u8, u32),
    ) -> bool {
        let local = segment.destination.ip;
        let admits = self.connection_mut(id).is_some_and(|connection| {
            connection.admits_join() && connection.yields_to(now, local, address_id)
        });
        if !admits {
            self.counters.joins_refused += 1;
            return false;
        }
        let iss = self.initial_seq(now, id, segment.destination, segment.source);
        // RFC 8684 section 3.3.8: either side may request a backup, the responder in its SYN/ACK.
        let local = self.config.addresses.iter().find(|address| address.ip == segment.destination.ip);
        let asks_backup = local.is_some_and(|address| address.backup);
        let join =
            JoinSetup { remote_id: address_id, remote_nonce: nonce, asks_backup, backup_asked: backup };
        if self.add_accepted(now, path, segment, id, AcceptedSetup { iss, join: Some(join) }).is_none() {
            return false;
        }
        if let Some(connection) = self.connection_mut(id) {
            connection.paths.learn_remote(address_id, segment.source);
        }
        true
    }

    fn add_accepted(
        &mut self,
        now: Time,
        path: PathId,
        segment: &Segment,
        id: ConnectionId,
        AcceptedSetup { iss, join }: AcceptedSetup,
    ) -> Option<usize> {
        let setup = SubflowSetup {
            local: segment.destination,
            remote: segment.source,
            path,
            iss,
            initiator: false,
            nonce: self.entropy.next_u32(),
            join,
        };
        let entry = self.connections.get_mut(id)?;
        let connection = &mut entry.connection;
        if connection.subflows.is_empty() {
            connection.paths.set_initial_local(segment.destination.ip);
        }
        let at = connection.add_subflow(now, setup)?;
        connection.on_peer_syn(now, at, segment);
        let subflow = connection.subflows[at].id();
        entry.note_demuxed(subflow);
        let to = (id, subflow);
        self.demux.add(segment.destination, segment.source, to);
        self.mark_ready(id);
        Some(at)
    }

    fn oldest_half_open(&mut self) -> Option<ConnectionId> {
        let Endpoint { half_open, connections, .. } = self;
        half_open.oldest(|id| is_half_open(connections, id))
    }

    /// Returns true if there is space for another half-open connection, evicting one that has waited too long
    /// if necessary.
    fn make_half_open_space(&mut self, now: Time) -> bool {
        let Endpoint { half_open, connections, config, .. } = self;
        let space = half_open.find_space(now, config.max_half_open, |id| is_half_open(connections, id));
        if let Space::InsteadOf(evicted) = space {
            self.evict(evicted);
        }
        space != Space::None
    }

    fn evict(&mut self, half_open: ConnectionId) {
        self.counters.half_open_evicted += 1;
        self.release(half_open);
    }

    /// Answers a SYN without storing any of it. `config` is the configuration the connection would have.
    fn answer_with_cookie(&mut self, now: Time, path: PathId, syn: &Segment, config: &SimConfig) {
        // The third segment belongs to no subflow in TIME-WAIT.
        self.time_waits.take((syn.destination, syn.source));
        let cookie = self.cookies.make(now, &mut self.entropy, syn);
        // RFC 8684 section 3.1: without a unique token the connection is plain TCP.
        let mptcp = config.mptcp && self.demux.is_free(crypto::token(cookie.key));
        let tick = self.config.timestamp_tick;
        if self.reply(path, cookie::syn_ack(cookie, mptcp, now, tick, syn, config)) {
            self.counters.cookies_sent += 1;
        }
    }

    /// Handles a segment of no connection that may return a cookie. Returns false if it is to be refused.
    #[cold]
    pub(super) fn take_cookie(
        &mut self,
        now: Time,
        path: PathId,
        third: &Segment,
        placed: &mut Vec<Placement>,
    ) -> bool {
        let Some(config) = self.listeners.get(&third.destination.port) else { return false };
        let handshake = third.flags.has(Flags::ACK) && !third.flags.has(Flags::SYN);
        if !handshake || crate::connection::find_join(&third.options).is_some() {
            return false;
        }
        let Some((cookie, syn)) = self.cookies.check(now, third) else {
            self.counters.cookies_rejected += 1;
            return self.may_follow_a_lost_one(now, third);
        };
        let config = agreed_config(config, &syn);
        if self.is_full() {
            match self.oldest_half_open() {
                Some(oldest) => self.evict(oldest),
                None => {
                    self.counters.connections_refused += 1;
                    return false;
                }
            }
        }
        let Some(id) = self.create_with_key(now, cookie.key, config) else {
            self.counters.cookies_rejected += 1;
            return false;
        };
        let path = self.path_of(third.destination.ip).unwrap_or(path);
        let setup = AcceptedSetup { iss: cookie.isn, join: None };
        let Some(at) = self.add_accepted(now, path, &syn, id, setup) else {
            self.release(id);
            return false;
        };
        if let Some(connection) = self.connection_mut(id) {
            connection.resume_syn_received(at);
        }
        // The segment now belongs to a connection in SYN-RECEIVED, and is processed like any other third
        // segment.
        self.handle_segment(now, path, third, placed);
        let Some(connection) = self.connection(id) else { return true };
        let opened = connection.phase != Phase::Opening;
        // If the keys are missing, the connection is dropped: the peer repeats them. A wrong key is reset.
        let undecided = !opened && !connection.subflows[at].state().is_resetting();
        if opened {
            self.counters.cookies_accepted += 1;
            self.cookies.spend(cookie);
        } else {
            self.counters.cookies_rejected += 1;
        }
        if undecided {
            self.release(id);
        }
        true
    }

    /// True if a segment without a valid cookie may follow a lost third ACK: it has payload, and echoes a
    /// recent timestamp. RFC 9293 section 3.10.7.2 would reset it, and with it a connection that the next
    /// retransmission opens.
    fn may_follow_a_lost_one(&self, now: Time, segment: &Segment) -> bool {
        let tick = self.config.timestamp_tick;
        let age = |echo| tick.span(tick.value(now).wrapping_sub(echo));
        segment.payload_len > 0
            && segment.options.timestamps.is_some_and(|timestamps| age(timestamps.echo) < PATIENCE)
    }

    /// Answers a segment that matches no connection with a reset (RFC 9293 section 3.10.7.1).
    #[cold]
    pub(super) fn refuse(&mut self, path: PathId, segment: &Segment) {
        let path = self.path_of(segment.destination.ip).unwrap_or(path);
        let mut reply = Segment::new(segment.destination, segment.source, Seq(0), Flags::RST);
        if segment.flags.has(Flags::ACK) {
            reply.seq = segment.ack;
        } else {
            reply.flags = Flags::RST.with(Flags::ACK);
            reply.ack = segment.seq.add(segment.seq_len());
        }
        if let Some(Join::Syn { token, .. }) = crate::connection::find_join(&segment.options) {
            // RFC 8684 section 3.2: an unknown token is an error; a known one is refused by policy.
            let (transient, reason) = match self.demux.by_token(token) {
                None => (false, ResetReason::MptcpError),
                Some(_) => (true, ResetReason::Prohibited),
            };
            reply.options.push(MptcpOption::Reset { transient, reason });
        }
        if self.reply(path, reply) {
            self.counters.strays_reset += 1;
        }
    }

    /// Queues a segment of no connection. Returns false if too many are queued.
    pub(super) fn reply(&mut self, path: PathId, segment: Segment) -> bool {
        // A flood of stray segments must not exhaust memory.
        if self.replies.len() >= 1024 {
            self.counters.strays_dropped += 1;
            return false;
        }
        self.replies.push_back(Transmit {
            connection: None,
            path,
            segment,
            stream_offset: 0,
            segment_size: 0,
        });
        true
    }
}

fn is_half_open(connections: &Table, id: ConnectionId) -> bool {
    connections.get(id).is_some_and(|entry| entry.connection.phase == Phase::Opening)
}

/// The parameters, besides its SYN, of a subflow initiated by the peer.
#[derive(Clone, Copy)]
struct AcceptedSetup {
    iss: Seq,
    join: Option<JoinSetup>,
}

/// Returns the configuration negotiated with `syn`.
fn agreed_config(config: &SimConfig, syn: &Segment) -> SimConfig {
    let mut config = config.clone();
    // RFC 8684 section 3.1: no MP_CAPABLE in the SYN, none in the SYN/ACK.
    let capable = crate::connection::find_capable(&syn.options);
    config.mptcp &=
        capable.is_some_and(|capable| crate::connection::is_acceptable_offer(&capable, config.checksums));
    config.only.simultaneous = false;
    // Section 3.3.1: checksums are used if either side requests them.
    if capable.is_some_and(|capable| capable.flags & Capable::CHECKSUM != 0) {
        config.checksums = Checksums::Required;
    }
    config
}
