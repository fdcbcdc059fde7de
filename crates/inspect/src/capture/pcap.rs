//! The classic format (draft-ietf-opsawg-pcap).

use anabranch_units::Time;

use super::source::Source;
use super::{Head, MAX_PACKET};
use crate::error::CaptureFault;

/// The layout of a file, from its header.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    big_endian: bool,
    nanoseconds: bool,
    /// Bytes after the lengths of a packet: a variant of Linux has eight.
    extra: usize,
    link_type: u32,
}

impl Layout {
    /// Reads the header after `magic`; none if it is no pcap.
    pub(super) fn begin(magic: [u8; 4], source: &mut Source) -> Result<Option<Layout>, CaptureFault> {
        let (big_endian, nanoseconds, extra) = match magic {
            [0xa1, 0xb2, 0xc3, 0xd4] => (true, false, 0),
            [0xd4, 0xc3, 0xb2, 0xa1] => (false, false, 0),
            [0xa1, 0xb2, 0x3c, 0x4d] => (true, true, 0),
            [0x4d, 0x3c, 0xb2, 0xa1] => (false, true, 0),
            [0xa1, 0xb2, 0xcd, 0x34] => (true, false, 8),
            [0x34, 0xcd, 0xb2, 0xa1] => (false, false, 8),
            _ => return Ok(None),
        };
        let mut header = [0; 20];
        source.read_exact(&mut header)?;
        let mut layout = Layout { big_endian, nanoseconds, extra, link_type: 0 };
        // The upper bits have the length of the frame check sequence.
        layout.link_type = layout.u32(&header, 16) & 0xffff;
        Ok(Some(layout))
    }

    fn u32(&self, bytes: &[u8], at: usize) -> u32 {
        let bytes = bytes.get(at..at + 4).and_then(|bytes| bytes.try_into().ok()).unwrap_or([0; 4]);
        if self.big_endian { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) }
    }

    /// Reads packet `number` into `buffer`; none at the end.
    pub(super) fn packet(
        &self,
        source: &mut Source,
        buffer: &mut Vec<u8>,
        number: u64,
    ) -> Result<Option<Head>, CaptureFault> {
        let at = source.at();
        let mut header = [0; 24];
        let header = &mut header[..16 + self.extra];
        if !source.read_or_end(header)? {
            return Ok(None);
        }
        let (seconds, fraction) = (self.u32(header, 0), self.u32(header, 4));
        let (len, original_len) = (self.u32(header, 8), self.u32(header, 12));
        if len > MAX_PACKET {
            let text = format!("packet {number} at byte {at} states a length of {len} bytes");
            return Err(source.damaged(text));
        }
        source.read_into(buffer, len as usize)?;
        let nanos = u64::from(fraction) * if self.nanoseconds { 1 } else { 1000 };
        Ok(Some(Head {
            time: Time(u64::from(seconds) * 1_000_000_000 + nanos),
            interface: 0,
            link_type: self.link_type,
            heading: None,
            len: len as usize,
            original_len: original_len.max(len),
        }))
    }
}
