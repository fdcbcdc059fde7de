//! Opens connections through a proxy, with which `tools/proxy.py rate` measures it: `open_connections PROXY AT_ONCE SECONDS`. Each connection
//! asks by SOCKS 5 for a port of this program, sends some bytes, gets them back, and ends. Prints the number of connections a second,
//! the median and the 99th percentile of their times in milliseconds, and the number that has failed.

use std::error::Error;
use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const DATA: &[u8; 16] = b"sixteen bytes it";
const PATIENCE: Duration = Duration::from_secs(10);

async fn once(proxy: SocketAddr, to: SocketAddr) -> io::Result<()> {
    let mut stream = TcpStream::connect(proxy).await?;
    stream.set_nodelay(true)?;
    let mut request = vec![5, 1, 0, 5, 1, 0, 1, 127, 0, 0, 1];
    request.extend(to.port().to_be_bytes());
    request.extend(DATA);
    stream.write_all(&request).await?;
    let mut answer = [0; 12 + DATA.len()];
    stream.read_exact(&mut answer).await?;
    if answer[3] != 0 || answer[12..] != *DATA { Err(io::ErrorKind::InvalidData.into()) } else { Ok(()) }
}

/// Returns what it gets.
async fn echo(mut stream: TcpStream) -> io::Result<()> {
    let mut data = [0; DATA.len()];
    stream.read_exact(&mut data).await?;
    stream.write_all(&data).await?;
    while stream.read(&mut data).await? > 0 {}
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [proxy, at_once, seconds] = words.as_slice() else {
        return Err("give PROXY, AT_ONCE and SECONDS".into());
    };
    let (proxy, at_once, seconds): (SocketAddr, usize, f64) =
        (proxy.parse()?, at_once.parse()?, seconds.parse()?);
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let to = listener.local_addr()?;
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(echo(stream));
        }
    });
    let begun = Instant::now();
    let end = begun + Duration::from_secs_f64(seconds);
    let one = move || async move {
        let (mut times, mut failed) = (Vec::new(), 0);
        while Instant::now() < end {
            let before = Instant::now();
            match tokio::time::timeout(PATIENCE, once(proxy, to)).await {
                Ok(Ok(())) => times.push(before.elapsed().as_secs_f64() * 1e3),
                _ => failed += 1,
            }
        }
        (times, failed)
    };
    let all: Vec<_> = (0..at_once).map(|_| tokio::spawn(one())).collect();
    let (mut times, mut failed) = (Vec::new(), 0);
    for task in all {
        let (more, lost) = task.await?;
        times.extend(more);
        failed += lost;
    }
    let taken = begun.elapsed().as_secs_f64();
    times.sort_by(f64::total_cmp);
    let at = |share: f64| times.get((times.len() as f64 * share) as usize).copied().unwrap_or(f64::NAN);
    println!("{:.0} {:.2} {:.2} {failed}", times.len() as f64 / taken, at(0.5), at(0.99));
    Ok(())
}
