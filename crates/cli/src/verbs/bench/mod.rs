//! `anabranch bench`

#[cfg(all(target_os = "linux", feature = "network"))]
mod client;
#[cfg(all(target_os = "linux", feature = "network"))]
mod kernel;
#[cfg(all(target_os = "linux", feature = "network"))]
mod plan;
#[cfg(all(target_os = "linux", feature = "network"))]
mod report;
#[cfg(all(target_os = "linux", feature = "network"))]
mod server;
#[cfg(all(target_os = "linux", feature = "network"))]
mod watch;

use crate::failure::Failure;

/// Measures goodput and latency between two hosts, as iperf3 does, with a line per subflow
#[derive(clap::Args)]
#[command(group(clap::ArgGroup::new("role").required(true).args(["server", "client"])))]
pub(crate) struct Args {
    #[cfg(all(target_os = "linux", feature = "network"))]
    #[command(flatten)]
    host: crate::online::HostArgs,
    #[cfg(all(target_os = "linux", feature = "network"))]
    #[command(flatten)]
    connect: crate::online::ConnectArgs,
    /// Wait for clients
    #[arg(long)]
    server: bool,
    /// Measure with the server at this name or address
    #[arg(long, value_name = "HOST")]
    client: Option<String>,
    /// The server's port
    #[arg(long, value_name = "P", default_value_t = 5210, value_parser = crate::args::whole::<u16>(1..=65_535))]
    port: u16,
    /// Use a kernel socket instead of a host with a TUN device: tcp or mptcp
    #[arg(long, value_name = "PROTOCOL", value_parser = ["tcp", "mptcp"], conflicts_with = "tun")]
    kernel: Option<String>,
    /// The duration; 10s by default
    #[arg(long, short, value_name = "SPAN", conflicts_with = "size")]
    time: Option<String>,
    /// The size on each connection, such as 1GB
    #[arg(long, short = 'n', value_name = "SIZE")]
    size: Option<String>,
    /// The server sends
    #[arg(long, short = 'R')]
    reverse: bool,
    /// Both send
    #[arg(long, conflicts_with = "reverse")]
    bidirectional: bool,
    /// The number of simultaneous connections
    #[arg(long, short = 'P', value_name = "N", default_value_t = 1, value_parser = crate::args::whole::<u32>(1..=100_000))]
    parallel: u32,
    /// Measure this number of round trips of one byte on each connection, one after another, instead of
    /// goodput
    #[arg(long, value_name = "N", conflicts_with_all = ["time", "size", "reverse", "bidirectional"],
        value_parser = crate::args::whole::<u32>(1..=u32::MAX.into()))]
    ping: Option<u32>,
    /// The time between reports; 0 is none
    #[arg(long, short, value_name = "SPAN", default_value = "1s")]
    interval: String,
    /// Print JSON at the end instead of reports
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    pub to: crate::output::Destination,
}

#[cfg(not(all(target_os = "linux", feature = "network")))]
pub(crate) fn run(_: &Args) -> Result<(), Failure> {
    Err(Failure::without_network("bench"))
}

#[cfg(all(target_os = "linux", feature = "network"))]
pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    use crate::online;

    let plan = plan::Plan::of(args)?;
    online::block_on(async {
        let started = match &args.kernel {
            None => Some(args.host.start(|builder| builder, |_| {})?),
            Some(_) if args.host.capture.pcap.is_some() => {
                let text = "--pcap captures the packets of a host with a TUN device; for a kernel socket use \
                            tcpdump";
                return Err(Failure::Usage(text.to_owned()));
            }
            Some(_) => None,
        };
        let host = started.as_ref().map(|started| &started.host);
        let work = async {
            match &args.client {
                Some(name) => client::measure(args, &plan, host, name).await,
                None => server::serve(args, host).await,
            }
        };
        let result = tokio::select! {
            result = work => result,
            () = online::interrupted(), if args.server => Ok(()),
            () = online::interrupted(), if !args.server => Err(Failure::Interrupted),
        };
        match started {
            Some(started) => {
                if !args.server && result.is_ok() {
                    started.settle().await;
                }
                started.leave(result).await
            }
            None => result,
        }
    })
}

#[cfg(all(target_os = "linux", feature = "network"))]
type Reader = Box<dyn tokio::io::AsyncBufRead + Send + Unpin>;
#[cfg(all(target_os = "linux", feature = "network"))]
type Writer = Box<dyn tokio::io::AsyncWrite + Send + Unpin>;
