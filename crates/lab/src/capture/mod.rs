//! Captures: the packets of a run as one of its hosts would have seen them, for Wireshark and tshark.
//!
//! The capture points are the interfaces of one host, as with tcpdump: packets sent by the host are captured
//! when they enter the first link, received ones when they leave the last. Every packet therefore appears
//! once, and they are in the order in which that host could have observed them. There is an interface for each link that
//! begins or ends at the host.
//!
//! A segment with payload that the host sends has a comment: the scheduler's reason, or that it is a
//! retransmission; and whether the first link dropped it, which a real capture could not show.

mod files;
#[cfg(test)]
mod tests;

use core::net::IpAddr;
use std::fmt::Write as _;
use std::io::{self, Write};

use anabranch_link::{DropReason, LossCause};
use anabranch_sim::{HostId, LinkEvent, LinkId, Network, Recorder, Trace, Wants, What};
use anabranch_stack::observer::{StackEvent, StackEvents};
use anabranch_stack::segment::{Flags, Segment};
use anabranch_units::Time;
use anabranch_wire::pcapng::{Direction, InterfaceId, Packet, Writer};
use anabranch_wire::remarks::Remarks;
use anabranch_wire::{Checksum, IpFields, emit_header};

pub use files::{CaptureError, CaptureFile, Captures, Settings, Viewpoint, named};

/// The events that a capture needs.
pub(crate) const WANTS: Wants =
    Wants { stack: StackEvents::SENT.and(StackEvents::DECISION), packets: true, ..Wants::NONE };

/// The greatest length of the headers of a packet: IPv6, TCP and options.
const MAX_HEADERS: usize = 40 + 60;

/// Writes the packets that one host of a run sends and receives.
#[derive(Debug)]
pub struct Capture<W: Write> {
    writer: Writer<W>,
    error: Option<io::Error>,
    /// The number of bytes kept of a packet.
    snap_len: usize,
    view: HostId,
    /// The addresses of the host.
    addresses: Vec<IpAddr>,
    /// The interface of each link that begins at the host.
    leaving: Vec<Option<InterfaceId>>,
    /// The interface of each link that ends at the host.
    arriving: Vec<Option<InterfaceId>>,
    remarks: Remarks,
    /// The latest packet, not written yet, as the link may still drop it.
    latest: Option<Latest>,
    /// The bytes of the latest packet, at most `snap_len`.
    bytes: Vec<u8>,
    /// The comment of the latest packet.
    comment: String,
}

#[derive(Clone, Copy, Debug)]
struct Latest {
    interface: InterfaceId,
    time: Time,
    direction: Direction,
    original_len: u32,
    segment: Segment,
}

impl<W: Write> Capture<W> {
    /// Returns a capture at the host `view` of `network` that keeps at most `snap_len` bytes of each packet
    /// (none: all).
    ///
    /// # Errors
    /// If the file header cannot be written.
    pub fn new(network: &Network, view: HostId, snap_len: Option<u32>, out: W) -> io::Result<Capture<W>> {
        let mut writer = Writer::new(out, concat!("anabranch ", env!("CARGO_PKG_VERSION")))?;
        let addresses: Vec<IpAddr> = network
            .hosts()
            .get(view.index())
            .map(|host| host.interfaces.iter().map(|interface| interface.ip).collect())
            .unwrap_or_default();
        let count = network.links().len();
        let (mut begins, mut ends) = (vec![false; count], vec![false; count]);
        // The packets of a route that ends at a proxy do not arrive at the host.
        for route in network.routes() {
            if route.from == view
                && let Some(first) = route.links.first()
            {
                begins[first.index()] = true;
            }
            if route.proxy.is_none()
                && addresses.contains(&route.to)
                && let Some(last) = route.links.last()
            {
                ends[last.index()] = true;
            }
        }
        let (mut leaving, mut arriving) = (vec![None; count], vec![None; count]);
        for (index, link) in network.links().iter().enumerate() {
            if begins[index] || ends[index] {
                let interface = writer.interface(&link.name, "", snap_len.unwrap_or(0))?;
                leaving[index] = begins[index].then_some(interface);
                arriving[index] = ends[index].then_some(interface);
            }
        }
        Ok(Capture {
            writer,
            error: None,
            snap_len: snap_len.map_or(usize::MAX, |len| len as usize),
            view,
            addresses,
            leaving,
            arriving,
            remarks: Remarks::default(),
            latest: None,
            bytes: Vec::new(),
            comment: String::new(),
        })
    }

    /// Returns the error that stopped writing; nothing is added after it.
    pub fn error(&self) -> Option<&io::Error> {
        self.error.as_ref()
    }

    /// Ends the capture, flushes its writer and returns it.
    ///
    /// # Errors
    /// The first error of the capture.
    pub fn finish(mut self) -> io::Result<W> {
        self.write_latest();
        match self.error {
            Some(error) => Err(error),
            None => self.writer.finish(),
        }
    }

    /// Prepares a packet, to be written when the next one comes.
    fn take(&mut self, now: Time, interface: InterfaceId, direction: Direction, segment: &Segment) {
        // A datagram is a segment without a flag, which TCP never sends. A capture has segments only.
        if segment.flags == Flags::default() {
            return;
        }
        self.write_latest();
        self.comment.clear();
        if direction == Direction::Outbound {
            self.remarks.take(u64::from(segment.payload_len), &mut self.comment);
        }
        let kept = MAX_HEADERS + (segment.payload_len as usize).min(self.snap_len);
        self.bytes.clear();
        self.bytes.resize(kept, 0);
        let header = match emit_header(segment, &IpFields::default(), &mut self.bytes) {
            Ok(header) => header,
            Err(error) => {
                self.error.get_or_insert_with(|| io::Error::other(error));
                return;
            }
        };
        // The simulator has no payload; here it is zeros, and their sum is zero.
        header.finish_with_sum(&mut self.bytes, Checksum::Full, 0);
        let original_len = header.len() + segment.payload_len as usize;
        self.bytes.truncate(original_len.min(self.snap_len));
        self.latest = Some(Latest {
            interface,
            time: now,
            direction,
            original_len: original_len as u32,
            segment: *segment,
        });
    }

    fn write_latest(&mut self) {
        let Some(latest) = self.latest.take() else { return };
        if self.error.is_none() {
            let packet = Packet {
                interface: latest.interface,
                time: latest.time,
                direction: Some(latest.direction),
                bytes: &self.bytes,
                original_len: latest.original_len,
                comment: &self.comment,
            };
            self.error = self.writer.packet(&packet).err();
        }
    }
}

impl<W: Write> Recorder for Capture<W> {
    const WANTS: Wants = WANTS;

    fn on_trace(&mut self, trace: &Trace<'_>) {
        let now = trace.time;
        match trace.what {
            What::Link { link, event: LinkEvent::Enter { segment, .. } } => {
                if let Some(interface) = self.leaving[link.index()]
                    && self.addresses.contains(&segment.source.ip)
                {
                    self.take(now, interface, Direction::Outbound, segment);
                }
            }
            What::Link { link, event: LinkEvent::Leave { segment, .. } } => {
                if let Some(interface) = self.arriving[link.index()]
                    && self.addresses.contains(&segment.destination.ip)
                {
                    self.take(now, interface, Direction::Inbound, segment);
                }
            }
            What::Link { link, event: LinkEvent::Drop { segment, reason, .. } } => {
                self.on_drop(now, link, segment, reason);
            }
            What::Stack { scope, event } if scope.host == self.view => match *event {
                StackEvent::Sent { subflow, kind, data, .. } => {
                    self.remarks.on_sent(scope.connection, subflow, kind, data);
                }
                StackEvent::Decision(decision) => self.remarks.on_decision(scope.connection, decision),
                _ => {}
            },
            _ => {}
        }
    }
}

impl<W: Write> Capture<W> {
    /// Notes in the comment of the latest packet that the first link drops it.
    fn on_drop(&mut self, now: Time, link: LinkId, segment: &Segment, reason: DropReason) {
        let here = self.leaving[link.index()];
        let Some(latest) = &self.latest else { return };
        if latest.direction == Direction::Outbound
            && Some(latest.interface) == here
            && latest.time == now
            && latest.segment == *segment
        {
            let separator = if self.comment.is_empty() { "" } else { "; " };
            let _ = write!(self.comment, "{separator}{}", dropped(reason));
        }
    }
}

fn dropped(reason: DropReason) -> &'static str {
    match reason {
        DropReason::Queue => "dropped by the link: its queue is full",
        DropReason::Effect(_) => "rejected by the receiver: damaged on the way",
        DropReason::Middlebox => "dropped by the middlebox: it knows no such connection",
        DropReason::Down => "dropped by the link: it is down",
        DropReason::Aqm => "dropped by the link: by its queue management",
        DropReason::Policer => "dropped by the link: more than its policer permits",
        DropReason::TooLarge => "dropped by the link: longer than its MTU",
        DropReason::Loss(LossCause::Random) => "lost on the link: random loss",
        DropReason::Loss(LossCause::GilbertElliott) => "lost on the link: bursty loss",
        DropReason::Loss(LossCause::Listed) => "lost on the link: named in its drop list",
        _ => "dropped by the link",
    }
}
