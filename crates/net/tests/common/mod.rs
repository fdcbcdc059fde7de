//! Two hosts connected by links in memory, on tokio's paused clock.

#![allow(dead_code, reason = "each test that shares it uses a part")]

use std::net::{IpAddr, SocketAddr};

use anabranch_device::{Capabilities, memory};
use anabranch_link::{Capacity, LinkConfig, Loss, QueueLimit};
use anabranch_middlebox::LinkedDevice;
use anabranch_net::{Host, HostBuilder};
use anabranch_stack::config::ConnectionConfig;
use anabranch_units::{Duration, Rate};
use tokio::io::AsyncReadExt;
use tokio::task::JoinHandle;

/// One path between the hosts.
#[derive(Clone, Copy)]
pub struct Path {
    pub mbps: u64,
    /// The one-way delay.
    pub delay_ms: u64,
    /// The probability that a packet is lost, in each direction.
    pub loss: f64,
    /// The MTU, and whether routers report it.
    pub mtu: Option<(u32, bool)>,
}

impl Path {
    pub const fn new(mbps: u64, delay_ms: u64) -> Path {
        Path { mbps, delay_ms, loss: 0.0, mtu: None }
    }

    pub const fn loss(self, loss: f64) -> Path {
        Path { loss, ..self }
    }

    pub const fn mtu(self, mtu: u32, reported: bool) -> Path {
        Path { mtu: Some((mtu, reported)), ..self }
    }

    pub fn link(self) -> LinkConfig {
        LinkConfig {
            capacity: Capacity::Rate(Rate::from_mbps(self.mbps)),
            delay: Duration::from_millis(self.delay_ms),
            queue: QueueLimit::Packets(200),
            mtu: self.mtu.map(|mtu| mtu.0),
            reports_mtu: self.mtu.is_some_and(|mtu| mtu.1),
            loss: if self.loss > 0.0 { Loss::Bernoulli(self.loss) } else { Loss::None },
            ..LinkConfig::default()
        }
    }
}

pub fn client_ip(path: usize) -> IpAddr {
    IpAddr::from([10, 0, path as u8, 1])
}

pub fn server_ip(path: usize) -> IpAddr {
    IpAddr::from([10, 0, path as u8, 2])
}

pub const PORT: u16 = 80;

/// Returns the address of the listening server.
pub fn server_address() -> SocketAddr {
    SocketAddr::new(server_ip(0), PORT)
}

/// Returns two builders with a device for each path.
pub fn builders(paths: &[Path]) -> (HostBuilder, HostBuilder) {
    let (mut client, mut server) = (Host::builder().seed(1), Host::builder().seed(2));
    for (at, path) in paths.iter().enumerate() {
        let (left, right) = memory::pair(Capabilities::plain(1500));
        let name = format!("path{at}");
        let linked = LinkedDevice::new(left, &name, 7, path.link(), path.link()).unwrap();
        client = client.device(linked, &[client_ip(at)]);
        server = server.device(right, &[server_ip(at)]);
    }
    (client, server)
}

/// Returns two hosts with a device for each path.
pub fn hosts(paths: &[Path]) -> (Host, Host) {
    let (client, server) = builders(paths);
    (client.start().unwrap(), server.start().unwrap())
}

pub fn config() -> ConnectionConfig {
    ConnectionConfig::linux()
}

/// Accepts a connection at `server` and reads until its end.
pub fn receive_all(server: &Host) -> JoinHandle<Vec<u8>> {
    let mut listener = server.listen(PORT, config(), 4).unwrap();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut got = Vec::new();
        stream.read_to_end(&mut got).await.unwrap();
        got
    })
}

/// Returns bytes that depend on their offset.
pub fn content(len: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_u32;
    let next = |_| {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state as u8
    };
    (0..len).map(next).collect()
}
