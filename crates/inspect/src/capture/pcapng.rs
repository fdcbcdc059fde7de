//! The pcapng format (draft-ietf-opsawg-pcapng).

use anabranch_units::Time;

use super::source::Source;
use super::{Head, Heading, MAX_PACKET};
use crate::error::CaptureFault;

const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const INTERFACE_DESCRIPTION: u32 = 1;
/// Obsolete, written by old versions of Wireshark.
const PACKET: u32 = 2;
const SIMPLE_PACKET: u32 = 3;
const ENHANCED_PACKET: u32 = 6;

const INTERFACE_NAME: u16 = 2;
const PACKET_FLAGS: u16 = 2;
const TIME_RESOLUTION: u16 = 9;
const TIME_OFFSET: u16 = 14;

/// The most interfaces of a section.
const MAX_INTERFACES: usize = 1 << 16;
/// The greatest block that is not a packet and has to be read: an interface or the begin of a section.
const MAX_HEADER: u32 = 1 << 20;

/// An interface of the section.
#[derive(Clone, Debug)]
struct Interface {
    link_type: u32,
    snap_len: u32,
    name: String,
    /// Units of time in a second.
    units: u64,
    offset_s: i64,
}

/// The current section of a file.
#[derive(Debug)]
pub(super) struct Section {
    big_endian: bool,
    interfaces: Vec<Interface>,
    /// The number of interfaces of sections before this one: interfaces are numbered through the file.
    before: u32,
    /// The names of all interfaces of the file.
    names: Vec<String>,
}

impl Section {
    /// Reads the first section header, after its type.
    pub(super) fn begin(source: &mut Source) -> Result<Section, CaptureFault> {
        let mut section = Section { big_endian: false, interfaces: Vec::new(), before: 0, names: Vec::new() };
        section.header(source)?;
        Ok(section)
    }

    pub(super) fn name(&self, interface: u32) -> Option<&str> {
        self.names.get(interface as usize).map(String::as_str).filter(|name| !name.is_empty())
    }

    /// Reads a section header after its type.
    fn header(&mut self, source: &mut Source) -> Result<(), CaptureFault> {
        let at = source.at() - 4;
        let mut start = [0; 8];
        source.read_exact(&mut start)?;
        self.big_endian = match start[4..] {
            [0x1a, 0x2b, 0x3c, 0x4d] => true,
            [0x4d, 0x3c, 0x2b, 0x1a] => false,
            _ => {
                let text = format!("the section at byte {at} has no byte-order magic");
                return Err(source.damaged(text));
            }
        };
        let len = self.u32(&start, 0);
        if len < 28 || !len.is_multiple_of(4) || len > MAX_HEADER {
            return Err(source.damaged(format!("the section at byte {at} states a length of {len} bytes")));
        }
        source.skip(u64::from(len) - 12)?;
        self.before = self.names.len() as u32;
        self.interfaces.clear();
        Ok(())
    }

    fn u32(&self, bytes: &[u8], at: usize) -> u32 {
        let bytes = bytes.get(at..at + 4).and_then(|bytes| bytes.try_into().ok()).unwrap_or([0; 4]);
        if self.big_endian { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) }
    }

    fn u16(&self, bytes: &[u8], at: usize) -> u16 {
        let bytes = bytes.get(at..at + 2).and_then(|bytes| bytes.try_into().ok()).unwrap_or([0; 2]);
        if self.big_endian { u16::from_be_bytes(bytes) } else { u16::from_le_bytes(bytes) }
    }

    /// Calls `each` with the code and the value of every option.
    fn options(&self, mut bytes: &[u8], mut each: impl FnMut(u16, &[u8])) {
        while bytes.len() >= 4 {
            let (code, len) = (self.u16(bytes, 0), usize::from(self.u16(bytes, 2)));
            let Some(value) = bytes.get(4..4 + len) else { return };
            if code == 0 {
                return;
            }
            each(code, value);
            bytes = bytes.get(4 + len.next_multiple_of(4)..).unwrap_or_default();
        }
    }

    /// Reads packet `number` into `buffer`; none at the end.
    pub(super) fn packet(
        &mut self,
        source: &mut Source,
        buffer: &mut Vec<u8>,
        number: u64,
    ) -> Result<Option<Head>, CaptureFault> {
        loop {
            let at = source.at();
            let mut kind = [0; 4];
            if !source.read_or_end(&mut kind)? {
                return Ok(None);
            }
            let kind = self.u32(&kind, 0);
            if kind == SECTION_HEADER {
                self.header(source)?;
                continue;
            }
            let mut len = [0; 4];
            source.read_exact(&mut len)?;
            let len = self.u32(&len, 0);
            let is_packet = matches!(kind, PACKET | SIMPLE_PACKET | ENHANCED_PACKET);
            let most = match kind {
                INTERFACE_DESCRIPTION => MAX_HEADER,
                _ if is_packet => MAX_PACKET + MAX_HEADER,
                _ => u32::MAX,
            };
            if len < 12 || !len.is_multiple_of(4) || len > most {
                let text = format!("the block of type {kind} at byte {at} states a length of {len} bytes");
                return Err(source.damaged(text));
            }
            let body = len - 12;
            if kind != INTERFACE_DESCRIPTION && !is_packet {
                source.skip(u64::from(body) + 4)?;
                continue;
            }
            source.read_into(buffer, body as usize)?;
            source.skip(4)?;
            if kind == INTERFACE_DESCRIPTION {
                self.interface(source, &buffer[..body as usize], at)?;
                continue;
            }
            let body = body as usize;
            let head = self.enhanced(kind, &buffer[..body]);
            let Some((head, start)) = head else {
                let text =
                    format!("packet {number} at byte {at} contradicts itself: a length or its interface");
                return Err(source.damaged(text));
            };
            buffer.copy_within(start..start + head.len, 0);
            return Ok(Some(head));
        }
    }

    fn interface(&mut self, source: &Source, body: &[u8], at: u64) -> Result<(), CaptureFault> {
        if self.names.len() >= MAX_INTERFACES {
            let text = format!("byte {at} describes more than {MAX_INTERFACES} interfaces");
            return Err(source.damaged(text));
        }
        let mut interface = Interface {
            link_type: u32::from(self.u16(body, 0)),
            snap_len: self.u32(body, 4),
            name: String::new(),
            units: 1_000_000,
            offset_s: 0,
        };
        self.options(body.get(8..).unwrap_or_default(), |code, value| match (code, value) {
            (INTERFACE_NAME, name) => {
                interface.name = String::from_utf8_lossy(&name[..name.len().min(64)]).into_owned();
            }
            (TIME_RESOLUTION, [resolution]) => {
                let power = u32::from(resolution & 0x7f);
                let base: u64 = if resolution & 0x80 == 0 { 10 } else { 2 };
                interface.units = base.checked_pow(power).unwrap_or(0);
            }
            (TIME_OFFSET, value) => {
                let value = value.try_into().unwrap_or([0; 8]);
                interface.offset_s =
                    if self.big_endian { i64::from_be_bytes(value) } else { i64::from_le_bytes(value) };
            }
            _ => {}
        });
        if interface.units == 0 {
            let text = format!("byte {at} describes an interface with times in units that no clock has");
            return Err(source.damaged(text));
        }
        self.names.push(interface.name.clone());
        self.interfaces.push(interface);
        Ok(())
    }

    /// Reads the body of a packet; returns where its bytes begin.
    fn enhanced(&self, kind: u32, body: &[u8]) -> Option<(Head, usize)> {
        if kind == SIMPLE_PACKET {
            let interface = self.interfaces.first()?;
            let original_len = self.u32(body, 0);
            let available = (body.len() as u32).checked_sub(4)?;
            let snap_len = if interface.snap_len == 0 { u32::MAX } else { interface.snap_len };
            let len = original_len.min(snap_len).min(available) as usize;
            // It has no time: all such packets are at once.
            let head = Head {
                time: Time::ZERO,
                interface: self.before,
                link_type: interface.link_type,
                heading: None,
                len,
                original_len,
            };
            return Some((head, 4));
        }
        if body.len() < 20 {
            return None;
        }
        let number = if kind == PACKET { u32::from(self.u16(body, 0)) } else { self.u32(body, 0) };
        let interface = self.interfaces.get(number as usize)?;
        let ticks = u64::from(self.u32(body, 4)) << 32 | u64::from(self.u32(body, 8));
        let (len, original_len) = (self.u32(body, 12), self.u32(body, 16));
        let options = (len as usize).checked_next_multiple_of(4)?.checked_add(20)?;
        if 20 + len as usize > body.len() {
            return None;
        }
        let mut heading = None;
        self.options(body.get(options..).unwrap_or_default(), |code, value| {
            if code == PACKET_FLAGS && value.len() == 4 {
                heading = match self.u32(value, 0) & 3 {
                    1 => Some(Heading::In),
                    2 => Some(Heading::Out),
                    _ => None,
                };
            }
        });
        let nanos = u128::from(ticks) * 1_000_000_000 / u128::from(interface.units.max(1));
        let nanos = nanos as i128 + i128::from(interface.offset_s) * 1_000_000_000;
        let head = Head {
            time: Time(nanos.clamp(0, i128::from(u64::MAX >> 1)) as u64),
            interface: self.before + number,
            link_type: interface.link_type,
            heading,
            len: len as usize,
            original_len: original_len.max(len),
        };
        Some((head, 20))
    }
}
