//! The order in which the subflows of a connection are asked for segments.

/// How many segments one subflow sends in a row before the others are asked, and one connection before the others.
/// A driver that is slower than the peer's acknowledgements would otherwise never process them, and not acknowledge
/// what the peer sends.
pub(crate) const TURN: u32 = 64;

/// The subflow that is asked first, and the length of its present turn.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rotation {
    /// Its place; the first one's if there is no such place.
    at: usize,
    /// How many segments it has sent in a row.
    sent: u32,
}

impl Rotation {
    /// The place of the subflow that is asked now, out of `count`.
    #[inline]
    pub(super) fn current(&mut self, count: usize) -> usize {
        if self.at >= count {
            self.at = 0;
        }
        self.at
    }

    /// It had nothing to send: the next one is asked.
    #[inline]
    pub(super) fn skip(&mut self) {
        self.sent = 0;
        self.at += 1;
    }

    /// It has sent as much as counts for `segments`.
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
