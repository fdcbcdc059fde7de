//! Ordinary programs over Multipath TCP, by `mptcpize run`.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};

use super::{Outcome, anabranch, namespace, verdict};
use crate::cell::{Cell, Side, Situation};
use crate::content::{self, Content, Sum};
use crate::counters::Counters;
use crate::shape::{self, PORT};

/// The port of the iperf3 server that the relay connects to.
const BEHIND: u16 = 5201;

/// A child process that is killed on drop.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs a program to its end, within `patience`. Returns its standard output.
fn finish(command: &mut Command, patience: Duration) -> Result<String, String> {
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut running = Running(child.map_err(|error| {
        format!("{:?}: {error} (Debian: apt install mptcpize wget curl iperf3)", command.get_program())
    })?);
    let mut output = running.0.stdout.take();
    let output = std::thread::spawn(move || {
        let mut text = String::new();
        output.as_mut().map(|output| output.read_to_string(&mut text));
        text
    });
    let deadline = Instant::now() + patience;
    let status = loop {
        match running.0.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(10)),
            Ok(None) => return Err(format!("{command:?} was not over after {} s", patience.as_secs())),
            Err(error) => return Err(format!("{command:?}: {error}")),
        }
    };
    let output = output.join().unwrap_or_default();
    if status.success() {
        return Ok(output);
    }
    let mut errors = String::new();
    if let Some(mut from) = running.0.stderr.take() {
        let _ = from.read_to_string(&mut errors);
    }
    Err(format!("{command:?}: {status}: {} {}", errors.trim(), output.trim()))
}

/// Returns the command `anabranch`, which is built next to this program unless `ANABRANCH` names another.
fn command() -> Result<PathBuf, String> {
    if let Some(path) = std::env::var_os("ANABRANCH") {
        return Ok(path.into());
    }
    let beside = std::env::current_exe().ok().and_then(|here| Some(here.parent()?.join("anabranch")));
    beside.filter(|path| path.exists()).ok_or_else(|| {
        "the command `anabranch` is not built: cargo build -p anabranch-cli, or name it in ANABRANCH"
            .to_owned()
    })
}

/// A directory that is removed on drop.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Result<Scratch, String> {
        let path = std::env::temp_dir().join(format!("anabranch-interop-{}", std::process::id()));
        std::fs::create_dir_all(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(Scratch(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Runs `anabranch serve`, and downloads from it with wget or curl.
pub fn fetch(cell: &Cell) -> Result<Outcome, String> {
    let begun = Instant::now();
    let scratch = Scratch::new()?;
    let mut bytes = vec![0; cell.load.bytes() as usize];
    let (byte, rest) = bytes.split_at_mut(1);
    let mut content = Content::new(anabranch::seed(Side::Anabranch), cell.load.bytes());
    content.next(byte);
    rest.chunks_mut(1 << 16).for_each(|chunk| {
        content.next(chunk);
    });
    let wrong = |error: std::io::Error| format!("{}: {error}", scratch.0.display());
    std::fs::write(scratch.0.join("file"), &bytes).map_err(wrong)?;
    std::fs::write(scratch.0.join("first"), "first").map_err(wrong)?;
    let _server = serve(cell, &scratch.0)?;
    let there = SocketAddr::new(shape::anabranch_ip(cell.family, 0), PORT);
    // The file would take some milliseconds, perhaps less than the kernel needs to join. So a small file is
    // downloaded first over the same connection, and the large one a second later.
    let (first, url) = (format!("http://{there}/first"), format!("http://{there}/file"));
    let got = scratch.0.join("got");
    let patience = shape::patience(cell);
    let mut connections = 1;
    match cell.situation {
        Situation::Wget => {
            let mut wget = mptcpize("wget");
            wget.args(["--quiet", "--no-proxy", "--tries=1", "--wait=1", "--output-document"]).arg(&got);
            finish(wget.args([first, url]), patience)?;
            // Both are concatenated.
            let whole = std::fs::read(&got).map_err(wrong)?;
            std::fs::write(&got, whole.strip_prefix(b"first").unwrap_or(&whole)).map_err(wrong)?;
        }
        _ => {
            // Requests the second half first, then the first: a range each.
            let half = cell.load.bytes() / 2;
            let mut whole = Vec::new();
            for range in [format!("0-{}", half - 1), format!("{half}-")] {
                let mut curl = mptcpize("curl");
                let quiet = ["--silent", "--show-error", "--fail", "--noproxy", "*"];
                curl.args(["--rate", "1/s"]).args(quiet).args(["--output", "/dev/null", &first, "--next"]);
                curl.args(quiet).args(["--range", &range, "--output"]).arg(&got).arg(&url);
                finish(&mut curl, patience)?;
                whole.extend(std::fs::read(&got).map_err(wrong)?);
            }
            std::fs::write(&got, whole).map_err(wrong)?;
            connections = 2;
        }
    }
    let mut sum = Sum::default();
    sum.add(&std::fs::read(&got).map_err(wrong)?);
    let (len, digest) = (sum.len(), sum.digest());
    let mut failures = Vec::new();
    if digest != content::digest(anabranch::seed(Side::Anabranch), cell.load.bytes()) {
        failures.push(format!("{len} bytes came with another SHA-256"));
    }
    std::thread::sleep(Duration::from_millis(200));
    Ok(conclude(cell, connections, failures, begun.elapsed(), &format!("{len} bytes")))
}

fn mptcpize(program: &str) -> Command {
    let mut command = Command::new("mptcpize");
    command.args(["run", program]);
    command
}

/// Starts `anabranch serve`, and waits until it reports its address.
fn serve(cell: &Cell, directory: &Path) -> Result<Running, String> {
    let mut command = Command::new(command()?);
    command.arg("serve");
    for at in 0..cell.paths.count() {
        let (name, ip) = (shape::device(at), shape::anabranch_ip(cell.family, at));
        command.args(["--tun", &name, "--address", &format!("{ip}@{name}")]);
    }
    // Nothing slows these paths down, so that one of them could carry everything.
    command.args(["--scheduler", "round_robin", "--port", &PORT.to_string()]).arg(directory);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| format!("{:?}: {error}", command.get_program()))?;
    let mut errors = child.stderr.take();
    let running = Running(child);
    let (mut text, mut byte) = (String::new(), [0]);
    if let Some(errors) = &mut errors {
        while !text.contains('\n') && errors.read(&mut byte).is_ok_and(|n| n > 0) {
            text.push(char::from(byte[0]));
        }
    }
    if !text.starts_with("serving ") {
        return Err(format!("anabranch serve: {text}"));
    }
    namespace::wait_for_devices(cell)?;
    // It continues to log there, and must not block when the pipe is full.
    std::thread::spawn(move || errors.as_mut().map(|errors| std::io::copy(errors, &mut std::io::sink())));
    Ok(running)
}

/// Runs an iperf3 with Multipath TCP, a relay that carries its streams over anabranch, and an ordinary
/// iperf3.
pub async fn iperf3(cell: &Cell) -> Result<Outcome, String> {
    let begun = Instant::now();
    let ours = anabranch::start(cell)?;
    let local = |port| SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port);
    let server = |command: &mut Command, port: u16| {
        command.args(["--server", "--one-off", "--port", &port.to_string()]);
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        child.map(Running).map_err(|error| format!("iperf3: {error}"))
    };
    let client = |mut command: Command, there: SocketAddr| {
        let port = there.port().to_string();
        let bytes = cell.load.bytes().to_string();
        command.args(["--client", &there.ip().to_string(), "--port", &port, "--bytes", &bytes, "--json"]);
        let patience = shape::patience(cell);
        tokio::task::spawn_blocking(move || finish(&mut command, patience))
    };
    let (_server, client) = match cell.client {
        Side::Kernel => {
            let server = server(&mut Command::new("iperf3"), BEHIND)?;
            let mut listener = ours.listen(cell)?;
            tokio::spawn(async move {
                while let Ok((mut stream, _)) = listener.accept().await {
                    tokio::spawn(async move {
                        let mut behind = TcpStream::connect(local(BEHIND)).await?;
                        copy_bidirectional(&mut stream, &mut behind).await
                    });
                }
            });
            tokio::time::sleep(Duration::from_millis(300)).await;
            let there = SocketAddr::new(shape::anabranch_ip(cell.family, 0), PORT);
            (server, client(mptcpize("iperf3"), there))
        }
        Side::Anabranch => {
            let server = server(&mut mptcpize("iperf3"), PORT)?;
            let listener = TcpListener::bind(local(BEHIND)).await.map_err(|error| error.to_string())?;
            let (host, config) = (ours.host.clone(), anabranch::config(cell));
            let there = SocketAddr::new(shape::kernel_ip(cell.family, 0), PORT);
            tokio::spawn(async move {
                while let Ok((mut before, _)) = listener.accept().await {
                    let (host, config) = (host.clone(), config.clone());
                    tokio::spawn(async move {
                        let mut stream = host.connect(there, config).await?;
                        copy_bidirectional(&mut before, &mut stream).await
                    });
                }
            });
            tokio::time::sleep(Duration::from_millis(300)).await;
            (server, client(Command::new("iperf3"), local(BEHIND)))
        }
    };
    let output = client.await.map_err(|error| error.to_string())??;
    let json: serde_json::Value =
        serde_json::from_str(&output).map_err(|error| format!("iperf3 says no JSON: {error}"))?;
    let count = |name: &str| json["end"][name]["bytes"].as_u64().unwrap_or(0);
    let (sent, received) = (count("sum_sent"), count("sum_received"));
    let mut failures = Vec::new();
    // iperf3 stops its clock, and its counting, when the sender is done: data still in the relay is not
    // counted.
    if sent < cell.load.bytes() || received == 0 || received > sent {
        failures.push(format!("iperf3 has sent {sent} bytes and received {received}"));
    }
    tokio::time::sleep(Duration::from_millis(500)).await;
    // One connection for control, and one for data.
    Ok(conclude(cell, 2, failures, begun.elapsed(), &format!("iperf3 received {received} bytes")))
}

/// Returns the bytes that the kernel has received and sent by device `name`.
fn traffic(name: &str) -> (u64, u64) {
    let text = std::fs::read_to_string("/proc/net/dev").unwrap_or_default();
    let line = text.lines().find_map(|line| line.trim().strip_prefix(&format!("{name}:")));
    let numbers: Vec<u64> =
        line.unwrap_or_default().split_whitespace().map(|n| n.parse().unwrap_or(0)).collect();
    (numbers.first().copied().unwrap_or(0), numbers.get(8).copied().unwrap_or(0))
}

fn conclude(
    cell: &Cell,
    connections: u64,
    mut failures: Vec<String>,
    elapsed: Duration,
    what: &str,
) -> Outcome {
    let counters = Counters::read();
    let mut require = |name: &str, meant: u64| {
        let value = counters.mptcp(name);
        if value != meant {
            failures.push(format!("{name} is {value}, meant {meant}"));
        }
    };
    let joins = connections * (cell.subflows() as u64 - 1);
    match cell.client {
        Side::Kernel => {
            require("MPCapableSYNTX", connections);
            require("MPCapableSYNACKRX", connections);
        }
        Side::Anabranch => require("MPCapableACKRX", connections),
    }
    match cell.joiner() {
        Some(Side::Kernel) => require("MPJoinSynAckRx", joins),
        _ => require("MPJoinAckRx", joins),
    }
    failures.extend(verdict::noises(cell, &counters));
    let mut seen = format!("{what}, {connections} connections, {joins} joins;");
    for at in 0..cell.paths.count() {
        let (in_bytes, out_bytes) = traffic(&shape::device(at));
        if in_bytes.max(out_bytes) < 20_000 {
            failures.push(format!("{} has carried {in_bytes} and {out_bytes} bytes", shape::device(at)));
        }
        seen += &format!(" {:.1} MB", (in_bytes + out_bytes) as f64 / 1e6);
    }
    seen += &format!("; {:.1} s", elapsed.as_secs_f64());
    let nonzero: Vec<String> =
        counters.mptcp_nonzero().map(|(name, value)| format!("{name} {value}")).collect();
    Outcome { failures, seen, details: BTreeMap::from([("counters".to_owned(), nonzero.join(", "))]) }
}
