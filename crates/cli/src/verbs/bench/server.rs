//! Waits for clients.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;

use anabranch_net::Host;
use anabranch_units::Bytes;
use tokio::time::Instant;

use super::{Args, Reader, Writer, kernel};
use crate::failure::Failure;
use crate::online::bench::{self, Progress};
use crate::online::log::Log;

pub async fn serve(args: &Args, host: Option<&Host>) -> Result<(), Failure> {
    let failed = |error: io::Error| Failure::Failed(error.to_string());
    let log = Log::new(false);
    let answer = |from: SocketAddr, read: Reader, write: Writer| {
        let log = log.clone();
        tokio::spawn(async move {
            let progress = Progress::default();
            let begun = Instant::now();
            let result = bench::serve(read, write, &progress).await;
            let seconds = begun.elapsed().as_secs_f64();
            let moved = [&progress.sent, &progress.received].map(|n| Bytes(n.load(Ordering::Relaxed)));
            let how = result.map_or_else(|error| format!(": {error}"), |_| String::new());
            log.say(&format!("{from}: sent {}, received {} in {seconds:.3} s{how}", moved[0], moved[1]));
        })
    };
    match host {
        Some(host) => {
            let mut listener = host.listen(args.port, args.host.config(), 4096).map_err(failed)?;
            eprintln!("waiting on port {}", args.port);
            loop {
                let (stream, from) = listener.accept().await.map_err(failed)?;
                let (read, write) = stream.into_split();
                answer(from, Box::new(read), Box::new(write));
            }
        }
        None => {
            let listener = kernel::listen(args).map_err(failed)?;
            eprintln!("waiting on port {}", args.port);
            loop {
                let (stream, from) = listener.accept().await.map_err(failed)?;
                let _ = stream.set_nodelay(true);
                let (read, write) = stream.into_split();
                answer(from, kernel::buffered(read), Box::new(write));
            }
        }
    }
}
