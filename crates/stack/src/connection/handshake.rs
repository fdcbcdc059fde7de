//! Opening of subflows: the three-way handshake with MP_CAPABLE, and the four-way one with MP_JOIN (RFC 8684
//! sections 3.1 and 3.2).

use anabranch_units::Time;

use super::negotiate::{ThirdAck, find_capable, find_join, is_acceptable, third_ack};
use super::rejoin::LostBy;
use super::scatter::tolerance;
use super::step::{NEXT, STOP, Step};
use super::timer_table::Timer;
use super::{Connection, Mode, Phase};
use crate::crypto;
use crate::event::{CloseReason, Event, SubflowId};
use crate::path_manager::PathEvent;
use crate::scheduler::SchedulerEvent;
use crate::segment::{Capable, Flags, Join, ResetReason, Segment};
use crate::subflow::header::Edge;
use crate::subflow::{ResetCause, Subflow, SubflowSetup, TcpState, Tolerance};

impl Connection {
    /// Adds a subflow; the next poll sends its SYN or SYN/ACK. Returns `None` if there are too many.
    #[cold]
    pub(crate) fn add_subflow(&mut self, now: Time, setup: SubflowSetup) -> Option<usize> {
        let free = self.subflows.iter().position(|subflow| subflow.state().is_closed());
        let at = match free {
            Some(at) => at,
            None if self.subflows.len() < self.most_subflows(setup.initiator) => self.subflows.len(),
            None => return None,
        };
        let id = SubflowId(at as u8);
        // RFC 8684 section 3.1: the address of the first subflow has ID 0.
        let local_id = if setup.join.is_some() { self.paths.local_id(setup.local.ip) } else { 0 };
        let scattered = self.scatter.is_on() && setup.join.is_none();
        let tolerance = if scattered { tolerance(&self.config.only) } else { Tolerance::default() };
        let subflow = Subflow::new(id, now, &setup, local_id, tolerance, &self.config);
        if at == self.subflows.len() {
            self.subflows.push(subflow, &self.config.rto, self.fast_paths);
        } else {
            self.subflows.replace(at, subflow);
        }
        Some(at)
    }

    /// Returns the maximum number of subflows at this time. Of simultaneous joins any may arrive first, even
    /// one on a failing path: all may try until one is established. So may all attempts of a race.
    fn most_subflows(&self, initiator: bool) -> usize {
        let open = self.config.only.simultaneous && !initiator && self.phase == Phase::Opening;
        if open || self.is_racing() { 32 } else { usize::from(self.config.max_subflows.clamp(1, 32)) }
    }

    /// Puts a new subflow into the state SYN-RECEIVED, as if it had sent the SYN/ACK that its peer has
    /// received.
    #[cold]
    pub(crate) fn resume_syn_received(&mut self, at: usize) {
        self.show_window(at, Edge::Syn);
        // This subflow has sent it 0 times, so there is no RTT sample, as if it was sent twice.
        self.subflows[at].handshake_mut().skip();
    }

    /// True if a segment in the handshake acknowledges data never sent, or is a SYN that crosses with a join:
    /// it is answered with a reset, and changes nothing (RFC 9293 sections 3.10.7.3 and 3.10.7.4).
    pub(crate) fn refuses(&self, id: SubflowId, segment: &Segment) -> bool {
        let subflow = &self.subflows[id.index()];
        if self.is_crossing_join(subflow, segment) {
            return true;
        }
        let opening = match subflow.state().tcp() {
            TcpState::SynSent => true,
            TcpState::SynReceived => !segment.flags.has(Flags::SYN),
            _ => false,
        };
        opening
            && segment.flags.has(Flags::ACK)
            && !segment.flags.has(Flags::RST)
            && !subflow.is_ack_of_syn(segment)
    }

    /// Processes a segment for a subflow in SYN-SENT (RFC 9293 section 3.10.7.3).
    #[cold]
    pub(super) fn on_segment_in_syn_sent(&mut self, now: Time, at: usize, segment: &Segment) {
        let acks_syn = segment.flags.has(Flags::ACK) && self.subflows[at].is_ack_of_syn(segment);
        if segment.flags.has(Flags::RST) {
            if acks_syn {
                self.note_reset(at, segment);
                self.rejoin_later(now, at, LostBy::Reset);
                self.fail_handshake(now, at, CloseReason::Refused);
            }
            return;
        }
        if Connection::is_crossing_syn(segment) {
            self.on_crossing_syn(now, at, segment);
            return;
        }
        if !segment.flags.has(Flags::SYN.with(Flags::ACK)) || !acks_syn {
            return;
        }
        self.on_peer_syn(now, at, segment);
        let subflow = &self.subflows[at];
        let (join, window) = (subflow.handshake().is_join(), subflow.scaled_window(segment));
        if self.mode == Mode::Mptcp && (join || self.config.only.simultaneous) {
            self.on_join_syn_ack(now, at, segment);
            return;
        }
        self.send.open(window);
        if self.mode == Mode::Mptcp {
            // Only the form of a SYN/ACK is valid: one key.
            let capable = find_capable(&segment.options).filter(|capable| {
                is_acceptable(capable, self.config.checksums) && capable.receiver_key.is_none()
            });
            match capable.and_then(|capable| capable.sender_key.map(|key| (key, capable.flags))) {
                Some((key, flags)) => {
                    self.paths.set_joins_denied(flags & Capable::NO_JOINS_HERE != 0);
                    self.checksummed |= flags & Capable::CHECKSUM != 0;
                    self.learn_remote_key(key);
                }
                // RFC 8684 section 3.1: no MP_CAPABLE in the SYN/ACK means plain TCP.
                None => self.speak_tcp(),
            }
        }
        self.subflow_up(now, at);
        self.phase = Phase::Open;
        self.recv.on_established(now);
        self.events.push(Event::Connected);
        if self.mode == Mode::Mptcp {
            self.subflows[at].recv_mut().on_ack_sent();
            self.wanted.request_third_ack();
        } else {
            self.subflows[at].recv_mut().want_ack();
        }
    }

    #[cold]
    fn on_join_syn_ack(&mut self, now: Time, at: usize, segment: &Segment) {
        let subflow = &mut self.subflows[at];
        let Some(Join::SynAck { backup, address_id, hmac, nonce }) = find_join(&segment.options) else {
            // Section 3.2: a SYN/ACK without MP_JOIN is answered with a reset.
            subflow.state_mut().reject_syn_ack();
            return;
        };
        let (local_nonce, _) = subflow.handshake().nonces();
        let expected = crypto::leftmost_64(&self.keys.peer_join_code(local_nonce, nonce));
        if !crypto::equal(&expected.to_be_bytes(), &hmac.to_be_bytes()) {
            subflow.state_mut().reject_syn_ack();
            return;
        }
        if self.comes_too_late() {
            self.subflows[at].state_mut().reject_syn_ack();
            return;
        }
        let subflow = &mut self.subflows[at];
        self.paths.learn_remote(address_id, subflow.route().remote());
        let agreed = self.config.only.simultaneous;
        subflow.on_join_answered(address_id, backup, nonce, agreed);
        if agreed {
            if self.phase == Phase::Opening {
                self.send.open(subflow.scaled_window(segment));
                self.phase = Phase::Open;
                self.recv.on_established(now);
                self.events.push(Event::Connected);
            }
            self.confirmed = true;
            self.subflow_up(now, at);
            return;
        }
        // From the third ACK on the peer may send on it.
        self.fallback.note_joined();
        self.tell_of_join();
    }

    /// True if a join that completes now is refused: after the end of the stream Linux resets it (`mptcp_finish_join` and
    /// `__mptcp_finish_join` of 6.18). Departure: it is kept if no other subflow works.
    fn comes_too_late(&self) -> bool {
        let works = |subflow: &Subflow| subflow.state().is_usable() && !subflow.has_potentially_failed();
        self.models_buffers() && self.send.closed && self.subflows.iter().any(works)
    }

    /// Processes a segment for a subflow in SYN-RECEIVED.
    #[cold]
    pub(super) fn on_segment_in_syn_received(&mut self, now: Time, at: usize, segment: &Segment) -> Step {
        if segment.flags.has(Flags::RST) {
            if self.subflows[at].seq_offset(segment) == 1 {
                self.note_reset(at, segment);
                // RFC 9293 section 3.10.7.4, second: after an active open it is a refusal.
                let reason = if self.initiator { CloseReason::Refused } else { CloseReason::Reset };
                self.fail_handshake(now, at, reason);
            }
            return STOP;
        }
        let crossing = segment.flags.has(Flags::SYN);
        let subflow = &self.subflows[at];
        if crossing && subflow.seq_offset(segment) != 0 {
            return STOP;
        }
        if crossing && !self.completes_crossing(subflow, segment) {
            // A repeated SYN: the answer was lost.
            self.subflows[at].handshake_mut().repeat();
            return STOP;
        }
        if !segment.flags.has(Flags::ACK) || !subflow.is_ack_of_syn(segment) {
            return STOP;
        }
        let join = subflow.handshake().is_join();
        if self.mode == Mode::Mptcp && !self.config.only.simultaneous {
            if join {
                self.check_join_ack(at, segment)?;
            } else if self.is_next_in_window(subflow, segment) {
                self.take_third_ack(at, segment)?;
            } else {
                return STOP;
            }
        }
        let standing = self.live_subflows().filter(|subflow| subflow.stats().established.is_some()).count();
        let is_late = join && self.mode == Mode::Mptcp && self.comes_too_late();
        if is_late || standing >= usize::from(self.config.max_subflows.clamp(1, 32)) {
            self.subflows[at].state_mut().request_reset(ResetCause::Because(ResetReason::Prohibited));
            return STOP;
        }
        let subflow = &mut self.subflows[at];
        let window = subflow.scaled_window(segment);
        subflow.complete_handshake(now, self.tick, segment);
        if join && !self.config.only.simultaneous {
            // RFC 8684 section 3.2: the third ACK is acknowledged at once.
            subflow.recv_mut().want_ack();
        }
        self.subflow_up(now, at);
        if join {
            self.tell_of_join();
        }
        if self.phase == Phase::Opening {
            self.send.open(window);
            self.phase = Phase::Open;
            self.recv.on_established(now);
            self.events.push(if self.initiator { Event::Connected } else { Event::Accepted });
        }
        if self.config.only.simultaneous {
            self.confirmed = true;
        }
        if crossing { STOP } else { NEXT }
    }

    /// Processes the third segment of the first handshake.
    fn take_third_ack(&mut self, at: usize, segment: &Segment) -> Step {
        match third_ack(segment, self.keys.local(), self.config.checksums) {
            ThirdAck::Keys { key, flags } => {
                self.paths.set_joins_denied(flags & Capable::NO_JOINS_HERE != 0);
                self.checksummed |= flags & Capable::CHECKSUM != 0;
                self.learn_remote_key(key);
                NEXT
            }
            ThirdAck::Tcp { peer_unaware } => {
                self.speak_tcp();
                if peer_unaware {
                    // An acknowledgement without options shows the initiator that this side now uses TCP. One
                    // that has sent only a DATA_FIN would receive no other.
                    self.subflows[at].recv_mut().want_ack();
                }
                NEXT
            }
            ThirdAck::Foreign => {
                self.subflows[at].state_mut().request_reset(ResetCause::Because(ResetReason::MptcpError));
                STOP
            }
        }
    }

    /// True if a segment for a subflow in SYN-RECEIVED begins inside its window (RFC 9293 section 3.10.7.4, first).
    fn is_next_in_window(&self, subflow: &Subflow, segment: &Segment) -> bool {
        let offset = subflow.seq_offset(segment);
        offset >= 1 && offset <= 1 + self.recv.edge() as i64
    }

    fn check_join_ack(&mut self, at: usize, segment: &Segment) -> Step {
        let subflow = &mut self.subflows[at];
        let Some(Join::Ack { hmac }) = find_join(&segment.options) else {
            // Section 3.2 requires a reset for an acknowledgement without MP_JOIN. A segment with a mapping
            // may have overtaken the third ACK, and is left to be retransmitted.
            if segment.options.dss.is_none() {
                subflow.state_mut().request_reset(ResetCause::Because(ResetReason::MptcpError));
            }
            return STOP;
        };
        if self.keys.remote().is_none() {
            return STOP;
        }
        let (local_nonce, remote_nonce) = subflow.handshake().nonces();
        let expected = self.keys.peer_join_code(local_nonce, remote_nonce);
        if !crypto::equal(&crypto::leftmost_160(&expected), &hmac) {
            subflow.state_mut().request_reset(ResetCause::Because(ResetReason::MptcpError));
            return STOP;
        }
        NEXT
    }

    /// Handles the fourth ACK of a join.
    #[cold]
    pub(super) fn on_fourth_ack(&mut self, now: Time, at: usize, segment: &Segment) {
        self.subflows[at].sample_handshake(now, self.tick, segment);
        self.subflow_up(now, at);
    }

    #[cold]
    fn subflow_up(&mut self, now: Time, at: usize) {
        let subflow = &mut self.subflows[at];
        if subflow.handshake().is_join() {
            self.fallback.note_joined();
        }
        subflow.establish(now, &self.config, &mut self.congestion);
        let (id, local, remote) = (subflow.id(), subflow.route().local(), subflow.route().remote());
        // Another subflow may have given up a part of its window (LISA).
        for other in 0..self.subflows.len() {
            self.refresh_window(other);
        }
        self.events.push(Event::SubflowUp(id));
        self.notify_scheduler(now, &SchedulerEvent::SubflowUp(id));
        self.on_scatter_join(at);
        self.paths.notify(&PathEvent::SubflowEstablished { id, local, remote });
        self.wanted.schedule();
        self.timers.disarm(Timer::Orphan);
        self.answer_fins();
        self.relieve_signals(at);
        self.watch_silence(now);
        self.probe_replaced(now, at);
        // Data of a subflow that failed while there was no other can now be reinjected.
        for other in 0..self.subflows.len() {
            if other != at && self.subflows[other].view(None).potentially_failed {
                self.reinject_from_failed(other);
            }
        }
        self.run_path_manager();
    }
}
