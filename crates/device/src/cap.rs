//! The greatest rates of addresses: a token bucket and a queue for each direction, before a device.
//!
//! A packet that comes too early waits in the queue, and is dropped if that holds more than [`QUEUE`]: so the senders at both ends adapt
//! as to any bottleneck. A super-packet counts as its bytes, passes as a whole, and the next one waits the longer.

use std::collections::VecDeque;
use std::fmt;
use std::future::Future as _;
use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use anabranch_units::{Duration, Rate, Time};
use tokio::time::Sleep;

use crate::packet::ends;
use crate::{Capabilities, Clock, Device, Packet};

/// Packets may be this much ahead of their rate: more than the millisecond of tokio's clock.
const BURST: Duration = Duration::from_millis(5);
/// The time that a full queue takes at its rate.
const QUEUE: Duration = Duration::from_millis(100);
/// The least space of a queue: two full packets of a slow path.
const LEAST_QUEUE: u64 = 3_000;
/// The packets that are queued or dropped before other tasks have their turn.
const TURN: usize = 64;

/// The greatest rates of an address, in IP packets with their headers; none for any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cap {
    /// The address of this host.
    pub address: IpAddr,
    /// The rate of packets from it.
    pub send: Option<Rate>,
    /// The rate of packets to it.
    pub receive: Option<Rate>,
}

/// The caps of a host, which may change while it runs. Clones are the same.
#[derive(Clone, Debug, Default)]
pub struct Caps {
    inner: Arc<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    caps: Mutex<Vec<Cap>>,
    /// The number of changes.
    version: AtomicU64,
    dropped: AtomicU64,
}

impl Caps {
    /// Replaces all caps.
    pub fn set(&self, caps: Vec<Cap>) {
        *self.inner.caps.lock().unwrap_or_else(PoisonError::into_inner) = caps;
        self.inner.version.fetch_add(1, Ordering::Release);
    }

    /// Returns the number of packets that were dropped, as a queue was full.
    pub fn dropped(&self) -> u64 {
        self.inner.dropped.load(Ordering::Relaxed)
    }
}

/// A token bucket with its queue.
struct Bucket {
    address: IpAddr,
    rate: Option<Rate>,
    /// The time at which the packets so far would have passed at the rate.
    paid_until: Time,
    queue: VecDeque<Packet>,
    queued_bytes: u64,
}

impl Bucket {
    /// Changes the rate: what has passed in advance is paid at the new one.
    fn set_rate(&mut self, rate: Option<Rate>, now: Time) {
        if let (Some(old), Some(new)) = (self.rate, rate)
            && old != new
            && self.paid_until > now
        {
            self.paid_until = now + new.transmission_time(old.bytes_in(self.paid_until.since(now)));
        }
        self.rate = rate;
    }

    fn is_open(&self, now: Time) -> bool {
        self.rate.is_none() || self.paid_until <= now + BURST
    }

    /// Returns the time at which the next packet may pass; none without a queue.
    fn due(&self) -> Option<Time> {
        (!self.queue.is_empty()).then(|| match self.rate {
            Some(_) => Time(self.paid_until.0.saturating_sub(BURST.0)),
            None => Time::ZERO,
        })
    }

    fn pay(&mut self, now: Time, len: usize) {
        if let Some(rate) = self.rate {
            self.paid_until = self.paid_until.max(now) + rate.transmission_time(len as u64);
        }
    }

    /// Queues a packet; false if it is dropped.
    fn enqueue(&mut self, packet: Packet) -> bool {
        let most = self.rate.map_or(u64::MAX, |rate| rate.bytes_in(QUEUE).max(LEAST_QUEUE));
        let len = packet.len() as u64;
        if !self.queue.is_empty() && self.queued_bytes + len > most {
            return false;
        }
        self.queued_bytes += len;
        self.queue.push_back(packet);
        true
    }

    fn dequeue(&mut self, now: Time) -> Option<Packet> {
        let packet = self.queue.pop_front()?;
        self.queued_bytes -= packet.len() as u64;
        self.pay(now, packet.len());
        Some(packet)
    }
}

/// The buckets of a direction.
#[derive(Default)]
struct Buckets(Vec<Bucket>);

impl Buckets {
    /// Gives the buckets these rates. A queue without a rate any more is emptied at once.
    fn set(&mut self, rates: impl Iterator<Item = (IpAddr, Option<Rate>)> + Clone, now: Time) {
        for bucket in &mut self.0 {
            let rate = rates.clone().find(|(address, _)| *address == bucket.address);
            bucket.set_rate(rate.and_then(|(_, rate)| rate), now);
        }
        for (address, rate) in rates.filter(|(_, rate)| rate.is_some()) {
            if !self.0.iter().any(|bucket| bucket.address == address) {
                let queue = VecDeque::new();
                self.0.push(Bucket { address, rate, paid_until: Time::ZERO, queue, queued_bytes: 0 });
            }
        }
        self.0.retain(|bucket| bucket.rate.is_some() || !bucket.queue.is_empty());
    }

    fn of(&mut self, address: Option<IpAddr>) -> Option<&mut Bucket> {
        let address = address?;
        self.0.iter_mut().find(|bucket| bucket.address == address)
    }

    /// Returns a bucket with a packet that is due.
    fn due(&mut self, now: Time) -> Option<&mut Bucket> {
        self.0.iter_mut().find(|bucket| bucket.due().is_some_and(|due| due <= now))
    }

    fn next(&self) -> Option<Time> {
        self.0.iter().filter_map(Bucket::due).min()
    }
}

/// A device with caps of its addresses.
pub struct Capped<D> {
    device: D,
    caps: Caps,
    version: u64,
    sending: Buckets,
    receiving: Buckets,
    clock: Clock,
    sleep: Pin<Box<Sleep>>,
}

impl<D> fmt::Debug for Capped<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Capped").field("caps", &self.caps).finish_non_exhaustive()
    }
}

impl<D: Device> Capped<D> {
    /// Keeps the packets of `device` within `caps`. Has to be called within a tokio runtime.
    pub fn new(device: D, caps: Caps) -> Capped<D> {
        let clock = Clock::start();
        let sleep = Box::pin(tokio::time::sleep_until(clock.instant(Time::NEVER)));
        // The first look reads the caps.
        let version = u64::MAX;
        Capped {
            device,
            caps,
            version,
            sending: Buckets::default(),
            receiving: Buckets::default(),
            clock,
            sleep,
        }
    }

    fn update(&mut self) {
        let version = self.caps.inner.version.load(Ordering::Acquire);
        if version != self.version {
            self.version = version;
            let caps = self.caps.inner.caps.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let now = self.clock.now();
            self.sending.set(caps.iter().map(|cap| (cap.address, cap.send)), now);
            self.receiving.set(caps.iter().map(|cap| (cap.address, cap.receive)), now);
        }
    }

    fn is_idle(&self) -> bool {
        self.sending.0.is_empty() && self.receiving.0.is_empty()
    }

    /// Sends the queued packets that are due.
    fn flush(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        let now = self.clock.now();
        while let Some(bucket) = self.sending.due(now) {
            let Some(packet) = bucket.queue.front_mut() else { break };
            let len = packet.len();
            match self.device.poll_send(cx, packet) {
                Poll::Ready(result) => {
                    // Its content is unspecified now, and perhaps its length.
                    bucket.queue.pop_front();
                    bucket.queued_bytes -= len as u64;
                    bucket.pay(now, len);
                    result?;
                }
                // The device wakes the task.
                Poll::Pending => break,
            }
        }
        Ok(())
    }

    /// Lets the task be woken when the next queued packet is due.
    fn arm(&mut self, cx: &mut Context<'_>) {
        let Some(next) = [self.sending.next(), self.receiving.next()].into_iter().flatten().min() else {
            return;
        };
        let instant = self.clock.instant(next);
        if self.sleep.deadline() != instant {
            self.sleep.as_mut().reset(instant);
        }
        if self.sleep.as_mut().poll(cx).is_ready() && next > self.clock.now() {
            cx.waker().wake_by_ref();
        }
    }
}

impl<D: Device> Device for Capped<D> {
    fn capabilities(&self) -> Capabilities {
        self.device.capabilities()
    }

    fn name(&self) -> Option<&str> {
        self.device.name()
    }

    fn poll_receive(&mut self, cx: &mut Context<'_>, packet: &mut Packet) -> Poll<io::Result<()>> {
        self.update();
        if self.is_idle() {
            return self.device.poll_receive(cx, packet);
        }
        self.flush(cx)?;
        for _ in 0..TURN {
            let now = self.clock.now();
            if let Some(next) = self.receiving.due(now).and_then(|bucket| bucket.dequeue(now)) {
                *packet = next;
                return Poll::Ready(Ok(()));
            }
            match self.device.poll_receive(cx, packet) {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => {
                    self.arm(cx);
                    return Poll::Pending;
                }
            }
            let Some(bucket) = self.receiving.of(ends(packet.bytes()).map(|(_, to)| to)) else {
                return Poll::Ready(Ok(()));
            };
            if bucket.queue.is_empty() && bucket.is_open(now) {
                bucket.pay(now, packet.len());
                return Poll::Ready(Ok(()));
            }
            if !bucket.enqueue(std::mem::take(packet)) {
                self.caps.inner.dropped.fetch_add(1, Ordering::Relaxed);
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    fn poll_send(&mut self, cx: &mut Context<'_>, packet: &mut Packet) -> Poll<io::Result<()>> {
        let now = self.clock.now();
        let Some(bucket) = self.sending.of(ends(packet.bytes()).map(|(from, _)| from)) else {
            return self.device.poll_send(cx, packet);
        };
        let len = packet.len();
        if bucket.queue.is_empty() && bucket.is_open(now) {
            let sent = self.device.poll_send(cx, packet);
            if sent.is_ready() {
                bucket.pay(now, len);
            }
            return sent;
        }
        if !bucket.enqueue(std::mem::take(packet)) {
            self.caps.inner.dropped.fetch_add(1, Ordering::Relaxed);
        }
        self.arm(cx);
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::net::{Ipv4Addr, Ipv6Addr};

    use super::*;
    use crate::memory;
    use crate::testing::{receive, send};

    const OWN: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
    const FREE: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));
    const THERE: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));

    fn packet(from: IpAddr, to: IpAddr, len: usize) -> Packet {
        let mut bytes = vec![0; len];
        bytes[0] = 0x45;
        for (at, ip) in [(12, from), (16, to)] {
            let IpAddr::V4(ip) = ip else { panic!() };
            bytes[at..at + 4].copy_from_slice(&ip.octets());
        }
        Packet::from_bytes(&bytes)
    }

    fn caps(rate: u64) -> Caps {
        let caps = Caps::default();
        let rate = Some(Rate::from_mbps(rate));
        caps.set(vec![Cap { address: OWN, send: rate, receive: rate }]);
        caps
    }

    #[tokio::test(start_paused = true)]
    async fn both_directions_of_an_address_keep_their_rate_and_others_have_none() {
        let (near, mut far) = memory::pair(Capabilities::plain(1500));
        let mut near = Capped::new(near, caps(8));
        // Packets that come twice as fast as 8 Mbit/s, for one second, in both directions; and some of another address.
        let begun = tokio::time::Instant::now();
        let mut counts = [0; 4];
        let mut passed = None;
        for at in 0..1400_u64 {
            tokio::time::sleep_until(begun + std::time::Duration::from_micros(at * 500)).await;
            send(&mut far, packet(THERE, OWN, 1000)).await;
            send(&mut near, packet(OWN, THERE, 1000)).await;
            send(&mut near, packet(FREE, THERE, 1000)).await;
            send(&mut far, packet(THERE, FREE, 1000)).await;
            let mut got = Packet::default();
            poll_fn(|cx| {
                while near.poll_receive(cx, &mut got).is_ready() {
                    counts[usize::from(ends(got.bytes()).unwrap().1 == FREE)] += 1;
                }
                while far.poll_receive(cx, &mut got).is_ready() {
                    counts[2 + usize::from(ends(got.bytes()).unwrap().0 == FREE)] += 1;
                }
                Poll::Ready(())
            })
            .await;
            passed = Some(counts);
        }
        // 700 ms at 1000 packets a second, and 5 in advance.
        let [received, free_in, sent, free_out] = passed.unwrap();
        assert_eq!((free_in, free_out), (1400, 1400));
        assert!((700..=707).contains(&received) && (700..=707).contains(&sent), "{counts:?}");
        // Queues of 100 ms; the rest was dropped.
        let queued = [&near.sending, &near.receiving].map(|buckets| buckets.0[0].queue.len() as u64);
        assert!(queued.iter().all(|queued| (98..=100).contains(queued)), "{queued:?}");
        assert_eq!(near.caps.dropped(), 2 * 1400 - received - sent - queued[0] - queued[1]);
        // Queued packets are sent when they are due, without a call from outside.
        let waking = async {
            let mut got = Packet::default();
            poll_fn(|cx| near.poll_receive(cx, &mut got)).await.unwrap();
        };
        let before = tokio::time::Instant::now();
        waking.await;
        assert!(before.elapsed() <= std::time::Duration::from_millis(2));
    }

    #[tokio::test(start_paused = true)]
    async fn a_cap_that_is_lifted_empties_its_queue_at_once() {
        let (near, mut far) = memory::pair(Capabilities::plain(1500));
        let caps = caps(1);
        let mut near = Capped::new(near, caps.clone());
        for _ in 0..8 {
            send(&mut far, packet(THERE, OWN, 1500)).await;
        }
        receive(&mut near).await;
        let before = tokio::time::Instant::now();
        receive(&mut near).await;
        assert!(before.elapsed().as_millis() >= 7, "{:?}", before.elapsed());
        caps.set(Vec::new());
        let before = tokio::time::Instant::now();
        for _ in 0..6 {
            receive(&mut near).await;
        }
        assert_eq!(before.elapsed().as_millis(), 0);
        assert!(near.is_idle() || near.receiving.0.iter().all(|bucket| bucket.queue.is_empty()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_cap_that_is_raised_holds_at_once_for_what_has_passed_in_advance_too() {
        let (near, mut far) = memory::pair(Capabilities::plain(65_000));
        let caps = Caps::default();
        let set =
            |rate| caps.set(vec![Cap { address: OWN, send: None, receive: Some(Rate::from_bps(rate)) }]);
        set(8_000);
        let mut near = Capped::new(near, caps.clone());
        for _ in 0..2 {
            send(&mut far, packet(THERE, OWN, 50_000)).await;
        }
        receive(&mut near).await;
        // The second one would wait for 50 s.
        set(8_000_000);
        let begun = tokio::time::Instant::now();
        receive(&mut near).await;
        assert!((45..=47).contains(&begun.elapsed().as_millis()), "{:?}", begun.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn a_flood_to_a_capped_address_leaves_other_tasks_their_turn() {
        let (near, mut far) = memory::pair(Capabilities::plain(1500));
        let mut near = Capped::new(near, caps(1));
        for _ in 0..memory::CAPACITY {
            send(&mut far, packet(THERE, OWN, 1500)).await;
        }
        receive(&mut near).await;
        poll_fn(|cx| {
            assert!(near.poll_receive(cx, &mut Packet::default()).is_pending());
            Poll::Ready(())
        })
        .await;
        let taken = near.caps.dropped() + near.receiving.0[0].queue.len() as u64;
        assert_eq!(taken, TURN as u64);
        // The rest is not forgotten.
        let before = tokio::time::Instant::now();
        receive(&mut near).await;
        assert!(before.elapsed().as_millis() <= 8, "{:?}", before.elapsed());
        assert_eq!(near.caps.dropped() + near.receiving.0[0].queue.len() as u64 + 2, memory::CAPACITY as u64);
    }

    #[tokio::test(start_paused = true)]
    async fn a_super_packet_is_paid_by_the_ones_after_it() {
        let (near, mut far) = memory::pair(Capabilities::plain(65_000));
        let mut near = Capped::new(near, caps(8));
        for _ in 0..2 {
            send(&mut far, packet(THERE, OWN, 50_000)).await;
        }
        let begun = tokio::time::Instant::now();
        receive(&mut near).await;
        assert_eq!(begun.elapsed().as_millis(), 0);
        receive(&mut near).await;
        // 50,000 bytes at 1 MB/s, less the advance.
        assert!((45..=47).contains(&begun.elapsed().as_millis()), "{:?}", begun.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn an_address_that_was_quiet_has_saved_up_nothing() {
        let (near, mut far) = memory::pair(Capabilities::plain(1500));
        let mut near = Capped::new(near, caps(8));
        send(&mut far, packet(THERE, OWN, 1000)).await;
        receive(&mut near).await;
        tokio::time::sleep(std::time::Duration::from_secs(10)).await;
        for _ in 0..20 {
            send(&mut far, packet(THERE, OWN, 1000)).await;
        }
        let begun = tokio::time::Instant::now();
        for _ in 0..20 {
            receive(&mut near).await;
        }
        // A packet takes 1 ms, and 5 ms may pass in advance.
        assert!((14..=15).contains(&begun.elapsed().as_millis()), "{:?}", begun.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn a_packet_does_not_overtake_those_that_are_due() {
        let (near, mut far) = memory::pair(Capabilities::plain(1500));
        let mut near = Capped::new(near, caps(8));
        receive_none(&mut near).await;
        for number in 0..20_u8 {
            let mut one = packet(OWN, THERE, 1000);
            one.bytes_mut()[20] = number;
            if number == 12 {
                // Some of the queued ones are due, and are not sent yet.
                tokio::time::sleep(std::time::Duration::from_millis(3)).await;
            }
            send(&mut near, one).await;
        }
        let mut numbers = Vec::new();
        for _ in 0..20 {
            receive_none(&mut near).await;
            poll_fn(|cx| {
                let mut got = Packet::default();
                while far.poll_receive(cx, &mut got).is_ready() {
                    numbers.push(got.bytes()[20]);
                }
                Poll::Ready(())
            })
            .await;
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
        assert!(numbers.iter().copied().eq(0..20), "{numbers:?}");
    }

    /// Lets a device send what is due; it has received nothing.
    async fn receive_none(device: &mut impl Device) {
        poll_fn(|cx| {
            assert!(device.poll_receive(cx, &mut Packet::default()).is_pending());
            Poll::Ready(())
        })
        .await;
    }

    #[test]
    fn ends_of_any_bytes_are_found_or_not() {
        for len in 0..50 {
            for first in [0, 0x45, 0x60, 0xff] {
                let _ = ends(&vec![first; len]);
            }
        }
        let mut six = [0x60; 40];
        six[8..24].copy_from_slice(&"fd86::1".parse::<Ipv6Addr>().unwrap().octets());
        assert_eq!(ends(&six).unwrap().0, "fd86::1".parse::<IpAddr>().unwrap());
    }
}
