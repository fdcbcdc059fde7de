//! Captures in memory.

use std::path::Path;

use anabranch_inspect::capture::{Merged, Reader};
use anabranch_inspect::{CaptureFault, Inspection, Inspector};
use anabranch_units::Time;

/// Returns the bytes of a capture of tcpdump's tests.
pub(crate) fn of_tcpdump(name: &str) -> Vec<u8> {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/captures").join(format!("mptcp-{name}.pcap"));
    std::fs::read(path).unwrap()
}

/// Returns a capture of the kernel's Multipath TCP over the emulator: 12 Mbit/s and 20 ms, and 6 Mbit/s and 50 ms with
/// 2 % of loss; a download of a megabyte, at the server.
pub(crate) fn two_paths() -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/notebooks/two-paths.pcap");
    std::fs::read(path).unwrap()
}

/// Inspects captures.
pub(crate) fn inspect(files: &[&[u8]]) -> Result<Inspection, CaptureFault> {
    let readers = files
        .iter()
        .enumerate()
        .map(|(n, bytes)| Reader::new(&format!("file{n}"), Box::new(std::io::Cursor::new(bytes.to_vec()))));
    let readers: Result<Vec<Reader>, CaptureFault> = readers.collect();
    Inspector::inspect(&mut Merged::new(readers?), |_| true)
}

/// A packet from the IP header on.
#[derive(Clone, Debug)]
pub(crate) struct Packet {
    pub time: Time,
    pub bytes: Vec<u8>,
    pub original_len: u32,
}

/// Returns the IP packets of a Linux cooked capture, version 2.
pub(crate) fn packets(capture: &[u8]) -> Vec<Packet> {
    let mut reader = Reader::new("capture", Box::new(std::io::Cursor::new(capture.to_vec()))).unwrap();
    let mut packets = Vec::new();
    while reader.advance().unwrap() {
        let frame = reader.frame().unwrap();
        assert_eq!(frame.link_type, 276);
        let bytes = frame.bytes[20..].to_vec();
        packets.push(Packet { time: frame.time, bytes, original_len: frame.original_len - 20 });
    }
    packets
}

/// Returns the result without the files, which differ by format, as text.
pub(crate) fn connections(inspection: &Inspection) -> String {
    format!("{:#?}", inspection.connections)
}
