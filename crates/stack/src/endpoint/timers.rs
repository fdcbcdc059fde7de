//! Wake-up times of connections.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use anabranch_units::Time;

use crate::event::ConnectionId;

/// A queue of wake-up times that is never updated to a later time: if the timer of a connection moves later,
/// the connection keeps its entry and is asked again when the entry expires. So the retransmission timer,
/// which moves with every acknowledgement, costs nothing until it is due.
#[derive(Clone, Debug, Default)]
pub(super) struct TimerQueue {
    heap: BinaryHeap<Reverse<(Time, ConnectionId)>>,
}

impl TimerQueue {
    pub(super) fn push(&mut self, due: Time, id: ConnectionId) {
        self.heap.push(Reverse((due, id)));
    }

    pub(super) fn next(&self) -> Option<Time> {
        self.heap.peek().map(|Reverse((due, _))| *due)
    }

    pub(super) fn pop_due(&mut self, now: Time) -> Option<(Time, ConnectionId)> {
        if self.next()? <= now { self.heap.pop().map(|Reverse(entry)| entry) } else { None }
    }
}
