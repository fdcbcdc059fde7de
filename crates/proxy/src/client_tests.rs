//! The client side with a scripted server side, over streams in memory; applications have real sockets.

use std::io;
use std::net::SocketAddr;

use anabranch_scenario::policy::proxy::{Budget, ClientPolicy, Key, Treatment};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

use crate::client::{Client, ServerSide};
use crate::convert::seal::{self, Code, Unverified};
use crate::convert::{Destination, ErrorCode, HEADER, Reply, length_of};
use crate::now_ms;
use crate::transport::{Accept, Kernel, Transport};

/// A transport that sends the far end of each dialled connection into the channel.
#[derive(Clone)]
struct Memory(mpsc::UnboundedSender<DuplexStream>);

struct Nothing;

impl Accept for Nothing {
    type Link = DuplexStream;

    async fn accept(&mut self) -> io::Result<(DuplexStream, SocketAddr)> {
        Err(io::ErrorKind::NotConnected.into())
    }
}

impl Transport for Memory {
    type Link = DuplexStream;
    type Listener = Nothing;

    fn name(&self) -> &'static str {
        "memory"
    }

    fn check(&self, _: &Treatment) -> Result<(), String> {
        Ok(())
    }

    fn set_budgets(&self, _: &[Budget]) -> Result<(), String> {
        Ok(())
    }

    async fn dial(&self, _: SocketAddr, _: &Treatment) -> io::Result<DuplexStream> {
        let (here, there) = duplex(1 << 16);
        self.0.send(there).map_err(io::Error::other)?;
        Ok(here)
    }

    fn listen(&self, _: SocketAddr) -> io::Result<Nothing> {
        Ok(Nothing)
    }

    fn adopt(&self, _: std::net::TcpListener) -> io::Result<Nothing> {
        Ok(Nothing)
    }
}

const KEY: Key = Key([7; 32]);

struct Sides {
    client: Client<Memory>,
    proxy: SocketAddr,
    dialled: mpsc::UnboundedReceiver<DuplexStream>,
}

impl Sides {
    async fn start(policy: &str) -> Sides {
        let (dial, dialled) = mpsc::unbounded_channel();
        let at = Destination::new("192.0.2.1", 8803).unwrap();
        let side = ServerSide { at, name: "laptop".to_owned(), key: KEY };
        let policy = ClientPolicy::parse("p.toml", policy).unwrap();
        let client = Client::new(Memory(dial), Kernel::plain_tcp(), Some(side), policy).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let proxy = listener.local_addr().unwrap();
        let serving = client.clone();
        tokio::spawn(async move { serving.serve(listener).await });
        Sides { client, proxy, dialled }
    }

    /// Returns the connection of an application that asks for a destination, with its first data.
    async fn ask(&self, first: &[u8]) -> TcpStream {
        let mut app = TcpStream::connect(self.proxy).await.unwrap();
        let request = [5, 1, 0, 5, 1, 0, 1, 192, 0, 2, 9, 0, 80];
        app.write_all(&[&request[..], first].concat()).await.unwrap();
        let mut method = [0; 2];
        app.read_exact(&mut method).await.unwrap();
        assert_eq!(method, [5, 0]);
        app
    }

    /// Returns the next connection to the server side, the code of its request, and its time.
    async fn dialled(&mut self) -> (DuplexStream, Code, u64) {
        let mut link = self.dialled.recv().await.unwrap();
        let mut header = [0; HEADER];
        link.read_exact(&mut header).await.unwrap();
        let mut message = header.to_vec();
        message.resize(length_of(header).unwrap(), 0);
        link.read_exact(&mut message[HEADER..]).await.unwrap();
        let request = Unverified::parse(&message).unwrap().unwrap();
        assert!(request.name == "laptop" && request.is_of(&KEY));
        assert_eq!(request.request().unwrap().destination.to_string(), "192.0.2.9:80");
        (link, request.code, request.time_ms)
    }

    async fn last_failure(&self) -> String {
        // The processes of a busy host are many.
        for _ in 0..30_000 {
            if let Some(last) = self.client.status().snapshot().last_failures.last() {
                return last.why.clone();
            }
            tokio::time::sleep(std::time::Duration::from_millis(2)).await;
        }
        String::new()
    }
}

async fn answer(app: &mut TcpStream) -> u8 {
    let mut answer = [0; 10];
    app.read_exact(&mut answer).await.unwrap();
    answer[1]
}

fn connected(code: &Code) -> Vec<u8> {
    seal::reply(&Reply::Connected { mptcp: Some(true) }, &KEY, code, now_ms())
}

#[tokio::test]
async fn the_first_data_travels_with_the_destination() {
    let mut sides = Sides::start("").await;
    let mut app = sides.ask(b"first").await;
    // The application has its answer before the server side has given any.
    assert_eq!(answer(&mut app).await, 0);
    let (mut link, code, _) = sides.dialled().await;
    let mut first = [0; 5];
    link.read_exact(&mut first).await.unwrap();
    assert_eq!(&first, b"first");
    link.write_all(&[&connected(&code)[..], b"data"].concat()).await.unwrap();
    let mut data = [0; 4];
    app.read_exact(&mut data).await.unwrap();
    assert_eq!(&data, b"data");
    assert_eq!(sides.client.destinations(), (1, 0), "the destination has Multipath TCP");
    // The second connection sends more before its answer, as the server side is known.
    let mut app = sides.ask(b"").await;
    assert_eq!(answer(&mut app).await, 0);
    let (mut link, _, _) = sides.dialled().await;
    app.write_all(b"more").await.unwrap();
    link.read_exact(&mut data).await.unwrap();
    assert_eq!(&data, b"more");
}

#[tokio::test]
async fn a_late_answer_has_the_reason() {
    let mut sides = Sides::start("answer = 'late'").await;
    for (error, socks) in [
        (ErrorCode::NotAuthorized, 2),
        (ErrorCode::ConnectionReset, 5),
        (ErrorCode::Unreachable, 4),
        (ErrorCode::ResourceExceeded, 1),
    ] {
        let mut app = sides.ask(b"").await;
        let (mut link, code, _) = sides.dialled().await;
        link.write_all(&seal::reply(&Reply::failed(error), &KEY, &code, now_ms())).await.unwrap();
        if error == ErrorCode::NotAuthorized {
            // The clock may have been the reason, so it is tried once more.
            let (mut link, code, _) = sides.dialled().await;
            link.write_all(&seal::reply(&Reply::failed(error), &KEY, &code, now_ms())).await.unwrap();
        }
        assert_eq!(answer(&mut app).await, socks, "{error}");
    }
}

#[tokio::test]
async fn a_server_without_the_key_is_not_believed() {
    let mut sides = Sides::start("answer = 'late'").await;
    let other = Key([8; 32]);
    for forged in 0..3 {
        let mut app = sides.ask(b"").await;
        let (mut link, code, _) = sides.dialled().await;
        let reply = Reply::Connected { mptcp: Some(true) };
        let message = match forged {
            0 => reply.plain(),
            1 => seal::reply(&reply, &other, &code, now_ms()),
            // An answer to another request.
            _ => seal::reply(&reply, &KEY, &[0; 32], now_ms()),
        };
        link.write_all(&[&message[..], b"data"].concat()).await.unwrap();
        assert_eq!(answer(&mut app).await, 1);
        assert!(sides.last_failure().await.contains("not authentic"), "{forged}");
    }
    assert_eq!(sides.client.destinations(), (0, 0));
}

#[tokio::test]
async fn a_wrong_clock_is_set_by_an_authentic_refusal() {
    let mut sides = Sides::start("").await;
    let mut app = sides.ask(b"first").await;
    let (mut link, code, time) = sides.dialled().await;
    let there = time + 3_600_000;
    link.write_all(&seal::reply(&Reply::failed(ErrorCode::NotAuthorized), &KEY, &code, there)).await.unwrap();
    let (mut link, code, time) = sides.dialled().await;
    assert!(time.abs_diff(there) < 10_000, "{time} {there}");
    let mut first = [0; 5];
    link.read_exact(&mut first).await.unwrap();
    assert_eq!(&first, b"first", "it is sent again");
    link.write_all(&[&connected(&code)[..], b"data"].concat()).await.unwrap();
    assert_eq!(answer(&mut app).await, 0);
    let mut data = [0; 4];
    app.read_exact(&mut data).await.unwrap();
    assert_eq!(&data, b"data");
}

#[tokio::test]
async fn a_refusal_after_the_answer_is_a_reset() {
    let mut sides = Sides::start("").await;
    let mut app = sides.ask(b"first").await;
    assert_eq!(answer(&mut app).await, 0);
    for _ in 0..2 {
        let (mut link, code, _) = sides.dialled().await;
        link.write_all(&seal::reply(&Reply::failed(ErrorCode::NotAuthorized), &KEY, &code, now_ms()))
            .await
            .unwrap();
    }
    let error = app.read(&mut [0]).await.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
    assert!(sides.last_failure().await.contains("not authorized"));
}

#[tokio::test]
async fn a_policy_refuses_and_is_replaced_without_an_effect_on_connections() {
    let mut sides = Sides::start("answer = 'late'").await;
    let mut app = sides.ask(b"").await;
    let (mut link, code, _) = sides.dialled().await;
    link.write_all(&connected(&code)).await.unwrap();
    assert_eq!(answer(&mut app).await, 0);
    sides.client.set_policy(ClientPolicy::parse("p.toml", "via = 'refuse'").unwrap()).unwrap();
    let mut refused = sides.ask(b"").await;
    assert_eq!(answer(&mut refused).await, 2);
    link.write_all(b"data").await.unwrap();
    let mut data = [0; 4];
    app.read_exact(&mut data).await.unwrap();
    assert_eq!(&data, b"data");
}

/// The applications of these tests are this program.
#[tokio::test]
async fn a_rule_finds_the_user_and_the_program_of_an_application() {
    let own = std::env::current_exe().unwrap();
    let (path, name) = (own.to_str().unwrap(), own.file_name().unwrap().to_str().unwrap());
    let uid = rustix::process::geteuid().as_raw();
    for (rule, is_refused) in [
        (format!("uid = {uid}"), true),
        (format!("uid = {}", uid + 1), false),
        (format!("program = '{name}'"), true),
        (format!("program = '{path}'"), true),
        (format!("program = 'x{name}'"), false),
        (format!("program = '{name}'\nuid = {}", uid + 1), false),
    ] {
        let mut sides = Sides::start(&format!("[[rule]]\n{rule}\nvia = 'refuse'")).await;
        let app = sides.ask(b"").await;
        if is_refused {
            assert!(sides.last_failure().await.contains("the policy refuses"), "{rule}");
        } else {
            sides.dialled().await;
        }
        drop(app);
    }
}

/// An application could otherwise escape from a rule, or pass for root, by closing its socket at once.
#[tokio::test]
async fn an_application_that_is_gone_has_no_connection_if_rules_ask_for_its_user() {
    let uid = rustix::process::geteuid().as_raw();
    let mut sides = Sides::start(&format!("[[rule]]\nuid = {}\nvia = 'refuse'", uid + 1)).await;
    let mut app = TcpStream::connect(sides.proxy).await.unwrap();
    app.write_all(&[5, 1, 0]).await.unwrap();
    app.read_exact(&mut [0; 2]).await.unwrap();
    app.write_all(b"\x05\x01\x00\x01\xc0\x00\x02\x09\x00\x50data").await.unwrap();
    // The proxy has not run since: this runtime has one thread.
    drop(app);
    loop {
        tokio::task::yield_now().await;
        assert!(sides.dialled.try_recv().is_err(), "its data was carried");
        if sides.client.status().snapshot().totals.failures.get("gone") == Some(&1) {
            break;
        }
    }
}

/// The transport of these tests accepts everything; direct connections are the kernel's.
#[tokio::test]
async fn values_outside_of_rules_may_be_for_the_transport_only_though_a_rule_is_direct() {
    let values = "scheduler = 'blest'\npath-manager = 'anabranch'\npaths = '10.0.0.*'\nbackup = '10.0.0.2'\n";
    let direct = "[[rule]]\nport = 22\nvia = 'direct'\n";
    let sides = Sides::start(&format!("{values}{direct}")).await;
    let refused = |text: &str| {
        let policy = ClientPolicy::parse("p.toml", text).unwrap();
        sides.client.set_policy(policy).unwrap_err()
    };
    assert!(refused(&format!("{direct}path-manager = 'anabranch'")).contains("`path-manager` needs"));
    assert!(refused(&format!("{direct}scheduler = 'blest'")).contains("`scheduler` needs"));
    assert!(refused("via = 'direct'\nbackup = '10.0.0.2'").contains("`backup` need"));
}

#[tokio::test]
async fn a_policy_with_a_cap_or_a_price_that_the_transport_cannot_keep_changes_nothing() {
    let sides = Sides::start("").await;
    let policy = ClientPolicy::parse("p.toml", "[[cap]]\npath = 'wwan0'\nsend = '1Mbit/s'").unwrap();
    let error = sides.client.set_policy(policy).unwrap_err();
    assert!(error.contains("--transport anabranch") && error.contains("tc qdisc"), "{error}");
    let policy = ClientPolicy::parse("p.toml", "[[price]]\npath = 'wwan0'\nprice = 1").unwrap();
    let error = sides.client.set_policy(policy).unwrap_err();
    assert!(error.contains("`[[price]]` needs --transport anabranch"), "{error}");
}
