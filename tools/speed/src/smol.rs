//! A client of `anabranch bench --server` whose TCP is that of smoltcp, over a TUN device.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::AsRawFd;

use smoltcp::iface::{Config, Interface, SocketHandle, SocketSet};
use smoltcp::phy::{Medium, TunTapInterface, wait};
use smoltcp::socket::tcp::{Socket, SocketBuffer, State};
use smoltcp::time::{Duration, Instant};
use smoltcp::wire::{HardwareAddress, IpAddress, IpCidr};

use crate::Error;

/// Send and receive buffer, in bytes.
const BUFFER: usize = 4 << 20;
/// The header of `anabranch bench`, its magic number, and what the server's direction ends with.
const HELLO: usize = 32;
const TRAILER: usize = 16;

struct Client {
    device: TunTapInterface,
    interface: Interface,
    sockets: SocketSet<'static>,
    handle: SocketHandle,
}

impl Client {
    fn connect(tun: &str, address: Ipv4Addr, server: SocketAddrV4) -> Result<Client, Error> {
        let mut device = TunTapInterface::new(tun, Medium::Ip)?;
        let mut config = Config::new(HardwareAddress::Ip);
        config.random_seed = u64::from(std::process::id());
        let mut interface = Interface::new(config, &mut device, Instant::now());
        interface.update_ip_addrs(|addresses| {
            let _ = addresses.push(IpCidr::new(IpAddress::Ipv4(address), 32));
        });
        interface.routes_mut().add_default_ipv4_route(*server.ip())?;
        let buffer = || SocketBuffer::new(vec![0; BUFFER]);
        let mut socket = Socket::new(buffer(), buffer());
        socket.set_nagle_enabled(false);
        let port = 49_152 + (std::process::id() % 16_000) as u16;
        let to = (IpAddress::Ipv4(*server.ip()), server.port());
        socket.connect(interface.context(), to, port).map_err(|error| format!("{error:?}"))?;
        let mut sockets = SocketSet::new(Vec::new());
        let handle = sockets.add(socket);
        Ok(Client { device, interface, sockets, handle })
    }

    fn socket(&mut self) -> &mut Socket<'static> {
        self.sockets.get_mut(self.handle)
    }

    fn poll(&mut self) {
        self.interface.poll(Instant::now(), &mut self.device, &mut self.sockets);
    }

    /// Sleeps until something comes or is due.
    fn wait(&mut self) -> Result<(), Error> {
        let now = Instant::now();
        let delay = self.interface.poll_delay(now, &self.sockets);
        let delay = delay.unwrap_or(Duration::from_millis(100)).min(Duration::from_millis(100));
        Ok(wait(self.device.as_raw_fd(), Some(delay))?)
    }
}

fn hello(mode: u8, seconds: f64) -> [u8; HELLO] {
    let mut bytes = [0; HELLO];
    bytes[..6].copy_from_slice(&[b'A', b'B', b'R', b'B', 1, mode]);
    bytes[8..16].copy_from_slice(&((seconds * 1e6) as u64).to_be_bytes());
    bytes
}

pub fn run(tun: &str, address: &str, server: &str, what: &str, amount: &str) -> Result<(), Error> {
    let mut client = Client::connect(tun, address.parse()?, server.parse()?)?;
    match what {
        "upload" => bulk(&mut client, 0, amount.parse()?),
        "download" => bulk(&mut client, 1, amount.parse()?),
        "ping" => ping(&mut client, amount.parse()?),
        _ => Err(format!("upload, download or ping, not `{what}`").into()),
    }
}

/// Sends (mode 0) or receives (mode 1) for so long, and prints what was moved.
fn bulk(client: &mut Client, mode: u8, seconds: f64) -> Result<(), Error> {
    let begun = Instant::now();
    let (mut said, mut received, mut tail) = (false, 0_u64, Vec::new());
    loop {
        client.poll();
        let over = (Instant::now() - begun).total_micros() as f64 >= seconds * 1e6;
        let socket = client.socket();
        if !said && socket.may_send() {
            socket.send_slice(&hello(mode, seconds)).map_err(|error| format!("{error:?}"))?;
            said = true;
            if mode == 1 {
                socket.close();
            }
        }
        if said && mode == 0 && socket.may_send() {
            if over {
                socket.close();
            } else {
                // Zeros, as `anabranch bench` sends.
                while socket.can_send() && socket.send(|room| (room.fill_len(), ())).is_ok() {}
            }
        }
        while socket.can_recv() {
            let taken = socket.recv(|bytes| {
                tail.extend_from_slice(&bytes[bytes.len().saturating_sub(TRAILER)..]);
                (bytes.len(), bytes.len())
            });
            received += taken.map_err(|error| format!("{error:?}"))? as u64;
            let keep = tail.len().saturating_sub(TRAILER);
            tail.drain(..keep);
        }
        if said && !socket.may_recv() && !socket.can_recv() {
            break;
        }
        client.wait()?;
    }
    let took = (Instant::now() - begun).total_micros() as f64 / 1e6;
    let report = tail.first_chunk::<8>().filter(|_| received >= TRAILER as u64);
    let said = report.map_or(0, |bytes| u64::from_be_bytes(*bytes));
    let moved = if mode == 0 { said } else { received - TRAILER as u64 };
    println!("{{\"bytes\": {moved}, \"duration_s\": {took}}}");
    Ok(())
}

trait FillLen {
    fn fill_len(self) -> usize;
}

impl FillLen for &mut [u8] {
    /// Fills it with zeros; how long it is.
    fn fill_len(self) -> usize {
        self.fill(0);
        self.len()
    }
}

/// So many round trips of one byte, one after the other.
fn ping(client: &mut Client, count: usize) -> Result<(), Error> {
    let mut times = Vec::with_capacity(count);
    let mut sent: Option<Instant> = None;
    let mut said = false;
    while times.len() < count {
        client.poll();
        let socket = client.socket();
        if socket.state() == State::Closed {
            return Err("the connection is gone".into());
        }
        if !said && socket.may_send() {
            socket.send_slice(&hello(3, 0.0)).map_err(|error| format!("{error:?}"))?;
            said = true;
        }
        if socket.can_recv() {
            let mut byte = [0];
            let _ = socket.recv_slice(&mut byte);
            times.extend(sent.take().map(|at| (Instant::now() - at).total_micros()));
        }
        if said && sent.is_none() && socket.can_send() {
            sent = Some(Instant::now());
            let _ = socket.send_slice(&[0]);
            client.poll();
        }
        client.wait()?;
    }
    times.sort_unstable();
    let at = |q: f64| times[((count as f64 * q).ceil() as usize).clamp(1, count) - 1] as f64 / 1e6;
    println!("{{\"ping_p50_s\": {}, \"ping_p99_s\": {}}}", at(0.5), at(0.99));
    Ok(())
}
