//! A writer of capture files in the pcapng format (draft-ietf-opsawg-pcapng), which Wireshark,
//! tshark and tcpdump read.
//!
//! Nanosecond timestamps, any number of interfaces, a comment on any packet, IP packets without a link layer.
//! The length of the only section is left open, so that the file can be written to a pipe.

use std::io::{self, Write};

use anabranch_units::Time;

/// The link type of raw IPv4 and IPv6 packets (LINKTYPE_RAW).
const RAW_IP: u16 = 101;

const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const INTERFACE_DESCRIPTION: u32 = 1;
const ENHANCED_PACKET: u32 = 6;

const END_OF_OPTIONS: u16 = 0;
const COMMENT: u16 = 1;
const USER_APPLICATION: u16 = 4;
const INTERFACE_NAME: u16 = 2;
const INTERFACE_DESCRIBED: u16 = 3;
const TIME_RESOLUTION: u16 = 9;
const PACKET_FLAGS: u16 = 2;

/// Identifies an interface of a [`Writer`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InterfaceId(pub u32);

/// The direction of a packet at its interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// Received.
    Inbound,
    /// Sent.
    Outbound,
}

/// One packet of a capture.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Packet<'a> {
    /// The interface at which it was captured.
    pub interface: InterfaceId,
    /// The time since 1970-01-01; a simulation begins there.
    pub time: Time,
    /// Its direction, if it is known.
    pub direction: Option<Direction>,
    /// Its bytes from the IP header on, possibly truncated.
    pub bytes: &'a [u8],
    /// Its original length in bytes.
    pub original_len: u32,
    /// A comment on the packet; none if empty. Truncated to 65535 bytes.
    pub comment: &'a str,
}

/// Writes a capture, block by block: `out` should be buffered.
#[derive(Debug)]
pub struct Writer<W> {
    out: W,
    interfaces: u32,
    block: Vec<u8>,
}

impl<W: Write> Writer<W> {
    /// Begins a capture made by `application`.
    ///
    /// # Errors
    /// If writing fails.
    pub fn new(out: W, application: &str) -> io::Result<Writer<W>> {
        let mut writer = Writer { out, interfaces: 0, block: Vec::new() };
        // Byte-order magic, version 1.0, and a section of unknown length.
        writer.u32(0x1a2b_3c4d);
        writer.u16(1);
        writer.u16(0);
        writer.put(&u64::MAX.to_le_bytes());
        writer.option(USER_APPLICATION, application.as_bytes());
        writer.option(END_OF_OPTIONS, &[]);
        writer.write(SECTION_HEADER)?;
        Ok(writer)
    }

    /// Adds an interface; at most `snap_len` bytes of its packets are kept (0: all).
    ///
    /// # Errors
    /// If writing fails.
    pub fn interface(&mut self, name: &str, description: &str, snap_len: u32) -> io::Result<InterfaceId> {
        self.u16(RAW_IP);
        self.u16(0);
        self.u32(snap_len);
        self.option(INTERFACE_NAME, name.as_bytes());
        if !description.is_empty() {
            self.option(INTERFACE_DESCRIBED, description.as_bytes());
        }
        // Times are in units of 10^-9 seconds.
        self.option(TIME_RESOLUTION, &[9]);
        self.option(END_OF_OPTIONS, &[]);
        self.write(INTERFACE_DESCRIPTION)?;
        self.interfaces += 1;
        Ok(InterfaceId(self.interfaces - 1))
    }

    /// Adds a packet. Its interface must have been added before.
    ///
    /// # Errors
    /// If writing fails, or if the interface does not exist.
    pub fn packet(&mut self, packet: &Packet<'_>) -> io::Result<()> {
        if packet.interface.0 >= self.interfaces {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "a packet of an unknown interface"));
        }
        let captured = u32::try_from(packet.bytes.len())
            .map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "a packet of more than 4 GB"))?;
        let nanos = packet.time.0;
        self.u32(packet.interface.0);
        self.u32((nanos >> 32) as u32);
        self.u32(nanos as u32);
        self.u32(captured);
        self.u32(packet.original_len.max(captured));
        self.put(packet.bytes);
        self.pad();
        if !packet.comment.is_empty() {
            self.option(COMMENT, packet.comment.as_bytes());
        }
        if let Some(direction) = packet.direction {
            let flags: u32 = match direction {
                Direction::Inbound => 1,
                Direction::Outbound => 2,
            };
            self.option(PACKET_FLAGS, &flags.to_le_bytes());
        }
        self.option(END_OF_OPTIONS, &[]);
        self.write(ENHANCED_PACKET)
    }

    /// Returns the underlying writer.
    pub fn get_mut(&mut self) -> &mut W {
        &mut self.out
    }

    /// Ends the capture, flushes the underlying writer and returns it.
    ///
    /// # Errors
    /// If writing fails.
    pub fn finish(mut self) -> io::Result<W> {
        self.out.flush()?;
        Ok(self.out)
    }

    fn put(&mut self, bytes: &[u8]) {
        self.block.extend_from_slice(bytes);
    }

    fn u16(&mut self, value: u16) {
        self.put(&value.to_le_bytes());
    }

    fn u32(&mut self, value: u32) {
        self.put(&value.to_le_bytes());
    }

    fn pad(&mut self) {
        self.block.resize(self.block.len().next_multiple_of(4), 0);
    }

    fn option(&mut self, code: u16, value: &[u8]) {
        let mut len = value.len().min(usize::from(u16::MAX));
        // A truncated text stays valid UTF-8.
        while len < value.len() && value[len] & 0xc0 == 0x80 {
            len -= 1;
        }
        self.u16(code);
        self.u16(len as u16);
        self.put(&value[..len]);
        self.pad();
    }

    /// Writes the collected block with its type and its length.
    fn write(&mut self, kind: u32) -> io::Result<()> {
        let len = self.block.len() as u32 + 12;
        self.u32(len);
        self.out.write_all(&kind.to_le_bytes())?;
        self.out.write_all(&len.to_le_bytes())?;
        let result = self.out.write_all(&self.block);
        self.block.clear();
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn u32_at(bytes: &[u8], at: usize) -> u32 {
        u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
    }

    /// Returns the blocks of a file: type and body.
    fn blocks(mut file: &[u8]) -> Vec<(u32, Vec<u8>)> {
        let mut blocks = Vec::new();
        while !file.is_empty() {
            let len = u32_at(file, 4) as usize;
            assert_eq!(len % 4, 0);
            assert_eq!(u32_at(file, len - 4) as usize, len, "the length stands at both ends");
            blocks.push((u32_at(file, 0), file[8..len - 4].to_vec()));
            file = &file[len..];
        }
        blocks
    }

    #[test]
    fn blocks_are_as_the_draft_says() {
        let mut writer = Writer::new(Vec::new(), "test").expect("a vector takes all");
        let first = writer.interface("wifi.up", "", 0).expect("a vector takes all");
        let second = writer.interface("lte", "the other", 64).expect("a vector takes all");
        assert_eq!((first, second), (InterfaceId(0), InterfaceId(1)));
        let packet = Packet {
            interface: second,
            time: Time(0x0001_0002_0003_0004),
            direction: Some(Direction::Outbound),
            bytes: &[1, 2, 3, 4, 5],
            original_len: 1500,
            comment: "why",
        };
        writer.packet(&packet).expect("a vector takes all");
        let file = writer.finish().expect("a vector takes all");
        let blocks = blocks(&file);
        assert_eq!(blocks.iter().map(|block| block.0).collect::<Vec<_>>(), [0x0a0d_0d0a, 1, 1, 6]);
        assert_eq!(blocks[0].1[..16], *b"\x4d\x3c\x2b\x1a\x01\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff");
        assert_eq!(blocks[1].1, *b"\x65\0\0\0\0\0\0\0\x02\0\x07\0wifi.up\0\x09\0\x01\0\x09\0\0\0\0\0\0\0");
        assert_eq!(u32_at(&blocks[2].1, 4), 64);
        let expected = b"\x01\0\0\0\x02\0\x01\0\x04\0\x03\0\x05\0\0\0\xdc\x05\0\0\x01\x02\x03\x04\x05\0\0\0\
            \x01\0\x03\0why\0\x02\0\x04\0\x02\0\0\0\0\0\0\0";
        assert_eq!(blocks[3].1, expected);
    }

    #[test]
    fn an_unknown_interface_and_a_full_disk_are_errors() {
        let mut writer = Writer::new(Vec::new(), "test").expect("a vector takes all");
        let packet = Packet {
            interface: InterfaceId(0),
            time: Time::ZERO,
            direction: Some(Direction::Inbound),
            bytes: &[],
            original_len: 0,
            comment: "",
        };
        assert_eq!(writer.packet(&packet).expect_err("none yet").kind(), io::ErrorKind::InvalidInput);
        let full: &mut [u8] = &mut [0; 10];
        assert!(Writer::new(full, "test").is_err());
    }

    #[test]
    fn a_long_comment_is_cut_between_two_characters() {
        let mut writer = Writer::new(Vec::new(), "test").expect("a vector takes all");
        let interface = writer.interface("a", "", 0).expect("a vector takes all");
        let comment = "é".repeat(40_000);
        let packet = Packet {
            interface,
            time: Time::ZERO,
            direction: Some(Direction::Inbound),
            bytes: &[],
            original_len: 0,
            comment: &comment,
        };
        writer.packet(&packet).expect("a vector takes all");
        let file = writer.finish().expect("a vector takes all");
        let body = &blocks(&file)[2].1;
        assert_eq!(u16::from_le_bytes([body[22], body[23]]), 65_534);
    }
}
