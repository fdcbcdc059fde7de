//! A device behind a middlebox.

use std::collections::VecDeque;
use std::io;
use std::task::{Context, Poll};

use anabranch_device::{Capabilities, Device, Packet};

/// Which way a packet goes, as the owner of the device sees it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Direction {
    /// Away from here.
    Outgoing,
    /// Towards here.
    Incoming,
}

/// Something on the way that looks at packets: passes them on, changes, drops, splits or joins them.
pub trait Element: Send {
    /// Takes `packet`, and puts what goes on behind `out`.
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

/// A device and an element before it.
#[derive(Debug)]
pub struct FilteredDevice<D, E> {
    inner: D,
    element: E,
    outgoing: VecDeque<Packet>,
    incoming: VecDeque<Packet>,
}

impl<D: Device, E: Element> FilteredDevice<D, E> {
    /// Puts `element` before `inner`.
    pub fn new(inner: D, element: E) -> FilteredDevice<D, E> {
        FilteredDevice { inner, element, outgoing: VecDeque::new(), incoming: VecDeque::new() }
    }

    /// The element.
    pub fn element(&self) -> &E {
        &self.element
    }

    /// Sends what has passed.
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
        // An element sees packets as a wire carries them.
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
            // It was taken; what waits goes with the next call.
            _ => Poll::Ready(Ok(())),
        }
    }
}
