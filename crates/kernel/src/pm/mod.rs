//! The path manager's netlink family `mptcp_pm`: commands, endpoints, limits and events.
//!
//! Numbers and attributes are from `Documentation/netlink/specs/mptcp_pm.yaml` of Linux 6.18.

mod command;
mod event;
mod numbers;

use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};

pub use command::{Command, Endpoint, EndpointFlags, Limits, Subflow};
pub use event::{Ended, Event, EventKind, parse_event};

use crate::error::KernelError;
use crate::netlink::generic::{self, Family};
use crate::netlink::{Answer, Netlink};
use numbers::{VERSION, command as number};

/// The name of the family.
const NAME: &str = "mptcp_pm";
/// Its group of events.
const EVENTS: &str = "mptcp_pm_events";

/// The local token of a connection, by which the kernel finds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(pub u32);

impl std::fmt::Display for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:08x}", self.0)
    }
}

/// The kernel's path manager in the network namespace of the thread that has opened it.
pub struct PathManager {
    netlink: Netlink,
    family: Family,
}

impl PathManager {
    /// Opens it.
    ///
    /// # Errors
    /// [`KernelError::NoMptcp`] if the kernel has none.
    pub fn open() -> Result<PathManager, KernelError> {
        let mut netlink = Netlink::open(generic::PROTOCOL)?;
        match generic::find(&mut netlink, NAME)? {
            Some(family) => Ok(PathManager { netlink, family }),
            None => Err(KernelError::NoMptcp(
                "this kernel has no Multipath TCP, or no path manager that listens to netlink; it needs CONFIG_MPTCP \
                 (Linux 5.6), and 5.19 to be steered"
                    .to_owned(),
            )),
        }
    }

    /// Returns a source of the events of all connections in this namespace.
    ///
    /// # Errors
    /// If the kernel has no such events, or does not permit them.
    pub fn events(&self) -> Result<Events, KernelError> {
        let group = self.family.groups.iter().find(|(name, _)| name == EVENTS);
        let Some((_, group)) = group else {
            return Err(KernelError::NoMptcp(
                "this kernel reports no events of Multipath TCP; Linux 5.13 and later do".to_owned(),
            ));
        };
        let netlink = Netlink::events(generic::PROTOCOL, &[*group])?;
        Ok(Events { netlink, family: self.family.id })
    }

    /// Gives the kernel a command.
    ///
    /// # Errors
    /// If the kernel refuses it.
    pub fn command(&mut self, command: &Command) -> Result<(), KernelError> {
        let payload = generic::request(command.number(), VERSION, command.attributes().bytes());
        self.netlink.request(command.what(), self.family.id, Answer::One, &payload, |_| Ok(()))
    }

    /// Returns the endpoints of the in-kernel path manager.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn endpoints(&mut self) -> Result<Vec<Endpoint>, KernelError> {
        let mut found = Vec::new();
        let payload = generic::request(number::GET_ADDR, VERSION, &[]);
        let each = |payload: &[u8]| {
            found.extend(command::parse_endpoint(generic::parts(payload)?.1)?);
            Ok(())
        };
        self.netlink.request("list endpoints", self.family.id, Answer::Dump, &payload, each)?;
        Ok(found)
    }

    /// Returns the limits of the in-kernel path manager.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn limits(&mut self) -> Result<Limits, KernelError> {
        let mut limits = Limits::default();
        let payload = generic::request(number::GET_LIMITS, VERSION, &[]);
        let each = |payload: &[u8]| {
            limits = command::parse_limits(generic::parts(payload)?.1)?;
            Ok(())
        };
        self.netlink.request("return its limits", self.family.id, Answer::One, &payload, each)?;
        Ok(limits)
    }
}

/// The kernel's events, which are read without waiting.
pub struct Events {
    netlink: Netlink,
    family: u16,
}

impl Events {
    /// Passes the events that have arrived to `each`. Events of unknown kinds are left out.
    ///
    /// # Errors
    /// [`KernelError::Overrun`] if some were lost: the state of all connections must be read again. Later calls
    /// continue after the loss.
    pub fn read(&mut self, mut each: impl FnMut(Event)) -> Result<(), KernelError> {
        let family = self.family;
        let one = |kind: u16, payload: &[u8]| {
            if kind == family
                && let Some(event) = parse_event(payload)?
            {
                each(event);
            }
            Ok(())
        };
        let mut one = one;
        while self.netlink.receive_events(&mut one)? {}
        Ok(())
    }
}

impl AsFd for Events {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.netlink.as_fd()
    }
}

/// Returns an IPv4 address in the form of IPv6 as IPv4.
pub(crate) fn canonical(address: IpAddr) -> IpAddr {
    address.to_canonical()
}
