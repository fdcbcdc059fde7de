//! The uplinks of the addresses of a host in user space: whether the kernel has a way for the packets of each address, and which.
//!
//! The kernel forwards the packets that come from a TUN device by its rules and routes. It is asked for the way of such a packet
//! (`ip route get TO from ADDRESS iif TUN`) when an interface, an address, a route or a rule changes; this needs no privilege. The way
//! counts only while its interface has a carrier. An address that never had a way is left alone: its packets may have one that the question
//! does not find.

use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};

use crate::error::KernelError;
use crate::interfaces::{Interfaces, LinkEvents, Links, PROTOCOL};
use crate::netlink::attributes::{Writer, each, ipv4_of, ipv6_of, u32_of};
use crate::netlink::{Answer, Netlink};

/// Numbers of `include/uapi/linux/rtnetlink.h`.
const GET_ROUTE: u16 = 26;
const DESTINATION: u16 = 1;
const SOURCE: u16 = 2;
const INCOMING: u16 = 3;
const OUTGOING: u16 = 4;
const GATEWAY: u16 = 5;
const UNICAST: u8 = 1;
/// `struct rtmsg`.
const ROUTE_HEAD: usize = 12;

/// Destinations that have no route but the default one: addresses of root servers of the DNS. Nothing is sent to them.
const ANYWHERE: [IpAddr; 2] = [
    IpAddr::V4(std::net::Ipv4Addr::new(198, 41, 0, 4)),
    IpAddr::V6(std::net::Ipv6Addr::new(0x2001, 0x503, 0xba3e, 0, 0, 0, 2, 0x30)),
];

/// The way of packets: an interface, its address that hides theirs, and the next hop if there is one.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Way {
    interface: u32,
    address: Option<IpAddr>,
    gateway: Option<IpAddr>,
}

#[derive(Debug)]
struct Uplink {
    address: IpAddr,
    device: String,
    way: Option<Way>,
}

/// A change of an uplink.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// The packets of the address have no way any more.
    Lost(IpAddr),
    /// They have a way, again or for the first time.
    Found(IpAddr),
    /// They have another way: connections by the old one have lost their address.
    Moved(IpAddr),
}

/// The uplinks of some addresses, in the network namespace of the thread that has opened it.
pub struct Uplinks {
    netlink: Netlink,
    links: Links,
    events: LinkEvents,
    uplinks: Vec<Uplink>,
}

impl Uplinks {
    /// Opens it for these addresses, each with its TUN device.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn open(addresses: impl IntoIterator<Item = (IpAddr, String)>) -> Result<Uplinks, KernelError> {
        // The events first: no change is missed.
        let events = LinkEvents::with_routes()?;
        let uplink = |(address, device)| Uplink { address, device, way: None };
        let mut uplinks = Uplinks {
            netlink: Netlink::open(PROTOCOL)?,
            links: Links::open()?,
            events,
            uplinks: addresses.into_iter().map(uplink).collect(),
        };
        uplinks.look(&[])?;
        Ok(uplinks)
    }

    /// Returns the changes since the last call; `peers` are destinations that may have routes of their own.
    ///
    /// # Errors
    /// If the system fails.
    pub fn changes(&mut self, peers: &[IpAddr]) -> Result<Vec<Change>, KernelError> {
        if self.events.has_changed()? { self.look(peers) } else { Ok(Vec::new()) }
    }

    fn look(&mut self, peers: &[IpAddr]) -> Result<Vec<Change>, KernelError> {
        let interfaces = self.links.read()?;
        let mut changes = Vec::new();
        for uplink in &mut self.uplinks {
            let device = interfaces.named(&uplink.device).map_or(0, |device| device.index);
            let same = |to: &&IpAddr| to.is_ipv4() == uplink.address.is_ipv4();
            let mut way = None;
            for to in ANYWHERE.iter().chain(peers).filter(same) {
                way = ask(&mut self.netlink, uplink.address, device, *to, &interfaces)?;
                if way.is_some() {
                    break;
                }
            }
            let address = uplink.address;
            changes.extend(match (&uplink.way, &way) {
                (Some(_), None) => Some(Change::Lost(address)),
                (None, Some(_)) => Some(Change::Found(address)),
                (Some(old), Some(new)) if old != new => Some(Change::Moved(address)),
                _ => None,
            });
            uplink.way = way;
        }
        Ok(changes)
    }
}

impl AsFd for Uplinks {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.events.as_fd()
    }
}

/// Asks for the way of packets from `from`, which come by the interface `device`, to `to`.
fn ask(
    netlink: &mut Netlink,
    from: IpAddr,
    device: u32,
    to: IpAddr,
    interfaces: &Interfaces,
) -> Result<Option<Way>, KernelError> {
    let octets = |ip: IpAddr| match ip {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    };
    let family = if to.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    let bits = (8 * octets(to).len()) as u8;
    let mut message = vec![0; ROUTE_HEAD];
    message[..3].copy_from_slice(&[family as u8, bits, bits]);
    let mut attributes = Writer::default();
    attributes.put(DESTINATION, &octets(to)).put(SOURCE, &octets(from)).put(INCOMING, &device.to_ne_bytes());
    message.extend_from_slice(attributes.bytes());
    let mut found = None;
    let asked = netlink.request("find a route", GET_ROUTE, Answer::One, &message, |payload| {
        found = parse_route(payload)?;
        Ok(())
    });
    match asked {
        Ok(()) => {}
        // There is none, or one that rejects; or the device is gone.
        Err(KernelError::Refused { .. } | KernelError::NotPermitted(_)) => return Ok(None),
        Err(error) => return Err(error),
    }
    Ok(found.and_then(|(index, gateway)| {
        let interface = interfaces.get(index).filter(|interface| interface.running && index != device)?;
        let own = |ip: &IpAddr| ip.is_ipv4() == to.is_ipv4();
        let address = interface.addresses.iter().map(|net| net.addr()).find(own);
        Some(Way { interface: index, address, gateway })
    }))
}

/// Returns the interface and the gateway of a route; none if it leads nowhere, or here.
fn parse_route(payload: &[u8]) -> Result<Option<(u32, Option<IpAddr>)>, KernelError> {
    let Some((head, attributes)) = payload.split_at_checked(ROUTE_HEAD) else {
        return Err(KernelError::Malformed("a route's description is too short".to_owned()));
    };
    let (mut interface, mut gateway) = (None, None);
    each(attributes, |kind, value| {
        match kind {
            OUTGOING => interface = Some(u32_of(value)?),
            GATEWAY if value.len() == 4 => gateway = Some(ipv4_of(value)?),
            GATEWAY => gateway = Some(ipv6_of(value)?),
            _ => {}
        }
        Ok(())
    })?;
    Ok(interface.filter(|_| head.get(7) == Some(&UNICAST)).map(|interface| (interface, gateway)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_bytes_of_a_route_give_an_answer(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse_route(&bytes);
        }
    }
}
