//! `anabranch serve`

use std::path::PathBuf;

#[cfg(not(target_os = "linux"))]
use crate::failure::Failure;

/// Serves the files of a directory over HTTP, on a host of its own behind a TUN device
#[derive(clap::Args)]
pub struct Args {
    #[cfg(target_os = "linux")]
    #[command(flatten)]
    host: crate::online::HostArgs,
    /// The port
    #[arg(long, value_name = "P", default_value_t = 80, value_parser = clap::value_parser!(u16).range(1..))]
    port: u16,
    /// Say nothing about connections
    #[arg(long, short)]
    quiet: bool,
    /// The directory
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

#[cfg(not(target_os = "linux"))]
pub fn run(_: &Args) -> Result<(), Failure> {
    Err(Failure::Failed("`anabranch serve` needs the TUN devices of Linux".to_owned()))
}

#[cfg(target_os = "linux")]
pub use linux::run;

#[cfg(target_os = "linux")]
mod linux {
    use std::convert::Infallible;
    use std::path::{Component, Path, PathBuf};
    use std::sync::Arc;

    use anabranch_net::MptcpStream;
    use http_body_util::{BodyExt, Either, Full};
    use hyper::body::{Bytes, Incoming};
    use hyper::header::{ALLOW, CONTENT_LENGTH, HeaderValue, SERVER};
    use hyper::service::service_fn;
    use hyper::{Method, Request, Response, StatusCode};
    use hyper_util::rt::{TokioIo, TokioTimer};
    use percent_encoding::percent_decode_str;
    use tower::ServiceExt;
    use tower_http::services::ServeDir;

    use super::Args;
    use crate::failure::Failure;
    use crate::online::{self, log::Log};

    /// How much of a file is read at a time.
    const CHUNK: usize = 256 << 10;
    /// About what the header of a response takes.
    const HEADER_BYTES: u64 = 256;
    /// How long a client may take to send a request's header.
    const HEADER_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(30);

    pub fn run(args: &Args) -> Result<(), Failure> {
        let root = args.directory.canonicalize().ok().filter(|root| root.is_dir()).ok_or_else(|| {
            Failure::Usage(format!("`{}` is no directory that can be read", args.directory.display()))
        })?;
        online::block_on(serve(args, root))
    }

    async fn serve(args: &Args, root: PathBuf) -> Result<(), Failure> {
        let (notices, heard) = tokio::sync::mpsc::unbounded_channel();
        let log = Log::new(args.quiet);
        let started = args.host.start(|builder| builder.notices(notices))?;
        let host = &started.host;
        let listener = host.listen(args.port, args.host.config(), 1024);
        let mut listener = listener.map_err(|error| Failure::Failed(error.to_string()))?;
        for address in host.addresses() {
            let address = std::net::SocketAddr::new(address, args.port);
            eprintln!("serving {} at http://{address}/", root.display());
        }
        tokio::spawn(log.follow(heard));
        let files =
            Arc::new(Files { root: root.clone(), files: ServeDir::new(root).with_buf_chunk_size(CHUNK) });
        let accepting = async {
            loop {
                let (stream, _) = listener.accept().await?;
                tokio::spawn(converse(stream, Arc::clone(&files), log));
            }
        };
        let result: std::io::Result<()> = tokio::select! {
            result = accepting => result,
            () = online::interrupted() => Ok(()),
            never = online::flood::follow(host.clone(), log) => match never {},
        };
        drop(listener);
        started.leave(result.map_err(|error| Failure::Failed(error.to_string()))).await
    }

    /// Answers the requests of one connection.
    async fn converse(stream: MptcpStream, files: Arc<Files>, log: Log) {
        let control = stream.control();
        let number = stream.number();
        let service = service_fn(|request: Request<Incoming>| {
            let (files, control) = (Arc::clone(&files), control.clone());
            async move {
                let what = format!("{} {}", request.method(), request.uri());
                let response = files.answer(request).await;
                let length = content_length(&response);
                // Tells the scheduler how long the flow is with this response.
                control.set_flow_size(length.map(|length| control.written() + HEADER_BYTES + length));
                let length = length.map_or(String::new(), |n| format!(", {}", anabranch_units::Bytes(n)));
                log.line(number, &format!("{what}: {}{length}", response.status().as_u16()));
                Ok::<_, Infallible>(response)
            }
        });
        let mut http = hyper::server::conn::http1::Builder::new();
        http.timer(TokioTimer::new()).header_read_timeout(HEADER_TIMEOUT);
        // That a client went away is in the log already.
        let _ = http.serve_connection(TokioIo::new(stream), service).await;
    }

    fn content_length<B>(response: &Response<B>) -> Option<u64> {
        response.headers().get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
    }

    struct Files {
        root: PathBuf,
        files: ServeDir,
    }

    type FileBody = tower_http::services::fs::ServeFileSystemResponseBody;
    type AnyBody = Either<
        http_body_util::combinators::MapErr<FileBody, fn(std::io::Error) -> std::io::Error>,
        Full<Bytes>,
    >;

    impl Files {
        async fn answer(&self, request: Request<Incoming>) -> Response<AnyBody> {
            if !matches!(*request.method(), Method::GET | Method::HEAD) {
                let mut response = plain(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD are answered\n");
                response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
                return response;
            }
            let head = request.method() == Method::HEAD;
            let path = request.uri().path().to_owned();
            let root = self.root.clone();
            let looked = tokio::task::spawn_blocking(move || look(&root, &path)).await;
            match looked {
                Ok(Looked::File) => {}
                Ok(Looked::Listing(text)) => return listing(text, head),
                _ => return plain(StatusCode::NOT_FOUND, "there is no such file\n"),
            }
            match self.files.clone().oneshot(request).await {
                Ok(response) => {
                    let mut response = response.map(|body| {
                        let same: fn(std::io::Error) -> std::io::Error = |error| error;
                        Either::Left(body.map_err(same))
                    });
                    response.headers_mut().insert(SERVER, HeaderValue::from_static("anabranch"));
                    response
                }
                Err(never) => match never {},
            }
        }
    }

    enum Looked {
        /// For [`ServeDir`]: a file, or a directory with an index or without a slash behind it.
        File,
        /// A directory's listing in HTML.
        Listing(String),
        /// Nothing that may be seen.
        Nothing,
    }

    /// What `path` of a request names. No link leads out of the root.
    fn look(root: &Path, path: &str) -> Looked {
        let Ok(decoded) = percent_decode_str(path).decode_utf8() else { return Looked::Nothing };
        let mut full = root.to_path_buf();
        for component in Path::new(decoded.trim_start_matches('/')).components() {
            match component {
                Component::Normal(name) => full.push(name),
                Component::CurDir => {}
                _ => return Looked::Nothing,
            }
        }
        let Ok(full) = full.canonicalize() else { return Looked::Nothing };
        if !full.starts_with(root) {
            return Looked::Nothing;
        }
        if !full.is_dir() || !path.ends_with('/') {
            return Looked::File;
        }
        match full.join("index.html").canonicalize() {
            Ok(index) if index.starts_with(root) => Looked::File,
            Ok(_) => Looked::Nothing,
            Err(_) => list(&full, &decoded),
        }
    }

    fn list(directory: &Path, name: &str) -> Looked {
        let Ok(entries) = std::fs::read_dir(directory) else { return Looked::Nothing };
        let mut rows: Vec<(String, Option<u64>)> = entries
            .flatten()
            .filter_map(|entry| {
                let name = entry.file_name().into_string().ok()?;
                let meta = entry.path().metadata().ok()?;
                Some((name, (!meta.is_dir()).then_some(meta.len())))
            })
            .collect();
        rows.sort();
        let title = escape(name);
        let mut html = format!(
            "<!DOCTYPE html>\n<meta charset=\"utf-8\">\n<title>{title}</title>\n<h1>{title}</h1>\n<ul>\n"
        );
        for (name, len) in rows {
            let slash = if len.is_none() { "/" } else { "" };
            let link = percent_encoding::utf8_percent_encode(&name, percent_encoding::NON_ALPHANUMERIC);
            let len = len.map_or(String::new(), |len| format!(" ({})", anabranch_units::Bytes(len)));
            html.push_str(&format!(
                "<li><a href=\"./{link}{slash}\">{}{slash}</a>{len}</li>\n",
                escape(&name)
            ));
        }
        html.push_str("</ul>\n");
        Looked::Listing(html)
    }

    fn escape(text: &str) -> String {
        text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
    }

    fn plain(status: StatusCode, text: &'static str) -> Response<AnyBody> {
        let mut response = Response::new(Either::Right(Full::new(Bytes::from_static(text.as_bytes()))));
        *response.status_mut() = status;
        response.headers_mut().insert(SERVER, HeaderValue::from_static("anabranch"));
        response
    }

    fn listing(html: String, head: bool) -> Response<AnyBody> {
        let length = html.len();
        let body = if head { Bytes::new() } else { Bytes::from(html) };
        let mut response = Response::new(Either::Right(Full::new(body)));
        let headers = response.headers_mut();
        headers.insert(SERVER, HeaderValue::from_static("anabranch"));
        headers.insert(hyper::header::CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
        headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
        response
    }
}
