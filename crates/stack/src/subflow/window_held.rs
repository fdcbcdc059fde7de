//! The window that the peer stores for a subflow, and the data acknowledgements that may be sent with it.
//!
//! The right edge of the data level is the data acknowledgement plus the window of the same segment (RFC 8684
//! section 3.3.4). Linux (6.18) adds the data acknowledgement to the window that it *holds* for the subflow,
//! and accepts a smaller one only from a segment that acknowledges more on the subflow. If the data level has
//! advanced on another subflow and the application does not read, an acknowledgement that repeats its number
//! carries a smaller window with a newer data acknowledgement, and Linux sends beyond the edge by the
//! difference. That data is dropped on arrival, though acknowledged on the subflow, and is retransmitted only
//! when the data level's timer expires, piece by piece.
//!
//! So such an acknowledgement lags: it repeats the held window, with a data acknowledgement that is older by
//! the difference. The edge is the same, and a peer that interprets only this segment also gets it right.

use crate::seq::Seq;

/// An upper bound on the window that Linux would hold.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WindowHeld {
    ack: Seq,
    bytes: u32,
}

impl WindowHeld {
    /// The state before any window was advertised.
    pub(super) const NONE: WindowHeld = WindowHeld { ack: Seq(0), bytes: 0 };

    /// Records a segment that acknowledges `ack` and has space for `window` bytes after all received data.
    /// Returns the number of bytes by which its data acknowledgement has to lag, and its window to be larger.
    #[inline]
    pub(super) fn show(&mut self, ack: Seq, window: u64) -> u64 {
        if ack != self.ack || window >= u64::from(self.bytes) {
            *self = WindowHeld { ack, bytes: window as u32 };
            return 0;
        }
        u64::from(self.bytes) - window
    }

    /// Records a segment that acknowledges `ack` without a data acknowledgement. Before the next one Linux
    /// may let the subflow use the window advertised for the connection (`SndWndShared`): `window` is the
    /// greater of that and the segment's own.
    pub(super) fn show_alone(&mut self, ack: Seq, window: u64) {
        self.ack = ack;
        self.raise(window);
    }

    /// Records that another subflow has advertised `window` bytes, which Linux may use on this one.
    pub(super) fn raise(&mut self, window: u64) {
        self.bytes = self.bytes.max(window as u32);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_repeated_acknowledgement_repeats_the_window() {
        let mut held = WindowHeld::NONE;
        assert_eq!(held.show(Seq(1000), 5000), 0);
        assert_eq!(held.show(Seq(1000), 3000), 2000, "the peer holds 5000 still");
        assert_eq!(held.show(Seq(1000), 6000), 0, "a larger one is taken");
        assert_eq!(held.show(Seq(1000), 5999), 1);
        assert_eq!(held.show(Seq(2000), 100), 0, "and any with a new acknowledgement");
        held.raise(700);
        assert_eq!(held.show(Seq(2000), 600), 100);
        held.raise(50);
        assert_eq!(held.show(Seq(2000), 600), 100);
        held.show_alone(Seq(3000), 500);
        assert_eq!(held.show(Seq(3000), 450), 250, "used again before the smaller window arrives");
    }

    /// A step of a receiver with two subflows.
    #[derive(Clone, Copy, Debug)]
    enum Step {
        /// Bytes arrive in order at both levels, on the first or the second subflow, which may acknowledge.
        Arrive(usize, u64, bool),
        /// The application reads.
        Read(u64),
        /// An acknowledgement is sent on the first or second subflow.
        Acknowledge(usize),
        /// The peer sends as much as its windows admit: Linux uses the connection's window on that subflow.
        Lend(usize),
    }

    fn step() -> impl Strategy<Value = Step> {
        let at = 0..2_usize;
        prop_oneof![
            (at.clone(), 1..5000_u64, any::<bool>()).prop_map(|(at, len, told)| Step::Arrive(at, len, told)),
            (1..8000_u64).prop_map(Step::Read),
            at.clone().prop_map(Step::Acknowledge),
            at.prop_map(Step::Lend),
        ]
    }

    proptest! {
        /// A peer with Linux's interpretation never derives another edge than the one advertised.
        #[test]
        fn linux_never_derives_an_edge_that_was_not_advertised(
            steps in prop::collection::vec(step(), 1..200),
        ) {
            const BUFFER: u64 = 20_000;
            let (mut nxt, mut read, mut edge) = (0_u64, 0_u64, BUFFER);
            let (mut acks, mut held, mut last) = ([0_u32; 2], [WindowHeld::NONE; 2], 0_u64);
            // The peer's knowledge.
            let (mut heard, mut snd_wnd, mut una, mut wnd_end) = ([u32::MAX; 2], [0_u64; 2], 0_u64, 0_u64);
            for step in steps {
                let told = match step {
                    Step::Arrive(at, len, told) => {
                        let len = len.min(edge - nxt);
                        nxt += len;
                        acks[at] += len as u32;
                        told.then_some(at)
                    }
                    Step::Read(len) => {
                        read = nxt.min(read + len);
                        None
                    }
                    Step::Acknowledge(at) => Some(at),
                    Step::Lend(at) => {
                        snd_wnd[at] = snd_wnd[at].max(wnd_end - una);
                        None
                    }
                };
                let Some(at) = told else { continue };
                edge = edge.max(read + BUFFER);
                let room = edge - nxt;
                if room > last {
                    held.iter_mut().for_each(|held| held.raise(room));
                }
                last = room;
                let behind = held[at].show(Seq(acks[at]), room);
                let (ack, data_ack, window) = (acks[at], nxt - behind, room + behind);
                prop_assert_eq!(data_ack + window, edge);
                if heard[at] != ack || window > snd_wnd[at] {
                    snd_wnd[at] = window;
                    heard[at] = ack;
                }
                wnd_end = wnd_end.max(data_ack + snd_wnd[at]);
                una = una.max(data_ack);
                prop_assert!(wnd_end <= edge, "{} beyond {}", wnd_end, edge);
            }
        }
    }
}
