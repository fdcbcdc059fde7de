//! Capture files: pcap and pcapng, also compressed by gzip, from any source of bytes.
//!
//! The reader is written here and not taken from a crate: it needs the place of each fault, interfaces with their
//! own units of time, a bound on every length that a file states, and one buffer for all packets. `docs/inspect.md`
//! compares it with the crates that exist.

mod merge;
mod pcap;
mod pcapng;
mod source;

use std::io::Read;

use anabranch_units::Time;
use flate2::read::MultiGzDecoder;

use crate::error::CaptureFault;

pub use merge::Merged;

use source::Source;

/// The greatest length of a packet. Super-packets of offload have 64 KB, jumbograms of BIG TCP 512 KB.
const MAX_PACKET: u32 = 1 << 22;

/// The side of the interface from which a packet came.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Heading {
    /// Received by the capturing host.
    In,
    /// Sent by the capturing host.
    Out,
}

/// One packet of a capture, from its link layer on.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    /// The time since 1970-01-01.
    pub time: Time,
    /// The interface within the file.
    pub interface: u32,
    /// The link type (the registry of tcpdump.org).
    pub link_type: u32,
    /// The direction, if the file states it.
    pub heading: Option<Heading>,
    /// The captured bytes.
    pub bytes: &'a [u8],
    /// The length on the wire.
    pub original_len: u32,
}

/// The fields of the packet in the buffer.
#[derive(Clone, Copy, Debug)]
struct Head {
    time: Time,
    interface: u32,
    link_type: u32,
    heading: Option<Heading>,
    len: usize,
    original_len: u32,
}

/// The format of a file.
#[derive(Debug)]
enum Format {
    Pcap(pcap::Layout),
    PcapNg(pcapng::Section),
}

/// Reads one capture file, packet by packet, with one buffer.
pub struct Reader {
    source: Source,
    format: Format,
    compressed: bool,
    buffer: Vec<u8>,
    head: Option<Head>,
    packets: u64,
    remark: Option<String>,
}

impl Reader {
    /// Reads the beginning of the capture `name` from `input`.
    ///
    /// # Errors
    /// If it is no capture.
    pub fn new(name: &str, input: Box<dyn Read + Send>) -> Result<Reader, CaptureFault> {
        let mut source = Source::new(name, input);
        let mut compressed = false;
        let mut magic = source.magic()?;
        if magic.starts_with(&[0x1f, 0x8b]) {
            compressed = true;
            let inner = source.into_inner();
            source = Source::new(name, Box::new(MultiGzDecoder::new(inner)));
            magic = source.magic()?;
        }
        let format = match magic {
            [0x0a, 0x0d, 0x0d, 0x0a] => Format::PcapNg(pcapng::Section::begin(&mut source)?),
            _ => match pcap::Layout::begin(magic, &mut source)? {
                Some(layout) => Format::Pcap(layout),
                None => return Err(unknown(name, magic)),
            },
        };
        Ok(Reader { source, format, compressed, buffer: Vec::new(), head: None, packets: 0, remark: None })
    }

    /// Reads the next packet; false at the end of the file.
    ///
    /// # Errors
    /// If the file is damaged. A packet that is cut off at the end of the file is a remark and no error.
    pub fn advance(&mut self) -> Result<bool, CaptureFault> {
        let number = self.packets + 1;
        let read = match &mut self.format {
            Format::Pcap(layout) => layout.packet(&mut self.source, &mut self.buffer, number),
            Format::PcapNg(section) => section.packet(&mut self.source, &mut self.buffer, number),
        };
        match read {
            Ok(head) => {
                self.head = head;
                self.packets += u64::from(head.is_some());
                Ok(head.is_some())
            }
            Err(fault) => {
                self.head = None;
                if let Some(remark) = self.source.take_cut(number) {
                    self.remark = Some(remark);
                    return Ok(false);
                }
                Err(fault)
            }
        }
    }

    /// Returns the packet that was read last; none before the first and after the last one.
    pub fn frame(&self) -> Option<Frame<'_>> {
        let head = self.head?;
        Some(Frame {
            time: head.time,
            interface: head.interface,
            link_type: head.link_type,
            heading: head.heading,
            bytes: self.buffer.get(..head.len)?,
            original_len: head.original_len,
        })
    }

    /// Returns the name of the file.
    pub fn name(&self) -> &str {
        self.source.name()
    }

    /// Returns the name of an interface, if the file has it.
    pub fn interface_name(&self, interface: u32) -> Option<&str> {
        match &self.format {
            Format::Pcap(_) => None,
            Format::PcapNg(section) => section.name(interface),
        }
    }

    /// Returns the format in words.
    pub fn format_name(&self) -> &'static str {
        match (&self.format, self.compressed) {
            (Format::Pcap(_), false) => "pcap",
            (Format::Pcap(_), true) => "pcap, gzip",
            (Format::PcapNg(_), false) => "pcapng",
            (Format::PcapNg(_), true) => "pcapng, gzip",
        }
    }

    /// Returns a remark on the end of the file, such as a packet that is cut off.
    pub fn remark(&self) -> Option<&str> {
        self.remark.as_deref()
    }
}

/// Returns the fault of a file that is no capture, by its first bytes.
fn unknown(name: &str, magic: [u8; 4]) -> CaptureFault {
    let fix = |tool: &str| format!("decompress it first: `{tool} -dc FILE | anabranch inspect -`");
    let (text, help) = match magic {
        [0x28, 0xb5, 0x2f, 0xfd] => ("is compressed by zstd", fix("zstd")),
        [0xfd, b'7', b'z', b'X'] => ("is compressed by xz", fix("xz")),
        [0x04, 0x22, 0x4d, 0x18] => ("is compressed by lz4", fix("lz4")),
        [b'B', b'Z', b'h', _] => ("is compressed by bzip2", fix("bzip2")),
        [b'P', b'K', ..] => ("is a zip archive", "extract the capture from it".to_owned()),
        [b's', b'n', b'o', b'o'] => {
            ("is a capture of snoop", "convert it with `editcap -F pcap FILE NEW`".to_owned())
        }
        _ => (
            "is not a capture: it begins with the magic number of neither pcap nor pcapng",
            "give a file of `tcpdump -w` or Wireshark, or convert it with `editcap -F pcapng FILE NEW`"
                .to_owned(),
        ),
    };
    CaptureFault::new(name, text, help)
}
