//! The paths of a cell, its addresses, and the numbers that follow from what it is.

use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

use anabranch_link::{LinkConfig, Loss, QueueLimit};
use anabranch_units::Rate;

use crate::cell::{Cell, Family, Load, Situation};

/// The port at which the server listens.
pub const PORT: u16 = 5000;

/// The port at which the kernel's path manager listens for joins where it is the client.
pub const JOIN_PORT: u16 = 5001;

/// Round trips of the paths in microseconds: unequal, and none above 10 ms.
const ROUND_TRIPS: [u64; 4] = [2_000, 4_000, 7_000, 10_000];

/// The name of path `at`'s TUN device.
pub fn device(at: usize) -> String {
    format!("path{at}")
}

/// The kernel's address on path `at`.
pub fn kernel_ip(family: Family, at: usize) -> IpAddr {
    address(family, at, 1)
}

/// Anabranch's address on path `at`.
pub fn anabranch_ip(family: Family, at: usize) -> IpAddr {
    address(family, at, 2)
}

fn address(family: Family, at: usize, host: u16) -> IpAddr {
    match family {
        Family::V4 => IpAddr::from([10, 66, at as u8, host as u8]),
        Family::V6 => Ipv6Addr::new(0xfd66, 0, 0, at as u16, 0, 0, 0, host).into(),
    }
}

/// The prefix length of a path's network.
pub const fn prefix(family: Family) -> u8 {
    match family {
        Family::V4 => 24,
        Family::V6 => 64,
    }
}

/// One direction of path `at`.
pub fn link(cell: &Cell, at: usize) -> LinkConfig {
    let mbps = match cell.load {
        Load::Byte | Load::Small | Load::Medium | Load::Lossy => 40,
        Load::Large => 400,
    };
    LinkConfig {
        capacity: Rate::from_mbps(mbps).into(),
        delay: anabranch_units::Duration::from_micros(ROUND_TRIPS[at % ROUND_TRIPS.len()] / 2),
        queue: QueueLimit::Packets(match (cell.load, cell.situation) {
            // Room for every piece: retransmissions of what a full queue drops are not what this is about.
            (_, Situation::Split) => 2500,
            // And for a whole receive window: MP_FASTCLOSE is said once on each subflow, on a reset, which nobody repeats.
            (_, Situation::AnabranchFastClose) => 5000,
            (Load::Large, _) => 1000,
            _ => 600,
        }),
        loss: match (cell.load, cell.situation) {
            // A middlebox loses them.
            (_, Situation::LostHandshakes) => Loss::None,
            (Load::Lossy, _) => Loss::Bernoulli(0.01),
            _ => Loss::None,
        },
        ..LinkConfig::default()
    }
}

/// How long one step of a cell may take before it is given up.
pub const fn patience(cell: &Cell) -> Duration {
    Duration::from_secs(match cell.load {
        Load::Byte | Load::Small => 20,
        Load::Medium | Load::Lossy => 40,
        Load::Large => 75,
    })
}

/// Whether something happens in mid-transfer, and the first byte past which it does.
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
