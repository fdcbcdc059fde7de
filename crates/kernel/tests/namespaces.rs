//! The daemon in a network namespace, with connections of the kernel over emulated paths. Needs root, and reports the
//! tests as skipped otherwise.
#![cfg(target_os = "linux")]

#[path = "../../../tests/skipped.rs"]
mod skipped;
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use anabranch_emulate::{Emulation, Namespace, Options, Role};
use anabranch_kernel::diag::{Connection, Diagnostics};
use anabranch_kernel::memory::Memory;
use anabranch_kernel::pm::{Command as Order, Endpoint, EndpointFlags, Limits, PathManager, Token};
use anabranch_kernel::record::record;
use anabranch_kernel::run::FirstPath;
use anabranch_kernel::steer::daemon;
use anabranch_kernel::uplinks::{Change, Uplinks};
use anabranch_recording::view::{Details, View};
use anabranch_recording::{Origin, Settings};
use anabranch_scenario::Document;
use anabranch_table::Format;
use socket2::{Domain, Protocol, Socket, Type};

const PATHS: &str = "
    path = [
        { name = 'near', rate = '30 Mbit/s', rtt = '10 ms', queue = '2000 packets' },
        { name = 'far', rate = '20 Mbit/s', rtt = '120 ms', queue = '2000 packets' },
    ]
";
/// The same with short queues: a sender's window cannot take all of a transfer before the daemon has seen it.
const SHORT_QUEUES: &str = "
    path = [
        { name = 'near', rate = '30 Mbit/s', rtt = '10 ms', queue = '60 packets' },
        { name = 'far', rate = '20 Mbit/s', rtt = '120 ms', queue = '200 packets' },
    ]
";
/// The directory of the daemon that this test program is to be.
const DAEMON: &str = "ANABRANCH_TEST_DAEMON";
/// A bound on every wait, which no test should reach.
const PATIENCE: Duration = Duration::from_secs(15);
const PORT: u16 = 5001;

/// This test program is also the daemon: another test starts it with the directory of its state.
#[test]
fn daemon_of_the_other_tests() {
    let Some(directory) = std::env::var_os(DAEMON) else { return };
    let directory = Path::new(&directory);
    let policy = Some(directory.join("policy.toml")).filter(|file| file.exists());
    let options = daemon::Options {
        policy: policy.clone(),
        run_directory: directory.to_owned(),
        memory: directory.join("paths.json"),
        dry_run: false,
    };
    let mut log = std::fs::File::options().create(true).append(true).open(directory.join("log")).unwrap();
    let policy = daemon::policy(policy.as_deref()).unwrap();
    let ended = daemon::run(&options, policy, &mut Orders::from_stdin(), &mut |report| {
        let _ = writeln!(log, "{report:?}");
    });
    ended.unwrap();
    std::process::exit(0);
}

/// The server, and the address that a connection to it must have: then this test program is a client with plain sockets.
const CLIENT: &str = "ANABRANCH_TEST_CLIENT";

/// This test program is also a program that knows nothing of Multipath TCP.
#[test]
fn client_of_the_other_tests() {
    let Ok(addresses) = std::env::var(CLIENT) else { return };
    let (server, own) = addresses.split_once(' ').unwrap();
    let mut stream = TcpStream::connect(server).unwrap();
    assert_eq!(stream.local_addr().unwrap().ip().to_string(), own);
    send(&mut stream, 10);
    assert_eq!(Socket::from(stream).protocol().unwrap(), Some(Protocol::MPTCP));
}

/// Orders on standard input, as the harness of tests has threads with signals of their own: `r` to read the policy again,
/// and its end to end.
struct Orders(std::fs::File);

impl Orders {
    fn from_stdin() -> Orders {
        let stdin = std::io::stdin().as_fd().try_clone_to_owned().unwrap();
        rustix::fs::fcntl_setfl(&stdin, rustix::fs::OFlags::NONBLOCK).unwrap();
        Orders(std::fs::File::from(stdin))
    }
}

impl daemon::Control for Orders {
    fn fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    fn next(&mut self) -> Option<daemon::Order> {
        match self.0.read(&mut [0]) {
            Ok(0) => Some(daemon::Order::End),
            Ok(_) => Some(daemon::Order::Reload),
            Err(_) => None,
        }
    }
}

/// Two hosts with links, and a directory for the daemon. Its server answers each kilobyte with a byte.
struct Hosts {
    emulation: Emulation,
    directory: tempfile::TempDir,
    _one: MutexGuard<'static, ()>,
}

impl Hosts {
    fn new() -> Option<Hosts> {
        Hosts::over(PATHS)
    }

    fn over(paths: &str) -> Option<Hosts> {
        static ONE: Mutex<()> = Mutex::new(());
        if let Some(why) = anabranch_emulate::obstacle() {
            skipped::skipped(why);
            return None;
        }
        let one = ONE.lock().unwrap_or_else(|poison| poison.into_inner());
        let scenario = Document::parse("test.toml", paths, ".").unwrap().scenario().unwrap();
        let emulation = Emulation::build(&scenario, &Options::default()).unwrap();
        let hosts = Hosts { emulation, directory: tempfile::tempdir().unwrap(), _one: one };
        hosts.serve();
        Some(hosts)
    }

    fn client(&self) -> &Namespace {
        self.emulation.namespace(Role::Client)
    }

    /// Starts a server, which ends with this process.
    fn serve(&self) {
        let listener = self.emulation.namespace(Role::Server).run(|| {
            let socket = mptcp();
            socket.set_reuse_address(true).unwrap();
            socket.bind(&SocketAddr::from((Ipv4Addr::UNSPECIFIED, PORT)).into()).unwrap();
            socket.listen(1024).unwrap();
            std::net::TcpListener::from(socket)
        });
        let listener = listener.unwrap();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(mut stream) = stream else { return };
                std::thread::Builder::new()
                    .stack_size(512 << 10)
                    .spawn(move || {
                        let (mut bytes, mut all) = ([0; 16_384], 0);
                        while let Ok(count @ 1..) = stream.read(&mut bytes) {
                            let (before, now) = (all / 1000, (all + count) / 1000);
                            all += count;
                            let _ = stream.write_all(&bytes[..now - before]);
                        }
                    })
                    .unwrap();
            }
        });
    }

    /// Opens connections, all at once.
    fn connect(&self, count: usize) -> Vec<TcpStream> {
        let server = SocketAddr::from((self.emulation.addresses().kernel(Role::Server, 0), PORT)).into();
        let begin = || {
            let socket = mptcp();
            socket.set_nonblocking(true).unwrap();
            let begun = socket.connect(&server);
            assert_eq!(begun.unwrap_err().raw_os_error(), Some(libc::EINPROGRESS));
            TcpStream::from(socket)
        };
        let streams: Vec<TcpStream> = self.client().run(|| (0..count).map(|_| begin()).collect()).unwrap();
        for stream in &streams {
            self.wait("a connection", || stream.peer_addr().is_ok());
            stream.set_nonblocking(false).unwrap();
        }
        streams
    }

    /// Starts the daemon on the client's host, and waits until it is ready.
    fn steer(&self) -> Daemon {
        let log = self.directory.path().join("log");
        let _ = std::fs::remove_file(&log);
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "daemon_of_the_other_tests", "--nocapture"]);
        command.env(DAEMON, self.directory.path()).stdin(Stdio::piped()).stdout(Stdio::null());
        let child = self.client().run(|| command.spawn().unwrap()).unwrap();
        let daemon = Daemon(child);
        self.wait("the daemon is ready", || self.log().contains("Ready"));
        daemon
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.directory.path().join("log")).unwrap_or_default()
    }

    fn connections(&self) -> BTreeMap<Token, Connection> {
        self.client().run(|| Diagnostics::open().unwrap().connections().unwrap()).unwrap()
    }

    /// The value of the setting that chooses the path manager, in the client's namespace.
    fn manager(&self) -> String {
        let read = |key: &str| std::fs::read_to_string(format!("/proc/sys/net/mptcp/{key}"));
        let text = self.client().run(|| read("path_manager").or_else(|_| read("pm_type")).unwrap());
        text.unwrap().trim().to_owned()
    }

    fn ip(&self, arguments: &str) {
        let run = || Command::new("ip").args(arguments.split(' ')).status().unwrap();
        assert!(self.client().run(run).unwrap().success(), "ip {arguments}");
    }

    fn wait(&self, what: &str, until: impl Fn() -> bool) {
        let begun = Instant::now();
        while !until() {
            assert!(
                begun.elapsed() < PATIENCE,
                "not in time: {what}\n{}\n{:?}",
                self.log(),
                self.connections()
            );
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

fn mptcp() -> Socket {
    Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::MPTCP)).unwrap()
}

struct Daemon(Child);

impl Daemon {
    fn reload(&mut self) {
        self.0.stdin.as_mut().unwrap().write_all(b"r").unwrap();
    }

    fn end(mut self) {
        drop(self.0.stdin.take());
        assert!(self.0.wait().unwrap().success());
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Sends kilobytes, and waits until the server has got them.
fn send(stream: &mut TcpStream, kilobytes: usize) {
    let mut writer = stream.try_clone().unwrap();
    let writing = std::thread::spawn(move || writer.write_all(&vec![0; kilobytes * 1000]).unwrap());
    stream.read_exact(&mut vec![0; kilobytes]).unwrap();
    writing.join().unwrap();
}

/// The payload sent over each address of the client, and whether it is a backup.
fn use_of_paths(connection: &Connection) -> BTreeMap<String, (u64, bool)> {
    let one = |subflow: &anabranch_kernel::diag::SubflowState| {
        (subflow.addresses.local.ip().to_string(), (subflow.info.bytes_sent, subflow.flags.own_backup()))
    };
    connection.subflows.iter().map(one).collect()
}

#[test]
fn the_slow_path_is_a_backup_for_a_short_flow_and_carries_a_long_one() {
    let Some(hosts) = Hosts::over(SHORT_QUEUES) else { return };
    let _live = hosts.emulation.go().unwrap();
    let before = hosts.manager();
    let daemon = hosts.steer();
    assert_ne!(hosts.manager(), before);
    let mut stream = hosts.connect(1).remove(0);
    let only = || hosts.connections().into_values().next();
    let paths = || only().map(|connection| use_of_paths(&connection)).unwrap_or_default();
    send(&mut stream, 30);
    hosts.wait("both paths are there", || {
        only().is_some_and(|connection| {
            connection.subflows.iter().filter(|subflow| subflow.flags.is_fully_established()).count() == 2
        })
    });
    send(&mut stream, 30);
    let short = paths();
    assert_eq!(short["10.0.2.1"], (0, true), "{short:?}");
    assert!(!short["10.0.1.1"].1);
    // The rate of the near path is not enough for a long flow.
    send(&mut stream, 6000);
    let long = paths();
    assert!(long["10.0.2.1"].0 > 300_000, "{long:?}\n{}", hosts.log());
    hosts.wait("the slow path is a backup again", || paths().get("10.0.2.1").is_some_and(|path| path.1));
    daemon.end();
    assert_eq!(hosts.manager(), before);
    let memory = std::fs::read_to_string(hosts.directory.path().join("paths.json")).unwrap();
    assert!(memory.contains("path1") && memory.contains("path2"), "{memory}");
    assert!(!hosts.directory.path().read_dir().unwrap().flatten().any(|entry| {
        entry.file_name().to_string_lossy().ends_with(".json") && entry.file_name() != "paths.json"
    }));
}

#[test]
fn a_killed_daemon_is_followed_by_one_that_finds_its_connections_and_undoes_its_setting() {
    let Some(hosts) = Hosts::new() else { return };
    let _live = hosts.emulation.go().unwrap();
    let before = hosts.manager();
    let killed = hosts.steer();
    let mut stream = hosts.connect(1).remove(0);
    send(&mut stream, 10);
    hosts.wait("the second path", || hosts.connections().values().all(|one| one.subflows.len() == 2));
    // On drop it is killed.
    drop(killed);
    // Data goes on without it.
    send(&mut stream, 10);
    let ours = hosts.manager();
    assert_ne!(ours, before);
    let subflow = hosts.connections().values().next().unwrap().subflows.last().unwrap().addresses;
    let next = hosts.steer();
    assert!(hosts.log().contains("connections: 1"), "{}", hosts.log());
    // The path that is lost now is opened again by the new one.
    let token = *hosts.connections().keys().next().unwrap();
    let destroy = || PathManager::open().unwrap().command(&Order::Destroy { token, subflow });
    hosts.client().run(destroy).unwrap().unwrap();
    hosts.wait("the second path again", || {
        let connections = hosts.connections();
        connections[&token].subflows.iter().any(|one| {
            one.addresses.local.ip() == subflow.local.ip() && one.addresses != subflow && one.can_send()
        })
    });
    send(&mut stream, 10);
    next.end();
    assert_eq!(hosts.manager(), before);
}

#[test]
fn interfaces_and_policies_change_while_it_runs() {
    let Some(hosts) = Hosts::new() else { return };
    let _live = hosts.emulation.go().unwrap();
    let policy = hosts.directory.path().join("policy.toml");
    std::fs::write(&policy, "use = 'all'").unwrap();
    let mut daemon = hosts.steer();
    let mut stream = hosts.connect(1).remove(0);
    send(&mut stream, 10);
    let subflows = || {
        hosts.connections().values().next().map_or(0, |one| {
            one.subflows
                .iter()
                .filter(|subflow| subflow.can_send() && subflow.flags.is_fully_established())
                .count()
        })
    };
    hosts.wait("two paths", || subflows() == 2);
    hosts.ip("addr del 10.0.2.1/32 dev path2");
    hosts.wait("one path", || subflows() == 1);
    send(&mut stream, 100);
    hosts.ip("addr add 10.0.2.1/32 dev path2");
    hosts.wait("two paths again", || subflows() == 2);
    // A policy with an error changes nothing; a valid one holds at once.
    std::fs::write(&policy, "use = 'some'").unwrap();
    daemon.reload();
    hosts.wait("the error", || hosts.log().contains("there is no use of subflows called"));
    std::fs::write(&policy, "backup = 'path2'").unwrap();
    daemon.reload();
    let is_backup = || hosts.connections().values().all(|one| use_of_paths(one)["10.0.2.1"].1);
    hosts.wait("the backup of the policy", is_backup);
    let before = use_of_paths(hosts.connections().values().next().unwrap())["10.0.2.1"].0;
    send(&mut stream, 2000);
    let after = use_of_paths(hosts.connections().values().next().unwrap())["10.0.2.1"].0;
    assert_eq!(after, before);
    daemon.end();
}

#[test]
fn a_thousand_connections_get_their_second_path() {
    const COUNT: usize = 1000;
    let Some(hosts) = Hosts::new() else { return };
    let _live = hosts.emulation.go().unwrap();
    let daemon = hosts.steer();
    let mut streams = hosts.connect(COUNT);
    streams.iter_mut().for_each(|stream| stream.write_all(&[0]).unwrap());
    let counts = || {
        let mut counts = BTreeMap::new();
        for one in hosts.connections().values() {
            *counts.entry((one.subflows.len(), one.info.fallback)).or_insert(0) += 1;
        }
        counts
    };
    let begun = Instant::now();
    while counts() != BTreeMap::from([((2, false), COUNT)]) {
        assert!(begun.elapsed() < PATIENCE, "{:?}\n{}", counts(), hosts.log().lines().count());
        std::thread::sleep(Duration::from_millis(20));
    }
    drop(streams);
    hosts.wait("all ends", || hosts.connections().is_empty());
    daemon.end();
}

#[test]
fn a_recording_of_a_real_connection_is_read_like_one_of_a_simulated_one() {
    let Some(hosts) = Hosts::new() else { return };
    let _live = hosts.emulation.go().unwrap();
    let daemon = hosts.steer();
    let directory = hosts.directory.path().join("recorded");
    let mut command = Command::new("sleep");
    command.arg("1.5");
    let origin = Origin { version: "0", commit: None, command: Vec::new(), run: None };
    let interval = anabranch_units::Duration::from_millis(10);
    let settings = Settings { format: Format::Csv, interval, xpl: false };
    let recorded = std::thread::scope(|scope| {
        let recording =
            scope.spawn(|| hosts.client().run(|| record(command, &directory, origin, settings).unwrap()));
        hosts.wait("the recording", || directory.join("kernel").exists());
        send(&mut hosts.connect(1).remove(0), 2000);
        recording.join().unwrap()
    });
    assert!(recorded.unwrap().0.success());
    daemon.end();
    let details = Details { flow: None, most_flows: 1, most_events: 10_000 };
    let view = View::read(&directory, &details).unwrap();
    assert!(view.facts.complete);
    let run = &view.runs[0];
    assert_eq!((run.scheduler.as_str(), run.paths.len(), run.flows.len()), ("kernel", 2, 1));
    assert_eq!((run.flows[0].direction.as_str(), run.flows[0].size_bytes), ("up", Some(2_000_000)));
    let windows = std::fs::read_to_string(directory.join("kernel/windows.csv")).unwrap();
    assert!(windows.lines().count() > 30, "{windows}");
}

#[test]
fn an_unmodified_program_has_multipath_tcp_and_begins_on_the_chosen_path() {
    let Some(hosts) = Hosts::new() else { return };
    let _live = hosts.emulation.go().unwrap();
    for (interface, own) in [(None, "10.0.1.1"), (Some("path2"), "10.0.2.1")] {
        let program = std::env::current_exe().unwrap();
        let client = format!("{CLIENT}=10.1.1.1:{PORT} {own}");
        let quiet = "exec \"$0\" --exact client_of_the_other_tests > /dev/null";
        let command = ["env".into(), client.into(), "sh".into(), "-c".into(), quiet.into(), program.into()];
        let first = FirstPath {
            memory: Memory::default(),
            size: anabranch_units::Bytes(1000),
            interface: interface.map(str::to_owned),
        };
        let status = hosts.client().run(|| anabranch_kernel::run::run(&command, &first).unwrap());
        assert!(status.unwrap().success(), "{interface:?}");
    }
    // This process itself has no filter.
    assert_eq!(
        Socket::new(Domain::IPV4, Type::STREAM, None).unwrap().protocol().unwrap(),
        Some(Protocol::TCP)
    );
}

#[test]
fn endpoints_and_limits_of_the_kernels_own_path_manager_are_read_and_written() {
    let Some(hosts) = Hosts::new() else { return };
    let work = || {
        let mut manager = PathManager::open().unwrap();
        manager.command(&Order::FlushEndpoints).unwrap();
        let limits = Limits { add_addr_accepted: 3, subflows: 2 };
        manager.command(&Order::SetLimits(limits)).unwrap();
        assert_eq!(manager.limits().unwrap(), limits);
        let address = "10.0.2.1".parse().unwrap();
        let mut endpoint = Endpoint { address, port: 0, id: 9, flags: EndpointFlags::SUBFLOW, interface: 0 };
        manager.command(&Order::AddEndpoint(endpoint.clone())).unwrap();
        assert_eq!(manager.endpoints().unwrap(), [endpoint.clone()]);
        endpoint.flags = EndpointFlags(EndpointFlags::SUBFLOW.0 | EndpointFlags::BACKUP.0);
        manager.command(&Order::SetEndpointFlags(endpoint.clone())).unwrap();
        assert!(manager.endpoints().unwrap()[0].flags.has(EndpointFlags::BACKUP));
        manager.command(&Order::RemoveEndpoint(9)).unwrap();
        assert_eq!(manager.endpoints().unwrap(), []);
        // A refusal has the kernel's own words.
        let error = manager.command(&Order::Remove { token: Token(1), id: 1 }).unwrap_err();
        assert!(error.to_string().contains("invalid token"), "{error}");
    };
    hosts.client().run(work).unwrap();
}

/// Runs a line of a shell in the network namespace of this thread.
fn shell(line: &str) {
    assert!(Command::new("sh").args(["-euc", line]).status().unwrap().success(), "{line}");
}

/// Returns the next changes.
fn changes(uplinks: &mut Uplinks, peers: &[IpAddr]) -> Vec<Change> {
    let begun = Instant::now();
    loop {
        let changes = uplinks.changes(peers).unwrap();
        if !changes.is_empty() {
            return changes;
        }
        assert!(begun.elapsed() < PATIENCE, "no change");
        let mut fds = [rustix::event::PollFd::new(&*uplinks, rustix::event::PollFlags::IN)];
        let second = rustix::time::Timespec { tv_sec: 1, tv_nsec: 0 };
        rustix::event::poll(&mut fds, Some(&second)).unwrap();
    }
}

#[test]
fn the_way_of_an_address_is_lost_and_found_with_its_interface_and_its_routes() {
    if let Some(why) = anabranch_emulate::obstacle() {
        return skipped::skipped(why);
    }
    let thread = std::thread::spawn(|| {
        nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNET).unwrap();
        shell(
            "ip link set lo up; ip tuntap add dev tun0 mode tun; ip addr add 10.86.84.254/24 dev tun0; ip link set tun0 up
             echo 1 > /proc/sys/net/ipv4/ip_forward
             for n in 0 1; do
                 ip link add r$n type veth peer name f$n; ip link set r$n up; ip link set f$n up
                 ip addr add 10.9.$n.2/24 dev r$n
                 ip rule add from 10.86.84.$((n + 1)) lookup $((n + 10))
                 ip route add default via 10.9.$n.1 dev r$n table $((n + 10))
                 ip route add unreachable default metric 4294967295 table $((n + 10))
             done
             ip rule add from 10.86.84.3 lookup 12; ip route add default dev tun0 table 12",
        );
        let [first, second, third] = [1, 2, 3].map(|n| Ipv4Addr::new(10, 86, 84, n).into());
        // The third one has no way but back into the device, and is left alone.
        let mut uplinks = Uplinks::open([first, second, third].map(|ip| (ip, "tun0".to_owned()))).unwrap();
        assert!(uplinks.changes(&[]).unwrap().is_empty());
        shell("ip addr add 10.9.7.1/32 dev lo");
        assert!(uplinks.changes(&[]).unwrap().is_empty(), "it concerns no path");
        shell("ip link set r0 down");
        assert_eq!(changes(&mut uplinks, &[]), [Change::Lost(first)]);
        shell("ip link set r0 up; ip route add default via 10.9.0.1 dev r0 table 10");
        assert_eq!(changes(&mut uplinks, &[]), [Change::Found(first)]);
        // Another gateway; and no carrier, with which the routes stay.
        shell("ip route replace default via 10.9.1.7 dev r1 table 11");
        assert_eq!(changes(&mut uplinks, &[]), [Change::Moved(second)]);
        shell("ip link set f1 down");
        assert_eq!(changes(&mut uplinks, &[]), [Change::Lost(second)]);
        shell("ip link set f1 up");
        assert_eq!(changes(&mut uplinks, &[]), [Change::Found(second)]);
        // Another address of the interface, by which the peer has known the path.
        shell("ip addr add 10.9.1.5/32 dev r1; ip addr del 10.9.1.2/24 dev r1");
        assert_eq!(changes(&mut uplinks, &[]), [Change::Moved(second)]);
        // A way to a peer is enough, but not one to anywhere else.
        shell(
            "ip route del default via 10.9.0.1 dev r0 table 10; ip route add 192.0.2.0/24 via 10.9.0.1 dev r0 table 10",
        );
        let peer = [Ipv4Addr::new(192, 0, 2, 9).into()];
        assert!(uplinks.changes(&peer).unwrap().is_empty());
        shell("ip addr add 10.9.7.2/32 dev lo");
        assert_eq!(changes(&mut uplinks, &[]), [Change::Lost(first)]);
        shell("ip rule del from 10.86.84.2 lookup 11");
        assert_eq!(changes(&mut uplinks, &[]), [Change::Lost(second)]);
    });
    thread.join().unwrap();
}
