//! Simultaneous open: both ends send a SYN, and the SYNs cross (RFC 9293 section 3.5).
//!
//! Each end answers the other's SYN with a SYN/ACK, and each is the initiator. The keys of RFC 8684 section
//! 3.1 have no place in such a handshake, so the connection is plain TCP, as in Linux. A join that crosses
//! with one between the same ports is refused on both sides. (This is unrelated to the agreed joins of
//! `ConnectionConfig::simultaneous`.)

use core::net::IpAddr;

use anabranch_units::Time;

use super::{Connection, Mode};
use crate::event::CloseReason;
use crate::segment::{Flags, Segment};
use crate::subflow::{Subflow, TcpState};

impl Connection {
    /// True if the segment is a SYN that has crossed with the local one, on the subflow at `at` in SYN-SENT.
    pub(super) fn is_crossing_syn(segment: &Segment) -> bool {
        segment.flags.has(Flags::SYN) && !segment.flags.has(Flags::ACK) && !segment.flags.has(Flags::RST)
    }

    /// True if a join has crossed with a SYN of the peer.
    pub(super) fn is_crossing_join(&self, subflow: &Subflow, segment: &Segment) -> bool {
        subflow.state().tcp() == TcpState::SynSent
            && subflow.handshake().is_join()
            && !self.config.only.simultaneous
            && Connection::is_crossing_syn(segment)
    }

    /// Processes the peer's SYN that has crossed with the first local one: SYN-RECEIVED, and a SYN/ACK is due
    /// (RFC 9293 section 3.10.7.3, fourth).
    #[cold]
    pub(super) fn on_crossing_syn(&mut self, now: Time, at: usize, segment: &Segment) {
        if self.config.only.simultaneous || self.subflows[at].handshake().is_join() {
            return;
        }
        if self.mode == Mode::Mptcp {
            self.speak_tcp();
        }
        self.on_peer_syn(now, at, segment);
    }

    /// True if the peer's SYN/ACK completes the handshake after its SYN has crossed with the local one.
    pub(super) fn completes_crossing(&self, subflow: &Subflow, segment: &Segment) -> bool {
        self.initiator
            && !subflow.handshake().is_join()
            && segment.flags.has(Flags::ACK)
            && subflow.is_ack_of_syn(segment)
    }

    /// Resolves two joins that cross between the same addresses: the join of the connection's initiator is
    /// kept, so that there is one subflow and not two or none. Returns false if the local one is kept.
    pub(crate) fn yields_to(&mut self, now: Time, local: IpAddr, remote_id: u8) -> bool {
        let local_id = self.paths.local_id(local);
        let crossing = self.subflows.iter().position(|subflow| {
            subflow.state().tcp() == TcpState::SynSent
                && subflow.handshake().is_join()
                && subflow.route().ids() == (local_id, remote_id)
        });
        let Some(at) = crossing.filter(|_| !self.config.only.simultaneous) else { return true };
        if !self.initiator {
            self.fail_handshake(now, at, CloseReason::Refused);
        }
        !self.initiator
    }
}
