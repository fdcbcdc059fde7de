//! Several middleboxes in a row.

use std::collections::VecDeque;
use std::fmt;

use super::{Direction, Element};
use anabranch_device::Packet;

/// Elements in a row: outgoing packets pass the first element first, incoming packets the last.
#[derive(Default)]
pub struct Chain(Vec<Box<dyn Element>>);

impl fmt::Debug for Chain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Chain").field(&self.0.len()).finish()
    }
}

impl Chain {
    /// Returns an empty chain, which passes everything.
    pub fn new() -> Chain {
        Chain::default()
    }

    /// Appends `element`, farther from this host than the others.
    #[must_use]
    pub fn then(mut self, element: impl Element + 'static) -> Chain {
        self.0.push(Box::new(element));
        self
    }
}

impl Element for Chain {
    fn pass(&mut self, direction: Direction, packet: Packet, out: &mut VecDeque<Packet>) {
        let mut now = VecDeque::from([packet]);
        let mut step = |element: &mut Box<dyn Element>| {
            let mut next = VecDeque::new();
            for packet in now.drain(..) {
                element.pass(direction, packet, &mut next);
            }
            now = next;
        };
        match direction {
            Direction::Outgoing => self.0.iter_mut().for_each(&mut step),
            Direction::Incoming => self.0.iter_mut().rev().for_each(&mut step),
        }
        out.append(&mut now);
    }
}
