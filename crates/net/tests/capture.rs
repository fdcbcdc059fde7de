//! Captures of a host, on tokio's paused clock.

mod common;

use std::io::{self, Write};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};

use anabranch_device::{Capabilities, memory};
use anabranch_net::{Capture, Host};
use anabranch_wire::{Checksums, parse};
use common::{Path, builders, config, content, receive_all, server_address};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// A shared buffer that the test can read.
#[derive(Clone, Default)]
struct Sheet(Arc<Mutex<Vec<u8>>>);

impl Sheet {
    fn bytes(&self) -> Vec<u8> {
        self.0.lock().unwrap().clone()
    }
}

impl Write for Sheet {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}

/// A packet of a capture.
struct Seen {
    interface: u32,
    time: u64,
    sent: bool,
    bytes: Vec<u8>,
    original_len: u32,
    comment: String,
}

/// Returns the names of the interfaces and the packets of a file, which has only whole blocks.
fn read(file: &[u8]) -> (Vec<String>, Vec<Seen>) {
    let (mut names, mut packets, mut at) = (Vec::new(), Vec::new(), 0);
    while at < file.len() {
        let len = u32_at(file, at + 4) as usize;
        assert_eq!(u32_at(file, at + len - 4) as usize, len, "the length stands at both ends");
        let body = &file[at + 8..at + len - 4];
        match u32_at(file, at) {
            1 => names.push(String::from_utf8(option(&body[8..], 2).unwrap()).unwrap()),
            6 => {
                let captured = u32_at(body, 12) as usize;
                let options = &body[20 + captured.next_multiple_of(4)..];
                packets.push(Seen {
                    interface: u32_at(body, 0),
                    time: u64::from(u32_at(body, 4)) << 32 | u64::from(u32_at(body, 8)),
                    sent: option(options, 2).unwrap()[0] == 2,
                    bytes: body[20..20 + captured].to_vec(),
                    original_len: u32_at(body, 16),
                    comment: option(options, 1)
                        .map_or(String::new(), |text| String::from_utf8(text).unwrap()),
                });
            }
            _ => {}
        }
        at += len;
    }
    (names, packets)
}

fn option(mut options: &[u8], code: u8) -> Option<Vec<u8>> {
    while options.len() >= 4 && options[0] != 0 {
        let len = usize::from(u16::from_le_bytes([options[2], options[3]]));
        if options[0] == code {
            return Some(options[4..4 + len].to_vec());
        }
        options = &options[4 + len.next_multiple_of(4)..];
    }
    None
}

const LEN: usize = 300_000;

/// Sends [`LEN`] bytes from `client` to `server`.
async fn transfer(client: &Host, server: &Host) {
    let receive = receive_all(server);
    let mut stream = client.connect(server_address(), config()).await.unwrap();
    stream.write_all(&content(LEN)).await.unwrap();
    stream.shutdown().await.unwrap();
    assert!(receive.await.unwrap() == content(LEN));
}

#[tokio::test(start_paused = true)]
async fn every_packet_is_there_once_with_its_device_and_the_reason_why() {
    let sheet = Sheet::default();
    let (client, server) = builders(&[Path::new(20, 10), Path::new(20, 30)]);
    let (client, server) =
        (client.capture(Capture::new(sheet.clone())).start().unwrap(), server.start().unwrap());
    transfer(&client, &server).await;
    client.finished().await.unwrap();
    let counters = client.counters();
    let report = client.end_capture().await.unwrap().unwrap();
    assert_eq!(client.end_capture().await.unwrap(), None, "it has ended");
    let (names, packets) = read(&sheet.bytes());
    assert_eq!(names, ["device1", "device2"]);
    assert_eq!((packets.len() as u64, report.left_out), (report.packets, 0));
    let count = |sent: bool| packets.iter().filter(|packet| packet.sent == sent).count() as u64;
    assert_eq!((count(true), count(false)), (counters.sent, counters.received));
    assert!(packets.is_sorted_by_key(|packet| packet.time));
    let mut payload = 0;
    for packet in &packets {
        assert_eq!(packet.bytes.len() as u32, packet.original_len);
        let parsed = parse(&packet.bytes, Checksums::Verify).unwrap();
        if packet.sent {
            assert_eq!(parsed.segment.source.ip, common::client_ip(packet.interface as usize));
        }
        assert_eq!(packet.comment.is_empty(), !packet.sent || parsed.payload.is_empty());
        payload += parsed.payload.len();
    }
    assert_eq!(payload, LEN);
    for path in 0..2 {
        let with = |text: &str| {
            packets.iter().any(|packet| packet.interface == path && packet.comment.starts_with(text))
        };
        assert!(with("new data: lowest RTT"), "path {path}");
    }
}

#[tokio::test(start_paused = true)]
async fn checksums_are_whole_also_where_a_device_would_compute_them() {
    let sheet = Sheet::default();
    let capabilities = Capabilities { checksum_offload: true, ..Capabilities::plain(1500) };
    let (left, right) = memory::pair(capabilities);
    let client = Host::builder().device(left, &[common::client_ip(0)]);
    let client = client.capture(Capture::new(sheet.clone()).snap_len(80)).start().unwrap();
    let server = Host::builder().device(right, &[common::server_ip(0)]).start().unwrap();
    transfer(&client, &server).await;
    client.end_capture().await.unwrap();
    let (_, packets) = read(&sheet.bytes());
    assert!(packets.iter().any(|packet| packet.original_len == 1500 && packet.bytes.len() == 80));
    let whole = packets.iter().filter(|packet| packet.bytes.len() as u32 == packet.original_len);
    let both = [true, false].map(|sent| whole.clone().filter(|packet| packet.sent == sent).count());
    assert!(both[0] > 2 && both[1] > 2, "{both:?}");
    for packet in whole {
        parse(&packet.bytes, Checksums::Verify).unwrap();
    }
}

/// A disk that is full after some bytes.
struct Full(usize);

impl Write for Full {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 = self.0.checked_sub(bytes.len()).ok_or(io::ErrorKind::StorageFull)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn a_full_disk_ends_the_capture_and_not_the_transfer() {
    let (client, server) = builders(&[Path::new(20, 10)]);
    let client = client.capture(Capture::new(Full(50_000))).start().unwrap();
    transfer(&client, &server.start().unwrap()).await;
    assert_eq!(client.end_capture().await.unwrap_err().kind(), io::ErrorKind::StorageFull);
}

/// A disk that blocks until it is released.
struct Slow(Receiver<()>, Sheet);

impl Write for Slow {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // Once released, it writes without delay.
        let _ = self.0.recv();
        self.1.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_slow_disk_does_not_take_is_left_out_and_counted() {
    let sheet = Sheet::default();
    let (go, wait) = channel();
    let (client, server) = builders(&[Path::new(20, 10)]);
    let capture = Capture::new(Slow(wait, sheet.clone())).max_waiting(100_000);
    let (client, server) = (client.capture(capture).start().unwrap(), server.start().unwrap());
    transfer(&client, &server).await;
    drop(go);
    // Once there is space again.
    let missing = |sheet: &Sheet| -> u64 {
        let (_, packets) = read(&sheet.bytes());
        let before = packets.iter().filter_map(|packet| packet.comment.split_once(" packets before it"));
        before.map(|(text, _)| text.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum()
    };
    let mut listener = server.listen(common::PORT + 1, config(), 1).unwrap();
    let again = std::net::SocketAddr::new(common::server_ip(0), common::PORT + 1);
    let mut stream = client.connect(again, config()).await.unwrap();
    let (mut other, _) = listener.accept().await.unwrap();
    while missing(&sheet) == 0 {
        stream.write_all(b"x").await.unwrap();
        other.read_u8().await.unwrap();
    }
    let counters = client.counters();
    let report = client.end_capture().await.unwrap().unwrap();
    assert!(report.left_out > 50, "{report:?}");
    assert!((1..=report.left_out).contains(&missing(&sheet)), "{} of {report:?}", missing(&sheet));
    let (_, packets) = read(&sheet.bytes());
    assert_eq!(packets.len() as u64, report.packets);
    assert_eq!(report.packets + report.left_out, counters.sent + counters.received);
}
