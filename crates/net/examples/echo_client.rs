//! Sends a megabyte to `echo_server` over every path of a TUN device, and reads it back:
//! `cargo run --example echo_client -- SERVER TUN IP...`

use std::error::Error;
use std::net::IpAddr;

use anabranch_net::device::tun::{TunDevice, TunOptions};
use anabranch_net::{Host, default_config};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut words = std::env::args().skip(1);
    let server: IpAddr = words.next().ok_or("give the address of the server")?.parse()?;
    let tun = TunDevice::attach(&words.next().ok_or("give a TUN device")?, TunOptions { offload: true })?;
    let addresses = words.map(|word| word.parse()).collect::<Result<Vec<IpAddr>, _>>()?;
    let host = Host::builder().device(tun, &addresses).start()?;
    let stream = host.connect((server, 7).into(), default_config()).await?;
    let control = stream.control();
    let (mut read, mut write) = stream.into_split();
    tokio::spawn(async move { write.write_all(&vec![7; 1_000_000]).await });
    let mut echo = Vec::new();
    read.read_to_end(&mut echo).await?;
    println!("{} bytes came back", echo.len());
    for subflow in control.subflow_stats() {
        println!("{} > {}: {} bytes", subflow.local, subflow.remote, subflow.counters.bytes_sent);
    }
    Ok(())
}
