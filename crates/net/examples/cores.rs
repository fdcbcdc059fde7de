//! Two hosts in one process, connected in memory, with that number of threads. Each thread has a stack of both hosts:
//! `cores THREADS CONNECTIONS SECONDS bulk|short MTU|offload`. Prints the Gbit/s of endless downloads, or the connections a second, each
//! with a request of 16 bytes and its answer, and the Gbit or connections of the whole run. `tools/stack_cores.py` compares numbers of cores with it.

use std::error::Error;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anabranch_net::device::{Capabilities, memory};
use anabranch_net::{Host, MptcpListener, MptcpStream, default_config};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt};
use tokio::runtime::{Builder, Handle, Runtime};

/// The ports of the server, each for as many connections at once as a client has ports: those that have ended keep theirs for a minute.
const PORTS: std::ops::Range<u16> = 1000..1064;
/// More connections than there can be.
const MOST: usize = 1 << 24;
/// The time before the measurement.
const WARM_UP: Duration = Duration::from_secs(1);

/// Sends without end, or returns what it gets.
async fn serve(mut stream: MptcpStream, bulk: bool) -> io::Result<()> {
    if bulk {
        let data = vec![7; 64 << 10];
        loop {
            stream.write_all(&data).await?;
        }
    }
    let mut data = [0; 16];
    stream.read_exact(&mut data).await?;
    stream.write_all(&data).await?;
    stream.shutdown().await?;
    stream.read_to_end(&mut Vec::new()).await?;
    Ok(())
}

async fn accept(mut listener: MptcpListener, bulk: bool) {
    while let Ok((stream, _)) = listener.accept().await {
        tokio::spawn(serve(stream, bulk));
    }
}

/// Counts the bytes of one download, or the connections that it opens one after the other.
async fn work(client: Host, to: SocketAddr, bulk: bool, count: Arc<AtomicU64>) -> io::Result<()> {
    loop {
        let mut stream = client.connect(to, default_config()).await?;
        if bulk {
            loop {
                let n = stream.fill_buf().await?.len();
                stream.consume(n);
                count.fetch_add(n as u64, Ordering::Relaxed);
            }
        }
        let mut data = [1; 16];
        stream.write_all(&data).await?;
        stream.read_exact(&mut data).await?;
        stream.shutdown().await?;
        stream.read_to_end(&mut Vec::new()).await?;
        count.fetch_add(1, Ordering::Relaxed);
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [threads, connections, seconds, kind, device] = words.as_slice() else {
        return Err("cores THREADS CONNECTIONS SECONDS bulk|short MTU|offload".into());
    };
    let (connections, seconds): (usize, f64) = (connections.parse()?, seconds.parse()?);
    let bulk = kind == "bulk";
    let make = || Builder::new_current_thread().enable_all().build();
    let runtimes = (0..threads.parse()?).map(|_| make()).collect::<io::Result<Vec<Runtime>>>()?;
    let handles: Vec<Handle> = runtimes.iter().map(|runtime| runtime.handle().clone()).collect();
    let capabilities = match device.as_str() {
        "offload" => Capabilities { mtu: 1500, checksum_offload: true, segmentation_offload: true },
        mtu => Capabilities::plain(mtu.parse()?),
    };
    let (left, right) = memory::pair(capabilities);
    let (here, there): (IpAddr, IpAddr) = ("10.0.0.1".parse()?, "10.0.0.2".parse()?);
    let host = |device, ip| {
        Host::builder().device(device, &[ip]).max_connections(MOST).runtimes(handles.clone()).start()
    };
    let (client, server) = (host(left, here)?, host(right, there)?);
    for port in PORTS {
        let parts = server.listen(port, default_config(), 4096)?.split();
        for (part, handle) in parts.into_iter().zip(&handles) {
            handle.spawn(accept(part, bulk));
        }
    }
    let count = Arc::new(AtomicU64::new(0));
    for (handle, port) in handles.iter().cycle().zip(PORTS.cycle()).take(connections) {
        let work = work(client.clone(), (there, port).into(), bulk, Arc::clone(&count));
        handle.spawn(async move {
            if let Err(error) = work.await {
                eprintln!("{error}");
            }
        });
    }
    for runtime in runtimes {
        thread::spawn(move || runtime.block_on(std::future::pending::<()>()));
    }
    thread::sleep(WARM_UP);
    let (before, begun) = (count.load(Ordering::Relaxed), Instant::now());
    thread::sleep(Duration::from_secs_f64(seconds));
    let rate = (count.load(Ordering::Relaxed) - before) as f64 / begun.elapsed().as_secs_f64();
    let unit = if bulk { 8e-9 } else { 1.0 };
    println!("{:.3} {:.3}", rate * unit, count.load(Ordering::Relaxed) as f64 * unit);
    Ok(())
}
