//! Hosts behind middleboxes that translate addresses and ports (RFC 8684 section 7: joins work, because they
//! refer to IDs and tokens instead of addresses; an announcement carries the inner address).

mod common;

use std::collections::{BTreeSet, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use anabranch_device::{Capabilities, Packet, memory};
use anabranch_middlebox::{Direction, FilteredDevice};
use anabranch_net::{Host, default_config};
use anabranch_stack::segment::Address;
use anabranch_wire::{Checksum, Checksums, IpFields, emit, parse};
use common::{PORT, client_ip, content, server_ip};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

fn inner(host: u8, path: usize) -> IpAddr {
    IpAddr::from([192, 168, path as u8, host])
}

/// Translates `inside` to `outside` for outgoing packets and back for incoming ones, and adds `shift` to
/// ports. Packets for other addresses are dropped and counted.
struct Nat {
    pairs: [(IpAddr, IpAddr); 2],
    shift: u16,
    strays: Arc<AtomicU32>,
}

impl Nat {
    fn pass(&self, direction: Direction, packet: &Packet, out: &mut VecDeque<Packet>) {
        let parsed = parse(packet.bytes(), Checksums::Verify).unwrap();
        let mut segment = parsed.segment;
        let own = match direction {
            Direction::Outgoing => &mut segment.source,
            Direction::Incoming => &mut segment.destination,
        };
        let pair = self.pairs.iter().find_map(|&(inside, outside)| match direction {
            Direction::Outgoing if inside == own.ip => {
                Some(Address::new(outside, own.port.wrapping_add(self.shift)))
            }
            Direction::Incoming if outside == own.ip => {
                Some(Address::new(inside, own.port.wrapping_sub(self.shift)))
            }
            _ => None,
        });
        let Some(other) = pair else {
            self.strays.fetch_add(1, Ordering::Relaxed);
            return;
        };
        *own = other;
        let mut bytes = vec![0; packet.len() + 40];
        let len = emit(&segment, &IpFields::default(), Checksum::Full, &mut bytes, |payload| {
            payload.copy_from_slice(&packet.bytes()[parsed.payload.clone()]);
        });
        out.push_back(Packet::from_bytes(&bytes[..len.unwrap()]));
    }
}

#[tokio::test(start_paused = true)]
async fn joins_work_between_translated_hosts_and_an_inner_address_does_no_harm() {
    let strays = [Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0))];
    let (mut client, mut server) = (Host::builder().seed(1), Host::builder().seed(2));
    for path in 0..2 {
        let (left, right) = memory::pair(Capabilities::plain(1500));
        let pairs =
            |host: u8, outer: fn(usize) -> IpAddr| [0, 1].map(|path| (inner(host, path), outer(path)));
        let near = Nat { pairs: pairs(1, client_ip), shift: 1000, strays: Arc::clone(&strays[0]) };
        let far = Nat { pairs: pairs(2, server_ip), shift: 0, strays: Arc::clone(&strays[1]) };
        let near = FilteredDevice::new(left, move |direction, packet, out: &mut _| {
            near.pass(direction, &packet, out);
        });
        let far = FilteredDevice::new(right, move |direction, packet, out: &mut _| {
            far.pass(direction, &packet, out);
        });
        client = client.device(near, &[inner(1, path)]);
        server = server.device(far, &[inner(2, path)]);
    }
    let (client, server) = (client.start().unwrap(), server.start().unwrap());
    let mut listener = server.listen(PORT, default_config(), 1).unwrap();
    let mut stream = client.connect((server_ip(0), PORT).into(), default_config()).await.unwrap();
    // The joins require that data has been acknowledged, and later data is sent on all subflows.
    stream.write_all(b"first").await.unwrap();
    let (mut other, _) = listener.accept().await.unwrap();
    let mut first = [0; 5];
    other.read_exact(&mut first).await.unwrap();
    tokio::time::sleep(std::time::Duration::from_secs(5)).await;
    let sent = content(2 << 20);
    let copy = sent.clone();
    let writer = tokio::spawn(async move {
        stream.write_all(&copy).await.unwrap();
        stream.shutdown().await.unwrap();
        stream
    });
    let mut got = Vec::new();
    other.read_to_end(&mut got).await.unwrap();
    assert!(got == sent);
    let subflows = other.subflow_stats();
    let from = |path: usize| {
        subflows
            .iter()
            .filter(|subflow| subflow.remote.ip == client_ip(path) && subflow.counters.bytes_delivered > 0)
            .count()
    };
    assert!(from(0) > 0 && from(1) > 0, "{subflows:?}");
    let seen: BTreeSet<IpAddr> = subflows.iter().map(|subflow| subflow.remote.ip).collect();
    assert_eq!(seen, BTreeSet::from([client_ip(0), client_ip(1)]), "inner addresses have got out");
    // The announcement of the inner address was accepted, as its HMAC is valid, and led nowhere.
    assert!(strays[1].load(Ordering::Relaxed) > 0);
    drop(writer.await.unwrap());
}
