//! A listening port.

use std::io;
use std::net::SocketAddr;
use std::task::{Context, Poll};

use crate::shared::Handle;
use crate::stream::MptcpStream;

/// Accepts connections. When it is dropped, connections that were not accepted are reset.
#[derive(Debug)]
pub struct MptcpListener {
    /// The stacks of the host.
    stacks: Vec<Handle>,
    /// The stack that is asked first.
    first: usize,
    port: u16,
}

impl MptcpListener {
    pub(crate) fn new(port: u16) -> MptcpListener {
        MptcpListener { stacks: Vec::new(), first: 0, port }
    }

    /// Adds a stack that listens at the port.
    pub(crate) fn add(&mut self, handle: Handle) {
        self.stacks.push(handle);
    }

    /// Returns a listener for each stack of the host, in the order of their runtimes ([`HostBuilder::runtimes`]). Only there its connections are
    /// processed, so they are best accepted and used there.
    ///
    /// [`HostBuilder::runtimes`]: crate::HostBuilder::runtimes
    pub fn split(mut self) -> Vec<MptcpListener> {
        let port = self.port;
        let stacks = core::mem::take(&mut self.stacks);
        stacks.into_iter().map(|stack| MptcpListener { stacks: vec![stack], first: 0, port }).collect()
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
        for turn in 0..self.stacks.len() {
            let at = (self.first + turn) % self.stacks.len();
            let handle = &self.stacks[at];
            let mut core = handle.shared().lock();
            core.check()?;
            let Some(listening) = core.listeners.get_mut(&self.port) else {
                return Poll::Ready(Err(io::ErrorKind::NotConnected.into()));
            };
            let Some(id) = listening.waiting.pop_front() else {
                listening.accepter = Some(cx.waker().clone());
                continue;
            };
            drop(core);
            let stream = MptcpStream::new(handle.clone(), id);
            let from = stream.remote_address();
            // The others are next.
            self.first = at + 1;
            return Poll::Ready(Ok((stream, from)));
        }
        Poll::Pending
    }
}

impl Drop for MptcpListener {
    fn drop(&mut self) {
        for stack in &self.stacks {
            stack.shared().act(|core, now| {
                core.endpoint.stop_listening(self.port);
                let waiting = core.listeners.remove(&self.port).map(|listening| listening.waiting);
                for id in waiting.into_iter().flatten() {
                    core.abort(now, id);
                    core.release(now, id);
                }
            });
        }
    }
}
