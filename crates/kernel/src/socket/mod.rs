//! The kernel's information on a connection by its socket: TCP_INFO, and the same for every subflow of Multipath TCP.
//!
//! Layouts are from `include/uapi/linux/tcp.h` and `mptcp.h`.

mod sys;

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::AsFd;

use crate::diag::TcpInfo;

const SOL_MPTCP: i32 = 284;
const MPTCP_TCPINFO: i32 = 2;
const MPTCP_SUBFLOW_ADDRS: i32 = 3;
/// The longest `struct tcp_info` that is read, in bytes.
const INFO: usize = 256;
/// `struct mptcp_subflow_data`, which precedes the list of subflows.
const HEAD: usize = 16;
/// `struct mptcp_subflow_addrs`: two `sockaddr_storage`.
const ADDRESSES: usize = 256;
/// More subflows than the kernel allows.
const SUBFLOWS: usize = 16;
/// The attempts to read a list while subflows begin or end.
const ATTEMPTS: u32 = 3;

/// A subflow: its local and its remote address, and the information on it.
pub type Described = (SocketAddr, SocketAddr, TcpInfo);

/// Reads the information on a plain TCP.
///
/// # Errors
/// If the kernel does not provide it.
pub fn tcp_info(socket: impl AsFd) -> io::Result<TcpInfo> {
    let mut bytes = [0; INFO];
    let length = sys::socket_option(socket, libc::IPPROTO_TCP, libc::TCP_INFO, &mut bytes)?;
    Ok(TcpInfo::parse(&bytes[..length.min(INFO)]))
}

/// Reads the information on the subflows of a Multipath TCP; none if it has fallen back to TCP: [`tcp_info`] reads it then.
///
/// # Errors
/// If the kernel does not provide it, or subflows begin and end all the time.
pub fn subflows(socket: impl AsFd) -> io::Result<Option<Vec<Described>>> {
    for _ in 0..ATTEMPTS {
        let infos = match list(&socket, MPTCP_TCPINFO, INFO, SUBFLOWS) {
            Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => return Ok(None),
            other => other?,
        };
        let addresses = list(&socket, MPTCP_SUBFLOW_ADDRS, ADDRESSES, SUBFLOWS)?;
        if infos.len() == addresses.len() {
            let described = infos.iter().zip(&addresses).filter_map(|(info, pair)| {
                let (local, remote) = pair.split_at_checked(ADDRESSES / 2)?;
                Some((address(local)?, address(remote)?, TcpInfo::parse(info)))
            });
            return Ok(Some(described.collect()));
        }
    }
    Err(io::Error::other("a subflow began or ended meanwhile"))
}

/// True if a socket of Multipath TCP has not fallen back to TCP.
pub fn is_multipath(socket: impl AsFd) -> bool {
    list(&socket, MPTCP_TCPINFO, INFO, 0).is_ok()
}

/// Returns an entry for each subflow, at most `most`, of at most `size` bytes.
fn list(socket: &impl AsFd, option: i32, size: usize, most: usize) -> io::Result<Vec<Vec<u8>>> {
    let mut bytes = vec![0; HEAD + most * size];
    bytes[0..4].copy_from_slice(&(HEAD as u32).to_ne_bytes());
    bytes[12..16].copy_from_slice(&(size as u32).to_ne_bytes());
    let length = sys::socket_option(socket, SOL_MPTCP, option, &mut bytes)?;
    let word =
        |at: usize| u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]) as usize;
    let (count, known, step) = (word(4).min(most), word(8).min(size), word(12));
    let there = length.saturating_sub(HEAD).checked_div(step).unwrap_or(0);
    if step == 0 || step > size || there < count {
        return Err(io::Error::other("the kernel's list of subflows cannot be parsed"));
    }
    Ok((0..count).map(|at| bytes[HEAD + at * step..][..known.min(step)].to_vec()).collect())
}

/// Returns the address in a `sockaddr_in` or `sockaddr_in6`.
pub(crate) fn address(bytes: &[u8]) -> Option<SocketAddr> {
    let family = u16::from_ne_bytes(*bytes.first_chunk()?);
    let port = u16::from_be_bytes(bytes.get(2..4)?.try_into().ok()?);
    let ip = match i32::from(family) {
        libc::AF_INET => IpAddr::V4(Ipv4Addr::from(<[u8; 4]>::try_from(bytes.get(4..8)?).ok()?)),
        libc::AF_INET6 => IpAddr::V6(Ipv6Addr::from(<[u8; 16]>::try_from(bytes.get(8..24)?).ok()?)),
        _ => return None,
    };
    Some(SocketAddr::new(ip.to_canonical(), port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_read_and_others_are_none() {
        let mut v4 = vec![0; 16];
        v4[..2].copy_from_slice(&(libc::AF_INET as u16).to_ne_bytes());
        v4[2..8].copy_from_slice(&[1, 187, 192, 0, 2, 1]);
        assert_eq!(address(&v4), Some("192.0.2.1:443".parse().unwrap()));
        let mut v6 = vec![0; 28];
        v6[..2].copy_from_slice(&(libc::AF_INET6 as u16).to_ne_bytes());
        v6[23] = 1;
        assert_eq!(address(&v6), Some("[::1]:0".parse().unwrap()));
        for end in 0..8 {
            assert_eq!(address(&v4[..end]), None);
        }
        assert_eq!(address(&[1, 0, b'/', b't', b'm', b'p', 0, 0]), None);
    }
}
