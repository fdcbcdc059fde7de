//! The kernel's Multipath TCP: sockets of `IPPROTO_MPTCP`. Needs no privilege.

use std::io::{self, IoSlice};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use anabranch_kernel::diag::TcpInfo;
use anabranch_kernel::socket;
use anabranch_scenario::policy::proxy::{Budget, Multipath, Treatment};
use socket2::{Domain, Protocol, Socket, Type};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::time::timeout;

use super::{Accept, Link, LinkReport, Stream, SubflowReport, Transport};
use crate::destinations::Destinations;
use crate::now_ms;
use crate::passed;
use crate::paths::{FirstPath, Paths, set_budgets};
use crate::status::lock;

/// The number of connections that may wait to be accepted.
const BACKLOG: i32 = 4096;
/// The time for a connection on the path that the memory has chosen. Two lost SYNs are within it.
const PATIENCE: Duration = Duration::from_secs(4);

/// The kernel's Multipath TCP, or its TCP where it has no other. Clones share what they know of destinations.
#[derive(Clone, Debug)]
pub struct Kernel {
    mptcp: bool,
    /// Addresses that have answered, with and without Multipath TCP; for destinations.
    known: Option<Arc<Mutex<Destinations<SocketAddr>>>>,
    congestion: Option<String>,
    paths: Option<Paths>,
}

impl Kernel {
    /// Returns the transport; with a remark if this kernel has plain TCP only.
    pub fn open() -> (Kernel, Option<String>) {
        let probe = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::MPTCP));
        let kernel = Kernel { mptcp: probe.is_ok(), known: None, congestion: None, paths: None };
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
        Kernel { mptcp: false, known: None, congestion: None, paths: None }
    }

    /// Sets the congestion control of connections that have no other by their treatment.
    pub fn with_congestion(self, congestion: Option<String>) -> Kernel {
        Kernel { congestion, ..self }
    }

    /// Returns the transport for destinations. It remembers for a day which addresses have answered without Multipath TCP, and dials
    /// those with sockets of plain TCP: sockets of Multipath TCP are slower after their fallback too, and have no `splice` without a copy.
    /// It also dials addresses of this host with plain TCP. They have one path, and Linux often sends no DATA_ACK for data that arrives
    /// during a read, as it does on the loopback device: a sender with a full window then waits for its retransmission timer, about 200 ms.
    #[must_use]
    pub fn for_destinations(self) -> Kernel {
        Kernel { known: Some(Arc::default()), ..self }
    }

    /// Lets connections begin on the best path of this memory.
    pub fn with_paths(self, paths: Option<Paths>) -> Kernel {
        Kernel { paths, ..self }
    }

    /// True if connections can be Multipath TCP.
    pub fn has_mptcp(&self) -> bool {
        self.mptcp
    }

    /// True if a connection to this address is Multipath TCP, or may be.
    fn tries_mptcp(&self, to: SocketAddr, how: &Treatment) -> bool {
        let is_worth_it = |known: &Arc<Mutex<Destinations<SocketAddr>>>| {
            let has = lock(known).has_mptcp(now_ms(), &to);
            has != Some(false) && !is_of_this_host(to.ip())
        };
        match how.multipath {
            Multipath::Remember => self.mptcp && self.known.as_ref().is_none_or(is_worth_it),
            Multipath::Always => self.mptcp,
            Multipath::Never => false,
        }
    }

    /// Returns the connection with this peer, and remembers whether it is Multipath TCP.
    fn linked(&self, stream: TcpStream, to: SocketAddr, mptcp: bool) -> KernelLink {
        let link = KernelLink::new(stream, mptcp);
        if mptcp && let Some(known) = &self.known {
            lock(known).note(now_ms(), &to, link.is_mptcp());
        }
        link
    }

    fn socket(at: SocketAddr, mptcp: bool) -> io::Result<Socket> {
        let protocol = if mptcp { Protocol::MPTCP } else { Protocol::TCP };
        let socket =
            Socket::new(Domain::for_address(at), Type::STREAM.nonblocking().cloexec(), Some(protocol))?;
        socket.set_tcp_nodelay(true)?;
        Ok(socket)
    }

    fn outgoing(&self, to: SocketAddr, mptcp: bool, how: &Treatment) -> io::Result<Socket> {
        let socket = Kernel::socket(to, mptcp)?;
        if let Some(congestion) = how.congestion.as_ref().or(self.congestion.as_ref()) {
            socket.set_tcp_congestion(congestion.as_bytes())?;
        }
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
        if how.path_manager.is_some() {
            return Err(
                "the kernel's path manager opens the subflows, so `path-manager` needs --transport anabranch"
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

    fn set_budgets(&self, budgets: &[Budget]) -> Result<(), String> {
        set_budgets(self.paths.as_ref(), budgets)
    }

    async fn dial(&self, to: SocketAddr, how: &Treatment) -> io::Result<KernelLink> {
        let mptcp = self.tries_mptcp(to, how);
        let paths = self.paths.as_ref().filter(|_| !to.ip().is_loopback());
        let first = paths.map_or(FirstPath::Any, |paths| paths.first_path(to.ip(), how.receives));
        let is_limited = matches!(first, FirstPath::Only { .. });
        let (tried, mptcp) = match first {
            FirstPath::Any => (Vec::new(), mptcp),
            FirstPath::Best(interface, source) => (vec![(interface, source)], mptcp),
            FirstPath::Only { paths, single } => (paths, mptcp && !single),
            FirstPath::Spent => {
                let text = "the budgets of all paths to this destination are spent";
                return Err(io::Error::new(io::ErrorKind::AddrNotAvailable, text));
            }
        };
        let mut failure = None;
        for (interface, source) in tried {
            let socket = self.outgoing(to, mptcp, how)?;
            let connecting = async {
                // Both fail if the interface or its address has gone since.
                socket.bind_device(Some(interface.as_bytes()))?;
                socket.bind(&SocketAddr::new(source, 0).into())?;
                TcpSocket::from_std_stream(socket.into()).connect(to).await
            };
            failure = match timeout(PATIENCE, connecting).await {
                Ok(Ok(stream)) => return Ok(self.linked(stream, to, mptcp)),
                // The peer has answered, so the path works.
                Ok(Err(error)) if error.kind() == io::ErrorKind::ConnectionRefused => return Err(error),
                // The path may have failed since.
                Ok(Err(error)) => Some(error),
                Err(_) => Some(io::ErrorKind::TimedOut.into()),
            };
            if let Some(paths) = paths {
                paths.forget(&interface, to.ip());
            }
        }
        if let Some(failure) = failure.filter(|_| is_limited) {
            return Err(failure);
        }
        // The system chooses.
        let socket = self.outgoing(to, mptcp, how)?;
        let stream = TcpSocket::from_std_stream(socket.into()).connect(to).await?;
        Ok(self.linked(stream, to, mptcp))
    }

    fn listen(&self, at: SocketAddr) -> io::Result<KernelListener> {
        let socket = Kernel::socket(at, self.mptcp)?;
        socket.set_reuse_address(true)?;
        if at.is_ipv6() {
            socket.set_only_v6(!at.ip().is_unspecified())?;
        }
        socket.bind(&at.into())?;
        socket.listen(BACKLOG)?;
        let listener = TcpListener::from_std(socket.into())?;
        Ok(KernelListener { listener, mptcp: self.mptcp })
    }

    fn adopt(&self, socket: std::net::TcpListener) -> io::Result<KernelListener> {
        let mptcp = passed::is_mptcp(&socket);
        Ok(KernelListener { listener: TcpListener::from_std(socket)?, mptcp })
    }
}

/// True if this host has the address: its own datagrams to it would come from it. None is sent.
pub(crate) fn is_of_this_host(ip: IpAddr) -> bool {
    let any = if ip.is_ipv4() { IpAddr::from([0; 4]) } else { IpAddr::from([0; 16]) };
    let source = UdpSocket::bind((any, 0)).and_then(|socket| {
        socket.connect((ip, 9))?;
        socket.local_addr()
    });
    ip.is_loopback() || source.is_ok_and(|source| source.ip() == ip)
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
        Ok((KernelLink::new(stream, self.mptcp), peer))
    }
}

/// A connection of the kernel.
#[derive(Debug)]
pub struct KernelLink {
    stream: TcpStream,
    mptcp: bool,
    /// The subflows of the reports so far: the kernel forgets those that have ended, and the addresses of plain TCP that has.
    seen: Mutex<Vec<SubflowReport>>,
}

/// The most subflows of a connection in a report. Of those that have ended, the last ones are kept.
const MOST_SUBFLOWS: usize = 64;

impl KernelLink {
    fn new(stream: TcpStream, mptcp: bool) -> KernelLink {
        KernelLink { stream, mptcp, seen: Mutex::default() }
    }

    /// Returns the present subflows, and the subflows of earlier reports that have ended since.
    fn with_ended(&self, mut now: Vec<SubflowReport>) -> Vec<SubflowReport> {
        // The first subflow has lost its addresses and its counters when it has ended.
        now.retain(|subflow| !subflow.local.ip().is_unspecified());
        let mut seen = lock(&self.seen);
        let ends = |subflow: &SubflowReport| (subflow.local, subflow.remote);
        seen.retain(|old| !now.iter().any(|subflow| ends(subflow) == ends(old)));
        for old in seen.iter_mut() {
            // They have no values of this moment.
            (old.srtt_us, old.variation_us, old.rate_bps) = (None, None, None);
        }
        seen.extend(now);
        let over = seen.len().saturating_sub(MOST_SUBFLOWS);
        seen.drain(..over);
        seen.clone()
    }

    /// Returns the local and the remote address.
    pub(crate) fn ends(&self) -> io::Result<(SocketAddr, SocketAddr)> {
        Ok((self.stream.local_addr()?, self.stream.peer_addr()?))
    }

    /// True if it is Multipath TCP now.
    pub(crate) fn is_mptcp(&self) -> bool {
        self.mptcp && socket::is_multipath(&self.stream)
    }
}

impl Stream for KernelLink {
    fn socket(&self) -> Option<&TcpStream> {
        Some(&self.stream)
    }

    fn note_paths(&self) {
        // A report keeps them.
        let _ = self.report();
    }
}

impl Link for KernelLink {
    fn reset(self) {
        // A failure leaves an orderly end.
        let _ = socket2::SockRef::from(&self.stream).set_linger(Some(Duration::ZERO));
    }

    fn report(&self) -> LinkReport {
        if self.mptcp
            && let Ok(Some(all)) = socket::subflows(&self.stream)
        {
            let subflows = all.iter().map(|(local, remote, info)| subflow(*local, *remote, info));
            return LinkReport { mptcp: true, subflows: self.with_ended(subflows.collect()) };
        }
        let ends = self.ends().ok();
        let ends = ends.or_else(|| lock(&self.seen).last().map(|subflow| (subflow.local, subflow.remote)));
        let subflows = match (socket::tcp_info(&self.stream), ends) {
            (Ok(info), Some((local, remote))) => vec![subflow(canonical(local), canonical(remote), &info)],
            _ => Vec::new(),
        };
        LinkReport { mptcp: false, subflows: self.with_ended(subflows) }
    }
}

/// Returns the address of IPv4 inside of one of IPv6, as a socket for both has it: the name of the path.
fn canonical(end: SocketAddr) -> SocketAddr {
    SocketAddr::new(end.ip().to_canonical(), end.port())
}

fn subflow(local: SocketAddr, remote: SocketAddr, info: &TcpInfo) -> SubflowReport {
    SubflowReport {
        local,
        remote,
        srtt_us: (info.rtt_us > 0).then_some(info.rtt_us.into()),
        variation_us: (info.rtt_us > 0).then_some(info.rttvar_us.into()),
        rate_bps: info.rate_bps().map(|rate| rate as u64),
        sent_bytes: info.bytes_sent,
        received_bytes: info.bytes_received,
        retransmitted_bytes: info.bytes_retrans,
    }
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

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_subflow_that_has_ended_keeps_its_bytes_in_the_report() {
        let (kernel, _) = Kernel::open();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let link = kernel.dial(listener.local_addr().unwrap(), &Treatment::default()).await.unwrap();
        let of = |port: u16, sent_bytes| SubflowReport {
            local: SocketAddr::from(([127, 0, 0, 1], port)),
            sent_bytes,
            srtt_us: Some(1000),
            ..subflow(SocketAddr::from(([0; 4], 0)), SocketAddr::from(([0; 4], 0)), &TcpInfo::default())
        };
        assert_eq!(link.with_ended(vec![of(1, 10), of(2, 5)]).len(), 2);
        let after = link.with_ended(vec![of(2, 7), of(3, 1)]);
        let rows: Vec<_> = after.iter().map(|row| (row.local.port(), row.sent_bytes, row.srtt_us)).collect();
        assert_eq!(rows, [(1, 10, None), (2, 7, Some(1000)), (3, 1, Some(1000))]);
        for port in 4..200 {
            link.with_ended(vec![of(port, 1)]);
        }
        assert_eq!(link.with_ended(Vec::new()).len(), MOST_SUBFLOWS);
        let ended = SubflowReport { local: SocketAddr::from(([0; 4], 9)), ..of(9, 0) };
        assert!(!link.with_ended(vec![ended]).contains(&ended), "it has no address any more");
    }

    #[tokio::test]
    async fn plain_tcp_keeps_its_path_and_its_bytes_after_its_end() {
        use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
        let kernel = Kernel::plain_tcp();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut link = kernel.dial(listener.local_addr().unwrap(), &Treatment::default()).await.unwrap();
        let (mut far, _) = listener.accept().await.unwrap();
        link.write_all(b"hello").await.unwrap();
        far.read_exact(&mut [0; 5]).await.unwrap();
        far.write_all(b"to you").await.unwrap();
        drop(far);
        link.note_paths();
        link.read_to_end(&mut Vec::new()).await.unwrap();
        link.shutdown().await.unwrap();
        while link.stream.peer_addr().is_ok() {
            tokio::task::yield_now().await;
        }
        let report = link.report();
        let [path] = report.subflows[..] else { panic!("{report:?}") };
        assert!(
            path.local.ip().is_loopback() && path.sent_bytes >= 5 && path.received_bytes >= 6,
            "{path:?}"
        );
    }

    #[tokio::test]
    async fn a_path_of_ipv4_has_one_name_also_at_a_listener_for_both_families() {
        let kernel = Kernel::plain_tcp();
        // A host without IPv6 has no such listener.
        let Ok(mut listener) = kernel.listen("[::]:0".parse().unwrap()) else { return };
        let to = SocketAddr::from(([127, 0, 0, 1], listener.local_address().unwrap().port()));
        let (near, far) = tokio::join!(TcpStream::connect(to), listener.accept());
        let report = far.unwrap().0.report();
        assert_eq!(
            (report.subflows[0].local, report.subflows[0].remote),
            (to, near.unwrap().local_addr().unwrap())
        );
    }

    #[tokio::test]
    async fn a_destination_without_multipath_tcp_is_dialled_with_plain_tcp_the_next_time() {
        let (kernel, _) = Kernel::open();
        let kernel = kernel.for_destinations();
        // A clone knows it too.
        let tries = |to: &str, multipath| {
            kernel.clone().tries_mptcp(to.parse().unwrap(), &Treatment { multipath, ..Treatment::default() })
        };
        let note = |to: &str, mptcp| {
            lock(kernel.known.as_ref().unwrap()).note(now_ms(), &to.parse().unwrap(), mptcp);
        };
        let best = kernel.has_mptcp();
        let (without, with) = ("203.0.113.1:80", "203.0.113.2:80");
        assert_eq!(tries(without, Multipath::Remember), best);
        note(without, false);
        note(with, true);
        assert!(!tries(without, Multipath::Remember));
        assert_eq!(tries(without, Multipath::Always), best);
        assert_eq!(tries(with, Multipath::Remember), best);
        assert!(!tries(with, Multipath::Never));
    }

    #[tokio::test]
    async fn a_destination_on_this_host_is_dialled_with_plain_tcp() {
        let (kernel, _) = Kernel::open();
        let listener = kernel.listen("127.0.0.1:0".parse().unwrap()).unwrap();
        let at = listener.local_address().unwrap();
        let protocol = async |kernel: &Kernel, multipath| {
            let how = Treatment { multipath, ..Treatment::default() };
            let link = kernel.dial(at, &how).await.unwrap();
            socket2::SockRef::from(&link.stream).protocol().unwrap().unwrap()
        };
        let best = if kernel.has_mptcp() { Protocol::MPTCP } else { Protocol::TCP };
        let destinations = kernel.clone().for_destinations();
        assert_eq!(protocol(&destinations, Multipath::Remember).await, Protocol::TCP);
        assert_eq!(protocol(&destinations, Multipath::Always).await, best);
        // A server side that a test has on this host.
        assert_eq!(protocol(&kernel, Multipath::Remember).await, best);
    }

    #[test]
    fn addresses_of_this_host_are_known() {
        for (ip, own) in [("127.0.0.1", true), ("127.8.7.6", true), ("203.0.113.1", false), ("::1", true)] {
            assert_eq!(is_of_this_host(ip.parse().unwrap()), own, "{ip}");
        }
    }
}
