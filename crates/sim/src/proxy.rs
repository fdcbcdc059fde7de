//! TCP proxies: hosts that end the connections of clients, and open others to the servers in their place.
//!
//! A proxy answers a client with the address of the server, and reaches the server with the address of the client and a port of
//! its own. It knows no Multipath TCP: to it, the options are unknown and absent. It connects to the server once the
//! connection of the client is established, so that a client which refuses an answer without MP_JOIN leaves no trace at the
//! server. Data, the end of a stream and a reset go from one connection to the other; data waits in the receive buffer of the
//! one while the send buffer of the other is full. Both are connections of a Linux host with CUBIC.

use anabranch_stack::event::{CloseReason, ConnectionId, Event};
use anabranch_stack::segment::{Address, Flags, PathId};

use crate::network::HostId;
use crate::recorder::Recorder;
use crate::relays::Relay;
use crate::sim::{Host, Sim};

/// The bytes of IP and UDP headers of a datagram.
const fn headers(is_ipv4: bool) -> u32 {
    if is_ipv4 { 28 } else { 48 }
}

impl<R: Recorder> Sim<R> {
    /// Lets a proxy take the packet that has arrived, which is in the segment between pool and stack.
    #[cold]
    pub(crate) fn deliver_to_proxy(&mut self, host: u32, path: PathId) {
        let (now, segment) = (self.now, &mut self.segment);
        if segment.flags == Flags::default() {
            // It is a router for datagrams.
            let size = segment.payload_len + headers(segment.source.ip.is_ipv4());
            let path = self.path_of(HostId(host), self.segment.source.ip);
            self.fabric.send_sized(now, host, path, &self.segment, size);
            return;
        }
        let Host { stack, proxy: Some(relays), .. } = &mut self.hosts[host as usize] else { return };
        segment.options.mptcp = [None, None];
        segment.options.dss = None;
        let begins = segment.flags.has(Flags::SYN) && !segment.flags.has(Flags::ACK);
        if begins && relays.ports.insert(segment.destination.port) {
            stack.listen(segment.destination.port, relays.config.clone());
        }
        stack.handle_segment(now, path, segment, &mut self.placed);
        self.placed.clear();
        self.drain(host);
    }

    /// Processes an event of a proxy's connection.
    #[cold]
    pub(crate) fn on_proxy_event(&mut self, host: u32, id: ConnectionId, event: Event) {
        match event {
            Event::Accepted => self.connect_on(host, id),
            Event::Connected => {
                if let Some(end) = self.relay(host, id) {
                    end.is_open = true;
                }
                self.pass_on_to(host, id);
            }
            Event::Writable => self.pass_on_to(host, id),
            Event::Readable => self.pass_on(host, id),
            Event::PeerClosed => {
                if let Some(end) = self.relay(host, id) {
                    end.has_ended = true;
                }
                self.pass_on(host, id);
            }
            Event::Closed(reason) => {
                let now = self.now;
                let host = &mut self.hosts[host as usize];
                let ended = host.proxy.as_mut().and_then(|relays| relays.ends.remove(&id));
                if let Some(end) = ended.filter(|_| reason != CloseReason::Finished) {
                    host.stack.abort(now, end.other);
                }
            }
            Event::AllAcked | Event::SubflowUp(_) | Event::SubflowDown(_) => {}
        }
    }

    fn relay(&mut self, host: u32, id: ConnectionId) -> Option<&mut Relay> {
        self.hosts[host as usize].proxy.as_mut()?.ends.get_mut(&id)
    }

    /// Connects to the server for a client's connection that is established.
    fn connect_on(&mut self, host: u32, near: ConnectionId) {
        let now = self.now;
        let Host { stack, proxy: Some(relays), .. } = &mut self.hosts[host as usize] else { return };
        let ends: Option<(Address, Address)> =
            stack.subflow_stats(near).first().map(|subflow| (subflow.local, subflow.remote));
        let Some((server, client)) = ends else { return };
        match stack.connect(now, client.ip, server, relays.config.clone()) {
            Ok(far) => {
                let end = |other, is_open| Relay { other, is_open, has_ended: false };
                relays.ends.insert(near, end(far, true));
                relays.ends.insert(far, end(near, false));
            }
            Err(_) => stack.abort(now, near),
        }
    }

    /// Passes data on to a connection that has space.
    fn pass_on_to(&mut self, host: u32, id: ConnectionId) {
        if let Some(end) = self.relay(host, id) {
            let other = end.other;
            self.pass_on(host, other);
        }
    }

    /// Passes the data of a connection on to the other one, as much as it takes, and the end of the stream after all of it.
    fn pass_on(&mut self, host: u32, from: ConnectionId) {
        let now = self.now;
        let Host { stack, proxy: Some(relays), .. } = &mut self.hosts[host as usize] else { return };
        let Some(Relay { other, has_ended, .. }) = relays.ends.get(&from).copied() else { return };
        if !relays.ends.get(&other).is_some_and(|end| end.is_open) {
            return;
        }
        let ready = stack.readable(from);
        let taken = if ready > 0 { stack.write(now, other, ready).min(ready) } else { 0 };
        if taken > 0 {
            stack.consume(now, from, taken);
        }
        if has_ended && taken == ready {
            stack.close(now, other);
        }
    }
}
