//! Connections and subflows that a peer begins: whom a SYN reaches, and who is refused.

use anabranch_units::Time;

use super::Endpoint;
use crate::config::{Checksums, ConnectionConfig};
use crate::connection::Phase;
use crate::event::{ConnectionId, Transmit};
use crate::observer::Observer;
use crate::segment::{Capable, Flags, Join, MptcpOption, PathId, ResetReason, Segment};
use crate::seq::Seq;
use crate::subflow::SubflowBirth;

impl<O: Observer> Endpoint<O> {
    /// Accepts connections to `port` on every local address, each with `config`.
    pub fn listen(&mut self, port: u16, config: ConnectionConfig) {
        self.listeners.insert(port, config);
    }

    /// Accepts no more connections to `port`. Those that there are go on.
    pub fn stop_listening(&mut self, port: u16) {
        self.listeners.remove(&port);
    }

    fn listener(&self, port: u16) -> Option<&ConnectionConfig> {
        self.listeners.get(&port)
    }

    /// A SYN for no existing subflow. False if it is refused.
    #[cold]
    pub(super) fn accept(&mut self, now: Time, path: PathId, segment: &Segment) -> bool {
        let path = self.path_of(segment.destination.ip).unwrap_or(path);
        if let Some(join) = crate::connection::find_join(&segment.options) {
            let Join::Syn { backup, address_id, token, nonce } = join else { return false };
            let known = self.demux.by_token(token);
            let listener = self.listener(segment.destination.port);
            let id = match (known, listener) {
                (Some(id), _) => id,
                (None, Some(config)) if config.mptcp && config.simultaneous => {
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
        let Some(config) = self.listener(segment.destination.port) else { return false };
        if self.is_full() {
            self.counters.connections_refused += 1;
            return false;
        }
        let mut config = config.clone();
        // RFC 8684 section 3.1: no MP_CAPABLE in the SYN, none in the SYN/ACK.
        let capable = crate::connection::find_capable(&segment.options);
        config.mptcp &=
            capable.is_some_and(|capable| crate::connection::is_acceptable_offer(&capable, config.checksums));
        config.simultaneous = false;
        // Section 3.3.1: checksums are used if either side asks for them.
        if capable.is_some_and(|capable| capable.flags & Capable::CHECKSUM != 0) {
            config.checksums = Checksums::Required;
        }
        let id = self.create(now, false, config);
        let accepted = self.add_accepted(now, path, segment, id, false, 0).is_some();
        self.limit_half_open(id);
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
        let Some(at) = self.add_accepted(now, path, segment, id, true, nonce) else { return false };
        // RFC 8684 section 3.3.8: either side may ask for a backup, the one that answers in its SYN/ACK.
        let local = self.config.addresses.iter().find(|address| address.ip == segment.destination.ip);
        let asked = local.is_some_and(|address| address.backup);
        if let Some(connection) = self.connection_mut(id) {
            connection.subflows[at].backup_asked = asked;
            connection.subflows[at].backup_wanted = backup;
            connection.subflows[at].remote_id = address_id;
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
        join: bool,
        remote_nonce: u32,
    ) -> Option<usize> {
        let birth = SubflowBirth {
            local: segment.destination,
            remote: segment.source,
            path,
            iss: self.initial_seq(now, id, segment.destination, segment.source),
            initiator: false,
            join,
            nonce: self.entropy.next_u32(),
        };
        let connection = self.connections.get_mut(id)?;
        if connection.subflows.is_empty() {
            connection.paths.set_initial_local(segment.destination.ip);
        }
        let at = connection.add_subflow(now, birth)?;
        connection.take_syn_options(at, segment);
        connection.subflows[at].handshake.remote_nonce = remote_nonce;
        connection.subflows[at].demuxed = true;
        let to = (id, connection.subflows[at].id());
        self.demux.add(segment.destination, segment.source, to);
        self.touch(now, id);
        Some(at)
    }

    /// A SYN has made connection `id`: one that waits for its third segment may have to go.
    fn limit_half_open(&mut self, id: ConnectionId) {
        let Endpoint { half_open, connections, config, .. } = self;
        let evicted = half_open.admit(id, config.max_half_open.max(1), |other| {
            connections.get(other).is_some_and(|connection| connection.phase == Phase::Opening)
        });
        if let Some(evicted) = evicted {
            self.counters.half_open_evicted += 1;
            self.release(evicted);
        }
    }

    /// RFC 9293 section 3.10.7.1: a reset for a segment that belongs to nothing.
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
        // A flood of strays must not fill the memory.
        if self.replies.len() < 1024 {
            self.counters.strays_reset += 1;
            self.replies.push_back(Transmit {
                connection: None,
                path,
                segment: reply,
                stream_offset: 0,
                segment_size: 0,
            });
        } else {
            self.counters.strays_dropped += 1;
        }
    }
}
