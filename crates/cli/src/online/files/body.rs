//! The body of a response: a text, or a part of a file that is read at the client's pace.

use std::fs::File;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use anabranch_net::Charge;
use hyper::body::{Body, Buf, Bytes, Frame, SizeHint};
use tokio::task::JoinHandle;

/// The number of bytes of a file that are read first; each further read is twice as large.
const FIRST: u64 = 16 << 10;
/// The largest read.
const MOST: u64 = 256 << 10;

/// Grants up to a number of bytes of memory for a part of a file, or registers the caller.
pub(crate) type Grant = Arc<dyn Fn(&mut Context<'_>, u64) -> Poll<io::Result<Granted>> + Send + Sync>;

/// Memory that was granted.
pub(crate) struct Granted {
    pub bytes: u64,
    /// The charge, which is released on drop.
    pub charge: Option<Charge>,
}

/// A part of a body in memory.
pub(crate) struct Chunk {
    bytes: Bytes,
    _charge: Option<Charge>,
}

impl Buf for Chunk {
    fn remaining(&self) -> usize {
        self.bytes.remaining()
    }

    fn chunk(&self) -> &[u8] {
        self.bytes.chunk()
    }

    fn advance(&mut self, n: usize) {
        self.bytes.advance(n);
    }
}

/// The unread part of a file.
pub(crate) struct Rest {
    pub file: Arc<File>,
    pub at: u64,
    pub left: u64,
    next: u64,
    grant: Grant,
    reading: Option<(Reading, Option<Charge>)>,
}

/// A read of a part of the file, on a thread that may block.
type Reading = JoinHandle<io::Result<Vec<u8>>>;

/// The body of a response.
pub(crate) enum FileBody {
    Text(Bytes),
    File(Box<Rest>),
}

impl FileBody {
    /// Returns `left` bytes of `file` from `at` on.
    pub(crate) fn part(file: Arc<File>, at: u64, left: u64, grant: Grant) -> FileBody {
        FileBody::File(Box::new(Rest { file, at, left, next: FIRST, grant, reading: None }))
    }
}

impl Rest {
    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Chunk>> {
        loop {
            if let Some((reading, charge)) = &mut self.reading {
                let bytes = ready!(Pin::new(reading).poll(cx)).map_err(io::Error::other)??;
                let chunk = Chunk { bytes: bytes.into(), _charge: charge.take() };
                self.reading = None;
                self.at += chunk.remaining() as u64;
                self.left -= chunk.remaining() as u64;
                return Poll::Ready(Ok(chunk));
            }
            let granted = ready!((self.grant)(cx, self.left.min(self.next)))?;
            let (file, at, len) = (Arc::clone(&self.file), self.at, granted.bytes.min(self.left) as usize);
            self.next = (self.next * 2).min(MOST);
            // Allocated here: the other thread's allocations are returned to the system last.
            let mut bytes = Vec::with_capacity(len);
            let reading = tokio::task::spawn_blocking(move || {
                while bytes.len() < len {
                    let at = at + bytes.len() as u64;
                    match rustix::io::pread(&*file, rustix::buffer::spare_capacity(&mut bytes), at) {
                        Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                        Ok(_) | Err(rustix::io::Errno::INTR) => {}
                        Err(errno) => return Err(errno.into()),
                    }
                }
                bytes.truncate(len);
                Ok(bytes)
            });
            self.reading = Some((reading, granted.charge));
        }
    }
}

impl Body for FileBody {
    type Data = Chunk;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Chunk>, io::Error>>> {
        let chunk = match &mut *self {
            FileBody::Text(text) if text.is_empty() => return Poll::Ready(None),
            FileBody::Text(text) => Ok(Chunk { bytes: core::mem::take(text), _charge: None }),
            FileBody::File(rest) if rest.left == 0 => return Poll::Ready(None),
            FileBody::File(rest) => ready!(rest.poll_chunk(cx)),
        };
        Poll::Ready(Some(chunk.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        self.size_hint().exact() == Some(0)
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(match self {
            FileBody::Text(text) => text.len() as u64,
            FileBody::File(rest) => rest.left,
        })
    }
}
