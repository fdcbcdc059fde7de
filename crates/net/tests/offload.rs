//! Bursts: sent as one packet to a device that segments it, and split by the driver for one that does not.

mod common;

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use anabranch_device::{Capabilities, Device, Offload, Packet, memory};
use anabranch_link::{LinkConfig, QueueLimit};
use anabranch_middlebox::LinkedDevice;
use anabranch_net::Host;
use anabranch_stack::segment::{Flags, MptcpOption, Segment};
use anabranch_stack::stats::SubflowCounters;
use anabranch_wire::{Checksum, Checksums, IpFields, emit, parse};
use common::{client_ip, config, content, receive_all, server_address, server_ip};
use tokio::io::AsyncWriteExt;
use tokio::time::timeout;

const OFFLOAD: Capabilities = Capabilities { mtu: 1500, checksum_offload: true, segmentation_offload: true };
const BYTES: usize = 8 << 20;

type Seen = Arc<Mutex<Vec<(Segment, usize, Offload)>>>;

/// A device that records the packets its host sends.
struct Watched<D> {
    inner: D,
    seen: Seen,
}

impl<D: Device> Device for Watched<D> {
    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    fn poll_receive(&mut self, cx: &mut Context<'_>, packet: &mut Packet) -> Poll<io::Result<()>> {
        self.inner.poll_receive(cx, packet)
    }

    fn poll_send(&mut self, cx: &mut Context<'_>, packet: &mut Packet) -> Poll<io::Result<()>> {
        let (len, offload) = (packet.len(), packet.offload);
        let how = if offload.partial_checksum { Checksums::Trust } else { Checksums::Verify };
        let segment = parse(packet.bytes(), how).unwrap().segment;
        let sent = self.inner.poll_send(cx, packet);
        if sent.is_ready() {
            self.seen.lock().unwrap().push((segment, len, offload));
        }
        sent
    }
}

/// A network card with segmentation offload on a device that has none. It loses one segment of each `n`.
struct Card<D> {
    inner: D,
    waiting: VecDeque<Packet>,
    data: u64,
    lose_every: u64,
    lost: Arc<Mutex<u64>>,
}

impl<D: Device> Card<D> {
    fn drain(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while let Some(packet) = self.waiting.front_mut() {
            match self.inner.poll_send(cx, packet) {
                Poll::Ready(Ok(())) => self.waiting.pop_front(),
                other => return other,
            };
        }
        Poll::Ready(Ok(()))
    }
}

impl<D: Device> Device for Card<D> {
    fn capabilities(&self) -> Capabilities {
        OFFLOAD
    }

    fn poll_receive(&mut self, cx: &mut Context<'_>, packet: &mut Packet) -> Poll<io::Result<()>> {
        if let Poll::Ready(Err(error)) = self.drain(cx) {
            return Poll::Ready(Err(error));
        }
        self.inner.poll_receive(cx, packet)
    }

    fn poll_send(&mut self, cx: &mut Context<'_>, packet: &mut Packet) -> Poll<io::Result<()>> {
        match self.drain(cx) {
            Poll::Ready(Ok(())) => {}
            other => return other,
        }
        let whole = parse(packet.bytes(), Checksums::Trust).unwrap();
        let payload = &packet.bytes()[whole.payload];
        for (at, piece) in whole.segment.pieces(u32::from(packet.offload.segment_size)) {
            let (at, len) = (at as usize, piece.payload_len as usize);
            if len > 0 {
                self.data += 1;
                if self.data.is_multiple_of(self.lose_every) {
                    *self.lost.lock().unwrap() += 1;
                    continue;
                }
            }
            let mut cut = Packet::with_capacity(1500);
            cut.set_len(1500);
            let fill = |buffer: &mut [u8]| buffer.copy_from_slice(&payload[at..at + len]);
            let len = emit(&piece, &IpFields::default(), Checksum::Full, cut.bytes_mut(), fill).unwrap();
            cut.set_len(len);
            self.waiting.push_back(cut);
        }
        match self.drain(cx) {
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            _ => Poll::Ready(Ok(())),
        }
    }
}

/// Transfers data from a host with the first device to one with the second; returns the sender's counters.
async fn transfer(left: impl Device + 'static, right: impl Device + 'static) -> SubflowCounters {
    let client = Host::builder().seed(1).device(left, &[client_ip(0)]).start().unwrap();
    let server = Host::builder().seed(2).device(right, &[server_ip(0)]).start().unwrap();
    let sent = content(BYTES);
    let receive = receive_all(&server);
    let mut stream = client.connect(server_address(), config()).await.unwrap();
    let limit = Duration::from_secs(600);
    timeout(limit, stream.write_all(&sent)).await.expect("in time").unwrap();
    stream.shutdown().await.unwrap();
    timeout(limit, stream.drained()).await.expect("in time").unwrap();
    let got = timeout(limit, receive).await.expect("in time").unwrap();
    assert!(got == sent, "{} bytes, or others", got.len());
    assert_eq!(client.counters().unwritable, 0);
    stream.subflow_stats()[0].counters
}

/// Returns the length of the mapping of `segment`, which the first flight carries in its MP_CAPABLE.
fn mapped(segment: &Segment) -> usize {
    let mapping = segment.options.dss.and_then(|dss| dss.mapping).map(|mapping| mapping.len);
    let capable = segment.options.mptcp.iter().flatten().find_map(|option| match option {
        MptcpOption::Capable(capable) => capable.data_len,
        _ => None,
    });
    mapping.or(capable).map_or(0, usize::from)
}

#[tokio::test(start_paused = true)]
async fn a_device_that_cuts_is_given_many_segments_as_one_packet() {
    let (left, right) = memory::pair(OFFLOAD);
    let seen = Seen::default();
    let counters = transfer(Watched { inner: left, seen: Arc::clone(&seen) }, right).await;
    let seen = seen.lock().unwrap();
    let packets = seen.iter().filter(|(segment, ..)| segment.payload_len > 0).count() as u64;
    assert!(counters.data_segments_sent > 10 * packets, "{packets}: {counters:?}");
    for (segment, len, offload) in seen.iter() {
        let size = usize::from(offload.segment_size);
        assert!(offload.partial_checksum && *len <= 65_535);
        assert_eq!(size > 0, *len > 1500, "{segment:?}");
        if size > 0 {
            assert!((1360..1460).contains(&size) && segment.payload_len as usize > size, "{size}");
            assert!(mapped(segment) >= segment.payload_len as usize);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn for_a_device_that_does_not_cut_the_driver_does() {
    let (left, right) = memory::pair(Capabilities::plain(1500));
    let seen = Seen::default();
    let counters = transfer(Watched { inner: left, seen: Arc::clone(&seen) }, right).await;
    let seen = seen.lock().unwrap();
    let data: Vec<_> = seen.iter().filter(|(segment, ..)| segment.payload_len > 0).collect();
    assert_eq!(counters.data_segments_sent, data.len() as u64);
    assert!(data.iter().all(|(_, len, offload)| *len <= 1500 && *offload == Offload::default()));
    // One mapping is on all segments of a burst, and flags that end it on the last alone.
    let mapping = |sent: &(Segment, usize, Offload)| sent.0.options.dss.and_then(|dss| dss.mapping);
    let shared = |pair: &&[&(Segment, usize, Offload)]| {
        mapping(pair[0]).is_some() && mapping(pair[0]) == mapping(pair[1])
    };
    let repeated: Vec<_> = data.windows(2).filter(shared).collect();
    assert!(repeated.len() * 10 > data.len() * 8, "{} of {}", repeated.len(), data.len());
    for pair in repeated {
        let (one, next) = (&pair[0].0, &pair[1].0);
        assert_eq!(one.seq.add(u64::from(one.payload_len)), next.seq);
        assert!(!one.flags.has(Flags::PSH) && mapped(one) > 1500);
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_card_has_cut_and_lost_is_sent_again_segment_by_segment() {
    let (left, right) = memory::pair(Capabilities::plain(1500));
    // A queue without overflow, so that only the card loses packets.
    let link = LinkConfig { queue: QueueLimit::Packets(100_000), ..common::Path::new(200, 5).link() };
    let linked = LinkedDevice::new(left, "path", 7, link.clone(), link).unwrap();
    let lost = Arc::new(Mutex::new(0));
    let card =
        Card { inner: linked, waiting: VecDeque::new(), data: 0, lose_every: 701, lost: Arc::clone(&lost) };
    let counters = transfer(card, right).await;
    let lost = *lost.lock().unwrap();
    assert!(lost >= 8, "{lost}");
    assert_eq!((counters.segments_retransmitted, counters.timeouts), (lost, 0), "{counters:?}");
}
