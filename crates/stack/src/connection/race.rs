//! A race of first subflows: SYNs with MP_CAPABLE from several local addresses, one after another, until one is
//! answered.
//!
//! A host that knows nothing of its paths opens a connection on the default one. If that has a long round trip or does
//! not work, the whole handshake pays for it, and with it a short flow. So after a delay the next local address tries
//! as well. The first answer decides: its subflow becomes subflow 0, and the other attempts are forgotten. Their late
//! answers find no subflow and are answered with a reset, which frees the peer's half-open connection; the path
//! manager joins these paths like any other. All attempts belong to one connection with one key, and a SYN carries no
//! key (RFC 8684 section 3.1), so that nothing of the other attempts remains.
//!
//! **Source**: RFC 8305 (Happy Eyeballs version 2), section 5: an attempt that fails lets the next begin at once.
//! Departure: it races addresses of the peer, and this races local addresses to one address of the peer.

use core::net::IpAddr;

use anabranch_units::{Duration, Time};

use super::Connection;
use crate::event::SubflowId;
use crate::segment::{Address, Flags, Segment};
use crate::subflow::{Subflow, TcpState};

impl Connection {
    /// Schedules an attempt from each address of `locals`, each one `delay` after the one before.
    pub(crate) fn start_race(
        &mut self,
        now: Time,
        locals: impl Iterator<Item = IpAddr>,
        remote: Address,
        delay: Duration,
    ) {
        let mut at = now;
        for local in locals {
            at += delay;
            self.paths.add_attempt(local, remote, at);
        }
    }

    /// Ends the race if `segment`, which has arrived for the attempt `id`, is the answer to its SYN, or a SYN that
    /// crosses it. Returns true if it has ended: the attempt is then subflow 0, and the only one.
    #[cold]
    pub(crate) fn settle_race(&mut self, now: Time, id: SubflowId, segment: &Segment) -> bool {
        let at = id.index();
        if self.subflows[at].state().tcp() != TcpState::SynSent {
            return false;
        }
        let answers = !segment.flags.has(Flags::ACK) || self.subflows[at].is_ack_of_syn(segment);
        if !segment.flags.has(Flags::SYN) || segment.flags.has(Flags::RST) || !answers {
            return false;
        }
        self.paths.end_race();
        for other in (0..self.subflows.len()).filter(|other| *other != at) {
            self.forget_attempt(now, other);
        }
        self.subflows.make_first(at);
        let local = self.subflows[0].route().local().ip;
        self.paths.set_initial_local(local);
        true
    }

    /// Handles the failure of an attempt: the next one begins at once. Returns false if no attempt is left.
    #[cold]
    pub(super) fn lose_attempt(&mut self, now: Time, at: usize) -> bool {
        if !self.is_racing() || !self.has_rivals(at) {
            return false;
        }
        self.paths.hasten(now);
        self.forget_attempt(now, at);
        true
    }

    /// Begins an attempt from the address `local`, which is up again, in a race without one from there.
    pub(super) fn retry_attempt(&mut self, now: Time, local: IpAddr) {
        let tries = |subflow: &Subflow| subflow.route().local().ip == local && !subflow.state().is_closed();
        if !self.is_racing() || self.paths.is_backup(local) || self.subflows.iter().any(tries) {
            return;
        }
        if let Some(remote) = self.subflows.first().map(|first| first.route().remote()) {
            self.paths.add_attempt(local, remote, now);
        }
    }

    /// True if the connection has, or is about to open, a subflow besides this one.
    pub(super) fn has_rivals(&self, at: usize) -> bool {
        let is_rival = |other: usize| other != at && !self.subflows[other].state().is_closed();
        (0..self.subflows.len()).any(is_rival) || self.paths.opens_another()
    }

    /// Closes an attempt as if it had never been made. The peer's answer will be reset.
    fn forget_attempt(&mut self, now: Time, at: usize) {
        self.subflows[at].state_mut().set_closed();
        self.wanted.cleanup();
        let _ = self.take_from_ended(now, at);
    }
}
