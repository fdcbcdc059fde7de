//! Accounts the memory of a host's connections, and limits the share of each.
//!
//! Limits are dynamic thresholds, as in switches with queues that share a memory (A. Choudhury, E. Hahne,
//! "Dynamic queue length thresholds for shared-memory packet switches", IEEE/ACM Transactions on Networking
//! 6(2), 1998): a client may hold as much as is free, and each of its connections as much as remains of that.
//! A client with many connections gets half of the memory, two such clients a third each, and some is always
//! free for the next one. Two blocks are granted to each connection while there are any: one of its send
//! buffer and one that it holds elsewhere. An eighth of the memory is a reserve for new connections of a
//! client that has reached its threshold; while the reserve is in use, connections without progress are
//! aborted early.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::task::{Context, Poll};

use anabranch_stack::event::ConnectionId;
use anabranch_units::{Duration, Time};
use rustc_hash::FxHashMap;

use super::Core;
use crate::buffer::BLOCK;
use crate::flow::{Flow, Progress};

const BLOCK_BYTES: u64 = BLOCK as u64;
/// The number of eighths in use from which on memory is short.
const SHORT: u64 = 5;
/// The number of eighths up to which a client that holds more than is free gets two blocks for each of its
/// connections. The difference to `SHORT` serves its new connections until those without progress are
/// aborted.
const FLOORS: u64 = 6;
/// The number of waiting writers with two blocks or more that are checked for each freed block.
const CHECKS: usize = 4;
/// The number of waiting writers checked in a round of the driver.
const MOST_CHECKS: usize = 64;
/// The number of checks of a connection within a send timeout.
const TICKS: u8 = 12;
/// Fewer acknowledged bytes than this within a send timeout are no progress, unless they are all there is.
const LEAST_PROGRESS: u64 = 4 << 10;

/// Returns the client of an address, the unit of accounting: an IPv4 address, or an IPv6 network of 64 bits,
/// which is what one subscriber has.
fn client_of(ip: IpAddr) -> IpAddr {
    match ip.to_canonical() {
        IpAddr::V6(six) => IpAddr::from((u128::from(six) >> 64 << 64).to_be_bytes()),
        four => four,
    }
}

/// One client, with all its connections.
#[derive(Debug)]
struct Client {
    ip: IpAddr,
    connections: u32,
    bytes: u64,
}

/// The memory accounting of a host.
#[derive(Debug)]
pub(crate) struct Memory {
    limit: u64,
    send_timeout: Option<Duration>,
    /// Bytes held for connections outside of their buffers.
    charged: u64,
    clients: Vec<Client>,
    /// Free places in `clients`.
    vacant: Vec<u32>,
    by_ip: FxHashMap<IpAddr, u32>,
    /// Writers that wait for memory: those that held less than two blocks, which are woken first, and the
    /// others.
    waiting: [Waiting; 2],
}

/// A queue of writers that wait for memory.
#[derive(Debug, Default)]
struct Waiting {
    queue: VecDeque<ConnectionId>,
    /// The number of writers to be checked.
    unchecked: usize,
}

impl Waiting {
    /// Marks up to `more` further writers to be checked, after memory was freed.
    fn check(&mut self, more: usize) {
        self.unchecked = self.unchecked.saturating_add(more).min(self.queue.len());
    }

    /// Returns the next writer to check.
    fn next(&mut self) -> Option<ConnectionId> {
        self.unchecked = self.unchecked.checked_sub(1)?;
        self.queue.pop_front()
    }
}

impl Memory {
    pub(super) fn new(limit: u64, send_timeout: Option<Duration>) -> Memory {
        Memory {
            limit,
            send_timeout,
            charged: 0,
            clients: Vec::new(),
            vacant: Vec::new(),
            by_ip: FxHashMap::default(),
            waiting: Default::default(),
        }
    }

    /// Adds a connection with `ip`; returns the place of its client.
    pub(super) fn join(&mut self, ip: IpAddr) -> u32 {
        let ip = client_of(ip);
        let at = *self.by_ip.entry(ip).or_insert_with(|| {
            let client = Client { ip, connections: 0, bytes: 0 };
            match self.vacant.pop() {
                Some(at) => {
                    self.clients[at as usize] = client;
                    at
                }
                None => {
                    self.clients.push(client);
                    (self.clients.len() - 1) as u32
                }
            }
        });
        self.clients[at as usize].connections += 1;
        at
    }

    /// Removes a flow after its buffers have been released.
    pub(super) fn leave(&mut self, flow: &mut Flow) {
        self.charged -= core::mem::take(&mut flow.charged);
        self.settle(flow);
        let client = &mut self.clients[flow.client as usize];
        client.connections -= 1;
        if client.connections == 0 {
            self.by_ip.remove(&client.ip);
            self.vacant.push(flow.client);
        }
    }

    /// Updates the accounting of a flow after a change.
    pub(super) fn settle(&mut self, flow: &mut Flow) {
        let holds = flow.holds();
        if holds == flow.counted {
            return;
        }
        let client = &mut self.clients[flow.client as usize];
        client.bytes = client.bytes + holds - flow.counted;
        if holds < flow.counted {
            let blocks = ((flow.counted - holds) / BLOCK_BYTES).max(1) as usize;
            // All of these, wherever in the queue they are: the next block may be freed much later.
            self.waiting[0].check(usize::MAX);
            self.waiting[1].check(CHECKS * blocks);
        }
        flow.counted = holds;
    }

    /// Returns the number of additional bytes that a flow may hold by the thresholds, if the buffers of all
    /// flows have `pooled`.
    fn spare(&self, flow: &Flow, pooled: u64) -> u64 {
        let client = self.clients[flow.client as usize].bytes;
        // An allocated byte reduces the free memory, and increases the shares of its client and of the flow.
        let shared = self.free(pooled).saturating_sub(client).saturating_sub(flow.holds()) / 3;
        // A peer that has acknowledged nothing yet gets little, unless nearly all memory is free.
        let earned = if self.used(pooled) < self.limit / 16 { u64::MAX } else { flow.earned() };
        shared.min(earned.saturating_sub(flow.holds()))
    }

    fn used(&self, pooled: u64) -> u64 {
        pooled + self.charged
    }

    fn free(&self, pooled: u64) -> u64 {
        self.limit.saturating_sub(self.used(pooled))
    }

    /// True if a block may be granted beyond the thresholds, until `eighths` of the memory are taken. A
    /// client that holds more than is free gets one only until `FLOORS` are.
    fn has_block(&self, flow: &Flow, pooled: u64, eighths: u64) -> bool {
        let greedy = self.clients[flow.client as usize].bytes > self.free(pooled);
        self.used(pooled) + BLOCK_BYTES <= self.limit / 8 * if greedy { FLOORS } else { eighths }
    }

    /// Returns the number of bytes that may be added to the send buffer of a flow.
    pub(super) fn space(&self, flow: &Flow, pooled: u64) -> u64 {
        let least = flow.send.is_empty() && self.has_block(flow, pooled, 8);
        let whole = (self.spare(flow, pooled) / BLOCK_BYTES).max(u64::from(least));
        flow.send.slack() + whole * BLOCK_BYTES
    }

    /// Returns the number of bytes that may be charged to a flow, up to `most`. The last eighth of the memory
    /// is for send buffers, without which no charge would end.
    fn chargeable(&self, flow: &Flow, pooled: u64, most: u64) -> u64 {
        if self.used(pooled) + BLOCK_BYTES > self.limit / 8 * 7 {
            return 0;
        }
        let few = flow.charged == 0 && flow.holds() <= BLOCK_BYTES;
        let least = if few && self.has_block(flow, pooled, 7) { BLOCK_BYTES } else { 0 };
        (self.spare(flow, pooled) / BLOCK_BYTES * BLOCK_BYTES).max(least).min(most)
    }

    /// True if there are writers to check.
    fn has_unchecked(&self) -> bool {
        self.waiting.iter().any(|waiting| waiting.unchecked > 0)
    }

    /// Returns the next writer to check, and removes it from its queue.
    fn next_waiting(&mut self) -> Option<(usize, ConnectionId)> {
        self.waiting.iter_mut().enumerate().find_map(|(at, waiting)| Some((at, waiting.next()?)))
    }

    /// Adds the writer of `flow` to the queue that matches its present holdings, unless it is queued there
    /// already. It may be in the other queue too, from a time when it held more.
    fn enqueue(&mut self, id: ConnectionId, flow: &mut Flow) {
        let at = usize::from(flow.holds() >= 2 * BLOCK_BYTES);
        if !core::mem::replace(&mut flow.memory_awaited[at], true) {
            self.waiting[at].queue.push_back(id);
        }
    }

    /// True if connections without progress are to be aborted early, as the reserve for new ones is in use.
    fn is_short(&self, pooled: u64) -> bool {
        self.used(pooled) + BLOCK_BYTES > self.limit / 8 * SHORT
    }
}

impl Core {
    /// Returns the bytes held for all connections.
    pub(crate) fn memory_used(&self) -> u64 {
        self.pool.used() + self.memory.charged
    }

    /// Returns the number of subflows in TIME-WAIT of connections that have ended.
    pub(crate) fn time_waits(&self) -> usize {
        self.endpoint.time_waits()
    }

    /// Returns the number of bytes that are kept for reuse.
    pub(crate) fn memory_spare(&self) -> u64 {
        self.pool.spare() + self.spare_packets
    }

    /// Frees the blocks that were not used since the last call.
    pub(crate) fn trim(&mut self) {
        self.pool.trim();
    }

    /// Returns the space in the send buffer of `id` that the memory permits; registers its writer if there is
    /// none.
    pub(crate) fn memory_space(&mut self, id: ConnectionId, cx: &Context<'_>) -> u64 {
        let (freed, needed) = (self.endpoint.freed(id), self.endpoint.still_carried(id));
        let Some(flow) = self.flows.get_mut(&id) else { return 0 };
        flow.send.advance_to(&mut self.pool, freed, needed);
        // An application that fixes the size of its send buffer gets all of it from the start.
        let follows = self.endpoint.send_buffer_follows(id);
        flow.acknowledged = if follows { freed } else { u64::MAX / 4 };
        self.memory.settle(flow);
        let space = self.memory.space(flow, self.pool.used());
        if space == 0 {
            self.await_memory(id, cx);
        }
        space
    }

    /// Charges up to `most` bytes to `id`.
    pub(crate) fn poll_charge(
        &mut self,
        id: ConnectionId,
        cx: &Context<'_>,
        most: u64,
    ) -> Poll<std::io::Result<u64>> {
        self.check()?;
        let freed = self.endpoint.freed(id);
        let Some(flow) = self.flows.get_mut(&id).filter(|flow| flow.ended.is_none()) else {
            return Poll::Ready(Err(std::io::ErrorKind::NotConnected.into()));
        };
        flow.acknowledged = flow.acknowledged.max(freed);
        let bytes = self.memory.chargeable(flow, self.pool.used(), most);
        if bytes == 0 {
            self.await_memory(id, cx);
            return Poll::Pending;
        }
        flow.charged += bytes;
        self.memory.charged += bytes;
        self.memory.settle(flow);
        Poll::Ready(Ok(bytes))
    }

    /// Releases `bytes` that were charged to `id`.
    pub(crate) fn discharge(&mut self, id: ConnectionId, bytes: u64) {
        if let Some(flow) = self.flows.get_mut(&id) {
            flow.charged -= bytes;
            self.memory.charged -= bytes;
            self.memory.settle(flow);
            self.stirred |= self.memory.has_unchecked();
        }
    }

    /// Registers the writer of `id`, which waits for memory: its own, when a block of its send buffer has
    /// been acknowledged, or memory of other flows.
    fn await_memory(&mut self, id: ConnectionId, cx: &Context<'_>) {
        let Some(flow) = self.flows.get_mut(&id) else { return };
        flow.writer = Some(cx.waker().clone());
        if let Some(enough) = flow.send.until_block_is_free() {
            self.endpoint.await_room(id, enough);
        }
        self.counters.memory_waits += u64::from(flow.memory_awaited == [false; 2]);
        self.memory.enqueue(id, flow);
    }

    /// Wakes some of the writers for which there is memory now. True if there are others to check.
    pub(crate) fn wake_for_memory(&mut self, woken: &mut Vec<std::task::Waker>) -> bool {
        for _ in 0..MOST_CHECKS {
            let Some((at, id)) = self.memory.next_waiting() else { break };
            let Some(flow) = self.flows.get_mut(&id) else { continue };
            flow.memory_awaited[at] = false;
            let pooled = self.pool.used();
            let granted =
                self.memory.space(flow, pooled) > 0 || self.memory.chargeable(flow, pooled, BLOCK_BYTES) > 0;
            if granted || flow.writer.is_none() {
                woken.extend(flow.writer.take());
            } else {
                self.memory.enqueue(id, flow);
            }
        }
        self.memory.has_unchecked()
    }

    /// Starts the progress check of `id`, which has queued data that the peer has to acknowledge.
    pub(crate) fn expect_progress(&mut self, now: Time, id: ConnectionId) {
        let Some(timeout) = self.memory.send_timeout else { return };
        let Some(flow) = self.flows.get_mut(&id).filter(|flow| flow.progress.is_none()) else { return };
        let due = now + timeout / u64::from(TICKS);
        let acked = self.endpoint.stats(id).map_or(0, |stats| stats.data_acked);
        flow.progress = Some(Progress { due, acked, idle: 0 });
        self.progress_due.insert((due, id));
    }

    /// Returns the time of the next progress check.
    pub(crate) fn next_progress_check(&self) -> Option<Time> {
        self.progress_due.first().map(|(at, _)| *at)
    }

    /// Aborts the connections with peers that have acknowledged nothing for the send timeout, or for a twelfth of
    /// it while memory is short.
    pub(crate) fn check_progress(&mut self, now: Time) {
        let Some(timeout) = self.memory.send_timeout else { return };
        while let Some(&(at, id)) = self.progress_due.first().filter(|(at, _)| *at <= now) {
            self.progress_due.remove(&(at, id));
            let short = self.memory.is_short(self.pool.used());
            let Some(flow) = self.flows.get_mut(&id) else { continue };
            let Some(mut progress) = flow.progress.take() else { continue };
            let acked = self.endpoint.stats(id).map_or(u64::MAX, |stats| stats.data_acked);
            if acked >= flow.written || flow.ended.is_some() {
                continue;
            }
            if acked >= progress.acked + LEAST_PROGRESS {
                (progress.acked, progress.idle) = (acked, 0);
            } else {
                progress.idle += 1;
            }
            if progress.idle >= if short { 1 } else { TICKS } {
                self.counters.stalled += 1;
                self.endpoint.abort(now, id);
                continue;
            }
            progress.due = now + timeout / u64::from(TICKS);
            flow.progress = Some(progress);
            self.progress_due.insert((progress.due, id));
        }
    }

    /// Ends the progress checks of a flow.
    pub(crate) fn expect_nothing(&mut self, id: ConnectionId) {
        if let Some(progress) = self.flows.get_mut(&id).and_then(|flow| flow.progress.take()) {
            self.progress_due.remove(&(progress.due, id));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anabranch_stack::config::{EndpointConfig, Entropy, LocalAddress};
    use anabranch_stack::endpoint::Endpoint;
    use anabranch_stack::segment::{Address, PathId};
    use anabranch_units::RandomStream;

    const MIB: u64 = 1 << 20;

    fn flow(memory: &mut Memory, ip: [u8; 4]) -> Flow {
        let remote = Address::new(ip.into(), 1);
        let mut flow = Flow::new(Time::ZERO, 1, remote, remote);
        flow.client = memory.join(ip.into());
        // Much of its data has been acknowledged.
        flow.acknowledged = u64::MAX / 4;
        flow
    }

    /// Allocates all memory that is granted, a block at a time.
    fn fill(memory: &mut Memory, flow: &mut Flow) {
        loop {
            let bytes = memory.chargeable(flow, 0, BLOCK_BYTES);
            if bytes == 0 {
                return;
            }
            flow.charged += bytes;
            memory.charged += bytes;
            memory.settle(flow);
        }
    }

    /// Returns connection IDs.
    fn ids(count: u16) -> Vec<ConnectionId> {
        let ip = IpAddr::from([10, 0, 0, 9]);
        let own = LocalAddress { ip, path: PathId(0), backup: false };
        let entropy = Entropy::Seeded(RandomStream::new(1, "test"));
        let mut endpoint = Endpoint::new(EndpointConfig::new(vec![own]), entropy);
        let ports = 1..=count;
        let connect =
            |port| endpoint.connect(Time::ZERO, ip, Address::new(ip, port), crate::default_config());
        ports.map(connect).collect::<Result<_, _>>().unwrap()
    }

    #[test]
    fn a_greedy_client_leaves_half_and_another_gets_as_much_as_is_left_for_it() {
        let mut memory = Memory::new(128 * MIB, None);
        let mut greedy: Vec<Flow> = (0..1000).map(|_| flow(&mut memory, [10, 0, 0, 1])).collect();
        greedy.iter_mut().for_each(|flow| fill(&mut memory, flow));
        let held = memory.charged;
        // Half, and a block for each connection.
        assert!((60 * MIB..=80 * MIB).contains(&held), "{held}");
        // A client that has acknowledged nothing gets two blocks even if much is free.
        let mut fresh = flow(&mut memory, [10, 0, 0, 3]);
        fresh.acknowledged = 0;
        fill(&mut memory, &mut fresh);
        assert_eq!(fresh.charged, 2 * BLOCK_BYTES);
        memory.leave(&mut fresh);
        // Its next connection gets a block; another client's gets much.
        let mut next = flow(&mut memory, [10, 0, 0, 1]);
        fill(&mut memory, &mut next);
        assert!((BLOCK_BYTES..MIB).contains(&next.charged), "{}", next.charged);
        let mut other = flow(&mut memory, [10, 0, 0, 2]);
        fill(&mut memory, &mut other);
        assert!(other.charged > 15 * MIB, "{}", other.charged);
        greedy.iter_mut().chain([&mut next, &mut other]).for_each(|flow| memory.leave(flow));
        assert_eq!((memory.charged, memory.by_ip.len(), memory.vacant.len()), (0, 0, 2));
    }

    #[test]
    fn no_number_of_clients_takes_more_than_the_limit() {
        let mut memory = Memory::new(16 * MIB, None);
        for client in 0..5000_u32 {
            let mut flow = flow(&mut memory, client.to_be_bytes());
            fill(&mut memory, &mut flow);
        }
        assert!(memory.charged <= 14 * MIB, "{}", memory.charged);
        let late = flow(&mut memory, [10, 0, 0, 1]);
        // The rest is for send buffers.
        assert!(memory.space(&late, MIB) >= BLOCK_BYTES);
        assert_eq!(memory.space(&late, 2 * MIB), 0);
    }

    #[test]
    fn all_writers_with_less_than_two_blocks_are_looked_at_before_the_others() {
        let mut memory = Memory::new(16 * MIB, None);
        let ids = ids(320);
        let mut hold = |blocks: u64, number: usize| {
            let mut flow = flow(&mut memory, [10, 0, 0, 1]);
            flow.charged = blocks * BLOCK_BYTES;
            memory.settle(&mut flow);
            let id = ids[number];
            memory.enqueue(id, &mut flow);
            memory.enqueue(id, &mut flow);
            (id, flow)
        };
        let mut rich: Vec<_> = (0..300).map(|number| hold(2, number)).collect();
        let poor: Vec<_> = (300..320).map(|number| hold(number as u64 % 2, number)).collect();
        assert_eq!(memory.next_waiting(), None);
        // A block of the first one has been acknowledged.
        let (id, flow) = &mut rich[0];
        flow.charged -= BLOCK_BYTES;
        memory.settle(flow);
        memory.enqueue(*id, flow);
        assert_eq!(flow.memory_awaited, [true; 2]);
        let looked_at: Vec<_> = core::iter::from_fn(|| memory.next_waiting()).collect();
        let expected =
            poor.iter().map(|(id, _)| (0, *id)).chain(rich.iter().take(CHECKS).map(|(id, _)| (1, *id)));
        assert_eq!(looked_at, expected.collect::<Vec<_>>());
        let (_, flow) = &mut rich[1];
        flow.charged = 0;
        memory.settle(flow);
        assert_eq!(memory.next_waiting(), Some((0, rich[0].0)));
    }

    #[test]
    fn a_subscriber_is_one_client() {
        let of = |text: &str| client_of(text.parse().unwrap());
        assert_eq!(of("2001:db8:1:2::3"), of("2001:db8:1:2:ffff::"));
        assert_ne!(of("2001:db8:1:2::3"), of("2001:db8:1:3::3"));
        assert_eq!(of("::ffff:10.0.0.1"), of("10.0.0.1"));
        assert_ne!(of("10.0.0.1"), of("10.0.0.2"));
    }
}
