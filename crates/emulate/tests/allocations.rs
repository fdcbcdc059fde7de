//! The steady state allocates nothing per packet.
#![cfg(target_os = "linux")]

use std::alloc::System;
use std::os::fd::OwnedFd;

use anabranch_emulate::{Engine, EngineOptions, Lane, Wiring, socket_pair};
use anabranch_link::{LinkConfig, QueueLimit};
use anabranch_units::{Duration, Rate};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

#[global_allocator]
static GLOBAL: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// The packets that may be under way: fewer than a socket holds.
const AHEAD: usize = 32;

fn send(sender: &OwnedFd, receiver: &OwnedFd, packets: usize) {
    let (packet, mut buffer) = ([0x45; 1000], [0; 2048]);
    let (mut sent, mut received) = (0, 0);
    while received < packets {
        // A socket of a sender that runs ahead of a busy receiver would overflow, and a packet that is lost would be waited for without end.
        if sent < packets.min(received + AHEAD) && rustix::io::write(sender, &packet).is_ok() {
            sent += 1;
        }
        if rustix::io::read(receiver, &mut buffer).is_ok() {
            received += 1;
        }
    }
}

#[test]
fn a_packet_costs_no_memory_once_there_are_buffers() {
    let (from, sender) = socket_pair().unwrap();
    let (to, receiver) = socket_pair().unwrap();
    let link = LinkConfig {
        capacity: Rate::from_mbps(10_000).into(),
        delay: Duration::from_micros(200),
        queue: QueueLimit::Unlimited,
        ..LinkConfig::default()
    };
    let lanes = vec![Lane { from: 0, to: 1, links: vec![0] }];
    let wiring =
        Wiring { links: vec![("a".to_owned(), link)], lanes, middleboxes: Vec::new(), ports: vec![from, to] };
    let engine = Engine::start(wiring, &EngineOptions::default()).unwrap();
    send(&sender, &receiver, 20_000);
    let before = GLOBAL.stats();
    send(&sender, &receiver, 20_000);
    let after = GLOBAL.stats();
    // A queue that exceeds its previous maximum allocates a few times, not once per packet.
    let allocations = after.allocations + after.reallocations - before.allocations - before.reallocations;
    assert!(allocations < 200, "{allocations} allocations for 20,000 packets");
    assert_eq!(engine.stop().unwrap().lanes[0].delivered.packets, 40_000);
}
