//! Events of the path manager.

use std::net::{IpAddr, SocketAddr};

use super::numbers::{event, event_attribute as attribute};
use super::{Subflow, Token, canonical};
use crate::error::KernelError;
use crate::netlink::attributes::{be16_of, each, ipv4_of, ipv6_of, u8_of, u16_of, u32_of};
use crate::netlink::generic;

/// Set in the flags of an event if the peer accepts no further subflow to its initial address.
const DENY_JOIN_ID0: u16 = 1;
/// Set in the flags of an event of a server's connection.
const SERVER_SIDE: u16 = 1 << 1;

/// An event of a connection or of one of its subflows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The connection.
    pub token: Token,
    /// The change.
    pub kind: EventKind,
}

/// The reason that a subflow has ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ended {
    /// The error of its socket; 0 if there was none.
    pub error: u8,
    /// The reason of an MP_TCPRST; 0 if there was none. // RFC 8684 section 3.6
    pub reset: u32,
}

/// A change of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// It was created: its SYN was answered.
    Created {
        /// Its initial subflow.
        subflow: Subflow,
        /// True if this host is its server.
        server: bool,
        /// True if the peer accepts no further subflow to its initial address.
        deny_join_id0: bool,
    },
    /// Further subflows can be opened.
    Established {
        /// Its initial subflow.
        subflow: Subflow,
        /// True if this host is its server.
        server: bool,
        /// True if the peer accepts no further subflow to its initial address.
        deny_join_id0: bool,
    },
    /// It has ended.
    Closed,
    /// The peer has announced an address; the port is 0 if it is the connection's.
    Announced {
        /// The address's identifier.
        id: u8,
        /// The address of the peer, with its port or 0.
        address: SocketAddr,
    },
    /// The peer has withdrawn the address with this identifier.
    Removed(u8),
    /// A subflow was opened.
    SubflowEstablished {
        /// The addresses and ports of the new subflow.
        subflow: Subflow,
        /// The identifier of its local address.
        local_id: u8,
        /// The interface to which it is bound; 0 for none.
        interface: u32,
    },
    /// A subflow has ended.
    SubflowClosed {
        /// The addresses and ports that the subflow had.
        subflow: Subflow,
        /// The reason.
        ended: Ended,
    },
    /// The peer has changed the priority of a subflow.
    SubflowPriority {
        /// The addresses and ports of the changed subflow.
        subflow: Subflow,
        /// True if it is a backup from now on.
        backup: bool,
    },
}

#[derive(Default)]
struct Fields {
    token: Option<u32>,
    local: Option<IpAddr>,
    remote: Option<IpAddr>,
    local_port: u16,
    remote_port: u16,
    local_id: u8,
    remote_id: u8,
    interface: u32,
    backup: bool,
    ended: Ended,
    flags: u16,
    server: bool,
}

impl Fields {
    fn read(attributes: &[u8]) -> Result<Fields, KernelError> {
        let mut fields = Fields::default();
        each(attributes, |kind, value| {
            match kind {
                attribute::TOKEN => fields.token = Some(u32_of(value)?),
                attribute::SADDR4 => fields.local = Some(ipv4_of(value)?),
                attribute::SADDR6 => fields.local = Some(canonical(ipv6_of(value)?)),
                attribute::DADDR4 => fields.remote = Some(ipv4_of(value)?),
                attribute::DADDR6 => fields.remote = Some(canonical(ipv6_of(value)?)),
                attribute::SPORT => fields.local_port = be16_of(value)?,
                attribute::DPORT => fields.remote_port = be16_of(value)?,
                attribute::LOC_ID => fields.local_id = u8_of(value)?,
                attribute::REM_ID => fields.remote_id = u8_of(value)?,
                attribute::IF_IDX => fields.interface = u32_of(value)?,
                attribute::BACKUP => fields.backup = u8_of(value)? != 0,
                attribute::ERROR => fields.ended.error = u8_of(value)?,
                attribute::RESET_REASON => fields.ended.reset = u32_of(value)?,
                attribute::FLAGS => fields.flags = u16_of(value)?,
                attribute::SERVER_SIDE => fields.server = u8_of(value)? != 0,
                _ => {}
            }
            Ok(())
        })?;
        fields.server |= fields.flags & SERVER_SIDE != 0;
        Ok(fields)
    }

    fn remote(&self) -> Result<SocketAddr, KernelError> {
        let ip = self.remote.ok_or_else(|| lacking("an address of the peer"))?;
        Ok(SocketAddr::new(ip, self.remote_port))
    }

    fn subflow(&self) -> Result<Subflow, KernelError> {
        let ip = self.local.ok_or_else(|| lacking("an address of this host"))?;
        Ok(Subflow { local: SocketAddr::new(ip, self.local_port), remote: self.remote()? })
    }
}

fn lacking(what: &str) -> KernelError {
    KernelError::Malformed(format!("an event has no {what}"))
}

/// Returns the event in the payload of a message; none for events that are not of a connection, and for kinds that
/// are unknown.
///
/// # Errors
/// If it is malformed.
pub fn parse_event(payload: &[u8]) -> Result<Option<Event>, KernelError> {
    let (number, attributes) = generic::parts(payload)?;
    if matches!(number, event::LISTENER_CREATED | event::LISTENER_CLOSED) {
        return Ok(None);
    }
    let fields = Fields::read(attributes)?;
    let deny_join_id0 = fields.flags & DENY_JOIN_ID0 != 0;
    let kind = match number {
        event::CREATED => {
            EventKind::Created { subflow: fields.subflow()?, server: fields.server, deny_join_id0 }
        }
        event::ESTABLISHED => {
            EventKind::Established { subflow: fields.subflow()?, server: fields.server, deny_join_id0 }
        }
        event::CLOSED => EventKind::Closed,
        event::ANNOUNCED => EventKind::Announced { id: fields.remote_id, address: fields.remote()? },
        event::REMOVED => EventKind::Removed(fields.remote_id),
        event::SUB_ESTABLISHED => EventKind::SubflowEstablished {
            subflow: fields.subflow()?,
            local_id: fields.local_id,
            interface: fields.interface,
        },
        event::SUB_CLOSED => EventKind::SubflowClosed { subflow: fields.subflow()?, ended: fields.ended },
        event::SUB_PRIORITY => {
            EventKind::SubflowPriority { subflow: fields.subflow()?, backup: fields.backup }
        }
        _ => return Ok(None),
    };
    let token = fields.token.ok_or_else(|| lacking("token"))?;
    Ok(Some(Event { token: Token(token), kind }))
}
