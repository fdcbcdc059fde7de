//! Connections that a SYN has opened and no third segment has completed.

use std::collections::VecDeque;

use crate::event::ConnectionId;

/// The half-open connections of a host, the oldest first, so that a flood of SYNs (RFC 4987) finds a
/// bounded table: the oldest makes room for the newest, because an honest handshake is over in a round
/// trip and the peers of a flood never answer.
#[derive(Clone, Debug, Default)]
pub(super) struct HalfOpen {
    /// In the order in which they came; those that were completed since may still be in it.
    order: VecDeque<ConnectionId>,
}

impl HalfOpen {
    /// Takes in a new one. Returns what has to go so that there are at most `max`. `is_half_open` says of
    /// which the handshake is not over.
    pub(super) fn admit(
        &mut self,
        id: ConnectionId,
        max: usize,
        mut is_half_open: impl FnMut(ConnectionId) -> bool,
    ) -> Option<ConnectionId> {
        while self.order.front().is_some_and(|&oldest| !is_half_open(oldest)) {
            self.order.pop_front();
        }
        // What completed behind the oldest is found here at last: each is looked at once for each
        // time that the table fills.
        if self.order.len() >= max {
            self.order.retain(|&other| is_half_open(other));
        }
        self.order.push_back(id);
        if self.order.len() > max { self.order.pop_front() } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(slot: u32) -> ConnectionId {
        ConnectionId { slot, generation: 0 }
    }

    #[test]
    fn the_oldest_makes_room() {
        let mut table = HalfOpen::default();
        for slot in 0..4 {
            assert_eq!(table.admit(id(slot), 4, |_| true), None);
        }
        assert_eq!(table.admit(id(4), 4, |_| true), Some(id(0)));
        assert_eq!(table.admit(id(5), 4, |_| true), Some(id(1)));
    }

    #[test]
    fn the_completed_take_no_room() {
        let mut table = HalfOpen::default();
        for slot in 0..1000 {
            // Every second handshake completes, but for the very first.
            let half_open = |other: ConnectionId| other.slot == 0 || other.slot + 4 > slot;
            assert_eq!(table.admit(id(slot), 8, half_open), None);
            assert!(table.order.len() <= 8);
        }
    }
}
