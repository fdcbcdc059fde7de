//! Simultaneous open: both ends send a SYN, and the SYNs cross (RFC 9293 section 3.5).
//!
//! Each end answers the other's SYN with a SYN/ACK of its own, and each is the initiator. The keys of RFC 8684 section
//! 3.1 have no place in such a handshake, so that the connection is a plain TCP, as in Linux. A join that crosses with
//! one between the same ports is refused on both sides. (The agreed joins of `ConnectionConfig::simultaneous` are
//! another thing.)

use core::net::IpAddr;

use anabranch_units::Time;

use super::{Connection, Mode};
use crate::event::CloseReason;
use crate::segment::{Flags, Segment};
use crate::subflow::TcpState;

impl Connection {
    /// True if the segment is a SYN that has crossed with ours, on the subflow at `at` in SYN-SENT.
    pub(super) fn is_crossing_syn(segment: &Segment) -> bool {
        segment.flags.has(Flags::SYN) && !segment.flags.has(Flags::ACK) && !segment.flags.has(Flags::RST)
    }

    /// True if a join has met the peer's SYN on its way.
    pub(super) fn is_crossing_join(&self, at: usize, segment: &Segment) -> bool {
        let subflow = &self.subflows[at];
        subflow.state() == TcpState::SynSent
            && subflow.is_join()
            && !self.config.simultaneous
            && Connection::is_crossing_syn(segment)
    }

    /// Takes the peer's SYN that has crossed with our first one: SYN-RECEIVED, and a SYN/ACK is due (RFC 9293 section
    /// 3.10.7.3, fourth).
    #[cold]
    pub(super) fn on_crossing_syn(&mut self, now: Time, at: usize, segment: &Segment) {
        if self.config.simultaneous || self.subflows[at].is_join() {
            return;
        }
        if self.mode == Mode::Mptcp {
            self.speak_tcp();
        }
        self.take_syn_options(at, segment);
        self.subflows[at].cross_syn(now);
    }

    /// True if the SYN/ACK of a peer whose SYN has crossed with ours completes the handshake.
    pub(super) fn completes_crossing(&self, at: usize, segment: &Segment) -> bool {
        let subflow = &self.subflows[at];
        self.initiator
            && !subflow.is_join()
            && segment.flags.has(Flags::ACK)
            && subflow.is_ack_of_syn(segment)
    }

    /// The peer opens a subflow between addresses between which we are opening one: of the two that cross, that
    /// of the connection's initiator stands, so that there is one and not two or none. False if it is ours.
    pub(crate) fn yields_to(&mut self, now: Time, local: IpAddr, remote_id: u8) -> bool {
        let local_id = self.paths.local_id(local);
        let crossing = self.subflows.iter().position(|subflow| {
            subflow.state() == TcpState::SynSent
                && subflow.is_join()
                && subflow.address_ids() == (local_id, remote_id)
        });
        let Some(at) = crossing.filter(|_| !self.config.simultaneous) else { return true };
        if !self.initiator {
            self.fail_handshake(now, at, CloseReason::Refused);
        }
        !self.initiator
    }
}
