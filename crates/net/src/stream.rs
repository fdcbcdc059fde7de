//! A connection as a byte stream.

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

use crate::flow::Observed;
use crate::lent::Lent;
use crate::shared::Handle;

/// The state that both halves of a stream share. When the last half is dropped, the connection is closed.
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
                    // The bytes written so far count; the same result is returned by the next call.
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

/// The reading side of a connection, with the data lent to it.
#[derive(Debug)]
struct Reading {
    connection: Arc<Connection>,
    lent: Lent,
}

impl Reading {
    /// Reads lent data first, and copies further data from the host.
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
/// It reads and writes like a [`TcpStream`](tokio::net::TcpStream): `shutdown` ends this side's direction and
/// leaves the other open. Dropping it closes it in order, in the background, unless received data was not
/// read: then the connection is reset, because lost data must not count as read.
///
/// As an [`AsyncBufRead`] it lends received data in pieces of up to 16 KiB without copying it, for
/// applications that inspect bytes and forward them. Up to 64 KiB count as read for the peer's window once
/// they are lent.
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

    /// Returns a handle that controls and observes the connection without keeping it open.
    pub fn control(&self) -> StreamControl {
        let Connection { handle, id } = &*self.reading.connection;
        let ended = handle.shared().lock().observe(*id);
        StreamControl { handle: handle.clone(), id: *id, ended }
    }

    /// Returns the number of the connection among all of its host, as in a [`Notice`](crate::Notice).
    pub fn number(&self) -> u64 {
        let Connection { handle, id } = &*self.reading.connection;
        handle.shared().lock().flows.get(id).map_or(0, |flow| flow.number)
    }

    fn ends(&self) -> Option<(Address, Address)> {
        let Connection { handle, id } = &*self.reading.connection;
        handle.shared().lock().flows.get(id).map(|flow| (flow.local, flow.remote))
    }

    /// Returns the local address of its first subflow.
    pub fn local_address(&self) -> SocketAddr {
        let local = self.ends().map_or(UNKNOWN, |(local, _)| local);
        SocketAddr::new(local.ip, local.port)
    }

    /// Returns the remote address of its first subflow.
    pub fn remote_address(&self) -> SocketAddr {
        let remote = self.ends().map_or(UNKNOWN, |(_, remote)| remote);
        SocketAddr::new(remote.ip, remote.port)
    }

    /// Returns its counters.
    pub fn stats(&self) -> ConnectionStats {
        let Connection { handle, id } = &*self.reading.connection;
        handle.shared().lock().stats(*id)
    }

    /// Returns its subflows, including those that have ended, in the order in which they began.
    pub fn subflow_stats(&self) -> Vec<SubflowStats> {
        let Connection { handle, id } = &*self.reading.connection;
        handle.shared().lock().subflow_stats(*id)
    }

    /// Sets the flow size, see [`StreamControl::set_flow_size`].
    pub fn set_flow_size(&self, size: Option<u64>) {
        let Connection { handle, id } = &*self.reading.connection;
        handle.shared().act(|core, _| core.set_flow_size(*id, size));
    }

    /// Returns the number of bytes written so far.
    pub fn written(&self) -> u64 {
        let Connection { handle, id } = &*self.reading.connection;
        handle.shared().lock().written(*id)
    }

    /// Returns all bytes that are lent, in order: those of [`fill_buf`](tokio::io::AsyncBufReadExt::fill_buf) and the pieces after them, four at
    /// most. [`consume`](AsyncBufRead::consume) may span several.
    pub fn lent(&self) -> impl Iterator<Item = &[u8]> {
        self.reading.lent.all()
    }

    /// Sets the treatment of unacknowledged data when the stream is dropped: by default the connection
    /// continues in the background while the peer makes progress; with a time it is aborted after that time,
    /// at once if it is zero.
    pub fn set_linger(&self, linger: Option<core::time::Duration>) {
        let Connection { handle, id } = &*self.reading.connection;
        let linger = linger.map(|linger| Duration(u64::try_from(linger.as_nanos()).unwrap_or(u64::MAX)));
        if let Some(flow) = handle.shared().lock().flows.get_mut(id) {
            flow.linger = linger;
        }
    }

    /// Ends the connection at once on both sides: with MP_FASTCLOSE, or with a reset for plain TCP.
    pub fn abort(&self) {
        let Connection { handle, id } = &*self.reading.connection;
        handle.shared().act(|core, now| core.abort(now, *id));
    }

    /// Waits, after `shutdown`, until the peer has acknowledged all data and the end of the stream.
    ///
    /// # Errors
    /// If the connection ends before.
    pub async fn drained(&self) -> io::Result<()> {
        let Connection { handle, id } = &*self.reading.connection;
        std::future::poll_fn(|cx| handle.shared().lock().poll_drained(*id, cx)).await
    }

    /// Splits the stream into two halves that can live in different tasks. When the writing half is dropped,
    /// its direction is closed; when both are, so is the connection.
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
        // Writes are not buffered here.
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.reading.connection.shut())
    }
}

/// Controls and observes a connection while its stream is elsewhere. It does not keep the connection open, and
/// has no effect after the connection has ended.
#[derive(Clone, Debug)]
pub struct StreamControl {
    handle: Handle,
    id: ConnectionId,
    ended: Observed,
}

impl StreamControl {
    /// Informs the scheduler of the total number of bytes of the flow, including those written already; none
    /// if it is unknown.
    pub fn set_flow_size(&self, size: Option<u64>) {
        self.handle.shared().act(|core, _| core.set_flow_size(self.id, size));
    }

    /// Returns the number of bytes written so far.
    pub fn written(&self) -> u64 {
        self.handle.shared().lock().written(self.id)
    }

    /// Returns the connection's counters: the last ones, once it has ended.
    pub fn stats(&self) -> ConnectionStats {
        let core = self.handle.shared().lock();
        self.ended.get().map_or_else(|| core.stats(self.id), |ended| ended.stats)
    }

    /// Returns its subflows, including those that have ended, in the order in which they began.
    pub fn subflow_stats(&self) -> Vec<SubflowStats> {
        let core = self.handle.shared().lock();
        self.ended.get().map_or_else(|| core.subflow_stats(self.id), |ended| ended.subflows.clone())
    }

    /// Asks the peer (MP_PRIO) to use a subflow only when no other works, or to use it like the others again,
    /// and does the same here.
    pub fn set_backup(&self, subflow: SubflowId, backup: bool) {
        self.handle.shared().act(|core, _| {
            core.endpoint.set_backup(self.id, subflow, backup);
            core.stirred = true;
        });
    }

    /// Opens an additional subflow from one of this host's addresses, on either side, as the client's path
    /// manager does by itself; the peer has to listen at `remote`. Returns whether it will be attempted: not
    /// before the peer has proved that it knows the keys, beyond the limit of subflows, once both streams
    /// have ended, or on plain TCP.
    pub fn open_subflow(&self, local: IpAddr, remote: SocketAddr) -> bool {
        self.handle.shared().act(|core, _| {
            core.stirred = true;
            let remote = Address::new(remote.ip(), remote.port());
            core.endpoint.open_subflow(self.id, local, remote)
        })
    }

    /// Ends the connection at once.
    pub fn abort(&self) {
        self.handle.shared().act(|core, now| core.abort(now, self.id));
    }

    /// Counts memory that is held elsewhere for this connection, such as data still to be written, as if it
    /// were in its buffers: see [`HostBuilder::buffer_memory`](crate::HostBuilder::buffer_memory). Grants up
    /// to `most` bytes, in blocks of 16 KiB; waits while there are none for this client. To be called by the
    /// task that writes to the stream.
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
    /// Returns the charged bytes, which count against the connection's memory until this is dropped.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.handle.shared().act(|core, _| core.discharge(self.id, self.bytes));
    }
}

/// The reading half.
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

/// Lends received data, as [`MptcpStream`] does.
impl AsyncBufRead for OwnedReadHalf {
    fn poll_fill_buf(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<&[u8]>> {
        self.get_mut().reading.poll_fill_buf(cx)
    }

    fn consume(mut self: Pin<&mut Self>, n: usize) {
        self.reading.lent.consume(n);
    }
}

/// The writing half.
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
        // The direction has ended already, or ends now.
        let _ = self.connection.shut();
    }
}
