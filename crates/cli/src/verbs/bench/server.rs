//! The server of `bench`, which waits for clients.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;

use anabranch_net::{Host, StreamControl};
use tokio::time::Instant;

use super::{Args, Reader, Writer, kernel};
use crate::failure::Failure;
use crate::online::bench::{self, Progress};
use crate::online::fallback::Fallback;
use crate::online::log::Log;
use crate::output;

pub(super) async fn serve(args: &Args, host: Option<&Host>) -> Result<(), Failure> {
    let failed = |error: io::Error| Failure::Failed(error.to_string());
    let log = Log::new(false);
    let answer = |from: SocketAddr, read: Reader, write: Writer, control: Option<StreamControl>| {
        let log = log.clone();
        tokio::spawn(async move {
            let progress = Progress::default();
            let begun = Instant::now();
            let result = bench::serve(read, write, &progress).await;
            let seconds = begun.elapsed().as_secs_f64();
            let moved = [&progress.sent, &progress.received].map(|n| output::size(n.load(Ordering::Relaxed)));
            let how = result.map_or_else(|error| format!(": {error}"), |_| String::new());
            let fallback = control.and_then(|control| Fallback::of(0, &control.stats(), true));
            let plain = fallback.map_or(String::new(), |fallback| format!("; {}", fallback.sentence()));
            let [sent, received] = moved;
            let span = output::span(seconds);
            if output::is_quiet() {
                return;
            }
            log.say(&format!("{from}: sent {sent}, received {received} in {span}{how}{plain}"));
        })
    };
    match host {
        Some(host) => {
            let mut listener = host.listen(args.port, args.host.config(), 4096).map_err(failed)?;
            output::remark(format_args!("waiting on port {}", args.port));
            loop {
                let (stream, from) = listener.accept().await.map_err(failed)?;
                let control = stream.control();
                let (read, write) = stream.into_split();
                answer(from, Box::new(read), Box::new(write), Some(control));
            }
        }
        None => {
            let listener = kernel::listen(args).map_err(failed)?;
            output::remark(format_args!("waiting on port {}", args.port));
            loop {
                let (stream, from) = listener.accept().await.map_err(failed)?;
                let _ = stream.set_nodelay(true);
                let (read, write) = stream.into_split();
                answer(from, kernel::buffered(read), Box::new(write), None);
            }
        }
    }
}
