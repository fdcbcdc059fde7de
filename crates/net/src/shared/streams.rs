//! The operations of streams on their connections.

use std::io;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};

use anabranch_stack::event::ConnectionId;
use anabranch_stack::stats::{ConnectionStats, SubflowStats};
use anabranch_units::{Bytes, Duration, Time};
use tokio::io::ReadBuf;

use super::Core;
use super::events::ORPHAN_WAIT;
use crate::flow::Observed;
use crate::lent::Lent;

/// Returns the error of an internal inconsistency.
fn not_there() -> io::Error {
    io::Error::other("a received byte is missing")
}

impl Core {
    /// Returns the number of readable bytes; 0 at the end of the stream.
    fn poll_readable(&mut self, id: ConnectionId, cx: &Context<'_>) -> Poll<io::Result<u64>> {
        let live = self.endpoint.received(id);
        let failed = self.check();
        let Some(flow) = self.flows.get_mut(&id) else {
            return Poll::Ready(Err(io::ErrorKind::NotConnected.into()));
        };
        flow.received = flow.received.max(live);
        let n = flow.received - flow.read;
        if n > 0 || flow.peer_closed {
            return Poll::Ready(Ok(n));
        }
        if flow.ended.is_some() {
            return Poll::Ready(flow.error().map_or(Ok(0), Err));
        }
        failed?;
        flow.reader = Some(cx.waker().clone());
        Poll::Pending
    }

    pub(crate) fn poll_read(
        &mut self,
        now: Time,
        id: ConnectionId,
        cx: &Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if buf.remaining() == 0 {
            return Poll::Ready(Ok(()));
        }
        let n = ready!(self.poll_readable(id, cx))?.min(buf.remaining() as u64);
        let flow = self.flows.get_mut(&id).filter(|_| n > 0);
        let Some(flow) = flow else { return Poll::Ready(Ok(())) };
        let Some(parts) = flow.receive.parts(flow.read, n as usize) else {
            return Poll::Ready(Err(not_there()));
        };
        parts.for_each(|part| buf.put_slice(part));
        flow.receive.advance(&mut self.pool, flow.read + n);
        self.memory.settle(flow);
        self.has_read(now, id, n);
        Poll::Ready(Ok(()))
    }

    /// Lends readable data without copying it, and takes back blocks that were read. Lends nothing at the end
    /// of the stream.
    pub(crate) fn poll_lend(
        &mut self,
        now: Time,
        id: ConnectionId,
        cx: &Context<'_>,
        lent: &mut Lent,
    ) -> Poll<io::Result<()>> {
        lent.give_back(&mut self.pool);
        let n = ready!(self.poll_readable(id, cx))?;
        let flow = self.flows.get_mut(&id).filter(|_| n > 0);
        let Some(flow) = flow else { return Poll::Ready(Ok(())) };
        let n = lent.take_from(&mut flow.receive, &mut self.pool, n);
        self.memory.settle(flow);
        if n == 0 {
            return Poll::Ready(Err(not_there()));
        }
        self.has_read(now, id, n);
        Poll::Ready(Ok(()))
    }

    /// Takes back blocks that were read.
    pub(crate) fn take_back(&mut self, lent: &mut Lent) {
        lent.give_back(&mut self.pool);
    }

    /// Takes back everything that was lent, as the reader is gone.
    pub(crate) fn end_lending(&mut self, id: ConnectionId, lent: &mut Lent) {
        let unread = lent.end(&mut self.pool);
        if let Some(flow) = self.flows.get_mut(&id) {
            flow.read -= unread;
        }
    }

    /// Records that `n` more bytes were passed to the reader.
    fn has_read(&mut self, now: Time, id: ConnectionId, n: u64) {
        let Some(flow) = self.flows.get_mut(&id) else { return };
        flow.read += n;
        if flow.ended.is_none() {
            self.endpoint.consume(now, id, n);
            self.stirred = true;
        }
    }

    pub(crate) fn poll_write(
        &mut self,
        now: Time,
        id: ConnectionId,
        cx: &Context<'_>,
        from: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.check()?;
        let Some(flow) = self.flows.get_mut(&id) else {
            return Poll::Ready(Err(io::ErrorKind::NotConnected.into()));
        };
        if flow.ended.is_some() || flow.shut {
            let error = flow.error().unwrap_or_else(|| {
                io::Error::new(
                    io::ErrorKind::BrokenPipe,
                    "this side has closed its direction of the connection",
                )
            });
            return Poll::Ready(Err(error));
        }
        if from.is_empty() {
            return Poll::Ready(Ok(0));
        }
        let space = if self.endpoint.send_buffer_follows(id) {
            flow.unsent_space(self.endpoint.freed(id))
        } else {
            // An application that fixes the size of its send buffer gets all of it.
            u64::MAX
        };
        if space == 0 {
            flow.unsent_awaited = true;
            flow.writer = Some(cx.waker().clone());
            return Poll::Pending;
        }
        let space = space.min(self.memory_space(id, cx));
        if space == 0 {
            return Poll::Pending;
        }
        let from = &from[..from.len().min(usize::try_from(space).unwrap_or(usize::MAX))];
        let accepted = self.endpoint.write(now, id, from.len() as u64) as usize;
        let Some(flow) = self.flows.get_mut(&id) else { return Poll::Pending };
        if accepted == 0 {
            flow.writer = Some(cx.waker().clone());
            return Poll::Pending;
        }
        flow.send.store(&mut self.pool, flow.written, &from[..accepted]);
        flow.written += accepted as u64;
        self.memory.settle(flow);
        self.expect_progress(now, id);
        (self.stirred, self.urgent) = (true, true);
        Poll::Ready(Ok(accepted))
    }

    /// Returns ready once the handshake is complete.
    pub(crate) fn poll_established(&mut self, id: ConnectionId, cx: &Context<'_>) -> Poll<io::Result<()>> {
        let failed = self.check();
        let Some(flow) = self.flows.get_mut(&id) else {
            return Poll::Ready(Err(io::ErrorKind::NotConnected.into()));
        };
        if flow.established {
            return Poll::Ready(Ok(()));
        }
        if let Some(error) = flow.error() {
            return Poll::Ready(Err(error));
        }
        failed?;
        flow.writer = Some(cx.waker().clone());
        Poll::Pending
    }

    pub(crate) fn shut(&mut self, now: Time, id: ConnectionId) -> io::Result<()> {
        self.check()?;
        let Some(flow) = self.flows.get_mut(&id) else { return Err(io::ErrorKind::NotConnected.into()) };
        if let Some(error) = flow.error() {
            return Err(error);
        }
        if !flow.shut {
            flow.shut = true;
            self.endpoint.close(now, id);
            self.stirred = true;
        }
        Ok(())
    }

    /// Returns ready once all written data and the end of the stream have been acknowledged.
    pub(crate) fn poll_drained(&mut self, id: ConnectionId, cx: &Context<'_>) -> Poll<io::Result<()>> {
        let failed = self.check();
        let Some(flow) = self.flows.get_mut(&id) else {
            return Poll::Ready(Err(io::ErrorKind::NotConnected.into()));
        };
        if flow.drained || flow.ended.is_some() {
            return Poll::Ready(flow.error().filter(|_| !flow.drained).map_or(Ok(()), Err));
        }
        failed?;
        flow.closer = Some(cx.waker().clone());
        Poll::Pending
    }

    pub(crate) fn abort(&mut self, now: Time, id: ConnectionId) {
        if self.flows.get(&id).is_some_and(|flow| flow.ended.is_none()) {
            self.endpoint.abort(now, id);
            self.stirred = true;
        }
    }

    /// Releases a connection after its stream was dropped.
    pub(crate) fn release(&mut self, now: Time, id: ConnectionId) {
        let mut woken = Vec::new();
        let live = self.endpoint.received(id);
        let Some(flow) = self.flows.get_mut(&id) else { return };
        flow.orphan = true;
        (flow.reader, flow.writer, flow.closer) = (None, None, None);
        let unread = flow.received.max(live) > flow.read;
        let (linger, drained, shut) = (flow.linger, flow.drained, flow.shut);
        if flow.ended.is_some() || self.failure.is_some() {
            self.forget(id, &mut woken);
        } else if unread || linger == Some(Duration::ZERO) || !flow.established {
            // Unread data is lost, and the peer must not assume otherwise (RFC 9293 section 3.9.1.4).
            self.endpoint.abort(now, id);
        } else {
            if !shut {
                if let Some(flow) = self.flows.get_mut(&id) {
                    flow.shut = true;
                }
                self.endpoint.close(now, id);
            }
            if let Some(linger) = linger {
                self.abort_at(now + linger, id);
            }
            if drained {
                self.abort_at(now + ORPHAN_WAIT, id);
            }
        }
        self.stirred = true;
        woken.into_iter().for_each(Waker::wake);
    }

    pub(crate) fn set_flow_size(&mut self, id: ConnectionId, size: Option<u64>) {
        self.endpoint.set_flow_size(id, size.map(Bytes));
    }

    pub(crate) fn written(&self, id: ConnectionId) -> u64 {
        self.flows.get(&id).map_or(0, |flow| flow.written)
    }

    /// Returns where the record of a connection will be.
    pub(crate) fn observe(&mut self, id: ConnectionId) -> Observed {
        let Some(flow) = self.flows.get_mut(&id) else { return Observed::default() };
        let observed = Arc::clone(flow.observed.get_or_insert_default());
        if let Some(ended) = &flow.ended {
            let _ = observed.set(Arc::clone(ended));
        }
        observed
    }

    pub(crate) fn stats(&self, id: ConnectionId) -> ConnectionStats {
        let ended = self.flows.get(&id).and_then(|flow| flow.ended.as_ref());
        ended.map(|ending| ending.stats).or_else(|| self.endpoint.stats(id)).unwrap_or_default()
    }

    pub(crate) fn subflow_stats(&self, id: ConnectionId) -> Vec<SubflowStats> {
        let ended = self.flows.get(&id).and_then(|flow| flow.ended.as_ref());
        ended.map_or_else(|| self.endpoint.subflow_stats(id), |ending| ending.subflows.clone())
    }
}
