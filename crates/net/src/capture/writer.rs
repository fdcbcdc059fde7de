//! The thread that writes a capture.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use tokio::sync::oneshot;

/// Writes buffers in the order of submission.
pub(super) struct Background {
    full: Sender<Vec<u8>>,
    /// Written buffers, for reuse.
    spent: Receiver<Vec<u8>>,
    state: Arc<State>,
    end: oneshot::Receiver<io::Result<()>>,
}

#[derive(Default)]
struct State {
    /// Bytes submitted and not written yet.
    waiting: AtomicUsize,
    /// True if writing has failed.
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
                // Fails only if the receiver was dropped, that is, the capture has ended.
                let _ = done.send(buffer);
            }
            let _ = told.send(result.and_then(|()| out.flush()));
        })?;
        Ok(Background { full, spent, state, end })
    }

    /// Returns the number of bytes submitted and not written yet.
    pub(super) fn waiting(&self) -> usize {
        self.state.waiting.load(Ordering::Relaxed)
    }

    /// True if writing has failed; [`Background::finish`] returns the error.
    pub(super) fn is_broken(&self) -> bool {
        self.state.broken.load(Ordering::Relaxed)
    }

    /// Submits the contents of `buffer` and replaces it by an empty one.
    pub(super) fn hand_over(&mut self, buffer: &mut Vec<u8>) {
        if buffer.is_empty() {
            return;
        }
        let full = std::mem::replace(buffer, self.spent.try_recv().unwrap_or_default());
        self.state.waiting.fetch_add(full.len(), Ordering::Relaxed);
        // The thread lives as long as `full`.
        let _ = self.full.send(full);
    }

    /// Waits until everything is written.
    pub(super) async fn finish(self) -> io::Result<()> {
        drop(self.full);
        let gone = || io::Error::other("the thread that writes the capture has ended unexpectedly");
        self.end.await.unwrap_or_else(|_| Err(gone()))
    }
}
