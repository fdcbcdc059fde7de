//! Commands to the path manager, its endpoints and limits.

use std::net::{IpAddr, SocketAddr};

use super::numbers::{address, attribute, command};
use super::{Token, canonical};
use crate::error::KernelError;
use crate::netlink::attributes::{Writer, each, ipv4_of, ipv6_of, u8_of, u16_of, u32_of};

/// The flags of an endpoint (`MPTCP_PM_ADDR_FLAG_*`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EndpointFlags(pub u32);

impl EndpointFlags {
    /// The address is announced to peers.
    pub const SIGNAL: EndpointFlags = EndpointFlags(1);
    /// Subflows are opened from the address.
    pub const SUBFLOW: EndpointFlags = EndpointFlags(1 << 1);
    /// Its subflows are backups.
    pub const BACKUP: EndpointFlags = EndpointFlags(1 << 2);
    /// Subflows are opened to all addresses of the peer.
    pub const FULLMESH: EndpointFlags = EndpointFlags(1 << 3);

    /// True if all flags of `other` are set.
    pub fn has(self, other: EndpointFlags) -> bool {
        self.0 & other.0 == other.0
    }
}

/// An endpoint of the in-kernel path manager.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// The local address, from which subflows start or which is announced.
    pub address: IpAddr,
    /// Its port; 0 for the port of the connection.
    pub port: u16,
    /// Its address identifier; 0 to let the kernel choose one.
    pub id: u8,
    /// The uses of the address, such as `signal` and `backup`.
    pub flags: EndpointFlags,
    /// Its interface; 0 for any.
    pub interface: u32,
}

/// The limits of the in-kernel path manager.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// The number of announced addresses that a connection accepts.
    pub add_addr_accepted: u32,
    /// The number of subflows of a connection without the initial one.
    pub subflows: u32,
}

/// A subflow by its addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Subflow {
    /// The address and port of this host.
    pub local: SocketAddr,
    /// The address and port of the peer.
    pub remote: SocketAddr,
}

/// A command to the path manager. Those with a token are for connections of the user-space path manager.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Adds an endpoint, which also applies to existing connections of the in-kernel path manager.
    AddEndpoint(Endpoint),
    /// Removes the endpoint with this identifier.
    RemoveEndpoint(u8),
    /// Removes all endpoints.
    FlushEndpoints,
    /// Changes the flags of an endpoint, found by its address.
    SetEndpointFlags(Endpoint),
    /// Sets the greatest numbers of subflows and of accepted addresses.
    SetLimits(Limits),
    /// Announces an address to the peer (ADD_ADDR).
    Announce {
        /// The connection.
        token: Token,
        /// The address of this host to which the peer may connect.
        address: IpAddr,
        /// Its identifier, not 0.
        id: u8,
    },
    /// Withdraws an address (REMOVE_ADDR).
    Remove {
        /// The connection.
        token: Token,
        /// The identifier of the address.
        id: u8,
    },
    /// Opens a subflow (MP_JOIN).
    Create {
        /// The connection.
        token: Token,
        /// The address of this host.
        local: IpAddr,
        /// The identifier of this address, not 0.
        id: u8,
        /// The interface to send from; 0 for any.
        interface: u32,
        /// True if it joins as a backup.
        backup: bool,
        /// The address and port of the peer.
        remote: SocketAddr,
    },
    /// Closes a subflow.
    Destroy {
        /// The connection.
        token: Token,
        /// The addresses and ports of the subflow to close.
        subflow: Subflow,
    },
    /// Makes a subflow a backup or not, in both directions (MP_PRIO).
    SetBackup {
        /// The connection.
        token: Token,
        /// The addresses and ports of the subflow to change.
        subflow: Subflow,
        /// True to make it a backup, false to make it a regular subflow.
        backup: bool,
    },
}

impl Command {
    pub(super) fn number(&self) -> u8 {
        match self {
            Command::AddEndpoint(_) => command::ADD_ADDR,
            Command::RemoveEndpoint(_) => command::DEL_ADDR,
            Command::FlushEndpoints => command::FLUSH_ADDRS,
            Command::SetLimits(_) => command::SET_LIMITS,
            Command::SetEndpointFlags(_) | Command::SetBackup { .. } => command::SET_FLAGS,
            Command::Announce { .. } => command::ANNOUNCE,
            Command::Remove { .. } => command::REMOVE,
            Command::Create { .. } => command::SUBFLOW_CREATE,
            Command::Destroy { .. } => command::SUBFLOW_DESTROY,
        }
    }

    /// Returns the words for it in an error.
    pub(super) fn what(&self) -> &'static str {
        match self {
            Command::AddEndpoint(_) => "add an endpoint",
            Command::RemoveEndpoint(_) => "remove an endpoint",
            Command::FlushEndpoints => "remove the endpoints",
            Command::SetEndpointFlags(_) => "change an endpoint",
            Command::SetLimits(_) => "set the limits of endpoints",
            Command::Announce { .. } => "announce an address",
            Command::Remove { .. } => "withdraw an address",
            Command::Create { .. } => "open a subflow",
            Command::Destroy { .. } => "close a subflow",
            Command::SetBackup { .. } => "change the priority of a subflow",
        }
    }

    pub(super) fn attributes(&self) -> Writer {
        let mut writer = Writer::default();
        match self {
            Command::AddEndpoint(endpoint) | Command::SetEndpointFlags(endpoint) => {
                writer.nest(attribute::ADDR, |inner| put_endpoint(inner, endpoint));
            }
            Command::RemoveEndpoint(id) => {
                writer.nest(attribute::ADDR, |inner| {
                    inner.put(address::ID, &[*id]);
                });
            }
            Command::FlushEndpoints => {}
            Command::SetLimits(limits) => {
                writer.put(attribute::RCV_ADD_ADDRS, &limits.add_addr_accepted.to_ne_bytes());
                writer.put(attribute::SUBFLOWS, &limits.subflows.to_ne_bytes());
            }
            Command::Announce { token, address: announced, id } => {
                put_token(&mut writer, *token).nest(attribute::ADDR, |inner| {
                    put_address(inner, *announced);
                    inner.put(address::ID, &[*id]);
                    inner.put(address::FLAGS, &EndpointFlags::SIGNAL.0.to_ne_bytes());
                });
            }
            Command::Remove { token, id } => {
                put_token(&mut writer, *token).put(attribute::LOC_ID, &[*id]);
            }
            Command::Create { token, local, id, interface, backup, remote } => {
                put_token(&mut writer, *token)
                    .nest(attribute::ADDR, |inner| {
                        put_address(inner, *local);
                        inner.put(address::ID, &[*id]);
                        put_backup(inner, *backup);
                        if *interface != 0 {
                            inner.put(address::IF_IDX, &interface.to_ne_bytes());
                        }
                    })
                    .nest(attribute::ADDR_REMOTE, |inner| put_socket(inner, *remote));
            }
            Command::Destroy { token, subflow } => {
                put_token(&mut writer, *token)
                    .nest(attribute::ADDR, |inner| put_socket(inner, subflow.local))
                    .nest(attribute::ADDR_REMOTE, |inner| put_socket(inner, subflow.remote));
            }
            Command::SetBackup { token, subflow, backup } => {
                put_token(&mut writer, *token)
                    .nest(attribute::ADDR, |inner| {
                        put_socket(inner, subflow.local);
                        put_backup(inner, *backup);
                    })
                    .nest(attribute::ADDR_REMOTE, |inner| put_socket(inner, subflow.remote));
            }
        }
        writer
    }
}

fn put_token(writer: &mut Writer, token: Token) -> &mut Writer {
    writer.put(attribute::TOKEN, &token.0.to_ne_bytes())
}

fn put_address(writer: &mut Writer, ip: IpAddr) {
    let family = match ip {
        IpAddr::V4(_) => libc::AF_INET,
        IpAddr::V6(_) => libc::AF_INET6,
    };
    writer.put(address::FAMILY, &(family as u16).to_ne_bytes());
    match ip {
        IpAddr::V4(ip) => writer.put(address::ADDR4, &ip.octets()),
        IpAddr::V6(ip) => writer.put(address::ADDR6, &ip.octets()),
    };
}

fn put_socket(writer: &mut Writer, socket: SocketAddr) {
    put_address(writer, socket.ip());
    // The specification of 6.18 calls it big-endian; the kernel reads it in the host's order (`mptcp_pm_parse_addr`).
    writer.put(address::PORT, &socket.port().to_ne_bytes());
}

fn put_backup(writer: &mut Writer, backup: bool) {
    let flags = if backup { EndpointFlags::BACKUP } else { EndpointFlags::default() };
    writer.put(address::FLAGS, &flags.0.to_ne_bytes());
}

fn put_endpoint(writer: &mut Writer, endpoint: &Endpoint) {
    put_address(writer, endpoint.address);
    if endpoint.id != 0 {
        writer.put(address::ID, &[endpoint.id]);
    }
    if endpoint.port != 0 {
        writer.put(address::PORT, &endpoint.port.to_ne_bytes());
    }
    writer.put(address::FLAGS, &endpoint.flags.0.to_ne_bytes());
    if endpoint.interface != 0 {
        writer.put(address::IF_IDX, &endpoint.interface.to_ne_bytes());
    }
}

/// Returns the endpoint in the attributes of a message.
pub(super) fn parse_endpoint(attributes: &[u8]) -> Result<Option<Endpoint>, KernelError> {
    let mut found = None;
    each(attributes, |kind, value| {
        if kind != attribute::ADDR {
            return Ok(());
        }
        let mut ip = None;
        let (mut id, mut port, mut flags, mut interface) = (0, 0, 0, 0);
        each(value, |kind, value| {
            match kind {
                address::ADDR4 => ip = Some(ipv4_of(value)?),
                address::ADDR6 => ip = Some(canonical(ipv6_of(value)?)),
                address::ID => id = u8_of(value)?,
                address::PORT => port = u16_of(value)?,
                address::FLAGS => flags = u32_of(value)?,
                address::IF_IDX => interface = u32_of(value)?,
                _ => {}
            }
            Ok(())
        })?;
        let flags = EndpointFlags(flags);
        found = ip.map(|address| Endpoint { address, port, id, flags, interface });
        Ok(())
    })?;
    Ok(found)
}

/// Returns the limits in the attributes of a message.
pub(super) fn parse_limits(attributes: &[u8]) -> Result<Limits, KernelError> {
    let mut limits = Limits::default();
    each(attributes, |kind, value| {
        match kind {
            attribute::RCV_ADD_ADDRS => limits.add_addr_accepted = u32_of(value)?,
            attribute::SUBFLOWS => limits.subflows = u32_of(value)?,
            _ => {}
        }
        Ok(())
    })?;
    Ok(limits)
}
