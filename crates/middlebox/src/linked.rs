//! A device behind links of `anabranch-link`, one in each direction.

use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use anabranch_link::{Arrival, Counters, DropReason, Link, LinkConfig, LinkConfigError, Polled, Pushed};
use anabranch_units::Time;
use anabranch_wire::{carries_data, mark_congestion, too_big};
use tokio::time::Sleep;

use anabranch_device::Clock;
use anabranch_device::{Capabilities, Device, Packet};

/// How many answers of routers wait.
const ANSWERS: usize = 64;

/// Rate, delay, queue and loss before another device: what is sent goes through one link and then to the
/// device, and what the device has received through another.
///
/// A packet that is longer than the MTU of a link is answered as a router would (ICMP), if the link is told to.
///
/// It has no offload, because a link counts, queues and drops single packets. Tokio's clock wakes it to
/// the millisecond.
pub struct LinkedDevice<D> {
    inner: D,
    clock: Clock,
    outgoing: Link<Packet>,
    incoming: Link<Packet>,
    /// A packet that has left the outgoing link and that the device does not take yet.
    held: Option<Packet>,
    /// What a router says to the host of this device, and what one says to the other side.
    answers: VecDeque<Packet>,
    answers_out: VecDeque<Packet>,
    spare: Packet,
    sleep: Pin<Box<Sleep>>,
}

impl<D> std::fmt::Debug for LinkedDevice<D> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LinkedDevice").field("inside", &self.inside()).finish_non_exhaustive()
    }
}

impl<D> LinkedDevice<D> {
    fn inside(&self) -> usize {
        self.outgoing.inside() + self.incoming.inside()
    }
}

impl<D: Device> LinkedDevice<D> {
    /// Puts two links before `inner`. Their luck is drawn from `seed` and `name`. Call it within a runtime.
    ///
    /// # Errors
    /// If one of the links cannot be as it is described, or `inner` has offload.
    pub fn new(
        inner: D,
        name: &str,
        seed: u64,
        outgoing: LinkConfig,
        incoming: LinkConfig,
    ) -> io::Result<LinkedDevice<D>> {
        let wrong = |error: LinkConfigError| io::Error::new(io::ErrorKind::InvalidInput, error);
        if inner.capabilities().checksum_offload {
            let text = "a link counts and drops single packets: open the device without offload";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        let clock = Clock::start();
        Ok(LinkedDevice {
            inner,
            clock,
            outgoing: Link::new(&format!("{name}.out"), seed, outgoing).map_err(wrong)?,
            incoming: Link::new(&format!("{name}.in"), seed, incoming).map_err(wrong)?,
            held: None,
            answers: VecDeque::new(),
            answers_out: VecDeque::new(),
            spare: Packet::default(),
            sleep: Box::pin(tokio::time::sleep_until(clock.instant(Time::NEVER))),
        })
    }

    /// What the outgoing and the incoming link have done.
    pub fn counters(&self) -> (Counters, Counters) {
        (*self.outgoing.counters(), *self.incoming.counters())
    }

    /// Moves on what is due, and sees to being woken for the rest. A packet that has arrived here, if any.
    fn advance(&mut self, cx: &mut Context<'_>) -> io::Result<Option<Packet>> {
        let now = self.clock.now();
        loop {
            if self.held.is_none() {
                self.held = self.answers_out.pop_front();
            }
            if self.held.is_none() {
                match self.outgoing.poll(now) {
                    Some(Polled::Arrived(arrival)) => self.held = Some(arrived(arrival)),
                    Some(Polled::Dropped(_)) => continue,
                    None => break,
                }
            }
            let Some(packet) = &mut self.held else { break };
            match self.inner.poll_send(cx, packet) {
                Poll::Ready(result) => {
                    self.held = None;
                    result?;
                }
                Poll::Pending => break,
            }
        }
        while let Poll::Ready(result) = self.inner.poll_receive(cx, &mut self.spare) {
            result?;
            let packet = std::mem::take(&mut self.spare);
            let pushed = offer(&mut self.incoming, now, packet);
            if let Some(answer) = answer_of(&self.incoming, &pushed)
                && self.answers_out.len() < ANSWERS
            {
                self.answers_out.push_back(answer);
                // It leaves in the next turn.
                cx.waker().wake_by_ref();
            }
        }
        while let Some(polled) = self.incoming.poll(now) {
            if let Polled::Arrived(arrival) = polled {
                return Ok(Some(arrived(arrival)));
            }
        }
        // While the device takes nothing, it is the device that wakes.
        let outgoing = if self.held.is_none() { self.outgoing.next_event() } else { Time::NEVER };
        let instant = self.clock.instant(outgoing.min(self.incoming.next_event()));
        if self.sleep.deadline() != instant {
            self.sleep.as_mut().reset(instant);
        }
        if self.sleep.as_mut().poll(cx).is_ready() {
            cx.waker().wake_by_ref();
        }
        Ok(None)
    }
}

/// Gives a packet to `link`.
fn offer(link: &mut Link<Packet>, now: Time, packet: Packet) -> Pushed<Packet> {
    let len = packet.len() as u32;
    let data = !link.tells_data_apart() || carries_data(packet.bytes());
    link.push_as(now, packet, len, data)
}

/// What a router answers to a packet that `link` has not taken; mostly nothing: what is dropped is gone, and
/// the link counts it.
fn answer_of(link: &Link<Packet>, pushed: &Pushed<Packet>) -> Option<Packet> {
    match pushed {
        Pushed::Dropped(packet, DropReason::TooLarge) => {
            Some(Packet::from_bytes(&too_big(packet.bytes(), link.reported_mtu()?)?))
        }
        _ => None,
    }
}

impl<D: Device> Device for LinkedDevice<D> {
    fn capabilities(&self) -> Capabilities {
        Capabilities::plain(self.inner.capabilities().mtu)
    }

    fn name(&self) -> Option<&str> {
        self.inner.name()
    }

    fn poll_receive(&mut self, cx: &mut Context<'_>, packet: &mut Packet) -> Poll<io::Result<()>> {
        if let Some(answer) = self.answers.pop_front() {
            *packet = answer;
            return Poll::Ready(Ok(()));
        }
        match self.advance(cx) {
            Ok(Some(arrived)) => {
                *packet = arrived;
                Poll::Ready(Ok(()))
            }
            Ok(None) => Poll::Pending,
            Err(error) => Poll::Ready(Err(error)),
        }
    }

    fn poll_send(&mut self, cx: &mut Context<'_>, packet: &mut Packet) -> Poll<io::Result<()>> {
        let now = self.clock.now();
        let packet = std::mem::take(packet);
        let before = self.outgoing.next_event();
        let pushed = offer(&mut self.outgoing, now, packet);
        let answer = answer_of(&self.outgoing, &pushed).filter(|_| self.answers.len() < ANSWERS);
        if self.outgoing.next_event() < before || answer.is_some() {
            // Somebody has to come back for it.
            cx.waker().wake_by_ref();
        }
        self.answers.extend(answer);
        Poll::Ready(Ok(()))
    }
}

/// The packet, marked if the link says so.
fn arrived(mut arrival: Arrival<Packet>) -> Packet {
    if arrival.marked {
        mark_congestion(arrival.packet.bytes_mut());
    }
    arrival.packet
}
