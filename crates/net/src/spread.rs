//! Spreads the packets of a host over several stacks, each with its own driver and thread.
//!
//! Every driver has a handle of each device. The driver that reads a packet passes it to the inbox of the stack to which the packet's four-tuple
//! belongs ([`Shard`]), and takes its own packets from its inbox. If the handles share a queue, only one driver reads it at a time, so that the
//! packets of a subflow stay in order. If each handle has its own queue ([`Device::has_own_queue`]), all drivers read: the device sends the packets of a
//! flow to the queue from which the flow was last sent, so few of them are passed on. Sending needs no turn.
//!
//! A SYN that joins a connection of another stack is passed on once more, by the stack of its four-tuple, which
//! knows whether the four-tuple is in use: so a stranger with a token cannot take over a connection of another stack. Where the
//! join is accepted, the four-tuple is remembered until the subflow ends.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::task::{Context, Poll, Waker};

use anabranch_device::{Capabilities, Device, Packet};
use anabranch_stack::endpoint::Moved;
use anabranch_stack::segment::Address;
use anabranch_stack::shard::Shard;
use anabranch_wire::ends;
use rustc_hash::FxHashMap;

use crate::counters::HostCounters;

/// The packets that are read from a device in one turn, and their bytes.
const TURN_PACKETS: usize = 64;
const TURN_BYTES: usize = 256 << 10;
/// The packets that wait for a stack, from one device, and their bytes. When there are more, no stack that has one for it reads the device until
/// the stack has taken them: packets are lost in the queues of the device only, as with one stack.
const INBOX_PACKETS: usize = 256;
const INBOX_BYTES: usize = 4 << 20;
/// The packets that are kept for reuse.
const SPARE: usize = 64;

/// The packets that other drivers have read for a stack.
#[derive(Debug, Default)]
struct Inbox {
    packets: VecDeque<Packet>,
    bytes: usize,
    /// Packets for reuse.
    spare: Vec<Packet>,
    /// The driver of the stack, if it waits.
    driver: Option<Waker>,
    /// The drivers that have a packet for the stack while the inbox is full.
    givers: Vec<Waker>,
    /// True if the stack has ended, and takes no packets any more.
    is_closed: bool,
}

/// A packet for which the inbox of its stack was full, with the number of that stack.
type Held = Option<(u16, Packet)>;

/// A device that several drivers read.
#[derive(Debug)]
struct Line {
    /// Held while a driver reads and distributes the packets of a shared queue.
    turn: Mutex<Held>,
    inboxes: Vec<Place>,
}

/// An inbox, and whether it has packets: known without its lock, so that a driver without any takes the lock only before it sleeps.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Place {
    has_packets: AtomicBool,
    inbox: Mutex<Inbox>,
}

/// The spread of one host.
#[derive(Debug)]
pub(crate) struct Spread {
    shard: Shard,
    lines: Vec<Line>,
    /// The subflows that are at another stack than the one of their four-tuple.
    moved: RwLock<FxHashMap<(Address, Address), u16>>,
    moved_count: AtomicUsize,
    /// Packets that one stack has read for another.
    handed_over: AtomicU64,
    dropped: AtomicU64,
    /// The stacks without handles and connections.
    over: AtomicUsize,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Spread {
    /// Returns the spread over `count` stacks of a host with that number of devices.
    pub(crate) fn new(count: u16, devices: usize, seed: u64) -> Arc<Spread> {
        let line =
            || Line { turn: Mutex::default(), inboxes: (0..count).map(|_| Place::default()).collect() };
        Arc::new(Spread {
            shard: Shard::new(0, count, seed),
            lines: (0..devices).map(|_| line()).collect(),
            moved: RwLock::default(),
            moved_count: AtomicUsize::new(0),
            handed_over: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
            over: AtomicUsize::new(0),
        })
    }

    /// Returns the stack for which a packet is.
    fn stack_of(&self, packet: &[u8]) -> u16 {
        // Pings and malformed packets.
        let Some(ends) = ends(packet) else { return 0 };
        let known = || self.moved.read().unwrap_or_else(PoisonError::into_inner).get(&ends).copied();
        let moved = if self.moved_count.load(Ordering::Acquire) > 0 { known() } else { None };
        moved.unwrap_or_else(|| self.shard.of_ends(ends.0, ends.1))
    }

    /// Puts a packet into the inbox of a stack, and leaves another one, to be reused. Returns false if the inbox is full; then the
    /// driver of `giver` is woken when it has space.
    fn give(&self, line: usize, to: u16, packet: &mut Packet, giver: Option<&Waker>) -> bool {
        let Some(place) = self.lines.get(line).and_then(|line| line.inboxes.get(usize::from(to))) else {
            return true;
        };
        let mut inbox = lock(&place.inbox);
        if inbox.is_closed {
            return true;
        }
        if inbox.packets.len() >= INBOX_PACKETS || inbox.bytes >= INBOX_BYTES {
            if let Some(giver) = giver.filter(|giver| !inbox.givers.iter().any(|one| one.will_wake(giver))) {
                inbox.givers.push(giver.clone());
            }
            return false;
        }
        self.handed_over.fetch_add(1, Ordering::Relaxed);
        inbox.bytes += packet.len();
        let spare = inbox.spare.pop().unwrap_or_default();
        inbox.packets.push_back(std::mem::replace(packet, spare));
        place.has_packets.store(true, Ordering::Release);
        let driver = inbox.driver.take();
        drop(inbox);
        if let Some(driver) = driver {
            driver.wake();
        }
        true
    }

    fn note(&self, Moved { local, remote, here }: Moved, index: u16) {
        let mut moved = self.moved.write().unwrap_or_else(PoisonError::into_inner);
        if here {
            moved.insert((local, remote), index);
        } else if moved.get(&(local, remote)) == Some(&index) {
            moved.remove(&(local, remote));
        }
        self.moved_count.store(moved.len(), Ordering::Release);
    }

    /// Sets the counters of the whole host.
    pub(crate) fn count(&self, counters: &mut HostCounters) {
        counters.handovers = self.handed_over.load(Ordering::Relaxed);
        counters.handover_drops = self.dropped.load(Ordering::Relaxed);
        counters.moved_subflows = self.moved_count.load(Ordering::Acquire) as u64;
    }

    fn wake_all(&self) {
        for place in self.lines.iter().flat_map(|line| &line.inboxes) {
            let mut inbox = lock(&place.inbox);
            let mut drivers = std::mem::take(&mut inbox.givers);
            drivers.extend(inbox.driver.take());
            drop(inbox);
            drivers.into_iter().for_each(Waker::wake);
        }
    }
}

/// The place of one stack in the spread of its host.
#[derive(Debug)]
pub(crate) struct Member {
    spread: Arc<Spread>,
    index: u16,
    is_over: bool,
}

impl Member {
    pub(crate) fn new(spread: &Arc<Spread>, index: u16) -> Member {
        Member { spread: Arc::clone(spread), index, is_over: false }
    }

    /// Passes a packet of the device `line` to another stack. It is dropped if that has too many.
    pub(crate) fn pass_on(&self, line: usize, to: u16, packet: &mut Packet) {
        if !self.spread.give(line, to, packet, None) {
            self.spread.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Notes that the driver of this stack has ended. The others do not wait for it any more.
    pub(crate) fn close(&mut self) {
        for line in &self.spread.lines {
            lock(&line.inboxes[usize::from(self.index)].inbox).is_closed = true;
        }
        self.is_over();
        self.spread.wake_all();
    }

    /// Remembers or forgets a subflow.
    pub(crate) fn note(&self, moved: Moved) {
        self.spread.note(moved, self.index);
    }

    /// Notes that this stack has neither handles nor connections; returns whether no stack has. Until then it answers strays.
    pub(crate) fn is_over(&mut self) -> bool {
        let count = usize::from(self.spread.shard.count());
        if !std::mem::replace(&mut self.is_over, true)
            && self.spread.over.fetch_add(1, Ordering::AcqRel) + 1 == count
        {
            self.spread.wake_all();
        }
        self.spread.over.load(Ordering::Acquire) >= count
    }
}

/// A handle of a device that delivers only the packets of one stack.
pub(crate) struct Branch {
    device: Box<dyn Device>,
    spread: Arc<Spread>,
    line: usize,
    index: u16,
    /// Received packets of this stack.
    ready: VecDeque<Packet>,
    /// The packet that is read into.
    next: Packet,
    /// The packet of another stack that could not be passed on, if the handle has its own queue.
    held: Held,
    /// Packets for reuse.
    spare: Vec<Packet>,
}

impl Branch {
    pub(crate) fn new(device: Box<dyn Device>, spread: &Arc<Spread>, line: usize, index: u16) -> Branch {
        let spread = Arc::clone(spread);
        let (ready, next, spare) = (VecDeque::new(), Packet::default(), Vec::new());
        Branch { device, spread, line, index, ready, next, held: None, spare }
    }

    fn place(&self) -> &Place {
        &self.spread.lines[self.line].inboxes[usize::from(self.index)]
    }

    /// Takes the packets of the inbox. If there are none, it wakes the driver when one comes.
    fn collect(&mut self, cx: &Context<'_>) {
        let place = &self.spread.lines[self.line].inboxes[usize::from(self.index)];
        let mut inbox = lock(&place.inbox);
        if inbox.packets.is_empty() {
            match &mut inbox.driver {
                Some(driver) => driver.clone_from(cx.waker()),
                None => inbox.driver = Some(cx.waker().clone()),
            }
            return;
        }
        std::mem::swap(&mut inbox.packets, &mut self.ready);
        inbox.bytes = 0;
        place.has_packets.store(false, Ordering::Release);
        let space = SPARE.saturating_sub(inbox.spare.len()).min(self.spare.len());
        inbox.spare.extend(self.spare.drain(..space));
        let givers = std::mem::take(&mut inbox.givers);
        drop(inbox);
        givers.into_iter().for_each(Waker::wake);
    }

    /// Returns a packet in exchange for the next one that is ready.
    fn take_ready(&mut self, packet: &mut Packet) -> bool {
        let Some(next) = self.ready.pop_front() else { return false };
        let old = std::mem::replace(packet, next);
        if self.spare.len() < SPARE {
            self.spare.push(old);
        }
        true
    }

    /// Passes on the packet that was held. Returns false if there is still no space for it.
    fn release(&mut self, cx: &Context<'_>, held: &mut Held) -> bool {
        if let Some((to, packet)) = held {
            if *to == self.index {
                self.ready.push_back(std::mem::take(packet));
            } else if !self.spread.give(self.line, *to, packet, Some(cx.waker())) {
                return false;
            }
            *held = None;
        }
        true
    }

    /// Reads packets of a shared queue, and distributes them. Returns whether it is to be called again.
    fn read(&mut self, cx: &mut Context<'_>, held: &mut Held) -> io::Result<bool> {
        let (mut packets, mut bytes) = (0, 0);
        if !self.release(cx, held) {
            return Ok(false);
        }
        while packets < TURN_PACKETS && bytes < TURN_BYTES {
            match self.device.poll_receive(cx, &mut self.next) {
                Poll::Ready(received) => received?,
                Poll::Pending => return Ok(false),
            }
            packets += 1;
            bytes += self.next.len();
            let to = self.spread.stack_of(self.next.bytes());
            if to == self.index {
                let spare = self.spare.pop().unwrap_or_default();
                self.ready.push_back(std::mem::replace(&mut self.next, spare));
            } else if !self.spread.give(self.line, to, &mut self.next, Some(cx.waker())) {
                *held = Some((to, std::mem::take(&mut self.next)));
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn poll_shared(&mut self, cx: &mut Context<'_>, packet: &mut Packet) -> Poll<io::Result<()>> {
        let mut more = true;
        if self.ready.is_empty() {
            self.collect(cx);
        }
        if self.ready.is_empty() {
            let spread = Arc::clone(&self.spread);
            let mut turn = lock(&spread.lines[self.line].turn);
            // The driver that had its turn before may have read some for this stack.
            self.collect(cx);
            if self.ready.is_empty() {
                more = self.read(cx, &mut turn)?;
            }
        }
        if self.take_ready(packet) {
            return Poll::Ready(Ok(()));
        }
        if more {
            cx.waker().wake_by_ref();
        }
        Poll::Pending
    }

    /// Reads packets of this handle's own queue, and passes on the others. Those in the inbox are older.
    fn poll_own(&mut self, cx: &mut Context<'_>, packet: &mut Packet) -> Poll<io::Result<()>> {
        if self.ready.is_empty() && self.place().has_packets.load(Ordering::Acquire) {
            self.collect(cx);
        }
        if self.take_ready(packet) {
            return Poll::Ready(Ok(()));
        }
        let mut held = self.held.take();
        let is_free = self.release(cx, &mut held);
        self.held = held;
        let (mut packets, mut bytes) = (0, 0);
        while is_free && packets < TURN_PACKETS && bytes < TURN_BYTES {
            match self.device.poll_receive(cx, packet) {
                Poll::Ready(received) => received?,
                Poll::Pending => break,
            }
            packets += 1;
            bytes += packet.len();
            let to = self.spread.stack_of(packet.bytes());
            if to == self.index {
                return Poll::Ready(Ok(()));
            }
            if !self.spread.give(self.line, to, packet, Some(cx.waker())) {
                self.held = Some((to, std::mem::take(packet)));
                break;
            }
        }
        if packets >= TURN_PACKETS || bytes >= TURN_BYTES {
            cx.waker().wake_by_ref();
        }
        self.collect(cx);
        if self.take_ready(packet) { Poll::Ready(Ok(())) } else { Poll::Pending }
    }
}

impl Device for Branch {
    fn capabilities(&self) -> Capabilities {
        self.device.capabilities()
    }

    fn name(&self) -> Option<&str> {
        self.device.name()
    }

    fn poll_receive(&mut self, cx: &mut Context<'_>, packet: &mut Packet) -> Poll<io::Result<()>> {
        if self.device.has_own_queue() { self.poll_own(cx, packet) } else { self.poll_shared(cx, packet) }
    }

    fn poll_send(&mut self, cx: &mut Context<'_>, packet: &mut Packet) -> Poll<io::Result<()>> {
        self.device.poll_send(cx, packet)
    }
}
