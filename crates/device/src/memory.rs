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
    reader: Option<Waker>,
    writer: Option<Waker>,
    gone: bool,
}

/// One end of the connection. When it is dropped, the other end fails once it has read the queued packets.
#[derive(Debug)]
pub struct MemoryDevice {
    incoming: Arc<Mutex<Direction>>,
    outgoing: Arc<Mutex<Direction>>,
    capabilities: Capabilities,
}

/// Returns two devices with the same capabilities: each receives the packets that the other sends, whole, in
/// order, and immediately.
pub fn pair(capabilities: Capabilities) -> (MemoryDevice, MemoryDevice) {
    let (a, b) = (Arc::default(), Arc::default());
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

    fn poll_receive(&mut self, cx: &mut Context<'_>, packet: &mut Packet) -> Poll<io::Result<()>> {
        let mut incoming = lock(&self.incoming);
        let Some(next) = incoming.waiting.pop_front() else {
            if incoming.gone {
                return Poll::Ready(Err(gone()));
            }
            incoming.reader = Some(cx.waker().clone());
            return Poll::Pending;
        };
        let old = std::mem::replace(packet, next);
        if incoming.spare.len() < 64 {
            incoming.spare.push(old);
        }
        if let Some(writer) = incoming.writer.take() {
            drop(incoming);
            writer.wake();
        }
        Poll::Ready(Ok(()))
    }

    fn poll_send(&mut self, cx: &mut Context<'_>, packet: &mut Packet) -> Poll<io::Result<()>> {
        let mut outgoing = lock(&self.outgoing);
        if outgoing.gone {
            return Poll::Ready(Err(gone()));
        }
        if outgoing.waiting.len() >= CAPACITY {
            outgoing.writer = Some(cx.waker().clone());
            return Poll::Pending;
        }
        let spare = outgoing.spare.pop().unwrap_or_default();
        outgoing.waiting.push_back(std::mem::replace(packet, spare));
        if let Some(reader) = outgoing.reader.take() {
            drop(outgoing);
            reader.wake();
        }
        Poll::Ready(Ok(()))
    }
}

impl Drop for MemoryDevice {
    fn drop(&mut self) {
        for direction in [&self.incoming, &self.outgoing] {
            let mut direction = lock(direction);
            direction.gone = true;
            let wakers = [direction.reader.take(), direction.writer.take()];
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
