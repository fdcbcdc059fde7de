//! The interfaces of this host and their addresses, read by rtnetlink.
//!
//! Numbers and layouts are from `include/uapi/linux/rtnetlink.h`, `if_link.h` and `if_addr.h`. The three messages that
//! are read have few attributes of interest; `netlink-packet-route`, which knows all, takes longer to compile than this
//! crate.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};

use ipnet::IpNet;

use crate::error::KernelError;
use crate::netlink::attributes::{each, ipv4_of, ipv6_of, text_of, u32_of};
use crate::netlink::{Answer, Netlink};

/// `NETLINK_ROUTE`.
pub(crate) const PROTOCOL: i32 = 0;
const GET_LINK: u16 = 18;
const GET_ADDRESS: u16 = 22;
/// The groups of changes: of links, and of addresses of IPv4 and IPv6.
const GROUPS: [u32; 3] = [1, 5, 9];
/// The groups of changes of routes and of rules, of IPv4 and IPv6.
const ROUTE_GROUPS: [u32; 4] = [7, 8, 11, 19];
/// `struct ifinfomsg` and `struct ifaddrmsg`.
const LINK_HEAD: usize = 16;
const ADDRESS_HEAD: usize = 8;
const LINK_NAME: u16 = 3;
const ADDRESS: u16 = 1;
const LOCAL: u16 = 2;
const ADDRESS_FLAGS: u16 = 8;
const UP: u32 = 1;
const LOOPBACK: u32 = 1 << 3;
const RUNNING: u32 = 1 << 6;
/// Addresses that must not be used: duplicates, old ones and unverified ones.
const UNUSABLE: u32 = 0x08 | 0x20 | 0x40;
/// The scope of global addresses.
const GLOBAL: u8 = 0;

/// A network interface with the addresses from which subflows may start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interface {
    /// The index of the interface, which no other has.
    pub index: u32,
    /// The name, such as `eth0`.
    pub name: String,
    /// True if it is up and has a carrier.
    pub running: bool,
    /// True for the loopback device.
    pub loopback: bool,
    /// Its global addresses, in the order of the kernel.
    pub addresses: Vec<IpNet>,
}

/// The interfaces of the network namespace, by the kernel's index.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interfaces(pub BTreeMap<u32, Interface>);

impl Interfaces {
    /// Returns the interface that has this address.
    pub fn with_address(&self, ip: IpAddr) -> Option<&Interface> {
        self.0.values().find(|interface| interface.addresses.iter().any(|net| net.addr() == ip))
    }

    /// Returns the interface of a socket: the one with the number `bound`, to which it is bound, or the one with its
    /// address.
    pub fn of(&self, bound: u32, ip: IpAddr) -> Option<&Interface> {
        self.get(bound).or_else(|| self.with_address(ip))
    }

    /// Returns the interfaces on which a connection to `destination` can begin: running, no loopback, with an address of the
    /// same family, which is returned too.
    pub fn towards(&self, destination: IpAddr) -> Vec<(&Interface, IpAddr)> {
        let address = |interface: &Interface| {
            let same = |ip: &IpAddr| ip.is_ipv4() == destination.is_ipv4();
            interface.addresses.iter().map(|net| net.addr()).find(same)
        };
        let usable = self.0.values().filter(|interface| interface.running && !interface.loopback);
        usable.filter_map(|interface| Some((interface, address(interface)?))).collect()
    }

    /// Returns the interface with this number.
    pub fn get(&self, index: u32) -> Option<&Interface> {
        self.0.get(&index)
    }

    /// Returns the interface with this name.
    pub fn named(&self, name: &str) -> Option<&Interface> {
        self.0.values().find(|interface| interface.name == name)
    }
}

/// The interfaces of the network namespace of the thread that has opened it.
pub struct Links {
    netlink: Netlink,
}

impl Links {
    /// Opens it.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn open() -> Result<Links, KernelError> {
        Ok(Links { netlink: Netlink::open(PROTOCOL)? })
    }

    /// Returns the interfaces and their addresses of this moment.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn read(&mut self) -> Result<Interfaces, KernelError> {
        let mut found = Interfaces::default();
        self.netlink.request("list interfaces", GET_LINK, Answer::Dump, &[0; LINK_HEAD], |payload| {
            if let Some(interface) = parse_link(payload)? {
                found.0.insert(interface.index, interface);
            }
            Ok(())
        })?;
        self.netlink.request("list addresses", GET_ADDRESS, Answer::Dump, &[0; ADDRESS_HEAD], |payload| {
            if let Some((index, net)) = parse_address(payload)?
                && let Some(interface) = found.0.get_mut(&index)
            {
                interface.addresses.push(net);
            }
            Ok(())
        })?;
        Ok(found)
    }
}

/// Notices changes of interfaces and addresses.
pub struct LinkEvents {
    netlink: Netlink,
}

impl LinkEvents {
    /// Opens it.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn open() -> Result<LinkEvents, KernelError> {
        Ok(LinkEvents { netlink: Netlink::events(PROTOCOL, &GROUPS)? })
    }

    /// Opens it for changes of routes and rules too.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn with_routes() -> Result<LinkEvents, KernelError> {
        Ok(LinkEvents { netlink: Netlink::events(PROTOCOL, &[&GROUPS[..], &ROUTE_GROUPS].concat())? })
    }

    /// True if something has changed since the last call. A lost event counts as a change.
    ///
    /// # Errors
    /// If the system fails.
    pub fn has_changed(&mut self) -> Result<bool, KernelError> {
        let mut changed = false;
        loop {
            match self.netlink.receive_events(|_, _| Ok(())) {
                Ok(true) => changed = true,
                Ok(false) => return Ok(changed),
                Err(KernelError::Overrun) => changed = true,
                Err(error) => return Err(error),
            }
        }
    }
}

impl AsFd for LinkEvents {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.netlink.as_fd()
    }
}

fn word(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|bytes| bytes.try_into().ok()).map_or(0, u32::from_ne_bytes)
}

fn parse_link(payload: &[u8]) -> Result<Option<Interface>, KernelError> {
    let Some((head, attributes)) = payload.split_at_checked(LINK_HEAD) else {
        return Err(KernelError::Malformed("an interface's description is too short".to_owned()));
    };
    let flags = word(head, 8);
    let mut interface = Interface {
        index: word(head, 4),
        running: flags & (UP | RUNNING) == UP | RUNNING,
        loopback: flags & LOOPBACK != 0,
        ..Interface::default()
    };
    each(attributes, |kind, value| {
        if kind == LINK_NAME {
            interface.name = text_of(value);
        }
        Ok(())
    })?;
    Ok((interface.index != 0).then_some(interface))
}

/// Returns a usable global address and the number of its interface.
fn parse_address(payload: &[u8]) -> Result<Option<(u32, IpNet)>, KernelError> {
    let Some((head, attributes)) = payload.split_at_checked(ADDRESS_HEAD) else {
        return Err(KernelError::Malformed("an address's description is too short".to_owned()));
    };
    let [family, prefix, flags, scope] = [0, 1, 2, 3].map(|at| head.get(at).copied().unwrap_or(0));
    let parse = |value: &[u8]| match i32::from(family) {
        libc::AF_INET => ipv4_of(value).map(Some),
        libc::AF_INET6 => ipv6_of(value).map(Some),
        _ => Ok(None),
    };
    // On a point-to-point device, `IFA_ADDRESS` is the peer's.
    let (mut address, mut local, mut flags) = (None, None, u32::from(flags));
    each(attributes, |kind, value| {
        match kind {
            ADDRESS => address = parse(value)?,
            LOCAL => local = parse(value)?,
            ADDRESS_FLAGS => flags = u32_of(value)?,
            _ => {}
        }
        Ok(())
    })?;
    let net = local.or(address).and_then(|ip: IpAddr| IpNet::new(ip, prefix).ok());
    Ok(net.filter(|_| scope == GLOBAL && flags & UNUSABLE == 0).map(|net| (word(head, 4), net)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_bytes_of_a_link_or_an_address_give_an_answer(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse_link(&bytes);
            let _ = parse_address(&bytes);
        }
    }
}
