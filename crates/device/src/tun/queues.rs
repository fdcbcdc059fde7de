//! The queues of a TUN device, asked for by rtnetlink.
//!
//! Numbers and layouts are from `linux/rtnetlink.h` and `linux/if_link.h`. This crate asks for one attribute of one interface, which
//! needs no library.

use rustix::io::{Errno, Result};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};

/// The lengths of the headers: of a message, of a message about an interface, and of an attribute.
const MESSAGE: usize = 16;
const INTERFACE: usize = 16;
const ATTRIBUTE: usize = 4;

const RTM_NEWLINK: u16 = 16;
const RTM_GETLINK: u16 = 18;
const NLM_F_REQUEST: u16 = 1;

const IFLA_IFNAME: u16 = 3;
const IFLA_LINKINFO: u16 = 18;
const IFLA_INFO_DATA: u16 = 2;
const IFLA_TUN_NUM_QUEUES: u16 = 8;

/// The bits of an attribute's kind that are not flags.
const KIND: u16 = 0x3fff;

/// Returns the number of queues of the interface `name` that processes have open. None if it is no TUN device with several queues.
pub(super) fn open_queues(name: &str) -> Result<Option<u32>> {
    let socket = rustix::net::socket_with(
        AddressFamily::NETLINK,
        SocketType::RAW,
        SocketFlags::CLOEXEC,
        // Protocol 0 is rtnetlink.
        None,
    )?;
    rustix::net::send(&socket, &request(name), SendFlags::empty())?;
    // More than the attributes of any interface.
    let mut answer = vec![0; 64 << 10];
    let (_, length) = rustix::net::recv(&socket, &mut answer[..], RecvFlags::empty())?;
    let message = answer.get(..length).unwrap_or_default();
    if u16_at(message, 4) != Some(RTM_NEWLINK) {
        return Err(Errno::NODEV);
    }
    let attributes = message.get(MESSAGE + INTERFACE..).unwrap_or_default();
    let queues = find(attributes, IFLA_LINKINFO)
        .and_then(|info| find(info, IFLA_INFO_DATA))
        .and_then(|data| find(data, IFLA_TUN_NUM_QUEUES));
    Ok(queues.and_then(|value| value.try_into().ok()).map(u32::from_ne_bytes))
}

/// Returns the message that asks for an interface.
fn request(name: &str) -> Vec<u8> {
    let attribute = ATTRIBUTE + name.len() + 1;
    let length = (MESSAGE + INTERFACE + attribute) as u32;
    let mut message = Vec::from(length.to_ne_bytes());
    message.extend(RTM_GETLINK.to_ne_bytes());
    message.extend(NLM_F_REQUEST.to_ne_bytes());
    message.resize(MESSAGE + INTERFACE, 0);
    message.extend((attribute as u16).to_ne_bytes());
    message.extend(IFLA_IFNAME.to_ne_bytes());
    message.extend(name.as_bytes());
    message.push(0);
    message
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

/// Returns the value of the first attribute of a kind.
fn find(mut attributes: &[u8], kind: u16) -> Option<&[u8]> {
    loop {
        let length = usize::from(u16_at(attributes, 0)?);
        if u16_at(attributes, 2)? & KIND == kind {
            return attributes.get(ATTRIBUTE..length);
        }
        attributes = attributes.get(length.max(ATTRIBUTE).next_multiple_of(4)..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_found_by_their_kind_and_damaged_ones_are_not() {
        let attributes = [&[5, 0, 1, 0, 7, 0, 0, 0][..], &[8, 0, 2, 0x80, 1, 2, 3, 4]].concat();
        assert_eq!(find(&attributes, 1), Some(&[7][..]));
        assert_eq!(find(&attributes, 2), Some(&[1, 2, 3, 4][..]));
        assert_eq!(find(&attributes, 3), None);
        assert_eq!(find(&attributes[..15], 2), None);
        assert_eq!(find(&[0, 0, 1, 0], 1), None);
    }

    #[test]
    fn the_loopback_device_has_no_queues_of_processes() {
        assert_eq!(open_queues("lo"), Ok(None));
        assert_eq!(open_queues("no-such-device"), Err(Errno::NODEV));
    }
}
