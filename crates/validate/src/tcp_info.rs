//! The kernel's information on a connection: TCP_INFO, and the same for every subflow of Multipath TCP.
//!
//! Layouts are from `include/uapi/linux/tcp.h` and `mptcp.h`.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use socket2::Socket;

use crate::sys::socket_option;

const TCP_INFO: i32 = 11;
const SOL_MPTCP: i32 = 284;
const MPTCP_TCPINFO: i32 = 2;
const MPTCP_SUBFLOW_ADDRS: i32 = 3;
/// The longest `struct tcp_info` that is read, in bytes.
const MOST: usize = 512;
/// `struct mptcp_subflow_data`, which precedes the list of subflows.
const HEAD: usize = 16;
/// `struct mptcp_subflow_addrs`: two `sockaddr_storage`.
const ADDRESSES: usize = 256;
/// More subflows than the kernel allows.
const SUBFLOWS: usize = 16;
/// The length up to and including `tcpi_total_rto`, which Linux has had since 6.7.
const NEEDED: usize = 242;

/// The kernel's information on one TCP connection or subflow.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct TcpInfo {
    /// The largest payload of a segment.
    pub snd_mss: u32,
    /// Segments sent and not acknowledged.
    pub unacked: u32,
    /// The smoothed RTT, in microseconds.
    pub rtt_us: u32,
    /// Retransmitted segments.
    pub total_retrans: u32,
    /// Bytes written and not sent.
    pub notsent_bytes: u32,
    /// Payload received, and one for the end of the stream.
    pub bytes_received: u64,
    /// Data segments sent.
    pub data_segs_out: u32,
    /// Retransmission timeouts.
    pub total_rto: u16,
}

/// A subflow: its local and its remote address, and the information on it.
pub(crate) type Described = (IpAddr, IpAddr, TcpInfo);

impl TcpInfo {
    fn parse(bytes: &[u8]) -> io::Result<TcpInfo> {
        if bytes.len() < NEEDED {
            let text =
                "this kernel does not count retransmission timeouts (TCP_INFO is too short); Linux 6.7 does";
            return Err(io::Error::new(io::ErrorKind::Unsupported, text));
        }
        let u32_at = |at: usize| u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let u64_at = |at: usize| {
            let mut eight = [0; 8];
            eight.copy_from_slice(&bytes[at..at + 8]);
            u64::from_ne_bytes(eight)
        };
        Ok(TcpInfo {
            snd_mss: u32_at(16),
            unacked: u32_at(24),
            rtt_us: u32_at(68),
            total_retrans: u32_at(100),
            bytes_received: u64_at(128),
            notsent_bytes: u32_at(144),
            data_segs_out: u32_at(156),
            total_rto: u16::from_ne_bytes([bytes[240], bytes[241]]),
        })
    }
}

/// Reads the information on a plain TCP.
///
/// # Errors
/// If the kernel does not provide it.
pub(crate) fn of_tcp(socket: &Socket) -> io::Result<TcpInfo> {
    let mut bytes = [0; MOST];
    let length = socket_option(socket, libc::IPPROTO_TCP, TCP_INFO, &mut bytes)?;
    TcpInfo::parse(&bytes[..length.min(MOST)])
}

/// Reads the information on the subflows of a Multipath TCP, with the local and the remote address; none if it has
/// fallen back to TCP: [`of_tcp`] reads it then.
///
/// # Errors
/// If the kernel does not provide it.
pub(crate) fn of_mptcp(socket: &Socket) -> io::Result<Option<Vec<Described>>> {
    let infos = match list(socket, MPTCP_TCPINFO, MOST) {
        Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => return Ok(None),
        other => other?,
    };
    let addresses = list(socket, MPTCP_SUBFLOW_ADDRS, ADDRESSES)?;
    if infos.len() != addresses.len() {
        return Err(io::Error::other("a subflow began or ended meanwhile"));
    }
    let all = infos.iter().zip(&addresses);
    let described = all.map(|(info, pair)| Ok((ip(pair), ip(&pair[ADDRESSES / 2..]), TcpInfo::parse(info)?)));
    described.collect::<io::Result<_>>().map(Some)
}

/// Returns the address of a `sockaddr_storage`.
fn ip(bytes: &[u8]) -> IpAddr {
    if i32::from(u16::from_ne_bytes([bytes[0], bytes[1]])) == libc::AF_INET6 {
        let mut octets = [0; 16];
        octets.copy_from_slice(&bytes[8..24]);
        return IpAddr::V6(Ipv6Addr::from(octets));
    }
    IpAddr::V4(Ipv4Addr::new(bytes[4], bytes[5], bytes[6], bytes[7]))
}

/// Returns an entry for each subflow, of at most `size` bytes.
fn list(socket: &Socket, option: i32, size: usize) -> io::Result<Vec<Vec<u8>>> {
    let mut bytes = vec![0; HEAD + SUBFLOWS * size];
    bytes[0..4].copy_from_slice(&(HEAD as u32).to_ne_bytes());
    bytes[12..16].copy_from_slice(&(size as u32).to_ne_bytes());
    let length = socket_option(socket, SOL_MPTCP, option, &mut bytes)?;
    let word =
        |at: usize| u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]) as usize;
    let (count, known) = (word(4), word(8).min(size));
    let step = word(12);
    let there = length.saturating_sub(HEAD).checked_div(step).unwrap_or(0);
    if step == 0 || step > size || there < count {
        return Err(io::Error::other("the kernel's list of subflows cannot be parsed"));
    }
    Ok((0..count).map(|at| bytes[HEAD + at * step..][..known.min(step)].to_vec()).collect())
}

#[cfg(test)]
// A file of tests: other targets need it public.
#[allow(unreachable_pub)]
#[path = "../../../tests/skipped.rs"]
mod skipped;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_where_the_kernel_has_them() {
        let mut bytes = [0; 248];
        bytes[16..20].copy_from_slice(&1448_u32.to_ne_bytes());
        // Each field of 32 bits has its place as its value, so that none is taken for its neighbour.
        for at in (8..104).chain(136..232).step_by(4) {
            bytes[at..at + 4].copy_from_slice(&(at as u32).to_ne_bytes());
        }
        let places = TcpInfo::parse(&bytes).unwrap();
        assert_eq!((places.unacked, places.notsent_bytes, places.data_segs_out), (24, 144, 156));
        bytes[16..20].copy_from_slice(&1448_u32.to_ne_bytes());
        bytes[68..72].copy_from_slice(&20_000_u32.to_ne_bytes());
        bytes[100..104].copy_from_slice(&3_u32.to_ne_bytes());
        bytes[128..136].copy_from_slice(&99_u64.to_ne_bytes());
        bytes[240..242].copy_from_slice(&2_u16.to_ne_bytes());
        let info = TcpInfo::parse(&bytes).unwrap();
        let seen = (info.snd_mss, info.rtt_us, info.total_retrans, info.bytes_received, info.total_rto);
        assert_eq!(seen, (1448, 20_000, 3, 99, 2));
        assert!(TcpInfo::parse(&bytes[..232]).is_err());
    }

    #[test]
    fn a_connection_that_has_fallen_back_has_the_counters_of_tcp() {
        use std::io::{Read as _, Write as _};
        use std::net::SocketAddr;

        use socket2::{Domain, Protocol, Type};
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let client = match Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::MPTCP)) {
            Ok(client) => client,
            Err(error) => return skipped::skipped(format_args!("this kernel has no Multipath TCP: {error}")),
        };
        let address: SocketAddr = listener.local_addr().unwrap();
        client.connect(&address.into()).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        (&client).write_all(&[1; 1000]).unwrap();
        server.read_exact(&mut [0; 1000]).unwrap();
        assert_eq!(of_mptcp(&client).unwrap(), None);
        assert_eq!(of_tcp(&client).unwrap().data_segs_out, 1);
    }

    #[test]
    fn the_kernel_tells_of_a_connection_over_the_loopback_device() {
        use std::io::{Read as _, Write as _};
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        client.write_all(&[1; 1000]).unwrap();
        server.read_exact(&mut [0; 1000]).unwrap();
        match of_tcp(&Socket::from(server)) {
            Ok(info) => assert_eq!(info.bytes_received, 1000),
            Err(error) => assert_eq!(error.kind(), io::ErrorKind::Unsupported),
        }
        let info = of_tcp(&Socket::from(client));
        assert!(info.is_ok_and(|info| info.data_segs_out == 1 && info.total_retrans == 0));
    }
}
