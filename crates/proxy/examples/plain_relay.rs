//! A plain relay of TCP, with which `tools/proxy.py throughput` measures the proxy: `plain_relay LISTEN TO [splice] [accept-mptcp]
//! [dial-mptcp]`. The last two words make its sockets on one side Multipath TCP, which measures what the kernel's own Multipath TCP costs.

use std::error::Error;
use std::io;
use std::net::{Shutdown, SocketAddr};

use rustix::pipe::{PipeFlags, SpliceFlags, fcntl_setpipe_size, pipe_with, splice};
use socket2::{Domain, Protocol, Socket, Type};
use tokio::io::Interest;
use tokio::net::{TcpListener, TcpSocket, TcpStream};

/// The most bytes that are read at once.
const MOST: usize = 64 << 10;
/// The most bytes that a pipe holds.
const PIPE: usize = 1 << 20;

/// Moves the bytes of one direction through a pipe, so that no process copies them.
async fn carry(from: &TcpStream, to: &TcpStream) -> io::Result<()> {
    let (out, into) = pipe_with(PipeFlags::NONBLOCK | PipeFlags::CLOEXEC)?;
    fcntl_setpipe_size(&into, PIPE)?;
    let flags = SpliceFlags::NONBLOCK | SpliceFlags::MOVE;
    loop {
        let read = || splice(from, None, &into, None, PIPE, flags).map_err(Into::into);
        let mut left = from.async_io(Interest::READABLE, read).await?;
        if left == 0 {
            return socket2::SockRef::from(to).shutdown(Shutdown::Write);
        }
        while left > 0 {
            let write = || splice(&out, None, to, None, left, flags).map_err(Into::into);
            left -= to.async_io(Interest::WRITABLE, write).await?;
        }
    }
}

fn socket(at: SocketAddr, mptcp: bool) -> io::Result<TcpSocket> {
    let protocol = if mptcp { Protocol::MPTCP } else { Protocol::TCP };
    let socket = Socket::new(Domain::for_address(at), Type::STREAM.nonblocking().cloexec(), Some(protocol))?;
    Ok(TcpSocket::from_std_stream(socket.into()))
}

fn listen(at: SocketAddr, mptcp: bool) -> io::Result<TcpListener> {
    let socket = socket(at, mptcp)?;
    socket.set_reuseaddr(true)?;
    socket.bind(at)?;
    socket.listen(1024)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut words = std::env::args().skip(1);
    let (Some(at), Some(to)) = (words.next(), words.next()) else { return Err("give LISTEN and TO".into()) };
    let (at, to): (SocketAddr, SocketAddr) = (at.parse()?, to.parse()?);
    let words: Vec<String> = words.collect();
    let has = |word: &str| words.iter().any(|one| one == word);
    let (spliced, dials_mptcp) = (has("splice"), has("dial-mptcp"));
    let listener = listen(at, has("accept-mptcp"))?;
    loop {
        let (mut near, _) = listener.accept().await?;
        tokio::spawn(async move {
            let Ok(far) = socket(to, dials_mptcp) else { return };
            let Ok(mut far) = far.connect(to).await else { return };
            if spliced {
                let _ = tokio::join!(carry(&near, &far), carry(&far, &near));
            } else {
                let _ = tokio::io::copy_bidirectional_with_sizes(&mut near, &mut far, MOST, MOST).await;
            }
        });
    }
}
