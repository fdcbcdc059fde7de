//! Half-open connections: opened by a SYN and not yet completed by a third segment.

use std::collections::VecDeque;

use anabranch_units::{Duration, Time};

use crate::event::ConnectionId;

/// The time for which a half-open connection is protected from eviction: an initial timeout of 1 s and its
/// first backoff, so that the SYN/ACK has been retransmitted twice. Linux also keeps two retransmissions
/// under pressure.
pub(super) const PATIENCE: Duration = Duration::from_secs(3);

/// The half-open connections of a host, the oldest first, so that a flood of SYNs (RFC 4987) meets a bounded
/// table. A young one is never evicted: an honest peer's third segment may be in flight.
#[derive(Clone, Debug, Default)]
pub(super) struct HalfOpen {
    /// Time and ID, in the order of arrival; connections completed since may still be included.
    order: VecDeque<(Time, ConnectionId)>,
    /// The number of SYNs since the last search for completed connections.
    since_search: usize,
}

/// The result of a search for space in the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Space {
    /// There is free space.
    Free,
    /// There is space once this connection is evicted.
    InsteadOf(ConnectionId),
    /// All `max` connections are young.
    None,
}

impl HalfOpen {
    /// Finds space for a new connection among at most `max`. `is_half_open` returns true if the handshake of
    /// a connection is incomplete.
    pub(super) fn find_space(
        &mut self,
        now: Time,
        max: usize,
        mut is_half_open: impl FnMut(ConnectionId) -> bool,
    ) -> Space {
        self.oldest(&mut is_half_open);
        self.since_search += 1;
        // Completed ones after the oldest. Searching once per batch of SYNs makes a SYN cost a few look-ups.
        if self.order.len() >= max && self.since_search > max / 8 {
            self.since_search = 0;
            self.order.retain(|&(_, other)| is_half_open(other));
        }
        if self.order.len() < max {
            return Space::Free;
        }
        match self.order.front() {
            Some(&(since, oldest)) if now.since(since) >= PATIENCE => {
                self.order.pop_front();
                Space::InsteadOf(oldest)
            }
            _ => Space::None,
        }
    }

    /// Returns the oldest, if there is one.
    pub(super) fn oldest(
        &mut self,
        mut is_half_open: impl FnMut(ConnectionId) -> bool,
    ) -> Option<ConnectionId> {
        while let Some(&(_, oldest)) = self.order.front() {
            if is_half_open(oldest) {
                return Some(oldest);
            }
            self.order.pop_front();
        }
        None
    }

    /// Adds a connection, for which [`HalfOpen::find_space`] has found space.
    pub(super) fn push(&mut self, now: Time, id: ConnectionId) {
        self.order.push_back((now, id));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(slot: u32) -> ConnectionId {
        ConnectionId { slot, generation: 0 }
    }

    const START: Time = Time::from_secs(9);

    fn full(max: u32) -> HalfOpen {
        let mut table = HalfOpen::default();
        for slot in 0..max {
            let now = START + Duration::from_millis(u64::from(slot));
            assert_eq!(table.find_space(now, max as usize, |_| true), Space::Free);
            table.push(now, id(slot));
        }
        table
    }

    #[test]
    fn the_young_stay_and_the_oldest_is_evicted_after_its_time() {
        let mut table = full(4);
        let at = |ms| START + Duration::from_millis(ms);
        assert_eq!(table.find_space(at(2999), 4, |_| true), Space::None);
        assert_eq!(table.find_space(at(3000), 4, |_| true), Space::InsteadOf(id(0)));
        table.push(at(3000), id(4));
        assert_eq!(table.find_space(at(3000), 4, |_| true), Space::None);
        assert_eq!(table.find_space(at(3001), 4, |_| true), Space::InsteadOf(id(1)));
    }

    #[test]
    fn a_table_without_places_takes_none() {
        assert_eq!(HalfOpen::default().find_space(START, 0, |_| true), Space::None);
    }

    #[test]
    fn the_completed_take_no_place() {
        let mut table = HalfOpen::default();
        for slot in 0..1000 {
            // Every handshake completes after four others, except the very first.
            let half_open = |other: ConnectionId| other.slot == 0 || other.slot + 4 > slot;
            assert_eq!(table.find_space(START, 8, half_open), Space::Free);
            table.push(START, id(slot));
            assert!(table.order.len() <= 8);
        }
    }

    #[test]
    fn a_full_table_costs_a_syn_few_look_ups() {
        let mut table = full(1024);
        let mut looks = 0;
        for _ in 0..10_000 {
            let half_open = |_| {
                looks += 1;
                true
            };
            assert_eq!(table.find_space(START, 1024, half_open), Space::None);
        }
        assert!(looks < 10_000 * 10, "{looks}");
    }
}
