//! Looks up the kernel's route to an address.

use std::io;
use std::net::IpAddr;

use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};

/// The route of packets to an address.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Route {
    /// Through this interface.
    Device(String),
    /// To the kernel itself: the address is local.
    Local,
    /// No route.
    None,
}

// From linux/netlink.h and linux/rtnetlink.h.
const NLMSG_ERROR: u16 = 2;
const NLM_F_REQUEST: u16 = 1;
const RTM_GETROUTE: u16 = 26;
const RTM_NEWROUTE: u16 = 24;
const RTN_UNICAST: u8 = 1;
const RTN_LOCAL: u8 = 2;
const RTA_DST: u16 = 1;
const RTA_OIF: u16 = 4;
const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;
/// The length of a `struct nlmsghdr`.
const HEADER: usize = 16;
/// The length of a `struct rtmsg`.
const ROUTE: usize = 12;

/// Returns the route of packets that this network namespace sends to `ip` itself, as `ip route get` shows it.
/// Forwarded packets may be routed differently by policy rules.
///
/// # Errors
/// If the query fails.
pub fn route_to(ip: IpAddr) -> io::Result<Route> {
    let flags = SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None)?;
    rustix::net::send(&socket, &request(ip), SendFlags::empty())?;
    let mut answer = [0; 4096];
    let (_, len) = rustix::net::recv(&socket, &mut answer[..], RecvFlags::empty())?;
    match parse(&answer[..len.min(answer.len())])? {
        Parsed::Device(index) => {
            let any = rustix::net::socket(AddressFamily::INET, SocketType::DGRAM, None)?;
            Ok(Route::Device(rustix::net::netdevice::index_to_name(any, index)?))
        }
        Parsed::Route(route) => Ok(route),
    }
}

fn request(ip: IpAddr) -> Vec<u8> {
    let (family, octets) = match ip {
        IpAddr::V4(ip) => (AF_INET, ip.octets().to_vec()),
        IpAddr::V6(ip) => (AF_INET6, ip.octets().to_vec()),
    };
    let mut message = vec![0; HEADER + ROUTE];
    message[4..6].copy_from_slice(&RTM_GETROUTE.to_ne_bytes());
    message[6..8].copy_from_slice(&NLM_F_REQUEST.to_ne_bytes());
    message[HEADER] = family;
    message[HEADER + 1] = (8 * octets.len()) as u8;
    message.extend_from_slice(&(4 + octets.len() as u16).to_ne_bytes());
    message.extend_from_slice(&RTA_DST.to_ne_bytes());
    message.extend_from_slice(&octets);
    let len = message.len() as u32;
    message[..4].copy_from_slice(&len.to_ne_bytes());
    message
}

#[derive(PartialEq, Eq, Debug)]
enum Parsed {
    /// The interface's index.
    Device(u32),
    Route(Route),
}

fn parse(answer: &[u8]) -> io::Result<Parsed> {
    let malformed = || io::Error::new(io::ErrorKind::InvalidData, "the kernel's answer cannot be parsed");
    let word = |at: usize| answer.get(at..at + 4)?.try_into().ok().map(u32::from_ne_bytes);
    let half = |at: usize| answer.get(at..at + 2)?.try_into().ok().map(u16::from_ne_bytes);
    match half(4).ok_or_else(malformed)? {
        NLMSG_ERROR => {
            let code = word(HEADER).ok_or_else(malformed)?.cast_signed().saturating_neg();
            match Errno::from_raw_os_error(code) {
                // The last three are routes that reject.
                Errno::NETUNREACH | Errno::HOSTUNREACH | Errno::ACCESS | Errno::INVAL => {
                    Ok(Parsed::Route(Route::None))
                }
                errno => Err(errno.into()),
            }
        }
        RTM_NEWROUTE => match *answer.get(HEADER + 7).ok_or_else(malformed)? {
            RTN_LOCAL => Ok(Parsed::Route(Route::Local)),
            RTN_UNICAST => {
                let mut at = HEADER + ROUTE;
                while let (Some(len), Some(kind)) = (half(at), half(at + 2)) {
                    if kind == RTA_OIF {
                        return word(at + 4).map(Parsed::Device).ok_or_else(malformed);
                    }
                    // Each attribute begins at a multiple of four.
                    at += usize::from(len.max(4)).next_multiple_of(4);
                }
                Err(malformed())
            }
            // Blackhole routes and similar.
            _ => Ok(Parsed::Route(Route::None)),
        },
        _ => Err(malformed()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_own_address_is_the_kernels() {
        // A test namespace may have its loopback device down, and then no route.
        let route = route_to([127, 0, 0, 1].into()).unwrap();
        assert!(matches!(route, Route::Local | Route::None), "{route:?}");
    }

    #[test]
    fn answers_are_read_and_nonsense_is_refused() {
        let mut answer = vec![0; HEADER + ROUTE];
        answer[4..6].copy_from_slice(&RTM_NEWROUTE.to_ne_bytes());
        answer[HEADER + 7] = RTN_UNICAST;
        assert!(parse(&answer).is_err());
        // An attribute of 5 bytes takes 8.
        answer.extend_from_slice(&[5, 0, 9, 0, 1, 0, 0, 0]);
        answer.extend_from_slice(&[8_u16.to_ne_bytes(), RTA_OIF.to_ne_bytes()].concat());
        answer.extend_from_slice(&7_u32.to_ne_bytes());
        if cfg!(target_endian = "little") {
            assert_eq!(parse(&answer).unwrap(), Parsed::Device(7));
        }
        for len in 0..answer.len() {
            assert!(parse(&answer[..len]).is_err(), "{len}");
        }
        answer[HEADER + 7] = RTN_LOCAL;
        assert_eq!(parse(&answer).unwrap(), Parsed::Route(Route::Local));
        answer[4..6].copy_from_slice(&NLMSG_ERROR.to_ne_bytes());
        answer[HEADER..HEADER + 4].copy_from_slice(&(-101_i32).to_ne_bytes());
        assert_eq!(parse(&answer).unwrap(), Parsed::Route(Route::None));
        answer[HEADER..HEADER + 4].copy_from_slice(&(-1_i32).to_ne_bytes());
        assert!(parse(&answer).is_err());
    }
}
