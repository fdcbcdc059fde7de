//! Captures the packets that one host of an engine sends and receives, for Wireshark and tshark.
//!
//! The capture point is between the engine and the host, so that captures of the kernel and of anabranch's
//! stack are made in the same way, and simulations are captured at the same point: a packet that the host
//! sends, when it enters the first link; one that it receives, when it leaves the last. Times count from the
//! start of the engine, as a simulation's times count from its start.

use std::io::{self, Write};
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;

use anabranch_units::Time;
use anabranch_wire::pcapng::{Direction, InterfaceId, Packet, Writer};

/// The number of bytes passed to the writing thread at a time.
const CHUNK: usize = 1 << 20;

/// Captures the packets of some ports of an engine. A separate thread writes them, so that a slow disk delays
/// no packet.
#[derive(Debug)]
pub struct Tap {
    /// None once the capture is finished.
    writer: Option<Writer<Chunks>>,
    /// The port of the first interface.
    first: usize,
    interfaces: usize,
    snap_len: usize,
    error: Option<io::Error>,
}

/// Collects output, and forwards it in large pieces.
#[derive(Debug)]
struct Chunks {
    chunk: Vec<u8>,
    out: Option<Sender<Vec<u8>>>,
    thread: Option<JoinHandle<io::Result<()>>>,
}

impl Chunks {
    fn hand_on(&mut self) {
        let chunk = core::mem::replace(&mut self.chunk, Vec::with_capacity(CHUNK + 4096));
        if let Some(out) = &self.out {
            // A thread that has ended has an error, which `end` returns.
            let _ = out.send(chunk);
        }
    }

    fn end(mut self) -> io::Result<()> {
        self.hand_on();
        self.out = None;
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(result)) => result,
            Some(Err(_)) => Err(io::Error::other("the thread that writes a capture has panicked")),
            None => Ok(()),
        }
    }
}

impl Write for Chunks {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.chunk.extend_from_slice(bytes);
        if self.chunk.len() >= CHUNK {
            self.hand_on();
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Tap {
    /// Returns a capture with an interface of each of these names, for the ports from number `first` on. At
    /// most `snap_len` bytes of each packet are kept; all if it is none.
    ///
    /// # Errors
    /// If the system provides no thread.
    pub fn new(
        out: impl Write + Send + 'static,
        first: usize,
        names: &[String],
        snap_len: Option<u32>,
    ) -> io::Result<Tap> {
        let mut out = out;
        let (sender, receiver) = channel::<Vec<u8>>();
        let thread = std::thread::Builder::new().name("capture".to_owned()).spawn(move || {
            for chunk in receiver {
                out.write_all(&chunk)?;
            }
            out.flush()
        })?;
        let chunks = Chunks { chunk: Vec::new(), out: Some(sender), thread: Some(thread) };
        let mut writer = Writer::new(chunks, concat!("anabranch ", env!("CARGO_PKG_VERSION")))?;
        for name in names {
            writer.interface(name, "", snap_len.unwrap_or(0))?;
        }
        let snap_len = snap_len.map_or(usize::MAX, |len| len as usize);
        Ok(Tap { writer: Some(writer), first, interfaces: names.len(), snap_len, error: None })
    }

    /// Captures a packet that the host at `port` has sent.
    pub(crate) fn sent(&mut self, now: Time, port: usize, bytes: &[u8]) {
        self.take(now, port, Direction::Outbound, bytes);
    }

    /// Captures a packet that the host at `port` receives.
    pub(crate) fn received(&mut self, now: Time, port: usize, bytes: &[u8]) {
        self.take(now, port, Direction::Inbound, bytes);
    }

    fn take(&mut self, time: Time, port: usize, direction: Direction, bytes: &[u8]) {
        let Some(interface) = port.checked_sub(self.first).filter(|at| *at < self.interfaces) else { return };
        let Some(writer) = self.writer.as_mut().filter(|_| self.error.is_none()) else { return };
        let packet = Packet {
            interface: InterfaceId(interface as u32),
            time,
            direction: Some(direction),
            bytes: &bytes[..bytes.len().min(self.snap_len)],
            original_len: bytes.len() as u32,
            comment: "",
        };
        self.error = writer.packet(&packet).err();
    }

    /// Ends the capture, and waits until everything is written.
    ///
    /// # Errors
    /// If writing fails.
    pub fn finish(mut self) -> io::Result<()> {
        if let Some(error) = self.error.take() {
            return Err(error);
        }
        self.writer.take().map_or(Ok(()), |writer| writer.finish()?.end())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex, PoisonError};

    #[derive(Clone, Default)]
    struct Shared(Arc<Mutex<Vec<u8>>>);

    impl Write for Shared {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn the_packets_of_its_ports_are_taken_down_and_no_others() {
        let out = Shared::default();
        let names = ["near".to_owned(), "far".to_owned()];
        let mut tap = Tap::new(out.clone(), 2, &names, Some(4)).unwrap();
        tap.sent(Time(5), 2, b"sent-by-near");
        tap.received(Time(6), 3, b"come-to-far");
        tap.sent(Time(7), 1, b"elsewhere");
        tap.received(Time(8), 4, b"beyond");
        tap.finish().unwrap();
        let bytes = out.0.lock().unwrap().clone();
        let has = |text: &[u8]| bytes.windows(text.len()).any(|window| window == text);
        assert!(has(b"near") && has(b"far") && has(b"sent") && has(b"come"));
        assert!(!has(b"sent-") && !has(b"else") && !has(b"beyo"));
    }

    #[test]
    fn a_capture_that_cannot_be_written_says_so_at_its_end() {
        struct Full;
        impl Write for Full {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::Error::from(io::ErrorKind::StorageFull))
            }

            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let tap = Tap::new(Full, 0, &["a".to_owned()], None).unwrap();
        assert_eq!(tap.finish().unwrap_err().kind(), io::ErrorKind::StorageFull);
    }
}
