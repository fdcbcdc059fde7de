//! Copies the bytes of two streams in both directions.
//!
//! The directions are independent: the end of one is passed on, and the other goes on. A connection that waits holds no
//! buffer: bytes are read into one buffer of the thread and written at once, and only the rest that the receiver does not
//! take is kept. From a socket of TCP to another socket of the kernel, a direction with much data is moved through a pipe by
//! `splice`, so that no process copies it. The kernel has no such way out of a socket of Multipath TCP: there `splice` copies too, into
//! pages that it allocates for each call, and reading is faster.

use std::cell::RefCell;
use std::future::Future as _;
use std::io;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use socket2::{Protocol, SockRef};
use tokio::io::{Interest, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use crate::pipe::{Pipe, is_unsupported};
use crate::sizes::Sizes;
use crate::transport::Stream;

/// The most bytes that are read at once.
const MOST: usize = 64 << 10;
/// The bytes of a call of `splice` below which reading is cheaper.
const FEW: usize = 16 << 10;
/// The least, for a receiver that is slower than the sender.
const LEAST: usize = 4 << 10;
/// Copies of one direction in a row, before other connections have their turn.
const TURNS: usize = 8;

thread_local! {
    static BUFFER: RefCell<Vec<u8>> = RefCell::new(vec![0; MOST]);
}

/// The reason that a relay has ended.
#[derive(Debug)]
pub(crate) enum End {
    /// Both directions have ended in order.
    Finished,
    /// No byte was sent for too long.
    Idle,
    /// A side has failed; both have to be reset.
    Failed(io::Error),
}

impl End {
    /// Returns it in a word, for the log.
    pub(crate) fn word(&self) -> &'static str {
        match self {
            End::Finished => "finished",
            End::Idle => "idle",
            End::Failed(_) => "failed",
        }
    }
}

#[derive(Debug)]
pub(crate) struct Direction {
    /// Bytes that were read and not written.
    held: Vec<u8>,
    written: usize,
    /// True if the receiver may hold bytes that it has taken: it has to pass them on before more are read.
    unflushed: bool,
    /// The number of bytes that may still be read; none for any.
    left: Option<u64>,
    /// The number of bytes of the next read.
    size: usize,
    /// True if the sender is a socket of Multipath TCP; none before that has counted.
    from_mptcp: Option<bool>,
    state: State,
    way: Way,
    /// The pipe, while bytes are in it.
    pipe: Option<Pipe>,
    /// The sizes of messages, if the receiver uses them.
    sizes: Option<Box<Sizes>>,
}

/// The way of the next bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Copy,
    /// The sender has filled the buffer: there is much data.
    Splice,
    /// The kernel has no `splice` for these sockets, or none that is faster.
    OnlyCopy,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Open,
    /// The sender has ended it; the receiver is notified.
    Ending,
    Ended,
}

impl Direction {
    /// Returns a direction that begins with the bytes `held`, and in which `left` more may follow.
    pub(crate) fn new(held: Vec<u8>, left: Option<u64>) -> Direction {
        Direction {
            held,
            written: 0,
            unflushed: true,
            left,
            size: MOST,
            from_mptcp: None,
            state: State::Open,
            way: Way::Copy,
            pipe: None,
            sizes: None,
        }
    }

    /// Returns the same direction that announces the sizes of its messages to the receiver.
    pub(crate) fn with_sizes(self, sizes: Option<Box<Sizes>>) -> Direction {
        Direction { sizes, ..self }
    }

    /// Copies as much as is possible now. Ready when the direction has ended.
    fn poll(
        &mut self,
        cx: &mut Context<'_>,
        from: &mut impl Stream,
        to: &mut impl Stream,
        count: &AtomicU64,
        moved: &mut bool,
    ) -> Poll<io::Result<()>> {
        for _ in 0..TURNS {
            while self.written < self.held.len() {
                let n = ready!(Pin::new(&mut *to).poll_write(cx, &self.held[self.written..]))?;
                if n == 0 {
                    return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
                }
                self.written += n;
                self.unflushed = true;
                count.fetch_add(n as u64, Ordering::Relaxed);
                *moved = true;
            }
            // Its memory is given back.
            (self.held, self.written) = (Vec::new(), 0);
            if self.unflushed {
                ready!(Pin::new(&mut *to).poll_flush(cx))?;
                self.unflushed = false;
            }
            match self.state {
                State::Ended => return Poll::Ready(Ok(())),
                State::Ending => {
                    to.note_paths();
                    ready!(Pin::new(&mut *to).poll_shutdown(cx))?;
                    self.state = State::Ended;
                    *moved = true;
                    return Poll::Ready(Ok(()));
                }
                // The end is not passed on: the destination closes the connection after its answer.
                State::Open if self.left == Some(0) => {
                    self.state = State::Ended;
                    return Poll::Ready(Ok(()));
                }
                State::Open => match (from.socket(), to.socket()) {
                    (Some(from), Some(to)) if self.is_spliced() => {
                        ready!(self.poll_splice(cx, from, to, count, moved))?;
                    }
                    _ if from.lends() && self.left.is_none() && self.sizes.is_none() => {
                        ready!(self.poll_pass(cx, from, to, count, moved))?;
                    }
                    _ => ready!(self.poll_copy(cx, from, to, count, moved))?,
                },
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// True if the next bytes are moved by `splice`. Bytes in the pipe are before all others.
    fn is_spliced(&self) -> bool {
        self.pipe.is_some() || self.way == Way::Splice && self.left.is_none()
    }

    /// Writes bytes that the sender lends. It keeps those that the receiver does not take.
    fn poll_pass(
        &mut self,
        cx: &mut Context<'_>,
        from: &mut impl Stream,
        to: &mut impl Stream,
        count: &AtomicU64,
        moved: &mut bool,
    ) -> Poll<io::Result<()>> {
        let mut has_ended = false;
        let n = ready!(from.poll_lend(cx, |cx, pieces| {
            has_ended = pieces.is_empty();
            if has_ended { Poll::Ready(Ok(0)) } else { Pin::new(&mut *to).poll_write_vectored(cx, pieces) }
        }))?;
        *moved = true;
        if has_ended {
            self.state = State::Ending;
        } else if n == 0 {
            return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
        }
        self.unflushed |= n > 0;
        count.fetch_add(n as u64, Ordering::Relaxed);
        Poll::Ready(Ok(()))
    }

    /// Reads once, and writes it.
    fn poll_copy(
        &mut self,
        cx: &mut Context<'_>,
        from: &mut impl Stream,
        to: &mut impl Stream,
        count: &AtomicU64,
        moved: &mut bool,
    ) -> Poll<io::Result<()>> {
        BUFFER.with_borrow_mut(|buffer| {
            let most =
                self.left.map_or(self.size, |left| usize::try_from(left).unwrap_or(self.size).min(self.size));
            let mut read = ReadBuf::new(&mut buffer[..most]);
            ready!(Pin::new(&mut *from).poll_read(cx, &mut read))?;
            let bytes = read.filled();
            *moved = true;
            if bytes.is_empty() {
                self.state = State::Ending;
                return Poll::Ready(Ok(()));
            }
            if let Some(remaining) = self.sizes.as_mut().and_then(|sizes| sizes.see(bytes)) {
                to.set_remaining(remaining);
            }
            if let Some(left) = &mut self.left {
                *left = left.saturating_sub(bytes.len() as u64);
            }
            let n = match Pin::new(&mut *to).poll_write(cx, bytes) {
                Poll::Ready(n) => n?,
                Poll::Pending => 0,
            };
            self.unflushed = true;
            count.fetch_add(n as u64, Ordering::Relaxed);
            if bytes.len() == MOST && self.way == Way::Copy {
                let is_cheap = from.socket().is_some() && !self.is_from_mptcp(from);
                self.way = if is_cheap { Way::Splice } else { Way::OnlyCopy };
            }
            if n < bytes.len() {
                self.held = bytes[n..].to_vec();
                // Linux announces the space in the buffer of a socket of Multipath TCP late if it is read in small pieces: then the
                // sender waits for its retransmission timer.
                self.size = if self.is_from_mptcp(from) { MOST } else { LEAST };
            } else {
                self.size = (self.size * 2).min(MOST);
            }
            Poll::Ready(Ok(()))
        })
    }
}

impl Direction {
    /// True if the sender is a socket of Multipath TCP.
    fn is_from_mptcp(&mut self, from: &impl Stream) -> bool {
        *self.from_mptcp.get_or_insert_with(|| from.socket().is_some_and(is_mptcp))
    }

    /// Moves the bytes in the pipe, and once it is empty those that the sender has.
    fn poll_splice(
        &mut self,
        cx: &mut Context<'_>,
        from: &TcpStream,
        to: &TcpStream,
        count: &AtomicU64,
        moved: &mut bool,
    ) -> Poll<io::Result<()>> {
        let Some(mut pipe) = self.pipe.take().or_else(Pipe::take) else {
            self.way = Way::Copy;
            self.size = MOST / 2;
            return Poll::Ready(Ok(()));
        };
        let polled = if pipe.filled() > 0 {
            let emptied = poll_io(cx, to, Interest::WRITABLE, || pipe.empty(to));
            emptied.map_ok(|n| {
                count.fetch_add(n as u64, Ordering::Relaxed);
                *moved = true;
            })
        } else {
            let filled = poll_io(cx, from, Interest::READABLE, || pipe.fill(from));
            filled.map_ok(|n| {
                *moved = true;
                match n {
                    0 => self.state = State::Ending,
                    1..FEW => self.way = Way::Copy,
                    _ => {}
                }
            })
        };
        match polled {
            Poll::Ready(Err(error)) if is_unsupported(&error) => {
                self.way = Way::OnlyCopy;
                self.held = pipe.read()?;
                pipe.give_back();
                Poll::Ready(Ok(()))
            }
            polled => {
                if pipe.filled() > 0 {
                    self.pipe = Some(pipe);
                } else {
                    pipe.give_back();
                }
                polled
            }
        }
    }
}

/// True if it is a socket of Multipath TCP, also after a fallback.
fn is_mptcp(socket: &TcpStream) -> bool {
    let protocol = SockRef::from(socket).protocol();
    protocol.is_ok_and(|protocol| protocol == Some(Protocol::MPTCP))
}

/// Calls `act` when the socket is ready for it, until it no more would block.
fn poll_io(
    cx: &mut Context<'_>,
    socket: &TcpStream,
    interest: Interest,
    mut act: impl FnMut() -> io::Result<usize>,
) -> Poll<io::Result<usize>> {
    loop {
        let is_ready = match interest {
            Interest::WRITABLE => socket.poll_write_ready(cx),
            _ => socket.poll_read_ready(cx),
        };
        ready!(is_ready)?;
        match socket.try_io(interest, &mut act) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            done => return Poll::Ready(done),
        }
    }
}

/// Copies between two streams until both directions have ended: `up` from `near` to `far`, and back. Counts the bytes of
/// both. At a tick of `asked`, `report` is called with `far`.
pub(crate) async fn relay<A, B>(
    near: &mut A,
    far: &mut B,
    mut up: Direction,
    counts: [&AtomicU64; 2],
    idle: Duration,
    mut asked: watch::Receiver<u64>,
    report: impl Fn(&B),
) -> End
where
    A: Stream,
    B: Stream,
{
    let mut down = Direction::new(Vec::new(), None);
    let mut last = Instant::now();
    let mut timer = pin!(sleep_until(last + idle));
    let mut is_watched = true;
    loop {
        let copying = std::future::poll_fn(|cx| {
            let mut moved = false;
            let there = up.poll(cx, near, far, counts[0], &mut moved);
            let back = down.poll(cx, far, near, counts[1], &mut moved);
            if moved {
                last = Instant::now();
                // A peer ends a connection that has ended here without notice.
                if there.is_ready() {
                    far.note_paths();
                }
                if back.is_ready() {
                    near.note_paths();
                }
            }
            match (there, back) {
                (Poll::Ready(Err(error)), _) | (_, Poll::Ready(Err(error))) => {
                    Poll::Ready(End::Failed(error))
                }
                (Poll::Ready(Ok(())), Poll::Ready(Ok(()))) => Poll::Ready(End::Finished),
                _ => {
                    while timer.as_mut().poll(cx).is_ready() {
                        if last.elapsed() >= idle {
                            return Poll::Ready(End::Idle);
                        }
                        timer.as_mut().reset(last + idle);
                    }
                    Poll::Pending
                }
            }
        });
        tokio::select! {
            biased;
            end = copying => return end,
            changed = asked.changed(), if is_watched => match changed {
                Ok(()) => report(far),
                Err(_) => is_watched = false,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, duplex};

    struct Ends {
        near: DuplexStream,
        far: DuplexStream,
        relay: tokio::task::JoinHandle<(End, u64, u64)>,
    }

    fn start(size: usize, up: Direction, idle: Duration) -> Ends {
        let (near, mut here) = duplex(size);
        let (mut there, far) = duplex(size);
        let relay = tokio::spawn(async move {
            let counts = [AtomicU64::new(0), AtomicU64::new(0)];
            let (_asks, asked) = watch::channel(0);
            let end = relay(&mut here, &mut there, up, counts.each_ref(), idle, asked, |_| {}).await;
            let [up, down] = counts.map(AtomicU64::into_inner);
            (end, up, down)
        });
        Ends { near, far, relay }
    }

    const HOUR: Duration = Duration::from_secs(3600);

    #[tokio::test]
    async fn each_direction_ends_by_itself() {
        let mut ends = start(10, Direction::new(b"first ".to_vec(), None), HOUR);
        ends.near.write_all(b"up").await.unwrap();
        ends.near.shutdown().await.unwrap();
        let mut got = String::new();
        ends.far.read_to_string(&mut got).await.unwrap();
        assert_eq!(got, "first up");
        // The other direction goes on for long.
        for _ in 0..1000 {
            ends.far.write_all(b"down").await.unwrap();
            let mut four = [0; 4];
            ends.near.read_exact(&mut four).await.unwrap();
            assert_eq!(&four, b"down");
        }
        ends.far.shutdown().await.unwrap();
        assert_eq!(ends.near.read(&mut [0]).await.unwrap(), 0);
        let (end, up, down) = ends.relay.await.unwrap();
        assert!(matches!(end, End::Finished));
        assert_eq!((up, down), (8, 4000));
    }

    #[tokio::test]
    async fn a_slow_receiver_gets_every_byte_in_order() {
        let mut ends = start(100, Direction::new(Vec::new(), None), HOUR);
        let sent: Vec<u8> = (0..500_000_u32).map(|at| (at * 7 / 3) as u8).collect();
        let writing = async {
            ends.near.write_all(&sent).await.unwrap();
            ends.near.shutdown().await.unwrap();
        };
        let mut got = Vec::new();
        tokio::join!(writing, async { ends.far.read_to_end(&mut got).await.unwrap() });
        assert!(got == sent);
    }

    /// Returns both ends of a connection of TCP.
    async fn connected() -> (TcpStream, TcpStream) {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        (near, listener.accept().await.unwrap().0)
    }

    #[tokio::test]
    async fn much_data_between_sockets_is_spliced_and_complete() {
        let (mut near, mut here) = connected().await;
        let (mut there, mut far) = connected().await;
        let relaying = tokio::spawn(async move {
            let counts = [AtomicU64::new(0), AtomicU64::new(0)];
            let (_asks, asked) = watch::channel(0);
            let up = Direction::new(b"first".to_vec(), None);
            let end = relay(&mut here, &mut there, up, counts.each_ref(), HOUR, asked, |_| {}).await;
            (end, counts.map(AtomicU64::into_inner))
        });
        let sent: Vec<u8> = (0..30_000_000_u32).map(|at| (at * 7 / 3) as u8).collect();
        let writing = async {
            near.write_all(&sent).await.unwrap();
            near.shutdown().await.unwrap();
        };
        let reading = async {
            // Read only once bytes wait in a pipe: the receiver is slower than the sender.
            for _ in 0..1_000_000 {
                if crate::pipe::count() > 0 {
                    break;
                }
                tokio::task::yield_now().await;
            }
            assert!(crate::pipe::count() > 0, "it is not spliced");
            let mut got = Vec::new();
            far.read_to_end(&mut got).await.unwrap();
            got
        };
        let ((), got) = tokio::join!(writing, reading);
        assert!(got[..5] == *b"first" && got[5..] == sent);
        far.write_all(b"answer").await.unwrap();
        far.shutdown().await.unwrap();
        let mut answer = String::new();
        near.read_to_string(&mut answer).await.unwrap();
        let (end, counted) = relaying.await.unwrap();
        assert!(answer == "answer" && matches!(end, End::Finished));
        assert_eq!(counted, [5 + sent.len() as u64, 6]);
    }

    /// A receiver that notes what remains.
    struct Noting(DuplexStream, std::cell::RefCell<Vec<Option<u64>>>);

    impl AsyncRead for Noting {
        fn poll_read(
            mut self: Pin<&mut Self>,
            cx: &mut Context<'_>,
            buf: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            Pin::new(&mut self.0).poll_read(cx, buf)
        }
    }

    impl AsyncWrite for Noting {
        fn poll_write(
            mut self: Pin<&mut Self>,
            cx: &mut Context<'_>,
            from: &[u8],
        ) -> Poll<io::Result<usize>> {
            Pin::new(&mut self.0).poll_write(cx, from)
        }

        fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
            Pin::new(&mut self.0).poll_flush(cx)
        }

        fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
            Pin::new(&mut self.0).poll_shutdown(cx)
        }
    }

    impl Stream for Noting {
        fn set_remaining(&self, remaining: Option<u64>) {
            self.1.borrow_mut().push(remaining);
        }
    }

    #[tokio::test]
    async fn the_receiver_knows_what_remains_before_it_is_written() {
        let (mut near, mut here) = duplex(100);
        let (there, mut far) = duplex(100);
        let mut there = Noting(there, std::cell::RefCell::default());
        let head = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n";
        near.write_all(head).await.unwrap();
        near.write_all(b"12345").await.unwrap();
        drop(near);
        let sizes = Some(Box::new(Sizes::new(crate::sizes::Messages::Responses, None)));
        let mut direction = Direction::new(Vec::new(), None).with_sizes(sizes);
        let moved = std::future::poll_fn(|cx| {
            direction.poll(cx, &mut here, &mut there, &AtomicU64::new(0), &mut false)
        });
        moved.await.unwrap();
        let mut got = Vec::new();
        far.read_to_end(&mut got).await.unwrap();
        assert_eq!(got.len(), head.len() + 5);
        assert_eq!(there.1.into_inner(), [Some(head.len() as u64 + 5)]);
    }

    /// Returns both ends of a connection; the second is a socket of Multipath TCP. None if this kernel has none.
    async fn connected_by_multipath() -> Option<(TcpStream, TcpStream)> {
        let (domain, kind) = (socket2::Domain::IPV4, socket2::Type::STREAM.nonblocking());
        let socket = socket2::Socket::new(domain, kind, Some(Protocol::MPTCP)).ok()?;
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let socket = tokio::net::TcpSocket::from_std_stream(socket.into());
        let here = socket.connect(listener.local_addr().unwrap()).await.unwrap();
        Some((listener.accept().await.unwrap().0, here))
    }

    /// Copies from a sender with much data until `is_enough`.
    async fn copied(
        (mut near, mut here): (TcpStream, TcpStream),
        mut to: impl Stream,
        is_enough: impl Fn(&Direction) -> bool,
    ) -> Direction {
        let sending = tokio::spawn(async move { near.write_all(&[0; 4 * MOST]).await });
        let mut direction = Direction::new(Vec::new(), None);
        let polling = std::future::poll_fn(|cx| {
            let polled = direction.poll(cx, &mut here, &mut to, &AtomicU64::new(0), &mut false);
            if polled.is_pending() && !is_enough(&direction) { Poll::Pending } else { Poll::Ready(()) }
        });
        polling.await;
        sending.abort();
        direction
    }

    #[tokio::test]
    async fn data_of_multipath_tcp_is_copied() {
        let Some(ends) = connected_by_multipath().await else { return };
        let is_known = |direction: &Direction| direction.way != Way::Copy;
        let (there, _far) = connected().await;
        assert_eq!(copied(ends, there, is_known).await.way, Way::OnlyCopy);
        let (there, _far) = connected().await;
        assert_eq!(copied(connected().await, there, is_known).await.way, Way::Splice);
    }

    #[tokio::test]
    async fn multipath_tcp_is_read_in_large_pieces_for_a_slow_receiver_too() {
        let Some(ends) = connected_by_multipath().await else { return };
        let is_slow = |direction: &Direction| !direction.held.is_empty();
        let slow = || {
            let (there, far) = duplex(100);
            (Noting(there, std::cell::RefCell::default()), far)
        };
        let (there, _far) = slow();
        assert_eq!(copied(ends, there, is_slow).await.size, MOST);
        let (there, _far) = slow();
        assert_eq!(copied(connected().await, there, is_slow).await.size, LEAST);
    }

    #[tokio::test]
    async fn no_byte_follows_a_bounded_direction() {
        let mut ends = start(100, Direction::new(b"GET".to_vec(), Some(2)), HOUR);
        ends.near.write_all(b"abXX").await.unwrap();
        let mut five = [0; 5];
        ends.far.read_exact(&mut five).await.unwrap();
        assert_eq!(&five, b"GETab");
        ends.far.write_all(b"answer").await.unwrap();
        drop(ends.far);
        let mut got = String::new();
        ends.near.read_to_string(&mut got).await.unwrap();
        assert_eq!((got.as_str(), ends.relay.await.unwrap().1), ("answer", 5));
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_without_data_ends() {
        let begun = Instant::now();
        let mut ends = start(100, Direction::new(Vec::new(), None), Duration::from_secs(100));
        tokio::time::sleep(Duration::from_secs(99)).await;
        ends.near.write_all(b"x").await.unwrap();
        let (end, ..) = ends.relay.await.unwrap();
        assert!(matches!(end, End::Idle));
        assert_eq!(begun.elapsed().as_secs(), 199);
    }
}
