//! Pipes of the kernel, by which `splice` moves bytes between two sockets without a copy in this process.

use std::cell::RefCell;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::io::Errno;
use rustix::pipe::{PipeFlags, SpliceFlags, fcntl_setpipe_size, pipe_with, splice};

/// The most bytes that one of the first pipes holds.
const LARGE: usize = 1 << 20;
/// The number of pipes of that size.
const MOST_LARGE: usize = 16;
/// The most bytes that one of the others holds.
const SMALL: usize = 256 << 10;
/// The most pipes of the process: together they hold as much as the system lets a user without privileges have.
const MOST: usize = 208;
/// The most empty pipes that a thread keeps.
const MOST_KEPT: usize = 8;

static COUNT: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static KEPT: RefCell<Vec<Pipe>> = const { RefCell::new(Vec::new()) };
}

/// A pipe and the number of bytes in it.
#[derive(Debug)]
pub(crate) struct Pipe {
    out: OwnedFd,
    into: OwnedFd,
    filled: usize,
}

impl Pipe {
    /// Returns an empty pipe; none if there are too many, or the system refuses.
    pub(crate) fn take() -> Option<Pipe> {
        if let Some(pipe) = KEPT.with_borrow_mut(Vec::pop) {
            return Some(pipe);
        }
        let before = COUNT.fetch_add(1, Ordering::Relaxed);
        if before >= MOST {
            COUNT.fetch_sub(1, Ordering::Relaxed);
            return None;
        }
        let made = pipe_with(PipeFlags::NONBLOCK | PipeFlags::CLOEXEC);
        let Ok((out, into)) = made else {
            COUNT.fetch_sub(1, Ordering::Relaxed);
            return None;
        };
        // A smaller one works too.
        let _ = fcntl_setpipe_size(&into, if before < MOST_LARGE { LARGE } else { SMALL });
        Some(Pipe { out, into, filled: 0 })
    }

    /// Keeps an empty pipe for another connection of this thread.
    pub(crate) fn give_back(self) {
        if self.filled == 0 {
            KEPT.with_borrow_mut(|kept| {
                if kept.len() < MOST_KEPT {
                    kept.push(self);
                }
            });
        }
    }

    /// Returns the number of bytes in it.
    pub(crate) fn filled(&self) -> usize {
        self.filled
    }

    /// Moves bytes of a socket into the pipe. Returns their number; 0 at the end of the stream.
    pub(crate) fn fill(&mut self, from: impl AsFd) -> io::Result<usize> {
        let n = splice(from, None, &self.into, None, LARGE, flags())?;
        self.filled += n;
        Ok(n)
    }

    /// Moves bytes of the pipe to a socket. Returns their number.
    pub(crate) fn empty(&mut self, to: impl AsFd) -> io::Result<usize> {
        let n = splice(&self.out, None, to, None, self.filled, flags())?;
        self.filled -= n;
        Ok(n)
    }

    /// Takes the bytes out of the pipe.
    pub(crate) fn read(&mut self) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; self.filled];
        let mut at = 0;
        while at < bytes.len() {
            match rustix::io::read(&self.out, &mut bytes[at..]) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(n) => at += n,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        self.filled = 0;
        Ok(bytes)
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        COUNT.fetch_sub(1, Ordering::Relaxed);
    }
}

fn flags() -> SpliceFlags {
    SpliceFlags::NONBLOCK | SpliceFlags::MOVE
}

/// True if the kernel has no `splice` for this socket.
pub(crate) fn is_unsupported(error: &io::Error) -> bool {
    Errno::from_io_error(error).is_some_and(|errno| errno == Errno::INVAL || errno == Errno::NOSYS)
}

/// Returns the number of pipes of the process.
#[cfg(test)]
pub(crate) fn count() -> usize {
    COUNT.load(Ordering::Relaxed)
}
