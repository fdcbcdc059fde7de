//! The task that moves packets between the devices of a host and its stack.
//!
//! It works in rounds. It reads the received packets, without the lock; passes them to the stack and takes
//! the packets to be sent, under the lock; then wakes tasks and sends, without the lock. After a round that
//! has woken a task it yields, so that received data is read while it is in a processor cache. After an idle
//! round it sleeps until a device, a stream or the clock wakes it.

use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use anabranch_stack::event::Departure;
use anabranch_stack::segment::{Address, Flags, MptcpOption, Options, PathId, Segment};
use anabranch_stack::seq::Seq;
use anabranch_units::Time;
use anabranch_wire::{
    Checksum, Checksums, IcmpError, IcmpKind, IpFields, checksum, echo_reply, echo_request, emit_header,
    parse, parse_icmp,
};
use tokio::time::Sleep;

use crate::buffer::Parts;
use crate::echo::EchoLimit;
use crate::shared::{Core, Shared};
use crate::spares::{Spares, UNUSED};
use crate::spread::Member;
use anabranch_device::{Capabilities, Device, Offload, Packet};

/// The number of packets read from one device, and taken from the stack, in one round: enough to spread the
/// cost of a round, few enough to stay in the cache of a core.
const BATCH_PACKETS: usize = 64;
/// The same limit in bytes, for devices with super-packets.
const BATCH_BYTES: usize = 256 << 10;
/// The number of packets received without a pause after which acknowledgements are sent at the latest.
/// Sending one costs a system call in which the kernel of a peer on the same machine processes it and wakes
/// the waiting task.
const ACK_PACKETS: usize = 1024;
/// The number of packets of a batch that a SYN counts for. If the peer is on the same machine it answers
/// immediately, and takes the time until its answer is acknowledged as the round-trip time: if that were some
/// milliseconds, Linux would permanently send small packets (`tcp_tso_rtt_log`).
const SYN_WEIGHT: usize = 8;
/// The number of rounds without yielding to other tasks, if none of them is woken.
const ROUNDS: usize = 16;
/// The number of packets queued for a busy device, beyond which the stack is not polled.
const QUEUE: usize = 256;

/// A device and its queue.
pub(crate) struct Port {
    device: Box<dyn Device>,
    capabilities: Capabilities,
    /// The path of its first address, to which received packets are attributed.
    path: PathId,
    waiting: VecDeque<Packet>,
}

impl Port {
    pub(crate) fn new(device: Box<dyn Device>, path: PathId) -> Port {
        let capabilities = device.capabilities();
        Port { device, capabilities, path, waiting: VecDeque::new() }
    }

    fn is_full(&self) -> bool {
        self.waiting.len() >= QUEUE
    }
}

/// The driver of one host.
pub(crate) struct Driver {
    shared: Arc<Shared>,
    ports: Vec<Port>,
    /// The device of each path, by index.
    port_of: Vec<usize>,
    sleep: Pin<Box<Sleep>>,
    due: Time,
    /// The packets received in this round, with the index of their device.
    received: Vec<(usize, Packet)>,
    received_count: usize,
    /// The greatest number of them since the last trim.
    received_most: usize,
    /// Packets for reuse.
    spare: Spares<Packet>,
    /// The time at which memory that was not used since the last trim is freed.
    trim_at: Time,
    /// The last segment taken, kept to reuse its memory.
    segment: Segment,
    woken: Vec<Waker>,
    /// True if the stack was not polled to the end because every device was full.
    stalled: bool,
    /// True if the stack had only segments without payload when it was last polled.
    acks_alone: bool,
    /// The number of packets received since.
    waited: usize,
    echo_limit: EchoLimit,
    /// The place of its stack, if the host has several.
    member: Option<Member>,
}

impl Driver {
    /// Has to be called within the runtime that will run it.
    pub(crate) fn new(
        shared: Arc<Shared>,
        ports: Vec<Port>,
        port_of: Vec<usize>,
        member: Option<Member>,
    ) -> Driver {
        let nobody = Address::new(std::net::Ipv4Addr::UNSPECIFIED.into(), 0);
        Driver {
            sleep: Box::pin(tokio::time::sleep_until(shared.clock.instant(Time::NEVER))),
            due: Time::NEVER,
            shared,
            ports,
            port_of,
            received: Vec::new(),
            received_count: 0,
            received_most: 0,
            spare: Spares::new(2 * BATCH_PACKETS),
            trim_at: Time::NEVER,
            segment: Segment::new(nobody, nobody, Seq(0), Flags::default()),
            woken: Vec::new(),
            stalled: false,
            acks_alone: false,
            waited: 0,
            echo_limit: EchoLimit::default(),
            member,
        }
    }

    /// Reads received packets; returns whether the devices may have more.
    fn receive(&mut self, cx: &mut Context<'_>) -> io::Result<bool> {
        self.received_count = 0;
        let mut more = false;
        for (at, port) in self.ports.iter_mut().enumerate() {
            let (mut packets, mut bytes) = (0, 0);
            loop {
                if packets >= BATCH_PACKETS || bytes >= BATCH_BYTES {
                    more = true;
                    // Super-packets are few anyway.
                    self.acks_alone &= bytes < BATCH_BYTES;
                    break;
                }
                if self.received.len() == self.received_count {
                    self.received.push((at, Packet::default()));
                }
                let (from, packet) = &mut self.received[self.received_count];
                match port.device.poll_receive(cx, packet) {
                    Poll::Ready(Ok(())) => {
                        *from = at;
                        packets += 1;
                        bytes += packet.len();
                        self.received_count += 1;
                    }
                    Poll::Ready(Err(error)) => return Err(error),
                    Poll::Pending => break,
                }
            }
        }
        self.waited += self.received_count;
        self.received_most = self.received_most.max(self.received_count);
        Ok(more)
    }

    /// Frees the buffers that were not used for a while, and sets the time of the next call, if any are left.
    fn trim(&mut self, core: &mut Core, now: Time) {
        core.trim();
        self.spare.trim();
        self.received.truncate(self.received_most);
        self.received_most = 0;
        let received = self.received.iter().map(|(_, packet)| packet);
        let packets = received.chain(self.spare.iter());
        core.spare_packets = packets.map(|packet| packet.capacity() as u64).sum();
        self.trim_at = if core.memory_spare() > 0 { now + UNUSED } else { Time::NEVER };
    }

    /// Passes received packets and expired timers to the stack, and takes the packets to be sent. Returns
    /// whether it may have more to send.
    fn work(&mut self, cx: &Context<'_>, received_more: bool) -> bool {
        let shared = Arc::clone(&self.shared);
        let mut core = shared.lock();
        let now = shared.clock.now();
        for at in 0..self.received_count {
            let (port, packet) = &self.received[at];
            if let Some(tap) = &mut core.tap {
                tap.received(now, *port, packet);
            }
            match take_in(&mut core, now, self.ports[*port].path, packet) {
                Taken::Done => {}
                Taken::Echo(path) => self.answer_echo(&mut core, now, at, path),
                Taken::Elsewhere(stack) => {
                    let (port, packet) = &mut self.received[at];
                    if let Some(member) = &self.member {
                        member.pass_on(*port, stack, packet);
                    }
                }
            }
        }
        self.woken.append(&mut core.woken);
        core.handle_timeout(now);
        core.handle_events(now, &mut self.woken);
        let wait = received_more && self.acks_can_wait(&core);
        let mut more = wait || self.take_out(&mut core, now);
        // Making segments may have ended a connection.
        core.handle_events(now, &mut self.woken);
        more |= core.wake_for_memory(&mut self.woken);
        if let Some(member) = &self.member {
            while let Some(moved) = core.endpoint.poll_moved() {
                member.note(moved);
            }
        }
        if now >= self.trim_at {
            self.trim(&mut core, now);
        } else if self.trim_at == Time::NEVER && self.received_count > 0 {
            self.trim_at = now + UNUSED;
        }
        core.stirred = false;
        if let Some(tap) = &mut core.tap {
            tap.hand_over();
        }
        match &mut core.driver {
            Some(driver) => driver.clone_from(cx.waker()),
            None => core.driver = Some(cx.waker().clone()),
        }
        self.due = core.next_timeout().unwrap_or(Time::NEVER);
        more
    }

    /// Answers the ping that was received as number `at` of this round, on `path`.
    fn answer_echo(&mut self, core: &mut Core, now: Time, at: usize, path: PathId) {
        let (_, request) = &self.received[at];
        let Some(&port) = self.port_of.get(usize::from(path.0)) else { return };
        if self.ports[port].is_full() || !self.echo_limit.admits(now) {
            return;
        }
        let mut reply = self.spare.take().unwrap_or_default();
        reply.set_len(request.len());
        reply.bytes_mut().copy_from_slice(request.bytes());
        reply.offload = Offload::default();
        if echo_reply(reply.bytes_mut()) {
            core.counters.echo_replies += 1;
            self.post(core, now, port, reply, 0);
        }
    }

    /// Queues `packet` with `payload` bytes of a stream at the device `at`, to be sent at the end of the
    /// round.
    fn post(&mut self, core: &mut Core, now: Time, at: usize, packet: Packet, payload: u64) {
        core.counters.sent += 1;
        if let Some(tap) = &mut core.tap {
            tap.sent(now, at, &packet, payload, core.endpoint.observer_mut());
        }
        self.ports[at].waiting.push_back(packet);
    }

    /// Queues the packet of a segment at the device `at`; the segment's payload begins at an offset in the
    /// payload of its departure. Returns its length. `segment_size` is the payload size into which the device splits
    /// it.
    fn put(
        &mut self,
        core: &mut Core,
        now: Time,
        at: usize,
        departure: &Departure,
        (into, segment): (u32, &Segment),
        segment_size: u32,
    ) -> usize {
        let len = segment.payload_len as usize;
        let flow = departure.connection.filter(|_| len > 0).and_then(|id| core.flows.get(&id));
        let payload = flow.and_then(|flow| flow.send.parts(departure.stream_offset + u64::from(into), len));
        let mut packet = self.spare.take().unwrap_or_default();
        let capabilities = self.ports[at].capabilities;
        if write(segment, payload, capabilities, &mut packet).is_none() {
            core.counters.unwritable += 1;
            self.spare.give(packet);
            return 0;
        }
        // Less than 65,536, like the payload of the whole.
        packet.offload.segment_size = segment_size as u16;
        let bytes = packet.len();
        self.post(core, now, at, packet, u64::from(segment.payload_len));
        bytes
    }

    /// True if sending may be delayed until packets already received are processed. This requires that only
    /// acknowledgements of in-order data are to be sent: then one replaces many. Replies without a connection
    /// have a queue of bounded length, which a flood of SYNs would overflow.
    fn acks_can_wait(&self, core: &Core) -> bool {
        let replies = core.endpoint.has_replies();
        self.acks_alone && !core.urgent && !replies && self.waited < ACK_PACKETS
    }

    fn take_out(&mut self, core: &mut Core, now: Time) -> bool {
        let (mut packets, mut bytes) = (0, 0);
        (self.waited, self.acks_alone, core.urgent) = (0, true, false);
        while packets < BATCH_PACKETS && bytes < BATCH_BYTES {
            self.stalled = self.ports.iter().all(Port::is_full);
            if self.stalled {
                // A device wakes the driver when it accepts packets again.
                return false;
            }
            let Some(departure) = core.poll_transmit(now, &mut self.segment) else {
                return false;
            };
            if let Some(id) = departure.connection.filter(|_| self.segment.payload_len > 0) {
                let end = departure.stream_offset + u64::from(self.segment.payload_len);
                core.has_left(id, end, &mut self.woken);
            }
            let Some(&at) = self.port_of.get(usize::from(departure.path.0)) else { continue };
            let port = &self.ports[at];
            if port.is_full() {
                // Drops only while another device accepts packets, as a full network interface would.
                core.counters.queue_drops += 1;
                packets += 1;
                continue;
            }
            let (whole, size) = (self.segment, departure.segment_size);
            self.acks_alone &= whole.payload_len == 0;
            // Not for answers with a SYN cookie, which may be thousands.
            if whole.flags.has(Flags::SYN) && departure.connection.is_some() {
                packets += SYN_WEIGHT - 1;
            }
            if port.capabilities.segmentation_offload || size == 0 {
                bytes += self.put(core, now, at, &departure, (0, &whole), size);
                packets += 1;
            } else {
                for (into, piece) in whole.pieces(size) {
                    bytes += self.put(core, now, at, &departure, (into, &piece), 0);
                    packets += 1;
                }
            }
        }
        self.acks_alone = false;
        true
    }

    /// Sends queued packets; returns whether any was sent.
    fn send(&mut self, cx: &mut Context<'_>) -> io::Result<bool> {
        let mut sent = false;
        for port in &mut self.ports {
            while let Some(packet) = port.waiting.front_mut() {
                match port.device.poll_send(cx, packet) {
                    Poll::Ready(Ok(())) => sent = true,
                    Poll::Ready(Err(error)) => return Err(error),
                    Poll::Pending => break,
                }
                if let Some(packet) = port.waiting.pop_front() {
                    self.spare.give(packet);
                }
            }
        }
        Ok(sent)
    }

    fn wake(&mut self) {
        self.woken.drain(..).for_each(Waker::wake);
    }

    fn fail(&mut self, error: &io::Error) {
        let mut core = self.shared.lock();
        core.fail(error.kind(), &error.to_string(), &mut self.woken);
        drop(core);
        self.wake();
    }

    /// Runs one round.
    fn round(&mut self, cx: &mut Context<'_>) -> io::Result<Step> {
        let mut more = self.receive(cx)?;
        more |= self.work(cx, more);
        let woke = !self.woken.is_empty();
        self.wake();
        let sent = self.send(cx)?;
        // Sending has freed queue space for further packets of the stack.
        more |= sent && self.stalled;
        if more {
            return Ok(if woke { Step::Rest } else { Step::Again });
        }
        let instant = self.shared.clock.instant(self.due.min(self.trim_at));
        if self.sleep.deadline() != instant {
            self.sleep.as_mut().reset(instant);
        }
        Ok(if self.sleep.as_mut().poll(cx).is_ready() { Step::Again } else { Step::Sleep })
    }

    /// True if no handle and no connection is left.
    fn is_over(&mut self) -> bool {
        let core = self.shared.lock();
        let over = core.handles == 0
            && core.flows.is_empty()
            && self.ports.iter().all(|port| port.waiting.is_empty());
        drop(core);
        over && self.member.as_mut().is_none_or(Member::is_over)
    }
}

impl Future for Driver {
    type Output = io::Result<()>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let driver = &mut *self;
        for _ in 0..ROUNDS {
            match driver.round(cx) {
                Err(error) => {
                    driver.fail(&error);
                    return Poll::Ready(Err(error));
                }
                Ok(Step::Again) => {}
                Ok(Step::Rest) => break,
                Ok(Step::Sleep) if driver.is_over() => return Poll::Ready(Ok(())),
                Ok(Step::Sleep) => return Poll::Pending,
            }
        }
        // Polls the woken tasks first. If one of them is the future on which the runtime blocks, and no other
        // task is ready, tokio would poll it only after dozens of turns of a driver that wakes itself.
        let rest = std::pin::pin!(tokio::task::yield_now()).poll(cx);
        debug_assert!(rest.is_pending());
        Poll::Pending
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        // The runtime or the driver has ended, so packets are no longer moved.
        let error = io::Error::new(io::ErrorKind::NotConnected, "the driver of this host has ended");
        self.fail(&error);
        if let Some(member) = &mut self.member {
            member.close();
        }
    }
}

/// The action after a round.
enum Step {
    /// Another round: there is more to do.
    Again,
    /// Another round, after the woken tasks have run.
    Rest,
    /// Sleep until woken.
    Sleep,
}

/// The result of processing a packet.
enum Taken {
    /// Nothing is left to do.
    Done,
    /// A ping, to be answered on that path.
    Echo(PathId),
    /// A join for another stack of this host.
    Elsewhere(u16),
}

/// Passes a packet received on `path` to the stack.
fn take_in(core: &mut Core, now: Time, path: PathId, packet: &Packet) -> Taken {
    core.counters.received += 1;
    // A packet with an incomplete checksum comes from this machine and never was on a wire.
    let checksums = match (packet.offload.partial_checksum, core.sums_wanted) {
        (false, _) => Checksums::Verify,
        (true, false) => Checksums::Trust,
        (true, true) => Checksums::TrustAndSum,
    };
    let mut parsed = parse(packet.bytes(), checksums);
    if checksums == Checksums::Trust
        && parsed.as_ref().is_ok_and(|parsed| has_dss_checksum(&parsed.segment.options))
    {
        core.sums_wanted = true;
        parsed = parse(packet.bytes(), Checksums::TrustAndSum);
    }
    match parsed {
        Ok(parsed) if core.is_local(parsed.segment.destination.ip) => {
            if let Some(stack) = core.endpoint.passes_on(&parsed.segment) {
                // Counted where it is processed.
                core.counters.received -= 1;
                return Taken::Elsewhere(stack);
            }
            let payload = packet.bytes().get(parsed.payload).unwrap_or(&[]);
            core.handle_segment(now, path, &parsed.segment, payload);
        }
        Ok(_) => core.counters.not_for_us += 1,
        Err(_) => match parse_icmp(packet.bytes()) {
            Some(error) => take_in_error(core, now, &error),
            None => match echo_request(packet.bytes()).and_then(|to| core.path_of(to)) {
                Some(path) => {
                    core.counters.echo_requests += 1;
                    return Taken::Echo(path);
                }
                None => core.counters.not_tcp += 1,
            },
        },
    }
    Taken::Done
}

/// Processes an ICMP error. Only "too big" is acted on; unreachable destinations are ignored, as Linux does
/// for established connections (RFC 5461): timers detect them.
fn take_in_error(core: &mut Core, now: Time, error: &IcmpError) {
    core.counters.icmp_errors += 1;
    if let IcmpKind::TooBig { mtu } = error.kind {
        core.endpoint.handle_too_big(now, error.source, error.destination, error.seq, mtu.unwrap_or(0));
    }
}

/// True if a mapping has a checksum.
fn has_dss_checksum(options: &Options) -> bool {
    let mapped = options.dss.and_then(|dss| dss.mapping).is_some_and(|mapping| mapping.checksum.is_some());
    let first = |option: &MptcpOption| matches!(option, MptcpOption::Capable(c) if c.checksum.is_some());
    mapped || options.mptcp.iter().flatten().any(first)
}

/// Writes a segment with its payload to `packet`. None if it cannot be written, or its payload is not stored
/// here.
fn write(
    segment: &Segment,
    payload: Option<Parts<'_>>,
    capabilities: Capabilities,
    packet: &mut Packet,
) -> Option<()> {
    let payload_len = segment.payload_len as usize;
    packet.set_len(HEADERS + payload_len);
    let header = emit_header(segment, &IpFields::default(), packet.bytes_mut()).ok()?;
    packet.set_len(header.len() + payload_len);
    let offload = capabilities.checksum_offload;
    let bytes = packet.bytes_mut();
    let (mut at, mut sum) = (header.len(), 0);
    for part in payload.into_iter().flatten() {
        let place = bytes.get_mut(at..at + part.len())?;
        if offload {
            place.copy_from_slice(part);
        } else {
            let before = (at - header.len()) as u64;
            sum = checksum::concat(sum, before, checksum::copy_and_sum(part, place));
        }
        at += part.len();
    }
    if at != bytes.len() {
        return None;
    }
    header.finish_with_sum(bytes, if offload { Checksum::Offload } else { Checksum::Full }, sum);
    packet.offload = Offload { partial_checksum: offload, segment_size: 0 };
    Some(())
}

/// The length of the longest headers: IPv6, and TCP with all its options.
const HEADERS: usize = 40 + 60;
