//! `anabranch bench`

#[cfg(not(target_os = "linux"))]
use crate::failure::Failure;

/// Measures goodput and latency between two hosts, as iperf3 does, with a line per subflow
#[derive(clap::Args)]
#[command(group(clap::ArgGroup::new("role").required(true).args(["server", "client"])))]
pub struct Args {
    #[cfg(target_os = "linux")]
    #[command(flatten)]
    host: crate::online::HostArgs,
    /// Waits for clients
    #[arg(long)]
    server: bool,
    /// Measures with the server at this name or address
    #[arg(long, value_name = "HOST")]
    client: Option<String>,
    /// The server's port
    #[arg(long, value_name = "P", default_value_t = 5210, value_parser = clap::value_parser!(u16).range(1..))]
    port: u16,
    /// Use a socket of the kernel in place of a host behind a TUN device: tcp or mptcp
    #[arg(long, value_name = "PROTOCOL", value_parser = ["tcp", "mptcp"], conflicts_with = "tun")]
    kernel: Option<String>,
    /// For so long; 10s unless given
    #[arg(long, short, value_name = "SPAN", conflicts_with = "size")]
    time: Option<String>,
    /// So much on each connection, such as 1GB
    #[arg(long, short = 'n', value_name = "SIZE")]
    size: Option<String>,
    /// The server sends
    #[arg(long, short = 'R')]
    reverse: bool,
    /// Both send
    #[arg(long, conflicts_with = "reverse")]
    bidirectional: bool,
    /// Connections at once
    #[arg(long, short = 'P', value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    parallel: u32,
    /// Instead of goodput: so many round trips of one byte, one after the other on each connection
    #[arg(long, value_name = "N", conflicts_with_all = ["time", "size", "reverse", "bidirectional"])]
    ping: Option<u32>,
    /// Between reports; 0 is none
    #[arg(long, short, value_name = "SPAN", default_value = "1s")]
    interval: String,
    /// Print JSON at the end in place of reports
    #[arg(long)]
    json: bool,
}

#[cfg(not(target_os = "linux"))]
pub fn run(_: &Args) -> Result<(), Failure> {
    Err(Failure::Failed("`anabranch bench` needs the TUN devices of Linux".to_owned()))
}

#[cfg(target_os = "linux")]
pub use linux::run;

#[cfg(target_os = "linux")]
mod linux {
    use std::io;
    use std::net::{IpAddr, Ipv6Addr, SocketAddr};
    use std::os::fd::OwnedFd;
    use std::sync::Arc;
    use std::sync::atomic::Ordering;
    use std::time::Duration;

    use anabranch_lab::units;
    use anabranch_net::{Host, StreamControl};
    use anabranch_stack::stats::SubflowStats;
    use anabranch_units::{Bytes, Rate};
    use rustix::net::{AddressFamily, Protocol, SocketFlags, SocketType, ipproto, sockopt};
    use serde::Serialize;
    use tokio::io::{AsyncRead, AsyncWrite};
    use tokio::task::JoinSet;
    use tokio::time::Instant;

    use super::Args;
    use crate::failure::Failure;
    use crate::online::bench::{self, Done, Hello, Limit, Mode, Progress};
    use crate::online::{self, table};
    use crate::output;
    use crate::table::{Align, Table};

    /// `IPPROTO_MPTCP`.
    const MPTCP: u32 = 262;

    pub fn run(args: &Args) -> Result<(), Failure> {
        let plan = Plan::of(args)?;
        online::block_on(async {
            let started = match &args.kernel {
                None => Some(args.host.start(|builder| builder)?),
                Some(_) if args.host.capture.pcap.is_some() => {
                    let text = "--pcap captures what a host behind a TUN device sends and receives; for a socket \
                                of the kernel use tcpdump";
                    return Err(Failure::Usage(text.to_owned()));
                }
                Some(_) => None,
            };
            let host = started.as_ref().map(|started| &started.host);
            let work = async {
                match &args.client {
                    Some(name) => measure(args, &plan, host, name).await,
                    None => serve(args, host).await,
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

    struct Plan {
        hello: Hello,
        interval: Option<Duration>,
    }

    impl Plan {
        fn of(args: &Args) -> Result<Plan, Failure> {
            let span = |text: &str, option: &str| {
                let span = units::parse_span(text);
                let span = span.map_err(|error| Failure::Usage(format!("{option}: {error}")))?;
                Ok::<_, Failure>(Duration::from_nanos(span.0))
            };
            let bytes = match &args.size {
                Some(text) => {
                    let size = units::parse_size(text);
                    Some(size.map_err(|error| Failure::Usage(format!("--size: {error}")))?.0)
                }
                None => None,
            };
            let duration = match (&args.time, bytes) {
                (Some(text), _) => Some(span(text, "--time")?),
                (None, None) => Some(Duration::from_secs(10)),
                (None, Some(_)) => None,
            };
            let mode = match () {
                () if args.ping.is_some() => Mode::Ping,
                () if args.bidirectional => Mode::Both,
                () if args.reverse => Mode::Download,
                () => Mode::Upload,
            };
            let limit = if mode == Mode::Ping {
                Limit { duration: None, bytes: None }
            } else {
                Limit { duration, bytes }
            };
            let interval =
                if args.interval == "0" { Duration::ZERO } else { span(&args.interval, "--interval")? };
            let quiet = interval.is_zero() || mode == Mode::Ping;
            Ok(Plan { hello: Hello { mode, limit }, interval: (!quiet).then_some(interval) })
        }
    }

    type Reader = Box<dyn AsyncRead + Send + Unpin>;
    type Writer = Box<dyn AsyncWrite + Send + Unpin>;

    fn kernel_socket(args: &Args, family: AddressFamily) -> io::Result<OwnedFd> {
        let protocol = if args.kernel.as_deref() == Some("mptcp") {
            std::num::NonZeroU32::new(MPTCP).map(Protocol::from_raw)
        } else {
            Some(ipproto::TCP)
        };
        Ok(rustix::net::socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, protocol)?)
    }

    async fn connect_kernel(args: &Args, name: &str) -> io::Result<(Reader, Writer)> {
        let bare = name.trim_start_matches('[').trim_end_matches(']');
        let found = tokio::net::lookup_host((bare, args.port)).await?.next();
        let to = found.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "the name has no address"))?;
        let family = if to.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let socket = kernel_socket(args, family)?;
        let socket = tokio::task::spawn_blocking(move || {
            rustix::net::connect(&socket, &to)?;
            io::Result::Ok(socket)
        });
        let stream = std::net::TcpStream::from(socket.await.map_err(io::Error::other)??);
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        let (read, write) = tokio::net::TcpStream::from_std(stream)?.into_split();
        Ok((Box::new(read), Box::new(write)))
    }

    fn listen_kernel(args: &Args) -> io::Result<tokio::net::TcpListener> {
        let at = SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), args.port);
        let (socket, at) = match kernel_socket(args, AddressFamily::INET6) {
            Ok(socket) => (socket, at),
            // A kernel without IPv6.
            Err(_) => {
                let at = SocketAddr::new(IpAddr::from([0, 0, 0, 0]), args.port);
                (kernel_socket(args, AddressFamily::INET)?, at)
            }
        };
        sockopt::set_socket_reuseaddr(&socket, true)?;
        rustix::net::bind(&socket, &at)?;
        rustix::net::listen(&socket, 4096)?;
        let listener = std::net::TcpListener::from(socket);
        listener.set_nonblocking(true)?;
        tokio::net::TcpListener::from_std(listener)
    }

    async fn serve(args: &Args, host: Option<&Host>) -> Result<(), Failure> {
        let failed = |error: io::Error| Failure::Failed(error.to_string());
        let answer = |from: SocketAddr, read: Reader, write: Writer| {
            tokio::spawn(async move {
                let progress = Progress::default();
                let begun = Instant::now();
                let result = bench::serve(read, write, &progress).await;
                let seconds = begun.elapsed().as_secs_f64();
                let moved = [&progress.sent, &progress.received].map(|n| Bytes(n.load(Ordering::Relaxed)));
                let how = result.map_or_else(|error| format!(": {error}"), |_| String::new());
                eprintln!("{from}: sent {}, received {} in {seconds:.3} s{how}", moved[0], moved[1]);
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
                let listener = listen_kernel(args).map_err(failed)?;
                eprintln!("waiting on port {}", args.port);
                loop {
                    let (stream, from) = listener.accept().await.map_err(failed)?;
                    let _ = stream.set_nodelay(true);
                    let (read, write) = stream.into_split();
                    answer(from, Box::new(read), Box::new(write));
                }
            }
        }
    }

    /// What was moved in a span of time.
    #[derive(Serialize)]
    struct Interval {
        start_s: f64,
        end_s: f64,
        sent_bytes: u64,
        received_bytes: u64,
        /// Of all connections, what each subflow has moved in this span; RTT and window are those at its end.
        subflows: Vec<SubflowPart>,
    }

    #[derive(Serialize)]
    struct SubflowPart {
        connection: usize,
        #[serde(flatten)]
        subflow: table::Subflow,
    }

    /// The end, in JSON.
    #[derive(Serialize)]
    struct Output {
        connections: u32,
        duration_s: f64,
        /// What the server says it has received, and its goodput.
        uploaded_bytes: u64,
        upload_bps: f64,
        downloaded_bytes: u64,
        download_bps: f64,
        /// CPU time of this process, and per gigabyte (10^9 bytes) moved.
        cpu_s: f64,
        cpu_s_per_gb: Option<f64>,
        /// Round trips of one byte, in seconds.
        ping_p50_s: Option<f64>,
        ping_p99_s: Option<f64>,
        ping_max_s: Option<f64>,
        subflows: Vec<SubflowPart>,
        intervals: Vec<Interval>,
    }

    async fn measure(args: &Args, plan: &Plan, host: Option<&Host>, name: &str) -> Result<(), Failure> {
        let failed = |error: io::Error| Failure::Failed(format!("{name}: {error}"));
        let progress: Arc<Progress> = Arc::default();
        let mut controls: Vec<StreamControl> = Vec::new();
        let mut ready: Vec<(Reader, Writer)> = Vec::new();
        let begun = Instant::now();
        match host {
            Some(host) => {
                let to = online::resolve(host, name, Some(args.port)).await.map_err(Failure::Failed)?;
                let mut config = args.host.config();
                if plan.hello.mode != Mode::Download {
                    config.flow_size = plan.hello.limit.bytes.map(Bytes);
                }
                let mut opening = JoinSet::new();
                for _ in 0..args.parallel {
                    let (host, config) = (host.clone(), config.clone());
                    opening.spawn(async move { host.connect(to, config).await });
                }
                for stream in opening.join_all().await {
                    let stream = stream.map_err(failed)?;
                    controls.push(stream.control());
                    let (read, write) = stream.into_split();
                    ready.push((Box::new(read), Box::new(write)));
                }
            }
            None => {
                for _ in 0..args.parallel {
                    ready.push(connect_kernel(args, name).await.map_err(failed)?);
                }
            }
        }
        if !args.json {
            let took = begun.elapsed().as_secs_f64();
            eprintln!("{} connected in {took:.4} s", plural(args.parallel, "connection"));
        }
        let begun = Instant::now();
        let mut tasks = JoinSet::new();
        let mut stats = Watch::new(begun, controls, Arc::clone(&progress));
        for (read, write) in ready {
            let progress = Arc::clone(&progress);
            tasks.spawn(bench::drive(read, write, plan.hello, args.ping.unwrap_or(0), progress));
        }
        let mut all: Vec<Done> = Vec::new();
        let mut intervals = Vec::new();
        let mut next = plan.interval.map(|interval| begun + interval);
        while !tasks.is_empty() {
            let tick = async {
                match next {
                    Some(at) => tokio::time::sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                Some(done) = tasks.join_next() => {
                    let done = done.map_err(|error| Failure::Failed(error.to_string()))?;
                    all.push(done.map_err(failed)?);
                    stats.look();
                }
                () = tick => {
                    let interval = stats.interval();
                    if args.json {
                        intervals.push(interval);
                    } else {
                        output::print(&show(&interval))?;
                    }
                    next = next.zip(plan.interval).map(|(at, interval)| at + interval);
                }
            }
        }
        let seconds = begun.elapsed().as_secs_f64();
        let result = summary(args, seconds, &all, &stats, intervals);
        if args.json { output::print_json(&result) } else { output::print(&text(&result, &stats)) }
    }

    fn plural(n: u32, what: &str) -> String {
        if n == 1 { format!("1 {what}") } else { format!("{n} {what}s") }
    }

    /// The counters of all connections, as last looked at.
    struct Watch {
        begun: Instant,
        controls: Vec<StreamControl>,
        progress: Arc<Progress>,
        /// As of the last look, by connection.
        seen: Vec<Vec<SubflowStats>>,
        /// As of the last interval.
        told: Vec<Vec<SubflowStats>>,
        told_at: f64,
        told_moved: (u64, u64),
    }

    impl Watch {
        fn new(begun: Instant, controls: Vec<StreamControl>, progress: Arc<Progress>) -> Watch {
            let none = vec![Vec::new(); controls.len()];
            Watch {
                begun,
                controls,
                progress,
                seen: none.clone(),
                told: none,
                told_at: 0.0,
                told_moved: (0, 0),
            }
        }

        /// Notes the counters of those that are still there.
        fn look(&mut self) {
            for (control, seen) in self.controls.iter().zip(&mut self.seen) {
                let stats = control.subflow_stats();
                if !stats.is_empty() {
                    *seen = stats;
                }
            }
        }

        fn interval(&mut self) -> Interval {
            self.look();
            let end = self.begun.elapsed().as_secs_f64();
            let moved =
                (self.progress.sent.load(Ordering::Relaxed), self.progress.received.load(Ordering::Relaxed));
            let mut subflows = Vec::new();
            for (connection, (seen, told)) in self.seen.iter().zip(&self.told).enumerate() {
                for stats in seen {
                    let before = told.iter().find(|old| (old.id, old.started) == (stats.id, stats.started));
                    let subflow = table::Subflow::since(stats, before);
                    subflows.push(SubflowPart { connection, subflow });
                }
            }
            let interval = Interval {
                start_s: self.told_at,
                end_s: end,
                sent_bytes: moved.0 - self.told_moved.0,
                received_bytes: moved.1.saturating_sub(self.told_moved.1),
                subflows,
            };
            self.told = self.seen.clone();
            (self.told_at, self.told_moved) = (end, moved);
            interval
        }
    }

    fn rate(bytes: u64, seconds: f64) -> Rate {
        Rate((bytes as f64 * 8.0 / seconds.max(1e-9)) as u64)
    }

    fn show(interval: &Interval) -> String {
        let seconds = interval.end_s - interval.start_s;
        let mut text = format!(
            "{:7.2}-{:.2} s   sent {:>12} {:>16}   received {:>12} {:>16}\n",
            interval.start_s,
            interval.end_s,
            Bytes(interval.sent_bytes).to_string(),
            units::show_rate(rate(interval.sent_bytes, seconds)),
            Bytes(interval.received_bytes).to_string(),
            units::show_rate(rate(interval.received_bytes, seconds)),
        );
        // With many connections the sum says it.
        if interval.subflows.len() <= 16 {
            for part in &interval.subflows {
                text.push_str(&format!("    {}\n", part.subflow.line(part.connection, seconds)));
            }
        }
        text
    }

    fn summary(args: &Args, seconds: f64, all: &[Done], stats: &Watch, intervals: Vec<Interval>) -> Output {
        let uploaded: u64 = all.iter().map(|done| done.uploaded.bytes).sum();
        let downloaded: u64 = all.iter().map(|done| done.downloaded.bytes).sum();
        let mut pings: Vec<u64> = all.iter().flat_map(|done| done.pings.iter().copied()).collect();
        pings.sort_unstable();
        let quantile = |q: f64| {
            let at = ((pings.len() as f64 * q).ceil() as usize).clamp(1, pings.len().max(1)) - 1;
            pings.get(at).map(|nanos| *nanos as f64 / 1e9)
        };
        let cpu = cpu_seconds();
        let moved = (uploaded + downloaded) as f64 / 1e9;
        let subflows = stats.seen.iter().enumerate().flat_map(|(connection, seen)| {
            seen.iter().map(move |stats| SubflowPart { connection, subflow: table::Subflow::from(stats) })
        });
        Output {
            connections: args.parallel,
            duration_s: seconds,
            uploaded_bytes: uploaded,
            upload_bps: uploaded as f64 * 8.0 / seconds,
            downloaded_bytes: downloaded,
            download_bps: downloaded as f64 * 8.0 / seconds,
            cpu_s: cpu,
            cpu_s_per_gb: (moved > 0.0).then(|| cpu / moved),
            ping_p50_s: quantile(0.5),
            ping_p99_s: quantile(0.99),
            ping_max_s: quantile(1.0),
            subflows: subflows.collect(),
            intervals,
        }
    }

    fn text(output: &Output, stats: &Watch) -> String {
        let mut table =
            Table::new().column("", Align::Left).column("", Align::Right).column("", Align::Right);
        let mut text = String::new();
        for (what, bytes) in [("uploaded", output.uploaded_bytes), ("downloaded", output.downloaded_bytes)] {
            if bytes > 0 {
                let rate = units::show_rate(rate(bytes, output.duration_s));
                table.row(vec![what.to_owned(), Bytes(bytes).to_string(), rate]);
            }
        }
        if output.uploaded_bytes + output.downloaded_bytes > 0 {
            text.push_str(table.render(usize::MAX).trim_start_matches('\n'));
        }
        if let (Some(p50), Some(p99), Some(max)) = (output.ping_p50_s, output.ping_p99_s, output.ping_max_s) {
            let [p50, p99, max] = [p50, p99, max].map(|s| output::digits(s * 1e6));
            text.push_str(&format!(
                "round trip of one byte: median {p50} us, 99 % within {p99} us, at most {max} us\n"
            ));
        }
        text.push_str(&format!(
            "{} s, CPU time {} s",
            output::digits(output.duration_s),
            output::digits(output.cpu_s)
        ));
        if let Some(per) = output.cpu_s_per_gb {
            text.push_str(&format!(", {} s per GB", output::digits(per)));
        }
        text.push('\n');
        let all: Vec<SubflowStats> = stats.seen.iter().flatten().copied().collect();
        if (1..=16).contains(&all.len()) {
            text.push_str(&table::subflows(&all));
        }
        text
    }

    /// CPU time of this process, user and system.
    fn cpu_seconds() -> f64 {
        let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
        // Fields 14 and 15, counted behind the name in brackets, in ticks of 10 ms.
        let fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace();
        let ticks: u64 = fields.skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
        ticks as f64 / rustix::param::clock_ticks_per_second() as f64
    }
}
