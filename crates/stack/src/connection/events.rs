//! The events of a connection that the application has not polled.

use std::collections::VecDeque;

use crate::event::Event;

#[derive(Clone, Debug, Default)]
pub(crate) struct EventQueue {
    queue: VecDeque<Event>,
    /// True if the application was notified of bytes that it has not read since.
    readable: bool,
    /// True if it was notified of the end of the peer's stream.
    peer_closed: bool,
}

/// How often the application is notified of bytes to read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ReadNotice {
    /// For the first bytes since the application last read.
    OncePerRead,
    /// For all bytes.
    Always,
}

impl EventQueue {
    pub(super) fn push(&mut self, event: Event) {
        self.queue.push_back(event);
    }

    /// Adds [`Event::Readable`].
    #[inline]
    pub(super) fn push_readable(&mut self, notice: ReadNotice) {
        if notice == ReadNotice::OncePerRead && core::mem::replace(&mut self.readable, true) {
            return;
        }
        self.queue.push_back(Event::Readable);
    }

    /// Records that the application has read.
    pub(super) fn on_consumed(&mut self) {
        self.readable = false;
    }

    /// Adds [`Event::PeerClosed`]. Returns false if it was added before.
    pub(super) fn push_peer_closed(&mut self) -> bool {
        let first = !core::mem::replace(&mut self.peer_closed, true);
        if first {
            self.queue.push_back(Event::PeerClosed);
        }
        first
    }

    /// True if the queue is empty.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    pub(crate) fn pop(&mut self) -> Option<Event> {
        self.queue.pop_front()
    }
}
