//! Reads captures to their end.

use anabranch_units::Time;
use anabranch_wire::{ParseError, view};

use crate::capture::{Frame, Merged};
use crate::clocks;
use crate::error::CaptureFault;
use crate::link_layer::{self, NoIp};
use crate::result::{FileReport, Inspection, Skipped};
use crate::track::{Packet, Table};

/// The most files.
const MAX_FILES: usize = 256;

/// Counters of one file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counted {
    pub packets: u64,
    pub tcp: u64,
    pub bytes: u64,
    /// The times of the first packet and of the last one.
    pub times: Option<(Time, Time)>,
    /// The greatest number of an interface, plus one.
    pub interfaces: u32,
    /// Packets that were cut off within their headers.
    pub cut: u64,
    /// Packets that lost payload in the capture.
    pub snapped: u64,
    /// A link type that is not known.
    pub link_type: Option<u32>,
}

/// Follows the connections of captures, packet by packet.
#[derive(Debug, Default)]
pub struct Inspector {
    pub(crate) table: Table,
    files: Vec<Counted>,
    skipped: Skipped,
}

impl Inspector {
    /// Returns an inspector that has seen nothing.
    pub fn new() -> Inspector {
        Inspector::default()
    }

    /// Returns an inspector that notes what the packets of these subflows of its table show.
    pub(crate) fn noting(subflows: Vec<usize>) -> Inspector {
        let mut inspector = Inspector::default();
        inspector.table.notes.of = subflows;
        inspector
    }

    /// Reads `captures` to their end, and returns what happened in them. `progress` is called with the number of
    /// packets from time to time; reading ends when it returns false.
    ///
    /// # Errors
    /// If a file is damaged, or has no TCP.
    pub fn inspect(
        captures: &mut Merged,
        mut progress: impl FnMut(u64) -> bool,
    ) -> Result<Inspection, CaptureFault> {
        let mut inspector = Inspector::new();
        inspector.table.sightings.is_needed = captures.readers().len() > 1;
        let mut packets = 0;
        while captures.advance()? {
            if let Some((file, frame)) = captures.frame() {
                inspector.on_frame(file, &frame);
            }
            packets += 1;
            if packets % 65_536 == 0 && !progress(packets) {
                break;
            }
        }
        inspector.finish(captures)
    }

    /// Takes a packet of the file number `file`.
    pub fn on_frame(&mut self, file: usize, frame: &Frame<'_>) {
        if file >= MAX_FILES {
            return;
        }
        if self.files.len() <= file {
            self.files.resize(file + 1, Counted::default());
        }
        let Some(counted) = self.files.get_mut(file) else { return };
        counted.packets += 1;
        counted.bytes += frame.bytes.len() as u64;
        counted.interfaces = counted.interfaces.max(frame.interface.saturating_add(1));
        let (begun, ended) = counted.times.unwrap_or((frame.time, frame.time));
        counted.times = Some((begun.min(frame.time), ended.max(frame.time)));
        let inner = match link_layer::find(frame.link_type, frame.bytes) {
            Ok(inner) => inner,
            Err(NoIp::Other) => {
                self.skipped.not_ip += 1;
                return;
            }
            Err(NoIp::LinkType) => {
                counted.link_type = Some(frame.link_type);
                self.skipped.unknown_link_type += 1;
                return;
            }
        };
        let bytes = frame.bytes.get(inner.at..).unwrap_or_default();
        let before = u32::try_from(inner.at).unwrap_or(0);
        let view = match view(bytes, frame.original_len.saturating_sub(before)) {
            Ok(view) => view,
            Err(error) => {
                match error {
                    ParseError::Protocol(_) => self.skipped.not_tcp += 1,
                    ParseError::Fragment => self.skipped.fragments += 1,
                    ParseError::Truncated => counted.cut += 1,
                    _ => self.skipped.damaged += 1,
                }
                return;
            }
        };
        counted.tcp += 1;
        counted.cut += u64::from(view.is_cut);
        counted.snapped += u64::from(view.payload.len() < view.segment.payload_len as usize);
        let options = bytes.get(view.options.clone()).unwrap_or_default();
        let heading = frame.heading.or(inner.heading);
        self.table.on_packet(&Packet {
            time: frame.time,
            file,
            interface: frame.interface,
            heading,
            view: &view,
            options,
        });
    }

    /// Ends, and returns what happened.
    ///
    /// # Errors
    /// If there was no TCP; the error says what there was.
    pub fn finish(mut self, captures: &Merged) -> Result<Inspection, CaptureFault> {
        self.table.finish();
        let names = captures.readers();
        self.files.resize(names.len().min(MAX_FILES), Counted::default());
        let name = names.first().map_or("-", |reader| reader.name());
        if self.table.subflows.is_empty() {
            return Err(self.nothing(name));
        }
        let clocks = clocks::clocks(&self.table, self.files.len());
        let files = names.iter().zip(&self.files).zip(&clocks).map(|((reader, counted), clock)| FileReport {
            name: reader.name().to_owned(),
            format: reader.format_name(),
            packets: counted.packets,
            tcp_packets: counted.tcp,
            captured_bytes: counted.bytes,
            interfaces: (0..counted.interfaces.min(1024))
                .filter_map(|n| reader.interface_name(n).map(str::to_owned))
                .collect(),
            snapped_packets: counted.snapped,
            clock: clock.clone(),
            remark: reader.remark().map(str::to_owned),
        });
        let files: Vec<FileReport> = files.collect();
        let cut = self.files.iter().map(|file| file.cut).sum();
        let skipped = Skipped { cut, table_full: self.table.refused, ..self.skipped };
        let times = self.files.iter().enumerate().filter_map(|(at, file)| {
            let ahead = clocks::ahead(&clocks, at);
            file.times
                .map(|(begun, ended)| (clocks::corrected(begun, ahead), clocks::corrected(ended, ahead)))
        });
        let span = times.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1))).unwrap_or_default();
        Ok(Inspection::new(&self.table, files, skipped, span))
    }

    /// Returns the fault of captures without TCP.
    fn nothing(&self, name: &str) -> CaptureFault {
        let packets: u64 = self.files.iter().map(|file| file.packets).sum();
        let link_type = self.files.iter().find_map(|file| file.link_type);
        let cut: u64 = self.files.iter().map(|file| file.cut).sum();
        let help = "capture with `tcpdump -s 120 -w FILE tcp` on the host that sends";
        match link_type {
            _ if packets == 0 => CaptureFault::new(name, "has no packets", help),
            Some(number) => CaptureFault::new(
                name,
                format!("has packets of the link type {number}, from which IP cannot be read"),
                "capture on an Ethernet, Wi-Fi (managed), tunnel or `any` interface",
            ),
            None if cut > 0 => CaptureFault::new(
                name,
                format!("has {packets} packets, each cut off before the end of its TCP header"),
                "capture again with at least 120 bytes of each packet (`tcpdump -s 120`)",
            ),
            None => CaptureFault::new(
                name,
                format!("has {packets} packets, and none of them is TCP over IP"),
                help,
            ),
        }
    }
}
