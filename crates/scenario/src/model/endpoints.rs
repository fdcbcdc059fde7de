//! The addresses of the server, and the endpoints and limits of both hosts, in the terms of `ip mptcp`.

use anabranch_stack::path_manager::{EndpointRole, EndpointRules};

use super::graph::{Path, Signal};

/// The addresses of the server, and the rules by which both hosts open subflows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoints {
    /// The addresses of the server, at least one.
    pub servers: Vec<ServerAddress>,
    /// The role of the client's address on each path.
    pub roles: Vec<EndpointRole>,
    /// The limits of the client.
    pub client: SubflowLimits,
    /// The limits of the server.
    pub server: SubflowLimits,
}

/// An address of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerAddress {
    /// Its name.
    pub name: String,
    /// The positions of the paths that lead to it. The first is the route of a connection whose local address is open.
    pub paths: Vec<usize>,
    /// True if the server announces it to clients that are connected to another address.
    pub signal: bool,
    /// True if the server asks for subflows to it to be backups.
    pub backup: bool,
    /// The times at which the server removes the address, and adds it again.
    pub signals: Vec<Signal>,
}

/// The limits of `ip mptcp limits`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SubflowLimits {
    /// The most subflows of a connection besides the first.
    pub subflows: u8,
    /// The most announced addresses that are taken up.
    pub add_addr_accepted: u8,
}

impl SubflowLimits {
    /// The largest values.
    pub const MOST: u8 = 8;
}

impl Default for SubflowLimits {
    fn default() -> SubflowLimits {
        SubflowLimits { subflows: SubflowLimits::MOST, add_addr_accepted: SubflowLimits::MOST }
    }
}

impl Endpoints {
    /// Returns the position of the address to which a client connects over the path at `path`: the first that the path
    /// leads to.
    pub fn server_on(&self, path: usize) -> usize {
        self.servers.iter().position(|address| address.paths.contains(&path)).unwrap_or(0)
    }

    /// True if the path leads to that address.
    pub fn leads(&self, path: usize, server: usize) -> bool {
        self.servers.get(server).is_some_and(|address| address.paths.contains(&path))
    }

    /// Returns the position of the path by which the client's routing table reaches that address; the first path if
    /// none leads there.
    pub fn route(&self, server: usize) -> usize {
        self.servers[server].paths.first().copied().unwrap_or(0)
    }

    /// Removes the path at `path`; the later ones move up.
    pub fn remove_path(&mut self, path: usize) {
        if path < self.roles.len() {
            self.roles.remove(path);
        }
        for address in &mut self.servers {
            address.paths.retain(|own| *own != path);
            address.paths.iter_mut().for_each(|own| *own -= usize::from(*own > path));
        }
    }

    /// Returns the rules of the client's path manager.
    pub fn client_rules(&self) -> EndpointRules {
        EndpointRules {
            roles: self.roles.clone(),
            subflows: self.client.subflows,
            add_addr_accepted: self.client.add_addr_accepted,
            routes: (0..self.servers.len()).map(|server| self.route(server) as u8).collect(),
        }
    }

    /// Returns the rules of the server's path manager.
    pub fn server_rules(&self) -> EndpointRules {
        let role = |address: &ServerAddress| match address.signal {
            true => EndpointRole::Signal,
            false => EndpointRole::None,
        };
        EndpointRules {
            roles: self.servers.iter().map(role).collect(),
            subflows: self.server.subflows,
            add_addr_accepted: self.server.add_addr_accepted,
            routes: Vec::new(),
        }
    }

    /// Describes the addresses of the server and the limits, a line each.
    pub fn remarks(&self, paths: &[Path]) -> Vec<String> {
        let mut lines = Vec::new();
        for address in &self.servers {
            let named: Vec<&str> = address.paths.iter().map(|path| paths[*path].name.as_str()).collect();
            let over = match named.is_empty() {
                true => "unreachable".to_owned(),
                false => format!("over {}", crate::text::reader::list(&named)),
            };
            let flags = [(address.signal, "signal"), (address.backup, "backup")];
            let flags = flags.iter().filter(|(has, _)| *has).map(|(_, flag)| format!(", {flag}"));
            let change = |signal: &Signal| {
                let what = if signal.up { "added" } else { "removed" };
                format!(", {what} at {} s", signal.at.as_secs_f64())
            };
            let changes = address.signals.iter().map(change);
            let more: String = flags.chain(changes).collect();
            lines.push(format!("server address {}: {over}{more}", address.name));
        }
        for (host, limits) in [("client", self.client), ("server", self.server)] {
            if limits != SubflowLimits::default() {
                let SubflowLimits { subflows, add_addr_accepted } = limits;
                lines.push(format!(
                    "{host}: at most {subflows} subflows besides the first, {add_addr_accepted} announced addresses"
                ));
            }
        }
        lines
    }

    /// Returns the changes of the server's addresses, each with the position of its address, in the order of their times.
    pub fn signals(&self) -> Vec<(usize, Signal)> {
        let of = |(at, address): (usize, &ServerAddress)| {
            address.signals.iter().map(move |signal| (at, *signal)).collect::<Vec<_>>()
        };
        let mut all: Vec<(usize, Signal)> = self.servers.iter().enumerate().flat_map(of).collect();
        all.sort_by_key(|(at, signal)| (signal.at, *at));
        all
    }
}
