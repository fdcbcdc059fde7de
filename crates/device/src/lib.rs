//! IP packets in and out of a process.
//!
//! A [`Device`] moves whole IP packets. [`TunDevice`](tun::TunDevice) is the real one; [`memory::pair`]
//! makes two that are joined by a wire, for tests.

#![warn(unreachable_pub)]

mod clock;
pub mod memory;
mod packet;
#[cfg(target_os = "linux")]
pub mod tun;

use std::io;
use std::task::{Context, Poll};

pub use clock::Clock;
pub use packet::{Offload, Packet};

/// What a device can do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Capabilities {
    /// The longest packet without segmentation offload, IP header included, in bytes.
    pub mtu: u32,
    /// It takes packets whose TCP checksum is that of the pseudo-header alone, and may hand out such.
    pub checksum_offload: bool,
    /// It takes packets that it cuts into segments itself, and may hand out several segments as one
    /// packet. Needs `checksum_offload`.
    pub segmentation_offload: bool,
}

impl Capabilities {
    /// A device of that MTU without any offload.
    pub const fn plain(mtu: u32) -> Capabilities {
        Capabilities { mtu, checksum_offload: false, segmentation_offload: false }
    }

    /// The longest packet that can come or go, in bytes.
    pub const fn max_packet(&self) -> usize {
        if self.segmentation_offload { packet::MAX_PACKET } else { self.mtu as usize }
    }
}

/// Something that moves IP packets.
///
/// Both methods wake the task of `cx` when they can go on after they said `Pending`. An error means that
/// the device is gone for good; what is wrong with one packet is the device's own affair, which drops it.
pub trait Device: Send {
    /// What it can do; the same as long as it lives.
    fn capabilities(&self) -> Capabilities;

    /// What its interface is called, if it is one.
    fn name(&self) -> Option<&str> {
        None
    }

    /// Fills `packet` with the next packet that has come.
    fn poll_receive(&mut self, cx: &mut Context<'_>, packet: &mut Packet) -> Poll<io::Result<()>>;

    /// Sends `packet`, whose content is anything afterwards. `Pending` leaves it as it is, to be
    /// offered again.
    fn poll_send(&mut self, cx: &mut Context<'_>, packet: &mut Packet) -> Poll<io::Result<()>>;
}

impl<D: Device + ?Sized> Device for Box<D> {
    fn capabilities(&self) -> Capabilities {
        (**self).capabilities()
    }

    fn name(&self) -> Option<&str> {
        (**self).name()
    }

    fn poll_receive(&mut self, cx: &mut Context<'_>, packet: &mut Packet) -> Poll<io::Result<()>> {
        (**self).poll_receive(cx, packet)
    }

    fn poll_send(&mut self, cx: &mut Context<'_>, packet: &mut Packet) -> Poll<io::Result<()>> {
        (**self).poll_send(cx, packet)
    }
}
