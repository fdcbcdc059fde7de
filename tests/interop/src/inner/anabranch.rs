//! Anabranch's side: a host with middleboxes, connected by the links of the emulator to a TUN device of the
//! kernel for each path.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anabranch_device::Device;
use anabranch_device::tun::{self, TunDevice, TunOptions};
use anabranch_emulate::{Engine, EngineOptions, Lane, PacketSocket, Port, Wiring};
use anabranch_middlebox::{
    AlterPayload, Chain, Coalesce, FilteredDevice, Reset, RewriteSequence, Split, StripFrom, StripMptcp,
    Switch,
};
use anabranch_net::{Host, MptcpListener, MptcpStream, Notice};
use anabranch_stack::config::{self, ConnectionConfig};
use anabranch_stack::event::CloseReason;
use anabranch_stack::path_manager::PathManagerKind;
use anabranch_stack::stats::{ConnectionStats, SubflowStats};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::mpsc::{self, UnboundedReceiver};

use super::{Ended, Meter, Report, namespace};
use crate::cell::{Cell, Checksums, Joins, Side, Situation};
use crate::content::{Content, Sum};
use crate::shape::{self, PORT};

/// Returns the seed of a side's content.
pub const fn seed(side: Side) -> u64 {
    match side {
        Side::Kernel => 1,
        Side::Anabranch => 2,
    }
}

/// Anabranch's host, and the controls of its paths.
pub struct Ours {
    pub host: Host,
    /// The switch of each path.
    pub switches: Vec<Switch>,
    pub resets: Vec<Reset>,
    altered: Arc<AtomicU64>,
    notices: UnboundedReceiver<Notice>,
    /// Moves packets while it lives.
    _engine: Option<Engine>,
}

/// Longer than the packets that the middleboxes make.
const MAX_PACKET: usize = 9216;

/// The default MTU of TUN devices.
const MTU: u32 = 1500;

/// Connects the kernel's device of path `at` with a socket, by a link in each direction.
fn join(cell: &Cell, at: usize, wiring: &mut Wiring) -> io::Result<PacketSocket> {
    let name = shape::device(at);
    let kernel = Port::new(tun::open(&name).map_err(io::Error::other)?)?;
    let (port, socket) = PacketSocket::pair(MTU)?;
    let (from, to) = (wiring.ports.len(), wiring.ports.len() + 1);
    wiring.ports.extend([kernel, port]);
    for (direction, from, to) in [("in", from, to), ("out", to, from)] {
        wiring.lanes.push(Lane { from, to, links: vec![wiring.links.len()] });
        wiring.links.push((format!("{name}.{direction}"), shape::link(cell, at)));
    }
    Ok(socket)
}

/// Starts the host of `cell`.
pub fn start(cell: &Cell) -> Result<Ours, String> {
    let (sender, notices) = mpsc::unbounded_channel();
    let mut builder = Host::builder().notices(sender);
    let (mut switches, mut resets) = (Vec::new(), Vec::new());
    let altered = Arc::new(AtomicU64::new(0));
    let offload = cell.situation == Situation::Offload;
    let mut wiring =
        Wiring { links: Vec::new(), lanes: Vec::new(), middleboxes: Vec::new(), ports: Vec::new() };
    for at in 0..cell.paths.count() {
        let name = shape::device(at);
        let ip = shape::anabranch_ip(cell.family, at);
        let device: Box<dyn Device> = if offload {
            Box::new(TunDevice::attach(&name, TunOptions { offload }).map_err(|error| error.to_string())?)
        } else {
            let socket = join(cell, at, &mut wiring).map_err(|error| format!("{name}: {error}"))?;
            let (switch, reset) = (Switch::new(), Reset::new());
            let chain = Chain::new().then(switch.clone()).then(reset.clone());
            switches.push(switch);
            resets.push(reset);
            Box::new(FilteredDevice::new(socket, middlebox(cell, at, chain, &altered)))
        };
        builder = builder.device(device, &[ip]);
        if at > 0 && cell.situation == Situation::AnabranchBackup {
            builder = builder.backup(ip);
        }
    }
    let options = EngineOptions { max_packet: MAX_PACKET, ..EngineOptions::default() };
    let engine = match offload {
        true => None,
        false => Some(Engine::start(wiring, &options).map_err(|error| format!("the links: {error}"))?),
    };
    let host = builder.start().map_err(|error| format!("the host: {error}"))?;
    namespace::wait_for_devices(cell)?;
    Ok(Ours { host, switches, resets, altered, notices, _engine: engine })
}

fn middlebox(cell: &Cell, at: usize, chain: Chain, altered: &Arc<AtomicU64>) -> Chain {
    use Situation as S;
    match cell.situation {
        S::StripSyn => chain.then(StripMptcp::new(StripFrom::Syn)),
        S::StripSynAck => chain.then(StripMptcp::new(StripFrom::SynAck)),
        S::StripAfterSyns => chain.then(StripMptcp::new(StripFrom::AfterSyns)),
        S::StripData => chain.then(StripMptcp::new(StripFrom::Data)),
        S::RewriteSequence => {
            let shift = 0x7fff_0000_u32.wrapping_mul(at as u32 + 1);
            chain.then(RewriteSequence::new(shift, !shift))
        }
        S::Split => chain.then(Split::new(500)),
        S::Coalesce => chain.then(Coalesce::careful(9000)),
        S::LostHandshakes => chain.then(super::handshakes::Losses::new(cell)),
        S::AlterPayload if at == 1 => chain.then(AlterPayload::new(40, Arc::clone(altered))),
        _ => chain,
    }
}

/// Returns the configuration of the connections of `cell`.
pub fn config(cell: &Cell) -> ConnectionConfig {
    let announces = cell.situation != Situation::ServerJoins
        && matches!(cell.joins, Joins::KernelAnnounced | Joins::AnabranchOwn | Joins::AnabranchAnnounced);
    ConnectionConfig {
        path_manager: if announces { PathManagerKind::FullMesh } else { PathManagerKind::None },
        checksums: match cell.checksums {
            Checksums::Anabranch => config::Checksums::Required,
            Checksums::Off | Checksums::Kernel => config::Checksums::IfAsked,
        },
        ..ConnectionConfig::linux()
    }
}

impl Ours {
    pub fn listen(&self, cell: &Cell) -> Result<MptcpListener, String> {
        self.host.listen(PORT, config(cell), 8).map_err(|error| format!("listen: {error}"))
    }

    pub async fn connect(&self, cell: &Cell) -> io::Result<MptcpStream> {
        let there = SocketAddr::new(shape::kernel_ip(cell.family, 0), PORT);
        self.host.connect(there, config(cell)).await
    }

    /// Returns the end of the connection, its counters and its subflows; none if it has not ended within
    /// `patience`.
    pub async fn ending(
        &mut self,
        patience: Duration,
    ) -> Option<(CloseReason, ConnectionStats, Vec<SubflowStats>)> {
        let closed = async {
            loop {
                if let Notice::Closed(report) = self.notices.recv().await? {
                    return Some((report.reason, report.stats, report.subflows));
                }
            }
        };
        tokio::time::timeout(patience, closed).await.ok().flatten()
    }

    /// Returns the number of segments that a middlebox has changed.
    pub fn changed(&self) -> u64 {
        self.altered.load(Ordering::Relaxed)
    }
}

fn ended(error: &io::Error) -> Ended {
    Ended::Error(error.kind(), error.to_string())
}

/// Runs anabranch's side of `cell` to its end.
pub async fn transfer(cell: &Cell, stream: MptcpStream, meter: &Meter) -> Report {
    let patience = shape::patience(cell);
    let answers = cell.situation == Situation::HalfClose && cell.client == Side::Kernel;
    let (mut reader, mut writer) = stream.into_split();
    let receive = async {
        let mut sum = Sum::default();
        let mut buffer = vec![0; 1 << 16];
        let read = loop {
            match tokio::time::timeout(patience, reader.read(&mut buffer)).await {
                Ok(Ok(0)) => break Ended::Eof,
                Ok(Ok(n)) => {
                    sum.add(&buffer[..n]);
                    meter.count(Side::Anabranch, n);
                }
                Ok(Err(error)) => break ended(&error),
                Err(_) => break Ended::Error(io::ErrorKind::TimedOut, "nothing came".to_owned()),
            }
        };
        (sum, read)
    };
    let send = async {
        if !cell.sends(Side::Anabranch) {
            return Ended::Eof;
        }
        let mut content = Content::new(seed(Side::Anabranch), cell.load.bytes());
        let mut buffer = vec![0; 1 << 16];
        let n = content.next(&mut buffer[..1]);
        let mut result = writer.write_all(&buffer[..n]).await;
        while !meter.gate_is_open() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        while content.left() > 0 && result.is_ok() {
            let n = content.next(&mut buffer);
            let write = tokio::time::timeout(patience, writer.write_all(&buffer[..n])).await;
            result = write.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
        }
        match result.and(writer.shutdown().await) {
            Ok(()) => Ended::Eof,
            Err(error) => ended(&error),
        }
    };
    let ((sum, read), written) = if answers {
        let received = receive.await;
        (received, send.await)
    } else {
        tokio::join!(receive, send)
    };
    Report { received: sum.len(), digest: sum.digest(), read, written }
}
