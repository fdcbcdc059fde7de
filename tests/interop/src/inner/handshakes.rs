//! Handshakes that lose segments, on many short connections. The client's segments after the SYN are dropped
//! by a list, or at random.
//!
//! Only the third ACK has the client's key, unless data repeats it (RFC 8684 section 3.1). A client that
//! closes early may never repeat it, and the server has to continue with the segments that it receives.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anabranch_device::Packet;
use anabranch_middlebox::{Direction, Element};
use anabranch_net::{MptcpListener, MptcpStream};
use anabranch_units::RandomStream;
use socket2::Socket;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::{Outcome, anabranch, kernel, settled};
use crate::cell::{Cell, Load, Side};
use crate::counters::Counters;
use crate::shape::{self, PORT};

/// The server on this port waits for the end of the client's stream before it sends; the one on `PORT` sends
/// immediately.
const PATIENT_PORT: u16 = PORT + 2;

/// The number of bytes that the server sends.
const ANSWER: usize = 1000;

/// The numbers of bytes that clients send before they close their direction: none, a segment, more than a
/// first flight.
const REQUESTS: [usize; 3] = [0, 1000, 20_000];

/// All 16 combinations of losses among the client's first four segments.
const LISTED: usize = 16 * REQUESTS.len();

/// The number of connections with random loss, and the loss of their segments in per cent.
const RANDOM: usize = 500;
const PERCENT: u64 = 5;

/// Returns the number of connections.
const fn connections(cell: &Cell) -> usize {
    if matches!(cell.load, Load::Lossy) { RANDOM } else { LISTED }
}

/// Returns the number of bytes that the client of connection `at` sends, and the server's port.
const fn request(cell: &Cell, at: usize) -> (usize, u16) {
    let len = if matches!(cell.load, Load::Lossy) { 0 } else { REQUESTS[at / 16] };
    (len, if len == 0 { PORT } else { PATIENT_PORT })
}

/// Drops some of the segments that the client sends after its SYN.
pub struct Losses {
    client: Direction,
    random: Option<RandomStream>,
    /// By the client's port: the number of the connection, and the number of segments after its SYN.
    flows: HashMap<u16, (usize, u32)>,
}

impl Losses {
    pub fn new(cell: &Cell) -> Losses {
        let client = if cell.client == Side::Kernel { Direction::Incoming } else { Direction::Outgoing };
        let random = (cell.load == Load::Lossy).then(|| RandomStream::new(1, "handshakes"));
        Losses { client, random, flows: HashMap::new() }
    }

    /// True if the segment in `packet`, IPv4 without options, is dropped.
    fn takes(&mut self, packet: &[u8]) -> bool {
        let (Some(port), Some(flags)) = (packet.get(20..22), packet.get(33)) else { return false };
        let port = u16::from_be_bytes([port[0], port[1]]);
        let next = self.flows.len();
        let (at, count) = self.flows.entry(port).or_insert((next, 0));
        if flags & 2 != 0 {
            return false;
        }
        *count += 1;
        match &mut self.random {
            Some(random) => random.next_u64() % 100 < PERCENT,
            None => *count <= 4 && (*at % 16) >> (*count - 1) & 1 == 1,
        }
    }
}

impl Element for Losses {
    fn pass(&mut self, direction: Direction, packet: Packet, out: &mut VecDeque<Packet>) {
        if direction != self.client || !self.takes(packet.bytes()) {
            out.push_back(packet);
        }
    }
}

/// Returns the stream of either direction.
fn content(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 7 + at / 251) as u8).collect()
}

/// The ends of connections that are complete, and those that are not.
#[derive(Default)]
struct Tally {
    done: AtomicU64,
    failures: Mutex<Vec<String>>,
}

impl Tally {
    fn count(&self, side: Side, result: Result<(), String>) {
        match result {
            Ok(()) => {
                self.done.fetch_add(1, Ordering::Relaxed);
            }
            Err(failure) => {
                let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
                failures.push(format!("{side}: {failure}"));
            }
        }
    }
}

fn check(got: &[u8], meant: &[usize]) -> Result<(), String> {
    let right = meant.contains(&got.len()) && got == content(got.len());
    if right { Ok(()) } else { Err(format!("{} bytes came, or others than were sent", got.len())) }
}

/// Runs anabranch's side of one connection. `request` is the number of bytes that a client sends; a server
/// sends its answer `at_once` or after the end of the request.
async fn exchange(
    mut stream: MptcpStream,
    request: Option<usize>,
    at_once: bool,
    patience: Duration,
) -> Result<(), String> {
    let all = async {
        let mut got = Vec::new();
        let sent = content(request.unwrap_or(ANSWER));
        if request.is_some() || at_once {
            stream.write_all(&sent).await?;
            stream.shutdown().await?;
            stream.read_to_end(&mut got).await?;
        } else {
            stream.read_to_end(&mut got).await?;
            stream.write_all(&sent).await?;
            stream.shutdown().await?;
        }
        Ok::<_, std::io::Error>(got)
    };
    let got = tokio::time::timeout(patience, all).await.map_err(|_| "not over in time".to_owned())?;
    let got = got.map_err(|error| error.to_string())?;
    check(&got, if request.is_some() { &[ANSWER] } else { &REQUESTS })
}

/// Runs the kernel's side of one connection.
fn exchange_of_kernel(socket: &Socket, request: Option<usize>, at_once: bool) -> Result<(), String> {
    use std::io::{Read as _, Write as _};
    let all = || {
        let (mut got, mut socket_mut) = (Vec::new(), socket);
        let sent = content(request.unwrap_or(ANSWER));
        if request.is_some() || at_once {
            socket_mut.write_all(&sent)?;
            socket_mut.shutdown(std::net::Shutdown::Write)?;
            socket_mut.read_to_end(&mut got)?;
        } else {
            socket_mut.read_to_end(&mut got)?;
            socket_mut.write_all(&sent)?;
            socket_mut.shutdown(std::net::Shutdown::Write)?;
        }
        Ok::<_, std::io::Error>(got)
    };
    let got = all().map_err(|error| error.to_string())?;
    check(&got, if request.is_some() { &[ANSWER] } else { &REQUESTS })
}

/// Opens connections one after another, so that they have the order of the list, and runs the kernel's side
/// as the client.
fn kernel_clients(cell: &Cell, tally: &Tally) {
    std::thread::scope(|scope| {
        for at in 0..connections(cell) {
            let (len, port) = request(cell, at);
            let there = SocketAddr::new(shape::anabranch_ip(cell.family, 0), port);
            let connected = kernel::socket(cell).and_then(|socket| {
                let connect = socket.connect_timeout(&there.into(), shape::patience(cell));
                connect.map(|()| socket).map_err(|error| format!("connect: {error}"))
            });
            match connected {
                Ok(socket) => {
                    scope.spawn(move || {
                        let result = exchange_of_kernel(&socket, Some(len), true);
                        tally.count(
                            Side::Kernel,
                            result.map_err(|failure| format!("connection {at}: {failure}")),
                        );
                    });
                }
                Err(failure) => tally.count(Side::Kernel, Err(failure)),
            }
        }
    });
}

/// Accepts `count` connections, and runs the kernel's side as the server.
fn kernel_servers(listener: &Socket, count: usize, at_once: bool, patience: Duration, tally: &Tally) {
    std::thread::scope(|scope| {
        for _ in 0..count {
            match listener.accept() {
                Ok((socket, _)) => {
                    let _ = socket.set_read_timeout(Some(patience));
                    scope
                        .spawn(move || tally.count(Side::Kernel, exchange_of_kernel(&socket, None, at_once)));
                }
                Err(error) => tally.count(Side::Kernel, Err(format!("accept: {error}"))),
            }
        }
    });
}

/// Accepts `count` connections, and runs anabranch's side as the server.
async fn our_servers(
    mut listener: MptcpListener,
    count: usize,
    at_once: bool,
    patience: Duration,
    tally: Arc<Tally>,
) {
    let mut tasks = Vec::new();
    for _ in 0..count {
        match tokio::time::timeout(patience, listener.accept()).await {
            Ok(Ok((stream, _))) => {
                let tally = Arc::clone(&tally);
                tasks.push(tokio::spawn(async move {
                    tally.count(Side::Anabranch, exchange(stream, None, at_once, patience).await);
                }));
            }
            Ok(Err(error)) => tally.count(Side::Anabranch, Err(format!("accept: {error}"))),
            Err(_) => tally.count(Side::Anabranch, Err("accept: none came in time".to_owned())),
        }
    }
    for task in tasks {
        let _ = task.await;
    }
}

/// Runs `cell`: every connection transfers its data completely.
pub async fn run(cell: &Cell) -> Result<Outcome, String> {
    let begun = Instant::now();
    let patience = shape::patience(cell);
    let ours = anabranch::start(cell)?;
    let tally = Arc::new(Tally::default());
    let total = connections(cell);
    let patient = (0..total).filter(|&at| request(cell, at).1 == PATIENT_PORT).count();
    let ports = [(PORT, total - patient, true), (PATIENT_PORT, patient, false)];
    let mut tasks = Vec::new();
    match cell.client {
        Side::Kernel => {
            for (port, count, at_once) in ports {
                let listener = ours.host.listen(port, anabranch::config(cell), 64);
                let listener = listener.map_err(|error| format!("listen: {error}"))?;
                tasks.push(tokio::spawn(our_servers(listener, count, at_once, patience, Arc::clone(&tally))));
            }
            let (cell, tally) = (*cell, Arc::clone(&tally));
            tasks.push(tokio::task::spawn_blocking(move || kernel_clients(&cell, &tally)));
        }
        Side::Anabranch => {
            for (port, count, at_once) in ports {
                let listener = kernel::listen_at(cell, port)?;
                let tally = Arc::clone(&tally);
                tasks.push(tokio::task::spawn_blocking(move || {
                    kernel_servers(&listener, count, at_once, patience, &tally);
                }));
            }
            for at in 0..total {
                let (len, port) = request(cell, at);
                let there = SocketAddr::new(shape::kernel_ip(cell.family, 0), port);
                match ours.host.connect(there, anabranch::config(cell)).await {
                    Ok(stream) => {
                        let tally = Arc::clone(&tally);
                        tasks.push(tokio::spawn(async move {
                            let result = exchange(stream, Some(len), true, patience).await;
                            let result = result.map_err(|failure| format!("connection {at}: {failure}"));
                            tally.count(Side::Anabranch, result);
                        }));
                    }
                    Err(error) => tally.count(Side::Anabranch, Err(format!("connect: {error}"))),
                }
            }
        }
    }
    for task in tasks {
        let _ = task.await;
    }
    let counters = settled(cell).await;
    Ok(judge(cell, &tally, &counters, begun.elapsed()))
}

fn judge(cell: &Cell, tally: &Tally, counters: &Counters, elapsed: Duration) -> Outcome {
    let total = connections(cell);
    let mut failures = core::mem::take(&mut *tally.failures.lock().unwrap_or_else(PoisonError::into_inner));
    let done = tally.done.load(Ordering::Relaxed);
    if done != 2 * total as u64 {
        failures.push(format!("{done} ends of connections are complete, meant {}", 2 * total));
    }
    // A connection of anabranch uses MPTCP as long as any segment before its DATA_FIN carries the keys: the
    // third ACK, data, or the acknowledgement before a DATA_FIN without data.
    let lost_both = (0..LISTED).filter(|at| at % 4 == 3).count() as u64;
    let plain = counters.mptcp("MPCapableFallbackACK");
    if cell.client == Side::Anabranch && cell.load != Load::Lossy && plain > lost_both {
        failures.push(format!("MPCapableFallbackACK is {plain}, meant at most {lost_both}"));
    }
    let list = |with: &str| {
        let wanted = counters.mptcp_nonzero().filter(|(name, _)| name.contains(with));
        wanted.map(|(name, value)| format!("{name} {value}")).collect::<Vec<_>>().join(", ")
    };
    let fallbacks = list("Fallback");
    let fallbacks = if fallbacks.is_empty() { "no fallback" } else { &fallbacks };
    Outcome {
        failures,
        seen: format!("{total} connections; {fallbacks}; {:.1} s", elapsed.as_secs_f64()),
        details: [("counters".to_owned(), list(""))].into(),
    }
}
