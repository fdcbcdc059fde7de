//! A netlink socket: requests with their answers, and events.

pub(crate) mod attributes;
pub(crate) mod generic;
#[cfg(test)]
mod tests;

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use netlink_packet_core::{
    NLM_F_ACK, NLM_F_DUMP, NLM_F_REQUEST, NLMSG_DONE, NLMSG_ERROR, NLMSG_NOOP, NLMSG_OVERRUN, NetlinkBuffer,
};
use netlink_sys::{Socket, SocketAddr};

use crate::error::KernelError;

/// The header of a message.
const HEADER: usize = 16;
/// The length of a receive buffer: the kernel fills at most 32 KiB for a dump.
const BUFFER: usize = 64 << 10;
/// Set in an error that the kernel explains (`NLM_F_ACK_TLVS`).
const EXPLAINED: u16 = 0x200;
/// The attribute with the explanation (`NLMSGERR_ATTR_MSG`).
const WORDS: u16 = 1;
/// The socket buffer for events: some thousands of them.
const EVENTS_BUFFER: usize = 4 << 20;

/// A netlink socket of one protocol.
pub(crate) struct Netlink {
    socket: Socket,
    buffer: Vec<u8>,
    sequence: u32,
}

/// The kind of a request's answer.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    /// An acknowledgement, perhaps after one message.
    One,
    /// All entries.
    Dump,
}

/// Calls `each` with the type, the flags, the sequence number and the payload of every message in `bytes`; it returns
/// true at the end of an answer.
///
/// # Errors
/// If a message is malformed, and the errors of `each`.
pub(crate) fn messages(
    mut bytes: &[u8],
    mut each: impl FnMut(u16, u16, u32, &[u8]) -> Result<bool, KernelError>,
) -> Result<bool, KernelError> {
    let mut ended = false;
    while !bytes.is_empty() {
        let message = NetlinkBuffer::new_checked(bytes)?;
        let length = message.length() as usize;
        let payload = bytes.get(HEADER..length).unwrap_or_default();
        ended |= each(message.message_type(), message.flags(), message.sequence_number(), payload)?;
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    Ok(ended)
}

/// Returns the result that an error message or the end of a dump has.
pub(crate) fn verdict(what: &'static str, flags: u16, payload: &[u8]) -> Result<(), KernelError> {
    let code = payload.first_chunk().map_or(0, |bytes| i32::from_ne_bytes(*bytes));
    if code == 0 {
        return Ok(());
    }
    let mut why = String::new();
    if flags & EXPLAINED != 0 {
        // After an error comes the header of the request, without its payload (`NETLINK_CAP_ACK`).
        let words = payload.get(4 + HEADER..).unwrap_or_default();
        let read = attributes::each(words, |kind, value| {
            if kind == WORDS {
                why = attributes::text_of(value);
            }
            Ok(())
        });
        // An explanation that cannot be read is no further error.
        let _ = read;
    }
    Err(KernelError::refused(what, code.wrapping_neg(), why))
}

impl Netlink {
    /// Opens a socket for requests in the network namespace of this thread.
    pub(crate) fn open(protocol: i32) -> Result<Netlink, KernelError> {
        let failed = |error| KernelError::system("a netlink socket", error);
        let mut socket = Socket::new(protocol as isize).map_err(failed)?;
        socket.bind_auto().map_err(failed)?;
        socket.connect(&SocketAddr::new(0, 0)).map_err(failed)?;
        // Old kernels know neither; errors then have no explanation.
        let _ = socket.set_ext_ack(true).and_then(|()| socket.set_cap_ack(true));
        Ok(Netlink { socket, buffer: Vec::with_capacity(BUFFER), sequence: 0 })
    }

    /// Opens a socket that receives the events of `groups`.
    pub(crate) fn events(protocol: i32, groups: &[u32]) -> Result<Netlink, KernelError> {
        let netlink = Netlink::open(protocol)?;
        let failed = |error| KernelError::system("the kernel's events", error);
        for group in groups {
            netlink.socket.add_membership(*group).map_err(failed)?;
        }
        netlink.socket.set_non_blocking(true).map_err(failed)?;
        // Without the privilege the system's limit holds.
        let _ = netlink.socket.set_rx_buf_sz(EVENTS_BUFFER as i32);
        Ok(netlink)
    }

    /// Sends a request, and calls `each` with the payload of every message of its answer.
    ///
    /// # Errors
    /// If the kernel refuses `what`, and the errors of `each`.
    pub(crate) fn request(
        &mut self,
        what: &'static str,
        kind: u16,
        answer: Answer,
        payload: &[u8],
        mut each: impl FnMut(&[u8]) -> Result<(), KernelError>,
    ) -> Result<(), KernelError> {
        self.sequence = self.sequence.wrapping_add(1);
        let flags = NLM_F_REQUEST | if answer == Answer::Dump { NLM_F_DUMP } else { NLM_F_ACK };
        let mut message = vec![0; HEADER];
        message.extend_from_slice(payload);
        let length = message.len() as u32;
        let mut header = NetlinkBuffer::new(&mut message);
        header.set_length(length);
        header.set_message_type(kind);
        header.set_flags(flags);
        header.set_sequence_number(self.sequence);
        self.socket.send(&message, 0).map_err(|error| KernelError::system(what, error))?;
        let sequence = self.sequence;
        // An error of `each` must not leave the rest of an answer in the socket.
        let mut failed = None;
        loop {
            self.receive(what)?;
            let ended = messages(&self.buffer, |kind, flags, number, payload| {
                match kind {
                    _ if number != sequence => return Ok(false),
                    NLMSG_NOOP => return Ok(false),
                    NLMSG_OVERRUN => return Err(KernelError::Overrun),
                    NLMSG_ERROR | NLMSG_DONE => return verdict(what, flags, payload).map(|()| true),
                    _ => {}
                }
                if failed.is_none() {
                    failed = each(payload).err();
                }
                Ok(false)
            })?;
            if ended {
                return failed.map_or(Ok(()), Err);
            }
        }
    }

    /// Receives the next events, and calls `each` with their type and payload; false if there are none now.
    ///
    /// # Errors
    /// [`KernelError::Overrun`] if events were lost; if a message is malformed.
    pub(crate) fn receive_events(
        &mut self,
        mut each: impl FnMut(u16, &[u8]) -> Result<(), KernelError>,
    ) -> Result<bool, KernelError> {
        match self.receive("the kernel's events") {
            Err(KernelError::System(_, error)) if error.kind() == io::ErrorKind::WouldBlock => {
                return Ok(false);
            }
            other => other?,
        }
        messages(&self.buffer, |kind, _, _, payload| each(kind, payload).map(|()| false))?;
        Ok(true)
    }

    fn receive(&mut self, what: &'static str) -> Result<(), KernelError> {
        loop {
            self.buffer.clear();
            match self.socket.recv(&mut self.buffer, 0) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(KernelError::system(what, error)),
                Ok(_) => return Ok(()),
            }
        }
    }
}

impl AsFd for Netlink {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
