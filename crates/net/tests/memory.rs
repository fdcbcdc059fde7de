//! The memory of an idle connection without its buffers.

mod common;

use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use std::alloc::System;

use common::{Path, config, hosts, server_address};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const CONNECTIONS: usize = 1000;

#[tokio::test(start_paused = true)]
async fn an_idle_connection_takes_little_at_each_end() {
    let (client, server) = hosts(&[Path::new(1000, 5)]);
    let mut listener = server.listen(common::PORT, config(), CONNECTIONS).unwrap();
    let mut ends = Vec::with_capacity(2 * CONNECTIONS);
    // Allocates what both hosts need once.
    ends.push(client.connect(server_address(), config()).await.unwrap());
    ends.push(listener.accept().await.unwrap().0);
    let region = Region::new(ALLOCATOR);
    for _ in 1..CONNECTIONS {
        ends.push(client.connect(server_address(), config()).await.unwrap());
        ends.push(listener.accept().await.unwrap().0);
    }
    let change = region.change();
    let kept = change.bytes_allocated - change.bytes_deallocated;
    let each = kept / (ends.len() - 2);
    println!("{each} bytes for each end of an idle connection");
    // Fields in the order of their use leave little padding: 4328. Of these 112 are for subflows that are joined again,
    // the longest gap, and the space of a send buffer, and 48 for Linux's variation of the round trip and use of the window,
    // and 8 for the record that a control reads.
    assert!(each <= 4328, "{each} bytes for each end");
}
