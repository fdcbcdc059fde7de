//! The owner of a socket of this host: its user, and the programs that have it open.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use super::{BY_FAMILY, Diagnostics, NO_COOKIE};
use crate::error::KernelError;
use crate::netlink::Answer;

/// The state, the ports, the user id and the inode in `struct inet_diag_msg`, which has 72 bytes.
const STATE: usize = 1;
const PORTS: usize = 4;
const UID: usize = 64;
const INODE: usize = 68;
/// `TCP_LISTEN`.
const LISTEN: u8 = 10;

/// The owner of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The user id of the process that has made it.
    pub uid: u32,
    /// Its inode, by which processes have it open.
    pub inode: u32,
}

impl Diagnostics {
    /// Returns the owner of the socket of TCP of this network namespace with these ends; none if there is no such socket, as when the
    /// local end is on another host, or if its process has closed it.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn owner(&mut self, local: SocketAddr, remote: SocketAddr) -> Result<Option<Owner>, KernelError> {
        let (local, remote) = (canonical(local), canonical(remote));
        if local.is_ipv4() != remote.is_ipv4() {
            return Ok(None);
        }
        let mut owner = None;
        let asked = self.netlink.request(
            "find a socket",
            BY_FAMILY,
            Answer::One,
            &request(local, remote),
            |payload| {
                owner = parse_owner(payload, [local.port(), remote.port()]);
                Ok(())
            },
        );
        match asked {
            Ok(()) => Ok(owner),
            Err(error) if error.errno() == Some(libc::ENOENT) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

fn canonical(end: SocketAddr) -> SocketAddr {
    SocketAddr::new(end.ip().to_canonical(), end.port())
}

/// Returns the request for one socket: `struct inet_diag_req_v2`.
fn request(local: SocketAddr, remote: SocketAddr) -> Vec<u8> {
    let family = if local.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    let mut payload = vec![family as u8, libc::IPPROTO_TCP as u8, 0, 0];
    payload.extend_from_slice(&u32::MAX.to_ne_bytes());
    payload.extend_from_slice(&local.port().to_be_bytes());
    payload.extend_from_slice(&remote.port().to_be_bytes());
    for ip in [local.ip(), remote.ip()] {
        let mut octets = [0; 16];
        match ip {
            IpAddr::V4(ip) => octets[..4].copy_from_slice(&ip.octets()),
            IpAddr::V6(ip) => octets = ip.octets(),
        }
        payload.extend_from_slice(&octets);
    }
    // Any interface.
    payload.extend_from_slice(&[0; 4]);
    payload.extend_from_slice(&NO_COOKIE.to_ne_bytes());
    payload.extend_from_slice(&NO_COOKIE.to_ne_bytes());
    payload
}

/// Reads the answer for a connection with these ports.
fn parse_owner(payload: &[u8], ports: [u16; 2]) -> Option<Owner> {
    let word = |at: usize| payload.get(at..at + 4)?.try_into().ok().map(u32::from_ne_bytes);
    // Without such a connection the kernel answers with a socket that listens at the local port (`inet_lookup`): another
    // host could choose that port, and get its owner.
    let ports: Vec<u8> = ports.into_iter().flat_map(u16::to_be_bytes).collect();
    if payload.get(STATE) == Some(&LISTEN) || payload.get(PORTS..PORTS + 4) != Some(&ports[..]) {
        return None;
    }
    // A socket that no process has open any more has neither an inode nor its user.
    Some(Owner { uid: word(UID)?, inode: word(INODE)? }).filter(|owner| owner.inode != 0)
}

/// Returns the programs of the processes that have the socket open, as far as this user may see them: all for root, the own ones for
/// others. It reads the descriptors of all processes, which takes milliseconds.
pub fn programs(inode: u32) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    if inode == 0 {
        return found;
    }
    let name = format!("socket:[{inode}]");
    for process in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        if !process.file_name().as_encoded_bytes().iter().all(u8::is_ascii_digit) {
            continue;
        }
        let files = std::fs::read_dir(process.path().join("fd")).into_iter().flatten().flatten();
        let has_it = |file: std::fs::DirEntry| {
            std::fs::read_link(file.path()).is_ok_and(|target| target.as_os_str() == name.as_str())
        };
        if files.into_iter().any(has_it) {
            found.extend(std::fs::read_link(process.path().join("exe")));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_connection_of_this_host_has_its_user_and_its_program() {
        let mut diagnostics = Diagnostics::open().unwrap();
        let own = std::env::current_exe().unwrap();
        let uid = rustix::process::geteuid().as_raw();
        for at in ["127.0.0.1:0", "0.0.0.0:0", "[::1]:0", "[::]:0"] {
            let Ok(listener) = TcpListener::bind(at) else { continue };
            let port = listener.local_addr().unwrap().port();
            let to = listener.local_addr().unwrap();
            let to = if to.ip().is_unspecified() { SocketAddr::from(([127, 0, 0, 1], port)) } else { to };
            let stream = TcpStream::connect(to).unwrap();
            let (accepted, peer) = listener.accept().unwrap();
            let owner = diagnostics.owner(peer, accepted.local_addr().unwrap()).unwrap().unwrap();
            assert_eq!(owner.uid, uid, "{at}");
            assert!(programs(owner.inode).contains(&own), "{at}: {owner:?}");
            // Several processes can have it.
            let shared = std::os::fd::OwnedFd::from(stream.try_clone().unwrap());
            let mut other = Command::new("cat").stdin(shared).stdout(Stdio::null()).spawn().unwrap();
            let both = programs(owner.inode);
            other.kill().unwrap();
            other.wait().unwrap();
            assert!(both.contains(&own) && both.iter().any(|path| path.ends_with("cat")), "{at}: {both:?}");
            // A closed socket has no owner. The kernel would report the user 0.
            drop(stream);
            assert_eq!(diagnostics.owner(peer, accepted.local_addr().unwrap()).unwrap(), None, "{at}");
            // Another host may connect from any port, also from one at which a process listens here.
            let elsewhere = match to {
                SocketAddr::V4(_) => SocketAddr::from(([192, 0, 2, 7], port)),
                SocketAddr::V6(_) => SocketAddr::new("2001:db8::7".parse().unwrap(), port),
            };
            assert_eq!(diagnostics.owner(elsewhere, accepted.local_addr().unwrap()).unwrap(), None, "{at}");
        }
        let [here, there] = ["127.0.0.1:1", "192.0.2.1:1"].map(|end| end.parse().unwrap());
        assert_eq!(diagnostics.owner(there, here).unwrap(), None);
        assert_eq!(diagnostics.owner("[::1]:1".parse().unwrap(), here).unwrap(), None);
        assert!(programs(0).is_empty());
    }
}
