//! A server that returns what it receives, over every path of a TUN device: `cargo run --example echo_server -- TUN IP...`
//!
//! docs/runtime.md makes such a device.

use std::error::Error;
use std::net::IpAddr;

use anabranch_net::device::tun::{TunDevice, TunOptions};
use anabranch_net::{Host, default_config};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut words = std::env::args().skip(1);
    let tun = TunDevice::attach(&words.next().ok_or("give a TUN device")?, TunOptions { offload: true })?;
    let addresses = words.map(|word| word.parse()).collect::<Result<Vec<IpAddr>, _>>()?;
    let host = Host::builder().device(tun, &addresses).start()?;
    let mut listener = host.listen(7, default_config(), 128)?;
    loop {
        let (stream, peer) = listener.accept().await?;
        tokio::spawn(async move {
            let control = stream.control();
            let (mut read, mut write) = stream.into_split();
            let copied = tokio::io::copy_buf(&mut read, &mut write).await;
            println!("{peer}: {copied:?} over {} subflows", control.subflow_stats().len());
        });
    }
}
