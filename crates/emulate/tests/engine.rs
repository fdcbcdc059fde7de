//! The engine between sockets: packets in, and packets out. Needs no privileges.
#![cfg(target_os = "linux")]

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use anabranch_emulate::{Engine, EngineOptions, Lane, Wiring, socket_pair};
use anabranch_link::{Label, Link, LinkConfig, Loss, LossDraws, Pushed, QueueLimit};
use anabranch_units::{Rate, Time};

/// Returns one direction over a chain of links: the sending end, the receiving end, and the engine.
fn chain(links: Vec<LinkConfig>, seed: u64) -> (OwnedFd, OwnedFd, Engine) {
    let (from, sender) = socket_pair().unwrap();
    let (to, receiver) = socket_pair().unwrap();
    let lanes = vec![Lane { from: 0, to: 1, links: (0..links.len()).collect() }];
    let links = links.into_iter().enumerate().map(|(n, config)| (format!("link{n}"), config)).collect();
    let wiring = Wiring { links, lanes, middleboxes: Vec::new(), ports: vec![from, to] };
    let options = EngineOptions { seed, ..EngineOptions::default() };
    (sender, receiver, Engine::start(wiring, &options).unwrap())
}

fn fast() -> LinkConfig {
    LinkConfig {
        capacity: Rate::from_mbps(1000).into(),
        delay: anabranch_units::Duration::from_millis(1),
        queue: QueueLimit::Unlimited,
        ..LinkConfig::default()
    }
}

/// Returns a TCP segment with its number in its payload, or without payload.
fn segment(number: u32, data: bool) -> Vec<u8> {
    let mut bytes = vec![0; if data { 44 } else { 40 }];
    (bytes[0], bytes[3], bytes[9], bytes[32]) = (0x45, bytes.len() as u8, 6, 5 << 4);
    if data {
        bytes[40..].copy_from_slice(&number.to_be_bytes());
    }
    bytes
}

/// Receives packets until no more can arrive: `meant` is the expected number.
fn receive(receiver: &OwnedFd, meant: usize) -> Vec<Vec<u8>> {
    let deadline = Instant::now() + Duration::from_secs(20);
    let (mut packets, mut buffer) = (Vec::new(), [0; 2048]);
    while packets.len() < meant && Instant::now() < deadline {
        match rustix::io::read(receiver, &mut buffer) {
            Ok(len) => packets.push(buffer[..len].to_vec()),
            Err(rustix::io::Errno::AGAIN) => std::thread::yield_now(),
            Err(error) => panic!("{error}"),
        }
    }
    packets
}

fn send(sender: &OwnedFd, packet: &[u8]) {
    while rustix::io::write(sender, packet) == Err(rustix::io::Errno::AGAIN) {
        std::thread::yield_now();
    }
}

#[test]
fn packets_cross_all_links_whole_and_in_order() {
    let (sender, receiver, engine) = chain(vec![fast(), fast(), fast()], 1);
    let sent: Vec<Vec<u8>> = (0..500).map(|n| segment(n, true)).collect();
    let begun = Instant::now();
    sent.iter().for_each(|packet| send(&sender, packet));
    assert_eq!(receive(&receiver, sent.len()), sent);
    assert!(begun.elapsed() >= Duration::from_millis(3), "sooner than the links allow");
    let report = engine.stop().unwrap();
    assert_eq!(report.lanes[0].delivered.packets, 500);
    assert_eq!(report.lanes[0].lateness.count(), 500);
    for link in &report.links {
        assert_eq!((link.counters.offered.packets, link.counters.delivered.packets), (500, 500));
    }
}

#[test]
fn the_data_packets_that_are_lost_are_those_that_a_link_alone_loses() {
    let config = LinkConfig {
        loss: Loss::Bernoulli(0.2),
        drop_list: vec![5, 17],
        loss_draws: LossDraws::Separate,
        ..fast()
    };
    // As in the simulator: only the packets with data.
    let mut link = Link::new("link0", 42, config.clone()).unwrap();
    let mut keeps =
        |n: &u32| matches!(link.push_as(Time(u64::from(*n)), *n, 44, Label::default()), Pushed::Queued);
    let kept: Vec<u32> = (0..2000).filter(|n| n % 4 > 0).filter(|n| keeps(n)).collect();
    let (sender, receiver, engine) = chain(vec![config], 42);
    // Here an acknowledgement without data comes with every fourth.
    for n in 0..2000 {
        send(&sender, &segment(n, n % 4 > 0));
    }
    let mut arrived = Vec::new();
    let deadline = Instant::now() + Duration::from_secs(20);
    while arrived.len() < kept.len() && Instant::now() < deadline {
        let numbers = receive(&receiver, 1);
        arrived.extend(
            numbers
                .iter()
                .filter(|packet| packet.len() == 44)
                .map(|packet| u32::from_be_bytes([packet[40], packet[41], packet[42], packet[43]])),
        );
    }
    assert_eq!(arrived, kept);
    let counters = engine.stop().unwrap().links[0].counters;
    assert_eq!(counters.dropped_listed.packets, 2);
    assert!(counters.dropped_random.packets > 300, "{counters:?}");
}

#[test]
fn a_full_queue_and_copies_are_counted() {
    let narrow = LinkConfig {
        capacity: Rate::from_bps(800_000).into(),
        queue: QueueLimit::Packets(10),
        duplicate: 1.0,
        ..fast()
    };
    let (sender, receiver, engine) = chain(vec![narrow], 1);
    (0..100).for_each(|n| send(&sender, &segment(n, true)));
    let arrived = receive(&receiver, 10);
    assert_eq!(arrived[0], arrived[1], "each is followed by its copy");
    let report = engine.stop().unwrap();
    let counters = &report.links[0].counters;
    assert_eq!(counters.max_queue.packets, 10);
    assert!(counters.dropped_queue.packets > 0 && counters.duplicated.packets > 0, "{counters:?}");
    let (packets, bytes) = report.links[0].mean_queue();
    assert!(packets > 0.0 && packets <= 10.0 && (bytes / packets - 44.0).abs() < 1e-9, "{packets} {bytes}");
}

#[test]
fn a_wiring_that_makes_no_sense_is_refused() {
    let (port, _there) = socket_pair().unwrap();
    let wiring = |lanes, links| Wiring { links, lanes, middleboxes: Vec::new(), ports: Vec::new() };
    let start = |wiring| Engine::start(wiring, &EngineOptions::default()).unwrap_err().to_string();
    let lane = Lane { from: 0, to: 0, links: vec![0] };
    assert!(start(wiring(vec![lane.clone()], Vec::new())).contains("a lane needs"));
    let twice = Wiring {
        links: vec![("a".to_owned(), fast())],
        lanes: vec![lane.clone(), lane],
        middleboxes: Vec::new(),
        ports: vec![port],
    };
    assert!(start(twice).contains("two lanes begin at port 0"));
    let wrong = LinkConfig { duplicate: 2.0, ..fast() };
    assert!(start(wiring(Vec::new(), vec![("a".to_owned(), wrong)])).contains("link `a`"));
}
