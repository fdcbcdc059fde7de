//! The kernel's side: a program with an ordinary blocking socket of `IPPROTO_MPTCP`.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::time::{Duration, Instant};

use socket2::{Domain, Protocol, Socket, Type};

use super::{Ended, Meter, Report};
use crate::cell::{Cell, Family, Side, Situation};
use crate::content::{Content, Sum};
use crate::shape::{self, PORT};

/// Returns an MPTCP socket with timeouts.
pub fn socket(cell: &Cell) -> Result<Socket, String> {
    let domain = if cell.family == Family::V4 { Domain::IPV4 } else { Domain::IPV6 };
    let text = |what: &str, error: std::io::Error| format!("the kernel's socket: {what}: {error}");
    let socket = Socket::new(domain, Type::STREAM, Some(Protocol::MPTCP)).map_err(|e| text("socket", e))?;
    let patience = Some(shape::patience(cell));
    socket.set_read_timeout(patience).map_err(|e| text("timeout", e))?;
    socket.set_write_timeout(patience).map_err(|e| text("timeout", e))?;
    socket.set_reuse_address(true).map_err(|e| text("reuse", e))?;
    // Root may choose any available one.
    socket.set_tcp_congestion(b"cubic").map_err(|e| text("cubic", e))?;
    Ok(socket)
}

/// Returns a listening socket.
pub fn listen(cell: &Cell) -> Result<Socket, String> {
    listen_at(cell, PORT)
}

/// Returns a listening socket on another port.
pub fn listen_at(cell: &Cell, port: u16) -> Result<Socket, String> {
    let socket = socket(cell)?;
    let any = match cell.family {
        Family::V4 => std::net::IpAddr::from([0, 0, 0, 0]),
        Family::V6 => std::net::Ipv6Addr::UNSPECIFIED.into(),
    };
    socket.bind(&SocketAddr::new(any, port).into()).map_err(|error| format!("bind: {error}"))?;
    socket.listen(64).map_err(|error| format!("listen: {error}"))?;
    Ok(socket)
}

fn open(cell: &Cell, listener: Option<Socket>) -> Result<Socket, String> {
    match listener {
        Some(listener) => {
            let (socket, _) = listener.accept().map_err(|error| format!("the kernel's accept: {error}"))?;
            let patience = Some(shape::patience(cell));
            let _ = socket.set_read_timeout(patience);
            let _ = socket.set_write_timeout(patience);
            // The listener would be closed at the end of this function, and joins need it.
            core::mem::forget(listener);
            Ok(socket)
        }
        None => {
            let socket = socket(cell)?;
            let here = SocketAddr::new(shape::kernel_ip(cell.family, 0), 0);
            let there = SocketAddr::new(shape::anabranch_ip(cell.family, 0), PORT);
            socket.bind(&here.into()).map_err(|error| format!("bind: {error}"))?;
            socket
                .connect_timeout(&there.into(), shape::patience(cell))
                .map_err(|error| format!("the kernel's connect: {error}"))?;
            Ok(socket)
        }
    }
}

/// Runs the kernel's side of `cell` to its end.
pub fn run(cell: &Cell, listener: Option<Socket>, meter: &Meter) -> Report {
    let socket = match open(cell, listener) {
        Ok(socket) => socket,
        Err(failure) => {
            meter.fail(failure);
            return Report::default();
        }
    };
    let answers = cell.situation == Situation::HalfClose && cell.client == Side::Anabranch;
    let report = if answers {
        // First the request to its end, then the answer.
        let mut report = receive(cell, &socket, meter);
        report.written = send(cell, &socket, meter);
        report
    } else {
        std::thread::scope(|scope| {
            let sender = cell.sends(Side::Kernel).then(|| scope.spawn(|| send(cell, &socket, meter)));
            let mut report = receive(cell, &socket, meter);
            report.written = sender.map_or(Ended::Eof, |sender| sender.join().unwrap_or_default());
            report
        })
    };
    if meter.is_stopped() {
        // Linux sends MP_FASTCLOSE for a close that discards data.
        let _ = socket.set_linger(Some(Duration::ZERO));
    }
    report
}

fn ended(error: &std::io::Error) -> Ended {
    Ended::Error(error.kind(), error.to_string())
}

fn receive(cell: &Cell, mut socket: &Socket, meter: &Meter) -> Report {
    let mut sum = Sum::default();
    let mut buffer = vec![0; 1 << 16];
    let read = loop {
        if meter.is_stopped() {
            break Ended::Stopped;
        }
        match socket.read(&mut buffer) {
            Ok(0) => break Ended::Eof,
            Ok(n) => {
                sum.add(&buffer[..n]);
                meter.count(Side::Kernel, n);
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => break ended(&error),
        }
        let at = shape::happens_at(cell).filter(|_| cell.situation == Situation::KernelFastClose);
        if at.is_some_and(|at| sum.len() > at) {
            meter.stop();
        }
    };
    Report { received: sum.len(), digest: sum.digest(), read, written: Ended::Eof }
}

fn send(cell: &Cell, mut socket: &Socket, meter: &Meter) -> Ended {
    let mut content = Content::new(super::anabranch::seed(Side::Kernel), cell.load.bytes());
    let mut buffer = vec![0; 1 << 16];
    let n = content.next(&mut buffer[..1]);
    if let Err(error) = socket.write_all(&buffer[..n]) {
        return ended(&error);
    }
    let deadline = Instant::now() + shape::patience(cell);
    while !meter.gate_is_open() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(2));
    }
    let total = cell.load.bytes();
    while content.left() > 0 {
        let n = content.next(&mut buffer);
        if let Err(error) = socket.write_all(&buffer[..n]) {
            return ended(&error);
        }
        let at = shape::happens_at(cell).filter(|_| cell.situation == Situation::KernelFastClose);
        if at.is_some_and(|at| total - content.left() > at) {
            meter.stop();
            let _ = socket.shutdown(Shutdown::Read);
            return Ended::Stopped;
        }
    }
    match socket.shutdown(Shutdown::Write) {
        Ok(()) => Ended::Eof,
        Err(error) => ended(&error),
    }
}
