//! The Multipath TCP between the two sides: the kernel's, or this project's in user space.

mod anabranch;
mod kernel;
pub mod tls;

use std::future::Future;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::task::{Context, Poll};

use anabranch_scenario::policy::proxy::{Budget, Cap, Price, Treatment};
use serde::Serialize;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

pub use anabranch::Anabranch;
pub(crate) use kernel::is_of_this_host;
pub use kernel::{Kernel, KernelLink, KernelListener};

/// Opens and accepts connections.
pub trait Transport: Clone + Send + Sync + 'static {
    /// A connection.
    type Link: Link;
    /// A listening port.
    type Listener: Accept<Link = Self::Link>;

    /// Returns its name, as on the command line.
    fn name(&self) -> &'static str;

    /// Checks that a connection can be treated so.
    ///
    /// # Errors
    /// The reason, with a remedy.
    fn check(&self, how: &Treatment) -> Result<(), String>;

    /// Replaces the budgets of metered paths.
    ///
    /// # Errors
    /// If it cannot keep them; with a remedy.
    fn set_budgets(&self, budgets: &[Budget]) -> Result<(), String>;

    /// Replaces the greatest rates of paths.
    ///
    /// # Errors
    /// If it cannot keep them; with a remedy.
    fn set_caps(&self, caps: &[Cap]) -> Result<(), String> {
        if caps.is_empty() {
            return Ok(());
        }
        Err("the kernel sends the packets of its connections itself, so `[[cap]]` needs --transport anabranch; for the kernel, root can give \
             the whole interface a rate: tc qdisc replace dev IFACE root tbf rate 5mbit burst 32kb latency 100ms"
            .to_owned())
    }

    /// Replaces the prices of paths.
    ///
    /// # Errors
    /// If it cannot keep them; with a remedy.
    fn set_prices(&self, prices: &[Price]) -> Result<(), String> {
        if prices.is_empty() {
            return Ok(());
        }
        Err("the kernel's path manager opens subflows on all paths, so `[[price]]` needs --transport anabranch; for the kernel, a metered \
             path can be a backup: ip mptcp endpoint add ADDRESS dev IFACE subflow backup"
            .to_owned())
    }

    /// Opens a connection.
    ///
    /// # Errors
    /// If there is none.
    fn dial(&self, to: SocketAddr, how: &Treatment) -> impl Future<Output = io::Result<Self::Link>> + Send;

    /// Listens at an address. The transport `anabranch` listens at all its addresses, and needs only the port.
    ///
    /// # Errors
    /// If the port is in use.
    fn listen(&self, at: SocketAddr) -> io::Result<Self::Listener>;

    /// Listens at a socket that the process was started with.
    ///
    /// # Errors
    /// If the transport has no sockets of the kernel.
    fn adopt(&self, socket: std::net::TcpListener) -> io::Result<Self::Listener>;
}

/// A listening port.
pub trait Accept: Send + Sized + 'static {
    /// A connection.
    type Link: Link;

    /// Returns a listener for each stack of a host with several: in the order of their runtimes, in which their connections are to be
    /// served.
    fn split(self) -> Vec<Self> {
        vec![self]
    }

    /// Returns the next connection and its peer.
    ///
    /// # Errors
    /// If the system refuses; it may be only for now.
    fn accept(&mut self) -> impl Future<Output = io::Result<(Self::Link, SocketAddr)>> + Send;
}

/// A stream of bytes that the proxy copies to another one.
pub trait Stream: AsyncRead + AsyncWrite + Unpin {
    /// Returns the kernel's socket, if all that is read from it and written to it is the payload of this stream.
    fn socket(&self) -> Option<&TcpStream> {
        None
    }

    /// Announces the amount of data that remains to be written; none if it is not known.
    fn set_remaining(&self, _remaining: Option<u64>) {}

    /// Keeps the bytes of its paths for its report: the kernel forgets the bytes of subflows that have ended. To be called before it is ended, and
    /// whenever the peer may have ended it.
    fn note_paths(&self) {}

    /// True if it lends received bytes, so that they are not copied.
    fn lends(&self) -> bool {
        false
    }

    /// Passes received bytes to `take`, which returns the number that it has taken; no bytes at the end of the stream. They are lent again
    /// if it has not taken them. To be called only if [`Stream::lends`].
    fn poll_lend(
        &mut self,
        _cx: &mut Context<'_>,
        _take: impl FnMut(&mut Context<'_>, &[IoSlice<'_>]) -> Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        Poll::Ready(Err(io::ErrorKind::Unsupported.into()))
    }
}

impl Stream for TcpStream {
    fn socket(&self) -> Option<&TcpStream> {
        Some(self)
    }
}

/// A connection. Its halves end apart; dropped without their ends, it is closed in order where it can be.
pub trait Link: Stream + Send + 'static {
    /// Completes an accepted connection: the handshake of TLS, if it has one. Then it can be read and written.
    ///
    /// # Errors
    /// If the peer does not begin as it has to; then the connection has ended.
    fn prepare(&mut self) -> impl Future<Output = io::Result<()>> + Send {
        std::future::ready(Ok(()))
    }

    /// Ends it at once, so that the peer gets an error.
    fn reset(self);

    /// True if its scheduler uses the amount of data that remains.
    const USES_SIZE: bool = false;

    /// Returns its paths.
    fn report(&self) -> LinkReport;
}

/// The paths of a connection.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LinkReport {
    /// True if it is Multipath TCP; false for plain TCP, from its beginning or after a fallback.
    pub mptcp: bool,
    /// Its subflows; for plain TCP its only path.
    pub subflows: Vec<SubflowReport>,
}

/// A path of a connection at the moment of the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct SubflowReport {
    /// The local address.
    pub local: SocketAddr,
    /// The remote address.
    pub remote: SocketAddr,
    /// The smoothed RTT; none without a sample.
    pub srtt_us: Option<u64>,
    /// The variation of the RTT; none if it is not known.
    pub variation_us: Option<u64>,
    /// The rate of the last delivery in bit/s; none if the application limited it, or it is not known.
    pub rate_bps: Option<u64>,
    /// Payload sent, retransmissions included.
    pub sent_bytes: u64,
    /// Payload received.
    pub received_bytes: u64,
    /// Payload retransmitted.
    pub retransmitted_bytes: u64,
}
