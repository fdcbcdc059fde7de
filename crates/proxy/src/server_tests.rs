//! The refusals of the server side, over streams in memory.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use anabranch_scenario::policy::proxy::{Key, ServerPolicy};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};
use tokio::sync::mpsc;

use crate::convert::seal::{self, Code, Received, read_reply};
use crate::convert::{Destination, ErrorCode, HEADER, Reply, Request, length_of};
use crate::now_ms;
use crate::server::{Server, may_reach};
use crate::transport::{Accept, Kernel, Link, LinkReport, Stream};

impl Stream for DuplexStream {}

impl Link for DuplexStream {
    fn reset(self) {}

    fn report(&self) -> LinkReport {
        LinkReport::default()
    }
}

struct Memory(mpsc::UnboundedReceiver<DuplexStream>);

impl Accept for Memory {
    type Link = DuplexStream;

    async fn accept(&mut self) -> io::Result<(DuplexStream, SocketAddr)> {
        match self.0.recv().await {
            Some(stream) => Ok((stream, SocketAddr::from(([192, 0, 2, 1], 1)))),
            None => std::future::pending().await,
        }
    }
}

const KEY: &str = "0707070707070707070707070707070707070707070707070707070707070707";

struct Side {
    server: Server,
    connect: mpsc::UnboundedSender<DuplexStream>,
}

impl Side {
    /// Starts a server side with these limits for the client `laptop`.
    fn start(limits: &str) -> Side {
        let text = format!("[[client]]\nname = 'laptop'\nkey = '{KEY}'\n{limits}");
        let policy = ServerPolicy::parse("s.toml", &text).unwrap();
        let server = Server::new(Kernel::plain_tcp(), "kernel", policy).unwrap();
        let (connect, accepted) = mpsc::unbounded_channel();
        let serving = server.clone();
        tokio::spawn(async move { serving.serve(Memory(accepted)).await });
        Side { server, connect }
    }

    fn open(&self) -> DuplexStream {
        let (here, there) = duplex(4096);
        self.connect.send(there).unwrap();
        here
    }

    /// Sends bytes, and returns the message that comes back; empty if the connection just ends.
    async fn exchange(&self, sent: &[u8]) -> Vec<u8> {
        let mut stream = self.open();
        stream.write_all(sent).await.unwrap();
        let mut header = [0; HEADER];
        if stream.read_exact(&mut header).await.is_err() {
            return Vec::new();
        }
        let mut message = header.to_vec();
        message.resize(length_of(header).unwrap(), 0);
        stream.read_exact(&mut message[HEADER..]).await.unwrap();
        message
    }

    fn failures(&self) -> Vec<(&'static str, u64)> {
        self.server.status().snapshot().totals.failures.into_iter().collect()
    }
}

fn key() -> Key {
    Key([7; 32])
}

/// Returns a sealed request to this destination now, and its code.
fn sealed(to: &str, name: &str, key: &Key, nonce: u8) -> (Vec<u8>, Code) {
    let (host, port) = to.rsplit_once(':').unwrap();
    let destination = Destination::new(host, port.parse().unwrap()).unwrap();
    let request = Request { destination, asks_for_mptcp: true };
    seal::request(&request, name, key, now_ms() + 5, [nonce; 16])
}

fn failed(message: &[u8], code: &Code) -> (ErrorCode, bool) {
    match read_reply(message, &key(), code) {
        Ok(Received { reply: Reply::Failed { code, .. }, time_ms }) => (code, time_ms.is_some()),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_client_without_a_key_or_with_a_wrong_one_is_refused() {
    let side = Side::start("");
    // The request of RFC 8803, without authentication: fixed header and Connect TLV.
    let bare = [&[1, 6, 0x22, 0x63, 0x0a, 5, 0, 80][..], &[0x26; 16]].concat();
    assert_eq!(failed(&side.exchange(&bare).await, &[0; 32]), (ErrorCode::NotAuthorized, false));
    let (wrong, code) = sealed("192.0.2.1:80", "laptop", &Key([8; 32]), 1);
    assert_eq!(failed(&side.exchange(&wrong).await, &code), (ErrorCode::NotAuthorized, false));
    let (stranger, code) = sealed("192.0.2.1:80", "desktop", &key(), 1);
    assert_eq!(failed(&side.exchange(&stranger).await, &code), (ErrorCode::NotAuthorized, false));
    assert_eq!(side.failures(), [("no_key", 1), ("wrong_key", 2)]);
}

#[tokio::test]
async fn a_replayed_request_is_refused() {
    let side = Side::start("");
    let (message, code) = sealed("10.0.0.1:80", "laptop", &key(), 1);
    for _ in 0..2 {
        assert_eq!(failed(&side.exchange(&message).await, &code), (ErrorCode::NotAuthorized, true));
    }
    assert_eq!(side.failures(), [("forbidden", 1), ("replayed", 1)]);
}

#[tokio::test]
async fn a_request_of_another_time_is_refused_with_the_time_of_the_server() {
    let side = Side::start("");
    let destination = Destination::new("192.0.2.1", 80).unwrap();
    let request = Request { destination, asks_for_mptcp: false };
    let (message, code) = seal::request(&request, "laptop", &key(), now_ms() - 61_000, [1; 16]);
    let answer = side.exchange(&message).await;
    let received = read_reply(&answer, &key(), &code).unwrap();
    assert!(received.time_ms.unwrap().abs_diff(now_ms()) < 10_000);
    assert_eq!(side.failures(), [("stale", 1)]);
}

#[tokio::test]
async fn private_destinations_are_refused_by_address_and_by_name() {
    let side = Side::start("");
    // `localhost` is a name of a private address, as the name of an attacker would be: the address is checked.
    let refused = [
        "127.0.0.1:80",
        "10.1.2.3:80",
        "169.254.169.254:80",
        "[::1]:80",
        "[fe80::1]:80",
        "[::ffff:127.0.0.1]:80",
        "localhost:80",
    ];
    for (at, to) in refused.iter().enumerate() {
        let (message, code) = sealed(to, "laptop", &key(), at as u8);
        assert_eq!(failed(&side.exchange(&message).await, &code), (ErrorCode::NotAuthorized, true), "{to}");
    }
    assert_eq!(side.failures(), [("forbidden", refused.len() as u64)]);
}

#[tokio::test]
async fn an_allowed_destination_is_connected_and_a_closed_port_is_not() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let there = listener.local_addr().unwrap();
    let side = Side::start("allow = '127.0.0.0/8'");
    let (message, code) = sealed(&format!("localhost:{}", there.port()), "laptop", &key(), 1);
    let mut stream = side.open();
    stream.write_all(&message).await.unwrap();
    // The first data is sent before the answer.
    stream.write_all(b"first").await.unwrap();
    let (mut accepted, _) = listener.accept().await.unwrap();
    let mut first = [0; 5];
    accepted.read_exact(&mut first).await.unwrap();
    assert_eq!(&first, b"first");
    let mut answer = vec![0; HEADER];
    stream.read_exact(&mut answer).await.unwrap();
    answer.resize(usize::from(answer[1]) * 4, 0);
    stream.read_exact(&mut answer[HEADER..]).await.unwrap();
    let received = read_reply(&answer, &key(), &code).unwrap();
    assert_eq!(received.reply, Reply::Connected { mptcp: Some(false) });
    accepted.write_all(b"data").await.unwrap();
    accepted.shutdown().await.unwrap();
    let mut data = String::new();
    stream.read_to_string(&mut data).await.unwrap();
    assert_eq!(data, "data");
    // The other direction is still open.
    stream.write_all(b"second").await.unwrap();
    drop(stream);
    accepted.read_to_string(&mut data).await.unwrap();
    assert_eq!(data, "datasecond");
    drop(listener);
    let (message, code) = sealed(&format!("127.0.0.1:{}", there.port()), "laptop", &key(), 2);
    assert_eq!(failed(&side.exchange(&message).await, &code), (ErrorCode::ConnectionReset, true));
}

#[tokio::test]
async fn limits_of_a_client_are_kept() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let to = listener.local_addr().unwrap().to_string();
    let side = Side::start("allow = '127.0.0.1'\nconnections = 1\nrate = 3");
    let mut first = side.open();
    first.write_all(&sealed(&to, "laptop", &key(), 1).0).await.unwrap();
    first.read_exact(&mut [0; 4]).await.unwrap();
    for nonce in 2..6 {
        let (message, code) = sealed(&to, "laptop", &key(), nonce);
        assert_eq!(failed(&side.exchange(&message).await, &code), (ErrorCode::ResourceExceeded, true));
    }
    assert_eq!(side.failures().iter().map(|(_, count)| count).sum::<u64>(), 4);
    assert!(side.failures().contains(&("connections", 2)), "{:?}", side.failures());
}

#[tokio::test]
async fn what_is_no_request_is_refused_or_gets_no_answer() {
    let side = Side::start("");
    // Any other protocol: silence.
    assert!(side.exchange(b"GET / HTTP/1.1\r\n\r\n").await.is_empty());
    let version = side.exchange(&[2, 1, 0x22, 0x63]).await;
    assert_eq!(version, [1, 2, 0x22, 0x63, 0x1e, 1, 0, 1]);
    // An element that is longer than the message.
    let long = side.exchange(&[1, 2, 0x22, 0x63, 0x0a, 200, 0, 80]).await;
    assert_eq!(failed(&long, &[0; 32]), (ErrorCode::Malformed, false));
    assert!(long.ends_with(&[1, 2, 0x22, 0x63, 0x0a, 200, 0, 80]), "the message is echoed");
    let unknown = side.exchange(&[1, 2, 0x22, 0x63, 0xdd, 1, 0, 0]).await;
    assert_eq!(failed(&unknown, &[0; 32]), (ErrorCode::UnsupportedMessage, false));
}

#[tokio::test(start_paused = true)]
async fn a_slow_client_is_not_waited_for() {
    let side = Side::start("");
    let mut stream = side.open();
    stream.write_all(&[1, 20, 0x22]).await.unwrap();
    let begun = tokio::time::Instant::now();
    assert_eq!(stream.read(&mut [0]).await.unwrap(), 0);
    assert_eq!(begun.elapsed().as_secs(), 10);
    assert_eq!(side.failures(), [("slow", 1)]);
}

#[tokio::test(start_paused = true)]
async fn strangers_are_bounded() {
    let side = Side::start("");
    let mut streams: Vec<DuplexStream> = (0..1500).map(|_| side.open()).collect();
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert_eq!(side.failures(), [("strangers", 1500 - 1024)]);
    assert_eq!(streams[1499].read(&mut [0]).await.unwrap(), 0, "the last one is closed");
    tokio::time::sleep(Duration::from_secs(11)).await;
    // Their time is over, and there is space again.
    assert_eq!(side.failures(), [("slow", 1024), ("strangers", 1500 - 1024)]);
}

#[test]
fn an_address_of_the_server_itself_needs_a_prefix() {
    let reach = |allow: &str| {
        let key = "07".repeat(32);
        let text = format!("allow = [{allow}]\n[[client]]\nname = 'a'\nkey = '{key}'");
        ServerPolicy::parse("s.toml", &text).unwrap().clients.remove(0).reach
    };
    let [own, other] = ["8.8.8.8", "9.9.9.9"].map(|ip| ip.parse().unwrap());
    assert!(reach("'public'").contains(own, 80) && may_reach(&reach("'public'"), own, other));
    assert!(!may_reach(&reach("'public'"), own, own));
    assert!(may_reach(&reach("'public', '8.8.8.0/24'"), own, own));
}
