//! A connection as a stream of bytes.

use std::io::{self, IoSlice};
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use anabranch_stack::event::{ConnectionId, SubflowId};
use anabranch_stack::segment::Address;
use anabranch_stack::stats::{ConnectionStats, SubflowStats};
use anabranch_units::Duration;
use tokio::io::{AsyncBufRead, AsyncRead, AsyncWrite, ReadBuf};

use crate::host::Handle;
use crate::lent::Lent;

/// What both halves of a stream hold. When the last goes, the connection is closed.
#[derive(Debug)]
struct Connection {
    handle: Handle,
    id: ConnectionId,
}

impl Connection {
    fn poll_write(&self, cx: &mut Context<'_>, from: &[u8]) -> Poll<io::Result<usize>> {
        self.handle.shared().act(|core, now| core.poll_write(now, self.id, cx, from))
    }

    fn poll_write_vectored(&self, cx: &mut Context<'_>, bufs: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        self.handle.shared().act(|core, now| {
            let mut written = 0;
            for buf in bufs.iter().filter(|buf| !buf.is_empty()) {
                match core.poll_write(now, self.id, cx, buf) {
                    Poll::Ready(Ok(n)) if n == buf.len() => written += n,
                    Poll::Ready(Ok(n)) => return Poll::Ready(Ok(written + n)),
                    // What was written counts; the rest comes up again.
                    _ if written > 0 => break,
                    other => return other,
                }
            }
            Poll::Ready(Ok(written))
        })
    }

    fn shut(&self) -> io::Result<()> {
        self.handle.shared().act(|core, now| core.shut(now, self.id))
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.handle.shared().act(|core, now| core.release(now, self.id));
    }
}

/// The reading side of a connection, with what it was lent.
#[derive(Debug)]
struct Reading {
    connection: Arc<Connection>,
    lent: Lent,
}

impl Reading {
    /// What was lent comes first; what is still with the host is copied from there.
    fn poll_read(&mut self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let bytes = self.lent.bytes();
        if bytes.is_empty() {
            let Connection { handle, id } = &*self.connection;
            let lent = &mut self.lent;
            return handle.shared().act(|core, now| {
                core.take_back(lent);
                core.poll_read(now, *id, cx, buf)
            });
        }
        let n = bytes.len().min(buf.remaining());
        buf.put_slice(&bytes[..n]);
        self.lent.consume(n);
        Poll::Ready(Ok(()))
    }

    fn poll_fill_buf(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<&[u8]>> {
        let Reading { connection, lent } = self;
        if lent.bytes().is_empty() {
            let Connection { handle, id } = &**connection;
            ready!(handle.shared().act(|core, now| core.poll_lend(now, *id, cx, lent)))?;
        }
        Poll::Ready(Ok(lent.bytes()))
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        if self.lent.holds_any() {
            let Connection { handle, id } = &*self.connection;
            handle.shared().act(|core, _| core.end_lending(*id, &mut self.lent));
        }
    }
}

/// A connection.
///
/// It reads and writes like a [`TcpStream`](tokio::net::TcpStream): `shutdown` ends this side's direction
/// and leaves the other open. Dropping it closes it in order, in the background, unless something that the
/// peer has sent was not read: then it is reset, as what is lost must not pass for read.
///
/// As an [`AsyncBufRead`] it lends what has arrived, in pieces of up to 16 KiB, and copies nothing: for whoever
/// looks at bytes and passes them on. Up to 64 KiB count as read for the peer's window once they are lent.
#[derive(Debug)]
pub struct MptcpStream {
    reading: Reading,
}

impl MptcpStream {
    pub(crate) fn new(handle: Handle, id: ConnectionId) -> MptcpStream {
        let connection = Arc::new(Connection { handle, id });
        MptcpStream { reading: Reading { connection, lent: Lent::default() } }
    }

    /// Waits for the handshake.
    pub(crate) async fn established(&self) -> io::Result<()> {
        let Connection { handle, id } = &*self.reading.connection;
        std::future::poll_fn(|cx| handle.shared().lock().poll_established(*id, cx)).await
    }

    /// A handle that asks and tells about the connection, and does not keep it open.
    pub fn control(&self) -> StreamControl {
        let Connection { handle, id } = &*self.reading.connection;
        StreamControl { handle: handle.clone(), id: *id }
    }

    /// The number of the connection among all of its host, as in a [`Notice`](crate::Notice).
    pub fn number(&self) -> u64 {
        let Connection { handle, id } = &*self.reading.connection;
        handle.shared().lock().flows.get(id).map_or(0, |flow| flow.number)
    }

    fn ends(&self) -> Option<(Address, Address)> {
        let Connection { handle, id } = &*self.reading.connection;
        handle.shared().lock().flows.get(id).map(|flow| (flow.local, flow.remote))
    }

    /// The address at which its first subflow begins.
    pub fn local_address(&self) -> SocketAddr {
        let local = self.ends().map_or(UNKNOWN, |(local, _)| local);
        SocketAddr::new(local.ip, local.port)
    }

    /// The address at which its first subflow ends.
    pub fn remote_address(&self) -> SocketAddr {
        let remote = self.ends().map_or(UNKNOWN, |(_, remote)| remote);
        SocketAddr::new(remote.ip, remote.port)
    }

    /// Its counters.
    pub fn stats(&self) -> ConnectionStats {
        let Connection { handle, id } = &*self.reading.connection;
        handle.shared().lock().stats(*id)
    }

    /// Its subflows, the ended ones included, in the order in which they began.
    pub fn subflow_stats(&self) -> Vec<SubflowStats> {
        let Connection { handle, id } = &*self.reading.connection;
        handle.shared().lock().subflow_stats(*id)
    }

    /// As [`StreamControl::set_flow_size`].
    pub fn set_flow_size(&self, size: Option<u64>) {
        self.control().set_flow_size(size);
    }

    /// How many bytes were written so far.
    pub fn written(&self) -> u64 {
        self.control().written()
    }

    /// What happens when it is dropped with data that the peer has not acknowledged: without a time it goes
    /// on in the background while the peer makes progress; otherwise it is aborted after that time, at
    /// once if it is zero.
    pub fn set_linger(&self, linger: Option<core::time::Duration>) {
        let Connection { handle, id } = &*self.reading.connection;
        let linger = linger.map(|linger| Duration(u64::try_from(linger.as_nanos()).unwrap_or(u64::MAX)));
        if let Some(flow) = handle.shared().lock().flows.get_mut(id) {
            flow.linger = linger;
        }
    }

    /// Ends the connection at once, at both sides: MP_FASTCLOSE, or a reset for a plain TCP.
    pub fn abort(&self) {
        let Connection { handle, id } = &*self.reading.connection;
        handle.shared().act(|core, now| core.abort(now, *id));
    }

    /// After `shutdown`: waits until the peer has acknowledged all that was written, and the end.
    ///
    /// # Errors
    /// If the connection has ended before.
    pub async fn drained(&self) -> io::Result<()> {
        let Connection { handle, id } = &*self.reading.connection;
        std::future::poll_fn(|cx| handle.shared().lock().poll_drained(*id, cx)).await
    }

    /// Two halves that can live in different tasks. When the writing half is dropped, its direction is
    /// closed; when both are, so is the connection.
    pub fn into_split(self) -> (OwnedReadHalf, OwnedWriteHalf) {
        let connection = Arc::clone(&self.reading.connection);
        (OwnedReadHalf { reading: self.reading }, OwnedWriteHalf { connection })
    }
}

const UNKNOWN: Address = Address::new(std::net::IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED), 0);

impl AsyncRead for MptcpStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.reading.poll_read(cx, buf)
    }
}

impl AsyncBufRead for MptcpStream {
    fn poll_fill_buf(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<&[u8]>> {
        self.get_mut().reading.poll_fill_buf(cx)
    }

    fn consume(mut self: Pin<&mut Self>, n: usize) {
        self.reading.lent.consume(n);
    }
}

impl AsyncWrite for MptcpStream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, from: &[u8]) -> Poll<io::Result<usize>> {
        self.reading.connection.poll_write(cx, from)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.reading.connection.poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        // Nothing waits here for more.
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.reading.connection.shut())
    }
}

/// Asks and tells about a connection whose stream is somewhere else. It does not keep the connection open,
/// and once that is gone it tells nothing.
#[derive(Clone, Debug)]
pub struct StreamControl {
    handle: Handle,
    id: ConnectionId,
}

impl StreamControl {
    /// Tells the scheduler how many bytes will have been written in all when the flow is done, those
    /// written already included; none if nobody knows.
    pub fn set_flow_size(&self, size: Option<u64>) {
        self.handle.shared().act(|core, _| core.set_flow_size(self.id, size));
    }

    /// How many bytes were written so far.
    pub fn written(&self) -> u64 {
        self.handle.shared().lock().flows.get(&self.id).map_or(0, |flow| flow.written)
    }

    /// The connection's counters.
    pub fn stats(&self) -> ConnectionStats {
        self.handle.shared().lock().stats(self.id)
    }

    /// Its subflows, the ended ones included, in the order in which they began.
    pub fn subflow_stats(&self) -> Vec<SubflowStats> {
        self.handle.shared().lock().subflow_stats(self.id)
    }

    /// Asks the peer to use a subflow only when no other works, or again like the others (MP_PRIO), and keeps
    /// to it here.
    pub fn set_backup(&self, subflow: SubflowId, backup: bool) {
        self.handle.shared().act(|core, now| {
            core.endpoint.set_backup(now, self.id, subflow, backup);
            core.stirred = true;
        });
    }

    /// Opens a further subflow from one of this host's addresses. Either side may, as the path manager of the
    /// client does by itself; the peer has to listen there. Returns whether it will be tried: not before the
    /// peer has shown that it knows the keys, not beyond the limit of subflows, not once both streams have ended,
    /// and not in a plain TCP.
    pub fn open_subflow(&self, local: IpAddr, remote: SocketAddr) -> bool {
        self.handle.shared().act(|core, now| {
            core.stirred = true;
            let remote = Address::new(remote.ip(), remote.port());
            core.endpoint.open_subflow(now, self.id, local, remote)
        })
    }

    /// Ends the connection at once.
    pub fn abort(&self) {
        self.handle.shared().act(|core, now| core.abort(now, self.id));
    }

    /// Counts memory that is held elsewhere for this connection, such as what is still to be written, as if it were in its
    /// buffers: see [`HostBuilder::buffer_memory`](crate::HostBuilder::buffer_memory). Grants up to `most` bytes, in
    /// blocks of 16 KiB; while there are none for this client it waits. To be called by the task that writes to the
    /// stream.
    ///
    /// # Errors
    /// If the connection has ended.
    pub fn poll_charge(&self, cx: &mut Context<'_>, most: u64) -> Poll<io::Result<Charge>> {
        let granted = self.handle.shared().act(|core, _| core.poll_charge(self.id, cx, most));
        granted.map_ok(|bytes| Charge { handle: self.handle.clone(), id: self.id, bytes })
    }
}

/// Memory that is counted for a connection until this is dropped.
#[derive(Debug)]
pub struct Charge {
    handle: Handle,
    id: ConnectionId,
    bytes: u64,
}

impl Charge {
    /// How much.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.handle.shared().act(|core, _| core.discharge(self.id, self.bytes));
    }
}

/// The half that reads.
#[derive(Debug)]
pub struct OwnedReadHalf {
    reading: Reading,
}

impl AsyncRead for OwnedReadHalf {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.reading.poll_read(cx, buf)
    }
}

/// Lends what has arrived, as [`MptcpStream`] does.
impl AsyncBufRead for OwnedReadHalf {
    fn poll_fill_buf(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<&[u8]>> {
        self.get_mut().reading.poll_fill_buf(cx)
    }

    fn consume(mut self: Pin<&mut Self>, n: usize) {
        self.reading.lent.consume(n);
    }
}

/// The half that writes.
#[derive(Debug)]
pub struct OwnedWriteHalf {
    connection: Arc<Connection>,
}

impl AsyncWrite for OwnedWriteHalf {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, from: &[u8]) -> Poll<io::Result<usize>> {
        self.connection.poll_write(cx, from)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.connection.poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.connection.shut())
    }
}

impl Drop for OwnedWriteHalf {
    fn drop(&mut self) {
        // It has ended already, or it does now.
        let _ = self.connection.shut();
    }
}
