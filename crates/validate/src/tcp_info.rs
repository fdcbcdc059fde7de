//! The kernel's counters of a connection, with its retransmission timeouts.

use std::io;

use anabranch_kernel::diag::TcpInfo;
use anabranch_kernel::socket::{self, Described};
use socket2::Socket;

/// Returns the information if it counts retransmission timeouts, as Linux has since 6.7.
///
/// # Errors
/// If it does not.
fn complete(info: TcpInfo) -> io::Result<TcpInfo> {
    match info.total_rto {
        Some(_) => Ok(info),
        None => {
            let text =
                "this kernel does not count retransmission timeouts (TCP_INFO is too short); Linux 6.7 does";
            Err(io::Error::new(io::ErrorKind::Unsupported, text))
        }
    }
}

/// Reads the information on a plain TCP.
///
/// # Errors
/// If the kernel does not provide it.
pub(crate) fn of_tcp(socket: &Socket) -> io::Result<TcpInfo> {
    complete(socket::tcp_info(socket)?)
}

/// Reads the information on the subflows of a Multipath TCP; none if it has fallen back to TCP: [`of_tcp`] reads it then.
///
/// # Errors
/// If the kernel does not provide it.
pub(crate) fn of_mptcp(socket: &Socket) -> io::Result<Option<Vec<Described>>> {
    let Some(all) = socket::subflows(socket)? else { return Ok(None) };
    all.into_iter()
        .map(|(here, there, info)| Ok((here, there, complete(info)?)))
        .collect::<io::Result<_>>()
        .map(Some)
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
        let places = complete(TcpInfo::parse(&bytes)).unwrap();
        assert_eq!((places.unacked, places.notsent_bytes, places.data_segs_out), (24, 144, 156));
        bytes[16..20].copy_from_slice(&1448_u32.to_ne_bytes());
        bytes[68..72].copy_from_slice(&20_000_u32.to_ne_bytes());
        bytes[100..104].copy_from_slice(&3_u32.to_ne_bytes());
        bytes[128..136].copy_from_slice(&99_u64.to_ne_bytes());
        bytes[240..242].copy_from_slice(&2_u16.to_ne_bytes());
        let info = complete(TcpInfo::parse(&bytes)).unwrap();
        let seen = (info.snd_mss, info.rtt_us, info.total_retrans, info.bytes_received, info.total_rto);
        assert_eq!(seen, (1448, 20_000, 3, 99, Some(2)));
        assert!(complete(TcpInfo::parse(&bytes[..232])).is_err());
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
