//! The window that the peer holds for a subflow, and what an acknowledgement may say beside it.
//!
//! The right edge of the data level is the data acknowledgement plus the window of the same segment (RFC 8684 section
//! 3.3.4). Linux (6.18) adds the data acknowledgement to the window that it *holds* for the subflow, and takes a
//! smaller one only from a segment that acknowledges more on the subflow. Where the data level has moved by way of
//! another subflow and nobody reads, an acknowledgement that repeats its number shows a smaller window beside a newer
//! data acknowledgement, and Linux sends beyond the edge by the difference. What arrives there is dropped, though
//! acknowledged on the subflow, and comes again only as the data level's timer runs out, piece by piece.
//!
//! So such an acknowledgement lags: it repeats the window that is held, with a data acknowledgement that is older by
//! the difference. The edge is the same, and whoever reads the segment by itself reads it right.

use crate::seq::Seq;

/// What Linux would hold, or more.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WindowHeld {
    ack: Seq,
    bytes: u32,
}

impl WindowHeld {
    /// Nothing was shown yet.
    pub const NONE: WindowHeld = WindowHeld { ack: Seq(0), bytes: 0 };

    /// A segment leaves that acknowledges `ack` and has room for `window` bytes behind all that has arrived.
    /// Returns by how many bytes its data acknowledgement has to lag, and its window to be larger.
    #[inline]
    pub fn show(&mut self, ack: Seq, window: u64) -> u64 {
        if ack != self.ack || window >= u64::from(self.bytes) {
            *self = WindowHeld { ack, bytes: window as u32 };
            return 0;
        }
        u64::from(self.bytes) - window
    }

    /// A segment leaves that acknowledges `ack` without a data acknowledgement. Before the next one Linux may lend the
    /// subflow what the connection has been told is free (`SndWndShared`): `window` is that or what the segment shows,
    /// whichever is more.
    pub fn show_alone(&mut self, ack: Seq, window: u64) {
        self.ack = ack;
        self.raise(window);
    }

    /// Another subflow has shown `window` bytes, which Linux may lend to this one.
    pub fn raise(&mut self, window: u64) {
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
        assert_eq!(held.show(Seq(3000), 450), 250, "lent again before it hears that less is free");
    }

    /// One step of a receiver with two subflows.
    #[derive(Clone, Copy, Debug)]
    enum Step {
        /// So many bytes arrive in order at both levels, on the first or the second subflow, which may acknowledge.
        Arrive(usize, u64, bool),
        /// The application reads.
        Read(u64),
        /// An acknowledgement leaves on the first or second subflow.
        Acknowledge(usize),
        /// The peer sends what its windows admit: Linux lends the room of the connection to that subflow.
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
        /// A peer that reads as Linux does never gets another edge than the one that was said.
        #[test]
        fn linux_never_reads_an_edge_that_was_not_said(
            steps in prop::collection::vec(step(), 1..200),
        ) {
            const BUFFER: u64 = 20_000;
            let (mut nxt, mut read, mut edge) = (0_u64, 0_u64, BUFFER);
            let (mut acks, mut held, mut last) = ([0_u32; 2], [WindowHeld::NONE; 2], 0_u64);
            // What the peer knows.
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
