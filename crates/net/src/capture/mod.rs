//! Captures the packets that a host sends and receives, for Wireshark and tshark.
//!
//! There is an interface for each device. The driver appends packets to a buffer, and a separate thread
//! writes it, so that a slow disk delays no connection. The capture shows the packets of the stack: a
//! received packet at the time when the stack processes it, a sent one at the time when it leaves the stack.
//! Checksums are complete, even if a device computes them; with offload, the capture contains the
//! super-packets that the device exchanges with the host. A packet dropped because its device is full is not
//! captured.

mod writer;

use std::fmt;
use std::io::{self, Write};
use std::time::SystemTime;

use anabranch_stack::event::ConnectionId;
use anabranch_stack::observer::{Observer, StackEvent, StackEvents};
use anabranch_units::Time;
use anabranch_wire::complete_checksum;
use anabranch_wire::pcapng::{self, Direction, InterfaceId};
use anabranch_wire::remarks::Remarks;

use anabranch_device::Packet;
use writer::Background;

/// The number of bytes that may wait to be written; packets beyond it are omitted and counted.
const WAITING: usize = 64 << 20;

/// A capture to be started.
pub struct Capture {
    out: Box<dyn Write + Send>,
    snap_len: Option<u32>,
    waiting: usize,
}

impl fmt::Debug for Capture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Capture").field("snap_len", &self.snap_len).finish_non_exhaustive()
    }
}

impl Capture {
    /// Returns a capture in the pcapng format, written to `out` by its own thread.
    pub fn new(out: impl Write + Send + 'static) -> Capture {
        Capture { out: Box::new(out), snap_len: None, waiting: WAITING }
    }

    /// Keeps at most `bytes` bytes of each packet. Default: all.
    pub fn snap_len(mut self, bytes: u32) -> Capture {
        self.snap_len = Some(bytes);
        self
    }

    /// Sets the number of bytes that may wait to be written. A packet beyond it is omitted and counted.
    /// Default: 64 MiB.
    pub fn max_waiting(mut self, bytes: usize) -> Capture {
        self.waiting = bytes;
        self
    }

    /// Starts it, with an interface for each of these names. `now` is the time of the host.
    pub(crate) fn begin(self, names: &[String], now: Time) -> io::Result<Tap> {
        let wall = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let mut writer = pcapng::Writer::new(Vec::new(), concat!("anabranch ", env!("CARGO_PKG_VERSION")))?;
        for name in names {
            writer.interface(name, "", self.snap_len.unwrap_or(0))?;
        }
        Ok(Tap {
            writer,
            background: Background::start(self.out)?,
            zero: (wall.as_nanos() as u64).saturating_sub(now.as_nanos()),
            snap_len: self.snap_len.map_or(usize::MAX, |len| len as usize),
            waiting: self.waiting,
            bytes: Vec::new(),
            remark: String::new(),
            packets: 0,
            left_out: 0,
            gap: 0,
        })
    }
}

/// The result of a capture.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CaptureReport {
    /// The number of packets in the capture.
    pub packets: u64,
    /// The number of packets omitted because writing was too slow.
    pub left_out: u64,
}

/// A running capture.
pub(crate) struct Tap {
    writer: pcapng::Writer<Vec<u8>>,
    background: Background,
    /// The time of the host's zero since 1970-01-01, in nanoseconds.
    zero: u64,
    snap_len: usize,
    waiting: usize,
    /// The packet that is being recorded.
    bytes: Vec<u8>,
    remark: String,
    packets: u64,
    left_out: u64,
    /// The number of packets omitted since the last one that was recorded.
    gap: u64,
}

impl Tap {
    /// Records a packet received by the device `at`.
    pub(crate) fn received(&mut self, now: Time, at: usize, packet: &Packet) {
        self.remark.clear();
        self.take(now, at, Direction::Inbound, packet);
    }

    /// Records a packet with `payload` bytes of a stream that the device `at` sends, with the remark of
    /// `watcher`.
    pub(crate) fn sent(
        &mut self,
        now: Time,
        at: usize,
        packet: &Packet,
        payload: u64,
        watcher: &mut Watcher,
    ) {
        self.remark.clear();
        if let Some(remarks) = &mut watcher.remarks {
            remarks.take(payload, &mut self.remark);
        }
        self.take(now, at, Direction::Outbound, packet);
    }

    fn take(&mut self, now: Time, at: usize, direction: Direction, packet: &Packet) {
        if self.background.is_broken() {
            return;
        }
        let buffered = self.writer.get_mut().len();
        if self.background.waiting() + buffered + packet.len() > self.waiting {
            self.left_out += 1;
            self.gap += 1;
            return;
        }
        if self.gap > 0 {
            let separator = if self.remark.is_empty() { "" } else { "; " };
            self.remark.push_str(&format!("{separator}{} packets before it are missing", self.gap));
            self.gap = 0;
        }
        self.bytes.clear();
        self.bytes.extend_from_slice(packet.bytes());
        if packet.offload.partial_checksum {
            complete_checksum(&mut self.bytes);
        }
        self.bytes.truncate(self.snap_len);
        self.packets += 1;
        let taken = self.writer.packet(&pcapng::Packet {
            interface: InterfaceId(at as u32),
            time: Time(self.zero.saturating_add(now.as_nanos())),
            direction: Some(direction),
            bytes: &self.bytes,
            original_len: packet.len() as u32,
            comment: &self.remark,
        });
        debug_assert!(taken.is_ok(), "memory takes all, and the interface is there");
    }

    /// Passes the recorded packets to the writer.
    pub(crate) fn hand_over(&mut self) {
        self.background.hand_over(self.writer.get_mut());
    }

    /// Ends the capture.
    pub(crate) async fn finish(mut self) -> io::Result<CaptureReport> {
        self.hand_over();
        let report = CaptureReport { packets: self.packets, left_out: self.left_out };
        self.background.finish().await?;
        Ok(report)
    }
}

/// The observer of the stack for a capture, if there is one.
#[derive(Debug)]
pub(crate) struct Watcher {
    remarks: Option<Remarks>,
}

impl Watcher {
    /// Returns an observer that is active if `wanted`.
    pub(crate) fn new(wanted: bool) -> Watcher {
        Watcher { remarks: wanted.then(Remarks::default) }
    }

    /// Discards the remark: the next one concerns another segment.
    pub(crate) fn turn(&mut self) {
        if let Some(remarks) = &mut self.remarks {
            remarks.discard();
        }
    }

    /// Removes the state of a connection that has ended.
    pub(crate) fn forget(&mut self, connection: ConnectionId) {
        if let Some(remarks) = &mut self.remarks {
            remarks.forget(connection);
        }
    }

    /// Stops observing: the capture has ended.
    pub(crate) fn rest(&mut self) {
        self.remarks = None;
    }
}

impl Observer for Watcher {
    const EVENTS: StackEvents = StackEvents::SENT.and(StackEvents::DECISION);

    #[inline]
    fn on_event(&mut self, _: Time, connection: ConnectionId, event: &StackEvent<'_>) {
        let Some(remarks) = &mut self.remarks else { return };
        match *event {
            StackEvent::Sent { subflow, kind, data, .. } => remarks.on_sent(connection, subflow, kind, data),
            StackEvent::Decision(decision) => remarks.on_decision(connection, decision),
            _ => {}
        }
    }
}
