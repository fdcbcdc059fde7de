//! `anabranch get`

use std::path::PathBuf;

#[cfg(not(all(target_os = "linux", feature = "network")))]
use crate::failure::Failure;

/// Downloads a file over HTTP, on a host in user space with a TUN device
#[derive(clap::Args)]
pub(crate) struct Args {
    #[cfg(all(target_os = "linux", feature = "network"))]
    #[command(flatten)]
    host: crate::online::HostArgs,
    #[cfg(all(target_os = "linux", feature = "network"))]
    #[command(flatten)]
    connect: crate::online::ConnectArgs,
    #[cfg(all(target_os = "linux", feature = "network"))]
    #[command(flatten)]
    race: crate::online::RaceArgs,
    /// The file to write; `-` is standard output. The default is the last part of the URL
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// The number of times that a broken connection is reopened for the rest of the file
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = crate::args::whole::<u32>(0..=u32::MAX.into()))]
    retries: u32,
    /// Print a report as JSON
    #[arg(long)]
    json: bool,
    /// The URL, such as http://10.81.1.1:8000/file
    #[arg(value_name = "URL")]
    url: String,
}

#[cfg(not(all(target_os = "linux", feature = "network")))]
pub(crate) fn run(_: &Args) -> Result<(), Failure> {
    Err(Failure::without_network("get"))
}

#[cfg(all(target_os = "linux", feature = "network"))]
pub(crate) use linux::run;

#[cfg(all(target_os = "linux", feature = "network"))]
mod linux {
    use std::io::{IsTerminal, Write as _};
    use std::path::{Path, PathBuf};
    use std::time::Duration;

    use anabranch_lab::whole_file::WholeFile;
    use anabranch_net::Host;
    use anabranch_stack::stats::SubflowStats;
    use http_body_util::{BodyExt, Empty};
    use hyper::body::Incoming;
    use hyper::header::{CONTENT_LENGTH, HOST, HeaderValue, IF_RANGE, LOCATION, RANGE, USER_AGENT};
    use hyper::{Request, Response, StatusCode};
    use hyper_util::rt::TokioIo;
    use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
    use serde::Serialize;
    use tokio::time::Instant;
    use url::Url;

    use super::Args;
    use crate::failure::Failure;
    use crate::online::fallback::{self, Fallback};
    use crate::online::{self, http, table};
    use crate::{output, terminal};

    const MAX_REDIRECTS: u32 = 5;

    pub(crate) fn run(args: &Args) -> Result<(), Failure> {
        let url = http::parse_url(&args.url)?;
        let to_stdout = args.output.as_deref() == Some(Path::new("-"));
        if to_stdout && args.json {
            return Err(Failure::Usage("standard output takes either the file or the JSON".to_owned()));
        }
        let target = match &args.output {
            Some(_) if to_stdout => None,
            Some(path) => Some(path.clone()),
            None => Some(PathBuf::from(http::file_name(&url).ok_or_else(|| {
                Failure::Usage("the URL names no file; give one with `-o FILE`".to_owned())
            })?)),
        };
        if let Some(directory) = target.as_ref().filter(|path| path.is_dir()) {
            return Err(Failure::Usage(format!(
                "`{}` is a directory; give the name of a file in it",
                directory.display()
            )));
        }
        online::block_on(async {
            let started = args.host.start(|builder| builder, |_| {})?;
            let host = &started.host;
            let result = tokio::select! {
                result = fetch(args, host, url, target) => result,
                () = online::interrupted() => Err(Failure::Interrupted),
            };
            if result.is_ok() {
                started.settle().await;
            }
            started.leave(result).await
        })
    }

    /// The destination of the bytes.
    enum Sink {
        Stdout(std::io::Stdout),
        File(WholeFile),
    }

    impl Sink {
        fn open(target: Option<&Path>) -> std::io::Result<Sink> {
            match target {
                Some(path) => WholeFile::create(path).map(Sink::File),
                None => Ok(Sink::Stdout(std::io::stdout())),
            }
        }

        fn write_all(&mut self, bytes: &[u8]) -> std::io::Result<()> {
            match self {
                Sink::Stdout(out) => out.write_all(bytes),
                Sink::File(whole) => whole.file().write_all(bytes),
            }
        }

        fn finish(self) -> std::io::Result<()> {
            match self {
                Sink::Stdout(mut out) => out.flush(),
                Sink::File(whole) => whole.commit(),
            }
        }
    }

    /// The report, in JSON.
    #[derive(Serialize)]
    struct Output {
        url: String,
        file: Option<String>,
        received_bytes: u64,
        /// The time from the first SYN to the last byte.
        duration_s: f64,
        goodput_bps: f64,
        /// The number of connections, including redirects.
        connections: u32,
        /// Connections that ended as plain TCP, and the causes.
        fallbacks: Vec<Fallback>,
        subflows: Vec<table::Subflow>,
    }

    /// The state of the transfer.
    struct Transfer {
        received: u64,
        whole: Option<u64>,
        validator: Option<HeaderValue>,
        connections: u32,
        fallbacks: Vec<Fallback>,
        subflows: Vec<SubflowStats>,
        bar: ProgressBar,
    }

    async fn fetch(args: &Args, host: &Host, url: Url, target: Option<PathBuf>) -> Result<(), Failure> {
        let begun = Instant::now();
        let mut sink = None;
        let mut transfer = Transfer {
            received: 0,
            whole: None,
            validator: None,
            connections: 0,
            fallbacks: Vec::new(),
            subflows: Vec::new(),
            bar: progress(),
        };
        let (mut url, mut redirects, mut retries) = (url, 0, 0);
        loop {
            match attempt(args, host, &url, target.as_deref(), &mut sink, &mut transfer).await {
                Ok(Attempt::Done) => break,
                Ok(Attempt::Elsewhere(to)) if redirects < MAX_REDIRECTS => {
                    redirects += 1;
                    url = to;
                }
                Ok(Attempt::Elsewhere(_)) => {
                    return Err(Failure::Failed("the server redirects in a loop".to_owned()));
                }
                Err(Broken::Off(text)) if retries < args.retries && transfer.validator.is_some() => {
                    retries += 1;
                    transfer.bar.suspend(|| {
                        output::remark(format_args!(
                            "{text}; continuing from {}",
                            output::size(transfer.received)
                        ));
                    });
                    tokio::time::sleep(Duration::from_millis(200)).await;
                }
                Err(Broken::Off(text) | Broken::Failed(text)) => {
                    transfer.bar.finish_and_clear();
                    return Err(Failure::Failed(text));
                }
            }
        }
        transfer.bar.finish_and_clear();
        let sink: Sink = sink.ok_or_else(|| Failure::Failed("the server has sent nothing".to_owned()))?;
        sink.finish().map_err(|error| Failure::Failed(format!("cannot finish the file: {error}")))?;
        let seconds = begun.elapsed().as_secs_f64();
        let goodput = transfer.received as f64 * 8.0 / seconds.max(1e-9);
        fallback::warn(&transfer.fallbacks, transfer.connections as usize);
        if args.json {
            return output::print_json(&Output {
                url: url.to_string(),
                file: target.map(|path| path.display().to_string()),
                received_bytes: transfer.received,
                duration_s: seconds,
                goodput_bps: goodput,
                connections: transfer.connections,
                fallbacks: transfer.fallbacks,
                subflows: transfer.subflows.iter().map(table::Subflow::from).collect(),
            });
        }
        let name = target.map_or("standard output".to_owned(), |path| path.display().to_string());
        // Standard output may be the file.
        output::remark(format_args!(
            "{name}: {} in {}, {}\n{}",
            output::size(transfer.received),
            output::span(seconds),
            output::rate(goodput),
            table::subflows(&transfer.subflows, terminal::error_width()).trim_end()
        ));
        Ok(())
    }

    enum Attempt {
        Done,
        Elsewhere(Url),
    }

    enum Broken {
        /// The connection broke; another one may deliver the rest.
        Off(String),
        /// Another attempt would fail too.
        Failed(String),
    }

    async fn attempt(
        args: &Args,
        host: &Host,
        url: &Url,
        target: Option<&Path>,
        sink: &mut Option<Sink>,
        transfer: &mut Transfer,
    ) -> Result<Attempt, Broken> {
        let remote = online::resolve(host, url.host_str().unwrap_or_default(), url.port_or_known_default())
            .await
            .map_err(Broken::Failed)?;
        let connecting = host.connect(remote, args.race.apply(args.host.config()));
        let stream = args.connect.wait(remote, connecting).await.map_err(Broken::Off)?;
        transfer.connections += 1;
        converse(stream, url, target, sink, transfer).await
    }

    async fn converse(
        stream: anabranch_net::MptcpStream,
        url: &Url,
        target: Option<&Path>,
        sink: &mut Option<Sink>,
        transfer: &mut Transfer,
    ) -> Result<Attempt, Broken> {
        let off = |error: hyper::Error| Broken::Off(format!("the connection broke: {}", cause(&error)));
        let control = stream.control();
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(off)?;
        let driver = tokio::spawn(connection);
        let mut request = Request::get(url[url::Position::BeforePath..url::Position::AfterQuery].to_owned())
            .header(HOST, &url[url::Position::BeforeHost..url::Position::AfterPort])
            .header(USER_AGENT, concat!("anabranch/", env!("CARGO_PKG_VERSION")));
        if let (Some(validator), true) = (&transfer.validator, transfer.received > 0) {
            request =
                request.header(RANGE, format!("bytes={}-", transfer.received)).header(IF_RANGE, validator);
        }
        let request = request.body(Empty::<hyper::body::Bytes>::new());
        let request = request.map_err(|error| Broken::Failed(format!("cannot send the request: {error}")))?;
        let response = sender.send_request(request).await.map_err(off)?;
        let result = receive(response, url, target, sink, transfer).await;
        transfer.subflows.extend(control.subflow_stats());
        let number = transfer.connections as usize - 1;
        transfer.fallbacks.extend(Fallback::of(number, &control.stats(), false));
        drop(sender);
        // The stream is closed when its task has ended.
        let _ = tokio::time::timeout(Duration::from_millis(200), driver).await;
        result
    }

    async fn receive(
        response: Response<Incoming>,
        url: &Url,
        target: Option<&Path>,
        sink: &mut Option<Sink>,
        transfer: &mut Transfer,
    ) -> Result<Attempt, Broken> {
        let status = response.status();
        let headers = response.headers();
        if status.is_redirection()
            && let Some(to) = headers.get(LOCATION).and_then(|value| value.to_str().ok())
        {
            let to = url.join(to).ok().and_then(|to| http::parse_url(to.as_str()).ok());
            return to.map(Attempt::Elsewhere).ok_or_else(|| {
                Broken::Failed("the server redirects to an address that is not supported".to_owned())
            });
        }
        let length = headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
        match status {
            StatusCode::OK if transfer.received > 0 => {
                return Err(Broken::Failed("the file has changed meanwhile".to_owned()));
            }
            StatusCode::OK => {
                transfer.validator = http::validator(headers);
                transfer.whole = length;
                if let Some(length) = length {
                    transfer.bar.set_length(length);
                }
            }
            StatusCode::PARTIAL_CONTENT => {
                if http::content_range(headers) != Some((transfer.received, transfer.whole)) {
                    return Err(Broken::Failed("the server has sent another part than requested".to_owned()));
                }
            }
            _ => return Err(Broken::Failed(format!("the server answered {status}"))),
        }
        let cannot = |error: std::io::Error| Broken::Failed(format!("cannot write the file: {error}"));
        let sink = match sink {
            Some(sink) => sink,
            None => sink.insert(Sink::open(target).map_err(cannot)?),
        };
        let mut body = response.into_body();
        while let Some(frame) = body.frame().await {
            let frame =
                frame.map_err(|error| Broken::Off(format!("the connection broke: {}", cause(&error))))?;
            if let Some(data) = frame.data_ref() {
                sink.write_all(data).map_err(cannot)?;
                transfer.received += data.len() as u64;
                transfer.bar.set_position(transfer.received);
            }
        }
        if transfer.whole.is_some_and(|whole| whole != transfer.received) {
            return Err(Broken::Off("the server closed the connection before the end".to_owned()));
        }
        Ok(Attempt::Done)
    }

    /// Returns the innermost cause.
    fn cause(error: &hyper::Error) -> String {
        let mut cause: &dyn std::error::Error = error;
        while let Some(next) = cause.source() {
            cause = next;
        }
        cause.to_string()
    }

    fn progress() -> ProgressBar {
        if output::is_quiet() || !std::io::stderr().is_terminal() {
            return ProgressBar::hidden();
        }
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        let style = "{bar:30} {bytes} of {total_bytes}, {bytes_per_sec}, {eta} to go";
        if let Ok(style) = ProgressStyle::with_template(style) {
            bar.set_style(style);
        }
        bar
    }
}
