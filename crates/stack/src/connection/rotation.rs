//! The order in which the subflows of a connection are polled for segments.

/// The number of consecutive segments of one subflow before the others are polled, and of one connection
/// before the others. Otherwise a driver slower than the peer's acknowledgements would never process them,
/// and would not acknowledge received data.
pub(crate) const TURN: u32 = 64;

/// The subflow that is polled first, and the length of its current turn.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rotation {
    /// Its index; the first one's if there is no such index.
    at: u32,
    /// The number of consecutive segments it has sent.
    sent: u32,
}

impl Rotation {
    /// Returns the index of the subflow to poll now, out of `count`.
    #[inline]
    pub(super) fn current(&mut self, count: usize) -> usize {
        if self.at as usize >= count {
            self.at = 0;
        }
        self.at as usize
    }

    /// Moves to the next subflow, because this one had nothing to send.
    #[inline]
    pub(super) fn skip(&mut self) {
        self.sent = 0;
        self.at += 1;
    }

    /// Counts a transmission as `segments` segments of the turn.
    #[inline]
    pub(super) fn on_sent(&mut self, segments: u32) {
        self.sent += segments;
        if self.sent >= TURN {
            self.skip();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subflow_sends_a_turn_before_the_next_is_asked() {
        let mut rotation = Rotation::default();
        for _ in 0..TURN - 1 {
            rotation.on_sent(1);
            assert_eq!(rotation.current(2), 0);
        }
        rotation.on_sent(1);
        assert_eq!(rotation.current(2), 1);
        rotation.on_sent(TURN - 1);
        rotation.skip();
        assert_eq!(rotation.current(2), 0, "the first comes after the last");
        rotation.on_sent(TURN - 1);
        assert_eq!(rotation.current(2), 0, "a turn begins anew");
    }
}
