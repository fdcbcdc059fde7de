//! A connection to the server side: its data can be read once the server's answer was.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use crate::convert::{HEADER, length_of};
use crate::failure::Failure;
use crate::transport::{Link, LinkReport, Stream};

/// The beginning of an alert of TLS, by which a server refuses a connection without. // RFC 8446 section 5.1
const TLS_ALERT: [u8; 2] = [21, 3];

/// The failure of a gate, and true if another attempt may help.
#[derive(Debug)]
pub(crate) struct Refused(pub Failure, pub bool);

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for Refused {}

/// Returns the failure inside of an error.
pub(crate) fn refused(error: &io::Error) -> Option<&Refused> {
    error.get_ref().and_then(|inner| inner.downcast_ref())
}

/// A connection to the server side: data can be read once the server's answer was.
pub(crate) struct Gate<L> {
    link: L,
    waiting: Option<Box<Waiting>>,
}

pub(crate) struct Waiting {
    message: Vec<u8>,
    wanted: usize,
    judge: Box<Judge>,
}

/// Judges the answer of the server side.
type Judge = dyn Fn(&[u8]) -> io::Result<()> + Send;

impl Waiting {
    pub(crate) fn new(judge: Box<Judge>) -> Waiting {
        Waiting { message: Vec::new(), wanted: HEADER, judge }
    }
}

impl<L: Link> Gate<L> {
    pub(crate) fn new(link: L, waiting: Waiting) -> Gate<L> {
        Gate { link, waiting: Some(Box::new(waiting)) }
    }

    /// Reads the answer.
    pub(crate) fn poll_open(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while let Some(waiting) = &mut self.waiting {
            if waiting.message.len() == waiting.wanted {
                if waiting.wanted == HEADER {
                    let header = *waiting.message.first_chunk().unwrap_or(&[0; HEADER]);
                    let length = length_of(header);
                    waiting.wanted = length.map_err(|why| {
                        let text = if header[..2] == TLS_ALERT {
                            "the server side accepts only TLS; add --tls".to_owned()
                        } else {
                            format!("the server side speaks another protocol: {why}")
                        };
                        io::Error::other(Refused(Failure::Server(text), false))
                    })?;
                    if waiting.wanted > HEADER {
                        continue;
                    }
                }
                let judged = (waiting.judge)(&waiting.message);
                if judged.is_ok() {
                    self.waiting = None;
                }
                return Poll::Ready(judged);
            }
            let mut bytes = [0; 256];
            let missing = (waiting.wanted - waiting.message.len()).min(bytes.len());
            let mut read = ReadBuf::new(&mut bytes[..missing]);
            ready!(Pin::new(&mut self.link).poll_read(cx, &mut read))?;
            if read.filled().is_empty() {
                return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()));
            }
            waiting.message.extend_from_slice(read.filled());
        }
        Poll::Ready(Ok(()))
    }
}

impl<L: Link> AsyncRead for Gate<L> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        ready!(self.poll_open(cx))?;
        Pin::new(&mut self.link).poll_read(cx, buf)
    }
}

impl<L: Link> AsyncWrite for Gate<L> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, from: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.link).poll_write(cx, from)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.link).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.link).poll_shutdown(cx)
    }
}

impl<L: Link> Stream for Gate<L> {
    fn set_remaining(&self, remaining: Option<u64>) {
        self.link.set_remaining(remaining);
    }

    fn note_paths(&self) {
        self.link.note_paths();
    }

    fn lends(&self) -> bool {
        self.waiting.is_none() && self.link.lends()
    }

    fn poll_lend(
        &mut self,
        cx: &mut Context<'_>,
        take: impl FnMut(&mut Context<'_>, &[IoSlice<'_>]) -> Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        self.link.poll_lend(cx, take)
    }

    fn socket(&self) -> Option<&TcpStream> {
        if self.waiting.is_none() { self.link.socket() } else { None }
    }
}

impl<L: Link> Link for Gate<L> {
    const USES_SIZE: bool = L::USES_SIZE;

    fn reset(self) {
        self.link.reset();
    }

    fn report(&self) -> LinkReport {
        self.link.report()
    }
}
