//! Explicit congestion notification (RFC 3168) on one subflow: the negotiated state, pending echoes, and the
//! last reduction.
//!
//! **Departures from the source**
//! * A retransmitted SYN no longer requests ECN (RFC 3168 section 6.1.1.1 leaves the number of attempts
//!   open): a middlebox that drops SYNs because of it costs one round trip.
//! * A window of one segment that is marked again stays one segment, and the retransmission timer is not
//!   restarted for it (section 6.1.2).

use crate::segment::{Ecn, Flags, Segment};

/// The state of one subflow. Offsets are in its send space.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct EcnState {
    /// True if both sides support it.
    agreed: bool,
    /// True if a marked segment was received, and the peer has not yet signalled a reduction for it.
    echo: bool,
    /// True if the window was reduced and the next new data signals it.
    say_reduced: bool,
    /// The next offset at the last reduction: until it is acknowledged, further echoes are not new.
    reduced_at: u64,
}

impl EcnState {
    /// Returns the flags to add to a SYN that requests ECN, if `wanted`, or to the answer that agrees, if it
    /// was requested.
    pub(crate) fn syn_flags(&self, answering: bool, wanted: bool) -> Flags {
        match (answering, wanted) {
            (false, true) => Flags::ECE.with(Flags::CWR),
            (true, _) if self.agreed => Flags::ECE,
            _ => Flags::default(),
        }
    }

    /// Processes the peer's SYN or its answer; this side is `able`.
    pub(crate) fn negotiate(&mut self, segment: &Segment, able: bool) {
        let (echo, reduced) = (segment.flags.has(Flags::ECE), segment.flags.has(Flags::CWR));
        // RFC 3168 section 6.1.1: an answer with both flags has only copied the reserved bits.
        let offered = if segment.flags.has(Flags::ACK) { echo && !reduced } else { echo && reduced };
        *self = EcnState { agreed: able && offered, ..EcnState::default() };
    }

    /// True if both sides support congestion marks.
    #[inline]
    pub(crate) fn is_agreed(&self) -> bool {
        self.agreed
    }

    /// Processes a received segment of the subflow.
    #[inline]
    pub(super) fn on_received(&mut self, segment: &Segment) {
        if self.agreed {
            // Section 6.1.3: a segment that signals a reduction may be marked itself.
            if segment.flags.has(Flags::CWR) {
                self.echo = false;
            }
            if segment.ecn == Ecn::Ce && segment.payload_len > 0 {
                self.echo = true;
            }
        }
    }

    /// True if a segment to be sent must echo a mark.
    #[inline]
    pub(super) fn echoes(&self) -> bool {
        self.echo
    }

    /// Marks a segment of new data to be sent. Retransmissions, pure acknowledgements and probes of a closed
    /// window are not marked (sections 6.1.4 to 6.1.6).
    #[inline]
    pub(super) fn on_new_data(&mut self, segment: &mut Segment) {
        if self.agreed {
            segment.ecn = Ecn::Ect0;
            if core::mem::take(&mut self.say_reduced) {
                segment.flags = segment.flags.with(Flags::CWR);
            }
        }
    }

    /// True if the next new data signals that the window was reduced.
    #[inline]
    pub(super) fn has_to_say(&self) -> bool {
        self.say_reduced
    }

    /// True if an acknowledgement that has advanced to `una` echoes a mark.
    #[inline]
    pub(super) fn is_told(&self, segment: &Segment) -> bool {
        self.agreed && segment.flags.has(Flags::ECE)
    }

    /// True if data acknowledged up to `una` was in flight at the last reduction: one window of data is
    /// reduced once.
    #[inline]
    pub(super) fn has_reduced(&self, una: u64) -> bool {
        una < self.reduced_at
    }

    /// Records a reduction, for a mark or for a loss; `nxt` is the next offset to be sent.
    pub(super) fn on_reduced(&mut self, nxt: u64) {
        if self.agreed {
            self.say_reduced = true;
            self.reduced_at = nxt;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::segment::Address;
    use crate::seq::Seq;

    fn segment(flags: Flags) -> Segment {
        let address = Address::new([192, 0, 2, 1].into(), 80);
        Segment::new(address, address, Seq(1), flags)
    }

    const ACK: Flags = Flags::ACK;
    const BOTH: Flags = Flags::ECE.with(Flags::CWR);

    fn agreed() -> EcnState {
        let mut state = EcnState::default();
        state.negotiate(&segment(Flags::SYN.with(BOTH)), true);
        state
    }

    #[test]
    fn both_must_say_so() {
        let offer = |flags, able| {
            let mut state = EcnState::default();
            state.negotiate(&segment(flags), able);
            state.agreed
        };
        let syn = Flags::SYN;
        assert!(offer(syn.with(BOTH), true));
        assert!(!offer(syn.with(BOTH), false));
        assert!(!offer(syn, true) && !offer(syn.with(Flags::ECE), true));
        let answer = syn.with(ACK);
        assert!(offer(answer.with(Flags::ECE), true));
        assert!(!offer(answer.with(BOTH), true) && !offer(answer, true));
        assert_eq!(EcnState::default().syn_flags(false, true), BOTH);
        assert_eq!(EcnState::default().syn_flags(false, false), Flags::default());
        assert_eq!(EcnState::default().syn_flags(true, true), Flags::default());
        assert_eq!(agreed().syn_flags(true, true), Flags::ECE);
    }

    #[test]
    fn a_mark_is_echoed_until_the_reduction_is_signalled() {
        let mut state = agreed();
        let mut marked = segment(ACK);
        marked.ecn = Ecn::Ce;
        state.on_received(&marked);
        assert!(!state.echoes(), "without data it counts for nothing");
        marked.payload_len = 1400;
        state.on_received(&marked);
        assert!(state.echoes());
        state.on_received(&Segment { payload_len: 1400, ..segment(ACK) });
        assert!(state.echoes());
        state.on_received(&Segment { payload_len: 1400, ..segment(ACK.with(Flags::CWR)) });
        assert!(!state.echoes());
        // Marked again, while it signals the reduction.
        state.on_received(&Segment { flags: ACK.with(Flags::CWR), ..marked });
        assert!(state.echoes());
    }

    #[test]
    fn one_window_is_reduced_once_and_the_next_new_data_signals_it() {
        let mut state = agreed();
        assert!(!state.has_reduced(1));
        state.on_reduced(1000);
        assert!(state.has_reduced(999) && !state.has_reduced(1000));
        let mut first = segment(ACK);
        state.on_new_data(&mut first);
        let mut second = segment(ACK);
        state.on_new_data(&mut second);
        assert_eq!((first.ecn, first.flags.has(Flags::CWR)), (Ecn::Ect0, true));
        assert_eq!((second.ecn, second.flags.has(Flags::CWR)), (Ecn::Ect0, false));
    }

    #[test]
    fn nothing_happens_where_it_was_not_agreed_on() {
        let mut state = EcnState::default();
        state.on_received(&Segment { ecn: Ecn::Ce, payload_len: 9, ..segment(ACK) });
        state.on_reduced(1000);
        let mut data = segment(ACK);
        state.on_new_data(&mut data);
        assert_eq!((data.ecn, data.flags), (Ecn::NotEct, ACK));
        assert!(!state.echoes() && !state.has_reduced(5) && !state.is_told(&segment(ACK.with(Flags::ECE))));
    }
}
