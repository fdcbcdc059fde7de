//! The Multipath TCP of this machine's kernel, on a TUN device whose other end is the peer.

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr};
use std::process::Command;
use std::time::{Duration, Instant};

use anabranch_device::tun;
use anabranch_stack::segment::Segment;
use anabranch_wire::{Checksum, Checksums, IpFields, emit, parse};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use socket2::{Domain, Protocol, Socket, Type};

use crate::peer::{PEER_PORT, SUBJECT_PORT, peer_ip, subject_ip};
use crate::{LINUX_DEPARTS, Role, Subject};

/// The longest time to wait for a segment or an application call. Only a failure takes that long.
const PATIENCE: Duration = Duration::from_secs(20);
/// The same for a script that the kernel is known to fail.
const LITTLE_PATIENCE: Duration = Duration::from_secs(8);
const INSIDE: &str = "ANABRANCH_CLOSING_INSIDE";

fn patience() -> Duration {
    let departs = |name: &str| LINUX_DEPARTS.iter().any(|(known, _)| name.ends_with(known));
    if std::env::args().any(|name| departs(&name)) { LITTLE_PATIENCE } else { PATIENCE }
}

/// Runs `script` for each role in its own network namespace: this same test again, in another process.
pub fn in_a_namespace(name: &str, roles: &[Role], script: impl Fn(Role)) {
    if let Some(role) = std::env::var_os(INSIDE) {
        let role = if role == "Client" { Role::Client } else { Role::Server };
        script(role);
        return;
    }
    if let Some(obstacle) = anabranch_emulate::obstacle() {
        crate::skipped::skipped(obstacle);
        return;
    }
    for role in roles {
        let output = Command::new("unshare")
            .args(["--net", "--mount", "--propagation", "private"])
            .arg(std::env::current_exe().unwrap())
            .args(["--exact", "--nocapture", &format!("linux::{name}")])
            .env(INSIDE, format!("{role:?}"))
            .output()
            .unwrap();
        let text =
            format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(text.contains("1 test") || text.contains("running 1"), "no test ran:\n{text}");
        if let Some((_, how)) = LINUX_DEPARTS.iter().find(|(departs, _)| *departs == name) {
            // If it passes one day, the list and the page are out of date.
            assert!(!output.status.success(), "{role:?}: the kernel passes it now");
            assert!(text.contains(how), "{role:?}: the kernel departs in another way:\n{text}");
        } else {
            assert!(output.status.success(), "the kernel as {role:?}:\n{text}");
        }
    }
}

fn ip(arguments: &str) {
    let output = Command::new("ip").args(arguments.split(' ')).output().unwrap();
    assert!(output.status.success(), "ip {arguments}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Returns a counter of the kernel's Multipath TCP in this namespace.
fn counter(name: &str) -> u64 {
    let text = fs::read_to_string("/proc/net/netstat").unwrap();
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("MPTcpExt: "));
    let (names, values) = (lines.next().unwrap_or_default(), lines.next().unwrap_or_default());
    let at = names.split(' ').position(|known| known == name).unwrap_or_else(|| panic!("no counter {name}"));
    values.split(' ').nth(at).unwrap().parse().unwrap()
}

pub struct Linux {
    tun: File,
    /// Joins need it while the connection exists.
    _listener: Option<Socket>,
    /// The connection, or before that the listener.
    socket: Socket,
    role: Role,
}

impl Linux {
    pub fn new(role: Role) -> Linux {
        for (name, value) in [
            ("net/ipv6/conf/all/disable_ipv6", "1"),
            ("net/ipv6/conf/default/disable_ipv6", "1"),
            ("net/mptcp/blackhole_timeout", "0"),
            ("net/mptcp/checksum_enabled", "0"),
            ("net/ipv4/tcp_congestion_control", "reno"),
        ] {
            fs::write(format!("/proc/sys/{name}"), value).unwrap();
        }
        let tun = File::from(tun::open("tun0").unwrap());
        ip("link set tun0 up");
        ip(&format!("address add {}/24 dev tun0", subject_ip()));
        ip("mptcp limits set subflow 4 add_addr_accepted 4");
        let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::MPTCP)).unwrap();
        match role {
            Role::Server => {
                socket.bind(&SocketAddr::new(subject_ip(), SUBJECT_PORT).into()).unwrap();
                socket.listen(4).unwrap();
            }
            Role::Client => {
                socket.set_nonblocking(true).unwrap();
                // It is in progress, and completes once the peer has answered.
                let _ = socket.connect(&SocketAddr::new(peer_ip(0), PEER_PORT).into());
            }
        }
        Linux { tun, _listener: None, socket, role }
    }
}

impl Subject for Linux {
    fn inject(&mut self, segment: &Segment, payload: &[u8]) {
        let mut packet = [0; 2048];
        let len = emit(segment, &IpFields::default(), Checksum::Full, &mut packet, |out| {
            out.copy_from_slice(payload);
        });
        self.tun.write_all(&packet[..len.unwrap()]).unwrap();
    }

    fn next(&mut self) -> Option<(Segment, Vec<u8>)> {
        let deadline = Instant::now() + patience();
        let mut packet = [0; 2048];
        loop {
            let left = deadline.checked_duration_since(Instant::now())?;
            let timeout = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) };
            let mut fds = [PollFd::new(&self.tun, PollFlags::IN)];
            if poll(&mut fds, Some(&timeout)).unwrap() == 0 {
                return None;
            }
            let len = self.tun.read(&mut packet).unwrap();
            // There may be packets that are not TCP.
            if let Ok(parsed) = parse(&packet[..len], Checksums::Verify) {
                return Some((parsed.segment, packet[parsed.payload].to_vec()));
            }
        }
    }

    fn opened(&mut self) {
        if self.role == Role::Server {
            // The third acknowledgement is being processed by the kernel.
            self.socket.set_read_timeout(Some(PATIENCE)).unwrap();
            let accepted = self.socket.accept().expect("accept").0;
            self._listener = Some(core::mem::replace(&mut self.socket, accepted));
        }
        self.socket.set_nonblocking(false).unwrap();
        self.socket.set_read_timeout(Some(PATIENCE)).unwrap();
        self.socket.set_write_timeout(Some(PATIENCE)).unwrap();
        self.socket.set_tcp_nodelay(true).unwrap();
    }

    fn write(&mut self, bytes: &[u8]) {
        self.socket.write_all(bytes).expect("write");
    }

    fn end(&mut self) {
        self.socket.shutdown(Shutdown::Write).expect("shutdown");
    }

    fn read(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.socket.read_exact(&mut bytes).expect("read");
        bytes
    }

    fn read_end(&mut self) {
        let read = self.socket.read(&mut [0]).expect("read");
        assert_eq!(read, 0, "there is more to read");
    }

    fn is_over(&mut self) {
        assert!(self.socket.take_error().unwrap().is_none());
        for name in ["MPFastcloseTx", "MPFastcloseRx", "MPRstTx", "MPRstRx", "MPFailTx", "MPFailRx"] {
            assert_eq!(counter(name), 0, "{name}");
        }
        let deadline = Instant::now() + PATIENCE;
        while counter("MPCurrEstab") > 0 {
            assert!(Instant::now() < deadline, "the connection has not ended");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}
