//! TLS 1.3 between the two sides, over either transport.
//!
//! Every connection is encrypted or there is none: a [`Tls`] that dials never falls back, and one that listens refuses
//! everything else. The messages of the Convert protocol and their authentication are inside. 0-RTT data, which can be
//! replayed, is neither sent nor accepted.

mod identity;
#[cfg(test)]
mod tests;
mod trust;

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use anabranch_scenario::policy::proxy::{Budget, Cap, Price, Treatment};
use rustls::crypto::{CryptoProvider, ring};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, ReadBuf};
use tokio::time::timeout;
use tokio_rustls::{TlsAcceptor, TlsConnector, TlsStream};

pub use identity::{Identity, new_certificate};
pub use trust::{PublicKeyPin, Trust};

use super::{Accept, Link, LinkReport, Stream, Transport};

/// The time for a handshake.
const HANDSHAKE_TIME: Duration = Duration::from_secs(15);
/// The time in which a peer may read the reason that its handshake was refused.
const LAST_WORDS: Duration = Duration::from_secs(2);

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

/// A transport with TLS over it.
#[derive(Clone, Debug)]
pub struct Tls<T> {
    transport: T,
    role: Role,
}

#[derive(Clone, Debug)]
enum Role {
    Client(Trust),
    Server(Identity),
}

impl<T: Transport> Tls<T> {
    /// Returns the transport of a client, which accepts only servers that `trust` accepts.
    pub fn client(transport: T, trust: Trust) -> Tls<T> {
        Tls { transport, role: Role::Client(trust) }
    }

    /// Returns the transport of a server with this certificate.
    pub fn server(transport: T, identity: Identity) -> Tls<T> {
        Tls { transport, role: Role::Server(identity) }
    }

    fn acceptor(&self) -> io::Result<TlsAcceptor> {
        match &self.role {
            Role::Server(identity) => Ok(identity.acceptor()),
            Role::Client(_) => {
                Err(io::Error::new(io::ErrorKind::Unsupported, "this is the transport of a client"))
            }
        }
    }
}

impl<T: Transport> Transport for Tls<T> {
    type Link = TlsLink<T::Link>;
    type Listener = TlsListener<T::Listener>;

    fn name(&self) -> &'static str {
        self.transport.name()
    }

    fn check(&self, how: &Treatment) -> Result<(), String> {
        self.transport.check(how)
    }

    fn set_budgets(&self, budgets: &[Budget]) -> Result<(), String> {
        self.transport.set_budgets(budgets)
    }

    fn set_caps(&self, caps: &[Cap]) -> Result<(), String> {
        self.transport.set_caps(caps)
    }

    fn set_prices(&self, prices: &[Price]) -> Result<(), String> {
        self.transport.set_prices(prices)
    }

    async fn dial(&self, to: SocketAddr, how: &Treatment) -> io::Result<TlsLink<T::Link>> {
        let Role::Client(trust) = &self.role else {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "this is the transport of a server"));
        };
        let link = self.transport.dial(to, how).await?;
        let connecting = TlsConnector::from(trust.config()).connect(trust.name(), link);
        match timeout(HANDSHAKE_TIME, connecting).await {
            Ok(Ok(stream)) => Ok(TlsLink(State::Open(Box::new(stream.into())))),
            Ok(Err(error)) => Err(io::Error::other(trust::words(&error))),
            Err(_) => Err(io::Error::new(io::ErrorKind::TimedOut, "it has not answered the TLS handshake")),
        }
    }

    fn listen(&self, at: SocketAddr) -> io::Result<TlsListener<T::Listener>> {
        let acceptor = self.acceptor()?;
        Ok(TlsListener { listener: self.transport.listen(at)?, acceptor })
    }

    fn adopt(&self, socket: std::net::TcpListener) -> io::Result<TlsListener<T::Listener>> {
        let acceptor = self.acceptor()?;
        Ok(TlsListener { listener: self.transport.adopt(socket)?, acceptor })
    }
}

/// A listening port.
pub struct TlsListener<A> {
    listener: A,
    acceptor: TlsAcceptor,
}

impl<A: Accept> Accept for TlsListener<A> {
    type Link = TlsLink<A::Link>;

    fn split(self) -> Vec<TlsListener<A>> {
        let parts = self.listener.split().into_iter();
        parts.map(|listener| TlsListener { listener, acceptor: self.acceptor.clone() }).collect()
    }

    /// Returns the next connection before its handshake, so that a slow client does not delay others.
    async fn accept(&mut self) -> io::Result<(TlsLink<A::Link>, SocketAddr)> {
        let (link, peer) = self.listener.accept().await?;
        Ok((TlsLink(State::Accepted(Some(Box::new((link, self.acceptor.clone()))))), peer))
    }
}

/// A connection.
pub struct TlsLink<L>(State<L>);

enum State<L> {
    /// Before its handshake; none if that has failed.
    Accepted(Option<Box<(L, TlsAcceptor)>>),
    /// After its handshake.
    Open(Box<TlsStream<L>>),
}

impl<L> TlsLink<L> {
    /// Returns the connection after its handshake.
    fn open(&mut self) -> io::Result<Pin<&mut TlsStream<L>>>
    where
        L: Link,
    {
        match &mut self.0 {
            State::Open(stream) => Ok(Pin::new(stream)),
            State::Accepted(_) => Err(io::ErrorKind::NotConnected.into()),
        }
    }
}

impl<L: Link> Stream for TlsLink<L> {
    /// Announces it without the overhead of TLS.
    fn set_remaining(&self, remaining: Option<u64>) {
        if let State::Open(stream) = &self.0 {
            stream.get_ref().0.set_remaining(remaining);
        }
    }

    fn note_paths(&self) {
        if let State::Open(stream) = &self.0 {
            stream.get_ref().0.note_paths();
        }
    }
}

impl<L: Link> Link for TlsLink<L> {
    async fn prepare(&mut self) -> io::Result<()> {
        let State::Accepted(accepted) = &mut self.0 else { return Ok(()) };
        let (link, acceptor) = *accepted.take().ok_or(io::ErrorKind::NotConnected)?;
        match acceptor.accept(link).into_fallible().await {
            Ok(stream) => {
                self.0 = State::Open(Box::new(stream.into()));
                Ok(())
            }
            Err((error, link)) => {
                let _ = timeout(LAST_WORDS, end(link)).await;
                Err(error)
            }
        }
    }

    fn reset(self) {
        match self.0 {
            State::Accepted(Some(accepted)) => accepted.0.reset(),
            State::Accepted(None) => {}
            State::Open(stream) => match *stream {
                TlsStream::Client(stream) => stream.into_inner().0.reset(),
                TlsStream::Server(stream) => stream.into_inner().0.reset(),
            },
        }
    }

    const USES_SIZE: bool = L::USES_SIZE;

    fn report(&self) -> LinkReport {
        match &self.0 {
            State::Accepted(accepted) => {
                accepted.as_ref().map(|accepted| accepted.0.report()).unwrap_or_default()
            }
            State::Open(stream) => stream.get_ref().0.report(),
        }
    }
}

/// Ends a connection after a refused handshake. The peer has sent more, and a reset that it causes could overtake the alert
/// with the reason: so it is read for a moment.
async fn end<L: Link>(mut link: L) {
    let _ = link.shutdown().await;
    let mut buffer = [0; 1024];
    for _ in 0..64 {
        if !link.read(&mut buffer).await.is_ok_and(|n| n > 0) {
            break;
        }
    }
}

impl<L: Link> AsyncRead for TlsLink<L> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.open()?.poll_read(cx, buf)
    }
}

impl<L: Link> AsyncWrite for TlsLink<L> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, from: &[u8]) -> Poll<io::Result<usize>> {
        self.open()?.poll_write(cx, from)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.open()?.poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.open()?.poll_shutdown(cx)
    }
}
