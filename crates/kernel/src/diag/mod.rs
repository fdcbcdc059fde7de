//! Socket diagnostics: the state of Multipath TCP connections and of their subflows.
//!
//! Layouts are from `include/uapi/linux/inet_diag.h`, `tcp.h` and `mptcp.h`.

mod info;
mod owner;
mod parse;

pub use info::{Counters, MptcpInfo, SendBuffer, SubflowFlags, TcpInfo};
pub use owner::{Owner, programs};
pub use parse::{Connection, SubflowState, parse_connection, parse_subflow};

use std::collections::BTreeMap;

use crate::error::KernelError;
use crate::netlink::attributes::Writer;
use crate::netlink::{Answer, Netlink};
use crate::pm::Token;

/// `NETLINK_SOCK_DIAG`.
const PROTOCOL: i32 = 4;
/// `SOCK_DIAG_BY_FAMILY`.
const BY_FAMILY: u16 = 20;
/// `INET_DIAG_REQ_PROTOCOL`: a protocol above 255.
const REQ_PROTOCOL: u16 = 3;
/// All states of TCP except TIME_WAIT, CLOSE and LISTEN.
const STATES: u32 = 1 << 1 | 1 << 2 | 1 << 3 | 1 << 4 | 1 << 5 | 1 << 8 | 1 << 9 | 1 << 11;
/// No cookie (`INET_DIAG_NOCOOKIE`).
const NO_COOKIE: u32 = u32::MAX;

/// Returns the bit with which a request asks for an attribute.
const fn extension(attribute: u16) -> u8 {
    1 << (attribute - 1)
}

/// The diagnostics of the sockets in the network namespace of the thread that has opened them.
pub struct Diagnostics {
    netlink: Netlink,
}

impl Diagnostics {
    /// Opens them.
    ///
    /// # Errors
    /// If the kernel has no socket diagnostics.
    pub fn open() -> Result<Diagnostics, KernelError> {
        Ok(Diagnostics { netlink: Netlink::open(PROTOCOL)? })
    }

    /// Returns all connections of Multipath TCP, by token, with their subflows. A connection that begins or ends
    /// meanwhile may lack subflows.
    ///
    /// # Errors
    /// If the kernel refuses, or has no diagnostics of Multipath TCP.
    pub fn connections(&mut self) -> Result<BTreeMap<Token, Connection>, KernelError> {
        let mut found = BTreeMap::new();
        for family in [libc::AF_INET, libc::AF_INET6] {
            let each = |payload: &[u8]| {
                if let Some(connection) = parse_connection(payload)? {
                    found.insert(connection.token, connection);
                }
                Ok(())
            };
            let dumped =
                self.dump(family, libc::IPPROTO_MPTCP, "list the connections of Multipath TCP", each);
            dumped.map_err(|error| match error.errno() {
                Some(libc::ENOENT) => KernelError::NoMptcp(
                    "this kernel has no diagnostics of Multipath TCP (CONFIG_INET_MPTCP_DIAG, Linux 5.6)"
                        .to_owned(),
                ),
                _ => error,
            })?;
        }
        if found.is_empty() {
            return Ok(found);
        }
        let mut concealed = false;
        for family in [libc::AF_INET, libc::AF_INET6] {
            self.dump(family, libc::IPPROTO_TCP, "list the connections of TCP", |payload| {
                if let Some((token, subflow)) = parse_subflow(payload)? {
                    concealed |= token.is_none();
                    let connection = token.and_then(|token| found.get_mut(&token));
                    connection.into_iter().for_each(|connection| connection.subflows.push(subflow.clone()));
                }
                Ok(())
            })?;
        }
        if concealed && found.values().all(|connection| connection.subflows.is_empty()) {
            return Err(KernelError::NotPermitted(
                "the kernel conceals the connection of a subflow from this user; run as root, or with CAP_NET_ADMIN"
                    .to_owned(),
            ));
        }
        found.values_mut().for_each(Connection::sort);
        Ok(found)
    }

    /// Returns all sockets of TCP that are connected, subflows or not.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn sockets(&mut self) -> Result<Vec<SubflowState>, KernelError> {
        let mut found = Vec::new();
        for family in [libc::AF_INET, libc::AF_INET6] {
            self.dump(family, libc::IPPROTO_TCP, "list the connections of TCP", |payload| {
                found.push(parse::parse_socket(payload)?.state);
                Ok(())
            })?;
        }
        Ok(found)
    }

    fn dump(
        &mut self,
        family: i32,
        protocol: i32,
        what: &'static str,
        each: impl FnMut(&[u8]) -> Result<(), KernelError>,
    ) -> Result<(), KernelError> {
        self.netlink.request(what, BY_FAMILY, Answer::Dump, &request(family, protocol), each)
    }
}

/// Returns a request for all sockets of a family: `struct inet_diag_req_v2`, and the protocol as an attribute.
fn request(family: i32, protocol: i32) -> Vec<u8> {
    let wanted = extension(parse::INFO) | extension(parse::CONGESTION) | extension(parse::MEMORY);
    let mut payload = vec![family as u8, protocol as u8, wanted, 0];
    payload.extend_from_slice(&STATES.to_ne_bytes());
    // The identity of a socket: ports, addresses and interface are not compared in a dump.
    payload.resize(payload.len() + 40, 0);
    payload.extend_from_slice(&NO_COOKIE.to_ne_bytes());
    payload.extend_from_slice(&NO_COOKIE.to_ne_bytes());
    if protocol > 255 {
        let mut writer = Writer::default();
        writer.put(REQ_PROTOCOL, &(protocol as u32).to_ne_bytes());
        payload.extend_from_slice(writer.bytes());
    }
    payload
}
