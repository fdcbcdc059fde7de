//! The thread that writes a capture.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use tokio::sync::oneshot;

/// Writes buffers in the order in which they are handed over.
pub(super) struct Background {
    full: Sender<Vec<u8>>,
    /// Buffers that were written, to be used again.
    spent: Receiver<Vec<u8>>,
    state: Arc<State>,
    end: oneshot::Receiver<io::Result<()>>,
}

#[derive(Default)]
struct State {
    /// Bytes that were handed over and not written yet.
    waiting: AtomicUsize,
    /// Nothing is written any more.
    broken: AtomicBool,
}

impl Background {
    pub(super) fn start(mut out: Box<dyn Write + Send>) -> io::Result<Background> {
        let (full, work) = channel::<Vec<u8>>();
        let (done, spent) = channel();
        let (told, end) = oneshot::channel();
        let state = Arc::<State>::default();
        let shared = Arc::clone(&state);
        thread::Builder::new().name("capture".to_owned()).spawn(move || {
            let mut result = Ok(());
            for mut buffer in work {
                if result.is_ok() {
                    result = out.write_all(&buffer);
                    shared.broken.store(result.is_err(), Ordering::Relaxed);
                }
                shared.waiting.fetch_sub(buffer.len(), Ordering::Relaxed);
                buffer.clear();
                // Whoever does not want it any more has ended the capture.
                let _ = done.send(buffer);
            }
            let _ = told.send(result.and_then(|()| out.flush()));
        })?;
        Ok(Background { full, spent, state, end })
    }

    /// Bytes that were handed over and not written yet.
    pub(super) fn waiting(&self) -> usize {
        self.state.waiting.load(Ordering::Relaxed)
    }

    /// Whether nothing is written any more; [`Background::finish`] says why.
    pub(super) fn is_broken(&self) -> bool {
        self.state.broken.load(Ordering::Relaxed)
    }

    /// Takes what is in `buffer` and leaves an empty one.
    pub(super) fn hand_over(&mut self, buffer: &mut Vec<u8>) {
        if buffer.is_empty() {
            return;
        }
        let full = std::mem::replace(buffer, self.spent.try_recv().unwrap_or_default());
        self.state.waiting.fetch_add(full.len(), Ordering::Relaxed);
        // The thread is there as long as `full` is.
        let _ = self.full.send(full);
    }

    /// Waits until everything is written.
    pub(super) async fn finish(self) -> io::Result<()> {
        drop(self.full);
        let gone = || io::Error::other("the thread that writes the capture has ended before its time");
        self.end.await.unwrap_or_else(|_| Err(gone()))
    }
}
