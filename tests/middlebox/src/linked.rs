//! A device reached over links of `anabranch-link`, one in each direction.

use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use anabranch_link::{
    Arrival, Counters, DropReason, Label, Link, LinkConfig, LinkConfigError, Polled, Pushed,
};
use anabranch_units::Time;
use anabranch_wire::{apply, label, too_big};
use tokio::time::Sleep;

use anabranch_device::Clock;
use anabranch_device::{Capabilities, Device, Packet};

/// The number of router answers that can be queued.
const ANSWERS: usize = 64;

/// Rate, delay, queue and loss on the path of a device: packets sent pass one link before the device, and
/// packets that the device receives pass the other.
///
/// A packet that exceeds the MTU of a link is answered as a router would (ICMP), if the link is configured
/// so.
///
/// The device offers no offload, because a link counts, queues and drops single packets. Tokio's clock wakes
/// it with a resolution of one millisecond.
pub struct LinkedDevice<D> {
    inner: D,
    clock: Clock,
    outgoing: Link<Packet>,
    incoming: Link<Packet>,
    /// A packet that has left the outgoing link and that the device does not accept yet.
    held: Option<Packet>,
    /// Router answers to the host of this device, and to the other side.
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
    /// Puts two links on the path of `inner`. Their random streams are derived from `seed` and `name`. Has to
    /// be called within a tokio runtime.
    ///
    /// # Errors
    /// If the configuration of a link is invalid, or if `inner` has offload.
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

    /// Returns the counters of the outgoing and the incoming link.
    pub fn counters(&self) -> (Counters, Counters) {
        (self.outgoing.counters(), self.incoming.counters())
    }

    /// Forwards the packets that are due, and arms the timer for the rest. Returns a packet that has arrived
    /// here, if any.
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
                // It is sent in the next turn.
                cx.waker().wake_by_ref();
            }
        }
        while let Some(polled) = self.incoming.poll(now) {
            if let Polled::Arrived(arrival) = polled {
                return Ok(Some(arrived(arrival)));
            }
        }
        // While the device accepts nothing, the device wakes the task.
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

/// Offers a packet to `link`.
fn offer(link: &mut Link<Packet>, now: Time, packet: Packet) -> Pushed<Packet> {
    let len = packet.len() as u32;
    let label = if link.reads_labels() { label(packet.bytes()) } else { Label::default() };
    link.push_as(now, packet, len, label)
}

/// Returns the router's answer to a packet that `link` did not accept; usually none: a dropped packet is only
/// counted by the link.
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
            // The task has to be woken for the rest.
            cx.waker().wake_by_ref();
        }
        self.answers.extend(answer);
        Poll::Ready(Ok(()))
    }
}

/// Returns the packet with the effects of the link applied.
fn arrived(mut arrival: Arrival<Packet>) -> Packet {
    if !arrival.effects.is_none() {
        apply(arrival.effects, arrival.packet.bytes_mut());
    }
    arrival.packet
}
