//! Real programs through both sides, over emulated paths between network namespaces. Needs root and `curl`, and reports
//! the tests as skipped otherwise.
#![cfg(target_os = "linux")]

#[path = "../../../tests/skipped.rs"]
mod skipped;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::process::{Command, Output};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use anabranch_emulate::{Emulation, Namespace, Options, Role};
use anabranch_kernel::interfaces::Links;
use anabranch_kernel::memory::{Memory, Month, Remembered};
use anabranch_kernel::pm::{EndpointFlags, PathManager};
use anabranch_proxy::client::{Client, ServerSide};
use anabranch_proxy::convert::Destination;
use anabranch_proxy::paths::{PathNames, Paths};
use anabranch_proxy::server::Server;
use anabranch_proxy::status::{Snapshot, Status};
use anabranch_proxy::transport::tls::{Identity, PublicKeyPin, Tls, Trust, new_certificate};
use anabranch_proxy::transport::{Kernel, Link as _, Transport as _};
use anabranch_scenario::Document;
use anabranch_scenario::policy::proxy::{ClientPolicy, Key, ServerPolicy, Treatment};
use anabranch_units::{Bytes, Time};

const SERVER_PORT: u16 = 8803;
const TLS_PORT: u16 = 8804;
const WEB_PORT: u16 = 8000;
const PROXY: &str = "127.0.0.1:1080";
const REDIRECTED: &str = "127.0.0.1:1081";
/// The size of the file that the web server has.
const SIZE: usize = 3_000_000;

struct Hosts {
    emulation: Emulation,
    directory: tempfile::TempDir,
    _one: MutexGuard<'static, ()>,
}

fn byte(at: usize) -> u8 {
    (at * 31 / 7) as u8
}

impl Hosts {
    fn new(paths: &str) -> Option<Hosts> {
        static ONE: Mutex<()> = Mutex::new(());
        if let Some(why) = anabranch_emulate::obstacle() {
            skipped::skipped(why);
            return None;
        }
        if Command::new("curl").arg("--version").output().is_err() {
            skipped::skipped("there is no `curl`");
            return None;
        }
        let one = ONE.lock().unwrap_or_else(|poison| poison.into_inner());
        let scenario = Document::parse("test.toml", paths, ".").unwrap().scenario().unwrap();
        let emulation = Emulation::build(&scenario, &Options::default()).unwrap();
        let hosts = Hosts { emulation, directory: tempfile::tempdir().unwrap(), _one: one };
        hosts.start_web();
        hosts.start_server();
        Some(hosts)
    }

    fn server_address(&self) -> Ipv4Addr {
        self.emulation.addresses().kernel(Role::Server, 0)
    }

    /// Starts a web server that has one file.
    fn start_web(&self) {
        let bind = || std::net::TcpListener::bind((Ipv4Addr::UNSPECIFIED, WEB_PORT)).unwrap();
        let listener = self.emulation.namespace(Role::Server).run(bind).unwrap();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                std::thread::spawn(move || answer(stream));
            }
        });
    }

    /// Starts the server side, on a thread in the namespace of the server.
    fn start_server(&self) {
        self.in_thread(Role::Server, move |ready| async move {
            let listener = Kernel::open().0.listen(SocketAddr::from(([0; 4], SERVER_PORT))).unwrap();
            ready.send(()).unwrap();
            server().serve(listener).await;
        });
    }

    /// Starts a server side with TLS. Returns its pin.
    fn start_server_with_tls(&self) -> PublicKeyPin {
        let file = self.directory.path().join("server.pem");
        let (text, pin) = new_certificate("server.example").unwrap();
        std::fs::write(&file, text).unwrap();
        self.in_thread(Role::Server, move |ready| async move {
            let transport = Tls::server(Kernel::open().0, Identity::open(&file, &file).unwrap());
            let listener = transport.listen(SocketAddr::from(([0; 4], TLS_PORT))).unwrap();
            ready.send(()).unwrap();
            server().serve(listener).await;
        });
        pin
    }

    /// Starts a client side that accepts a server with this pin only.
    fn start_client_with_tls(&self, pin: PublicKeyPin) -> (Arc<Status>, Option<String>) {
        let at = Destination::new(&self.server_address().to_string(), TLS_PORT).unwrap();
        let side = ServerSide { at, name: "test".to_owned(), key: Key([7; 32]) };
        self.in_thread(Role::Client, move |ready| async move {
            let transport =
                Tls::client(Kernel::open().0, Trust::pinned("server.example", vec![pin]).unwrap());
            let client =
                Client::new(transport, Kernel::open().0, Some(side), ClientPolicy::default()).unwrap();
            let listener = tokio::net::TcpListener::bind(PROXY).await.unwrap();
            let checked = client.check_server().await.err().map(|error| error.to_string());
            ready.send((client.status(), checked)).unwrap();
            client.serve(listener).await;
        })
    }

    /// Starts the client side with this policy.
    fn start_client(&self, policy: &str) -> Arc<Status> {
        let policy = ClientPolicy::parse("client.toml", policy).unwrap();
        let at = Destination::new(&self.server_address().to_string(), SERVER_PORT).unwrap();
        let side = ServerSide { at, name: "test".to_owned(), key: Key([7; 32]) };
        self.in_thread(Role::Client, move |ready| async move {
            let client = Client::new(Kernel::open().0, Kernel::open().0, Some(side), policy).unwrap();
            let listener = tokio::net::TcpListener::bind(PROXY).await.unwrap();
            let redirected = tokio::net::TcpListener::bind(REDIRECTED).await.unwrap();
            ready.send(client.status()).unwrap();
            tokio::join!(client.serve(listener), client.serve_redirected(redirected));
        })
    }

    /// Runs a task on a thread of a namespace, until the end of the process. Returns what it sends.
    fn in_thread<F, T>(
        &self,
        role: Role,
        work: impl FnOnce(std::sync::mpsc::Sender<T>) -> F + Send + 'static,
    ) -> T
    where
        F: Future<Output = ()>,
        T: Send + 'static,
    {
        let namespace = self.emulation.namespace(role).try_clone().unwrap();
        let (ready, is_ready) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            namespace.enter().unwrap();
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(work(ready));
        });
        is_ready.recv().unwrap()
    }

    fn curl(&self, options: &[&str], path: &str) -> Output {
        let url = format!("http://{}:{WEB_PORT}{path}", self.server_address());
        let mut command = Command::new("curl");
        command.args(["--silent", "--show-error", "--max-time", "20", "--output", "got"]);
        command.args(["--write-out", "%{http_code} %{size_download}"]);
        command.args(options).arg(url).current_dir(self.directory.path());
        self.emulation.namespace(Role::Client).run(|| command.output().unwrap()).unwrap()
    }

    fn fetch(&self, options: &[&str]) {
        let output = self.curl(options, "/file");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(text, format!("200 {SIZE}"), "{options:?}: {}", String::from_utf8_lossy(&output.stderr));
        let got = std::fs::read(self.directory.path().join("got")).unwrap();
        assert!(got.iter().enumerate().all(|(at, found)| *found == byte(at)), "{options:?}");
    }
}

/// Returns the server side of all tests.
fn server() -> Server {
    let text = format!("allow = '10.0.0.0/8'\n{}", ServerPolicy::text_of_key("test", Key([7; 32])).unwrap());
    let policy = ServerPolicy::parse("server.toml", &text).unwrap();
    Server::new(Kernel::open().0, "kernel", policy).unwrap()
}

/// Answers one request with the file, in pieces of what the stream takes.
fn answer(mut stream: std::net::TcpStream) {
    let mut request = Vec::new();
    let mut buffer = [0; 1024];
    while !request.windows(4).any(|four| four == b"\r\n\r\n") {
        match stream.read(&mut buffer) {
            Ok(n @ 1..) => request.extend_from_slice(&buffer[..n]),
            _ => return,
        }
    }
    let body: Vec<u8> = (0..SIZE).map(byte).collect();
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {SIZE}\r\nConnection: close\r\n\r\n");
    let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&body));
}

#[test]
fn a_connection_begins_on_the_path_that_the_memory_expects_to_be_faster() {
    let paths = "path = [{ rate = '30 Mbit/s', rtt = '10 ms' }, { rate = '20 Mbit/s', rtt = '40 ms' }]";
    let Some(hosts) = Hosts::new(paths) else { return };
    let live = hosts.emulation.go().unwrap();
    let to = SocketAddr::from((hosts.server_address(), WEB_PORT));
    let file = hosts.directory.path().join("paths.json");
    let own = [0, 1].map(|at| IpAddr::V4(hosts.emulation.addresses().kernel(Role::Client, at)));
    let begun = hosts.in_thread(Role::Client, move |ready| async move {
        let interfaces = Links::open().unwrap().read().unwrap();
        let usable: Vec<_> =
            interfaces.towards(to.ip()).into_iter().filter(|(_, ip)| own.contains(ip)).collect();
        assert_eq!(usable.len(), 2, "{interfaces:?}");
        let mut begun = Vec::new();
        for best in 0..2 {
            let mut memory = Memory::default();
            for (at, (interface, _)) in usable.iter().enumerate() {
                let rtt = if at == best { 0.010 } else { 0.100 };
                memory.note(&interface.name, to.ip(), Remembered::new(rtt, 0.0, None, 0.0, Time(u64::MAX)));
            }
            memory.write(&file).unwrap();
            let paths = Paths::open(&file, PathNames::Interfaces, Bytes(100_000)).unwrap();
            let kernel = Kernel::open().0.with_paths(Some(paths));
            let link = kernel.dial(to, &Treatment::default()).await.unwrap();
            begun.push((link.report().subflows[0].local.ip(), usable[best].1));
        }
        ready.send(begun).unwrap();
    });
    assert!(begun.iter().all(|(found, wanted)| found == wanted), "{begun:?}");
    drop(live);
}

/// The month's bytes are in the file of the memory, as after a restart.
#[test]
fn the_kernels_endpoints_of_a_spent_budget_are_backups_until_the_end_also_while_the_interface_is_gone() {
    if let Some(why) = anabranch_emulate::obstacle() {
        return skipped::skipped(why);
    }
    let shell =
        |line: &str| assert!(Command::new("sh").args(["-euc", line]).status().unwrap().success(), "{line}");
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("paths.json");
    let seconds = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    let mut memory = Memory::default();
    memory.spend("r1", Month::of(Time::from_secs(seconds)), 10);
    memory.write(&file).unwrap();
    let namespace = Namespace::new().unwrap();
    let work = || {
        shell(
            "for n in 0 1; do
                 ip link add r$n type veth peer name f$n; ip link set r$n up; ip link set f$n up
                 ip addr add 10.9.$n.2/24 dev r$n; ip mptcp endpoint add 10.9.$n.2 subflow
             done",
        );
        let backups = || {
            let endpoints = PathManager::open().unwrap().endpoints().unwrap().into_iter();
            let backups = endpoints.filter(|endpoint| endpoint.flags.has(EndpointFlags::BACKUP));
            backups.map(|endpoint| endpoint.address.to_string()).collect::<Vec<_>>()
        };
        let paths = Paths::open(&file, PathNames::Interfaces, Bytes(100_000)).unwrap();
        let kernel = Kernel::open().0.with_paths(Some(paths.clone()));
        let policy = "[[budget]]\npath = 'r1'\nmonthly = '10B'";
        let client = Client::new(kernel, Kernel::open().0, None, ClientPolicy::parse("c", policy).unwrap());
        let status = client.unwrap().status();
        let builder = &mut tokio::runtime::Builder::new_current_thread();
        let runtime = builder.enable_all().start_paused(true).build().unwrap();
        // Two looks at the interfaces and the budgets.
        let look = || {
            runtime.block_on(async {
                let enough = tokio::time::sleep(Duration::from_millis(2500));
                tokio::select! { () = paths.watch(&status, |text| panic!("{text}")) => {}, () = enough => {} }
            });
        };
        assert_eq!(backups(), [""; 0]);
        look();
        assert_eq!(backups(), ["10.9.1.2"]);
        shell("ip link del r1");
        look();
        assert_eq!(backups(), ["10.9.1.2"], "the interface may come back");
        paths.finish(&status).unwrap();
        assert_eq!(backups(), [""; 0]);
    };
    namespace.run(work).unwrap();
}

/// Waits for a state in which `is_so`.
fn wait(status: &Status, is_so: impl Fn(&Snapshot) -> bool) -> Snapshot {
    for _ in 0..500 {
        let look = status.snapshot();
        if is_so(&look) {
            return look;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("not in time: {:?}", status.snapshot());
}

#[test]
fn curl_fetches_over_both_paths_by_socks_and_http() {
    let paths = "path = [{ rate = '30 Mbit/s', rtt = '10 ms' }, { rate = '20 Mbit/s', rtt = '40 ms' }]";
    let Some(hosts) = Hosts::new(paths) else { return };
    let status = hosts.start_client("");
    let live = hosts.emulation.go().unwrap();
    hosts.fetch(&["--proxy", &format!("socks5h://{PROXY}")]);
    hosts.fetch(&["--proxytunnel", "--proxy", &format!("http://{PROXY}")]);
    hosts.fetch(&["--proxy", &format!("http://{PROXY}")]);
    let look = wait(&status, |look| look.connections.is_empty());
    assert_eq!(look.totals.connections.get("server"), Some(&3));
    assert_eq!((look.totals.plain_tcp, look.totals.failures.len()), (0, 0), "{look:?}");
    let by_path: Vec<u64> = look.totals.paths.values().map(|path| path.received_bytes).collect();
    assert!(by_path.len() == 2 && by_path.iter().all(|bytes| *bytes > 500_000), "{by_path:?}");
    assert!(look.totals.up_bytes > 100 && look.totals.down_bytes >= 3 * SIZE as u64);
    // Budgets count these, so no byte may be missing.
    assert!(by_path.iter().sum::<u64>() >= look.totals.down_bytes, "{look:?}");
    // A destination that the server side refuses ends with an error.
    let output =
        hosts.curl(&["--proxy", &format!("socks5h://{PROXY}"), "--connect-to", "::192.0.2.1:80"], "/");
    assert!(!output.status.success());
    let look = wait(&status, |look| !look.last_failures.is_empty());
    assert!(look.last_failures[0].why.contains("not authorized"), "{look:?}");
    drop(live);
}

#[test]
fn a_path_that_is_cut_loses_no_connection() {
    let paths = "
        [[path]]
        rate = '10 Mbit/s'
        rtt = '20 ms'
        change = [{ at = '1 s', loss = '100%' }]
        [[path]]
        rate = '10 Mbit/s'
        rtt = '40 ms'
    ";
    let Some(hosts) = Hosts::new(paths) else { return };
    let status = hosts.start_client("[[rule]]\nport = 8000\nanswer = 'late'");
    let live = hosts.emulation.go().unwrap();
    // The first path alone would need 2.4 s, and is cut after 1 s.
    hosts.fetch(&["--proxy", &format!("socks5h://{PROXY}")]);
    let look = wait(&status, |look| look.connections.is_empty());
    let by_path: Vec<u64> = look.totals.paths.values().map(|path| path.received_bytes).collect();
    assert!(by_path.last().is_some_and(|bytes| *bytes > 1_000_000), "{look:?}");
    drop(live);
}

#[test]
fn an_application_that_knows_nothing_of_the_proxy_is_carried() {
    let paths = "path = [{ rate = '30 Mbit/s', rtt = '10 ms' }, { rate = '20 Mbit/s', rtt = '40 ms' }]";
    let Some(hosts) = Hosts::new(paths) else { return };
    // The rule finds the program, though its socket has the end that it has dialled.
    let status = hosts.start_client("via = 'refuse'\n[[rule]]\nprogram = 'curl'\nvia = 'server'");
    let live = hosts.emulation.go().unwrap();
    let rules = "add table ip proxy
        add chain ip proxy output { type nat hook output priority -100; }
        add rule ip proxy output tcp dport 8000 redirect to :1081";
    let mut nft = Command::new("nft");
    nft.arg(rules);
    assert!(hosts.emulation.namespace(Role::Client).run(|| nft.status().unwrap()).unwrap().success());
    hosts.fetch(&[]);
    let look = wait(&status, |look| look.connections.is_empty() && look.totals.down_bytes > 0);
    assert_eq!(look.totals.connections.get("server"), Some(&1));
    let by_path: Vec<u64> = look.totals.paths.values().map(|path| path.received_bytes).collect();
    assert!(by_path.len() == 2 && by_path.iter().all(|bytes| *bytes > 500_000), "{by_path:?}");
    // Who connects to the port itself is not sent in a circle.
    let output = hosts.curl(&["--connect-to", &format!("::{REDIRECTED}")], "/file");
    assert!(!output.status.success());
    wait(&status, |look| look.totals.failures.get("request") == Some(&1));
    drop(live);
}

#[test]
fn curl_fetches_over_both_paths_with_tls() {
    let paths = "path = [{ rate = '30 Mbit/s', rtt = '10 ms' }, { rate = '20 Mbit/s', rtt = '40 ms' }]";
    let Some(hosts) = Hosts::new(paths) else { return };
    let live = hosts.emulation.go().unwrap();
    let pin = hosts.start_server_with_tls();
    let (status, checked) = hosts.start_client_with_tls(pin);
    assert_eq!(checked, None);
    hosts.fetch(&["--proxy", &format!("socks5h://{PROXY}")]);
    let look = wait(&status, |look| look.connections.is_empty());
    assert_eq!((look.totals.plain_tcp, look.totals.failures.len()), (0, 0), "{look:?}");
    let by_path: Vec<u64> = look.totals.paths.values().map(|path| path.received_bytes).collect();
    assert!(by_path.len() == 2 && by_path.iter().all(|bytes| *bytes > 500_000), "{by_path:?}");
    drop(live);
}

#[test]
fn a_client_with_a_wrong_pin_carries_nothing() {
    let paths = "path = [{ rate = '30 Mbit/s', rtt = '10 ms' }, { rate = '20 Mbit/s', rtt = '40 ms' }]";
    let Some(hosts) = Hosts::new(paths) else { return };
    let live = hosts.emulation.go().unwrap();
    hosts.start_server_with_tls();
    let (status, checked) = hosts.start_client_with_tls(PublicKeyPin([1; 32]));
    let checked = checked.unwrap_or_default();
    assert!(checked.contains("its public key is not the pinned one"), "{checked}");
    let output = hosts.curl(&["--proxy", &format!("socks5h://{PROXY}")], "/file");
    assert!(!output.status.success());
    let look = wait(&status, |look| !look.last_failures.is_empty());
    assert!(look.last_failures[0].why.contains("not the pinned one"), "{look:?}");
    drop(live);
}
