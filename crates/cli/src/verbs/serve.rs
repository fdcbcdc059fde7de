//! `anabranch serve`

use std::path::PathBuf;

#[cfg(not(all(target_os = "linux", feature = "network")))]
use crate::failure::Failure;

/// Serves the files of a directory over HTTP, on a host in user space with a TUN device
#[derive(clap::Args)]
pub(crate) struct Args {
    #[cfg(all(target_os = "linux", feature = "network"))]
    #[command(flatten)]
    host: crate::online::HostArgs,
    /// The port
    #[arg(long, value_name = "P", default_value_t = 80, value_parser = crate::args::whole::<u16>(1..=65_535))]
    port: u16,
    /// Reset connections of clients that take less than 4 KiB of a response within this time
    #[arg(long, value_name = "SPAN", default_value = "60s", value_parser = crate::args::parse_span)]
    send_timeout: std::time::Duration,
    /// The memory that all responses in progress may take; each client gets a share
    #[arg(long, value_name = "SIZE", default_value = "128MiB", value_parser = crate::args::parse_size)]
    memory: u64,
    /// The directory
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

#[cfg(not(all(target_os = "linux", feature = "network")))]
pub(crate) fn run(_: &Args) -> Result<(), Failure> {
    Err(Failure::without_network("serve"))
}

#[cfg(all(target_os = "linux", feature = "network"))]
pub(crate) use linux::run;

#[cfg(all(target_os = "linux", feature = "network"))]
mod linux {
    use std::sync::Arc;

    use anabranch_net::MptcpStream;
    use hyper::Response;
    use hyper::header::CONTENT_LENGTH;

    use super::Args;
    use crate::failure::Failure;
    use crate::online::files::{Files, Grant, Granted};
    use crate::online::log::Log;
    use crate::online::{self, conversation};
    use crate::output;

    /// About the size of a response's header.
    const HEADER_BYTES: u64 = 256;

    pub(crate) fn run(args: &Args) -> Result<(), Failure> {
        let files = Files::open(&args.directory).map_err(|_| {
            Failure::Usage(format!("`{}` is not a readable directory", args.directory.display()))
        })?;
        online::raise_file_limit();
        online::block_on(serve(args, files))
    }

    async fn serve(args: &Args, files: Files) -> Result<(), Failure> {
        output::give_up_unread();
        let (notices, heard) = tokio::sync::mpsc::unbounded_channel();
        let log = Log::new(output::is_quiet());
        let timeout = (!args.send_timeout.is_zero()).then_some(args.send_timeout);
        let build = |builder: anabranch_net::HostBuilder| {
            builder.notices(notices).send_timeout(timeout).buffer_memory(args.memory)
        };
        let lines = log.clone();
        let started = args.host.start(build, move |text| lines.general(text))?;
        let host = &started.host;
        let listener = host.listen(args.port, args.host.config(), 1024);
        let mut listener = listener.map_err(|error| Failure::Failed(error.to_string()))?;
        for address in host.addresses() {
            let address = std::net::SocketAddr::new(address, args.port);
            log.say(&format!("serving {} at http://{address}/", files.path().display()));
        }
        tokio::spawn(log.clone().follow(heard));
        let accepting = async {
            loop {
                let (stream, _) = listener.accept().await?;
                tokio::spawn(converse(stream, files.clone(), log.clone()));
            }
        };
        let result: std::io::Result<()> = tokio::select! {
            result = accepting => result,
            () = online::interrupted() => Ok(()),
            never = online::flood::follow(host.clone(), log.clone()) => match never {},
            never = online::heap::follow(host.clone()) => match never {},
        };
        drop(listener);
        let result = started.leave(result.map_err(|error| Failure::Failed(error.to_string()))).await;
        log.end();
        result
    }

    /// Answers the requests of one connection.
    async fn converse(stream: MptcpStream, files: Files, log: Log) {
        let (control, number) = (stream.control(), stream.number());
        let charged = control.clone();
        let grant: Grant = Arc::new(move |cx, most| {
            let charge = charged.poll_charge(cx, most);
            charge.map_ok(|charge| Granted { bytes: charge.bytes(), charge: Some(charge) })
        });
        conversation::serve(stream, |request| {
            let (files, control, log, grant) =
                (files.clone(), control.clone(), log.clone(), Arc::clone(&grant));
            async move {
                let response = files.answer(&request, grant).await;
                let length = content_length(&response);
                // Informs the scheduler of the length of the flow including this response.
                control.set_flow_size(length.map(|length| control.written() + HEADER_BYTES + length));
                let length = length.map_or(String::new(), |n| format!(", {}", output::size(n)));
                let (method, status) = (&request.method, response.status().as_u16());
                log.line(number, &format!("{method} {}: {status}{length}", request.uri));
                response
            }
        })
        .await;
    }

    fn content_length<B>(response: &Response<B>) -> Option<u64> {
        response.headers().get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
    }
}
