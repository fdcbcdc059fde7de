//! A plain relay of TCP, with which `tools/proxy.py throughput` measures the proxy: `plain_relay LISTEN TO [splice]`.

use std::error::Error;
use std::io;
use std::net::Shutdown;

use rustix::pipe::{PipeFlags, SpliceFlags, fcntl_setpipe_size, pipe_with, splice};
use tokio::io::Interest;
use tokio::net::{TcpListener, TcpStream};

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

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut words = std::env::args().skip(1);
    let (Some(at), Some(to)) = (words.next(), words.next()) else { return Err("give LISTEN and TO".into()) };
    let spliced = words.next().is_some_and(|word| word == "splice");
    let listener = TcpListener::bind(at).await?;
    loop {
        let (mut near, _) = listener.accept().await?;
        let to = to.clone();
        tokio::spawn(async move {
            let Ok(mut far) = TcpStream::connect(to).await else { return };
            if spliced {
                let _ = tokio::join!(carry(&near, &far), carry(&far, &near));
            } else {
                let _ = tokio::io::copy_bidirectional_with_sizes(&mut near, &mut far, MOST, MOST).await;
            }
        });
    }
}
