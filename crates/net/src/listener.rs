//! A listening port.

use std::io;
use std::net::SocketAddr;
use std::task::{Context, Poll};

use crate::shared::Handle;
use crate::stream::MptcpStream;

/// Accepts connections. When it is dropped, connections that were not accepted are reset.
#[derive(Debug)]
pub struct MptcpListener {
    handle: Handle,
    port: u16,
}

impl MptcpListener {
    pub(crate) fn new(handle: Handle, port: u16) -> MptcpListener {
        MptcpListener { handle, port }
    }

    /// Returns the TCP port on which it accepts connections, on every address.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns the next connection, and the address from which its first subflow was opened.
    ///
    /// # Errors
    /// If the host has stopped.
    pub async fn accept(&mut self) -> io::Result<(MptcpStream, SocketAddr)> {
        std::future::poll_fn(|cx| self.poll_accept(cx)).await
    }

    /// Polls for the next connection, as [`MptcpListener::accept`] does.
    pub fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<(MptcpStream, SocketAddr)>> {
        let mut core = self.handle.shared().lock();
        core.check()?;
        let Some(listening) = core.listeners.get_mut(&self.port) else {
            return Poll::Ready(Err(io::ErrorKind::NotConnected.into()));
        };
        let Some(id) = listening.waiting.pop_front() else {
            listening.accepter = Some(cx.waker().clone());
            return Poll::Pending;
        };
        drop(core);
        let stream = MptcpStream::new(self.handle.clone(), id);
        let from = stream.remote_address();
        Poll::Ready(Ok((stream, from)))
    }
}

impl Drop for MptcpListener {
    fn drop(&mut self) {
        self.handle.shared().act(|core, now| {
            core.endpoint.stop_listening(self.port);
            let waiting = core.listeners.remove(&self.port).map(|listening| listening.waiting);
            for id in waiting.into_iter().flatten() {
                core.abort(now, id);
                core.release(now, id);
            }
        });
    }
}
