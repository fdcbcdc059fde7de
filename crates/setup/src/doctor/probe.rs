//! Tests whether option 30 passes the network, with a Multipath TCP connection of the kernel. Anabranch's own
//! endpoint is unsuitable, as it needs a device and routes first.

use core::time::Duration;
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, ipproto, socket_with, sockopt};

use crate::{Action, System};

/// Longer than the kernel tries with the option: it omits it after two or three unanswered SYNs
/// (`net.mptcp.syn_retrans_before_tcp_fallback`), after 3 s to 7 s.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// For a connection without the option, after one with it had no answer.
const PLAIN_TIMEOUT: Duration = Duration::from_secs(3);
/// For the response to a request.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// Ports on which a request is sent to a web server, so that segments with data are tested too.
const HTTP_PORTS: [u16; 3] = [80, 8000, 8080];

/// The result of a test connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    /// The target as the user gave it.
    pub target: String,
    /// The address that it resolved to.
    pub address: Option<SocketAddr>,
    /// The last step that the connection reached.
    pub outcome: ProbeOutcome,
    /// The increase of the kernel's counters (MPTcpExt) during the test, whatever caused it.
    pub counters: BTreeMap<String, u64>,
}

/// The outcome of the connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProbeOutcome {
    /// The kernel does not provide such sockets.
    NoMptcp(String),
    /// The name does not resolve.
    NoName(String),
    /// There is no route, or no answer even to a connection without the option.
    NoConnection(String),
    /// The host or a middlebox refused the connection.
    Refused,
    /// No answer within this time with the option, and an answer to plain TCP.
    PlainAlone(Duration),
    /// The handshake used Multipath TCP; data was not tried.
    Handshake,
    /// The handshake used Multipath TCP, and a request had no response within this time.
    Silent(Duration),
    /// Data was exchanged in both directions over Multipath TCP.
    Multipath,
    /// The handshake used Multipath TCP, and the connection had fallen back once data was exchanged.
    FellBackLater,
    /// The connection fell back in the handshake.
    FellBack,
    /// The outcome could not be determined.
    Unknown(String),
}

/// Connects to `target`, which is `HOST` or `HOST:PORT`, by default port 80. Takes up to 15 s plus the time
/// of the resolver.
pub fn probe(target: &str, system: &mut dyn System) -> Probe {
    let before = counters(system);
    let mut address = None;
    let outcome = attempt(target, system, &mut address);
    let mut counters = counters(system);
    for (name, value) in &mut counters {
        *value = value.saturating_sub(before.get(name).copied().unwrap_or(0));
    }
    counters.retain(|_, value| *value > 0);
    Probe { target: target.to_owned(), address, outcome, counters }
}

fn attempt(target: &str, system: &mut dyn System, address: &mut Option<SocketAddr>) -> ProbeOutcome {
    let resolved = match resolve(target) {
        Ok(resolved) => resolved,
        Err(error) => return ProbeOutcome::NoName(error),
    };
    *address = Some(resolved);
    let mut stream = match open(resolved) {
        Ok(stream) => stream,
        Err(outcome) => return outcome,
    };
    match state_of(&stream, system) {
        Err(error) => return ProbeOutcome::Unknown(error),
        Ok(false) => return ProbeOutcome::FellBack,
        Ok(true) => {}
    }
    if !HTTP_PORTS.contains(&resolved.port()) {
        return ProbeOutcome::Handshake;
    }
    let answered = exchange(&mut stream, target);
    match state_of(&stream, system) {
        Ok(true) if answered => ProbeOutcome::Multipath,
        Ok(true) => ProbeOutcome::Silent(ANSWER_TIMEOUT),
        Ok(false) => ProbeOutcome::FellBackLater,
        Err(error) => ProbeOutcome::Unknown(error),
    }
}

fn resolve(target: &str) -> Result<SocketAddr, String> {
    // `::1` and `host` have no port, `[::1]:80` and `host:80` have one.
    let bare = target.trim_start_matches('[').trim_end_matches(']');
    let resolved = match bare.parse() {
        Ok(address) => return Ok(SocketAddr::new(address, 80)),
        Err(_) if target.contains(':') => target.to_socket_addrs(),
        Err(_) => (target, 80).to_socket_addrs(),
    };
    let mut addresses = resolved.map_err(|error| format!("{target}: {error}"))?;
    addresses.next().ok_or_else(|| format!("{target} has no address"))
}

fn open(address: SocketAddr) -> Result<TcpStream, ProbeOutcome> {
    let family = if address.is_ipv6() { AddressFamily::INET6 } else { AddressFamily::INET };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(family, SocketType::STREAM, flags, Some(ipproto::MPTCP))
        .map_err(|error| ProbeOutcome::NoMptcp(error.to_string()))?;
    let failed = |error: Errno| match error {
        Errno::CONNREFUSED => ProbeOutcome::Refused,
        Errno::TIMEDOUT if TcpStream::connect_timeout(&address, PLAIN_TIMEOUT).is_ok() => {
            ProbeOutcome::PlainAlone(CONNECT_TIMEOUT)
        }
        error => ProbeOutcome::NoConnection(error.to_string()),
    };
    match connect(&socket, &address) {
        Ok(()) | Err(Errno::INPROGRESS) => {}
        Err(error) => return Err(failed(error)),
    }
    let mut ready = [PollFd::new(&socket, PollFlags::OUT)];
    let timeout = Timespec { tv_sec: CONNECT_TIMEOUT.as_secs() as i64, tv_nsec: 0 };
    match poll(&mut ready, Some(&timeout)) {
        Ok(0) => return Err(failed(Errno::TIMEDOUT)),
        Ok(_) => {}
        Err(error) => return Err(failed(error)),
    }
    sockopt::socket_error(&socket).and_then(|result| result).map_err(failed)?;
    let stream = TcpStream::from(socket);
    let prepared = stream.set_nonblocking(false).and_then(|()| stream.set_read_timeout(Some(ANSWER_TIMEOUT)));
    prepared.map_err(|error| ProbeOutcome::NoConnection(error.to_string()))?;
    Ok(stream)
}

/// Sends a request; true if any response came.
fn exchange(stream: &mut TcpStream, target: &str) -> bool {
    let request = format!("HEAD / HTTP/1.1\r\nHost: {target}\r\nUser-Agent: anabranch doctor\r\n\r\n");
    let mut answer = [0; 4096];
    stream.write_all(request.as_bytes()).is_ok() && stream.read(&mut answer).is_ok_and(|n| n > 0)
}

fn state_of(stream: &TcpStream, system: &mut dyn System) -> Result<bool, String> {
    is_multipath(stream.local_addr().map_err(|error| error.to_string())?, system)
}

/// Returns whether the kernel's connection from the address `local` still uses Multipath TCP, by the flags
/// that `ss` shows. (The socket option MPTCP_INFO has the same information, but no safe crate offers it.)
///
/// # Errors
/// If `ss` cannot be run, or does not show the connection.
pub fn is_multipath(local: SocketAddr, system: &mut dyn System) -> Result<bool, String> {
    // `192.0.2.1:5000` or `[2001:db8::1]:5000`, the syntax of ss.
    let text = system.act(&Action::run(&format!("ss -MniaOH src {local}")))?;
    flags_of(&text, local).ok_or_else(|| format!("`ss -Mni` does not show the connection from {local}"))
}

/// Evaluates MPTCP_INFO_FLAG_FALLBACK and MPTCP_INFO_FLAG_REMOTE_KEY_RECEIVED in the line of the connection
/// from `local`. (The subflow's own line, of `ss -tni`, names MPTCP after a fallback as well.)
fn flags_of(text: &str, local: SocketAddr) -> Option<bool> {
    let line = text
        .lines()
        .find(|line| line.split_whitespace().nth(3).is_some_and(|name| name == local.to_string()))?;
    let has = |word: &str| line.split_whitespace().any(|own| own == word);
    if has("fallback") { Some(false) } else { has("remote_key").then_some(true) }
}

/// Returns the kernel's counters of Multipath TCP, in this network namespace.
fn counters(system: &mut dyn System) -> BTreeMap<String, u64> {
    let text = system.read("/proc/thread-self/net/netstat").unwrap_or_default();
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("MPTcpExt: "));
    let (Some(names), Some(values)) = (lines.next(), lines.next()) else { return BTreeMap::new() };
    let values = values.split_whitespace().map(|value| value.parse().unwrap_or(0));
    names.split_whitespace().map(str::to_owned).zip(values).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flags_are_those_of_the_own_connection() {
        let text = "ESTAB 0 0 192.0.2.2:4 192.0.2.1:80 subflows_max:2 fallback token:a24c7427 write_seq:b1c
ESTAB 0 0 192.0.2.2:5 192.0.2.1:80 subflows_max:2 remote_key token:21e24b6f
ESTAB 0 0 192.0.2.2:6 192.0.2.1:80 subflows_max:2
";
        let of = |port| flags_of(text, SocketAddr::new([192, 0, 2, 2].into(), port));
        assert_eq!([of(4), of(5), of(6), of(7)], [Some(false), Some(true), None, None]);
    }

    #[test]
    fn a_target_may_have_a_port() {
        let address = |target: &str| resolve(target).map(|address| address.to_string());
        assert_eq!(address("192.0.2.1"), Ok("192.0.2.1:80".into()));
        assert_eq!(address("192.0.2.1:443"), Ok("192.0.2.1:443".into()));
        assert_eq!(address("2001:db8::1"), Ok("[2001:db8::1]:80".into()));
        assert_eq!(address("[2001:db8::1]"), Ok("[2001:db8::1]:80".into()));
        assert_eq!(address("[2001:db8::1]:8080"), Ok("[2001:db8::1]:8080".into()));
        assert!(address("192.0.2.1:99999").is_err());
    }
}
