//! The paths of a cell, its addresses, and derived numbers.

use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

use anabranch_link::{LinkConfig, Loss, QueueLimit};
use anabranch_units::Rate;

use crate::cell::{Cell, Family, Load, Situation};

/// The port on which the server listens.
pub const PORT: u16 = 5000;

/// The port on which the kernel's path manager listens for joins if it is the client.
pub const JOIN_PORT: u16 = 5001;

/// Round-trip times of the paths in microseconds: unequal, and none above 10 ms.
const ROUND_TRIPS: [u64; 4] = [2_000, 4_000, 7_000, 10_000];

/// Returns the name of path `at`'s TUN device.
pub fn device(at: usize) -> String {
    format!("path{at}")
}

/// Returns the kernel's address on path `at`.
pub fn kernel_ip(family: Family, at: usize) -> IpAddr {
    address(family, at, 1)
}

/// Returns anabranch's address on path `at`.
pub fn anabranch_ip(family: Family, at: usize) -> IpAddr {
    address(family, at, 2)
}

fn address(family: Family, at: usize, host: u16) -> IpAddr {
    match family {
        Family::V4 => IpAddr::from([10, 66, at as u8, host as u8]),
        Family::V6 => Ipv6Addr::new(0xfd66, 0, 0, at as u16, 0, 0, 0, host).into(),
    }
}

/// Returns the prefix length of a path's network.
pub const fn prefix(family: Family) -> u8 {
    match family {
        Family::V4 => 24,
        Family::V6 => 64,
    }
}

/// Returns one direction of path `at`.
pub fn link(cell: &Cell, at: usize) -> LinkConfig {
    let mbps = match cell.load {
        Load::Byte | Load::Small | Load::Medium | Load::Lossy => 40,
        Load::Large => 400,
    };
    LinkConfig {
        capacity: Rate::from_mbps(mbps).into(),
        delay: anabranch_units::Duration::from_micros(ROUND_TRIPS[at % ROUND_TRIPS.len()] / 2),
        queue: QueueLimit::Packets(match (cell.load, cell.situation) {
            // Space for every piece: retransmissions after overflows are not the subject of this cell.
            (_, Situation::Split) => 2500,
            // And for a whole receive window: MP_FASTCLOSE is sent once on each subflow, on a reset, which is
            // not repeated.
            (_, Situation::AnabranchFastClose) => 5000,
            (Load::Large, _) => 1000,
            _ => 600,
        }),
        loss: match (cell.load, cell.situation) {
            // A middlebox causes the losses.
            (_, Situation::LostHandshakes) => Loss::None,
            (Load::Lossy, _) => Loss::Bernoulli(0.01),
            _ => Loss::None,
        },
        ..LinkConfig::default()
    }
}

/// Returns the time limit of one step of a cell.
pub const fn patience(cell: &Cell) -> Duration {
    Duration::from_secs(match cell.load {
        Load::Byte | Load::Small => 20,
        Load::Medium | Load::Lossy => 40,
        Load::Large => 75,
    })
}

/// Returns the number of bytes after which the event in mid-transfer occurs, if there is one.
pub fn happens_at(cell: &Cell) -> Option<u64> {
    use Situation as S;
    let happens = matches!(
        cell.situation,
        S::AnabranchRemoves
            | S::KernelRemoves
            | S::AnabranchPrio
            | S::KernelPrio
            | S::CutRestored
            | S::Blackhole
            | S::SubflowReset
            | S::AnabranchFastClose
            | S::KernelFastClose
    );
    happens.then(|| cell.load.bytes() / 6)
}
