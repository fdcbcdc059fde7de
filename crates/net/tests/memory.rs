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
    // 4159 with the memory of a receive buffer.
    assert!(each < 4160, "{each} bytes for each end");
}
