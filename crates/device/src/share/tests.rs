use std::future::poll_fn;

use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

use super::*;
use crate::testing::{receive, send};
use crate::{Device, memory};

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn packet(from: &str, to: &str, len: usize) -> Packet {
    let mut bytes = vec![7; len];
    bytes[0] = 0x45;
    for (at, address) in [(12, from), (16, to)] {
        bytes[at..at + 4].copy_from_slice(&address.parse::<Ipv4Addr>().unwrap().octets());
    }
    Packet::from_bytes(&bytes)
}

const OFFLOAD: Capabilities = Capabilities { mtu: 1500, checksum_offload: true, segmentation_offload: true };

fn places() -> Vec<Vec<IpAddr>> {
    vec![vec![ip("10.0.0.1"), ip("10.0.0.2")], vec![ip("10.0.0.3"), ip("fd86::3")]]
}

#[test]
fn a_greeting_that_was_written_is_read_and_any_bytes_are_one_or_an_error() {
    let greeting =
        Greeting { device: "tun0".to_owned(), capabilities: OFFLOAD, addresses: places().concat() };
    let message = greeting.message();
    assert_eq!(Greeting::parse(&message).unwrap(), greeting);
    let mut complete = 0;
    for len in 0..message.len() {
        complete += usize::from(Greeting::parse(&message[..len]).is_ok());
        let mut damaged = message.clone();
        damaged[len] ^= 0xff;
        let _ = Greeting::parse(&damaged);
    }
    // Cut after each address but the last.
    assert_eq!(complete, 3);
    assert_eq!(Greeting::parse(&refusal("full")).unwrap_err().to_string(), "full");
    // A packet of such a device would take 4 GiB of memory.
    for mtu in [0, 65_536, u32::MAX] {
        let greeting = Greeting { capabilities: Capabilities::plain(mtu), ..greeting.clone() };
        assert_eq!(Greeting::parse(&greeting.message()).unwrap_err().kind(), io::ErrorKind::InvalidData);
    }
    let mut packet = Packet::with_capacity(100);
    assert!((0..=HEADER).all(|length| of_message(&mut packet, length).is_none()));
}

/// The socket is one of a pair, as if it had been accepted.
#[tokio::test]
async fn packets_are_routed_by_address_and_addresses_of_others_cannot_be_used() {
    let (device, mut outside) = memory::pair(OFFLOAD);
    let mut share = Share::new(device, places());
    let mut events = Vec::new();
    let mut users = Vec::new();
    for _ in 0..2 {
        let (near, far) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
        rustix::io::ioctl_fionbio(&far, true).unwrap();
        share.admit(far, &mut |event| events.push(event));
        users.push(SharedDevice::greet(near).unwrap());
    }
    let (near, far) =
        socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
    rustix::io::ioctl_fionbio(&far, true).unwrap();
    share.admit(far, &mut |event| events.push(event));
    let refused = SharedDevice::greet(near).unwrap_err().to_string();
    assert!(refused.contains("all 2 hosts of"), "{refused}");
    let pid = std::process::id() as i32;
    assert!(
        matches!(&events[1], Event::Joined { pid: of, addresses, .. } if *of == pid && *addresses == places()[1])
    );
    assert!(matches!(events[2], Event::Refused { .. }));
    let [mut first, mut second] = <[_; 2]>::try_from(users).unwrap();
    assert_eq!((first.addresses(), second.addresses()), (&places()[0][..], &places()[1][..]));
    assert_eq!(first.capabilities(), OFFLOAD);

    let work = async {
        // Both ways, with the offload of each packet.
        let mut large = packet("10.0.0.2", "192.0.2.1", 60_000);
        large.offload = Offload { partial_checksum: true, segment_size: 1400 };
        send(&mut first, large.clone()).await;
        let got = receive(&mut outside).await;
        assert!(got.bytes() == large.bytes() && got.offload == large.offload);
        send(&mut second, packet("10.0.0.3", "192.0.2.1", 40)).await;
        assert_eq!(receive(&mut outside).await.len(), 40);
        let mut answer = packet("192.0.2.1", "10.0.0.3", 50);
        answer.offload.partial_checksum = true;
        send(&mut outside, answer.clone()).await;
        send(&mut outside, packet("192.0.2.1", "10.0.0.1", 51)).await;
        assert_eq!(receive(&mut first).await.len(), 51);
        let got = receive(&mut second).await;
        assert!(got.len() == 50 && got.offload == answer.offload);
        // Neither an address of another process, nor one that nobody has.
        send(&mut second, packet("10.0.0.1", "192.0.2.1", 40)).await;
        send(&mut outside, packet("192.0.2.1", "10.0.0.9", 52)).await;
        send(&mut second, packet("10.0.0.3", "192.0.2.1", 41)).await;
        assert_eq!(receive(&mut outside).await.len(), 41);
        // A process that ends gives its addresses back.
        drop(first);
        send(&mut outside, packet("192.0.2.1", "10.0.0.1", 53)).await;
        send(&mut second, packet("10.0.0.3", "192.0.2.1", 42)).await;
        assert_eq!(receive(&mut outside).await.len(), 42);
        second
    };
    let mut left = Vec::new();
    let mut second = tokio::select! {
        second = work => second,
        error = share.run(|event| left.push(event)) => panic!("{error}"),
    };
    assert_eq!(left, [Event::Left { pid, addresses: places()[0].clone() }]);
    let counters = share.counters();
    assert_eq!((counters.foreign, counters.unclaimed, counters.dropped), (1, 2, 0), "{counters:?}");
    // Without its owner the device has failed.
    drop(share);
    let mut got = Packet::default();
    let error = poll_fn(|cx| second.poll_receive(cx, &mut got)).await.unwrap_err();
    assert!(error.to_string().contains("the owner of the device"), "{error}");
}

#[tokio::test]
async fn addresses_that_were_given_back_are_given_out_again_the_oldest_first() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("socket");
    let (device, _outside) = memory::pair(OFFLOAD);
    let mut share = Share::new(device, (1..=3).map(|n| vec![ip(&format!("10.0.0.{n}"))]).collect());
    share.listen(&path).unwrap();
    let other = Share::new(memory::pair(OFFLOAD).0, places()).listen(&path);
    assert_eq!(other.unwrap_err().kind(), io::ErrorKind::AddrInUse);
    let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&path).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
    let connect = async || {
        let path = path.clone();
        // It waits for the greeting.
        tokio::task::spawn_blocking(move || SharedDevice::connect(&path)).await.unwrap().unwrap()
    };
    let work = async {
        let (a, b) = (connect().await, connect().await);
        assert_eq!((a.addresses()[0], b.addresses()[0]), (ip("10.0.0.1"), ip("10.0.0.2")));
        drop((b, a));
        let mut got = Vec::new();
        for _ in 0..3 {
            got.push(connect().await);
        }
        let addresses: Vec<_> = got.iter().map(|device| device.addresses()[0]).collect();
        assert_eq!(addresses[0], ip("10.0.0.3"), "it was never given out");
    };
    tokio::select! { () = work => {}, error = share.run(|_| {}) => panic!("{error}") }
    drop(share);
    assert!(!path.exists());
}

#[tokio::test]
async fn a_connection_that_cannot_be_served_takes_no_addresses_and_ends_nothing() {
    let (device, _outside) = memory::pair(OFFLOAD);
    let mut share = Share::new(device, places());
    let mut events = Vec::new();
    // Not a socket; and a socket without its peer.
    let file = std::os::fd::OwnedFd::from(tempfile::tempfile().unwrap());
    rustix::io::ioctl_fionbio(&file, true).unwrap();
    share.admit(file, &mut |event| events.push(event));
    let (near, far) =
        socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::NONBLOCK, None).unwrap();
    drop(near);
    share.admit(far, &mut |event| events.push(event));
    assert_eq!(events, []);
    for _ in 0..places().len() {
        let (near, far) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::NONBLOCK, None).unwrap();
        rustix::io::ioctl_fionbio(&near, false).unwrap();
        share.admit(far, &mut |_| {});
        SharedDevice::greet(near).unwrap();
    }
}

/// A process that listens there, and accepts nothing.
#[tokio::test]
async fn an_owner_that_does_not_answer_holds_nobody_up() {
    use rustix::net::{SocketAddrUnix, socket_with};
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("socket");
    let address = SocketAddrUnix::new(&path).unwrap();
    let socket =
        || socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::NONBLOCK, None).unwrap();
    let deaf = socket();
    rustix::net::bind(&deaf, &address).unwrap();
    rustix::net::listen(&deaf, 0).unwrap();
    let mut waiting = Vec::new();
    let error = SharedDevice::connect_within(&path, std::time::Duration::from_millis(1)).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::WouldBlock, "no greeting");
    loop {
        let one = socket();
        match rustix::net::connect(&one, &address) {
            Ok(()) => waiting.push(one),
            Err(error) => break assert_eq!(error, rustix::io::Errno::AGAIN),
        }
    }
    let error = SharedDevice::connect_within(&path, std::time::Duration::from_millis(1)).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::WouldBlock, "no connection");
    let error = Share::new(memory::pair(OFFLOAD).0, places()).listen(&path).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
}

#[tokio::test]
async fn a_socket_that_a_process_has_left_behind_is_replaced_and_one_in_use_is_not() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("socket");
    let left = rustix::net::socket(AddressFamily::UNIX, SocketType::SEQPACKET, None).unwrap();
    rustix::net::bind(&left, &rustix::net::SocketAddrUnix::new(&path).unwrap()).unwrap();
    drop(left);
    let share = || Share::new(memory::pair(OFFLOAD).0, places());
    let mut first = share();
    first.listen(&path).unwrap();
    assert_eq!(share().listen(&path).unwrap_err().kind(), io::ErrorKind::AddrInUse);
    drop(first);
    assert!(!path.exists());
    std::fs::write(&path, "no socket").unwrap();
    share().listen(&path).unwrap_err();
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "no socket");
}
