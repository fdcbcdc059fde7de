//! The programs in this kernel: connections of its Multipath TCP between two network namespaces.

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::os::fd::AsFd as _;
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anabranch_bpf::{Counters, Error, Law, Loaded, Options, is_available, load};
use socket2::{Domain, Protocol, Socket, Type};

use crate::skipped::skipped;

const PORT: u16 = 7000;

/// The names of congestion controls are the whole machine's.
static MACHINE: Mutex<()> = Mutex::new(());

fn ip(line: &str) -> bool {
    Command::new("ip").args(line.split(' ')).status().is_ok_and(|status| status.success())
}

/// Two hosts with two links.
struct Net {
    names: [String; 2],
    _machine: MutexGuard<'static, ()>,
}

impl Net {
    /// Returns the hosts; none on a machine that cannot have them.
    fn new() -> Option<Net> {
        let machine = MACHINE.lock().unwrap_or_else(PoisonError::into_inner);
        let names = ["a", "b"].map(|end| format!("ab-bpf-{}{end}", std::process::id()));
        if !names.iter().all(|name| ip(&format!("netns add {name}"))) {
            skipped("network namespaces need root and `ip` (Debian: apt install iproute2)");
            return None;
        }
        let net = Net { names, _machine: machine };
        let [a, b] = &net.names;
        for link in 1..=2 {
            assert!(ip(&format!("link add l{link} netns {a} type veth peer name l{link} netns {b}")));
            for (end, name) in net.names.iter().enumerate() {
                assert!(ip(&format!("-n {name} addr add 10.9.{link}.{}/24 dev l{link}", end + 1)));
                assert!(ip(&format!("-n {name} link set l{link} up")));
            }
        }
        assert!(ip(&format!("-n {a} mptcp endpoint add 10.9.2.1 dev l2 subflow")));
        for name in &net.names {
            assert!(ip(&format!("-n {name} mptcp limits set subflows 2 add_addr_accepted 2")));
            // So that many short connections do not use up the ports.
            net.run(name == a, || std::fs::write("/proc/sys/net/ipv4/tcp_max_tw_buckets", "1").unwrap());
        }
        Some(net)
    }

    /// Runs `task` on a thread in the first or the second host.
    fn run<T: Send>(&self, first: bool, task: impl FnOnce() -> T + Send) -> T {
        let name = &self.names[usize::from(!first)];
        std::thread::scope(|scope| {
            scope
                .spawn(|| {
                    let file = std::fs::File::open(format!("/run/netns/{name}")).unwrap();
                    let network = Some(rustix::thread::LinkNameSpaceType::Network);
                    rustix::thread::move_into_link_name_space(file.as_fd(), network).unwrap();
                    task()
                })
                .join()
                .unwrap()
        })
    }

    fn listen(&self) -> Socket {
        self.run(false, || {
            let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::MPTCP)).unwrap();
            socket.bind(&SocketAddr::from(([0, 0, 0, 0], PORT)).into()).unwrap();
            socket.listen(128).unwrap();
            socket
        })
    }

    fn connect(&self, law: Law, protocol: Protocol) -> Socket {
        self.run(true, || connect(law, protocol))
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        for name in &self.names {
            ip(&format!("netns del {name}"));
        }
    }
}

/// Connects, in the namespace of this thread.
fn connect(law: Law, protocol: Protocol) -> Socket {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(protocol)).unwrap();
    socket.set_tcp_congestion(law.kernel_name().as_bytes()).unwrap();
    socket.connect(&SocketAddr::from(([10, 9, 1, 2], PORT)).into()).unwrap();
    socket
}

/// Sends `bytes` and waits until the other end has read them.
fn transfer(client: &mut Socket, server: &Socket, bytes: usize) {
    let (mut server, _) = server.accept().unwrap();
    let reader = std::thread::spawn(move || {
        let mut buffer = vec![0; 1 << 16];
        let mut left = bytes;
        while left > 0 {
            left -= server.read(&mut buffer).unwrap();
        }
        server
    });
    client.write_all(&vec![0; bytes]).unwrap();
    // It is closed by dropping it.
    reader.join().unwrap();
}

/// Waits until the counters are as expected: the kernel ends connections when it has time.
fn eventually(loaded: &Loaded, expected: impl Fn(&Counters) -> bool) -> Counters {
    let end = Instant::now() + Duration::from_secs(20);
    loop {
        let counters = loaded.counters().unwrap();
        if expected(&counters) || Instant::now() > end {
            assert!(expected(&counters), "{counters:?}");
            return counters;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn is_idle(counters: &Counters) -> bool {
    counters.subflows == counters.ended && counters.connections == counters.removed
}

/// Waits until the kernel no longer has `law`; false if it still has it.
fn gone(law: Law) -> bool {
    let end = Instant::now() + Duration::from_secs(2);
    while is_available(law) && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(1));
    }
    !is_available(law)
}

/// Returns a loaded law and hosts; none where that is not possible.
fn ready(law: Law, options: &Options) -> Option<(Net, Loaded)> {
    let net = Net::new()?;
    // The kernel removes the one of the test before when it has time.
    gone(law);
    match load(law, options) {
        Ok(loaded) => Some((net, loaded)),
        // Another program of this machine may have loaded it.
        Err(
            error @ (Error::NotPermitted
            | Error::NoBtf
            | Error::NoMultipath
            | Error::TooOld(_)
            | Error::Taken(_)),
        ) => {
            skipped(error);
            None
        }
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn subflows_are_coupled_and_a_plain_tcp_is_not() {
    for law in Law::ALL {
        let Some((net, loaded)) = ready(law, &Options { lisa: law == Law::Olia, ..Options::DEFAULT }) else {
            return;
        };
        let listener = net.listen();
        let mut client = net.connect(law, Protocol::MPTCP);
        transfer(&mut client, &listener, 4 << 20);
        let counters = eventually(&loaded, |counters| counters.joined == 1);
        assert_eq!((counters.connections, counters.subflows, counters.plain), (1, 2, 0), "{law}");
        drop(client);
        let mut client = net.connect(law, Protocol::TCP);
        transfer(&mut client, &listener, 1 << 20);
        let counters = eventually(&loaded, is_idle);
        assert_eq!((counters.plain, counters.fallback), (1, 0), "{law}");
        assert_eq!(load(law, &Options::DEFAULT).unwrap_err(), Error::Taken(law));
    }
}

#[test]
fn a_full_map_leaves_further_connections_uncoupled() {
    let Some((net, loaded)) = ready(Law::Lia, &Options { connections: 1, ..Options::DEFAULT }) else {
        return;
    };
    let listener = net.listen();
    let mut first = net.connect(Law::Lia, Protocol::MPTCP);
    transfer(&mut first, &listener, 1 << 20);
    let mut second = net.connect(Law::Lia, Protocol::MPTCP);
    transfer(&mut second, &listener, 1 << 20);
    eventually(&loaded, |counters| counters.full >= 1 && counters.connections == 1);
    drop((first, second));
    eventually(&loaded, is_idle);
    // The place is free again.
    let mut third = net.connect(Law::Lia, Protocol::MPTCP);
    transfer(&mut third, &listener, 1 << 20);
    eventually(&loaded, |counters| counters.connections == 2);
}

#[test]
fn connections_keep_a_law_that_is_unloaded_and_it_can_be_loaded_again() {
    let Some((net, loaded)) = ready(Law::Balia, &Options::DEFAULT) else { return };
    let listener = net.listen();
    let mut old = net.connect(Law::Balia, Protocol::MPTCP);
    transfer(&mut old, &listener, 1 << 20);
    drop(loaded);
    assert!(gone(Law::Balia));
    assert_eq!(old.tcp_congestion().unwrap()[..8], *b"mp_balia");
    let again = load(Law::Balia, &Options::DEFAULT).unwrap();
    drop(old);
    let mut new = net.connect(Law::Balia, Protocol::MPTCP);
    transfer(&mut new, &listener, 1 << 20);
    drop(new);
    eventually(&again, |counters| counters.connections == 1 && is_idle(counters));
}

/// Opens `n` short connections, from four threads.
fn many(n: u64) {
    let Some((net, loaded)) = ready(Law::Lia, &Options::DEFAULT) else { return };
    let listener = net.listen();
    let threads = 4;
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                net.run(true, || {
                    for _ in 0..n / threads {
                        let mut client = connect(Law::Lia, Protocol::MPTCP);
                        client.write_all(&[1; 4000]).unwrap();
                        // Until the other end closes.
                        client.read_to_end(&mut Vec::new()).unwrap();
                    }
                });
            });
        }
        for _ in 0..threads {
            scope.spawn(|| {
                for _ in 0..n / threads {
                    let (mut server, _) = listener.accept().unwrap();
                    server.read_exact(&mut [0; 4000]).unwrap();
                }
            });
        }
    });
    let counters = eventually(&loaded, is_idle);
    assert_eq!(counters.connections + counters.fallback, n, "{counters:?}");
    assert!(counters.joined > 0, "{counters:?}");
    println!("{counters:?}");
}

#[test]
fn many_short_connections_leave_no_rows() {
    many(2000);
}

#[test]
#[ignore = "takes minutes: 100,000 connections"]
fn a_hundred_thousand_short_connections_leave_no_rows() {
    many(100_000);
}
