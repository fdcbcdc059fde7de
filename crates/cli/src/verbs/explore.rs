//! `anabranch explore`

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anabranch_lab::whole_file::WholeFile;
use anabranch_recording::view::base64;

use crate::failure::Failure;
use crate::output;

/// Opens a page that compares schedulers while sliders move, and shows why
#[derive(clap::Args)]
#[command(long_about = LONG)]
pub(crate) struct Args {
    /// Write the page to FILE, an HTML file, instead of opening it
    #[arg(long, short, value_name = "FILE.html", conflicts_with_all = ["port", "no_open"])]
    output: Option<PathBuf>,
    /// The port on the loopback address; 0 is a free one
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    port: u16,
    /// Print the address and open no browser
    #[arg(long)]
    no_open: bool,
}

const LONG: &str = "\
Opens a page in the browser that compares schedulers while sliders move, and shows why.

The page contains the protocol stack, the links and the simulator as WebAssembly, so it computes the
numbers of `anabranch compare` by itself: it needs no network, and sends nothing to anywhere. The
command serves it on 127.0.0.1 until Ctrl-C; with --output it is a single file that opens from disk.";

/// The page, with its style and script: `npm run build` in web/report makes it.
const PAGE: &str = include_str!("../../explorer.html");
/// The module of crates/web, packed by gzip: `npm run module` in web/report makes it.
const MODULE: &[u8] = include_bytes!("../../explorer.wasm.gz");
/// The place of the module.
const PLACE: &str = "%MODULE%";
/// The time within which a browser sends its request.
const PATIENCE: Duration = Duration::from_secs(2);
/// The longest head of a request.
const MOST_HEAD: usize = 16 << 10;

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    match &args.output {
        Some(path) => write(path),
        None => serve(args.port, args.no_open),
    }
}

/// Returns the page with the module.
fn page() -> String {
    PAGE.replacen(PLACE, &base64(MODULE), 1)
}

fn write(path: &Path) -> Result<(), Failure> {
    let failed = |error: io::Error| Failure::unwritable(path, &error);
    super::report::check_name(path)?;
    let whole = WholeFile::create(path).map_err(failed)?;
    whole.file().write_all(page().as_bytes()).map_err(failed)?;
    whole.commit().map_err(failed)?;
    output::remark(format_args!("explorer in {}", path.display()));
    Ok(())
}

/// Serves the page on the loopback address until the process ends.
fn serve(port: u16, no_open: bool) -> Result<(), Failure> {
    let bound = TcpListener::bind((Ipv4Addr::LOCALHOST, port));
    let cannot = |error: io::Error| {
        let help = match error.kind() {
            io::ErrorKind::AddrInUse => "; without --port it takes a free one",
            _ => "",
        };
        Failure::Failed(format!("cannot listen on 127.0.0.1:{port}: {error}{help}"))
    };
    let listener = bound.map_err(cannot)?;
    let address = format!("http://{}/", listener.local_addr().map_err(cannot)?);
    output::print(&format!("{address}\n"))?;
    if !no_open && !open(&address) {
        output::remark("no browser could be started; open the address in one");
    }
    let page = page();
    for connection in listener.incoming() {
        // A browser that goes away is no failure of the server.
        let _ = connection.and_then(|connection| answer(connection, &page));
    }
    Ok(())
}

/// Answers one request.
fn answer(mut connection: TcpStream, page: &str) -> io::Result<()> {
    connection.set_read_timeout(Some(PATIENCE))?;
    connection.set_write_timeout(Some(PATIENCE))?;
    let mut head = Vec::new();
    let mut part = [0; 2048];
    while !head.windows(4).any(|end| end == b"\r\n\r\n") && head.len() < MOST_HEAD {
        match connection.read(&mut part)? {
            0 => break,
            read => head.extend_from_slice(&part[..read]),
        }
    }
    let (status, body) = match resource(&head) {
        Some("/") => ("200 OK", page),
        Some(_) => ("404 Not Found", "there is only one page, /\n"),
        None => ("405 Method Not Allowed", "only GET is answered\n"),
    };
    let kind = if body == page { "text/html" } else { "text/plain" };
    let length = body.len();
    write!(
        connection,
        "HTTP/1.1 {status}\r\nContent-Type: {kind}; charset=utf-8\r\nContent-Length: {length}\r\n\
         Cache-Control: no-store\r\nConnection: close\r\n\r\n"
    )?;
    connection.write_all(body.as_bytes())
}

/// Returns the resource that a request gets, without its query; none for another method.
fn resource(head: &[u8]) -> Option<&str> {
    let line = head.split(|byte| *byte == b'\r').next()?;
    let target = core::str::from_utf8(line).ok()?.strip_prefix("GET ")?.split(' ').next()?;
    target.split('?').next()
}

/// Opens `address` in the browser of the desktop. False if there is none.
fn open(address: &str) -> bool {
    let (program, words): (&str, &[&str]) = match () {
        () if cfg!(target_os = "macos") => ("open", &[]),
        () if cfg!(windows) => ("cmd", &["/c", "start"]),
        () => ("xdg-open", &[]),
    };
    let mut command = Command::new(program);
    command.args(words).arg(address).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_one_place_for_the_module() {
        assert_eq!(PAGE.matches(PLACE).count(), 1);
        // The magic number of gzip.
        assert_eq!(MODULE[..2], [0x1f, 0x8b]);
    }

    #[test]
    fn only_a_get_has_a_resource() {
        for (head, wanted) in [
            ("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", Some("/")),
            ("GET /?a=b HTTP/1.1\r\n\r\n", Some("/")),
            ("GET /favicon.ico HTTP/1.1\r\n\r\n", Some("/favicon.ico")),
            ("POST / HTTP/1.1\r\n\r\n", None),
            ("", None),
            ("GET", None),
        ] {
            assert_eq!(resource(head.as_bytes()), wanted, "{head:?}");
        }
        assert_eq!(resource(b"GET \xff\r\n"), None);
    }
}
