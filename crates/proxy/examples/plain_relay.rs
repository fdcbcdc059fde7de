//! A plain relay of TCP, with which `tools/proxy.py throughput` measures the proxy: `plain_relay LISTEN TO`.

use std::error::Error;

use tokio::net::{TcpListener, TcpStream};

/// The most bytes that are read at once.
const MOST: usize = 64 << 10;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut words = std::env::args().skip(1);
    let (Some(at), Some(to)) = (words.next(), words.next()) else { return Err("give LISTEN and TO".into()) };
    let listener = TcpListener::bind(at).await?;
    loop {
        let (mut near, _) = listener.accept().await?;
        let to = to.clone();
        tokio::spawn(async move {
            let Ok(mut far) = TcpStream::connect(to).await else { return };
            let _ = tokio::io::copy_bidirectional_with_sizes(&mut near, &mut far, MOST, MOST).await;
        });
    }
}
