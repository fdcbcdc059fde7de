//! The protocol of `anabranch bench`, over any byte stream.
//!
//! The client opens a connection for each of its parallel streams and sends a [`Hello`] of 32 bytes on it.
//! Then, by its mode, one side or both send payload until the time or the size is reached, and close their
//! direction; the client of a download closes after the last byte. The server's direction always ends, after any payload, with a [`Trailer`] of 16 bytes that
//! reports the data it has received. In mode `ping` the client sends one byte at a time and the server sends
//! it back.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::Instant;

/// The number of bytes written at a time.
pub(crate) const CHUNK: usize = 256 << 10;
/// The interval at which the client of a download looks whether everything has arrived.
const HOLD: Duration = Duration::from_millis(5);
const MAGIC: [u8; 4] = *b"ABRB";
const VERSION: u8 = 1;

/// The direction of the data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mode {
    /// The client sends.
    Upload = 0,
    /// The server sends.
    Download = 1,
    /// Both send.
    Both = 2,
    /// Single bytes, echoed.
    Ping = 3,
}

/// The limits of a sender; the first one reached counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Limit {
    pub duration: Option<Duration>,
    pub bytes: Option<u64>,
}

/// The first 32 bytes of each connection: "ABRB", version, mode, 2 bytes zero, then in network order the
/// duration in microseconds, the size in bytes (0 is none, both), and 8 bytes zero.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Hello {
    pub mode: Mode,
    pub limit: Limit,
}

impl Hello {
    const LEN: usize = 32;

    fn to_bytes(self) -> [u8; Hello::LEN] {
        let mut bytes = [0; Hello::LEN];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4] = VERSION;
        bytes[5] = self.mode as u8;
        let micros = self.limit.duration.map_or(0, |duration| (duration.as_micros() as u64).max(1));
        bytes[8..16].copy_from_slice(&micros.to_be_bytes());
        bytes[16..24].copy_from_slice(&self.limit.bytes.unwrap_or(0).to_be_bytes());
        bytes
    }

    fn from_bytes(bytes: &[u8; Hello::LEN]) -> Option<Hello> {
        if bytes[..4] != MAGIC || bytes[4] != VERSION {
            return None;
        }
        let mode = [Mode::Upload, Mode::Download, Mode::Both, Mode::Ping];
        let mode = mode.into_iter().find(|mode| *mode as u8 == bytes[5])?;
        let number = |at: usize| {
            let mut word = [0; 8];
            word.copy_from_slice(&bytes[at..at + 8]);
            Some(u64::from_be_bytes(word)).filter(|number| *number > 0)
        };
        let limit = Limit { duration: number(8).map(Duration::from_micros), bytes: number(16) };
        // A client must not occupy a server indefinitely.
        let bounded = mode == Mode::Ping || limit.duration.is_some() || limit.bytes.is_some();
        bounded.then_some(Hello { mode, limit })
    }
}

/// The end of the server's direction: in network order the number of bytes that it has received, and the
/// nanoseconds from the first to the last of them.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct Trailer {
    pub bytes: u64,
    pub nanos: u64,
}

impl Trailer {
    const LEN: usize = 16;

    fn to_bytes(self) -> [u8; Trailer::LEN] {
        let mut bytes = [0; Trailer::LEN];
        bytes[..8].copy_from_slice(&self.bytes.to_be_bytes());
        bytes[8..].copy_from_slice(&self.nanos.to_be_bytes());
        bytes
    }

    fn from_bytes(bytes: &[u8; Trailer::LEN]) -> Trailer {
        let number = u128::from_be_bytes(*bytes);
        Trailer { bytes: (number >> 64) as u64, nanos: number as u64 }
    }
}

/// The progress so far, for reports at intervals.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    pub sent: AtomicU64,
    pub received: AtomicU64,
}

async fn send(write: &mut (impl AsyncWrite + Unpin), limit: Limit, progress: &Progress) -> io::Result<()> {
    let chunk = vec![0_u8; CHUNK];
    let end = limit.duration.map(|duration| Instant::now() + duration);
    let mut left = limit.bytes.unwrap_or(u64::MAX);
    while left > 0 {
        let piece = &chunk[..left.min(CHUNK as u64) as usize];
        let n = match end {
            Some(end) => match tokio::time::timeout_at(end, write.write(piece)).await {
                Ok(n) => n?,
                Err(_) => break,
            },
            None => write.write(piece).await?,
        };
        if end.is_some_and(|end| Instant::now() >= end) {
            break;
        }
        left -= n as u64;
        progress.sent.fetch_add(n as u64, Ordering::Relaxed);
    }
    Ok(())
}

/// Waits until a sender with this limit has sent everything; `received` bytes have arrived. A client that
/// closes its direction before that keeps the kernel's Multipath TCP on the first path: it opens no subflow then.
async fn hold(limit: Limit, received: &AtomicU64) {
    let end = limit.duration.map(|duration| Instant::now() + duration);
    while limit.bytes.is_none_or(|bytes| received.load(Ordering::Relaxed) < bytes)
        && end.is_none_or(|end| Instant::now() < end)
    {
        tokio::time::sleep(HOLD).await;
    }
}

/// Reads to the end. The last bytes are returned separately if they are a `trailer`. `own` is the number of bytes so
/// far.
async fn receive(
    read: &mut (impl AsyncBufRead + Unpin),
    trailer: bool,
    progress: &Progress,
    own: &AtomicU64,
) -> io::Result<(Trailer, Trailer)> {
    let mut tail = [0_u8; Trailer::LEN];
    let (mut total, mut first, mut last) = (0_u64, None, Instant::now());
    loop {
        let bytes = read.fill_buf().await?;
        let n = bytes.len();
        if n == 0 {
            break;
        }
        let now = Instant::now();
        // A trailer by itself arrives a round trip after the payload.
        if !trailer || n > Trailer::LEN || first.is_none() {
            last = now;
        }
        first.get_or_insert(now);
        total += n as u64;
        own.store(total, Ordering::Relaxed);
        progress.received.fetch_add(n as u64, Ordering::Relaxed);
        if trailer {
            let new = &bytes[n.saturating_sub(Trailer::LEN)..];
            tail.copy_within(new.len().., 0);
            tail[Trailer::LEN - new.len()..].copy_from_slice(new);
        }
        read.consume(n);
    }
    let nanos = first.map_or(0, |first| last.duration_since(first).as_nanos() as u64);
    if !trailer {
        return Ok((Trailer { bytes: total, nanos }, Trailer::default()));
    }
    let bytes = total.checked_sub(Trailer::LEN as u64).ok_or_else(|| {
        io::Error::new(io::ErrorKind::UnexpectedEof, "the server closed the connection without a report")
    })?;
    progress.received.fetch_sub(Trailer::LEN as u64, Ordering::Relaxed);
    Ok((Trailer { bytes, nanos }, Trailer::from_bytes(&tail)))
}

/// Runs the server's side of one connection.
pub(crate) async fn serve(
    mut read: impl AsyncBufRead + Unpin,
    mut write: impl AsyncWrite + Unpin,
    progress: &Progress,
) -> io::Result<Hello> {
    let mut hello = [0; Hello::LEN];
    read.read_exact(&mut hello).await?;
    let hello = Hello::from_bytes(&hello).ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::InvalidData,
            "this is not a client of this version of `anabranch bench`",
        )
    })?;
    if hello.mode == Mode::Ping {
        let mut byte = [0; 1];
        while read.read(&mut byte).await? > 0 {
            write.write_all(&byte).await?;
        }
        write.shutdown().await?;
        return Ok(hello);
    }
    let sends = hello.mode != Mode::Upload;
    let sending = async { if sends { send(&mut write, hello.limit, progress).await } else { Ok(()) } };
    let own = AtomicU64::new(0);
    let ((), (received, _)) = tokio::try_join!(sending, receive(&mut read, false, progress, &own))?;
    write.write_all(&received.to_bytes()).await?;
    write.shutdown().await?;
    Ok(hello)
}

/// The results of one connection of the client.
#[derive(Clone, Debug, Default)]
pub(crate) struct Done {
    /// The data received by the server, according to its trailer.
    pub uploaded: Trailer,
    /// The data received here.
    pub downloaded: Trailer,
    /// Round-trip times, in nanoseconds.
    pub pings: Vec<u64>,
}

/// Runs the client's side of one connection.
pub(crate) async fn drive(
    mut read: impl AsyncBufRead + Unpin,
    mut write: impl AsyncWrite + Unpin,
    hello: Hello,
    pings: u32,
    progress: Arc<Progress>,
) -> io::Result<Done> {
    write.write_all(&hello.to_bytes()).await?;
    if hello.mode == Mode::Ping {
        let mut done = Done::default();
        let mut byte = [0; 1];
        for _ in 0..pings {
            let begun = Instant::now();
            write.write_all(&byte).await?;
            read.read_exact(&mut byte).await?;
            done.pings.push(begun.elapsed().as_nanos() as u64);
        }
        write.shutdown().await?;
        return Ok(done);
    }
    let own = AtomicU64::new(0);
    let sending = async {
        match hello.mode {
            Mode::Download => hold(hello.limit, &own).await,
            _ => send(&mut write, hello.limit, &progress).await?,
        }
        write.shutdown().await
    };
    let ((), (downloaded, uploaded)) = tokio::try_join!(sending, receive(&mut read, true, &progress, &own))?;
    Ok(Done { uploaded, downloaded, pings: Vec::new() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{BufReader, DuplexStream};

    fn split(stream: DuplexStream) -> (impl AsyncBufRead + Unpin, impl AsyncWrite + Unpin) {
        let (read, write) = tokio::io::split(stream);
        (BufReader::new(read), write)
    }

    async fn pair(hello: Hello, pings: u32) -> Done {
        let (near, far) = tokio::io::duplex(10_000);
        let server = tokio::spawn(async move {
            let (read, write) = split(far);
            serve(read, write, &Progress::default()).await
        });
        let (read, write) = split(near);
        let done = drive(read, write, hello, pings, Arc::default()).await.unwrap();
        assert_eq!(server.await.unwrap().unwrap(), hello);
        done
    }

    fn bytes(mode: Mode, bytes: u64) -> Hello {
        Hello { mode, limit: Limit { duration: None, bytes: Some(bytes) } }
    }

    #[tokio::test]
    async fn each_mode_moves_what_it_says() {
        let done = pair(bytes(Mode::Upload, 1_000_003), 0).await;
        assert_eq!((done.uploaded.bytes, done.downloaded.bytes), (1_000_003, 0));
        let done = pair(bytes(Mode::Download, 5), 0).await;
        assert_eq!((done.uploaded.bytes, done.downloaded.bytes), (0, 5));
        let done = pair(bytes(Mode::Both, 300_000), 0).await;
        assert_eq!((done.uploaded.bytes, done.downloaded.bytes), (300_000, 300_000));
        let done = pair(Hello { mode: Mode::Ping, limit: Limit { duration: None, bytes: None } }, 7).await;
        assert_eq!(done.pings.len(), 7);
    }

    /// The kernel's Multipath TCP opens no subflow once an end has closed its direction.
    #[tokio::test]
    async fn the_client_of_a_download_closes_after_the_last_byte() {
        let (near, far) = tokio::io::duplex(10_000);
        let (read, write) = split(near);
        let client = tokio::spawn(drive(read, write, bytes(Mode::Download, 1000), 0, Arc::default()));
        let (mut read, mut write) = split(far);
        read.read_exact(&mut [0; Hello::LEN]).await.unwrap();
        write.write_all(&[0; 999]).await.unwrap();
        let early = tokio::time::timeout(Duration::from_millis(100), read.read(&mut [0])).await;
        assert!(early.is_err(), "the client has closed its direction before the last byte");
        write.write_all(&[0]).await.unwrap();
        assert_eq!(read.read(&mut [0]).await.unwrap(), 0);
        write.write_all(&Trailer::default().to_bytes()).await.unwrap();
        drop((read, write));
        assert_eq!(client.await.unwrap().unwrap().downloaded.bytes, 1000);
    }

    #[tokio::test]
    async fn a_stranger_is_refused() {
        let serve_bytes = |bytes: [u8; 32]| async move {
            let (mut near, far) = tokio::io::duplex(100);
            near.write_all(&bytes).await.unwrap();
            let (read, write) = split(far);
            serve(read, write, &Progress::default()).await.unwrap_err().kind()
        };
        assert_eq!(serve_bytes([b'G'; 32]).await, io::ErrorKind::InvalidData);
        let endless = Hello { mode: Mode::Download, limit: Limit { duration: None, bytes: None } };
        assert_eq!(serve_bytes(endless.to_bytes()).await, io::ErrorKind::InvalidData);
    }
}
