//! The kernel's Multipath TCP: sockets of `IPPROTO_MPTCP`. Needs no privilege.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::pin::Pin;
use std::task::{Context, Poll};

use anabranch_kernel::diag::TcpInfo;
use anabranch_scenario::policy::proxy::Treatment;
use socket2::{Domain, Protocol, Socket, Type};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpSocket, TcpStream};

use super::{Accept, Link, LinkReport, SubflowReport, Transport};
use crate::sys::socket_option;

/// Socket options of Multipath TCP (`include/uapi/linux/mptcp.h`).
const SOL_MPTCP: i32 = 284;
const MPTCP_TCPINFO: i32 = 2;
const MPTCP_SUBFLOW_ADDRS: i32 = 3;
/// `struct mptcp_subflow_data`.
const SUBFLOW_DATA: usize = 16;
/// `struct mptcp_subflow_addrs`: two `sockaddr_storage`.
const SUBFLOW_ADDRS: usize = 256;
/// As much of `struct tcp_info` as is read.
const TCP_INFO: usize = 256;
/// The largest number of subflows (`MPTCP_SUBFLOWS_MAX`).
const MOST_SUBFLOWS: usize = 8;
/// The number of connections that may wait to be accepted.
const BACKLOG: i32 = 4096;

/// The kernel's Multipath TCP, or its TCP where it has no other.
#[derive(Clone, Debug)]
pub struct Kernel {
    mptcp: bool,
    congestion: Option<String>,
}

impl Kernel {
    /// Returns the transport; with a remark if this kernel has plain TCP only.
    pub fn open() -> (Kernel, Option<String>) {
        let probe = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::MPTCP));
        let kernel = Kernel { mptcp: probe.is_ok(), congestion: None };
        let remark = probe.err().map(|error| {
            format!(
                "this kernel gives no socket of Multipath TCP ({error}), so connections are plain TCP on one path; see \
                 `anabranch doctor`"
            )
        });
        (kernel, remark)
    }

    /// Returns the transport of plain TCP.
    pub fn plain_tcp() -> Kernel {
        Kernel { mptcp: false, congestion: None }
    }

    /// Sets the congestion control of connections that have no other by their treatment.
    pub fn with_congestion(self, congestion: Option<String>) -> Kernel {
        Kernel { congestion, ..self }
    }

    /// True if connections can be Multipath TCP.
    pub fn has_mptcp(&self) -> bool {
        self.mptcp
    }

    fn socket(&self, at: SocketAddr) -> io::Result<Socket> {
        let protocol = if self.mptcp { Protocol::MPTCP } else { Protocol::TCP };
        let socket =
            Socket::new(Domain::for_address(at), Type::STREAM.nonblocking().cloexec(), Some(protocol))?;
        socket.set_tcp_nodelay(true)?;
        Ok(socket)
    }
}

impl Transport for Kernel {
    type Link = KernelLink;
    type Listener = KernelListener;

    fn name(&self) -> &'static str {
        "kernel"
    }

    fn check(&self, how: &Treatment) -> Result<(), String> {
        if how.scheduler.is_some() {
            return Err(
                "the kernel has one packet scheduler for all connections, so `scheduler` needs --transport \
                        anabranch"
                    .to_owned(),
            );
        }
        if how.paths.is_some() || !how.backup.is_empty() {
            return Err("the kernel's path manager decides about subflows, so `paths` and `backup` need --transport \
                        anabranch; `anabranch kernel steer --policy` has `interfaces` and `backup` for the kernel"
                .to_owned());
        }
        let Some(congestion) = how.congestion.as_ref().or(self.congestion.as_ref()) else { return Ok(()) };
        let socket =
            Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP)).map_err(|e| e.to_string())?;
        socket.set_tcp_congestion(congestion.as_bytes()).map_err(|error| {
            let there = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_allowed_congestion_control");
            let there = there.unwrap_or_default().trim().replace(' ', ", ");
            format!(
                "the kernel has no congestion control `{congestion}` for this user ({error}); it has {there}"
            )
        })
    }

    async fn dial(&self, to: SocketAddr, how: &Treatment) -> io::Result<KernelLink> {
        let socket = self.socket(to)?;
        if let Some(congestion) = how.congestion.as_ref().or(self.congestion.as_ref()) {
            socket.set_tcp_congestion(congestion.as_bytes())?;
        }
        let stream = TcpSocket::from_std_stream(socket.into()).connect(to).await?;
        Ok(KernelLink { stream, mptcp: self.mptcp })
    }

    fn listen(&self, at: SocketAddr) -> io::Result<KernelListener> {
        let socket = self.socket(at)?;
        socket.set_reuse_address(true)?;
        if at.is_ipv6() {
            socket.set_only_v6(!at.ip().is_unspecified())?;
        }
        socket.bind(&at.into())?;
        socket.listen(BACKLOG)?;
        let listener = TcpListener::from_std(socket.into())?;
        Ok(KernelListener { listener, mptcp: self.mptcp })
    }
}

/// A listening port.
#[derive(Debug)]
pub struct KernelListener {
    listener: TcpListener,
    mptcp: bool,
}

impl KernelListener {
    /// Returns its address.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn local_address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

impl Accept for KernelListener {
    type Link = KernelLink;

    async fn accept(&mut self) -> io::Result<(KernelLink, SocketAddr)> {
        let (stream, peer) = self.listener.accept().await?;
        // Accepted sockets of Multipath TCP do not inherit it in every version.
        let _ = stream.set_nodelay(true);
        Ok((KernelLink { stream, mptcp: self.mptcp }, peer))
    }
}

/// A connection of the kernel.
#[derive(Debug)]
pub struct KernelLink {
    stream: TcpStream,
    mptcp: bool,
}

impl KernelLink {
    /// Returns the local and the remote address.
    pub(crate) fn ends(&self) -> io::Result<(SocketAddr, SocketAddr)> {
        Ok((self.stream.local_addr()?, self.stream.peer_addr()?))
    }

    /// True if it is Multipath TCP now.
    pub(crate) fn is_mptcp(&self) -> bool {
        self.mptcp && subflow_array(&self.stream, MPTCP_TCPINFO, TCP_INFO, 0).is_ok()
    }
}

impl Link for KernelLink {
    fn reset(self) {
        // A failure leaves an orderly end.
        let _ = socket2::SockRef::from(&self.stream).set_linger(Some(std::time::Duration::ZERO));
    }

    fn report(&self) -> LinkReport {
        let infos = subflow_array(&self.stream, MPTCP_TCPINFO, TCP_INFO, MOST_SUBFLOWS);
        let addresses = subflow_array(&self.stream, MPTCP_SUBFLOW_ADDRS, SUBFLOW_ADDRS, MOST_SUBFLOWS);
        if let (true, Ok(infos), Ok(addresses)) = (self.mptcp, infos, addresses) {
            let subflows = infos.chunks_exact(TCP_INFO).zip(addresses.chunks_exact(SUBFLOW_ADDRS));
            let subflows = subflows.filter_map(|(info, addresses)| {
                let (local, remote) = addresses.split_at(SUBFLOW_ADDRS / 2);
                Some(subflow(address(local)?, address(remote)?, &TcpInfo::parse(info)))
            });
            return LinkReport { mptcp: true, subflows: subflows.collect() };
        }
        let mut info = [0; TCP_INFO];
        let read = socket_option(&self.stream, libc::IPPROTO_TCP, libc::TCP_INFO, &mut info);
        let subflows = match (read, self.ends()) {
            (Ok(length), Ok((local, remote))) => {
                vec![subflow(local, remote, &TcpInfo::parse(&info[..length]))]
            }
            _ => Vec::new(),
        };
        LinkReport { mptcp: false, subflows }
    }
}

fn subflow(local: SocketAddr, remote: SocketAddr, info: &TcpInfo) -> SubflowReport {
    SubflowReport {
        local,
        remote,
        srtt_us: (info.rtt_us > 0).then_some(info.rtt_us.into()),
        sent_bytes: info.bytes_sent,
        received_bytes: info.bytes_received,
        retransmitted_bytes: info.bytes_retrans,
    }
}

/// Returns the elements of an option that has one for each subflow, of `size` bytes each.
///
/// # Errors
/// If the socket is none of Multipath TCP, or has fallen back.
fn subflow_array(stream: &TcpStream, name: i32, size: usize, most: usize) -> io::Result<Vec<u8>> {
    let mut buffer = vec![0; SUBFLOW_DATA + most * size];
    buffer[0..4].copy_from_slice(&(SUBFLOW_DATA as u32).to_ne_bytes());
    buffer[12..16].copy_from_slice(&(size as u32).to_ne_bytes());
    socket_option(stream, SOL_MPTCP, name, &mut buffer)?;
    let count = u32::from_ne_bytes(buffer[4..8].try_into().unwrap_or_default()) as usize;
    buffer.truncate(SUBFLOW_DATA + count.min(most) * size);
    buffer.drain(..SUBFLOW_DATA);
    Ok(buffer)
}

/// Reads a `sockaddr`.
fn address(bytes: &[u8]) -> Option<SocketAddr> {
    let family = u16::from_ne_bytes(*bytes.first_chunk()?);
    let port = u16::from_be_bytes(bytes.get(2..4)?.try_into().ok()?);
    let ip = match i32::from(family) {
        libc::AF_INET => IpAddr::V4(Ipv4Addr::from(<[u8; 4]>::try_from(bytes.get(4..8)?).ok()?)),
        libc::AF_INET6 => IpAddr::V6(Ipv6Addr::from(<[u8; 16]>::try_from(bytes.get(8..24)?).ok()?)),
        _ => return None,
    };
    Some(SocketAddr::new(ip.to_canonical(), port))
}

impl AsyncRead for KernelLink {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for KernelLink {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, from: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, from)
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
