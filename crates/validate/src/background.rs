//! Background flows of the kernel's TCP that fill a path and are not measured.

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::thread::Scope;
use std::time::Duration;

use anabranch_emulate::{Emulation, Role};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use socket2::{Protocol, Socket};

use crate::kernel::{CHUNK, PORT, REQUEST, Shared, is_timeout, server};
use crate::points::Point;
use crate::results::Trouble;
use crate::socket::{LOOK, bound};

/// The longest duration of a handshake.
const CONNECT: Duration = Duration::from_secs(20);

/// One flow: its client's socket, the address of the server, and its start relative to the links'.
struct Cross {
    client: Socket,
    there: SocketAddr,
    start: Duration,
}

/// The background flows, and the listening sockets of their servers.
pub(crate) struct Background {
    flows: Vec<Cross>,
    listeners: Vec<(Socket, usize)>,
}

impl Background {
    /// Makes the sockets of the background flows of `point` on the hosts that the kernel has, `roles`.
    ///
    /// # Errors
    /// If the system does not provide them.
    pub(crate) fn open(point: &Point, emulation: &Emulation, roles: &[Role]) -> Result<Background, Trouble> {
        let mut all = Background { flows: Vec::new(), listeners: Vec::new() };
        let addresses = emulation.addresses();
        for (group, own) in point.experiment().traffic.background.iter().enumerate() {
            let port = PORT + 1 + group as u16;
            let at = |role, port| SocketAddr::new(addresses.of(role, own.path), port);
            let mut there = at(Role::Server, port);
            if roles.contains(&Role::Server) {
                let listener = emulation.namespace(Role::Server).run(|| {
                    let socket = bound(Protocol::TCP, point.background, there)?;
                    socket.listen(own.flows as i32)?;
                    std::io::Result::Ok(socket)
                })??;
                all.listeners.push((listener, own.flows as usize));
            } else {
                // Another stack has one address.
                there.set_ip(server(point, emulation).ip());
            }
            for _ in 0..if roles.contains(&Role::Client) { own.flows } else { 0 } {
                let client = emulation
                    .namespace(Role::Client)
                    .run(|| bound(Protocol::TCP, point.background, at(Role::Client, 0)))??;
                all.flows.push(Cross { client, there, start: Duration::from_nanos(own.start.0) });
            }
        }
        Ok(all)
    }

    /// Starts the flows, each at its time. They run until the run is over.
    pub(crate) fn start<'scope>(self, scope: &'scope Scope<'scope, '_>, shared: &'scope Shared<'scope>) {
        let download = shared.point.is_download();
        for Cross { client, there, start } in self.flows {
            scope.spawn(move || {
                let in_time = shared.wait(shared.begun + start);
                if !in_time || client.connect_timeout(&there.into(), CONNECT).is_err() {
                    return;
                }
                match download {
                    true => drop((&client).write_all(&[0; REQUEST]).map(|()| receive(shared, &client))),
                    false => send(shared, &client),
                }
                let _ = client.set_linger(Some(Duration::ZERO));
            });
        }
        for (listener, count) in self.listeners {
            scope.spawn(move || {
                let mut accepted = 0;
                let look = Timespec { tv_sec: 0, tv_nsec: LOOK.as_nanos() as _ };
                while accepted < count && !shared.is_done() {
                    if poll(&mut [PollFd::new(&listener, PollFlags::IN)], Some(&look)) != Ok(1) {
                        continue;
                    }
                    let Ok((socket, _)) = listener.accept() else { return };
                    accepted += 1;
                    scope.spawn(move || {
                        let limited = socket
                            .set_read_timeout(Some(LOOK))
                            .and_then(|()| socket.set_write_timeout(Some(LOOK)));
                        if limited.is_ok() {
                            if download { send(shared, &socket) } else { receive(shared, &socket) }
                        }
                        let _ = socket.set_linger(Some(Duration::ZERO));
                    });
                }
            });
        }
    }
}

/// Writes until the run is over.
fn send(shared: &Shared<'_>, mut socket: &Socket) {
    let chunk = vec![0; CHUNK];
    if shared.note_sender(socket).is_err() {
        return;
    }
    while !shared.is_done() {
        match socket.write(&chunk) {
            Ok(_) => {}
            Err(error) if is_timeout(&error) => {}
            Err(_) => return,
        }
    }
}

/// Reads until the run is over.
fn receive(shared: &Shared<'_>, mut socket: &Socket) {
    let mut chunk = vec![0; CHUNK];
    while !shared.is_done() {
        match socket.read(&mut chunk) {
            Ok(0) => return,
            Ok(_) => {}
            Err(error) if is_timeout(&error) => {}
            Err(_) => return,
        }
    }
}
