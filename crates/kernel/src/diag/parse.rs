//! The answers of socket diagnostics.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::info::{MptcpInfo, SendBuffer, SubflowFlags, TcpInfo};
use crate::error::KernelError;
use crate::netlink::attributes::{each, text_of, u8_of, u32_of};
use crate::pm::{Subflow, Token, canonical};

pub(super) const INFO: u16 = 2;
pub(super) const CONGESTION: u16 = 4;
pub(super) const MEMORY: u16 = 7;
const ULP_INFO: u16 = 19;
const ULP_NAME: u16 = 1;
const ULP_MPTCP: u16 = 3;
const TOKEN_LOC: u16 = 2;
const FLAGS: u16 = 8;
const ID_REM: u16 = 9;
const ID_LOC: u16 = 10;
/// The length of `struct inet_diag_msg`.
const MESSAGE: usize = 72;

/// A connection of Multipath TCP.
#[derive(Clone, Debug, PartialEq)]
pub struct Connection {
    /// Its local token.
    pub token: Token,
    /// The addresses of its initial subflow.
    pub addresses: Subflow,
    /// The user that owns its socket.
    pub uid: u32,
    /// The inode of its socket; 0 if no process has it any more.
    pub inode: u32,
    /// The information on it.
    pub info: MptcpInfo,
    /// The size and the content of the send buffer of the connection.
    pub send_buffer: SendBuffer,
    /// Its subflows in the order of their address identifiers and addresses.
    pub subflows: Vec<SubflowState>,
}

/// One subflow of a connection, as the kernel reports its TCP socket.
#[derive(Clone, Debug, PartialEq)]
pub struct SubflowState {
    /// The local and the remote address, each with its port.
    pub addresses: Subflow,
    /// The state of TCP, as a number of the kernel: 1 for ESTABLISHED.
    pub state: u8,
    /// The interface to which its socket is bound; 0 for none.
    pub interface: u32,
    /// The identifier of its local address.
    pub local_id: u8,
    /// The identifier of its remote address.
    pub remote_id: u8,
    /// Properties such as `backup` and the handshake that made the subflow.
    pub flags: SubflowFlags,
    /// The name of its congestion control.
    pub congestion: String,
    /// The information on it.
    pub info: TcpInfo,
}

/// The number of the state ESTABLISHED.
const ESTABLISHED: u8 = 1;
/// The number of the state CLOSE_WAIT, in which data can be sent.
const CLOSE_WAIT: u8 = 8;

impl SubflowState {
    /// True if it can send data.
    pub fn can_send(&self) -> bool {
        matches!(self.state, ESTABLISHED | CLOSE_WAIT)
    }
}

impl Connection {
    /// Returns the written bytes that no subflow has got yet.
    pub fn unsent(&self) -> u64 {
        self.info.unsent(self.subflows.iter().map(|subflow| &subflow.info))
    }

    /// True if this host is the client; none if it is unknown, because the initial subflow is gone.
    pub fn is_client(&self) -> Option<bool> {
        let opened = self.subflows.iter().any(|subflow| subflow.flags.is_opened_here());
        (opened || !self.subflows.is_empty()).then_some(opened)
    }

    pub(super) fn sort(&mut self) {
        self.subflows.sort_by_key(|subflow| (subflow.flags.is_join(), subflow.local_id, subflow.addresses));
    }
}

/// The head of an answer (`struct inet_diag_msg`).
struct Head {
    state: u8,
    addresses: Subflow,
    interface: u32,
    uid: u32,
    inode: u32,
}

/// Returns an array at a place of `bytes`, which are long enough.
fn array<const N: usize>(bytes: &[u8; MESSAGE], at: usize) -> [u8; N] {
    core::array::from_fn(|n| bytes.get(at + n).copied().unwrap_or(0))
}

/// Splits an answer into its head and its attributes.
fn head(payload: &[u8]) -> Result<(Head, &[u8]), KernelError> {
    let Some((bytes, attributes)) = payload.split_first_chunk::<MESSAGE>() else {
        return Err(KernelError::Malformed("a socket's description is too short".to_owned()));
    };
    let ip = |at: usize| match i32::from(bytes[0]) {
        libc::AF_INET6 => canonical(IpAddr::V6(Ipv6Addr::from(array::<16>(bytes, at)))),
        _ => IpAddr::V4(Ipv4Addr::from(array::<4>(bytes, at))),
    };
    let port = |at: usize| u16::from_be_bytes(array(bytes, at));
    let word = |at: usize| u32::from_ne_bytes(array(bytes, at));
    let addresses =
        Subflow { local: SocketAddr::new(ip(8), port(4)), remote: SocketAddr::new(ip(24), port(6)) };
    let head = Head { state: bytes[1], addresses, interface: word(40), uid: word(64), inode: word(68) };
    Ok((head, attributes))
}

/// Returns the connection in an answer about a socket of Multipath TCP; none for one without a token, which listens or
/// is not connected.
///
/// # Errors
/// If it is malformed.
pub fn parse_connection(payload: &[u8]) -> Result<Option<Connection>, KernelError> {
    let (head, attributes) = head(payload)?;
    let (mut info, mut send_buffer) = (None, SendBuffer::default());
    each(attributes, |kind, value| {
        match kind {
            INFO => info = Some(MptcpInfo::parse(value)),
            MEMORY => send_buffer = SendBuffer::parse(value),
            _ => {}
        }
        Ok(())
    })?;
    let Some(info) = info.filter(|info| info.token != 0) else { return Ok(None) };
    Ok(Some(Connection {
        token: Token(info.token),
        addresses: head.addresses,
        uid: head.uid,
        inode: head.inode,
        info,
        send_buffer,
        subflows: Vec::new(),
    }))
}

/// A socket of TCP, and the token of its connection if it is a subflow and this user may know it.
pub(super) struct TcpSocket {
    pub token: Option<Token>,
    pub is_subflow: bool,
    pub state: SubflowState,
}

/// Returns the subflow in an answer about a socket of TCP, with the token of its connection if this user may know it;
/// none for a socket that is no subflow.
///
/// # Errors
/// If it is malformed.
pub fn parse_subflow(payload: &[u8]) -> Result<Option<(Option<Token>, SubflowState)>, KernelError> {
    let socket = parse_socket(payload)?;
    Ok(socket.is_subflow.then_some((socket.token, socket.state)))
}

/// Returns the socket in an answer about a socket of TCP.
pub(super) fn parse_socket(payload: &[u8]) -> Result<TcpSocket, KernelError> {
    let (head, attributes) = head(payload)?;
    let mut subflow = SubflowState {
        addresses: head.addresses,
        state: head.state,
        interface: head.interface,
        local_id: 0,
        remote_id: 0,
        flags: SubflowFlags::default(),
        congestion: String::new(),
        info: TcpInfo::default(),
    };
    let (mut token, mut is_subflow) = (None, false);
    each(attributes, |kind, value| {
        match kind {
            INFO => subflow.info = TcpInfo::parse(value),
            CONGESTION => subflow.congestion = text_of(value),
            ULP_INFO => each(value, |kind, value| match kind {
                ULP_NAME => {
                    is_subflow |= text_of(value) == "mptcp";
                    Ok(())
                }
                ULP_MPTCP => each(value, |kind, value| {
                    match kind {
                        TOKEN_LOC => token = Some(u32_of(value)?).filter(|token| *token != 0).map(Token),
                        FLAGS => subflow.flags = SubflowFlags(u32_of(value)?),
                        ID_LOC => subflow.local_id = u8_of(value)?,
                        ID_REM => subflow.remote_id = u8_of(value)?,
                        _ => {}
                    }
                    Ok(())
                }),
                _ => Ok(()),
            })?,
            _ => {}
        }
        Ok(())
    })?;
    Ok(TcpSocket { token, is_subflow, state: subflow })
}
