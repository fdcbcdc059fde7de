//! The kernel's sockets of a run: their settings, and their counters.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use anabranch_kernel::diag::TcpInfo;
use socket2::{Domain, Protocol, Socket, TcpKeepalive, Type};

use crate::measure::Measured;
use crate::points::{Point, Sender};
use crate::results::Trouble;
use crate::sys::set_socket_option;
use crate::tcp_info;

/// The interval at which a waiting thread checks whether to stop.
pub(crate) const LOOK: Duration = Duration::from_millis(100);

pub(crate) fn socket(point: &Point, here: SocketAddr) -> io::Result<Socket> {
    socket_of(point, point.sender, point.congestion, here)
}

/// Returns a bound socket with the settings of the point.
pub(crate) fn socket_of(
    point: &Point,
    sender: Sender,
    congestion: &str,
    here: SocketAddr,
) -> io::Result<Socket> {
    let protocol = match sender {
        Sender::Tcp { .. } => Protocol::TCP,
        Sender::Multipath => Protocol::MPTCP,
    };
    let socket = bound(protocol, congestion, here)?;
    let force = |name, bytes: u32| set_socket_option(&socket, libc::SOL_SOCKET, name, bytes as i32);
    // As root, which may exceed net.core.rmem_max.
    if let Some(bytes) = point.kernel.receive_buffer {
        force(libc::SO_RCVBUFFORCE, bytes)?;
    }
    if let Some(bytes) = point.kernel.send_buffer {
        force(libc::SO_SNDBUFFORCE, bytes)?;
    }
    if let Some(timeout) = point.kernel.user_timeout {
        socket.set_tcp_user_timeout(Some(Duration::from_nanos(timeout.as_nanos())))?;
    }
    if let Some(idle) = point.kernel.keepalive {
        let idle = TcpKeepalive::new().with_time(Duration::from_nanos(idle.as_nanos()));
        socket.set_tcp_keepalive(&idle)?;
    }
    if point.kernel.no_delay {
        socket.set_tcp_nodelay(true)?;
    }
    Ok(socket)
}

/// Returns a socket that is bound to an address.
pub(crate) fn bound(protocol: Protocol, congestion: &str, here: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(here), Type::STREAM, Some(protocol))?;
    // Root may choose any available one; all subflows use it.
    socket.set_tcp_congestion(congestion.as_bytes())?;
    socket.set_reuse_address(true)?;
    socket.bind(&here.into())?;
    socket.set_read_timeout(Some(LOOK))?;
    socket.set_write_timeout(Some(LOOK))?;
    Ok(socket)
}

pub(crate) fn listener(point: &Point, there: SocketAddr, flows: usize) -> io::Result<Socket> {
    let socket = socket(point, there)?;
    socket.listen(flows as i32)?;
    Ok(socket)
}

/// The kernel's information on a connection.
pub(crate) struct Infos {
    /// That on each subflow, with the position of its path.
    pub(crate) subflows: Vec<(usize, TcpInfo)>,
    /// True if Multipath TCP has fallen back to TCP.
    pub(crate) fallback: bool,
}

/// Returns the kernel's information. The path of a subflow follows from the client's address; a connection that has
/// fallen back to TCP has only the first subflow.
pub(crate) fn infos(
    point: &Point,
    sender: Sender,
    socket: &Socket,
    is_client: bool,
) -> Result<Infos, Trouble> {
    let failed = |error: io::Error| Trouble::failed(format!("the kernel's counters: {error}"));
    match sender {
        Sender::Tcp { path } => {
            let only = tcp_info::of_tcp(socket).map_err(failed)?;
            Ok(Infos { subflows: vec![(path, only)], fallback: false })
        }
        Sender::Multipath => {
            let Some(all) = tcp_info::of_mptcp(socket).map_err(failed)? else {
                let only = tcp_info::of_tcp(socket).map_err(failed)?;
                return Ok(Infos { subflows: vec![(point.initial(), only)], fallback: true });
            };
            let path = |here: SocketAddr, there: SocketAddr| match if is_client { here } else { there }.ip() {
                IpAddr::V4(v4) => usize::from(v4.octets()[2]).saturating_sub(1),
                IpAddr::V6(v6) => usize::from(v6.octets()[7]).saturating_sub(1),
            };
            let all = all.into_iter().map(|(here, there, info)| (path(here, there), info));
            let subflows = all.filter(|(path, _)| *path < point.experiment().paths().len()).collect();
            Ok(Infos { subflows, fallback: false })
        }
    }
}

/// Returns the kernel's counters of a sender.
///
/// # Errors
/// If the kernel does not provide them.
pub(crate) fn counters(
    point: &Point,
    sender: Sender,
    socket: &Socket,
    is_client: bool,
) -> Result<Measured, Trouble> {
    let Infos { subflows: all, fallback } = infos(point, sender, socket, is_client)?;
    let paths = point.experiment().paths().len();
    let sum = |count: fn(&TcpInfo) -> u64| all.iter().map(|(_, info)| count(info)).sum();
    let mut measured = Measured {
        segments: sum(|info| u64::from(info.data_segs_out)),
        retransmitted: sum(|info| u64::from(info.total_retrans)),
        timeouts: sum(|info| info.total_rto.unwrap_or_default().into()),
        srtt_s: vec![None; paths],
        mss: vec![0; paths],
        fallbacks: u64::from(fallback),
        ..Measured::default()
    };
    for (path, info) in &all {
        measured.srtt_s[*path] = (info.rtt_us > 0).then(|| f64::from(info.rtt_us) / 1e6);
        measured.mss[*path] = info.snd_mss;
    }
    Ok(measured)
}
