//! Carries packets between two TUN devices as they are, so that the kernel can speak with itself through them.

use std::task::{Context, Poll};

use anabranch_device::tun::{TunDevice, TunOptions};
use anabranch_device::{Device, Packet};

use crate::Error;

/// How many packets go one way before the other way is looked at.
const BATCH: usize = 64;

/// One direction: the packet that has been read and not yet written.
#[derive(Default)]
struct Way {
    packet: Packet,
    full: bool,
}

impl Way {
    /// Moves a batch; whether there may be more.
    fn pass(&mut self, cx: &mut Context<'_>, from: &mut TunDevice, to: &mut TunDevice) -> std::io::Result<bool> {
        for _ in 0..BATCH {
            if !self.full {
                match from.poll_receive(cx, &mut self.packet) {
                    Poll::Ready(result) => result?,
                    Poll::Pending => return Ok(false),
                }
                self.full = true;
            }
            match to.poll_send(cx, &mut self.packet) {
                Poll::Ready(result) => result?,
                Poll::Pending => return Ok(false),
            }
            self.full = false;
        }
        Ok(true)
    }
}

/// Until it is killed. The devices may be moved to other namespaces once it has said that it has them.
pub fn run(one: &str, other: &str, offload: bool) -> Result<(), Error> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let options = TunOptions { offload };
        let mut one = TunDevice::attach(one, options)?;
        let mut other = TunDevice::attach(other, options)?;
        println!("ready");
        let (mut there, mut back) = (Way::default(), Way::default());
        std::future::poll_fn(|cx| {
            let more = there.pass(cx, &mut one, &mut other);
            match (more, back.pass(cx, &mut other, &mut one)) {
                (Err(error), _) | (_, Err(error)) => return Poll::Ready(error),
                (Ok(false), Ok(false)) => {}
                _ => cx.waker().wake_by_ref(),
            }
            Poll::Pending
        })
        .await;
        Ok(())
    })
}
