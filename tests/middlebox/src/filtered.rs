//! A device with a middlebox on its path.

use std::collections::VecDeque;
use std::io;
use std::task::{Context, Poll};

use anabranch_device::{Capabilities, Device, Packet};

/// The direction of a packet, as the owner of the device sees it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Direction {
    /// Sent by the owner.
    Outgoing,
    /// Received by the owner.
    Incoming,
}

/// A middlebox: passes packets on, changes, drops, splits or joins them.
pub trait Element: Send {
    /// Processes `packet`, and appends the packets to forward to `out`.
    fn pass(&mut self, direction: Direction, packet: Packet, out: &mut VecDeque<Packet>);
}

impl<F: FnMut(Direction, Packet, &mut VecDeque<Packet>) + Send> Element for F {
    fn pass(&mut self, direction: Direction, packet: Packet, out: &mut VecDeque<Packet>) {
        self(direction, packet, out);
    }
}

impl Element for Box<dyn Element> {
    fn pass(&mut self, direction: Direction, packet: Packet, out: &mut VecDeque<Packet>) {
        (**self).pass(direction, packet, out);
    }
}

/// A device with an element on its path.
#[derive(Debug)]
pub struct FilteredDevice<D, E> {
    inner: D,
    element: E,
    outgoing: VecDeque<Packet>,
    incoming: VecDeque<Packet>,
}

impl<D: Device, E: Element> FilteredDevice<D, E> {
    /// Puts `element` on the path of `inner`.
    pub fn new(inner: D, element: E) -> FilteredDevice<D, E> {
        FilteredDevice { inner, element, outgoing: VecDeque::new(), incoming: VecDeque::new() }
    }

    /// Returns the element.
    pub fn element(&self) -> &E {
        &self.element
    }

    /// Sends the packets that have passed.
    fn drain(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while let Some(packet) = self.outgoing.front_mut() {
            match self.inner.poll_send(cx, packet) {
                Poll::Ready(Ok(())) => self.outgoing.pop_front(),
                other => return other,
            };
        }
        Poll::Ready(Ok(()))
    }
}

impl<D: Device, E: Element> Device for FilteredDevice<D, E> {
    fn capabilities(&self) -> Capabilities {
        // An element processes packets as a wire carries them.
        Capabilities::plain(self.inner.capabilities().mtu)
    }

    fn name(&self) -> Option<&str> {
        self.inner.name()
    }

    fn poll_receive(&mut self, cx: &mut Context<'_>, packet: &mut Packet) -> Poll<io::Result<()>> {
        if let Poll::Ready(Err(error)) = self.drain(cx) {
            return Poll::Ready(Err(error));
        }
        loop {
            if let Some(next) = self.incoming.pop_front() {
                *packet = next;
                return Poll::Ready(Ok(()));
            }
            let mut next = Packet::default();
            match self.inner.poll_receive(cx, &mut next) {
                Poll::Ready(Ok(())) => self.element.pass(Direction::Incoming, next, &mut self.incoming),
                other => return other,
            }
        }
    }

    fn poll_send(&mut self, cx: &mut Context<'_>, packet: &mut Packet) -> Poll<io::Result<()>> {
        match self.drain(cx) {
            Poll::Ready(Ok(())) => {}
            other => return other,
        }
        self.element.pass(Direction::Outgoing, std::mem::take(packet), &mut self.outgoing);
        match self.drain(cx) {
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            // The packet was taken; queued ones are sent by the next call.
            _ => Poll::Ready(Ok(())),
        }
    }
}
