//! FQ-CoDel: a queue for each flow, served in turn, each with CoDel; a flow that sends little is served first.
//!
//! Source: RFC 8290 section 4. Flows are assigned to queues by a hash of their addresses and ports, with a salt from the
//! run's seed. If the limit of the link is exceeded, half of the packets (at most 64) of the queue with the most bytes
//! are dropped from its head.

use std::collections::VecDeque;

use anabranch_units::{RandomStream, Time};

use super::Waiting;
use super::codel::{Backlog, CodelState, Taken};
use crate::FqCodel;

/// The most packets dropped at once when the limit is exceeded.
const DROP_BATCH: usize = 64;

#[derive(Clone, Debug)]
struct Queue<P> {
    packets: VecDeque<Waiting<P>>,
    bytes: u64,
    state: CodelState,
    credits: i64,
    is_active: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct FqState<P> {
    pub(crate) settings: FqCodel,
    salt: u64,
    /// By the hash of a flow; the queues of higher numbers than any used so far are omitted.
    queues: Vec<Queue<P>>,
    new: VecDeque<usize>,
    old: VecDeque<usize>,
}

impl<P> FqState<P> {
    pub(crate) fn new(settings: FqCodel, seed: u64, link: &str) -> FqState<P> {
        let salt = RandomStream::new(seed, &format!("link.{link}.flows")).next_u64();
        FqState { settings, salt, queues: Vec::new(), new: VecDeque::new(), old: VecDeque::new() }
    }

    /// Returns the queue of a flow.
    fn index(&self, flow: u64) -> usize {
        // The finaliser of SplitMix64.
        let mut hash = flow ^ self.salt;
        hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        hash ^= hash >> 31;
        (hash % u64::from(self.settings.queues)) as usize
    }

    pub(crate) fn enqueue(&mut self, waiting: Waiting<P>) {
        let index = self.index(waiting.flow);
        while self.queues.len() <= index {
            self.queues.push(Queue {
                packets: VecDeque::new(),
                bytes: 0,
                state: CodelState::default(),
                credits: 0,
                is_active: false,
            });
        }
        let queue = &mut self.queues[index];
        queue.bytes += u64::from(waiting.wire_bytes);
        queue.packets.push_back(waiting);
        if !queue.is_active {
            queue.is_active = true;
            queue.credits = i64::from(self.settings.quantum);
            self.new.push_back(index);
        }
    }

    /// Drops packets of the longest queue.
    pub(crate) fn shed(&mut self, dropped: &mut Vec<Waiting<P>>) {
        let active = self.new.iter().chain(&self.old).copied();
        // The first of several.
        let Some(longest) = active.rev().max_by_key(|index| self.queues[*index].bytes) else { return };
        let queue = &mut self.queues[longest];
        let count = (queue.packets.len() / 2).clamp(1, DROP_BATCH).min(queue.packets.len());
        for waiting in queue.packets.drain(..count) {
            queue.bytes -= u64::from(waiting.wire_bytes);
            dropped.push(waiting);
        }
    }

    /// Returns the next packet to send at `now`. `bytes` is the total length of all queues.
    pub(crate) fn dequeue(
        &mut self,
        now: Time,
        mtu: u32,
        bytes: &mut u64,
        dropped: &mut Vec<Waiting<P>>,
    ) -> Option<Taken<P>> {
        loop {
            let is_new = !self.new.is_empty();
            let index = *self.new.front().or(self.old.front())?;
            let list = if is_new { &mut self.new } else { &mut self.old };
            let queue = &mut self.queues[index];
            if queue.credits <= 0 {
                queue.credits += i64::from(self.settings.quantum);
                list.pop_front();
                self.old.push_back(index);
                continue;
            }
            let before = *bytes;
            let mut backlog = Backlog { queue: &mut queue.packets, bytes, dropped };
            let taken = queue.state.dequeue(now, &self.settings.codel, mtu, &mut backlog);
            queue.bytes -= before - *bytes;
            match taken {
                Some(taken) => {
                    queue.credits -= i64::from(taken.waiting.wire_bytes);
                    return Some(taken);
                }
                None => {
                    list.pop_front();
                    // A new queue is an old one first, so that it cannot keep the old ones waiting (section 4.2).
                    if is_new {
                        self.old.push_back(index);
                    } else {
                        queue.is_active = false;
                    }
                }
            }
        }
    }

    /// Removes all packets.
    pub(crate) fn clear(&mut self, removed: &mut Vec<Waiting<P>>) {
        for index in self.new.drain(..).chain(self.old.drain(..)) {
            let queue = &mut self.queues[index];
            removed.extend(queue.packets.drain(..));
            (queue.bytes, queue.is_active) = (0, false);
        }
    }
}
