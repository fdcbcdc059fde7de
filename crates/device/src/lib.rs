//! Devices that move IP packets in and out of a process.
//!
//! A [`Device`] moves whole IP packets. [`TunDevice`](tun::TunDevice) is a TUN device of Linux;
//! [`memory::pair`] makes two devices that are connected to each other, for tests.
//!
//! ```
//! use std::task::{Context, Poll, Waker};
//!
//! use anabranch_device::{Capabilities, Device, Packet, memory};
//!
//! let (mut left, mut right) = memory::pair(Capabilities::plain(1500));
//! let mut cx = Context::from_waker(Waker::noop());
//! let mut packet = Packet::from_bytes(b"an IP packet");
//! assert!(matches!(left.poll_send(&mut cx, &mut packet), Poll::Ready(Ok(()))));
//! let mut received = Packet::with_capacity(1500);
//! assert!(matches!(right.poll_receive(&mut cx, &mut received), Poll::Ready(Ok(()))));
//! assert_eq!(received.bytes(), b"an IP packet");
//! ```

#![warn(unreachable_pub)]

mod cap;
mod clock;
pub mod memory;
mod packet;
#[cfg(target_os = "linux")]
pub mod share;
#[cfg(test)]
mod testing;
#[cfg(target_os = "linux")]
pub mod tun;

use std::io;
use std::task::{Context, Poll};

pub use cap::{Cap, Capped, Caps};
pub use clock::Clock;
pub use packet::{Offload, Packet};

/// The capabilities of a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Capabilities {
    /// The longest packet without segmentation offload, IP header included, in bytes.
    pub mtu: u32,
    /// The device accepts packets with a partial checksum (only the sum of the pseudo-header), and may
    /// deliver such packets.
    pub checksum_offload: bool,
    /// The device segments large packets itself, and may deliver several segments as one packet. Needs
    /// `checksum_offload`.
    pub segmentation_offload: bool,
}

impl Capabilities {
    /// Returns the capabilities of a device with this MTU and no offload.
    pub const fn plain(mtu: u32) -> Capabilities {
        Capabilities { mtu, checksum_offload: false, segmentation_offload: false }
    }

    /// Returns the length of the longest packet in either direction, in bytes.
    pub const fn max_packet(&self) -> usize {
        if self.segmentation_offload { packet::MAX_PACKET } else { self.mtu as usize }
    }
}

/// A device that moves IP packets.
///
/// After `Pending`, both methods wake the task of `cx` when they can proceed. An error means that the device
/// has failed permanently; an error that concerns one packet is handled by the device, which drops the
/// packet.
pub trait Device: Send {
    /// Returns its capabilities, which never change.
    fn capabilities(&self) -> Capabilities;

    /// Returns the name of its interface, if it has one.
    fn name(&self) -> Option<&str> {
        None
    }

    /// Returns another handle of the same device, for another thread: each packet is received through one of them. Has to be called
    /// within the tokio runtime that uses it.
    ///
    /// # Errors
    /// If there is none, as for devices that keep a state.
    fn another(&self) -> io::Result<Box<dyn Device>> {
        let name = self.name().unwrap_or("this device");
        Err(io::Error::new(io::ErrorKind::Unsupported, format!("several threads cannot share {name}")))
    }

    /// True if this handle has a queue of received packets of its own, so that several handles can be read at the same time and
    /// each packet comes through one of them, preferably the one that last sent for its flow. Otherwise the handles share a queue.
    fn has_own_queue(&self) -> bool {
        false
    }

    /// Fills `packet` with the next received packet.
    fn poll_receive(&mut self, cx: &mut Context<'_>, packet: &mut Packet) -> Poll<io::Result<()>>;

    /// Sends `packet`, and leaves its content unspecified. `Pending` leaves the packet as it is, to be
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

    fn another(&self) -> io::Result<Box<dyn Device>> {
        (**self).another()
    }

    fn has_own_queue(&self) -> bool {
        (**self).has_own_queue()
    }

    fn poll_receive(&mut self, cx: &mut Context<'_>, packet: &mut Packet) -> Poll<io::Result<()>> {
        (**self).poll_receive(cx, packet)
    }

    fn poll_send(&mut self, cx: &mut Context<'_>, packet: &mut Packet) -> Poll<io::Result<()>> {
        (**self).poll_send(cx, packet)
    }
}
