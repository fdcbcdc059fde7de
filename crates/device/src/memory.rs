//! Two devices connected in memory.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use super::{Capabilities, Device, Packet};

/// The number of packets that can be queued in one direction before the sender has to wait.
pub const CAPACITY: usize = 1024;

#[derive(Debug, Default)]
struct Direction {
    waiting: VecDeque<Packet>,
    /// Packets that were read, for reuse.
    spare: Vec<Packet>,
    readers: Vec<Waker>,
    writers: Vec<Waker>,
    /// The handles that read.
    handles: usize,
    gone: bool,
}

/// Adds a waker, unless it is there.
fn wait(waiting: &mut Vec<Waker>, cx: &Context<'_>) {
    if !waiting.iter().any(|waker| waker.will_wake(cx.waker())) {
        waiting.push(cx.waker().clone());
    }
}

/// One end of the connection. When all its handles are dropped, the other end fails once it has read the queued packets.
#[derive(Debug)]
pub struct MemoryDevice {
    incoming: Arc<Mutex<Direction>>,
    outgoing: Arc<Mutex<Direction>>,
    capabilities: Capabilities,
}

/// Returns two devices with the same capabilities: each receives the packets that the other sends, whole, in
/// order, and immediately.
pub fn pair(capabilities: Capabilities) -> (MemoryDevice, MemoryDevice) {
    let direction = || Arc::new(Mutex::new(Direction { handles: 1, ..Direction::default() }));
    let (a, b) = (direction(), direction());
    let left = MemoryDevice { incoming: Arc::clone(&a), outgoing: Arc::clone(&b), capabilities };
    let right = MemoryDevice { incoming: b, outgoing: a, capabilities };
    (left, right)
}

fn lock(direction: &Mutex<Direction>) -> MutexGuard<'_, Direction> {
    direction.lock().unwrap_or_else(PoisonError::into_inner)
}

fn gone() -> io::Error {
    io::Error::new(io::ErrorKind::BrokenPipe, "the other end was closed")
}

impl Device for MemoryDevice {
    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    fn another(&self) -> io::Result<Box<dyn Device>> {
        lock(&self.incoming).handles += 1;
        let (incoming, outgoing) = (Arc::clone(&self.incoming), Arc::clone(&self.outgoing));
        Ok(Box::new(MemoryDevice { incoming, outgoing, capabilities: self.capabilities }))
    }

    fn poll_receive(&mut self, cx: &mut Context<'_>, packet: &mut Packet) -> Poll<io::Result<()>> {
        let mut incoming = lock(&self.incoming);
        let Some(next) = incoming.waiting.pop_front() else {
            if incoming.gone {
                return Poll::Ready(Err(gone()));
            }
            wait(&mut incoming.readers, cx);
            return Poll::Pending;
        };
        let old = std::mem::replace(packet, next);
        if incoming.spare.len() < 64 {
            incoming.spare.push(old);
        }
        if !incoming.writers.is_empty() {
            let writers = std::mem::take(&mut incoming.writers);
            drop(incoming);
            writers.into_iter().for_each(Waker::wake);
        }
        Poll::Ready(Ok(()))
    }

    fn poll_send(&mut self, cx: &mut Context<'_>, packet: &mut Packet) -> Poll<io::Result<()>> {
        let mut outgoing = lock(&self.outgoing);
        if outgoing.gone {
            return Poll::Ready(Err(gone()));
        }
        if outgoing.waiting.len() >= CAPACITY {
            wait(&mut outgoing.writers, cx);
            return Poll::Pending;
        }
        let spare = outgoing.spare.pop().unwrap_or_default();
        outgoing.waiting.push_back(std::mem::replace(packet, spare));
        if !outgoing.readers.is_empty() {
            let readers = std::mem::take(&mut outgoing.readers);
            drop(outgoing);
            readers.into_iter().for_each(Waker::wake);
        }
        Poll::Ready(Ok(()))
    }
}

impl Drop for MemoryDevice {
    fn drop(&mut self) {
        let mut incoming = lock(&self.incoming);
        incoming.handles -= 1;
        if incoming.handles > 0 {
            return;
        }
        drop(incoming);
        for direction in [&self.incoming, &self.outgoing] {
            let mut direction = lock(direction);
            direction.gone = true;
            let wakers = [std::mem::take(&mut direction.readers), std::mem::take(&mut direction.writers)];
            drop(direction);
            wakers.into_iter().flatten().for_each(Waker::wake);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;

    #[tokio::test]
    async fn a_full_wire_waits_and_a_dropped_end_is_noticed() {
        let (mut left, mut right) = pair(Capabilities::plain(1500));
        for at in 0..CAPACITY {
            let mut packet = Packet::from_bytes(&(at as u32).to_be_bytes());
            poll_fn(|cx| left.poll_send(cx, &mut packet)).await.unwrap();
        }
        let mut late = Packet::from_bytes(b"late");
        let blocked = poll_fn(|cx| Poll::Ready(left.poll_send(cx, &mut late).is_pending())).await;
        assert!(blocked);
        assert_eq!(late.bytes(), b"late");
        let mut packet = Packet::default();
        poll_fn(|cx| right.poll_receive(cx, &mut packet)).await.unwrap();
        assert_eq!(packet.bytes(), 0_u32.to_be_bytes());
        poll_fn(|cx| left.poll_send(cx, &mut late)).await.unwrap();
        drop(left);
        for _ in 0..CAPACITY {
            poll_fn(|cx| right.poll_receive(cx, &mut packet)).await.unwrap();
        }
        assert_eq!(packet.bytes(), b"late");
        let error = poll_fn(|cx| right.poll_receive(cx, &mut packet)).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
        let error = poll_fn(|cx| right.poll_send(cx, &mut packet)).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
    }
}
