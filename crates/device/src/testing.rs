//! Packets through devices, for tests.

use std::future::poll_fn;

use crate::{Device, Packet};

/// Returns the next packet of a device.
pub(crate) async fn receive(device: &mut impl Device) -> Packet {
    let mut got = Packet::default();
    poll_fn(|cx| device.poll_receive(cx, &mut got)).await.unwrap();
    got
}

/// Sends a packet.
pub(crate) async fn send(device: &mut impl Device, mut packet: Packet) {
    poll_fn(|cx| device.poll_send(cx, &mut packet)).await.unwrap();
}
